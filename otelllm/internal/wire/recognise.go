package wire

import (
	"net/http"
	"strings"
)

// protocols are all wire protocols. To add one, add a line here and files of its own. A
// new framing is a mode of bodyDecoder.
var protocols = []struct {
	Protocol

	// at returns the protocol if the path is that of one of its requests, with what else
	// the path contains; else nil. sure: no other application has such a path.
	at func(path string) (p Protocol, sure bool)
}{
	{openAIChat{}, chatAt},
	{openAIResponses{}, responsesAt},
	{anthropicMessages{}, messagesAt},
	{gemini{}, geminiAt},
	{bedrockConverse{}, bedrockAt},
	{ollama{}, ollamaAt},
	{openAICompletions{}, completionsAt}, // after chat, whose path ends so too
}

// match finds the protocol of a request. See [Match].
func match(method, path string) (p Protocol, sure, ok bool) {
	if method != http.MethodPost {
		return nil, false, false
	}
	path = strings.TrimSuffix(path, "/")
	for _, known := range protocols {
		if p, sure := known.at(path); p != nil {
			return p, sure, true
		}
	}
	return nil, false, false
}

func byName(name string) (Protocol, bool) {
	for _, p := range protocols {
		if p.Name() == name {
			return p.Protocol, true
		}
	}
	return nil, false
}

// azureDeployment is the deployment in a path of Azure OpenAI, which takes the place of
// the model: …/openai/deployments/{deployment}/….
func azureDeployment(path string) string {
	_, rest, _ := strings.Cut(path, "/openai/deployments/")
	deployment, _, _ := strings.Cut(rest, "/")
	return deployment
}

// publishedModel reads …/publishers/{publisher}/models/{model}:{method}, the path of
// a partner's model on Vertex AI.
func publishedModel(path, publisher string) (model string, stream, ok bool) {
	_, rest, found := strings.Cut(path, "/publishers/"+publisher+"/models/")
	model, method, _ := strings.Cut(rest, ":")
	switch {
	case !found, model == "", model == "count-tokens": // which is not a model call
		return "", false, false
	case method == "streamRawPredict":
		return model, true, true
	default:
		return model, false, method == "rawPredict"
	}
}

const (
	providerAzure   = "azure.ai.openai"
	providerBedrock = "aws.bedrock"
	providerVertex  = "gcp.vertex_ai"
)

// fillModel sets the model to that of the path if the body names none.
func (r *Request) fillModel(model string) {
	if r.Model == "" {
		r.Model = pathModel(model)
	}
}

package wire

import (
	"net/url"
	"strings"

	"github.com/otelllm/otelllm-go/otelllm/internal/redact"
)

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
	providerMistral = "mistral_ai"
)

// fillModel sets the model to that of the path if the body names none. Call it when
// ProviderTools is set: it is not observed of a model that is an agent.
func (r *Request) fillModel(model string) {
	if r.Model == "" {
		r.Model = pathModel(model)
	}
	if agentModel(r.Model) {
		r.ProviderTools = nil
	}
}

// bedrockModel reads …/model/{id} and the operation after it, which has one name for
// streams and one for whole answers. The id may be an ARN with slashes.
func bedrockModel(path, streaming, whole string) (model string, stream, ok bool) {
	_, rest, _ := strings.Cut(path, "/model/")
	if model, ok = strings.CutSuffix(rest, streaming); ok {
		return model, true, true
	}
	model, ok = strings.CutSuffix(rest, whole)
	return model, false, ok
}

// pathModel returns the name of a model in a path, which may be escaped once more than
// the URL is. A query that was escaped into the path is cut off.
func pathModel(name string) string {
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	name, _, _ = strings.Cut(name, "?")
	return redact.Model(name)
}

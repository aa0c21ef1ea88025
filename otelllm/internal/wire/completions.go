package wire

import "strings"

// openAICompletions is OpenAI's legacy Completions API, which vLLM and others still serve,
// and Mistral's fill-in-the-middle. A request has a prompt, and the choices of the
// response have a text; otherwise the response is one of Chat Completions, and it is
// complete under the same condition.
// https://platform.openai.com/docs/api-reference/completions
type openAICompletions struct {
	model string // the deployment in a path of Azure's
}

func (openAICompletions) Name() string                    { return "openai_completions" }
func (openAICompletions) Operation() string               { return "text_completion" }
func (openAICompletions) NewDecoder(ct string) Decoder    { return openAIChat{}.NewDecoder(ct) }
func (openAICompletions) ReadError(_ int, b []byte) Error { return readError(b) }

func (p openAICompletions) Provider() string {
	if p.model != "" {
		return providerAzure
	}
	return "openai"
}

// completionsAt matches …/v1/completions, Azure's …/openai/deployments/{d}/completions
// and, as a hint, any other path with this suffix.
func completionsAt(path string) (Protocol, bool) {
	before, ok := strings.CutSuffix(path, "/completions")
	if !ok {
		return nil, false
	}
	deployment := azureDeployment(path)
	return openAICompletions{model: deployment}, deployment != "" || strings.HasSuffix(before, "/v1")
}

// ReadRequest implements [Protocol].
func (p openAICompletions) ReadRequest(body []byte) (Request, error) {
	req := Request{HistoryCalls: []string{}, HistoryOutputs: []string{}}
	var tools offeredTools
	c := cursor{b: body}
	isObject := c.peek() == '{'
	var prompted bool
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "model":
			req.Model = safeModel(c.str())
		case "stream":
			req.Stream = c.boolean()
		case "prompt": // a string, a list of strings, or tokens
			b := c.peek()
			prompted = b == '"' || b == '['
			c.skip()
		case "max_tokens", "n_predict":
			req.limit(c.count())
		case "plugins":
			tools.plugins(&c)
		case "extra_body":
			tools.others(&c, extraMembers)
		default:
			tools.other(&c, completionsMembers, key)
		}
	}
	req.ProviderTools = tools.types()
	req.fillModel(p.model)
	req.IsCall = prompted && req.Model != ""
	return req, requestError(&c, isObject)
}

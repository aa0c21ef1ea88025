package otelllm

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/internal/redact"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// namedHost is the provider of a host that is wholly the provider's, "" where none has
// it. The values are those of gen_ai.provider.name where the conventions have one.
func namedHost(host string) string {
	switch host {
	case "api.openai.com":
		return otelsemconv.GenAIProviderNameOpenAI.Value.AsString()
	case "api.anthropic.com":
		return otelsemconv.GenAIProviderNameAnthropic.Value.AsString()
	case "generativelanguage.googleapis.com":
		return otelsemconv.GenAIProviderNameGCPGemini.Value.AsString()
	case "aiplatform.googleapis.com":
		return otelsemconv.GenAIProviderNameGCPVertexAI.Value.AsString()
	case "api.groq.com":
		return otelsemconv.GenAIProviderNameGroq.Value.AsString()
	case "api.mistral.ai", "codestral.mistral.ai":
		return otelsemconv.GenAIProviderNameMistralAI.Value.AsString()
	case "api.deepseek.com":
		return otelsemconv.GenAIProviderNameDeepseek.Value.AsString()
	case "api.x.ai":
		return otelsemconv.GenAIProviderNameXAI.Value.AsString()
	case "api.perplexity.ai":
		return otelsemconv.GenAIProviderNamePerplexity.Value.AsString()
	case "api.cohere.ai", "api.cohere.com":
		return otelsemconv.GenAIProviderNameCohere.Value.AsString()
	case "openrouter.ai":
		return "openrouter"
	case "api.together.xyz":
		return "together_ai"
	case "api.fireworks.ai":
		return "fireworks_ai"
	case "api.cerebras.ai":
		return "cerebras"
	default:
		return ""
	}
}

// hostPatterns are the hosts of which a part is the customer's, or a region.
var hostPatterns = []struct{ before, after, provider string }{
	{"", ".api.openai.com", otelsemconv.GenAIProviderNameOpenAI.Value.AsString()}, // eu.api.openai.com
	{"", ".openai.azure.com", otelsemconv.GenAIProviderNameAzureAIOpenAI.Value.AsString()},
	{"", ".cognitiveservices.azure.com", otelsemconv.GenAIProviderNameAzureAIOpenAI.Value.AsString()},
	{"", ".services.ai.azure.com", otelsemconv.GenAIProviderNameAzureAIInference.Value.AsString()},
	{"", ".inference.ai.azure.com", otelsemconv.GenAIProviderNameAzureAIInference.Value.AsString()},
	{"bedrock-runtime.", ".amazonaws.com", otelsemconv.GenAIProviderNameAWSBedrock.Value.AsString()},
	{"", ".aiplatform.googleapis.com", otelsemconv.GenAIProviderNameGCPVertexAI.Value.AsString()},
	{"", "-aiplatform.googleapis.com", otelsemconv.GenAIProviderNameGCPVertexAI.Value.AsString()}, // us-east1-aiplatform…
	{"", ".api.x.ai", otelsemconv.GenAIProviderNameXAI.Value.AsString()},
	{"", ".ml.cloud.ibm.com", otelsemconv.GenAIProviderNameIBMWatsonxAI.Value.AsString()},
}

// providerOf is the gen_ai.provider.name of a request.
func providerOf(host string, protocol wire.Protocol) string {
	if name := hostProvider(host); name != "" {
		return name
	}
	return protocol.Provider()
}

// knownHost: the host is a provider's.
func knownHost(host string) bool { return hostProvider(host) != "" }

// hostProvider is the provider whose host it is, "" where none of them has it.
func hostProvider(host string) string {
	const longest = 254 // of a name in the DNS, and the dot at its end
	if len(host) > longest {
		return ""
	}
	if provider := namedHost(host); provider != "" {
		return provider
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if provider := namedHost(host); provider != "" {
		return provider
	}
	for i := range hostPatterns {
		p := &hostPatterns[i]
		if len(host) > len(p.before)+len(p.after) && strings.HasPrefix(host, p.before) && strings.HasSuffix(host, p.after) {
			return p.provider
		}
	}
	return ""
}

// portOf is the port of a URL, by its scheme where it names none; 0: none is known.
func portOf(u *url.URL) int {
	if port := u.Port(); port != "" {
		n, err := strconv.Atoi(port)
		if err != nil {
			return 0
		}
		return n
	}
	switch u.Scheme {
	case "https":
		return 443
	case "http":
		return 80
	default:
		return 0
	}
}

// identify says which request one to u is, as far as that is known before its body.
func (c *config) identify(protocol wire.Protocol, u *url.URL) spanfacts.Identity {
	id := spanfacts.Identity{
		Operation:     protocol.Operation(),
		Provider:      c.providerName,
		ServerAddress: redact.Host(u.Hostname()),
		ServerPort:    portOf(u),
	}
	if id.Provider == "" {
		id.Provider = providerOf(u.Hostname(), protocol)
	}
	return id
}

// acts: something other than recording was asked for.
func (c *config) acts() bool { return c.streamErrors || c.watchdog != (Watchdog{}) }

// recognise finds the protocol of a request; false: it is no model call. Not sure:
// another application may have such a path, and neither the host nor a header says
// more, so the body decides, where it can be read. A protocol that the application has
// named stands wherever neither host nor header proves what the path tells: see between.
func (c *config) recognise(req *http.Request) (p wire.Protocol, sure, ok bool) {
	if req.URL == nil {
		return nil, false, false
	}
	p, sure, ok = wire.Match(req.Method, req.URL.Path)
	named := c.protocol != nil && req.Method == http.MethodPost && jsonBody(req)
	switch {
	case !ok:
		return c.protocol, true, named
	case !named:
		return p, sure || proven(p, req), true
	case p.Name() == c.protocol.Name(), proven(p, req):
		return p, true, true
	default:
		return between(p, c.protocol, sure, req), true, true
	}
}

// between decides between the protocol that the path tells and the one that was named:
// by the body, where it is a call of one of them only, else by the path if that is sure.
func between(path, named wire.Protocol, sure bool, req *http.Request) wire.Protocol {
	said, _ := readAhead(req, path)
	other, _ := readAhead(req, named)
	if said.IsCall != other.IsCall {
		sure = said.IsCall
	}
	if sure {
		return path
	}
	return named
}

// other is the protocol that a request may be of besides the one that was recognised, if
// its body says so once it can be read; nil: no other.
func (c *config) other(req *http.Request, recognised wire.Protocol) wire.Protocol {
	path, _, ok := wire.Match(req.Method, req.URL.Path)
	switch {
	case !ok, c.protocol == nil, !jsonBody(req), path.Name() == c.protocol.Name(), proven(path, req):
		return nil
	case recognised.Name() == path.Name():
		return c.protocol
	default:
		return path
	}
}

// proven: the host is a provider's, or a header vouches for the protocol.
func proven(p wire.Protocol, req *http.Request) bool {
	return vouched(p.Name(), req.Header) || knownHost(req.URL.Hostname())
}

// vouched: a header that only the protocol's API insists on is there.
func vouched(protocol string, h http.Header) bool {
	return protocol == "anthropic_messages" && value(h, "Anthropic-Version") != ""
}

// jsonBody: the request's body is JSON by its content type, or has none.
func jsonBody(req *http.Request) bool {
	switch mediaType(req.Header) {
	case "", "application/json":
		return true
	default:
		return false
	}
}

// mediaType is the Content-Type of h without its parameters.
func mediaType(h http.Header) string {
	base, _, _ := strings.Cut(value(h, "Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(base))
}

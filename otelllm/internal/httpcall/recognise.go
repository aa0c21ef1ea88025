// Package httpcall reads the requests of model calls over HTTP: which protocol and which
// provider they address, and what their headers and bodies say.
package httpcall

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

// knownHost reports whether the host is a provider's.
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

// Recogniser recognises model calls, and knows what the application has said about them.
type Recogniser struct {
	Provider string        // gen_ai.provider.name; "": by host and protocol
	Protocol wire.Protocol // of requests whose path proves none; nil: they are not model calls
}

// Identify returns the identity of a request to u, as far as it is known without the body.
func (c *Recogniser) Identify(protocol wire.Protocol, u *url.URL) spanfacts.Identity {
	id := spanfacts.Identity{
		Operation:     protocol.Operation(),
		Provider:      c.Provider,
		ServerAddress: redact.Host(u.Hostname()),
		ServerPort:    portOf(u),
	}
	if id.Provider == "" {
		id.Provider = providerOf(u.Hostname(), protocol)
	}
	return id
}

// Recognise returns the protocol of a request. It reports ok false if the request is not a
// model call, and sure false if another application may have such a path and neither the
// host nor a header says more: then the body decides, where it can be read. The protocol
// that the application has named counts unless the host or a header proves what the path
// suggests: see between.
func (c *Recogniser) Recognise(preview *Preview) (p wire.Protocol, sure, ok bool) {
	p, sure, ok = c.recognise(preview)
	if !ok {
		return p, sure, ok
	}
	return asSent(preview.req, p), sure, ok
}

// asSent returns p for a request with the headers and the host of req, which may be for an
// agent, or be of a client that goes on where others report an error.
func asSent(req *http.Request, p wire.Protocol) wire.Protocol {
	if p == nil {
		return nil
	}
	if fillsInputs(req) {
		p = wire.FillsInputs(p)
	}
	if namesAgent(req) {
		p = wire.ForAgent(p)
	}
	return p
}

func (c *Recogniser) recognise(preview *Preview) (p wire.Protocol, sure, ok bool) {
	req := preview.req
	if req.URL == nil {
		return nil, false, false
	}
	if req.Method == http.MethodGet {
		p, ok = wire.MatchResume(req.Method, req.URL.Path, req.URL.RawQuery)
		return p, ok, ok
	}
	p, sure, ok = wire.Match(req.Method, req.URL.Path)
	named := c.Protocol != nil && req.Method == http.MethodPost && JSON(req)
	switch {
	case !ok:
		return c.Protocol, true, named
	case !named:
		return p, sure || proven(p, req), true
	case p.Name() == c.Protocol.Name(), proven(p, req):
		return p, true, true
	default:
		return between(p, c.Protocol, sure, preview), true, true
	}
}

// between decides between the protocol that the path suggests and the one that was named:
// by the body, if it is a call of one of them only, otherwise by the path if that is sure.
func between(path, named wire.Protocol, sure bool, preview *Preview) wire.Protocol {
	byPath, _ := preview.Contents(path)
	byName, _ := preview.Contents(named)
	if byPath.IsCall != byName.IsCall {
		sure = byPath.IsCall
	}
	if sure {
		return path
	}
	return named
}

// Alternative returns the protocol that a request may have instead of the one that was
// recognised, if its body says so once it can be read. It is nil if there is no other.
func (c *Recogniser) Alternative(req *http.Request, recognised wire.Protocol) wire.Protocol {
	path, _, ok := wire.Match(req.Method, req.URL.Path)
	switch {
	case !ok, c.Protocol == nil, !JSON(req), path.Name() == c.Protocol.Name(), proven(path, req):
		return nil
	case recognised.Name() == path.Name():
		return asSent(req, c.Protocol)
	default:
		return asSent(req, path)
	}
}

// proven reports whether the host is a provider's, or a header proves the protocol.
func proven(p wire.Protocol, req *http.Request) bool {
	switch p.Name() {
	case "mistral_conversations", "cohere_chat": // other providers have such paths for something else
		return hostProvider(req.URL.Hostname()) == p.Provider()
	default:
		return vouched(p.Name(), req.Header) || knownHost(req.URL.Hostname())
	}
}

// vouched reports whether a header is there that only this protocol's API requires.
func vouched(protocol string, h http.Header) bool {
	return protocol == "anthropic_messages" && Value(h, "Anthropic-Version") != ""
}

// JSON reports whether the request's body is JSON by its content type, or has no type.
func JSON(req *http.Request) bool {
	switch MediaType(req.Header) {
	case "", "application/json":
		return true
	default:
		return false
	}
}

// IsCall reports whether a request on a path that proves nothing is a model call, as far as
// its contents say. A body that could not be read says nothing against it.
func IsCall(req *http.Request, c *Contents) bool {
	if !c.Read {
		return JSON(req)
	}
	return c.IsCall
}

package httpcall

import (
	"net/http"
	"slices"
	"strings"
)

// This file has what is known by name of the clients that send requests and of the servers that
// they address, as data.

// agentHeaders are headers of requests that only an agent on the server reads, which has tools
// of its own, or a gateway that adds tools to those of the request.
var agentHeaders = [...]string{
	"X-Openclaw-Agent-Id", // https://docs.openclaw.ai/gateway/openai-http-api
	"X-Openclaw-Session-Key",
	"X-Hermes-Session-Id", // https://github.com/NousResearch/hermes-agent, docs/user-guide/features/api-server.md
	"X-Hermes-Session-Key",
	"X-Session-Api-Key",      // OpenHands, https://docs.openhands.dev/sdk/guides/agent-server/openai-gateway
	"X-Claude-Allowed-Tools", // https://github.com/RichardAtCT/claude-code-openai-wrapper
	"X-Mcp-Servers",          // https://docs.litellm.ai/docs/mcp
	"X-Litellm-Mcp-Servers",
}

// agentHosts are the ends of the names of hosts that serve agents and nothing else.
var agentHosts = [...]string{
	".agents.do-ai.run", // https://docs.digitalocean.com/products/gradient-ai-platform/how-to/use-agents/
}

// namesAgent reports whether a request is for an agent, or takes tools of the server, by its
// headers or its host.
func namesAgent(req *http.Request) bool {
	for _, name := range agentHeaders {
		if Value(req.Header, name) != "" {
			return true
		}
	}
	host := strings.ToLower(strings.TrimSuffix(req.URL.Hostname(), "."))
	for _, end := range agentHosts {
		if strings.HasSuffix(host, end) {
			return true
		}
	}
	return false
}

// checkingClients are the beginnings of the products in a User-Agent whose clients execute no call
// with half an input: the SDKs for Go give the input as it is, the AI SDK and the agents check or
// report it. Played with a clean end within the input (test/e2e/agents, end_tool_input).
var checkingClients = [...]string{
	"OpenAI/Go", "Anthropic/Go", "gl-go/", "aws-sdk-go-v2/", "Go-http-client/",
	"opencode/", "Kilo-Code/", "codex_", "codex-", "claude-cli/",
}

// fillsInputs reports whether the client of a request may execute a call of which it got the
// beginning of the input, if the stream ends without an error. LangChain for JavaScript does, and
// Cline: they repair the JSON (https://github.com/langchain-ai/langchainjs/pull/11471, November
// 2026). Such clients name only the SDK below them, or nothing, so that it is assumed of each client
// that is not known to check. A request that this program sends without a User-Agent gets that of
// Go's client on the way.
//
// Of the AI SDK's providers @ai-sdk/openai-compatible hands over such a call, and the application may
// repair it: Cline does. So do @openrouter/ai-sdk-provider from 2.5.0 on, with {} as its input: run with
// 2.5.0, 2.8.1, 2.9.1, 2.10.0, 3.0.0 and 3.1.0, while 1.5.4 and 2.0.0 to 2.3.3 do not
// (https://github.com/OpenRouterTeam/ai-sdk-provider/issues/558). They name themselves in the
// User-Agent unless the application has one of its own. Then only the library below them is named,
// which is that of every provider of the AI SDK: at OpenRouter's host its own is the likely one.
func fillsInputs(req *http.Request) bool {
	const openRouter, compatible, library, family = "ai-sdk/openrouter/", "ai-sdk/openai-compatible/", "ai-sdk/provider-utils/", "ai-sdk/"
	_, given := req.Header["User-Agent"]
	checks, executes := !given && req.RequestURI == "", false
	for product := range strings.FieldsSeq(Value(req.Header, "User-Agent")) {
		if provider, ok := strings.CutPrefix(product, "ai-sdk-"); ok {
			product = family + provider // as version 7 of the AI SDK writes it
		}
		switch version, ok := strings.CutPrefix(product, openRouter); {
		case ok:
			return !reportsCut(version)
		case strings.HasPrefix(product, library):
			executes = hostProvider(req.URL.Hostname()) == "openrouter"
		case strings.HasPrefix(product, family) && !strings.HasPrefix(product, compatible):
			return false // another provider of the AI SDK
		}
		checks = checks || slices.ContainsFunc(checkingClients[:], func(client string) bool { return strings.HasPrefix(product, client) })
	}
	return executes || !checks
}

// reportsCut reports whether this version of @openrouter/ai-sdk-provider does not execute a call
// that was cut.
func reportsCut(version string) bool {
	for _, old := range [...]string{"0.", "1.", "2.0.", "2.1.", "2.2.", "2.3.", "2.4."} {
		if strings.HasPrefix(version, old) {
			return true
		}
	}
	return false
}

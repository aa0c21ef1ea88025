package httpcall

import (
	"net/http"
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

package wire

import "strings"

// A request shows what the provider may execute only if all its members are known: a server
// that has tools of its own takes them by members that no other server has (agent, tool_ids,
// integrations). So each protocol has a closed list of the members that offer no tool, in
// members_list.go, and any other member with a value hides what is offered.

// members are the members of a request that are known: by name, the provider-executed tool
// that the member offers if it has a value, or "" if it offers none.
type members map[string]string

// namesOf are names of members, separated by white space, and where they are from: a
// type of an SDK or a page of a provider's reference.
type namesOf struct{ source, names string }

// knownMembers returns the members of these lists. Those of offering offer a tool.
func knownMembers(lists ...[]namesOf) members {
	m := members{}
	for _, part := range lists {
		for _, name := range fieldsOf(part) {
			m[name] = offering[name]
		}
	}
	return m
}

// inBothCases returns the members with their names in camel case, too, as protocol buffers
// allow.
func (m members) inBothCases() members {
	for name, tool := range m {
		words := strings.Split(name, "_")
		for i := 1; i < len(words); i++ {
			if w := words[i]; w != "" {
				words[i] = strings.ToUpper(w[:1]) + w[1:]
			}
		}
		m[strings.Join(words, "")] = tool
	}
	return m
}

// other reads a member of which the protocol's reader needs nothing.
func (o *offeredTools) other(c *cursor, known members, key []byte) {
	tool, ok := known[string(key)]
	switch {
	case !ok:
		o.hidden = c.hasValue() || o.hidden
	case tool == "":
		c.skip()
	case c.hasValue():
		o.add([]byte(tool))
	}
}

// others reads an object whose members are known, such as one that a gateway merges into the
// request. A value of another type hides what is offered.
func (o *offeredTools) others(c *cursor, known members) {
	if c.peek() != '{' {
		o.hidden = c.hasValue() || o.hidden
		return
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		o.other(c, known, key)
	}
}

// plugins reads a list of plugins by their ids, of OpenRouter.
func (o *offeredTools) plugins(c *cursor) {
	for ok := o.array(c); ok; ok = c.element() {
		if c.peek() == '"' {
			o.addPlugin(c.str())
			continue
		}
		var id []byte
		on := true
		for key, ok := c.object(); ok; key, ok = c.key() {
			switch string(key) {
			case "id":
				id = c.str()
			case "enabled":
				on = c.peek() != 'f'
				c.skip()
			default:
				c.skip()
			}
		}
		if on {
			o.addPlugin(id)
		}
	}
}

// addPlugin adds the tool of a plugin. Most plugins have the name of their tool.
func (o *offeredTools) addPlugin(id []byte) {
	switch string(id) {
	case "web":
		o.add([]byte("web_search"))
	case "web-fetch":
		o.add([]byte("web_fetch"))
	default:
		o.add(id)
	}
}

// hasValue consumes a value and reports whether it says anything: null, false, an empty
// string or array, and an object whose members say nothing do not.
func (c *cursor) hasValue() bool {
	if c.peek() != '{' {
		return c.nonEmpty()
	}
	says := false
	for _, ok := c.object(); ok; _, ok = c.key() {
		says = c.hasValue() || says
	}
	return says && !c.bad
}

// agentModels are parts of the names of models, between slashes and colons, of which each is a
// system that has tools which the request does not name: Groq's compound systems, an agent
// behind a gateway, a configuration that is stored on the server.
var agentModels = partsOf([]namesOf{
	{"https://console.groq.com/docs/compound", `compound`},
	{"https://docs.litellm.ai/docs/providers/azure_ai_agents and its other agents", `agent agents assistants agentcore agent_engine langgraph a2a a2a_agent watsonx_agent`},
	{"https://docs.openclaw.ai/gateway/openai-http-api", `openclaw`},
	{"https://hermes-agent.nousresearch.com/docs/user-guide/features/api-server", `hermes-agent`},
	{"https://docs.letta.com/guides/voice/overview, as gateways write it: letta/{agent}", `letta`},
})

// agentPrefixes are how such parts begin.
var agentPrefixes = fieldsOf([]namesOf{
	{"https://console.groq.com/docs/compound", `compound-`},
	{"https://platform.openai.com/docs/api-reference/assistants", `asst_`},
	{"https://docs.openhands.dev/sdk/guides/agent-server/openai-gateway", `openhands_`},
})

// agentParts are parts of URL paths below which is an agent: Foundry's
// …/agents/{name}/endpoint/protocols/openai/responses and
// …/applications/{name}/protocols/openai/responses, Mistral's /v1/agents/completions,
// LibreChat's /api/agents/v1/chat/completions and so on.
var agentParts = partsOf([]namesOf{
	{"https://learn.microsoft.com/en-us/azure/foundry/agents/how-to/publish-agent", `agents applications`},
	{"https://docs.mistral.ai/api/endpoint/agents, https://www.librechat.ai/docs/features/agents_api", `agents`},
	{"servers that name so what they run", `agent assistant assistants bots workflows`},
	{"https://docs.litellm.ai/docs/providers/ragflow", `agents_openai`},
	{"https://developer.watson-orchestrate.ibm.com/apis/orchestrate-agent/chat-with-agents", `orchestrate`},
	{"LocalAI, https://localai.io/docs/features/mcp", `mcp`},
	{"MaxKB, https://maxkb.cn/docs/dev_manual/APIKey_chat", `application`},
})

// agentEnds are how the paths of servers end that run tools, filters or agents of their own
// behind an endpoint for models.
var agentEnds = [...]string{
	"/api/chat/completions", // Open WebUI, https://docs.openwebui.com/reference/api-endpoints
}

// partsOf returns a set of the names in lists.
func partsOf(lists []namesOf) map[string]bool {
	set := map[string]bool{}
	for _, name := range fieldsOf(lists) {
		set[name] = true
	}
	return set
}

// fieldsOf returns the names in lists.
func fieldsOf(lists []namesOf) (words []string) {
	for _, l := range lists {
		words = append(words, strings.Fields(l.names)...)
	}
	return words
}

// agentModel reports whether a model is a system that has tools which the request does not
// name: see agentModels. A bare UUID is the id of something that is stored on the server, such
// as a flow of Langflow (https://docs.langflow.org/api-openai-responses), and behind agent- an
// agent of Letta (https://docs.letta.com/guides/voice/overview).
//
// https://openrouter.ai/docs/guides/features/presets
func agentModel(model string) bool {
	if strings.Contains(model, "@preset/") || isUUID(model) {
		return true
	}
	for part := range strings.FieldsFuncSeq(model, func(r rune) bool { return r == '/' || r == ':' }) {
		if agentModels[part] || lettaAgent(part) {
			return true
		}
		for _, prefix := range agentPrefixes {
			if strings.HasPrefix(part, prefix) {
				return true
			}
		}
	}
	return false
}

// agentPath reports whether a URL path is below an agent's, which has tools of its own: see
// agentParts.
func agentPath(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if agentParts[part] || lettaAgent(part) {
			return true
		}
	}
	for _, end := range agentEnds {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	// MaxKB 2: /chat/api/{id}/chat/completions, https://maxkb.cn/docs/v2/user_manual/chat_to_API.
	_, id, ok := strings.Cut(path, "/chat/api/")
	id, _, _ = strings.Cut(id, "/")
	return ok && isUUID(id)
}

func lettaAgent(part string) bool {
	id, ok := strings.CutPrefix(part, "agent-")
	return ok && isUUID(id)
}

// isUUID reports whether s is a UUID in its usual form.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i] | 0x20
		switch dash := i == 8 || i == 13 || i == 18 || i == 23; {
		case dash && s[i] != '-', !dash && (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return true
}

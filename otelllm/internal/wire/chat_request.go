package wire

import "strings"

// readChatRequest reads a Chat Completions request. messages: it has a list of messages.
func readChatRequest(body []byte) (req Request, messages bool, err error) {
	req = Request{ProviderTools: []string{}}
	var calls, outputs newestIDs
	c := cursor{b: body}
	isObject := c.peek() == '{'
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "model":
			req.Model = safeModel(c.str())
		case "stream":
			req.Stream = c.boolean()
		case "messages":
			messages = c.peek() == '['
			for ok := c.array(); ok; ok = c.element() {
				readChatMessage(&c, &calls, &outputs)
			}
		case "tools":
			for ok := c.array(); ok; ok = c.element() {
				switch typ := readType(&c); string(typ) {
				case "function", "custom":
				default: // provider-executed: Groq's browser_search, …
					req.ProviderTools = addTool(req.ProviderTools, typ)
				}
			}
		case "background", "deferred": // from gateways; from clients of xAI
			req.Background = c.boolean() || req.Background
		case "web_search_options":
			if c.peek() == '{' {
				req.ProviderTools = addTool(req.ProviderTools, []byte("web_search"))
			}
			c.skip()
		default:
			c.skip()
		}
	}
	if compound(req.Model) {
		req.ProviderTools = nil
	}
	req.HistoryCalls, req.HistoryOutputs = calls.safe(), outputs.safe()
	return req, messages, requestError(&c, isObject)
}

// compound reports whether a model is one of Groq's compound systems, which have tools
// that the request does not name.
// https://console.groq.com/docs/compound
func compound(model string) bool {
	model = strings.TrimPrefix(model, "groq/")
	return model == "compound" || strings.HasPrefix(model, "compound-")
}

func readChatMessage(c *cursor, calls, outputs *newestIDs) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "tool_call_id":
			outputs.add(c.str())
		case "tool_calls":
			for ok := c.array(); ok; ok = c.element() {
				for key, ok := c.object(); ok; key, ok = c.key() {
					if string(key) == "id" {
						calls.add(c.str())
					} else {
						c.skip()
					}
				}
			}
		default:
			c.skip()
		}
	}
}

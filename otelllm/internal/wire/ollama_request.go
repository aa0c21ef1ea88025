package wire

// readOllamaRequest reads a request of Ollama's API, which streams unless it is
// told not to. The ids of calls are optional: unless every call and every output
// has one, what the history holds was not observed, and HistoryCalls is nil.
func readOllamaRequest(body []byte) (Request, error) {
	req := Request{Stream: true, ProviderTools: []string{}}
	var calls, outputs newestIDs
	observed := true
	c := cursor{b: body}
	isObject := c.peek() == '{'
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "model":
			req.Model = safeModel(c.str())
		case "stream":
			req.Stream = c.peek() != 'f'
			c.skip()
		case "context": // of /api/generate: the history as tokens
			observed = !c.something() && observed
		case "messages":
			for ok := c.array(); ok; ok = c.element() {
				observed = readOllamaMessage(&c, &calls, &outputs) && observed
			}
		case "tools":
			for ok := c.array(); ok; ok = c.element() {
				if typ := readType(&c); string(typ) != "function" {
					req.ProviderTools = addTool(req.ProviderTools, typ)
				}
			}
		default:
			c.skip()
		}
	}
	req.HistoryOutputs = outputs.safe()
	if observed {
		req.HistoryCalls = calls.safe()
	}
	return req, requestError(&c, isObject)
}

// readOllamaMessage adds the ids of a message and reports whether all are there.
func readOllamaMessage(c *cursor, calls, outputs *newestIDs) bool {
	var role, output []byte
	all := true
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "role":
			role = c.str()
		case "tool_call_id":
			output = c.str()
		case "tool_calls":
			for ok := c.array(); ok; ok = c.element() {
				id := readOllamaCall(c).id
				calls.add(id)
				all = all && len(id) > 0
			}
		default:
			c.skip()
		}
	}
	if string(role) != "tool" {
		return all
	}
	outputs.add(output)
	return all && len(output) > 0
}

package wire

// readOllamaRequest reads a request of Ollama's API, which streams by default. The ids of
// calls are optional: unless every call and every output has one, the history was not
// observed, and HistoryCalls is nil.
func readOllamaRequest(body []byte) (Request, error) {
	req := Request{Stream: true}
	var tools offeredTools
	var calls, outputs newestIDs
	observed := true
	var messages, prompt, foreign bool
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
			observed = !c.nonEmpty() && observed
		case "prompt":
			prompt = c.peek() == '"'
			c.skip()
		case "messages":
			messages = c.peek() == '['
			for ok := c.array(); ok; ok = c.element() {
				all, other := readOllamaMessage(&c, &calls, &outputs)
				observed, foreign = observed && all, foreign || other
			}
		case "tools":
			tools.addUnlessFunction(&c)
		case "options":
			req.limit(readMember(&c, "num_predict"))
		default:
			tools.other(&c, ollamaMembers, key)
		}
	}
	req.ProviderTools = tools.types()
	req.fillModel("")
	req.HistoryOutputs = outputs.safe()
	if observed {
		req.HistoryCalls = calls.safe()
	}
	req.IsCall = (messages && !foreign || prompt) && req.Model != ""
	return req, requestError(&c, isObject)
}

// readOllamaMessage adds the ids of a message. all: no id is missing. foreign: the message
// is not one of Ollama's, whose content is a string. Front ends that send messages to
// their own /api/chat have lists in them.
func readOllamaMessage(c *cursor, calls, outputs *newestIDs) (all, foreign bool) {
	var role, output []byte
	all = true
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "role":
			role = c.str()
		case "content", "parts":
			foreign = foreign || c.peek() == '['
			c.skip()
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
		return all, foreign
	}
	outputs.add(output)
	return all && len(output) > 0, foreign
}

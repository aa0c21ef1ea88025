package wire

// readChatRequest reads a Chat Completions request with these members. messages: it has a list of messages.
// OpenAI refuses calls and outputs without ids. Other servers take them: then the history
// was not observed, and HistoryCalls is nil.
func readChatRequest(body []byte, known members) (req Request, messages bool, err error) {
	var calls, outputs newestIDs
	var tools offeredTools
	observed := true
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
				observed = readChatMessage(&c, &calls, &outputs, &req.BrokenInput) && observed
			}
		case "tools":
			for ok := tools.array(&c); ok; ok = c.element() {
				switch typ := readToolType(&c); string(typ) {
				case "function", "custom":
				default: // provider-executed: Groq's browser_search, …
					tools.add(typ)
				}
			}
		case "background", "deferred": // from gateways; from clients of xAI
			req.Background = c.boolean() || req.Background
		case "web_search_options": // an empty one offers it, too
			if c.peek() == '{' {
				tools.add([]byte("web_search"))
			}
			c.skip()
		case "max_tokens", "max_completion_tokens", "n_predict":
			req.limit(c.count())
		case "plugins":
			tools.plugins(&c)
		case "extra_body":
			tools.others(&c, extraMembers)
		default:
			tools.other(&c, known, key)
		}
	}
	req.ProviderTools = tools.types()
	req.HistoryOutputs = outputs.safe()
	if observed {
		req.HistoryCalls = calls.safe()
	}
	return req, messages, requestError(&c, isObject)
}

// readChatMessage adds the ids of a message, and sets broken if the input of one of its calls is
// not JSON. all: none is missing.
func readChatMessage(c *cursor, calls, outputs *newestIDs, broken *bool) (all bool) {
	var role, output []byte
	all = true
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "role":
			role = c.str()
		case "tool_call_id":
			output = c.str()
			outputs.add(output)
		case "tool_calls":
			for ok := c.array(); ok; ok = c.element() {
				var id []byte
				for key, ok := c.object(); ok; key, ok = c.key() {
					switch string(key) {
					case "id":
						id = c.str()
					case "function":
						*broken = readBrokenInput(c) || *broken
					default:
						c.skip()
					}
				}
				calls.add(id)
				all = all && len(id) > 0
			}
		default:
			c.skip()
		}
	}
	return all && (string(role) != "tool" || len(output) > 0)
}

// readBrokenInput reads the function of a call, and reports whether its input is a text that is
// not JSON.
func readBrokenInput(c *cursor) (broken bool) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) == "arguments" {
			broken = c.brokenInput() || broken
		} else {
			c.skip()
		}
	}
	return broken
}

// brokenInput reads the input of a call, and reports whether it is a text that is not JSON.
func (c *cursor) brokenInput() bool {
	if c.peek() != '"' {
		c.skip()
		return false
	}
	raw, _, ok := c.rawString()
	in := callInput{}
	if ok {
		in.write(raw)
	}
	return ok && (in.isEmpty() || in.isBroken())
}

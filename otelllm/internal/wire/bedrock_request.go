package wire

// readConverseRequest reads a request of the Converse API. messages: it has a list of
// messages, or variables for a prompt that is stored by Bedrock.
func readConverseRequest(body []byte) (req Request, messages bool, err error) {
	req = Request{ProviderTools: []string{}, StreamUnknown: true}
	var calls, outputs newestIDs
	c := cursor{b: body}
	isObject := c.peek() == '{'
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "model", "modelId": // from gateways: Bedrock has it in the path
			req.Model = safeModel(c.str())
		case "stream": // from gateways: Bedrock has it in the path
			req.Stream, req.StreamUnknown = readStream(&c)
		case "promptVariables":
			messages = c.peek() == '{' || messages
			c.skip()
		case "messages":
			messages = c.peek() == '[' || messages
			for ok := c.array(); ok; ok = c.element() {
				readConverseMessage(&c, &calls, &outputs)
			}
		case "toolConfig":
			for key, ok := c.object(); ok; key, ok = c.key() {
				if string(key) != "tools" {
					c.skip()
					continue
				}
				for ok := c.array(); ok; ok = c.element() {
					req.ProviderTools = addTool(req.ProviderTools, readNested(&c, "systemTool", "name"))
				}
			}
		default:
			c.skip()
		}
	}
	req.HistoryCalls, req.HistoryOutputs = calls.safe(), outputs.safe()
	return req, messages, requestError(&c, isObject)
}

func readConverseMessage(c *cursor, calls, outputs *newestIDs) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) != "content" {
			c.skip()
			continue
		}
		for ok := c.array(); ok; ok = c.element() {
			for key, ok := c.object(); ok; key, ok = c.key() {
				switch string(key) {
				case "toolUse":
					if id, typ := readToolUse(c); string(typ) != "server_tool_use" {
						calls.add(id)
					}
				case "toolResult":
					// The results of provider-executed tools have other types.
					if id, typ := readToolUse(c); len(typ) == 0 || string(typ) == "tool_result" {
						outputs.add(id)
					}
				default:
					c.skip()
				}
			}
		}
	}
}

func readToolUse(c *cursor) (id, typ []byte) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "toolUseId":
			id = c.str()
		case "type":
			typ = c.str()
		default:
			c.skip()
		}
	}
	return id, typ
}

// readNested reads the string at outer.inner of an object; nil if it is absent.
func readNested(c *cursor, outer, inner string) (s []byte) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) != outer {
			c.skip()
			continue
		}
		for key, ok := c.object(); ok; key, ok = c.key() {
			if string(key) == inner {
				s = c.str()
			} else {
				c.skip()
			}
		}
	}
	return s
}

package wire

// readConverseRequest reads a request of the Converse API. messages: it has a list of
// messages, or variables for a prompt that is stored by Bedrock.
func readConverseRequest(body []byte) (req Request, messages bool, err error) {
	req = Request{StreamUnknown: true}
	var tools offeredTools
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
				req.EndsWithOutputs = readConverseMessage(&c, &calls, &outputs)
			}
		case "toolConfig":
			tools.readToolConfig(&c)
		case "inferenceConfig":
			req.limit(readMember(&c, "maxTokens"))
		case "additionalModelRequestFields":
			tools.addFields(&c)
		default:
			tools.other(&c, converseMembers, key)
		}
	}
	req.ProviderTools = tools.types()
	req.HistoryCalls, req.HistoryOutputs = calls.safe(), outputs.safe()
	return req, messages, requestError(&c, isObject)
}

// readToolConfig reads the tools of a request, and adds those that the provider executes.
func (o *offeredTools) readToolConfig(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "tools":
			for ok := o.array(c); ok; ok = c.element() {
				o.addConverse(c)
			}
		case "toolChoice":
			c.skip()
		default:
			o.hidden = c.hasValue() || o.hidden
		}
	}
}

// addFields reads what Bedrock passes to the model as it is, among it tools in the form of
// the model's own API.
func (o *offeredTools) addFields(c *cursor) {
	if c.peek() != '{' {
		o.hidden = c.hasValue() || o.hidden
		return
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) == "tools" {
			o.addMessages(c)
		} else {
			o.other(c, converseFields, key)
		}
	}
}

// readConverseMessage adds the ids of a message. answers: it has the output of a call.
func readConverseMessage(c *cursor, calls, outputs *newestIDs) (answers bool) {
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
						answers = true
					}
				default:
					c.skip()
				}
			}
		}
	}
	return answers
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

// addConverse reads an entry of the list of tools, and adds the tool if the provider
// executes it. An unknown entry may be such a tool.
func (o *offeredTools) addConverse(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "toolSpec", "cachePoint":
			c.skip()
		case "systemTool":
			var name []byte
			for key, ok := c.object(); ok; key, ok = c.key() {
				if string(key) == "name" {
					name = c.str()
				} else {
					c.skip()
				}
			}
			o.add(name)
		default:
			o.hidden = true
			c.skip()
		}
	}
}

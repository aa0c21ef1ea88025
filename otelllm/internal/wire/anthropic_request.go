package wire

import "bytes"

// readMessagesRequest reads a request of the Messages API. messages: it has a list of
// messages. version: it has an anthropic_version.
func readMessagesRequest(body []byte) (req Request, messages, version bool, err error) {
	var tools offeredTools
	var calls, outputs newestIDs
	c := cursor{b: body}
	isObject := c.peek() == '{'
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "model":
			req.Model = safeModel(c.str())
		case "stream":
			req.Stream = c.boolean()
		case "anthropic_version":
			version = c.filled()
		case "messages":
			messages = c.peek() == '['
			for ok := c.array(); ok; ok = c.element() {
				req.EndsWithOutputs = readMessage(&c, &calls, &outputs)
			}
		case "tools":
			tools.addMessages(&c)
		case "mcp_servers":
			if c.nonEmpty() {
				tools.add([]byte("mcp"))
			}
		case "container":
			tools.addContainer(&c)
		case "max_tokens":
			req.limit(c.count())
		case "plugins":
			tools.plugins(&c)
		case "extra_body":
			tools.others(&c, extraMembers)
		default:
			tools.other(&c, messagesMembers, key)
		}
	}
	req.ProviderTools = tools.types()
	req.HistoryCalls, req.HistoryOutputs = calls.safe(), outputs.safe()
	return req, messages, version, requestError(&c, isObject)
}

// addMessages reads a list of tools of the Messages API, and adds those that the provider
// executes.
func (o *offeredTools) addMessages(c *cursor) {
	for ok := o.array(c); ok; ok = c.element() {
		if name := serverTool(readType(c)); name != nil {
			o.add(name)
		}
	}
}

// addContainer reads the container that the provider executes code in: its id, or an object
// that may load skills into it.
func (o *offeredTools) addContainer(c *cursor) {
	if c.peek() == '"' {
		c.skip()
		return
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "id":
			c.skip()
		case "skills":
			if c.nonEmpty() {
				o.add([]byte("skills"))
			}
		default:
			o.hidden = c.hasValue() || o.hidden
		}
	}
}

// readMessage adds the ids of a message. answers: it has the output of a call.
func readMessage(c *cursor, calls, outputs *newestIDs) (answers bool) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) != "content" {
			c.skip()
			continue
		}
		for ok := c.array(); ok; ok = c.element() {
			typ, id, callID := readTypeAndIDs(c, "id", "tool_use_id")
			switch string(typ) {
			case "tool_use":
				calls.add(id)
			case "tool_result":
				outputs.add(callID)
				answers = true
			}
		}
	}
	return answers
}

// clientTools are Anthropic's tools that the application executes. Their types contain a
// version, as in bash_20250124.
var clientTools = [...]string{"custom", "bash", "text_editor", "computer", "memory"}

// serverTool returns the name under which an offered tool of this type is recorded; nil
// for tools that the application executes, among them those without a type. A tool of an unknown type is assumed to be
// executed by the provider: it may have effects.
func serverTool(typ []byte) []byte {
	name := unversioned(typ)
	for _, client := range clientTools {
		if string(name) == client {
			return nil
		}
	}
	switch {
	case string(name) == "mcp_toolset":
		return []byte("mcp")
	case bytes.HasPrefix(name, []byte("tool_search")):
		return []byte("tool_search") // tool_search_tool_regex, tool_search_tool_bm25
	default:
		return name
	}
}

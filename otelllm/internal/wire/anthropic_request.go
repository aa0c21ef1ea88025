package wire

import "bytes"

// readMessagesRequest reads a request of the Messages API. messages: it has a list of
// messages. version: it has an anthropic_version.
func readMessagesRequest(body []byte) (req Request, messages, version bool, err error) {
	var tools offeredTools
	var calls, outputs newestIDs
	elsewhere := false // the provider keeps the conversation, and the body has only what is new
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
				req.EndsWithOutputs = readMessage(&c, &calls, &outputs, &tools)
			}
		case "tools":
			tools.addMessages(&c)
		case "mcp_servers":
			if c.nonEmpty() {
				tools.add([]byte("mcp"))
			}
		case "container":
			tools.addContainer(&c)
		case "thread":
			given := c.peek() != 'n'
			if typ, _, previous := readTypeAndIDs(&c, "", "previous_message_id"); given && string(typ) != "create" {
				req.PreviousID, elsewhere = safeID(previous), true
			}
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
	tools.hidden = tools.hidden || elsewhere // a thread keeps the tools with which it began
	req.ProviderTools = tools.types()
	req.HistoryOutputs = outputs.safe()
	switch {
	case !elsewhere:
		req.HistoryCalls = calls.safe()
	case req.PreviousID != "":
		req.BodyCalls = calls.safe()
	}
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

// readMessage adds the ids of a message, and the tools that it defines. answers: it has the output of a call.
func readMessage(c *cursor, calls, outputs *newestIDs, tools *offeredTools) (answers bool) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) != "content" {
			c.skip()
			continue
		}
		for ok := c.array(); ok; ok = c.element() {
			var typ, id, callID []byte
			for key, ok := c.object(); ok; key, ok = c.key() {
				switch string(key) {
				case "type":
					typ = c.str()
				case "id":
					id = c.str()
				case "tool_use_id":
					callID = c.str()
				default:
					tools.addChange(c, key)
				}
			}
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

// addChange reads a member of a content block: the tool of a tool_addition or a tool_removal, or the list of both in a compaction. A
// tool that a block defines is offered from there on.
func (o *offeredTools) addChange(c *cursor, key []byte) {
	switch string(key) {
	case "tool":
		var typ, defined []byte
		for key, ok := c.object(); ok; key, ok = c.key() {
			switch string(key) {
			case "type":
				typ = c.str()
			case "definition":
				defined = serverTool(readType(c))
			default:
				c.skip()
			}
		}
		switch string(typ) {
		case "", "tool_reference", "mcp_tool_reference", "mcp_toolset_reference": // of the tools of the request
		case "tool_definition":
			if defined != nil {
				o.add(defined)
			}
		default:
			o.hidden = true
		}
	case "tool_changes":
		for ok := c.array(); ok; ok = c.element() {
			for key, ok := c.object(); ok; key, ok = c.key() {
				o.addChange(c, key)
			}
		}
	default:
		c.skip()
	}
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

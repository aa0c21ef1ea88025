package wire

import "bytes"

// readResponsesRequest reads a request of the Responses API.
func readResponsesRequest(body []byte) (Request, error) {
	var req Request
	var calls, outputs newestIDs
	var tools offeredTools
	elsewhere := false // part of the history is on the server
	referred := false  // by a reference to one of its items
	var given, stored bool
	c := cursor{b: body}
	isObject := c.peek() == '{'
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "model":
			req.Model = safeModel(c.str())
		case "stream":
			req.Stream = c.boolean()
		case "previous_response_id":
			previous := c.str()
			req.PreviousID = safeID(previous)
			elsewhere = len(previous) > 0 || elsewhere
		case "conversation":
			if id := readReference(&c); len(id) > 0 {
				req.ConversationID = safeID(id)
				elsewhere = true
			}
		case "prompt": // stored on the server, where it may name the model
			object := c.peek() == '{'
			stored = len(readReference(&c)) > 0 && object
		case "background":
			req.Background = c.boolean()
		case "input":
			if given = c.peek() == '"'; given {
				c.skip()
				continue
			}
			given = c.peek() == '['
			for ok := c.array(); ok; ok = c.element() {
				given = given && c.peek() == '{'
				if readInputItem(&c, &calls, &outputs, &req.BrokenInput) {
					elsewhere, referred = true, true
				}
			}
		case "tools":
			tools.addResponses(&c)
		case "previous_response", "previous_input_messages": // of vLLM: a history in a form that is not read
			if c.hasValue() {
				elsewhere, referred = true, true
			}
		case "max_output_tokens", "max_tokens", "max_completion_tokens":
			req.limit(c.count())
		case "plugins":
			tools.plugins(&c)
		case "extra_body":
			tools.others(&c, extraMembers)
		default:
			tools.other(&c, responsesMembers, key)
		}
	}
	tools.hidden = tools.hidden || stored // the stored prompt may offer more
	req.ProviderTools = tools.types()
	req.fillModel("")
	req.HistoryOutputs = outputs.safe()
	switch {
	case !elsewhere:
		req.HistoryCalls = calls.safe()
	case !referred && (req.PreviousID == "") != (req.ConversationID == ""):
		req.BodyCalls = calls.safe()
	}
	// A server of one model needs no model name; a request for a stream is proof enough.
	req.IsCall = stored || given && (req.Model != "" || req.Stream) || req.Model != "" && elsewhere
	return req, requestError(&c, isObject)
}

// readReference reads a reference to an object on the server: its id, or an object with
// its id.
func readReference(c *cursor) (id []byte) {
	if c.peek() == '"' {
		return c.str()
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) == "id" {
			id = c.str()
		} else {
			c.skip()
		}
	}
	return id
}

// readInputItem reads one item of the history, and sets broken if it is a call whose input is not
// JSON. reference: it only refers to an item on the server.
func readInputItem(c *cursor, calls, outputs *newestIDs, broken *bool) (reference bool) {
	var it responsesItem
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "type":
			it.typ = c.str()
		case "id":
			it.id = c.str()
		case "call_id":
			it.callID = c.str()
		case "execution":
			it.execution = c.str()
		case "arguments":
			*broken = c.brokenInput() || *broken
		case "environment":
			it.environment = readType(c)
		default:
			c.skip()
		}
	}
	switch {
	case string(it.typ) == "item_reference":
		return true
	case it.kind() == itemClient:
		calls.add(it.callID)
	case bytes.HasSuffix(it.typ, []byte("_call_output")), string(it.typ) == "tool_search_output":
		if len(it.callID) == 0 && string(it.typ) == "local_shell_call_output" {
			it.callID = it.id // this item has the id of the call there
		}
		outputs.add(it.callID)
	}
	return false
}

// addResponses reads a list of tools of the Responses API, and adds those that the provider
// executes.
func (o *offeredTools) addResponses(c *cursor) {
	for ok := o.array(c); ok; ok = c.element() {
		if name, byProvider := readResponsesTool(c); byProvider {
			o.add(name)
		}
	}
}

// readResponsesTool reads an offered tool and returns the name under which it is recorded,
// and whether the provider may execute it.
func readResponsesTool(c *cursor) (name []byte, byProvider bool) {
	var typ, execution, environment []byte
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "type":
			typ = c.str()
		case "execution":
			execution = c.str()
		case "environment":
			environment = readType(c)
		default:
			c.skip()
		}
	}
	switch string(typ) {
	case "function", "custom", "namespace", "computer", "computer_use_preview", "local_shell", "apply_patch":
		return nil, false
	case "shell":
		byProvider = bytes.HasPrefix(environment, []byte("container"))
	case "tool_search":
		byProvider = string(execution) != "client"
	default:
		byProvider = true
	}
	return unversioned(typ), byProvider
}

// unversioned returns the name of a tool without the date or stage of its version:
// web_search_preview_2025_03_11 and web_search_20250305 become web_search.
func unversioned(typ []byte) []byte {
	end := len(typ)
	for end > 0 && (typ[end-1]-'0' <= 9 || typ[end-1] == '_') {
		end--
	}
	// Only a whole date is a version: a name may end in a digit.
	if len(typ)-end >= len("_20250305") && typ[end] == '_' {
		typ = typ[:end]
	}
	return bytes.TrimSuffix(typ, []byte("_preview"))
}

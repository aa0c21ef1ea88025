package wire

import "bytes"

// responsesItem is an output item, as far as it is read.
type responsesItem struct {
	typ, id, callID, name, status []byte
	execution                     []byte // of a tool_search_call: client or server
	environment                   []byte // of a shell_call: local, container_…
	text                          bool   // a message with something in it
	refused                       bool   // which is a refusal
	reasoning                     bool   // a reasoning item with something in it
}

// itemKind is what an output item means for the application.
type itemKind uint8

const (
	itemOther     itemKind = iota
	itemMessage            // output for the user
	itemReasoning          //
	itemClient             // a tool call that the application executes
	itemProvider           // a tool that the provider executes
)

func (it *responsesItem) kind() itemKind {
	switch string(it.typ) {
	case "message":
		return itemMessage
	case "reasoning":
		return itemReasoning
	case "function_call", "custom_tool_call", "computer_call", "local_shell_call", "apply_patch_call":
		return itemClient
	case "shell_call":
		// Without a container of the provider's the commands are run by the application.
		if bytes.HasPrefix(it.environment, []byte("container")) {
			return itemProvider
		}
		return itemClient
	case "tool_search_call":
		if string(it.execution) == "client" {
			return itemClient
		}
		return itemProvider
	case "mcp_list_tools", "program":
		return itemProvider
	default:
		// web_search_call, file_search_call, code_interpreter_call,
		// image_generation_call, mcp_call, and those that are not known yet: what
		// the application does not know it cannot execute.
		if bytes.HasSuffix(it.typ, []byte("_call")) {
			return itemProvider
		}
		return itemOther // the output of a provider's tool, an approval that is asked for
	}
}

// toolName is the name of the tool that is called: computer_call calls computer.
func (it *responsesItem) toolName() []byte {
	if len(it.name) > 0 {
		return it.name
	}
	return bytes.TrimSuffix(it.typ, []byte("_call"))
}

func readItem(c *cursor) responsesItem {
	var it responsesItem
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "type":
			it.typ = c.str()
		case "id":
			it.id = c.str()
		case "call_id":
			it.callID = c.str()
		case "name":
			it.name = c.str()
		case "status":
			it.status = c.str()
		case "execution":
			it.execution = c.str()
		case "environment":
			it.environment = readType(c)
		case "content":
			text, refused := readContentText(c)
			it.text, it.refused = it.text || text, it.refused || refused
		case "summary", "encrypted_content":
			it.reasoning = c.something() || it.reasoning
		default:
			c.skip()
		}
	}
	if it.kind() == itemReasoning {
		// Its content is reasoning in the open.
		it.reasoning, it.text = it.reasoning || it.text, false
	}
	return it
}

// readType reads the type of an object.
func readType(c *cursor) (typ []byte) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) == "type" {
			typ = c.str()
		} else {
			c.skip()
		}
	}
	return typ
}

// readContentText reads content parts and reports whether there is text in them,
// and whether any of it is a refusal.
func readContentText(c *cursor) (text, refused bool) {
	for ok := c.array(); ok; ok = c.element() {
		for key, ok := c.object(); ok; key, ok = c.key() {
			switch string(key) {
			case "refusal":
				refused = c.filled() || refused
			case "text", "transcript":
				text = c.filled() || text
			default:
				c.skip()
			}
		}
	}
	return text || refused, refused
}

package wire

import "bytes"

// responsesItem is the part of an output item that is read.
type responsesItem struct {
	typ, id, callID, name, status []byte
	execution                     []byte // of a tool_search_call: client or server
	environment                   []byte // of a shell_call: local, container_…
	hasEnvironment                bool   // it has an environment
	text                          bool   // a message that is not empty
	refused                       bool   // the message is a refusal
	unread                        bool   // an unknown member contains text
	reasoning                     bool   // a reasoning item that is not empty
	input                         inputPart
}

// itemKind is the meaning of an output item for the application.
type itemKind uint8

const (
	itemOther      itemKind = iota
	itemMessage             // output for the user
	itemReasoning           //
	itemClient              // a tool call that the application executes
	itemProvider            // a tool that the provider executes
	itemCompaction          // a summary of the history
	itemApproval            // a person has to approve the call of a tool
	itemUnknown             // its type is not known
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
		// Without a container of the provider the application runs the commands.
		if bytes.HasPrefix(it.environment, containerPrefix) {
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
	case "compaction", "compaction_summary":
		return itemCompaction
	case "mcp_approval_request":
		return itemApproval
	case "mcp_approval_response", "item_reference":
		return itemOther
	default:
		// web_search_call, file_search_call, code_interpreter_call,
		// image_generation_call, mcp_call, and unknown ones: the application cannot
		// execute what it does not know.
		if bytes.HasSuffix(it.typ, []byte("_call")) {
			return itemProvider
		}
		if bytes.HasSuffix(it.typ, []byte("_output")) {
			return itemOther // of a provider-executed tool
		}
		return itemUnknown
	}
}

// toolName returns the name of the called tool: that of a computer_call is computer.
func (it *responsesItem) toolName() []byte {
	if len(it.name) > 0 {
		return it.name
	}
	return bytes.TrimSuffix(it.typ, []byte("_call"))
}

// providerTool returns the name of the tool that the provider executes, as that of an offered
// one: a call that has no type of its own is that of the tool in its type.
func (it *responsesItem) providerTool() []byte {
	if string(it.typ) == "mcp_list_tools" {
		return it.typ
	}
	return bytes.TrimSuffix(it.typ, []byte("_call"))
}

func readItem(c *cursor) responsesItem {
	var it responsesItem
	var called bool // a member of a shell_call has the command
	var typed bool  // the only text of its input is a type
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
			it.hasEnvironment = c.peek() != 'n'
			it.environment = readType(c)
		case "content":
			for ok := c.array(); ok; ok = c.element() {
				p := readPart(c)
				it.text, it.refused = it.text || p.text, it.refused || p.refused
			}
		case "summary", "encrypted_content":
			it.reasoning = c.nonEmpty() || it.reasoning
		case "role", "phase", "object", "created_by", "channel", "metadata":
			c.skip()
		case "arguments", "input":
			it.input = c.inputPart()
		case "action", "operation": // the input of a call of another kind than a function
			var given bool
			given, typed = readAction(c)
			it.input, called = inputPart{object: given, filled: given}, called || given
		case "caller", "max_output_length":
			called = c.hasText() || called
		default: // of a call: what is called, with which arguments
			it.unread = c.checkUnread(key) || it.unread
		}
	}
	c.unread = c.unread || it.unplaced()
	it.fillInput(typed)
	it.unread = it.unread || called
	if it.kind() == itemReasoning {
		// Its content is visible reasoning.
		it.reasoning, it.text = it.reasoning || it.text, false
	}
	return it
}

// fillInput completes the input of a call that is not of a function, and so does not come in
// parts: an unknown member with a text may be it. typed: its action has a type and nothing else,
// which is a whole action on a computer, and for a shell the place where a command will be.
func (it *responsesItem) fillInput(typed bool) {
	switch string(it.typ) {
	case "local_shell_call":
		typed = false
	case "computer_call", "apply_patch_call", "shell_call":
	default:
		return
	}
	if it.input.empty() && (it.unread || typed) {
		it.input = inputPart{object: true, filled: true}
	}
}

// readAction reads the input of a call that is not of a function. It reports whether it has a text
// beside its type, and whether it has only that.
func readAction(c *cursor) (given, typed bool) {
	if c.peek() != '{' {
		return c.hasText(), false
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) == "type" {
			typed = c.hasText() || typed
		} else {
			given = c.hasText() || given
		}
	}
	return given, typed && !given
}

// unplaced reports whether the item is a call that the provider or the application may
// execute, and does not show in a known way which of them does.
func (it *responsesItem) unplaced() bool {
	switch string(it.typ) {
	case "shell_call":
		known := string(it.environment) == "local" || bytes.HasPrefix(it.environment, containerPrefix)
		return it.unread || it.hasEnvironment && !known
	case "tool_search_call":
		return string(it.execution) != "client" && string(it.execution) != "server"
	default:
		return false
	}
}

var containerPrefix = []byte("container")

// readType reads the type of an object.
func readType(c *cursor) (typ []byte) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) == "type" {
			typ = c.str()
		} else {
			c.skipUnknown(key)
		}
	}
	return typ
}

// responsesPart is a part of an item's content.
type responsesPart struct {
	text      bool // it has text that is not empty
	refused   bool // it is a refusal
	reasoning bool
}

// readPart reads a part of an item's content.
func readPart(c *cursor) (p responsesPart) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "type":
			switch string(c.str()) {
			case "reasoning_text", "summary_text":
				p.reasoning = true
			}
		case "refusal":
			p.refused = c.filled() || p.refused
		case "text", "transcript":
			p.text = c.filled() || p.text
		case "annotations", "logprobs", "format", "parsed":
			c.skip()
		default:
			c.skipUnread(key)
		}
	}
	p.text = p.text || p.refused
	return p
}

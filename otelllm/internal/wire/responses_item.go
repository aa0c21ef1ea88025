package wire

import "bytes"

// responsesItem is an output item, as far as it is read.
type responsesItem struct {
	typ, id, callID, name, status []byte
	execution                     []byte // of a tool_search_call: client or server
	environment                   []byte // of a shell_call: local, container_…
	hasEnvironment                bool   // it has an environment
	text                          bool   // a message with something in it
	refused                       bool   // which is a refusal
	unread                        bool   // a member that is not known says something
	reasoning                     bool   // a reasoning item with something in it
}

// itemKind is what an output item means for the application.
type itemKind uint8

const (
	itemOther      itemKind = iota
	itemMessage             // output for the user
	itemReasoning           //
	itemClient              // a tool call that the application executes
	itemProvider            // a tool that the provider executes
	itemCompaction          // the history in short
	itemApproval            // a question for a person, whether a tool may be called
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
		// Without a container of the provider's the commands are run by the application.
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
		// image_generation_call, mcp_call, and those that are not known yet: what
		// the application does not know it cannot execute.
		if bytes.HasSuffix(it.typ, []byte("_call")) {
			return itemProvider
		}
		if bytes.HasSuffix(it.typ, []byte("_output")) {
			return itemOther // of a provider's tool
		}
		return itemUnknown
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
	var called bool // a member of a shell_call says what is called
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
		case "action", "caller", "max_output_length":
			called = c.hasText() || called
		default: // of a call it says what is called, and how
			it.unread = c.checkUnread(key) || it.unread
		}
	}
	c.unread = c.unread || it.unplaced()
	it.unread = it.unread || called
	if it.kind() == itemReasoning {
		// Its content is reasoning in the open.
		it.reasoning, it.text = it.reasoning || it.text, false
	}
	return it
}

// unplaced reports whether the item does not say, in words that are known, who executes
// a call that may be the provider's or the application's.
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

// responsesPart is what a part of an item's content says.
type responsesPart struct {
	text      bool // there is some
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

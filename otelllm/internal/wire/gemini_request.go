package wire

// geminiRequest is what a request to generate content contains.
type geminiRequest struct {
	Request

	tools    offeredTools
	history  geminiHistory
	contents bool // it has contents
	cached   bool // part of it is on the server
}

// readGeminiRequest reads a request to generate content. Its fields are named as in the
// REST reference or, as protocol buffers allow, in snake case. The ids of calls are
// optional: unless every call and every output has one, the history was not observed, and
// HistoryCalls is nil. contents: it has contents.
func readGeminiRequest(body []byte) (req Request, contents bool, err error) {
	r := geminiRequest{Request: Request{StreamUnknown: true}}
	c := cursor{b: body}
	isObject := c.peek() == '{'
	r.read(&c, false)
	r.tools.hidden = r.tools.hidden || r.cached // the cached content may offer more
	r.ProviderTools = r.tools.types()
	r.HistoryOutputs = r.history.outputs.safe()
	if !r.history.elsewhere {
		r.HistoryCalls = r.history.calls.safe()
	}
	return r.Request, r.contents, requestError(&c, isObject)
}

// read reads the members of a request. Code Assist wraps it:
// {"model":…,"project":…,"request":{…}}.
func (r *geminiRequest) read(c *cursor, wrapped bool) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "model":
			r.Model = safeModel(c.str())
		case "stream": // from gateways: Google has it in the path
			r.Stream, r.StreamUnknown = readStream(c)
		case "contents":
			r.contents = c.peek() == '{' || c.peek() == '['
			if c.peek() == '{' { // a single content
				r.history.content(c)
				continue
			}
			for ok := c.array(); ok; ok = c.element() {
				r.history.content(c)
			}
		case "cachedContent", "cached_content":
			r.cached = c.nonEmpty() || r.cached
			r.history.elsewhere = r.cached || r.history.elsewhere
		case "tools":
			for ok := r.tools.array(c); ok; ok = c.element() {
				r.tools.addGemini(c)
			}
		case "request":
			if wrapped {
				r.tools.hidden = c.hasValue() || r.tools.hidden
			} else {
				r.read(c, true)
			}
		case "generationConfig", "generation_config":
			for key, ok := c.object(); ok; key, ok = c.key() {
				switch string(key) {
				case "maxOutputTokens", "max_output_tokens":
					r.limit(c.count())
				default:
					c.skip()
				}
			}
		default:
			r.tools.other(c, geminiMembers, key)
		}
	}
}

// geminiHistory is the history in the contents of a request.
type geminiHistory struct {
	calls, outputs newestIDs
	elsewhere      bool // something has no id, or is on the server
}

func (h *geminiHistory) content(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) != "parts" {
			c.skip()
			continue
		}
		if c.peek() == '{' {
			h.part(c)
			continue
		}
		for ok := c.array(); ok; ok = c.element() {
			h.part(c)
		}
	}
}

func (h *geminiHistory) part(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "functionCall", "function_call":
			h.add(c, &h.calls)
		case "functionResponse", "function_response":
			h.add(c, &h.outputs)
		default:
			c.skip()
		}
	}
}

func (h *geminiHistory) add(c *cursor, to *newestIDs) {
	if c.peek() != '{' {
		c.skip()
		return
	}
	var id []byte
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) == "id" {
			id = c.str()
		} else {
			c.skip()
		}
	}
	to.add(id)
	h.elsewhere = h.elsewhere || len(id) == 0
}

// addGemini adds the provider-executed tools of one entry, each of which is a member of it.
// An unknown tool is assumed to be executed by the provider: it may have effects.
func (o *offeredTools) addGemini(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		name := snake(key)
		switch offered := c.peek() != 'n'; string(name) {
		case "function_declarations", "computer_use": // the application executes them
		case "mcp_servers":
			if offered {
				o.add([]byte("mcp"))
			}
		default:
			if offered {
				o.add(name)
			}
		}
		c.skip()
	}
}

// snake returns a field's name in snake case: googleSearch becomes google_search.
func snake(name []byte) []byte {
	name = name[:min(len(name), maxSafeName+1)]
	out := make([]byte, 0, len(name)+4)
	for _, b := range name {
		if 'A' <= b && b <= 'Z' {
			out = append(out, '_')
			b |= 0x20
		}
		out = append(out, b)
	}
	return out
}

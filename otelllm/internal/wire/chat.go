package wire

import "github.com/otelllm/otelllm-go/semconv"

// openAIChat is OpenAI Chat Completions and what speaks like it: Azure OpenAI,
// OpenRouter, vLLM, DeepSeek, Groq, Mistral, xAI.
type openAIChat struct{}

func (openAIChat) Name() string                          { return "openai_chat" }
func (openAIChat) Provider() string                      { return "openai" }
func (openAIChat) Operation() string                     { return "chat" }
func (openAIChat) NewDecoder(ct string) Decoder          { return newDecoder(ct, &chatReader{}) }
func (openAIChat) ReadError(_ int, b []byte) Error       { return readError(b) }
func (openAIChat) ReadRequest(b []byte) (Request, error) { return readChatRequest(b) }

// chatReader follows one Chat Completions response.
type chatReader struct {
	t       tally
	choices []chatChoice
	open    []chatCall // calls whose choice has not finished
	chunk   chatChunk

	// shape is that of the last chunk that was a plain delta: a piece of text,
	// reasoning or tool input of one choice, and nothing else. delta and piece are
	// what such a chunk says beside what its holes say.
	shape shape
	delta chatDelta
	piece [1]chatFragment
}

type chatChoice struct {
	index    int
	finished bool
}

// chatCall is keyed by choice and index: only the first fragment has an id.
type chatCall struct {
	choice, index int
	call
}

// legacyIndex is the index of the one call that function_call can make.
const legacyIndex = -1

// chatChunk is what one payload says. Its slices are the payload's own.
type chatChunk struct {
	id, model []byte
	choices   []chatDelta
	fragments []chatFragment
	usage     Usage
	fault     fault
}

// chatDelta is the part of a chunk that is about one choice.
type chatDelta struct {
	index           int
	text, reasoning bool
	unshaped        bool // some of it was read where a shape has no hole
	finish          []byte
	fragments       int // how many of chatChunk.fragments are its
}

// chatFragment is a piece of a call's input.
type chatFragment struct {
	index    int
	id, name []byte
}

func (r *chatReader) tally() *tally { return &r.t }

func (r *chatReader) event(name, data []byte) verdict {
	isError := string(name) == "error"
	if f, ok := r.shape.match(data); ok && !isError {
		if !r.t.Terminal {
			r.delta.text, r.delta.reasoning = f.has(whatText), f.has(whatReasoning)
			r.applyDelta(&r.delta, r.piece[:r.delta.fragments])
			r.judge()
		}
		return progress
	}
	if !r.read(data) {
		return malformed
	}
	if isError && !r.chunk.fault.seen {
		// The event's name says it; the object is flat.
		r.chunk.fault, _ = faultOf(data)
		r.chunk.fault.seen = true
	}
	r.learn(data)
	r.apply()
	return progress
}

func (r *chatReader) document(data []byte) verdict {
	if !r.read(data) {
		return malformed
	}
	r.apply()
	return progress
}

// done takes [DONE]. It proves nothing but that the server meant to stop here.
func (r *chatReader) done() {
	if r.t.Terminal {
		return
	}
	r.t.Terminal = true
	if r.t.Complete {
		r.t.Phase = semconv.PhaseStreamEnd
	}
}

// read parses a payload into r.chunk. A chunk and a whole completion differ in one
// word: delta or message.
func (r *chatReader) read(data []byte) bool {
	ch := &r.chunk
	ch.usage = unknownUsage
	r.shape.begin()
	c := cursor{b: data}
	var isError bool
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "id":
			ch.id = c.str()
		case "model":
			ch.model = c.str()
		case "choices":
			for ok := c.array(); ok; ok = c.element() {
				r.readChoice(&c)
			}
		case "usage":
			ch.usage = readChatUsage(&c)
		case "error":
			ch.fault.read(&c)
		case "object":
			isError = string(c.str()) == "error"
		case "created":
			r.shape.number(&c)
		case "obfuscation":
			r.shape.filled(&c, whatOther)
		default:
			c.skip()
		}
	}
	if !c.end() {
		r.forget()
		return false
	}
	if isError && !ch.fault.seen {
		ch.fault, _ = faultOf(data) // vLLM's flat form
	}
	return true
}

func (r *chatReader) readChoice(c *cursor) {
	var d chatDelta
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "index":
			d.index = max(c.count(), 0)
		case "delta", "message":
			r.readDelta(c, &d)
		case "finish_reason":
			d.finish = c.str()
		default:
			c.skip()
		}
	}
	if len(r.chunk.choices) < maxListed {
		r.chunk.choices = append(r.chunk.choices, d)
	}
}

func (r *chatReader) readDelta(c *cursor, d *chatDelta) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "content":
			r.readContent(c, d)
		case "refusal":
			d.text = r.shape.filled(c, whatText) || d.text
		case "audio":
			if c.something() {
				d.text, d.unshaped = true, true
			}
		case "reasoning_content", "reasoning", "reasoning_details":
			if c.peek() == '"' {
				d.reasoning = r.shape.filled(c, whatReasoning) || d.reasoning
			} else if c.something() {
				d.reasoning, d.unshaped = true, true
			}
		case "tool_calls":
			r.readFragments(c, d)
		case "function_call":
			if c.peek() == '{' {
				r.readFragment(c, d, legacyIndex)
			} else {
				c.skip()
			}
		default:
			c.skip()
		}
	}
}

// readContent reads a content, which is a text or, at Mistral, a list of parts.
func (r *chatReader) readContent(c *cursor, d *chatDelta) {
	if c.peek() != '[' {
		d.text = r.shape.filled(c, whatText) || d.text
		return
	}
	d.unshaped = true
	for ok := c.array(); ok; ok = c.element() {
		var thinking, text bool
		for key, ok := c.object(); ok; key, ok = c.key() {
			switch string(key) {
			case "thinking":
				thinking = c.something()
			case "text", "refusal":
				text = c.filled() || text
			default:
				c.skip()
			}
		}
		d.reasoning = d.reasoning || thinking
		d.text = d.text || text
	}
}

func (r *chatReader) readFragments(c *cursor, d *chatDelta) {
	place := 0
	for ok := c.array(); ok; ok = c.element() {
		// Mistral sends whole calls without an index: the place in the list is it.
		r.readFragment(c, d, place)
		place++
	}
}

func (r *chatReader) readFragment(c *cursor, d *chatDelta, index int) {
	f := chatFragment{index: index}
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "index":
			if n := c.count(); n >= 0 {
				f.index = n
			}
		case "id":
			f.id = c.str()
		case "name": // of a function_call
			f.name = c.str()
		case "function", "custom":
			f.name = r.readFunction(c)
		default:
			c.skip()
		}
	}
	if len(r.chunk.fragments) < maxListed {
		r.chunk.fragments = append(r.chunk.fragments, f)
		d.fragments++
	}
}

// readFunction reads the name of a function object.
func (r *chatReader) readFunction(c *cursor) (name []byte) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "name":
			name = c.str()
		case "arguments", "input":
			r.shape.filled(c, whatOther)
		default:
			c.skip()
		}
	}
	return name
}

func readChatUsage(c *cursor) Usage {
	u := unknownUsage
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "prompt_tokens":
			u.Input = c.count()
		case "completion_tokens":
			u.Output = c.count()
		case "prompt_tokens_details":
			u.CacheRead = readMember(c, "cached_tokens")
		case "completion_tokens_details":
			u.Reasoning = readMember(c, "reasoning_tokens")
		default:
			c.skip()
		}
	}
	return u
}

// readMember reads one count out of an object; -1 when it is not there.
func readMember(c *cursor, name string) int {
	n := -1
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) == name {
			n = c.count()
		} else {
			c.skip()
		}
	}
	return n
}

// apply makes the chunk part of the state.
func (r *chatReader) apply() {
	ch := &r.chunk
	if !r.t.Terminal {
		r.t.identify(ch.id, ch.model)
		r.t.use(ch.usage)
		if len(ch.choices) > 0 {
			r.applyChoices()
		}
	}
	if ch.fault.seen {
		r.t.fail(&ch.fault)
	}
	r.forget()
}

// forget lets go of the payload, of which nothing may be retained.
func (r *chatReader) forget() {
	ch := &r.chunk
	clear(ch.choices)
	clear(ch.fragments)
	*ch = chatChunk{choices: ch.choices[:0], fragments: ch.fragments[:0]}
}

func (r *chatReader) applyChoices() {
	ch := &r.chunk
	fragments := ch.fragments
	failed := false
	for i := range ch.choices {
		d := &ch.choices[i]
		choice := r.applyDelta(d, fragments[:d.fragments])
		fragments = fragments[d.fragments:]
		if len(d.finish) == 0 || choice == nil || choice.finished {
			continue
		}
		choice.finished = true
		r.t.finish(d.finish)
		r.finishCalls(d.index, d.finish)
		failed = failed || string(d.finish) == "error"
	}
	if failed && !ch.fault.seen {
		// OpenRouter's finish reason, without the error object that it mostly sends.
		ch.fault = fault{seen: true, typ: []byte("error")}
	}
	if !ch.fault.seen {
		r.judge()
	}
}

// applyDelta makes what a choice says, but for its finish reason, part of the
// state. The choice is nil beyond the bound of what is remembered.
func (r *chatReader) applyDelta(d *chatDelta, fragments []chatFragment) *chatChoice {
	choice := r.choice(d.index)
	if d.reasoning {
		r.t.thought()
	}
	if d.text {
		r.t.text()
	}
	for _, f := range fragments {
		r.fragment(d.index, f)
	}
	return choice
}

// judge looks whether the response is complete: every choice that was seen has finished.
func (r *chatReader) judge() {
	r.t.Complete = true
	for _, choice := range r.choices {
		r.t.Complete = r.t.Complete && choice.finished
	}
	if r.t.Complete && r.t.ToolCalls == 0 {
		r.t.Phase = semconv.PhaseStreamEnd
	} else if r.t.Complete {
		r.t.Phase = semconv.PhaseToolCallReady
	}
}

// choice is the choice of this index; nil beyond the bound of what is remembered.
func (r *chatReader) choice(index int) *chatChoice {
	for i := range r.choices {
		if r.choices[i].index == index {
			return &r.choices[i]
		}
	}
	if len(r.choices) == maxOpen {
		return nil
	}
	r.choices = append(r.choices, chatChoice{index: index})
	return &r.choices[len(r.choices)-1]
}

// fragment takes a piece of a call's input. A new id under an old index is a new
// call when a name comes with it: some servers give every call the index 0. An id
// alone is not: others make up a new one for every fragment.
func (r *chatReader) fragment(choice int, f chatFragment) {
	for i := len(r.open) - 1; i >= 0; i-- {
		known := &r.open[i]
		if known.choice != choice || known.index != f.index {
			continue
		}
		if len(f.id) > 0 && len(f.name) > 0 && known.at >= 0 {
			if id := r.t.Calls[known.at].ID; id != "" && string(f.id) != id && safeID(f.id) != id {
				break
			}
		}
		r.t.fillIn(known.call, f.id, f.name)
		r.t.Phase = semconv.PhaseToolInput
		return
	}
	began := chatCall{choice: choice, index: f.index, call: r.t.start(f.id, f.name)}
	if len(r.open) < maxOpen {
		r.open = append(r.open, began)
	}
}

// finishCalls ends the calls of a choice. Its finish reason completes their input
// and hands them over, unless it says that the answer was cut.
func (r *chatReader) finishCalls(choice int, reason []byte) {
	kept := r.open[:0]
	for i := range r.open {
		known := &r.open[i]
		switch {
		case known.choice != choice:
			kept = append(kept, *known)
		case !cutsInput(reason):
			r.t.handOver(&known.call)
		}
	}
	r.open = kept
}

// cutsInput reports whether an answer that finishes so may end within the input of
// a call.
func cutsInput[T string | []byte](reason T) bool {
	switch string(reason) {
	case "length", "content_filter", "error": // OpenAI, OpenRouter
		return true
	case "max_tokens", "refusal", "model_context_window_exceeded": // Anthropic
		return true
	case "max_output_tokens": // OpenAI Responses
		return true
	default:
		return false
	}
}

// learn takes the chunk's shape if it is a plain delta.
func (r *chatReader) learn(data []byte) {
	ch := &r.chunk
	if len(ch.choices) != 1 || len(ch.fragments) > 1 || ch.usage != unknownUsage || ch.fault.seen {
		return
	}
	d := &ch.choices[0]
	if len(d.finish) > 0 || d.unshaped {
		return
	}
	for _, f := range ch.fragments {
		if len(f.id) > 0 || len(f.name) > 0 {
			return
		}
		r.piece[0] = chatFragment{index: f.index}
	}
	r.delta = chatDelta{index: d.index, fragments: d.fragments}
	r.shape.learn(data)
}

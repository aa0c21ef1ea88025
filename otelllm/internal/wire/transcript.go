package wire

import (
	"bytes"
	"hash/maphash"
	"math/bits"
)

// Transcript is what a request's body shows of the conversation that it continues: enough
// to find the earlier request that it continues or repeats. It holds hashes, counts and
// flags, and no content. The hashes are keyed with a random key of the process, so they
// mean nothing outside of it.
//
// What moves from request to request without a change of meaning is left out of the
// hashes: cache_control and cachePoint marks, the order of an object's members, and
// whether a single text is a string or a list of one part.
type Transcript struct {
	// Opening is the hash of what precedes the messages: instructions, and references to
	// what the server holds (previous_response_id, cachedContent).
	Opening uint64
	// Tools is the hash of the offered tools; 0: none are offered.
	Tools uint64
	// Client is the hash of ids in the body that do not change within a conversation
	// (prompt_cache_key, metadata.user_id, conversation); 0: there are none.
	Client uint64
	// Previous is the hash of the response that the request names as the one before it;
	// 0: it names none. See [TranscriptID].
	Previous uint64
	// Forced: the request demands a call of one tool. The caller of such a request may
	// want the call's input alone, and never send an output.
	Forced bool

	// Total counts what the whole history has, and Answered what it has up to the newest
	// answer.
	Total, Answered TranscriptCount

	points  [MaxIDs]TranscriptPoint
	nPoints int
	calls   [MaxIDs]TranscriptCall
	outputs [MaxIDs]TranscriptOutput
}

// TranscriptCount counts messages and parts of a history.
type TranscriptCount struct {
	Calls   int // of client-executed tools
	Outputs int // of these calls
	Users   int // messages of the user, without those that carry outputs
	Answers int // answers of the model: messages and items of it that follow one another are one
}

// TranscriptPoint is the place behind one part of one message: an earlier request may have
// ended there.
type TranscriptPoint struct {
	// History is the hash of everything before the place, with [Transcript.Opening].
	History uint64
	// Before counts what is before the place. The message that the place is within counts.
	Before TranscriptCount
}

// TranscriptCall is a call in a history.
type TranscriptCall struct {
	ID    uint64 // see [TranscriptID]; 0: it has no id
	Input uint64 // hash of its name and input
}

// TranscriptOutput is the output of a call in a history.
type TranscriptOutput struct {
	ID     uint64 // of the call, see [TranscriptID]; 0: not known
	Result TranscriptResult
}

// TranscriptResult is what an output says about the execution.
type TranscriptResult uint8

// The values of a [TranscriptResult].
const (
	ResultUnknown     TranscriptResult = iota
	ResultFailed                       // it is marked as an error
	ResultInterrupted                  // it is the text by which an agent represents a call that it interrupted
)

var transcriptSeed = maphash.MakeSeed()

// TranscriptID returns the form of an id of a call, of a response or of a client in a
// Transcript; 0 for "".
func TranscriptID(id string) uint64 {
	if id == "" {
		return 0
	}
	return maphash.String(transcriptSeed, id) | 1
}

func transcriptID(id []byte) uint64 {
	if len(id) == 0 {
		return 0
	}
	return maphash.Bytes(transcriptSeed, id) | 1
}

func hashBytes(b []byte) uint64 { return maphash.Bytes(transcriptSeed, b) }

// mix combines two hashes; the order counts.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xd1b54a32d192ed03)
	return hi ^ lo ^ bits.RotateLeft64(a, 23)
}

// Read reads the transcript of a well-formed body of any protocol. It overwrites t and
// retains nothing of body. It reports false if the body has no messages.
func (t *Transcript) Read(body []byte) bool {
	*t = Transcript{}
	c := cursor{b: body}
	r := transcriptReader{t: t}
	r.request(&c, false)
	if !r.messages || c.bad {
		return false
	}
	for i := range min(t.nPoints, MaxIDs) {
		t.points[i].History = mix(t.points[i].History, t.Opening)
	}
	return true
}

// Point returns the n-th newest point: 0 is the end of the request. It reports false if
// there are not as many, or if it is older than the newest MaxIDs.
func (t *Transcript) Point(n int) (*TranscriptPoint, bool) {
	if n >= min(t.nPoints, MaxIDs) {
		return nil, false
	}
	return &t.points[(t.nPoints-1-n)%MaxIDs], true
}

// Call returns the n-th call of the history, from 0. It reports false if the history has
// no such call, or if it is older than the newest MaxIDs.
func (t *Transcript) Call(n int) (TranscriptCall, bool) {
	if n < max(0, t.Total.Calls-MaxIDs) || n >= t.Total.Calls {
		return TranscriptCall{}, false
	}
	return t.calls[n%MaxIDs], true
}

// Output is [Transcript.Call] for outputs.
func (t *Transcript) Output(n int) (TranscriptOutput, bool) {
	if n < max(0, t.Total.Outputs-MaxIDs) || n >= t.Total.Outputs {
		return TranscriptOutput{}, false
	}
	return t.outputs[n%MaxIDs], true
}

// transcriptReader reads one body. The protocols share one reader: a member has the same
// meaning in all of them that have it.
type transcriptReader struct {
	t        *Transcript
	history  uint64 // hash of the messages so far
	messages bool   // the body has some
	answer   bool   // the last message is the model's
}

// raw consumes a value and returns its bytes.
func (c *cursor) raw() []byte {
	c.peek()
	start := c.i
	c.skip()
	return c.b[start:c.i]
}

// request reads the members of a request. Code Assist wraps it: {"request":{…}}.
func (r *transcriptReader) request(c *cursor, wrapped bool) {
	t := r.t
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "messages", "contents", "input":
			r.messages = true
			if c.peek() != '[' {
				r.message(c)
				continue
			}
			for ok := c.array(); ok; ok = c.element() {
				r.message(c)
			}
		case "system", "systemInstruction", "system_instruction", "instructions":
			var m transcriptMessage
			if c.peek() == '{' {
				m.read(c, r)
			} else {
				m.readParts(c, r)
			}
			t.Opening = mix(t.Opening, mix(m.head, m.parts))
		case "prompt":
			if c.peek() == '{' { // stored on the server
				t.Opening = mix(t.Opening, hashBytes(c.raw()))
				continue
			}
			r.messages = true
			r.message(c)
		case "previous_response_id":
			if t.Previous = transcriptID(c.str()); t.Previous != 0 {
				t.Opening = mix(t.Opening, t.Previous)
			}
		case "cachedContent", "cached_content":
			t.Opening = mix(t.Opening, hashBytes(c.raw()))
		case "tools", "functions":
			t.addTools(c.raw())
		case "toolConfig", "tool_config":
			start := c.i
			t.Forced = forcesConfigured(c) || t.Forced
			t.addTools(c.b[start:c.i])
		case "tool_choice", "function_call":
			t.Forced = forcesTool(c) || t.Forced
		case "prompt_cache_key":
			t.addClient(c.str())
		case "conversation":
			t.addClient(readReference(c))
		case "metadata":
			for key, ok := c.object(); ok; key, ok = c.key() {
				switch string(key) {
				case "user_id", "session_id":
					t.addClient(c.str())
				default:
					c.skip()
				}
			}
		case "request":
			if wrapped {
				c.skip()
			} else {
				r.request(c, true)
			}
		default:
			c.skip()
		}
	}
}

func (t *Transcript) addClient(id []byte) {
	if len(id) > 0 {
		t.Client += transcriptID(id) // the order of the members does not count
	}
}

func (t *Transcript) addTools(value []byte) {
	if len(value) > len("[]") && value[0] != 'n' {
		t.Tools = mix(t.Tools, hashBytes(value))
	}
}

// forcesConfigured is forcesTool for the toolConfig of Bedrock and Gemini.
func forcesConfigured(c *cursor) (named bool) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "toolChoice", "functionCallingConfig", "function_calling_config":
			for key, ok := c.object(); ok; key, ok = c.key() {
				switch string(key) {
				case "tool", "allowedFunctionNames", "allowed_function_names":
					named = c.nonEmpty() || named
				default:
					c.skip()
				}
			}
		default:
			c.skip()
		}
	}
	return named
}

// forcesTool reads a tool_choice and reports whether it names one tool.
func forcesTool(c *cursor) (named bool) {
	if c.peek() != '{' {
		c.skip()
		return false
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "name", "function":
			named = true
		}
		c.skip()
	}
	return named
}

// transcriptMessage is one message while it is read.
type transcriptMessage struct {
	head  uint64 // hash of its members without the parts
	parts uint64 // hash of the parts so far

	// The hash after each of the newest parts.
	after  [MaxIDs]uint64
	nParts int

	role, typ       []byte
	id              uint64 // of the call that it is, or whose output it has
	name, input     uint64
	calls, outputs  int // that were added
	texts           int
	text            []byte // the first text, as it is written
	failed, hasCall bool
}

// message reads one message, or one item of a Responses request, and adds its points.
func (r *transcriptReader) message(c *cursor) {
	var m transcriptMessage
	m.read(c, r)
	total := &r.t.Total
	role := string(m.role)
	answer := role == "assistant" || role == "model" || string(m.typ) == "reasoning"
	switch {
	case bytes.HasSuffix(m.typ, []byte("_output")), role == "tool", role == "function":
		if m.outputs == 0 {
			r.addOutput(&m)
		}
	case m.hasCall && len(m.typ) > 0: // an item of the Responses API
		r.addCall(TranscriptCall{ID: m.id, Input: mix(m.name, m.input)})
		answer = true
	case role == "" && len(m.typ) > 0:
		answer = true // of a tool that the provider executed, for example
	case role == "user", role == "":
		if m.outputs == 0 && m.texts > 0 {
			total.Users++
		}
	}
	if answer && !r.answer {
		total.Answers++
	}
	if r.answer = answer; answer {
		r.t.Answered = *total
	}
	before := *total
	base := mix(r.history, m.head)
	r.history = mix(base, m.parts)
	for i := max(0, m.nParts-MaxIDs); i < m.nParts-1; i++ {
		r.addPoint(mix(base, m.after[i%MaxIDs]), before)
	}
	r.addPoint(r.history, before)
}

func (r *transcriptReader) addPoint(history uint64, before TranscriptCount) {
	t := r.t
	t.points[t.nPoints%MaxIDs] = TranscriptPoint{history, before}
	t.nPoints++
}

func (r *transcriptReader) addCall(call TranscriptCall) {
	t := r.t
	t.calls[t.Total.Calls%MaxIDs] = call
	t.Total.Calls++
}

func (r *transcriptReader) addOutput(m *transcriptMessage) {
	t, result := r.t, ResultUnknown
	switch {
	case isInterruption(m.text):
		result = ResultInterrupted
	case m.failed:
		result = ResultFailed
	}
	t.outputs[t.Total.Outputs%MaxIDs] = TranscriptOutput{m.id, result}
	t.Total.Outputs++
	m.outputs++
}

// interruptions are the beginnings of the texts by which agents represent a call that they
// interrupted: Codex, Claude Code, opencode.
var interruptions = [...]string{"aborted by user", "[Request interrupted by user", "Tool execution aborted", "[Tool execution was interrupted"}

// isInterruption reports whether a text, as it is written in the body, is one of these.
func isInterruption(text []byte) bool {
	if string(text) == `"aborted"` {
		return true
	}
	for _, s := range interruptions {
		if len(text) > len(s) && string(text[1:1+len(s)]) == s {
			return true
		}
	}
	return false
}

// read reads the members of a message. A string is a message of the user.
func (m *transcriptMessage) read(c *cursor, r *transcriptReader) {
	if c.peek() != '{' {
		m.readParts(c, r)
		return
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		name := hashBytes(key)
		switch string(key) {
		case "cache_control":
			c.skip()
		case "content", "parts":
			m.readParts(c, r)
		case "tool_calls":
			start := c.i
			m.readToolCalls(c, r)
			m.head += mix(name, hashBytes(c.b[start:c.i]))
		default:
			value := m.member(c, string(key))
			m.head += mix(name, hashBytes(value))
		}
	}
}

// member consumes a member that may say what a message or a part is, and returns its
// bytes.
func (m *transcriptMessage) member(c *cursor, key string) []byte {
	value := c.raw()
	switch key {
	case "role":
		m.role = unquoted(value)
	case "type":
		m.typ = unquoted(value)
	case "call_id", "tool_call_id", "tool_use_id", "toolUseId":
		m.id, m.hasCall = idOf(value), true
	case "id":
		if m.id == 0 {
			m.id = idOf(value)
		}
	case "name":
		m.name = hashBytes(value)
	case "arguments", "input", "args":
		m.input = hashBytes(value)
	case "is_error":
		m.failed = string(value) == "true"
	case "status":
		m.failed = string(value) == `"error"`
	case "output", "response":
		m.setText(value)
	}
	return value
}

// unquoted returns the bytes of a string without escapes; nil for any other value.
func unquoted(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return nil
	}
	return value[1 : len(value)-1]
}

// idOf returns the hash of the id in a value; 0 for anything but a string. A response's
// decoder records the same id by SafeID.
func idOf(value []byte) uint64 {
	c := cursor{b: value}
	id := c.str()
	if len(id) == 0 {
		return 0
	}
	return TranscriptID(safeID(id))
}

// setText takes the first text of an output: a string, or the first one within an object
// or a list. An object with an error is a failure.
func (m *transcriptMessage) setText(value []byte) {
	if m.text != nil {
		return
	}
	c := cursor{b: value}
	switch c.peek() {
	case '"':
		m.text = value
	case '[':
		for ok := c.array(); ok && m.text == nil; ok = c.element() {
			m.setText(c.raw())
		}
	case '{':
		for key, ok := c.object(); ok; key, ok = c.key() {
			switch string(key) {
			case "text", "output":
				if v := c.raw(); len(v) > 0 && v[0] == '"' && m.text == nil {
					m.text = v
				}
			case "error":
				m.failed = c.nonEmpty() || m.failed
			default:
				c.skip()
			}
		}
	}
}

func (m *transcriptMessage) readToolCalls(c *cursor, r *transcriptReader) {
	for ok := c.array(); ok; ok = c.element() {
		var call transcriptMessage
		for key, ok := c.object(); ok; key, ok = c.key() {
			if k := string(key); k != "function" && k != "custom" {
				call.member(c, k)
				continue
			}
			for key, ok := c.object(); ok; key, ok = c.key() {
				call.member(c, string(key))
			}
		}
		r.addCall(TranscriptCall{ID: call.id, Input: mix(call.name, call.input)})
		m.calls++
	}
}

// readParts reads the content of a message: a string, a part, or a list of parts.
func (m *transcriptMessage) readParts(c *cursor, r *transcriptReader) {
	switch c.peek() {
	case '[':
		for ok := c.array(); ok; ok = c.element() {
			m.readPart(c, r)
		}
	case '"', '{':
		m.readPart(c, r)
	default:
		c.skip()
	}
}

// billing is the beginning of a part of Claude Code's instructions that differs in every
// request.
const billing = `"x-anthropic-billing-header`

func (m *transcriptMessage) readPart(c *cursor, r *transcriptReader) {
	if c.peek() == '"' {
		text := c.raw()
		m.addText(text)
		m.addPart(hashBytes(text))
		return
	}
	var part transcriptMessage
	var text []byte
	others := 0   // members that make it more than a text
	mark := false // it is nothing but a mark
	sum := uint64(0)
	for key, ok := c.object(); ok; key, ok = c.key() {
		name := hashBytes(key)
		switch string(key) {
		case "cache_control":
			c.skip()
		case "cachePoint":
			c.skip()
			mark = true
		case "text":
			text = c.raw()
			sum += mix(name, hashBytes(text))
		case "type":
			sum += mix(name, hashBytes(part.member(c, "type")))
		case "content": // of a tool_result
			value := c.raw()
			part.setText(value)
			sum += mix(name, hashBytes(value))
			others++
		case "functionCall", "function_call", "toolUse":
			start := c.i
			part.readNested(c)
			sum += mix(name, hashBytes(c.b[start:c.i]))
			others++
			r.addCall(TranscriptCall{ID: part.id, Input: mix(part.name, part.input)})
			m.calls++
		case "functionResponse", "function_response", "toolResult":
			start := c.i
			part.readNested(c)
			sum += mix(name, hashBytes(c.b[start:c.i]))
			others++
			r.addOutput(&part)
			m.outputs++
		default:
			sum += mix(name, hashBytes(part.member(c, string(key))))
			others++
		}
	}
	if mark && text == nil && others == 0 {
		return
	}
	switch string(part.typ) {
	case "", "text", "input_text", "output_text":
		if text != nil && others == 0 {
			if bytes.HasPrefix(text, []byte(billing)) {
				return
			}
			m.addText(text)
			sum = hashBytes(text) // as if it were a string
		}
	case "tool_use":
		r.addCall(TranscriptCall{ID: part.id, Input: mix(part.name, part.input)})
		m.calls++
	case "tool_result":
		r.addOutput(&part)
		m.outputs++
	}
	m.addPart(sum)
}

// readNested reads the members of a call or an output that is a member of a part.
func (m *transcriptMessage) readNested(c *cursor) {
	if c.peek() != '{' {
		c.skip()
		return
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) == "content" {
			m.setText(c.raw())
		} else {
			m.member(c, string(key))
		}
	}
}

func (m *transcriptMessage) addText(text []byte) {
	if len(text) > len(`""`) {
		m.texts++
	}
	if m.text == nil {
		m.text = text
	}
}

func (m *transcriptMessage) addPart(hash uint64) {
	m.parts = mix(m.parts, hash)
	m.after[m.nParts%MaxIDs] = m.parts
	m.nParts++
}

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
// hashes: cache_control and cachePoint marks, the order of an object's members, white
// space between them, and whether a single text is a string or a list of one part. Strings
// and numbers are compared as they are written. So are the tools, which no client changes
// within a conversation without a reason. Of the instructions, the date and the time are left
// out: see [calmHash].
type Transcript struct {
	// Opening is the hash of what precedes the conversation: instructions, the system
	// messages at the beginning, and references to what the server holds
	// (previous_response_id, cachedContent).
	Opening uint64
	// Tools is the hash of the offered tools; 0: none are offered.
	Tools uint64
	// Client is the hash of ids in the body that do not change within a conversation
	// (prompt_cache_key, metadata.user_id, conversation); 0: there are none.
	Client uint64
	// Previous is the hash of the response that the request names as the one before it;
	// 0: it names none. See [TranscriptID].
	Previous uint64
	// Resumed is the hash of the response whose stream the request goes on with; 0: it is
	// another request. See [TranscriptID].
	Resumed uint64
	// Forced: the request demands a call of one tool. The caller of such a request may
	// want the call's input alone, and never send an output.
	Forced bool

	// Voice is the hash of the texts of the instructions and of the system messages at the
	// beginning, in whatever protocol; 0: there are none.
	Voice uint64
	// Offers is the hash of the names of the offered tools, in whatever protocol and order; 0: none
	// is offered.
	Offers uint64
	// MadeUp are the ids of the outputs after the newest answer that the agent made up for calls
	// that it interrupted or did not finish, as [SafeID] returns them.
	MadeUp []string

	// Total counts what the whole history has, and Answered what it has up to the newest
	// answer.
	Total, Answered TranscriptCount

	// Tail is the hash of the messages and items after the newest answer, by themselves; 0:
	// there are none. A request that names an earlier response, and the same request with
	// the whole history instead, have it in common.
	Tail uint64

	points  [MaxIDs]TranscriptPoint // without Opening
	nPoints int
	calls   [MaxIDs]TranscriptCall
	outputs [MaxIDs]TranscriptOutput
	place   transcriptPlace // behind the last message
}

// transcriptPlace is how far a history has been read.
type transcriptPlace struct {
	history uint64 // hash of the messages so far
	tail    uint64 // of those after the newest answer
	words   uint64 // of the texts of users and outputs, see transcriptWords
	lead    uint64 // what the messages have added to Transcript.Opening
	nPoints int    // without those of the last message
	began   bool   // a message was not a system message
	answer  bool   // the last message is the model's

	// The last message so far.
	some  bool             // there is one
	base  uint64           // the hash of what is before its parts
	after [maxGrown]uint64 // the hashes behind its newest parts
	parts int
}

// TranscriptCount counts messages and parts of a history.
type TranscriptCount struct {
	Calls   int // of client-executed tools
	Outputs int // of these calls
	Users   int // messages of the user that are not empty, without those that carry outputs
	Answers int // answers of the model: messages and items of it that follow one another are one
}

// TranscriptPoint is a place where an earlier request may have ended: behind a message, or
// behind a part of the last message, which may have grown since then.
type TranscriptPoint struct {
	// History is the hash of everything before the place, with [Transcript.Opening].
	History uint64
	// Before counts what is before the place. The message that the place is within counts.
	Before TranscriptCount
	// Tail is [Transcript.Tail] of what is before the place; 0 if it is within a message.
	Tail uint64
	// Words is the hash of the texts of users and outputs before the place, in whatever
	// protocol; 0: there are none, or the place is within a message.
	Words uint64
}

// maxGrown bounds the parts by which the last message may have grown.
const maxGrown = 8

// TranscriptCall is a call in a history.
type TranscriptCall struct {
	ID    uint64 // see [TranscriptID]; 0: it has no id
	Stem  uint64 // of the id without what may have been appended to it, see [idStem]; 0: it has none
	Input uint64 // hash of its name and input
}

// Is reports whether the call has this id, or one that something was appended to.
func (c TranscriptCall) Is(id uint64) bool { return c.ID == id || c.Stem == id }

// TranscriptOutput is the output of a call in a history.
type TranscriptOutput struct {
	ID     uint64 // of the call, see [TranscriptID]; 0: not known
	Stem   uint64 // see [TranscriptCall]
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
// retains nothing of body. It reports false if the body has no messages, and continues no
// earlier response.
func (t *Transcript) Read(body []byte) bool {
	*t = Transcript{}
	return t.read(body, false)
}

// Resume makes t the transcript of a request for the rest of the stream of this response.
func (t *Transcript) Resume(responseID string) { *t = Transcript{Resumed: TranscriptID(responseID)} }

// ReadAfter is [Transcript.Read] of a body that names, as the response before it, one
// without an answer: that of a request which had the beginning of the history alone. Its
// transcript is before. T is then that of both, as if one body had all of it.
func (t *Transcript) ReadAfter(before *Transcript, body []byte) bool {
	*t = Transcript{
		Opening: before.place.lead, Total: before.Total, Answered: before.Answered,
		points: before.points, nPoints: before.place.nPoints, calls: before.calls, outputs: before.outputs, place: before.place,
	}
	return t.read(body, true)
}

// read reads a body behind t.place. Resolved: t has what the response holds that the body
// names as the one before it.
func (t *Transcript) read(body []byte, resolved bool) bool {
	c := cursor{b: body}
	r := transcriptReader{t: t, transcriptPlace: t.place, resolved: resolved}
	r.request(&c, false)
	if c.bad || !r.messages && t.Previous == 0 && !resolved {
		return false
	}
	r.end()
	return true
}

// Point returns the n-th newest point: 0 is the end of the request. It reports false if
// there are not as many, or if it is older than the newest MaxIDs.
func (t *Transcript) Point(n int) (TranscriptPoint, bool) {
	if n < 0 || n >= min(t.nPoints, MaxIDs) {
		return TranscriptPoint{}, false
	}
	p := t.points[(t.nPoints-1-n)%MaxIDs]
	p.History = mix(p.History, t.Opening)
	return p, true
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
	transcriptPlace

	t        *Transcript
	resolved bool            // previous_response_id says nothing more
	messages bool            // the body has some
	provided map[uint64]bool // calls that the provider executed, which have outputs like others
}

// end adds the points of the last message. The points of the others are there.
func (r *transcriptReader) end() {
	t := r.t
	r.nPoints = t.nPoints
	t.place, t.Tail = r.transcriptPlace, r.tail
	for i := max(0, r.parts-maxGrown); i < r.parts-1; i++ {
		r.addPoint(mix(r.base, r.after[i%maxGrown]), 0, 0)
	}
	if r.some || t.Previous != 0 {
		r.addPoint(r.history, r.tail, r.words)
	}
}

func (r *transcriptReader) addPoint(history, tail, words uint64) {
	t := r.t
	t.points[t.nPoints%MaxIDs] = TranscriptPoint{history, t.Total, tail, words}
	t.nPoints++
}

// request reads the members of a request. Code Assist wraps it: {"request":{…}}.
func (r *transcriptReader) request(c *cursor, wrapped bool) {
	t := r.t
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "messages", "contents", "input":
			r.list(c)
		case "system", "systemInstruction", "system_instruction", "instructions":
			m := transcriptMessage{calm: true}
			if c.peek() == '{' {
				m.read(c, r)
			} else {
				m.readParts(c, r)
			}
			t.Opening += mix(m.head, m.parts)
			t.Voice += m.words.hash
		case "prompt":
			if c.peek() == '{' { // stored on the server
				t.Opening += mix(openingPrompt, c.hash())
			} else {
				r.list(c)
			}
		case "previous_response_id", "previous_interaction_id":
			previous := idOf(c.raw())
			if r.resolved {
				continue
			}
			if t.Previous = previous; previous != 0 {
				t.Opening += mix(openingPrevious, t.Previous)
			}
		case "cachedContent", "cached_content":
			t.Opening += mix(openingCached, c.hash())
		case "tools", "functions":
			t.addTools(c)
		case "toolConfig", "tool_config":
			r.toolConfig(c)
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
		case "session_id": // of Code Assist
			if wrapped {
				t.addClient(c.str())
			} else {
				c.skip()
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

// What the parts of [Transcript.Opening] that are not instructions are mixed with.
const (
	openingPrompt = iota + 1
	openingPrevious
	openingCached
)

// list reads a list of messages, or a single message.
func (r *transcriptReader) list(c *cursor) {
	switch b := c.peek(); {
	case b == 'n':
		c.skip()
	case b == '[' && !isNumber(c.b[skipSpace(c.b, c.i+1):]):
		r.messages = true
		for ok := c.array(); ok; ok = c.element() {
			r.message(c)
		}
	default: // a text, or its tokens
		r.messages = true
		r.message(c)
	}
}

func isNumber(b []byte) bool { return len(b) > 0 && b[0]-'0' <= 9 }

func (t *Transcript) addClient(id []byte) {
	if len(id) > 0 {
		t.Client += transcriptID(id) // the order of the members does not count
	}
}

// addTools reads a list of offered tools.
func (t *Transcript) addTools(c *cursor) {
	if value := c.raw(); len(value) > len("[]") && value[0] == '[' {
		t.Tools += hashBytes(value)
		t.Offers += namesIn(value)
	}
}

// toolConfig reads the member of this name of Bedrock, which has the tools, and of Gemini.
func (r *transcriptReader) toolConfig(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "tools":
			r.t.addTools(c)
		case "toolChoice", "functionCallingConfig", "function_calling_config":
			for key, ok := c.object(); ok; key, ok = c.key() {
				switch string(key) {
				case "tool", "allowedFunctionNames", "allowed_function_names":
					r.t.Forced = c.nonEmpty() || r.t.Forced
				default:
					c.skip()
				}
			}
		default:
			c.skip()
		}
	}
}

// forcesTool reads a tool_choice and reports whether it names one tool.
func forcesTool(c *cursor) (named bool) {
	if c.peek() != '{' {
		c.skip()
		return false
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "name", "function", "custom":
			named = true
		}
		c.skip()
	}
	return named
}

// transcriptMessage is one message, item or part while it is read.
type transcriptMessage struct {
	head   uint64            // hash of its members without the parts
	parts  uint64            // hash of the parts so far
	after  *[maxGrown]uint64 // takes the hashes behind the newest parts; or nil
	nParts int

	role, typ, execution, environment []byte // as they are written, without quotes

	id          uint64 // of the call that it is, or whose output it has
	otherID     uint64 // its own, which some calls have alone
	name, input uint64
	outputs     int    // that were added
	filled      bool   // a part is not an empty text
	text        []byte // the first text, as it is written
	failed      bool
	stem        uint64 // of id or otherID
	rawID       []byte // id or otherID as it is written, with its quotes
	calm        bool   // it is of the instructions: dates and times are left out
	words       transcriptWords
}

// message reads one message, or one item of a Responses request.
func (r *transcriptReader) message(c *cursor) {
	if r.some {
		r.addPoint(r.history, r.tail, r.words)
	}
	m := transcriptMessage{after: &r.after, calm: !r.began && leads(*c)}
	m.read(c, r)
	r.some, r.parts = true, m.nParts
	answer := false
	switch string(m.role) {
	case "assistant", "model":
		answer = true
	case "tool", "function":
		if m.outputs == 0 {
			r.addOutput(&m)
		}
	case "user":
		r.addUser(&m)
	case "system", "developer":
		if !r.began {
			lead := mix(r.history+1, mix(m.head, m.parts))
			r.t.Opening += lead
			r.lead += lead
			r.t.Voice += m.words.hash
		}
	case "":
		if len(m.typ) == 0 {
			r.addUser(&m)
		} else {
			answer = r.item(&m)
		}
	}
	r.began = r.began || string(m.role) != "system" && string(m.role) != "developer"
	if answer && !r.answer {
		r.t.Total.Answers++
	}
	if r.answer = answer; answer {
		r.t.Answered, r.tail, r.t.MadeUp = r.t.Total, 0, nil
	} else {
		r.tail = mix(r.tail, mix(m.head, m.parts)) | 1
		if string(m.role) != "system" && string(m.role) != "developer" {
			r.words = m.words.after(r.words)
		}
	}
	r.base = mix(r.history, m.head)
	r.history = mix(r.base, m.parts)
}

// item counts an item of a Responses request that is not a message. It reports whether the
// item is from an answer.
func (r *transcriptReader) item(m *transcriptMessage) (answer bool) {
	it := responsesItem{typ: m.typ, execution: m.execution, environment: m.environment}
	switch kind := it.kind(); {
	case kind == itemClient:
		r.addCall(m)
		return true
	case bytes.HasSuffix(m.typ, []byte("_call_output")), string(m.typ) == "tool_search_output":
		if m.id == 0 {
			m.id = m.otherID // local_shell_call_output
		}
		if r.provided[m.id] {
			return true
		}
		r.addOutput(m)
		return false
	case string(m.typ) == "function_result": // of the Interactions API, as the next ones
		r.addOutput(m)
		return false
	case string(m.typ) == "user_input", string(m.typ) == "text", string(m.typ) == "image", string(m.typ) == "audio",
		string(m.typ) == "video", string(m.typ) == "document":
		m.filled = true
		r.addUser(m)
		return false
	case kind == itemProvider && m.id != 0:
		if r.provided == nil {
			r.provided = map[uint64]bool{}
		}
		r.provided[m.id] = true
		return true
	default:
		return string(m.typ) != "mcp_approval_response"
	}
}

func (r *transcriptReader) addUser(m *transcriptMessage) {
	if m.outputs == 0 && m.filled {
		r.t.Total.Users++
	}
}

func (r *transcriptReader) addCall(m *transcriptMessage) {
	t := r.t
	id := m.id
	if id == 0 {
		id = m.otherID
	}
	t.calls[t.Total.Calls%MaxIDs] = TranscriptCall{ID: id, Stem: m.stem, Input: mix(m.name, m.input)}
	t.Total.Calls++
}

func (r *transcriptReader) addOutput(m *transcriptMessage) {
	t, result := r.t, ResultUnknown
	id := m.id
	if id == 0 {
		id = m.otherID
	}
	switch {
	case isInterruption(m.text):
		result = ResultInterrupted
		if id := idText(m.rawID); id != "" && len(t.MadeUp) < MaxIDs {
			t.MadeUp = append(t.MadeUp, id)
		}
	case m.failed:
		result = ResultFailed
	}
	t.outputs[t.Total.Outputs%MaxIDs] = TranscriptOutput{id, m.stem, result}
	t.Total.Outputs++
}

// interruptions are the beginnings of the texts by which agents represent a call that they
// interrupted, or whose output they do not have after a resume: Codex, Claude Code, opencode.
var interruptions = [...]string{
	"aborted by user", "[Request interrupted by user", "Tool execution aborted", "[Tool execution was interrupted", "Tool execution was interrupted",
}

// madeUp are such texts that are complete: Codex, pi.
var madeUp = [...]string{`"aborted"`, `"No result provided"`}

// isInterruption reports whether a text, as it is written in the body, is one of these.
func isInterruption(text []byte) bool {
	for _, s := range madeUp {
		if string(text) == s {
			return true
		}
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
			m.head += mix(name, m.readToolCalls(c, r))
		case "function_call": // of Chat Completions, before there were tool calls
			if c.peek() == '{' {
				m.head += mix(name, m.readCall(c, r))
			} else {
				c.skip()
			}
		default:
			m.head += mix(name, m.member(c, string(key)))
		}
	}
}

// member consumes a member that may say what a message or a part is, and returns its hash.
func (m *transcriptMessage) member(c *cursor, key string) (hash uint64) {
	switch key {
	case "arguments", "input", "args", "action", "operation":
		hash = c.hash()
		m.input += hash
		return hash
	case "output", "response":
		return m.readResult(c)
	case "name":
		m.name = c.hash()
		return m.name
	}
	if b := c.peek(); b == '{' || b == '[' {
		if key != "environment" {
			return c.hash()
		}
		again := *c
		m.environment = readType(&again)
		return c.hash()
	}
	value := c.raw()
	switch key {
	case "role":
		m.role = unquoted(value)
	case "type":
		m.typ = unquoted(value)
	case "execution":
		m.execution = unquoted(value)
	case "call_id", "tool_call_id", "tool_use_id", "toolUseId":
		m.id, m.stem = idAndStem(value)
		m.rawID = value
	case "id":
		id, stem := idAndStem(value)
		if m.otherID = id; m.id == 0 {
			m.stem, m.rawID = stem, value
		}
	case "is_error":
		m.failed = m.failed || string(value) == "true"
	case "status":
		m.failed = m.failed || string(value) == `"error"`
	}
	return hashBytes(value)
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
func idOf(value []byte) uint64 { return TranscriptID(idText(value)) }

// readToolCalls reads the calls of an answer and returns their hash.
func (m *transcriptMessage) readToolCalls(c *cursor, r *transcriptReader) (hash uint64) {
	for ok := c.array(); ok; ok = c.element() {
		hash = mix(hash, m.readCall(c, r))
	}
	return hash
}

// readCall reads a call, whose members may be in one more object, and returns its hash.
func (m *transcriptMessage) readCall(c *cursor, r *transcriptReader) (hash uint64) {
	var call transcriptMessage
	for key, ok := c.object(); ok; key, ok = c.key() {
		name := hashBytes(key)
		switch string(key) {
		case "function", "custom":
			hash += mix(name, call.readMembers(c))
		default:
			hash += mix(name, call.member(c, string(key)))
		}
	}
	r.addCall(&call)
	return hash
}

// readMembers reads the members of an object and returns its hash.
func (m *transcriptMessage) readMembers(c *cursor) (hash uint64) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		name := hashBytes(key)
		if string(key) == "content" {
			hash += mix(name, m.readResult(c))
		} else {
			hash += mix(name, m.member(c, string(key)))
		}
	}
	return hash
}

// readResult reads what a tool returned, and returns its hash.
func (m *transcriptMessage) readResult(c *cursor) (hash uint64) {
	switch c.peek() {
	case '[':
		for ok := c.array(); ok; ok = c.element() {
			hash = mix(hash, m.readResultPart(c))
		}
	case 'n':
		c.skip()
	default:
		hash = mix(0, m.readResultPart(c))
	}
	return hash
}

// readResultPart reads a part of what a tool returned: a text, or an object. It takes the
// first text. An object with an error is a failure.
func (m *transcriptMessage) readResultPart(c *cursor) (hash uint64) {
	switch c.peek() {
	case '"':
		text := c.raw()
		hash := hashBytes(text)
		m.setText(text)
		m.words.add(text, hash)
		return hash
	case '{':
	default:
		return c.hash()
	}
	var p textPart
	for key, ok := c.object(); ok; key, ok = c.key() {
		if p.member(c, key) {
			continue
		}
		switch k := string(key); {
		case k == "output" && c.peek() == '"':
			text := c.raw()
			hash := hashBytes(text)
			m.setText(text)
			m.words.add(text, hash)
			p.add(key, hash)
		case k == "error":
			again := *c
			m.failed = again.nonEmpty() || m.failed
			p.add(key, c.hash())
		default:
			p.add(key, c.hash())
		}
	}
	m.setText(p.text)
	m.words.add(p.text, p.said)
	return p.hash()
}

// setText takes a text, as it is written, unless there is one.
func (m *transcriptMessage) setText(text []byte) {
	if m.text == nil && len(text) > 0 && text[0] == '"' {
		m.text = text
	}
}

// textPart is a part while it is read. If it has nothing but a text, it is the same as the
// text as a string.
type textPart struct {
	text   []byte
	said   uint64 // the hash of text
	typ    []byte // as it is written
	sum    uint64 // hash of the members
	others int    // members that make it more than a text
}

// member reads a member that every part may have. It reports false if it is another one.
func (p *textPart) member(c *cursor, key []byte) bool {
	switch string(key) {
	case "cache_control":
		c.skip()
	case "type":
		p.typ = c.raw()
		p.sum += mix(hashBytes(key), hashBytes(p.typ))
	case "text":
		p.text = c.raw()
		p.said = hashBytes(p.text)
		p.sum += mix(hashBytes(key), p.said)
	default:
		return false
	}
	return true
}

func (p *textPart) add(key []byte, hash uint64) {
	p.sum += mix(hashBytes(key), hash)
	p.others++
}

// plain reports whether it is nothing but a text.
func (p *textPart) plain() bool {
	switch string(p.typ) {
	case "", `"text"`, `"input_text"`, `"output_text"`:
		return p.others == 0 && len(p.text) > 0 && p.text[0] == '"'
	default:
		return false
	}
}

func (p *textPart) hash() uint64 {
	if p.plain() {
		return p.said
	}
	return p.sum
}

// textHash returns the hash of a text of the message.
func (m *transcriptMessage) textHash(text []byte) uint64 {
	if m.calm {
		return calmHash(text)
	}
	return hashBytes(text)
}

// readParts reads the content of a message: a string, a part, or a list of parts.
func (m *transcriptMessage) readParts(c *cursor, r *transcriptReader) {
	switch c.peek() {
	case '[':
		for ok := c.array(); ok; ok = c.element() {
			m.readPart(c, r)
		}
	case 'n':
		c.skip()
	default:
		m.readPart(c, r)
	}
}

// billing is the beginning of a part of Claude Code's instructions that differs in every
// request.
const billing = `"x-anthropic-billing-header`

func (m *transcriptMessage) readPart(c *cursor, r *transcriptReader) {
	switch c.peek() {
	case '"':
		text := c.raw()
		hash := m.textHash(text)
		m.addText(text, hash)
		m.addPart(hash)
		return
	case '{':
	default:
		m.filled = true
		m.addPart(c.hash())
		return
	}
	var p textPart
	var part transcriptMessage
	marked := false
	for key, ok := c.object(); ok; key, ok = c.key() {
		if p.member(c, key) {
			continue
		}
		switch string(key) {
		case "cachePoint":
			c.skip()
			marked = true
		case "content": // of a tool_result
			p.add(key, part.readResult(c))
		case "functionCall", "function_call", "toolUse":
			var call transcriptMessage
			p.add(key, call.readMembers(c))
			if len(call.typ) == 0 || string(call.typ) == "tool_use" { // Bedrock: server_tool_use
				r.addCall(&call)
			}
		case "functionResponse", "function_response", "toolResult":
			var output transcriptMessage
			p.add(key, output.readMembers(c))
			if len(output.typ) == 0 || string(output.typ) == "tool_result" {
				r.addOutput(&output)
				m.outputs++
				m.words = output.words.append(m.words)
			}
		default:
			p.add(key, part.member(c, string(key)))
		}
	}
	switch {
	case marked && p.others == 0 && p.text == nil:
		return // nothing but a mark
	case p.plain():
		if bytes.HasPrefix(p.text, []byte(billing)) {
			return
		}
		if m.calm {
			p.said = calmHash(p.text)
		}
		m.addText(p.text, p.said)
	}
	switch string(p.typ) {
	case `"tool_use"`:
		r.addCall(&part)
	case `"tool_result"`:
		r.addOutput(&part)
		m.outputs++
	}
	m.words = part.words.append(m.words)
	m.filled = m.filled || !p.plain()
	m.setText(p.text)
	m.addPart(p.hash())
}

func (m *transcriptMessage) addText(text []byte, hash uint64) {
	m.filled = m.filled || len(text) > len(`""`)
	m.setText(text)
	m.words.add(text, hash)
}

func (m *transcriptMessage) addPart(hash uint64) {
	m.parts = mix(m.parts, hash)
	if m.after != nil {
		m.after[m.nParts%maxGrown] = m.parts
	}
	m.nParts++
}

// raw consumes a value of a well-formed document and returns its bytes.
func (c *cursor) raw() []byte {
	if c.peek() == '"' {
		return c.rawQuoted()
	}
	start := c.i
	c.skip()
	return c.b[start:c.i]
}

// rawQuoted is raw for a string. It finds the closing quote and checks nothing else, which
// is several times as fast as [cursor.pass].
func (c *cursor) rawQuoted() []byte {
	start := c.i
	for i := start + 1; ; {
		n := bytes.IndexByte(c.b[i:], '"')
		if n < 0 {
			c.fail()
			return nil
		}
		i += n + 1
		slash := i - 2
		for c.b[slash] == '\\' {
			slash--
		}
		if (i-2-slash)%2 == 0 { // the quote is not escaped
			c.i = i
			return c.b[start:i]
		}
	}
}

// hash consumes a value and returns its hash, which leaves out cache_control, the order of
// the members of objects, and white space.
func (c *cursor) hash() (sum uint64) {
	switch c.peek() {
	case '{':
		for key, ok := c.object(); ok; key, ok = c.key() {
			if string(key) == "cache_control" {
				c.skip()
				continue
			}
			name := hashBytes(key)
			sum += mix(name, c.hash())
		}
		return mix(sum, '{')
	case '[':
		for ok := c.array(); ok; ok = c.element() {
			sum = mix(sum, c.hash())
		}
		return mix(sum, '[')
	default:
		return hashBytes(c.raw())
	}
}

package wire

import "github.com/otelllm/otelllm-go/semconv"

// call is a tool call that a decoder still follows. One that the provider executes is
// complete from its beginning: its input does not count.
type call struct {
	at        int // its index in State.Calls; -1 beyond the bound of that list
	completed bool
	ready     bool
	ended     bool     // the provider has said that the input is complete
	kind      itemKind // of the Responses API: of which kind the item is
	free      bool     // its input is text of any form, not JSON
	input     callInput
}

// inputPart is a part of the input of a call, as a payload has it.
type inputPart struct {
	raw    []byte // of a string: what is between its quotes, with its escapes
	object bool   // it is a value of another type, so all of the input
	filled bool   // the value is not empty
}

// inputPart reads a part of the input of a call. null has no part of it.
func (c *cursor) inputPart() (in inputPart) {
	switch c.peek() {
	case '"':
		start := c.i + 1
		if _, ok := c.pass(); !ok {
			return inputPart{}
		}
		c.values.add(start, c.i-1, holeInput, 0)
		return inputPart{raw: c.b[start : c.i-1], filled: c.i-1 > start}
	case 'n':
		c.skip()
		return inputPart{}
	default:
		return inputPart{object: true, filled: c.nonEmpty()}
	}
}

// deltaPart is inputPart for a value that is a part of an input only if it is in an event of a
// call. An empty string has no part of it.
func (c *cursor) deltaPart() inputPart {
	if c.peek() != '"' {
		filled := c.nonEmpty()
		return inputPart{object: filled, filled: filled}
	}
	start := c.i + 1
	if !c.filled() {
		return inputPart{}
	}
	return inputPart{raw: c.b[start : c.i-1], filled: true}
}

// callSet holds the calls of a response that have begun and not ended, by key.
//
// A client may execute a call before the provider says that its input is complete: as soon as
// the input is one whole JSON value, or a part of the answer arrives that is not of the call.
// The call counts as complete from then on. Only one whose input is an open JSON value was
// executed by no client that reports such an end as an error: see [bedrockConverse] and [FillsInputs].
type callSet[K comparable] struct {
	openSet[K, call]
	last    K    // the call that the last part of the answer was of
	writing bool // there is such a call
}

func (s *callSet[K]) cleared() callSet[K] { return callSet[K]{openSet: s.openSet.cleared()} }

// begin adds a call, of which in is the first part of the input.
func (s *callSet[K]) begin(t *tally, key K, c call, in inputPart) {
	s.leave(t)
	if known := s.add(key, c); known != nil {
		s.last, s.writing = key, true
		t.input(known, in)
	} else if !in.empty() {
		t.input(&c, in)
	}
}

// part adds a part of the input of a known call.
func (s *callSet[K]) part(t *tally, key K, known *call, in inputPart) {
	if !s.writing || s.last != key {
		s.leave(t)
		s.last, s.writing = key, true
	}
	t.input(known, in)
}

// leave records that a part of the answer has arrived that is not of the last call.
func (s *callSet[K]) leave(t *tally) {
	if !s.writing {
		return
	}
	s.writing = false
	if known := s.find(s.last); known != nil {
		t.complete(known)
	}
}

// swallow completes the calls that a client may execute because the stream ended without an
// error: those without arguments so far, and those whose input is text of any form.
//
// It is the one exception to the rule that a longer prefix of an answer is never safer to
// repeat. Where nothing of the input has arrived, a client takes the end for that of a call
// without arguments, and executes it. A byte later the input is an open JSON value, which no
// client can execute. Asking at every clean end within a call would keep the rule, and is
// needless for all of them but the first.
func (s *callSet[K]) swallow(t *tally) {
	for i := range s.list {
		if known := &s.list[i].value; known.free || known.input.isEmpty() {
			t.complete(known)
		}
	}
}

// cleanEnd is swallow for the end of a body, which is an error for no client.
func (s *callSet[K]) cleanEnd(t *tally) {
	s.swallow(t)
	if t.Err == nil {
		s.fill(t)
	}
}

// fill completes all calls if the client may execute one whose input is an open JSON value: see
// [FillsInputs].
func (s *callSet[K]) fill(t *tally) {
	if !t.fills {
		return
	}
	for i := range s.list {
		t.complete(&s.list[i].value)
	}
}

// endAll completes the calls whose own end is missing although the response is complete.
func (s *callSet[K]) endAll(t *tally) {
	for i := range s.list {
		t.endInput(&s.list[i].value)
	}
	s.clear()
	s.writing = false
}

// empty reports whether there is nothing of an input in it.
func (in inputPart) empty() bool { return !in.filled && !in.object }

// first is in as the first part of an input that may follow in parts: {} is then a
// placeholder.
func (in inputPart) first() inputPart {
	in.object = in.object && in.filled
	return in
}

// start records the beginning of a call's input.
func (t *tally) start(id, name []byte) call {
	t.ToolInputsStarted++
	t.at(semconv.PhaseToolInput)
	if len(t.Calls) == MaxIDs {
		return call{at: -1}
	}
	t.Calls = append(t.Calls, Call{ID: safeID(id), Name: safeName(name)})
	return call{at: len(t.Calls) - 1}
}

// startProviderTool is providerTool for one whose input comes in parts.
func (t *tally) startProviderTool(typ []byte) call {
	t.providerTool(typ)
	return call{at: -1, completed: true, ready: true, ended: true}
}

// fillIn adds the id and the name of a call where its beginning had none.
func (t *tally) fillIn(c call, id, name []byte) {
	if c.at < 0 {
		return
	}
	known := &t.Calls[c.at]
	if known.ID == "" {
		known.ID = safeID(id)
	}
	if known.Name == "" {
		known.Name = safeName(name)
	}
}

// input records a part of the input of a call.
func (t *tally) input(c *call, in inputPart) {
	if c.ended {
		return
	}
	if !c.completed {
		t.enter(semconv.PhaseToolInput)
	}
	switch {
	case in.object:
		t.complete(c)
	case c.free:
	default:
		bare := c.input.isEmpty()
		if c.input.write(in.raw); !c.input.isOpen() || t.late && bare {
			t.complete(c)
		}
	}
}

// wholeInput records the input of a call as it is repeated at its end, which outweighs its
// parts.
func (t *tally) wholeInput(c *call, in inputPart) {
	if in.filled && !c.ended {
		c.input = callInput{}
		t.input(c, in)
	}
}

// complete records that the input of a call is complete, as far as a client can know.
func (t *tally) complete(c *call) {
	if c.completed {
		return
	}
	c.completed = true
	t.ToolInputsCompleted++
	t.enter(semconv.PhaseToolCallReady)
	if c.at >= 0 {
		t.Calls[c.at].Completed = true
	}
}

// endInput records that the provider has said that the input of a call is complete.
func (t *tally) endInput(c *call) {
	t.complete(c)
	if c.ended {
		return
	}
	if c.ended = true; !c.free && c.input.isBroken() {
		t.ToolInputsInvalid++
	}
}

// handOver records that a call, whose input is complete, was delivered to the
// application for execution.
func (t *tally) handOver(c *call) {
	t.endInput(c)
	if c.ready {
		return
	}
	c.ready = true
	t.ToolCalls++
	t.Unread = t.Unread || t.Terminal
	if c.at >= 0 {
		t.Calls[c.at].Ready = true
	}
}

// handOverAll is handOver for every call whose input is complete.
func (t *tally) handOverAll() {
	t.ToolCalls = t.ToolInputsCompleted
	for i := range t.Calls {
		t.Calls[i].Ready = t.Calls[i].Completed
	}
}

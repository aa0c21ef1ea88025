package wire

import (
	"cmp"
	"slices"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// tally is the state of a response with the steps in which it changes, which are the
// same for every protocol.
type tally struct {
	State

	delta  contentDelta // the last one that content was called with
	later  uint8        // errors after the first one
	values *values      // of the payload that is being parsed; nil: they are not recorded

	// late: what is read is an event that only the clean end of the body has ended. Clients
	// that drop it get no error, and execute a call whose first part of the input is in it.
	late      bool
	truncated bool // the body was, see [Decoder]
	fills     bool // see [FillsInputs]
	// lateError: such an event was the error that ended the response.
	lateError bool
}

// contentDelta is the meaning of an event that only adds to the content of a response,
// as most events of a stream do. Its part points into the event's bytes.
type contentDelta struct {
	index int // of the choice, candidate, block or item that it is part of
	call  int // with input: the index of the call in the choice, where choices have several

	text      bool // visible text that is not empty
	refusal   bool // the text is a refusal
	reasoning bool // reasoning that is not empty
	thinking  bool // reasoning, even if this part of it is empty
	input     bool // a part of the input of a call that has begun
	last      bool // with input: the last part of it
	part      inputPart

	counts [maxCounts]int // that come with it: see cursor.varyingCount
}

// addDelta adds a delta to what r has read, and releases the event's bytes.
func addDelta(r reader, d *contentDelta) {
	r.add(d)
	if d.input {
		d.part.raw = nil
	}
}

// content returns the kind of an event that is nothing but a delta. The caller of the
// reader passes d to the reader's add. For a later event of the same form it may call
// only add, so everything else that the reader does with such an event must have no
// effect the second time: to set Unread, or the ids of the response.
func (t *tally) content(d contentDelta) payloadKind {
	t.delta = d
	if !d.text && !d.reasoning && !d.input {
		t.values.reject() // few deltas are empty: their form would replace another one
	}
	return content
}

// cursor returns a cursor over a payload.
func (t *tally) cursor(data []byte) cursor {
	t.values.reset()
	return cursor{b: data, values: t.values}
}

// payloadKind returns what a payload is that c has read to its end. What c could not
// read sets Unread.
func (t *tally) payloadKind(c *cursor) payloadKind {
	v := c.payloadKind()
	t.Unread = t.Unread || v == progress && c.unread
	return v
}

// add records the text and the reasoning of a delta.
func (t *tally) add(d *contentDelta) {
	switch {
	case d.reasoning:
		t.reasoning()
	case d.thinking:
		t.enter(semconv.PhaseReasoning)
	}
	if d.text {
		t.text()
	}
}

// addWithCalls is add for a protocol in which a part of a call's input names the block that
// the call is in. Open has the calls that have begun, also those that the provider executes.
// Input without one is that of a call whose beginning was not read.
func (t *tally) addWithCalls(d *contentDelta, open *callSet[int]) {
	if d.text || d.reasoning {
		open.leave(t)
	}
	t.add(d)
	if !d.input {
		return
	}
	if c := open.find(d.index); c != nil {
		open.part(t, d.index, c, d.part)
	} else {
		t.Unread = true
	}
}

// at records that content of phase p was received. After the terminal event it does not
// change how the response ended, but the client received it.
func (t *tally) at(p semconv.Phase) {
	if t.Terminal {
		t.Unread = true
		return
	}
	t.Phase = p
}

// enter records that the response is in phase p, of which no content was received yet.
func (t *tally) enter(p semconv.Phase) {
	if !t.Terminal {
		t.Phase = p
	}
}

// text records a delta of visible output.
func (t *tally) text() {
	t.TextChunks++
	t.at(semconv.PhaseText)
}

// reasoning records a delta of reasoning.
func (t *tally) reasoning() {
	t.ReasoningChunks++
	t.at(semconv.PhaseReasoning)
}

// providerTool records that a provider-executed tool of this type has begun.
func (t *tally) providerTool(typ []byte) { t.providerTools(1, typ) }

// unknownTool is the type of a provider-executed tool whose type is not known.
const unknownTool = "unknown"

// providerTools records that n more provider-executed tools of this type have begun; "": it
// is not known.
func (t *tally) providerTools(n int, typ []byte) {
	if n <= 0 {
		return
	}
	t.ProviderToolsStarted += n
	t.Unread = t.Unread || t.Terminal
	name := cmp.Or(safeName(typ), unknownTool)
	if len(t.ProviderTools) < MaxIDs && !slices.Contains(t.ProviderTools, name) {
		t.ProviderTools = append(t.ProviderTools, name)
	}
}

// identify records the id and the model of the response. The first ones count.
func (t *tally) identify(id, model []byte) {
	if t.ResponseID == "" {
		t.ResponseID = safeID(id)
	}
	if t.Model == "" {
		t.Model = safeModel(model)
	}
}

// use replaces the token counts that are known: usage is cumulative.
func (t *tally) use(u Usage) {
	known := &t.Usage
	known.Input = latest(known.Input, u.Input)
	known.Output = latest(known.Output, u.Output)
	known.CacheRead = latest(known.CacheRead, u.CacheRead)
	known.CacheCreation = latest(known.CacheCreation, u.CacheCreation)
	known.Reasoning = latest(known.Reasoning, u.Reasoning)
}

// finish records the finish reason of a choice, as the provider wrote it.
func (t *tally) finish(reason []byte) {
	t.finishAs(t.reason(reason))
}

// finishAs records a finish reason that is not from the provider.
func (t *tally) finishAs(reason string) {
	if len(t.FinishReasons) < MaxIDs {
		t.FinishReasons = append(t.FinishReasons, reason)
	}
}

// reason returns a finish reason that may be recorded. The meaning of an unknown one is
// unknown, so it sets Unread.
func (t *tally) reason(reason []byte) string {
	safe := finishReason(reason)
	if !classify.KnownFinish(safe) && !isFailure(reason) && !cutsInput(reason) {
		t.Unread = true
	}
	return safe
}

// end records that the response is semantically complete and at its terminal event.
func (t *tally) end() {
	t.Complete, t.Terminal = true, true
	t.Phase = semconv.PhaseStreamEnd
}

// maxLaterErrors bounds how many errors after the first one are read.
const maxLaterErrors = 8

// fail records an error event. The first one is the cause; a later one only adds what
// the first lacks. After the terminal event nothing is an error any more.
func (t *tally) fail(f *fault) {
	if t.Err != nil {
		if t.later < maxLaterErrors { // searching their texts takes longer than reading them
			t.later++
			f.fill(t.Err)
		}
		return
	}
	if t.Terminal {
		return
	}
	t.Err = f.asError()
	t.Complete, t.Terminal, t.lateError = false, true, t.late
}

// spoil records an event that the protocol does not have in this place, so that an answer that is
// not over yet will not be what the model wrote, however it ends.
func (t *tally) spoil() {
	if t.Terminal {
		return
	}
	t.Broken = true
	if t.Violation == semconv.TransportCauseUnset {
		t.Violation = semconv.TransportCauseMalformedEvent
	}
}

// over reports whether every client knows that the response has ended. One that drops a late error
// takes the end of the body for that of the answer.
func (t *tally) over() bool { return t.Terminal && !t.lateError }

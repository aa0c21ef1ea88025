package wire

import (
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// unknownUsage is a Usage of which nothing was said.
var unknownUsage = Usage{Input: -1, Output: -1, CacheRead: -1, CacheCreation: -1, Reasoning: -1}

// maxOpen bounds what a decoder remembers about calls and choices that have begun
// and not ended. No answer comes near it; past it they are counted, not matched.
const maxOpen = 1024

// maxListed bounds what is read out of one list of one payload: a list of millions
// of empty objects must not become millions of structs.
const maxListed = 4096

// tally is the state of a response and the steps in which it grows, the same for
// every protocol.
type tally struct {
	State

	delta  contentDelta // the last one that content was called with
	values *values      // of the payload that is being parsed; nil: they are not recorded
}

// contentDelta is what an event says that only adds to the content of a response: most
// events of a stream. A decoder may receive the same delta again and again, so it holds
// nothing of the event's bytes.
type contentDelta struct {
	index int // of the choice, candidate, block or item that it is part of
	call  int // with input: the index of the call in the choice, where choices have several

	text      bool // visible text that is not empty
	refusal   bool // the text is a refusal
	reasoning bool // reasoning that is not empty
	thinking  bool // reasoning, even if this part of it is empty
	input     bool // a part of the input of a call that has begun
	last      bool // with input: the last part of it

	usage geminiUsage // the token counts that come with it, of Gemini only
}

// content returns the verdict on an event that is nothing but a delta. The caller of the
// reader passes d to the reader's add.
func (t *tally) content(d contentDelta) verdict {
	t.delta = d
	return content
}

// cursor returns a cursor over a payload.
func (t *tally) cursor(data []byte) cursor {
	t.values.reset()
	return cursor{b: data, values: t.values}
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

// call is a client-executed tool call that a decoder still has to follow.
type call struct {
	at        int // its place in State.Calls; -1 beyond the bound of that list
	completed bool
	ready     bool
}

// at records that the response is at p, with content. What comes after the terminal
// event changes nothing about how the response ended, but the client was given it.
func (t *tally) at(p semconv.Phase) {
	if t.Terminal {
		t.Unread = true
		return
	}
	t.Phase = p
}

// enter records that the response is at p, of which nothing has come yet.
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

// thought records a delta of reasoning.
func (t *tally) reasoning() {
	t.ReasoningChunks++
	t.at(semconv.PhaseReasoning)
}

// providerTools records that n more of the provider's tools have begun.
func (t *tally) providerTools(n int) {
	if t.ProviderToolsStarted += n; t.Terminal && n > 0 {
		t.Unread = true
	}
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

// fillIn adds what the beginning of a call did not say.
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

// complete records that the input of a call is complete.
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

// handOver records that the application has a call, whose input is complete.
func (t *tally) handOver(c *call) {
	t.complete(c)
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

// handOverAll hands over every call whose input is complete.
func (t *tally) handOverAll() {
	t.ToolCalls = t.ToolInputsCompleted
	for i := range t.Calls {
		t.Calls[i].Ready = t.Calls[i].Completed
	}
}

// identify records the response's id and model, the first ones said.
func (t *tally) identify(id, model []byte) {
	if t.ResponseID == "" {
		t.ResponseID = safeID(id)
	}
	if t.Model == "" {
		t.Model = safeModel(model)
	}
}

// use records token counts over those that came before: usage is cumulative.
func (t *tally) use(u Usage) {
	known := &t.Usage
	known.Input = latest(known.Input, u.Input)
	known.Output = latest(known.Output, u.Output)
	known.CacheRead = latest(known.CacheRead, u.CacheRead)
	known.CacheCreation = latest(known.CacheCreation, u.CacheCreation)
	known.Reasoning = latest(known.Reasoning, u.Reasoning)
}

// latest is a count as it is known once n, negative where nothing was said, has come.
func latest(known, n int) int {
	if n >= 0 {
		return n
	}
	return known
}

// finishRefusal is the finish reason of an answer that is a refusal, where the
// provider has no word of its own for it.
const finishRefusal = "refusal"

// Finish reasons of answers that are not there yet.
const (
	finishApproval = "approval_required" // a person has to agree to a call first
	finishDeferred = "deferred"          // it is asked for later, by its id
)

// finish records the finish reason of a choice, as the provider wrote it.
func (t *tally) finish(reason []byte) {
	t.finishAs(t.reason(reason))
}

// finishAs records a finish reason that the protocol has no word for.
func (t *tally) finishAs(reason string) {
	if len(t.FinishReasons) < MaxIDs {
		t.FinishReasons = append(t.FinishReasons, reason)
	}
}

// reason is a finish reason fit to be recorded. What one that is not known says about
// the answer is not known either.
func (t *tally) reason(reason []byte) string {
	safe := finishReason(reason)
	if !classify.KnownFinish(safe) && !isFailure(reason) && !cutsInput(reason) {
		t.Unread = true
	}
	return safe
}

// finishReason is [safeName] that has the words of most answers at hand.
func finishReason(reason []byte) string {
	switch string(reason) {
	case "stop":
		return "stop"
	case "tool_calls":
		return "tool_calls"
	case "end_turn":
		return "end_turn"
	case "tool_use":
		return "tool_use"
	case "STOP":
		return "STOP"
	default:
		return safeName(reason)
	}
}

// end records that the response is semantically complete and at its terminal event.
func (t *tally) end() {
	t.Complete, t.Terminal = true, true
	t.Phase = semconv.PhaseStreamEnd
}

// fail records an error event. The first one is the cause; a later one only fills
// in what it left out. After the terminal event nothing is an error any more.
func (t *tally) fail(f *fault) {
	if t.Err != nil {
		f.fill(t.Err)
		return
	}
	if t.Terminal {
		return
	}
	t.Err = f.asError()
	t.Complete, t.Terminal = false, true
}

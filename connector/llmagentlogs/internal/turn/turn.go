package turn

import (
	"slices"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/agentlog"
	"github.com/otelllm/otelllm-go/semconv"
)

func (t *turn) handle(e *agentlog.Event, to Sink) {
	switch e.Kind {
	case agentlog.Began:
		t.flush(to)
		t.reject(to)
		t.gaveUp, t.decided, t.calls = false, false, nil
		t.open = &Request{Start: e.Start, InputTokens: -1, OutputTokens: -1}
		t.describe(t.open, e)
		t.state = open
	case agentlog.Progress:
		if t.open != nil {
			t.open.progress(e)
		}
	case agentlog.Done, agentlog.Refused:
		t.done(e, to)
	case agentlog.Cut:
		t.cut(e)
	case agentlog.Detail:
		if t.held != nil {
			t.held.Failure.Explain(&e.Failure)
		}
	case agentlog.GaveUp:
		t.gaveUp = true
		if t.held != nil && !t.held.Failure.Failed && e.Failure.Failed {
			t.cut(e)
		}
	case agentlog.Decision:
		t.called(e)
		t.settle(to)
		t.decide(e)
	case agentlog.Tool:
		t.tool(e, to)
	case agentlog.Ended:
		t.ended = true
	default:
	}
}

// describe adds the facts of an event to its request.
func (t *turn) describe(r *Request, e *agentlog.Event) {
	if r.Above.IsEmpty() && e.Trace == t.Trace {
		r.Above = e.Span
	}
	for _, f := range [...]struct {
		to   *string
		from string
	}{{&r.Model, e.Model}, {&r.Provider, e.Provider}, {&r.RequestID, e.RequestID}} {
		if f.from != "" {
			*f.to = f.from
		}
	}
	if e.Status > 0 {
		r.Status = e.Status
	}
	if e.Attempt > 0 {
		r.Attempt = e.Attempt
	}
	r.End = max(r.End, e.Time)
}

// done ends the open request. If the event is a complete request, as all of Claude Code are, a request that is still open
// is reported without an end.
func (t *turn) done(e *agentlog.Event, to Sink) {
	r := t.open
	if r == nil && e.Kind == agentlog.Done && e.Agent == agentlog.Codex {
		return // it is of a request before the turn
	}
	t.gaveUp = t.gaveUp && e.Agent == agentlog.ClaudeCode // which may say that before
	var early []agentlog.Event
	if r == nil || e.Kind == agentlog.Refused {
		t.flush(to)
		early = t.decidedSince(e)
		t.reject(to)
		t.decided = false
		r = &Request{Start: e.Start, InputTokens: -1, OutputTokens: -1}
	} else {
		t.settle(to)
		t.open = nil
	}
	t.describe(r, e)
	t.responseAt = e.Time
	r.Failure = e.Failure
	r.InputTokens, r.OutputTokens = e.InputTokens, e.OutputTokens
	if !e.Failure.Failed {
		r.Failure.End = semconv.StreamEndTerminalEvent
	}
	t.held, t.failure = r, nil
	t.responded(r, e)
	if t.caller != "" && t.caller == e.RequestID {
		t.called(e)
	}
	if len(early) > 0 {
		if t.rejected = early; t.state == completed {
			t.state = calling
		}
	}
	if final(e) {
		t.settle(to)
	}
}

// responded sets the state after a request that ended. If the records do not show the content of a complete response, it
// may have asked for a tool.
func (t *turn) responded(r *Request, e *agentlog.Event) {
	codex := e.Agent == agentlog.Codex // whose calls are all of the last request
	called := r.InputsBegan+r.InputsCompleted > 0 || codex && (t.decided || r.ran)
	if called && !e.Failure.Failed {
		r.Finish = finishToolCalls
	}
	switch {
	case e.Failure.Failed:
		t.state, t.failure = failed, &r.Failure
	case r.ran && len(t.calls) == 0:
		t.state = acted
	case called, len(t.calls) > 0:
		t.state = calling
	case r.endsInText:
		t.state, r.Finish = answered, finishCompleted
	default:
		t.state = completed
	}
}

// decide notes a decision on a call. Before its result, which only comes when the tool has ended, it is the only sign that
// a tool runs.
func (t *turn) decide(e *agentlog.Event) {
	t.decided = true
	switch {
	case e.Rejected && len(t.rejected) < maxRejected:
		t.rejected = append(t.rejected, *e)
	case e.Rejected, slices.ContainsFunc(t.calls, func(c call) bool { return c.is(e) }):
	case len(t.calls) < maxCalls:
		t.calls = append(t.calls, call{e.CallID, e.ToolName})
	default:
		t.lossy = true // there may be more running tools than calls has
	}
	if t.state == answered || t.state == completed {
		t.state = calling
	}
}

// called notes that the request with the id of the event asked for a tool. The request may be recorded later.
func (t *turn) called(e *agentlog.Event) {
	t.caller = e.RequestID
	if r := t.held; r != nil && r.RequestID != "" && r.RequestID == t.caller && !r.Failure.Failed {
		t.state, r.Finish = calling, finishToolCalls
	}
}

// decidedSince removes and returns the rejections since a request of Claude Code began. They are of its own calls: a
// request is recorded when it is over.
func (t *turn) decidedSince(e *agentlog.Event) (early []agentlog.Event) {
	if e.Agent != agentlog.ClaudeCode {
		return nil
	}
	at := slices.IndexFunc(t.rejected, func(d agentlog.Event) bool { return d.Time >= e.Start })
	if at < 0 {
		return nil
	}
	early = slices.Clone(t.rejected[at:])
	t.rejected = t.rejected[:at]
	return early
}

// Finish reasons of the Responses API, as this project's client writes them.
const (
	finishToolCalls = "tool_calls"
	finishCompleted = "completed"
)

// final reports whether no later event can change the end of a request.
func final(e *agentlog.Event) bool { return e.Agent == agentlog.Codex }

// cut corrects the end of the last request: its answer was not complete.
func (t *turn) cut(e *agentlog.Event) {
	r := t.held
	if r == nil {
		return
	}
	if e.Failure.Limited != "" {
		r.Finish = e.Failure.Limited
		return
	}
	r.Failure = e.Failure
	t.state, t.failure = failed, &r.Failure
}

// settle reports the last request that ended. From now on its end is final.
func (t *turn) settle(to Sink) {
	if t.held == nil {
		return
	}
	t.report(t.held, to)
	t.held = nil
}

// flush reports the unreported requests, also one without an end.
func (t *turn) flush(to Sink) {
	t.settle(to)
	if t.open != nil {
		t.report(t.open, to)
		t.open = nil
	}
}

func (t *turn) report(r *Request, to Sink) {
	t.requests++
	t.parts++
	r.Phase = r.phase()
	if r.Failure.Failed {
		failure := r.Failure
		t.failure = &failure
	}
	to.Request(t.Place, r)
}

// tool reports a tool that was executed, or rejected.
func (t *turn) tool(e *agentlog.Event, to Sink) {
	t.called(e)
	t.settle(to)
	tool := Tool{Start: e.Start, End: e.Time, CallID: e.CallID, Name: e.ToolName, ErrorType: e.ToolErrorType}
	if e.Trace == t.Trace {
		tool.Above = e.Span
	}
	t.calls = slices.DeleteFunc(t.calls, func(c call) bool { return c.is(e) })
	at := slices.IndexFunc(t.rejected, func(d agentlog.Event) bool { return d.CallID == e.CallID && d.ToolName == e.ToolName })
	switch {
	case at >= 0 && e.Outcome == semconv.ToolOutcomeFailed:
		tool.Outcome = semconv.ToolOutcomeRejected
	default:
		tool.Outcome = e.Outcome
	}
	if at >= 0 {
		t.rejected = slices.Delete(t.rejected, at, at+1)
	}
	t.parts++
	t.state = acted
	if t.open != nil {
		t.open.ran = true
	}
	to.Tool(t.Place, &tool)
}

// reject reports rejected calls without a result.
func (t *turn) reject(to Sink) {
	for i := range t.rejected {
		e := &t.rejected[i]
		tool := Tool{Start: e.Time, End: e.Time, CallID: e.CallID, Name: e.ToolName, Outcome: semconv.ToolOutcomeRejected}
		if e.Trace == t.Trace {
			tool.Above = e.Span
		}
		t.parts++
		to.Tool(t.Place, &tool)
	}
	if len(t.rejected) > 0 {
		t.rejected, t.state = nil, acted
	}
}

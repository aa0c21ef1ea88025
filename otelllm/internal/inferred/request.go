package inferred

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/kinship"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// Request is a request that belongs to an inferred run. A nil *Request belongs to none.
type Request struct {
	runs *Runs
	kin  *kinship.Request
	run  *run

	// Attempt is its number among the attempts of one call, from 1.
	Attempt int

	live atomic.Pointer[agentrun.OpenRequest] // nil: it has not begun

	ended bool // Runs.mu guards it
}

// Run returns the run that the request belongs to, or nil.
func (q *Request) Run() *agentrun.Run {
	if q == nil {
		return nil
	}
	return q.run.Run
}

// Recorded reports whether the run is recorded and goes on. Otherwise the request has to be dropped.
func (q *Request) Recorded() bool {
	return q != nil && q.run.Run != nil && q.run.Recording() && !q.run.Over()
}

// Context returns the context for starting the request's span. The span becomes a child of the run's, unless the run has
// ended, or the caller has a span other than the parent of the run's span. Ctx is the caller's.
func (q *Request) Context(ctx context.Context) context.Context {
	if q == nil || q.run.Run == nil || q.run.Over() {
		return ctx
	}
	caller := trace.SpanContextFromContext(ctx)
	if caller.IsValid() && !caller.Equal(q.run.parent) {
		return ctx
	}
	return trace.ContextWithSpan(ctx, q.run.Span())
}

// Follow takes the request once it has begun, to observe its progress.
func (q *Request) Follow(open agentrun.OpenRequest) {
	if q != nil {
		q.live.Store(&open)
	}
}

// soFar returns how the request would end now.
func (q *Request) soFar() kinship.Answer {
	open := q.live.Load()
	if open == nil {
		return kinship.Answer{}
	}
	facts, ended := (*open).Snapshot(time.Now())
	if !ended {
		facts = (*open).SoFar()
		if facts.Open && facts.Status < 400 {
			return kinship.Answer{}
		}
	}
	calls := make([]wire.Call, 0, len(facts.CallIDs))
	for _, id := range facts.CallIDs {
		calls = append(calls, wire.Call{ID: id, Completed: true})
	}
	return answerOf(&facts, calls, "")
}

// Ended takes the facts of the request once they are final, and the calls of its response.
func (q *Request) Ended(f *spanfacts.Request, calls []wire.Call) {
	if q == nil {
		return
	}
	answer := answerOf(&f.Request, calls, f.ResponseID)
	answer.Way = f.ErrorType
	last := lastRequest{end: f.End, errorType: f.ErrorType}
	if answer.Result != kinship.Answered {
		facts := f.Request
		last.facts = &facts
	}
	q.end(f.End, answer, last)
}

// Drop ends a request that is not recorded. Its outcome stays unknown: the next request may repeat it or have the outputs
// of its calls. So the requests of a run that is not sampled stay in that run, and none of them begins a sampled one.
func (q *Request) Drop(now time.Time) {
	if q != nil && q.kin != nil {
		q.end(now, kinship.Answer{Result: kinship.Unobserved}, lastRequest{end: now})
	}
}

func (q *Request) end(now time.Time, answer kinship.Answer, last lastRequest) {
	r := q.runs
	end(r.endRequest(now, q, answer, last))
}

// endRequest returns the runs that are over by the end of q. It returns none after the first call.
func (r *Runs) endRequest(now time.Time, q *Request, answer kinship.Answer, last lastRequest) []ending {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.ended {
		return nil
	}
	q.ended = true
	o := q.run
	o.pending--
	if o.last.end.After(last.end) {
		last.end = o.last.end
	}
	if o.newest == q.kin {
		o.last = last
	} else {
		o.last.end = last.end
	}
	defer r.schedule()
	over := r.tracker.End(now, q.kin, answer)
	if o.Run != nil {
		over = append(over, r.tracker.Keep(q.kin.Run, runBytes+o.Bytes())...)
		by := semconv.RunEndUnset
		switch {
		case q.kin.Run.Answered():
			by = semconv.RunEndAnswer
		case answer.Result == kinship.Redirected && o.pending == 0:
			by = semconv.RunEndUnclear // the client may have followed to where no model is
		}
		if by != semconv.RunEndUnset {
			o.Settle(agentrun.InferredEnd{At: o.last.end, By: by, Repeated: q.kin.Run.Repeated()})
		}
	}
	return r.endings(over)
}

// answerOf returns how a request ended, as far as kinship asks.
func answerOf(f *classify.Request, calls []wire.Call, responseID string) kinship.Answer {
	a := kinship.Answer{
		Result: kinship.Answered, ResponseID: responseID, Continues: f.Finish == classify.FinishPaused || f.Finish == classify.FinishCompacted,
		Queued:  f.Background && f.Finish == classify.FinishWaiting,
		Text:    f.Text.N() > 0 || f.Reasoning.N() > 0,
		TooLong: f.Provider.Kind == semconv.ProviderErrorKindContextLengthExceeded,
	}
	for i := range calls {
		call := kinship.Call{ID: calls[i].ID, Name: calls[i].Name}
		switch {
		case calls[i].Completed:
			a.Calls = append(a.Calls, call)
		case call.ID != "":
			a.Began = append(a.Began, call)
		}
	}
	a.Unnamed = f.Unread || max(f.ToolCalls.N(), f.ToolInputsCompleted.N()) > len(a.Calls)
	switch {
	case f.Abort.Source != semconv.AbortSourceUnset && f.Abort.Source != semconv.AbortSourceWatchdog:
		a.Result = kinship.Stopped
	case f.Finish >= classify.FinishMaxTokens && f.Ended == semconv.StreamEndTerminalEvent:
	case classify.Failed(f):
		a.Result = kinship.Failed
	case f.Status >= 300 && f.Status < 400:
		a.Result = kinship.Redirected
	}
	return a
}

package otelllm

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/semconv"
)

// maxParts bounds the requests, and the tools, whose facts a run keeps. Past it
// the oldest are forgotten, and the diagnosis becomes more cautious.
const maxParts = 1024

// Run is one agent turn or run: the parent of its requests and tools. It is safe
// for concurrent use, and a nil *Run does nothing.
type Run struct {
	ctx            context.Context // the caller's: aborts are read off it
	span           trace.Span
	id             string // span id in hex, "" when there is none
	conversationID string
	verdicts       bool // its spans say what the client makes of them

	mu sync.Mutex
	// Everything below is guarded by mu.
	facts         classify.Run // without its parts
	requests      []classify.Request
	tools         []*Tool
	flying        []*record // begun and not ended
	waiting       []*Tool   // ended, and their spans wait for word of the output's delivery
	begunRequests int
	begunTools    int
	forgotten     bool // more parts came than are kept
}

type runKey struct{}

// runOf is the innermost run that ctx belongs to, nil when there is none.
func runOf(ctx context.Context) *Run {
	run, _ := ctx.Value(runKey{}).(*Run)
	return run
}

// StartRun starts a run of an agent and its span, `invoke_agent {agent}`.
// Requests and tools under the returned context belong to it; where runs are
// nested, to the innermost. Agent is recorded, at most 256 bytes.
//
// End the run when it is over, also when nothing records it.
func StartRun(ctx context.Context, agent string, opts ...RunOption) (context.Context, *Run) {
	var c runConfig
	for _, o := range opts {
		if o != nil {
			o.applyRun(&c)
		}
	}
	agent = spanfacts.Bound(agent)
	name := "invoke_agent"
	if agent != "" {
		name += " " + agent
	}
	start := time.Now()
	parent := trace.SpanContextFromContext(ctx)
	run := &Run{ctx: ctx, conversationID: c.conversationID, verdicts: c.verdicts}
	run.facts.Start = start
	ctx, run.span = tracerOf(ctx, c.provider).Start(ctx, name, trace.WithTimestamp(start),
		trace.WithAttributes(spanfacts.RunStart(agent, c.conversationID)...))
	if sc := run.span.SpanContext(); sc.IsValid() && !sc.Equal(parent) {
		run.id = sc.SpanID().String()
	}
	open.addRun(run)
	return context.WithValue(ctx, runKey{}, run), run
}

// End ends the run, with the error that it ended on or nil. Only the type of err
// is recorded. An err that is the word of a deliberate end (an [*AbortError], or
// the cancellation of a context) is recorded as an abort and not as an error.
// Calls after the first do nothing.
//
// Requests of the run that are still open count as begun: a reader of the spans
// knows that they are to come.
func (r *Run) End(err error) {
	if r == nil {
		return
	}
	now := time.Now()
	r.mu.Lock()
	if r.facts.Ended == classify.Yes {
		r.mu.Unlock()
		return
	}
	f := &r.facts
	f.Ended, f.End = classify.Yes, now
	f.AnnouncedRequests, f.AnnouncedTools = classify.Counted(r.begunRequests), classify.Counted(r.begunTools)
	if err == nil {
		f.Failed = classify.No
	} else if f.Abort = r.abortIn(err, now); f.Abort.Source == semconv.AbortSourceUnset {
		f.Failed, f.ErrorType = classify.Yes, netcause.RootType(err)
	}
	ended := *f
	waiting := r.waiting
	r.waiting = nil
	r.mu.Unlock()

	open.removeRun(r)
	for _, t := range waiting {
		t.endSpan()
	}
	if r.span.IsRecording() {
		attrs := spanfacts.RunEnd(&ended)
		if r.verdicts {
			d := r.Diagnosis()
			attrs = spanfacts.AppendRunVerdict(attrs, &d)
		}
		r.span.SetAttributes(attrs...)
		if ended.Failed == classify.Yes {
			r.span.SetStatus(codes.Error, "")
		}
	}
	r.span.End(trace.WithTimestamp(now))
}

// abortIn says, with mu held, whose deliberate end err is the word of; the zero
// value: it is an error.
//
// A run's error has come a long way: SDKs wrap it, and http.Client replaces it
// when its own timeout fires. So where err only resembles a cancellation, the part
// of the run that ended last has to say that it was one. net/http's timeouts
// resemble a deadline, and none of the run's parts was aborted by them.
func (r *Run) abortIn(err error, now time.Time) classify.Abort {
	var typed *AbortError
	if as(err, &typed) {
		return typed.abort()
	}
	cancelled := is(err, context.Canceled)
	if netcause.Cancelled(r.ctx, err, now) {
		if a := abortOf(r.ctx, now); a.Source != semconv.AbortSourceUnset {
			return a
		}
	} else if !cancelled && !is(err, context.DeadlineExceeded) {
		return classify.Abort{}
	}
	a := r.lastAbort()
	if a.Source == semconv.AbortSourceUnset && cancelled {
		a.Source = semconv.AbortSourceUnknown
	}
	return a
}

// lastAbort is how the part of the run that ended last was aborted.
func (r *Run) lastAbort() (a classify.Abort) {
	var end time.Time
	for i := range r.requests {
		if q := &r.requests[i]; !q.End.Before(end) {
			a, end = q.Abort, q.End
		}
	}
	for _, t := range r.tools {
		if f := t.seen(); !f.End.IsZero() && !f.End.Before(end) {
			a, end = f.Abort, f.End
		}
	}
	return a
}

// Diagnosis judges the run on what has been seen of it so far, by the same rules
// by which the Collector judges its spans. It may be called while the run is
// open, to decide about a retry, and after its end. It is the zero value for a
// nil run.
//
// A request counts once its stream has ended, or once the protocol's last word has
// been read. What one request came to is part of it, whoever sent it under this run.
func (r *Run) Diagnosis() classify.Diagnosis {
	if r == nil {
		return classify.Diagnosis{}
	}
	seen, all := r.seen()
	if !all { // a success is one by what is kept
		seen.AnnouncedRequests, seen.AnnouncedTools = classify.Counted(len(seen.Requests)), classify.Counted(len(seen.Tools))
	}
	d := classify.Judge(&seen).Run
	if !all && d.Failed() {
		// Whatever was forgotten may have had effects: as unseen parts they make the
		// verdict cautious.
		r.mu.Lock()
		seen.AnnouncedRequests, seen.AnnouncedTools = classify.Counted(r.begunRequests), classify.Counted(r.begunTools)
		r.mu.Unlock()
		d = classify.Judge(&seen).Run
	}
	return d
}

// identify says on a request which run it belongs to.
func (r *Run) identify(id *spanfacts.Identity) {
	if r != nil {
		id.RunID, id.ConversationID = r.id, r.conversationID
	}
}

// writesVerdicts: the spans of the run's parts say what the client makes of them.
func (r *Run) writesVerdicts() bool { return r != nil && r.verdicts }

// verdictOn judges one request on what has been seen so far, as a part of its run
// where it has one. It is the zero value where nothing failed.
func (r *Run) verdictOn(f *classify.Request) classify.Diagnosis {
	if r == nil {
		return classify.Judge(&classify.Run{Requests: []classify.Request{*f}}).Requests[0]
	}
	seen, _ := r.seen()
	for i := len(seen.Requests) - 1; i >= 0; i-- {
		if q := &seen.Requests[i]; q.Start.Equal(f.Start) && q.End.Equal(f.End) {
			return classify.Judge(&seen).Requests[i]
		}
	}
	seen.Requests = append(seen.Requests, *f) // forgotten: there were too many after it
	return classify.Judge(&seen).Requests[len(seen.Requests)-1]
}

// verdictOnTool is verdictOn for a tool.
func (r *Run) verdictOnTool(t *classify.Tool) classify.Diagnosis {
	seen, _ := r.seen()
	for i := len(seen.Tools) - 1; i >= 0; i-- {
		if u := &seen.Tools[i]; u.Start.Equal(t.Start) && u.CallID == t.CallID {
			return classify.Judge(&seen).Tools[i]
		}
	}
	return classify.Diagnosis{}
}

// seen copies what is known of the run and its parts, and says whether it is all
// that there was.
func (r *Run) seen() (run classify.Run, all bool) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	run = r.facts
	run.Requests = slices.Clone(r.requests)
	for _, a := range r.flying {
		if request, ok := a.snapshot(now); ok {
			run.Requests = append(run.Requests, request)
		}
	}
	run.Tools = make([]classify.Tool, 0, len(r.tools))
	for _, t := range r.tools {
		run.Tools = append(run.Tools, t.seen())
	}
	// Every tool that began is here: a call without one was not executed.
	run.AnnouncedTools = classify.Counted(r.begunTools)
	if r.forgotten {
		run.AnnouncedRequests, run.AnnouncedTools = 0, 0
	}
	return run, !r.forgotten
}

// requestBegan counts a request of the run. A tool whose output its history
// carries needs no other word of the delivery: its span goes.
func (r *Run) requestBegan(a *record) {
	if r == nil {
		return
	}
	var carried []*Tool
	r.mu.Lock()
	r.begunRequests++
	r.flying = append(r.flying, a)
	for _, t := range r.waiting {
		if t.callID != "" && slices.Contains(a.facts.HistoryOutputs, t.callID) {
			carried = append(carried, t)
		}
	}
	r.mu.Unlock()
	for _, t := range carried {
		t.leave()
	}
}

// requestEnded keeps the facts of a request of the run.
func (r *Run) requestEnded(a *record, f *classify.Request) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.flying, a); i >= 0 {
		r.flying = slices.Delete(r.flying, i, i+1)
	}
	if len(r.requests) == maxParts {
		r.requests = slices.Delete(r.requests, 0, 1)
		r.forgotten = true
	}
	r.requests = append(r.requests, *f)
}

// toolOf is the last tool of the run that executes this call, nil when there is none.
func (r *Run) toolOf(callID string) *Tool {
	if r == nil || callID == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range slices.Backward(r.tools) {
		if t.callID == callID {
			return t
		}
	}
	return nil
}

func (r *Run) toolBegan(t *Tool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begunTools++
	if len(r.tools) == maxParts {
		r.tools = slices.Delete(r.tools, 0, 1)
		r.forgotten = true
	}
	r.tools = append(r.tools, t)
}

// wait keeps a tool whose span is to stay open until the run ends at the latest.
// False: the run has ended already.
func (r *Run) wait(t *Tool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.facts.Ended == classify.Yes {
		return false
	}
	r.waiting = append(r.waiting, t)
	return true
}

// unwait forgets a tool whose span has ended.
func (r *Run) unwait(t *Tool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.waiting, t); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
	}
}

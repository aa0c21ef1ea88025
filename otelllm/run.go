package otelllm

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/semconv"
)

// maxParts bounds the requests, and the tools, whose facts a run keeps one by one, and so
// what a live diagnosis costs. Past it the oldest are forgotten but for what they did.
const maxParts = 128

// Run is one agent turn or run: the parent of its requests and tools. It is safe
// for concurrent use, and a nil *Run does nothing.
type Run struct {
	ctx            context.Context // the caller's: aborts are read off it
	parent         *Run            // the run that this one began within; nil: none
	span           trace.Span
	recording      bool   // the span is
	id             string // span id in hex, or ""
	conversationID string
	verdicts       bool // its spans say what the client makes of them
	declared       bool // the author says that every tool of it is recorded

	// begunRequests and begunTools count what began in this run and in the runs within it.
	begunRequests, begunTools atomic.Int64
	recorded                  atomic.Bool // a tool of the run itself was recorded; those within it are not its own
	// generation changes with everything that a diagnosis rests on, but for what a request
	// reads that is still open.
	generation atomic.Uint64

	mu sync.Mutex
	// Everything below is guarded by mu.
	facts   classify.Run // without its parts
	kept                 // the parts
	flying  []*record    // begun and not ended
	waiting []*Tool      // ended, and their spans wait for word of the output's delivery
	within  innerRuns    // the runs within this one
	past    past         // what a verdict on a part needs of the parts before the recent ones
	last    *judgement   // the last one, nil: none
}

// kept are the parts of a run whose facts are kept.
type kept struct {
	requests []classify.Request // in the order of their end
	tools    []*Tool            // in the order of their beginning
}

// judgement is what a run was judged to be, at one generation.
type judgement struct {
	generation uint64
	diagnosis  classify.Diagnosis
	effects    classify.Effects
}

type runKey struct{}

// runOf is the innermost run that ctx belongs to, or nil.
func runOf(ctx context.Context) *Run {
	run, _ := ctx.Value(runKey{}).(*Run)
	return run
}

// StartRun starts a run of an agent and its span, `invoke_agent {agent}`.
// Requests and tools under the returned context belong to it. Agent is recorded, at
// most 256 bytes.
//
// Where runs are nested they belong to the innermost, and what it did counts for every
// run around it: a repetition of the outer run repeats it.
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
	run := &Run{ctx: ctx, parent: runOf(ctx), conversationID: c.conversationID, verdicts: c.verdicts, declared: c.toolsRecorded}
	run.declared = run.declared || run.parent != nil && run.parent.declared
	run.facts.Start = start
	ctx, run.span = started(ctx, func() (context.Context, trace.Span) {
		parent := trace.SpanContextFromContext(ctx)
		ctx, span := tracerOf(ctx, c.provider).Start(ctx, name, trace.WithTimestamp(start),
			trace.WithAttributes(spanfacts.RunStart(agent, c.conversationID)...))
		if sc := span.SpanContext(); sc.IsValid() && !sc.Equal(parent) {
			run.id = sc.SpanID().String()
		}
		run.recording = span.IsRecording()
		return ctx, span
	})
	run.parent.adopt(run)
	open.addRun(run)
	return context.WithValue(ctx, runKey{}, run), run
}

// End ends the run, with the error that it ended on or nil. Only the type of err
// is recorded. An err that reports a deliberate end (an [*AbortError], or
// the cancellation of a context) is recorded as an abort and not as an error.
// Calls after the first do nothing. A run that may panic is better ended by [Run.Done].
//
// Requests of the run that are still open count as begun: a reader of the spans
// knows that they are to come.
func (r *Run) End(err error) {
	if r != nil {
		r.end(err, false)
	}
}

// Done is [Run.End] as a deferred call: it ends the run with *err, and with a panic of
// the function that defers it. The panic goes on with the same value.
//
//	func turn(ctx context.Context) (err error) {
//		ctx, run := otelllm.StartRun(ctx, "coder")
//		defer run.Done(&err)
//
// A panic is recorded as a failure of the error.type "panic". A nil err is one that is
// nil. Done has to be deferred itself, not called by a deferred function.
func (r *Run) Done(err *error) {
	if r == nil {
		return
	}
	if p := recover(); p != nil {
		r.end(nil, true)
		panic(p)
	}
	r.end(errorAt(err), false)
}

func (r *Run) end(err error, panics bool) {
	defer contained()
	now := time.Now()
	ended, waiting, first := r.settle(err, panics, now)
	if !first {
		return
	}
	r.changed()
	open.removeRun(r)
	for _, t := range waiting {
		t.endSpan()
	}
	r.endSpan(&ended, now)
	r.leaveParent()
}

// settle makes the run's own facts final. It returns them with the tools whose spans
// wait for that, and whether this is the first end.
func (r *Run) settle(err error, panics bool, now time.Time) (ended classify.Run, waiting []*Tool, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &r.facts
	if f.Ended == classify.Yes {
		return classify.Run{}, nil, false
	}
	f.Ended, f.End = classify.Yes, now
	f.AnnouncedRequests = classify.Counted(int(r.begunRequests.Load()))
	if r.recordsTools() {
		f.AnnouncedTools = classify.Counted(int(r.begunTools.Load()))
	}
	switch {
	case panics:
		f.Failed, f.ErrorType = classify.Yes, panicType
	case err == nil:
		f.Failed = classify.No
	default:
		quietly(func() { f.Abort = r.abortIn(err, now) })
		if f.Abort.Source == semconv.AbortSourceUnset {
			f.Failed, f.ErrorType = classify.Yes, netcause.RootType(err)
		}
	}
	waiting, r.waiting = r.waiting, nil
	return *f, waiting, true
}

// endSpan ends the run's span. The verdict is judged once more, over everything.
func (r *Run) endSpan(ended *classify.Run, now time.Time) {
	if r.recording {
		quietly(func() {
			attrs := spanfacts.RunEnd(ended)
			failed, summary := ended.Failed == classify.Yes, ""
			if r.verdicts {
				d := r.Diagnosis()
				attrs = spanfacts.AppendRunVerdict(attrs, &d)
				if d.Outcome == semconv.RunOutcomeFailed {
					failed, summary = true, d.Summary
				}
			}
			r.span.SetAttributes(attrs...)
			if failed {
				r.span.SetStatus(codes.Error, summary)
			}
		})
	}
	quietly(func() { r.span.End(trace.WithTimestamp(now)) })
}

// recordsTools reports whether every tool that runs is recorded: the author says so, or
// one was.
func (r *Run) recordsTools() bool { return r.declared || r.recorded.Load() }

// changed tells that something changed that the diagnosis of the run, and of every run
// around it, rests on.
func (r *Run) changed() {
	for ; r != nil; r = r.parent {
		r.generation.Add(1)
	}
}

// abortIn says, with mu held, whose deliberate end err reports; the zero
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
// been read. Of one that is still open counts what it has done by now: the text that it
// has shown, the calls that it has handed over. What the runs within this one did counts
// too.
func (r *Run) Diagnosis() classify.Diagnosis {
	if r == nil {
		return classify.Diagnosis{}
	}
	j, _ := r.judged()
	d := j.diagnosis
	d.Evidence, d.MissingEvidence = slices.Clone(d.Evidence), slices.Clone(d.MissingEvidence)
	d.MissingOutputs, d.Timeline = slices.Clone(d.MissingOutputs), slices.Clone(d.Timeline)
	return d
}

// judged judges the run, once a generation. Settled: nothing of it is still going on,
// so that the judgement holds until the next generation.
func (r *Run) judged() (j *judgement, settled bool) {
	generation := r.generation.Load()
	r.mu.Lock()
	last := r.last
	r.mu.Unlock()
	if last != nil && last.generation == generation {
		return last, true
	}
	seen, settled := r.seen()
	v := classify.Judge(&seen)
	r.addForgotten(&v.Run, seen.Requests)
	j = &judgement{generation: generation, diagnosis: v.Run, effects: v.Effects}
	j.effects.Requests, j.effects.Tools = len(seen.Requests)+seen.Inner.Requests, len(seen.Tools)+seen.Inner.Tools
	if settled {
		r.mu.Lock()
		r.last = j
		r.mu.Unlock()
	}
	return j, settled
}

// identify says on a request which run it belongs to.
func (r *Run) identify(id *spanfacts.Identity) {
	if r != nil {
		id.RunID, id.ConversationID = r.id, r.conversationID
	}
}

// writesVerdicts: the spans of the run's parts say what the client makes of them.
func (r *Run) writesVerdicts() bool { return r != nil && r.verdicts }

// seen copies what is known of the run and its parts. Settled: nothing of it is still
// going on.
func (r *Run) seen() (run classify.Run, settled bool) { return r.view(0) }

// view is seen with the last parts only, as many as limit says; 0: all.
func (r *Run) view(limit int) (run classify.Run, settled bool) {
	now := time.Now()
	var open []classify.Request
	r.mu.Lock()
	parts := r.kept
	if limit > 0 {
		parts = parts.recent(limit)
	}
	run = r.facts
	run.Requests = slices.Clone(parts.requests)
	for _, a := range r.flying {
		request, ok := a.snapshot(now)
		if !ok {
			request = a.soFar()
		}
		if request.Open && r.facts.Ended == classify.Yes {
			open = append(open, request) // announced, and missing until it ends
		} else {
			run.Requests = append(run.Requests, request)
		}
	}
	run.Tools = make([]classify.Tool, 0, len(parts.tools))
	settled = len(r.flying) == 0
	for _, t := range parts.tools {
		run.Tools = append(run.Tools, t.seen())
	}
	inner := r.within
	inner.runs = slices.Clone(inner.runs)
	ended := r.facts.Ended == classify.Yes
	r.mu.Unlock()

	run.Inner = inner.did
	for _, w := range inner.runs {
		e, done := w.effects()
		run.Inner, settled = run.Inner.Join(e), settled && done
	}
	if len(open) > 0 {
		run.Inner = run.Inner.Join(r.effectsOf(open, run.Tools))
	}
	if !ended || limit > 0 {
		// What is here is all that there is.
		run.AnnouncedRequests = classify.Counted(len(run.Requests) + run.Inner.Requests)
		run.AnnouncedTools = 0
		if r.recordsTools() {
			run.AnnouncedTools = classify.Counted(len(run.Tools) + run.Inner.Tools)
		}
	}
	return run, settled
}

// addForgotten counts the failures of requests that were forgotten among those that were made
// good, where a later request was answered.
func (r *Run) addForgotten(d *classify.Diagnosis, later []classify.Request) {
	r.mu.Lock()
	failures := r.within.failures
	r.mu.Unlock()
	if failures == 0 || !slices.ContainsFunc(later, func(q classify.Request) bool { return q.Failed == classify.No }) {
		return
	}
	d.RecoveredFailures += failures
	if d.Outcome == semconv.RunOutcomeSucceeded {
		d.Outcome = semconv.RunOutcomeRecovered
	}
}

// effectsOf is what requests and tools of the run did. None of them is counted.
func (r *Run) effectsOf(requests []classify.Request, tools []classify.Tool) classify.Effects {
	e := r.judgeParts(requests, tools).Effects
	e.Requests, e.Tools = 0, 0
	return e
}

// judgeParts judges some requests and tools of the run by themselves.
func (r *Run) judgeParts(requests []classify.Request, tools []classify.Tool) classify.Verdicts {
	run := classify.Run{Requests: requests, Tools: tools}
	if r.recordsTools() {
		run.ToolsRecorded = classify.Yes
	}
	return classify.Judge(&run)
}

// soFar is what an open request has done by now. It has no end.
func (r *record) soFar() classify.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.facts
	if r.late != nil {
		id := r.identity
		r.late(&f, &id)
	}
	if f.Ended != semconv.StreamEndUnset { // it is about to be told
		return f.Request
	}
	f.Start, f.Open = r.start, true
	switch {
	case r.state != nil:
		fillState(&f, r.state)
		f.Phase = r.state.Phase
	case f.Status == 0:
		f.Phase = semconv.PhaseAwaitingResponse
	}
	return f.Request
}

// requestBegan counts a request of the run. A tool whose output its history
// carries needs no other word of the delivery: its span goes.
func (r *Run) requestBegan(a *record) {
	if r == nil {
		return
	}
	for run := r; run != nil; run = run.parent {
		run.begunRequests.Add(1)
	}
	var carried []*Tool
	r.mu.Lock()
	r.flying = append(r.flying, a)
	for _, t := range r.waiting {
		if t.callID != "" && slices.Contains(a.facts.HistoryOutputs, t.callID) {
			carried = append(carried, t)
		}
	}
	r.mu.Unlock()
	r.changed()
	r.parent.adopt(r)
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
	if i := slices.Index(r.flying, a); i >= 0 {
		r.flying = slices.Delete(r.flying, i, i+1)
	}
	r.makeRoom()
	r.requests = append(r.requests, *f)
	r.past.requestEnded(f)
	r.mu.Unlock()
	r.changed()
	r.parent.adopt(r)
	r.leaveParent()
}

// toolOf is the last tool of the run that executes this call, or nil.
func (r *Run) toolOf(callID string) *Tool {
	if r == nil || callID == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.past.tools[callID]
}

func (r *Run) toolBegan(t *Tool) {
	if r == nil {
		return
	}
	r.recorded.Store(true)
	for run := r; run != nil; run = run.parent {
		run.begunTools.Add(1)
	}
	r.mu.Lock()
	r.makeRoom()
	r.tools = append(r.tools, t)
	r.past.toolBegan(t)
	r.mu.Unlock()
	r.changed()
	r.parent.adopt(r)
	r.leaveParent()
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

// Package agentrun holds the facts of an agent's runs while they go on: their requests, their tools and the runs within
// them. It judges them at any moment, by the rules of package classify.
package agentrun

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/abort"
	"github.com/otelllm/otelllm-go/otelllm/internal/live"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// MaxParts bounds the requests, and the tools, whose facts a run keeps one by one, and so the cost of a live diagnosis.
// Beyond it the oldest are forgotten, except for their effects.
const MaxParts = 128

// maxInferredParts is MaxParts for inferred runs: a gateway has thousands of them open.
const maxInferredParts = 32

// Run is one agent turn or run: the parent of its requests and tools. It is safe for concurrent use. A nil *Run stands for
// no run: its methods serve requests and tools outside of any run.
type Run struct {
	Config
	ctx       context.Context // the caller's; it tells who aborted the run
	parent    *Run            // the run that this one began within; nil: none
	span      trace.Span
	recording bool   // the span is recorded
	id        string // span id in hex, or ""

	// begunRequests and begunTools count the parts that began in this run and in the runs within it.
	begunRequests, begunTools atomic.Int64
	recorded                  atomic.Bool // a tool of the run itself was recorded; tools of the runs within do not count
	elsewhere                 atomic.Bool // a request of the run is in another trace
	verdicts                  atomic.Bool // a request of the run has a source whose spans carry verdicts
	// generation changes with every fact that a diagnosis rests on, except for the progress of an open request.
	generation atomic.Uint64
	bytes      atomic.Int64 // see Bytes

	mu sync.Mutex
	// Everything below is guarded by mu.
	facts   classify.Run // without its parts
	parts                // the parts whose facts are kept
	open    []OpenRequest
	waiting []*Tool      // ended, and their spans wait for the output's delivery
	settled *InferredEnd // of an inferred run that has its answer, see Settle
	inner   innerRuns

	historyBytes int // approximate memory of the ids of the requests' histories

	past     past // older parts that may make the verdict on a part more careful
	judgment *judgment
}

// Config configures a run.
type Config struct {
	Agent          string // "": not known
	ConversationID string
	TracerProvider trace.TracerProvider // nil: see [telemetry.Tracer]
	Verdicts       bool                 // the run's spans carry the client's verdicts
	ToolsRecorded  bool                 // the author declares that every tool is recorded
	Live           *live.Registry       // where the run and its tools are registered
	// Inferred: the application does not declare the run, and so nothing about its tools.
	Inferred bool
}

// OpenRequest is a request that has begun and whose recording has not ended.
type OpenRequest interface {
	// Snapshot returns the facts that the request would end with if its stream were closed now. It reports false if the
	// protocol's terminal event has not come yet.
	Snapshot(now time.Time) (classify.Request, bool)
	// SoFar returns the facts of the request so far. It has no end.
	SoFar() classify.Request
}

// parts are requests and tools of a run.
type parts struct {
	requests []classify.Request // in the order of their end
	tools    []*Tool            // in the order of their beginning
}

// judgment is the verdict on a run at one generation.
type judgment struct {
	generation uint64
	diagnosis  classify.Diagnosis
	effects    classify.Effects
}

type runKey struct{}

// Of returns the innermost run that ctx belongs to, or nil.
func Of(ctx context.Context) *Run {
	run, _ := ctx.Value(runKey{}).(*Run)
	return run
}

// With returns a context whose requests and tools belong to run.
func With(ctx context.Context, run *Run) context.Context {
	return context.WithValue(ctx, runKey{}, run)
}

// Start starts a run and its span, `invoke_agent {agent}`. Requests and tools under the returned context belong to the run.
func Start(ctx context.Context, c Config) (context.Context, *Run) {
	run := &Run{Config: c, ctx: ctx, parent: Of(ctx)}
	run.ToolsRecorded = c.ToolsRecorded || run.parent != nil && run.parent.ToolsRecorded
	ctx = run.start(ctx, time.Now())
	return With(ctx, run), run
}

// start starts the run's span as a child of the span in ctx, and makes the run known.
func (r *Run) start(ctx context.Context, start time.Time, opts ...trace.SpanStartOption) context.Context {
	r.Agent = spanfacts.Bound(r.Agent)
	name := "invoke_agent"
	if r.Agent != "" {
		name += " " + r.Agent
	}
	r.facts.Start = start
	ctx, r.span = telemetry.StartSpan(ctx, func() (context.Context, trace.Span) {
		parent := trace.SpanContextFromContext(ctx)
		opts = append(opts, trace.WithTimestamp(start), trace.WithAttributes(spanfacts.RunStart(r.Agent, r.ConversationID, r.Inferred)...))
		ctx, span := telemetry.Tracer(ctx, r.TracerProvider).Start(ctx, name, opts...)
		if sc := span.SpanContext(); sc.IsValid() && !sc.Equal(parent) {
			r.id = sc.SpanID().String()
		}
		r.recording = span.IsRecording()
		return ctx, span
	})
	r.parent.adopt(r)
	if r.recording || !r.Inferred { // otherwise there is nothing to end
		live.AddRun(r.Live, r)
	}
	return ctx
}

// Span returns the run's span.
func (r *Run) Span() trace.Span { return r.span }

// Shutdown ends the run, as aborted by shutdown unless it has its answer.
func (r *Run) Shutdown() {
	if r.Inferred {
		r.EndInferred(r.shutdownEnd())
		return
	}
	r.end(abort.Shutdown, false)
}

// End ends the run with the error that it ended on, or nil. Calls after the first do nothing.
func (r *Run) End(err error) { r.end(err, false) }

// EndPanic ends a run that panicked.
func (r *Run) EndPanic() { r.end(nil, true) }

func (r *Run) end(err error, panicked bool) {
	if r == nil {
		return
	}
	defer telemetry.Recover()
	now := time.Now()
	ended, waiting, first := r.settle(err, panicked, now)
	if !first {
		return
	}
	r.changed()
	live.Remove(r.Live, r)
	r.endSpans(waiting)
	r.endSpan(&ended, now)
	r.leaveParent()
}

// settle makes the run's own facts final. It returns them with the tools whose spans wait for that, and whether this is the
// first end.
func (r *Run) settle(err error, panicked bool, now time.Time) (ended classify.Run, waiting []*Tool, first bool) {
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
	case panicked:
		f.Failed, f.ErrorType = classify.Yes, panicType
	case err == nil:
		f.Failed = classify.No
	default:
		telemetry.Guard(func() { f.Abort = r.abortIn(err, now) })
		if f.Abort.Source == semconv.AbortSourceUnset {
			f.Failed, f.ErrorType = classify.Yes, netcause.RootType(err)
		}
	}
	waiting, r.waiting = r.waiting, nil
	return *f, waiting, true
}

// endSpans ends the spans of tools.
func (r *Run) endSpans(tools []*Tool) {
	var verdicts map[*Tool]classify.Diagnosis
	if len(tools) > 0 && r.WritesVerdicts() {
		telemetry.Guard(func() { verdicts = r.judgeTools(tools) })
	}
	for _, t := range tools {
		d := verdicts[t]
		t.endSpanWith(&d)
	}
}

// endSpan ends the run's span. The verdict is judged once more, over all parts.
func (r *Run) endSpan(ended *classify.Run, now time.Time) {
	if r.recording {
		telemetry.Guard(func() {
			attrs := spanfacts.RunEnd(ended)
			failed, summary := ended.Failed == classify.Yes, ""
			if d := r.verdict(); d.Outcome != semconv.RunOutcomeUnset {
				attrs = spanfacts.AppendRunVerdict(attrs, &d)
				if d.Failed() {
					plan := r.Plan()
					attrs = spanfacts.AppendPlan(attrs, &d, &plan)
				}
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
	telemetry.Guard(func() { r.span.End(trace.WithTimestamp(now)) })
}

// verdict returns the verdict for the run's span. It is the zero value if no verdict is wanted or possible. The Collector
// cannot judge a run with requests in other traces.
func (r *Run) verdict() classify.Diagnosis {
	if !r.WritesVerdicts() && !r.elsewhere.Load() {
		return classify.Diagnosis{}
	}
	return r.Diagnosis()
}

// recordsTools reports whether every tool that runs is recorded: the author declares it, or one was.
func (r *Run) recordsTools() bool { return r.ToolsRecorded || r.recorded.Load() }

// changed starts a new generation of the run and of every run around it, after a change of a fact that their diagnoses rest
// on.
func (r *Run) changed() {
	for ; r != nil; r = r.parent {
		r.generation.Add(1)
	}
}

// abortIn returns, with mu held, the deliberate end that err reports. It is the zero value if err is a failure.
//
// An error that resembles a cancellation proves none: a context below the run's may have been cancelled to clean up after a
// failure, and err may join that failure. So either the run's own context has ended, or the application declares the abort:
// in err, or in the cause that ended the part of the run that ended last. (SDKs wrap errors, and http.Client replaces
// them.) The timeout of an http.Client which ended that part is a deadline if err is nothing else.
func (r *Run) abortIn(err error, now time.Time) classify.Abort {
	if d, ok := abort.InError(err); ok && !d.ByWatchdog() {
		return d.Abort
	}
	cancelled := netcause.Is(err, context.Canceled) || netcause.CancelledRPC(err)
	if own := abort.Of(r.ctx, now); own.Source != semconv.AbortSourceUnset && (cancelled || netcause.Cancelled(r.ctx, err, now)) {
		return own
	}
	if cancelled || netcause.Is(err, context.DeadlineExceeded) {
		a := r.lastAbort()
		if declared(a.Source) || a.Source == semconv.AbortSourceDeadline && allOf(err, context.DeadlineExceeded) {
			return a
		}
	}
	return classify.Abort{}
}

// declared reports whether an abort has a source that only an application declares.
func declared(s semconv.AbortSource) bool {
	switch s {
	case semconv.AbortSourceUser, semconv.AbortSourceApplication, semconv.AbortSourceShutdown, semconv.AbortSourceWatchdog:
		return true
	default:
		return false
	}
}

// lastAbort returns how the part of the run that ended last was aborted.
func (r *Run) lastAbort() (a classify.Abort) {
	var end time.Time
	for i := range r.requests {
		if q := &r.requests[i]; !q.End.Before(end) {
			a, end = q.Abort, q.End
		}
	}
	for _, t := range r.tools {
		if f := t.Facts(); !f.End.IsZero() && !f.End.Before(end) {
			a, end = f.Abort, f.End
		}
	}
	return a
}

// Identify writes the run of a request onto id.
func (r *Run) Identify(id *spanfacts.Identity) {
	if r != nil {
		id.RunID, id.RunInferred, id.Agent, id.ConversationID = r.id, r.Inferred, r.Agent, r.ConversationID
	}
}

// WritesVerdicts reports whether the spans of the run's parts carry the client's verdicts.
func (r *Run) WritesVerdicts() bool { return r != nil && (r.Verdicts || r.verdicts.Load()) }

// WriteVerdicts makes the spans of the run, and of the runs around it, carry the client's verdicts from now on, as the
// spans of a request of the run do.
func (r *Run) WriteVerdicts() {
	for ; r != nil && !r.verdicts.Load(); r = r.parent {
		r.verdicts.Store(true)
	}
}

// RequestBegan counts a request of the run. HistoryOutputs are the ids of the tool outputs in the request's history: they
// are delivered, so the spans of their tools wait no longer.
func (r *Run) RequestBegan(q OpenRequest, historyOutputs []string) {
	if r == nil {
		return
	}
	for run := r; run != nil; run = run.parent {
		run.begunRequests.Add(1)
	}
	var carried []*Tool
	r.mu.Lock()
	r.open = append(r.open, q)
	for _, t := range r.waiting {
		if t.callID != "" && slices.Contains(historyOutputs, t.callID) {
			carried = append(carried, t)
		}
	}
	r.mu.Unlock()
	r.changed()
	r.parent.adopt(r)
	for _, t := range carried {
		t.releaseSpan()
	}
}

// RequestEnded keeps the facts of a request of the run.
func (r *Run) RequestEnded(q OpenRequest, f *classify.Request) {
	if r == nil {
		return
	}
	r.mu.Lock()
	if i := slices.Index(r.open, q); i >= 0 {
		r.open = slices.Delete(r.open, i, i+1)
	}
	r.makeRoom()
	kept := *f
	if n := len(r.requests); n > 0 {
		before := &r.requests[n-1]
		kept.HistoryCalls = r.shared(f.HistoryCalls, before.HistoryCalls)
		kept.HistoryOutputs = r.shared(f.HistoryOutputs, before.HistoryOutputs)
	} else {
		r.historyBytes = idsBytes(f.HistoryCalls) + idsBytes(f.HistoryOutputs)
	}
	r.requests = append(r.requests, kept)
	r.past.requestEnded(f)
	r.measure()
	r.mu.Unlock()
	r.changed()
	r.parent.adopt(r)
	r.leaveParent()
}

// shared returns, with mu held, ids in the memory of before, the ids of the previous request, if they continue it. Every
// request has the ids of the whole history, and each id would be kept once for each request otherwise. Only the last
// request's ids are continued, so no memory is written twice.
func (r *Run) shared(ids, before []string) []string {
	if len(ids) == 0 {
		return ids
	}
	if from := slices.Index(before, ids[0]); from >= 0 { // of a long history the oldest ids are left out
		before = before[from:]
		if n := len(before); len(ids) >= n && slices.Equal(ids[:n], before) {
			r.historyBytes += idsBytes(ids[n:]) + stringBytes*(len(ids)-n) // the memory has room for more
			return append(before, ids[n:]...)
		}
	}
	r.historyBytes += idsBytes(ids)
	return ids
}

// ToolOf returns the last tool that executes this call, of the run or of a run around it, or nil.
func (r *Run) ToolOf(callID string) *Tool {
	if callID == "" {
		return nil
	}
	for ; r != nil; r = r.parent {
		if t := r.toolOf(callID); t != nil {
			return t
		}
	}
	return nil
}

// ExecutedSince reports whether the last tool that executes this call began at that time or later.
func (r *Run) ExecutedSince(callID string, t time.Time) bool {
	tool := r.ToolOf(callID)
	return tool != nil && !tool.begun.Before(t)
}

func (r *Run) toolOf(callID string) *Tool {
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

// addWaiting keeps a tool whose span stays open until the run ends at the latest. It reports false if the run has ended
// already.
func (r *Run) addWaiting(t *Tool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.facts.Ended == classify.Yes {
		return false
	}
	r.waiting = append(r.waiting, t)
	return true
}

// removeWaiting forgets a tool whose span has ended.
func (r *Run) removeWaiting(t *Tool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.waiting, t); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
	}
}

// Kept counts the objects that a run keeps in memory.
type Kept struct {
	Requests, Tools int // whose facts are kept one by one
	Waiting         int // tools whose spans wait for the output's delivery
	Runs            int // runs that began within the run and are not over
}

// Kept returns how much the run keeps in memory.
func (r *Run) Kept() Kept {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Kept{Requests: len(r.requests), Tools: len(r.tools), Waiting: len(r.waiting), Runs: len(r.inner.runs)}
}

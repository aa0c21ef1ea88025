package agentrun

import (
	"context"
	"time"

	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/live"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// StartInferred starts a run that the application does not declare, and its span. The span is a child of the span in ctx,
// and has a link to the span of the conversation's previous run, if previous is valid.
func StartInferred(ctx context.Context, c Config, start time.Time, previous trace.SpanContext) *Run {
	c.Inferred, c.ToolsRecorded = true, false
	run := &Run{Config: c, ctx: context.Background()}
	// Not the caller's context: the run outlives the request.
	ctx = trace.ContextWithSpan(run.ctx, trace.SpanFromContext(ctx))
	var opts []trace.SpanStartOption
	if previous.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: previous}))
	}
	run.start(ctx, start, opts...)
	return run
}

// Recording reports whether the run's span is recorded.
func (r *Run) Recording() bool { return r.recording }

// AddTrace notes the trace of a request of the run.
func (r *Run) AddTrace(id trace.TraceID) {
	if id != r.span.SpanContext().TraceID() {
		r.elsewhere.Store(true)
	}
}

// Over reports whether the run has ended.
func (r *Run) Over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.facts.Ended == classify.Yes
}

// SetPrevious sets the state of the conversation before the run. It is called before the first request of the run has
// ended.
func (r *Run) SetPrevious(p semconv.RunPrevious) {
	r.mu.Lock()
	r.facts.Previous = p
	r.mu.Unlock()
	r.changed()
}

// InferredEnd is how an inferred run ended.
type InferredEnd struct {
	At time.Time
	By semconv.RunEnd
	// Last are the facts of the request that ended the run, if that was a failure.
	Last      *classify.Request
	ErrorType string
	// Repeated is how often in a row the run repeated a step.
	Repeated int
}

// Settle sets how the run ends if no further request joins it. It is for a run of which nothing is open, as it has its
// answer: a shutdown does not abort it.
func (r *Run) Settle(e InferredEnd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled = &e
}

// Unsettle takes [Run.Settle] back: a further request has joined the run.
func (r *Run) Unsettle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled = nil
}

// shutdownEnd is how a shutdown ends the run.
func (r *Run) shutdownEnd() InferredEnd {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled != nil {
		return *r.settled
	}
	return InferredEnd{At: time.Now(), By: semconv.RunEndShutdown}
}

// minLoop is how many repetitions of a step are worth recording: one may be a check.
const minLoop = 2

// EndInferred ends an inferred run. Calls after the first end do nothing.
func (r *Run) EndInferred(e InferredEnd) {
	defer telemetry.Recover()
	ended, first := r.settleInferred(&e)
	if !first {
		return
	}
	r.changed()
	live.Remove(r.Live, r)
	if e.Repeated >= minLoop && r.recording {
		telemetry.Guard(func() { r.span.SetAttributes(semconv.RunLoop(e.Repeated)) })
	}
	r.endSpan(&ended, e.At)
}

// settleInferred makes the run's own facts final, if they are not.
func (r *Run) settleInferred(e *InferredEnd) (ended classify.Run, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &r.facts
	if f.Ended == classify.Yes {
		return classify.Run{}, false
	}
	f.Ended, f.End, f.EndedBy = classify.Yes, e.At, e.By
	f.AnnouncedRequests = classify.Counted(int(r.begunRequests.Load()))
	switch {
	case e.By == semconv.RunEndShutdown:
		f.Abort.Source = semconv.AbortSourceShutdown
	case e.By == semconv.RunEndAnswer:
		f.Failed = classify.No
	case e.By == semconv.RunEndFailure && e.Last != nil && e.Last.Abort.Source != semconv.AbortSourceUnset:
		f.Abort = e.Last.Abort
	case e.By == semconv.RunEndFailure:
		f.Failed, f.ErrorType = classify.Yes, e.ErrorType
	}
	return *f, true
}

// Observed is an execution of a tool that only the conversation shows.
type Observed struct {
	CallID, Name string
	From, To     time.Time // from the answer with the call to the output, or to the end of the conversation
	Outcome      semconv.ToolOutcome

	// Delivery of the output; unset is pending: the request with it may fail, and a further attempt may lack it.
	Delivery      semconv.OutputDelivery
	DeliveryError string // error type of a failed delivery
	// Unanswered: the conversation ended before the call had an output. The call may not have been executed.
	Unanswered bool
}

// Observe records an execution of a tool that the conversation shows, with its span.
func (r *Run) Observe(o Observed) {
	defer telemetry.Recover()
	t := &Tool{ctx: r.ctx, run: r, live: r.Live, callID: wire.SafeID(o.CallID), begun: o.From, effect: semconv.ToolEffectUnknown}
	t.facts = classify.Tool{
		Start: o.From, End: o.To, CallID: t.callID, Name: wire.SafeName(o.Name),
		Effect: t.effect, Outcome: o.Outcome, Delivery: o.Delivery, DeliveryError: o.DeliveryError, FromHistory: true,
	}
	if o.Delivery == semconv.OutputDeliveryUnset && !o.Unanswered {
		t.facts.Delivery = semconv.OutputDeliveryPending
	}
	if o.Outcome == semconv.ToolOutcomeFailed {
		t.facts.ErrorType = otelsemconv.ErrorTypeOther.Value.AsString()
	}
	name := "execute_tool"
	if t.facts.Name != "" {
		name += " " + t.facts.Name
	}
	ctx := trace.ContextWithSpan(r.ctx, r.span)
	_, t.span = telemetry.StartSpan(ctx, func() (context.Context, trace.Span) {
		attrs := spanfacts.ToolStart(&t.facts, r.id)
		if r.Inferred {
			attrs = append(attrs, semconv.RunInferred(true))
		}
		ctx, span := telemetry.Tracer(ctx, r.TracerProvider).Start(ctx, name, trace.WithTimestamp(o.From), trace.WithAttributes(attrs...))
		t.recording = span.IsRecording()
		return ctx, span
	})
	for run := r; run != nil && !r.Inferred; run = run.parent {
		run.begunTools.Add(1)
	}
	r.mu.Lock()
	r.makeRoom()
	r.tools = append(r.tools, t)
	r.past.toolBegan(t)
	r.measure()
	r.mu.Unlock()
	r.changed()
	t.endSpan()
	t.mu.Lock()
	t.span = telemetry.NoSpan // the run keeps the tool, and would keep all of the SDK's span
	t.mu.Unlock()
}

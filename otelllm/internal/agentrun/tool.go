package agentrun

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/abort"
	"github.com/otelllm/otelllm-go/otelllm/internal/live"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// OutputWait bounds how long the span of a tool that has ended waits for its output's delivery. Batches of spans take as
// long to leave by default.
const OutputWait = 5 * time.Second

// Tool is one execution of one tool call. It is safe for concurrent use, and a nil *Tool does nothing.
type Tool struct {
	ctx       context.Context // the caller's; it tells who aborted the tool
	run       *Run            // nil: outside of a run
	span      trace.Span
	recording bool // the span is recorded
	live      *live.Registry
	callID    string // in its recorded form
	begun     time.Time
	effect    semconv.ToolEffect

	mu sync.Mutex
	// Everything below is guarded by mu.
	facts     classify.Tool
	answered  bool // a request that carried the output ran to its end
	refusable bool // the output was sent, and the server may refuse it yet
	events    int  // number of events of deliveries
	spanEnded bool
	timer     *time.Timer // while the span waits for the delivery
}

// ToolConfig configures a tool.
type ToolConfig struct {
	CallID, Name string
	Effect       semconv.ToolEffect

	// The following apply outside of a run. A tool of a run uses the fields of the run.
	TracerProvider trace.TracerProvider
	Live           *live.Registry
}

// StartTool starts the execution of a tool call and its span, `execute_tool {tool}`. It belongs to the run of ctx, which
// from then on counts as one that records every tool. The model calls of a tool of a run are no attempts of the call during
// which it runs.
func StartTool(ctx context.Context, c ToolConfig) (context.Context, *Tool) {
	t := &Tool{ctx: ctx, run: Of(ctx), callID: wire.SafeID(c.CallID), live: c.Live}
	if t.run != nil {
		t.live, c.TracerProvider = t.run.Live, nil
		if LastRequestOf(ctx) != nil { // the run has the effects of the tool
			ctx = context.WithValue(ctx, lastRequestKey{}, (*LastRequest)(nil))
		}
	}
	t.begun = time.Now()
	t.facts = classify.Tool{Start: t.begun, CallID: t.callID, Name: wire.SafeName(c.Name), Effect: c.Effect}
	if t.facts.Effect.String() == "" {
		t.facts.Effect = semconv.ToolEffectUnknown
	}
	t.effect = t.facts.Effect
	spanName, runID := "execute_tool", ""
	if t.facts.Name != "" {
		spanName += " " + t.facts.Name
	}
	if t.run != nil {
		runID = t.run.id
	}
	ctx, t.span = telemetry.StartSpan(ctx, func() (context.Context, trace.Span) {
		ctx, span := telemetry.Tracer(ctx, c.TracerProvider).Start(ctx, spanName, trace.WithTimestamp(t.facts.Start),
			trace.WithAttributes(spanfacts.ToolStart(&t.facts, runID)...))
		t.recording = span.IsRecording()
		return ctx, span
	})
	t.run.toolBegan(t)
	live.AddTool(t.live, t)
	return ctx, t
}

// Span returns the tool's span.
func (t *Tool) Span() trace.Span { return t.span }

// Shutdown ends the execution, as aborted by shutdown.
func (t *Tool) Shutdown() { t.end(abort.Shutdown, false) }

// End ends the execution with the tool's error, or nil. Calls after the first do nothing.
//
// Under a run the span of the tool ends now but leaves later: when its output is delivered, with the end of the run, or
// after [OutputWait], whichever comes first.
func (t *Tool) End(err error) { t.end(err, false) }

// EndPanic ends the execution of a tool that panicked.
func (t *Tool) EndPanic() { t.end(nil, true) }

// panicType is the error.type of a run or tool that panicked.
const panicType = "panic"

func (t *Tool) end(err error, panicked bool) {
	if t == nil {
		return
	}
	defer telemetry.Recover()
	now := time.Now()
	first, final := t.settle(err, panicked, now)
	if !first {
		return
	}
	live.Remove(t.live, t)
	t.run.changed()
	if final || t.run == nil || !t.run.addWaiting(t) {
		t.endSpan()
		return
	}
	timer := time.AfterFunc(OutputWait, t.endWaiting)
	t.mu.Lock()
	t.timer = timer
	ended := t.spanEnded
	t.mu.Unlock()
	if ended { // meanwhile, by another goroutine
		timer.Stop()
		t.run.removeWaiting(t)
	}
}

// settle fills in how the execution ended. It reports whether this is its first end, and whether the span has nothing to
// wait for.
func (t *Tool) settle(err error, panicked bool, now time.Time) (first, final bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := &t.facts
	if !f.End.IsZero() {
		return false, false
	}
	f.End = now
	if panicked {
		f.Outcome, f.ErrorType = semconv.ToolOutcomeFailed, panicType
	} else {
		telemetry.Guard(func() { toolResult(f, t.ctx, err, now) })
	}
	if f.Delivery == semconv.OutputDeliveryUnset && f.Outcome != semconv.ToolOutcomeInterrupted {
		f.Delivery = semconv.OutputDeliveryPending
	}
	if f.Outcome == semconv.ToolOutcomeInterrupted && t.recording {
		telemetry.Guard(func() { t.span.AddEvent(semconv.EventAbort, trace.WithTimestamp(now)) })
	}
	return true, f.Delivery == semconv.OutputDeliverySent && !t.refusable || !t.recording
}

// RecordOutputSent records that the tool's output, or its error, has reached the model outside of the next request's
// history.
func (t *Tool) RecordOutputSent() {
	t.delivered(semconv.OutputDeliverySent, "", semconv.EventToolOutputSent)
}

// RecordOutputCached records that the application has kept the tool's output, or its error, to send it later: it is not
// lost, and has not reached the model yet.
func (t *Tool) RecordOutputCached() {
	t.delivered(semconv.OutputDeliveryCached, "", "")
}

// RecordOutputFailure records that sending the tool's output outside of the next request's history failed. It never
// replaces the tool's own error.
func (t *Tool) RecordOutputFailure(err error) {
	errorType := "_OTHER"
	if err != nil {
		errorType = netcause.RootType(err)
	}
	t.delivered(semconv.OutputDeliveryFailed, errorType, semconv.EventToolOutputFailed)
}

// OutputWritten is [Tool.RecordOutputSent] for an output that the server may still refuse: one of OutputAccepted and
// OutputRefused may follow.
func (t *Tool) OutputWritten() {
	if t == nil {
		return
	}
	t.mu.Lock()
	if t.facts.Delivery != semconv.OutputDeliverySent {
		t.refusable = true
	}
	t.mu.Unlock()
	t.RecordOutputSent()
}

// OutputAccepted records that the server cannot refuse the output of OutputWritten any more.
func (t *Tool) OutputAccepted() {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.refusable = false
	waits := !t.facts.End.IsZero() && !t.spanEnded
	t.mu.Unlock()
	if waits {
		t.endWaiting()
	}
}

// OutputRefused is [Tool.RecordOutputFailure] for an output that OutputWritten recorded and that the server refused.
func (t *Tool) OutputRefused(err error) {
	if t == nil {
		return
	}
	t.mu.Lock()
	if t.refusable {
		t.refusable = false
		t.facts.Delivery = semconv.OutputDeliveryPending
	}
	t.mu.Unlock()
	t.RecordOutputFailure(err)
}

// maxDeliveries bounds the events of one tool's deliveries: an application may retry without end.
const maxDeliveries = 8

func (t *Tool) delivered(d semconv.OutputDelivery, errorType, event string) {
	if t == nil {
		return
	}
	defer telemetry.Recover()
	now := time.Now()
	isNew, late, done := t.deliver(d, errorType, event, now)
	if !isNew {
		return
	}
	t.run.changed()
	switch {
	case done:
		t.releaseSpan()
	case late:
		t.run.recordLateDelivery(t.callID, event, errorType, now)
	}
}

// deliver takes the result of a delivery. It reports whether the result is new, because the output had not arrived before;
// whether the span has ended without the event; and whether the span has nothing to wait for any more.
//
// A failed attempt stays among the facts when a later one succeeds.
func (t *Tool) deliver(d semconv.OutputDelivery, errorType, event string, now time.Time) (isNew, late, done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := &t.facts
	if f.Delivery == semconv.OutputDeliverySent {
		return false, false, false // an output that has arrived cannot be lost any more
	}
	f.Delivery = d
	if errorType != "" {
		f.DeliveryError = errorType
	}
	// One event is reserved for the output that arrives.
	event, t.events = deliveryEvent(event, d, t.events)
	if event != "" && !t.spanEnded && t.recording {
		telemetry.Guard(func() { t.span.AddEvent(event, trace.WithTimestamp(now)) })
	}
	return true, t.spanEnded && event != "", !t.spanEnded && !f.End.IsZero() && d == semconv.OutputDeliverySent
}

// deliveryEvent returns the event to record, "" after too many, and how many there are now.
func deliveryEvent(event string, d semconv.OutputDelivery, before int) (string, int) {
	if event == "" || d != semconv.OutputDeliverySent && before >= maxDeliveries-1 {
		return "", before
	}
	return event, before + 1
}

// releaseSpan ends a span that waits, unless the server may still refuse the output.
func (t *Tool) releaseSpan() {
	t.mu.Lock()
	refusable := t.refusable
	t.mu.Unlock()
	if !refusable {
		t.endWaiting()
	}
}

// endWaiting ends a span that waits. The run forgets the tool after that, so that the end of the run finds each span that
// has not left.
func (t *Tool) endWaiting() {
	t.endSpan()
	t.run.removeWaiting(t)
}

// endSpan ends the span, once, with the facts so far. The span has ended when endSpan returns, whichever caller ended it.
func (t *Tool) endSpan() {
	defer telemetry.Recover()
	var verdict classify.Diagnosis
	if t.run.WritesVerdicts() {
		f := t.Facts() // before the lock: judging the run reads all its tools
		telemetry.Guard(func() { verdict = t.run.JudgeTool(&f) })
	}
	t.endSpanWith(&verdict)
}

// endSpanWith is endSpan with the verdict on the tool.
func (t *Tool) endSpanWith(verdict *classify.Diagnosis) {
	defer telemetry.Recover()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spanEnded {
		return
	}
	t.spanEnded = true
	if t.timer != nil {
		t.timer.Stop()
	}
	if t.recording {
		telemetry.Guard(func() {
			t.span.SetAttributes(spanfacts.AppendVerdict(spanfacts.ToolEnd(&t.facts), verdict)...)
			if t.facts.ErrorType != "" {
				t.span.SetStatus(codes.Error, "")
			}
		})
	}
	t.span.End(trace.WithTimestamp(t.facts.End))
}

// Facts returns the facts of the tool so far.
func (t *Tool) Facts() classify.Tool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.facts
}

// setAnswered records that a request that carried the output ran to its end.
func (t *Tool) setAnswered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answered = true
}

func (t *Tool) isAnswered() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answered
}

// recordLateDelivery records a delivery after the end of the tool's span, as an event of the run's span, which is still
// open.
func (r *Run) recordLateDelivery(callID, event, errorType string, now time.Time) {
	if r == nil || !r.recording {
		return
	}
	attrs := make([]attribute.KeyValue, 0, 2)
	if callID != "" {
		attrs = append(attrs, otelsemconv.GenAIToolCallID(callID))
	}
	if errorType != "" {
		attrs = append(attrs, semconv.ToolOutputError(errorType))
	}
	r.span.AddEvent(event, trace.WithTimestamp(now), trace.WithAttributes(attrs...))
}

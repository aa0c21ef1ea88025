package otelllm

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// Effect says what executing a tool may do. The zero value is recorded as unknown,
// which is treated with the same caution as EffectNonIdempotent.
type Effect = semconv.ToolEffect

// Effects of a tool.
const (
	EffectReadOnly      = semconv.ToolEffectReadOnly      // it changes nothing
	EffectIdempotent    = semconv.ToolEffectIdempotent    // twice is as once
	EffectNonIdempotent = semconv.ToolEffectNonIdempotent // twice is not as once
	EffectUnknown       = semconv.ToolEffectUnknown       // not declared
)

// ToolCall is a call that the model made and the application executes.
type ToolCall struct {
	// ID is the call's id as the model gave it. With it the call is found in the
	// histories of later requests.
	ID string
	// Name is the tool's name. As the model may have chosen it, one that is more
	// than 64 bytes of [A-Za-z0-9_.:/-] is recorded as "redacted".
	Name string
	// Effect is what executing the tool may do.
	Effect Effect
}

// outputWait bounds how long the span of a tool that has ended stays open for word
// of its output's delivery. It is what the SDK's batches take to leave anyway.
const outputWait = 5 * time.Second

// Tool is one execution of one tool call. It is safe for concurrent use, and a nil
// *Tool does nothing.
type Tool struct {
	ctx       context.Context // the caller's: aborts are read off it
	run       *Run            // nil: outside of a run
	span      trace.Span
	recording bool   // the span is
	callID    string // as it is recorded
	begun     time.Time
	effect    Effect

	mu sync.Mutex
	// Everything below is guarded by mu.
	facts     classify.Tool
	answered  bool // a request that carried the output ran to its end
	refusable bool // the output was sent, and the server may refuse it yet
	events    int  // of deliveries
	spanEnded bool
	timer     *time.Timer // while the span waits for word of the delivery
}

// StartTool starts the execution of a tool call and its span, `execute_tool
// {tool}`. It belongs to the run of ctx, which from then on counts as one that records
// every tool (see [WithToolsRecorded]). End it with what the tool returned.
func StartTool(ctx context.Context, call ToolCall) (context.Context, *Tool) {
	t := &Tool{ctx: ctx, run: runOf(ctx), callID: wire.SafeID(call.ID)}
	t.begun = time.Now()
	t.facts = classify.Tool{Start: t.begun, CallID: t.callID, Name: wire.SafeName(call.Name), Effect: call.Effect}
	if t.facts.Effect.String() == "" {
		t.facts.Effect = semconv.ToolEffectUnknown
	}
	t.effect = t.facts.Effect
	name, runID := "execute_tool", ""
	if t.facts.Name != "" {
		name += " " + t.facts.Name
	}
	if t.run != nil {
		runID = t.run.id
	}
	ctx, t.span = started(ctx, func() (context.Context, trace.Span) {
		ctx, span := tracerOf(ctx, nil).Start(ctx, name, trace.WithTimestamp(t.facts.Start),
			trace.WithAttributes(spanfacts.ToolStart(&t.facts, runID)...))
		t.recording = span.IsRecording()
		return ctx, span
	})
	t.run.toolBegan(t)
	open.addTool(t)
	return ctx, t
}

// End ends the execution with what the tool returned. The outcome is read off the
// types of err: nil succeeded; [ErrToolRejected] and [ErrToolInvalidInput] as they say;
// an [*AbortError] or a cancelled context interrupted; context.DeadlineExceeded, or
// the cause that ctx has for its own deadline, timed out; anything else failed.
// [FailedBeforeEffect] adds that nothing happened. Only types are recorded, never
// messages. Calls after the first do nothing. A tool that may panic is better ended by
// [Tool.Done].
//
// Under a run the span of the tool ends now but leaves later: with [Tool.RecordOutputSent],
// with the first request that carries its output, with the end of the run, or after
// five seconds, whichever comes first. So word of the output's delivery, which comes
// after the end, is still on the span. Where the output was sent in a [Realtime]
// session, whose server may refuse it, the span waits for a response that was asked
// for after it to begin. Outside of a run it leaves at once; report the delivery
// before, if there is one.
func (t *Tool) End(err error) {
	if t != nil {
		t.end(err, false)
	}
}

// Done is [Tool.End] as a deferred call: it ends the execution with *err, and with a
// panic of the function that defers it. The panic goes on with the same value.
//
//	func run(ctx context.Context, call otelllm.ToolCall) (err error) {
//		ctx, tool := otelllm.StartTool(ctx, call)
//		defer tool.Done(&err)
//
// A panic is recorded as a failure of the error.type "panic". A nil err is one that is
// nil. Done has to be deferred itself, not called by a deferred function.
func (t *Tool) Done(err *error) {
	if t == nil {
		return
	}
	if p := recover(); p != nil {
		t.end(nil, true)
		panic(p)
	}
	t.end(errorAt(err), false)
}

// errorAt is *err, and nil for a nil err.
func errorAt(err *error) error {
	if err == nil {
		return nil
	}
	return *err
}

// panicType is the error.type of what ended by a panic.
const panicType = "panic"

func (t *Tool) end(err error, panics bool) {
	defer contained()
	now := time.Now()
	first, final := t.settle(err, panics, now)
	if !first {
		return
	}
	open.removeTool(t)
	t.run.changed()
	if final || t.run == nil || !t.run.wait(t) {
		t.endSpan()
		return
	}
	timer := time.AfterFunc(outputWait, t.letGo)
	t.mu.Lock()
	t.timer = timer
	ended := t.spanEnded
	t.mu.Unlock()
	if ended { // meanwhile, by another goroutine
		timer.Stop()
		t.run.unwait(t)
	}
}

// settle fills in how the execution ended. It reports whether this is its first end,
// and whether the span has nothing to wait for.
func (t *Tool) settle(err error, panics bool, now time.Time) (first, final bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := &t.facts
	if !f.End.IsZero() {
		return false, false
	}
	f.End = now
	if panics {
		f.Outcome, f.ErrorType = semconv.ToolOutcomeFailed, panicType
	} else {
		quietly(func() { toolResult(f, t.ctx, err, now) })
	}
	if f.Delivery == semconv.OutputDeliveryUnset && f.Outcome != semconv.ToolOutcomeInterrupted {
		f.Delivery = semconv.OutputDeliveryPending
	}
	if f.Outcome == semconv.ToolOutcomeInterrupted && t.recording {
		quietly(func() { t.span.AddEvent(semconv.EventAbort, trace.WithTimestamp(now)) })
	}
	return true, f.Delivery == semconv.OutputDeliverySent && !t.refusable || !t.recording
}

// RecordOutputSent records that the tool's output, or its error, has
// reached the model on a way of its own, outside of the next request's history.
func (t *Tool) RecordOutputSent() {
	t.delivered(semconv.OutputDeliverySent, "", semconv.EventToolOutputSent)
}

// RecordOutputCached records that the tool's output, or its error, has been
// kept by the application to be sent later: it is not lost, and not with the model
// yet. An [Tool.RecordOutputSent] or [Tool.RecordOutputFailure] may follow.
func (t *Tool) RecordOutputCached() {
	t.delivered(semconv.OutputDeliveryCached, "", "")
}

// RecordOutputFailure records that sending the tool's output on a way of its own failed.
// It never replaces the tool's own error. An [Tool.RecordOutputSent] may follow, when
// sending again went well.
func (t *Tool) RecordOutputFailure(err error) {
	errorType := "_OTHER"
	if err != nil {
		errorType = netcause.RootType(err)
	}
	t.delivered(semconv.OutputDeliveryFailed, errorType, semconv.EventToolOutputFailed)
}

// outputWritten is RecordOutputSent where the server may refuse the output yet: one of
// outputAccepted and outputRefused may follow.
func (t *Tool) outputWritten() {
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

// outputAccepted: what outputWritten recorded cannot be refused any more.
func (t *Tool) outputAccepted() {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.refusable = false
	waits := !t.facts.End.IsZero() && !t.spanEnded
	t.mu.Unlock()
	if waits {
		t.letGo()
	}
}

// outputRefused is RecordOutputFailure where the server refused what outputWritten recorded:
// that had not arrived.
func (t *Tool) outputRefused() {
	if t == nil {
		return
	}
	t.mu.Lock()
	if t.refusable {
		t.refusable = false
		t.facts.Delivery = semconv.OutputDeliveryPending
	}
	t.mu.Unlock()
	t.RecordOutputFailure(outputRefused{})
}

// outputRefused is the error of a delivery that the server refused. Its type is
// what is recorded.
type outputRefused struct{}

func (outputRefused) Error() string { return "otelllm: the server refused the tool's output" }

// maxDeliveries bounds the events of one tool's deliveries: sending may be tried again
// for ever.
const maxDeliveries = 8

func (t *Tool) delivered(d semconv.OutputDelivery, errorType, event string) {
	if t == nil {
		return
	}
	defer contained()
	now := time.Now()
	told, gone, leave := t.deliver(d, errorType, event, now)
	if !told {
		return
	}
	t.run.changed()
	switch {
	case leave:
		t.leave()
	case gone:
		t.run.lateDelivery(t.callID, event, errorType, now)
	}
}

// deliver takes what came of a delivery. Told: the output had not arrived before. Gone:
// the span has left without the event. Leave: the span has nothing to wait for any more.
//
// An attempt that failed stays among the facts when a later one goes well.
func (t *Tool) deliver(d semconv.OutputDelivery, errorType, event string, now time.Time) (told, gone, leave bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := &t.facts
	if f.Delivery == semconv.OutputDeliverySent {
		return false, false, false // what has arrived does not get lost any more
	}
	f.Delivery = d
	if errorType != "" {
		f.DeliveryError = errorType
	}
	// The last event is kept for the output that arrives.
	event, t.events = deliveryEvent(event, d, t.events)
	if event != "" && !t.spanEnded && t.recording {
		quietly(func() { t.span.AddEvent(event, trace.WithTimestamp(now)) })
	}
	return true, t.spanEnded && event != "", !t.spanEnded && !f.End.IsZero() && d == semconv.OutputDeliverySent
}

// deliveryEvent is event, or none where there have been too many; and how many there are.
func deliveryEvent(event string, d semconv.OutputDelivery, before int) (string, int) {
	if event == "" || d != semconv.OutputDeliverySent && before >= maxDeliveries-1 {
		return "", before
	}
	return event, before + 1
}

// leave lets a span go that waits, unless it has to wait for a refusal.
func (t *Tool) leave() {
	t.mu.Lock()
	refusable := t.refusable
	t.mu.Unlock()
	if !refusable {
		t.letGo()
	}
}

// letGo lets a span go that waits. Only then the run forgets it: the end of the run
// is to find it until it has left.
func (t *Tool) letGo() {
	t.endSpan()
	t.run.unwait(t)
}

// endSpan lets the span go, once, with what is known by then. It has gone when
// endSpan returns, whatever lets it go.
func (t *Tool) endSpan() {
	defer contained()
	var verdict classify.Diagnosis
	if t.run.writesVerdicts() {
		f := t.seen() // before the lock: judging the run looks at all its tools
		quietly(func() { verdict = t.run.verdictOnTool(&f) })
	}
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
		quietly(func() {
			t.span.SetAttributes(spanfacts.AppendVerdict(spanfacts.ToolEnd(&t.facts), &verdict)...)
			if t.facts.ErrorType != "" {
				t.span.SetStatus(codes.Error, "")
			}
		})
	}
	t.span.End(trace.WithTimestamp(t.facts.End))
}

// seen is what is known of the tool so far.
func (t *Tool) seen() classify.Tool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.facts
}

// answer: a request that carried the output ran to its end.
func (t *Tool) answer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answered = true
}

func (t *Tool) isAnswered() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answered
}

// lateDelivery keeps word of a delivery that came after the tool's span had left:
// as an event of the run, the only span that is still open.
func (r *Run) lateDelivery(callID, event, errorType string, now time.Time) {
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

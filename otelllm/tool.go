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
// which is treated with the same caution as NonIdempotent.
type Effect = semconv.ToolEffect

// Effects of a tool.
const (
	ReadOnly      = semconv.ToolEffectReadOnly      // it changes nothing
	Idempotent    = semconv.ToolEffectIdempotent    // twice is as once
	NonIdempotent = semconv.ToolEffectNonIdempotent // twice is not as once
	EffectUnknown = semconv.ToolEffectUnknown       // nobody has said
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
	ctx    context.Context // the caller's: aborts are read off it
	run    *Run            // nil: outside of a run
	span   trace.Span
	callID string // as it is recorded

	mu sync.Mutex
	// Everything below is guarded by mu.
	facts     classify.Tool
	refusable bool // the output was sent, and the server may refuse it yet
	spanEnded bool
	timer     *time.Timer // while the span waits for word of the delivery
}

// StartTool starts the execution of a tool call and its span, `execute_tool
// {tool}`. It belongs to the run of ctx. End it with what the tool returned.
func StartTool(ctx context.Context, call ToolCall) (context.Context, *Tool) {
	t := &Tool{ctx: ctx, run: runOf(ctx), callID: wire.SafeID(call.ID)}
	t.facts = classify.Tool{Start: time.Now(), CallID: t.callID, Name: wire.SafeName(call.Name), Effect: call.Effect}
	if t.facts.Effect.String() == "" {
		t.facts.Effect = semconv.ToolEffectUnknown
	}
	name, runID := "execute_tool", ""
	if t.facts.Name != "" {
		name += " " + t.facts.Name
	}
	if t.run != nil {
		runID = t.run.id
	}
	ctx, t.span = tracerOf(ctx, nil).Start(ctx, name, trace.WithTimestamp(t.facts.Start),
		trace.WithAttributes(spanfacts.ToolStart(&t.facts, runID)...))
	t.run.toolBegan(t)
	open.addTool(t)
	return ctx, t
}

// End ends the execution with what the tool returned. The outcome is read off the
// types of err: nil succeeded; [ErrRejected] and [ErrInvalidInput] as they say;
// an [*AbortError] or a cancelled context interrupted; context.DeadlineExceeded, or
// the cause that ctx has for its own deadline, timed out; anything else failed.
// [FailedBeforeEffect] adds that nothing happened. Only types are recorded, never
// messages. Calls after the first do nothing.
//
// Under a run the span of the tool ends now but leaves later: with [Tool.OutputSent],
// with the first request that carries its output, with the end of the run, or after
// five seconds, whichever comes first. So word of the output's delivery, which comes
// after the end, is still on the span. Where the output was sent in a [Realtime]
// session, whose server may refuse it, the span waits for a response that was asked
// for after it to begin. Outside of a run it leaves at once; report the delivery
// before, if there is one.
func (t *Tool) End(err error) {
	if t == nil {
		return
	}
	now := time.Now()
	t.mu.Lock()
	if !t.facts.End.IsZero() {
		t.mu.Unlock()
		return
	}
	f := &t.facts
	f.End = now
	toolResult(f, t.ctx, err, now)
	if f.Delivery == semconv.OutputDeliveryUnset && f.Outcome != semconv.ToolOutcomeInterrupted {
		f.Delivery = semconv.OutputDeliveryPending
	}
	if f.Outcome == semconv.ToolOutcomeInterrupted && t.span.IsRecording() {
		t.span.AddEvent(semconv.EventAbort, trace.WithTimestamp(now))
	}
	open.removeTool(t)
	final := f.Delivery == semconv.OutputDeliverySent && !t.refusable || !t.span.IsRecording()
	t.mu.Unlock()

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

// OutputSent records that the tool's output, or the word of its failure, has
// reached the model on a way of its own, outside of the next request's history.
func (t *Tool) OutputSent() { t.delivered(semconv.OutputDeliverySent, "", semconv.EventToolOutputSent) }

// OutputCached records that the tool's output, or the word of its failure, has been
// kept by the application to be sent later: it is not lost, and not with the model
// yet. An [Tool.OutputSent] or [Tool.OutputFailed] may follow.
func (t *Tool) OutputCached() {
	t.delivered(semconv.OutputDeliveryCached, "", "")
}

// OutputFailed records that sending the tool's output on a way of its own failed.
// It never replaces the tool's own error. An [Tool.OutputSent] may follow, when
// sending again went well.
func (t *Tool) OutputFailed(err error) {
	errorType := "_OTHER"
	if err != nil {
		errorType = netcause.RootType(err)
	}
	t.delivered(semconv.OutputDeliveryFailed, errorType, semconv.EventToolOutputFailed)
}

// outputWritten is OutputSent where the server may refuse the output yet: one of
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
	t.OutputSent()
}

// outputAccepted: what outputWritten told of cannot be refused any more.
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

// outputRefused is OutputFailed where the server refused what outputWritten told of:
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
	t.OutputFailed(outputRefused{})
}

// outputRefused is the error of a delivery that the server refused. Its type is
// what is recorded.
type outputRefused struct{}

func (outputRefused) Error() string { return "otelllm: the server refused the tool's output" }

func (t *Tool) delivered(d semconv.OutputDelivery, errorType, event string) {
	if t == nil {
		return
	}
	now := time.Now()
	t.mu.Lock()
	if t.facts.Delivery == semconv.OutputDeliverySent {
		t.mu.Unlock()
		return // what has arrived does not get lost any more
	}
	t.facts.Delivery, t.facts.DeliveryError = d, errorType
	gone, id := t.spanEnded, t.facts.CallID
	if !gone && event != "" && t.span.IsRecording() {
		t.span.AddEvent(event, trace.WithTimestamp(now))
	}
	leave := !gone && !t.facts.End.IsZero() && d == semconv.OutputDeliverySent
	t.mu.Unlock()

	switch {
	case leave:
		t.leave()
	case gone && event != "":
		t.run.lateDelivery(id, event, errorType, now)
	}
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
// endSpan returns, whoever lets it go.
func (t *Tool) endSpan() {
	var verdict classify.Diagnosis
	if t.run.writesVerdicts() {
		f := t.seen() // before the lock: judging the run looks at all its tools
		verdict = t.run.verdictOnTool(&f)
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
	if t.span.IsRecording() {
		t.span.SetAttributes(spanfacts.AppendVerdict(spanfacts.ToolEnd(&t.facts), &verdict)...)
		if t.facts.ErrorType != "" {
			t.span.SetStatus(codes.Error, "")
		}
	}
	t.span.End(trace.WithTimestamp(t.facts.End))
}

// seen is what is known of the tool so far.
func (t *Tool) seen() classify.Tool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.facts
}

// lateDelivery keeps word of a delivery that came after the tool's span had left:
// as an event of the run, the only span that is still open.
func (r *Run) lateDelivery(callID, event, errorType string, now time.Time) {
	if r == nil || !r.span.IsRecording() {
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

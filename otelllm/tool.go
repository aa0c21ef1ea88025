package otelllm

import (
	"context"

	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/semconv"
)

// Effect says what executing a tool may change. The zero value, for a tool whose
// effect is not declared, is recorded as unknown, which is treated with the same caution as
// [EffectNonIdempotent].
type Effect = semconv.ToolEffect

// Effects of a tool.
const (
	EffectReadOnly      = semconv.ToolEffectReadOnly      // it changes nothing
	EffectIdempotent    = semconv.ToolEffectIdempotent    // executing it twice has the effect of once
	EffectNonIdempotent = semconv.ToolEffectNonIdempotent // every execution has an effect
)

// ToolCall is a call that the model made and the application executes.
type ToolCall struct {
	// ID is the id that the model gave the call. By it the call is found in the
	// histories of later requests.
	ID string
	// Name is the tool's name. The model may have chosen it, so a name that is not at
	// most 64 bytes of [A-Za-z0-9_.:/-] is recorded as "redacted".
	Name string
	// Effect is what executing the tool may change.
	Effect Effect
}

// Tool is one execution of one tool call. It is safe for concurrent use, and a nil
// *Tool does nothing.
type Tool struct{ tool *agentrun.Tool }

// StartTool starts the execution of a tool call and its span, `execute_tool {tool}`. It
// belongs to the run of ctx. From then on the run counts as one that records every tool;
// see [WithToolsRecorded]. End the execution with what the tool returned.
func StartTool(ctx context.Context, call ToolCall) (context.Context, *Tool) {
	return global.StartTool(ctx, call)
}

// StartTool is [StartTool]. A tool belongs to the Instrumentation of its run, and to i
// outside of any run.
func (i *Instrumentation) StartTool(ctx context.Context, call ToolCall) (context.Context, *Tool) {
	ctx, tool := agentrun.StartTool(ctx, agentrun.ToolConfig{
		CallID:         call.ID,
		Name:           call.Name,
		Effect:         call.Effect,
		TracerProvider: i.config.tracerProvider,
		Live:           &i.open,
	})
	return ctx, &Tool{tool}
}

// End ends the execution with the error that the tool returned, or nil. Calls after the
// first do nothing. Use [Tool.Done] for a tool that may panic.
//
// The outcome follows from the types of err:
//
//   - nil: succeeded
//   - [ErrToolRejected], [ErrToolInvalidInput]: rejected, invalid input
//   - an [*AbortError] or a cancelled context: interrupted
//   - context.DeadlineExceeded, or the cause that ctx has for its own deadline: timed out
//   - anything else: failed
//
// [FailedBeforeEffect] adds that nothing was changed. Only types are recorded, never
// messages.
//
// In a run, the span of the tool has its end time from now, but it is exported later: with
// [Tool.RecordOutputSent], with the first request that carries the output, with the end of
// the run, or after five seconds, whichever comes first. So it can still record the
// delivery of the output, which comes after the end. If the output was sent in a
// realtime session, whose server may refuse it, the span waits until a response begins
// that was requested after it. Outside of a run the span is exported at once; record the
// delivery before.
func (t *Tool) End(err error) {
	if t != nil {
		t.tool.End(err)
	}
}

// Done is [Tool.End] for use with defer. It ends the execution with *err, or with the
// panic of the function that defers it, and panics again with the same value.
//
//	func run(ctx context.Context, call otelllm.ToolCall) (err error) {
//		ctx, tool := otelllm.StartTool(ctx, call)
//		defer tool.Done(&err)
//
// A panic is recorded as a failure with the error.type "panic". A nil pointer counts as a
// nil error. Defer Done itself: it cannot see a panic if a deferred function calls it.
func (t *Tool) Done(err *error) {
	if t == nil {
		return
	}
	if p := recover(); p != nil {
		t.tool.EndPanic()
		panic(p)
	}
	t.tool.End(errorAt(err))
}

// RecordOutputSent records that the tool's output, or its error, has reached the model by
// other means than the next request's history.
func (t *Tool) RecordOutputSent() {
	if t != nil {
		t.tool.RecordOutputSent()
	}
}

// RecordOutputCached records that the application keeps the tool's output, or its error,
// to send it later: it is not lost, and has not reached the model yet.
// [Tool.RecordOutputSent] or [Tool.RecordOutputFailure] may follow.
func (t *Tool) RecordOutputCached() {
	if t != nil {
		t.tool.RecordOutputCached()
	}
}

// RecordOutputFailure records that sending the tool's output, by other means than the next
// request's history, failed with err. It never replaces the tool's own error.
// [Tool.RecordOutputSent] may follow, if sending it again succeeds.
func (t *Tool) RecordOutputFailure(err error) {
	if t != nil {
		t.tool.RecordOutputFailure(err)
	}
}

// Errors that say why a tool did not run. Pass them to [Tool.End], wrapped or as they are.
var (
	// ErrToolRejected says that a person or a policy refused the call.
	ErrToolRejected = agentrun.ErrRejected
	// ErrToolInvalidInput says that the model's input is not valid for the tool.
	ErrToolInvalidInput = agentrun.ErrInvalidInput
)

// FailedBeforeEffect wraps the error of a tool to declare that it failed before it changed
// anything, so that executing the call again repeats nothing. The declaration covers what
// it wraps: if an error joins several, each of them needs its own. FailedBeforeEffect(nil)
// is nil.
func FailedBeforeEffect(err error) error {
	if err == nil {
		return nil
	}
	return &beforeEffectError{err}
}

// beforeEffectError is a type of this package because spans name the types of errors.
type beforeEffectError struct{ err error }

func (e *beforeEffectError) Error() string { return e.err.Error() }

func (e *beforeEffectError) Unwrap() error { return e.err }

func (e *beforeEffectError) Is(target error) bool { return target == agentrun.ErrBeforeEffect }

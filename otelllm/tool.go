package otelllm

import (
	"context"

	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
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

// Tool is one execution of one tool call. It is safe for concurrent use, and a nil
// *Tool does nothing.
type Tool struct{ tool *agentrun.Tool }

// StartTool starts the execution of a tool call and its span, `execute_tool
// {tool}`. It belongs to the run of ctx, which from then on counts as one that records
// every tool (see [WithToolsRecorded]). End it with what the tool returned.
func StartTool(ctx context.Context, call ToolCall) (context.Context, *Tool) {
	return startTool(ctx, global, call)
}

func startTool(ctx context.Context, i *Instrumentation, call ToolCall) (context.Context, *Tool) {
	ctx, tool := agentrun.StartTool(ctx, agentrun.ToolConfig{
		CallID:         call.ID,
		Name:           call.Name,
		Effect:         call.Effect,
		TracerProvider: i.config.tracerProvider,
		Live:           &i.open,
	})
	return ctx, &Tool{tool}
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
		t.tool.End(err)
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
		t.tool.EndPanic()
		panic(p)
	}
	t.tool.End(errorAt(err))
}

// RecordOutputSent records that the tool's output, or its error, has
// reached the model on a way of its own, outside of the next request's history.
func (t *Tool) RecordOutputSent() {
	if t != nil {
		t.tool.RecordOutputSent()
	}
}

// RecordOutputCached records that the tool's output, or its error, has been
// kept by the application to be sent later: it is not lost, and not with the model
// yet. An [Tool.RecordOutputSent] or [Tool.RecordOutputFailure] may follow.
func (t *Tool) RecordOutputCached() {
	if t != nil {
		t.tool.RecordOutputCached()
	}
}

// RecordOutputFailure records that sending the tool's output on a way of its own failed.
// It never replaces the tool's own error. An [Tool.RecordOutputSent] may follow, when
// sending again went well.
func (t *Tool) RecordOutputFailure(err error) {
	if t != nil {
		t.tool.RecordOutputFailure(err)
	}
}

// Errors that say why a tool did not run. Wrap them, or return them as they are,
// and give them to [Tool.End].
var (
	// ErrToolRejected: a person or a policy refused the call.
	ErrToolRejected = agentrun.ErrRejected
	// ErrToolInvalidInput: the model's input is not what the tool takes.
	ErrToolInvalidInput = agentrun.ErrInvalidInput
)

// FailedBeforeEffect wraps the error of a tool to vouch that it failed before it
// had any effect, so that executing the call again repeats nothing. The vouch covers
// what it wraps: where an error joins several, each of them needs its own. It returns
// nil for nil.
func FailedBeforeEffect(err error) error { return agentrun.FailedBeforeEffect(err) }

// MCPAnnotations are the hints of an MCP tool about what executing it may do
// (Model Context Protocol, ToolAnnotations). The fields are those of the official
// Go SDK's mcp.ToolAnnotations, in the same order, so that a tool's annotations
// convert:
//
//	otelllm.ToolEffectFromMCP((*otelllm.MCPAnnotations)(tool.Annotations))
type MCPAnnotations struct {
	DestructiveHint *bool  `json:"destructiveHint,omitempty"`
	IdempotentHint  bool   `json:"idempotentHint,omitempty"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitempty"`
	ReadOnlyHint    bool   `json:"readOnlyHint,omitempty"`
	Title           string `json:"title,omitempty"`
}

// ToolEffectFromMCP is the effect that an MCP tool's annotations declare. Only what
// the server said counts: MCP's defaults are a client's guess, and a hint that is
// false cannot be told from one that is unset. So a tool without annotations, or
// with none that says something, has an unknown effect, which is treated with the
// same caution as [EffectNonIdempotent].
//
// The hints are the server's word. Use them for tools of servers that you trust.
func ToolEffectFromMCP(a *MCPAnnotations) Effect {
	said := func(hint *bool) bool { return hint != nil && *hint }
	switch {
	case a == nil:
		return EffectUnknown
	case a.ReadOnlyHint:
		return EffectReadOnly
	case a.IdempotentHint:
		return EffectIdempotent
	case said(a.DestructiveHint), said(a.OpenWorldHint):
		return EffectNonIdempotent
	default:
		return EffectUnknown
	}
}

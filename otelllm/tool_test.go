package otelllm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts/spanread"
	"github.com/otelllm/otelllm-go/semconv"
)

func TestToolOutcomes(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	aborted, abort := WithAbort(context.Background())
	abort(AbortShutdown, "sigterm")
	late, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	typed := errors.New("typed")
	caused, cancelCause := context.WithCancelCause(context.Background())
	cancelCause(typed)
	lateCaused, cancel := context.WithTimeoutCause(context.Background(), 0, typed)
	defer cancel()
	lateAborted, cancel := context.WithTimeoutCause(context.Background(), 0, &AbortError{Source: AbortShutdown})
	defer cancel()
	_, timeout := net.DialTimeout("tcp", "127.0.0.1:1", 1)
	for _, tt := range []struct {
		name    string
		ctx     context.Context
		err     error
		outcome string
		typ     any
		before  any
		source  any
		failed  bool
	}{
		{"nil", t.Context(), nil, "succeeded", nil, nil, nil, false},
		{"failed", t.Context(), &fs.PathError{Op: "secret", Err: fs.ErrNotExist}, "failed", "*fs.PathError", nil, nil, true},
		{"failed before effect", t.Context(), fmt.Errorf("x: %w", FailedBeforeEffect(io.ErrUnexpectedEOF)), "failed", "*errors.errorString", true, nil, true},
		{"rejected", t.Context(), fmt.Errorf("secret: %w", ErrToolRejected), "rejected", "rejected", nil, nil, true},
		{"invalid input", t.Context(), FailedBeforeEffect(ErrToolInvalidInput), "invalid_input", "invalid_input", true, nil, true},
		{"aborted beside a watchdog", t.Context(), errors.Join(&WatchdogError{Kind: semconv.WatchdogKindIdle}, &AbortError{Source: AbortUser}), "interrupted", nil, nil, "user", false},
		{"a watchdog of no kind", t.Context(), &WatchdogError{}, "failed", "*otelllm.WatchdogError", nil, nil, true},
		{"its own timeout", t.Context(), context.DeadlineExceeded, "timed_out", "context.deadlineExceededError", nil, nil, true},
		{"a timeout of the network", t.Context(), timeout, "timed_out", "*net.timeoutError", nil, nil, true},
		{"its caller's deadline", late, late.Err(), "timed_out", "context.deadlineExceededError", nil, "deadline", true},
		{"cancelled", cancelled, fmt.Errorf("x: %w", context.Canceled), "interrupted", nil, nil, "unknown", false},
		{"a context below was cancelled", t.Context(), context.Canceled, "interrupted", nil, nil, "unknown", false},
		{"aborted, by the plain error", aborted, aborted.Err(), "interrupted", nil, nil, "shutdown", false},
		{"aborted, by the cause", aborted, context.Cause(aborted), "interrupted", nil, nil, "shutdown", false},
		{"failed, and a context below was cancelled", t.Context(), errors.Join(io.ErrUnexpectedEOF, context.Canceled), "failed", "*errors.errorString", nil, nil, true},
		{"failed, and was cancelled", cancelled, errors.Join(io.ErrUnexpectedEOF, context.Canceled), "interrupted", nil, nil, "unknown", false},
		{"cancelled with a cause", caused, typed, "interrupted", nil, nil, "unknown", false},
		{"its caller's deadline with a cause", lateCaused, lateCaused.Err(), "timed_out", "context.deadlineExceededError", nil, "deadline", true},
		{"its caller's deadline, by the cause", lateCaused, fmt.Errorf("x: %w", context.Cause(lateCaused)), "timed_out", "*errors.errorString", nil, "deadline", true},
		{"the cause of a deadline that did not pass", t.Context(), typed, "failed", "*errors.errorString", nil, nil, true},
		{"a deadline that aborts", lateAborted, context.Cause(lateAborted), "interrupted", nil, nil, "shutdown", false},
		{"cancelled below after a deadline with a cause", lateCaused, context.Canceled, "interrupted", nil, nil, "deadline", false},
		{"failed after a deadline with a cause", lateCaused, io.ErrUnexpectedEOF, "failed", "*errors.errorString", nil, nil, true},
		{"failed while cancelled", cancelled, io.ErrUnexpectedEOF, "failed", "*errors.errorString", nil, nil, true},
		{"an error that panics", t.Context(), panickingError{}, "failed", "otelllm.panickingError", nil, nil, true},
		{"a failure beside one before effect", t.Context(), errors.Join(io.ErrUnexpectedEOF, FailedBeforeEffect(io.EOF)), "failed", "*errors.errorString", nil, nil, true},
		{"the same, the other way round", t.Context(), errors.Join(FailedBeforeEffect(io.EOF), io.ErrUnexpectedEOF), "failed", "*errors.errorString", nil, nil, true},
		{"the same, joined by fmt.Errorf", t.Context(), fmt.Errorf("%w, %w", FailedBeforeEffect(io.EOF), io.ErrUnexpectedEOF), "failed", "*errors.errorString", nil, nil, true},
		{"the same, deeper", t.Context(), fmt.Errorf("x: %w", errors.Join(FailedBeforeEffect(io.EOF), errors.Join(FailedBeforeEffect(io.EOF), io.ErrUnexpectedEOF))), "failed", "*errors.errorString", nil, nil, true},
		{"every one before effect", t.Context(), errors.Join(FailedBeforeEffect(io.ErrUnexpectedEOF), fmt.Errorf("x: %w", FailedBeforeEffect(io.EOF))), "failed", "*errors.errorString", true, nil, true},
		{"failed before effect, around all", t.Context(), FailedBeforeEffect(errors.Join(io.ErrUnexpectedEOF, io.EOF)), "failed", "*errors.errorString", true, nil, true},
		{"before effect beside a rejection", t.Context(), errors.Join(ErrToolRejected, FailedBeforeEffect(io.EOF)), "failed", "*errors.errorString", true, nil, true},
		{"a failure beside a rejection", t.Context(), errors.Join(io.ErrUnexpectedEOF, ErrToolRejected), "failed", "*errors.errorString", nil, nil, true},
		{"a failure beside an invalid input", t.Context(), errors.Join(ErrToolInvalidInput, io.ErrUnexpectedEOF), "failed", "*errors.errorString", nil, nil, true},
		{"an invalid input and why", t.Context(), fmt.Errorf("%w: %w", ErrToolInvalidInput, io.ErrUnexpectedEOF), "invalid_input", "invalid_input", nil, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			ctx, run := StartRun(tt.ctx, "coder", WithTracerProvider(r))
			_, tool := StartTool(ctx, ToolCall{ID: "call_1", Name: "patch"})
			tool.End(tt.err)
			tool.End(errors.New("too late"))
			run.End(nil)
			s := r.named("execute_tool patch")[0]
			for key, want := range map[attribute.Key]any{
				"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "patch", "gen_ai.tool.call.id": "call_1", "gen_ai.tool.type": "function",
				"llm.tool.effect": "unknown", "llm.tool.outcome": tt.outcome, "error.type": tt.typ, "llm.tool.failed_before_effect": tt.before, "llm.abort.source": tt.source,
			} {
				assert.Equal(t, want, s.get(key), key)
			}
			assert.Equal(t, tt.failed, s.failed())
			facts, _ := run.run.Facts()
			assert.Equal(t, []classify.Tool{spanread.Tool(readable(s))}, facts.Tools, "the span holds the facts that are judged")
		})
	}
	assert.NoError(t, FailedBeforeEffect(nil))
}

func TestToolNames(t *testing.T) {
	r := newRecorder(t)
	_, tool := StartTool(traced(t, r), ToolCall{ID: "an id with secret words", Name: "a secret sentence", Effect: Effect(200)})
	tool.End(nil)
	s := r.named("execute_tool redacted")[0]
	assert.Equal(t, "redacted", s.get("gen_ai.tool.name"))
	assert.Regexp(t, "^id-[0-9a-f]{16}$", s.get("gen_ai.tool.call.id"))
	assert.Equal(t, "unknown", s.get("llm.tool.effect"))
}

// traced returns a context with a span of r.
func traced(t *testing.T, r *recorder) context.Context {
	t.Helper()
	ctx, s := r.Tracer("app").Start(t.Context(), "app")
	t.Cleanup(func() { s.End() })
	return ctx
}

// The delivery is recorded before or after the end of the tool. The tool's own error is
// not replaced, and the span has both.
func TestOutputDelivery(t *testing.T) {
	lost := &net.OpError{Op: "write", Err: syscall.EPIPE}
	for _, tt := range []struct {
		name     string
		do       func(*Tool)
		delivery string
		err      any
	}{
		{"never recorded", func(t *Tool) { t.End(nil) }, "pending", nil},
		{"sent after", func(t *Tool) { t.End(nil); t.RecordOutputSent() }, "sent", nil},
		{"sent before", func(t *Tool) { t.RecordOutputSent(); t.End(nil) }, "sent", nil},
		{"failed after", func(t *Tool) { t.End(io.EOF); t.RecordOutputFailure(lost) }, "failed", "syscall.Errno"},
		{"failed before", func(t *Tool) { t.RecordOutputFailure(lost); t.End(io.EOF) }, "failed", "syscall.Errno"},
		{"failed without an error", func(t *Tool) { t.End(io.EOF); t.RecordOutputFailure(nil) }, "failed", "_OTHER"},
		{"failed, then sent", func(t *Tool) { t.End(nil); t.RecordOutputFailure(lost); t.RecordOutputSent() }, "sent", "syscall.Errno"},
		{"failed, cached, then sent", func(t *Tool) { t.End(nil); t.RecordOutputFailure(lost); t.RecordOutputCached(); t.RecordOutputSent() }, "sent", "syscall.Errno"},
		{"failed twice", func(t *Tool) { t.End(nil); t.RecordOutputFailure(lost); t.RecordOutputFailure(io.EOF) }, "failed", "*errors.errorString"},
		{"sent, then failed", func(t *Tool) { t.End(nil); t.RecordOutputSent(); t.RecordOutputFailure(lost) }, "sent", nil},
		{"refused", func(t *Tool) { t.tool.OutputWritten(); t.End(nil); t.tool.OutputRefused(outputRefused{}) }, "failed", "otelllm.outputRefused"},
		{"refused, then sent", func(t *Tool) {
			t.tool.OutputWritten()
			t.End(nil)
			t.tool.OutputRefused(outputRefused{})
			t.tool.OutputWritten()
			t.tool.OutputAccepted()
		}, "sent", "otelllm.outputRefused"},
		{"accepted, then refused", func(t *Tool) {
			t.tool.OutputWritten()
			t.End(nil)
			t.tool.OutputAccepted()
			t.tool.OutputRefused(outputRefused{})
		}, "sent", nil},
		{"sent in another way, then refused", func(t *Tool) {
			t.RecordOutputSent()
			t.tool.OutputWritten()
			t.tool.OutputRefused(outputRefused{})
			t.End(nil)
		}, "sent", nil},
		{"written, then failed", func(t *Tool) { t.End(nil); t.tool.OutputWritten(); t.RecordOutputFailure(lost) }, "sent", nil},
		{"interrupted", func(t *Tool) { t.End(context.Canceled) }, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
			_, tool := StartTool(ctx, ToolCall{ID: "call_1", Name: "patch"})
			tt.do(tool)
			run.End(nil)
			s := r.named("execute_tool patch")[0]
			if tt.delivery == "" {
				assert.Nil(t, s.get("llm.tool.output_delivery"))
			} else {
				assert.Equal(t, tt.delivery, s.get("llm.tool.output_delivery"))
			}
			assert.Equal(t, tt.err, s.get("llm.tool.output_error"))
			facts, _ := run.run.Facts()
			assert.Equal(t, []classify.Tool{spanread.Tool(readable(s))}, facts.Tools)
		})
	}
}

// The span of a tool waits for the delivery of the output, for OutputWait at most. Its
// times are those of the execution.
func TestOutputDeliveryWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t)
		ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
		_, tool := StartTool(ctx, ToolCall{ID: "call_1", Name: "patch"})
		tool.End(io.ErrUnexpectedEOF)
		ended := time.Now()
		assert.Empty(t, r.spans.Ended())
		time.Sleep(agentrun.OutputWait - 1)
		synctest.Wait()
		assert.Empty(t, r.spans.Ended())
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		s := r.only(t)
		assert.Equal(t, ended, s.EndTime())
		assert.Equal(t, "pending", s.get("llm.tool.output_delivery"))

		// It is too late for the tool's span. The run still knows, and records it on its own.
		tool.RecordOutputFailure(syscall.EPIPE)
		assert.Equal(t, semconv.OutputDeliveryFailed, tool.tool.Facts().Delivery)
		assert.Equal(t, semconv.CauseDeliveryFailed, run.Diagnosis().Cause)
		run.End(nil)
		runSpan := r.named("invoke_agent coder")[0]
		require.Equal(t, []string{"llm.tool.output_failed"}, runSpan.events())
		assert.ElementsMatch(t, []attribute.KeyValue{
			attribute.String("gen_ai.tool.call.id", "call_1"), attribute.String("llm.tool.output_error", "syscall.Errno"),
		}, runSpan.Events()[0].Attributes)
		assert.Len(t, r.spans.Ended(), 2, "no span ends twice")
	})
}

// The end of a run finds a tool until the tool's span has ended, whatever ends it: no span
// ends after the run's own span.
func TestOutputDeliveryAtTheEndOfTheRun(t *testing.T) {
	for name, leave := range map[string]func(context.Context, *Tool){
		"sent": func(_ context.Context, tool *Tool) { tool.RecordOutputSent() },
		"carried by a request": func(ctx context.Context, _ *Tool) {
			body := `{"model":"gpt-5","messages":[{"role":"assistant","tool_calls":[{"id":"call_1"}]},{"role":"tool","tool_call_id":"call_1","content":"x"}]}`
			failing := roundTripper(func(*http.Request) (*http.Response, error) { return nil, io.EOF })
			_, _ = call(ctx, NewTransport(failing), "http://x"+chatPath, body)
		},
		"never recorded": func(context.Context, *Tool) { time.Sleep(agentrun.OutputWait); synctest.Wait() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder(t)
				var (
					run   *Run
					tool  *Tool
					found []bool // whether the run still had the tool while its span ended
				)
				r.RegisterSpanProcessor(atEnd(func(s sdktrace.ReadOnlySpan) {
					if s.Name() == "execute_tool patch" {
						found = append(found, run.run.Kept().Waiting == 1)
					}
				}))
				ctx, begun := StartRun(t.Context(), "coder", WithTracerProvider(r))
				run = begun
				_, tool = StartTool(ctx, ToolCall{ID: "call_1", Name: "patch"})
				tool.End(nil)
				leave(ctx, tool)
				assert.Equal(t, []bool{true}, found)
				assert.Zero(t, run.run.Kept().Waiting)
				run.End(nil)
				assert.Len(t, found, 1, "no span ends twice")
			})
		})
	}
}

// atEnd is called for every span that ends.
type atEnd func(sdktrace.ReadOnlySpan)

func (f atEnd) OnEnd(s sdktrace.ReadOnlySpan)                 { f(s) }
func (atEnd) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (atEnd) Shutdown(context.Context) error                  { return nil }
func (atEnd) ForceFlush(context.Context) error                { return nil }

// A request that carries the output ends the wait of the tool's span.
func TestOutputThatARequestCarries(t *testing.T) {
	r := newRecorder(t)
	ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
	for _, id := range []string{"call_1", "call_2"} {
		_, tool := StartTool(ctx, ToolCall{ID: id, Name: "patch"})
		tool.End(nil)
	}
	require.Empty(t, r.spans.Ended())
	body := `{"model":"gpt-5","messages":[{"role":"assistant","tool_calls":[{"id":"call_1"},{"id":"call_2"}]},{"role":"tool","tool_call_id":"call_1","content":"x"}]}`
	_, err := call(ctx, NewTransport(base(t)), scriptedServer(t, sseHead, nil)+chatPath, body)
	require.NoError(t, err)
	left := r.named("execute_tool patch")
	require.Len(t, left, 1)
	assert.Equal(t, "call_1", left[0].get("gen_ai.tool.call.id"))
	assert.Equal(t, "pending", left[0].get("llm.tool.output_delivery"))
	run.End(nil)
	assert.Len(t, r.named("execute_tool patch"), 2)
}

// Outside of a run a tool's span ends at once: nothing could end it later.
func TestToolOutsideOfARun(t *testing.T) {
	r := newRecorder(t)
	ctx := traced(t, r)
	_, tool := StartTool(ctx, ToolCall{ID: "call_1", Name: "patch"})
	tool.End(nil)
	s := r.only(t)
	assert.Nil(t, s.get("llm.run.id"))
	tool.RecordOutputFailure(io.EOF)

	_, tool = StartTool(ctx, ToolCall{ID: "call_2", Name: "patch"})
	tool.RecordOutputFailure(io.EOF)
	tool.End(nil)
	assert.Equal(t, "failed", r.named("execute_tool patch")[1].get("llm.tool.output_delivery"))

	ctx, run := StartRun(ctx, "coder")
	run.End(nil)
	_, tool = StartTool(ctx, ToolCall{ID: "call_3", Name: "patch"})
	tool.End(nil)
	assert.Len(t, r.named("execute_tool patch"), 3, "a tool that ends after its run does not wait either")
}

// Acceptance case 18: the tool fails, and sending its error output fails, too.
func TestToolFailsAndItsOutputIsLost(t *testing.T) {
	for name, order := range map[string]func(*Tool){
		"the tool ends first":      func(t *Tool) { t.End(&fs.PathError{Err: fs.ErrPermission}); t.RecordOutputFailure(syscall.EPIPE) },
		"the delivery fails first": func(t *Tool) { t.RecordOutputFailure(syscall.EPIPE); t.End(&fs.PathError{Err: fs.ErrPermission}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t)
			ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
			url := scriptedServer(t, sseHead+strings.Join(ownStreams()[1].events, ""), nil)
			_, err := call(ctx, NewTransport(base(t)), url+chatPath, chatBody)
			require.NoError(t, err)
			_, tool := StartTool(ctx, ToolCall{ID: "call_2", Name: "read_file", Effect: EffectReadOnly})
			order(tool)
			run.End(syscall.EPIPE)
			d := run.Diagnosis()
			assert.Equal(t, semconv.ClassToolOutputLost, d.Class)
			assert.Equal(t, semconv.CauseDeliveryFailed, d.Cause)
			assert.Contains(t, d.Evidence, "llm.tool.outcome=failed")
			assert.Contains(t, d.Evidence, "llm.tool.output_delivery=failed")
			s := r.named("execute_tool read_file")[0]
			assert.Equal(t, "*fs.PathError", s.get("error.type"))
			assert.Equal(t, "syscall.Errno", s.get("llm.tool.output_error"))
			assert.Equal(t, r.Diagnosis(), d, "the spans give the same diagnosis")
		})
	}
}

// outputRefused is the error of an output that the server of a realtime session refused.
type outputRefused struct{}

func (outputRefused) Error() string { return "refused" }

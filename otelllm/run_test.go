package otelllm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
	"github.com/otelllm/otelllm-go/semconv"
)

func TestRunSpan(t *testing.T) {
	r := newRecorder(t)
	ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r), WithConversationID("conv_1"), WithToolsRecorded())
	assert.True(t, trace.SpanContextFromContext(ctx).IsValid())
	inner, sub := StartRun(ctx, "reviewer")
	_, tool := StartTool(inner, ToolCall{ID: "call_1", Name: "read_file", Effect: EffectReadOnly})
	tool.End(nil)
	sub.End(nil)
	url := scriptedServer(t, sseHead+strings.Join(ownStreams()[0].events, ""), nil)
	_, err := call(ctx, NewTransport(base(t)), url+chatPath, chatBody)
	require.NoError(t, err)
	run.End(nil)
	run.End(errors.New("too late"))

	outer, reviewer := r.named("invoke_agent coder")[0], r.named("invoke_agent reviewer")[0]
	request, toolSpan := r.named("chat gpt-5")[0], r.named("execute_tool read_file")[0]
	assert.Equal(t, trace.SpanKindInternal, outer.SpanKind())
	for key, want := range map[attribute.Key]any{
		"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "coder", "gen_ai.conversation.id": "conv_1",
		"llm.run.requests": int64(1), "llm.run.tools": int64(1), "error.type": nil, "llm.run.id": nil,
	} {
		assert.Equal(t, want, outer.get(key), key)
	}
	assert.False(t, outer.failed())
	assert.Equal(t, int64(0), reviewer.get("llm.run.requests"))
	assert.Equal(t, int64(1), reviewer.get("llm.run.tools"), "the innermost run counts, and every run around it")
	assert.Equal(t, reviewer.SpanContext().SpanID().String(), toolSpan.get("llm.run.id"))
	assert.Equal(t, outer.SpanContext().SpanID().String(), request.get("llm.run.id"))
	assert.Equal(t, "conv_1", request.get("gen_ai.conversation.id"))
	assert.Equal(t, outer.SpanContext().SpanID(), request.Parent().SpanID())
	assert.Equal(t, outer.SpanContext().SpanID(), reviewer.Parent().SpanID())
}

func TestRunEnd(t *testing.T) {
	for _, tt := range []struct {
		name   string
		err    error
		failed bool
		typ    any
		source any
	}{
		{"nil", nil, false, nil, nil},
		{"an error", fmt.Errorf("secret: %w", &fs.PathError{Op: "open", Path: "secret", Err: syscall.ENOENT}), true, "syscall.Errno", nil},
		{"an error without a type of its own", errors.New("secret"), true, "*errors.errorString", nil},
		{"an abort", fmt.Errorf("secret: %w", &AbortError{Source: AbortUser, Reason: "stop"}), false, nil, "user"},
		{"an abort beside a watchdog", errors.Join(&WatchdogError{Kind: semconv.WatchdogKindIdle}, &AbortError{Source: AbortUser}), false, nil, "user"},
		{"a watchdog of no kind", &WatchdogError{}, true, "*otelllm.WatchdogError", nil},
		{"a cancellation of another context", fmt.Errorf("secret: %w", context.Canceled), true, "*errors.errorString", nil},
		{"a failure, and a cancellation", errors.Join(&fs.PathError{Op: "open", Path: "secret", Err: syscall.ENOENT}, context.Canceled), true, "syscall.Errno", nil},
		{"a cancellation, and a failure", fmt.Errorf("%w: %w", context.Canceled, syscall.ENOENT), true, "syscall.Errno", nil},
		{"a request of another context", &url.Error{Op: "Post", URL: "secret", Err: context.Canceled}, true, "*url.Error", nil},
		{"a cancelled RPC", rpcError{1}, true, "otelllm.rpcError", nil},
		{"a deadline of another context", context.DeadlineExceeded, true, "context.deadlineExceededError", nil},
		{"an error that panics", panickingError{}, true, "otelllm.panickingError", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			_, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
			run.End(tt.err)
			s := r.only(t)
			assert.Equal(t, tt.failed, s.failed())
			assert.Equal(t, tt.typ, s.get("error.type"))
			assert.Equal(t, tt.source, s.get("llm.abort.source"))
			assert.Empty(t, s.Status().Description)
			assert.Empty(t, s.Events())
		})
	}
}

// If the run's own context has ended, whatever cancellation the error reports is the run's.
func TestRunEndByItsContext(t *testing.T) {
	for name, err := range map[string]error{
		"bare":      context.Canceled,
		"wrapped":   fmt.Errorf("secret: %w", context.Canceled),
		"joined":    errors.Join(io.ErrUnexpectedEOF, context.Canceled),
		"of an RPC": fmt.Errorf("secret: %w", rpcError{1}),
	} {
		r := newRecorder(t)
		ctx, cancel := context.WithCancel(t.Context())
		_, run := StartRun(ctx, "coder", WithTracerProvider(r))
		cancel()
		run.End(err)
		s := r.only(t)
		assert.False(t, s.failed(), name)
		assert.Equal(t, "unknown", s.get("llm.abort.source"), name)
	}
	for name, err := range map[string]error{"a failure": io.ErrUnexpectedEOF, "another status": rpcError{14}} {
		r := newRecorder(t)
		ctx, cancel := context.WithCancel(t.Context())
		_, run := StartRun(ctx, "coder", WithTracerProvider(r))
		cancel()
		run.End(err)
		assert.True(t, r.only(t).failed(), name)
	}
}

// The requests that an application stops because it failed do not explain the run's failure.
func TestRunFailsAndStopsItsRequests(t *testing.T) {
	for name, end := range map[string]error{
		"the failure":         io.ErrUnexpectedEOF,
		"joined":              errors.Join(io.ErrUnexpectedEOF, context.Canceled),
		"the request's error": &url.Error{Op: "Post", URL: "secret", Err: context.Canceled},
	} {
		r := newRecorder(t)
		ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r), WithVerdicts())
		below, cancel := context.WithCancel(ctx)
		cancel()
		_, err := call(below, NewTransport(base(t)), "http://"+nettest.Refused(t)+chatPath, chatBody)
		require.Error(t, err)
		run.End(end)
		d := run.Diagnosis()
		assert.Equal(t, semconv.RunOutcomeFailed, d.Outcome, name)
		assert.Equal(t, semconv.ClassApplicationError, d.Class, name)
		assert.NotEqual(t, classify.SafeAutoRetry, d.Retry.Safety, name)
		assert.True(t, r.named("invoke_agent coder")[0].failed(), name)
	}
}

// rpcError has a status as the errors of gRPC have it.
type rpcError struct{ code rpcCode }

type rpcStatus struct{ code rpcCode }

type rpcCode uint32

func (rpcError) Error() string            { return "secret" }
func (e rpcError) GRPCStatus() *rpcStatus { return &rpcStatus{e.code} }
func (s *rpcStatus) Code() rpcCode        { return s.code }

type panickingError struct{}

func (panickingError) Error() string        { panic("Error") }
func (panickingError) Unwrap() error        { panic("Unwrap") }
func (panickingError) Is(error) bool        { panic("Is") }
func (panickingError) As(target any) bool   { panic("As") }
func (panickingError) Timeout() (late bool) { panic("Timeout") }

// If the run's error does not say who cancelled it, the part that was cancelled last decides.
func TestRunEndByItsParts(t *testing.T) {
	wrapped := &url.Error{Op: "Post", URL: "secret", Err: context.Canceled}
	t.Run("a request", func(t *testing.T) {
		r := newRecorder(t)
		ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
		below, abort := WithAbort(ctx)
		abort(AbortUser, "stop")
		_, err := call(below, NewTransport(base(t)), "http://"+nettest.Refused(t)+chatPath, chatBody)
		require.Error(t, err)
		run.End(wrapped)
		assert.Equal(t, "user", r.named("invoke_agent coder")[0].get("llm.abort.source"))
	})
	t.Run("a tool", func(t *testing.T) {
		r := newRecorder(t)
		ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
		below, abort := WithAbort(ctx)
		toolCtx, tool := StartTool(below, ToolCall{ID: "call_1", Name: "f"})
		abort(AbortShutdown, "sigterm")
		tool.End(toolCtx.Err())
		run.End(wrapped)
		s := r.named("invoke_agent coder")[0]
		assert.Equal(t, "shutdown", s.get("llm.abort.source"))
		assert.Equal(t, "sigterm", s.get("llm.abort.reason"))
		assert.Equal(t, semconv.RunOutcomeAborted, run.Diagnosis().Outcome)
	})
	t.Run("a request before the last one", func(t *testing.T) {
		r := newRecorder(t)
		ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
		below, abort := WithAbort(ctx)
		abort(AbortUser, "stop")
		_, err := call(below, NewTransport(base(t)), "http://"+nettest.Refused(t)+chatPath, chatBody)
		require.Error(t, err)
		_, err = call(ctx, NewTransport(base(t)), "http://"+nettest.Refused(t)+chatPath, chatBody)
		require.Error(t, err)
		run.End(wrapped)
		assert.Nil(t, r.named("invoke_agent coder")[0].get("llm.abort.source"), "the part that ended last was not aborted")
	})
}

// Without a provider, and on nil values, every method can be called.
func TestWithoutAProvider(t *testing.T) {
	var (
		run  *Run
		tool *Tool
	)
	run.End(nil)
	tool.End(nil)
	tool.RecordOutputSent()
	tool.RecordOutputFailure(nil)
	assert.Zero(t, run.Diagnosis())

	ctx, run := StartRun(t.Context(), "")
	_, tool = StartTool(ctx, ToolCall{})
	tool.End(nil)
	_, err := call(ctx, NewTransport(base(t)), "http://"+nettest.Refused(t)+chatPath, chatBody)
	require.Error(t, err)
	run.End(err)
	d := run.Diagnosis()
	assert.Equal(t, semconv.ClassConnectionFailed, d.Class, "a run has a diagnosis without a provider, too")
	assert.Equal(t, semconv.CauseConnectRefused, d.Cause)
	assert.False(t, trace.SpanContextFromContext(ctx).IsValid())
}

// TestRunDiagnosis runs an agent's turn with a retry and tools. It checks the diagnosis of
// the run while it is open, and compares the last one with that of its spans.
func TestRunDiagnosis(t *testing.T) {
	answers := make(chan func(http.ResponseWriter), 4)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		(<-answers)(w)
	}))
	defer s.Close()
	play := func(events ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, strings.Join(events, ""))
		}
	}
	cut := func(events ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			play(events...)(w)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	final := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"done\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	withOutput := `{"model":"gpt-5","stream":true,"messages":[{"role":"assistant","tool_calls":[{"id":"call_2","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_2","content":"x"}]}`

	setup := func(t *testing.T, opts ...RunOption) (context.Context, *Run, func(body string) error, *recorder) {
		t.Helper()
		r := newRecorder(t)
		ctx, run := StartRun(t.Context(), "coder", append(opts, WithTracerProvider(r))...)
		rt := NewTransport(s.Client().Transport)
		return ctx, run, func(body string) error {
			_, err := call(ctx, rt, s.URL+chatPath, body)
			return err
		}, r
	}

	t.Run("a tool ran, and the next request was cut", func(t *testing.T) {
		ctx, run, ask, r := setup(t)
		answers <- play(ownStreams()[1].events...)
		require.NoError(t, ask(chatBody))
		assert.False(t, ptr(run.Diagnosis()).Failed(), "nothing has failed yet")
		_, tool := StartTool(ctx, ToolCall{ID: "call_2", Name: "f", Effect: EffectNonIdempotent})
		tool.End(nil)
		answers <- cut()
		err := ask(withOutput)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		d := run.Diagnosis()
		assert.Equal(t, semconv.ClassStreamInterrupted, d.Class)
		assert.Equal(t, classify.UserConfirmedRetry, d.Retry.Safety)
		assert.Equal(t, semconv.RetryReasonToolSideEffect, d.Retry.Reason)
		seen, _ := run.run.Facts()
		requests := classify.Judge(&seen).Requests
		assert.Equal(t, classify.SafeAutoRetry, requests[1].Retry.Safety, "the request itself carries the output")

		answers <- play(final)
		require.NoError(t, ask(withOutput))
		run.End(nil)
		d = run.Diagnosis()
		assert.Equal(t, semconv.RunOutcomeRecovered, d.Outcome)
		assert.Equal(t, 1, d.RecoveredFailures)
		assert.Equal(t, r.Diagnosis(), d)
	})

	t.Run("the retried request lacks the output", func(t *testing.T) {
		ctx, run, ask, r := setup(t)
		answers <- play(ownStreams()[1].events...)
		require.NoError(t, ask(chatBody))
		_, tool := StartTool(ctx, ToolCall{ID: "call_2", Name: "f", Effect: EffectNonIdempotent})
		tool.End(nil)
		answers <- cut()
		require.Error(t, ask(withOutput))
		answers <- cut()
		err := ask(chatBody)
		require.Error(t, err)
		run.End(err)
		d := run.Diagnosis()
		assert.Equal(t, semconv.ClassToolOutputLost, d.Class)
		assert.Equal(t, semconv.CauseOmittedFromRetry, d.Cause)
		assert.Equal(t, []string{"call_2"}, d.MissingOutputs)
		assert.Equal(t, r.Diagnosis(), d)
	})

	t.Run("a call that is ready and not executed", func(t *testing.T) {
		_, run, ask, r := setup(t, WithToolsRecorded())
		answers <- cut(ownStreams()[1].events[:2]...)
		err := ask(chatBody)
		require.Error(t, err)
		d := run.Diagnosis()
		assert.Equal(t, semconv.PhaseToolCallReady, d.Phase)
		assert.Equal(t, classify.SafeAutoRetry, d.Retry.Safety)
		assert.Equal(t, semconv.RetryReasonToolCallNotExecuted, d.Retry.Reason)
		run.End(err)
		assert.Equal(t, r.Diagnosis(), run.Diagnosis())
		assert.Equal(t, int64(0), r.named("invoke_agent coder")[0].get("llm.run.tools"))
	})

	t.Run("a call that is ready, and whether tools are recorded is not known", func(t *testing.T) {
		_, run, ask, r := setup(t)
		answers <- cut(ownStreams()[1].events[:2]...)
		err := ask(chatBody)
		require.Error(t, err)
		d := run.Diagnosis()
		assert.Equal(t, classify.UserConfirmedRetry, d.Retry.Safety)
		assert.Equal(t, semconv.RetryReasonToolStateUnknown, d.Retry.Reason)
		run.End(err)
		assert.Equal(t, r.Diagnosis(), run.Diagnosis())
		assert.Nil(t, r.named("invoke_agent coder")[0].get("llm.run.tools"))
	})

	t.Run("a call that waits for its execution", func(t *testing.T) {
		for _, opts := range [][]RunOption{nil, {WithToolsRecorded()}} {
			_, run, ask, _ := setup(t, opts...)
			answers <- play(ownStreams()[1].events...)
			require.NoError(t, ask(chatBody))
			assert.Equal(t, semconv.RunOutcomeSucceeded, run.Diagnosis().Outcome, "nothing has failed so far")
		}
	})
}

// An SDK reports an in-band error, or an early end, before it closes the body: the run's
// diagnosis has it by then.
func TestDiagnosisBeforeClose(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events string
		class  semconv.Class
	}{
		{"in-band error", firstText + "data: {\"error\":{\"code\":\"slow_down\"}}\n\n", semconv.ClassProviderError},
		{"empty [DONE]", "data: [DONE]\n\n", semconv.ClassEmptyCompletion},
		{"not ended yet", firstText, semconv.ClassUnset},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
			body := io.MultiReader(strings.NewReader(historyBody)) // read only as it is sent
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, scriptedServer(t, sseHead+tt.events, keepOpen(t))+chatPath, body)
			require.NoError(t, err)
			resp, err := NewTransport(base(t)).RoundTrip(req)
			require.NoError(t, err)
			_, err = io.ReadFull(resp.Body, make([]byte, len(tt.events)))
			require.NoError(t, err)
			assert.Equal(t, tt.class, run.Diagnosis().Class)
			if seen, _ := run.run.Facts(); tt.class != semconv.ClassUnset {
				assert.Equal(t, []string{"call_1"}, seen.Requests[0].HistoryOutputs)
			}
			assert.Empty(t, r.spans.Ended(), "a diagnosis changes nothing")
			resp.Body.Close()
			if tt.class != semconv.ClassUnset {
				assert.Equal(t, tt.class, run.Diagnosis().Class)
				assert.Equal(t, 1, run.run.Kept().Requests)
			}
		})
	}
}

// A request that outlives its run counts as missing until it ends.
func TestRequestOutlivesItsRun(t *testing.T) {
	r := newRecorder(t)
	ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, scriptedServer(t, sseHead+firstText, nil)+chatPath, strings.NewReader(chatBody))
	require.NoError(t, err)
	resp, err := NewTransport(base(t)).RoundTrip(req)
	require.NoError(t, err)
	run.End(nil)
	assert.Equal(t, int64(1), r.only(t).get("llm.run.requests"))
	assert.Equal(t, semconv.CauseMissingChildren, run.Diagnosis().Cause)
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	assert.Equal(t, semconv.CauseCleanEOF, run.Diagnosis().Cause)
}

// A run of many parts keeps a bounded number of them. The parts that it has forgotten make
// a verdict more cautious, but never make a success a failure.
func TestRunIsBounded(t *testing.T) {
	r := newRecorder(t)
	ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
	stream := strings.Join(ownStreams()[1].events, "")
	answer := func(req *http.Request) (*http.Response, error) {
		if stream == "" {
			return nil, syscall.ECONNREFUSED
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(stream))}, nil
	}
	rt := NewTransport(roundTripper(answer))
	_, tool := StartTool(ctx, ToolCall{ID: "early", Name: "pay", Effect: EffectNonIdempotent})
	tool.End(nil)
	for range agentrun.MaxParts + 10 {
		_, err := call(ctx, rt, "http://x"+chatPath, chatBody)
		require.NoError(t, err)
		_, tool := StartTool(ctx, ToolCall{ID: "call_2", Name: "look", Effect: EffectReadOnly})
		tool.RecordOutputSent()
		tool.End(nil)
	}
	assert.LessOrEqual(t, run.run.Kept().Requests, agentrun.MaxParts)
	assert.LessOrEqual(t, run.run.Kept().Tools, agentrun.MaxParts)
	assert.Greater(t, run.run.Kept().Requests, agentrun.MaxParts/2)
	assert.Equal(t, semconv.ClassUnset, run.Diagnosis().Class)
	stream = "" // from here on the connection is refused
	_, err := call(ctx, rt, "http://x"+chatPath, chatBody)
	require.Error(t, err)
	d := run.Diagnosis()
	assert.True(t, d.Failed())
	assert.NotEqual(t, classify.SafeAutoRetry, d.Retry.Safety, "the run has forgotten a payment")
	run.End(err)
	assert.Equal(t, int64(agentrun.MaxParts+11), r.named("invoke_agent coder")[0].get("llm.run.requests"))
}

// TestConcurrentRun uses one run and one transport, with tools, from many goroutines.
func TestConcurrentRun(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, strings.Join(ownStreams()[0].events, ""))
	}))
	defer s.Close()
	r := newRecorder(t)
	ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
	rt := NewTransport(s.Client().Transport)
	var wg sync.WaitGroup
	const n = 50
	for i := range n {
		wg.Go(func() {
			_, err := call(ctx, rt, s.URL+chatPath, chatBody)
			assert.NoError(t, err) //nolint:testifylint // require must not be called in another goroutine
			_, tool := StartTool(ctx, ToolCall{ID: fmt.Sprint("call_", i), Name: "f"})
			go tool.RecordOutputSent()
			tool.End(nil)
			_ = run.Diagnosis()
		})
	}
	wg.Wait()
	run.End(nil)
	runSpan := r.named("invoke_agent coder")[0]
	assert.Equal(t, int64(n), runSpan.get("llm.run.requests"))
	assert.Equal(t, int64(n), runSpan.get("llm.run.tools"))
	assert.Len(t, r.named("chat gpt-5"), n)
	assert.Len(t, r.named("execute_tool f"), n)
	assert.Equal(t, n, run.run.Kept().Requests)
}

func ptr[T any](v T) *T { return &v }

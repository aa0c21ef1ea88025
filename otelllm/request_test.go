package otelllm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/semconv"
)

func TestRequestEnds(t *testing.T) {
	reset := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for _, tt := range []struct {
		name  string
		steps func(*Request)
		err   error
		want  map[attribute.Key]any
		class string
	}{
		{
			"complete", func(q *Request) {
				q.RecordSent()
				q.RecordResponseStarted(0)
				q.SetResponse("resp_1", "model-x-1")
				q.RecordReasoning()
				q.RecordText()
				q.RecordKeepalive()
				q.RecordText()
				q.SetInputTokens(7)
				q.SetOutputTokens(2)
				q.RecordFinish("stop")
				q.RecordText() // after the end
			}, nil,
			map[attribute.Key]any{
				"llm.stream.end": "terminal_event", "llm.stream.phase": "stream_end", "llm.stream.text_chunks": int64(2), "llm.stream.reasoning_chunks": int64(1),
				"llm.stream.keepalives": int64(1), "gen_ai.usage.input_tokens": int64(7), "gen_ai.response.id": "resp_1", "gen_ai.response.model": "model-x-1",
				"gen_ai.response.finish_reasons": []string{"stop"}, "llm.stream.events": int64(4), "llm.request.attempt": int64(2), "llm.stream.bytes": nil,
			},
			"",
		},
		{
			"cut in a tool's input", func(q *Request) {
				q.RecordSent()
				q.RecordText()
				q.RecordToolInputStarted("call_a", "f")
			}, reset,
			map[attribute.Key]any{
				"llm.stream.end": "read_error", "llm.stream.phase": "tool_input", "llm.transport.cause": "connection_reset", "llm.transport.stage": "body",
				"llm.stream.open_tool_call_ids": []string{"call_a"}, "llm.stream.tool_inputs_started": int64(1), "llm.stream.tool_inputs_completed": int64(0),
			},
			"stream_interrupted/connection_reset",
		},
		{
			"calls", func(q *Request) {
				q.RecordToolInputStarted("call_a", "f")
				q.RecordToolInputCompleted("call_a")
				q.RecordToolCall("call_b", "g")
				q.RecordFinish("tool_calls")
			}, nil,
			map[attribute.Key]any{"llm.stream.tool_call_ids": []string{"call_a", "call_b"}, "llm.stream.tool_calls": int64(2), "llm.stream.end": "terminal_event"},
			"",
		},
		{
			"no finish reason", func(q *Request) { q.RecordText() }, nil,
			map[attribute.Key]any{"llm.stream.end": "eof", "llm.transport.cause": "clean_eof", "llm.stream.phase": "text"},
			"stream_interrupted/clean_eof",
		},
		{
			"refused with a status", func(q *Request) {
				q.RecordSent()
				q.RecordProviderError(429, "slow_down", 3*time.Second)
			}, errors.New("secret"),
			map[attribute.Key]any{"llm.stream.end": "http_error", "llm.provider_error.kind": "overloaded", "llm.retry.after": 3.0, "http.response.status_code": int64(429), "error.type": "429"},
			"provider_error/overloaded",
		},
		{
			"failed in the stream", func(q *Request) {
				q.RecordText()
				q.RecordProviderError(0, "overloaded_error", 0)
			}, errors.New("secret"),
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.provider_error.kind": "overloaded", "llm.provider_error.in_band": true, "llm.stream.phase": "text"},
			"provider_error/overloaded",
		},
		{
			"failed before any effect", func(*Request) {}, FailedBeforeEffect(errors.New("secret")),
			map[attribute.Key]any{"llm.stream.end": "no_response", "llm.transport.error_chain": []string{"*otelllm.beforeEffectError", "*errors.errorString"}},
			"stream_interrupted/unknown",
		},
		{
			"no answer", func(q *Request) { q.RecordSent() }, reset,
			map[attribute.Key]any{"llm.stream.end": "no_response", "llm.transport.cause": "connection_reset", "llm.stream.phase": "awaiting_response"},
			"stream_interrupted/connection_reset",
		},
		{
			"stopped", func(q *Request) { q.RecordText() }, &AbortError{Source: AbortUser},
			map[attribute.Key]any{"llm.stream.end": "cancelled", "llm.abort.source": "user", "error.type": nil},
			"local_abort/user",
		},
		{
			"cancelled", func(q *Request) { q.RecordText() }, context.Canceled,
			map[attribute.Key]any{"llm.stream.end": "cancelled", "llm.abort.source": "unknown"},
			"local_abort/unknown",
		},
		{
			"its own deadline", func(q *Request) { q.RecordSent() }, fmt.Errorf("call: %w", context.DeadlineExceeded),
			map[attribute.Key]any{"llm.stream.end": "cancelled", "llm.abort.source": "deadline", "llm.stream.phase": "awaiting_response", "llm.transport.cause": "cancelled", "error.type": nil},
			"local_abort/deadline",
		},
		{
			"its own deadline in text", func(q *Request) { q.RecordText() }, context.DeadlineExceeded,
			map[attribute.Key]any{"llm.stream.end": "cancelled", "llm.abort.source": "deadline", "llm.stream.phase": "text", "error.type": nil},
			"local_abort/deadline",
		},
		{
			"an error that only matches a deadline", func(q *Request) { q.RecordText() },
			claimedDeadline{},
			map[attribute.Key]any{"llm.stream.end": "read_error", "llm.abort.source": nil},
			"stream_interrupted/unknown",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
			_, q := StartRequest(ctx, RequestInfo{
				Provider: "acme", Model: "model-x", Stream: true, ServerAddress: "model.internal", ServerPort: 9, Attempt: 2,
				HistoryCalls: []string{"old"}, HistoryOutputs: []string{"old"}, ProviderTools: []string{},
			})
			tt.steps(q)
			q.End(tt.err)
			q.End(errors.New("again"))
			s := r.only(t)
			assert.Equal(t, "chat model-x", s.Name())
			for key, want := range tt.want {
				assert.Equal(t, want, s.get(key), key)
			}
			assert.Equal(t, "acme", s.get("gen_ai.provider.name"))
			assert.Equal(t, []string{"old"}, s.get("llm.history.tool_outputs"))
			assert.Equal(t, s.get("error.type") != nil, s.failed())
			class := ""
			if d := run.Diagnosis(); d.Failed() {
				class = d.Class.String() + "/" + d.Cause.String()
			}
			assert.Equal(t, tt.class, class)
			assert.Zero(t, openRequests())
			for _, kv := range s.Attributes() {
				assert.NotContains(t, strings.ToLower(kv.Value.String()), "secret")
			}
		})
	}
}

// A request may end by the deadline of a context that the application has derived from the
// one with which it started the request.
func TestRequestDeadlineBelow(t *testing.T) {
	r := newRecorder(t)
	ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
	below, q := StartRequest(ctx, RequestInfo{Model: "model-x"})
	below, cancel := context.WithTimeout(below, 0)
	defer cancel()
	q.RecordSent()
	q.End(below.Err())
	run.End(below.Err())
	for _, name := range []string{"chat model-x", "invoke_agent coder"} {
		s := r.named(name)[0]
		assert.Equal(t, "deadline", s.get("llm.abort.source"))
		assert.False(t, s.failed())
	}
	assert.Equal(t, r.Diagnosis(), run.Diagnosis(), "the spans give the same diagnosis")
	assert.Equal(t, semconv.ClassLocalAbort, run.Diagnosis().Class)
}

// claimedDeadline is like the timeouts of net and net/http.
type claimedDeadline struct{}

func (claimedDeadline) Error() string        { return "secret" }
func (claimedDeadline) Timeout() bool        { return true }
func (claimedDeadline) Is(target error) bool { return target == context.DeadlineExceeded }

func TestRequestAbandoned(t *testing.T) {
	r := newRecorder(t)
	func() {
		_, q := StartRequest(t.Context(), RequestInfo{Model: "m"}, WithTracerProvider(r))
		q.RecordText()
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return len(r.spans.Ended()) == 1
	}, testTimeout, pollInterval)
	assert.Equal(t, "abandoned", r.only(t).get("llm.stream.end"))
	var none *Request
	none.RecordText()
	none.End(nil)
}

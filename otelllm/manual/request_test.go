package manual

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/internal/setup"
	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
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
			"failed before any effect", func(*Request) {}, otelllm.FailedBeforeEffect(errors.New("secret")),
			map[attribute.Key]any{"llm.stream.end": "no_response", "llm.transport.error_chain": []string{"*otelllm.beforeEffectError", "*errors.errorString"}},
			"stream_interrupted/unknown",
		},
		{
			"no answer", func(q *Request) { q.RecordSent() }, reset,
			map[attribute.Key]any{"llm.stream.end": "no_response", "llm.transport.cause": "connection_reset", "llm.stream.phase": "awaiting_response"},
			"stream_interrupted/connection_reset",
		},
		{
			"stopped", func(q *Request) { q.RecordText() }, &otelllm.AbortError{Source: otelllm.AbortUser},
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
			"a time limit of the application", func(q *Request) { q.RecordText() },
			fmt.Errorf("x: %w", &otelllm.WatchdogError{Kind: semconv.WatchdogKindIdle}),
			map[attribute.Key]any{"llm.abort.source": "watchdog", "llm.watchdog.kind": "idle", "error.type": "watchdog_timeout"},
			"watchdog_timeout/idle",
		},
		{
			"an error that only matches a deadline", func(q *Request) { q.RecordText() },
			claimedDeadline{},
			map[attribute.Key]any{"llm.stream.end": "read_error", "llm.abort.source": nil},
			"stream_interrupted/unknown",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := spantest.New(t)
			ctx, run := otelllm.StartRun(t.Context(), "coder", otelllm.WithTracerProvider(r))
			_, q := Start(ctx, RequestInfo{
				Provider: "acme", Model: "model-x", Stream: true, ServerAddress: "model.internal", ServerPort: 9, Attempt: 2,
				HistoryCalls: []string{"old"}, HistoryOutputs: []string{"old"}, ProviderTools: []string{},
			})
			assert.Equal(t, 1, openRequests(nil))
			tt.steps(q)
			q.End(tt.err)
			q.End(errors.New("again"))
			s := r.Only(t)
			assert.Equal(t, "chat model-x", s.Name())
			for key, want := range tt.want {
				assert.Equal(t, want, spantest.Get(s, key), key)
			}
			assert.Equal(t, "acme", spantest.Get(s, "gen_ai.provider.name"))
			assert.Equal(t, []string{"old"}, spantest.Get(s, "llm.history.tool_outputs"))
			assert.Equal(t, spantest.Get(s, "error.type") != nil, spantest.Failed(s))
			class := ""
			if d := run.Diagnosis(); d.Failed() {
				class = d.Class.String() + "/" + d.Cause.String()
			}
			assert.Equal(t, tt.class, class)
			assert.Zero(t, openRequests(nil))
			for _, kv := range s.Attributes() {
				assert.NotContains(t, strings.ToLower(kv.Value.String()), "secret")
			}
		})
	}
}

// A request may end by the deadline of a context that the application has derived from the
// one with which it started the request.
func TestRequestDeadlineBelow(t *testing.T) {
	r := spantest.New(t)
	ctx, run := otelllm.StartRun(t.Context(), "coder", otelllm.WithTracerProvider(r))
	below, q := Start(ctx, RequestInfo{Model: "model-x"})
	below, cancel := context.WithTimeout(below, 0)
	defer cancel()
	q.RecordSent()
	q.End(below.Err())
	run.End(below.Err())
	for _, name := range []string{"chat model-x", "invoke_agent coder"} {
		s := r.Named(name)[0]
		assert.Equal(t, "deadline", spantest.Get(s, "llm.abort.source"))
		assert.False(t, spantest.Failed(s))
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
	r := spantest.New(t)
	func() {
		_, q := Start(t.Context(), RequestInfo{Model: "m", Instrumentation: otelllm.New(otelllm.WithTracerProvider(r))})
		q.RecordText()
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return len(r.Spans.Ended()) == 1
	}, 10*time.Second, time.Millisecond)
	assert.Equal(t, "abandoned", spantest.Get(r.Only(t), "llm.stream.end"))
	var none *Request
	none.RecordText()
	none.End(nil)
}

// The options of an Instrumentation apply to its requests, and its Shutdown ends them.
func TestInstrumentation(t *testing.T) {
	for _, tt := range []struct {
		name     string
		opts     []otelllm.Option
		provider string
	}{
		{"its own provider", []otelllm.Option{otelllm.WithVerdicts(), otelllm.WithoutEvents()}, "acme"},
		{"the provider of a gateway", []otelllm.Option{otelllm.WithVerdicts(), otelllm.WithoutEvents(), otelllm.WithProviderName("gateway")}, "gateway"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := spantest.New(t)
			one, other := otelllm.New(append(tt.opts, otelllm.WithTracerProvider(r))...), otelllm.New()
			_, q := Start(t.Context(), RequestInfo{Provider: "acme", Model: "m", Instrumentation: one})
			_, untouched := Start(t.Context(), RequestInfo{Model: "m", Instrumentation: other})
			q.RecordText()
			require.NoError(t, one.Shutdown(t.Context()))
			s := r.Only(t)
			assert.Equal(t, "chat m", s.Name())
			assert.Equal(t, "shutdown", spantest.Get(s, "llm.abort.source"))
			assert.Equal(t, tt.provider, spantest.Get(s, "gen_ai.provider.name"))
			assert.Equal(t, "local_abort", spantest.Get(s, "llm.failure.class"), "verdicts")
			assert.Empty(t, s.Events())
			assert.Equal(t, [2]int{0, 1}, [2]int{openRequests(one), openRequests(other)})
			untouched.End(nil)
			assert.Zero(t, openRequests(other))
		})
	}
}

type panickingSampler struct{}

func (panickingSampler) ShouldSample(trace.SamplingParameters) trace.SamplingResult { panic("secret") }
func (panickingSampler) Description() string                                        { return "" }

// A panic in the application's SDK is reported once, and does not reach the caller.
func TestPanickingSampler(t *testing.T) {
	before := otel.GetErrorHandler()
	t.Cleanup(func() { otel.SetErrorHandler(before) })
	var handled atomic.Int32
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { handled.Add(1) }))
	llm := otelllm.New(otelllm.WithTracerProvider(spantest.New(t, trace.WithSampler(panickingSampler{}))))
	_, q := Start(t.Context(), RequestInfo{Model: "m", Instrumentation: llm})
	q.RecordText()
	q.End(nil)
	assert.Equal(t, int32(1), handled.Load())
	assert.Zero(t, openRequests(llm))
}

// TestNoKeyLeaks plants credentials in everything that the application reports, and
// searches what is exported for them.
func TestNoKeyLeaks(t *testing.T) {
	for i, key := range spantest.Credentials {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			r, reader := spantest.New(t), metric.NewManualReader()
			llm := otelllm.New(otelllm.WithTracerProvider(r), otelllm.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))), otelllm.WithVerdicts())
			ctx, run := llm.StartRun(t.Context(), key)
			for _, code := range []string{"", key} {
				_, q := Start(ctx, RequestInfo{
					Operation: key, Provider: key, Model: key, ServerAddress: key, ProviderTools: []string{key}, HistoryCalls: []string{key}, HistoryOutputs: []string{key},
					Instrumentation: llm,
				})
				q.SetResponse(key, key)
				q.RecordToolCall(key, key)
				if code != "" {
					q.RecordProviderError(0, code, 0)
				} else {
					q.RecordFinish(key)
				}
				q.End(nil)
			}
			run.End(nil)
			all := spantest.Exported(t, r, reader)
			assert.Empty(t, spantest.Find(all, key), "a key is exported")
			// The attributes with the planted values are exported; only the values are replaced.
			for _, want := range []string{"redacted", "gen_ai.response.model", "llm.provider_error.code", "server.address", "gen_ai.client.operation.duration"} {
				assert.Contains(t, all, want)
			}
		})
	}
}

// openRequests counts the open requests of an Instrumentation; nil: those of the functions
// of package otelllm.
func openRequests(i *otelllm.Instrumentation) int {
	requests, _, _ := setup.Of(i).Record.Live.Len()
	return requests
}

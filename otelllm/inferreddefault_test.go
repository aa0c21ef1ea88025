package otelllm

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
	"github.com/otelllm/otelllm-go/semconv"
)

// loop is an agent that calls a tool in each of its first requests, over OpenAI Chat, with
// nothing of this package but its client's transport.
type loop struct {
	client   *http.Client
	url      string
	messages []string
}

// ask sends the conversation until an answer comes.
func (l *loop) ask(ctx context.Context, t *testing.T) (answer string) {
	t.Helper()
	body := `{"model":"gpt-5","stream":true,"messages":[` + strings.Join(l.messages, ",") + `]}`
	for range 3 {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+chatPath, strings.NewReader(body))
		require.NoError(t, err)
		resp, err := l.client.Do(req)
		if err != nil {
			continue
		}
		read, err := io.ReadAll(resp.Body)
		require.NoError(t, resp.Body.Close())
		if err == nil && resp.StatusCode == http.StatusOK {
			return string(read)
		}
	}
	return ""
}

// run runs the agent until its answer has no call.
func (l *loop) run(ctx context.Context, t *testing.T) {
	t.Helper()
	for l.append(l.ask(ctx, t)) {
	}
}

// append adds the call of an answer and its output to the conversation. It reports whether
// there is one.
func (l *loop) append(answer string) bool {
	_, id, called := strings.Cut(answer, `"tool_calls":[{"index":0,"id":"`)
	if !called {
		return false
	}
	id, _, _ = strings.Cut(id, `"`)
	l.messages = append(
		l.messages,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"`+id+`","type":"function","function":{"name":"run","arguments":"{}"}}]}`,
		`{"role":"tool","tool_call_id":"`+id+`","content":"done"}`,
	)
	return true
}

// newLoop returns an agent whose requests go through rt to a model with these answers.
func newLoop(t *testing.T, rt http.RoundTripper, answers ...func(http.ResponseWriter)) *loop {
	t.Helper()
	s := script{answers: answers}
	return &loop{client: &http.Client{Transport: rt}, url: s.start(t), messages: []string{`{"role":"user","content":"` + t.Name() + `"}`}}
}

// calling are answers with one call each, and a last one without.
func calling(n int) (answers []func(http.ResponseWriter)) {
	words := agentWords["chat"]
	for i := range n {
		answers = append(answers, streamed(words.call(fmt.Sprintf("call_7Hq2LmZx%04dYtRe", i))))
	}
	return append(answers, streamed(words.text))
}

// traces returns in how many traces the spans are that have ended.
func (r *recorder) traces() int {
	traces := map[trace.TraceID]bool{}
	for _, s := range r.spans.Ended() {
		traces[s.SpanContext().TraceID()] = true
	}
	return len(traces)
}

// The transport alone: a run with its tools.
func TestTransportAlone(t *testing.T) {
	r := newRecorder(t)
	newLoop(t, NewTransport(base(t), WithTracerProvider(r)), calling(2)...).run(t.Context(), t)

	run := r.runs(t, 1)[0]
	assert.Equal(t, 1, r.traces())
	assert.Equal(t, true, run.get(semconv.RunInferredKey))
	assert.Equal(t, int64(3), run.get(semconv.RunRequestsKey))
	assert.Len(t, r.requests(), 3)
	assert.Len(t, r.named("execute_tool run"), 2)
	d := r.Diagnosis()
	assert.Equal(t, semconv.RunOutcomeSucceeded, d.Outcome)
	assert.Zero(t, d.RecoveredFailures)
}

// A failed attempt that the agent repeats does not end its run.
func TestTransportAloneRecovers(t *testing.T) {
	r := newRecorder(t)
	answers := calling(1)
	cut := streamed(strings.SplitAfter(agentWords["chat"].text, "\n\n")[0])
	broken := func(w http.ResponseWriter) {
		cut(w)
		_ = http.NewResponseController(w).Flush()
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			nettest.Reset(c)
		}
	}
	newLoop(t, NewTransport(base(t), WithTracerProvider(r)), answers[0], broken, unavailable, answers[1]).run(t.Context(), t)

	run := r.runs(t, 1)[0]
	assert.Equal(t, 1, r.traces())
	assert.False(t, run.failed())
	var attempts []any
	for _, q := range r.requests() {
		attempts = append(attempts, q.get(semconv.RequestAttemptKey))
	}
	assert.Equal(t, []any{int64(1), int64(1), int64(2), int64(3)}, attempts)
	d := r.Diagnosis()
	assert.Equal(t, semconv.RunOutcomeRecovered, d.Outcome)
	assert.Equal(t, 2, d.RecoveredFailures)
}

// Without inferred runs every request is on its own, as the option is given to a transport,
// to the Instrumentation of a transport, or to that of a gateway.
func TestWithoutInferredRuns(t *testing.T) {
	for name, record := range map[string]func(*testing.T, *recorder) http.RoundTripper{
		"transport": func(t *testing.T, r *recorder) http.RoundTripper {
			return NewTransport(base(t), WithTracerProvider(r), WithoutInferredRuns())
		},
		"instrumentation": func(t *testing.T, r *recorder) http.RoundTripper {
			return New(WithTracerProvider(r), WithoutInferredRuns(), WithInferredRuns(InferredRuns{})).NewTransport(base(t))
		},
		"handler": func(t *testing.T, r *recorder) http.RoundTripper {
			return servedBy(base(t), func(next http.Handler) http.Handler {
				return NewHandler(next, WithTracerProvider(r), WithoutInferredRuns())
			})
		},
		"handler above a transport": func(t *testing.T, r *recorder) http.RoundTripper {
			rt := NewTransport(base(t), WithTracerProvider(r))
			return servedBy(rt, func(next http.Handler) http.Handler {
				return NewHandler(next, WithTracerProvider(r), WithoutInferredRuns())
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t)
			newLoop(t, record(t, r), calling(2)...).run(t.Context(), t)
			assert.Equal(t, 3, r.traces())
			assert.Empty(t, r.named("invoke_agent agent"))
			assert.Empty(t, r.named("execute_tool run"))
			requests := r.named("chat gpt-5")
			require.GreaterOrEqual(t, len(requests), 3)
			for _, q := range requests {
				assert.Nil(t, q.get(semconv.RunIDKey))
				assert.Nil(t, q.get(semconv.RequestAttemptKey))
				assert.Nil(t, q.get("gen_ai.conversation.id"))
			}
		})
	}
}

// servedBy returns a RoundTripper that sends requests to a handler in this process, which
// passes them on to rt.
func servedBy(rt http.RoundTripper, wrap func(http.Handler) http.Handler) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		wrap(http.HandlerFunc(func(w http.ResponseWriter, served *http.Request) {
			out := served.Clone(served.Context())
			out.RequestURI = ""
			resp, err := rt.RoundTrip(out)
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			defer resp.Body.Close()
			w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
			w.WriteHeader(resp.StatusCode)
			_, _ = io.Copy(w, resp.Body)
		})).ServeHTTP(w, req)
		return w.Result(), nil
	})
}

// A run that the application declares is the only one.
func TestDeclaredRunAlone(t *testing.T) {
	r := newRecorder(t)
	l := newLoop(t, NewTransport(base(t)), calling(2)...)
	ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
	l.run(ctx, t)
	run.End(nil)
	assert.Equal(t, 1, r.traces())
	assert.Len(t, r.spans.Ended(), 4)
	assert.Nil(t, r.named("invoke_agent coder")[0].get(semconv.RunInferredKey))
	assert.Equal(t, semconv.RunOutcomeSucceeded, run.Diagnosis().Outcome)
}

// A gateway that tries again itself: its attempts are a part of the request that it serves,
// and that is a part of the run of the agent behind it, which knows of no failure.
func TestGatewaysAttempts(t *testing.T) {
	r := newRecorder(t)
	answers := calling(1)
	s := script{answers: []func(http.ResponseWriter){unavailable, answers[0], resetting, answers[1]}}
	upstream, rt := s.start(t), NewTransport(base(t), WithTracerProvider(r))
	gateway := httptest.NewServer(NewHandler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		for range 2 {
			text, err := call(req.Context(), rt, upstream+chatPath, string(body))
			if err == nil && text != "" {
				streamed(text)(w)
				return
			}
		}
	}), WithTracerProvider(r)))
	l := newLoop(t, base(t))
	l.url = gateway.URL
	l.run(t.Context(), t)
	gateway.Close()

	run := r.runs(t, 1)[0]
	assert.Equal(t, int64(2), run.get(semconv.RunRequestsKey))
	assert.Len(t, r.named("execute_tool run"), 1)
	served := map[trace.SpanID]int{}
	for _, s := range r.named("chat gpt-5") {
		if s.SpanKind() == trace.SpanKindServer {
			served[s.SpanContext().SpanID()] = 0
			assert.Equal(t, run.SpanContext().SpanID().String(), s.get(semconv.RunIDKey))
		}
	}
	for _, s := range r.requests() {
		served[s.Parent().SpanID()]++
		assert.Nil(t, s.get(semconv.RunIDKey))
	}
	require.Len(t, served, 2)
	for _, attempts := range served {
		assert.Equal(t, 2, attempts)
	}
}

// The application has a trace of its own for each step. The requests outside the run's trace
// link it: a Collector that sees one trace at a time need not wait for the run's span.
func TestInferredRunOverSeveralTraces(t *testing.T) {
	r := newRecorder(t)
	l := newLoop(t, NewTransport(base(t), WithTracerProvider(r)), calling(1)...)
	for range 2 {
		ctx, step := r.Tracer("app").Start(t.Context(), "step")
		answer := l.ask(ctx, t)
		step.End()
		l.append(answer)
	}

	run := r.runs(t, 1)[0].SpanContext()
	requests := r.requests()
	require.Len(t, requests, 2)
	assert.Equal(t, run.TraceID(), requests[0].SpanContext().TraceID())
	assert.Empty(t, requests[0].Links())
	assert.NotEqual(t, run.TraceID(), requests[1].SpanContext().TraceID())
	require.Len(t, requests[1].Links(), 1)
	assert.Equal(t, run.SpanID(), requests[1].Links()[0].SpanContext.SpanID())
	assert.Equal(t, run.TraceID(), requests[1].Links()[0].SpanContext.TraceID())
}

// everyOther samples every other trace.
type everyOther struct{ n int }

func (s *everyOther) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	s.n++
	if s.n%2 == 0 {
		return sdktrace.NeverSample().ShouldSample(p)
	}
	return sdktrace.AlwaysSample().ShouldSample(p)
}

func (*everyOther) Description() string { return "" }

// A run is sampled with all of its requests and tools, or without any.
func TestInferredSampling(t *testing.T) {
	r := newRecorder(t, sdktrace.WithSampler(sdktrace.ParentBased(&everyOther{})))
	rt := New(WithTracerProvider(r)).NewTransport(base(t))
	for n := range 6 {
		l := newLoop(t, rt, calling(2)...)
		l.messages[0] = fmt.Sprintf(`{"role":"user","content":"task %d"}`, n)
		l.run(t.Context(), t)
	}
	r.runs(t, 3)
	assert.Equal(t, 3, r.traces())
	assert.Len(t, r.requests(), 9)
	assert.Len(t, r.named("execute_tool run"), 6)
}

// Below a parent that is not sampled no run is inferred, even if a sampler samples the
// request nevertheless.
func TestNothingInferredBelowAnUnsampledSpan(t *testing.T) {
	r := newRecorder(t, sdktrace.WithSampler(sdktrace.AlwaysSample()))
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1},
	}))
	newLoop(t, NewTransport(base(t), WithTracerProvider(r)), calling(1)...).run(ctx, t)
	assert.Len(t, r.spans.Ended(), 2)
	assert.Len(t, r.requests(), 2)
}

// The waits apply to the runs of transports and handlers of the Instrumentation. What is
// not positive is the default.
func TestInferredRunsWaits(t *testing.T) {
	d := New().config.limits
	for _, waits := range []InferredRuns{{}, {RetryWait: -1, OutputWait: -1}} {
		assert.Equal(t, d, New(WithInferredRuns(InferredRuns{RetryWait: 1, OutputWait: 2}), WithInferredRuns(waits)).config.limits)
	}
	assert.NotEqual(t, d, New(WithInferredRuns(InferredRuns{RetryWait: 1})).config.limits)
}

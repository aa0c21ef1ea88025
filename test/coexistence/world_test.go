package coexistence

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

const model = "test-model"

// world is a model server with a script, and a global provider that keeps its spans.
type world struct {
	srv   *faultyllm.Server
	spans *tracetest.SpanRecorder
	wire  *wire
}

func newWorld(t *testing.T, script ...faultyllm.Exchange) *world {
	t.Helper()
	srv, err := faultyllm.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, srv.Close()) })
	srv.Play("c", script...)

	w := &world{srv: srv, spans: tracetest.NewSpanRecorder()}
	provider, propagator := otel.GetTracerProvider(), otel.GetTextMapPropagator()
	t.Cleanup(func() {
		otel.SetTracerProvider(provider)
		otel.SetTextMapPropagator(propagator)
	})
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans)))
	otel.SetTextMapPropagator(propagation.TraceContext{})

	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	w.wire = &wire{base: base}
	return w
}

// wire is the lowest transport: it sees the requests as they are sent.
type wire struct {
	base http.RoundTripper

	mu           sync.Mutex
	traceparents []string // one per request; guarded by mu
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.traceparents = append(w.traceparents, r.Header.Get("Traceparent"))
	w.mu.Unlock()
	return w.base.RoundTrip(r)
}

// run calls the model in a run and returns the run's diagnosis.
func (w *world) run(t *testing.T, call func(ctx context.Context) error) (classify.Diagnosis, error) {
	t.Helper()
	ctx, run := otelllm.StartRun(t.Context(), "test")
	err := call(ctx)
	run.End(err)
	return run.Diagnosis(), err
}

// scope returns the ended spans of an instrumentation scope, ordered by start time.
func (w *world) scope(name string) []sdktrace.ReadOnlySpan {
	var found []sdktrace.ReadOnlySpan
	for _, s := range w.spans.Started() {
		if s.InstrumentationScope().Name == name {
			found = append(found, s)
		}
	}
	return found
}

// requests returns our request spans.
func (w *world) requests() []sdktrace.ReadOnlySpan {
	var found []sdktrace.ReadOnlySpan
	for _, s := range w.scope(otelllm.ScopeName) {
		if s.SpanKind() == trace.SpanKindClient {
			found = append(found, s)
		}
	}
	return found
}

// oneSpanAnAttempt asserts that there is exactly one span of ours for each request
// sent, that the run counted the same number, and that every span has ended.
func (w *world) oneSpanAnAttempt(t *testing.T, attempts int) []sdktrace.ReadOnlySpan {
	t.Helper()
	records, err := w.srv.Records("c")
	require.NoError(t, err)
	require.Len(t, records, attempts, "on the wire")
	requests := w.requests()
	require.Len(t, requests, attempts, "spans of ours")
	for i, s := range requests {
		assert.Equal(t, int64(records[i].Status), attributeOf(s, "http.response.status_code").AsInt64())
		assert.Equal(t, w.runSpan(t).SpanContext().TraceID(), s.SpanContext().TraceID())
	}
	assert.Equal(t, int64(attempts), attributeOf(w.runSpan(t), semconv.RunRequestsKey).AsInt64())
	assert.Len(t, w.spans.Ended(), len(w.spans.Started()), "every span has ended")
	return requests
}

func (w *world) runSpan(t *testing.T) sdktrace.ReadOnlySpan {
	t.Helper()
	var found []sdktrace.ReadOnlySpan
	for _, s := range w.scope(otelllm.ScopeName) {
		if s.Name() == "invoke_agent test" {
			found = append(found, s)
		}
	}
	require.Len(t, found, 1)
	return found[0]
}

func attributeOf(s sdktrace.ReadOnlySpan, key attribute.Key) attribute.Value {
	for _, kv := range s.Attributes() {
		if kv.Key == key {
			return kv.Value
		}
	}
	return attribute.Value{}
}

// numbers returns the attempt number of each span, 0 if it has none.
func numbers(spans []sdktrace.ReadOnlySpan) []int64 {
	all := make([]int64, len(spans))
	for i, s := range spans {
		if v := attributeOf(s, semconv.RequestAttemptKey); v.Type() == attribute.INT64 {
			all[i] = v.AsInt64()
		}
	}
	return all
}

// underOneOf asserts that the parent of each of children is one of parents.
func underOneOf(t *testing.T, children, parents []sdktrace.ReadOnlySpan) {
	t.Helper()
	for _, c := range children {
		var found int
		for _, p := range parents {
			if c.Parent().SpanID() == p.SpanContext().SpanID() {
				found++
			}
		}
		assert.Equal(t, 1, found, "%s is not under one of the others", c.Name())
	}
}

// recovered asserts that the run was one call whose first attempt failed.
func recovered(t *testing.T, d *classify.Diagnosis) {
	t.Helper()
	assert.Equal(t, semconv.RunOutcomeRecovered, d.Outcome, "%+v", d)
	assert.Equal(t, 1, d.RecoveredFailures)
	assert.False(t, d.Failed())
}

var (
	limited  = faultyllm.Refuse(faultyllm.Failure{Trouble: faultyllm.RateLimited})
	answered = faultyllm.Answer(faultyllm.Text("so ", "it is"), faultyllm.Finish(faultyllm.Stop))
	cut      = faultyllm.Answer(faultyllm.Text("so "), faultyllm.Reset())
)

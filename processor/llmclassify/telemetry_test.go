package llmclassify

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/forward"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadatatest"
	"github.com/otelllm/otelllm-go/semconv"
)

// total is the sum of a counter over its attributes.
func total(t *testing.T, m metricdata.Metrics) (sum int64) {
	t.Helper()
	data, ok := m.Data.(metricdata.Sum[int64])
	require.True(t, ok, "%s is no counter", m.Name)
	for _, point := range data.DataPoints {
		sum += point.Value
	}
	return sum
}

func TestTelemetry(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	complete := []spanSpec{
		requestSpan(2, 1, 0.1, 1).answered("length", answer), runSpan(1, 0, 3, 1, 0), otherSpan(9, 2, 0.1, 0.2), httpSpan(8, 0.2),
	}
	h.consume(t, complete...)
	h.consume(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer)) // late
	h.consume(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer).of(2))

	points := func(n int64, kvs ...attribute.KeyValue) []metricdata.DataPoint[int64] {
		return []metricdata.DataPoint[int64]{{Value: n, Attributes: attribute.NewSet(kvs...)}}
	}
	ignore := metricdatatest.IgnoreTimestamp()
	metadatatest.AssertEqualProcessorLlmClassifySpansIn(t, h.telemetry, points(6), ignore)
	metadatatest.AssertEqualProcessorLlmClassifySpansPassed(t, h.telemetry, points(2), ignore)
	metadatatest.AssertEqualProcessorLlmClassifySpansTaken(t, h.telemetry, points(4), ignore)
	metadatatest.AssertEqualProcessorLlmClassifySpansHeld(t, h.telemetry, points(1), ignore)
	metadatatest.AssertEqualProcessorLlmClassifySpansForwarded(t, h.telemetry, points(3), ignore)
	metadatatest.AssertEqualProcessorLlmClassifySpansLate(t, h.telemetry, points(1), ignore)
	metadatatest.AssertEqualProcessorLlmClassifyTracesHeld(t, h.telemetry, points(1), ignore)
	metadatatest.AssertEqualProcessorLlmClassifyFactBytes(t, h.telemetry, points(0), ignore)
	metadatatest.AssertEqualProcessorLlmClassifyRuns(t, h.telemetry, points(1,
		attribute.String("outcome", semconv.RunOutcomeLimited.String()),
		attribute.String("class", semconv.ClassOutputLimited.String()),
		attribute.String("trigger", semconv.TriggerComplete.String()),
	), ignore)

	held, err := h.telemetry.GetMetric("otelcol_processor_llm_classify_bytes_held")
	require.NoError(t, err)
	require.Equal(t, int64(h.Load().Bytes), held.Data.(metricdata.Sum[int64]).DataPoints[0].Value)

	h.pass(t, xMaxHold)
	metadatatest.AssertEqualProcessorLlmClassifyTracesHeld(t, h.telemetry, points(1), ignore) // its facts
	metadatatest.AssertEqualProcessorLlmClassifyBytesHeld(t, h.telemetry, points(0), ignore)
	times, err := h.telemetry.GetMetric("otelcol_processor_llm_classify_hold_time")
	require.NoError(t, err)
	for _, point := range times.Data.(metricdata.Histogram[float64]).DataPoints {
		if trigger, _ := point.Attributes.Value("trigger"); trigger.AsString() == semconv.TriggerHoldExpired.String() {
			require.InDelta(t, xMaxHold.Seconds(), point.Sum, 1e-9)
			return
		}
	}
	require.Fail(t, "no hold time of the span that expired")
}

// addsUp collects the metrics and demands that no span is missing from them. It returns
// those of spans, by the end of their names.
func addsUp(t *testing.T, telemetry *componenttest.Telemetry) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, telemetry.Reader.Collect(t.Context(), &all))
	n := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			name, ok := strings.CutPrefix(m.Name, "otelcol_processor_llm_classify_spans_")
			if !ok {
				continue
			}
			if data, ok := m.Data.(metricdata.Sum[int64]); ok {
				n[name] = data.DataPoints[0].Value
			}
		}
	}
	require.Equal(t, n["in"]+n["replayed"], n["refused"]+n["passed"]+n["forwarded"]-n["added"]+n["lost"]+n["held"], "%v", n)
	for name, value := range n {
		require.GreaterOrEqual(t, value, int64(0), name)
	}
	return n
}

// What is counted is what came, what went and what is here, also of what is refused, lost,
// added and replayed.
func TestSpansAddUp(t *testing.T) {
	next := &flakyNext{}
	d := newDisk()
	h := newHarnessOn(t, d, defaultConfig(), next, t0)
	want := func(want map[string]int64) {
		t.Helper()
		n := addsUp(t, h.telemetry)
		for name, value := range want {
			assert.Equal(t, value, n[name], name)
		}
	}
	h.consume(t, finishedRun(1)...)
	h.consume(t, finishedRun(2)[0], otherSpan(9, 1, 0.1, 0.2))
	want(map[string]int64{"in": 4, "passed": 1, "taken": 3, "held": 1, "forwarded": 2})

	h.pass(t, xMaxHold)
	want(map[string]int64{"held": 0, "forwarded": 3, "added": 0})
	h.pass(t, 2*xRunTimeout)
	want(map[string]int64{"held": 0, "forwarded": 4, "added": 1})

	next.fail = down
	require.Error(t, h.ConsumeTraces(t.Context(), tracesOf(t, otherSpan(9, 1, 0.1, 0.2))))
	h.consume(t, otherSpan(9, 1, 0.1, 0.2), finishedRun(3)[0])
	h.consume(t, finishedRun(4)...)
	want(map[string]int64{"in": 9, "refused": 1, "held": 4, "lost": 0})
	next.fail = nil
	h.pass(t, forward.MaxRetry)
	want(map[string]int64{"held": 0, "forwarded": 8})

	next.fail = func(ptrace.Traces) error { return consumererror.NewPermanent(errDown) }
	h.consume(t, finishedRun(5)...)
	want(map[string]int64{"held": 0, "lost": 2, "forwarded": 8})
	next.fail = func(td ptrace.Traces) error {
		if next.fail = down; td.SpanCount() < 2 {
			return errDown
		}
		left := ptrace.NewTraces()
		td.CopyTo(left)
		kept := false
		left.ResourceSpans().At(0).ScopeSpans().At(0).Spans().RemoveIf(func(ptrace.Span) bool { kept = !kept; return !kept })
		return consumererror.NewTraces(errDown, left)
	}
	h.consume(t, finishedRun(6)...)
	want(map[string]int64{"held": 1, "forwarded": 9})

	h.consume(t, finishedRun(7)[0])
	want(map[string]int64{"held": 2})
	h = newHarnessOn(t, d.copied(), defaultConfig(), nil, h.clock.Now()) // it was killed
	want(map[string]int64{"in": 0, "replayed": 3, "forwarded": 2, "held": 1})
}

// The numbers of a processor that is in two pipelines are those of both instances.
func TestInstancesAddUp(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = h.telemetry.NewTelemetrySettings()
	other := newInside(t, set, defaultConfig(), h.sink, h.clock)
	second := &harness{inside: other, clock: h.clock, sink: h.sink, telemetry: h.telemetry}
	h.consume(t, finishedRun(1)[0])
	second.consume(t, finishedRun(1)[0])
	n := addsUp(t, h.telemetry)
	assert.Equal(t, int64(2), n["in"])
	assert.Equal(t, int64(2), n["held"])
	bytes, err := h.telemetry.GetMetric("otelcol_processor_llm_classify_bytes_held")
	require.NoError(t, err)
	assert.Equal(t, int64(h.Load().Bytes+second.Load().Bytes), total(t, bytes))
	require.NoError(t, other.Shutdown(t.Context()))
	assert.Equal(t, int64(1), addsUp(t, h.telemetry)["held"])
}

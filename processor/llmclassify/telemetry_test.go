package llmclassify_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/forward"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadatatest"
	"github.com/otelllm/otelllm-go/semconv"
)

func TestTelemetry(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	complete := []harness.Span{
		harness.RequestSpan(2, 1, 0.1, 1).Answered("length", harness.Answer), harness.RunSpan(1, 0, 3, 1, 0), harness.OtherSpan(9, 2, 0.1, 0.2), harness.HTTPSpan(8, 0.2),
	}
	h.Consume(t, complete...)
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer)) // late
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer).Of(2))

	points := func(n int64, kvs ...attribute.KeyValue) []metricdata.DataPoint[int64] {
		return []metricdata.DataPoint[int64]{{Value: n, Attributes: attribute.NewSet(kvs...)}}
	}
	ignore := metricdatatest.IgnoreTimestamp()
	metadatatest.AssertEqualProcessorLlmClassifySpansIn(t, h.Metrics, points(6), ignore)
	metadatatest.AssertEqualProcessorLlmClassifySpansPassed(t, h.Metrics, points(2), ignore)
	metadatatest.AssertEqualProcessorLlmClassifySpansTaken(t, h.Metrics, points(4), ignore)
	metadatatest.AssertEqualProcessorLlmClassifySpansHeld(t, h.Metrics, points(1), ignore)
	metadatatest.AssertEqualProcessorLlmClassifySpansForwarded(t, h.Metrics, points(3), ignore)
	metadatatest.AssertEqualProcessorLlmClassifySpansLate(t, h.Metrics, points(1), ignore)
	metadatatest.AssertEqualProcessorLlmClassifyTracesHeld(t, h.Metrics, points(1), ignore)
	metadatatest.AssertEqualProcessorLlmClassifyFactBytes(t, h.Metrics, points(0), ignore)
	metadatatest.AssertEqualProcessorLlmClassifyRuns(t, h.Metrics, points(1,
		attribute.String("outcome", semconv.RunOutcomeLimited.String()),
		attribute.String("class", semconv.ClassOutputLimited.String()),
		attribute.String("trigger", semconv.TriggerComplete.String()),
	), ignore)

	held, err := h.Metrics.GetMetric("otelcol_processor_llm_classify_bytes_held")
	require.NoError(t, err)
	require.Equal(t, int64(h.Load().Bytes), held.Data.(metricdata.Sum[int64]).DataPoints[0].Value)

	h.Pass(t, harness.MaxHold)
	metadatatest.AssertEqualProcessorLlmClassifyTracesHeld(t, h.Metrics, points(1), ignore) // its facts
	metadatatest.AssertEqualProcessorLlmClassifyBytesHeld(t, h.Metrics, points(0), ignore)
	times, err := h.Metrics.GetMetric("otelcol_processor_llm_classify_hold_time")
	require.NoError(t, err)
	for _, point := range times.Data.(metricdata.Histogram[float64]).DataPoints {
		if trigger, _ := point.Attributes.Value("trigger"); trigger.AsString() == semconv.TriggerHoldExpired.String() {
			require.InDelta(t, harness.MaxHold.Seconds(), point.Sum, 1e-9)
			return
		}
	}
	require.Fail(t, "no hold time of the span that expired")
}

// What is counted is what came, what went and what is here, also of what is refused, lost,
// added and replayed.
func TestSpansAddUp(t *testing.T) {
	next := &harness.FlakyNext{}
	d := harness.NewDisk()
	h := harness.NewOn(t, d, harness.DefaultConfig(), next, harness.T0)
	want := func(want map[string]int64) {
		t.Helper()
		n := harness.AddsUp(t, h.Metrics)
		for name, value := range want {
			assert.Equal(t, value, n[name], name)
		}
	}
	h.Consume(t, harness.FinishedRun(1)...)
	h.Consume(t, harness.FinishedRun(2)[0], harness.OtherSpan(9, 1, 0.1, 0.2))
	want(map[string]int64{"in": 4, "passed": 1, "taken": 3, "held": 1, "forwarded": 2})

	h.Pass(t, harness.MaxHold)
	want(map[string]int64{"held": 0, "forwarded": 3, "added": 0})
	h.Pass(t, 2*harness.RunTimeout)
	want(map[string]int64{"held": 0, "forwarded": 4, "added": 1})

	next.Fail = harness.Down
	require.Error(t, h.ConsumeTraces(t.Context(), harness.TracesOf(t, harness.OtherSpan(9, 1, 0.1, 0.2))))
	h.Consume(t, harness.OtherSpan(9, 1, 0.1, 0.2), harness.FinishedRun(3)[0])
	h.Consume(t, harness.FinishedRun(4)...)
	want(map[string]int64{"in": 9, "refused": 1, "held": 4, "lost": 0})
	next.Fail = nil
	h.Pass(t, forward.MaxRetry)
	want(map[string]int64{"held": 0, "forwarded": 8})

	next.Fail = func(ptrace.Traces) error { return consumererror.NewPermanent(harness.ErrDown) }
	h.Consume(t, harness.FinishedRun(5)...)
	want(map[string]int64{"held": 0, "lost": 2, "forwarded": 8})
	next.Fail = func(td ptrace.Traces) error {
		if next.Fail = harness.Down; td.SpanCount() < 2 {
			return harness.ErrDown
		}
		left := ptrace.NewTraces()
		td.CopyTo(left)
		kept := false
		left.ResourceSpans().At(0).ScopeSpans().At(0).Spans().RemoveIf(func(ptrace.Span) bool { kept = !kept; return !kept })
		return consumererror.NewTraces(harness.ErrDown, left)
	}
	h.Consume(t, harness.FinishedRun(6)...)
	want(map[string]int64{"held": 1, "forwarded": 9})

	h.Consume(t, harness.FinishedRun(7)[0])
	want(map[string]int64{"held": 2})
	h = harness.NewOn(t, d.Copied(), harness.DefaultConfig(), nil, h.Clock.Now()) // it was killed
	want(map[string]int64{"in": 0, "replayed": 3, "forwarded": 2, "held": 1})
}

// The numbers of a processor that is in two pipelines are those of both instances.
func TestInstancesAddUp(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = h.Metrics.NewTelemetrySettings()
	other := harness.Make(t, set, harness.DefaultConfig(), h.Sink, h.Clock)
	second := &harness.Harness{Processor: other, Clock: h.Clock, Sink: h.Sink, Metrics: h.Metrics}
	h.Consume(t, harness.FinishedRun(1)[0])
	second.Consume(t, harness.FinishedRun(1)[0])
	n := harness.AddsUp(t, h.Metrics)
	assert.Equal(t, int64(2), n["in"])
	assert.Equal(t, int64(2), n["held"])
	bytes, err := h.Metrics.GetMetric("otelcol_processor_llm_classify_bytes_held")
	require.NoError(t, err)
	assert.Equal(t, int64(h.Load().Bytes+second.Load().Bytes), harness.Total(t, bytes))
	require.NoError(t, other.Shutdown(t.Context()))
	assert.Equal(t, int64(1), harness.AddsUp(t, h.Metrics)["held"])
}

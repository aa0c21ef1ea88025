package llmclassify

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

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
	metadatatest.AssertEqualProcessorLlmClassifySpansHeld(t, h.telemetry, points(4), ignore)
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
	require.Equal(t, int64(h.load().bytes), held.Data.(metricdata.Gauge[int64]).DataPoints[0].Value)

	h.pass(t, defaultMaxHold)
	metadatatest.AssertEqualProcessorLlmClassifyTracesHeld(t, h.telemetry, points(1), ignore) // its facts
	metadatatest.AssertEqualProcessorLlmClassifyBytesHeld(t, h.telemetry, points(0), ignore)
	times, err := h.telemetry.GetMetric("otelcol_processor_llm_classify_hold_time")
	require.NoError(t, err)
	for _, point := range times.Data.(metricdata.Histogram[float64]).DataPoints {
		if trigger, _ := point.Attributes.Value("trigger"); trigger.AsString() == semconv.TriggerHoldExpired.String() {
			require.InDelta(t, defaultMaxHold.Seconds(), point.Sum, 1e-9)
			return
		}
	}
	require.Fail(t, "no hold time of the span that expired")
}

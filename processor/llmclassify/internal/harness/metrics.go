package harness

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Total is the sum of a counter over its attributes.
func Total(t *testing.T, m metricdata.Metrics) (sum int64) {
	t.Helper()
	data, ok := m.Data.(metricdata.Sum[int64])
	require.True(t, ok, "%s is no counter", m.Name)
	for _, point := range data.DataPoints {
		sum += point.Value
	}
	return sum
}

// AddsUp collects the metrics and demands that no span is missing from them. It returns
// those of spans, by the end of their names.
func AddsUp(t *testing.T, telemetry *componenttest.Telemetry) map[string]int64 {
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

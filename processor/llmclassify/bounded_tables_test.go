package llmclassify_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/tenant"
)

// turns lets the shards work until there is nothing to do.
func turns(t *testing.T, h *harness.Harness) {
	t.Helper()
	for _, s := range h.Shards {
		for s.Turn(t.Context()) {
		}
	}
}

// fillTables sends runs of a tenant, each in a trace of its own, that fill all tables: runs
// that may be within another one, whole with the spans between them, the evidence of an HTTP
// client whose request never comes, and spans of calls that were refused.
func fillTables(t *testing.T, h *harness.Harness, tenant string, trace *uint64, runs int) {
	t.Helper()
	td := ptrace.NewTraces()
	for range runs {
		*trace++
		request := harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer)
		run := harness.RunSpan(1, 0, 3, 1, 0)
		run.Parent = 7
		one := harness.TracesOf(t, request, run, harness.OtherSpan(9, 1, 0.1, 0.2))
		evidence := harness.TracesOf(t, harness.HTTPSpan(8, 0.9)) // in a trace of its own
		for _, span := range one.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
			span.SetTraceID(harness.NthTraceID(*trace))
		}
		*trace++
		evidence.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetTraceID(harness.NthTraceID(*trace))
		one.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
		evidence.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	}
	require.NoError(t, h.Processor.ConsumeTraces(t.Context(), ofTenant(tenant, td)))
	turns(t, h)
	for range runs {
		*trace++
		l := h.Pool.Lane(h.Tenants.Named(tenant), harness.NthTraceID(*trace))
		l.Buffer.Refuse(h.Clock.Now(), harness.NthTraceID(*trace))
		l.Account()
	}
}

// Whatever tenants there are, what is kept beside facts takes no more than one alone may use.
func TestTablesAreBoundedForAllTenants(t *testing.T) {
	cfg := tenantConfig()
	part := sample.Every(4)
	cfg.MaxFactBytes = 4 << 20 / part
	h := harness.New(t, cfg, nil)
	size := func() (sum int) {
		for _, s := range h.Shards {
			for l := range s.All {
				sum += l.TableBytes()
			}
		}
		return sum
	}
	bound := cfg.MaxFactBytes * 6 / 16
	trace := uint64(0)
	for range 100 / part {
		fillTables(t, h, "first", &trace, 100)
	}
	require.Greater(t, size(), bound/4, "one alone fills all but the parts of root runs and of traces that are here")
	for range 3 {
		for i := range tenant.Max {
			fillTables(t, h, fmt.Sprintf("tenant %d", i), &trace, 20/part)
		}
	}
	assert.Greater(t, size(), bound/4)
	assert.LessOrEqual(t, size(), bound)

	sizes := h.Tables()
	evidence := h.Load().Evidence
	assert.Equal(t, size(), sizes[telemetry.JudgedTable]+sizes[telemetry.HistoryTable]+evidence)
	for i, size := range sizes {
		assert.Positive(t, size, "table %d", i)
	}
	assert.Positive(t, evidence)
	assert.Equal(t, sizes, tableGauges(t, h))
}

// tableGauges is the sizes of tables as the metrics have them.
func tableGauges(t *testing.T, h *harness.Harness) (sizes telemetry.TableSizes) {
	t.Helper()
	m, err := h.Metrics.GetMetric("otelcol_processor_llm_classify_table_bytes")
	require.NoError(t, err)
	points := m.Data.(metricdata.Sum[int64]).DataPoints
	require.Len(t, points, len(sizes))
	for i, name := range []string{"judged", "history"} {
		for _, p := range points {
			if p.Attributes.Equals(ptrTo(attribute.NewSet(attribute.String("table", name)))) {
				sizes[i] = int(p.Value)
			}
		}
	}
	return sizes
}

func ptrTo[T any](v T) *T { return &v }

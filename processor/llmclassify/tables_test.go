package llmclassify

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/semconv"
)

// turns lets the shards work until there is nothing to do.
func (h *harness) turns(t *testing.T) {
	t.Helper()
	for _, s := range h.shards {
		for s.turn(t.Context()) {
		}
	}
}

// fillTables sends runs of a tenant, each in a trace of its own, that fill all tables: runs
// that may be within another one, whole with the spans between them, the evidence of an HTTP
// client whose request never comes, and spans of calls that were refused.
func fillTables(t *testing.T, h *harness, tenant string, trace *uint64, runs int) {
	t.Helper()
	td := ptrace.NewTraces()
	for range runs {
		*trace++
		request := requestSpan(2, 1, 0.1, 1).answered("stop", answer)
		run := runSpan(1, 0, 3, 1, 0)
		run.parent = 7
		one := tracesOf(t, request, run, otherSpan(9, 1, 0.1, 0.2))
		evidence := tracesOf(t, httpSpan(8, 0.9)) // in a trace of its own
		for _, span := range one.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
			span.SetTraceID(numbered(*trace))
		}
		*trace++
		evidence.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetTraceID(numbered(*trace))
		one.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
		evidence.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	}
	require.NoError(t, h.classifier.ConsumeTraces(t.Context(), ofTenant(tenant, td)))
	h.turns(t)
	for range runs {
		*trace++
		l := h.shards.of(h.tenants.named(tenant), numbered(*trace))
		l.awaited.call(h.clock.Now(), numbered(*trace), at(0), at(0))
		l.awaited.refuse(h.clock.Now(), numbered(*trace), []*assemble.Item{{ID: spanID(1)}}, true)
	}
}

// Whatever tenants there are, what is kept beside facts takes no more than one alone may use.
func TestTablesAreBoundedForAllTenants(t *testing.T) {
	cfg := tenantConfig()
	cfg.MaxFactBytes = 4 << 20
	h := newHarness(t, cfg, nil)
	size := func() (sum int) {
		for _, s := range h.shards {
			for l := range s.all {
				sum += l.tableBytes()
			}
		}
		return sum
	}
	bound := cfg.MaxFactBytes * 6 / 16
	trace := uint64(0)
	for range 100 {
		fillTables(t, h, "first", &trace, 100)
	}
	require.Greater(t, size(), bound/2, "one alone has most of it")
	for range 3 {
		for i := range maxTenants {
			fillTables(t, h, fmt.Sprintf("tenant %d", i), &trace, 20)
		}
	}
	assert.Greater(t, size(), bound/2)
	assert.LessOrEqual(t, size(), bound)

	sizes := h.tables()
	evidence := h.load().evidence
	assert.Equal(t, size(), sizes[judgedTable]+sizes[innerRunsTable]+sizes[correctionsTable]+sizes[refusedTable]+evidence)
	for i, size := range sizes[:recalledTable] {
		assert.Positive(t, size, "table %d", i)
	}
	assert.Positive(t, evidence)
	assert.Equal(t, sizes, tableGauges(t, h))
}

// tableGauges is the sizes of tables as the metrics have them.
func tableGauges(t *testing.T, h *harness) (sizes tableSizes) {
	t.Helper()
	m, err := h.telemetry.GetMetric("otelcol_processor_llm_classify_table_bytes")
	require.NoError(t, err)
	points := m.Data.(metricdata.Sum[int64]).DataPoints
	require.Len(t, points, len(sizes))
	for i, name := range []string{"judged", "inner_runs", "corrections", "refused", "recalled"} {
		for _, p := range points {
			if p.Attributes.Equals(ptrTo(attribute.NewSet(attribute.String("table", name)))) {
				sizes[i] = int(p.Value)
			}
		}
	}
	return sizes
}

func ptrTo[T any](v T) *T { return &v }

// After a restart spans are late by what was judged of their own tenant alone. What was judged
// of others is kept until they come, or for as long as it would have been remembered.
func TestTenantsAreRecalledApart(t *testing.T) {
	send := func(h *harness, tenant string, specs ...spanSpec) {
		require.NoError(t, h.ConsumeTraces(t.Context(), ofTenant(tenant, tracesOf(t, specs...))))
	}
	for name, judge := range map[string]func(h *harness){
		"whole": func(h *harness) { send(h, "a", finishedRun(1)...) },
		"whole, with another span": func(h *harness) {
			send(h, "a", append(finishedRun(1), otherSpan(9, 1, 0.1, 0.2))...)
		},
		"held": func(h *harness) {
			send(h, "a", finishedRun(1)[0])
			send(h, "a", finishedRun(1)[1])
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk()
			h := newHarnessOn(t, d, tenantConfig(), nil, t0)
			judge(h)
			send(h, "", finishedRun(2)...) // names no tenant
			require.Len(t, runOutcomes(h.out()), 2)

			h = newHarnessOn(t, d, tenantConfig(), nil, t0)
			both := h.tables()[recalledTable]
			late := requestSpan(3, 1, 1.5, 2).answered("stop", answer)
			send(h, "b", late, late.of(2))
			assert.Empty(t, h.sink.AllTraces(), "of another tenant")
			assert.Equal(t, both, h.tables()[recalledTable])
			send(h, "a", late)
			assert.Equal(t, map[pcommon.SpanID]semconv.Trigger{spanID(3): semconv.TriggerLate}, triggersOf(h.out()))
			assert.Less(t, h.tables()[recalledTable], both)
			assert.Positive(t, h.tables()[recalledTable])
			h.sink.Reset()
			send(h, "", late.of(2))
			assert.Equal(t, map[pcommon.SpanID]semconv.Trigger{spanID(3): semconv.TriggerLate}, triggersOf(h.out()))
			assert.Zero(t, h.tables()[recalledTable])

			h = newHarnessOn(t, d, tenantConfig(), nil, t0)
			h.clock.advance(2*defaultRunTimeout - time.Second)
			h.shards[0].rotate()
			assert.Positive(t, h.tables()[recalledTable])
			h.clock.advance(time.Second)
			h.shards[0].rotate()
			assert.Zero(t, h.tables()[recalledTable])
		})
	}

	// Records of a time without tenants may be of any, and the other way round.
	d := newDisk()
	h := newHarnessOn(t, d, defaultConfig(), nil, t0)
	h.consume(t, finishedRun(1)...)
	h = newHarnessOn(t, d, tenantConfig(), nil, t0)
	send(h, "a", finishedRun(2)...)
	for _, tenant := range []string{"a", "b", ""} {
		h.sink.Reset()
		send(h, tenant, requestSpan(3, 1, 1.5, 2).answered("stop", answer))
		assert.Equal(t, map[pcommon.SpanID]semconv.Trigger{spanID(3): semconv.TriggerLate}, triggersOf(h.out()), tenant)
	}
	h = newHarnessOn(t, d, defaultConfig(), nil, t0)
	h.consume(t, requestSpan(3, 1, 1.5, 2).answered("stop", answer).of(2))
	assert.Equal(t, map[pcommon.SpanID]semconv.Trigger{spanID(3): semconv.TriggerLate}, triggersOf(h.out()))
	assert.Zero(t, h.tables()[recalledTable])
}

package llmclassify_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

// sendTraces sends a call of a tenant with a request in each of n traces.
func sendTraces(t *testing.T, h *harness.Harness, tenant string, first uint64, n int) {
	t.Helper()
	td := harness.TracesOf(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer))
	spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	for range n - 1 {
		spans.At(0).CopyTo(spans.AppendEmpty())
	}
	for i, span := range spans.All() {
		span.SetTraceID(harness.NthTraceID(first + uint64(i))) //nolint:gosec // not negative
	}
	require.NoError(t, h.Processor.ConsumeTraces(t.Context(), ofTenant(tenant, td)))
}

// A tenant whose facts take all the room at once, before or after a restart, takes none of what
// another one has: its runs without end have their verdict in time.
func TestFactsBesideAFlood(t *testing.T) {
	const runs, more = 12, 1 << 20
	cfg := tenantConfig()
	cfg.MaxFactBytes = 256 << 10
	for name, killed := range map[string]bool{"in one process": false, "over a kill": true} {
		t.Run(name, func(t *testing.T) {
			d := harness.NewDisk()
			h := harness.NewOn(t, d, cfg, nil, harness.T0)
			turn := func() {
				h.Shards[0].Turn(t.Context())
				assert.LessOrEqual(t, h.Load().FactBytes, cfg.MaxFactBytes)
			}
			for i := range uint64(runs) {
				sendTraces(t, h, "honest", i, 1)
				turn()
			}
			h.Clock.Advance(cfg.MaxHold)
			turns(t, h)
			require.Equal(t, runs, h.Sink.SpanCount(), "they went out early")
			require.Equal(t, runs, h.Shards[0].Lane(h.Tenants.Named("honest")).Buffer.Traces())
			sendTraces(t, h, "flood", more, 2000)
			for i := range uint64(runs) {
				sendTraces(t, h, "honest", runs+i, 1)
				turn()
			}
			outcomes := honestOutcomes{}
			if killed {
				outcomes.add(h.Out())
				h = harness.New(t, cfg, nil)
				h.Clock.Advance(cfg.MaxHold)
				h.OpenBy(t, d, turn)
				turns(t, h)
			}
			h.Clock.Advance(cfg.MaxHold)
			for i := range uint64(runs) { // what has come late is no reason to forget others
				sendTraces(t, h, "honest", 2*runs+i, 1)
				turn()
			}
			turns(t, h)
			assert.Positive(t, h.Shards[0].Lane(h.Tenants.Named("flood")).Buffer.Traces(), "it has a part of the room, too")
			for range 3 {
				h.Clock.Advance(cfg.RunTimeout)
				turns(t, h)
			}
			outcomes.add(h.Out())
			for i := range uint64(3 * runs) {
				assert.Equal(t, []string{semconv.RunOutcomeIncomplete.String()}, outcomes[harness.NthTraceID(i)], "run %d", i)
			}
		})
	}
}

// honestOutcomes are the outcomes of the honest tenant's runs by their trace.
type honestOutcomes map[pcommon.TraceID][]string

func (o honestOutcomes) add(td ptrace.Traces) {
	for _, rs := range td.ResourceSpans().All() {
		if v, _ := rs.Resource().Attributes().Get(namespaceKey); v.Str() != "honest" {
			continue
		}
		for _, span := range rs.ScopeSpans().At(0).Spans().All() {
			if v, ok := span.Attributes().Get(string(semconv.RunOutcomeKey)); ok {
				o[span.TraceID()] = append(o[span.TraceID()], v.Str())
			}
		}
	}
}

package llmclassify_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/tenant"
	"github.com/otelllm/otelllm-go/semconv"
)

const namespaceKey = "service.namespace"

// tenantConfig tells tenants apart by their namespace.
func tenantConfig() *llmclassify.Config {
	cfg := harness.DefaultConfig()
	cfg.TenantFrom = tenant.FromResource + namespaceKey
	return cfg
}

// ofTenant gives all resources of a call a tenant.
func ofTenant(name string, td ptrace.Traces) ptrace.Traces {
	for _, rs := range td.ResourceSpans().All() {
		rs.Resource().Attributes().PutStr(namespaceKey, name)
	}
	return td
}

// A tenant that names another one's trace and run changes nothing of its verdicts: neither
// before, nor after, nor in the same call.
func TestTenantsAreJudgedApart(t *testing.T) {
	honest := harness.FinishedRun(1)
	forged := []harness.Span{
		harness.ToolSpan(20, 0.2, 0.4, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeFailed),
		harness.RequestSpan(21, 1, 1.5, 2).Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Answer),
		harness.RunSpan(1, 0, 3, 2, 1),
	}
	alone := harness.New(t, tenantConfig(), nil)
	require.NoError(t, alone.ConsumeTraces(t.Context(), ofTenant("a", harness.TracesOf(t, honest...))))
	want := harness.SpansOf(alone.Out())
	both := func(h *harness.Harness, split bool) {
		td := ofTenant("b", harness.TracesOf(t, forged...))
		if split {
			require.NoError(t, h.ConsumeTraces(t.Context(), td))
			td = ptrace.NewTraces()
		}
		ofTenant("a", harness.TracesOf(t, honest...)).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
		require.NoError(t, h.ConsumeTraces(t.Context(), td))
	}
	for name, play := range map[string]func(*harness.Harness){
		"in one call": func(h *harness.Harness) { both(h, false) },
		"before":      func(h *harness.Harness) { both(h, true) },
		"after": func(h *harness.Harness) {
			require.NoError(t, h.ConsumeTraces(t.Context(), ofTenant("a", harness.TracesOf(t, honest...))))
			require.NoError(t, h.ConsumeTraces(t.Context(), ofTenant("b", harness.TracesOf(t, forged...))))
		},
		"while it is held": func(h *harness.Harness) {
			require.NoError(t, h.ConsumeTraces(t.Context(), ofTenant("a", harness.TracesOf(t, honest[0]))))
			require.NoError(t, h.ConsumeTraces(t.Context(), ofTenant("b", harness.TracesOf(t, forged...))))
			require.NoError(t, h.ConsumeTraces(t.Context(), ofTenant("a", harness.TracesOf(t, honest[1]))))
		},
	} {
		for _, shards := range []int{1, 3} {
			cfg := tenantConfig()
			cfg.Shards = shards
			h := harness.New(t, cfg, nil)
			play(h)
			h.Pass(t, harness.MaxHold)
			h.Pass(t, 2*harness.RunTimeout)
			found := 0
			for _, rs := range h.Out().ResourceSpans().All() {
				if v, _ := rs.Resource().Attributes().Get(namespaceKey); v.Str() != "a" {
					continue
				}
				for _, span := range rs.ScopeSpans().At(0).Spans().All() {
					found++
					assert.Equal(t, want[span.SpanID()].Attributes().AsRaw(), span.Attributes().AsRaw(), "%s, span %s", name, span.SpanID())
				}
			}
			assert.Equal(t, len(honest), found, name)
			assert.Equal(t, telemetry.Load{}, h.Load(), name)
		}
	}
}

// Callers are the tenants where metadata tells them apart.
func TestTenantsByMetadata(t *testing.T) {
	cfg := harness.DefaultConfig()
	cfg.TenantFrom, cfg.MetadataKeys = tenant.FromMetadata, []string{"X-Tenant"}
	require.NoError(t, cfg.Validate())
	h := harness.New(t, cfg, nil)
	as := func(tenant string, specs ...harness.Span) {
		ctx := client.NewContext(t.Context(), client.Info{Metadata: client.NewMetadata(map[string][]string{"x-tenant": {tenant}})})
		require.NoError(t, h.ConsumeTraces(ctx, harness.TracesOf(t, specs...)))
	}
	as("a", harness.FinishedRun(1)[0])
	as("b", harness.FinishedRun(1)[1])
	assert.Empty(t, h.Sink.AllTraces(), "the run of another tenant")
	as("a", harness.FinishedRun(1)[1])
	assert.Equal(t, 2, h.Out().SpanCount())
}

// One tenant alone may use four fifths of the memory; a second one finds room at once, and
// takes nothing of it away from the first but what that has too much.
func TestTenantsShareMemory(t *testing.T) {
	cfg := tenantConfig()
	cfg.MaxHeldBytes, cfg.MaxFactBytes = 1<<20, 1<<20
	h := harness.New(t, cfg, nil)
	trace := uint64(0)
	send := func(tenant string) {
		trace++
		td := ofTenant(tenant, harness.TracesOf(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer)))
		td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetTraceID(harness.NthTraceID(trace))
		require.NoError(t, h.Processor.ConsumeTraces(t.Context(), td))
		for h.Shards[0].Turn(t.Context()) {
		}
		require.LessOrEqual(t, h.Load().Bytes, cfg.MaxHeldBytes)
		require.LessOrEqual(t, h.Load().FactBytes, cfg.MaxFactBytes)
	}
	used := func(tenant string) int64 { return h.Tenants.Named(tenant).Used.Load() }
	for range 2000 / sample.Every(2) {
		send("flood")
	}
	assert.InDelta(t, cfg.MaxHeldBytes*4/5, used("flood"), 5e4)
	for range 50 {
		send("honest")
	}
	for _, td := range h.Sink.AllTraces() {
		for _, rs := range td.ResourceSpans().All() {
			v, _ := rs.Resource().Attributes().Get(namespaceKey)
			require.Equal(t, "flood", v.Str(), "none of the honest one's spans go early")
		}
	}
	for range 2000 / sample.Every(2) {
		send("flood")
		send("second flood")
	}
	assert.InDelta(t, cfg.MaxHeldBytes*4/9, used("second flood"), 6e4)
	for range 10_000 / sample.Every(5) { // facts of spans that went early
		send("flood")
	}
	honest := h.Shards[0].Lane(h.Tenants.Named("honest"))
	assert.Equal(t, 50, honest.Buffer.Traces(), "it has all that it had")
}

// At the bound the calls of one tenant are refused, not those of another one.
func TestTenantsAreRefusedApart(t *testing.T) {
	cfg := tenantConfig()
	cfg.MaxHeldBytes = 1 << 20
	next := &harness.FlakyNext{Fail: harness.Down}
	h := harness.New(t, cfg, next)
	send := func(tenant string, trace byte) (err error) { // in two calls, so that the run is held
		for _, span := range harness.FinishedRun(trace) {
			err = errors.Join(err, h.ConsumeTraces(t.Context(), ofTenant(tenant, harness.TracesOf(t, span))))
		}
		return err
	}
	refused := func(tenant string) bool { return send(tenant, 1) != nil }
	n := 0
	for ; !refused("flood"); n++ {
		for i := range byte(200) {
			_ = send("flood", i+1)
		}
		require.Less(t, n, 1000)
	}
	assert.False(t, refused("honest"))
	assert.True(t, refused("flood"))
}

// What waits to be sent again cannot be evicted. Even where it has taken all, another tenant
// has a part of the memory.
func TestTenantsHaveAFloor(t *testing.T) {
	b := tenant.NewBudget(1<<20, true)
	all := tenant.NewSet(tenantConfig().TenantFrom, b)
	flood, honest := all.Named("flood"), all.Named("honest")
	b.Add(flood, 1<<20)
	b.AddWaiting(1 << 20)
	const floor = 1 << 20 / tenant.Floors / 2 // of two
	require.NoError(t, b.Admit(honest, floor))
	require.ErrorIs(t, b.Admit(honest, 1), tenant.ErrFull)
	require.ErrorIs(t, b.Admit(flood, 1), tenant.ErrFull)
	assert.Equal(t, int64(floor), honest.Used.Load())
	assert.Zero(t, b.Over(honest), "none of it goes early")
}

// Names beyond those that are told apart share one place.
func TestManyTenants(t *testing.T) {
	h := harness.New(t, tenantConfig(), nil)
	for i := range 2 * tenant.Max {
		require.NoError(t, h.ConsumeTraces(t.Context(), ofTenant(fmt.Sprintf("tenant %d", i), harness.TracesOf(t, harness.FinishedRun(1)...))))
	}
	assert.Len(t, h.Tenants.Known, tenant.Max)
	assert.Same(t, h.Tenants.Others, h.Tenants.Named("one more"))
	assert.Same(t, h.Tenants.Others, h.Tenants.Named(""))
	lanes := 0
	for range h.Shards[0].All {
		lanes++
	}
	assert.Equal(t, tenant.Max+1, lanes)
	h.Pass(t, 2*harness.RunTimeout)
	assert.Equal(t, telemetry.Load{}, h.Load())
}

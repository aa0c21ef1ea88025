package llmclassify

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/tenant"
	"github.com/otelllm/otelllm-go/semconv"
)

const namespaceKey = "service.namespace"

// tenantConfig tells tenants apart by their namespace.
func tenantConfig() *Config {
	cfg := defaultConfig()
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
	honest := finishedRun(1)
	forged := []spanSpec{
		toolSpan(20, 0.2, 0.4, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeFailed),
		requestSpan(21, 1, 1.5, 2).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", answer),
		runSpan(1, 0, 3, 2, 1),
	}
	alone := newHarness(t, tenantConfig(), nil)
	require.NoError(t, alone.ConsumeTraces(t.Context(), ofTenant("a", tracesOf(t, honest...))))
	want := spansOf(alone.out())
	both := func(h *harness, split bool) {
		td := ofTenant("b", tracesOf(t, forged...))
		if split {
			require.NoError(t, h.ConsumeTraces(t.Context(), td))
			td = ptrace.NewTraces()
		}
		ofTenant("a", tracesOf(t, honest...)).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
		require.NoError(t, h.ConsumeTraces(t.Context(), td))
	}
	for name, play := range map[string]func(*harness){
		"in one call": func(h *harness) { both(h, false) },
		"before":      func(h *harness) { both(h, true) },
		"after": func(h *harness) {
			require.NoError(t, h.ConsumeTraces(t.Context(), ofTenant("a", tracesOf(t, honest...))))
			require.NoError(t, h.ConsumeTraces(t.Context(), ofTenant("b", tracesOf(t, forged...))))
		},
		"while it is held": func(h *harness) {
			require.NoError(t, h.ConsumeTraces(t.Context(), ofTenant("a", tracesOf(t, honest[0]))))
			require.NoError(t, h.ConsumeTraces(t.Context(), ofTenant("b", tracesOf(t, forged...))))
			require.NoError(t, h.ConsumeTraces(t.Context(), ofTenant("a", tracesOf(t, honest[1]))))
		},
	} {
		for _, shards := range []int{1, 3} {
			cfg := tenantConfig()
			cfg.Shards = shards
			h := newHarness(t, cfg, nil)
			play(h)
			h.pass(t, xMaxHold)
			h.pass(t, 2*xRunTimeout)
			found := 0
			for _, rs := range h.out().ResourceSpans().All() {
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
	cfg := defaultConfig()
	cfg.TenantFrom, cfg.MetadataKeys = tenant.FromMetadata, []string{"X-Tenant"}
	require.NoError(t, cfg.Validate())
	h := newHarness(t, cfg, nil)
	as := func(tenant string, specs ...spanSpec) {
		ctx := client.NewContext(t.Context(), client.Info{Metadata: client.NewMetadata(map[string][]string{"x-tenant": {tenant}})})
		require.NoError(t, h.ConsumeTraces(ctx, tracesOf(t, specs...)))
	}
	as("a", finishedRun(1)[0])
	as("b", finishedRun(1)[1])
	assert.Empty(t, h.sink.AllTraces(), "the run of another tenant")
	as("a", finishedRun(1)[1])
	assert.Equal(t, 2, h.out().SpanCount())
}

// One tenant alone may use four fifths of the memory; a second one finds room at once, and
// takes nothing of it away from the first but what that has too much.
func TestTenantsShareMemory(t *testing.T) {
	cfg := tenantConfig()
	cfg.MaxHeldBytes, cfg.MaxFactBytes = 1<<20, 1<<20
	h := newHarness(t, cfg, nil)
	trace := uint64(0)
	send := func(tenant string) {
		trace++
		td := ofTenant(tenant, tracesOf(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer)))
		td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetTraceID(numbered(trace))
		require.NoError(t, h.inside.ConsumeTraces(t.Context(), td))
		for h.Shards[0].Turn(t.Context()) {
		}
		require.LessOrEqual(t, h.Load().Bytes, cfg.MaxHeldBytes)
		require.LessOrEqual(t, h.Load().FactBytes, cfg.MaxFactBytes)
	}
	used := func(tenant string) int64 { return h.Tenants.Named(tenant).Used.Load() }
	for range 2000 {
		send("flood")
	}
	assert.InDelta(t, cfg.MaxHeldBytes*4/5, used("flood"), 5e4)
	for range 50 {
		send("honest")
	}
	for _, td := range h.sink.AllTraces() {
		for _, rs := range td.ResourceSpans().All() {
			v, _ := rs.Resource().Attributes().Get(namespaceKey)
			require.Equal(t, "flood", v.Str(), "none of the honest one's spans go early")
		}
	}
	for range 2000 {
		send("flood")
		send("second flood")
	}
	assert.InDelta(t, cfg.MaxHeldBytes*4/9, used("second flood"), 6e4)
	for range 10_000 { // facts of spans that went early
		send("flood")
	}
	honest := h.Shards[0].Lane(h.Tenants.Named("honest"))
	assert.Equal(t, 50, honest.Buffer.Traces(), "it has all that it had")
}

// At the bound the calls of one tenant are refused, not those of another one.
func TestTenantsAreRefusedApart(t *testing.T) {
	cfg := tenantConfig()
	cfg.MaxHeldBytes = 1 << 20
	next := &flakyNext{fail: down}
	h := newHarness(t, cfg, next)
	send := func(tenant string, trace byte) (err error) { // in two calls, so that the run is held
		for _, span := range finishedRun(trace) {
			err = errors.Join(err, h.ConsumeTraces(t.Context(), ofTenant(tenant, tracesOf(t, span))))
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
	h := newHarness(t, tenantConfig(), nil)
	for i := range 2 * tenant.Max {
		require.NoError(t, h.ConsumeTraces(t.Context(), ofTenant(fmt.Sprintf("tenant %d", i), tracesOf(t, finishedRun(1)...))))
	}
	assert.Len(t, h.Tenants.Known, tenant.Max)
	assert.Same(t, h.Tenants.Others, h.Tenants.Named("one more"))
	assert.Same(t, h.Tenants.Others, h.Tenants.Named(""))
	lanes := 0
	for range h.Shards[0].All {
		lanes++
	}
	assert.Equal(t, tenant.Max+1, lanes)
	h.pass(t, 2*xRunTimeout)
	assert.Equal(t, telemetry.Load{}, h.Load())
}

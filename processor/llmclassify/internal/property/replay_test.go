package llmclassify

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
)

// heapInUse is what is reachable, in bytes.
func heapInUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc) //nolint:gosec // small
}

// bytes is what the disk has.
func bytesOn(d *disk) (sum int) {
	for _, value := range d.content {
		sum += len(value)
	}
	return sum
}

// Of a span that was forwarded before a restart the facts alone are kept, as before it.
func TestReplayedFactsTakeNoMoreMemory(t *testing.T) {
	const calls, long = 500, 64 << 10
	d, next := newDisk(), consumertest.NewNop()
	h := newHarnessOn(t, d, defaultConfig(), next, t0)
	empty := heapInUse()
	for n := range calls {
		td := tracesOf(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer).with(attribute.String("gen_ai.input.messages", strings.Repeat("x", long))))
		eachSpan(td, func(s ptrace.Span) { s.SetTraceID(pcommon.TraceID{1, byte(n), byte(n >> 8)}) })
		require.NoError(t, h.ConsumeTraces(t.Context(), td))
	}
	h.pass(t, xMaxHold)
	before, now := heapInUse()-empty-bytesOn(d), h.clock.Now()
	runtime.KeepAlive(h)

	h = newHarnessOn(t, d, defaultConfig(), next, now)
	h.pass(t, xMaxHold)
	assert.Less(t, heapInUse()-empty-bytesOn(d), 4*before+1<<20)
	runtime.KeepAlive(h)
}

// A call of many scopes with one resource is stored in about its own size.
func TestStoredSizeOfManyScopes(t *testing.T) {
	td := tracesOf(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer))
	rs := td.ResourceSpans().At(0)
	rs.Resource().Attributes().PutStr("process.command_line", strings.Repeat("x", 100<<10))
	for n := range 500 {
		ss := rs.ScopeSpans().AppendEmpty()
		rs.ScopeSpans().At(0).CopyTo(ss)
		ss.Spans().At(0).SetSpanID([8]byte{9, byte(n), byte(n >> 8)})
	}
	sent := (&ptrace.ProtoMarshaler{}).TracesSize(td)
	d := newDisk()
	h := newHarnessOn(t, d, defaultConfig(), nil, t0)
	require.NoError(t, h.ConsumeTraces(t.Context(), td))
	assert.Less(t, bytesOn(d), 2*sent)
}

// A call that cannot be read after a restart may have shown text: no run that began before is
// safe to repeat without it.
func TestUnreadableCallIsMissing(t *testing.T) {
	judged := func(damage func(*disk), restarts int) verdict {
		d := newDisk()
		h := newHarnessOn(t, d, defaultConfig(), nil, t0)
		h.consume(t, shownBefore(0)) // entry 0
		damage(d)
		for range restarts {
			h = newHarnessOn(t, d, defaultConfig(), nil, h.clock.Now())
			h.pass(t, 10*time.Minute)
			require.NoError(t, h.Store.Journal.Close(t.Context()))
		}
		h = newHarnessOn(t, d, defaultConfig(), nil, h.clock.Now())
		h.pass(t, 10*time.Minute)
		end := h.clock.Now().Sub(t0).Seconds()
		h.consume(t, uncountedRun(0, end)...)
		h.pass(t, xSettle)
		return verdicts(h.out())[1]
	}
	require.Equal(t, confirm, judged(func(*disk) {}, 0).safety)
	for restarts := range 2 {
		assert.Equal(t, confirm, judged(func(d *disk) { d.content["0"][30] ^= 1 }, restarts).safety, restarts)
	}
}

// Spans that were refused before a restart may come, or were lost with their sender.
func TestRefusedBeforeRestart(t *testing.T) {
	for wait, want := range map[time.Duration]bool{10 * time.Second: true, 4 * time.Minute: true, 6 * time.Minute: true} {
		d := newDisk()
		h := newHarnessOn(t, d, defaultConfig(), nil, t0)
		h.pass(t, time.Second)
		d.fail = storage.ErrStorageFull
		require.Error(t, h.ConsumeTraces(t.Context(), tracesOf(t, shownBefore(0))))
		d.fail = nil
		h = newHarnessOn(t, d, defaultConfig(), nil, h.clock.Now())
		h.pass(t, wait)
		h.consume(t, uncountedRun(0, wait.Seconds())...)
		h.pass(t, xSettle)
		assert.Equal(t, want, verdicts(h.out())[1].safety == confirm, wait)
	}
}

// Metadata of any bytes tells the same tenant after a restart.
func TestReplayedTenantOfAnyBytes(t *testing.T) {
	cfg := defaultConfig()
	cfg.MetadataKeys, cfg.TenantFrom = []string{"tenant-bin"}, "metadata"
	d, next := newDisk(), new(flakyNext)
	h := newHarnessOn(t, d, cfg, next, t0)
	send := func(specs ...spanSpec) {
		ctx := client.NewContext(t.Context(), client.Info{Metadata: client.NewMetadata(map[string][]string{"tenant-bin": {"a\xff"}})})
		require.NoError(t, h.ConsumeTraces(ctx, tracesOf(t, specs...)))
	}
	send(shownBefore(0))
	h = newHarnessOn(t, d, cfg, next, h.clock.Now())
	h.pass(t, 10*time.Minute)
	send(uncountedRun(0, 600)...)
	h.pass(t, xSettle)
	h.sink = &next.TracesSink
	assert.Equal(t, confirm, verdicts(h.out())[1].safety)
}

// A start does not depend on whether the next consumer takes what no dialect recognises any
// more.
func TestUnrecognisedIsRefusedAtReplay(t *testing.T) {
	for name, err := range map[string]error{"for good": consumererror.NewPermanent(errDown), "for now": errDown} {
		t.Run(name, func(t *testing.T) {
			d := newDisk()
			h := newHarnessOn(t, d, defaultConfig(), nil, t0)
			h.consume(t, requestSpan(3, 1, 0.1, 1).answered("stop", answer))

			h, next := newFlakyHarness(t, defaultConfig())
			h.Reader.Registry = dialect.NewRegistry()
			next.fail = func(ptrace.Traces) error { return err }
			h.openOn(t, d)
			h.settle(t.Context())
			next.fail = nil
			h.pass(t, time.Minute)
			permanent := consumererror.IsPermanent(err)
			assert.Equal(t, !permanent, next.SpanCount() == 1)
			assert.Empty(t, d.entries())
			counts := h.inside.Telemetry.Flow.Now()
			assert.Equal(t, 1, counts.Replayed)
			assert.Equal(t, permanent, counts.Lost == 1)
			assert.Zero(t, counts.Held)
		})
	}
}

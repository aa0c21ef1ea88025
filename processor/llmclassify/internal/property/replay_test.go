package property

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
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
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
func bytesOn(d *harness.Disk) (sum int) {
	for _, value := range d.Content {
		sum += len(value)
	}
	return sum
}

// Of a span that was forwarded before a restart the facts alone are kept, as before it.
func TestReplayedFactsTakeNoMoreMemory(t *testing.T) {
	const calls, long = 500, 64 << 10
	d, next := harness.NewDisk(), consumertest.NewNop()
	h := harness.NewOn(t, d, harness.DefaultConfig(), next, harness.T0)
	empty := heapInUse()
	for n := range calls {
		td := harness.TracesOf(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer).With(attribute.String("gen_ai.input.messages", strings.Repeat("x", long))))
		harness.EachSpan(td, func(s ptrace.Span) { s.SetTraceID(pcommon.TraceID{1, byte(n), byte(n >> 8)}) })
		require.NoError(t, h.ConsumeTraces(t.Context(), td))
	}
	h.Pass(t, harness.MaxHold)
	before, now := heapInUse()-empty-bytesOn(d), h.Clock.Now()
	runtime.KeepAlive(h)

	h = harness.NewOn(t, d, harness.DefaultConfig(), next, now)
	h.Pass(t, harness.MaxHold)
	assert.Less(t, heapInUse()-empty-bytesOn(d), 4*before+1<<20)
	runtime.KeepAlive(h)
}

// A call of many scopes with one resource is stored in about its own size.
func TestStoredSizeOfManyScopes(t *testing.T) {
	td := harness.TracesOf(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer))
	rs := td.ResourceSpans().At(0)
	rs.Resource().Attributes().PutStr("process.command_line", strings.Repeat("x", 100<<10))
	for n := range 500 {
		ss := rs.ScopeSpans().AppendEmpty()
		rs.ScopeSpans().At(0).CopyTo(ss)
		ss.Spans().At(0).SetSpanID([8]byte{9, byte(n), byte(n >> 8)})
	}
	sent := (&ptrace.ProtoMarshaler{}).TracesSize(td)
	d := harness.NewDisk()
	h := harness.NewOn(t, d, harness.DefaultConfig(), nil, harness.T0)
	require.NoError(t, h.ConsumeTraces(t.Context(), td))
	assert.Less(t, bytesOn(d), 2*sent)
}

// A call that cannot be read after a restart may have shown text: no run that began before is
// safe to repeat without it.
func TestUnreadableCallIsMissing(t *testing.T) {
	judged := func(damage func(*harness.Disk), restarts int) harness.Verdict {
		d := harness.NewDisk()
		h := harness.NewOn(t, d, harness.DefaultConfig(), nil, harness.T0)
		h.Consume(t, harness.ShownBefore(0)) // entry 0
		damage(d)
		for range restarts {
			h = harness.NewOn(t, d, harness.DefaultConfig(), nil, h.Clock.Now())
			h.Pass(t, 10*time.Minute)
			require.NoError(t, h.Store.Journal.Close(t.Context()))
		}
		h = harness.NewOn(t, d, harness.DefaultConfig(), nil, h.Clock.Now())
		h.Pass(t, 10*time.Minute)
		end := h.Clock.Now().Sub(harness.T0).Seconds()
		h.Consume(t, harness.UncountedRun(0, end)...)
		h.Pass(t, harness.Settle)
		return harness.Verdicts(h.Out())[1]
	}
	require.Equal(t, harness.Confirm, judged(func(*harness.Disk) {}, 0).Safety)
	for restarts := range 2 {
		assert.Equal(t, harness.Confirm, judged(func(d *harness.Disk) { d.Content["0"][30] ^= 1 }, restarts).Safety, restarts)
	}
}

// Spans that were refused before a restart may come, or were lost with their sender.
func TestRefusedBeforeRestart(t *testing.T) {
	for wait, want := range map[time.Duration]bool{10 * time.Second: true, 4 * time.Minute: true, 6 * time.Minute: true} {
		d := harness.NewDisk()
		h := harness.NewOn(t, d, harness.DefaultConfig(), nil, harness.T0)
		h.Pass(t, time.Second)
		d.Fail = storage.ErrStorageFull
		require.Error(t, h.ConsumeTraces(t.Context(), harness.TracesOf(t, harness.ShownBefore(0))))
		d.Fail = nil
		h = harness.NewOn(t, d, harness.DefaultConfig(), nil, h.Clock.Now())
		h.Pass(t, wait)
		h.Consume(t, harness.UncountedRun(0, wait.Seconds())...)
		h.Pass(t, harness.Settle)
		assert.Equal(t, want, harness.Verdicts(h.Out())[1].Safety == harness.Confirm, wait)
	}
}

// Metadata of any bytes tells the same tenant after a restart.
func TestReplayedTenantOfAnyBytes(t *testing.T) {
	cfg := harness.DefaultConfig()
	cfg.MetadataKeys, cfg.TenantFrom = []string{"tenant-bin"}, "metadata"
	d, next := harness.NewDisk(), new(harness.FlakyNext)
	h := harness.NewOn(t, d, cfg, next, harness.T0)
	send := func(specs ...harness.Span) {
		ctx := client.NewContext(t.Context(), client.Info{Metadata: client.NewMetadata(map[string][]string{"tenant-bin": {"a\xff"}})})
		require.NoError(t, h.ConsumeTraces(ctx, harness.TracesOf(t, specs...)))
	}
	send(harness.ShownBefore(0))
	h = harness.NewOn(t, d, cfg, next, h.Clock.Now())
	h.Pass(t, 10*time.Minute)
	send(harness.UncountedRun(0, 600)...)
	h.Pass(t, harness.Settle)
	h.Sink = &next.TracesSink
	assert.Equal(t, harness.Confirm, harness.Verdicts(h.Out())[1].Safety)
}

// A start does not depend on whether the next consumer takes what no dialect recognises any
// more.
func TestUnrecognisedIsRefusedAtReplay(t *testing.T) {
	for name, err := range map[string]error{"for good": consumererror.NewPermanent(harness.ErrDown), "for now": harness.ErrDown} {
		t.Run(name, func(t *testing.T) {
			d := harness.NewDisk()
			h := harness.NewOn(t, d, harness.DefaultConfig(), nil, harness.T0)
			h.Consume(t, harness.RequestSpan(3, 1, 0.1, 1).Answered("stop", harness.Answer))

			h, next := harness.NewFlaky(t, harness.DefaultConfig())
			h.Reader.Registry = dialect.NewRegistry()
			next.Fail = func(ptrace.Traces) error { return err }
			h.OpenOn(t, d)
			h.Settle(t.Context())
			next.Fail = nil
			h.Pass(t, time.Minute)
			permanent := consumererror.IsPermanent(err)
			assert.Equal(t, !permanent, next.SpanCount() == 1)
			assert.Empty(t, d.Entries())
			counts := h.Processor.Telemetry.Flow.Now()
			assert.Equal(t, 1, counts.Replayed)
			assert.Equal(t, permanent, counts.Lost == 1)
			assert.Zero(t, counts.Held)
		})
	}
}

package llmclassify

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/clock"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/testhook"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/worker"
	"github.com/otelllm/otelllm-go/semconv"
)

// manualClock stands still until it is told.
type manualClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*manualTimer
}

func newManualClock() *manualClock { return &manualClock{now: t0} }

func (c *manualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manualClock) NewTimer(d time.Duration) clock.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &manualTimer{clock: c, c: make(chan time.Time, 1), at: c.now.Add(d)}
	c.timers = append(c.timers, t)
	t.fire()
	return t
}

// advance moves the time on and fires what is due by then.
func (c *manualClock) advance(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for _, t := range c.timers {
		t.fire()
	}
	return c.now
}

// waitsUntil reports whether a timer is set to exactly this time.
func (c *manualClock) waitsUntil(at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.timers, func(t *manualTimer) bool { return t.at.Equal(at) })
}

type manualTimer struct {
	clock *manualClock
	c     chan time.Time
	at    time.Time // zero when it is not set
}

func (t *manualTimer) fire() {
	if !t.at.IsZero() && !t.at.After(t.clock.now) {
		t.at = time.Time{}
		t.c <- t.clock.now
	}
}

func (t *manualTimer) C() <-chan time.Time { return t.c }

func (t *manualTimer) Reset(d time.Duration) {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	select {
	case <-t.c:
	default:
	}
	t.at = t.clock.now.Add(d)
	t.fire()
}

func (t *manualTimer) Stop() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.at = time.Time{}
}

// spanKey is a span of a trace.
type spanKey struct {
	trace pcommon.TraceID
	id    pcommon.SpanID
}

// harness is a processor that is driven by hand: no goroutine, no timer. It has one
// shard unless its configuration says otherwise.
type harness struct {
	*inside
	clock     *manualClock
	sink      *consumertest.TracesSink
	telemetry *componenttest.Telemetry
}

// inside is a processor as its factory makes it, and what a test has of it.
type inside struct {
	processor.Traces
	testhook.Inside
}

func newInside(tb testing.TB, set processor.Settings, cfg *Config, next consumer.Traces, c clock.Clock) *inside {
	tb.Helper()
	p := new(inside)
	ctx := testhook.With(context.Background(), c, func(in testhook.Inside) { p.Inside = in })
	var err error
	p.Traces, err = NewFactory().CreateTraces(ctx, set, cfg, next)
	require.NoError(tb, err)
	return p
}

func newHarness(tb testing.TB, cfg *Config, next consumer.Traces) *harness {
	tb.Helper()
	h := &harness{clock: newManualClock(), sink: new(consumertest.TracesSink), telemetry: componenttest.NewTelemetry()}
	tb.Cleanup(func() { require.NoError(tb, h.telemetry.Shutdown(context.Background())) })
	if next == nil {
		next = h.sink
	}
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = h.telemetry.NewTelemetrySettings()
	h.inside = newInside(tb, set, cfg, next, h.clock)
	return h
}

// ConsumeTraces consumes and lets the shards take over.
func (h *harness) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	err := h.inside.ConsumeTraces(ctx, td)
	h.settle(ctx)
	return err
}

// settle lets the shards take over what is on its way to them.
func (h *harness) settle(ctx context.Context) {
	for _, s := range h.Shards {
		for l := range s.All {
			for d, ok := l.Inbox.Take(); ok; d, ok = l.Inbox.Take() {
				l.Receive(ctx, &d)
				judgeAll(ctx, l)
			}
		}
	}
}

func (h *harness) consume(tb testing.TB, specs ...spanSpec) {
	tb.Helper()
	require.NoError(tb, h.ConsumeTraces(tb.Context(), tracesOf(tb, specs...)))
}

// pass lets time pass and does what is due by then.
func (h *harness) pass(tb testing.TB, d time.Duration) {
	tb.Helper()
	now := h.clock.advance(d)
	for _, s := range h.Shards {
		for l := range s.All {
			for at, ok := l.Next(); ok && !at.After(now); at, ok = l.Next() {
				l.Tick(tb.Context(), now)
				judgeAll(tb.Context(), l)
			}
		}
	}
}

// judgeAll judges and forwards all that is pending.
func judgeAll(ctx context.Context, l *worker.Lane) {
	for l.Judge(ctx, worker.MaxDue) {
	}
}

// lane is the first lane.
func (h *harness) lane() *worker.Lane { return h.Shards[0].Lane(h.Tenants.Others) }

// effects is what each run did that was judged and that late spans may correct, with what came late.
func (h *harness) effects() map[spanKey]classify.Effects {
	did := map[spanKey]classify.Effects{}
	for _, s := range h.Shards {
		for l := range s.All {
			for r := range l.Buffer.Runs {
				did[spanKey{r.Trace, r.Run}] = r.Effects
			}
		}
	}
	return did
}

// corrected is the verdict on repeating a run of the first trace with what came late, unset if
// nothing is kept of the run, and reports whether a late span has made it more careful.
func (h *harness) corrected(run pcommon.SpanID) (semconv.RetrySafety, bool) {
	for r := range h.lane().Buffer.Runs {
		if r.Trace == traceID(1) && r.Run == run {
			return r.Retry.Safety, r.Corrected
		}
	}
	return semconv.RetrySafetyUnset, false
}

// keepsRuns reports whether runs of a trace are kept for the runs around them.
func (h *harness) keepsRuns(of pcommon.TraceID) bool {
	for r := range h.lane().Buffer.Runs {
		if r.Trace == of {
			return true
		}
	}
	return false
}

// nextDue is when the first shard has something to do; false when none has.
func (h *harness) nextDue() (next time.Time, ok bool) {
	for _, s := range h.Shards {
		if at, due := s.Next(); due && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	return next, ok
}

// out is everything that came out, in one.
func (h *harness) out() ptrace.Traces {
	all := ptrace.NewTraces()
	for _, td := range h.sink.AllTraces() {
		c := ptrace.NewTraces()
		td.CopyTo(c)
		c.ResourceSpans().MoveAndAppendTo(all.ResourceSpans())
	}
	return all
}

// spansOf are the spans of td, by id.
func spansOf(td ptrace.Traces) map[pcommon.SpanID]ptrace.Span {
	found := map[pcommon.SpanID]ptrace.Span{}
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				found[span.SpanID()] = span
			}
		}
	}
	return found
}

// defaultConfig is the default one, but for a single shard.
func defaultConfig() *Config {
	cfg := NewFactory().CreateDefaultConfig().(*Config)
	cfg.Shards = 1
	return cfg
}

// What the default configuration says.
var (
	xMaxHold    = defaultConfig().MaxHold
	xSettle     = defaultConfig().Settle
	xRunTimeout = defaultConfig().RunTimeout
)

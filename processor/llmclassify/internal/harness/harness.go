// Package harness makes the processor for tests: with a clock that they move, driven by hand, with a disk that
// survives it and a next consumer that fails on demand. It has makers of spans, and reads the verdicts.
package harness

import (
	"context"
	"runtime"
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
	"github.com/otelllm/otelllm-go/processor/llmclassify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/clock"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/tenant"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/testhook"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/worker"
	"github.com/otelllm/otelllm-go/semconv"
)

// Processor is the processor as its factory makes it, with its inside.
type Processor struct {
	processor.Traces
	testhook.Inside
}

// Make makes a processor with this clock.
func Make(tb testing.TB, set processor.Settings, cfg *llmclassify.Config, next consumer.Traces, c clock.Clock) *Processor {
	tb.Helper()
	p := new(Processor)
	ctx := testhook.With(context.Background(), c, func(in testhook.Inside) { p.Inside = in })
	var err error
	p.Traces, err = llmclassify.NewFactory().CreateTraces(ctx, set, cfg, next)
	require.NoError(tb, err)
	return p
}

// Harness is a processor that is driven by hand: no goroutine, no timer. It has one
// shard unless its configuration says otherwise.
type Harness struct {
	*Processor
	Clock   *Clock
	Sink    *consumertest.TracesSink
	Metrics *componenttest.Telemetry
}

// New makes a harness whose sink is the next consumer, unless there is another one.
func New(tb testing.TB, cfg *llmclassify.Config, next consumer.Traces) *Harness {
	tb.Helper()
	h := &Harness{Clock: NewClock(), Sink: new(consumertest.TracesSink), Metrics: componenttest.NewTelemetry()}
	if next == nil {
		next = h.Sink
	}
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = h.Metrics.NewTelemetrySettings()
	h.Processor = Make(tb, set, cfg, next, h.Clock)
	return h
}

// NewFlaky makes a harness with a next consumer that may refuse calls.
func NewFlaky(t *testing.T, cfg *llmclassify.Config) (*Harness, *FlakyNext) {
	t.Helper()
	next := new(FlakyNext)
	h := New(t, cfg, next)
	h.Sink = &next.TracesSink
	return h, next
}

// NewOn makes a harness that replays the disk. An earlier harness is not shut down: it was killed.
func NewOn(t *testing.T, d *Disk, cfg *llmclassify.Config, next consumer.Traces, now time.Time) *Harness {
	t.Helper()
	h := New(t, cfg, next)
	h.Clock.Advance(now.Sub(T0))
	h.OpenOn(t, d)
	return h
}

// DefaultConfig is the default configuration, with one shard.
func DefaultConfig() *llmclassify.Config {
	cfg := llmclassify.NewFactory().CreateDefaultConfig().(*llmclassify.Config)
	cfg.Shards = 1
	return cfg
}

// Consume consumes a call with these spans.
func (h *Harness) Consume(tb testing.TB, specs ...Span) {
	tb.Helper()
	require.NoError(tb, h.ConsumeTraces(tb.Context(), TracesOf(tb, specs...)))
}

// ConsumeTraces consumes and lets the shards take over.
func (h *Harness) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	err := h.Processor.ConsumeTraces(ctx, td)
	h.Settle(ctx)
	return err
}

// HeldRun consumes a run in two calls, so that it is held.
func (h *Harness) HeldRun(t *testing.T, trace byte) {
	t.Helper()
	for _, span := range FinishedRun(trace) {
		h.Consume(t, span)
	}
}

// Settle lets the shards take over their inboxes.
func (h *Harness) Settle(ctx context.Context) {
	for _, s := range h.Shards {
		for l := range s.All {
			for d, ok := l.Inbox.Take(); ok; d, ok = l.Inbox.Take() {
				l.Receive(ctx, &d)
				JudgeAll(ctx, l)
			}
		}
	}
}

// Pass lets time pass, and the shards work that is due.
func (h *Harness) Pass(tb testing.TB, d time.Duration) {
	tb.Helper()
	now := h.Clock.Advance(d)
	for _, s := range h.Shards {
		for l := range s.All {
			for at, ok := l.Next(); ok && !at.After(now); at, ok = l.Next() {
				l.Tick(tb.Context(), now)
				JudgeAll(tb.Context(), l)
			}
		}
	}
}

// PassStepwise lets time pass from one deadline to the next.
func (h *Harness) PassStepwise(t *testing.T, d time.Duration) {
	t.Helper()
	until := h.Clock.Now().Add(d)
	for {
		at, ok := h.NextDue()
		if !ok || at.After(until) {
			break
		}
		h.Pass(t, max(at.Sub(h.Clock.Now()), 0))
	}
	h.Pass(t, until.Sub(h.Clock.Now()))
}

// NextDue is when the first shard has something to do; false when none has.
func (h *Harness) NextDue() (next time.Time, ok bool) {
	for _, s := range h.Shards {
		if at, due := s.Next(); due && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	return next, ok
}

// Out is everything that came out, in one.
func (h *Harness) Out() ptrace.Traces { return OutOf(h.Sink) }

// JudgeAll judges and forwards all that is pending.
func JudgeAll(ctx context.Context, l *worker.Lane) {
	for l.Judge(ctx, worker.MaxDue) {
	}
}

// Lane is the lane of the first shard that all tenants share.
func (h *Harness) Lane() *worker.Lane { return h.Shards[0].Lane(h.Tenants.Others) }

// Effects are the effects of each judged run that late spans may correct, late spans included.
func (h *Harness) Effects() map[SpanKey]classify.Effects {
	did := map[SpanKey]classify.Effects{}
	for _, s := range h.Shards {
		for l := range s.All {
			for r := range l.Buffer.Runs {
				did[SpanKey{r.Trace, r.Run}] = r.Effects
			}
		}
	}
	return did
}

// Corrected is the verdict on repeating a run of the first trace, late spans included, unset if
// nothing is kept of the run, and reports whether a late span has made it more careful.
func (h *Harness) Corrected(run pcommon.SpanID) (semconv.RetrySafety, bool) {
	for r := range h.Lane().Buffer.Runs {
		if r.Trace == TraceID(1) && r.Run == run {
			return r.Retry.Safety, r.Corrected
		}
	}
	return semconv.RetrySafetyUnset, false
}

// KeepsRuns reports whether runs of a trace are kept for the runs around them.
func (h *Harness) KeepsRuns(of pcommon.TraceID) bool {
	for r := range h.Lane().Buffer.Runs {
		if r.Trace == of {
			return true
		}
	}
	return false
}

// Durations of the default configuration.
var (
	MaxHold    = DefaultConfig().MaxHold
	Settle     = DefaultConfig().Settle
	RunTimeout = DefaultConfig().RunTimeout
)

// Refuse sends spans in a call that is refused for lack of memory.
func (h *Harness) Refuse(t *testing.T, specs ...Span) {
	t.Helper()
	require.ErrorIs(t, h.WithoutMemory(t, TracesOf(t, specs...)), tenant.ErrFull)
}

// WithoutMemory consumes a call while there is no memory for LLM spans.
func (h *Harness) WithoutMemory(t *testing.T, td ptrace.Traces) error {
	t.Helper()
	h.Budget.Add(h.Tenants.Others, int(h.Budget.Limit))
	h.Budget.AddWaiting(1)
	err := h.Processor.ConsumeTraces(t.Context(), td)
	h.Budget.Add(h.Tenants.Others, -int(h.Budget.Limit))
	h.Budget.AddWaiting(-1)
	h.Settle(t.Context())
	return err
}

// OpenOn replays the disk.
func (h *Harness) OpenOn(t *testing.T, d *Disk) {
	t.Helper()
	h.OpenBy(t, d, func() { h.Settle(t.Context()) })
}

// OpenBy replays the disk while the shards do this work.
func (h *Harness) OpenBy(t *testing.T, d *Disk, work func()) {
	t.Helper()
	var err error
	h.Store.Journal, err = journal.Open(t.Context(), DiskClient{d}, h.Processor.Telemetry.Logger)
	require.NoError(t, err)
	replayed := make(chan error)
	go func() { replayed <- h.Begin(t.Context(), h.Reader, h.Callers) }()
	for { // the shards have room for some calls only
		select {
		case err := <-replayed:
			require.NoError(t, err)
			work()
			return
		default:
			work()
			runtime.Gosched()
		}
	}
}

package property

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/forward"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// Of two consumers behind the processor one refuses a part of what it got, and the other one all of it: none of it is
// lost.
func TestTwoConsumersRefuseInPart(t *testing.T) {
	other := harness.OtherSpan(9, 1, 0.1, 0.2)
	two := errors.Join(consumererror.NewTraces(harness.ErrDown, harness.TracesOf(t, other)), harness.ErrDown)
	t.Run("other spans", func(t *testing.T) {
		next := &harness.FlakyNext{Fail: func(ptrace.Traces) error { return two }}
		h := harness.New(t, harness.DefaultConfig(), next)
		run := harness.FinishedRun(1)
		h.Consume(t, run[0])
		require.NoError(t, h.Processor.ConsumeTraces(t.Context(), harness.TracesOf(t, run[1], other, harness.OtherSpan(9, 2, 0.1, 0.2))))
		next.Fail = nil
		h.Settle(t.Context())
		h.Pass(t, forward.MaxRetry)
		assert.Equal(t, 4, next.SpanCount(), "the call was acknowledged")
	})
	t.Run("held spans", func(t *testing.T) {
		next := &harness.FlakyNext{Fail: func(td ptrace.Traces) error {
			part := ptrace.NewTraces()
			td.CopyTo(part)
			n := 0
			part.ResourceSpans().At(0).ScopeSpans().At(0).Spans().RemoveIf(func(ptrace.Span) bool { n++; return n > 1 })
			return errors.Join(consumererror.NewTraces(harness.ErrDown, part), harness.ErrDown)
		}}
		h := harness.New(t, harness.DefaultConfig(), next)
		h.HeldRun(t, 1)
		next.Fail = nil
		h.Pass(t, forward.MaxRetry)
		assert.Equal(t, 2, next.SpanCount(), "the call was acknowledged")
	})
}

// Of two consumers behind the processor one refuses a call for good, and the other one for now. The second one gets it
// when it works again.
func TestOneOfTwoConsumersRefusesForGood(t *testing.T) {
	for name, two := range map[string]error{
		"joined":  errors.Join(consumererror.NewPermanent(harness.ErrDown), harness.ErrDown),
		"wrapped": fmt.Errorf("two: %w", errors.Join(harness.ErrDown, fmt.Errorf("one: %w", consumererror.NewPermanent(harness.ErrDown)))),
		"three":   errors.Join(consumererror.NewPermanent(harness.ErrDown), errors.Join(consumererror.NewPermanent(harness.ErrDown), harness.ErrDown)),
	} {
		next := &harness.FlakyNext{Fail: func(ptrace.Traces) error { return two }}
		h := harness.New(t, harness.DefaultConfig(), next)
		h.HeldRun(t, 1)
		run := harness.FinishedRun(2)
		h.Consume(t, run[0])
		require.NoError(t, h.Processor.ConsumeTraces(t.Context(), harness.TracesOf(t, run[1], harness.OtherSpan(9, 1, 0.1, 0.2))), name)
		h.Settle(t.Context())
		next.Fail = nil
		h.Pass(t, forward.MaxRetry)
		assert.Equal(t, 5, next.SpanCount(), name)
	}
	next := &harness.FlakyNext{Fail: func(ptrace.Traces) error {
		return errors.Join(consumererror.NewPermanent(harness.ErrDown), consumererror.NewPermanent(harness.ErrDown))
	}}
	h := harness.New(t, harness.DefaultConfig(), next)
	h.HeldRun(t, 1)
	next.Fail = nil
	h.Pass(t, forward.MaxRetry)
	assert.Zero(t, next.SpanCount(), "both refuse it for good")
	assert.Zero(t, h.Processor.Telemetry.Flow.Now().Held)
}

// The next consumer says that it does not mutate spans, and one behind it changed them before it refused all of them, or
// a part. What was refused is sent again as it was.
func TestRefusedCallThatAConsumerChanged(t *testing.T) {
	alter := func(td ptrace.Traces) {
		harness.EachSpan(td, func(s ptrace.Span) {
			s.SetName("altered")
			s.Attributes().Clear()
		})
	}
	only := func(td ptrace.Traces, id byte) ptrace.Traces {
		part := ptrace.NewTraces()
		td.CopyTo(part)
		part.ResourceSpans().At(0).ScopeSpans().At(0).Spans().RemoveIf(func(s ptrace.Span) bool { return s.SpanID() != harness.SpanID(id) })
		return part
	}
	for name, tt := range map[string]struct {
		fail func(ptrace.Traces) error
		want []byte
	}{
		"all": {func(td ptrace.Traces) error { alter(td); return harness.ErrDown }, []byte{1, 2}},
		"all, some removed": {func(td ptrace.Traces) error {
			only(td, 1).MoveTo(td)
			return harness.ErrDown
		}, []byte{1, 2}},
		"a part": {func(td ptrace.Traces) error { alter(td); return consumererror.NewTraces(harness.ErrDown, only(td, 1)) }, []byte{1}},
		"a part, with a new span": {func(td ptrace.Traces) error {
			return consumererror.NewTraces(harness.ErrDown, harness.TracesOf(t, harness.OtherSpan(7, 1, 0.1, 0.2)))
		}, []byte{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			untouched := harness.New(t, harness.DefaultConfig(), nil)
			untouched.HeldRun(t, 1)
			want := harness.SpansOf(untouched.Out())
			next := &harness.FlakyNext{Fail: tt.fail}
			h := harness.New(t, harness.DefaultConfig(), next)
			h.HeldRun(t, 1)
			next.Fail = nil
			h.Pass(t, forward.MaxRetry)
			got := harness.SpansOf(harness.OutOf(&next.TracesSink))
			require.Len(t, got, len(tt.want))
			for _, id := range tt.want {
				assert.Equal(t, want[harness.SpanID(id)].Name(), got[harness.SpanID(id)].Name())
				assert.Equal(t, want[harness.SpanID(id)].Attributes().AsRaw(), got[harness.SpanID(id)].Attributes().AsRaw())
			}
			assert.Zero(t, h.Processor.Telemetry.Flow.Now().Held)
			harness.AddsUp(t, h.Metrics)
		})
	}
}

// The next consumer says that it does not mutate spans, and one behind it took them out of the call before it refused.
func TestRefusedCallThatAConsumerEmptied(t *testing.T) {
	next := &harness.FlakyNext{Fail: func(td ptrace.Traces) error {
		td.ResourceSpans().RemoveIf(func(ptrace.ResourceSpans) bool { return true })
		return harness.ErrDown
	}}
	h := harness.New(t, harness.DefaultConfig(), next)
	h.Consume(t, harness.FinishedRun(1)[0])
	err := h.Processor.ConsumeTraces(t.Context(), harness.TracesOf(t, harness.FinishedRun(1)[1], harness.OtherSpan(9, 1, 0.1, 0.2)))
	assert.ErrorIs(t, err, harness.ErrDown, "nothing of it is here any more")
}

// Partial errors with no span, and with more than the call had.
func TestPartialErrorsOfWrongSize(t *testing.T) {
	for name, part := range map[string]ptrace.Traces{
		"none": ptrace.NewTraces(),
		"more": harness.TracesOf(t, harness.OtherSpan(7, 1, 0.1, 0.2), harness.OtherSpan(8, 1, 0.1, 0.2), harness.OtherSpan(9, 1, 0.1, 0.2)),
	} {
		t.Run(name, func(t *testing.T) {
			d, next := harness.NewDisk(), &harness.FlakyNext{}
			h := harness.NewOn(t, d, harness.DefaultConfig(), next, harness.T0)
			next.Fail = func(ptrace.Traces) error { return consumererror.NewTraces(harness.ErrDown, part) }
			require.NoError(t, h.Processor.ConsumeTraces(t.Context(), harness.TracesOf(t, append(harness.FinishedRun(1), harness.OtherSpan(9, 1, 0.1, 0.2))...)))
			assert.GreaterOrEqual(t, h.Processor.Telemetry.Flow.Now().Forwarded, 0)
			next.Fail = nil
			h.Settle(t.Context())
			h.Pass(t, forward.MaxRetry)
			assert.Empty(t, d.Entries())
			assert.Equal(t, telemetry.Load{}, h.Load())
		})
	}
}

// blockedNext refuses a call once it is let go.
type blockedNext struct {
	consumertest.TracesSink
	in, letGo chan struct{}
}

func (n *blockedNext) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	if _, ok := harness.SpansOf(td)[harness.SpanID(9)]; ok {
		close(n.in)
		<-n.letGo
		return harness.ErrDown
	}
	return n.TracesSink.ConsumeTraces(ctx, td)
}

// A call that the next consumer refuses after the end of a shutdown is not acknowledged.
func TestRefusedAfterShutdown(t *testing.T) {
	next := &blockedNext{in: make(chan struct{}), letGo: make(chan struct{})}
	h := harness.New(t, harness.DefaultConfig(), next)
	done, td := make(chan error), harness.TracesOf(t, harness.ShownBefore(0), harness.OtherSpan(9, 1, 0.1, 0.2))
	go func() { done <- h.Processor.ConsumeTraces(t.Context(), td) }()
	<-next.in
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, h.Shutdown(ctx))
	close(next.letGo)
	require.Error(t, <-done, "nothing sends it again")
}

// A run of which an earlier process forwarded all spans gets its verdict, whatever the time.
func TestRunForwardedBeforeARestartIsJudged(t *testing.T) {
	for _, down := range []time.Duration{time.Second, 20 * time.Minute, 2 * harness.RunTimeout} {
		d := harness.NewDisk()
		h := harness.NewOn(t, d, harness.DefaultConfig(), nil, harness.T0)
		h.Consume(t, harness.UncountedRun(0, 1)[1])
		h.Consume(t, harness.ShownBefore(0))
		h.Pass(t, harness.MaxHold)
		require.Equal(t, 2, h.Sink.SpanCount())
		h = harness.NewOn(t, d, harness.DefaultConfig(), nil, h.Clock.Now().Add(down))
		for range 3 {
			h.Pass(t, harness.RunTimeout)
		}
		require.Equal(t, 1, h.Sink.SpanCount(), down)
		for _, s := range harness.SpansOf(h.Out()) {
			assert.Equal(t, semconv.SpanRunAbandoned, s.Name())
			assert.Greater(t, harness.VerdictOf(s).Safety, harness.Safe)
		}
		assert.Empty(t, d.Entries())
		assert.Equal(t, telemetry.Load{}, h.Load())
	}
}

// Restarts while nothing is on its way: each span goes out once, each run is judged once, and none is safer than without.
func TestRestartsBetweenCalls(t *testing.T) {
	for seed := range uint64(200 / sample.Every(10)) {
		flaky, tiny := seed%4 == 1, seed%4 == 2 || seed%8 == 5
		type act struct {
			specs []harness.Span
			wait  time.Duration
			stop  int // 1: kill, 2: shutdown
			down  time.Duration
			fail  bool
		}
		r := rand.New(rand.NewPCG(seed, 3))
		var acts []act
		for trace := range byte(1 + r.IntN(3)) {
			specs := []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 1).Answered("tool_calls", harness.Answer),
				harness.ToolSpan(3, 1.1, 1.5, "c1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded),
				harness.RequestSpan(4, 1, 2, 2.5).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded"),
			}
			switch run := harness.RunSpan(1, 0, 3, 2, 1).Failed("429"); r.IntN(4) {
			case 0:
			case 1:
				specs = append(specs, harness.Unannounced(run))
			default:
				specs = append(specs, run)
			}
			r.Shuffle(len(specs), func(i, k int) { specs[i], specs[k] = specs[k], specs[i] })
			for len(specs) > 0 {
				n := 1 + r.IntN(len(specs))
				var call []harness.Span
				for _, s := range specs[:n] {
					call = append(call, s.Of(trace+1))
				}
				if r.IntN(3) == 0 {
					call = append(call, harness.OtherSpan(90+byte(len(specs)), 1, 0.1, 0.2).Of(trace+1))
				}
				specs = specs[n:]
				a := act{specs: call, wait: []time.Duration{0, time.Second, 31 * time.Second, 2 * time.Minute}[r.IntN(4)]}
				if r.IntN(2) == 0 {
					a.stop, a.down = 1+r.IntN(2), []time.Duration{0, 10 * time.Second, time.Minute}[r.IntN(3)]
				}
				a.fail = r.IntN(2) == 0
				acts = append(acts, a)
			}
		}
		r.Shuffle(len(acts), func(i, k int) { acts[i], acts[k] = acts[k], acts[i] })
		type key struct {
			trace pcommon.TraceID
			id    pcommon.SpanID
		}
		play := func(stops bool) (times map[key]int, runs map[pcommon.TraceID][]semconv.RetrySafety) {
			d, next := harness.NewDisk(), new(harness.FlakyNext)
			start := func(at time.Time) *harness.Harness {
				cfg := harness.DefaultConfig()
				if tiny {
					cfg.MaxFactBytes = 2000
				}
				return harness.NewOn(t, d, cfg, next, at)
			}
			h := start(harness.T0)
			for _, a := range acts {
				if next.Fail = nil; flaky && a.fail && stops {
					next.Fail = harness.Down
				}
				h.Consume(t, a.specs...)
				h.Pass(t, a.wait)
				if !stops || a.stop == 0 {
					if stops {
						continue
					}
					h.Pass(t, a.down)
					continue
				}
				counts := h.Processor.Telemetry.Flow.Now()
				require.Equal(t, counts.In+counts.Replayed, counts.Refused+counts.Passed+counts.Forwarded-counts.Added+counts.Lost+counts.Held, "seed %d", seed)
				if a.stop == 2 && next.Fail == nil {
					require.NoError(t, h.Shutdown(t.Context()))
				}
				h = start(h.Clock.Now().Add(a.down))
				h.Pass(t, 0)
			}
			next.Fail = nil
			for range 4 {
				h.Pass(t, harness.RunTimeout)
			}
			require.Empty(t, d.Entries(), "seed %d", seed)
			require.Equal(t, telemetry.Load{}, h.Load(), "seed %d", seed)
			require.Zero(t, h.Processor.Telemetry.Flow.Now().Held, "seed %d", seed)
			times, runs = map[key]int{}, map[pcommon.TraceID][]semconv.RetrySafety{}
			harness.EachSpan(harness.OutOf(&next.TracesSink), func(s ptrace.Span) {
				if s.Name() != semconv.SpanRunAbandoned { // parts that come after a restart are a run of their own
					times[key{s.TraceID(), s.SpanID()}]++
				}
				if v := harness.VerdictOf(s); v.Outcome != semconv.RunOutcomeUnset {
					runs[s.TraceID()] = append(runs[s.TraceID()], v.Safety)
				}
			})
			return times, runs
		}
		_, wantRuns := play(false)
		got, gotRuns := play(true)
		for k, n := range got {
			assert.Equal(t, 1, n, "seed %d: %v twice", seed, k)
		}
		for trace, w := range wantRuns {
			if tiny { // its facts may be forgotten
				break
			}
			assert.NotEmpty(t, gotRuns[trace], "seed %d: no verdict %v", seed, w)
			if len(gotRuns[trace]) > 0 {
				assert.GreaterOrEqual(t, slices.Min(gotRuns[trace]), min(slices.Min(w), harness.Confirm), "seed %d", seed)
			}
		}
		if t.Failed() {
			return
		}
	}
}

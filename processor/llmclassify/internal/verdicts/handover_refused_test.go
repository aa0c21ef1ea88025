package llmclassify

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

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/forward"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// Of two consumers behind the processor one refuses a part of what it got, and the other one all of it: none of it is
// lost.
func TestRefusedByTwo(t *testing.T) {
	other := otherSpan(9, 1, 0.1, 0.2)
	two := errors.Join(consumererror.NewTraces(errDown, tracesOf(t, other)), errDown)
	t.Run("other spans", func(t *testing.T) {
		next := &flakyNext{fail: func(ptrace.Traces) error { return two }}
		h := newHarness(t, defaultConfig(), next)
		run := finishedRun(1)
		h.consume(t, run[0])
		require.NoError(t, h.inside.ConsumeTraces(t.Context(), tracesOf(t, run[1], other, otherSpan(9, 2, 0.1, 0.2))))
		next.fail = nil
		h.settle(t.Context())
		h.pass(t, forward.MaxRetry)
		assert.Equal(t, 4, next.SpanCount(), "the call was acknowledged")
	})
	t.Run("held spans", func(t *testing.T) {
		next := &flakyNext{fail: func(td ptrace.Traces) error {
			part := ptrace.NewTraces()
			td.CopyTo(part)
			n := 0
			part.ResourceSpans().At(0).ScopeSpans().At(0).Spans().RemoveIf(func(ptrace.Span) bool { n++; return n > 1 })
			return errors.Join(consumererror.NewTraces(errDown, part), errDown)
		}}
		h := newHarness(t, defaultConfig(), next)
		h.heldRun(t, 1)
		next.fail = nil
		h.pass(t, forward.MaxRetry)
		assert.Equal(t, 2, next.SpanCount(), "the call was acknowledged")
	})
}

// Of two consumers behind the processor one refuses a call for good, and the other one for now. The second one gets it
// when it works again.
func TestRefusedForGoodByOne(t *testing.T) {
	for name, two := range map[string]error{
		"joined":  errors.Join(consumererror.NewPermanent(errDown), errDown),
		"wrapped": fmt.Errorf("two: %w", errors.Join(errDown, fmt.Errorf("one: %w", consumererror.NewPermanent(errDown)))),
		"three":   errors.Join(consumererror.NewPermanent(errDown), errors.Join(consumererror.NewPermanent(errDown), errDown)),
	} {
		next := &flakyNext{fail: func(ptrace.Traces) error { return two }}
		h := newHarness(t, defaultConfig(), next)
		h.heldRun(t, 1)
		run := finishedRun(2)
		h.consume(t, run[0])
		require.NoError(t, h.inside.ConsumeTraces(t.Context(), tracesOf(t, run[1], otherSpan(9, 1, 0.1, 0.2))), name)
		h.settle(t.Context())
		next.fail = nil
		h.pass(t, forward.MaxRetry)
		assert.Equal(t, 5, next.SpanCount(), name)
	}
	next := &flakyNext{fail: func(ptrace.Traces) error {
		return errors.Join(consumererror.NewPermanent(errDown), consumererror.NewPermanent(errDown))
	}}
	h := newHarness(t, defaultConfig(), next)
	h.heldRun(t, 1)
	next.fail = nil
	h.pass(t, forward.MaxRetry)
	assert.Zero(t, next.SpanCount(), "both refuse it for good")
	assert.Zero(t, h.inside.Telemetry.Flow.Now().Held)
}

// The next consumer says that it does not mutate spans, and one behind it changed them before it refused all of them, or
// a part. What was refused is sent again as it was.
func TestRefusedAltered(t *testing.T) {
	alter := func(td ptrace.Traces) {
		eachSpan(td, func(s ptrace.Span) {
			s.SetName("altered")
			s.Attributes().Clear()
		})
	}
	only := func(td ptrace.Traces, id byte) ptrace.Traces {
		part := ptrace.NewTraces()
		td.CopyTo(part)
		part.ResourceSpans().At(0).ScopeSpans().At(0).Spans().RemoveIf(func(s ptrace.Span) bool { return s.SpanID() != spanID(id) })
		return part
	}
	for name, tt := range map[string]struct {
		fail func(ptrace.Traces) error
		want []byte
	}{
		"all": {func(td ptrace.Traces) error { alter(td); return errDown }, []byte{1, 2}},
		"all, some removed": {func(td ptrace.Traces) error {
			only(td, 1).MoveTo(td)
			return errDown
		}, []byte{1, 2}},
		"a part": {func(td ptrace.Traces) error { alter(td); return consumererror.NewTraces(errDown, only(td, 1)) }, []byte{1}},
		"a part, with a new span": {func(td ptrace.Traces) error {
			return consumererror.NewTraces(errDown, tracesOf(t, otherSpan(7, 1, 0.1, 0.2)))
		}, []byte{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			untouched := newHarness(t, defaultConfig(), nil)
			untouched.heldRun(t, 1)
			want := spansOf(untouched.out())
			next := &flakyNext{fail: tt.fail}
			h := newHarness(t, defaultConfig(), next)
			h.heldRun(t, 1)
			next.fail = nil
			h.pass(t, forward.MaxRetry)
			got := spansOf(spansIn(next))
			require.Len(t, got, len(tt.want))
			for _, id := range tt.want {
				assert.Equal(t, want[spanID(id)].Name(), got[spanID(id)].Name())
				assert.Equal(t, want[spanID(id)].Attributes().AsRaw(), got[spanID(id)].Attributes().AsRaw())
			}
			assert.Zero(t, h.inside.Telemetry.Flow.Now().Held)
			addsUp(t, h.telemetry)
		})
	}
}

// The next consumer says that it does not mutate spans, and one behind it took them out of the call before it refused.
func TestRefusedEmpty(t *testing.T) {
	next := &flakyNext{fail: func(td ptrace.Traces) error {
		td.ResourceSpans().RemoveIf(func(ptrace.ResourceSpans) bool { return true })
		return errDown
	}}
	h := newHarness(t, defaultConfig(), next)
	h.consume(t, finishedRun(1)[0])
	err := h.inside.ConsumeTraces(t.Context(), tracesOf(t, finishedRun(1)[1], otherSpan(9, 1, 0.1, 0.2)))
	assert.ErrorIs(t, err, errDown, "nothing of it is here any more")
}

// Partial errors with no span, and with more than the call had.
func TestOddPartialErrors(t *testing.T) {
	for name, part := range map[string]ptrace.Traces{
		"none": ptrace.NewTraces(),
		"more": tracesOf(t, otherSpan(7, 1, 0.1, 0.2), otherSpan(8, 1, 0.1, 0.2), otherSpan(9, 1, 0.1, 0.2)),
	} {
		t.Run(name, func(t *testing.T) {
			d, next := newDisk(), &flakyNext{}
			h := newHarnessOn(t, d, defaultConfig(), next, t0)
			next.fail = func(ptrace.Traces) error { return consumererror.NewTraces(errDown, part) }
			require.NoError(t, h.inside.ConsumeTraces(t.Context(), tracesOf(t, append(finishedRun(1), otherSpan(9, 1, 0.1, 0.2))...)))
			assert.GreaterOrEqual(t, h.inside.Telemetry.Flow.Now().Forwarded, 0)
			next.fail = nil
			h.settle(t.Context())
			h.pass(t, forward.MaxRetry)
			assert.Empty(t, d.entries())
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
	if _, ok := spansOf(td)[spanID(9)]; ok {
		close(n.in)
		<-n.letGo
		return errDown
	}
	return n.TracesSink.ConsumeTraces(ctx, td)
}

// A call that the next consumer refuses after the end of a shutdown is not acknowledged.
func TestRefusedAfterShutdown(t *testing.T) {
	next := &blockedNext{in: make(chan struct{}), letGo: make(chan struct{})}
	h := newHarness(t, defaultConfig(), next)
	done, td := make(chan error), tracesOf(t, shownBefore(0), otherSpan(9, 1, 0.1, 0.2))
	go func() { done <- h.inside.ConsumeTraces(t.Context(), td) }()
	<-next.in
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, h.Shutdown(ctx))
	close(next.letGo)
	require.Error(t, <-done, "nothing sends it again")
}

// A run of which an earlier process forwarded all spans gets its verdict, whatever the time.
func TestSentRunIsJudged(t *testing.T) {
	for _, down := range []time.Duration{time.Second, 20 * time.Minute, 2 * xRunTimeout} {
		d := newDisk()
		h := newHarnessOn(t, d, defaultConfig(), nil, t0)
		h.consume(t, uncountedRun(0, 1)[1])
		h.consume(t, shownBefore(0))
		h.pass(t, xMaxHold)
		require.Equal(t, 2, h.sink.SpanCount())
		h = newHarnessOn(t, d, defaultConfig(), nil, h.clock.Now().Add(down))
		for range 3 {
			h.pass(t, xRunTimeout)
		}
		require.Equal(t, 1, h.sink.SpanCount(), down)
		for _, s := range spansOf(h.out()) {
			assert.Equal(t, semconv.SpanRunAbandoned, s.Name())
			assert.Greater(t, verdictOf(s).safety, safe)
		}
		assert.Empty(t, d.entries())
		assert.Equal(t, telemetry.Load{}, h.Load())
	}
}

// Restarts while nothing is on its way: each span goes out once, each run is judged once, and none is safer than without.
func TestQuietRestarts(t *testing.T) {
	for seed := range uint64(200) {
		flaky, tiny := seed%4 == 1, seed%4 == 2 || seed%8 == 5
		type act struct {
			specs []spanSpec
			wait  time.Duration
			stop  int // 1: kill, 2: shutdown
			down  time.Duration
			fail  bool
		}
		r := rand.New(rand.NewPCG(seed, 3))
		var acts []act
		for trace := range byte(1 + r.IntN(3)) {
			specs := []spanSpec{
				requestSpan(2, 1, 0.1, 1).answered("tool_calls", answer),
				toolSpan(3, 1.1, 1.5, "c1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded),
				requestSpan(4, 1, 2, 2.5).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded"),
			}
			switch run := runSpan(1, 0, 3, 2, 1).failed("429"); r.IntN(4) {
			case 0:
			case 1:
				specs = append(specs, unannounced(run))
			default:
				specs = append(specs, run)
			}
			r.Shuffle(len(specs), func(i, k int) { specs[i], specs[k] = specs[k], specs[i] })
			for len(specs) > 0 {
				n := 1 + r.IntN(len(specs))
				var call []spanSpec
				for _, s := range specs[:n] {
					call = append(call, s.of(trace+1))
				}
				if r.IntN(3) == 0 {
					call = append(call, otherSpan(90+byte(len(specs)), 1, 0.1, 0.2).of(trace+1))
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
			d, next := newDisk(), new(flakyNext)
			start := func(at time.Time) *harness {
				cfg := defaultConfig()
				if tiny {
					cfg.MaxFactBytes = 2000
				}
				return newHarnessOn(t, d, cfg, next, at)
			}
			h := start(t0)
			for _, a := range acts {
				if next.fail = nil; flaky && a.fail && stops {
					next.fail = down
				}
				h.consume(t, a.specs...)
				h.pass(t, a.wait)
				if !stops || a.stop == 0 {
					if stops {
						continue
					}
					h.pass(t, a.down)
					continue
				}
				counts := h.inside.Telemetry.Flow.Now()
				require.Equal(t, counts.In+counts.Replayed, counts.Refused+counts.Passed+counts.Forwarded-counts.Added+counts.Lost+counts.Held, "seed %d", seed)
				if a.stop == 2 && next.fail == nil {
					require.NoError(t, h.Shutdown(t.Context()))
				}
				h = start(h.clock.Now().Add(a.down))
				h.pass(t, 0)
			}
			next.fail = nil
			for range 4 {
				h.pass(t, xRunTimeout)
			}
			require.Empty(t, d.entries(), "seed %d", seed)
			require.Equal(t, telemetry.Load{}, h.Load(), "seed %d", seed)
			require.Zero(t, h.inside.Telemetry.Flow.Now().Held, "seed %d", seed)
			times, runs = map[key]int{}, map[pcommon.TraceID][]semconv.RetrySafety{}
			eachSpan(spansIn(next), func(s ptrace.Span) {
				if s.Name() != semconv.SpanRunAbandoned { // parts that come after a restart are a run of their own
					times[key{s.TraceID(), s.SpanID()}]++
				}
				if v := verdictOf(s); v.outcome != semconv.RunOutcomeUnset {
					runs[s.TraceID()] = append(runs[s.TraceID()], v.safety)
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
				assert.GreaterOrEqual(t, slices.Min(gotRuns[trace]), min(slices.Min(w), confirm), "seed %d", seed)
			}
		}
		if t.Failed() {
			return
		}
	}
}

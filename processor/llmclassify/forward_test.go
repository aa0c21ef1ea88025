package llmclassify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/forward"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/tenant"
	"github.com/otelllm/otelllm-go/semconv"
)

var errDown = errors.New("down for now")

// flakyNext is a next consumer that fails as it is told, spoiling what it was
// given if it mutates.
type flakyNext struct {
	consumertest.TracesSink
	mutates bool
	fail    func(ptrace.Traces) error // nil: takes everything

	mu      sync.Mutex // guards what follows: shards forward at the same time at a shutdown
	tries   int
	tenants []string // of the clients in whose name spans came
}

func (n *flakyNext) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: n.mutates}
}

func (n *flakyNext) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	n.mu.Lock()
	n.tries++
	n.tenants = append(n.tenants, client.FromContext(ctx).Metadata.Get("tenant")...)
	n.mu.Unlock()
	if n.fail != nil {
		if err := n.fail(td); err != nil {
			if n.mutates {
				td.ResourceSpans().RemoveIf(func(ptrace.ResourceSpans) bool { return true })
			}
			return err
		}
	}
	return n.TracesSink.ConsumeTraces(ctx, td)
}

func down(ptrace.Traces) error { return errDown }

func finishedRun(trace byte) []spanSpec {
	return []spanSpec{requestSpan(2, 1, 0.1, 1).answered("stop", answer).of(trace), runSpan(1, 0, 3, 1, 0).of(trace)}
}

// heldRun consumes a run in two calls, so that it is held.
func (h *harness) heldRun(t *testing.T, trace byte) {
	t.Helper()
	for _, span := range finishedRun(trace) {
		h.consume(t, span)
	}
}

// A call with LLM spans is owned. What the next consumer refuses of its other spans is kept and sent again, unless
// it refuses them for good.
func TestOthersRefused(t *testing.T) {
	other := otherSpan(9, 1, 0.1, 0.2)
	for name, tt := range map[string]struct {
		fails, err error
		spans      int // that come out
	}{
		"for now":  {errDown, nil, 4},
		"in part":  {consumererror.NewTraces(errDown, tracesOf(t, other)), nil, 3}, // the next consumer says that it has one
		"for good": {consumererror.NewPermanent(errDown), consumererror.NewPermanent(errDown), 2},
	} {
		next := &flakyNext{fail: func(ptrace.Traces) error { return tt.fails }}
		h := newHarness(t, defaultConfig(), next)
		run := finishedRun(1)
		h.consume(t, run[0])
		err := h.inside.ConsumeTraces(t.Context(), tracesOf(t, run[1], other, otherSpan(9, 2, 0.1, 0.2)))
		require.Equal(t, tt.err, err, name)
		next.fail = nil
		h.settle(t.Context())
		h.pass(t, forward.MaxRetry)
		assert.Equal(t, tt.spans, next.SpanCount(), name)
		assert.Equal(t, telemetry.Load{}, h.Load(), name)
		addsUp(t, h.telemetry)
	}
}

// What the next consumer refuses for now is kept as it was and sent again.
func TestForwardRefusedForNow(t *testing.T) {
	for name, mutates := range map[string]bool{"next does not mutate": false, "next mutates": true} {
		t.Run(name, func(t *testing.T) {
			next := &flakyNext{fail: down, mutates: mutates}
			h := newHarness(t, defaultConfig(), next)
			h.heldRun(t, 1)
			h.heldRun(t, 2)
			assert.Equal(t, 1, next.tries, "the second queues behind the first")
			kept := h.Load().Bytes
			assert.Positive(t, kept)

			for _, wait := range []time.Duration{forward.FirstRetry, 2 * forward.FirstRetry, 4 * forward.FirstRetry} {
				tries := next.tries
				at, ok := h.nextDue()
				require.True(t, ok)
				assert.Equal(t, h.clock.Now().Add(wait), at)
				h.pass(t, wait-1)
				assert.Equal(t, tries, next.tries)
				h.pass(t, 1)
				assert.Equal(t, tries+1, next.tries)
			}
			assert.Equal(t, kept, h.Load().Bytes)
			next.fail = nil
			h.pass(t, 8*forward.FirstRetry)
			assert.Equal(t, 4, next.SpanCount())
			for _, td := range next.AllTraces() {
				assert.Equal(t, ran(semconv.RunOutcomeSucceeded, 0), verdictOf(spansOf(td)[spanID(1)]))
			}
			assert.Equal(t, telemetry.Load{}, h.Load())
			_, ok := h.lane().Forwarder.Due()
			assert.False(t, ok)

			next.fail = down // the backoff begins anew
			h.heldRun(t, 3)
			at, _ := h.nextDue()
			assert.Equal(t, h.clock.Now().Add(forward.FirstRetry), at)
		})
	}
}

// What has to wait goes in few calls, however many it came in: with one call in
// three refused, small ones would never get through.
func TestForwardTogether(t *testing.T) {
	next := &flakyNext{fail: down}
	h := newHarness(t, defaultConfig(), next)
	const runs = 200
	for i := range runs {
		h.heldRun(t, byte(i+1))
	}
	assert.Equal(t, 1, next.tries)
	next.fail, next.tries = nil, 0
	h.pass(t, forward.FirstRetry)
	assert.Equal(t, 2*runs, next.SpanCount())
	assert.Equal(t, 1, next.tries)
	assert.Equal(t, telemetry.Load{}, h.Load())
	for _, td := range next.AllTraces() {
		data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(data), 4<<20, "what gRPC receivers take by default")
	}
}

// Waits grow while nothing is taken, and begin anew when something is.
func TestBackoffBeginsAnewAfterSuccess(t *testing.T) {
	next := &flakyNext{fail: down}
	h := newHarness(t, defaultConfig(), next)
	for i := range 3 {
		for h.lane().Forwarder.Bytes() < (2*i+1)*forward.MaxParcelBytes/2 { // more than one call takes
			h.consume(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer).with(attribute.String("long", strings.Repeat("x", 1<<18))).of(byte(i+1)))
			h.consume(t, runSpan(1, 0, 3, 1, 0).of(byte(i+1)))
		}
	}
	require.Greater(t, len(h.lane().Forwarder.Queue), 2)
	h.pass(t, forward.FirstRetry)
	h.pass(t, 2*forward.FirstRetry)
	tries := next.tries
	next.fail = func(ptrace.Traces) error {
		if next.tries == tries+1 {
			return nil
		}
		return errDown
	}
	h.pass(t, 4*forward.FirstRetry)
	require.Equal(t, tries+2, next.tries, "one was taken, the next refused")
	at, ok := h.nextDue()
	require.True(t, ok)
	assert.Equal(t, h.clock.Now().Add(forward.FirstRetry), at)
}

func TestForwardPartlyRefused(t *testing.T) {
	next := &flakyNext{fail: func(td ptrace.Traces) error {
		failed := ptrace.NewTraces()
		td.CopyTo(failed)
		n := 0
		failed.ResourceSpans().At(0).ScopeSpans().At(0).Spans().RemoveIf(func(ptrace.Span) bool { n++; return n > 1 })
		return consumererror.NewTraces(errDown, failed)
	}}
	h := newHarness(t, defaultConfig(), next)
	h.heldRun(t, 1)
	next.fail = nil
	h.pass(t, forward.FirstRetry)
	assert.Equal(t, 1, next.SpanCount(), "only what was refused is sent again")
}

func TestForwardRefusedForGood(t *testing.T) {
	next := &flakyNext{fail: func(ptrace.Traces) error { return consumererror.NewPermanent(errDown) }}
	h := newHarness(t, defaultConfig(), next)
	h.heldRun(t, 1)
	assert.Equal(t, telemetry.Load{}, h.Load())
	_, ok := h.lane().Forwarder.Due()
	assert.False(t, ok)
	failures, err := h.telemetry.GetMetric("otelcol_processor_llm_classify_forward_failures")
	require.NoError(t, err)
	assert.Equal(t, int64(2), total(t, failures))
}

// While the next consumer fails and the bound is reached, calls are refused
// before anything of them is owned or forwarded.
func TestRefusedAtTheBound(t *testing.T) {
	next := &flakyNext{}
	cfg := defaultConfig()
	h := newHarness(t, cfg, next)
	next.fail = func(td ptrace.Traces) error {
		if _, ok := spansOf(td)[spanID(9)]; ok {
			return nil // takes other spans
		}
		return errDown
	}
	h.heldRun(t, 1)
	h.Budget.Limit = int64(3 * h.Load().Bytes / 2)
	before, tries := h.Load(), next.tries

	err := h.ConsumeTraces(t.Context(), tracesOf(t, finishedRun(2)[0], otherSpan(9, 1, 0.1, 0.2)))
	require.ErrorIs(t, err, tenant.ErrFull)
	assert.False(t, consumererror.IsPermanent(err), "the sender is to send it again")
	assert.Equal(t, before, h.Load())
	assert.Equal(t, tries, next.tries, "the other spans were not forwarded either: they come again")
	h.consume(t, otherSpan(9, 1, 0.1, 0.2)) // alone they pass

	next.fail = nil
	h.pass(t, forward.FirstRetry)
	h.heldRun(t, 2)
	assert.Equal(t, 5, next.SpanCount())
}

func TestShutdownWithFailingNext(t *testing.T) {
	next := &flakyNext{fail: down}
	h := newHarness(t, defaultConfig(), next)
	h.consume(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer))
	next.fail = func(ptrace.Traces) error {
		if next.tries < 3 {
			return errDown
		}
		return nil
	}
	done := make(chan error)
	go func() { done <- h.Shutdown(t.Context()) }()
	at := t0.Add(2 * forward.FirstRetry) // the second wait
	require.Eventually(t, func() bool { return h.clock.waitsUntil(at) }, 10*time.Second, time.Millisecond)
	h.clock.advance(2 * forward.FirstRetry)
	require.NoError(t, <-done, "it is tried again before anything is given up")
	assert.Equal(t, 1, next.SpanCount())

	next = &flakyNext{fail: down}
	h = newHarness(t, defaultConfig(), next)
	h.consume(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, h.Shutdown(ctx), "1 classified spans are lost")
}

// At a shutdown only refusals in a row count: a next consumer that fails most of
// the time gets everything in the end.
func TestShutdownWithNextThatFailsMostly(t *testing.T) {
	next := &flakyNext{fail: down}
	p := newInside(t, processortest.NewNopSettings(metadata.Type), defaultConfig(), next, hurriedClock{began: time.Now()})
	spans := 0
	for i := range 10 { // each a call of its own
		f := p.Shards[0].Lane(p.Tenants.Others).Forwarder
		td := tracesOf(t, requestSpan(2, 1, 0.1, 1).with(attribute.String("long", strings.Repeat("x", forward.MaxParcelBytes))).of(byte(i+1)))
		f.Send(t.Context(), forward.Parcel{Traces: td, Spans: 1, Bytes: forward.MaxParcelBytes})
		spans++
	}
	next.tries = 0
	next.fail = func(ptrace.Traces) error {
		if next.tries%forward.LastTries != 0 {
			return errDown
		}
		return nil
	}
	require.NoError(t, p.Shutdown(t.Context()))
	assert.Equal(t, spans, next.SpanCount())
	assert.Equal(t, forward.LastTries*spans, next.tries)

	next = &flakyNext{fail: down} // and one that takes nothing does not hold it up for ever
	p = newInside(t, processortest.NewNopSettings(metadata.Type), defaultConfig(), next, hurriedClock{began: time.Now()})
	for _, span := range finishedRun(1) {
		require.NoError(t, p.ConsumeTraces(t.Context(), tracesOf(t, span)))
	}
	require.ErrorContains(t, p.Shutdown(t.Context()), "2 classified spans are lost")
}

// Held spans of many callers go out without a caller.
func TestForwardWithoutCaller(t *testing.T) {
	next := &flakyNext{}
	h := newHarness(t, defaultConfig(), next)
	ctx := client.NewContext(t.Context(), client.Info{Metadata: client.NewMetadata(map[string][]string{"tenant": {"a"}})})
	run := finishedRun(1)
	require.NoError(t, h.ConsumeTraces(ctx, tracesOf(t, run[0])))
	require.NoError(t, h.ConsumeTraces(ctx, tracesOf(t, run[1], otherSpan(9, 1, 0.1, 0.2))))
	assert.Equal(t, 2, next.tries)
	assert.Equal(t, []string{"a"}, next.tenants, "the other spans go out in their caller's")

	require.NoError(t, h.ConsumeTraces(ctx, tracesOf(t, append(finishedRun(2), otherSpan(9, 1, 0.1, 0.2))...)))
	assert.Equal(t, 3, next.tries, "a run that comes whole goes in its call")
	assert.Equal(t, []string{"a", "a"}, next.tenants)
}

// A shutdown ends with its context, whatever the next consumer does.
func TestShutdownHonoursItsDeadline(t *testing.T) {
	const grace = time.Second // that it has after the end of the context
	for name, heeds := range map[string]bool{"a next consumer that heeds its context": true, "one that does not": false} {
		for _, started := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, started: %v", name, started), func(t *testing.T) {
				called, release := make(chan struct{}, 10), make(chan struct{})
				defer close(release)
				next, err := consumer.NewTraces(func(ctx context.Context, _ ptrace.Traces) error {
					called <- struct{}{}
					heeded := ctx.Done()
					if !heeds {
						heeded = nil
					}
					select {
					case <-heeded:
						return ctx.Err()
					case <-release:
						return nil
					}
				})
				require.NoError(t, err)
				clock := newManualClock()
				p := newInside(t, processortest.NewNopSettings(metadata.Type), defaultConfig(), next, clock)
				if started {
					require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
				}
				for _, span := range finishedRun(1) {
					require.NoError(t, p.ConsumeTraces(t.Context(), tracesOf(t, span)))
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- p.Shutdown(ctx) }()
				<-called // it is stuck
				cancel()
				if heeds { // it comes back within the time that it is given: none goes by
					require.ErrorContains(t, <-done, "2 classified spans are lost")
					return
				}
				require.Eventually(t, func() bool { return clock.waitsUntil(t0.Add(grace)) }, 10*time.Second, time.Millisecond)
				clock.advance(grace)
				require.ErrorContains(t, <-done, "the next consumer does not return")
			})
		}
	}
}

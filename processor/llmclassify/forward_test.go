package llmclassify_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/forward"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/tenant"
	"github.com/otelllm/otelllm-go/semconv"
)

// A call with LLM spans is owned. What the next consumer refuses of its other spans is kept and sent again, unless
// it refuses them for good.
func TestOthersRefused(t *testing.T) {
	other := harness.OtherSpan(9, 1, 0.1, 0.2)
	for name, tt := range map[string]struct {
		fails, err error
		spans      int // that come out
	}{
		"for now":  {harness.ErrDown, nil, 4},
		"in part":  {consumererror.NewTraces(harness.ErrDown, harness.TracesOf(t, other)), nil, 3}, // the next consumer says that it has one
		"for good": {consumererror.NewPermanent(harness.ErrDown), consumererror.NewPermanent(harness.ErrDown), 2},
	} {
		next := &harness.FlakyNext{Fail: func(ptrace.Traces) error { return tt.fails }}
		h := harness.New(t, harness.DefaultConfig(), next)
		run := harness.FinishedRun(1)
		h.Consume(t, run[0])
		err := h.Processor.ConsumeTraces(t.Context(), harness.TracesOf(t, run[1], other, harness.OtherSpan(9, 2, 0.1, 0.2)))
		require.Equal(t, tt.err, err, name)
		next.Fail = nil
		h.Settle(t.Context())
		h.Pass(t, forward.MaxRetry)
		assert.Equal(t, tt.spans, next.SpanCount(), name)
		assert.Equal(t, telemetry.Load{}, h.Load(), name)
		harness.AddsUp(t, h.Metrics)
	}
}

// What the next consumer refuses for now is kept as it was and sent again.
func TestForwardRefusedForNow(t *testing.T) {
	for name, mutates := range map[string]bool{"next does not mutate": false, "next mutates": true} {
		t.Run(name, func(t *testing.T) {
			next := &harness.FlakyNext{Fail: harness.Down, Mutates: mutates}
			h := harness.New(t, harness.DefaultConfig(), next)
			h.HeldRun(t, 1)
			h.HeldRun(t, 2)
			assert.Equal(t, 1, next.Tries, "the second queues behind the first")
			kept := h.Load().Bytes
			assert.Positive(t, kept)

			for _, wait := range []time.Duration{forward.FirstRetry, 2 * forward.FirstRetry, 4 * forward.FirstRetry} {
				tries := next.Tries
				at, ok := h.NextDue()
				require.True(t, ok)
				assert.Equal(t, h.Clock.Now().Add(wait), at)
				h.Pass(t, wait-1)
				assert.Equal(t, tries, next.Tries)
				h.Pass(t, 1)
				assert.Equal(t, tries+1, next.Tries)
			}
			assert.Equal(t, kept, h.Load().Bytes)
			next.Fail = nil
			h.Pass(t, 8*forward.FirstRetry)
			assert.Equal(t, 4, next.SpanCount())
			for _, td := range next.AllTraces() {
				assert.Equal(t, harness.Ran(semconv.RunOutcomeSucceeded, 0), harness.VerdictOf(harness.SpansOf(td)[harness.SpanID(1)]))
			}
			assert.Equal(t, telemetry.Load{}, h.Load())
			_, ok := h.Lane().Forwarder.Due()
			assert.False(t, ok)

			next.Fail = harness.Down // the backoff begins anew
			h.HeldRun(t, 3)
			at, _ := h.NextDue()
			assert.Equal(t, h.Clock.Now().Add(forward.FirstRetry), at)
		})
	}
}

// What has to wait goes in few calls, however many it came in: with one call in
// three refused, small ones would never get through.
func TestForwardTogether(t *testing.T) {
	next := &harness.FlakyNext{Fail: harness.Down}
	h := harness.New(t, harness.DefaultConfig(), next)
	const runs = 200
	for i := range runs {
		h.HeldRun(t, byte(i+1))
	}
	assert.Equal(t, 1, next.Tries)
	next.Fail, next.Tries = nil, 0
	h.Pass(t, forward.FirstRetry)
	assert.Equal(t, 2*runs, next.SpanCount())
	assert.Equal(t, 1, next.Tries)
	assert.Equal(t, telemetry.Load{}, h.Load())
	for _, td := range next.AllTraces() {
		data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(data), 4<<20, "what gRPC receivers take by default")
	}
}

// Waits grow while nothing is taken, and begin anew when something is.
func TestBackoffBeginsAnewAfterSuccess(t *testing.T) {
	next := &harness.FlakyNext{Fail: harness.Down}
	h := harness.New(t, harness.DefaultConfig(), next)
	for i := range 3 {
		for h.Lane().Forwarder.Bytes() < (2*i+1)*forward.MaxParcelBytes/2 { // more than one call takes
			h.Consume(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer).With(attribute.String("long", strings.Repeat("x", 1<<18))).Of(byte(i+1)))
			h.Consume(t, harness.RunSpan(1, 0, 3, 1, 0).Of(byte(i+1)))
		}
	}
	require.Greater(t, len(h.Lane().Forwarder.Queue), 2)
	h.Pass(t, forward.FirstRetry)
	h.Pass(t, 2*forward.FirstRetry)
	tries := next.Tries
	next.Fail = func(ptrace.Traces) error {
		if next.Tries == tries+1 {
			return nil
		}
		return harness.ErrDown
	}
	h.Pass(t, 4*forward.FirstRetry)
	require.Equal(t, tries+2, next.Tries, "one was taken, the next refused")
	at, ok := h.NextDue()
	require.True(t, ok)
	assert.Equal(t, h.Clock.Now().Add(forward.FirstRetry), at)
}

func TestForwardPartlyRefused(t *testing.T) {
	next := &harness.FlakyNext{Fail: func(td ptrace.Traces) error {
		failed := ptrace.NewTraces()
		td.CopyTo(failed)
		n := 0
		failed.ResourceSpans().At(0).ScopeSpans().At(0).Spans().RemoveIf(func(ptrace.Span) bool { n++; return n > 1 })
		return consumererror.NewTraces(harness.ErrDown, failed)
	}}
	h := harness.New(t, harness.DefaultConfig(), next)
	h.HeldRun(t, 1)
	next.Fail = nil
	h.Pass(t, forward.FirstRetry)
	assert.Equal(t, 1, next.SpanCount(), "only what was refused is sent again")
}

func TestForwardRefusedForGood(t *testing.T) {
	next := &harness.FlakyNext{Fail: func(ptrace.Traces) error { return consumererror.NewPermanent(harness.ErrDown) }}
	h := harness.New(t, harness.DefaultConfig(), next)
	h.HeldRun(t, 1)
	assert.Equal(t, telemetry.Load{}, h.Load())
	_, ok := h.Lane().Forwarder.Due()
	assert.False(t, ok)
	failures, err := h.Metrics.GetMetric("otelcol_processor_llm_classify_forward_failures")
	require.NoError(t, err)
	assert.Equal(t, int64(2), harness.Total(t, failures))
}

// While the next consumer fails and the bound is reached, calls are refused
// before anything of them is owned or forwarded.
func TestRefusedAtTheBound(t *testing.T) {
	next := &harness.FlakyNext{}
	cfg := harness.DefaultConfig()
	h := harness.New(t, cfg, next)
	next.Fail = func(td ptrace.Traces) error {
		if _, ok := harness.SpansOf(td)[harness.SpanID(9)]; ok {
			return nil // takes other spans
		}
		return harness.ErrDown
	}
	h.HeldRun(t, 1)
	h.Budget.Limit = int64(3 * h.Load().Bytes / 2)
	before, tries := h.Load(), next.Tries

	err := h.ConsumeTraces(t.Context(), harness.TracesOf(t, harness.FinishedRun(2)[0], harness.OtherSpan(9, 1, 0.1, 0.2)))
	require.ErrorIs(t, err, tenant.ErrFull)
	assert.False(t, consumererror.IsPermanent(err), "the sender is to send it again")
	assert.Equal(t, before, h.Load())
	assert.Equal(t, tries, next.Tries, "the other spans were not forwarded either: they come again")
	h.Consume(t, harness.OtherSpan(9, 1, 0.1, 0.2)) // alone they pass

	next.Fail = nil
	h.Pass(t, forward.FirstRetry)
	h.HeldRun(t, 2)
	assert.Equal(t, 5, next.SpanCount())
}

func TestShutdownWithFailingNext(t *testing.T) {
	next := &harness.FlakyNext{Fail: harness.Down}
	h := harness.New(t, harness.DefaultConfig(), next)
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer))
	next.Fail = func(ptrace.Traces) error {
		if next.Tries < 3 {
			return harness.ErrDown
		}
		return nil
	}
	done := make(chan error)
	go func() { done <- h.Shutdown(t.Context()) }()
	at := harness.T0.Add(2 * forward.FirstRetry) // the second wait
	require.Eventually(t, func() bool { return h.Clock.WaitsUntil(at) }, 10*time.Second, time.Millisecond)
	h.Clock.Advance(2 * forward.FirstRetry)
	require.NoError(t, <-done, "it is tried again before anything is given up")
	assert.Equal(t, 1, next.SpanCount())

	next = &harness.FlakyNext{Fail: harness.Down}
	h = harness.New(t, harness.DefaultConfig(), next)
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, h.Shutdown(ctx), "1 classified spans are lost")
}

// At a shutdown only refusals in a row count: a next consumer that fails most of
// the time gets everything in the end.
func TestShutdownWithNextThatFailsMostly(t *testing.T) {
	next := &harness.FlakyNext{Fail: harness.Down}
	p := harness.Make(t, processortest.NewNopSettings(metadata.Type), harness.DefaultConfig(), next, harness.HurriedClock{Began: time.Now()})
	spans := 0
	for i := range 10 { // each a call of its own
		f := p.Shards[0].Lane(p.Tenants.Others).Forwarder
		td := harness.TracesOf(t, harness.RequestSpan(2, 1, 0.1, 1).With(attribute.String("long", strings.Repeat("x", forward.MaxParcelBytes))).Of(byte(i+1)))
		f.Send(t.Context(), forward.Parcel{Traces: td, Spans: 1, Bytes: forward.MaxParcelBytes})
		spans++
	}
	next.Tries = 0
	next.Fail = func(ptrace.Traces) error {
		if next.Tries%forward.LastTries != 0 {
			return harness.ErrDown
		}
		return nil
	}
	require.NoError(t, p.Shutdown(t.Context()))
	assert.Equal(t, spans, next.SpanCount())
	assert.Equal(t, forward.LastTries*spans, next.Tries)

	next = &harness.FlakyNext{Fail: harness.Down} // and one that takes nothing does not hold it up for ever
	p = harness.Make(t, processortest.NewNopSettings(metadata.Type), harness.DefaultConfig(), next, harness.HurriedClock{Began: time.Now()})
	for _, span := range harness.FinishedRun(1) {
		require.NoError(t, p.ConsumeTraces(t.Context(), harness.TracesOf(t, span)))
	}
	require.ErrorContains(t, p.Shutdown(t.Context()), "2 classified spans are lost")
}

// Held spans of many callers go out without a caller.
func TestForwardWithoutCaller(t *testing.T) {
	next := &harness.FlakyNext{}
	h := harness.New(t, harness.DefaultConfig(), next)
	ctx := client.NewContext(t.Context(), client.Info{Metadata: client.NewMetadata(map[string][]string{"tenant": {"a"}})})
	run := harness.FinishedRun(1)
	require.NoError(t, h.ConsumeTraces(ctx, harness.TracesOf(t, run[0])))
	require.NoError(t, h.ConsumeTraces(ctx, harness.TracesOf(t, run[1], harness.OtherSpan(9, 1, 0.1, 0.2))))
	assert.Equal(t, 2, next.Tries)
	assert.Equal(t, []string{"a"}, next.Tenants, "the other spans go out in their caller's")

	require.NoError(t, h.ConsumeTraces(ctx, harness.TracesOf(t, append(harness.FinishedRun(2), harness.OtherSpan(9, 1, 0.1, 0.2))...)))
	assert.Equal(t, 3, next.Tries, "a run that comes whole goes in its call")
	assert.Equal(t, []string{"a", "a"}, next.Tenants)
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
				clock := harness.NewClock()
				p := harness.Make(t, processortest.NewNopSettings(metadata.Type), harness.DefaultConfig(), next, clock)
				if started {
					require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
				}
				for _, span := range harness.FinishedRun(1) {
					require.NoError(t, p.ConsumeTraces(t.Context(), harness.TracesOf(t, span)))
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
				require.Eventually(t, func() bool { return clock.WaitsUntil(harness.T0.Add(grace)) }, 10*time.Second, time.Millisecond)
				clock.Advance(grace)
				require.ErrorContains(t, <-done, "the next consumer does not return")
			})
		}
	}
}

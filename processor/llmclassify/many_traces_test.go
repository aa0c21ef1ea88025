package llmclassify_test

import (
	"encoding/binary"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/worker"
	"github.com/otelllm/otelllm-go/semconv"
)

// TestManyTraces holds many traces at once and releases all of them in the order in
// which they came, a few at a time: between two of those whatever comes has its
// turn. How long the longest took is logged, by the clock and, where that can be
// asked, in processor time: other programs lengthen the former alone.
// LLMCLASSIFY_MAX_PAUSE (10ms) bounds the latter, and the former where there is no other.
func TestManyTraces(t *testing.T) {
	many := 100_000
	if sample.Only() {
		many = 5000
	}
	cfg := harness.DefaultConfig()
	cfg.MaxHeldBytes = 1 << 30
	h := harness.New(t, cfg, nil)
	const calls = 1000
	number := uint64(0)
	for range many / calls {
		td := ptrace.NewTraces()
		template := harness.TracesOf(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer)).ResourceSpans().At(0)
		template.CopyTo(td.ResourceSpans().AppendEmpty())
		spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
		spans.EnsureCapacity(calls)
		for spans.Len() < calls {
			spans.At(0).CopyTo(spans.AppendEmpty())
		}
		for _, span := range spans.All() {
			number++
			span.SetTraceID(harness.NthTraceID(number))
		}
		require.NoError(t, h.ConsumeTraces(t.Context(), td))
		h.Clock.Advance(time.Microsecond)
	}
	require.Equal(t, many, h.Load().Traces)
	require.Empty(t, h.Sink.AllTraces())
	t.Logf("%d bytes a span, as estimated", h.Load().Bytes/many)

	now := h.Clock.Advance(harness.MaxHold)
	s := h.Lane()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var longest, busiest time.Duration
	turns := 0
	for at, ok := s.Next(); ok && !at.After(now); at, ok = s.Next() {
		start := time.Now()
		worked, _ := threadTime()
		s.Turn(t.Context())
		until, _ := threadTime()
		longest, busiest = max(longest, time.Since(start)), max(busiest, until-worked)
		turns++
	}
	t.Logf("%d turns, the longest %v, of which at most %v processor time", turns, longest, busiest)
	assert.GreaterOrEqual(t, turns, 9*many/worker.MaxDue-1)
	if bound := os.Getenv("LLMCLASSIFY_MAX_PAUSE"); bound != "" {
		most, err := time.ParseDuration(bound)
		require.NoError(t, err)
		if _, ok := threadTime(); ok {
			longest = busiest
		}
		assert.LessOrEqual(t, longest, most)
	}

	next := uint64(0)
	for _, td := range h.Sink.AllTraces() {
		for _, span := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
			id := span.TraceID()
			n := binary.BigEndian.Uint64(id[8:])
			require.Equal(t, (next/calls)*calls, (n-1)/calls*calls, "in the order in which they came, those of one call in any: "+strconv.FormatUint(n, 10))
			require.Equal(t, harness.EarlyVerdict(semconv.TriggerHoldExpired), harness.VerdictOf(span))
			next++
		}
	}
	assert.Equal(t, uint64(many), next)
}

// What is held goes at the end, also while many traces of which only facts are kept expire
// before it.
func TestShutdownBesideKeptFacts(t *testing.T) {
	cfg := harness.DefaultConfig()
	cfg.RunTimeout = time.Minute
	h := harness.New(t, cfg, nil)
	for i := range 2 * worker.MaxDrained {
		td := harness.TracesOf(t, harness.RequestSpan(2, 1, 0.1, 0.4))
		td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetTraceID(harness.NthTraceID(uint64(i)))
		require.NoError(t, h.ConsumeTraces(t.Context(), td))
	}
	h.Pass(t, 45*time.Second) // they go, and their facts stay for 15 s more
	require.Equal(t, 2*worker.MaxDrained, h.Sink.SpanCount())
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 0.4))
	require.NoError(t, h.Shutdown(t.Context()))
	assert.Equal(t, 2*worker.MaxDrained+1, h.Sink.SpanCount())
	assert.Zero(t, h.Processor.Telemetry.Flow.Now().Held)
}

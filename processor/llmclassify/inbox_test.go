package llmclassify

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// What is on its way to a lane is bounded in calls and in bytes, and in spans that passed;
// only for a place does a call wait.
func TestInboxIsBounded(t *testing.T) {
	const held = 16 << 20 // the inbox has a sixteenth of it
	woken := 0
	b := newInbox(held, func() { woken++ })
	done, cancel := context.WithCancel(t.Context())
	cancel()
	spans := func(size int) *delivery { return &delivery{arrivals: []trace.Arrival{{}}, size: size} }
	for range maxDeliveries {
		d := spans(1)
		require.NoError(t, b.reserve(t.Context(), d))
		b.put(d)
	}
	require.ErrorIs(t, b.reserve(done, spans(1)), context.Canceled)
	for range maxDeliveries {
		_, ok := b.take()
		require.True(t, ok)
	}
	assert.True(t, b.empty())

	large := spans(held) // larger than all room: alone it may come
	require.NoError(t, b.reserve(t.Context(), large))
	require.ErrorIs(t, b.reserve(done, spans(1)), context.Canceled)
	b.unreserve(large)
	for range 3 {
		require.NoError(t, b.reserve(t.Context(), spans(300<<10)))
	}
	require.ErrorIs(t, b.reserve(done, spans(300<<10)), context.Canceled)

	news := &delivery{links: make([]trace.Link, maxNews)}
	b.put(news)
	b.put(&delivery{links: make([]trace.Link, 1)})
	d, _ := b.take()
	assert.True(t, d.linksLost)
	assert.True(t, b.empty(), "news need no place, and have no more room")
	b.put(news)
	assert.Equal(t, maxDeliveries+2, woken)
}

// Where there is no room for links, runs of the traces that are here or on their way, and that
// announce no numbers, may have requests that are taken for another run's.
func TestLinksWithoutRoom(t *testing.T) {
	for name, calls := range map[string][]int{
		"in one call":   {maxNews + 1},
		"in many calls": {maxNews / 2, maxNews / 2, 10},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			run, refused := uncountedRun(0, 1)[0], uncountedRun(0, 1)[1]
			h.consume(t, refused, refused.of(2))
			counted := runSpan(1, 0, 1, 1, 0).failed("429")
			for _, n := range calls {
				td := tracesOf(t, otherSpan(8, 1, 0, 1))
				spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
				for range n - 1 {
					spans.At(0).CopyTo(spans.AppendEmpty())
				}
				require.NoError(t, h.classifier.ConsumeTraces(t.Context(), td)) // its shard does not look yet
			}
			require.NoError(t, h.classifier.ConsumeTraces(t.Context(), tracesOf(t, refused.of(3))))
			h.settle(t.Context())
			h.consume(t, run, counted.of(2), run.of(3))
			h.pass(t, 2*defaultSettle)
			h.consume(t, run.of(4), refused.of(4))
			h.pass(t, defaultSettle)
			got := map[byte]verdict{}
			eachSpan(h.out(), func(span ptrace.Span) {
				if span.SpanID() == spanID(1) {
					got[span.TraceID()[15]] = verdictOf(span)
				}
			})
			assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, got[1].reason)
			assert.Equal(t, safe, got[2].safety, "it announces its parts")
			assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, got[3].reason, "it was on its way")
			assert.Equal(t, safe, got[4].safety, "it came later")
		})
	}
}

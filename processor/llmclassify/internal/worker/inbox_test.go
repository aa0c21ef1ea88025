package worker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// What is on its way to a lane is bounded in calls and in bytes, and in spans that passed;
// only for a place does a call wait.
func TestInboxIsBounded(t *testing.T) {
	const held = 16 << 20 // the inbox has a sixteenth of it
	woken := 0
	b := newInbox(held, func() { woken++ })
	done, cancel := context.WithCancel(t.Context())
	cancel()
	spans := func(size int) *delivery { return &delivery{Arrivals: []trace.Arrival{{}}, size: size} }
	for range MaxDeliveries {
		d := spans(1)
		require.NoError(t, b.reserve(t.Context(), d))
		b.put(d)
	}
	require.ErrorIs(t, b.reserve(done, spans(1)), context.Canceled)
	for range MaxDeliveries {
		_, ok := b.Take()
		require.True(t, ok)
	}
	assert.True(t, b.Empty())

	large := spans(held) // larger than all room: alone it may come
	require.NoError(t, b.reserve(t.Context(), large))
	require.ErrorIs(t, b.reserve(done, spans(1)), context.Canceled)
	b.unreserve(large)
	for range 3 {
		require.NoError(t, b.reserve(t.Context(), spans(300<<10)))
	}
	require.ErrorIs(t, b.reserve(done, spans(300<<10)), context.Canceled)

	news := &delivery{links: make([]trace.Link, MaxNews)}
	b.put(news)
	b.put(&delivery{links: make([]trace.Link, 1)})
	d, _ := b.Take()
	assert.True(t, d.linksLost)
	assert.True(t, b.Empty(), "news need no place, and have no more room")
	b.put(news)
	assert.Equal(t, MaxDeliveries+2, woken)
}

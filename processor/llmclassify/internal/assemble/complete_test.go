package assemble

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
)

// Of any spans of a trace that come at once: runs that need no buffer are released as a
// buffer would release them, and leave nothing in it.
func TestCompleteRunsAreWhatABufferReleases(t *testing.T) {
	complete := 0
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // repeatable on purpose
		items := anyItems(r)
		var links []hold.Link
		for range r.IntN(3) {
			links = append(links, hold.Link{Trace: traceID, ID: id(byte(r.IntN(12) + 1)), Parent: id(byte(r.IntN(12)))})
		}
		spans := make([]ptrace.Span, len(items))
		for i := range spans {
			spans[i] = ptrace.NewSpan()
			spans[i].SetSpanID(items[i].ID)
		}
		a := Arrival{Trace: traceID, Items: items}
		released, _, ok := hold.CompleteRuns(a, spans, len(links) == 0, nil, nil)
		if !ok {
			require.Empty(t, released)
			continue
		}
		complete++
		b := hold.New(t0, hold.Config[Known]{
			MaxHold: time.Minute, Settle: time.Second, RunTimeout: time.Hour, MaxSpansPerRun: 1000, MaxFactBytes: 1 << 20,
			Locate: Locate, Read: func(*Item) int { return 1 },
		})
		want := b.Add(t0, []Arrival{a}, links)
		assert.Zero(t, b.Traces())
		require.Len(t, released, len(want), "seed %d", seed)
		for i := range want {
			for m := range released[i].Members {
				require.Equal(t, released[i].Members[m].ID, released[i].Members[m].Span.SpanID())
				released[i].Members[m].Span = ptrace.Span{}
			}
			want[i].Of = nil // of a run that is not held nothing else is known
			require.Equal(t, want[i], released[i], "seed %d", seed)
		}
		assert.False(t, b.Judged().Claim(t0, traceID, released[0].RunID), "it has been judged")
	}
	assert.Greater(t, complete, 1000)
}

// anyItems are spans of a trace, most of which name a run that is among them.
func anyItems(r *rand.Rand) (items []*Item) {
	runs := r.IntN(3) + 1
	var requests, tools [4]uint32
	for n := range r.IntN(8) {
		it := &Item{ID: id(byte(n + 4)), Role: hold.Role(r.IntN(2)), Run: id(byte(r.IntN(runs) + 1)), Size: 1}
		switch r.IntN(12) {
		case 0:
			it.Run = pcommon.SpanID{}
		case 1:
			it.Unexplained = it.Role == hold.Request && r.IntN(2) == 0
		case 2:
			it.ID = id(byte(r.IntN(8) + 1))
		}
		it.Parent = it.Run
		if r.IntN(3) == 0 {
			it.Parent = id(byte(r.IntN(12)))
		}
		if it.Role == hold.Request {
			requests[it.Run[7]&3]++
		} else {
			tools[it.Run[7]&3]++
		}
		items = append(items, it)
	}
	for n := range runs {
		it := &Item{ID: id(byte(n + 1)), Role: hold.Run, Size: 1}
		it.Announced = hold.Announced{Known: r.IntN(20) > 0, Requests: requests[n+1], Tools: tools[n+1]}
		if r.IntN(10) == 0 {
			it.Announced.Tools++
		}
		if r.IntN(2) == 0 {
			it.Parent = id(byte(r.IntN(12)))
		}
		items = append(items, it)
	}
	r.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	return items
}

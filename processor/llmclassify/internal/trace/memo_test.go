package trace

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

func numbered(n int) (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], uint64(n)) //nolint:gosec // not negative
	return id
}

// largeBuffer is a buffer with room for much.
func largeBuffer() *Buffer {
	return New(t0, Config{
		MaxHold: time.Minute, Settle: time.Second, RunTimeout: time.Hour, MaxSpansPerRun: 100_000, MaxFactBytes: 1 << 30,
		Read: func(*Item) int { return 1 },
	})
}

// What is remembered of a trace changes no place in it: chains of spans that passed, which end
// in a root, in a span that is not here, in a run or in themselves, are as if each one was
// climbed, and so are runs beneath them.
func TestMemoChangesNoPlace(t *testing.T) {
	located, byTime, beneath := 0, 0, 0
	services := []*origin.Scope{nil, {Resource: &origin.Resource{Key: Service{1}}}, {Resource: &origin.Resource{Key: Service{2}}}}
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // repeatable on purpose
		n := []int{2, 6, 40, 127, 128, 129, 300}[r.IntN(7)]
		var links []Link
		for i := range n {
			links = append(links, Link{Trace: trace1, ID: numbered(1000 + i), Parent: numbered(1001 + i)})
		}
		switch r.IntN(4) {
		case 0:
			links[n-1].Parent = pcommon.SpanID{}
		case 1:
			links[n-1].Parent = numbered(1000 + r.IntN(n))
		}
		if r.IntN(2) == 0 { // two chains
			links[r.IntN(n)].Parent = numbered(5000)
		}
		var items []*Item
		for i := range r.IntN(12) {
			from := pcommon.Timestamp(r.IntN(20))
			items = append(items, &Item{
				ID: numbered(2000 + i), Parent: numbered(1000 + r.IntN(n+2)), Role: Run, Size: 1,
				Start: from * 1e9, End: (from + pcommon.Timestamp(r.IntN(40))) * 1e9, Announced: Announced{Known: true, Requests: 1},
			})
		}
		if len(items) > 0 && r.IntN(4) == 0 {
			links[r.IntN(n)].Parent = items[0].ID
		}
		for i := range 30 {
			items = append(items, &Item{ID: numbered(3000 + i), Parent: numbered(1000 + r.IntN(n+2)), Size: 1, Start: pcommon.Timestamp(r.IntN(60)) * 1e9})
		}
		for _, it := range items {
			it.Known.Origin = services[r.IntN(len(services))]
		}
		b := largeBuffer()
		b.Add(t0, []Arrival{{Trace: trace1, Items: items}}, links)
		of := b.Trace(trace1)
		for _, it := range items {
			if it.Role == Run || it.Gone() {
				continue
			}
			located++
			place := Locate(of, it)
			require.Equal(t, plainPlace(of, it), place, "seed %d", seed)
			if place.ByTime {
				byTime++
			} else if place.Known {
				beneath++
			}
		}
	}
	assert.Greater(t, located, 10_000)
	assert.Greater(t, byTime, 1000)
	assert.Greater(t, beneath, 100)
}

// nearer reports whether an item that began within two runs rather belongs to run a than to run b.
func nearer(it, a, b *Item) bool {
	if own := SameService(it, a); own != SameService(it, b) {
		return own
	}
	return compareInner(a, b) > 0
}

// plainPlace is the place of a request that names no run, above which are no other requests.
func plainPlace(t *Trace, it *Item) Place {
	above := func(id pcommon.SpanID) (run *Item, unseen pcommon.SpanID, endless bool) {
		for range maxDepth {
			if run = t.Item(id); run != nil {
				return run, unseen, false
			}
			parent, ok := t.Parent(id)
			if !ok {
				return nil, id, false
			}
			id = parent
		}
		return nil, unseen, true
	}
	run, unseen, endless := above(it.Parent)
	switch {
	case run != nil:
		return Place{Run: run.ID, Known: true}
	case unseen.IsEmpty():
		return Place{Run: it.Parent, Endless: endless}
	}
	for _, other := range t.spans {
		if _, at, _ := above(other.Parent); at != unseen && began(it, other) && (run == nil || nearer(it, other, run)) {
			run = other
		}
	}
	if run != nil {
		return Place{Run: run.ID, Known: true, ByTime: true}
	}
	return Place{Run: it.Parent, Open: true, Unseen: unseen}
}

// A run's end may be too early by as much as its start was rounded down.
func TestBeganOnWholeMilliseconds(t *testing.T) {
	whole := pcommon.Timestamp(time.Second)
	run := &Item{ID: id(1), Role: Run, Start: whole, End: whole + pcommon.Timestamp(261_851*time.Microsecond)}
	for start, want := range map[time.Duration]bool{
		-time.Nanosecond: false, 0: true, 261 * time.Millisecond: true, 262 * time.Millisecond: true, 263 * time.Millisecond: false,
	} {
		it := &Item{ID: id(2), Role: Tool, Start: pcommon.Timestamp(int64(whole) + int64(start))}
		assert.Equal(t, want, began(it, run), "%s after the run", start)
	}
}

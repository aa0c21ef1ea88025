package llmagentlogs

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/turn"
	"github.com/otelllm/otelllm-go/semconv"
)

// makeRoom forgets conversations until a part of the memory is free: from the origin with the most memory, the
// conversations that were silent for longest. One origin with very many does not cost the others theirs.
func (c *conversations) makeRoom(out *batch) {
	byOrigin := make(map[string]*holding)
	for k, conv := range c.byKey {
		h := byOrigin[k.origin]
		if h == nil {
			h = new(holding)
			byOrigin[k.origin] = h
		}
		h.keys, h.bytes = append(h.keys, k), h.bytes+conv.counted
	}
	holdings := slices.Collect(maps.Values(byOrigin))
	for _, h := range holdings {
		slices.SortFunc(h.keys, func(a, b key) int { return cmp.Compare(c.byKey[a].added, c.byKey[b].added) })
		h.oldest = c.byKey[h.keys[0]].added
	}
	most := mostFirst(holdings)
	heap.Init(&most)
	for len(most) > 0 && c.bytes > c.cfg.MaxBytes-c.cfg.MaxBytes/32 {
		h, k := most[0], most[0].keys[0]
		conv := c.byKey[k]
		h.bytes -= conv.counted
		c.handle(conv, out)
		c.write(conv, out, func(to turn.Sink) { conv.Stop(semconv.RunEndEvicted, to) })
		c.forget(k, conv)
		c.count.forgotten++
		if h.keys = h.keys[1:]; len(h.keys) == 0 {
			heap.Pop(&most)
			continue
		}
		h.oldest = c.byKey[h.keys[0]].added
		heap.Fix(&most, 0)
	}
}

// holding is the conversations of one origin, the one that was silent for longest first.
type holding struct {
	keys   []key
	bytes  int
	oldest uint64
}

// mostFirst is a heap of holdings: the most bytes first, and at equal bytes the longest silence.
type mostFirst []*holding

func (m mostFirst) Len() int { return len(m) }
func (m mostFirst) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(m[j].bytes, m[i].bytes), cmp.Compare(m[i].oldest, m[j].oldest)) < 0
}
func (m mostFirst) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m *mostFirst) Push(x any)   { *m = append(*m, x.(*holding)) }
func (m *mostFirst) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

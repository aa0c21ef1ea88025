package trace

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Room is reusable memory for the traces of a call that arrive whole. Its zero value is ready to use.
type Room struct {
	traces   []Trace
	items    []*Item
	members  []Member
	releases []Release
}

// Clear forgets the traces of a call.
func (r *Room) Clear() {
	clear(r.traces)
	clear(r.items)
	clear(r.members)
	clear(r.releases)
	*r = Room{r.traces[:0], r.items[:0], r.members[:0], r.releases[:0]}
}

// Cap returns the number of spans that there is room for.
func (r *Room) Cap() int { return cap(r.items) }

// Grow makes room for this many traces with this many spans in all.
func (r *Room) Grow(traces, spans int) {
	r.traces, r.items = slices.Grow(r.traces, traces), slices.Grow(r.items, spans)
	r.members, r.releases = slices.Grow(r.members, spans), slices.Grow(r.releases, traces)
}

// trace makes a trace with room for n spans.
func (r *Room) trace(id pcommon.TraceID, now age, n int) *Trace {
	r.traces = append(r.traces, Trace{id: id, began: now, rests: now})
	t, from := &r.traces[len(r.traces)-1], len(r.items)
	r.items = r.items[:from+n]
	t.items = r.items[from : from : from+n]
	return t
}

package hold

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Link is a span that passed and is not held, with its parent: it completes the parent
// chains of held spans. Links of traces that are not here, more than
// Config.MaxSpansPerRun of one trace, and those for which Config.MaxFactBytes has no
// room are ignored: without a link a run only waits longer for its span.
type Link struct {
	Trace      pcommon.TraceID
	ID, Parent pcommon.SpanID
}

// linkSize is the memory of one link in bytes, with the spare capacity of the list.
const linkSize = 24

// links are the links of a trace. There are many, and they are rarely looked up: a list,
// which is indexed for as long as that is needed.
type links struct {
	list   [][2]pcommon.SpanID // id and parent; the first of several counts
	index  map[pcommon.SpanID]pcommon.SpanID
	joined map[pcommon.SpanID]pcommon.SpanID // what takes the place of spans that are not here, see joinResponse
}

// size is how many links there are.
func (l *links) size() int { return len(l.list) + len(l.joined) }

func (l *links) add(links []Link) {
	l.list = slices.Grow(l.list, len(links))
	for i := range links {
		l.list = append(l.list, [2]pcommon.SpanID{links[i].ID, links[i].Parent})
	}
	l.index = nil
}

// parent returns the parent of a span that passed, or what took its place before.
func (l *links) parent(id pcommon.SpanID) (parent pcommon.SpanID, ok bool) {
	if parent, ok = l.passed(id); !ok {
		parent, ok = l.joined[id]
	}
	return parent, ok
}

func (l *links) passed(id pcommon.SpanID) (parent pcommon.SpanID, ok bool) {
	if len(l.list) <= smallTrace {
		for _, link := range l.list {
			if link[0] == id {
				return link[1], true
			}
		}
		return parent, false
	}
	if l.index == nil {
		l.index = make(map[pcommon.SpanID]pcommon.SpanID, len(l.list))
		for _, link := range l.list {
			if _, ok := l.index[link[0]]; !ok {
				l.index[link[0]] = link[1]
			}
		}
	}
	parent, ok = l.index[id]
	return parent, ok
}

// dropIndex frees the index.
func (l *links) dropIndex() { l.index = nil }

// link adds the first links of a list that belong to one trace, and returns how many they
// are. It returns the trace if a run of it waited for one of them, else nil.
func (b *Buffer[F]) link(list []Link) (n int, waited *Trace[F]) {
	for n < len(list) && list[n].Trace == list[0].Trace {
		n++
	}
	t := b.traces[list[0].Trace]
	if t == nil {
		return n, nil
	}
	take := min(n, b.linkRoom(t))
	if take == 0 {
		return n, nil
	}
	t.links.add(list[:take])
	b.factBytes += take * linkSize
	for i := range take {
		if t.arrived(list[i].ID) {
			waited = t
		}
	}
	return n, waited
}

// linkRoom is for how many more links of a trace there is room.
func (b *Buffer[F]) linkRoom(t *Trace[F]) int {
	return max(min(b.cfg.MaxSpansPerRun-t.links.size(), (b.cfg.MaxFactBytes-b.FactBytes())/linkSize), 0)
}

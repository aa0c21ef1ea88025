package trace

import (
	"bytes"
	"iter"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Link is a span that passed and is not held, with its parent: it completes the parent chains of held spans. The buffer
// ignores links of traces that are not buffered, links beyond linksPerSpan times Config.MaxSpansPerRun of one trace, and
// links without room in Config.MaxFactBytes: without a link a run only waits longer for its span.
type Link struct {
	Trace      pcommon.TraceID
	ID, Parent pcommon.SpanID
}

// linkSize is the memory of one link in bytes, with its share of the lists while they are merged.
const linkSize = 24

// linksPerSpan is how many links a trace may have for each span of Config.MaxSpansPerRun: some agents write a hundred spans
// of their own around each request.
const linksPerSpan = 16

// links are the links of a trace. There may be many, and few are looked up: they are lists sorted by id, each at most half
// as long as the one before.
type links struct {
	lists [][][2]pcommon.SpanID // id and parent; the first of several counts
	n     int
	// absent is the last id that was looked up and not found in the lists.
	absent struct {
		known bool
		id    pcommon.SpanID
	}
	joined map[pcommon.SpanID]pcommon.SpanID // substitutes for missing spans: the parent by id, see joinResponse
}

// size is the number of links.
func (l *links) size() int { return l.n + len(l.joined) }

func (l *links) add(links []Link) {
	list := make([][2]pcommon.SpanID, len(links))
	for i := range links {
		list[i] = [2]pcommon.SpanID{links[i].ID, links[i].Parent}
	}
	slices.SortStableFunc(list, compareLinks)
	l.n += len(list)
	for n := len(l.lists); n > 0 && len(l.lists[n-1]) < 2*len(list); n-- {
		list = mergeLinks(l.lists[n-1], list)
		l.lists = l.lists[:n-1]
	}
	l.lists = append(l.lists, list)
	l.absent.known = false
}

func compareLinks(a, b [2]pcommon.SpanID) int { return bytes.Compare(a[0][:], b[0][:]) }

// mergeLinks merges two sorted lists. Links of the first one come before their equals.
func mergeLinks(first, second [][2]pcommon.SpanID) [][2]pcommon.SpanID {
	all := make([][2]pcommon.SpanID, 0, len(first)+len(second))
	for len(first) > 0 && len(second) > 0 {
		if compareLinks(first[0], second[0]) <= 0 {
			all, first = append(all, first[0]), first[1:]
		} else {
			all, second = append(all, second[0]), second[1:]
		}
	}
	return append(append(all, first...), second...)
}

// parent returns the parent of a link, or of the substitute for a missing span.
func (l *links) parent(id pcommon.SpanID) (parent pcommon.SpanID, ok bool) {
	if parent, ok = l.passed(id); !ok {
		parent, ok = l.joined[id]
	}
	return parent, ok
}

// passed returns the parent of a link. It remembers the last id that it did not find: the same one, the parent of many
// runs, is often looked up many times.
func (l *links) passed(id pcommon.SpanID) (parent pcommon.SpanID, ok bool) {
	if l.absent.known && id == l.absent.id {
		return parent, false
	}
	for _, list := range l.lists {
		at, ok := slices.BinarySearchFunc(list, id, func(link [2]pcommon.SpanID, id pcommon.SpanID) int { return bytes.Compare(link[0][:], id[:]) })
		if ok {
			return list[at][1], true
		}
	}
	l.absent.known, l.absent.id = true, id
	return parent, false
}

// Links yields the links with their parents, in no order.
func (t *Trace) Links() iter.Seq2[pcommon.SpanID, pcommon.SpanID] {
	return func(yield func(id, parent pcommon.SpanID) bool) {
		for _, list := range t.links.lists {
			for _, link := range list {
				if !yield(link[0], link[1]) {
					return
				}
			}
		}
	}
}

// link adds the first links of a list that belong to one trace, and returns their number. It returns the trace if a run of
// it waited for one of them, else nil.
func (b *Buffer) link(list []Link) (n int, waited *Trace) {
	for n < len(list) && list[n].Trace == list[0].Trace {
		n++
	}
	t := b.traces[list[0].Trace]
	if t == nil {
		return n, nil
	}
	take := min(n, b.linkRoom(t))
	if take < n {
		t.doubt |= LinksLost
	}
	if take == 0 {
		return n, nil
	}
	t.links.add(list[:take])
	t.inward = nil
	b.factBytes += take * linkSize
	for i := range take {
		if t.arrived(list[i].ID) {
			waited = t
		}
	}
	return n, waited
}

// LoseLinks notes that links are missing, of any trace that is buffered or on its way.
func (b *Buffer) LoseLinks(now time.Time) { b.linksLost = b.age(now.Add(b.cfg.Settle)) }

// linkRoom is how many more links of a trace there is room for.
func (b *Buffer) linkRoom(t *Trace) int {
	return max(min(linksPerSpan*b.cfg.MaxSpansPerRun-t.links.size(), (b.cfg.MaxFactBytes-b.FactBytes())/linkSize), 0)
}

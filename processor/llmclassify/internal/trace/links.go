package trace

import (
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

// linkSize is the memory of one link in bytes, with its share of the map.
const linkSize = 40

// linksPerSpan is how many links a trace may have for each span of Config.MaxSpansPerRun: some agents write a hundred spans
// of their own around each request.
const linksPerSpan = 16

// links are the links of a trace: parents by id.
type links struct {
	passed map[pcommon.SpanID]pcommon.SpanID
	joined map[pcommon.SpanID]pcommon.SpanID // substitutes for missing spans, see joinResponse
}

// size is the number of links.
func (l *links) size() int { return len(l.passed) + len(l.joined) }

// add adds links, and returns how many are new. The first of several with one id counts.
func (l *links) add(links []Link) int {
	if l.passed == nil {
		l.passed = make(map[pcommon.SpanID]pcommon.SpanID, len(links))
	}
	before := len(l.passed)
	for i := range links {
		if _, ok := l.passed[links[i].ID]; !ok {
			l.passed[links[i].ID] = links[i].Parent
		}
	}
	return len(l.passed) - before
}

// parent returns the parent of a link, or of the substitute for a missing span.
func (l *links) parent(id pcommon.SpanID) (parent pcommon.SpanID, ok bool) {
	if parent, ok = l.passed[id]; !ok {
		parent, ok = l.joined[id]
	}
	return parent, ok
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
	b.factBytes += t.links.add(list[:take]) * linkSize
	t.changedPlaces()
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

package hold

import "go.opentelemetry.io/collector/pdata/pcommon"

// Link says that the span ID was seen to have this parent and is not held: it
// completes the parent chains of what is. Links of traces that are not here, more
// than Config.MaxSpansPerRun of one trace, and what Config.MaxFactBytes has no room
// for, are ignored: without a link a run only waits for its span for longer.
type Link struct {
	Trace      pcommon.TraceID
	ID, Parent pcommon.SpanID
}

// linkSize is the memory of one link in bytes, with the list's reserve.
const linkSize = 24

// links are the spans of a trace that were seen and are not held. There are many
// and they are asked for rarely: a list, indexed while it is needed.
type links struct {
	list  [][2]pcommon.SpanID // id and parent; the first of several counts
	index map[pcommon.SpanID]pcommon.SpanID
}

func (l *links) add(id, parent pcommon.SpanID) {
	l.list = append(l.list, [2]pcommon.SpanID{id, parent})
	l.index = nil
}

func (l *links) parent(id pcommon.SpanID) (parent pcommon.SpanID, ok bool) {
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

// rest lets go of the index.
func (l *links) rest() { l.index = nil }

func (b *Buffer[F]) link(l Link) {
	t := b.traces[l.Trace]
	if t == nil || len(t.links.list) >= b.cfg.MaxSpansPerRun || b.factBytes+linkSize > b.cfg.MaxFactBytes {
		return
	}
	t.links.add(l.ID, l.Parent)
	b.factBytes += linkSize
}

package trace

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Trace is the buffered part of one trace.
type Trace struct {
	id    pcommon.TraceID
	items []*Item // in order of arrival; items that are gone stay until the next compact
	byID  map[pcommon.SpanID]*Item
	runs  runs
	spans []*Item                    // the run spans
	byRun map[pcommon.SpanID][]*Item // index of membersOf, nil when it is not needed
	links links

	live     int                       // number of items that are not gone
	oldest   int                       // no item before this index is held
	fresh    int                       // Buffer.Fresh has visited the items before this index
	settling []settling                // in order of time
	changed  []*run                    // runs that may have become complete or too large
	roots    []*Item                   // roots that arrived since the last sweep
	joined   bool                      // joinResponses has seen all items
	awaited  map[pcommon.SpanID][]*run // yielding runs that are otherwise complete, by the span at which their parent chain breaks off

	yielded map[pcommon.SpanID]struct{} // runs that yielded and were released as parts of the run above

	late    []pcommon.SpanID // spans that were late since the last sweep
	pending bool             // a span arrived since the last sweep
	began   age              // arrival of the first span
	rests   age              // no sweep before this time, unless to make room
	patient age              // until then settled runs wait on, see [Buffer.Refuse]; 0: no call was refused

	inward []openRun               // see openRuns; nil after a change of the spans or the links
	jumps  map[pcommon.SpanID]jump // see skipLinks; likewise
	steps  int                     // links that were looked up and are not yet counted as work

	doubt   Doubt // for every run of the trace
	tooMany bool  // so in the sweep: an item may belong to another run than its group's, or a run may be within another one

	expires  age // when runs without a new span may expire, while facts are kept
	deadline age
	due      *deadlines // its heap, nil if it is in none
	index    int        // in due
	kept     int        // number of items with facts alone
	touched  bool
	around   bool             // it is in Buffer.around
	outer    []pcommon.SpanID // the runs around the released ones, for Buffer.Ready
	judged   bool             // a run of the trace was judged, see judged.hasRuns

	over    bool  // nothing of it comes any more, so that its run is not remembered
	past    *past // nil: empty
	judging int   // number of its releases that are still to be judged
}

// settling is a run span, or a root, that waits for Config.Settle.
type settling struct {
	span  *Item
	until age
	why   Reason // RunEnded, or Complete if it waits to be Explained
}

// smallTrace is how many items are searched one by one; more are indexed.
const smallTrace = 16

func newTrace(id pcommon.TraceID, now age) *Trace {
	return &Trace{id: id, began: now, rests: now}
}

// ID is the id of the trace.
func (t *Trace) ID() pcommon.TraceID { return t.id }

// Item returns a span by its id, the first one if several share it.
func (t *Trace) Item(id pcommon.SpanID) *Item {
	if t.byID != nil {
		return t.byID[id]
	}
	for _, it := range t.items {
		if it.ID == id && !it.Gone() {
			return it
		}
	}
	return nil
}

// Parent returns the parent of a link.
func (t *Trace) Parent(id pcommon.SpanID) (parent pcommon.SpanID, ok bool) {
	t.steps++
	return t.links.parent(id)
}

// Yielded reports whether a run yielded and was released as a part of the run above. A span that names it is no part of a
// run because of that.
func (t *Trace) Yielded(run pcommon.SpanID) bool {
	_, ok := t.yielded[run]
	return ok
}

// setYielded remembers a run as [Trace.Yielded].
func (t *Trace) setYielded(run pcommon.SpanID) {
	if t.yielded == nil {
		t.yielded = make(map[pcommon.SpanID]struct{})
	}
	t.yielded[run] = struct{}{}
}

func (t *Trace) add(it *Item, now, settled age) {
	it.arrived, it.state, it.trace = now, stateHeld, t
	t.joined = false
	t.changedPlaces()
	first := t.Item(it.ID) == nil // a span that is delivered twice counts once
	t.items = append(t.items, it)
	t.live++
	switch {
	case t.byID != nil:
		if first {
			t.byID[it.ID] = it
		}
	case len(t.items) > smallTrace:
		t.reindex()
	}
	t.arrived(it.ID)
	r := t.runs.getOrAdd(it.owner())
	r.items++
	if it.Held() {
		r.held++
	}
	t.markChanged(r)
	if it.Role != Run {
		r.latest = max(r.latest, it.Start)
	}
	switch {
	case it.Role == Run:
		if r.span != nil && !r.span.Gone() {
			break
		}
		r.span = it
		t.spans = append(t.spans, it)
		if !it.Announced.Known {
			t.settle(it, settled, RunEnded)
		}
	case !first:
	case it.Root() && it.Held():
		r.members.add(it.Role)
		t.roots = append(t.roots, it)
	default:
		r.members.add(it.Role)
	}
}

// changedPlaces notes that the spans or the links changed.
func (t *Trace) changedPlaces() { t.inward, t.jumps = nil, nil }

// settle lets a run span or a root wait until a time, which must not be before the times of the others.
func (t *Trace) settle(it *Item, until age, why Reason) {
	it.settling = true
	t.settling = append(t.settling, settling{it, until, why})
}

// markChanged marks a run for the next sweep.
func (t *Trace) markChanged(r *run) {
	if r != nil && !r.changed {
		r.changed = true
		t.changed = append(t.changed, r)
	}
}

func (t *Trace) reindex() {
	if len(t.items) <= smallTrace {
		t.byID = nil
		return
	}
	t.byID = make(map[pcommon.SpanID]*Item, len(t.items))
	for _, it := range t.items {
		if _, ok := t.byID[it.ID]; !ok && !it.Gone() {
			t.byID[it.ID] = it
		}
	}
}

// drop removes an item. The lists have it until [Trace.compact].
func (t *Trace) drop(it *Item) {
	it.state = stateGone
	t.live--
	if t.byID != nil && t.byID[it.ID] == it {
		delete(t.byID, it.ID)
	}
	t.changedPlaces()
	if r := t.runs.get(it.owner()); r != nil {
		if r.items--; r.items == 0 {
			t.runs.remove(r.id)
		}
	}
}

// compact removes the items that are gone from the lists.
func (t *Trace) compact() {
	if len(t.items) == t.live {
		return
	}
	for _, it := range t.items[:t.fresh] {
		if it.Gone() {
			t.fresh--
		}
	}
	t.items = deleteFunc(t.items, (*Item).Gone)
	t.spans = deleteFunc(t.spans, (*Item).Gone)
	t.settling = deleteFunc(t.settling, func(s settling) bool { return s.span.Gone() })
	t.oldest = 0
	if t.byID != nil {
		t.reindex()
	}
}

// oldestHeld is the item that has been held longest, nil if none is held.
func (t *Trace) oldestHeld() *Item {
	for ; t.oldest < len(t.items); t.oldest++ {
		if it := t.items[t.oldest]; it.Held() {
			return it
		}
	}
	return nil
}

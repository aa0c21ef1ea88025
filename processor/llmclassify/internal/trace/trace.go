package trace

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Trace is what is here of one trace. Its exported methods are for Config.Locate and the
// other functions of [Config].
type Trace struct {
	id    pcommon.TraceID
	items []*Item // in order of arrival, with those that are gone until the next compact
	byID  map[pcommon.SpanID]*Item
	runs  runs
	spans []*Item                    // the run spans
	byRun map[pcommon.SpanID][]*Item // of membersOf, nil when it is not needed
	links links

	live      int                         // items that are not gone
	oldest    int                         // no item before this index is held
	fresh     int                         // Buffer.Fresh has visited the items before this index
	settling  []settling                  // in order of time
	changed   []*run                      // those that may have become complete or too large
	roots     []*Item                     // those that arrived since the last sweep
	joined    int                         // joinResponses has seen the items before this index
	responses map[uint64]*Item            // by Item.Response, of these items; the outer one of several
	unjoined  map[pcommon.SpanID][2]*Item // by their run, requests whose run joinResponses could not join without it
	awaited   map[pcommon.SpanID][]*run   // the runs that yield and are otherwise complete, by where their parent chain breaks off

	yielded map[pcommon.SpanID]struct{} // the runs that yielded and went with what is above them

	late    []pcommon.SpanID // spans that were late since the last sweep
	pending bool             // something has arrived since the last sweep
	began   age              // when the first of it arrived
	rests   age              // it is not swept before this time, unless to make room
	patient age              // until then runs that have settled wait on, see [Buffer.Refuse]; 0: no call was refused

	still bool // nothing of it changes
	memo  any  // of Config.Locate, while still
	steps int  // spans that passed and were looked up, since they were counted as work

	// missing: facts of it were forgotten, so that a run of it may have done more than is here.
	missing bool
	// linksLost: there was no room for links of it.
	linksLost bool
	// replayed: an earlier process received spans of it. The links that it had are lost.
	replayed bool
	// untested: of the runs that go now it is not known whether others are within them.
	untested bool
	// unplaced: of an item it is not known whether it is of another run than its group's.
	unplaced bool

	// incomplete reports whether one is within a run that goes now whose span is here and that
	// goes later; nil if there are no such runs.
	incomplete func(run pcommon.SpanID) bool

	expires  age // when runs may expire of which nothing arrives, while facts are kept
	deadline age
	due      *deadlines // where it is, nil where in none
	index    int        // in due
	kept     int        // items of which only the facts are here
	touched  bool
	around   bool             // it is in Buffer.around
	outer    []pcommon.SpanID // the runs around those for which it is there
	judged   bool             // a run of it was judged, see judged.any

	past    *past // nil: empty
	judging int   // its releases that are still to be judged
}

// settling is a run span, or a root, that waits for Config.Settle.
type settling struct {
	span  *Item
	until age
	why   Reason // RunEnded, or Complete where it waits to be Explained
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

// Parent returns the parent of a span that passed and is not held.
func (t *Trace) Parent(id pcommon.SpanID) (parent pcommon.SpanID, ok bool) {
	t.steps++
	return t.links.parent(id)
}

// Still reports whether nothing of the trace changes before all of its items are located. Then
// Memo is what SetMemo was last called with, nil before.
func (t *Trace) Still() bool { return t.still }

// Memo is for what [Config.Locate] remembers, see [Trace.Still].
func (t *Trace) Memo() any { return t.memo }

// SetMemo sets the memo of a trace that is still.
func (t *Trace) SetMemo(memo any) { t.memo = memo }

// Passed is Parent, but for what took the place of spans that are not here.
func (t *Trace) Passed(id pcommon.SpanID) (parent pcommon.SpanID, ok bool) {
	return t.links.passed(id)
}

// Runs are the run spans that are here.
func (t *Trace) Runs() []*Item { return t.spans }

// Yielded reports whether a run yielded and went with what is above it. What names it is no
// part of a run because of that.
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
	r := t.runs.of(it.owner())
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

// settle lets a run span or a root wait until a time, which is not before that of those
// that wait.
func (t *Trace) settle(it *Item, until age, why Reason) {
	it.settling = true
	t.settling = append(t.settling, settling{it, until, why})
}

// markChanged lets the next sweep test a run.
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
	if t.responses[it.Response] == it {
		delete(t.responses, it.Response)
	}
	delete(t.unjoined, it.Run)
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
	for _, it := range t.items[:t.joined] {
		if it.Gone() {
			t.joined--
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

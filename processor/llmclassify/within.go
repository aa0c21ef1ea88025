package llmclassify

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/semconv"
)

// ended is a run that was judged, as far as a run that it is within needs it: how it
// went, and what it did, which the run around it repeats when it is repeated.
type ended struct {
	position assemble.Position
	service  assemble.Service
	did      classify.Effects
	well     bool
	counts   bool // the numbers that the run around it announces include its own
	taken    bool // it is a part of what another run did
}

const (
	// endedSize is the memory of an ended run in bytes, with its share of the map.
	endedSize = 256
	// maxEnded bounds the runs that are kept of one trace.
	maxEnded = 256
)

// endedRuns keeps runs that were judged for at least one period and at most two, for
// the runs around them. Of more than its limit within a period the older half is
// forgotten sooner; a run that is not found is not known to have gone well, and is
// missing of the numbers that the run around it announced. It is safe for concurrent use.
type endedRuns struct {
	mu            sync.Mutex
	period        time.Duration
	limit         int // of each half
	n             int // of now
	began         time.Time
	now, previous map[pcommon.TraceID][]ended
}

func newEndedRuns(period time.Duration, bytes int) *endedRuns {
	return &endedRuns{period: period, limit: bytes / endedSize / 2, now: make(map[pcommon.TraceID][]ended)}
}

// add keeps a run that may be within another one: one that has a parent.
func (e *endedRuns) add(now time.Time, trace pcommon.TraceID, run *assemble.Item, d *assemble.Diagnoses) {
	if run == nil || run.Parent.IsEmpty() || d.Run == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.began) >= e.period || e.n >= e.limit {
		e.began, e.previous, e.n = now, e.now, 0
		e.now = make(map[pcommon.TraceID][]ended)
	}
	if e.limit == 0 {
		return
	}
	list := e.now[trace]
	if len(list) >= maxEnded {
		kept := slices.DeleteFunc(list, func(r ended) bool { return r.taken })
		if len(kept) >= maxEnded {
			kept = slices.Delete(kept, 0, 1)
		}
		e.n -= len(list) - len(kept)
		list = kept
	}
	e.now[trace] = append(list, ended{
		position: assemble.PositionOf(run), service: assemble.ServiceOf(run), did: d.Effects,
		well:   d.Run.Outcome == semconv.RunOutcomeSucceeded || d.Run.Outcome == semconv.RunOutcomeRecovered,
		counts: run.Announced.Known || run.Announced.Requests > 0,
	})
	e.n++
}

// of is what is known of the runs within the run of a release. They are a part of that
// run from here on, where it is whole. There may be nothing here of the trace: t is nil.
func (e *endedRuns) of(release *assemble.Release, t *assemble.Trace) (inner assemble.Inner) {
	run := release.Run
	if run == nil {
		return inner
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var member func(pcommon.SpanID) bool
	for _, list := range e.lists(release.Trace) {
		for i := range list {
			if member == nil {
				member = membersOf(release)
			}
			r := &list[i]
			if !r.position.Within(t, run, member) {
				continue
			}
			switch {
			case !r.well:
				inner.Well = classify.No
			case inner.Well == classify.NotObserved:
				inner.Well = classify.Yes
			}
			did := r.did
			if !r.countsFor(run) {
				did.Requests, did.Tools = 0, 0
			}
			inner.Did = inner.Did.Join(did)
			r.taken = r.taken || release.Final
		}
	}
	return inner
}

// parts is how many requests and tools of the runs within a run count as its own.
func (e *endedRuns) parts(t *assemble.Trace, run *assemble.Item) (requests, tools uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, list := range e.lists(t.ID()) {
		for i := range list {
			if r := &list[i]; r.countsFor(run) && r.position.Within(t, run, nil) {
				requests += uint32(max(r.did.Requests, 0)) //nolint:gosec // no run has that many
				tools += uint32(max(r.did.Tools, 0))       //nolint:gosec // likewise
			}
		}
	}
	return requests, tools
}

// lists are the runs that are kept of a trace.
func (e *endedRuns) lists(trace pcommon.TraceID) [2][]ended {
	return [...][]ended{e.previous[trace], e.now[trace]}
}

// countsFor reports whether the numbers of a run that it is within include its own: they
// are of one process, which counts what begins under its runs, and no other run that was
// judged has counted it. One that names the run around it counts for that one alone. A
// run that outlasts the one around it began parts that are in no number.
func (r *ended) countsFor(run *assemble.Item) bool {
	return r.counts && !r.taken && (r.position.Around.IsEmpty() || r.position.Around == run.ID) && r.service == assemble.ServiceOf(run) &&
		run.Start <= r.position.Start && r.position.End <= run.End+assemble.ClockGrain
}

// membersOf says what a member of a release is. Few are searched one by one.
func membersOf(release *assemble.Release) func(pcommon.SpanID) bool {
	const few = 32
	members := release.Members
	if len(members) <= few {
		return func(id pcommon.SpanID) bool {
			for i := range members {
				if m := &members[i]; !m.Foreign && m.ID == id {
					return true
				}
			}
			return false
		}
	}
	ids := make(map[pcommon.SpanID]struct{}, len(members))
	for i := range members {
		if m := &members[i]; !m.Foreign {
			ids[m.ID] = struct{}{}
		}
	}
	return func(id pcommon.SpanID) bool { _, ok := ids[id]; return ok }
}

// judgingOrder is the order in which releases are to be judged: of the runs of a trace,
// those that may be within others first. The releases of a trace are together.
func judgingOrder(releases []assemble.Release) []int {
	order := make([]int, len(releases))
	for i := range order {
		order[i] = i
	}
	for from := 0; from < len(order); {
		to, runs := from, 0
		for ; to < len(order) && releases[to].Trace == releases[from].Trace; to++ {
			if isRun(&releases[to]) {
				runs++
			}
		}
		if runs > 1 {
			innermostFirst(releases, order[from:to])
		}
		from = to
	}
	return order
}

// isRun: it is the release of a run with its span.
func isRun(r *assemble.Release) bool { return r.Run != nil && r.Final }

// innermostFirst sorts the releases of a trace: those of no run, then the runs by how
// many others lead to them, the most first, and by their time.
func innermostFirst(releases []assemble.Release, order []int) {
	of := make(map[pcommon.SpanID]int, 4*len(order)) // the run that a span is of
	for _, i := range order {
		if !isRun(&releases[i]) {
			continue
		}
		for n := range releases[i].Members {
			if m := &releases[i].Members[n]; !m.Foreign {
				of[m.ID] = i
			}
		}
	}
	depths := make(map[int]int, len(order))
	for _, i := range order {
		depth, at := 0, i
		for ; depth < maxNested && isRun(&releases[at]); depth++ {
			around, ok := of[releases[at].Run.Run]
			if !ok {
				around, ok = of[releases[at].Run.Parent]
			}
			if !ok || around == i {
				break
			}
			at = around
		}
		depths[i] = depth
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &releases[a], &releases[b]
		if isRun(x) != isRun(y) {
			if isRun(y) {
				return -1
			}
			return 1
		}
		if !isRun(x) {
			return 0
		}
		return cmp.Or(cmp.Compare(depths[b], depths[a]), cmp.Compare(y.Run.Start, x.Run.Start), cmp.Compare(x.Run.End, y.Run.End))
	})
}

// maxNested bounds how deep runs are taken to be within one another, against cycles.
const maxNested = 64

// within reports whether a run that is here is within another one.
func within(t *assemble.Trace, inner, outer *hold.Item[assemble.Known]) bool {
	return assemble.PositionOf(inner).Within(t, outer, nil)
}

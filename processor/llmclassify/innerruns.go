package llmclassify

import (
	"math"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/generations"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
)

// innerRun is a run that was judged, as far as a run that it is within needs it: how it
// ended, and what it did, which the run around it repeats when it is repeated.
type innerRun struct {
	id       pcommon.SpanID
	position assemble.Position
	did      classify.Effects
	well     classify.Fact  // NotObserved: its producer does not record how it ended
	counts   bool           // the numbers that the run around it announces include its own
	taken    bool           // it is a part of what another run did
	by       pcommon.SpanID // that run
	byTime   bool           // its parents, or those of that run's parts, do not show it
	covered  bool           // that run is kept, too, with what this one did
}

const (
	// innerRunSize is the memory of an inner run in bytes, with its share of the map, and the
	// position of a run that was judged before.
	innerRunSize = 352
	// maxInnerRuns bounds the runs that are kept of one trace.
	maxInnerRuns = 256
	// forgottenSkew is by how much a run may seem to begin after one within it.
	forgottenSkew = pcommon.Timestamp(10 * time.Second)
	// unknownBegan is later than any run began.
	unknownBegan = pcommon.Timestamp(math.MaxUint64)
)

// innerRuns keeps runs that were judged, for the runs around them. A run that is not found
// is not known to have gone well, and is missing from the numbers that the run around it
// announced. It is safe for concurrent use.
type innerRuns struct {
	corrections *corrections
	lifetime    *lifetime
	judged      *hold.Judged // remembers the traces of which runs are forgotten to make room
	awaited     *awaited

	// mu guards everything declared below
	mu    sync.Mutex
	limit int // of each generation
	kept  generations.Of[runsByTrace]
	ids   map[pcommon.SpanID]struct{} // of runs whose effects the run that is judged has
}

// runsByTrace is one generation of [innerRuns].
type runsByTrace struct {
	byTrace map[pcommon.TraceID]runsOfTrace
	n       int // of all traces
}

// runsOfTrace are the runs of one trace.
type runsOfTrace struct {
	runs []innerRun
	// forgotten: runs were forgotten to make room for others of the trace. The last of them
	// to begin did so at this time, or it is not known when one of them began.
	forgotten bool
	lastBegan pcommon.Timestamp
}

// newInnerRuns keeps runs for at least one period and at most two, in at most this many
// bytes, and in as many the runs that late spans may correct.
func newInnerRuns(period time.Duration, bytes int, judged *hold.Judged, a *awaited, l *lifetime) *innerRuns {
	return &innerRuns{
		lifetime: l, judged: judged, awaited: a, corrections: newCorrections(period, bytes),
		limit: bytes / innerRunSize / 2, kept: generations.Of[runsByTrace]{Period: period}, ids: make(map[pcommon.SpanID]struct{}),
	}
}

// setLimit changes the bytes, of the inner runs and of the corrections.
func (e *innerRuns) setLimit(bytes int) {
	e.corrections.setLimit(bytes)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.limit = bytes / innerRunSize / 2
}

// size is the estimated memory in bytes, without the corrections.
func (e *innerRuns) size() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return innerRunSize * (e.kept.Now.n + e.kept.Previous.n)
}

// add keeps a run for its late spans, and for a run around it if it has a parent. What the runs
// within it did is a part of what it did.
func (e *innerRuns) add(now time.Time, release *assemble.Release, within assemble.Inner, d *assemble.Diagnoses) {
	trace, run := release.Trace, release.Run
	if run == nil || d.Run == nil && !d.Unclaimed {
		return
	}
	position := assemble.PositionOf(release.Of, run, e.corrections.judged(trace))
	e.corrections.add(now, release, d, &position)
	byTime := slices.ContainsFunc(release.Members, hasByTime)
	if run.Parent.IsEmpty() && !byTime {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.limit == 0 {
		e.judged.Forgot(trace)
		return
	}
	e.rotateLocked(now)
	if e.kept.Now.n >= e.limit {
		e.kept.Turn().eachNeeded(e.judged.Forgot)
	}
	for _, list := range e.lists(trace) {
		for i := range list {
			list[i].covered = list[i].covered || list[i].taken && list[i].by == run.ID
		}
	}
	e.kept.Now.remove(trace, run.ID) // it was judged before, and its sender has sent it again
	e.kept.Previous.remove(trace, run.ID)
	well := classify.NotObserved
	switch {
	case within.Succeeded == classify.No:
		well = classify.No
	case d.Run != nil:
		well = classify.FactOf(assemble.NeedsNoAction(d.Run.Outcome))
	}
	if byTime {
		e.addByTime(release, d)
	}
	if run.Parent.IsEmpty() {
		return
	}
	e.kept.Now.add(trace, innerRun{
		id:       run.ID,
		position: position, did: d.Effects, well: well,
		counts: run.Announced.Known || run.Announced.Requests > 0,
	})
}

// hasByTime reports whether a member is a part of its run by its time alone.
func hasByTime(m assemble.Member) bool { return m.ByTime && !m.Foreign && m.Role != hold.Run }

// addByTime keeps what a run has by its time alone, as if it were a run within that one: it may be
// a part of another run, which is judged later. Of many the first ones are kept.
func (e *innerRuns) addByTime(release *assemble.Release, d *assemble.Diagnoses) {
	const most = 32
	did := d.Effects
	did.Requests, did.Tools = 0, 0
	n := 0
	for i := range release.Members {
		m := &release.Members[i]
		if !hasByTime(*m) {
			continue
		}
		if n++; n > most {
			e.kept.Now.forget(release.Trace, m.Start)
			continue
		}
		e.kept.Now.add(release.Trace, innerRun{
			id: m.ID, position: assemble.PositionOf(release.Of, m.Item, e.corrections.judged(release.Trace)), did: did,
			well: classify.Yes, taken: true, by: release.RunID, byTime: true,
		})
	}
}

// rotate forgets what is old enough.
func (e *innerRuns) rotate(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rotateLocked(now)
}

func (e *innerRuns) rotateLocked(now time.Time) {
	if forgotten, turned := e.kept.Rotate(now); turned {
		forgotten.eachNeeded(e.judged.ForgotOld)
	}
}

// eachNeeded visits the traces with runs that are not spare and may be within another one, or
// whose runs were forgotten.
func (g runsByTrace) eachNeeded(visit func(pcommon.TraceID)) {
	for trace, of := range g.byTrace {
		if of.forgotten || slices.ContainsFunc(of.runs, func(r innerRun) bool { return !r.spare() && !r.position.Rooted() }) {
			visit(trace)
		}
	}
}

// spare reports whether what it did is known of another run that is kept, and that all runs
// around it are around, too.
func (r innerRun) spare() bool { return r.taken && r.covered && !r.byTime }

// add adds a run in place of spare ones, or of the oldest one that is a part of another run, or
// of the oldest one, where there are many of the trace.
func (g *runsByTrace) add(trace pcommon.TraceID, r innerRun) {
	if g.byTrace == nil {
		g.byTrace = make(map[pcommon.TraceID]runsOfTrace)
	}
	of := g.byTrace[trace]
	g.n -= len(of.runs)
	if len(of.runs) >= maxInnerRuns {
		of.runs = slices.DeleteFunc(of.runs, innerRun.spare)
	}
	if len(of.runs) >= maxInnerRuns {
		oldest := max(0, slices.IndexFunc(of.runs, func(r innerRun) bool { return r.taken }))
		of.forget(of.runs[oldest].position.Start)
		of.runs = slices.Delete(of.runs, oldest, oldest+1)
	}
	of.runs = append(of.runs, r)
	g.byTrace[trace] = of
	g.n += len(of.runs)
}

// forget notes that a run which began at this time is not kept; 0 where that is not known.
func (of *runsOfTrace) forget(began pcommon.Timestamp) {
	if of.forgotten = true; began == 0 {
		began = unknownBegan
	}
	of.lastBegan = max(of.lastBegan, began)
}

// forget notes that one of a trace is not kept.
func (g *runsByTrace) forget(trace pcommon.TraceID, began pcommon.Timestamp) {
	of := g.byTrace[trace]
	of.forget(began)
	g.byTrace[trace] = of
}

// forgot reports whether a run of the trace that was forgotten may be within one that began at
// this time.
func (g *runsByTrace) forgot(trace pcommon.TraceID, began pcommon.Timestamp) bool {
	of := g.byTrace[trace]
	return of.forgotten && began-min(began, forgottenSkew) <= of.lastBegan
}

// remove removes a run.
func (g *runsByTrace) remove(trace pcommon.TraceID, id pcommon.SpanID) {
	of := g.byTrace[trace]
	before := len(of.runs)
	of.runs = slices.DeleteFunc(of.runs, func(r innerRun) bool { return r.id == id })
	if len(of.runs) == before {
		return
	}
	g.n -= before - len(of.runs)
	if len(of.runs) == 0 && !of.forgotten {
		delete(g.byTrace, trace)
		return
	}
	g.byTrace[trace] = of
}

// of is what is known of the runs within the run of a release. They are a part of that
// run from here on, where the release is its last.
func (e *innerRuns) of(release *assemble.Release) (inner assemble.Inner) {
	run := release.Run
	if run == nil {
		return inner
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	lists := e.lists(release.Trace)
	if len(lists[0])+len(lists[1]) == 0 {
		return inner
	}
	outer := assemble.NewOuter(release.Of, run, membersOf(release), e.corrections.judged(release.Trace))
	byTime := slices.ContainsFunc(release.Members, hasByTime)
	clear(e.ids)
	for _, list := range [...][]innerRun{lists[1], lists[0]} {
		for i := range slices.Backward(list) { // what a run did is a part of what a later one did
			r := &list[i]
			if _, ok := e.ids[r.by]; ok && r.taken {
				e.ids[r.id] = struct{}{}
				continue
			}
			nesting := outer.Nests(&r.position)
			if nesting == assemble.Outside {
				continue
			}
			e.ids[r.id] = struct{}{}
			inner.Ended(r.well)
			did := e.corrections.effects(release.Trace, r)
			if !r.countsFor(run) {
				did.Requests, did.Tools = 0, 0
			}
			inner.Effects = inner.Effects.Join(did)
			if release.Final {
				r.taken, r.by, r.byTime = true, run.ID, byTime || nesting == assemble.WithinByTime
				e.corrections.take(release.Trace, r.id, run.ID)
			}
		}
	}
	release.Missing = release.Missing || outer.Unknown
	if outer.Endless {
		e.judged.Forgot(release.Trace)
	}
	return inner
}

// parts is how many requests and tools of the runs within a run count as its own.
func (e *innerRuns) parts(t *assemble.Trace, run *assemble.Item) (requests, tools uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	outer := assemble.NewOuter(t, run, nil, e.corrections.judged(t.ID()))
	for _, list := range e.lists(t.ID()) {
		for i := range list {
			if r := &list[i]; r.countsFor(run) && outer.Nests(&r.position) != assemble.Outside {
				did := e.corrections.effects(t.ID(), r)
				requests += uint32(max(did.Requests, 0)) //nolint:gosec // no run has that many
				tools += uint32(max(did.Tools, 0))       //nolint:gosec // likewise
			}
		}
	}
	return requests, tools
}

// has reports whether runs of a trace are kept.
func (e *innerRuns) has(trace pcommon.TraceID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	lists := e.lists(trace)
	return len(lists[0])+len(lists[1]) > 0
}

// lists are the runs that are kept of a trace.
func (e *innerRuns) lists(trace pcommon.TraceID) [2][]innerRun {
	return [...][]innerRun{e.kept.Previous.byTrace[trace].runs, e.kept.Now.byTrace[trace].runs}
}

// forgot reports whether a run that may be within one of a trace that began at this time was
// forgotten to make room for others of that trace.
func (e *innerRuns) forgot(trace pcommon.TraceID, began pcommon.Timestamp) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.kept.Now.forgot(trace, began) || e.kept.Previous.forgot(trace, began)
}

// countsFor reports whether the numbers of a run that it is within include its own: they
// are of one process, which counts what begins under its runs, and no other run that was
// judged has counted it. One that names the run around it counts for that one alone. A
// run that outlasts the one around it began parts that are in no number.
func (r *innerRun) countsFor(run *assemble.Item) bool {
	return r.counts && !r.taken && (r.position.Around.IsEmpty() || r.position.Around == run.ID) && r.position.Service == assemble.ServiceOf(run) &&
		run.Start <= r.position.Start && r.position.End <= run.End+assemble.ClockGrain
}

// membersOf reports what a member of a release is. Few are searched one by one.
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

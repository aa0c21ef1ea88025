package llmclassify

import (
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
	covered  bool           // that run is kept, too, with what this one did
}

const (
	// innerRunSize is the memory of an inner run in bytes, with its share of the map.
	innerRunSize = 256
	// maxInnerRuns bounds the runs that are kept of one trace.
	maxInnerRuns = 256
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
}

// runsByTrace is one generation of [innerRuns].
type runsByTrace struct {
	byTrace map[pcommon.TraceID][]innerRun
	n       int // of all traces
}

// newInnerRuns keeps runs for at least one period and at most two, in at most this many
// bytes, and in as many the runs that late spans may correct.
func newInnerRuns(period time.Duration, bytes int, judged *hold.Judged, a *awaited, l *lifetime) *innerRuns {
	return &innerRuns{
		lifetime: l, judged: judged, awaited: a, corrections: newCorrections(period, bytes),
		limit: bytes / innerRunSize / 2, kept: generations.Of[runsByTrace]{Period: period},
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

// add keeps a run that may be within another one: one that has a parent. What the runs
// within it did is a part of what it did.
func (e *innerRuns) add(now time.Time, release *assemble.Release, within assemble.Inner, d *assemble.Diagnoses) {
	trace, run := release.Trace, release.Run
	if run == nil || run.Parent.IsEmpty() || d.Run == nil && !d.Unclaimed {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.limit == 0 {
		e.judged.Forgot(trace)
		return
	}
	e.kept.Rotate(now)
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
	if !e.kept.Now.hasRoom(trace) {
		e.judged.Forgot(trace)
	}
	well := classify.NotObserved
	switch {
	case within.Succeeded == classify.No:
		well = classify.No
	case d.Run != nil:
		well = classify.FactOf(assemble.NeedsNoAction(d.Run.Outcome))
	}
	e.kept.Now.add(trace, innerRun{
		id:       run.ID,
		position: assemble.PositionOf(release.Of, run), did: d.Effects, well: well,
		counts: run.Announced.Known || run.Announced.Requests > 0,
	})
}

// rotate forgets what is old enough: see [lifetime.outlives].
func (e *innerRuns) rotate(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kept.Rotate(now)
}

// eachNeeded visits the traces with runs that are not spare.
func (g runsByTrace) eachNeeded(visit func(pcommon.TraceID)) {
	for trace, list := range g.byTrace {
		if slices.ContainsFunc(list, func(r innerRun) bool { return !r.spare() }) {
			visit(trace)
		}
	}
}

// spare reports whether what it did is known of another run that is kept.
func (r innerRun) spare() bool { return r.taken && r.covered }

// hasRoom reports whether only spare runs have to be forgotten for another one of the trace.
func (g *runsByTrace) hasRoom(trace pcommon.TraceID) bool {
	list := g.byTrace[trace]
	return len(list) < maxInnerRuns || slices.ContainsFunc(list, innerRun.spare)
}

// add adds a run in place of spare ones, or of the oldest one that is a part of another run, or
// of the oldest one, where there are many of the trace.
func (g *runsByTrace) add(trace pcommon.TraceID, r innerRun) {
	if g.byTrace == nil {
		g.byTrace = make(map[pcommon.TraceID][]innerRun)
	}
	list := g.byTrace[trace]
	if len(list) >= maxInnerRuns {
		kept := slices.DeleteFunc(list, innerRun.spare)
		if len(kept) >= maxInnerRuns {
			oldest := max(0, slices.IndexFunc(kept, func(r innerRun) bool { return r.taken }))
			kept = slices.Delete(kept, oldest, oldest+1)
		}
		g.n -= len(list) - len(kept)
		list = kept
	}
	g.byTrace[trace] = append(list, r)
	g.n++
}

// remove removes a run.
func (g *runsByTrace) remove(trace pcommon.TraceID, id pcommon.SpanID) {
	list := g.byTrace[trace]
	kept := slices.DeleteFunc(list, func(r innerRun) bool { return r.id == id })
	if len(kept) == len(list) {
		return
	}
	g.n -= len(list) - len(kept)
	if len(kept) == 0 {
		delete(g.byTrace, trace)
		return
	}
	g.byTrace[trace] = kept
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
	endless := false
	var member func(pcommon.SpanID) bool
	for _, list := range e.lists(release.Trace) {
		for i := range list {
			if member == nil {
				member = membersOf(release)
			}
			r := &list[i]
			within := (!r.covered || r.by == run.ID) && r.position.Within(release.Of, run, member)
			endless = endless || r.position.Endless
			if !within {
				continue
			}
			inner.Ended(r.well)
			did := r.did
			if !r.countsFor(run) {
				did.Requests, did.Tools = 0, 0
			}
			inner.Effects = inner.Effects.Join(did)
			if release.Final {
				r.taken, r.by = true, run.ID
			}
		}
	}
	if endless {
		e.judged.Forgot(release.Trace)
	}
	return inner
}

// parts is how many requests and tools of the runs within a run count as its own.
func (e *innerRuns) parts(t *assemble.Trace, run *assemble.Item) (requests, tools uint32) {
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

// has reports whether runs of a trace are kept.
func (e *innerRuns) has(trace pcommon.TraceID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	lists := e.lists(trace)
	return len(lists[0])+len(lists[1]) > 0
}

// lists are the runs that are kept of a trace.
func (e *innerRuns) lists(trace pcommon.TraceID) [2][]innerRun {
	return [...][]innerRun{e.kept.Previous.byTrace[trace], e.kept.Now.byTrace[trace]}
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

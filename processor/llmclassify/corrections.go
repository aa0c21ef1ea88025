package llmclassify

import (
	"encoding/binary"
	"iter"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/generations"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/stamp"
	"github.com/otelllm/otelllm-go/semconv"
)

// corrections keeps runs that were judged, for spans of them that come late: these may make
// it less safe to repeat the run than its verdict says, and may contradict what the run
// announced. It is safe for concurrent use.
type corrections struct {
	// mu guards everything declared below
	mu      sync.Mutex
	kept    *generations.Cache[spanKey, *judgedRun]
	byTrace map[pcommon.TraceID][]*judgedRun // the last runs that are kept, at most maxCorrected
}

// judgedRun is a run that was judged.
type judgedRun struct {
	id        pcommon.SpanID
	around    pcommon.SpanID     // the run that it names as the one around it, whose numbers include its own
	by        pcommon.SpanID     // the run around it that was judged with what it did, if any
	position  *assemble.Position // apart: runs beneath it keep it longer
	did       classify.Effects
	retry     classify.Retry // of its verdict; unset where it did not fail
	corrected bool           // a late span has made it more careful
	parts     []uint32       // marks of its requests and tools, with those that came late
	byTime    []uint32       // of those that are its own by their time alone, sorted
	passed    []uint32       // marks of spans that passed beneath these, sorted; see pass
	sorted    bool           // parts are, since the first late span
	announced bool           // as many parts as it announced, or more, were here
}

// idOf is the run's id, empty for nil.
func (r *judgedRun) idOf() (id pcommon.SpanID) {
	if r != nil {
		id = r.id
	}
	return id
}

// find finds the mark of a part.
func (r *judgedRun) find(mark uint32) (at int, there bool) {
	if !r.sorted {
		slices.Sort(r.parts)
		r.sorted = true
	}
	return slices.BinarySearch(r.parts, mark)
}

// note notes the mark of a late span. It reports whether it was not there.
func (r *judgedRun) note(mark uint32) bool {
	at, there := r.find(mark)
	if !there {
		r.parts = slices.Insert(r.parts, at, mark)
	}
	return !there
}

// judgedRunSize is the memory of a run without its parts in bytes, with its share of the
// maps.
const judgedRunSize = 408

// newCorrections keeps runs for at least one period and at most two, in at most this many
// bytes.
func newCorrections(period time.Duration, bytes int) *corrections {
	kept := generations.NewCache[spanKey, *judgedRun](period, bytes/2)
	kept.SizeOf = func(r *judgedRun) int { return judgedRunSize + 4*(cap(r.parts)+cap(r.byTime)+cap(r.passed)) }
	c := &corrections{kept: kept, byTrace: make(map[pcommon.TraceID][]*judgedRun)}
	kept.Removed = func(key spanKey) {
		runs := slices.DeleteFunc(c.byTrace[key.trace], func(r *judgedRun) bool { return r.id == key.id })
		if c.byTrace[key.trace] = runs; len(runs) == 0 {
			delete(c.byTrace, key.trace)
		}
	}
	return c
}

// pass notes in the runs of a trace which spans passed beneath them, of these with their parents,
// among which their own parts may be. The trace leaves, and with it what shows that a run which
// comes later is beneath one of them.
func (c *corrections) pass(now time.Time, trace pcommon.TraceID, links iter.Seq2[pcommon.SpanID, pcommon.SpanID]) {
	const most, mostSteps, mostOfRun = 256, 1024, 1024
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.ContainsFunc(c.byTrace[trace], (*judgedRun).isCorrected) {
		return
	}
	parents := make(map[pcommon.SpanID]pcommon.SpanID)
	for id, parent := range links {
		if parents[id] = parent; len(parents) == most {
			break
		}
	}
	passed := make(map[*judgedRun][]uint32)
	steps := 0
	for id, above := range parents {
		if own := c.runOf(trace, id, hold.Request, hold.Tool); own != nil {
			continue
		}
		for known := true; known && steps < mostSteps; steps++ {
			r, role := c.partOf(trace, above, hold.Request, hold.Tool)
			if r == nil {
				above, known = parents[above]
				continue
			}
			if !hasMark(r.byTime, markOf(above, role)) {
				passed[r] = append(passed[r], markOf(id, role))
			}
			break
		}
	}
	for r, marks := range passed {
		c.kept.Take(spanKey{trace, r.id}) // its size changes
		r.passed = append(r.passed, marks[:min(len(marks), max(mostOfRun-len(r.passed), 0))]...)
		slices.Sort(r.passed)
		c.put(now, spanKey{trace, r.id}, r)
	}
}

// isCorrected reports whether what comes late may change anything: the run failed, or may be within
// another one.
func (r *judgedRun) isCorrected() bool {
	return r.retry.Safety != semconv.RetrySafetyUnset || !r.position.Rooted()
}

// put keeps a run as the last one of its trace, in place of what was kept of it.
func (c *corrections) put(now time.Time, key spanKey, r *judgedRun) {
	if !c.kept.Put(now, key, r) {
		return
	}
	runs := c.byTrace[key.trace]
	if len(runs) == maxCorrected {
		runs = slices.Delete(runs, 0, 1)
	}
	c.byTrace[key.trace] = append(runs, r)
}

// setLimit changes the bytes.
func (c *corrections) setLimit(bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.SetLimit(bytes / 2)
}

// size is the estimated memory in bytes.
func (c *corrections) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept.Size()
}

// markOf is 31 bits of a span's id, and whether it is a tool: two spans of a run that have them in
// common are taken for one.
func markOf(id pcommon.SpanID, role hold.Role) uint32 {
	mark := uint32(binary.LittleEndian.Uint64(id[:])*0x9e3779b97f4a7c15>>32) &^ 1 //nolint:gosec // 32 bits
	if role == hold.Tool {
		mark |= 1
	}
	return mark
}

// add keeps the run of a release, which was judged.
func (c *corrections) add(now time.Time, release *assemble.Release, d *assemble.Diagnoses, position *assemble.Position) {
	var retry classify.Retry
	if d.Run != nil {
		retry = classify.Retry{Safety: d.Run.Retry.Safety, Reason: d.Run.Retry.Reason}
	}
	announced := release.Run.Announced
	r := &judgedRun{
		id: release.RunID, around: release.Run.Run, position: position, did: d.Effects, retry: retry,
		parts: make([]uint32, 0, len(release.Members)), announced: announced.Known && (announced.Void || release.Reason == hold.Complete),
	}
	for i := range release.Members {
		if m := &release.Members[i]; !m.Foreign && m.Role != hold.Run {
			mark := markOf(m.ID, m.Role)
			if r.parts = append(r.parts, mark); m.ByTime {
				r.byTime = append(r.byTime, mark)
			}
		}
	}
	slices.Sort(r.byTime)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(now, spanKey{release.Trace, release.RunID}, r)
}

// take notes that a run was judged with what one within it did.
func (c *corrections) take(trace pcommon.TraceID, inner, outer pcommon.SpanID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.kept.Peek(spanKey{trace, inner}); ok {
		r.by = outer
	}
}

// effects is what a run did, with what came late: a run around it may be judged after that.
func (c *corrections) effects(trace pcommon.TraceID, run *innerRun) classify.Effects {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.kept.Peek(spanKey{trace, run.id}); ok {
		return r.did
	}
	return run.did
}

// maxCorrected bounds the runs within one another that one late span corrects, and those of a
// trace among whose parts its parent is searched.
const maxCorrected = 64

// late notes a late span, which may be a part of a run: it is no second delivery, and began
// before the run ended. Its run is the one that it names, or for a tool that names none the one
// that it is beneath. Then it is a part of the runs around that one, too. It reports whether it
// contradicts what any of them announced. The most careful verdict on repeating one of
// them is returned, if the span has made any of them more careful.
func (c *corrections) late(now time.Time, trace pcommon.TraceID, m *assemble.Member, did classify.Effects) (corrected classify.Retry, contradicts bool) {
	if m.Role == hold.Run {
		return corrected, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	run := m.Run
	if run.IsEmpty() && m.Role == hold.Tool { // beneath another tool it may be the same call, see relations
		run = c.runOf(trace, m.Parent, hold.Request).idOf()
	}
	return c.correct(now, spanKey{trace, run}, m.Item, did, func(*judgedRun) bool { return true })
}

// lateRun is late for a run that is within one which was judged before: the one that it names
// as the run around it, or that it is beneath. The numbers of that one include its own if both are
// of one service.
func (c *corrections) lateRun(now time.Time, release *assemble.Release, did classify.Effects) (corrected classify.Retry, contradicts bool) {
	run := release.Run
	if run.Parent.IsEmpty() && run.Run.IsEmpty() {
		return corrected, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	around := run.Run
	if around.IsEmpty() {
		above, _ := assemble.AbovePassed(release.Of, run.Parent)
		around = c.runOf(release.Trace, above, hold.Request, hold.Tool).idOf()
	}
	if around == run.ID {
		return corrected, false
	}
	counted := did.Requests+did.Tools > 0
	return c.correct(now, spanKey{release.Trace, around}, run, did, func(r *judgedRun) bool {
		return counted && r.position.Service == assemble.ServiceOf(run)
	})
}

// runOf is the judged run of a span: it is the run's own, or one of its parts of these roles, or
// it passed beneath one of them. It is nil if no such run is known.
func (c *corrections) runOf(trace pcommon.TraceID, span pcommon.SpanID, roles ...hold.Role) *judgedRun {
	r, _ := c.partOf(trace, span, roles...)
	return r
}

// partOf is runOf, with the role of that part. What is beneath the run itself is as if it were
// beneath a request.
func (c *corrections) partOf(trace pcommon.TraceID, span pcommon.SpanID, roles ...hold.Role) (*judgedRun, hold.Role) {
	if span.IsEmpty() {
		return nil, hold.Request
	}
	if r, ok := c.kept.Peek(spanKey{trace, span}); ok {
		return r, hold.Request
	}
	for _, r := range slices.Backward(c.byTrace[trace]) {
		for _, role := range roles {
			mark := markOf(span, role)
			if _, there := r.find(mark); there || hasMark(r.passed, mark) {
				return r, role
			}
		}
	}
	return nil, hold.Request
}

// judged finds the runs of a trace that were judged.
func (c *corrections) judged(trace pcommon.TraceID) assemble.Judged {
	return func(id pcommon.SpanID) (run *assemble.Position, to hold.Chain) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.byTrace[trace]) == 0 {
			return nil, hold.Broken
		}
		r := c.runOf(trace, id, hold.Request, hold.Tool)
		switch {
		case r == nil:
			return nil, hold.Broken
		case hasMark(r.byTime, markOf(id, hold.Request)), hasMark(r.byTime, markOf(id, hold.Tool)):
			return nil, hold.Endless
		default:
			return r.position, hold.Rooted
		}
	}
}

// hasMark reports whether a mark is among sorted ones.
func hasMark(marks []uint32, mark uint32) bool {
	_, ok := slices.BinarySearch(marks, mark)
	return ok
}

// correct joins what came late into its run and the runs around that one. Announced reports
// whether it is in the numbers that one of them announced, where it is named as a part of them.
func (c *corrections) correct(
	now time.Time, key spanKey, it *assemble.Item, did classify.Effects, announced func(*judgedRun) bool,
) (corrected classify.Retry, contradicts bool) {
	named := true
	for range maxCorrected {
		if key.id.IsEmpty() {
			break
		}
		r, ok := c.kept.Take(key) // its size may change
		if !ok {
			break
		}
		later := r.position.EndedBefore(it)
		known := !later && !r.note(markOf(it.ID, it.Role)) // its call may have been refused before
		switch {
		case known && r.corrected:
			corrected = stamp.MoreCareful(corrected, r.retry)
		case !known && !later:
			contradicts = contradicts || named && r.announced && announced(r)
			corrected = stamp.MoreCareful(corrected, r.join(did))
		}
		c.put(now, key, r)
		if known || later {
			break
		}
		if key.id = r.around; key.id.IsEmpty() {
			named, key.id = false, c.runOf(key.trace, r.position.Above, hold.Request, hold.Tool).idOf()
		}
		if key.id.IsEmpty() {
			key.id = r.by
		}
	}
	return corrected, contradicts
}

// join joins what a late span did into what the run did. It returns the verdict on repeating
// the run if that is more careful than before.
func (r *judgedRun) join(did classify.Effects) (corrected classify.Retry) {
	r.did = r.did.Join(did)
	before := r.retry.Safety
	if before == semconv.RetrySafetyUnset {
		return corrected // it did not fail: its verdict says nothing of a repetition
	}
	r.retry = stamp.MoreCareful(r.retry, assemble.Repeat(r.did))
	if r.retry.Safety > before {
		corrected, r.corrected = r.retry, true
	}
	return corrected
}

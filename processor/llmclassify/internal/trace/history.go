package trace

import (
	"math"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/generations"
)

// MaxPastRuns bounds the judged runs that are kept for one trace.
const MaxPastRuns = 256

const (
	maxPastSpans = 4096 // for one trace
	// pastRunSize and pastSpanSize are the memory of a run and a span in bytes, with their shares of the maps.
	pastRunSize  = 320
	pastSpanSize = 40
	// forgottenSkew is by how much a run may seem to begin after a run within it.
	forgottenSkew = pcommon.Timestamp(10 * time.Second)
	// anyTime is later than any run began.
	anyTime = pcommon.Timestamp(math.MaxUint64)
)

// History keeps the pasts of traces without buffered spans. A run that is judged later finds there the runs within it, and
// a late span the runs that it corrects. A trace is forgotten as a whole, and its later runs lack parts.
type History struct {
	lifetime *Lifetime
	judged   *Judged // remembers which traces were forgotten

	open   pastCache // traces with runs that may be within others, or that lack some
	closed pastCache // the other traces, kept for late spans alone
	now    time.Time
	limit  int // bound on the pasts of buffered traces, bytes
	live   int // the pasts of buffered traces, bytes
}

type pastCache = *generations.Cache[pcommon.TraceID, *past]

// past holds the facts of a trace that outlast its buffered spans: the judged runs, and for each released span the span
// above it. It is a field of a buffered trace. Its zero value and nil are empty.
type past struct {
	spans []pastSpan
	at    map[pcommon.SpanID]int32 // index in spans by id, nil while these are few
	runs  []*pastRun               // in the order of their verdicts
	byID  map[pcommon.SpanID]*pastRun
	last  time.Time         // time of the last change
	lost  pcommon.Timestamp // runs that began until then may be missing; 0: none
	loose bool              // a run of the trace may be within another one
	round int               // counts the searches for runs within another run
	// from and to are the first start and the last end of the released runs that do not yield.
	from, to pcommon.Timestamp
}

// pastRun is a run that was judged, or a part that was placed by time in a judged run and may belong to another one.
type pastRun struct {
	Position
	id        pcommon.SpanID
	effects   classify.Effects // with the runs within it, and with late spans
	well      classify.Fact    // NotObserved: its producer does not record the outcome
	retry     classify.Retry   // unset if it did not fail
	taken     bool             // a run around it includes its effects
	takenBy   pcommon.SpanID   // that run around it
	counts    bool             // the run around it includes its parts in the announced numbers
	corrected bool             // a late span made it more careful
	announced bool             // as many parts as it announced were buffered
	again     bool             // it was judged before
	round     int              // the last round that found it within a run, see past.round
}

// pastSpan is a released span.
type pastSpan struct {
	id, above pcommon.SpanID // above is the run that the span names, or else its parent
	tool      bool
}

// newHistory keeps traces for one period at least and two at most. Its bytes bound the open pasts, the closed pasts, and the
// pasts of buffered traces, each on its own.
func newHistory(period time.Duration, bytes int, judged *Judged, l *Lifetime) *History {
	h := &History{lifetime: l, judged: judged}
	cache := func() pastCache {
		c := generations.NewCache[pcommon.TraceID, *past](period, 0)
		c.SizeOf = func(p *past) int { return pastRunSize + p.size() }
		return c
	}
	h.open, h.closed = cache(), cache()
	h.SetLimit(bytes)
	h.open.Forgot = func(id pcommon.TraceID, p *past) {
		if h.now.Sub(p.last) < period { // an older one may lack only runs that last longer, see Lifetime.outlives
			judged.Forgot(id)
		}
	}
	return h
}

// SetLimit changes the bound in bytes.
func (h *History) SetLimit(bytes int) {
	h.limit = bytes
	h.open.SetLimit(bytes / 2)
	h.closed.SetLimit(bytes / 2)
}

// Size is the estimated memory in bytes.
func (h *History) Size() int { return h.live + h.open.Size() + h.closed.Size() }

// Rotate forgets traces that are old enough.
func (h *History) Rotate(now time.Time) {
	h.now = now
	h.open.Rotate(now)
	h.closed.Rotate(now)
}

// take removes and returns the past of a trace that is not buffered, nil if none is kept.
func (h *History) take(id pcommon.TraceID) *past {
	if p, ok := h.open.Take(id); ok {
		return p
	}
	p, _ := h.closed.Take(id)
	return p
}

// put keeps the past of a trace that is not buffered.
func (h *History) put(now time.Time, id pcommon.TraceID, p *past) {
	h.now = now
	switch {
	case !p.loose && p.lost == 0: // no run lacks it
		h.closed.Add(now, id, p)
	case !h.open.Add(now, id, p):
		h.judged.Forgot(id)
	}
}

// enter moves the past of a trace into the trace, which is buffered from now on.
func (h *History) enter(t *Trace) {
	t.past = h.take(t.id)
	h.live += t.past.size()
}

// leave keeps the past of a trace without buffered spans, with its links, if further runs of the trace may come.
func (h *History) leave(now time.Time, t *Trace) {
	p := t.past
	t.past = nil
	h.live -= p.size()
	if p == nil || len(p.runs) == 0 && p.lost == 0 && p.to == 0 {
		return
	}
	p.spans = slices.Grow(p.spans, min(t.links.size(), maxPastSpans-len(p.spans)))
	for id, parent := range t.links.passed {
		p.link(id, parent, false)
	}
	h.put(now, t.id, p)
}

// pastOf returns the past of the trace of a release that is judged now. It is empty if none is kept.
func (h *History) pastOf(release *Release) *past {
	if t := release.Of; t != nil {
		return t.ownPast()
	}
	if p, ok := h.open.Peek(release.Trace); ok {
		return p
	}
	if p, ok := h.closed.Peek(release.Trace); ok {
		return p
	}
	return new(past)
}

// change changes the past of the trace of a release. If the pasts of buffered traces exceed their bound, this one is
// forgotten.
func (h *History) change(now time.Time, release *Release, change func(*past)) {
	p := h.pastOf(release)
	if release.Of == nil {
		h.take(release.Trace) // as its size changes
		change(p)
		p.last = now
		h.put(now, release.Trace, p)
		return
	}
	before := p.size()
	change(p)
	p.last = now
	h.live += p.size() - before
	if h.live > h.limit {
		h.live -= p.size()
		*p = past{last: now, lost: anyTime}
		h.judged.Forgot(release.Trace)
	}
}

// ownPast returns the past of a buffered trace.
func (t *Trace) ownPast() *past {
	if t.past == nil {
		t.past = new(past)
	}
	return t.past
}

// size is the estimated memory of the runs and spans, in bytes.
func (p *past) size() int {
	if p == nil {
		return 0
	}
	return pastRunSize*len(p.runs) + pastSpanSize*len(p.spans)
}

// forgot reports whether a forgotten run may be within a run of the trace that began at this time.
func (p *past) forgot(began pcommon.Timestamp) bool {
	return p.lost > 0 && began-min(began, forgottenSkew) <= p.lost
}

// ran reports whether a released run ran at this time, as far as clocks agree.
func (p *past) ran(at pcommon.Timestamp) bool {
	return p != nil && p.to > 0 && p.from <= at+MaxSkew && at <= p.to+MaxSkew
}

// Ended is the outcome of a run.
type Ended struct {
	Effects classify.Effects // with the runs within it
	Well    classify.Fact    // NotObserved: its producer does not record the outcome
	Retry   classify.Retry   // unset if it did not fail
}

// Keep keeps a run that was judged, unless nothing more of its trace comes.
func (h *History) Keep(now time.Time, release *Release, ended Ended) {
	if release.Of != nil && release.Of.over {
		return
	}
	announced := release.Run.Announced
	r := &pastRun{
		Position: PositionOf(release.Run), id: release.Run.ID, effects: ended.Effects, well: ended.Well, retry: ended.Retry,
		counts:    announced.Known || announced.Requests > 0,
		announced: announced.Known && (announced.Void || release.Reason == Complete),
	}
	h.change(now, release, func(p *past) { p.keep(r, release) })
}

// span returns a released span, nil if it is not kept.
func (p *past) span(id pcommon.SpanID) *pastSpan {
	if p == nil {
		return nil
	}
	if p.at != nil {
		if at, ok := p.at[id]; ok {
			return &p.spans[at]
		}
		return nil
	}
	for i := range p.spans {
		if p.spans[i].id == id {
			return &p.spans[i]
		}
	}
	return nil
}

// above returns the span above a released one: the run that it names, or else its parent.
func (p *past) above(id pcommon.SpanID) (above pcommon.SpanID, ok bool) {
	if s := p.span(id); s != nil {
		return s.above, true
	}
	return above, false
}

// run returns a judged run, nil if none has this id.
func (p *past) run(id pcommon.SpanID) *pastRun {
	if p == nil {
		return nil
	}
	if p.byID != nil {
		return p.byID[id]
	}
	for _, r := range slices.Backward(p.runs) {
		if r.id == id {
			return r
		}
	}
	return nil
}

// link notes the span above a released one.
func (p *past) link(id, above pcommon.SpanID, tool bool) {
	if s := p.span(id); s != nil {
		s.above, s.tool = above, s.tool || tool
		return
	}
	if len(p.spans) == maxPastSpans {
		p.lost = anyTime
		return
	}
	if p.spans = append(p.spans, pastSpan{id, above, tool}); len(p.spans) <= smallTrace {
		return
	}
	if p.at == nil {
		p.at = make(map[pcommon.SpanID]int32, 2*smallTrace)
		for i := range p.spans {
			p.at[p.spans[i].id] = int32(i) //nolint:gosec // at most maxPastSpans
		}
	}
	p.at[id] = int32(len(p.spans) - 1) //nolint:gosec // likewise
}

// leave links the spans of a release, as they are not buffered any more. Runs that are judged before the release may be
// beneath them, too. A span that was placed by time is not linked: nothing shows that it is beneath the run.
func (p *past) leave(release *Release) {
	p.spans = slices.Grow(p.spans, min(len(release.Members), maxPastSpans-len(p.spans)))
	for i := range release.Members {
		if m := &release.Members[i]; !m.Foreign && (!m.ByTime || m.Role == Run) {
			p.link(m.ID, m.up(), m.Role == Tool)
		}
	}
}

// keep keeps a run, and the parts that were placed by time in it.
func (p *past) keep(r *pastRun, release *Release) {
	r.again = p.remove(r.id) // its sender repeated it
	for i := range release.Members {
		if m := &release.Members[i]; m.ByTime && m.Role != Run && !m.Foreign {
			part := &pastRun{Position: PositionOf(m.Item), id: m.ID, effects: r.effects, well: classify.Yes, taken: true, takenBy: r.id}
			part.effects.Requests, part.effects.Tools = 0, 0
			p.add(part)
		}
	}
	p.add(r)
	if !p.loose {
		to := climbOver(release.Of, p, r.Above(), func(pcommon.SpanID) bool { return false })
		p.loose = to != Rooted || len(p.runs) > 1
	}
}

// remove removes a run. It reports whether the run was kept.
func (p *past) remove(run pcommon.SpanID) bool {
	if p.run(run) == nil {
		return false
	}
	p.runs = slices.DeleteFunc(p.runs, func(r *pastRun) bool { return r.id == run })
	delete(p.byID, run)
	return true
}

// add adds a run. Beyond MaxPastRuns the first run is dropped, and runs that began before that one may lack it.
func (p *past) add(r *pastRun) {
	if p.runs = append(p.runs, r); p.byID != nil {
		p.byID[r.id] = r
	} else if len(p.runs) > smallTrace {
		p.byID = make(map[pcommon.SpanID]*pastRun, 2*smallTrace)
		for _, o := range p.runs {
			p.byID[o.id] = o
		}
	}
	if len(p.runs) <= MaxPastRuns {
		return
	}
	first := p.runs[0]
	if p.lost = max(p.lost, first.Start); first.Start == 0 {
		p.lost = anyTime
	}
	if p.byID[first.id] == first {
		delete(p.byID, first.id)
	}
	p.runs = slices.Delete(p.runs, 0, 1)
}

// PastRun is a run that was judged.
type PastRun struct {
	Trace     pcommon.TraceID
	Run       pcommon.SpanID
	Ended          // with late spans
	Corrected bool // a late span made it more careful
}

// Runs yields the judged runs that are kept.
func (b *Buffer) Runs(yield func(PastRun) bool) {
	of := func(trace pcommon.TraceID, p *past) bool {
		for _, r := range p.runs {
			if !yield(PastRun{trace, r.id, Ended{r.effects, r.well, r.retry}, r.corrected}) {
				return false
			}
		}
		return true
	}
	for _, kept := range [...]pastCache{b.history.open, b.history.closed} {
		for trace, p := range kept.All() {
			if !of(trace, p) {
				return
			}
		}
	}
	for trace, t := range b.traces {
		if t.past != nil && !of(trace, t.past) {
			return
		}
	}
}

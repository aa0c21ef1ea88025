package hold

import (
	"hash/maphash"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/generations"
)

const (
	// judgedSize is the memory of one entry of a [memory], with its share of what is free.
	judgedSize = 16
	// spanCost is that of a span in a [spanMemory].
	spanCost = 6
	// minJudged is how many entries there is always room for.
	minJudged = 1024
)

// Judged remembers what was judged, so that no run is judged twice: runs, which a late
// span may name; their traces, and those of which facts were forgotten; and the spans of judged runs, of the traces between them,
// and late ones, any of which may be the parent of a late span. It is safe for concurrent
// use.
type Judged struct {
	seed maphash.Seed

	// mu guards everything declared below
	mu    sync.Mutex
	runs  memory
	old   memory // of traces, see ForgotOld
	spans spanMemory
	times *generations.Cache[uint64, runTime] // of judged runs, by the key of their trace
	news  []pcommon.TraceID                   // of which something was forgotten, see TakeForgotten
	now   time.Time                           // the last that is known
	lost  time.Time                           // see Lost
	// lostOld is when marks of old were last forgotten to make room; zero if they never were.
	lostOld time.Time
}

// newJudged remembers runs and spans for these periods, in a total of at most an
// eighth of bytes.
func newJudged(now time.Time, runs, spans time.Duration, bytes int) *Judged {
	j := &Judged{
		now:   now,
		seed:  maphash.MakeSeed(),
		runs:  newMemory(now, runs, 0),
		old:   newMemory(now, max(OldKept, 2*runs), 0),
		spans: newSpanMemory(now, spans, 0),
		times: generations.NewCache[uint64, runTime](spans, 0),
	}
	j.setLimits(bytes, minJudged)
	return j
}

// SetLimit changes how much memory is used: an eighth of bytes. What is there beyond that is
// forgotten when something is added.
func (j *Judged) SetLimit(bytes int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.setLimits(bytes, 1)
}

func (j *Judged) setLimits(bytes, least int) {
	fifth := bytes / 8 / 5 // two memories of two generations, and times of both
	j.old.limit = max(fifth/4/judgedSize, least)
	j.runs.limit = max(fifth/judgedSize-j.old.limit, least)
	j.spans.limit = max(fifth/spanCost, least)
	j.times.SetLimit(max(fifth/2/runTimeSize, least))
}

// Size is the estimated memory in bytes.
func (j *Judged) Size() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return judgedSize*(j.runs.Now.n+j.runs.Previous.n+j.old.Now.n+j.old.Previous.n) + spanCost*(j.spans.Now.n+j.spans.Previous.n) + runTimeSize*j.times.Len()
}

func (j *Judged) key(trace pcommon.TraceID, span pcommon.SpanID) uint64 {
	var key [24]byte
	copy(key[:], trace[:])
	copy(key[16:], span[:])
	return maphash.Bytes(j.seed, key[:])
}

// Rotate forgets what is old enough to be forgotten.
func (j *Judged) Rotate(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rotateLocked(now)
}

func (j *Judged) rotateLocked(now time.Time) {
	j.now = now
	j.runs.Rotate(now)
	j.old.Rotate(now)
	j.spans.Rotate(now)
	j.times.Rotate(now)
}

func (j *Judged) add(key uint64) { j.lose(j.runs.add(key)) }

func (j *Judged) mark(key uint64) { j.lose(j.runs.mark(key)) }

// lose notes that marks of traces were forgotten to make room.
func (j *Judged) lose(lost bool) {
	if lost {
		j.lost = j.now
		j.news = append(j.news, pcommon.TraceID{})
	}
}

// Lost is when it was last forgotten of which traces something was forgotten, as there was
// no room for that; zero if it never was. Any run that began before may lack parts.
func (j *Judged) Lost() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost
}

// RecallLost remembers what Lost was in an earlier process.
func (j *Judged) RecallLost(at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if at.After(j.lost) {
		j.lost = at
	}
}

// Claim remembers runs of a trace as judged, for a caller that is about to judge them
// without a buffer. It returns false, and remembers none, if one of them was judged
// before, or if facts of the trace were forgotten.
func (j *Judged) Claim(now time.Time, trace pcommon.TraceID, runs ...pcommon.SpanID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rotateLocked(now)
	if j.runs.contains(j.traceKey(trace) ^ forgottenMark) {
		return false
	}
	for _, run := range runs {
		if j.runs.contains(j.key(trace, run)) {
			return false
		}
	}
	for _, run := range runs {
		j.add(j.key(trace, run))
	}
	j.add(j.traceKey(trace))
	return true
}

// Disclaim takes back a claim: the sender will send the runs again. That there are runs
// in the trace stays true.
func (j *Judged) Disclaim(trace pcommon.TraceID, runs ...pcommon.SpanID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, run := range runs {
		j.runs.remove(j.key(trace, run))
	}
}

// Remember remembers spans of a trace that belong to judged runs, or are between those.
func (j *Judged) Remember(trace pcommon.TraceID, spans []pcommon.SpanID) {
	j.remember(trace, len(spans), func(i int) pcommon.SpanID { return spans[i] })
}

// remember is Remember for n spans that are not in a slice.
func (j *Judged) remember(trace pcommon.TraceID, n int, span func(i int) pcommon.SpanID) {
	if n == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	hash := spanHash{trace: j.traceKey(trace)}
	for i := range n {
		hash.span = j.key(trace, span(i))
		j.spans.add(hash)
	}
}

// Forget takes back Remember.
func (j *Judged) Forget(trace pcommon.TraceID, spans []pcommon.SpanID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	hash := spanHash{trace: j.traceKey(trace)}
	for _, id := range spans {
		hash.span = j.key(trace, id)
		j.spans.remove(hash)
	}
}

// Recall remembers what an earlier process has remembered since a time: runs, and whether
// they count as such of their trace, and spans; and whether it had forgotten facts of the
// trace. They are remembered for at least as long
// as that process would have. Call it before anything else, in order of time, and
// [Judged.Recalled] at the end.
func (j *Judged) Recall(now, since time.Time, trace pcommon.TraceID, counts, forgot bool, runs, spans []pcommon.SpanID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rotateLocked(now)
	old, key := now.Sub(since), j.traceKey(trace)
	j.now = since // what has no room any more was lost then
	if old < 2*j.runs.Period {
		for _, run := range runs {
			j.add(j.key(trace, run))
		}
		if counts {
			j.add(key)
		}
		if forgot {
			j.mark(key ^ forgottenMark)
			j.addOld(key)
		}
	}
	for _, span := range spans {
		j.spans.recall(old, spanHash{j.key(trace, span), key})
	}
}

// Recalled is to be called when everything has been recalled.
func (j *Judged) Recalled() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.runs.older()
}

func (j *Judged) traceKey(trace pcommon.TraceID) uint64 { return j.key(trace, pcommon.SpanID{}) }

// any reports whether a run of the trace was judged. Spans that represented a run because
// none was found for too long do not count: there may be more such spans.
func (j *Judged) any(trace pcommon.TraceID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.runs.contains(j.traceKey(trace))
}

// forgottenMark is in the key of a trace of which facts were forgotten.
const forgottenMark = 0x9e3779b97f4a7c15

// Forgot remembers a trace of which something was forgotten: what is here of it, or comes
// later, is not all that its runs did.
func (j *Judged) Forgot(trace pcommon.TraceID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := j.traceKey(trace) ^ forgottenMark
	if !j.runs.Now.contains(key) {
		j.news = append(j.news, trace)
	}
	j.mark(key)
	j.addOld(key ^ forgottenMark)
}

// OldKept is for how long it is known at least that something of a trace was forgotten, see
// [Judged.ForgotOld].
const OldKept = 24 * time.Hour

// ForgotOld remembers a trace of which judged runs were forgotten for their age: a run that
// lasts as long may have been around one of them.
func (j *Judged) ForgotOld(trace pcommon.TraceID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.addOld(j.traceKey(trace))
}

func (j *Judged) addOld(traceKey uint64) {
	if j.old.mark(traceKey) {
		j.lostOld = j.now
	}
}

// ForgottenOld reports whether runs of a trace were forgotten for their age, or anything else of
// it since this time, or may have been: of which traces that was is known for OldKept.
func (j *Judged) ForgottenOld(trace pcommon.TraceID, since time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lostOld.After(since) || !j.old.empty() && j.old.contains(j.traceKey(trace))
}

// TakeForgotten returns the traces of which something was forgotten since the last call. The
// empty id stands for [Judged.Lost].
func (j *Judged) TakeForgotten() []pcommon.TraceID {
	j.mu.Lock()
	defer j.mu.Unlock()
	news := j.news
	j.news = nil
	return news
}

// Forgotten reports whether something of a trace was forgotten, see [Judged.Forgot].
func (j *Judged) Forgotten(trace pcommon.TraceID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.runs.empty() && j.runs.contains(j.traceKey(trace)^forgottenMark)
}

// run remembers a run whose verdict was given, and whether it counts as one of its trace.
func (j *Judged) run(trace pcommon.TraceID, run pcommon.SpanID, counts bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.add(j.key(trace, run))
	if counts {
		j.add(j.traceKey(trace))
	}
}

// again remembers a run of which a span was late for as long as if it had been judged
// now. It reports whether that is longer than before.
func (j *Judged) again(trace pcommon.TraceID, run pcommon.SpanID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := j.key(trace, run)
	if j.runs.Now.contains(key) {
		return false
	}
	j.add(key)
	return true
}

// Ran remembers when a judged run of a trace ran.
func (j *Judged) Ran(now time.Time, trace pcommon.TraceID, from, to pcommon.Timestamp) {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := j.traceKey(trace)
	if before, ok := j.times.Get(now, key); ok {
		from, to = min(from, before.from), max(to, before.to)
	}
	j.times.Put(now, key, runTime{from, to})
}

// ran reports whether a judged run of a trace ran at this time, as far as clocks agree.
func (j *Judged) ran(now time.Time, trace pcommon.TraceID, at pcommon.Timestamp) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	t, ok := j.times.Get(now, j.traceKey(trace))
	return ok && t.from <= at+maxSkew && at <= t.to+maxSkew
}

// runTime is when the runs of a trace ran: from the first start to the last end.
type runTime struct{ from, to pcommon.Timestamp }

// runTimeSize is the memory of a runTime in bytes, with its share of the map.
const runTimeSize = 64

// span remembers a span of a run whose verdict was given.
func (j *Judged) span(trace pcommon.TraceID, span pcommon.SpanID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.spans.add(spanHash{j.key(trace, span), j.traceKey(trace)})
}

// judgedRun reports whether a run was judged: the one with this id, or the one that this
// span represented.
func (j *Judged) judgedRun(trace pcommon.TraceID, run pcommon.SpanID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.runs.contains(j.key(trace, run))
}

// late reports whether the verdict of the span's run was given: of the run that it names
// or is (owner), or else of its parent's run, or of the one that it represented itself.
// What is above a run does not make it late.
func (j *Judged) late(trace pcommon.TraceID, owner, parent, id pcommon.SpanID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.runs.empty() {
		return false
	}
	switch {
	case !owner.IsEmpty():
		return j.runs.contains(j.key(trace, owner))
	case parent.IsEmpty():
		return j.runs.contains(j.key(trace, id))
	default:
		key := j.key(trace, parent)
		return j.runs.contains(key) || j.spans.contains(spanHash{key, j.traceKey(trace)})
	}
}

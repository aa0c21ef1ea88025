package trace

import (
	"hash/maphash"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

const (
	// judgedSize is the memory of one entry of a [memory], with its share of the free slots, in bytes.
	judgedSize = 22
	// minJudged is how many entries there is always room for.
	minJudged = 1024
)

// Judged remembers judged runs, so that no run is judged twice. It holds the runs, which a late span may name; their
// traces; traces with forgotten facts; and the possible parents of late spans: the spans of judged runs, the links between
// them, and late spans themselves.
type Judged struct {
	seed  maphash.Seed
	runs  memory
	spans memory
	now   time.Time // the last time that is known
	lost  time.Time // see Lost
}

// newJudged remembers runs and spans for this period, in at most an eighth of bytes in all.
func newJudged(now time.Time, period time.Duration, bytes int) *Judged {
	j := &Judged{
		now:   now,
		seed:  maphash.MakeSeed(),
		runs:  newMemory(now, period, 0),
		spans: newMemory(now, period, 0),
	}
	j.setLimits(bytes, minJudged)
	return j
}

// SetLimit changes the memory to an eighth of bytes. Entries beyond that are forgotten at the next addition.
func (j *Judged) SetLimit(bytes int) { j.setLimits(bytes, 1) }

func (j *Judged) setLimits(bytes, least int) {
	all := bytes / 8 / judgedSize / 2 // of two generations
	j.runs.limit = max(all/4, least)
	j.spans.limit = max(all-j.runs.limit, least)
}

// Size is the estimated memory in bytes.
func (j *Judged) Size() int {
	return judgedSize * (j.runs.Now.n + j.runs.Previous.n + j.spans.Now.n + j.spans.Previous.n)
}

func (j *Judged) key(trace pcommon.TraceID, span pcommon.SpanID) uint64 {
	var key [24]byte
	copy(key[:], trace[:])
	copy(key[16:], span[:])
	return maphash.Bytes(j.seed, key[:])
}

// Rotate forgets entries that are old enough.
func (j *Judged) Rotate(now time.Time) {
	j.now = now
	j.runs.Rotate(now)
	j.spans.Rotate(now)
}

func (j *Judged) add(key uint64) { j.lose(j.runs.add(key)) }

func (j *Judged) mark(key uint64) { j.lose(j.runs.mark(key)) }

// lose notes that marks of traces were forgotten to make room.
func (j *Judged) lose(lost bool) {
	if lost {
		j.lost = j.now
	}
}

// Lost is when marks of forgotten traces were last forgotten themselves, for lack of room; zero if they never were. Any run
// that began before may lack parts.
func (j *Judged) Lost() time.Time { return j.lost }

func (j *Judged) traceKey(trace pcommon.TraceID) uint64 { return j.key(trace, pcommon.SpanID{}) }

// hasRuns reports whether a run of the trace was judged. A span that represented a run because none was found for too long does
// not count: there may be more such spans.
func (j *Judged) hasRuns(trace pcommon.TraceID) bool { return j.runs.contains(j.traceKey(trace)) }

// forgottenMark is in the key of a trace with forgotten facts.
const forgottenMark = 0x9e3779b97f4a7c15

// Forgot remembers a trace with forgotten facts: its runs did more than the buffered spans, and the spans to come, show.
func (j *Judged) Forgot(trace pcommon.TraceID) {
	j.mark(j.traceKey(trace) ^ forgottenMark)
}

// Forgotten reports whether facts of a trace were forgotten, see [Judged.Forgot].
func (j *Judged) Forgotten(trace pcommon.TraceID) bool {
	return !j.runs.empty() && j.runs.contains(j.traceKey(trace)^forgottenMark)
}

// refusedMark is in the key of a trace with a refused call.
const refusedMark = 0xd6e8feb86659fd93

// Refuse remembers a trace with a refused call, see [Buffer.Refuse].
func (j *Judged) Refuse(trace pcommon.TraceID) {
	j.mark(j.traceKey(trace) ^ refusedMark)
}

func (j *Judged) isRefused(trace pcommon.TraceID) bool {
	return !j.runs.empty() && j.runs.contains(j.traceKey(trace)^refusedMark)
}

// run remembers a judged run, and whether it counts as a run of its trace.
func (j *Judged) run(trace pcommon.TraceID, run pcommon.SpanID, counts bool) {
	j.add(j.key(trace, run))
	if counts {
		j.add(j.traceKey(trace))
	}
}

// again remembers a run with a late span for as long as if the run had been judged now.
func (j *Judged) again(trace pcommon.TraceID, run pcommon.SpanID) {
	if key := j.key(trace, run); !j.runs.Now.contains(key) {
		j.add(key)
	}
}

// span remembers a span of a judged run, or a link between such spans.
func (j *Judged) span(trace pcommon.TraceID, span pcommon.SpanID) {
	j.spans.add(j.key(trace, span))
}

// judgedRun reports whether a run was judged: the one with this id, or the one that this span represented.
func (j *Judged) judgedRun(trace pcommon.TraceID, run pcommon.SpanID) bool {
	return j.runs.contains(j.key(trace, run))
}

// late reports whether the span's run was judged: the run that the span names or is (owner), or else its parent's run, or
// the run that the span represented itself. A judged run above its own run does not make a span late.
func (j *Judged) late(trace pcommon.TraceID, owner, parent, id pcommon.SpanID) bool {
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
		return j.runs.contains(key) || j.spans.contains(key)
	}
}

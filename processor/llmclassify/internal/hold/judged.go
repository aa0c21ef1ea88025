package hold

import (
	"hash/maphash"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

const (
	// judgedSize is the memory of one entry of a [memory], with its share of the map.
	judgedSize = 16
	// minJudged is how many entries there is always room for.
	minJudged = 1024
)

// judged remembers what was judged, so that no run is judged twice: runs, which a
// late span may name, their traces, and spans of judged runs, those between them and
// late ones, which may be the parent of a late one.
type judged struct {
	seed        maphash.Seed
	runs, spans memory
}

// newJudged remembers runs and spans for these periods, in a total of at most an
// eighth of bytes.
func newJudged(runs, spans time.Duration, bytes int) judged {
	limit := max(bytes/8/4/judgedSize, minJudged) // two memories of two generations
	return judged{seed: maphash.MakeSeed(), runs: newMemory(runs, limit), spans: newMemory(spans, limit)}
}

func (j *judged) key(trace pcommon.TraceID, span pcommon.SpanID) uint64 {
	var key [24]byte
	copy(key[:], trace[:])
	copy(key[16:], span[:])
	return maphash.Bytes(j.seed, key[:])
}

func (j *judged) rotate(now age) {
	j.runs.rotate(now)
	j.spans.rotate(now)
}

// trace remembers that a run of the trace has been judged.
func (j *judged) trace(trace pcommon.TraceID) { j.runs.add(j.key(trace, pcommon.SpanID{})) }

// any reports whether a run of the trace has been judged. Spans that only stood for a
// run because none was found for long do not count: there may be more of their kind.
func (j *judged) any(trace pcommon.TraceID) bool {
	return j.runs.contains(j.key(trace, pcommon.SpanID{}))
}

// run remembers a run whose verdict has been given.
func (j *judged) run(trace pcommon.TraceID, run pcommon.SpanID) { j.runs.add(j.key(trace, run)) }

// span remembers a span of a run whose verdict has been given.
func (j *judged) span(trace pcommon.TraceID, span pcommon.SpanID) { j.spans.add(j.key(trace, span)) }

// late reports whether the verdict of the span's run has been given: the run that
// it names or is (owner), or else its parent's, or the one that it stood for
// itself. Runs stand for themselves: what is above them does not make them late.
func (j *judged) late(trace pcommon.TraceID, owner, parent, id pcommon.SpanID) bool {
	if len(j.runs.now)+len(j.runs.previous) == 0 {
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

// memory is a set of hashes that forgets: each is remembered for at least one
// period and at most two. Of more than its limit within a period the older half
// is forgotten sooner.
type memory struct {
	period        age
	limit         int
	began         age
	now, previous map[uint64]struct{}
}

func newMemory(period time.Duration, limit int) memory {
	return memory{period: age(period), limit: limit, now: make(map[uint64]struct{})}
}

func (m *memory) rotate(now age) {
	if now-m.began >= m.period {
		m.turn(now)
	}
}

func (m *memory) turn(now age) {
	m.began, m.previous, m.now = now, m.now, make(map[uint64]struct{})
}

func (m *memory) add(key uint64) {
	if len(m.now) >= m.limit {
		m.turn(m.began)
	}
	m.now[key] = struct{}{}
}

func (m *memory) contains(key uint64) bool {
	if _, ok := m.now[key]; ok {
		return true
	}
	_, ok := m.previous[key]
	return ok
}

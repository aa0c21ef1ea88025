package hold

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

const (
	// judgedSize is the memory of one entry of [judged], with its share of the map.
	judgedSize = 64
	// minJudged is how many entries there is always room for.
	minJudged = 1024
)

type runKey struct {
	trace pcommon.TraceID
	run   pcommon.SpanID
}

// judged remembers runs whose verdict has been given, for at least one period
// and at most two, so that none is given twice. Of more than its limit within a
// period the older half is forgotten sooner.
type judged struct {
	period        time.Duration
	limit         int
	began         time.Time
	now, previous map[runKey]struct{}
}

func newJudged(period time.Duration, limit int) judged {
	return judged{period: period, limit: max(limit, minJudged), now: make(map[runKey]struct{})}
}

func (j *judged) rotate(now time.Time) {
	if now.Sub(j.began) < j.period && len(j.now) < j.limit {
		return
	}
	j.began, j.previous, j.now = now, j.now, make(map[runKey]struct{})
}

func (j *judged) add(trace pcommon.TraceID, run pcommon.SpanID) {
	j.now[runKey{trace, run}] = struct{}{}
}

func (j *judged) contains(trace pcommon.TraceID, run pcommon.SpanID) bool {
	key := runKey{trace, run}
	if _, ok := j.now[key]; ok {
		return true
	}
	_, ok := j.previous[key]
	return ok
}

// isLate reports whether the verdict of the item's run has been given: the run
// that it names, that it is, or that its parent is or stood for.
func isLate[F any](j *judged, trace pcommon.TraceID, it *Item[F]) bool {
	switch {
	case !it.owner().IsEmpty():
		return j.contains(trace, it.owner())
	case it.Parent.IsEmpty():
		return j.contains(trace, it.ID)
	default:
		return j.contains(trace, it.Parent)
	}
}

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

// ended is a run that was judged, as far as a run that it is within needs it.
type ended struct {
	id, parent pcommon.SpanID
	start, end pcommon.Timestamp
	well       bool
}

const (
	// endedSize is the memory of an ended run in bytes, with its share of the map.
	endedSize = 128
	// maxEnded bounds the runs that are kept of one trace.
	maxEnded = 64
)

// endedRuns keeps runs that were judged for at least one period and at most two, for
// those of which no request is seen: a workflow over agents has none of its own. Of
// more than its limit within a period the older half is forgotten sooner; a run that
// is not found is not known to have gone well. It is safe for concurrent use.
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
func (e *endedRuns) add(now time.Time, trace pcommon.TraceID, run *assemble.Item, d *classify.Diagnosis) {
	if run.Parent.IsEmpty() {
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
	well := d.Outcome == semconv.RunOutcomeSucceeded || d.Outcome == semconv.RunOutcomeRecovered
	list := e.now[trace]
	if len(list) >= maxEnded {
		list = slices.Delete(list, 0, 1)
		e.n--
	}
	e.now[trace] = append(list, ended{run.ID, run.Parent, run.Start, run.End, well})
	e.n++
}

// within reports whether every run within this one went well; it is not observed
// where none is known. A run is within it that is beneath it or beneath a member of
// its release, or that began and ended within its time: but not one beside it.
func (e *endedRuns) within(release *assemble.Release) classify.Fact {
	within, run := classify.NotObserved, release.Run
	if run == nil {
		return within
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, list := range [...][]ended{e.previous[release.Trace], e.now[release.Trace]} {
		for i := range list {
			switch inner := &list[i]; {
			case !inner.beneath(release) && (inner.parent == run.Parent || inner.start < run.Start || inner.end > run.End+assemble.ClockGrain):
			case !inner.well:
				return classify.No
			default:
				within = classify.Yes
			}
		}
	}
	return within
}

func (e *ended) beneath(release *assemble.Release) bool {
	for i := range release.Members {
		if m := &release.Members[i]; !m.Foreign && m.ID == e.parent {
			return true
		}
	}
	return false
}

// overRuns: it is the release of a run without a request of its own, which is judged
// after those that may be within it.
func overRuns(r *assemble.Release) bool {
	return r.Run != nil && r.Whole && !slices.ContainsFunc(r.Members, func(m assemble.Member) bool {
		return m.Role == hold.Request && !m.Foreign
	})
}

// innermostFirst sorts the indexes of runs, those that may be within others first.
func innermostFirst(releases []assemble.Release, runs []int) {
	slices.SortStableFunc(runs, func(a, b int) int {
		x, y := releases[a].Run, releases[b].Run
		return cmp.Or(cmp.Compare(y.Start, x.Start), cmp.Compare(x.End, y.End))
	})
}

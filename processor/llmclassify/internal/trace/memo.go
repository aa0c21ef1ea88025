package trace

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// memo holds results of [Locate] for a large trace while it is still: the same spans and runs are above many items.
type memo struct {
	jumps map[pcommon.SpanID]jump
	runs  []openRun // innermost first
}

// jump leads from a link over others to the id above them.
type jump struct {
	to    pcommon.SpanID
	steps int
}

// openRun is a run with the span at which its chain breaks off.
type openRun struct {
	*Item
	unseen pcommon.SpanID
}

const (
	// Up to fewPassed spans in a row, and up to fewRuns, are visited again for each item.
	fewPassed = 4
	fewRuns   = 4
)

// memoOf returns the memo of a trace that is still.
func memoOf(t *Trace) *memo {
	m, ok := t.Memo().(*memo)
	if !ok {
		m = new(memo)
		t.SetMemo(m)
	}
	return m
}

// skipLinks follows the links from this id upwards to the first id that is not one, or over at least maxDepth of them.
func (m *memo) skipLinks(t *Trace, id pcommon.SpanID) jump {
	var path []pcommon.SpanID
	end := jump{to: id}
	for len(path) < maxDepth {
		known, ok := m.jumps[end.to]
		if ok {
			end = known
			break
		}
		if end.to.IsEmpty() || t.Item(end.to) != nil {
			break
		}
		parent, ok := t.Parent(end.to)
		if !ok {
			break
		}
		path = append(path, end.to)
		end.to = parent
	}
	if len(path) > 0 && m.jumps == nil {
		m.jumps = make(map[pcommon.SpanID]jump)
	}
	for _, passed := range slices.Backward(path) {
		end.steps++
		m.jumps[passed] = end
	}
	return end
}

// innermost is the function of this name, over the runs in the memo.
func (m *memo) innermost(t *Trace, runs []*Item, it *Item, unseen pcommon.SpanID) *Item {
	if m.runs == nil {
		m.runs = make([]openRun, 0, len(runs))
		for _, run := range runs {
			if !run.Yields {
				m.runs = append(m.runs, openRun{run, climb(t, chain{top: run}, run.Parent).unseen})
			}
		}
		slices.SortFunc(m.runs, func(a, b openRun) int { return compareInner(b.Item, a.Item) })
	}
	var found *Item
	for _, run := range m.runs {
		if run.unseen == unseen || run.Item == it || found != nil && !SameService(it, run.Item) || !began(it, run.Item) {
			continue
		}
		if found = run.Item; SameService(it, found) {
			break
		}
	}
	return found
}

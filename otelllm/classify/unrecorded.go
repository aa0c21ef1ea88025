package classify

import (
	"slices"
	"sort"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// unrecorded is what the histories of a run's requests show of tools that ran before them
// and are not recorded.
type unrecorded struct {
	known      bool // the histories were read
	ran        bool // one has an output of no recorded tool
	called     bool // one has a call of no recorded tool, without an output
	unobserved bool // one was not observed
	first      int  // the position of the first request whose history shows ran or called; -1 for none
}

// unrecordedTools reads the histories. If the producer records every tool, a call without a
// tool belongs to an earlier run of the conversation.
func (j *judge) unrecordedTools() *unrecorded {
	u := &j.unrecorded
	if u.known {
		return u
	}
	u.known, u.first = true, -1
	if j.toolsRecorded() {
		return u
	}
	u.unobserved = len(j.overview().unobserved) > 0
	for pos := range j.order {
		if u.ran {
			break
		}
		u.ran = j.anyUnrecorded(pos, roleCarried)
		u.called = u.called || j.anyUnrecorded(pos, roleHeld)
		if u.first < 0 && (u.ran || u.called) {
			u.first = pos
		}
	}
	return u
}

// addUnrecorded adds what the histories show to the risk of repeating the run. It comes
// after the recorded tools.
func (j *judge) addUnrecorded(k *risk) {
	u := j.unrecordedTools()
	if u.ran {
		k.start(semconv.ToolEffectUnknown, "")
	}
	if u.called {
		k.calls = callsUnknown
	}
	if u.unobserved {
		k.missingOutput = NotObserved
	}
	if j.run.Previous == semconv.RunPreviousUnsettled {
		k.start(semconv.ToolEffectUnknown, "")
	}
}

// anyUnrecorded reports whether one of the ids in a list of the history of the request at a
// position is of a call that no recorded tool executed. A list at its maximum length may
// have been cut, so that it stands for more calls than it has ids. What the run before settled
// does not count.
func (j *judge) anyUnrecorded(pos int, in role) bool {
	list := j.index.numbersOf(pos, in)
	settled := j.run.Previous == semconv.RunPreviousSettled
	switch {
	case len(list) == 0, settled && pos == 0:
		return false
	case len(list) >= MaxIDs && !settled:
		return true
	}
	j.look(pos)
	return slices.ContainsFunc(list, func(n int32) bool { return j.times(n, in) > j.settled(n, in)+j.executedBy(n, pos) })
}

// settled returns how often the history of the run's first request has a call in this role that
// belongs to what the run before settled.
func (j *judge) settled(n int32, in role) int32 {
	if j.run.Previous != semconv.RunPreviousSettled {
		return 0
	}
	return timesAt(j.index.uses(n, in), 0)
}

// executedBy returns how many tools account for a call in the history of the request at a
// position: one for each call, each of which began before the request.
func (j *judge) executedBy(n int32, pos int) int32 {
	tools, start := j.index.executions(n), j.starts[pos]
	return int32(sort.Search(len(tools), func(i int) bool { return j.run.Tools[tools[i]].Start.Sub(start) > clockGrain }))
}

// unrecorded adds the ids in a history that show tools which are not recorded, as many as
// the bound of an entry allows.
func (e *evidence) unrecorded(j *judge) {
	if j.run.Previous == semconv.RunPreviousUnsettled {
		e.add(string(semconv.RunPreviousKey), j.run.Previous.String())
	}
	pos := j.unrecordedTools().first
	if pos < 0 {
		return
	}
	key, in := semconv.HistoryToolOutputsKey, roleCarried
	if !j.anyUnrecorded(pos, in) {
		key, in = semconv.HistoryToolCallsKey, roleHeld
	}
	r, list := j.requestAt(int32(pos)), j.index.numbersOf(pos, in)
	var shown []string
	for at, id := range r.idsOf(in) {
		if len(list) >= MaxIDs || int32(countID(r.idsOf(in)[:at+1], id)) > j.settled(list[at], in)+j.executedBy(list[at], pos) {
			shown = append(shown, id)
		}
	}
	e.add(string(key), strings.Join(shown, ","))
}

package classify

import (
	"slices"
	"sort"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// addTools adds the tools whose effects sending the request at a position again could
// repeat, and whose output its history does not contain. Those are the tools that began
// before the request ended, and those that executed one of its own calls. A tool without an
// id cannot be assigned to a request, so it counts for every one. If some calls of the
// request are not named, a tool whose call no response is known to have made counts too.
func (j *judge) addTools(k *risk, pos int) {
	r, x := j.requestAt(int32(pos)), &j.index
	if j.allTools == nil {
		j.sumTools()
	}
	unnamed := r.callsUnnamed()
	n := j.allTools.before(r.End)
	n.join(j.nameless.after(r.End), 1)
	if unnamed {
		n.join(j.strays.after(r.End), 1)
	}
	inHistory := j.look(pos)
	for in := roleMade; in <= roleOpened; in++ {
		for at, id := range x.numbersOf(pos, in) {
			if !x.executed(id) || slices.Contains(x.numbersOf(pos, in)[:at], id) || in == roleOpened && j.times(id, roleMade) > 0 {
				continue
			}
			n.join(j.executionCounts(id, j.executionsBefore(id, r.End), len(x.executions(id))), 1)
		}
	}
	for _, id := range inHistory {
		if j.times(id, roleCarried) == 0 || !x.executed(id) {
			continue
		}
		n.join(j.carriedCounts(id, j.countedFor(r, id, unnamed)), -1)
	}
	k.toolRefused = k.toolRefused || n[semconv.ToolEffectUnset] > 0
	for effect := semconv.ToolEffectReadOnly; effect <= semconv.ToolEffectUnknown; effect++ {
		if n[effect] > 0 {
			k.start(effect, j.nameOf(effect, pos, unnamed))
		}
	}
}

// toolSums are sums over the tools of a run.
type toolSums struct {
	allTools, nameless, strays *toolsByStart
	// byEffect holds the tools with each effect that may have acted, ordered by start.
	byEffect [semconv.ToolEffectUnknown + 1][]int32
	// executed counts, for each of index.tools, the tools of its id up to it; expected is
	// the most outputs that one of those expects.
	executed []toolCounts
	expected []int32
}

func (j *judge) sumTools() {
	j.toolSums = toolSums{
		allTools: j.countTools(func(int) bool { return true }),
		nameless: j.countTools(func(t int) bool { return j.index.toolID[t] < 0 }),
		strays: j.countTools(func(t int) bool {
			n := j.index.toolID[t]
			return n >= 0 && len(j.index.uses(n, roleMaker)) == 0
		}),
		executed: make([]toolCounts, len(j.index.tools)), expected: make([]int32, len(j.index.tools)),
	}
	for n := range j.index.count {
		var sum toolCounts
		most := int32(0)
		for i := j.index.toolsFrom[n]; i < j.index.toolsFrom[n+1]; i++ {
			t := j.index.tools[i]
			sum.add(&j.run.Tools[t], 1)
			most = max(most, j.outputsExpected(int(t)))
			j.executed[i], j.expected[i] = sum, most
		}
	}
	for t := range j.run.Tools {
		if tool := &j.run.Tools[t]; tool.MayHaveActed() {
			j.byEffect[tool.effect()] = append(j.byEffect[tool.effect()], int32(t))
		}
	}
	for _, tools := range j.byEffect {
		slices.SortStableFunc(tools, func(a, b int32) int { return j.run.Tools[a].Start.Compare(j.run.Tools[b].Start) })
	}
}

// executionsBefore returns how many executions of the call with an id began before t.
func (j *judge) executionsBefore(n int32, t time.Time) int {
	tools := j.index.executions(n)
	return sort.Search(len(tools), func(i int) bool { return !j.run.Tools[tools[i]].Start.Before(t) })
}

// executionCounts counts the executions of the call with an id in a range.
func (j *judge) executionCounts(n int32, from, until int) (c toolCounts) {
	at := int(j.index.toolsFrom[n])
	if until > 0 {
		c = j.executed[at+until-1]
	}
	if from > 0 {
		c.join(j.executed[at+from-1], -1)
	}
	return c
}

// countedFor returns how many executions of the call with an id, the first ones, count for a
// request that was looked at, and began early enough for it to carry their output.
func (j *judge) countedFor(r *Request, n int32, unnamed bool) int {
	began := int(j.executedBy(n, int(j.looked)-1))
	if j.times(n, roleMade) > 0 || j.times(n, roleOpened) > 0 || unnamed && len(j.index.uses(n, roleMaker)) == 0 {
		return began
	}
	return min(began, j.executionsBefore(n, r.End))
}

// maxExecutions bounds the executions of one call that are compared with the outputs of a
// request, the last ones, if it does not contain the outputs of all. The others are taken
// to be missing from it.
const maxExecutions = 16

// carriedCounts counts those of the first executions of the call with an id whose output
// the request that was looked at contains.
func (j *judge) carriedCounts(n int32, first int) (c toolCounts) {
	carried := j.times(n, roleCarried)
	if !j.carriesEach(n, first) {
		return c
	}
	if first == 0 || j.expected[int(j.index.toolsFrom[n])+first-1] <= carried {
		return j.executionCounts(n, 0, first)
	}
	for _, t := range j.index.executions(n)[max(0, first-maxExecutions):first] {
		if j.outputsExpected(int(t)) <= carried {
			c.add(&j.run.Tools[t], 1)
		}
	}
	return c
}

// maxNamed bounds the tools with an effect that are searched for one to name.
const maxNamed = 2 * MaxIDs

// nameOf returns the name of the first tool with this effect that counts for the request at
// a position, which was looked at, and whose output that does not contain. It returns "" if
// the first tools with the effect, and those of the request's own calls, are not such ones.
func (j *judge) nameOf(effect semconv.ToolEffect, pos int, unnamed bool) string {
	r, x := j.requestAt(int32(pos)), &j.index
	wanted := func(t int32) bool {
		tool, n := &j.run.Tools[t], x.toolID[t]
		if n < 0 {
			return true
		}
		counts := tool.Start.Before(r.End) || j.times(n, roleMade) > 0 || j.times(n, roleOpened) > 0 || unnamed && len(x.uses(n, roleMaker)) == 0
		return counts && (tool.Start.Sub(r.Start) > clockGrain || j.times(n, roleCarried) < j.outputsExpected(int(t)) ||
			!j.carriesEach(n, j.countedFor(r, n, unnamed)))
	}
	tools := j.byEffect[effect]
	for _, t := range tools[:min(len(tools), maxNamed)] {
		if wanted(t) {
			return j.run.Tools[t].Name
		}
	}
	for in := roleMade; in <= roleOpened; in++ {
		for _, n := range x.numbersOf(pos, in) {
			for _, t := range x.executions(n)[:min(len(x.executions(n)), 1)] {
				if tool := &j.run.Tools[t]; tool.effect() == effect && tool.MayHaveActed() && wanted(t) {
					return tool.Name
				}
			}
		}
	}
	return ""
}

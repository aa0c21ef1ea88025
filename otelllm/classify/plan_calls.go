package classify

import (
	"slices"

	"github.com/otelllm/otelllm-go/semconv"
)

// callFate is what is known of a call with an id, the worst first that it can be.
type callFate uint8

const (
	fateUnknown callFate = iota // it is not a call of this run, or was not looked at
	fateNeverRan
	fateListed // it is among those that ran or may have run
)

// callPlanner sorts the calls of a run into the lists of a plan.
type callPlanner struct {
	*judge
	plan  Plan
	fates []callFate // by the number of the id
	// recorded: a call that no tool executed did not run. Otherwise it may have had this effect.
	recorded bool
	effect   semconv.ToolEffect
}

// planCalls returns a plan with its lists of calls.
func (j *judge) planCalls() Plan {
	elsewhere, all := j.executedElsewhere()
	c := callPlanner{judge: j, fates: make([]callFate, j.index.count), recorded: all && elsewhere == 0, effect: elsewhere.worst()}
	c.plan.More = j.callsMayBeMissing()
	for t := range j.run.Tools {
		c.addTool(t)
	}
	for pos := range j.order {
		c.addResponse(pos)
	}
	for pos := range j.order {
		c.addHistory(pos)
	}
	c.addNeverRan()
	return c.plan
}

// executedElsewhere returns the effects of the tools that may have executed a call which no tool
// with its id executed: tools without an id, and those of the runs within this one. All: there are
// no others, now or later. Without any, such a call was not executed; the verdict says the same.
func (j *judge) executedElsewhere() (e effects, all bool) {
	inner := &j.run.Inner
	if !j.toolsRecorded() || j.run.Open || j.partsUnknown() || inner.calls != callsNone || inner.incomplete {
		return 0, false
	}
	e = inner.started
	for t := range j.run.Tools {
		if tool := &j.run.Tools[t]; j.index.toolID[t] < 0 && tool.MayHaveActed() {
			e |= 1 << tool.effect()
		}
	}
	return e, true
}

// worst returns the most harmful effect of the set, and unknown for the empty one.
func (s effects) worst() semconv.ToolEffect {
	for _, e := range [...]semconv.ToolEffect{semconv.ToolEffectNonIdempotent, semconv.ToolEffectUnknown, semconv.ToolEffectIdempotent, semconv.ToolEffectReadOnly} {
		if s.has(e) {
			return e
		}
	}
	return semconv.ToolEffectUnknown
}

// partsUnknown reports whether parts of the run may be missing here that no list shows.
func (j *judge) partsUnknown() bool {
	return j.run.Partial || j.partsMissing() || j.mayHaveUnannouncedParts() || j.run.endMissing() && !j.run.AnnouncedTools.Observed()
}

// callsMayBeMissing reports whether calls may have run of which not even a name is here.
func (j *judge) callsMayBeMissing() bool {
	if j.partsUnknown() || j.run.Inner.mayHaveExecuted() {
		return true
	}
	recorded := j.toolsRecorded()
	for i := range j.run.Requests {
		r := &j.run.Requests[i]
		if n, known := r.readyCalls(); !known || r.Open || n > len(r.CallIDs) && !recorded {
			return true
		}
	}
	return false
}

// addTool adds an execution. One without an output, or that was cut off, may have acted or not.
func (c *callPlanner) addTool(t int) {
	tool := &c.run.Tools[t]
	switch {
	case !tool.ran():
		return // see addNeverRan
	case tool.hasOutput() && tool.Outcome != semconv.ToolOutcomeTimedOut:
		c.list(&c.plan.Ran, c.index.toolID[t], planned(tool.CallID, tool.Name, tool.effect(), c.outputOf(t)))
	case tool.MayHaveActed():
		c.list(&c.plan.MayHaveRun, c.index.toolID[t], planned(tool.CallID, tool.Name, tool.effect(), OutputUnset))
	}
}

// outputOf returns what became of the output of a tool.
func (j *judge) outputOf(t int) CallOutput {
	switch lost := j.lost(t); {
	case j.answered(t):
		return OutputDelivered
	case j.run.Tools[t].Delivery == semconv.OutputDeliveryCached:
		return OutputKept
	case lost == semconv.CauseUnset, lost == semconv.CauseNeverAnswered && j.run.Ended == NotObserved:
		return OutputKept
	default:
		return OutputLost
	}
}

// addResponse adds the calls that a response made or began, and that no tool executed.
func (c *callPlanner) addResponse(pos int) {
	r := c.requestAt(int32(pos))
	_, known := r.readyCalls()
	for at, n := range c.index.numbersOf(pos, roleMade) {
		switch id := r.CallIDs[at]; {
		case id == "" && !c.recorded:
			c.list(&c.plan.MayHaveRun, -1, planned("", r.nameOf(at), c.effect, OutputUnset))
		case id == "", (c.fates[n] == fateListed || c.index.executed(n)) && !c.madeAgain(n, pos, id):
		case c.cameBack(n, pos):
			c.list(&c.plan.Ran, n, planned(id, r.nameOf(at), semconv.ToolEffectUnknown, c.carriedOutput(n)))
		case c.recorded && known:
			c.fates[n] = max(c.fates[n], fateNeverRan)
		default:
			c.list(&c.plan.MayHaveRun, n, planned(id, r.nameOf(at), c.effect, OutputUnset))
		}
	}
	for at, n := range c.index.numbersOf(pos, roleOpened) {
		switch id := r.OpenCallIDs[at]; {
		case id == "" || c.index.executed(n) || c.fates[n] == fateListed && (c.stayedOpen(r) || !c.reusesIDs()):
		case c.cameBack(n, pos): // a client that repairs inputs executed it
			c.list(&c.plan.Ran, n, planned(id, "", semconv.ToolEffectUnknown, c.carriedOutput(n)))
		case c.stayedOpen(r) && (c.recorded || !c.taken(n)):
			c.fates[n] = max(c.fates[n], fateNeverRan)
		default:
			c.list(&c.plan.MayHaveRun, n, planned(id, "", c.effect, OutputUnset))
		}
	}
}

// madeAgain reports whether the response at a position made a call with an id again, and that one,
// which is not recorded, may have run as well: responses made it more often than tools executed it, or
// no later history has an output of it. It reports false the second time.
func (c *callPlanner) madeAgain(n int32, pos int, id string) bool {
	if c.recorded || slices.ContainsFunc(c.plan.MayHaveRun, func(p PlannedCall) bool { return p.ID == SanitizeID(id) }) {
		return false
	}
	if !c.index.executed(n) {
		return c.reusesIDs() && !c.carriedAfter(c.index.uses(n, roleCarried), pos)
	}
	made := int32(0)
	for _, u := range c.index.uses(n, roleMade) {
		made += u.times
	}
	return int(made) > len(c.index.executions(n))
}

// stayedOpen reports whether the input of a call that a response lists as open is known to be
// incomplete. No client can have executed it then.
func (c *callPlanner) stayedOpen(r *Request) bool {
	n, known := r.readyCalls()
	return known && !r.Open && !c.run.Partial && !c.toolsMissing() && (n <= len(r.CallIDs) || c.recorded)
}

// carriedUnrecorded reports whether a history contains the output of a call that no recorded tool
// executed.
func (j *judge) carriedUnrecorded(n int32) bool {
	return !j.index.executed(n) && len(j.index.uses(n, roleCarried)) > 0
}

// cameBack reports whether a request after the one at a position contains the output of its call
// with an id, which no recorded tool executed. Of an id that is used again that is known if the last
// such request contains an output for each call with the id that was made before it.
func (j *judge) cameBack(n int32, pos int) bool {
	carried := j.index.uses(n, roleCarried)
	if !j.carriedUnrecorded(n) || !j.carriedAfter(carried, pos) {
		return false
	}
	if !j.reusesIDs() {
		return true
	}
	j.look(int(carried[len(carried)-1].pos))
	return j.carriesAll(n)
}

// taken reports whether a history contains a call with an id or its output: its client took
// the call for a complete one.
func (j *judge) taken(n int32) bool {
	return len(j.index.uses(n, roleHeld)) > 0 || len(j.index.uses(n, roleCarried)) > 0
}

// carriedOutput returns what became of the output of a call that no recorded tool executed, and
// that a history contains.
func (j *judge) carriedOutput(n int32) CallOutput {
	if len(j.answeredCarriers(n)) > 0 {
		return OutputDelivered
	}
	return OutputKept
}

// addHistory adds the calls of which only the history of a request has something: an output that
// came while the run went on, and a call without an output. If every tool is recorded, such a call
// is of an earlier run.
func (c *callPlanner) addHistory(pos int) {
	r := c.requestAt(int32(pos))
	for at, n := range c.index.numbersOf(pos, roleCarried) {
		if c.fates[n] == fateUnknown && c.carriedUnrecorded(n) && c.index.uses(n, roleCarried)[0].pos > 0 {
			c.list(&c.plan.Ran, n, planned(r.HistoryOutputs[at], "", semconv.ToolEffectUnknown, c.carriedOutput(n)))
		}
	}
	for at, n := range c.index.numbersOf(pos, roleHeld) {
		if c.fates[n] == fateUnknown && len(c.index.uses(n, roleCarried)) == 0 && !c.toolsRecorded() {
			c.list(&c.plan.MayHaveRun, n, planned(r.HistoryCalls[at], "", semconv.ToolEffectUnknown, OutputUnset))
		}
	}
}

// addNeverRan lists the calls that are known not to have run, once it is known that they are
// not among the others. One that the application rejected was not executed either.
func (c *callPlanner) addNeverRan() {
	add := func(n int32, call PlannedCall) {
		if n >= 0 && c.fates[n] != fateListed && len(c.plan.NeverRan) < MaxIDs {
			c.fates[n] = fateListed
			c.plan.NeverRan = append(c.plan.NeverRan, call)
		}
	}
	for t := range c.run.Tools {
		tool := &c.run.Tools[t]
		if n := c.index.toolID[t]; !tool.MayHaveActed() && n >= 0 {
			add(n, planned(tool.CallID, tool.Name, tool.effect(), OutputUnset))
		}
	}
	for pos := range c.order {
		r := c.requestAt(int32(pos))
		for at, n := range c.index.numbersOf(pos, roleMade) {
			if r.CallIDs[at] != "" && c.fates[n] == fateNeverRan {
				add(n, planned(r.CallIDs[at], r.nameOf(at), semconv.ToolEffectUnknown, OutputUnset))
			}
		}
		for at, n := range c.index.numbersOf(pos, roleOpened) {
			if r.OpenCallIDs[at] != "" && c.fates[n] == fateNeverRan {
				add(n, planned(r.OpenCallIDs[at], "", semconv.ToolEffectUnknown, OutputUnset))
			}
		}
	}
}

// list adds a call that ran or may have run. A full list loses its oldest call.
func (c *callPlanner) list(to *[]PlannedCall, n int32, call PlannedCall) {
	if n >= 0 {
		c.fates[n] = fateListed
	}
	if len(*to) == MaxIDs {
		c.plan.More = c.plan.More || (*to)[0].Output != OutputDelivered
		*to = slices.Delete(*to, 0, 1)
	}
	*to = append(*to, call)
}

// planned returns a call as a plan has it: what may not be shown is left out.
func planned(id, name string, effect semconv.ToolEffect, output CallOutput) PlannedCall {
	return PlannedCall{ID: SanitizeID(id), Name: safeName(name), Effect: effect, Output: output}
}

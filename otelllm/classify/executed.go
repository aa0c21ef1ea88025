package classify

import "slices"

// fewTools are searched one by one.
const fewTools = 16

// toolOf finds the execution of a call; the last one where it was executed again.
func (j *judge) toolOf(id string) *Tool {
	if id == "" {
		return nil
	}
	if len(j.run.Tools) <= fewTools {
		for t := range slices.Backward(j.run.Tools) {
			if tool := &j.run.Tools[t]; tool.CallID == id {
				return tool
			}
		}
		return nil
	}
	if !j.filled {
		j.filled = true
		if j.tools == nil {
			j.tools = make(map[string]*Tool, len(j.run.Tools))
		}
		for t := range j.run.Tools {
			j.tools[j.run.Tools[t].CallID] = &j.run.Tools[t]
		}
	}
	return j.tools[id]
}

// toolsRecorded reports whether a tool that ran would have been recorded: the
// producer says so, and nothing contradicts it. An output of a call that this
// run's own model made, and that no recorded tool executed, does: such an agent
// executes tools that nobody records.
func (j *judge) toolsRecorded() bool {
	if j.recorded == NotObserved {
		announced := j.run.AnnouncedTools
		full := announced.Observed() && len(j.run.Tools) >= announced.N()
		j.recorded = FactOf((full || j.run.ToolsRecorded == Yes) && !j.toolsUnrecorded())
	}
	return j.recorded == Yes
}

func (j *judge) toolsUnrecorded() bool {
	nameless := 0
	for t := range j.run.Tools {
		if j.run.Tools[t].CallID == "" {
			nameless++
		}
	}
	orphans := 0
	for i := range j.run.Requests {
		maker := &j.run.Requests[i]
		for _, id := range maker.CallIDs {
			if j.toolOf(id) == nil && j.laterCarries(maker, func(output string) bool { return output == id }) {
				orphans++
			}
		}
		calls, known := maker.readyCalls()
		if (!known || calls > len(maker.CallIDs)) && j.laterCarries(maker, func(output string) bool {
			return j.toolOf(output) == nil && !hasID(maker.HistoryOutputs, output) && !hasID(maker.CallIDs, output)
		}) {
			orphans++
		}
	}
	return orphans > nameless
}

// laterCarries reports whether a request after maker carries such an output, or
// whether its history is not observed, so that it may.
func (j *judge) laterCarries(maker *Request, such func(output string) bool) bool {
	for i := range j.run.Requests {
		r := &j.run.Requests[i]
		if r != maker && !r.Start.Before(maker.End) && (r.HistoryCalls == nil || slices.ContainsFunc(r.HistoryOutputs, such)) {
			return true
		}
	}
	return false
}

// unaccountedCalls reports whether a call of request i's past may have run
// unseen: it is in its history, or an earlier request of the run made it or may
// have made it, its output is not in the history, and no tool is known to have
// executed it.
func (j *judge) unaccountedCalls(i int) bool {
	r := &j.run.Requests[i]
	open := func(ids []string) bool {
		for _, id := range ids {
			if !hasID(r.HistoryOutputs, id) && j.toolOf(id) == nil && !j.toolsRecorded() {
				return true
			}
		}
		return false
	}
	if open(r.HistoryCalls) {
		return true
	}
	for e := range j.run.Requests {
		earlier := &j.run.Requests[e]
		if e == i || earlier.End.After(r.Start) {
			continue
		}
		calls, known := earlier.readyCalls()
		if open(earlier.CallIDs) || (!known || calls > len(earlier.CallIDs)) && !j.toolsRecorded() {
			return true
		}
	}
	return false
}

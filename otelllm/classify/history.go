package classify

import (
	"slices"
	"sort"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// hasOutput: the tool ran to something that the model was due to get, a result
// or its error.
func (t *Tool) hasOutput() bool {
	if t.End.IsZero() {
		return false
	}
	switch t.Outcome {
	case semconv.ToolOutcomeUnset, semconv.ToolOutcomeInterrupted:
		return false
	default:
		return true
	}
}

// missingOutput reports whether the history of r lacks an output that existed
// when r began. Where neither the history nor the tools were observed, it may.
func (j *judge) missingOutput(r *Request) Fact {
	missing := No
	if r.HistoryCalls == nil && !j.toolsRecorded() {
		missing = NotObserved
	}
	due := j.dueBefore(r)
	if due.nameless {
		missing = worse(missing, NotObserved)
	}
	if due.others > 0 {
		fact := Yes
		if !r.fullHistory() {
			fact = NotObserved
		}
		missing = worse(missing, fact)
	}
	for _, t := range due.named {
		missing = worse(missing, j.lacks(r, &j.run.Tools[t]))
	}
	return missing
}

// due are the outputs that existed when a request began.
type dueOutputs struct {
	named    []int32 // indexes of the tools whose call stands in the request's history
	others   int     // how many of the rest the history should hold, or may
	nameless bool    // one is of a tool whose call has no id
}

// outputs sums up the outputs of a run's tools, by the time at which they existed and at
// which the model got them.
type outputs struct {
	byEnd     []int32     // indexes of the tools whose output some request was due to carry, by their end
	ends, got []time.Time // when those existed, and when the model got those that it got, each in order
	all       []time.Time // when all outputs of tools with an id existed, in order
	nameless  time.Time   // the earliest end of a tool without an id; zero for none
}

func (j *judge) dueBefore(r *Request) (d dueOutputs) {
	if j.outputs == nil {
		j.sumOutputs()
	}
	o := j.outputs
	d.nameless = !o.nameless.IsZero() && !o.nameless.After(r.Start)
	// Where nothing is known of the history, it is not known either that it holds what the
	// model had got.
	unobserved := r.HistoryCalls == nil
	if unobserved {
		d.others = timesUntil(o.all, r.Start)
	} else {
		d.others = timesUntil(o.ends, r.Start) - sort.Search(len(o.got), func(i int) bool { return !o.got[i].Before(r.Start) })
	}
	d.named = j.named[:0]
	for n, ids := range [...][]string{r.HistoryCalls, r.HistoryOutputs} {
		for at, id := range ids {
			if hasID(ids[:at], id) || n == 1 && hasID(r.HistoryCalls, id) {
				continue
			}
			for _, u := range j.uses(roleExecuted, id) {
				tool := &j.run.Tools[u]
				if !tool.hasOutput() || tool.End.After(r.Start) {
					continue
				}
				d.named = append(d.named, u)
				if unobserved || j.pendingAt(tool, r.Start) {
					d.others--
				}
			}
		}
	}
	j.named = d.named
	return d
}

func (j *judge) sumOutputs() {
	o := &outputs{}
	j.outputs = o
	for t := range j.run.Tools {
		tool := &j.run.Tools[t]
		switch {
		case !tool.hasOutput():
		case tool.CallID == "":
			if o.nameless.IsZero() || tool.End.Before(o.nameless) {
				o.nameless = tool.End
			}
		default:
			o.all = append(o.all, tool.End)
			if !j.everPending(tool) {
				break
			}
			o.byEnd = append(o.byEnd, int32(t))
			o.ends = append(o.ends, tool.End)
			if by := j.answeredBy(tool); by != nil {
				o.got = append(o.got, by.Start)
			}
		}
	}
	slices.SortFunc(o.all, time.Time.Compare)
	slices.SortFunc(o.ends, time.Time.Compare)
	slices.SortFunc(o.got, time.Time.Compare)
	slices.SortStableFunc(o.byEnd, func(a, b int32) int { return j.run.Tools[a].End.Compare(j.run.Tools[b].End) })
}

// everPending: there was a time at which the tool's output existed and the model had
// not got it.
func (j *judge) everPending(tool *Tool) bool {
	if tool.Delivery == semconv.OutputDeliverySent {
		return false
	}
	by := j.answeredBy(tool)
	return by == nil || !by.Start.Before(tool.End)
}

// pendingAt: the tool's output existed at that time, and the model had not got it.
func (j *judge) pendingAt(tool *Tool, at time.Time) bool {
	if !j.everPending(tool) || tool.End.After(at) {
		return false
	}
	by := j.answeredBy(tool)
	return by == nil || !by.Start.Before(at)
}

// lacks reports whether r's history lacks the output of a tool that had ended
// before r began.
//
// A call that is gone together with an output which a completed request had
// carried before was summarised away, not lost. A list as long as its bound may
// have been cut, so it mostly proves nothing about what is not in it.
func (j *judge) lacks(r *Request, tool *Tool) Fact {
	cut := len(r.HistoryOutputs) >= MaxIDs
	switch {
	case tool.CallID == "":
		return NotObserved
	case j.carries(r, tool):
		return No
	case hasID(r.HistoryOutputs, tool.CallID):
		// That of another call of the same id. Which of them the history holds is not known
		// unless it holds more calls than outputs.
		if !cut && countID(r.HistoryCalls, tool.CallID) > countID(r.HistoryOutputs, tool.CallID) {
			return Yes
		}
		return NotObserved
	case hasID(r.HistoryCalls, tool.CallID) && (!cut || j.listReachesBack(r, tool)):
		return Yes
	case r.HistoryCalls == nil:
		return NotObserved
	case j.answered(tool, r):
		return No
	case cut:
		return NotObserved
	default:
		return Yes
	}
}

// carries reports whether r's history holds the output of this execution of a tool.
// Some models and servers use an id again: then the history holds an output more than
// that of the request whose response made the call.
func (j *judge) carries(r *Request, tool *Tool) bool {
	if !hasID(r.HistoryOutputs, tool.CallID) || tool.Start.After(r.Start) && tool.Start.Sub(r.Start) > clockGrain {
		return false
	}
	return !j.reusesIDs() || countID(r.HistoryOutputs, tool.CallID) >= j.outputsExpected(tool)
}

// reuses reports whether any response makes a call of an id that its own history, or
// another of its calls, has already.
func (j *judge) reusesIDs() bool {
	if j.reused == NotObserved {
		j.reused = No
		for i := range j.run.Requests {
			if r := &j.run.Requests[i]; r.repeatsAny(r.CallIDs) || r.repeatsAny(r.OpenCallIDs) {
				j.reused = Yes
				break
			}
		}
	}
	return j.reused == Yes
}

// repeats reports whether any of the ids of r's calls is that of an output in its
// history, or of two calls.
func (r *Request) repeatsAny(ids []string) bool {
	for i, id := range ids {
		if hasID(r.HistoryOutputs, id) || hasID(ids[:i], id) {
			return true
		}
	}
	return false
}

// owed is how many outputs of the tool's id a history has that holds the tool's own:
// those that the history of its call's maker had, and one for each call of the id that
// the maker made.
func (j *judge) outputsExpected(tool *Tool) int {
	n, made := j.expectedCounts[tool]
	if made {
		return n
	}
	makers := j.makersOf(tool.CallID)
	before, _ := slices.BinarySearchFunc(makers, tool.Start, func(r *Request, start time.Time) int { return r.Start.Compare(start) })
	if n = 1; before > 0 {
		by := makers[before-1]
		n = countID(by.HistoryOutputs, tool.CallID) + max(1, countID(by.CallIDs, tool.CallID))
	}
	if j.expectedCounts == nil {
		j.expectedCounts = map[*Tool]int{}
	}
	j.expectedCounts[tool] = n
	return n
}

// reaches reports whether the newest outputs of r's history, which are all that is
// known of it, reach back beyond those of the response that made the tool's call: an
// earlier response's output is the first of them.
func (j *judge) listReachesBack(r *Request, tool *Tool) bool {
	first, makers := j.makersOf(r.HistoryOutputs[0]), j.makersOf(tool.CallID)
	return len(first) > 0 && len(makers) > 0 && first[0].Start.Before(makers[0].Start)
}

// makersOf are the requests whose responses made the call of this id, or began to, by
// their start.
func (j *judge) makersOf(id string) []*Request {
	made, opened := j.uses(roleMade, id), j.uses(roleOpened, id)
	makers := make([]*Request, 0, len(made)+len(opened))
	for len(made) > 0 || len(opened) > 0 {
		first := &made
		if len(made) == 0 || len(opened) > 0 && opened[0] < made[0] {
			first = &opened
		}
		r := j.requestAt((*first)[0])
		*first = (*first)[1:]
		if n := len(makers); n == 0 || makers[n-1] != r {
			makers = append(makers, r)
		}
	}
	return makers
}

// isMade reports whether a response made the call of this id, or began to.
func (j *judge) isMade(id string) bool {
	return len(j.uses(roleMade, id)) > 0 || len(j.uses(roleOpened, id)) > 0
}

// answered reports whether the model got the tool's output: it was sent on its
// own, or a request that carried it ran to its end (before the request until,
// when that is not nil).
func (j *judge) answered(tool *Tool, until *Request) bool {
	if tool.Delivery == semconv.OutputDeliverySent {
		return true
	}
	by := j.answeredBy(tool)
	return by != nil && (until == nil || by.Start.Before(until.Start))
}

// answeredBy is the first request that ran to its end with the output of a tool, nil
// where none did.
func (j *judge) answeredBy(tool *Tool) *Request {
	if tool.CallID == "" {
		return nil
	}
	if by, asked := j.answers[tool]; asked {
		return by
	}
	var by *Request
	for _, u := range j.uses(roleCarried, tool.CallID) {
		if r := j.requestAt(u); j.states[j.order[u]].answered() && j.carries(r, tool) {
			by = r
			break
		}
	}
	if j.answers == nil {
		j.answers = make(map[*Tool]*Request, len(j.run.Tools))
	}
	j.answers[tool] = by
	return by
}

// missingOutputs names the calls whose output r's history is seen to lack, at most MaxIDs,
// in the order of their tools.
func (j *judge) missingOutputs(r *Request) []string {
	due := j.dueBefore(r)
	var tools []int32
	for _, t := range due.named {
		if j.lacks(r, &j.run.Tools[t]) == Yes {
			tools = append(tools, t)
		}
	}
	if r.fullHistory() && due.others > 0 {
		for _, t := range j.outputs.byEnd {
			tool := &j.run.Tools[t]
			if len(tools) >= MaxIDs || tool.End.After(r.Start) {
				break
			}
			if j.pendingAt(tool, r.Start) && !hasID(r.HistoryCalls, tool.CallID) && !hasID(r.HistoryOutputs, tool.CallID) {
				tools = append(tools, t)
			}
		}
	}
	slices.Sort(tools)
	var ids []string
	for _, t := range tools[:min(len(tools), MaxIDs)] {
		ids = append(ids, j.run.Tools[t].CallID)
	}
	return ids
}

// lost says how a tool's output failed to reach the model, unset when it did or
// when nothing says that it did not.
//
// A request that takes up the thread which the call belongs to owes the output: it still
// holds the call, or it comes after a failed request that had made the call or carried its
// output. Any other may be another agent's thread, which owes nothing to the tool.
func (j *judge) lost(tool *Tool) semconv.Cause {
	if j.answered(tool, nil) {
		return semconv.CauseUnset
	}
	end := len(j.order)
	from, inFlight := end, end // the requests that began after the output existed, and after the tool had begun
	if !tool.End.IsZero() {
		from = j.firstFrom(tool.End)
		inFlight = min(from, j.firstFrom(tool.Start.Add(1)))
	}
	retry := j.retriesFrom(tool)

	carried, asked, omitted, overtaken := false, false, false, false
	plain := j.overview().fullHistories   // of the requests that do not name the call only the sort counts
	inFlightRetries, laterRetries := 0, 0 // of the plain ones that name it: in flight, and after the end
	for _, pos := range j.requestsNaming(tool.CallID) {
		r := j.requestAt(pos)
		at := int(pos)
		if at < from && !tool.End.IsZero() && j.carries(r, tool) {
			carried = true // by a clock that is coarser than the tool's
		}
		if at < inFlight {
			continue
		}
		retries := r.fullHistory() && at >= retry
		if at < from {
			overtaken = overtaken || !hasID(r.HistoryOutputs, tool.CallID) // then it holds the call
			if retries {
				inFlightRetries++
			}
			continue
		}
		if retries {
			laterRetries++
		}
		switch {
		case j.carries(r, tool):
			carried = true
		case j.lacks(r, tool) != Yes:
			asked = true
		case tool.hasOutput(): // it holds the call
			omitted = true
		}
	}
	if tool.CallID == "" {
		asked = from < end
	} else {
		// One after the end that names the call has decided it already.
		asked = asked || end-from > int(plain[from])
		omitted = omitted || tool.hasOutput() && int(plain[max(from, retry)]) > laterRetries
		first := min(max(inFlight, retry), from)
		overtaken = overtaken || int(plain[first]-plain[from]) > inFlightRetries
	}
	switch {
	case omitted && tool.Delivery == semconv.OutputDeliveryFailed:
		return semconv.CauseDeliveryFailed // what came first is why it is not there
	case omitted:
		return semconv.CauseOmittedFromRetry
	case carried:
		return semconv.CauseUnset // the request that carried it says what happened
	case tool.Delivery == semconv.OutputDeliveryFailed:
		return semconv.CauseDeliveryFailed
	case asked || !tool.hasOutput() || tool.Delivery == semconv.OutputDeliveryCached:
		return semconv.CauseUnset
	case overtaken:
		return semconv.CauseOmittedFromRetry // a retry went out while it ran, and no request came for it
	default:
		return semconv.CauseNeverAnswered
	}
}

// naming are the positions of the requests whose history holds the call of this id or
// carries its output, in order.
func (j *judge) requestsNaming(id string) []int32 {
	list := j.positions[:0]
	for _, in := range [...]role{roleHeld, roleCarried} {
		list = append(list, j.uses(in, id)...)
	}
	slices.Sort(list)
	j.positions = list
	return slices.Compact(list)
}

// retriesFrom is the position from which on requests come after a failed one that had
// made the tool's call or carried its output.
func (j *judge) retriesFrom(tool *Tool) int {
	var earliest time.Time
	for _, in := range [...]role{roleMade, roleCarried} {
		for _, u := range j.uses(in, tool.CallID) {
			before := j.requestAt(u)
			if j.states[j.order[u]] == stateFailed && (earliest.IsZero() || before.End.Before(earliest)) {
				earliest = before.End
			}
		}
	}
	if earliest.IsZero() {
		return len(j.order)
	}
	return j.firstFrom(earliest)
}

// countID is how often an id is in a list.
func countID(ids []string, id string) (n int) {
	for _, other := range ids {
		if other == id {
			n++
		}
	}
	return n
}

// hasID reports whether an id is in a list. Ids of one provider are of one length and
// begin alike: they are told apart by how they end.
func hasID(ids []string, id string) bool {
	if id == "" {
		return slices.Contains(ids, "")
	}
	end := id[len(id)-1]
	for _, other := range ids {
		if len(other) == len(id) && other[len(other)-1] == end && other == id {
			return true
		}
	}
	return false
}

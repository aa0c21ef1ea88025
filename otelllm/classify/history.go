package classify

import (
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// hasOutput reports whether the tool ended with an output that the model was due to
// receive: a result or its error. If only a history shows the tool, its outcome may not be
// known, but its output is there to be delivered.
func (t *Tool) hasOutput() bool {
	if t.End.IsZero() {
		return false
	}
	switch t.Outcome {
	case semconv.ToolOutcomeUnset:
		return t.Delivery != semconv.OutputDeliveryUnset
	case semconv.ToolOutcomeInterrupted:
		return false
	default:
		return true
	}
}

// missingOutput reports whether the history of r lacks an output that existed when r
// began. If neither the history nor the tools were observed, that is not observed either.
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

// dueOutputs are the outputs that existed when a request began.
type dueOutputs struct {
	named    []int32 // indexes of the tools whose call is in the request's history
	others   int     // how many of the other outputs the history should contain, or may have to
	nameless bool    // one of the outputs is of a tool whose call has no id
}

// outputs summarizes the outputs of a run's tools by the time at which they existed and
// the time at which the model received them.
type outputs struct {
	byEnd     []int32     // indexes of the tools whose output some request had to carry, sorted by the tools' end
	ends, got []time.Time // when those outputs existed, and when the model received those that it received; each sorted
	all       []time.Time // when all outputs of tools with an id existed; sorted
	nameless  time.Time   // the earliest end of a tool without an id; zero for none
}

func (j *judge) dueBefore(r *Request) (d dueOutputs) {
	if j.outputs == nil {
		j.sumOutputs()
	}
	o := j.outputs
	d.nameless = !o.nameless.IsZero() && !o.nameless.After(r.Start)
	// If nothing is known about the history, it is not known either whether it contains
	// what the model received before.
	unobserved := r.HistoryCalls == nil
	if unobserved {
		d.others = timesUntil(o.all, r.Start)
	} else {
		d.others = timesUntil(o.ends, r.Start) - timesBefore(o.got, r.Start)
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

// everPending reports whether there was a time at which the tool's output existed and the
// model had not received it.
func (j *judge) everPending(tool *Tool) bool {
	if tool.Delivery == semconv.OutputDeliverySent {
		return false
	}
	by := j.answeredBy(tool)
	return by == nil || !by.Start.Before(tool.End)
}

// pendingAt reports whether at that time the tool's output existed and the model had not
// received it.
func (j *judge) pendingAt(tool *Tool, at time.Time) bool {
	if !j.everPending(tool) || tool.End.After(at) {
		return false
	}
	by := j.answeredBy(tool)
	return by == nil || !by.Start.Before(at)
}

// lacks reports whether r's history lacks the output of a tool that ended before r began.
//
// If both the call and an output that a completed request carried before are gone, they
// were summarized away, not lost. A list at its maximum length may have been cut: in most
// cases it proves nothing about an id that is not in it.
func (j *judge) lacks(r *Request, tool *Tool) Fact {
	cut := len(r.HistoryOutputs) >= MaxIDs
	switch {
	case tool.CallID == "":
		return NotObserved
	case j.carries(r, tool):
		return No
	case hasID(r.HistoryOutputs, tool.CallID):
		// This output belongs to another call with the same id. Which call's output the
		// history contains is known only if it contains more calls than outputs.
		if !cut && countID(r.HistoryCalls, tool.CallID) > countID(r.HistoryOutputs, tool.CallID) {
			return Yes
		}
		return NotObserved
	case hasID(r.HistoryCalls, tool.CallID) && (!cut || j.listReachesBack(r, tool.CallID)):
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

// carries reports whether r's history contains the output of this execution of a tool.
// Some models and servers reuse an id. The history then contains one more output of that
// id than the history of the request whose response made the call.
func (j *judge) carries(r *Request, tool *Tool) bool {
	if !hasID(r.HistoryOutputs, tool.CallID) || tool.Start.After(r.Start) && tool.Start.Sub(r.Start) > clockGrain {
		return false
	}
	return !j.reusesIDs() || countID(r.HistoryOutputs, tool.CallID) >= j.outputsExpected(tool)
}

// reusesIDs reports whether any response makes a call with an id that its own history, or
// another of its calls, already has.
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

// repeatsAny reports whether any of ids, the ids of r's calls, occurs twice or is the id
// of an output in r's history.
func (r *Request) repeatsAny(ids []string) bool {
	for i, id := range ids {
		if hasID(r.HistoryOutputs, id) || hasID(ids[:i], id) {
			return true
		}
	}
	return false
}

// outputsExpected returns how many outputs of the tool's id a history contains if it
// contains the output of this execution: those in the history of the request that made the
// call, and one for each call of the id that this request made.
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

// listReachesBack reports whether the newest outputs of r's history, which are all that is
// recorded of it, reach back beyond the outputs of the response that made this call: the
// first of them is an output of an earlier response.
func (j *judge) listReachesBack(r *Request, callID string) bool {
	first, makers := j.makersOf(r.HistoryOutputs[0]), j.makersOf(callID)
	return len(first) > 0 && len(makers) > 0 && first[0].Start.Before(makers[0].Start)
}

// makersOf returns the requests whose responses made or began the call with this id,
// ordered by start.
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

// isMade reports whether a response made or began the call with this id.
func (j *judge) isMade(id string) bool {
	return len(j.uses(roleMade, id)) > 0 || len(j.uses(roleOpened, id)) > 0
}

// answered reports whether the model received the tool's output: the output was sent on
// its own, or a request that carried it completed. If until is not nil, only requests that
// began before it count.
func (j *judge) answered(tool *Tool, until *Request) bool {
	if tool.Delivery == semconv.OutputDeliverySent {
		return true
	}
	by := j.answeredBy(tool)
	return by != nil && (until == nil || by.Start.Before(until.Start))
}

// answeredBy returns the first completed request that carried the output of a tool, or
// nil.
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

// missingOutputs returns the ids of the calls whose output r's history is observed to
// lack, at most MaxIDs, in the order of their tools.
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

// addUnreturned adds to ids, up to MaxIDs, those of the calls that responses of the run
// made, that no recorded tool executed, and whose output did not come back although the
// conversation continues: the last history with the call lacks its output.
//
// A call that is gone together with its output may have been summarized away. A call of an
// earlier run may have been all that its client wanted.
func (j *judge) addUnreturned(ids []string) []string {
	for pos := range j.order {
		maker := j.requestAt(int32(pos))
		for _, id := range maker.CallIDs {
			if len(ids) < MaxIDs && j.unreturned(maker, id) && !hasID(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// unreturned is addUnreturned for one call of maker's response.
func (j *judge) unreturned(maker *Request, id string) bool {
	if j.toolOf(id) != nil {
		return false
	}
	held := j.uses(roleHeld, id)
	if len(held) == 0 {
		return false
	}
	last := held[len(held)-1]
	r := j.requestAt(last)
	due := countID(r.HistoryCalls, id)
	switch {
	case maker.End.After(r.Start), due <= countID(r.HistoryOutputs, id):
		return false
	case len(r.HistoryOutputs) >= MaxIDs && (j.reusesIDs() || !j.listReachesBack(r, id)):
		return false // the output may be among those that are not listed
	}
	for _, u := range j.uses(roleCarried, id) {
		if countID(j.requestAt(u).HistoryOutputs, id) >= due && (u > last || j.states[j.order[u]].answered()) {
			return false
		}
	}
	return true
}

// lost returns why a tool's output did not reach the model. It returns unset if the output
// did, or if nothing shows that it did not.
//
// A request owes the output if it continues the call's conversation: its history still
// contains the call, or it follows a failed request that made the call or carried its
// output. Any other request may belong to another agent's conversation, which owes nothing
// to the tool.
func (j *judge) lost(tool *Tool) semconv.Cause {
	if j.answered(tool, nil) {
		return semconv.CauseUnset
	}
	end := len(j.order)
	from, inFlight := end, end // the first requests after the output existed, and after the tool began
	if !tool.End.IsZero() {
		from = j.firstFrom(tool.End)
		inFlight = min(from, j.firstFrom(tool.Start.Add(1)))
	}
	retry := j.retriesFrom(tool)

	carried, asked, omitted, overtaken := false, false, false, false
	plain := j.overview().fullHistories   // requests that do not name the call are only counted
	inFlightRetries, laterRetries := 0, 0 // of the requests that name the call and have a full history: while the tool ran, and after its end
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
			overtaken = overtaken || !hasID(r.HistoryOutputs, tool.CallID) // it contains the call
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
		case tool.hasOutput(): // it contains the call
			omitted = true
		}
	}
	if tool.CallID == "" {
		asked = from < end
	} else {
		// A request after the end that names the call has already decided this.
		asked = asked || end-from > int(plain[from])
		omitted = omitted || tool.hasOutput() && int(plain[max(from, retry)]) > laterRetries
		first := min(max(inFlight, retry), from)
		overtaken = overtaken || int(plain[first]-plain[from]) > inFlightRetries
	}
	switch {
	case omitted && tool.Delivery == semconv.OutputDeliveryFailed:
		return semconv.CauseDeliveryFailed // the delivery failed first, so that is the cause
	case omitted:
		return semconv.CauseOmittedFromRetry
	case carried:
		return semconv.CauseUnset // the diagnosis of the request that carried it explains the failure
	case tool.Delivery == semconv.OutputDeliveryFailed:
		return semconv.CauseDeliveryFailed
	case asked || !tool.hasOutput() || tool.Delivery == semconv.OutputDeliveryCached:
		return semconv.CauseUnset
	case overtaken:
		return semconv.CauseOmittedFromRetry // a retry was sent while the tool ran, and no request followed with its output
	default:
		return semconv.CauseNeverAnswered
	}
}

// requestsNaming returns the positions of the requests whose history contains the call
// with this id or its output, in order.
func (j *judge) requestsNaming(id string) []int32 {
	list := j.positions[:0]
	for _, in := range [...]role{roleHeld, roleCarried} {
		list = append(list, j.uses(in, id)...)
	}
	slices.Sort(list)
	j.positions = list
	return slices.Compact(list)
}

// retriesFrom returns the first position of the requests that follow a failed request
// which made the tool's call or carried its output.
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

// countID returns how often an id is in a list.
func countID(ids []string, id string) (n int) {
	for _, other := range ids {
		if other == id {
			n++
		}
	}
	return n
}

// hasID reports whether an id is in a list. Ids of one provider have the same length and
// the same prefix, so the last byte is compared first.
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

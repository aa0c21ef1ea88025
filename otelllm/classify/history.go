package classify

import (
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// hasOutput: the tool ran to something that the model was due to get, a result
// or the word of its failure.
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
	for t := range j.run.Tools {
		tool := &j.run.Tools[t]
		if !tool.hasOutput() || tool.End.After(r.Start) {
			continue
		}
		missing = worse(missing, j.lacks(r, tool))
	}
	return missing
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
	case hasID(r.HistoryCalls, tool.CallID) && (!cut || j.reaches(r, tool)):
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
	if j.reused == No || !j.reuses() {
		return true
	}
	return countID(r.HistoryOutputs, tool.CallID) >= j.owed(tool)
}

// reuses reports whether any response makes a call of an id that its own history, or
// another of its calls, has already.
func (j *judge) reuses() bool {
	if j.reused == NotObserved {
		j.reused = No
		for i := range j.run.Requests {
			if r := &j.run.Requests[i]; r.repeats(r.CallIDs) || r.repeats(r.OpenCallIDs) {
				j.reused = Yes
				break
			}
		}
	}
	return j.reused == Yes
}

// repeats reports whether any of the ids of r's calls is that of an output in its
// history, or of two calls.
func (r *Request) repeats(ids []string) bool {
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
func (j *judge) owed(tool *Tool) int {
	n, made := j.owes[tool]
	if made {
		return n
	}
	makers := j.makersOf(tool.CallID)
	before, _ := slices.BinarySearchFunc(makers, tool.Start, func(r *Request, start time.Time) int { return r.Start.Compare(start) })
	if n = 1; before > 0 {
		by := makers[before-1]
		n = countID(by.HistoryOutputs, tool.CallID) + max(1, countID(by.CallIDs, tool.CallID))
	}
	if j.owes == nil {
		j.owes = map[*Tool]int{}
	}
	j.owes[tool] = n
	return n
}

// reaches reports whether the newest outputs of r's history, which are all that is
// known of it, reach back beyond those of the response that made the tool's call: an
// earlier response's output is the first of them.
func (j *judge) reaches(r *Request, tool *Tool) bool {
	first, makers := j.makersOf(r.HistoryOutputs[0]), j.makersOf(tool.CallID)
	return len(first) > 0 && len(makers) > 0 && first[0].Start.Before(makers[0].Start)
}

// makersOf are the requests whose responses made the call of this id, or began to, by
// their start.
func (j *judge) makersOf(id string) []*Request {
	if j.makers == nil {
		j.makers = map[string][]*Request{}
		for _, i := range j.order {
			j.addMaker(&j.run.Requests[i])
		}
	}
	return j.makers[id]
}

func (j *judge) addMaker(r *Request) {
	for _, ids := range [...][]string{r.CallIDs, r.OpenCallIDs} {
		for _, id := range ids {
			if of := j.makers[id]; len(of) == 0 || of[len(of)-1] != r {
				j.makers[id] = append(of, r)
			}
		}
	}
}

// answered reports whether the model got the tool's output: it was sent on its
// own, or a request that carried it ran to its end (before the request until,
// when that is not nil).
func (j *judge) answered(tool *Tool, until *Request) bool {
	if tool.Delivery == semconv.OutputDeliverySent {
		return true
	}
	if tool.CallID == "" {
		return false
	}
	if j.answer.to != tool { // it is asked about one tool after the other
		j.answer = answer{to: tool, by: j.firstAnswer(tool)}
	}
	by := j.answer.by
	return by != nil && (until == nil || by.Start.Before(until.Start))
}

// answer is the first request that ran to its end with the output of a tool, nil
// where none did.
type answer struct {
	to *Tool
	by *Request
}

func (j *judge) firstAnswer(tool *Tool) *Request {
	for _, i := range j.order {
		if r := &j.run.Requests[i]; j.states[i].answered() && j.carries(r, tool) {
			return r
		}
	}
	return nil
}

// missingOutputs names the calls whose output r's history is seen to lack, at most MaxIDs.
func (j *judge) missingOutputs(r *Request) []string {
	var ids []string
	for t := range j.run.Tools {
		tool := &j.run.Tools[t]
		if tool.hasOutput() && !tool.End.After(r.Start) && j.lacks(r, tool) == Yes && len(ids) < MaxIDs {
			ids = append(ids, tool.CallID)
		}
	}
	return ids
}

// lost says how a tool's output failed to reach the model, unset when it did or
// when nothing says that it did not.
func (j *judge) lost(tool *Tool) semconv.Cause {
	if j.answered(tool, nil) {
		return semconv.CauseUnset
	}
	carried, asked := false, false
	for _, i := range j.order {
		r := &j.run.Requests[i]
		if tool.End.IsZero() || r.Start.Before(tool.End) {
			continue
		}
		if j.carries(r, tool) {
			carried = true
			continue
		}
		lacks := j.lacks(r, tool) == Yes
		if lacks && tool.hasOutput() && j.retries(r, tool) {
			if tool.Delivery == semconv.OutputDeliveryFailed {
				return semconv.CauseDeliveryFailed // what came first is why it is not there
			}
			return semconv.CauseOmittedFromRetry
		}
		asked = asked || !lacks
	}
	switch {
	case carried:
		return semconv.CauseUnset // the request that carried it tells what happened
	case tool.Delivery == semconv.OutputDeliveryFailed:
		return semconv.CauseDeliveryFailed
	case asked || !tool.hasOutput() || tool.Delivery == semconv.OutputDeliveryCached:
		return semconv.CauseUnset
	default:
		return semconv.CauseNeverAnswered
	}
}

// retries reports whether r takes up the thread that the tool's call belongs to:
// it still holds the call, or it comes after a failed request that had made the
// call or carried its output. Without that, r may be another agent's thread,
// which owes nothing to the tool.
func (j *judge) retries(r *Request, tool *Tool) bool {
	if hasID(r.HistoryCalls, tool.CallID) {
		return true
	}
	for _, i := range j.failed {
		before := &j.run.Requests[i]
		if !before.End.After(r.Start) &&
			(hasID(before.HistoryOutputs, tool.CallID) || hasID(before.CallIDs, tool.CallID)) {
			return true
		}
	}
	return false
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

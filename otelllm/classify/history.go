package classify

import (
	"slices"

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
// have been cut, so it proves nothing about what is not in it.
func (j *judge) lacks(r *Request, tool *Tool) Fact {
	switch {
	case tool.CallID == "":
		return NotObserved
	case hasID(r.HistoryOutputs, tool.CallID):
		return No
	case hasID(r.HistoryCalls, tool.CallID):
		return Yes
	case r.HistoryCalls == nil:
		return NotObserved
	case j.answered(tool, r):
		return No
	case len(r.HistoryOutputs) >= MaxIDs:
		return NotObserved
	default:
		return Yes
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
		if r := &j.run.Requests[i]; j.states[i].answered() && hasID(r.HistoryOutputs, tool.CallID) {
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
		if tool.CallID != "" && hasID(r.HistoryOutputs, tool.CallID) {
			carried = true
			continue
		}
		lacks := j.lacks(r, tool) == Yes
		if lacks && tool.hasOutput() && j.retries(r, tool) {
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

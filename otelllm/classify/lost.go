package classify

import (
	"slices"
	"sort"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// naming is a request whose history contains a call or its output, with sums over it and
// the requests before or after it that contain the same.
type naming struct {
	pos    int32
	times  int32 // how many outputs of the call it contains
	before namingCounts

	// Of this request and those after it:
	most         int32 // the most outputs that one contains
	fewestMisses int32 // the fewest outputs that one contains which misses others
	fewestOther  int32 // the fewest outputs that another one contains
}

// namingCounts counts requests whose history contains a call or its output. One that misses
// an output is observed to lack any output of the call that it does not contain.
type namingCounts struct {
	held, heldMisses, carried, carriedMisses int32 // with the call alone, with the output; of each, those that miss outputs
	full                                     int32 // of all, those with a full history
}

func (c namingCounts) minus(o namingCounts) namingCounts {
	return namingCounts{c.held - o.held, c.heldMisses - o.heldMisses, c.carried - o.carried, c.carriedMisses - o.carriedMisses, c.full - o.full}
}

// namings are the requests whose history contains a call or its output, in order. The last
// element is that of no request, at the end of the run.
type namings []naming

// from returns the index of the first request at a position or after it.
func (l namings) from(pos int) int {
	return sort.Search(len(l)-1, func(i int) bool { return int(l[i].pos) >= pos })
}

// between counts the requests from one position up to another one.
func (l namings) between(from, until int) namingCounts {
	if until <= from {
		return namingCounts{}
	}
	return l[l.from(until)].before.minus(l[l.from(from)].before)
}

// none is more outputs than any history contains.
const none = 1<<31 - 1

// namingsOf returns the requests whose history contains the call with an id or its output,
// in memory that is used again.
func (j *judge) namingsOf(n int32) namings {
	held, carried := j.index.uses(n, roleHeld), j.index.uses(n, roleCarried)
	list := slices.Grow(j.namings[:0], len(held)+len(carried)+1)
	var sum namingCounts
	for len(held) > 0 || len(carried) > 0 {
		var inCalls, inOutputs int32
		pos := int32(none)
		if len(held) > 0 {
			pos = held[0].pos
		}
		if len(carried) > 0 {
			pos = min(pos, carried[0].pos)
		}
		if len(held) > 0 && held[0].pos == pos {
			inCalls, held = held[0].times, held[1:]
		}
		if len(carried) > 0 && carried[0].pos == pos {
			inOutputs, carried = carried[0].times, carried[1:]
		}
		l := naming{pos: pos, times: inOutputs, before: sum, most: inOutputs, fewestMisses: none, fewestOther: none}
		r := j.requestAt(pos)
		whole := len(r.HistoryOutputs) < MaxIDs
		if inOutputs > 0 {
			sum.carried++
			if whole && inCalls > inOutputs {
				sum.carriedMisses++
				l.fewestMisses = inOutputs
			} else {
				l.fewestOther = inOutputs
			}
		} else {
			sum.held++
			if whole || j.listReachesBack(int(pos), n) {
				sum.heldMisses++
			}
		}
		if r.fullHistory() {
			sum.full++
		}
		list = append(list, l)
	}
	list = append(list, naming{pos: int32(len(j.order)), before: sum, fewestMisses: none, fewestOther: none})
	for i := len(list) - 2; i >= 0; i-- {
		l, next := &list[i], &list[i+1]
		l.most, l.fewestMisses, l.fewestOther = max(l.most, next.most), min(l.fewestMisses, next.fewestMisses), min(l.fewestOther, next.fewestOther)
	}
	j.namings = list
	return list
}

// lost returns why a tool's output did not reach the model. It returns unset if the output
// did, or if nothing shows that it did not.
func (j *judge) lost(t int) semconv.Cause {
	if !j.haveLosses {
		j.findLosses()
	}
	return j.losses[t]
}

func (j *judge) findLosses() {
	j.haveLosses = true
	j.losses = zeroed(j.losses, len(j.run.Tools))
	for t := range j.run.Tools {
		if j.index.toolID[t] < 0 && !j.answered(t) {
			j.losses[t] = j.lossOf(t, nil, len(j.order))
		}
	}
	for n := range j.index.count {
		var list namings
		retry := 0
		for _, t := range j.index.executions(n) {
			if j.answered(int(t)) {
				continue
			}
			if list == nil {
				list, retry = j.namingsOf(n), j.retriesFrom(n)
			}
			j.losses[t] = j.lossOf(int(t), list, retry)
		}
	}
}

// lossOf is lost for a tool that was not answered. list are the requests whose history
// contains its call or output, nil for a call without an id. A request owes the output if
// it continues the call's conversation: its history still contains the call, or it follows
// a failed request that made the call or carried its output, from the position retry on.
// Any other request may belong to another agent's conversation, which owes nothing to the
// tool.
func (j *judge) lossOf(t int, list namings, retry int) semconv.Cause {
	tool := &j.run.Tools[t]
	end := len(j.order)
	from, inFlight := end, end // the first requests after the output existed, and after the tool began
	if !tool.End.IsZero() {
		from = j.firstFrom(tool.End)
		inFlight = min(from, j.firstFrom(tool.Start.Add(1)))
	}
	carried, requested, omitted, overtaken := false, from < end, false, false
	if list != nil {
		carries := j.carriesFrom(t) // by a clock that is coarser than the tool's
		expected := j.outputsExpected(t)
		after, early := list.between(from, end), list.between(from, carries)
		first := &list[list.from(from)]
		carried = !tool.End.IsZero() && list[list.from(carries)].most >= expected
		omitted = after.heldMisses > 0 || early.carriedMisses > 0 || first.fewestMisses < expected

		// Requests that do not name the call are only counted.
		plain := j.overview().fullHistories
		requested = after.held > after.heldMisses || early.carried > early.carriedMisses || first.fewestOther < expected ||
			end-from > int(plain[from])
		later := max(from, retry)
		omitted = tool.hasOutput() && (omitted || plain[later] > list.between(later, end).full)
		begin := min(max(inFlight, retry), from)
		overtaken = list.between(inFlight, from).held > 0 || plain[begin]-plain[from] > list.between(begin, from).full
	}
	switch {
	case omitted && j.undelivered(tool):
		return semconv.CauseDeliveryFailed // the delivery failed first, so that is the cause
	case omitted:
		return semconv.CauseOmittedFromRetry
	case carried:
		return semconv.CauseUnset // the diagnosis of the request that carried it explains the failure
	case j.undelivered(tool):
		return semconv.CauseDeliveryFailed
	case tool.unanswered() && !requested && !j.run.Partial:
		return semconv.CauseNeverAnswered
	case requested || !tool.hasOutput() || tool.Delivery == semconv.OutputDeliveryCached:
		return semconv.CauseUnset
	case j.run.Partial:
		return semconv.CauseUnset // the request with its output may be elsewhere
	case overtaken:
		return semconv.CauseOmittedFromRetry // a retry was sent while the tool ran, and no request followed with its output
	default:
		return semconv.CauseNeverAnswered
	}
}

// undelivered reports whether sending the tool's output failed and was not made up for. An output
// that was kept after that may be sent for as long as the run goes on.
func (j *judge) undelivered(t *Tool) bool {
	return t.Delivery == semconv.OutputDeliveryFailed ||
		t.Delivery == semconv.OutputDeliveryCached && t.DeliveryError != "" && j.run.Ended != NotObserved
}

// redelivered reports whether sending the output of a tool failed at first, and an output of its
// call reached the model after that: the same one, or that of another execution.
func (j *judge) redelivered(t int) bool {
	tool := &j.run.Tools[t]
	failed := tool.DeliveryError != "" || tool.Delivery == semconv.OutputDeliveryFailed
	return failed && (tool.Delivery == semconv.OutputDeliverySent || j.answered(t))
}

// unanswered reports whether the conversation ended before it had any output of the call. Whether
// the call was executed is not known.
func (t *Tool) unanswered() bool {
	return t.FromHistory && t.Outcome == semconv.ToolOutcomeUnset && t.Delivery == semconv.OutputDeliveryUnset
}

// retriesFrom returns the first position of the requests that follow a failed request
// which made the call with this id or carried its output. One that was refused because its
// history is too long is followed by requests with a shorter one: what is gone from it together
// with its call was summarized.
func (j *judge) retriesFrom(n int32) int {
	var earliest time.Time
	for _, in := range [...]role{roleMade, roleCarried} {
		for _, u := range j.index.uses(n, in) {
			before := j.requestAt(u.pos)
			if j.states[j.order[u.pos]] == stateFailed && !j.tooLong(int(u.pos)) && (earliest.IsZero() || before.End.Before(earliest)) {
				earliest = before.End
			}
		}
	}
	if earliest.IsZero() {
		return len(j.order)
	}
	return j.firstFrom(earliest)
}

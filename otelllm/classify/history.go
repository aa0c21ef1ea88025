package classify

import (
	"cmp"
	"slices"
	"sort"
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

// outputs summarizes the outputs of a run's tools by the time at which they existed and
// the time at which the model received them. An output is pending from its tool's end
// until the first request that follows the one by which the model received it.
type outputs struct {
	all      []time.Time // when all outputs of tools with an id existed; sorted
	nameless time.Time   // the earliest end of a tool without an id; zero for none

	byEnd   []int32 // the tools whose output was ever pending, ordered by their end
	answers []int32 // those of them that the model received, ordered by when it did
	ends    []time.Time
	got     []int32 // the positions of the requests by which it received them

	due  []due   // the outputs of each id, ordered by when they existed
	from []int32 // where those of an id begin, by number
}

// due is the output of a tool, and a summary of those of the same id that existed by then.
type due struct {
	end      time.Time
	first    int32 // the lowest index of a tool
	latest   int32 // the tool that began last
	expected int32 // the most outputs that a history has to contain, see outputsExpected
	pending  int32 // how many of them were ever pending

	got int32 // of all that were ever pending: the position by which the model received the nth of them
}

// neverGot is the position by which the model received an output that it never received.
const neverGot = 1<<31 - 1

func (j *judge) sumOutputs() *outputs {
	if j.outputs != nil {
		return j.outputs
	}
	o := &outputs{from: make([]int32, j.index.count+1)}
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
			if !j.everPending(t) {
				break
			}
			o.byEnd = append(o.byEnd, int32(t))
			if by := j.answeredBy(t); by >= 0 {
				o.answers = append(o.answers, int32(t))
			}
		}
	}
	slices.SortFunc(o.all, time.Time.Compare)
	slices.SortStableFunc(o.byEnd, func(a, b int32) int { return j.run.Tools[a].End.Compare(j.run.Tools[b].End) })
	slices.SortStableFunc(o.answers, func(a, b int32) int { return cmp.Compare(j.answers[a], j.answers[b]) })
	for _, t := range o.byEnd {
		o.ends = append(o.ends, j.run.Tools[t].End)
	}
	for _, t := range o.answers {
		o.got = append(o.got, j.answers[t])
	}
	var tools, got []int32
	for n := range j.index.count {
		tools, got = tools[:0], got[:0]
		for _, t := range j.index.executions(n) {
			if j.run.Tools[t].hasOutput() {
				tools = append(tools, t)
			}
		}
		slices.SortStableFunc(tools, func(a, b int32) int { return j.run.Tools[a].End.Compare(j.run.Tools[b].End) })
		var sum due
		for i, t := range tools {
			tool := &j.run.Tools[t]
			expected := j.outputsExpected(int(t))
			if i == 0 {
				sum = due{first: t, latest: t, expected: expected}
			}
			sum.end, sum.first, sum.expected, sum.got = tool.End, min(sum.first, t), max(sum.expected, expected), neverGot
			if tool.Start.After(j.run.Tools[sum.latest].Start) {
				sum.latest = t
			}
			if j.everPending(int(t)) {
				sum.pending++
				if by := j.answeredBy(int(t)); by >= 0 {
					got = append(got, by)
				}
			}
			o.due = append(o.due, sum)
		}
		slices.Sort(got)
		for i, by := range got {
			o.due[int(o.from[n])+i].got = by
		}
		o.from[n+1] = int32(len(o.due))
	}
	return o
}

// dueBy returns the outputs of an id, and how many of them existed at that time.
func (o *outputs) dueBy(n int32, t time.Time) ([]due, int) {
	list := o.due[o.from[n]:o.from[n+1]]
	return list, sort.Search(len(list), func(i int) bool { return list[i].end.After(t) })
}

// everPending reports whether there was a time at which the tool's output existed and the
// model had not received it.
func (j *judge) everPending(t int) bool {
	if j.delivered(t) {
		return false
	}
	by := j.answeredBy(t)
	return by < 0 || !j.starts[by].Before(j.run.Tools[t].End)
}

// historyState is what the history of a request says about the outputs that existed when
// it began.
type historyState struct {
	missing Fact    // whether it lacks one; not observed if neither it nor the tools were
	lacking []int32 // one tool of each call in the history whose output it lacks; valid until the next call
	others  int     // how many outputs of other calls it should contain, or may have to
}

func (j *judge) historyState(pos int) historyState {
	r := j.requestAt(int32(pos))
	h := historyState{missing: No, lacking: j.lacking[:0]}
	// If nothing is known about the history, it is not known either whether it contains
	// what the model received before.
	unobserved := r.HistoryCalls == nil
	if unobserved && !j.toolsRecorded() {
		h.missing = NotObserved
	}
	o := j.sumOutputs()
	if !o.nameless.IsZero() && !o.nameless.After(r.Start) {
		h.missing = worse(h.missing, NotObserved)
	}
	begin := int32(j.firstFrom(r.Start))
	gotBefore := func(n int, got func(i int) int32) int {
		return sort.Search(n, func(i int) bool { return got(i) >= begin })
	}
	if unobserved {
		h.others = timesUntil(o.all, r.Start)
	} else {
		h.others = timesUntil(o.ends, r.Start) - gotBefore(len(o.got), func(i int) int32 { return o.got[i] })
	}
	for _, n := range j.look(pos) {
		list, existed := o.dueBy(n, r.Start)
		if existed == 0 {
			continue
		}
		sum := &list[existed-1]
		pending := int(sum.pending) - gotBefore(len(list), func(i int) int32 { return list[i].got })
		if unobserved {
			h.others -= existed
		} else {
			h.others -= pending
		}
		lacks := j.lacks(pos, n, sum, pending)
		if h.missing = worse(h.missing, lacks); lacks == Yes {
			h.lacking = append(h.lacking, sum.first)
		}
	}
	if h.others > 0 {
		fact := Yes
		if !r.fullHistory() {
			fact = NotObserved
		}
		h.missing = worse(h.missing, fact)
	}
	j.lacking = h.lacking
	return h
}

// lacks reports whether the history of the request at a position, which was looked at and
// contains the call with an id or its output, lacks one of the outputs of this id that
// existed when the request began. sum summarizes those; as many of them were pending.
//
// If both the call and an output that a completed request carried before are gone, they
// were summarized away, not lost. A list at its maximum length may have been cut: in most
// cases it proves nothing about an id that is not in it.
func (j *judge) lacks(pos int, n int32, sum *due, pending int) Fact {
	r := j.requestAt(int32(pos))
	cut := len(r.HistoryOutputs) >= MaxIDs
	carried := j.times(n, roleCarried)
	switch {
	case carried > 0:
		latest := j.run.Tools[sum.latest].Start
		if sum.expected <= carried && !(latest.After(r.Start) && latest.Sub(r.Start) > clockGrain) {
			return No // it contains all of them
		}
		// The output of another call with the same id is there. Which call's it is, is known
		// only if the history contains more calls than outputs.
		if !cut && j.times(n, roleHeld) > carried {
			return Yes
		}
		return NotObserved
	case !cut || j.listReachesBack(pos, n):
		return Yes
	case pending > 0:
		return NotObserved
	default:
		return No
	}
}

// reusesIDs reports whether any response makes a call with an id that its own history, or
// another of its calls, already has.
func (j *judge) reusesIDs() bool {
	if j.reused == NotObserved {
		j.reused = FactOf(j.anyReused())
	}
	return j.reused == Yes
}

func (j *judge) anyReused() bool {
	x := &j.index
	for n := range x.count {
		carried := x.uses(n, roleCarried)
		for in := range roleHeld { // made or opened
			for _, u := range x.uses(n, in) {
				if u.times > 1 || timesAt(carried, u.pos) > 0 {
					return true
				}
			}
		}
	}
	return x.blank && slices.ContainsFunc(j.order, func(i int) bool {
		r := &j.run.Requests[i]
		return r.repeatsAny(r.CallIDs) || r.repeatsAny(r.OpenCallIDs)
	})
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
// contains the output of this execution. Some models and servers reuse an id: these are
// then the outputs in the history of the request that made the call, and one for each call
// of the id that this request made. Otherwise it is one.
func (j *judge) outputsExpected(t int) int32 {
	if !j.reusesIDs() {
		return 1
	}
	if !j.haveExpects {
		j.findExpects()
	}
	return j.expects[t]
}

func (j *judge) findExpects() {
	j.haveExpects = true
	j.expects = zeroed(j.expects, len(j.run.Tools))
	for n := range j.index.count {
		makers := j.index.uses(n, roleMaker)
		for _, t := range j.index.executions(n) {
			start := j.run.Tools[t].Start
			before := sort.Search(len(makers), func(i int) bool { return !j.starts[makers[i].pos].Before(start) })
			if j.expects[t] = 1; before > 0 {
				by := makers[before-1].pos
				j.expects[t] = timesAt(j.index.uses(n, roleCarried), by) + max(1, timesAt(j.index.uses(n, roleMade), by))
			}
		}
	}
}

// listReachesBack reports whether the newest outputs in the history of the request at a
// position, which are all that is recorded of it, reach back beyond the outputs of the
// response that made the call with this id: the first of them is an output of an earlier
// response.
func (j *judge) listReachesBack(pos int, n int32) bool {
	first := j.index.numbersOf(pos, roleCarried)[0]
	a, b := j.index.uses(first, roleMaker), j.index.uses(n, roleMaker)
	return len(a) > 0 && len(b) > 0 && j.starts[a[0].pos].Before(j.starts[b[0].pos])
}

// answered reports whether the model received the tool's output: the output was sent on
// its own, or a request that carried it completed.
func (j *judge) answered(t int) bool { return j.delivered(t) || j.answeredBy(t) >= 0 }

// delivered reports whether a tool's output was sent and not dropped later: no request that
// completed later, and has the whole conversation, leaves out what a request had carried.
func (j *judge) delivered(t int) bool {
	if j.run.Tools[t].Delivery != semconv.OutputDeliverySent {
		return false
	}
	n := j.index.toolID[t]
	if n < 0 {
		return true
	}
	carriers := j.index.uses(n, roleCarried)
	return len(carriers) == 0 || j.overview().lastAnsweredFull <= int(carriers[len(carriers)-1].pos)
}

// answeredBy returns the position of the first completed request that carried the output
// of a tool, or -1.
func (j *judge) answeredBy(t int) int32 {
	if !j.haveAnswers {
		j.findAnswers()
	}
	return j.answers[t]
}

// findAnswers finds the answers to the tools of each id, from the tool that began last to
// the first one. On the way it keeps those of the later requests that may be an answer to
// an earlier tool: each contains more outputs of the id than the ones before it.
func (j *judge) findAnswers() {
	j.haveAnswers = true
	j.answers = slices.Grow(j.answers[:0], len(j.run.Tools))[:len(j.run.Tools)]
	for t := range j.answers {
		j.answers[t] = -1
	}
	var later []use // the last one is the earliest
	for n := range j.index.count {
		tools, carried := j.index.executions(n), j.index.uses(n, roleCarried)
		if len(tools) == 0 || len(carried) == 0 {
			continue
		}
		later = later[:0]
		next := len(carried)
		for _, t := range slices.Backward(tools) {
			begin := int32(j.carriesFrom(int(t)))
			for ; next > 0 && carried[next-1].pos >= begin; next-- {
				u := carried[next-1]
				if !j.states[j.order[u.pos]].answered() {
					continue
				}
				for len(later) > 0 && later[len(later)-1].times <= u.times {
					later = later[:len(later)-1]
				}
				later = append(later, u)
			}
			expected := j.outputsExpected(int(t))
			if enough := sort.Search(len(later), func(i int) bool { return later[i].times < expected }); enough > 0 {
				j.answers[t] = later[enough-1].pos
			}
		}
	}
}

// carriesFrom returns the first position of the requests that are late enough to carry the
// output of a tool, by a clock that may be coarser than the tool's.
func (j *judge) carriesFrom(t int) int { return j.firstFrom(j.run.Tools[t].Start.Add(-clockGrain)) }

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

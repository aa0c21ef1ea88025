package classify

import (
	"slices"
	"sort"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// The rules ask about a run by the ids of its calls. Runs have up to hundreds of thousands
// of parts, and a run in which every request fails asks about each of them. The answers
// come from indexes, so that the cost of judging stays nearly linear in the size of the
// run.

// role is what the id of a call means at the place where it occurs.
type role uint8

const (
	roleMade     role = iota // a response made the call
	roleOpened               // a response began the call's input
	roleHeld                 // a history contains the call
	roleCarried              // a history contains the call's output
	roleExecuted             // a tool executed the call

	roles = 5
)

// scanLimit is the number of requests and of tools up to which a run is scanned instead of
// indexed.
const scanLimit = 16

// idsOf returns the ids that occur in this role in a request.
func (r *Request) idsOf(in role) []string {
	switch in {
	case roleMade:
		return r.CallIDs
	case roleOpened:
		return r.OpenCallIDs
	case roleHeld:
		return r.HistoryCalls
	default:
		return r.HistoryOutputs
	}
}

// uses returns where an id occurs in this role, in order and without duplicates: positions
// of requests ordered by start or, for executions, indexes of tools. The slice is valid
// until the next call for the same role.
func (j *judge) uses(in role, id string) []int32 {
	if id == "" {
		return nil
	}
	if len(j.order) <= scanLimit && len(j.run.Tools) <= scanLimit {
		found := j.scanned[in][:0]
		if in == roleExecuted {
			for t := range j.run.Tools {
				if j.run.Tools[t].CallID == id {
					found = append(found, int32(t))
				}
			}
		} else {
			for pos, i := range j.order {
				if hasID(j.run.Requests[i].idsOf(in), id) {
					found = append(found, int32(pos))
				}
			}
		}
		j.scanned[in] = found
		return found
	}
	if !j.index.built {
		j.index.build(j)
	}
	number, known := j.index.numbers[id]
	if !known {
		return nil
	}
	return j.index.list(number, in)
}

// index holds where every id of a run occurs, by the id's number and the role.
type index struct {
	built   bool
	numbers map[string]int32
	from    []int32 // where the list of an id and a role begins in places
	until   []int32 // where that list ends
	places  []int32
}

func (x *index) list(number int32, in role) []int32 {
	at := int(number)*roles + int(in)
	return x.places[x.from[at]:x.until[at]]
}

// build counts the places of each list, lays out the lists one after the other, and fills
// them.
func (x *index) build(j *judge) {
	*x = index{built: true, numbers: x.numbers, from: x.from[:0], until: x.until[:0], places: x.places[:0]}
	if x.numbers == nil {
		x.numbers = make(map[string]int32, len(j.run.Requests)+len(j.run.Tools))
	}
	slots := j.slots[:0] // of each place, in the order of the walk
	walk := func(visit func(id string, in role, place int)) {
		for pos, i := range j.order {
			for in := range roleExecuted {
				for _, id := range j.run.Requests[i].idsOf(in) {
					visit(id, in, pos)
				}
			}
		}
		for t := range j.run.Tools {
			visit(j.run.Tools[t].CallID, roleExecuted, t)
		}
	}
	walk(func(id string, in role, _ int) {
		number, known := x.numbers[id]
		if !known {
			number = int32(len(x.numbers))
			x.numbers[id] = number
			x.from = append(x.from, make([]int32, roles)...)
		}
		slot := number*roles + int32(in)
		x.from[slot]++
		slots = append(slots, slot)
	})
	at := int32(0)
	for slot, n := range x.from {
		x.from[slot] = at
		at += n
	}
	x.until = append(x.until, x.from...)
	x.places = slices.Grow(x.places, len(slots))[:len(slots)]
	n := 0
	walk(func(_ string, _ role, place int) {
		slot := slots[n]
		n++
		if end := x.until[slot]; end == x.from[slot] || x.places[end-1] != int32(place) {
			x.places[end] = int32(place)
			x.until[slot]++
		}
	})
	j.slots = slots
}

// requestAt returns the request at a position in the order of their start.
func (j *judge) requestAt(pos int32) *Request { return &j.run.Requests[j.order[pos]] }

// firstFrom returns the first position of a request that starts at or after t.
func (j *judge) firstFrom(t time.Time) int {
	return sort.Search(len(j.order), func(pos int) bool { return !j.requestAt(int32(pos)).Start.Before(t) })
}

// toolOf returns the execution of a call, the last one if there are several.
func (j *judge) toolOf(id string) *Tool {
	executions := j.uses(roleExecuted, id)
	if len(executions) == 0 {
		return nil
	}
	return &j.run.Tools[executions[len(executions)-1]]
}

// overview is what the rules read about all requests of a run.
type overview struct {
	// lastAnswered is the last position of a request that was answered;
	// lastAnsweredPartial is that of one without a full history. -1 means that there is
	// none.
	lastAnswered, lastAnsweredPartial int
	lastAnswer                        time.Time // the latest end of a request that was answered
	lastUnobserved                    time.Time // the latest start of a request whose history was not observed
	anyUnobserved                     bool

	// fullHistories holds, for each position, how many requests from there on have a full
	// history.
	fullHistories []int32

	violations map[semconv.TransportCause]time.Time // by cause: the earliest start of a request with that violation
}

// overview returns the overview of the run.
func (j *judge) overview() *overview {
	if j.cachedOverview != nil {
		return j.cachedOverview
	}
	o := &overview{lastAnswered: -1, lastAnsweredPartial: -1, fullHistories: make([]int32, len(j.order)+1)}
	j.cachedOverview = o
	for pos, i := range j.order {
		r := &j.run.Requests[i]
		if j.states[i].answered() {
			o.lastAnswered = pos
			if r.End.After(o.lastAnswer) {
				o.lastAnswer = r.End
			}
			if !r.fullHistory() {
				o.lastAnsweredPartial = pos
			}
		}
		if r.HistoryCalls == nil {
			o.lastUnobserved, o.anyUnobserved = r.Start, true
		}
		if j.classifications[i].class == semconv.ClassProtocolViolation {
			if _, ok := o.violations[r.Transport.Cause]; !ok {
				if o.violations == nil {
					o.violations = map[semconv.TransportCause]time.Time{}
				}
				o.violations[r.Transport.Cause] = r.Start
			}
		}
	}
	for pos := len(j.order) - 1; pos >= 0; pos-- {
		o.fullHistories[pos] = o.fullHistories[pos+1]
		if j.requestAt(int32(pos)).fullHistory() {
			o.fullHistories[pos]++
		}
	}
	return o
}

// fullHistory reports whether the request's history was observed and its list of outputs
// is not cut.
func (r *Request) fullHistory() bool { return r.HistoryCalls != nil && len(r.HistoryOutputs) < MaxIDs }

// toolCounts counts tools by effect. Tools that were called and changed nothing are
// counted under the unset effect.
type toolCounts [semconv.ToolEffectUnknown + 1]int32

func (c *toolCounts) add(t *Tool, n int32) {
	switch {
	case t.MayHaveActed():
		c[t.effect()] += n
	case t.Outcome != semconv.ToolOutcomeRejected: // a rejected call was not executed
		c[semconv.ToolEffectUnset] += n
	}
}

// toolsByStart counts tools by the time of their start.
type toolsByStart struct {
	starts []time.Time  // sorted
	counts []toolCounts // the counts of the tools before each start, and last of all tools
}

// countTools counts the tools of the run for which wanted returns true.
func (j *judge) countTools(wanted func(t *Tool) bool) *toolsByStart {
	var tools []*Tool
	for t := range j.run.Tools {
		if tool := &j.run.Tools[t]; wanted(tool) {
			tools = append(tools, tool)
		}
	}
	slices.SortStableFunc(tools, func(a, b *Tool) int { return a.Start.Compare(b.Start) })
	c := &toolsByStart{counts: make([]toolCounts, 1, len(tools)+1)}
	for _, tool := range tools {
		sum := c.counts[len(c.counts)-1]
		sum.add(tool, 1)
		c.starts, c.counts = append(c.starts, tool.Start), append(c.counts, sum)
	}
	return c
}

// before counts the tools that started before t.
func (c *toolsByStart) before(t time.Time) toolCounts {
	return c.counts[timesBefore(c.starts, t)]
}

// after counts the tools that started at t or later.
func (c *toolsByStart) after(t time.Time) toolCounts {
	all, before := c.counts[len(c.counts)-1], c.before(t)
	for i := range all {
		all[i] -= before[i]
	}
	return all
}

func (c *toolCounts) join(o toolCounts) {
	for i := range c {
		c[i] += o[i]
	}
}

// timesUntil returns how many of the times, which are sorted, are not after t.
func timesUntil(times []time.Time, t time.Time) int {
	return sort.Search(len(times), func(i int) bool { return times[i].After(t) })
}

// timesBefore returns how many of these sorted times are before t.
func timesBefore(times []time.Time, t time.Time) int {
	return sort.Search(len(times), func(i int) bool { return !times[i].Before(t) })
}

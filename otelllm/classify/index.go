package classify

import (
	"slices"
	"sort"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// The rules ask about a run by the ids of its calls. Runs have up to hundreds of thousands
// of parts, a run in which every request fails asks about each of them, and a producer may
// use one id for all of them. Every id therefore has a number, and the answers come from
// indexes by number, so that the cost of judging stays nearly linear in the size of the
// run, whatever its ids are.

// role is what the id of a call means in a request.
type role uint8

const (
	roleMade    role = iota // the response made the call
	roleOpened              // the response began the call's input
	roleHeld                // the history contains the call
	roleCarried             // the history contains the call's output
	roleMaker               // the response made the call or began its input

	roles = 5
	lists = 4 // the lists of ids in a request: one for each role but the last
)

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

// index holds where every id of a run occurs. An empty id has a number and no uses.
type index struct {
	ids     []string         // the first ids, by number; there are at most fewIDs
	numbers map[string]int32 // of all ids, once there are more
	count   int32            // of ids

	list   []int32 // the numbers of the ids in all requests, one list after the other
	begins []int32 // where the lists begin, by position and role

	from, until []int32 // where the uses of an id begin and end, by number and role
	places      []use   // the uses of an id in a role are ordered by position
	blank       bool    // a response has a call with an empty id

	// lastUnknown is the position of the last request whose history is not known, and that is no
	// further attempt, which has the history of the attempt before it; -1 for none.
	lastUnknown int

	toolID    []int32 // the number of the id of each tool, -1 for none
	toolsFrom []int32 // where the tools of an id begin in tools, by number
	tools     []int32 // the tools of an id, ordered by start
}

// use is a request in which an id occurs.
type use struct {
	pos   int32 // of the request, in the order of the starts
	times int32 // how often it occurs there
}

// fewIDs is the number of ids up to which they are compared one by one.
const fewIDs = 16

// number returns the number of an id, a new one if it has none.
func (x *index) number(id string) int32 {
	if x.count <= fewIDs {
		for n, other := range x.ids {
			if other == id {
				return int32(n)
			}
		}
		x.ids = append(x.ids, id)
		if x.count++; x.count <= fewIDs {
			return x.count - 1
		}
		if x.numbers == nil {
			x.numbers = make(map[string]int32)
		}
		for n, other := range x.ids {
			x.numbers[other] = int32(n)
		}
		return x.count - 1
	}
	n, known := x.numbers[id]
	if !known {
		n = x.count
		x.numbers[id] = n
		x.count++
	}
	return n
}

// uses returns the requests in which an id occurs in this role.
func (x *index) uses(n int32, in role) []use {
	at := int(n)*roles + int(in)
	return x.places[x.from[at]:x.until[at]]
}

// numbersOf returns the numbers of the ids in this role in the request at a position.
func (x *index) numbersOf(pos int, in role) []int32 {
	at := pos*lists + int(in)
	return x.list[x.begins[at]:x.begins[at+1]]
}

// executions returns the tools that executed the call with an id, ordered by start.
func (x *index) executions(n int32) []int32 { return x.tools[x.toolsFrom[n]:x.toolsFrom[n+1]] }

// executed reports whether a recorded tool executed the call with an id.
func (x *index) executed(n int32) bool { return x.toolsFrom[n] < x.toolsFrom[n+1] }

// build numbers the ids, counts the uses of each, lays them out one after the other, and
// fills them in.
func (x *index) build(run *Run, order []int) {
	*x = index{
		ids: x.ids[:0], numbers: x.numbers, list: x.list[:0], begins: x.begins[:0], from: x.from, until: x.until[:0],
		places: x.places, toolID: x.toolID[:0], toolsFrom: x.toolsFrom, tools: x.tools, lastUnknown: -1,
	}
	for pos, i := range order {
		r := &run.Requests[i]
		if r.HistoryOutputs == nil && r.Attempt <= 1 {
			x.lastUnknown = pos
		}
		for in := range role(lists) {
			x.begins = append(x.begins, int32(len(x.list)))
			x.addList(run, order, pos, in, r.idsOf(in))
		}
	}
	x.begins = append(x.begins, int32(len(x.list)))
	blank := int32(-1)
	for t := range run.Tools {
		n := int32(-1)
		if id := run.Tools[t].CallID; id != "" {
			n = x.number(id)
		}
		x.toolID = append(x.toolID, n)
	}
	if len(x.list) > 0 {
		blank = x.number("")
	}
	x.buildUses(len(order), blank)
	x.buildTools(run)
}

// addList adds the numbers of a list of ids. The history of a request mostly repeats that
// of the request before it, so the id that is to be expected from that is tried first.
func (x *index) addList(run *Run, order []int, pos int, in role, ids []string) {
	var before []string
	at := 0
	if pos > 0 {
		before, at = run.Requests[order[pos-1]].idsOf(in), int(x.begins[(pos-1)*lists+int(in)])
	}
	next := 0
	for _, id := range ids {
		switch {
		case next < len(before) && before[next] == id:
		case next+1 < len(before) && before[next+1] == id:
			next++
		default:
			x.list = append(x.list, x.number(id))
			continue
		}
		x.list = append(x.list, x.list[at+next])
		next++
	}
}

// buildUses lays out the uses of the ids, except those of the empty id.
func (x *index) buildUses(requests int, blank int32) {
	x.from = zeroed(x.from, int(x.count)*roles)
	if len(x.list) == 0 {
		requests = 0 // none of them has an id
	}
	walk := func(visit func(slot, pos int)) {
		for pos := range requests {
			for in := range role(lists) {
				for _, n := range x.numbersOf(pos, in) {
					if n == blank {
						x.blank = x.blank || in <= roleOpened
						continue
					}
					visit(int(n)*roles+int(in), pos)
					if in <= roleOpened {
						visit(int(n)*roles+int(roleMaker), pos)
					}
				}
			}
		}
	}
	total := int32(0)
	walk(func(slot, _ int) {
		x.from[slot]++
		total++
	})
	at := int32(0)
	for slot, n := range x.from {
		x.from[slot] = at
		at += n
	}
	x.until = append(x.until, x.from...)
	x.places = slices.Grow(x.places[:0], int(total))[:total]
	walk(func(slot, pos int) {
		if end := x.until[slot]; end > x.from[slot] && x.places[end-1].pos == int32(pos) {
			x.places[end-1].times++
		} else {
			x.places[end] = use{int32(pos), 1}
			x.until[slot]++
		}
	})
}

// buildTools lays out the tools by the ids of their calls.
func (x *index) buildTools(run *Run) {
	x.toolsFrom = zeroed(x.toolsFrom, int(x.count)+1)
	for _, n := range x.toolID {
		if n >= 0 {
			x.toolsFrom[n+1]++
		}
	}
	for n := range x.count {
		x.toolsFrom[n+1] += x.toolsFrom[n]
	}
	x.tools = zeroed(x.tools, int(x.toolsFrom[x.count]))
	for t, n := range slices.Backward(x.toolID) { // toolsFrom counts down
		if n >= 0 {
			x.toolsFrom[n+1]--
			x.tools[x.toolsFrom[n+1]] = int32(t)
		}
	}
	for n := range x.count { // and is where the next one begins
		x.toolsFrom[n] = x.toolsFrom[n+1]
	}
	x.toolsFrom[x.count] = int32(len(x.tools))
	for n := range x.count {
		if list := x.executions(n); len(list) > 1 {
			slices.SortStableFunc(list, func(a, b int32) int { return run.Tools[a].Start.Compare(run.Tools[b].Start) })
		}
	}
}

// timesAt returns how often an id occurs in the request at a position.
func timesAt(uses []use, pos int32) int32 {
	if at := usesBefore(uses, pos); at < len(uses) && uses[at].pos == pos {
		return uses[at].times
	}
	return 0
}

// usesBefore returns how many of the uses are before a position.
func usesBefore(uses []use, pos int32) int {
	return sort.Search(len(uses), func(i int) bool { return uses[i].pos >= pos })
}

// mark is how often an id occurs in the lists of one request.
type mark struct {
	look  int32 // the number of the look that counted; see judge.looks
	times [lists]int32
}

// look marks the ids in the lists of the request at a position, until the next call. It
// returns the ids in its history, each once.
func (j *judge) look(pos int) []int32 {
	x := &j.index
	request := int32(pos + 1)
	if j.looked == request {
		return j.inHistory
	}
	j.looked = request
	j.looks++
	j.inHistory = j.inHistory[:0]
	for in := range role(lists) {
		for _, n := range x.numbersOf(pos, in) {
			m := &j.marks[n]
			if m.look != j.looks {
				*m = mark{look: j.looks}
			}
			if in >= roleHeld && m.times[roleHeld]+m.times[roleCarried] == 0 {
				j.inHistory = append(j.inHistory, n)
			}
			m.times[in]++
		}
	}
	return j.inHistory
}

// times returns how often an id occurs in this role in the request that was looked at.
func (j *judge) times(n int32, in role) int32 {
	if m := &j.marks[n]; m.look == j.looks {
		return m.times[in]
	}
	return 0
}

// requestAt returns the request at a position in the order of their start.
func (j *judge) requestAt(pos int32) *Request { return &j.run.Requests[j.order[pos]] }

// firstFrom returns the first position of a request that starts at or after t.
func (j *judge) firstFrom(t time.Time) int { return timesBefore(j.starts, t) }

// overview is what the rules read about all requests of a run.
type overview struct {
	known bool // it was read

	// lastAnswered is the last position of a request that was answered;
	// lastAnsweredPartial is that of one without a full history, lastAnsweredFull that of one
	// with it. Each is -1 without such a request.
	lastAnswered, lastAnsweredPartial, lastAnsweredFull int
	lastAnswer                                          time.Time // the latest end of a request that was answered
	unobserved                                          []int32   // the positions of the requests whose history was not observed

	// fullHistories holds, for each position, how many requests from there on have a full
	// history.
	fullHistories []int32

	violations map[semconv.TransportCause]time.Time // by cause: the earliest start of a request with that violation
}

// overview returns the overview of the run.
func (j *judge) overview() *overview {
	o := &j.cachedOverview
	if o.known {
		return o
	}
	*o = overview{
		known: true, lastAnswered: -1, lastAnsweredPartial: -1, lastAnsweredFull: -1,
		unobserved: o.unobserved[:0], fullHistories: zeroed(o.fullHistories, len(j.order)+1),
	}
	for pos, i := range j.order {
		r := &j.run.Requests[i]
		if j.states[i].answered() {
			o.lastAnswered = pos
			if r.End.After(o.lastAnswer) {
				o.lastAnswer = r.End
			}
			if r.fullHistory() {
				o.lastAnsweredFull = pos
			} else {
				o.lastAnsweredPartial = pos
			}
		}
		if r.HistoryCalls == nil {
			o.unobserved = append(o.unobserved, int32(pos))
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

// join adds n times the counts of o.
func (c *toolCounts) join(o toolCounts, n int32) {
	for i := range c {
		c[i] += n * o[i]
	}
}

// toolsByStart counts tools by the time of their start.
type toolsByStart struct {
	starts []time.Time  // sorted
	counts []toolCounts // the counts of the tools before each start, and last of all tools
}

// countTools counts the tools of the run for which wanted returns true.
func (j *judge) countTools(wanted func(t int) bool) *toolsByStart {
	var tools []int32
	for t := range j.run.Tools {
		if wanted(t) {
			tools = append(tools, int32(t))
		}
	}
	slices.SortStableFunc(tools, func(a, b int32) int { return j.run.Tools[a].Start.Compare(j.run.Tools[b].Start) })
	c := &toolsByStart{counts: make([]toolCounts, 1, len(tools)+1)}
	for _, t := range tools {
		sum := c.counts[len(c.counts)-1]
		sum.add(&j.run.Tools[t], 1)
		c.starts, c.counts = append(c.starts, j.run.Tools[t].Start), append(c.counts, sum)
	}
	return c
}

// before counts the tools that started before t.
func (c *toolsByStart) before(t time.Time) toolCounts {
	return c.counts[timesBefore(c.starts, t)]
}

// after counts the tools that started at t or later.
func (c *toolsByStart) after(t time.Time) toolCounts {
	all := c.counts[len(c.counts)-1]
	all.join(c.before(t), -1)
	return all
}

// timesUntil returns how many of the times, which are sorted, are not after t.
func timesUntil(times []time.Time, t time.Time) int {
	return sort.Search(len(times), func(i int) bool { return times[i].After(t) })
}

// timesBefore returns how many of these sorted times are before t.
func timesBefore(times []time.Time, t time.Time) int {
	return sort.Search(len(times), func(i int) bool { return !times[i].Before(t) })
}

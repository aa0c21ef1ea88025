package kinship

import (
	"slices"

	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// relate finds what r is to the earlier requests, and returns what the one before it had.
//
// A reading is an earlier request that r may continue or repeat. Only if there is one
// reading, r is related to it. Where there are several, the runs of all of them become
// unclear: one of them goes on, and it is not known which.
func (t *Tracker) relate(r *Request, tr *wire.Transcript) wire.TranscriptCount {
	found := t.readings(r, tr)
	if len(found) == 0 {
		found = t.byOutputs(r, tr)
	}
	if len(found) > 1 {
		for _, f := range found {
			f.request.Run.unclear = true
		}
	}
	if len(found) != 1 {
		return wire.TranscriptCount{}
	}
	before, run := found[0].request, found[0].request.Run
	if found[0].from == tr.Total && run.over {
		return wire.TranscriptCount{} // the same words again after a while: that may be anyone
	}
	r.Relation, r.Before = found[0].relation, before
	switch {
	case before.heir != nil && !run.last.failedAfter(before):
		r.Relation = Fork
	case r.Relation.Joins() && run.over:
		r.Relation = Next // it came too late
	case r.Relation == Again && before.heir != nil:
		r.Before = run.last // the attempts since then differ in what they have of the answer
	}
	return found[0].from
}

// failedAfter reports whether r is a further attempt of before and has no answer either.
func (r *Request) failedAfter(before *Request) bool {
	for a := r; a != nil && a.Relation == Again; a = a.Before {
		if a.Before == before {
			return r.soFar().Result != Answered
		}
	}
	return false
}

// reading is an earlier request, and what a later one would be to it.
type reading struct {
	request  *Request
	relation Relation
	from     wire.TranscriptCount // what the earlier request had
}

// readings returns the earlier requests that r may repeat, and those with the longest
// history that it may continue.
func (t *Tracker) readings(r *Request, tr *wire.Transcript) (found []reading) {
	if tr.Previous != 0 {
		if p := t.byID(tr.Previous); p != nil && p.kin(r) {
			found = append(found, reading{p, p.relationOf(tr, wire.TranscriptCount{}), wire.TranscriptCount{}})
		}
	}
	for n := 0; ; n++ {
		point, ok := tr.Point(n)
		if !ok {
			return found
		}
		twins := t.ends[point.History]
		if twins == nil {
			continue
		}
		continued := false
		for _, earlier := range twins.list {
			if !earlier.kin(r) || twins.more && n > 0 && !t.handedOut(earlier, tr, point) {
				continue
			}
			switch {
			case n > 0:
				if relation, ok := earlier.continuedBy(tr, point); ok {
					found, continued = add(found, reading{earlier, relation, point.Before}), true
				}
			case !twins.more && earlier.repeatedBy(r):
				found = add(found, reading{earlier, Again, point.Before})
			}
		}
		if continued {
			return found
		}
	}
}

// add adds a reading, unless another one comes from its request: that one is nearer to r.
// It replaces those that it comes from itself.
func add(found []reading, f reading) []reading {
	if slices.ContainsFunc(found, func(g reading) bool { return g.request.comesFrom(f.request) }) {
		return found
	}
	found = slices.DeleteFunc(found, func(g reading) bool { return f.request.comesFrom(g.request) })
	return append(found, f)
}

// comesFrom reports whether r continues or repeats earlier, or one that does.
func (r *Request) comesFrom(earlier *Request) bool {
	for n := 0; r != nil && n <= maxRequests; n++ {
		if r = r.Before; r == earlier {
			return true
		}
	}
	return false
}

// kin reports whether the clients of both requests may be the same.
func (r *Request) kin(later *Request) bool {
	return r.client == later.client && r.session == later.session
}

// repeatedBy reports whether later, which has the same history, may be a further attempt of
// r.
func (r *Request) repeatedBy(later *Request) bool {
	if r.heir != nil || r.tools != later.tools {
		return false
	}
	switch r.soFar().Result {
	case Failed, Stopped:
		return true
	case Pending:
		// A gateway may learn later than by the next request that its client has left.
		// Without an id of the client it may be another agent with the same words.
		return r.session != 0
	default:
		return false
	}
}

// soFar returns how r ended, or would end now.
func (r *Request) soFar() Answer {
	if r.ended.IsZero() && r.live != nil {
		return r.live()
	}
	return r.answer
}

// continuedBy returns what a request is that has r's history up to this point and more.
// It reports false if it cannot have come from r's answer.
func (r *Request) continuedBy(tr *wire.Transcript, point *wire.TranscriptPoint) (Relation, bool) {
	a := r.soFar()
	if a.Result == Pending || tr.Total.Answers > point.Before.Answers+1 {
		return 0, false // with several answers, another request was between them
	}
	calls := tr.Total.Calls > point.Before.Calls || tr.Total.Outputs > point.Before.Outputs
	if calls && !a.waits() {
		return 0, false // its answer had no calls
	}
	if calls && !a.namesCalls(tr, point) {
		return 0, false
	}
	if a.Result == Failed && !a.Text && !calls && tr.Total.Answers > point.Before.Answers {
		return 0, false // nothing had come that could have been appended
	}
	return r.relationOf(tr, point.Before), true
}

// namesCalls reports whether the calls of an answer are among those that follow the point.
func (a *Answer) namesCalls(tr *wire.Transcript, point *wire.TranscriptPoint) bool {
	after := tr.Total.Calls - point.Before.Calls
	if after < len(a.Calls) {
		return false
	}
	for _, c := range a.Calls {
		if id := wire.TranscriptID(c.ID); id != 0 && !hasCall(tr, point.Before.Calls, id) {
			return false
		}
	}
	return true
}

// hasCall reports whether a call with this id follows. A history that is longer than what
// is kept of it may have it.
func hasCall(tr *wire.Transcript, from int, id uint64) bool {
	for n := from; n < tr.Total.Calls; n++ {
		if c, ok := tr.Call(n); !ok || c.ID == id {
			return true
		}
	}
	return false
}

// relationOf returns what a request is that continues r with what follows these.
func (r *Request) relationOf(tr *wire.Transcript, before wire.TranscriptCount) Relation {
	a := r.soFar()
	outputs := tr.Total.Outputs > before.Outputs
	users := tr.Total.Users > before.Users
	switch {
	case outputs && (len(a.Calls) > 0 || a.Unnamed):
		return Step
	case a.Result == Failed:
		return Again // with the part of the answer that had come, and a request to go on
	case a.Result == Stopped && !users:
		return Again
	case a.Result == Answered && a.waits() && !users:
		return Step
	default:
		return Next
	}
}

// byOutputs finds the request whose calls r has the outputs of, where the history before
// them was edited or summarized. The id has to be one that no other agent has by accident,
// and either the instructions or the tools have to be the same.
func (t *Tracker) byOutputs(r *Request, tr *wire.Transcript) []reading {
	for n := tr.Total.Outputs - 1; n >= tr.Answered.Outputs; n-- {
		out, ok := tr.Output(n)
		if !ok {
			return nil
		}
		maker := t.byID(out.ID)
		if maker == nil || !maker.kin(r) || !maker.handedOutUnique(out.ID) {
			continue
		}
		if maker.opening != r.opening && (maker.tools != r.tools || r.tools == 0) {
			return nil
		}
		return []reading{{maker, Step, tr.Answered}}
	}
	return nil
}

// byID returns the only request whose response handed out an id, or nil.
func (t *Tracker) byID(id uint64) *Request {
	if h := t.ids[id]; h != nil && h.holders == 1 {
		return h.request
	}
	return nil
}

// handedOut reports whether a call that follows the point is one of r's alone.
func (t *Tracker) handedOut(r *Request, tr *wire.Transcript, point *wire.TranscriptPoint) bool {
	for n := point.Before.Calls; n < tr.Total.Calls; n++ {
		if c, ok := tr.Call(n); ok && c.ID != 0 && t.byID(c.ID) == r && r.handedOutUnique(c.ID) {
			return true
		}
	}
	return false
}

// handedOutUnique reports whether the id, of one of r's calls, looks random.
func (r *Request) handedOutUnique(id uint64) bool {
	for _, c := range r.answer.Calls {
		if wire.TranscriptID(c.ID) == id {
			return random(c.ID)
		}
	}
	return false
}

// random reports whether an id looks like one that is never used again: its last part has
// at least 8 letters and digits, 3 digits or 3 changes between lower and upper case among
// them. Counters (call_0, functions.get_weather:12) do not.
func random(id string) bool {
	start := len(id)
	for start > 0 && isAlnum(id[start-1]) {
		start--
	}
	last := id[start:]
	if len(last) < 8 {
		return false
	}
	digits, letters, changes := 0, 0, 0
	for i := range len(last) {
		switch b := last[i]; {
		case b <= '9':
			digits++
		default:
			letters++
			if i > 0 && last[i-1] > '9' && (b^last[i-1])&0x20 != 0 {
				changes++
			}
		}
	}
	return digits >= 3 && letters > 0 || changes >= 3 || digits >= 12
}

func isAlnum(b byte) bool {
	return b-'0' <= 9 || b|0x20 >= 'a' && b|0x20 <= 'z'
}

// observe returns what a request shows about the calls of the one before it, which had from.
func observe(calls []Call, tr *wire.Transcript, from wire.TranscriptCount) []Observed {
	list := make([]Observed, len(calls))
	next := from.Outputs // of the outputs without ids, which are in the order of their calls
	for i, c := range calls {
		o := &list[i]
		o.Call = c
		if c.ID == "" {
			if out, ok := tr.Output(next); ok && out.ID == 0 {
				o.Sent, o.Result = true, out.Result
			}
			next++
			continue
		}
		id := wire.TranscriptID(c.ID)
		for n := tr.Total.Outputs - 1; n >= from.Outputs && !o.Sent; n-- {
			if out, ok := tr.Output(n); ok && out.ID == id {
				o.Sent, o.Result = true, out.Result
			}
		}
	}
	return list
}

// countStep counts steps with the same calls in a row.
func (run *Run) countStep(tr *wire.Transcript, from wire.TranscriptCount) {
	var sum uint64
	for n := from.Calls; n < tr.Total.Calls; n++ {
		if c, ok := tr.Call(n); ok {
			sum += c.Input // parallel calls may come in any order
		}
	}
	if sum != 0 && sum == run.calls {
		run.repeat()
	} else {
		run.inARow = 0
	}
	run.calls, run.way = sum, ""
}

// countFailure counts attempts in a row that failed in the same way.
func (run *Run) countFailure(way string) {
	if way != "" && way == run.way {
		run.repeat()
	} else {
		run.inARow = 0
	}
	run.way, run.calls = way, 0
}

func (run *Run) repeat() {
	run.inARow++
	run.repeated = max(run.repeated, run.inARow)
}

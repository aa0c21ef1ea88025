package kinship

import (
	"slices"

	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// relate finds the relation of r to the earlier requests, and returns the counts of the history of the one before it.
//
// A reading is an earlier request that r may continue or repeat. Only if there is one reading, r is related to it. If there
// are several, their runs all become unclear: any of them may be the one that goes on.
func (t *Tracker) relate(r *Request, tr *wire.Transcript, session uint64) wire.TranscriptCount {
	t.found = t.found[:0]
	if tr.Resumed != 0 {
		t.resume(r, tr)
		return wire.TranscriptCount{}
	}
	if again := t.findFullRepeat(r, tr, session); again != nil {
		r.Relation, r.Before = Again, again
		return tr.Total
	}
	t.readings(r, tr)
	if len(t.found) == 0 {
		t.findByOutputs(r, tr)
	}
	if !slices.ContainsFunc(t.found, func(f reading) bool { return f.relation.Joins() }) {
		t.findByWords(r, tr, session)
	}
	if len(t.found) == 0 {
		t.findBySummary(r, tr, session)
	}
	t.preferOwnCalls(tr)
	t.preferWaiting(r)
	found := t.found
	defer clear(found)
	if len(found) > 1 {
		for _, f := range found {
			f.request.Run.unclear = true
		}
	}
	if len(found) != 1 {
		return wire.TranscriptCount{}
	}
	before, run, from := found[0].request, found[0].request.Run, found[0].from
	if run.over && from == tr.Total {
		return wire.TranscriptCount{} // the same words again after a while may be anyone's
	}
	r.Relation, r.Before = found[0].relation, before
	switch {
	case !run.over && r.isSummary(before, tr, from):
		r.Relation, r.aside = Fork, true
		r.shortens = run.last == before && before.answer.Result == Failed && before.answer.TooLong
	case before.continued && !run.over && r.Relation.Joins() && run.last.isFailedStepOf(before) &&
		(t.ownCallFollows(before, tr, from) || run.last.saysAgain(r)):
		// The step again, with other outputs or without one.
		r.Relation, r.Before = Again, run.last
	case r.Relation == Step && !run.over && before.undelivered():
		// The outputs come after a further attempt without them.
	case before.continued && !run.last.failedAfter(before):
		r.Relation = Fork
	case r.Relation.Joins() && run.over:
		r.Relation = Next // it came too late
	case r.Relation == Again && before.continued:
		r.Before = run.last // the attempts since then have different parts of the answer
	}
	return from
}

// failedAfter reports whether r is a further attempt of before and has no answer either.
func (r *Request) failedAfter(before *Request) bool {
	for a := r; a != nil && a.Relation == Again; a = a.Before {
		if a.Before == before {
			so := r.soFar()
			return so.Result != Answered
		}
	}
	return false
}

// preferOwnCalls leaves out the readings of requests that were not recorded, if r has a call that another request alone has
// made.
func (t *Tracker) preferOwnCalls(tr *wire.Transcript) {
	if len(t.found) > 1 && slices.ContainsFunc(t.found, func(f reading) bool { return t.ownCallFollows(f.request, tr, f.from) }) {
		t.found = slices.DeleteFunc(t.found, func(f reading) bool { return f.request.answer.Result == Unobserved })
	}
}

// preferWaiting prefers a run that waits for the outputs in r, if the client of r is known to be the same and all other
// readings are of runs that are over or only wait for a repetition. An agent that does a task again, under a model that
// gives the same ids to its calls each time, sends the same histories.
func (t *Tracker) preferWaiting(r *Request) {
	if len(t.found) < 2 || !r.known {
		return
	}
	waiting := slices.IndexFunc(t.found, func(f reading) bool { return f.relation == Step && f.request.awaitsOutputs() })
	if waiting < 0 {
		return
	}
	one := t.found[waiting]
	for i, f := range t.found {
		if run := f.request.Run; i != waiting && !run.over && !run.Answered() {
			return
		}
	}
	clear(t.found)
	t.found = append(t.found[:0], one)
}

// isFailedStepOf reports whether r is the step that continues before, or a further attempt of that step, and has failed.
// Relations that join are not enough: while r is open, its client may still wait for it.
func (r *Request) isFailedStepOf(before *Request) bool {
	if r == nil {
		return false
	}
	if a := r.soFar(); a.Result != Failed && a.Result != Stopped {
		return false
	}
	for r.Relation == Again && r.Before != nil {
		r = r.Before
	}
	return r.Relation == Step && r.Before == before
}

// resume relates r to the request whose stream it goes on with, if that request is known and has ended. The id of the
// response is the only proof: without a body, r has nothing in common with requests that are kin. Both are one attempt, so
// a continuation of the earlier one continues r. It is the next request if the run is over: the answer was that the
// response is queued, or r came too late.
//
// A response that has been read to its end, or that the conversation continues already, is only read once more, maybe by
// another program. That is no part of the run.
func (t *Tracker) resume(r *Request, tr *wire.Transcript) {
	p := t.requestByID(tr.Resumed)
	switch {
	case p == nil || !wire.RandomID(p.answer.ResponseID):
		return
	case p.continued || p.answer.Result == Answered && !p.answer.Queued:
		r.rereads = true
		return
	case p.Run.over || p.Run.last != p:
		r.Relation = Next
	default:
		r.Relation = Again
	}
	r.Before, r.resumes = p, true
	r.kin, r.end, r.opening, r.tools, r.tail, r.trace, r.session = p.kin, p.end, p.opening, p.tools, p.tail, p.trace, p.session
}

// findFullRepeat finds the request that r repeats with the whole history, if the earlier one named a response that the server has
// lost since then. It returns nil if there is no such request, or more than one.
func (t *Tracker) findFullRepeat(r *Request, tr *wire.Transcript, session uint64) (found *Request) {
	c := t.sessions[session]
	if session == 0 || c == nil || tr.Previous != 0 || tr.Tail == 0 || tr.Total.Answers == 0 {
		return nil
	}
	for _, q := range c.requests[:c.n] {
		if q.kin != r.kin || q.Run.over || q.Run.last != q || !q.repeatedBy(r) || q.answer.Result == Answered || !t.hasHistoryOf(tr, q) {
			continue
		}
		if found != nil {
			return nil
		}
		found = q
	}
	return found
}

// hasHistoryOf reports whether a whole history includes the history of q, which named an earlier response. Agents of one
// session say the same things ("go on"), so the new messages in q prove nothing. Turn by turn, the history must have the
// messages of the requests before q: back to the one that had the whole history, or as far as they are known if one of
// their calls is in the history.
func (t *Tracker) hasHistoryOf(tr *wire.Transcript, q *Request) bool {
	tail, proved := tr.Tail, false
	for answers := tr.Total.Answers - 1; ; answers-- {
		if q.tail != tail {
			return false
		}
		for q.Relation == Again && q.Before != nil {
			q = q.Before
		}
		before := q.Before
		if before == nil {
			return proved
		}
		point, ok := pointAfter(tr, answers)
		if !ok {
			return false
		}
		if point.History^before.kin == before.end { // it had the whole history
			w := t.ends[before.end]
			return w.n == 1 && w.first == before && !w.more // no other agent did
		}
		proved = proved || t.ownCallFollows(before, tr, wire.TranscriptCount{})
		q, tail = before, point.Tail
	}
}

// pointAfter returns the point after the user's messages that follow this number of answers.
func pointAfter(tr *wire.Transcript, answers int) (wire.TranscriptPoint, bool) {
	for n := 0; ; n++ {
		if point, ok := tr.Point(n); !ok || point.Before.Answers <= answers {
			return point, ok
		}
	}
}

// reading is an earlier request, and the relation of a later one to it.
type reading struct {
	request  *Request
	relation Relation
	from     wire.TranscriptCount // the history of the earlier request
}

// readings finds the earlier requests that r may repeat, and the requests with the longest history that r may continue.
func (t *Tracker) readings(r *Request, tr *wire.Transcript) {
	if tr.Previous != 0 {
		if p := t.requestByID(tr.Previous); p != nil && p.kin == r.kin {
			a := p.soFar()
			t.add(reading{p, a.relationOf(tr, wire.TranscriptCount{}), wire.TranscriptCount{}})
		}
	}
	for n := 0; ; n++ {
		point, ok := tr.Point(n)
		if !ok || tr.Total.Answers > point.Before.Answers+1 {
			return // with several answers, another request was between them
		}
		twins := t.ends[point.History^r.kin]
		continued := false
		for earlier := twins.first; earlier != nil; earlier = earlier.twin {
			switch {
			case n == 0:
				if !twins.moreOpen && earlier.repeatedBy(r) {
					t.add(reading{earlier, Again, point.Before})
				}
			case twins.more && !t.ownCallFollows(earlier, tr, point.Before):
			default:
				if q, relation := earlier.attemptContinuedBy(tr, &point); q != nil {
					t.add(reading{q, relation, point.Before})
					continued = true
				}
			}
		}
		if continued {
			return
		}
	}
}

// add adds a reading, unless an existing one comes from its request: that one is nearer to the new request. It replaces
// the readings that its own request comes from.
func (t *Tracker) add(f reading) {
	for _, g := range t.found {
		if g.request.comesFrom(f.request) {
			return
		}
	}
	t.found = slices.DeleteFunc(t.found, func(g reading) bool { return f.request.comesFrom(g.request) })
	t.found = append(t.found, f)
}

// comesFrom reports whether r is earlier, or continues or repeats it, directly or through other requests.
func (r *Request) comesFrom(earlier *Request) bool {
	for n := 0; r != nil && n <= maxRequests; n++ {
		if r == earlier {
			return true
		}
		r = r.Before
	}
	return false
}

// repeatedBy reports whether later, which has the same history, may be a further attempt of r.
func (r *Request) repeatedBy(later *Request) bool {
	if r.continued || r.tools != later.tools {
		return false
	}
	if r.trace != 0 && later.trace != 0 && r.trace != later.trace && !r.session {
		return false
	}
	switch a := r.soFar(); a.Result {
	case Failed, Stopped, Unobserved, Redirected:
		return true
	case Answered:
		return later.known && !r.Run.over
	case Pending:
		// A gateway may learn later than by the next request that its client has left. Without an id of the client it may
		// be another agent with the same words.
		return r.session && later.began-r.began >= int64(minStall)
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

// attemptContinuedBy returns the attempt that is continued by a request with r's history up to this point and more: r
// itself, or an attempt before r that failed after it had handed calls over. An agent that made them while it sent r has
// their outputs afterwards. It returns nil if the request cannot have come from either.
func (r *Request) attemptContinuedBy(tr *wire.Transcript, point *wire.TranscriptPoint) (*Request, Relation) {
	if relation, ok := r.continuedBy(tr, point); ok {
		return r, relation
	}
	for n := 0; r.Relation == Again && r.Before != nil && n < maxRequests; n++ {
		if r = r.Before; !r.undelivered() || r.Run.over {
			continue
		}
		if relation, ok := r.continuedBy(tr, point); ok && relation == Step {
			return r, Step
		}
	}
	return nil, 0
}

// continuedBy returns the relation of a request that has r's history up to this point and more. It reports false if the
// request cannot have come from r's answer.
func (r *Request) continuedBy(tr *wire.Transcript, point *wire.TranscriptPoint) (Relation, bool) {
	a := r.soFar()
	if a.Result == Pending {
		return 0, false
	}
	calls := tr.Total.Calls > point.Before.Calls || tr.Total.Outputs > point.Before.Outputs
	switch {
	case !calls:
	case a.Result == Unobserved: // it may have made any
	case (a.Result == Failed || a.Result == Stopped) && hasAll(a.Began, tr, point):
	case !a.waits() || !a.namesCalls(tr, point):
		return 0, false // its answer had no calls, or others
	}
	if a.Result == Failed && !a.Text && !calls && tr.Total.Answers > point.Before.Answers {
		return 0, false // there was no text to append
	}
	return a.relationOf(tr, point.Before), true
}

// namesCalls reports whether the calls of an answer are among the calls after the point.
func (a *Answer) namesCalls(tr *wire.Transcript, point *wire.TranscriptPoint) bool {
	return tr.Total.Calls-point.Before.Calls >= len(a.Calls) && hasAll(a.Calls, tr, point) || len(a.Calls) == 0
}

// hasAll reports whether there are calls, and all of them that have ids are among the calls after the point.
func hasAll(calls []Call, tr *wire.Transcript, point *wire.TranscriptPoint) bool {
	for i := range calls {
		if id := wire.TranscriptID(calls[i].ID); id != 0 && !hasCall(tr, point.Before.Calls, id) {
			return false
		}
	}
	return len(calls) > 0
}

// hasCall reports whether a call with this id follows. A history that is longer than its kept part may have it.
func hasCall(tr *wire.Transcript, from int, id uint64) bool {
	for n := tr.Total.Calls - 1; n >= from; n-- {
		if c, ok := tr.Call(n); !ok || c.Is(id) {
			return true
		}
	}
	return false
}

// relationOf returns the relation of a request that continues one with this answer and this history.
func (a *Answer) relationOf(tr *wire.Transcript, before wire.TranscriptCount) Relation {
	outputs := tr.Total.Outputs > before.Outputs
	users := tr.Total.Users > before.Users
	switch {
	case outputs && (len(a.Calls) > 0 || a.Unnamed || a.Result == Unobserved):
		return Step
	case a.Result == Failed:
		return Again // with the received part of the answer, and a request to go on
	case (a.Result == Stopped || a.Result == Unobserved) && !users:
		return Again
	case a.Result == Answered && a.waits() && !users:
		return Step
	default:
		return Next
	}
}

// findByOutputs finds the request that made the calls whose outputs r has, if the history before them was edited or summarized.
// The id must be one that no other agent has by accident, and either the instructions or the tools must be the same.
func (t *Tracker) findByOutputs(r *Request, tr *wire.Transcript) {
	for n := tr.Total.Outputs - 1; n >= tr.Answered.Outputs; n-- {
		out, ok := tr.Output(n)
		if !ok {
			return
		}
		id := out.ID
		maker := t.requestByID(id)
		if maker == nil {
			id = out.Stem
			maker = t.requestByID(id)
		}
		if maker == nil || maker.sender != r.sender || !maker.handedOutUnique(id) {
			continue
		}
		if maker.kin == r.kin && (maker.opening == r.opening || maker.tools == r.tools && r.tools != 0) || maker.sameAgent(r) {
			t.found = append(t.found, reading{maker, Step, maker.madeBefore(tr)})
		}
		return
	}
}

// madeBefore returns the counts of a history before the calls of r, which are in its last answer.
func (r *Request) madeBefore(tr *wire.Transcript) wire.TranscriptCount {
	from := tr.Answered
	for from.Calls > 0 {
		c, ok := tr.Call(from.Calls - 1)
		if !ok || !r.handedOut(c.ID) && !r.handedOut(c.Stem) {
			break
		}
		from.Calls--
	}
	return from
}

// requestByID returns the only request whose response handed out an id, or nil.
func (t *Tracker) requestByID(id uint64) *Request {
	if h := t.ids[id]; id != 0 && h.holders == 1 {
		return h.request
	}
	return nil
}

// ownCallFollows reports whether a call after from is of r alone.
func (t *Tracker) ownCallFollows(r *Request, tr *wire.Transcript, from wire.TranscriptCount) bool {
	for n := from.Calls; n < tr.Total.Calls; n++ {
		c, ok := tr.Call(n)
		if !ok {
			continue
		}
		for _, id := range [...]uint64{c.ID, c.Stem} {
			if id != 0 && t.requestByID(id) == r && r.handedOutUnique(id) {
				return true
			}
		}
	}
	return false
}

// handedOut reports whether r made a call with this id.
func (r *Request) handedOut(id uint64) bool {
	return id != 0 && slices.ContainsFunc(r.answer.Calls, func(c Call) bool { return wire.TranscriptID(c.ID) == id })
}

// handedOutUnique reports whether r made a call with this id, and the id looks random.
func (r *Request) handedOutUnique(id uint64) bool {
	return id != 0 && slices.ContainsFunc(r.answer.Calls, func(c Call) bool { return wire.RandomID(c.ID) && wire.TranscriptID(c.ID) == id })
}

// observeSteps returns the calls that a request shows of the one before it, whose history ends at from, and calls of
// attempts before that one which were handed over before the attempt failed.
func observeSteps(before *Request, tr *wire.Transcript, from wire.TranscriptCount) []Observed {
	a := before.soFar()
	list := observe(a.Calls, tr, from)
	for n := 0; before.Relation == Again && before.Before != nil && n < maxRequests; n++ {
		if before = before.Before; !before.undelivered() {
			continue
		}
		for _, o := range observe(before.answer.Calls, tr, from) {
			if o.Sent && o.ID != "" {
				list = append(list, o)
				before.returned = true
			}
		}
	}
	return list
}

// observe returns the calls that a request shows of the one before it, whose history ends at from.
func observe(calls []Call, tr *wire.Transcript, from wire.TranscriptCount) []Observed {
	first := max(from.Outputs, tr.Total.Outputs-wire.MaxIDs)
	var all [wire.MaxIDs]bool
	taken := all[:max(0, tr.Total.Outputs-first)]
	list := make([]Observed, 0, len(calls))
	unnamed := 0
	for _, c := range calls {
		o := Observed{Call: c}
		if c.ID == "" {
			unnamed++
		} else {
			id := wire.TranscriptID(c.ID)
			for i := range taken {
				if out, ok := tr.Output(first + i); ok && (out.ID == id || out.Stem == id) && !taken[i] {
					o.Sent, o.Result, taken[i] = true, out.Result, true
					break
				}
			}
		}
		list = append(list, o)
	}
	if !slices.Contains(taken, true) && len(taken) == len(calls) {
		unnamed = len(calls) // their ids were renamed, if they had any
	}
	if unnamed == 0 {
		return list
	}
	// The outputs that no id has matched are in the order of the calls without ids. Clients may have given these an id of
	// their own.
	unmatched := 0
	for _, t := range taken {
		if !t {
			unmatched++
		}
	}
	if unmatched > 0 && unmatched != unnamed {
		return slices.DeleteFunc(list, func(o Observed) bool { return o.ID == "" })
	}
	at := 0
	for i := range list {
		if unmatched == 0 || list[i].ID != "" && unnamed < len(calls) {
			continue
		}
		for taken[at] {
			at++
		}
		out, _ := tr.Output(first + at)
		list[i].Sent, list[i].Result = true, out.Result
		at++
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

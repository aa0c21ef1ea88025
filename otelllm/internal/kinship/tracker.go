package kinship

import (
	"container/heap"
	"math"
	"slices"
	"time"
	"unsafe"

	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// Tracker remembers the requests of a process and finds the kin of each new one. It is not safe for concurrent use.
type Tracker struct {
	config        Config
	conversations int
	newest        *Conversation // the most recently used one
	oldest        *Conversation
	sessions      map[uint64]*Conversation
	ends          map[uint64]twins    // by Request.end
	ids           map[uint64]idHolder // the ids that responses handed out
	due           deadlines
	bytes         int
	ended         []Ended   // by the current call
	found         []reading // by the current call of relate
}

// twins are the requests with the same history. Requests that were continued, or whose run is over, stay among them: a
// request that continues a twin may continue them instead.
type twins struct {
	first *Request // the oldest; the others follow by Request.twin
	n     int32
	// more: there were more than maxTwins, or a waiting one was evicted, so that the history alone does not identify the
	// twin that a request continues. moreOpen: the missing twin may also be repeated, so that the history does not identify
	// the repeated one.
	more, moreOpen bool
}

// idHolder is the request whose response handed out an id.
type idHolder struct {
	request *Request
	holders int // more than one: the id tells nothing
}

// NewTracker returns a Tracker that has seen nothing.
func NewTracker(c Config) *Tracker {
	return &Tracker{config: c, sessions: map[uint64]*Conversation{}, ends: map[uint64]twins{}, ids: map[uint64]idHolder{}}
}

// Sizes in memory, in bytes. An entry of a map has 24 bytes. It takes about three times as many, because tables are half
// empty after they grew, and keep the places of deleted entries.
const (
	entrySize        = 80
	conversationSize = int(unsafe.Sizeof(Conversation{}))
	sessionSize      = entrySize
	runSize          = int(unsafe.Sizeof(Run{}))
	requestSize      = int(unsafe.Sizeof(Request{})) + entrySize // with its entry in ends
	callSize         = int(unsafe.Sizeof(Call{}))
	stringSize       = 8 // more than its length, on average
)

// Begin adds a request that is being sent. Live returns how the request would end now. Later calls of Begin call it while
// the request is pending; nil: that is not known.
func (t *Tracker) Begin(now time.Time, s Sent, live func() Answer) Begun {
	t.ended = nil
	t.expire(now)
	tr := s.Transcript
	r := &Request{
		live: live, opening: tr.Opening, tools: tr.Tools, trace: s.Trace, forced: tr.Forced, began: now.UnixNano(),
		kin: kin(s.Client+tr.Client, s.Session), session: s.Session != 0, Attempt: 1, size: int32(requestSize),
		sender: kin(s.Client, s.Session), voice: tr.Voice, offers: tr.Offers, known: s.Session != 0 || t.config.Alone, affine: s.Affine,
	}
	if end, ok := tr.Point(0); ok {
		r.end, r.words, r.answers = end.History^r.kin, end.Words, int32(min(tr.Total.Answers, math.MaxInt32))
	}
	if tr.Previous != 0 && tr.Total.Answers == 0 {
		r.tail = tr.Tail
	}
	from := t.relate(r, tr, s.Session) // the history of the request before r
	b := Begun{Request: r}
	if r.Relation == Step {
		b.Observed = observeSteps(r.Before, tr, from)
	} else {
		b.MadeUp = t.madeUp(tr)
	}
	if !r.Relation.Joins() {
		b.Previous = t.previous(r, s.Session)
	}
	t.join(r, s.Session)
	c := r.Run.conversation
	c.acted = c.acted || tr.Total.Outputs > 0
	if r.Relation == Step {
		r.Run.countStep(tr, from)
	}
	t.makeRoom()
	b.Ended = t.ended
	return b
}

// kin hashes the facts that clients which are kin have in common.
func kin(client, session uint64) uint64 {
	return client*0x9e3779b97f4a7c15 + session*0xd1b54a32d192ed03
}

// join adds r to the run of the request before it, or to a new one.
func (t *Tracker) join(r *Request, session uint64) {
	before := r.Before
	if r.Relation.Joins() {
		r.Run = before.Run
		r.Run.unclear = false // if others might have continued it, they have not
	} else {
		c := t.conversationOf(r, session)
		if r.Run = &c.first; c.first.conversation != nil {
			r.Run = &Run{}
			r.size += int32(runSize)
		}
		r.Run.conversation, r.Run.slot = c, -1
	}
	r.aside = r.aside || before != nil && !r.Relation.Joins() && before.awaitsOutputs()
	if r.shortens {
		t.schedule(before.Run, time.Unix(0, r.began).Add(t.config.Idle)) // the summary may take long
	}
	if r.Relation == Next && before.Run.last == before && before.Run.open == 0 && !r.aside {
		t.finish(before.Run, t.why(before.Run)) // nothing more comes of it
	}
	if r.Relation == Again {
		if r.Attempt = before.Attempt + 1; before.answer.Result == Redirected {
			r.Attempt = before.Attempt // to the place that it was redirected to
		}
	}
	if before != nil {
		before.continued = before.continued || !r.aside
		before.returned = before.returned || r.Relation == Step
	}
	run := r.Run
	run.last = r
	run.open++
	t.schedule(run, time.Time{})
	t.bytes += int(r.size)
	if r.end != 0 {
		t.addTwin(r)
	}
	c := run.conversation
	if c.n == maxRequests {
		i := max(0, c.spare())
		q := c.requests[i]
		copy(c.requests[i:], c.requests[i+1:])
		c.n--
		t.forget(q)
	}
	c.requests[c.n] = r
	c.n++
	t.use(c)
}

// awaitsOutputs reports whether the run of r waits for a request with the outputs of r's calls. A summary or a fork that
// goes on from r without them does not end that.
func (r *Request) awaitsOutputs() bool {
	a := &r.answer
	return !r.Run.over && r.Run.last == r && a.Result == Answered && (len(a.Calls) > 0 || a.Unnamed)
}

// spare returns the index of the oldest request that no run waits at, or else of one whose run only waits for a repetition
// of its answer, or -1.
func (c *Conversation) spare() int {
	if i := slices.IndexFunc(c.requests[:c.n], func(q *Request) bool { return q.Run.over || q.Run.last != q }); i >= 0 {
		return i
	}
	return slices.IndexFunc(c.requests[:c.n], func(q *Request) bool { return q.Run.Answered() })
}

// conversationOf returns the conversation of a new run: the one that it continues, or that of its session. If too many runs
// wait in that one, it is a new one.
func (t *Tracker) conversationOf(r *Request, session uint64) *Conversation {
	c := t.sessions[session]
	if r.Before != nil {
		c = r.Before.Run.conversation
	}
	if c != nil && (c.n < maxRequests || c.spare() >= 0) {
		return c
	}
	c = &Conversation{session: session}
	t.conversations++
	t.bytes += t.size(c)
	if session != 0 {
		t.sessions[session] = c
	}
	return c
}

// size is the memory of c without its requests.
func (t *Tracker) size(c *Conversation) int {
	size := conversationSize + t.config.DataBytes
	if c.session != 0 {
		size += sessionSize
	}
	return size
}

// use makes c the most recently used conversation.
func (t *Tracker) use(c *Conversation) {
	if t.newest == c {
		return
	}
	t.unlink(c)
	if c.older = t.newest; c.older != nil {
		c.older.newer = c
	} else {
		t.oldest = c
	}
	t.newest = c
}

// unlink removes c from the order of use, if it is there.
func (t *Tracker) unlink(c *Conversation) {
	if c.newer != nil {
		c.newer.older = c.older
	} else if t.newest == c {
		t.newest = c.older
	}
	if c.older != nil {
		c.older.newer = c.newer
	} else if t.oldest == c {
		t.oldest = c.newer
	}
	c.newer, c.older = nil, nil
}

func (t *Tracker) addTwin(r *Request) {
	w := t.ends[r.end]
	if r.Relation == Again && w.replace(r.Before, r) {
		t.ends[r.end] = w // r replaces r.Before in every reading
		return
	}
	if w.n == maxTwins {
		w.more = true
		w.moreOpen = w.moreOpen || !w.first.Run.over
		w.remove(w.first)
	}
	w.add(r)
	t.ends[r.end] = w
}

func (w *twins) add(r *Request) {
	at := &w.first
	for *at != nil {
		at = &(*at).twin
	}
	*at = r
	w.n++
}

func (w *twins) remove(r *Request) {
	for at := &w.first; *at != nil; at = &(*at).twin {
		if *at == r {
			*at, r.twin = r.twin, nil
			w.n--
			return
		}
	}
}

// replace reports whether old was there.
func (w *twins) replace(old, r *Request) bool {
	for at := &w.first; *at != nil; at = &(*at).twin {
		if *at == old {
			*at, r.twin, old.twin = r, old.twin, nil
			return true
		}
	}
	return false
}

// forget removes a request from the indexes. A run ends with its newest request, so that the memory of runs is bounded,
// too.
func (t *Tracker) forget(r *Request) {
	r.gone = true
	c := r.Run.conversation
	waited := !r.Run.over && r.Run.last == r
	if r.Run.last == r {
		t.finish(r.Run, Evicted)
		r.Run.last = nil
	}
	t.bytes -= int(r.size)
	if w, ok := t.ends[r.end]; ok {
		if waited { // a request that belongs to r must not go to a twin
			w.more, w.moreOpen = true, true
		}
		if w.remove(r); w.n == 0 {
			delete(t.ends, r.end)
		} else {
			t.ends[r.end] = w
		}
	}
	if !r.ended.IsZero() {
		t.dropIDs(r)
	}
	// No kept request may keep r in memory, nor r an earlier one.
	r.Before = nil
	for _, q := range c.requests[:c.n] {
		if q.Before == r {
			q.Before = nil
		}
	}
}

// dropIDs removes the ids that the response of r handed out.
func (t *Tracker) dropIDs(r *Request) {
	r.eachID(func(id uint64) {
		h := t.ids[id]
		if h.holders--; h.holders == 0 {
			delete(t.ids, id)
			return
		}
		if h.request == r {
			h.request = nil
		}
		t.ids[id] = h
	})
}

// eachID calls f with each id that r's response handed out.
func (r *Request) eachID(f func(uint64)) {
	if id := wire.TranscriptID(r.answer.ResponseID); id != 0 {
		f(id)
	}
	for _, calls := range [...][]Call{r.answer.Calls, r.answer.Began} {
		for i := range calls {
			if id := wire.TranscriptID(calls[i].ID); id != 0 {
				f(id)
			}
		}
	}
}

// End takes how a request ended. Calls after the first change nothing. Ended is the run, if it is over by that.
func (t *Tracker) End(now time.Time, r *Request, a Answer) (ended []Ended) {
	if !r.ended.IsZero() {
		return nil
	}
	t.ended = nil
	run := r.Run
	if len(a.Calls) > wire.MaxIDs {
		a.Calls, a.Unnamed = slices.Clone(a.Calls[:wire.MaxIDs]), true
	}
	a.Began = slices.Clone(a.Began[:min(len(a.Began), wire.MaxIDs)])
	if p := r.Before; r.resumes && p != nil && !p.gone {
		a = t.takeOver(p, a)
	}
	if r.rereads { // the ids stay with the other request, and nothing more comes of this one
		a.ResponseID, a.Calls, a.Began, a.Unnamed = "", nil, nil, false
	}
	if len(a.Calls) > 0 || a.Unnamed {
		run.conversation.acted = true
	}
	r.answer, r.ended, r.live = a, now, nil
	run.open--
	if a.Result != Answered {
		run.countFailure(a.Way)
	} else {
		run.way = ""
	}
	if !r.gone {
		grown := len(a.ResponseID) + len(a.Way) + 2*stringSize
		for _, c := range slices.Concat(a.Calls, a.Began) {
			grown += callSize + len(c.ID) + len(c.Name) + 2*stringSize
		}
		r.eachID(func(id uint64) {
			grown += entrySize
			h := t.ids[id]
			if h.holders == 0 {
				h.request = r
			}
			h.holders++
			t.ids[id] = h
		})
		r.size += int32(grown)
		t.bytes += grown
	}
	if !run.over && run.open == 0 {
		t.decide(now, run)
	}
	if before := r.Before; r.shortens && before != nil && !before.Run.over && before.Run.last == before {
		t.decide(now, before.Run)
	}
	t.makeRoom()
	return t.ended
}

// takeOver adds the beginning of an answer, which an earlier request had, to the answer. From then on the ids of both
// belong to the later request.
func (t *Tracker) takeOver(p *Request, a Answer) Answer {
	was := p.answer
	t.dropIDs(p)
	p.answer.ResponseID, p.answer.Calls, p.answer.Began = "", nil, nil
	if a.ResponseID == "" {
		a.ResponseID = was.ResponseID
	}
	calls := slices.Clone(was.Calls)
	for _, c := range a.Calls {
		if c.ID == "" || !slices.ContainsFunc(calls, func(o Call) bool { return o.ID == c.ID }) {
			calls = append(calls, c)
		}
	}
	if a.Calls = calls; len(calls) > wire.MaxIDs {
		a.Calls, a.Unnamed = calls[:wire.MaxIDs], true
	}
	a.Unnamed, a.Text = a.Unnamed || was.Unnamed, a.Text || was.Text
	return a
}

// decide ends a run without pending requests, or lets it wait.
func (t *Tracker) decide(now time.Time, run *Run) {
	switch a := &run.last.answer; {
	case a.Result == Unobserved && run.last.session:
		t.schedule(run, now.Add(t.config.Idle))
	case a.Result != Answered:
		t.schedule(run, now.Add(t.config.Settle))
	case a.waits():
		t.schedule(run, now.Add(t.config.Idle))
	case run.owes():
		t.schedule(run, now.Add(t.config.Settle))
	case run.last.known && t.config.Repeat > 0:
		t.schedule(run, now.Add(t.config.Repeat))
	default:
		t.finish(run, Finished)
	}
}

// owes reports whether a failed attempt of the run had handed calls over whose outputs no request has: the agent may have
// made the calls, and send their outputs with its next request.
func (run *Run) owes() bool {
	c := run.conversation
	return slices.ContainsFunc(c.requests[:c.n], func(q *Request) bool { return q.Run == run && q.undelivered() })
}

// undelivered reports whether r failed after it had handed calls over, and no later request has their outputs.
func (r *Request) undelivered() bool {
	return len(r.answer.Calls) > 0 && !r.returned && (r.answer.Result == Failed || r.answer.Result == Stopped)
}

// Keep sets how many bytes the caller keeps for a run until it is over, besides the tracker's own memory. They count for
// [Config.MaxBytes]. It returns the runs that this leaves no room for.
func (t *Tracker) Keep(run *Run, bytes int) []Ended {
	t.ended = nil
	if !run.over {
		t.bytes += bytes - run.kept
		run.kept = bytes
		t.makeRoom()
	}
	return t.ended
}

// Bytes returns the bytes that count for [Config.MaxBytes].
func (t *Tracker) Bytes() int { return t.bytes }

// finish ends a run.
func (t *Tracker) finish(run *Run, why Reason) {
	if run.over {
		return
	}
	if run.Answered() {
		why = Finished // it only waited for a repetition
	}
	run.over = true
	t.bytes -= run.kept
	run.kept = 0
	t.schedule(run, time.Time{})
	t.ended = append(t.ended, Ended{run, why})
}

// Answered reports whether the last request of the run has its answer, and that asks for nothing more. A run that is not
// over then only waits for a repetition.
func (run *Run) Answered() bool {
	return run.open == 0 && run.last != nil && !run.last.ended.IsZero() && run.last.answer.finished()
}

// Expire ends the runs whose time to wait is over.
func (t *Tracker) Expire(now time.Time) []Ended {
	t.ended = nil
	t.expire(now)
	return t.ended
}

func (t *Tracker) expire(now time.Time) {
	for len(t.due) > 0 && !t.due[0].deadline.After(now) {
		t.finish(t.due[0], t.why(t.due[0]))
	}
}

// why returns why a run without pending requests is over.
func (t *Tracker) why(run *Run) Reason {
	a := &run.last.answer
	w := t.ends[run.last.end]
	switch {
	case a.finished():
		return Finished
	case run.unclear, a.Result == Unobserved, a.Result == Redirected:
		return Unclear
	case a.Result != Answered:
		if w.moreOpen || w.more && a.Text {
			return Unclear
		}
		return Broken
	case run.last.forced && len(a.Calls) > 0:
		return Finished // the client wanted the call's input alone
	case w.more || len(a.Calls) == 0:
		return Unclear
	default:
		return Idle
	}
}

// Deadline returns when Expire has to be called next. It reports false while nothing waits.
func (t *Tracker) Deadline() (time.Time, bool) {
	if len(t.due) == 0 {
		return time.Time{}, false
	}
	return t.due[0].deadline, true
}

// Shutdown ends all runs and forgets everything.
func (t *Tracker) Shutdown() []Ended {
	t.ended = nil
	for t.oldest != nil {
		t.evict(t.oldest)
	}
	return t.ended
}

// makeRoom removes the conversations that have been quiet for longest, while there are too many.
func (t *Tracker) makeRoom() {
	for t.conversations > 1 && (t.conversations > t.config.MaxConversations || t.bytes > t.config.MaxBytes) {
		t.evict(t.oldest)
	}
}

func (t *Tracker) evict(c *Conversation) {
	t.unlink(c)
	t.conversations--
	t.bytes -= t.size(c)
	if t.sessions[c.session] == c {
		delete(t.sessions, c.session)
	}
	for c.n > 0 {
		c.n--
		r := c.requests[c.n]
		c.requests[c.n] = nil
		t.forget(r)
	}
}

// schedule sets the deadline of a run; the zero time removes it.
func (t *Tracker) schedule(run *Run, at time.Time) {
	run.deadline = at
	switch {
	case at.IsZero() && run.slot >= 0:
		heap.Remove(&t.due, run.slot)
	case at.IsZero():
	case run.slot >= 0:
		heap.Fix(&t.due, run.slot)
	default:
		heap.Push(&t.due, run)
	}
}

// deadlines is a heap of the runs that wait.
type deadlines []*Run

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].deadline.Before(d[j].deadline) }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].slot, d[j].slot = i, j
}

// Push implements heap.Interface.
func (d *deadlines) Push(x any) {
	run := x.(*Run) //nolint:forcetypeassert // it holds nothing else
	run.slot = len(*d)
	*d = append(*d, run)
}

// Pop implements heap.Interface.
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	run := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	run.slot = -1
	return run
}

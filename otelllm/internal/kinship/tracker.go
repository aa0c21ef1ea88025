package kinship

import (
	"container/heap"
	"container/list"
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// Tracker remembers the requests of a process and finds the kin of each new one. It is not
// safe for concurrent use.
type Tracker struct {
	config   Config
	quiet    *list.List // conversations; the one that was used last is at the front
	sessions map[uint64]*Conversation
	ends     map[uint64]*twins    // by Request.end
	ids      map[uint64]*idHolder // the ids that responses handed out
	due      deadlines
	bytes    int
	ended    []Ended // by the call that is going on
}

// twins are the requests with the same history. Requests that were continued, or whose run
// is over, stay among them: they are another reading of what continues the others.
type twins struct {
	list []*Request
	more bool // there were more than maxTwins: nothing is told by the history alone
}

// idHolder is the request whose response handed out an id.
type idHolder struct {
	request *Request
	holders int // more than one: the id tells nothing
}

// NewTracker returns a Tracker that has seen nothing.
func NewTracker(c Config) *Tracker {
	return &Tracker{
		config: c, quiet: list.New(),
		sessions: map[uint64]*Conversation{}, ends: map[uint64]*twins{}, ids: map[uint64]*idHolder{},
	}
}

// Approximate sizes in memory, in bytes, with their entries in the maps.
const (
	conversationSize = 320
	runSize          = 192
	requestSize      = 416
	idSize           = 112
)

// Begin adds a request that is being sent. Live returns how the request would end now. It
// is called by later calls of Begin while the request is pending; nil: that is not known.
func (t *Tracker) Begin(now time.Time, s Sent, live func() Answer) Begun {
	t.ended = nil
	t.expire(now)
	tr := s.Transcript
	r := &Request{
		live: live, opening: tr.Opening, tools: tr.Tools, forced: tr.Forced,
		client: s.Client + tr.Client, session: s.Session, Attempt: 1, size: requestSize,
	}
	var from wire.TranscriptCount // what the request before r had
	if end, ok := tr.Point(0); ok {
		r.end = end.History
		from = t.relate(r, tr)
	}
	b := Begun{Request: r}
	if r.Relation == Step {
		b.Observed = observe(r.Before.soFar().Calls, tr, from)
	}
	t.join(r)
	if r.Relation == Step {
		r.Run.countStep(tr, from)
	}
	t.makeRoom()
	b.Ended = t.ended
	return b
}

// join adds r to the run of the request before it, or to a new one.
func (t *Tracker) join(r *Request) {
	c := t.conversationOf(r)
	if r.Relation.Joins() {
		r.Run = r.Before.Run
		r.Run.unclear = false // if others might have continued it, they have not
	} else {
		r.Run = &Run{conversation: c, slot: -1}
		r.size += runSize
	}
	if r.Relation == Again {
		r.Attempt = r.Before.Attempt + 1
	}
	if r.Before != nil && r.Before.heir == nil {
		r.Before.heir = r
	}
	run := r.Run
	run.last = r
	run.open++
	t.schedule(run, time.Time{})
	c.requests = append(c.requests, r)
	t.bytes += r.size
	if r.end != 0 {
		t.addTwin(r)
	}
	if len(c.requests) > maxRequests {
		// The oldest one that no run waits at.
		i := max(0, slices.IndexFunc(c.requests, func(q *Request) bool { return q.Run.over || q.Run.last != q }))
		q := c.requests[i]
		c.requests = slices.Delete(c.requests, i, i+1)
		t.forget(q)
	}
	t.quiet.MoveToFront(c.element)
}

// conversationOf returns the conversation that r continues, or a new one.
func (t *Tracker) conversationOf(r *Request) *Conversation {
	c := t.sessions[r.session]
	if r.Before != nil {
		c = r.Before.Run.conversation
	}
	if c == nil {
		c = &Conversation{session: r.session}
		c.element = t.quiet.PushFront(c)
		t.bytes += conversationSize
		if r.session != 0 {
			t.sessions[r.session] = c
		}
	}
	return c
}

func (t *Tracker) addTwin(r *Request) {
	w := t.ends[r.end]
	if w == nil {
		w = &twins{}
		t.ends[r.end] = w
	}
	if r.Relation == Again {
		if i := slices.Index(w.list, r.Before); i >= 0 {
			w.list[i] = r // which is another reading of nothing that r is not
			return
		}
	}
	if len(w.list) == maxTwins {
		w.more = true
		for _, other := range w.list {
			other.Run.unclear = true
		}
		w.list = slices.Delete(w.list, 0, 1)
	}
	if w.more {
		r.Run.unclear = true
	}
	w.list = append(w.list, r)
}

// forget removes a request from the indexes. A run ends with its newest request, so that
// what is kept of runs is bounded too.
func (t *Tracker) forget(r *Request) {
	r.gone, r.Before = true, nil // what was before it may go
	if r.Run.last == r {
		t.finish(r.Run, Evicted)
	}
	t.bytes -= r.size
	if w := t.ends[r.end]; w != nil {
		if i := slices.Index(w.list, r); i >= 0 {
			w.list = slices.Delete(w.list, i, i+1)
		}
		if len(w.list) == 0 {
			delete(t.ends, r.end)
		}
	}
	if r.ended.IsZero() {
		return
	}
	r.eachID(func(id uint64) {
		if h := t.ids[id]; h != nil {
			if h.holders--; h.holders == 0 {
				delete(t.ids, id)
			} else if h.request == r {
				h.request = nil
			}
		}
	})
}

// eachID calls f with each id that r's response handed out.
func (r *Request) eachID(f func(uint64)) {
	if id := wire.TranscriptID(r.answer.ResponseID); id != 0 {
		f(id)
	}
	for _, c := range r.answer.Calls {
		if id := wire.TranscriptID(c.ID); id != 0 {
			f(id)
		}
	}
}

// End takes how a request ended. Calls after the first change nothing. Ended is the run, if
// it is over by that.
func (t *Tracker) End(now time.Time, r *Request, a Answer) (ended []Ended) {
	if !r.ended.IsZero() {
		return nil
	}
	t.ended = nil
	run := r.Run
	if len(a.Calls) > wire.MaxIDs {
		a.Calls, a.Unnamed = a.Calls[:wire.MaxIDs:wire.MaxIDs], true
	}
	r.answer, r.ended, r.live = a, now, nil
	run.open--
	if a.Result != Answered {
		run.countFailure(a.Way)
	} else {
		run.way = ""
	}
	if !r.gone {
		grown := 0
		r.eachID(func(id uint64) {
			grown += idSize
			h := t.ids[id]
			if h == nil {
				h = &idHolder{request: r}
				t.ids[id] = h
			}
			h.holders++
		})
		r.size += grown
		t.bytes += grown
	}
	if !run.over && run.open == 0 {
		t.decide(now, run)
	}
	t.makeRoom()
	return t.ended
}

// decide ends a run of which no request is pending, or lets it wait.
func (t *Tracker) decide(now time.Time, run *Run) {
	switch a := &run.last.answer; {
	case a.Result != Answered:
		t.schedule(run, now.Add(t.config.Settle))
	case a.waits():
		t.schedule(run, now.Add(t.config.Idle))
	default:
		t.finish(run, Finished)
	}
}

// finish ends a run.
func (t *Tracker) finish(run *Run, why Reason) {
	if run.over {
		return
	}
	run.over = true
	t.schedule(run, time.Time{})
	t.ended = append(t.ended, Ended{run, why})
}

// Expire ends the runs whose time to wait is over.
func (t *Tracker) Expire(now time.Time) []Ended {
	t.ended = nil
	t.expire(now)
	return t.ended
}

func (t *Tracker) expire(now time.Time) {
	for len(t.due) > 0 && !t.due[0].deadline.After(now) {
		run := t.due[0]
		a := &run.last.answer
		why := Idle
		switch {
		case run.unclear:
			why = Unclear
		case a.Result != Answered:
			why = Broken
		case run.last.forced && len(a.Calls) > 0:
			why = Finished // the call's input was all that the client wanted
		case len(a.Calls) == 0:
			why = Unclear
		}
		t.finish(run, why)
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
	for t.quiet.Len() > 0 {
		t.evict(t.quiet.Back().Value.(*Conversation)) //nolint:forcetypeassert // it holds nothing else
	}
	return t.ended
}

// makeRoom removes the conversations that have been quiet for longest, while there are too
// many.
func (t *Tracker) makeRoom() {
	for t.quiet.Len() > 1 && (t.quiet.Len() > t.config.MaxConversations || t.bytes > t.config.MaxBytes) {
		t.evict(t.quiet.Back().Value.(*Conversation)) //nolint:forcetypeassert // it holds nothing else
	}
}

func (t *Tracker) evict(c *Conversation) {
	t.quiet.Remove(c.element)
	t.bytes -= conversationSize
	if t.sessions[c.session] == c {
		delete(t.sessions, c.session)
	}
	for _, r := range c.requests {
		t.forget(r)
	}
	c.requests = nil
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

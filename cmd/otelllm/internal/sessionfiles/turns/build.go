package turns

import (
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
)

// builder makes turns of events.
type builder struct {
	profile Profile
	turns   []*Turn
	model   string
	last    time.Time        // of any event
	edge    time.Time        // when the turn began, or the last event of a request or a tool
	calls   map[string]*Call // of the turn, by id

	returned []*Call // whose outputs no request has carried yet

	launched map[string]launched // calls of earlier turns whose tools go on, by id
}

// launched is a call whose tool goes on after its turn.
type launched struct {
	turn *Turn
	call *Call
}

// end says how the tool ended. The model has seen in the turn that it was launched.
func (l launched) end(o event.Outcome) {
	l.call.Returned, l.call.Carried, l.call.Outcome = true, true, o
	for _, r := range l.turn.Requests {
		if slices.Contains(r.Known, l.call) {
			r.Carried = append(r.Carried, l.call)
		}
	}
}

// Build returns the turns of a session, in order.
func Build(log *event.Log, p Profile) []*Turn {
	b := &builder{profile: p}
	for i := range log.Events {
		b.take(&log.Events[i])
	}
	for i, t := range b.turns {
		t.Next = i < len(b.turns)-1
		b.conclude(t)
		b.subAgents(t, log)
	}
	if len(b.turns) > 0 && log.Partial {
		b.turns[0].Partial = true
	}
	return b.turns
}

// take adds an event.
func (b *builder) take(e *event.Event) {
	if e.Time.IsZero() || e.Time.Before(b.last) {
		e.Time = b.last // what was written later did not happen earlier
	}
	b.last = e.Time
	switch e.Kind {
	case event.Turn:
		b.begin(e)
		return
	case event.Model:
		b.model = e.Name
		if t := b.turn(); t != nil && t.Model == "" {
			t.Model = e.Name
		}
		return
	}
	if l, ok := b.launched[e.ID]; ok && e.Kind == event.Output && b.calls[e.ID] == nil {
		delete(b.launched, e.ID)
		l.end(e.Outcome)
		return
	}
	t := b.turn()
	if (e.Kind == event.Ended || e.Kind == event.Aborted) && t != nil && t.ID != "" && e.Turn != "" && t.ID != e.Turn {
		b.endEarlier(e)
		return
	}
	if t == nil && e.Kind == event.MaybeOwed {
		return // nothing was asked yet
	}
	if t == nil || t.over() && b.goesOn(e) {
		t = b.begin(e)
		t.Partial = true // its beginning is not here
	}
	t.End = e.Time
	if t.Model == "" {
		t.Model = b.model
	}
	switch e.Kind {
	case event.Request, event.Going, event.Text, event.Reasoning, event.ProviderTool, event.Call, event.PartialCall, event.Response, event.Failed, event.Broken:
		b.request(t, e)
	case event.LateCall:
		b.lateCall(t, e)
	case event.Output:
		b.output(t, e)
	case event.Launched, event.LeftRunning:
		if c := b.calls[e.ID]; c != nil {
			c.Launched, c.Left, c.End = true, e.Kind == event.LeftRunning, e.Time
		}
	case event.Owed:
		t.Owed = true
	case event.MaybeOwed:
		t.MaybeOwed = true
	case event.Told:
		t.Reopen = t.Reopen || t.Ending == Open // the call stays without an output
	case event.Aborted:
		t.Aborted = true
	case event.Ended:
		if t.Ending = Answered; e.Code != "" {
			t.Ending, t.Code = Failed, e.Code
			b.fail(t, e)
		}
	case event.Dropped:
		t.Ending = Dropped
		b.fail(t, e)
	case event.Resumed:
		t.Reopen = t.Reopen || t.Ending == Open
	}
}

// endEarlier takes the end of an earlier turn that was recorded after the next one had begun.
func (b *builder) endEarlier(e *event.Event) {
	for _, t := range slices.Backward(b.turns) {
		switch {
		case t.ID != e.Turn:
			continue
		case t.over():
		case e.Kind == event.Aborted:
			t.Aborted = true
		case e.Code != "":
			t.Ending, t.Code = Failed, e.Code
		default:
			t.Ending = Answered
		}
		return
	}
}

// goesOn reports whether an event is of a turn that goes on: what comes after the end of a turn is
// not of it, save for the outputs of its calls.
func (b *builder) goesOn(e *event.Event) bool {
	switch e.Kind {
	case event.Output, event.Told, event.Launched, event.LeftRunning:
		return b.calls[e.ID] == nil
	case event.Resumed, event.Aborted, event.Ended, event.Dropped, event.Owed, event.MaybeOwed:
		return false
	default:
		return true
	}
}

// turn returns the turn that goes on, or nil.
func (b *builder) turn() *Turn {
	if len(b.turns) == 0 {
		return nil
	}
	return b.turns[len(b.turns)-1]
}

// begin begins a turn.
func (b *builder) begin(e *event.Event) *Turn {
	if before := b.turn(); before != nil {
		for _, c := range before.Waiting() {
			if c.Launched {
				if b.launched == nil {
					b.launched = make(map[string]launched)
				}
				b.launched[c.ID] = launched{before, c}
			}
		}
	}
	t := &Turn{ID: e.Turn, Start: e.Time, End: e.Time, Model: b.model}
	b.turns = append(b.turns, t)
	b.calls, b.returned, b.edge = make(map[string]*Call), nil, e.Time
	return t
}

// request takes an event of a request.
func (b *builder) request(t *Turn, e *event.Event) {
	r := t.last()
	switch {
	case e.Kind == event.Request:
		if r != nil && !r.Ended() {
			r.Broken = true // another attempt began
		}
		r = b.send(t, e.Time, true)
	case r == nil || r.Ended():
		r = b.send(t, b.edge, false)
	}
	r.End, b.edge = e.Time, e.Time
	switch e.Kind {
	case event.Text:
		r.Text++
	case event.Reasoning:
		r.Reasoning++
	case event.ProviderTool:
		r.Provider++
	case event.Call, event.PartialCall:
		b.call(t, r, e)
	case event.Response:
		r.Complete, r.Finish, r.ResponseID = true, e.Code, e.ID
	case event.Failed:
		r.Failed, r.Code, r.Status = true, e.Code, e.Count
	case event.Broken:
		r.Broken, r.Code = true, e.Code
	}
}

// send adds a request, which carries all outputs so far.
func (b *builder) send(t *Turn, at time.Time, sent bool) *Request {
	r := &Request{Start: at, End: at, Sent: sent}
	for i := len(t.Calls) - 1; i >= 0 && len(r.Known) < maxIDs; i-- {
		c := t.Calls[i]
		if !c.Partial {
			r.Known = append(r.Known, c)
		}
		if c.Returned {
			r.Carried = append(r.Carried, c)
		}
	}
	for _, c := range b.returned {
		c.Carried = true
	}
	b.returned = b.returned[:0]
	t.Requests, t.Owed, t.MaybeOwed = append(t.Requests, r), false, false
	return r
}

// call adds a call to the answer, or completes one.
func (b *builder) call(t *Turn, r *Request, e *event.Event) {
	if c := b.calls[e.ID]; c != nil && e.ID != "" {
		c.Partial = c.Partial && e.Kind == event.PartialCall
		if !slices.Contains(r.Calls, c) && c.open() {
			r.Calls = append(r.Calls, c) // another answer made it, too
		}
		return
	}
	c := &Call{ID: e.ID, Name: e.Name, Partial: e.Kind == event.PartialCall, Start: e.Time}
	if e.ID != "" {
		b.calls[e.ID] = c
	}
	t.Calls = append(t.Calls, c)
	r.Calls = append(r.Calls, c)
}

// lateCall adds a call to the last answer, which is complete.
func (b *builder) lateCall(t *Turn, e *event.Event) {
	r := t.last()
	if r == nil {
		r = b.send(t, b.edge, false)
		r.Complete = true
	}
	r.Finish = "tool_calls"
	b.call(t, r, e)
}

// output takes what a tool returned. One whose call is not recorded ran all the same.
func (b *builder) output(t *Turn, e *event.Event) {
	c := b.calls[e.ID]
	if c == nil || e.ID == "" {
		c = &Call{ID: e.ID, Name: e.Name, Start: e.Time}
		if e.ID != "" {
			b.calls[e.ID] = c
		}
		t.Calls = append(t.Calls, c)
	}
	c.Partial = false
	if c.Outcome == event.OutcomeUnknown || e.Outcome == event.Interrupted {
		c.Outcome = e.Outcome
	}
	if !c.Returned {
		c.Returned, c.End, b.edge = true, e.Time, e.Time
		b.returned = append(b.returned, c)
	}
}

// fail records the error with which a turn ended in its last request, unless that has one.
func (b *builder) fail(t *Turn, e *event.Event) {
	r := t.last()
	switch {
	case r == nil || r.Complete:
		r = b.send(t, b.edge, false)
	case r.Failed:
		return
	}
	r.End, r.Failed, r.Code, r.Status = e.Time, true, e.Code, e.Count
}

// conclude finds the end of a turn that its agent does not record: an answer that asks for nothing
// more, or an error after which nothing was tried. It withdraws a good end that the rest of the
// turn does not bear out.
func (b *builder) conclude(t *Turn) {
	r := t.last()
	waits, missing := b.waits(t)
	answered := r != nil && r.Complete && final(r.Finish) && !waits && !t.Owed
	switch {
	case t.Aborted, t.Ending == Answered && r == nil && len(t.Calls) == 0 && !t.Partial: // it did something without the model
	case t.Ending == Answered && !answered:
		t.Ending = Unclear
	case answered && (missing || t.MaybeOwed):
		t.Ending = Unclear
	case t.Ending != Open || r == nil || waits:
	case b.profile.EndsTurns && !(r.Failed && t.Next): // after an error its end may be missing
	case answered && b.profile.HidesCalls, r.Complete && r.Finish == "":
		t.Ending = Unclear
	case answered:
		t.Ending = Answered
	case r.Failed:
		t.Ending, t.Code, t.Concluded = Failed, r.Code, true
	case t.Next && !t.Reopen && (r.Complete || len(r.Calls) > 0): // a prompt that was written while it ran may go on with it
		t.Ending = Unclear
	}
}

// waits reports whether the turn waits for the output of a call, and whether one is missing for which
// it does not: of a tool that it left running, or of a call before its last answer.
func (b *builder) waits(t *Turn) (waits, missing bool) {
	r := t.last()
	for _, c := range t.Waiting() {
		if c.Left || !c.Launched && r != nil && r.Complete && !slices.Contains(r.Calls, c) {
			missing = true
		} else {
			waits = true
		}
	}
	return waits, missing
}

// subAgents adds what the sub-agents of a turn did that nothing in it shows to have ended well.
func (b *builder) subAgents(t *Turn, log *event.Log) {
	ids := make(map[string]bool, len(t.Calls))
	for _, c := range t.Calls {
		ids[c.ID] = true
	}
	for _, c := range t.Calls {
		if !b.hides(c) {
			continue
		}
		sub := log.SubAgents[c.ID]
		if sub == nil || sub.Partial || sub.Unread > 0 {
			t.Hidden, t.Unlisted = true, true
		}
		if sub == nil {
			continue
		}
		all := Build(sub, b.profile)
		for _, of := range all {
			t.Unlisted = t.Unlisted || of.Unlisted
			if t.Ending == Answered {
				continue
			}
			for _, call := range slices.Concat(of.Calls, of.Within) {
				if call.Partial {
					continue
				}
				copied := *call
				copied.Carried = false // to the model of the turn itself
				if ids[call.ID] {
					copied.ID = "" // another call has it
				}
				ids[call.ID] = true
				t.Within = append(t.Within, &copied)
			}
		}
		t.Hidden = t.Hidden || len(all) == 0 || all[len(all)-1].Ending != Answered || all[len(all)-1].Hidden
	}
}

// hides reports whether a call ran a sub-agent of which nothing shows that it ended well.
func (b *builder) hides(c *Call) bool {
	return slices.Contains(b.profile.SubAgents, c.Name) && (c.open() || c.Outcome != event.Succeeded)
}

// final reports whether an answer with this finish reason asks for nothing more.
func final(finish string) bool {
	switch finish {
	case "", "tool_use", "tool_calls", "tool-calls", "pause_turn", "unknown":
		return false
	default:
		return true
	}
}

package responses

import (
	"cmp"
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// This file finds the request that each message of the server belongs to. The messages do
// not name it: within a stream the server answers one request after the other, and an answer
// names itself where it begins and ends. Where that leaves a doubt, the requests in question
// are uncertain: what was not seen of them is not observed.

// event takes a frame of the server.
func (c *connection) event(frame []byte, now time.Time) (after []func()) {
	m := wire.ReadServerMessage(frame)
	if m.Kind == wire.ServerError && m.Connection {
		return c.refuseAll(frame, now)
	}
	s := c.streams[m.Stream]
	if s == nil && !c.closed && (m.Kind == wire.ServerBegins || m.Kind == wire.ServerError) {
		s = c.stream(m.Stream)
	}
	if s == nil || c.closed && s.open == nil && !s.awaits() {
		return nil
	}
	switch m.Kind {
	case wire.ServerBegins:
		after = c.begins(s, &m, frame, now)
	case wire.ServerPart:
		after = c.part(s, frame, now)
	case wire.ServerEnds:
		after = c.ends(s, &m, frame, now)
	case wire.ServerError:
		after = c.fails(s, &m, frame, now)
	case wire.ServerKeepalive:
		if s.open != nil {
			s.open.receive(frame, now)
		}
	case wire.ServerSteerAccepted:
		s.steers = min(s.steers+1, maxWaiting)
		c.otherFrames = max(0, c.otherFrames-1)
	case wire.ServerSteerDone:
		s.steers = max(0, s.steers-1)
	case wire.ServerOther:
		c.otherFrames = max(0, c.otherFrames-1)
	}
	if s.open == nil && !s.awaits() {
		s.uncertain = false
	}
	return after
}

// begins takes the first message of an answer.
func (c *connection) begins(s *stream, m *wire.ServerMessage, frame []byte, now time.Time) (after []func()) {
	switch another := s.begun() && m.ResponseID != "" && m.ResponseID != s.open.id; {
	case another && s.held != nil:
		after = c.endWithHeld(s)
	case another: // the end of the open one never came
		s.open.uncertain = true
		after = c.ended(s, s.open, now)
	case s.held != nil:
		after = c.refuseHeld(s)
	}
	if s.open == nil {
		if s.isLast(m.ResponseID) {
			return after
		}
		switch {
		case s.steers > 0 && s.last != nil && s.last.settings.ctx != nil:
			s.steers = 0 // the response takes all that the client has added
			s.open = c.goOn(s.last, now)
		case s.awaits():
			s.takeNext()
		case c.closed:
			return after
		default:
			s.outOfStep = s.outOfStep || len(s.unmatched) >= maxWaiting
			s.open = &turn{began: now, decoder: wire.NewResponsesMessages()}
			if len(s.unmatched) < maxWaiting {
				s.unmatched = append(s.unmatched, s.open)
			}
		}
	}
	s.refused = false
	s.open.receive(frame, now)
	s.open.id = cmp.Or(m.ResponseID, s.open.id)
	return after
}

// takeNext opens the turn of the oldest request that waits for an answer.
func (s *stream) takeNext() {
	if len(s.waiting) == 0 {
		s.unrecorded--
		s.open = &turn{}
		return
	}
	s.open = s.waiting[0]
	s.waiting = slices.Delete(s.waiting, 0, 1)
}

// isLast reports whether an id is that of the response that ended last.
func (s *stream) isLast(id string) bool { return id != "" && s.last != nil && s.last.id == id }

// part takes a message within an answer. Without a beginning it is of the next one.
func (c *connection) part(s *stream, frame []byte, now time.Time) (after []func()) {
	if s.held != nil {
		after = c.refuseHeld(s)
	}
	if s.open == nil {
		if !s.awaits() {
			return after
		}
		s.takeNext()
		s.refused = false
	}
	s.open.receive(frame, now)
	return after
}

// ends takes the last message of an answer.
func (c *connection) ends(s *stream, m *wire.ServerMessage, frame []byte, now time.Time) (after []func()) {
	another := s.begun() && m.ResponseID != "" && m.ResponseID != s.open.id
	switch {
	case s.isLast(m.ResponseID): // a response.failed may follow an error
		return nil
	case (s.open == nil || another) && m.Failed && s.refused: // likewise
		s.refused = false
		return nil
	case s.open == nil && !s.awaits():
		return nil
	case s.open == nil:
		s.takeNext()
	case another && m.Failed && s.held != nil && s.awaits(): // likewise, of another request
		after = c.refuseHeld(s)
		s.refused = false
		return after
	case another && m.Failed && s.awaits(): // another request was refused
		after = c.refuse(s, frame, now)
		s.refused = false
		return after
	case another: // or a gateway changed the id
		s.open.uncertain = true
	}
	if h := s.held; h != nil && m.Failed {
		s.held, s.outOfStep = nil, s.outOfStep || s.awaits() // one of these may have been refused
		s.open.receive(h.frame, h.at)
	} else if h != nil {
		after = c.refuseHeld(s)
	}
	t := s.open
	t.receive(frame, now)
	t.id = cmp.Or(m.ResponseID, t.id)
	if m.Steered {
		s.steers = max(s.steers, 1)
	}
	return append(after, c.ended(s, t, now)...)
}

// ended ends a turn whose answer has come to its end, unless its request is still awaited.
func (c *connection) ended(s *stream, t *turn, now time.Time) []func() {
	if s.open == t {
		s.open = nil
	}
	s.last = &turn{id: t.id}
	if c.otherFrames > 0 || s.steers > 0 { // another response may go on with it
		s.last.settings = t.settings
	}
	if t.decoder != nil && slices.Contains(s.unmatched, t) {
		t.ended = now
		return nil
	}
	c.history.add(t)
	return s.end(t, record.Ending{Reason: record.EOF}, now)
}

// end ends a turn.
func (s *stream) end(t *turn, e record.Ending, now time.Time) []func() {
	t.uncertain = t.uncertain || s.uncertain || s.outOfStep
	return t.end(e, now)
}

package responses

import (
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// This file takes the error events. They name no response: one may end the open answer,
// refuse a request that waits, or any other frame of the client.

// fails takes an error event.
func (c *connection) fails(s *stream, m *wire.ServerMessage, frame []byte, now time.Time) (after []func()) {
	switch t := s.open; {
	case !s.begun():
		if s.open == nil && !s.awaits() && m.Stream == "" {
			if others := c.awaiting(); len(others) > 0 { // an error may lack the stream
				s.outOfStep = true // or the request is not reported yet
				return c.refuseOneOf(others, frame, now)
			}
		}
		return c.refuse(s, frame, now)
	case s.held != nil && !s.awaits(): // the first one is the cause, or this one is not of the answer
		s.outOfStep = true
		return nil
	case s.held != nil:
		after = c.refuse(s, s.held.frame, s.held.at)
		s.held = &heldError{slices.Clone(frame), now}
		return after
	case !s.awaits() && c.otherFrames == 0 && (m.Stream != "" || len(c.awaiting()) == 0):
		t.receive(frame, now)
		return c.ended(s, t, now)
	case len(frame) > maxHeld:
		t.uncertain = true
		t.receive(frame, now)
		return c.ended(s, t, now)
	default:
		s.held = &heldError{slices.Clone(frame), now}
		return nil
	}
}

// awaiting returns the streams with a request that has not been answered.
func (c *connection) awaiting() (list []*stream) {
	for _, s := range c.streams {
		if s.awaits() {
			list = append(list, s)
		}
	}
	return list
}

// refuseOneOf takes an error without a stream that may refuse a request of one of these
// streams. It is not certain that it does.
func (c *connection) refuseOneOf(streams []*stream, frame []byte, at time.Time) []func() {
	for _, s := range streams {
		s.outOfStep = true
	}
	if s := streams[0]; len(streams) == 1 && !s.begun() {
		return c.refuse(s, frame, at)
	}
	return nil
}

// refuse ends the oldest request that waits with an error, or the one whose answer has begun
// without an id. If several wait, it may have been another one. If none does, it is not
// reported yet.
func (c *connection) refuse(s *stream, frame []byte, at time.Time) []func() {
	t := s.open
	switch {
	case t != nil && t.id == "":
		s.open = nil
	case len(s.waiting) > 0:
		t = s.waiting[0]
		s.waiting = slices.Delete(s.waiting, 0, 1)
	case s.unrecorded > 0:
		s.unrecorded--
		return nil
	case c.otherFrames > 0:
		c.otherFrames--
		s.strayError = at
		return nil
	case len(s.unmatched) < maxWaiting && !c.closed && !s.begun():
		t = &turn{began: at, ended: at, refusal: true, decoder: wire.NewResponsesMessages()}
		t.receive(frame, at)
		s.unmatched = append(s.unmatched, t)
		return nil
	default:
		return nil
	}
	s.uncertain = s.uncertain || s.awaits()
	s.outOfStep = s.outOfStep || c.otherFrames > 0 // if another frame was refused, the answer follows
	t.receive(frame, at)
	if s.refused = true; !s.begun() {
		s.last = &turn{id: t.id}
	}
	c.history.add(t)
	return s.end(t, record.Ending{Reason: record.EOF}, at)
}

// refuseHeld takes the held error of a stream whose open answer goes on: it refused a request
// that waits, or another frame.
func (c *connection) refuseHeld(s *stream) []func() {
	h := s.held
	s.held = nil
	if s.awaits() {
		return c.refuse(s, h.frame, h.at)
	}
	if others := c.awaiting(); len(others) > 0 && c.otherFrames == 0 {
		return c.refuseOneOf(others, h.frame, h.at)
	}
	c.otherFrames = max(0, c.otherFrames-1)
	return nil
}

// endWithHeld ends the open answer of a stream with the held error.
func (c *connection) endWithHeld(s *stream) []func() {
	h := s.held
	s.held = nil
	s.open.receive(h.frame, h.at)
	return c.ended(s, s.open, h.at)
}

// refuseAll takes the error that ends the connection: it answers every request.
func (c *connection) refuseAll(frame []byte, now time.Time) (after []func()) {
	for _, s := range c.streams {
		turns := s.waiting
		if s.open != nil {
			turns = append(turns, s.open)
		}
		s.waiting, s.open, s.held = nil, nil, nil
		s.unrecorded = 0
		for _, t := range turns {
			t.receive(frame, now)
			if of := t.settings.contents; of != nil && of.PreviousID != "" && t.request != nil {
				t.request.historyLost.Store(true) // the server forgets the response that it refers to
			}
			after = append(after, c.ended(s, t, now)...)
		}
	}
	return after
}

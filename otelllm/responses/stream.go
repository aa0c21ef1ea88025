package responses

import (
	"context"
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

const (
	// maxWaiting bounds the requests of a stream that have not been answered.
	maxWaiting = 16
	// maxHeld bounds an error that is kept until it is clear which request it answers.
	maxHeld = 64 << 10
)

// stream is the requests of one stream_id, which are answered one after the other.
type stream struct {
	waiting []*turn // without an answer so far, the oldest first
	// unrecorded counts the requests after these. Their answers are skipped.
	unrecorded int
	open       *turn // whose answer has begun; nil: none
	// unmatched are answers that began before the request for them was reported: one
	// goroutine writes while another reads. The last of them may be open.
	unmatched []*turn

	// last is what is kept of the turn that ended last; nil: none has.
	last *turn
	// refused: a request was refused before its answer had an id, and no other answer has begun
	// since. A response.failed may follow.
	refused bool
	// steers counts the accepted response.steer, after which the server begins another
	// response without a request for it.
	steers int

	// held is an error that came while an answer was open, and that may refuse another
	// request; nil: none. What comes next shows it.
	held *heldError

	// strayError is when an error came that was taken for that of another frame, while no
	// request was reported.
	strayError time.Time

	// uncertain: an error may have answered another one of the requests than it was taken
	// for. Once none waits, all have been answered.
	uncertain bool
	// outOfStep: answers may have been taken for those of other requests, for good.
	outOfStep bool
}

type heldError struct {
	frame []byte
	at    time.Time
}

// stream returns a stream, or nil if there are too many. Streams on which nothing is under
// way make room.
func (c *connection) stream(name string) *stream {
	s := c.streams[name]
	if s != nil {
		return s
	}
	if len(c.streams) >= maxStreams {
		for name, s := range c.streams {
			if s.idle() {
				delete(c.streams, name)
			}
		}
	}
	if len(c.streams) < maxStreams {
		s = &stream{}
		c.streams[name] = s
	}
	return s
}

func (s *stream) idle() bool {
	return s.open == nil && !s.awaits() && len(s.unmatched) == 0 && s.steers == 0
}

// idle reports whether no request is under way.
func (c *connection) idle() bool {
	for _, s := range c.streams {
		if s.open != nil || s.awaits() {
			return false
		}
	}
	return true
}

// awaits reports whether a request has not been answered.
func (s *stream) awaits() bool { return len(s.waiting) > 0 || s.unrecorded > 0 }

// begun reports whether an answer is open that has said its id.
func (s *stream) begun() bool { return s.open != nil && s.open.id != "" }

// request takes a frame of the client.
func (c *connection) request(ctx context.Context, frame []byte, now time.Time) (after []func()) {
	m := wire.ReadClientMessage(frame)
	if c.closed {
		return nil
	}
	if m.Kind == wire.ClientOther || m.Kind == wire.ClientSteer {
		c.otherFrames++
		return nil
	}
	contents := readCreate(frame)
	s := c.stream(m.Stream)
	if s == nil || s.unrecorded > 0 || len(s.waiting) >= maxWaiting {
		if s != nil {
			s.unrecorded++
		}
		return c.unobserved(ctx, &m, frame, now)
	}
	if s.held != nil && !s.awaits() { // the client takes it for the end of the answer
		s.outOfStep = true
		after = c.endWithHeld(s)
	}
	if c.idle() { // the server has had the time to refuse what came before
		c.otherFrames = 0
	}
	s.outOfStep = s.outOfStep || now.Sub(s.strayError) <= reportGrace // this one may have been refused
	previous := ""
	if contents != nil {
		previous = contents.PreviousID
	}
	after = append(after, c.dropUnmatched(s, previous, now)...)
	t := &turn{began: now}
	matched := len(s.unmatched) > 0
	if matched {
		t = s.unmatched[0]
		s.unmatched = slices.Delete(s.unmatched, 0, 1)
	} else {
		s.waiting = append(s.waiting, t)
	}
	c.prepare(ctx, t, &m, contents, frame)
	if matched {
		after = append(after, c.catchUp(s, t, now)...)
	}
	return after
}

// unobserved records a request whose answer is not followed, as there are too many. The run
// learns of it, and that nothing is known of its answer.
func (c *connection) unobserved(ctx context.Context, m *wire.ClientMessage, frame []byte, now time.Time) []func() {
	if m.Kind != wire.ClientCreate {
		return nil
	}
	t := &turn{began: now, uncertain: true}
	c.prepare(ctx, t, m, readCreate(frame), frame)
	return t.end(record.Ending{Reason: record.EOF}, now)
}

// dropUnmatched gives up the answers for which no request is reported any more: those that
// the new request continues, or that ended long before it. The server began the latter on its
// own, or the application reports only a part of what it sends, or too late: from then on it
// is not certain which answer is whose.
func (c *connection) dropUnmatched(s *stream, previous string, now time.Time) (after []func()) {
	named := -1
	if previous != "" {
		named = slices.IndexFunc(s.unmatched, func(t *turn) bool { return t.id == previous })
	}
	for i := 0; len(s.unmatched) > 0; i++ {
		t := s.unmatched[0]
		if late := now.Sub(t.began) > reportGrace && !t.ended.IsZero(); i > named && !late {
			break
		}
		s.unmatched = slices.Delete(s.unmatched, 0, 1)
		if t.refusal {
			t.decoder.Release()
			continue
		}
		s.outOfStep = s.outOfStep || i > named
		c.start(c.ctx, t, &wire.ClientMessage{}, nil, nil)
		after = append(after, c.catchUp(s, t, now)...)
	}
	return after
}

// catchUp gives a request the answer that began before it. The answer may have ended.
func (c *connection) catchUp(s *stream, t *turn, now time.Time) []func() {
	t.handOver(now)
	if t.ended.IsZero() {
		return nil
	}
	c.history.add(t)
	return s.end(t, record.Ending{Reason: record.EOF}, t.ended)
}

// unsent takes a frame of the client that could not be written.
func (c *connection) unsent(ctx context.Context, frame []byte, err error, now time.Time) []func() {
	m := wire.ReadClientMessage(frame)
	if m.Kind != wire.ClientCreate || c.closed {
		return nil
	}
	t := &turn{began: now}
	c.prepare(ctx, t, &m, readCreate(frame), frame)
	return t.end(c.failure(err, true), now)
}

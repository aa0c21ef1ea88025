package responses

import (
	"context"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/inferred"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/setup"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// connection is the state of a Session. It never refers to the Session, so that the Session
// can be garbage collected.
type connection struct {
	ctx         context.Context
	with        setup.Setup
	identity    spanfacts.Identity // what all requests have in common
	client      inferred.Client
	propagators propagation.TextMapPropagator
	kind        trace.SpanStartOption
	serving     bool
	agent       *connection // that this connection serves; nil: none

	gone atomic.Bool // this side serves, and the agent has gone away

	// mu is taken before that of agent, and before a recorder's own lock.
	mu sync.Mutex
	// Everything below is guarded by mu.
	streams map[string]*stream
	history history
	closed  bool // no request may begin, since nothing would end it
}

const (
	// maxStreams bounds the streams of a connection: the API's own limit is 32, and the one
	// without a name. What is in further ones is not recorded.
	maxStreams = 33
	// maxLeft is how long one goroutine may be later than another with its report: with the
	// last frame of an answer to an agent, after the session was closed, or with a request
	// whose answer has begun.
	maxLeft = time.Second
	// maxAsked bounds the requests of a stream that have not been answered.
	maxAsked = 16
)

// stream is the requests of one stream_id, which are answered one after the other.
type stream struct {
	asked []*turn // without an answer so far, the oldest first
	open  *turn   // whose answer has begun; nil: none
	// early are answers that began before the request for them was reported: one goroutine
	// writes while another reads. The last of them may be open.
	early []*turn
	// steers counts the sent response.steer. Each may bring an answer that nothing asked for.
	steers int
	last   string // the id of the last response that has ended
}

// protocol is that of the requests.
var protocol, _ = wire.ByName("openai_responses")

func newConnection(ctx context.Context, config *Config, with setup.Setup) *connection {
	u, err := url.Parse(config.URL)
	if err != nil {
		u = &url.URL{}
	}
	target := &url.URL{Scheme: u.Scheme, Host: u.Host}
	switch u.Scheme {
	case "wss":
		target.Scheme = "https"
	case "ws":
		target.Scheme = "http"
	}
	recogniser := httpcall.Recogniser{Provider: with.Provider}
	c := &connection{
		ctx: ctx, with: with, identity: recogniser.Identify(protocol, target), client: inferred.ReadHeaders(config.Header),
		kind: record.ClientKind, streams: map[string]*stream{},
	}
	if config.Upstream != nil {
		c.agent = config.Upstream.connection
	}
	if config.Serving {
		c.serving, c.kind, c.with.Record.Meters = true, record.ServerKind, nil // the client instruments are those of the connection upstream
		if c.propagators = config.Propagators; c.propagators == nil {
			c.propagators = otel.GetTextMapPropagator()
		}
		if !trace.SpanContextFromContext(ctx).IsValid() {
			telemetry.Guard(func() { c.ctx = c.propagators.Extract(ctx, propagation.HeaderCarrier(config.Header)) })
		}
	}
	return c
}

// do lets f look at a frame. The functions that f returns are called when mu is free again:
// they write spans and update the run.
func (c *connection) do(f func(*connection, time.Time) []func()) {
	now := time.Now()
	telemetry.Locked(&c.mu, func() []func() { return f(c, now) })
}

// stream returns a stream, or nil if there are too many.
func (c *connection) stream(name string) *stream {
	s := c.streams[name]
	if s == nil && len(c.streams) < maxStreams {
		s = &stream{}
		c.streams[name] = s
	}
	return s
}

// request takes a frame of the client.
func (c *connection) request(ctx context.Context, frame []byte, now time.Time) []func() {
	m := wire.ReadClientMessage(frame)
	s := c.stream(m.Stream)
	if s == nil || m.Kind == wire.ClientOther || c.closed {
		return nil
	}
	if m.Kind == wire.ClientSteer {
		s.steers = min(s.steers+1, maxAsked)
		return nil
	}
	after := c.unasked(s, now)
	if len(s.early) > 0 {
		t := s.early[0]
		s.early = slices.Delete(s.early, 0, 1)
		c.prepare(ctx, t, &m, frame)
		return append(after, c.catchUp(s, t, now)...)
	}
	t := &turn{began: now}
	c.prepare(ctx, t, &m, frame)
	s.asked = append(s.asked, t)
	if len(s.asked) <= maxAsked {
		return after
	}
	lost := s.asked[0] // no answers come
	s.asked = slices.Delete(s.asked, 0, 1)
	return append(after, lost.end(record.Ending{Reason: record.EOF}, now)...)
}

// unasked gives up waiting for the requests of answers that began long ago: the server
// began them on its own, or the application reports only a part of what it sends.
func (c *connection) unasked(s *stream, now time.Time) (after []func()) {
	for len(s.early) > 0 && now.Sub(s.early[0].began) > maxLeft {
		t := s.early[0]
		s.early = slices.Delete(s.early, 0, 1)
		c.start(c.ctx, t, &wire.ClientMessage{}, nil)
		after = append(after, c.catchUp(s, t, now)...)
	}
	return after
}

// unsent takes a frame of the client that could not be written.
func (c *connection) unsent(frame []byte, err error, now time.Time) []func() {
	m := wire.ReadClientMessage(frame)
	if m.Kind != wire.ClientCreate || c.closed {
		return nil
	}
	t := &turn{began: now}
	c.prepare(c.ctx, t, &m, frame)
	return t.end(c.failure(err, true), now)
}

// event takes a frame of the server.
func (c *connection) event(frame []byte, now time.Time) []func() {
	m := wire.ReadServerMessage(frame)
	if m.Kind == wire.ServerError && m.Connection {
		return c.refuseAll(frame, now)
	}
	s := c.stream(m.Stream)
	if s == nil || m.Kind == wire.ServerOther || c.closed && s.open == nil && len(s.asked) == 0 {
		return nil
	}
	var after []func()
	t := s.open
	if t != nil && m.Kind == wire.ServerBegins && t.id != "" && m.ResponseID != "" && t.id != m.ResponseID {
		after = c.ended(s, t, record.Ending{Reason: record.EOF}, now) // its end never came
		t = nil
	}
	if t == nil {
		if t = c.next(s, &m, now); t == nil {
			return after
		}
	}
	t.receive(frame, now)
	if m.ResponseID != "" {
		t.id = m.ResponseID
	}
	if m.Kind == wire.ServerEnds || m.Kind == wire.ServerError {
		after = append(after, c.ended(s, t, record.Ending{Reason: record.EOF}, now)...)
	}
	return after
}

// next returns the turn whose answer begins with a message, or nil if none does.
func (c *connection) next(s *stream, m *wire.ServerMessage, now time.Time) *turn {
	switch {
	case m.Kind == wire.ServerKeepalive, m.ResponseID != "" && m.ResponseID == s.last: // a response.failed may follow an error
		return nil
	case len(s.asked) > 0:
		s.open = s.asked[0]
		s.asked = slices.Delete(s.asked, 0, 1)
	case m.Kind != wire.ServerBegins, c.closed:
		return nil
	case s.steers > 0:
		s.steers--
		s.open = &turn{began: now}
		c.start(c.ctx, s.open, &wire.ClientMessage{}, nil)
	case len(s.early) < maxAsked:
		s.open = &turn{began: now, decoder: wire.NewResponsesMessages()}
		s.early = append(s.early, s.open)
	}
	return s.open
}

// catchUp takes the request of an answer that began before. The answer may have ended.
func (c *connection) catchUp(s *stream, t *turn, now time.Time) []func() {
	t.handOver(now)
	if !t.ended.IsZero() {
		return c.ended(s, t, record.Ending{Reason: record.EOF}, t.ended)
	}
	return nil
}

// ended ends a turn whose answer has come to its end, unless its request is still awaited.
func (c *connection) ended(s *stream, t *turn, e record.Ending, now time.Time) []func() {
	if s.open == t {
		s.open = nil
	}
	s.last = t.id
	if t.decoder != nil && slices.Contains(s.early, t) {
		t.ended = now
		return nil
	}
	c.history.add(t)
	return t.end(e, now)
}

// refuseAll takes the error that ends the connection: it answers every request.
func (c *connection) refuseAll(frame []byte, now time.Time) (after []func()) {
	for _, s := range c.streams {
		turns := s.asked
		if s.open != nil {
			turns = append(turns, s.open)
		}
		s.asked, s.open = nil, nil
		for _, t := range turns {
			t.receive(frame, now)
			after = append(after, c.ended(s, t, record.Ending{Reason: record.EOF}, now)...)
		}
	}
	return after
}

func (c *connection) close(err error) {
	if c.serving && err != nil {
		c.gone.Store(true)
	}
	e := record.Ending{Reason: record.Closed}
	if err != nil {
		e = c.failure(err, false)
	}
	c.endAll(e)
}

func (c *connection) abandoned() { c.endAll(record.Ending{Reason: record.Dropped}) }

// endAll ends every request that has not ended, and lets none begin.
func (c *connection) endAll(e record.Ending) {
	if c.agent != nil && c.agent.gone.Load() {
		e = agentGone()
	}
	c.do(func(c *connection, now time.Time) (after []func()) {
		c.closed = true
		for _, s := range c.streams {
			var turns []*turn
			if s.open != nil && !slices.Contains(s.early, s.open) {
				turns = append(turns, s.open)
			}
			turns = slices.Concat(turns, s.asked, s.early)
			s.asked, s.early, s.open = nil, nil, nil
			for i, t := range turns {
				if t.left.IsZero() && e.Reason != record.Dropped && t.answeredUpstream() {
					t.left = now
					time.AfterFunc(maxLeft, c.leave)
					if i == 0 {
						s.open = t
					} else {
						s.asked = append(s.asked, t)
					}
					continue
				}
				if t.decoder != nil { // nothing was said of its request
					c.start(c.ctx, t, &wire.ClientMessage{}, nil)
					t.handOver(now)
				}
				switch {
				case !t.ended.IsZero():
					after = append(after, t.end(record.Ending{Reason: record.EOF}, t.ended)...)
				case !t.left.IsZero():
					after = append(after, t.end(e, t.left)...)
				default:
					after = append(after, t.end(e, now)...)
				}
			}
		}
		c.history = history{}
		return after
	})
}

// leave ends the requests whose last frames were never reported.
func (c *connection) leave() { c.endAll(record.Ending{Reason: record.Closed}) }

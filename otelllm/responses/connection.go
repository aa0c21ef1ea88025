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
	// otherFrames counts the client's frames, since no request was under way, that are not
	// requests and that nothing has answered: an error may refuse one of them.
	otherFrames int
}

const (
	// maxStreams bounds the streams of a connection: the API's own limit is 32, and the one
	// without a name.
	maxStreams = 33
	// reportGrace is how long one goroutine may be later than another with its report: with
	// the last frame of an answer to an agent, after the session was closed, or with a
	// request whose answer has begun.
	reportGrace = time.Second
)

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
		kind: record.ClientKind, streams: map[string]*stream{}, propagators: config.Propagators,
	}
	c.identity.UserAgent = httpcall.UserAgent(config.Header)
	if config.Upstream != nil {
		c.agent = config.Upstream.connection
	}
	if config.Serving {
		c.serving, c.kind, c.with.Record.Meters = true, record.ServerKind, nil // the client instruments are those of the connection upstream
		if c.propagators == nil {
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
			after = append(after, c.endStream(s, e, now)...)
		}
		c.history = history{}
		return after
	})
}

// endStream ends the requests of a stream. Those whose answers the agent may have got in
// whole stay for a moment, until that has been reported.
func (c *connection) endStream(s *stream, e record.Ending, now time.Time) (after []func()) {
	if s.held != nil {
		after = c.endWithHeld(s)
	}
	var turns []*turn
	if s.open != nil && !slices.Contains(s.unmatched, s.open) {
		turns = append(turns, s.open)
	}
	turns = slices.Concat(turns, s.waiting, s.unmatched)
	s.waiting, s.unmatched, s.open = nil, nil, nil
	for i, t := range turns {
		if t.closedAt.IsZero() && e.Reason != record.Dropped && t.answeredUpstream() {
			t.closedAt = now
			time.AfterFunc(reportGrace, c.endLate)
			if i == 0 {
				s.open = t
			} else {
				s.waiting = append(s.waiting, t)
			}
			continue
		}
		if t.decoder != nil { // its request was never reported
			if t.refusal {
				t.decoder.Release()
				continue
			}
			c.start(c.ctx, t, &wire.ClientMessage{}, nil, nil)
			t.handOver(now)
		}
		switch {
		case !t.ended.IsZero():
			after = append(after, s.end(t, record.Ending{Reason: record.EOF}, t.ended)...)
		case !t.closedAt.IsZero():
			after = append(after, s.end(t, e, t.closedAt)...)
		default:
			after = append(after, s.end(t, e, now)...)
		}
	}
	return after
}

// endLate ends the requests whose last frames were never reported.
func (c *connection) endLate() { c.endAll(record.Ending{Reason: record.Closed}) }

// Package responses records the model calls of the OpenAI Responses API over a WebSocket, by
// any WebSocket library.
//
// The application reports every text frame to a [Session]. Each response.create begins a
// request, which becomes a span with the facts, verdicts and metrics of a call over HTTP,
// in the run of its context or in an inferred one. It is complete with the server's
// response.completed, response.incomplete or response.failed, or an error event. A
// response.create with generate: false asks for no answer and is not a request.
package responses

import (
	"cmp"
	"context"
	"net/http"
	"runtime"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/internal/setup"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
)

// Config says how a [Session] is recorded. The zero value is that of a client of an OpenAI
// server.
type Config struct {
	// URL is that of the WebSocket. Its host becomes server.address and says who the
	// provider is. Path and query are not used.
	URL string
	// Header is that of the handshake. It says which agent the client is (User-Agent), and
	// which conversation the requests belong to (Session-Id, Thread-Id and the like). It is
	// read by NewSession alone.
	Header http.Header
	// Provider is gen_ai.provider.name; "": by the host, else "openai".
	// [otelllm.WithProviderName] takes precedence.
	Provider string

	// Serving says that this side is the server: a gateway that an agent is connected to.
	// RecordReceived is then given the agent's frames, and RecordSent those to the agent.
	// The spans have kind SERVER. Their parent is the span in the agent's trace context,
	// which Codex sends with each request.
	Serving bool
	// Upstream is, in the session of a gateway's connection to the provider, the session of
	// the agent that the connection serves. Its requests become children of the agent's, in
	// the order of the frames, and their failures explain how those ended.
	Upstream *Session

	// Propagators read the agent's trace context. Nil is the global propagator if Serving, and
	// none otherwise: the frames of a client's own have that of the client itself.
	Propagators propagation.TextMapPropagator

	// Instrumentation says with which options the session is recorded, and which Shutdown
	// ends it. Nil is that of the functions of package otelllm.
	Instrumentation *otelllm.Instrumentation
}

// Session observes one WebSocket. Open a new Session for each connection: what the server
// keeps for a connection alone, such as the responses that later requests refer to, ends
// with it. A request that is sent again over another connection is a further attempt, as
// [otelllm.Transport] describes.
//
// It is safe for concurrent use, and a nil *Session does nothing. A Session that is garbage
// collected before [Session.Close] ends its requests as abandoned.
type Session struct {
	connection *connection
	cleanup    runtime.Cleanup
}

// NewSession starts to observe a connection. Ctx is its own; requests belong to the run that
// ctx is in, and it says who ended the connection.
func NewSession(ctx context.Context, config Config) *Session {
	with := setup.Of(config.Instrumentation)
	with.Provider = cmp.Or(with.Provider, spanfacts.Bound(config.Provider))
	c := newConnection(ctx, &config, with)
	s := &Session{connection: c}
	s.cleanup = runtime.AddCleanup(s, (*connection).abandoned, c)
	return s
}

// RecordSent records a text frame that was written. No content is kept. The frames of one
// connection have to be reported in the order in which they were written, and each as soon as
// it was: an error event does not say which request it refuses, and one that is not reported
// yet is not among those in question.
func (s *Session) RecordSent(frame []byte) {
	if s != nil {
		s.sent(s.connection.ctx, frame)
	}
}

// RecordSentContext is [Session.RecordSent] for a frame that belongs to another context than
// the session: its request belongs to the run that ctx is in. Use it where a connection
// outlives a run.
func (s *Session) RecordSentContext(ctx context.Context, frame []byte) {
	if s != nil {
		s.sent(ctx, frame)
	}
}

func (s *Session) sent(ctx context.Context, frame []byte) {
	s.connection.do(func(c *connection, now time.Time) []func() {
		if c.serving {
			return c.event(frame, now)
		}
		return c.request(ctx, frame, now)
	})
	runtime.KeepAlive(s)
}

// RecordReceived records a text frame that was read. No content is kept. The frames of one
// connection have to be reported in the order in which they were read. A gateway reports an
// agent's frame before it passes it on.
func (s *Session) RecordReceived(frame []byte) {
	if s == nil {
		return
	}
	s.connection.do(func(c *connection, now time.Time) []func() {
		if c.serving {
			return c.request(c.ctx, frame, now)
		}
		return c.event(frame, now)
	})
	runtime.KeepAlive(s)
}

// RecordSendFailure records a text frame that could not be written. A request in it never
// reached the server; use it as well for a request that had no connection because dialling
// failed. An event in it never reached the agent that is served.
func (s *Session) RecordSendFailure(frame []byte, err error) {
	if s != nil {
		s.sendFailed(s.connection.ctx, frame, err)
	}
}

// RecordSendFailureContext is [Session.RecordSendFailure] for a frame that belongs to another
// context than the session, as [Session.RecordSentContext].
func (s *Session) RecordSendFailureContext(ctx context.Context, frame []byte, err error) {
	if s != nil {
		s.sendFailed(ctx, frame, err)
	}
}

func (s *Session) sendFailed(ctx context.Context, frame []byte, err error) {
	s.connection.do(func(c *connection, now time.Time) []func() {
		if c.serving {
			c.gone.Store(true)
			return nil
		}
		return c.unsent(ctx, frame, err, now)
	})
	runtime.KeepAlive(s)
}

// Close ends the observation with the error that reading from the connection or writing to
// it ended with, or nil if this side closed it. Requests that are still open were cut. Calls
// after the first have no effect.
//
// An error that reports a deliberate end, as for [otelllm.Run.End], is recorded as an
// abort, and so is context.DeadlineExceeded of any context. For any other error the
// transport's cause is recorded if the standard library names it, or if it is the
// CloseError of a common WebSocket library.
//
// Frames may still be reported after Close, by a goroutine that writes while another has
// read the end. They begin no request; the end of an answer to an agent counts, if it is
// reported within a second.
//
// A gateway closes the session first whose connection broke, with the error, and then the
// other one with nil. So an agent that went away is not taken for a failure of the provider,
// nor the other way round.
func (s *Session) Close(err error) {
	if s == nil {
		return
	}
	s.cleanup.Stop()
	s.connection.close(err)
	runtime.KeepAlive(s)
}

// Package realtime records sessions of the OpenAI Realtime API over any WebSocket library.
//
// The application reports every text frame to a [Session]. Each response becomes the span
// of a request, with the verdicts and metrics of any other model call. A session outside of a
// run of [otelllm.StartRun] is an inferred run of its own, as [otelllm.Transport] describes it.
package realtime

import (
	"cmp"
	"context"
	"net/http"
	"runtime"
	"time"

	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/inferred"
	"github.com/otelllm/otelllm-go/otelllm/internal/setup"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// Config says how a [Session] is recorded. The zero value is that of an OpenAI session.
type Config struct {
	Provider string // gen_ai.provider.name; "" is "openai"; [otelllm.WithProviderName] takes precedence

	// Instrumentation says with which options the session is recorded, and which Shutdown
	// ends it. Nil is that of the functions of package otelllm.
	Instrumentation *otelllm.Instrumentation

	// Header is that of the handshake. An inferred run has the agent's name from it.
	Header http.Header
}

// Session observes one session. Each response becomes the span of a request in the run of
// the session's context. The span lasts from the response.create that requested the
// response, or from its beginning if the server began it on its own, to its response.done.
//
// A function call's output that is sent counts as delivered. Its tool needs no
// [otelllm.Tool.RecordOutputSent], if [otelllm.StartTool] was given the call's id. If the
// server refuses the output, with an error that names its event_id, the delivery has
// failed.
//
// A call that [otelllm.StartTool] did not record is one of unknown effect. If sending its output
// fails, or if the session ends before it has one, the run ended on that: the output was lost.
//
// It is safe for concurrent use, and a nil *Session does nothing. A Session that is garbage
// collected before [Session.Close] ends its responses as abandoned.
type Session struct {
	conversation *conversation
	cleanup      runtime.Cleanup
}

// NewSession starts to observe a session. Ctx is the session's own; it says who ended the
// session.
func NewSession(ctx context.Context, config Config) *Session {
	with := setup.Of(config.Instrumentation)
	with.Provider = cmp.Or(with.Provider, spanfacts.Bound(config.Provider), otelsemconv.GenAIProviderNameOpenAI.Value.AsString())
	c := &conversation{
		ctx: ctx, with: with,
		client: inferred.ReadHeaders(config.Header), userAgent: httpcall.UserAgent(config.Header),
		wire: wire.NewRealtime(), open: map[*wire.State]*response{},
		calls: []string{}, outputs: []string{},
	}
	s := &Session{conversation: c}
	s.cleanup = runtime.AddCleanup(s, (*conversation).abandoned, c)
	return s
}

// RecordReceived records a text frame that was read from the server. No content is kept.
func (s *Session) RecordReceived(frame []byte) {
	if s == nil {
		return
	}
	s.conversation.do(func(c *conversation, now time.Time) []func() {
		return c.received(c.counted(c.wire.Received(frame)), now)
	})
	runtime.KeepAlive(s)
}

// RecordSent records a text frame that was written to the server. No content is kept.
func (s *Session) RecordSent(frame []byte) {
	if s == nil {
		return
	}
	s.conversation.do(func(c *conversation, now time.Time) []func() { return c.sent(c.counted(c.wire.Sent(frame)), now) })
	runtime.KeepAlive(s)
}

// RecordSendFailure records a text frame that could not be written. A tool output in it
// has not reached the model, and a response that it requested never began.
func (s *Session) RecordSendFailure(frame []byte, err error) {
	if s == nil {
		return
	}
	s.conversation.do(func(c *conversation, now time.Time) []func() {
		return c.unsent(c.counted(c.wire.Sent(frame)), err, now)
	})
	runtime.KeepAlive(s)
}

// Close ends the observation with the error that the session ended on, or nil if this side
// closed it. Responses that are still open were cut. Calls after the first have no effect.
//
// An error that reports a deliberate end, as for [otelllm.Run.End], is recorded as an
// abort, and so is context.DeadlineExceeded of any context. For any other error the
// transport's cause is recorded if the standard library names it, or if it is the
// CloseError of a common WebSocket library.
//
// Frames may still be reported after Close, by a goroutine that writes while another has
// read the end. They begin no response, but what they say about a tool's output is
// recorded.
func (s *Session) Close(err error) {
	if s == nil {
		return
	}
	s.cleanup.Stop()
	s.conversation.close(err)
	runtime.KeepAlive(s)
}

package otelllm

import (
	"fmt"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/abort"
	"github.com/otelllm/otelllm-go/semconv"
)

// Watchdog holds the limits at which a [Transport] ends a model call. A limit that is not
// positive is off. All are off by default.
//
// A watchdog that fires cancels the request. The reader of the response gets a
// [*WatchdogError], and the span records which limit was reached and how far the stream
// had come.
//
// FirstProgress and Idle watch semantic progress: events of the protocol that carry
// something. Keepalives, comments and pings are not progress. Only the time in which the
// caller waits for the network counts, so a consumer that is slow to process what it has
// read is not cut off. Both stop watching when bytes arrive that are not valid events of
// the protocol. They watch streams only: a call that does not stream is silent until its
// answer is whole. Whether a call streams is known from its path, from its request's body
// (before it is sent if the body lies in memory, otherwise once it has been sent), or from
// its response.
type Watchdog struct {
	// Connect bounds the time until there is a connection: name lookup, dialling,
	// TLS, and waiting for a free one. It needs a transport below that calls the
	// hooks of net/http/httptrace, as http.Transport does.
	Connect time.Duration
	// FirstProgress bounds the wait for the first semantic event of a stream, from
	// the start of the request.
	FirstProgress time.Duration
	// Idle bounds the wait between two semantic events, until the protocol's terminal
	// event. Gemini has no terminal event: there Idle is off once the answer is whole,
	// and only Total and the caller's own deadline bound a stream that stays open.
	//
	// If Idle or Total ends the reading of an answer that lacks only the terminal event,
	// the reader gets the error, but the span does not call the answer a failure.
	Idle time.Duration
	// Total bounds the whole call, including the consumer's own time.
	Total time.Duration
}

// DefaultWatchdog returns limits that are safe for any model:
//
//   - Connect 10 s. A lost SYN is sent again after 1, 3 and 7 s, so a connection that is
//     not there by then is unlikely to come. Nothing has been sent, so a retry is safe.
//   - FirstProgress and Idle 5 min. Models that reason without showing it are silent for
//     minutes, and cutting one off wastes its work. Five minutes are also the limit of
//     undici (headersTimeout, bodyTimeout) and Codex (stream_idle_timeout_ms).
//   - Total off. The caller knows how long a whole answer may take, and has a context's
//     deadline for it.
func DefaultWatchdog() Watchdog {
	return Watchdog{Connect: 10 * time.Second, FirstProgress: 5 * time.Minute, Idle: 5 * time.Minute}
}

// WatchdogError is the error that the reader of a stream gets when a [Watchdog] has ended
// it. It is also the cause of the context that the request was sent with. It is a timeout
// in the sense of net.Error.
type WatchdogError struct {
	Kind  semconv.WatchdogKind
	Limit time.Duration
}

// Error implements error.
func (e *WatchdogError) Error() string {
	return fmt.Sprintf("otelllm: watchdog: no %s within %v", awaited[e.Kind], e.Limit)
}

var awaited = map[semconv.WatchdogKind]string{
	semconv.WatchdogKindConnect:       "connection",
	semconv.WatchdogKindFirstProgress: "first event",
	semconv.WatchdogKindIdle:          "progress",
	semconv.WatchdogKindTotal:         "end",
}

// Timeout reports that the error is a timeout, as net.Error has it.
func (e *WatchdogError) Timeout() bool { return true }

// Temporary implements net.Error.
func (e *WatchdogError) Temporary() bool { return true }

// As lets errors.As find the limit that the error declares.
func (e *WatchdogError) As(target any) bool {
	t, ok := target.(*abort.TimedOut)
	if ok {
		*t = abort.TimedOut{Kind: e.Kind, Limit: e.Limit}
	}
	return ok
}

// StreamError is the error that the reader of a response gets under [WithStreamErrors]
// when the stream broke off. It replaces io.EOF if the body ended cleanly without the
// protocol's terminal event, which SDKs take for a whole answer, and any other error of
// reading the body. errors.Is and errors.As find the error that it wraps:
// io.ErrUnexpectedEOF for the clean end, otherwise the original error.
type StreamError struct {
	// Diagnosis is the verdict on this request, on what has been seen so far.
	Diagnosis classify.Diagnosis

	err error
}

// Error implements error. It is the diagnosis's summary, and the error's own text.
func (e *StreamError) Error() string {
	return "otelllm: " + e.Diagnosis.Summary + " (" + e.err.Error() + ")"
}

// Unwrap returns the error of the body.
func (e *StreamError) Unwrap() error { return e.err }

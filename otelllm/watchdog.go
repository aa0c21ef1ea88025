package otelllm

import (
	"fmt"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/abort"
	"github.com/otelllm/otelllm-go/semconv"
)

// Watchdog holds the limits at which a [Transport] ends a model call by itself.
// A limit that is not positive is off; all are off by default.
//
// A watchdog that fires cancels the request. Its reader gets a [*WatchdogError],
// and the span says which limit it was and how far the stream had come.
//
// FirstProgress and Idle watch semantic progress: events of the protocol that say
// something. Keepalives, comments and pings are bytes but no progress. They count
// only the time in which the caller waits for the network, so that a consumer that
// takes its time over what it has read is not cut off. Bytes that are none of the
// protocol's end their watch. They watch streams only: a call that does not stream is
// silent until its answer is whole. That a call streams is known from its path, from
// its request's body once that has been read (before it is sent, where it lies in
// memory, else as it is sent), or from its response.
type Watchdog struct {
	// Connect bounds the time until there is a connection: name lookup, dialling,
	// TLS, and waiting for a free one. It needs a transport below that calls the
	// hooks of net/http/httptrace, as http.Transport does.
	Connect time.Duration
	// FirstProgress bounds the wait for the first semantic event of a stream, from
	// the start of the request.
	FirstProgress time.Duration
	// Idle bounds the wait between two semantic events, until the protocol's last word.
	// Gemini has none: there it is off once the answer is whole, and what bounds a
	// stream that stays open is Total and the caller's own deadline.
	//
	// Where Idle or Total ends the reading of an answer that is whole but for the last
	// word, the answer remains one: the reader gets the error, and the span does not
	// call it a failure.
	Idle time.Duration
	// Total bounds the whole call, the consumer's own time included.
	Total time.Duration
}

// DefaultWatchdog returns limits that are safe to put over any model:
//
//   - Connect 10 s. A lost SYN is sent again after 1, 3 and 7 s, so what has no
//     connection by then will hardly get one, and nothing has been sent: trying
//     again is safe.
//   - FirstProgress and Idle 5 min. Models that reason without showing it are
//     silent for minutes, and to cut one off wastes all that it has thought. Five
//     minutes are also what undici (headersTimeout, bodyTimeout) and Codex
//     (stream_idle_timeout_ms) allow.
//   - Total off. How long a whole answer may take is for the caller to say, who
//     has a context's deadline for it.
func DefaultWatchdog() Watchdog {
	return Watchdog{Connect: 10 * time.Second, FirstProgress: 5 * time.Minute, Idle: 5 * time.Minute}
}

// WatchdogError is what the reader of a stream gets when a [Watchdog] has ended
// it, and the cause of the context that the request was sent with. It is a
// timeout in the manner of net.Error.
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

// As makes errors.As find what the error declares about a deliberate end.
func (e *WatchdogError) As(target any) bool {
	d, ok := target.(*abort.Declared)
	if ok {
		*d = abort.Declared{
			Abort:    classify.Abort{Source: AbortWatchdog, Reason: e.Kind.String()},
			Watchdog: classify.Watchdog{Kind: e.Kind, Limit: e.Limit},
		}
	}
	return ok
}

// StreamError is what the reader of a response gets under [WithStreamErrors] when
// the stream broke off: where the body came to a clean end without the protocol's
// last word, which SDKs take for a whole answer, and in place of any other error
// of reading it. errors.Is and errors.As reach the error that it wraps:
// io.ErrUnexpectedEOF for the clean end, else the original.
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

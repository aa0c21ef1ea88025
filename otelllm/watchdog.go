package otelllm

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
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

// dog watches one attempt. A nil dog watches nothing.
//
// One timer serves all limits. It is set to the earliest moment at which one of
// them may be reached and looks again when it fires: progress moves that moment,
// but never the timer, so that a Read costs no more than a look at the clock.
type dog struct {
	limits     Watchdog
	start      time.Time
	caller     context.Context // done: the attempt was ended otherwise
	sent       context.Context // that the request was sent with
	cancel     context.CancelCauseFunc
	connecting func() (yes, known bool)
	over       func() bool

	mu sync.Mutex
	// Everything below is guarded by mu.
	timer      *time.Timer
	set        time.Time     // what timer is set to; zero: to nothing
	streams    bool          // FirstProgress and Idle apply
	responded  bool          // the response has said whether they do
	silent     bool          // there is nothing to come that they could wait for
	connected  bool          // Connect does not, any more
	waiting    bool          // the caller waits for the network
	since      time.Time     // when the waiting began
	quiet      time.Duration // waited before since, without progress
	progressed bool
	err        *WatchdogError // it has fired
}

// watch begins to watch. Streams says that FirstProgress applies already, before the
// request's body or a response tells.
func watch(ctx context.Context, w Watchdog, streams bool, start time.Time, connecting func() (yes, known bool), over func() bool) (context.Context, *dog) {
	d := &dog{limits: w, start: start, caller: ctx, connecting: connecting, over: over, streams: streams, waiting: true, since: start}
	d.sent, d.cancel = context.WithCancelCause(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arm(start)
	return d.sent, d
}

// due is when the next limit is reached if nothing happens until then, with mu
// held; the zero time: none will be.
func (d *dog) due() (at time.Time, kind semconv.WatchdogKind) {
	earliest := func(limit time.Duration, from time.Time, k semconv.WatchdogKind) {
		if t := from.Add(limit); limit > 0 && (at.IsZero() || t.Before(at)) {
			at, kind = t, k
		}
	}
	if !d.connected {
		earliest(d.limits.Connect, d.start, semconv.WatchdogKindConnect)
	}
	if d.streams && d.waiting && !d.silent {
		if d.progressed {
			earliest(d.limits.Idle, d.since.Add(-d.quiet), semconv.WatchdogKindIdle)
		} else {
			earliest(d.limits.FirstProgress, d.since.Add(-d.quiet), semconv.WatchdogKindFirstProgress)
		}
	}
	earliest(d.limits.Total, d.start, semconv.WatchdogKindTotal)
	return at, kind
}

// arm sets the timer, with mu held, where it would come too late.
func (d *dog) arm(now time.Time) {
	at, _ := d.due()
	if at.IsZero() || d.err != nil || !d.set.IsZero() && !at.Before(d.set) {
		return
	}
	d.set = at
	if d.timer == nil {
		d.timer = time.AfterFunc(at.Sub(now), d.look)
		return
	}
	d.timer.Reset(at.Sub(now))
}

// look is called by the timer.
func (d *dog) look() {
	defer contained() // a context may be the application's own
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.set = time.Time{}
	at, kind := d.due()
	if at.IsZero() || d.err != nil || d.over() || d.caller.Err() != nil {
		return
	}
	if kind == semconv.WatchdogKindConnect && !now.Before(at) {
		if yes, known := d.connecting(); !yes || !known {
			d.connected = true
			d.arm(now)
			return
		}
	}
	if now.Before(at) {
		d.arm(now)
		return
	}
	fired := &WatchdogError{Kind: kind, Limit: d.limit(kind)}
	d.cancel(fired)
	if context.Cause(d.sent) == fired { //nolint:errorlint // itself: else the caller was first, at the last moment
		d.err = fired
	}
}

func (d *dog) limit(k semconv.WatchdogKind) time.Duration {
	switch k {
	case semconv.WatchdogKindConnect:
		return d.limits.Connect
	case semconv.WatchdogKindFirstProgress:
		return d.limits.FirstProgress
	case semconv.WatchdogKindIdle:
		return d.limits.Idle
	default:
		return d.limits.Total
	}
}

// asked: the request's body has been read whole, as it was sent, and it asks for a
// stream. The limit counts from the start of the request all the same.
func (d *dog) asked(now time.Time) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.responded || d.over() { // the transport may send on after it has answered
		return
	}
	d.streams = true
	d.arm(now)
}

// answered: the headers have come. From here the consumer's Reads say when
// the caller waits.
func (d *dog) answered(streams bool, now time.Time) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.quiet = now.Sub(d.start)
	d.connected, d.responded, d.waiting, d.streams = true, true, false, streams
}

// reads: the caller begins to wait for the next bytes.
func (d *dog) reads() {
	if d == nil {
		return
	}
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting, d.since = true, now
	d.arm(now)
}

// waited: the bytes have come. Silent: no progress is due any more.
func (d *dog) waited(progress, silent bool, now time.Time) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting {
		d.quiet += now.Sub(d.since)
	}
	d.waiting = false
	if progress {
		d.progressed, d.quiet = true, 0
	}
	d.silent = silent
}

// did reports whether err comes from the cancellation by which the dog ended
// the attempt. What the error itself is decides: a connection that broke at the
// moment at which the dog fired was broken.
func (d *dog) did(err error, now time.Time) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	fired := d.err
	d.mu.Unlock()
	if fired == nil {
		return false
	}
	var own *WatchdogError
	return as(err, &own) && own == fired || netcause.Cancelled(d.sent, err, now)
}

// bitten is the watchdog that fired; the zero value: none did.
func (d *dog) bitten() classify.Watchdog {
	if d == nil {
		return classify.Watchdog{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		return classify.Watchdog{}
	}
	return classify.Watchdog{Kind: d.err.Kind, Limit: d.err.Limit}
}

// unleash stops the watching and leaves the context as it is.
func (d *dog) unleash() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
}

// release lets go of the timer and of the context.
func (d *dog) release() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	d.cancel(context.Canceled)
}

// Package watchdog ends a model call that takes too long, or that has gone silent.
package watchdog

import (
	"context"
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// Limits are the limits of a [Watchdog]. One that is not positive is off.
type Limits struct {
	Connect, FirstProgress, Idle, Total time.Duration
}

// Request is the request that a [Watchdog] watches.
type Request struct {
	Start time.Time
	// Streams says that FirstProgress applies from the start, before the request's body
	// or the response says so.
	Streams bool
	// Connecting reports whether the transport is still waiting for a connection, if
	// that is known.
	Connecting func() (yes, known bool)
	// Over reports whether the recording has ended.
	Over func() bool
	// Error makes the error for a limit that was reached. It becomes the cause of the
	// request's context.
	Error func(kind semconv.WatchdogKind, limit time.Duration) error
}

// Watchdog watches one attempt and cancels its context when a limit is reached. A nil
// *Watchdog watches nothing.
//
// One timer serves all limits. It is set to the earliest moment at which one of
// them may be reached and looks again when it fires: progress moves that moment,
// but never the timer, so that a Read costs no more than a look at the clock.
type Watchdog struct {
	limits  Limits
	request Request
	caller  context.Context // done: something else ended the attempt
	sent    context.Context // that the request was sent with
	cancel  context.CancelCauseFunc

	mu sync.Mutex
	// Everything below is guarded by mu.
	timer      *time.Timer
	set        time.Time     // what timer is set to; zero: to nothing
	streams    bool          // FirstProgress and Idle apply
	responded  bool          // the response has said whether they apply
	silent     bool          // no event is due that they could wait for
	connected  bool          // Connect does not apply any more
	waiting    bool          // the caller waits for the network
	since      time.Time     // when the waiting began
	quiet      time.Duration // waited before since, without progress
	progressed bool
	fired      classify.Watchdog // zero: it has not fired
	err        error             // what request.Error made of it
}

// Start starts to watch a request that is sent with the context that it returns.
func Start(ctx context.Context, limits Limits, r Request) (context.Context, *Watchdog) {
	w := &Watchdog{limits: limits, request: r, caller: ctx, streams: r.Streams, waiting: true, since: r.Start}
	w.sent, w.cancel = context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arm(r.Start)
	return w.sent, w
}

// due returns, with mu held, when the next limit is reached if nothing happens until then.
// It is the zero time if no limit applies.
func (w *Watchdog) due() (at time.Time, kind semconv.WatchdogKind) {
	earliest := func(limit time.Duration, from time.Time, k semconv.WatchdogKind) {
		if t := from.Add(limit); limit > 0 && (at.IsZero() || t.Before(at)) {
			at, kind = t, k
		}
	}
	if !w.connected {
		earliest(w.limits.Connect, w.request.Start, semconv.WatchdogKindConnect)
	}
	if w.streams && w.waiting && !w.silent {
		if w.progressed {
			earliest(w.limits.Idle, w.since.Add(-w.quiet), semconv.WatchdogKindIdle)
		} else {
			earliest(w.limits.FirstProgress, w.since.Add(-w.quiet), semconv.WatchdogKindFirstProgress)
		}
	}
	earliest(w.limits.Total, w.request.Start, semconv.WatchdogKindTotal)
	return at, kind
}

// arm sets the timer, with mu held, if it is not set or would fire too late.
func (w *Watchdog) arm(now time.Time) {
	at, _ := w.due()
	if at.IsZero() || w.err != nil || !w.set.IsZero() && !at.Before(w.set) {
		return
	}
	w.set = at
	if w.timer == nil {
		w.timer = time.AfterFunc(at.Sub(now), w.look)
		return
	}
	w.timer.Reset(at.Sub(now))
}

// look checks the limits. The timer calls it.
func (w *Watchdog) look() {
	defer telemetry.Recover() // a context may be the application's own
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set = time.Time{}
	at, kind := w.due()
	if at.IsZero() || w.err != nil || w.request.Over() || w.caller.Err() != nil {
		return
	}
	if kind == semconv.WatchdogKindConnect && !now.Before(at) {
		if yes, known := w.request.Connecting(); !yes || !known {
			w.connected = true
			w.arm(now)
			return
		}
	}
	if now.Before(at) {
		w.arm(now)
		return
	}
	limit := w.limit(kind)
	err := w.request.Error(kind, limit)
	w.cancel(err)
	if context.Cause(w.sent) == err { //nolint:errorlint // by identity: otherwise the caller cancelled first, at the last moment
		w.fired, w.err = classify.Watchdog{Kind: kind, Limit: limit}, err
	}
}

func (w *Watchdog) limit(k semconv.WatchdogKind) time.Duration {
	switch k {
	case semconv.WatchdogKindConnect:
		return w.limits.Connect
	case semconv.WatchdogKindFirstProgress:
		return w.limits.FirstProgress
	case semconv.WatchdogKindIdle:
		return w.limits.Idle
	default:
		return w.limits.Total
	}
}

// Streams says that the request's body has been read whole, as it was sent, and asks for
// a stream. The limit counts from the start of the request all the same.
func (w *Watchdog) Streams(now time.Time) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.responded || w.request.Over() { // the transport may send on after it has answered
		return
	}
	w.streams = true
	w.arm(now)
}

// Answered says that the headers have come. From here the consumer's Reads say when
// the caller waits.
func (w *Watchdog) Answered(streams bool, now time.Time) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quiet = now.Sub(w.request.Start)
	w.connected, w.responded, w.waiting, w.streams = true, true, false, streams
}

// ReadStarted says that the caller begins to wait for the next bytes.
func (w *Watchdog) ReadStarted() {
	if w == nil {
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting, w.since = true, now
	w.arm(now)
}

// ReadEnded says that the bytes have come. Progress says that they held semantic events,
// silent that no progress is due any more.
func (w *Watchdog) ReadEnded(progress, silent bool, now time.Time) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting {
		w.quiet += now.Sub(w.since)
	}
	w.waiting = false
	if progress {
		w.progressed, w.quiet = true, 0
	}
	w.silent = silent
}

// Caused reports whether err comes from the cancellation by which the watchdog ended
// the attempt. The error itself decides: a connection that broke at the moment at which
// the watchdog fired is a broken connection.
func (w *Watchdog) Caused(err error, now time.Time) bool {
	_, fired := w.Fired()
	return fired != nil && (netcause.Holds(err, fired) || netcause.Cancelled(w.sent, err, now))
}

// Fired returns the limit that was reached, with the error that was made of it. It is
// the zero value and nil if none was.
func (w *Watchdog) Fired() (classify.Watchdog, error) {
	if w == nil {
		return classify.Watchdog{}, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fired, w.err
}

// Stop stops the watching and leaves the context as it is.
func (w *Watchdog) Stop() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
}

// Release stops the watching and cancels the context.
func (w *Watchdog) Release() {
	if w == nil {
		return
	}
	w.Stop()
	w.cancel(context.Canceled)
}

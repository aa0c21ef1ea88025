package watchdog

import (
	"context"
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// TestDue checks which limit is reached next, and when, by given times.
func TestDue(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	limits := Limits{Connect: 10 * time.Second, FirstProgress: 20 * time.Second, Idle: 5 * time.Second, Total: 100 * time.Second}
	d := &Watchdog{limits: limits, request: Request{Start: start}, streams: true, waiting: true, since: start}
	due := func(wantAt time.Duration, want semconv.WatchdogKind) {
		t.Helper()
		got, kind := d.due()
		assert.Equal(t, at(wantAt), got)
		assert.Equal(t, want, kind)
	}
	due(10*time.Second, semconv.WatchdogKindConnect)
	d.Answered(true, at(8*time.Second))
	due(100*time.Second, semconv.WatchdogKindTotal) // the caller does not wait
	d.waiting, d.since = true, at(30*time.Second)
	due(42*time.Second, semconv.WatchdogKindFirstProgress) // 8 s of the limit have passed before
	d.ReadEnded(true, false, at(31*time.Second))
	due(100*time.Second, semconv.WatchdogKindTotal)
	d.waiting, d.since = true, at(40*time.Second)
	due(45*time.Second, semconv.WatchdogKindIdle)
	d.ReadEnded(false, false, at(42*time.Second))
	d.waiting, d.since = true, at(50*time.Second)
	due(53*time.Second, semconv.WatchdogKindIdle)
	d.ReadEnded(false, true, at(51*time.Second)) // the terminal event
	d.waiting, d.since = true, at(52*time.Second)
	due(100*time.Second, semconv.WatchdogKindTotal)
	d.limits.Total = 0
	none, kind := d.due()
	assert.Zero(t, none)
	assert.Zero(t, kind)

	d = &Watchdog{limits: limits, request: Request{Start: start}, waiting: true, since: start} // the response decides whether it streams
	d.connected = true
	due(100*time.Second, semconv.WatchdogKindTotal)
	d.Answered(true, at(19*time.Second))
	d.waiting, d.since = true, at(19*time.Second)
	due(20*time.Second, semconv.WatchdogKindFirstProgress)

	var off *Watchdog
	off.Answered(true, start)
	off.ReadStarted()
	off.ReadEnded(true, true, start)
	off.Stop()
	off.Release()
	assert.False(t, off.Caused(io.EOF, start))
	fired, err := off.Fired()
	assert.Zero(t, fired)
	assert.NoError(t, err)
}

// If the caller cancels at the moment when a limit is reached, the first cancellation counts.
func TestWatchdogAndCallerAtOnce(t *testing.T) {
	caller, cancel := context.WithCancelCause(t.Context())
	d := &Watchdog{limits: Limits{Total: time.Second}, request: Request{
		Start: time.Now().Add(-time.Hour),
		Over:  func() bool { return false },
		Error: func(semconv.WatchdogKind, time.Duration) error { return errors.New("timed out") },
	}}
	d.caller = uncancelled{caller} // the watchdog has checked the caller just before
	d.sent, d.cancel = context.WithCancelCause(caller)
	cancel(errors.New("stopped"))
	d.look()
	assert.Zero(t, d.fired)
	assert.False(t, d.Caused(context.Cause(d.sent), time.Now()))

	d.caller, d.sent, d.cancel = t.Context(), nil, nil
	d.sent, d.cancel = context.WithCancelCause(t.Context())
	d.look()
	assert.Equal(t, classify.Watchdog{Kind: semconv.WatchdogKindTotal, Limit: time.Second}, d.fired)
	assert.True(t, d.Caused(context.Cause(d.sent), time.Now()))
	assert.True(t, d.Caused(context.Canceled, time.Now()), "HTTP/2 returns only that")
	assert.False(t, d.Caused(syscall.ECONNRESET, time.Now()))
}

type uncancelled struct{ context.Context }

func (uncancelled) Err() error { return nil }

package harness

import (
	"slices"
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/clock"
)

// Clock stands still until Advance moves it.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*manualTimer
}

// NewClock makes a clock that shows T0.
func NewClock() *Clock { return &Clock{now: T0} }

// Now implements clock.Clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// NewTimer implements clock.Clock.
func (c *Clock) NewTimer(d time.Duration) clock.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &manualTimer{clock: c, c: make(chan time.Time, 1), at: c.now.Add(d)}
	c.timers = append(c.timers, t)
	t.fire()
	return t
}

// Advance moves the time on and fires the timers that are due.
func (c *Clock) Advance(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for _, t := range c.timers {
		t.fire()
	}
	return c.now
}

// WaitsUntil reports whether a timer is set to exactly this time.
func (c *Clock) WaitsUntil(at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.timers, func(t *manualTimer) bool { return t.at.Equal(at) })
}

type manualTimer struct {
	clock *Clock
	c     chan time.Time
	at    time.Time // zero when it is not set
}

func (t *manualTimer) fire() {
	if !t.at.IsZero() && !t.at.After(t.clock.now) {
		t.at = time.Time{}
		t.c <- t.clock.now
	}
}

func (t *manualTimer) C() <-chan time.Time { return t.c }

func (t *manualTimer) Reset(d time.Duration) {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	select {
	case <-t.c:
	default:
	}
	t.at = t.clock.now.Add(d)
	t.fire()
}

func (t *manualTimer) Stop() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.at = time.Time{}
}

// HurriedClock goes a thousand times as fast.
type HurriedClock struct {
	clock.System
	Began time.Time
}

// Now implements clock.Clock.
func (c HurriedClock) Now() time.Time { return c.Began.Add(1000 * time.Since(c.Began)) }

// NewTimer implements clock.Clock.
func (c HurriedClock) NewTimer(d time.Duration) clock.Timer {
	return hurriedTimer{c.System.NewTimer(d / 1000)}
}

type hurriedTimer struct{ clock.Timer }

func (t hurriedTimer) Reset(d time.Duration) { t.Timer.Reset(d / 1000) }

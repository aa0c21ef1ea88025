// Package clock is the processor's source of time.
package clock

import "time"

// Clock is the processor's source of time; tests have their own.
type Clock interface {
	Now() time.Time
	// NewTimer makes a timer that fires once after d.
	NewTimer(d time.Duration) Timer
}

// Timer is a [time.Timer] behind an interface.
type Timer interface {
	C() <-chan time.Time
	Reset(d time.Duration)
	Stop()
}

// System is the time of the machine.
type System struct{}

// Now implements Clock.
func (System) Now() time.Time { return time.Now() }

// NewTimer implements Clock.
func (System) NewTimer(d time.Duration) Timer {
	return systemTimer{time.NewTimer(d)}
}

type systemTimer struct{ timer *time.Timer }

func (t systemTimer) C() <-chan time.Time   { return t.timer.C }
func (t systemTimer) Reset(d time.Duration) { t.timer.Reset(d) }
func (t systemTimer) Stop()                 { t.timer.Stop() }

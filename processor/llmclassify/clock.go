package llmclassify

import "time"

// clock is the processor's source of time; tests have their own.
type clock interface {
	Now() time.Time
	// NewTimer makes a timer that fires once after d.
	NewTimer(d time.Duration) timer
}

// timer is a [time.Timer] behind an interface.
type timer interface {
	C() <-chan time.Time
	Reset(d time.Duration)
	Stop()
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) NewTimer(d time.Duration) timer {
	return systemTimer{time.NewTimer(d)}
}

type systemTimer struct{ timer *time.Timer }

func (t systemTimer) C() <-chan time.Time   { return t.timer.C }
func (t systemTimer) Reset(d time.Duration) { t.timer.Reset(d) }
func (t systemTimer) Stop()                 { t.timer.Stop() }

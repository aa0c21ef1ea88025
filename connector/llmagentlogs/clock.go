package llmagentlogs

import "time"

// clock is the connector's source of time; tests have their own.
type clock interface {
	Now() time.Time
	// After makes a channel that receives once, after d.
	After(d time.Duration) <-chan time.Time
	// NewTicker makes a channel that receives every d, and a function that stops it.
	NewTicker(d time.Duration) (<-chan time.Time, func())
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

func (systemClock) NewTicker(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTicker(d)
	return t.C, t.Stop
}

package retry

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// Policy says how often and how long to try, and who is asked. Its zero value is ready for use, and
// asks no one. For a number that is not positive the default applies.
type Policy struct {
	// Attempts is how many attempts there are at most, the first one included; 4 by default. For
	// [Do] the SDK's own retries count. For [Run] they are calls of the turn.
	Attempts int
	// Elapsed is how long after the beginning of the first attempt the last one may begin; 2
	// minutes by default. An attempt that has begun is not cut off. The time that Ask takes does not
	// count.
	Elapsed time.Duration
	// Backoff is the most to wait before the first retry, half a second by default. It doubles
	// for each further one, up to BackoffMost, half a minute by default. The wait is a random part
	// of it ("full jitter"), and never shorter than the provider asked for.
	Backoff, BackoffMost time.Duration
	// Budget bounds the retries of all callers of a host; nil: that of the process.
	Budget *Budget
	// Ask is asked before an attempt that might repeat an effect or show text again. It returns
	// whether to go on as the plan in the question says. Nil: such an attempt is not made.
	Ask func(ctx context.Context, q Question) bool

	// Now, Sleep and Random are for tests; nil: the real ones. Sleep returns after d, or with the
	// error of ctx once that is done. Random returns a number in [0, 1).
	Now    func() time.Time
	Sleep  func(ctx context.Context, d time.Duration) error
	Random func() float64
}

// The defaults of a [Policy].
const (
	defaultAttempts    = 4
	defaultElapsed     = 2 * time.Minute
	defaultBackoff     = 500 * time.Millisecond
	defaultBackoffMost = 30 * time.Second
)

// Question is what [Policy.Ask] has to decide on.
type Question struct {
	// Diagnosis is that of the call, or of the run. Its Summary is fit to be shown to a person.
	Diagnosis classify.Diagnosis
	// Plan says what ran, and what to send.
	Plan classify.Plan
	// Attempts is how many there were.
	Attempts int
	// TextShown: the call has streamed visible text, which the next attempt shows again unless
	// the application goes on from there. It is not known for a turn.
	TextShown bool
	// Wait is how long the next attempt will wait.
	Wait time.Duration
	// Err is the error that the function returned; nil if the SDK reported none.
	Err error
}

// withDefaults returns p with a value in each field but Ask.
func (p Policy) withDefaults() Policy {
	if p.Attempts <= 0 {
		p.Attempts = defaultAttempts
	}
	if p.Elapsed <= 0 {
		p.Elapsed = defaultElapsed
	}
	if p.Backoff <= 0 {
		p.Backoff = defaultBackoff
	}
	if p.BackoffMost <= 0 {
		p.BackoffMost = defaultBackoffMost
	}
	if p.Budget == nil {
		p.Budget = &processBudget
	}
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Sleep == nil {
		p.Sleep = sleep
	}
	if p.Random == nil {
		p.Random = rand.Float64
	}
	return p
}

// wait returns how long to wait before a retry, by its number from 1 on.
func (p *Policy) wait(retry int, after time.Duration) time.Duration {
	most := min(p.Backoff, p.BackoffMost)
	for n := 1; n < retry && most < p.BackoffMost; n++ {
		most += min(most, p.BackoffMost-most)
	}
	return max(after, time.Duration(p.Random()*float64(most)))
}

// sleep returns after d, or with the error of ctx once that is done.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

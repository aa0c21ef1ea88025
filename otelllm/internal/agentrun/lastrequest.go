package agentrun

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// LastRequest has the diagnosis of the model call under its context: what failed is that of the
// attempt that began last, and a retry is as safe as the least safe attempt. A nil *LastRequest
// has none. It is safe for concurrent use.
type LastRequest struct {
	mu       sync.Mutex
	run      *Run      // of the last attempt
	attempts []attempt // in the order of their beginning, the last maxAttempts
	more     bool      // there were more attempts
}

// attempt is a request under the context of a LastRequest.
type attempt struct {
	open  OpenRequest // nil: it is over
	facts classify.Request
}

// maxAttempts bounds the attempts of one call that are kept. With more of them a retry is not
// called safe.
const maxAttempts = 32

type lastRequestKey struct{}

// WithLastRequest returns a context for one model call, with its LastRequest.
func WithLastRequest(ctx context.Context) (context.Context, *LastRequest) {
	l := &LastRequest{}
	return context.WithValue(ctx, lastRequestKey{}, l), l
}

// LastRequestOf returns the LastRequest of ctx, or nil.
func LastRequestOf(ctx context.Context) *LastRequest {
	l, _ := ctx.Value(lastRequestKey{}).(*LastRequest)
	return l
}

// Diagnosis judges the call on what has been seen by now of its attempts and of their run. It is
// the zero value, whose retry is not safe, where the last attempt did not fail, is still going
// on, or was never made.
func (l *LastRequest) Diagnosis() classify.Diagnosis {
	if l == nil {
		return classify.Diagnosis{}
	}
	l.mu.Lock()
	run, attempts, more := l.run, slices.Clone(l.attempts), l.more
	l.mu.Unlock()
	if len(attempts) == 0 {
		return classify.Diagnosis{}
	}
	facts := make([]classify.Request, 0, len(attempts))
	for _, a := range attempts {
		facts = append(facts, a.soFar())
	}
	if facts[len(facts)-1].Open {
		return classify.Diagnosis{}
	}
	return run.JudgeCall(facts, more)
}

// soFar returns what is known of an attempt by now.
func (a *attempt) soFar() classify.Request {
	if a.open == nil {
		return a.facts
	}
	// SDKs return an error inside the stream before they close the body.
	if seen, ended := a.open.Snapshot(time.Now()); ended {
		return seen
	}
	return a.open.SoFar()
}

// RequestBegan takes a request of run, which may be nil.
func (l *LastRequest) RequestBegan(q OpenRequest, run *Run) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.attempts) == maxAttempts {
		l.attempts, l.more = slices.Delete(l.attempts, 0, 1), true
	}
	l.run, l.attempts = run, append(l.attempts, attempt{open: q})
}

// RequestJoined takes the run of a request that has begun without one.
func (l *LastRequest) RequestJoined(q OpenRequest, run *Run) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.attempts); n > 0 && l.attempts[n-1].open == q {
		l.run = run
	}
}

// RequestEnded takes the facts of a request that has ended.
func (l *LastRequest) RequestEnded(q OpenRequest, facts *classify.Request) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.attempts {
		if l.attempts[i].open == q {
			l.attempts[i] = attempt{facts: *facts}
		}
	}
}

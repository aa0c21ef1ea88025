package agentrun

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// LastRequest has the diagnosis of the model call under its context: the failure is that of the attempt that began last,
// and a retry is as safe as the least safe attempt. A nil *LastRequest has none. It is safe for concurrent use.
type LastRequest struct {
	outer *LastRequest // the LastRequest of the context around; nil: none

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

// maxAttempts bounds the attempts of one call that are kept. If there are more, a retry is not called safe.
const maxAttempts = 32

type lastRequestKey struct{}

// WithLastRequest returns a context for one model call, with its LastRequest.
func WithLastRequest(ctx context.Context) (context.Context, *LastRequest) {
	l := &LastRequest{outer: LastRequestOf(ctx)}
	return context.WithValue(ctx, lastRequestKey{}, l), l
}

// LastRequestOf returns the LastRequest of ctx, or nil.
func LastRequestOf(ctx context.Context) *LastRequest {
	l, _ := ctx.Value(lastRequestKey{}).(*LastRequest)
	return l
}

// Diagnosis judges the call on the facts of its attempts and of their run so far. It is the zero value, whose retry is not
// safe, if the last attempt did not fail, is still going on, or was never made.
func (l *LastRequest) Diagnosis() classify.Diagnosis {
	run, facts, more := l.soFar()
	if len(facts) == 0 || facts[len(facts)-1].Open {
		return classify.Diagnosis{}
	}
	return run.JudgeCall(facts, more)
}

// Plan returns the plan to go on with the call, on the facts so far. It is the zero value if the last attempt is still
// going on, or was never made.
func (l *LastRequest) Plan() classify.Plan {
	run, facts, more := l.soFar()
	if len(facts) == 0 || facts[len(facts)-1].Open {
		return classify.Plan{}
	}
	return run.PlanCall(facts, more)
}

// Failed reports whether the last attempt has failed by now. A request that begins after that is another attempt.
func (l *LastRequest) Failed() bool {
	last, failed := l.failure()
	return failed || last.Status >= 400
}

// BrokeOff reports whether the last attempt has failed after its answer had begun.
func (l *LastRequest) BrokeOff() bool {
	last, failed := l.failure()
	return failed && last.Status >= 200 && last.Status < 400
}

func (l *LastRequest) failure() (last classify.Request, failed bool) {
	if _, facts, _ := l.soFar(); len(facts) > 0 {
		last = facts[len(facts)-1]
	}
	return last, !last.Open && !last.Start.IsZero() && classify.Failed(&last)
}

// TextShown reports whether an attempt is known to have streamed visible text.
func (l *LastRequest) TextShown() bool {
	_, facts, _ := l.soFar()
	return slices.ContainsFunc(facts, func(f classify.Request) bool { return f.Text.N() > 0 })
}

// soFar returns the facts of the attempts so far, and their run. More: there were others before them.
func (l *LastRequest) soFar() (run *Run, facts []classify.Request, more bool) {
	if l == nil {
		return nil, nil, false
	}
	l.mu.Lock()
	run, attempts, more := l.run, slices.Clone(l.attempts), l.more
	l.mu.Unlock()
	for i := range attempts {
		facts = append(facts, attempts[i].soFar())
	}
	return run, facts, more
}

// soFar returns the facts of an attempt so far.
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
	l.outer.RequestBegan(q, run)
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
	l.outer.RequestJoined(q, run)
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
	l.outer.RequestEnded(q, facts)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.attempts {
		if l.attempts[i].open == q {
			l.attempts[i] = attempt{facts: *facts}
		}
	}
}

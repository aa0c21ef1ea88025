package agentrun

import (
	"context"
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// LastRequest has the diagnosis of the request that was begun last under its context. A nil
// *LastRequest has none. It is safe for concurrent use.
type LastRequest struct {
	mu    sync.Mutex
	open  OpenRequest // nil: none has begun, or it is over
	run   *Run
	facts *classify.Request // of the request that is over
}

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

// Diagnosis judges the call on what has been seen by now of it and of its run. It is the
// zero value, whose retry is not safe, where the call did not fail, is still going on, or
// was never made.
func (l *LastRequest) Diagnosis() classify.Diagnosis {
	if l == nil {
		return classify.Diagnosis{}
	}
	l.mu.Lock()
	open, run, facts := l.open, l.run, l.facts
	l.mu.Unlock()
	if open != nil {
		// SDKs return an error inside the stream before they close the body.
		if seen, ended := open.Snapshot(time.Now()); ended {
			facts = &seen
		}
	}
	if facts == nil {
		return classify.Diagnosis{}
	}
	return run.JudgeRequest(facts)
}

// RequestBegan takes a request of run, which may be nil.
func (l *LastRequest) RequestBegan(q OpenRequest, run *Run) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.open, l.run, l.facts = q, run, nil
	l.mu.Unlock()
}

// RequestJoined takes the run of a request that has begun without one.
func (l *LastRequest) RequestJoined(q OpenRequest, run *Run) {
	if l == nil {
		return
	}
	l.mu.Lock()
	if l.open == q {
		l.run = run
	}
	l.mu.Unlock()
}

// RequestEnded takes the facts of a request that has ended.
func (l *LastRequest) RequestEnded(q OpenRequest, facts *classify.Request) {
	if l == nil {
		return
	}
	l.mu.Lock()
	if l.open == q {
		seen := *facts // the caller's do not move to the heap for requests without a LastRequest
		l.open, l.facts = nil, &seen
	}
	l.mu.Unlock()
}

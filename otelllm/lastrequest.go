package otelllm

import (
	"context"
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// LastRequest has the diagnosis of one model call: the one that was begun last under the
// context of [WithLastRequest]. A nil *LastRequest has none. It is safe for concurrent use.
type LastRequest struct {
	mu    sync.Mutex
	open  *record // nil: none has begun, or it is over
	run   *Run
	facts *classify.Request // of the request that is over
}

type lastRequestKey struct{}

// WithLastRequest returns a context for one model call, and what its diagnosis can be read
// from afterwards. It is for a loop that sends the same request again: the diagnosis of the
// request says whether that is safe, where [Run.Diagnosis] is about the run from its start.
// Where the SDK makes several attempts, the last one counts. The transport then observes
// the call also where its span is not sampled.
func WithLastRequest(ctx context.Context) (context.Context, *LastRequest) {
	l := &LastRequest{}
	return context.WithValue(ctx, lastRequestKey{}, l), l
}

func lastRequestOf(ctx context.Context) *LastRequest {
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
		if seen, ended := open.snapshot(time.Now()); ended {
			facts = &seen
		}
	}
	if facts == nil {
		return classify.Diagnosis{}
	}
	return run.verdictOn(facts)
}

func (l *LastRequest) began(r *record) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.open, l.run, l.facts = r, r.run, nil
	l.mu.Unlock()
}

func (l *LastRequest) ended(r *record, facts *classify.Request) {
	if l == nil {
		return
	}
	l.mu.Lock()
	if l.open == r {
		seen := *facts // the caller's do not move to the heap for requests without a LastRequest
		l.open, l.facts = nil, &seen
	}
	l.mu.Unlock()
}

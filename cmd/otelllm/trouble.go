package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/proxy"
)

const (
	troubleEvery = time.Minute // between two lines about the same failure
	troubleFrom  = 5           // how often a failure has come when it is worth a line
	maxTroubles  = 100         // failures that are told apart
)

// trouble reports failures while they happen: an unreachable upstream at once, and any other failure once it has come many
// times; then once a minute. It is safe for concurrent use.
type trouble struct {
	out io.Writer
	now func() time.Time

	mu sync.Mutex
	// Everything below is guarded by mu.
	seen map[proxy.Failure]*repeated
}

// repeated is a failure that has come at least once.
type repeated struct {
	times int
	said  time.Time // when it was last printed; zero: never
}

func newTrouble(out io.Writer, now func() time.Time) *trouble {
	return &trouble{out: out, now: now, seen: map[proxy.Failure]*repeated{}}
}

// failed takes a failure.
func (t *trouble) failed(f proxy.Failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.seen[f]
	if r == nil {
		if len(t.seen) == maxTroubles {
			return
		}
		r = &repeated{}
		t.seen[f] = r
	}
	r.times++
	now := t.now()
	if !f.Unreachable && r.times < troubleFrom || now.Sub(r.said) < troubleEvery {
		return
	}
	r.said = now
	switch {
	case f.Unreachable && r.times == 1:
		_, _ = fmt.Fprintf(t.out, "otelllm: %s cannot be reached: %s\n", f.Host, f.Problem)
	case f.Unreachable:
		_, _ = fmt.Fprintf(t.out, "otelllm: %s cannot be reached: %s (%d requests so far)\n", f.Host, f.Problem, r.times)
	default:
		_, _ = fmt.Fprintf(t.out, "otelllm: %s has failed %d times: %s\n", f.Host, r.times, f.Problem)
	}
}

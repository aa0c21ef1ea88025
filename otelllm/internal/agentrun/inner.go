package agentrun

import (
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// innerRuns is what is known of the runs that began within a run, and of those of its own
// parts that are not kept any more. It is guarded by the run's mu.
type innerRuns struct {
	runs []*Run           // that are not over, the oldest first
	did  classify.Effects // what the others did, and what was forgotten
	// counted is what the run around this one has folded into its own did. Only its counts
	// matter: to join the same effects again changes nothing.
	counted classify.Effects
	joined  bool // the run around this one knows of it

	failures int // of requests that were forgotten
}

// adopt counts what inner does from now on for r, which it began within, and so on
// outwards, unless that is done already.
func (r *Run) adopt(inner *Run) {
	for ; r != nil; r, inner = r.parent, r {
		inner.mu.Lock()
		known := inner.inner.joined
		inner.inner.joined = true
		inner.mu.Unlock()
		if known {
			return
		}
		var oldest *Run
		r.mu.Lock()
		if len(r.inner.runs) == MaxParts {
			oldest = r.inner.runs[0]
		}
		r.inner.runs = append(r.inner.runs, inner)
		r.mu.Unlock()
		if oldest != nil {
			oldest.fold() // it counts with what it has; should it go on, it is adopted again
		}
	}
}

// leaveParent folds what the run did into the run around it once it is over, and so on
// outwards.
func (r *Run) leaveParent() {
	for ; r != nil && r.over(); r = r.parent {
		r.fold()
	}
}

// over: the run and everything within it has ended.
func (r *Run) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.facts.Ended == classify.Yes && len(r.open) == 0 && len(r.inner.runs) == 0
}

// fold makes what the run did part of what the run around it did, which then needs the
// run itself no longer.
func (r *Run) fold() {
	p := r.parent
	if p == nil {
		return
	}
	for {
		generation := r.generation.Load()
		e, _ := r.effects()
		if r.foldAt(generation, e) {
			p.changed()
			return
		}
	}
}

// foldAt is fold with the effects of a generation, unless that has passed.
func (r *Run) foldAt(generation uint64, e classify.Effects) bool {
	p := r.parent
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.inner.runs, r)
	if i < 0 {
		return true // by another goroutine
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.generation.Load() != generation {
		return false
	}
	p.inner.runs = slices.Delete(p.inner.runs, i, i+1)
	p.inner.did = p.inner.did.Join(e)
	r.inner.counted.Requests += e.Requests
	r.inner.counted.Tools += e.Tools
	r.inner.joined = false
	return true
}

// effects is what the run did by now, those within it included, and counts what the run
// around it does not count already. Settled: nothing of it is still going on.
func (r *Run) effects() (e classify.Effects, settled bool) {
	j, settled := r.judge()
	e = j.effects
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Requests -= r.inner.counted.Requests
	e.Tools -= r.inner.counted.Tools
	return e, settled
}

// makeRoom forgets, with mu held, the oldest parts where there are too many, but for
// what they did.
func (r *Run) makeRoom() {
	if len(r.requests) < MaxParts && len(r.tools) < MaxParts {
		return
	}
	const left = MaxParts * 3 / 4
	rest := r.parts.recent(left)
	requests, tools := len(r.requests)-len(rest.requests), len(r.tools)-len(rest.tools)
	all := make([]classify.Tool, 0, len(r.tools))
	for _, t := range r.tools {
		all = append(all, t.Facts())
	}
	// With all tools: one that is kept may have executed the call of a request that is not.
	v := r.judgeParts(r.requests[:requests], all)
	v.Effects.Requests, v.Effects.Tools = requests, tools
	r.inner.did = r.inner.did.Join(v.Effects)
	for i := range v.Requests {
		switch v.Requests[i].Class {
		case semconv.ClassUnset, semconv.ClassLocalAbort, semconv.ClassOutputLimited:
		default:
			r.inner.failures++
		}
	}
	for _, t := range r.tools[:tools] {
		r.past.forget(t)
	}
	r.requests = slices.Clone(rest.requests)
	r.tools = slices.Clone(rest.tools)
}

// recent are the last parts, at most n of each: the requests that ended last, and the
// tools that began since the first of those did. So the tool that executed a call is
// there where the request is that made it.
func (p parts) recent(n int) parts {
	rest := parts{p.requests[max(0, len(p.requests)-n):], p.tools[max(0, len(p.tools)-n):]}
	if len(rest.tools) < len(p.tools) { // the calls of the tools that are not there
		first := rest.tools[0].begun
		for len(rest.requests) > 0 && rest.requests[0].Start.Before(first) {
			rest.requests = rest.requests[1:]
		}
	}
	if len(rest.requests) == len(p.requests) || len(rest.requests) == 0 {
		return rest
	}
	since := earliest(rest.requests)
	for len(rest.tools) > 0 && rest.tools[0].begun.Before(since) {
		rest.tools = rest.tools[1:]
	}
	return rest
}

// earliest is the first beginning of requests, of which there are some.
func earliest(requests []classify.Request) time.Time {
	first := requests[0].Start
	for i := range requests {
		if at := requests[i].Start; at.Before(first) {
			first = at
		}
	}
	return first
}

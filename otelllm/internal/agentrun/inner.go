package agentrun

import (
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// innerRuns holds the runs that began within a run, and the effects of inner runs and parts that are no longer kept. The
// run's mu guards it.
type innerRuns struct {
	runs    []*Run           // the runs that are not over, the oldest first
	effects classify.Effects // effects of the others, and of parts that were forgotten
	// counted is the part of this run's effects that the outer run has already added to its own effects. Only the counts
	// matter: joining the same effects twice changes nothing.
	counted classify.Effects
	joined  bool // the outer run has this one among its runs

	failures int // of requests that were forgotten

	unrecorded bool // in a copy: calls of the run ran without a recorded tool
}

// adopt adds inner to the runs within r, r to the runs within its parent, and so on outwards, unless they are there
// already.
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
			oldest.fold() // its effects so far count; if it goes on, it is adopted again
		}
	}
}

// leaveParent folds the run into its parent if it is over, the parent into its own, and so on outwards.
func (r *Run) leaveParent() {
	for ; r != nil && r.over(); r = r.parent {
		r.fold()
	}
}

// over reports whether the run and everything within it have ended.
func (r *Run) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.facts.Ended == classify.Yes && len(r.open) == 0 && len(r.inner.runs) == 0
}

// fold adds the effects of the run to the effects of its parent, which no longer needs the run itself then.
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

// foldAt is fold with the effects of a generation. It reports false if that generation has passed.
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
	p.inner.effects = p.inner.effects.Join(e)
	r.inner.counted.Requests += e.Requests
	r.inner.counted.Tools += e.Tools
	r.inner.joined = false
	return true
}

// effects returns the effects of the run and the runs within it so far, with the counts that the parent has not added yet.
// Settled: no part of them is still going on.
func (r *Run) effects() (e classify.Effects, settled bool) {
	j, settled := r.judge()
	e = j.effects
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Requests -= r.inner.counted.Requests
	e.Tools -= r.inner.counted.Tools
	return e, settled
}

// maxParts is [MaxParts], or less for an inferred run.
func (r *Run) maxParts() int {
	if r.Inferred {
		return maxInferredParts
	}
	return MaxParts
}

// makeRoom forgets, with mu held, the oldest parts if there are too many. Their effects stay.
func (r *Run) makeRoom() {
	most := r.maxParts()
	if len(r.requests) < most && len(r.tools) < most {
		return
	}
	rest := r.parts.recent(most * 3 / 4)
	requests, tools := len(r.requests)-len(rest.requests), len(r.tools)-len(rest.tools)
	all := make([]classify.Tool, 0, len(r.tools))
	for _, t := range r.tools {
		all = append(all, t.Facts())
	}
	if slices.ContainsFunc(r.requests, mayLackOutput) {
		r.past.addLost(r.judgeParts(r.requests, all).Run.MissingOutputs)
	}
	// With all tools: a kept tool may have executed the call of a forgotten request.
	v := r.judgeParts(r.requests[:requests], all)
	v.Effects.Requests, v.Effects.Tools = requests, tools
	r.inner.effects = r.inner.effects.Join(v.Effects)
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
	if requests > 0 {
		r.historyBytes = r.historyBytes * len(rest.requests) / len(r.requests)
	}
	r.requests = append(make([]classify.Request, 0, most), rest.requests...)
	r.tools = append(make([]*Tool, 0, most), rest.tools...)
}

// mayLackOutput reports whether the history of a request may have a call without its output: it does not have the outputs
// of its calls in their order.
func mayLackOutput(q classify.Request) bool { return !slices.Equal(q.HistoryCalls, q.HistoryOutputs) }

// recent returns the last parts, at most n of each kind: the requests that ended last, and the tools that began after the
// first of them did. If a request is included, so is the tool that executed its call.
func (p parts) recent(n int) parts {
	rest := parts{p.requests[max(0, len(p.requests)-n):], p.tools[max(0, len(p.tools)-n):]}
	if len(rest.tools) < len(p.tools) { // their calls may be of tools that are left out
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

// earliest returns the earliest start of requests, which must not be empty.
func earliest(requests []classify.Request) time.Time {
	first := requests[0].Start
	for i := range requests {
		if at := requests[i].Start; at.Before(first) {
			first = at
		}
	}
	return first
}

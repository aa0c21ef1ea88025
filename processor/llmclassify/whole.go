package llmclassify

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/semconv"
)

// wholes are the runs of a batch that need not be held: all of their spans came in
// this call, and nothing of their traces is here or on its way. They are judged
// where they are, and go on in the call's own traces.
//
// Of such a run the shard of its trace knows nothing but that it was judged: it is
// claimed before it is judged, so that what comes of it meanwhile is late.
type wholes struct {
	whole    []bool // by trace; nil where none is
	releases []assemble.Release
	spans    int               // of releases
	bytes    int               // estimated memory of them
	claimed  []pcommon.TraceID // whose runs these are
	rows     []row             // the spans of their traces
	ids      []pcommon.SpanID  // of all rows
	endings  []ending          // by release

	// What the releases are made of.
	members  []assemble.Member
	items    []assemble.Item
	pointers []*assemble.Item
	bodies   []ptrace.Span
	came     []came // by trace
	judge    assemble.Judge
}

// row is spans of one trace that came one after the other.
type row struct {
	trace    pcommon.TraceID
	from, to int // of wholes.ids
}

// note notes a span of a trace that is whole.
func (w *wholes) note(trace pcommon.TraceID, id pcommon.SpanID) {
	w.ids = append(w.ids, id)
	if n := len(w.rows); n > 0 && w.rows[n-1].trace == trace {
		w.rows[n-1].to = len(w.ids)
		return
	}
	w.rows = append(w.rows, row{trace, len(w.ids) - 1, len(w.ids)})
}

// came are the LLM spans of a trace.
type came struct {
	assemble.Arrival
	spans []ptrace.Span // by item
}

// is reports whether a trace, by index, need not be held.
func (w *wholes) is(trace int) bool { return w.whole != nil && w.whole[trace] }

// isWhole reports whether a trace need not be held.
func (b *batch) isWhole(id pcommon.TraceID) bool {
	t, here := b.index[id]
	return here && b.whole[t]
}

func (w *wholes) clear() {
	clear(w.releases)
	clear(w.members)
	clear(w.items)
	clear(w.bodies)
	clear(w.came)
	*w = wholes{
		releases: w.releases[:0], claimed: w.claimed[:0], rows: w.rows[:0], ids: w.ids[:0], endings: w.endings[:0],
		members: w.members[:0], items: w.items[:0], pointers: w.pointers[:0], bodies: w.bodies[:0], came: w.came[:0], judge: w.judge,
	}
}

// divide finds the runs of b that need not be held and claims them. What is left of
// b.found is to be held. The traces of b are p's interest already.
func (p *classifier) divide(now time.Time, b *batch, others int) {
	candidates := 0
	suspects := p.suspects.any()
	for t, ended := range b.ended {
		if ended && p.interest.count(b.traces[t]) == 1 && !(suspects && p.suspects.has(b.traces[t])) {
			candidates += b.counts[t]
		} else {
			b.ended[t] = false
		}
	}
	if candidates == 0 {
		return
	}
	b.fillCandidates(candidates)
	for t, ended := range b.ended {
		if !ended {
			continue
		}
		a := &b.came[t]
		from, ok := len(b.releases), false
		if b.releases, b.members, ok = hold.CompleteRuns(a.Arrival, a.spans, others == 0, b.releases, b.members); !ok {
			continue
		}
		if !p.claim(now, b.traces[t], b.releases[from:]) {
			b.releases = b.releases[:from]
			continue
		}
		if b.whole == nil {
			b.whole = make([]bool, len(b.traces))
		}
		b.whole[t] = true
		b.claimed = append(b.claimed, a.Trace)
		b.spans += len(a.Items)
	}
	b.leaveHeld()
}

// claim claims the runs of a trace of which nothing else is here.
//
// A call that brings other spans of the trace adds to the interest in it before its
// shard asks what was judged: it is seen here, or finds the claim there.
func (p *classifier) claim(now time.Time, trace pcommon.TraceID, releases []assemble.Release) bool {
	judged := p.shards[p.shardOf(trace)].buffer.Judged()
	var few [4]pcommon.SpanID
	runs := few[:0]
	for i := range releases {
		runs = append(runs, releases[i].RunID)
	}
	if !judged.Claim(now, trace, runs...) {
		return false
	}
	if p.interest.count(trace) != 1 {
		judged.Disclaim(trace, runs...)
		return false
	}
	return true
}

// fillCandidates makes the arrivals of the traces that may be whole, by trace.
func (b *batch) fillCandidates(n int) {
	if cap(b.items) < n {
		b.items, b.pointers, b.bodies = make([]assemble.Item, n), make([]*assemble.Item, n), make([]ptrace.Span, n)
	}
	b.items, b.pointers, b.bodies = b.items[:n], b.pointers[:n], b.bodies[:n]
	next := 0
	for t, ended := range b.ended {
		c := came{Arrival: assemble.Arrival{Trace: b.traces[t]}}
		if ended {
			to := next + b.counts[t]
			c.Items, c.spans = b.pointers[next:next:to], b.bodies[next:next:to]
			next = to
		}
		b.came = append(b.came, c)
	}
	free := b.items
	for i := range b.found {
		if f := &b.found[i]; b.ended[f.trace] {
			c := &b.came[f.trace]
			f.fill(&free[0])
			c.Items, c.spans = append(c.Items, &free[0]), append(c.spans, f.span)
			free = free[1:]
		}
	}
}

// leaveHeld takes what is whole off the spans that are to be held.
func (b *batch) leaveHeld() {
	if b.whole == nil {
		return
	}
	kept, scopes, next := b.found[:0], b.scopes[:0], 0
	for _, s := range b.scopes {
		list := b.found[next : next+s.n]
		next += s.n
		s.n = 0
		for i := range list {
			if b.whole[list[i].trace] {
				b.bytes += list[i].size
				continue
			}
			kept = append(kept, list[i])
			s.n++
		}
		if s.n > 0 {
			scopes = append(scopes, s)
		}
	}
	clear(b.found[len(kept):])
	clear(b.scopes[len(scopes):])
	b.found, b.scopes = kept, scopes
	b.bytes += hold.TraceSize * len(b.claimed)
	b.size -= b.bytes
}

// judgeWhole judges the runs that are whole and stamps their verdicts. The exchanges
// of the call are evidence: those that are beneath no request of a run stay in https.
func (p *classifier) judgeWhole(now time.Time, b *batch, https [][]exchange) {
	if len(b.releases) == 0 {
		return
	}
	cache := b.evidence(https)
	for _, i := range judgingOrder(b.releases) {
		release := &b.releases[i]
		cache.explain(release)
		runs := p.shards[p.shardOf(release.Trace)].ended
		d := b.judge.Diagnose(release, runs.of(release, nil)) // nothing else is here of its trace
		stampAll(release, &d, semconv.TriggerComplete)
		runs.add(now, release.Trace, release.Run, &d)
		b.endings = append(b.endings, endingOf(d.Run, semconv.TriggerComplete))
	}
	if cache == nil {
		return
	}
	for above, x := range cache.now {
		shard := p.shardOf(above.trace)
		https[shard] = append(https[shard], exchange{above, x})
	}
}

// evidence are the exchanges of whole traces, apart from the others. It is nil where
// there are none.
func (b *batch) evidence(https [][]exchange) (cache *evidence) {
	const all = 1 << 30
	for shard, list := range https {
		https[shard] = slices.DeleteFunc(list, func(x exchange) bool {
			if t, here := b.index[x.above.trace]; !here || !b.is(t) {
				return false
			}
			if cache == nil {
				cache = newEvidence(time.Hour, all, func(pcommon.TraceID, int32) {})
			}
			cache.add(time.Time{}, &x)
			return true
		})
	}
	return cache
}

// gone counts the runs that are whole, once they are forwarded or their forwarder's.
func (p *classifier) gone(ctx context.Context, b *batch) {
	p.telemetry.held(ctx, b.spans)
	alike := 0
	for i, v := range b.endings {
		p.telemetry.holdTime(ctx, 0, v.trigger)
		alike++
		if i+1 == len(b.endings) || b.endings[i+1] != v {
			p.telemetry.run(ctx, v, alike)
			alike = 0
		}
	}
}

// remember tells the shards which spans belong to runs that are whole.
func (p *classifier) remember(b *batch) {
	for _, r := range b.rows {
		p.shards[p.shardOf(r.trace)].buffer.Judged().Remember(r.trace, b.ids[r.from:r.to])
	}
}

// disclaim takes back that the runs of b were judged: they will come again.
func (p *classifier) disclaim(b *batch) {
	for _, r := range b.rows {
		p.shards[p.shardOf(r.trace)].buffer.Judged().Forget(r.trace, b.ids[r.from:r.to])
	}
	for i := range b.releases {
		r := &b.releases[i]
		p.shards[p.shardOf(r.Trace)].buffer.Judged().Disclaim(r.Trace, r.RunID)
	}
}

package llmclassify

import (
	"context"
	"iter"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/semconv"
)

// completeRuns are the runs of a call that need not be held: all of their spans came in
// this call, and nothing of their traces is here or on its way. They are judged in the
// call's goroutine, and go on in the call's own traces.
//
// The shard of such a trace only knows that the run was judged: it is claimed before it is
// judged, so that a span of it that arrives in the meantime is late.
type completeRuns struct {
	byTrace      []bool            // by index in batch.traces; nil where none is complete
	traces       []pcommon.TraceID // whose runs these are
	releases     []assemble.Release
	spans        int        // of releases
	bytes        int        // estimated memory of them
	exchanges    []exchange // beneath spans of these traces
	endings      []ending   // by release, in the order in which they were judged
	contradicted int        // runs around them that were judged before, see assemble.Diagnoses

	// The spans of these traces, LLM spans or not, with their parents, in ranges of one trace each.
	ids     []pcommon.SpanID
	parents []pcommon.SpanID
	ranges  []idRange

	// What the releases are made of.
	members    []assemble.Member
	items      []assemble.Item
	pointers   []*assemble.Item
	bodies     []ptrace.Span
	candidates []candidate // by index in batch.traces
	judge      assemble.Judge
}

// idRange is spans of one trace that follow one another.
type idRange struct {
	trace    pcommon.TraceID
	from, to int // of completeRuns.ids
}

// candidate is the LLM spans of a trace whose runs may be complete.
type candidate struct {
	assemble.Arrival
	spans []ptrace.Span // by item
}

// note notes a span of one of the traces.
func (c *completeRuns) note(trace pcommon.TraceID, id, parent pcommon.SpanID) {
	c.ids, c.parents = append(c.ids, id), append(c.parents, parent)
	if n := len(c.ranges); n > 0 && c.ranges[n-1].trace == trace {
		c.ranges[n-1].to = len(c.ids)
		return
	}
	c.ranges = append(c.ranges, idRange{trace, len(c.ids) - 1, len(c.ids)})
}

// links yields the spans of a range with their parents.
func (c *completeRuns) links(r idRange) iter.Seq2[pcommon.SpanID, pcommon.SpanID] {
	return func(yield func(id, parent pcommon.SpanID) bool) {
		for i := r.from; i < r.to; i++ {
			if !yield(c.ids[i], c.parents[i]) {
				return
			}
		}
	}
}

// has reports whether the runs of a trace, by its index, are complete.
func (c *completeRuns) has(trace int) bool { return c.byTrace != nil && c.byTrace[trace] }

func (c *completeRuns) clear() {
	clear(c.releases)
	clear(c.exchanges)
	clear(c.members)
	clear(c.items)
	clear(c.bodies)
	clear(c.candidates)
	*c = completeRuns{
		traces: c.traces[:0], releases: c.releases[:0], exchanges: c.exchanges[:0], endings: c.endings[:0],
		ids: c.ids[:0], parents: c.parents[:0], ranges: c.ranges[:0],
		members: c.members[:0], items: c.items[:0], pointers: c.pointers[:0], bodies: c.bodies[:0], candidates: c.candidates[:0], judge: c.judge,
	}
}

// judgeComplete judges complete runs and stamps their verdicts. The exchanges of their
// traces are evidence: it returns those that are beneath no request of a run.
func (p *classifier) judgeComplete(q *partition) (evidence exchanges) {
	c := &q.complete
	for i := range c.exchanges {
		evidence.add(&c.exchanges[i])
	}
	judged := func(trace pcommon.TraceID) assemble.Judged { return q.laneOf(trace).inner.corrections.judged(trace) }
	for _, i := range judgingOrder(c.releases, judged) {
		release := &c.releases[i]
		evidence.explain(release)
		d := judge(q.now, &c.judge, q.laneOf(release.Trace).inner, release, semconv.TriggerComplete, p.cfg.marks())
		c.endings = append(c.endings, endingOf(d.Run, semconv.TriggerComplete))
		if d.Contradicts {
			c.contradicted++
		}
	}
	for _, r := range c.ranges {
		q.laneOf(r.trace).inner.corrections.pass(q.now, r.trace, c.links(r))
	}
	return evidence
}

// completeParcel makes a parcel of what is left of a call, nothing but complete runs, and
// writes it to the store. They are judged after that.
func (p *classifier) completeParcel(ctx context.Context, caller *origin.Caller, q *partition) (parcel, error) {
	c := &q.complete
	tickets, err := p.store.add(ctx, q.now, caller, q.td)
	if err != nil {
		return parcel{}, err
	}
	made := parcel{traces: q.td, spans: c.spans, bytes: c.bytes + verdictSize*len(c.releases), caller: caller}
	if tickets != nil {
		for i := range c.spans {
			made.done = append(made.done, tickets(i))
		}
		made.judged = p.completeRecords(q)
	}
	return made, nil
}

// completeRecords encodes what is remembered of complete runs, for the store.
func (p *classifier) completeRecords(q *partition) (records []byte) {
	if !p.store.enabled() {
		return nil
	}
	c, now, tenant := &q.complete, q.now, q.tenants[0].key
	ranges, releases := c.ranges, c.releases
	for _, trace := range c.traces {
		r := journal.Judged{At: now, Trace: trace, Tenant: tenant, Counts: true}
		for ; len(releases) > 0 && releases[0].Trace == trace; releases = releases[1:] {
			r.Runs = append(r.Runs, releases[0].RunID)
			r.Forgot = r.Forgot || forgotAfterRestart(&releases[0])
		}
		if len(ranges) > 0 && ranges[0].trace == trace { // they are mostly in the same order
			r.Spans = c.ids[ranges[0].from:ranges[0].to]
			ranges = ranges[1:]
		}
		records = r.Append(records)
	}
	for _, spans := range ranges {
		r := journal.Judged{At: now, Trace: spans.trace, Tenant: tenant, Spans: c.ids[spans.from:spans.to]}
		records = r.Append(records)
	}
	return records
}

// countComplete counts complete runs, once they are forwarded or a shard's to forward.
func (p *classifier) countComplete(ctx context.Context, c *completeRuns) {
	if c.contradicted > 0 {
		p.telemetry.contradicted(ctx, c.contradicted)
	}
	alike := 0
	for i, v := range c.endings {
		p.telemetry.holdTime(ctx, 0, v.trigger)
		alike++
		if i+1 == len(c.endings) || c.endings[i+1] != v {
			p.telemetry.run(ctx, v, alike)
			alike = 0
		}
	}
}

// rememberSpans lets the shards remember the spans of complete runs' traces.
func (p *classifier) rememberSpans(q *partition) {
	c := &q.complete
	for _, r := range c.ranges {
		l := q.laneOf(r.trace)
		l.buffer.Judged().Remember(r.trace, c.ids[r.from:r.to])
		if p.cfg.hasTenants() { // the shard shares the memory for that
			l.inbox.wake()
		}
	}
}

// disclaim takes back that complete runs were judged: the sender sends them again.
func (p *classifier) disclaim(q *partition) {
	c := &q.complete
	for _, r := range c.ranges {
		q.laneOf(r.trace).buffer.Judged().Forget(r.trace, c.ids[r.from:r.to])
	}
	for i := range c.releases {
		r := &c.releases[i]
		q.laneOf(r.Trace).buffer.Judged().Disclaim(r.Trace, r.RunID)
	}
}

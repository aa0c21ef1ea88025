package llmclassify

import (
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// What a shard's buffer remembers as judged is recorded in the store, too, in one write
// with the new states of the spans: after a crash they are either replayed and judged, or
// known to have been judged.

// passedSpan is a span that was not held, of a trace whose runs were judged.
type passedSpan struct {
	trace pcommon.TraceID
	span  pcommon.SpanID
}

// recordStates records the new states of the spans of a release once it is forwarded. Of
// those that are unreadable nothing is recorded: they may be readable in the store.
func (o *outbox) recordStates(release *assemble.Release, unreadable []*assemble.Member) {
	for i := range release.Members {
		m := &release.Members[i]
		if m.Foreign || slices.Contains(unreadable, m) {
			continue
		}
		switch p := o.of(m.Known.Caller); {
		case isLast(release):
			p.done = append(p.done, m.Known.Ticket)
		case m.Out:
			p.spent = append(p.spent, m.Known.Ticket)
		}
	}
}

// isLast reports whether nothing is kept of the members of a release.
func isLast(r *assemble.Release) bool {
	return r.Final || r.Reason == hold.Late || r.Reason == hold.RunExpired
}

// recordJudged records what the buffer remembers of a release, with the parcel of this
// caller. Where spans passed, their records are to follow it.
func (o *outbox) recordJudged(now time.Time, release *assemble.Release, caller *origin.Caller, passed bool) {
	r := journal.Judged{At: now, Trace: release.Trace, Tenant: o.tenant, Counts: release.Counts}
	if release.Final || release.Again {
		r.Runs = append(append(r.Runs, release.RunID), release.Parts...)
		r.Forgot = forgotAfterRestart(release)
	}
	if isLast(release) {
		for i := range release.Members {
			if m := &release.Members[i]; !m.Foreign {
				r.Spans = append(r.Spans, m.ID)
			}
		}
	}
	if len(r.Runs)+len(r.Spans) == 0 {
		return
	}
	p := o.of(caller)
	p.judged = r.Append(p.judged)
	if passed {
		p.last = append(p.last, release.Trace)
	}
}

// forgotAfterRestart reports whether a run that is judged may be within another one, which
// would have to know what it did. That is kept in memory only.
func forgotAfterRestart(release *assemble.Release) bool {
	return isRun(release) && !release.Run.Parent.IsEmpty()
}

// forgotRecords encodes of which traces of a tenant something was forgotten.
func forgotRecords(now time.Time, tenant uint64, traces []pcommon.TraceID) (records []byte) {
	for _, trace := range traces {
		r := journal.Judged{At: now, Trace: trace, Tenant: tenant, Forgot: true}
		records = r.Append(records)
	}
	return records
}

// recordPassed records spans that passed, after the verdicts of their trace.
func (o *outbox) recordPassed(now time.Time, passed []passedSpan) {
	for len(passed) > 0 {
		r := journal.Judged{At: now, Trace: passed[0].trace, Tenant: o.tenant}
		for len(passed) > 0 && passed[0].trace == r.Trace {
			r.Spans = append(r.Spans, passed[0].span)
			passed = passed[1:]
		}
		p := o.withLast(r.Trace)
		p.judged = r.Append(p.judged)
	}
}

// withLast is the parcel in which the last release of a trace was recorded.
func (o *outbox) withLast(trace pcommon.TraceID) *openParcel {
	for _, p := range o.open {
		if len(o.open) == 1 || slices.Contains(p.last, trace) {
			return p
		}
	}
	return o.of(nil)
}

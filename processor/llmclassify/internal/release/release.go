// Package release judges the releases of a trace buffer, stamps the verdicts onto their spans and sends them.
package release

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/clock"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/forward"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/judge"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/packed"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/stamp"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// TriggerOf is the trigger in the vocabulary for each of the buffer's reasons.
var TriggerOf = [...]semconv.Trigger{
	trace.Complete:    semconv.TriggerComplete,
	trace.RunEnded:    semconv.TriggerRunEnded,
	trace.HoldExpired: semconv.TriggerHoldExpired,
	trace.RunExpired:  semconv.TriggerRunExpired,
	trace.SpanLimit:   semconv.TriggerSpanLimit,
	trace.Memory:      semconv.TriggerMemory,
	trace.Shutdown:    semconv.TriggerShutdown,
	trace.Late:        semconv.TriggerLate,
}

// kinds are the kinds of spans, by their role in the buffer.
var kinds = [...]dialect.Kind{trace.Request: dialect.Request, trace.Tool: dialect.Tool, trace.Run: dialect.Run}

// Releaser judges the releases of a shard's buffer, stamps the verdicts and hands the spans to the forwarder. It belongs to
// one shard.
type Releaser struct {
	clock      clock.Clock
	telemetry  *telemetry.Telemetry
	store      *journal.Store
	markStatus bool // spans that failed get a status
	Buffer     *trace.Buffer
	forwarder  *forward.Forwarder
	evidence   *trace.Evidence
	Held       origin.Uses // by spans that are held or pending
	Kept       origin.Uses // by items whose facts alone are kept
	reader     packed.Reader
	Judge      judge.Judge

	forgotten []journal.Ticket // of facts that the buffer forgot; not yet recorded in the store
}

// New makes the releaser of a lane. Its Buffer is set before it is used.
func New(c clock.Clock, t *telemetry.Telemetry, s *journal.Store, markStatus bool, f *forward.Forwarder, e *trace.Evidence) *Releaser {
	return &Releaser{clock: c, telemetry: t, store: s, markStatus: markStatus, forwarder: f, evidence: e}
}

// Release judges releases, stamps the verdicts and forwards the spans together.
func (r *Releaser) Release(ctx context.Context, releases []trace.Release) {
	r.recordForgotten(ctx)
	if len(releases) > 0 {
		out := forward.NewOutbox(r.forwarder)
		for i := range releases { // in the order of pending
			r.releaseOne(ctx, &releases[i], &out)
			releases[i] = trace.Release{} // its spans are on their way
		}
		out.Flush(ctx)
	}
	r.reader.Close()
}

// recordForgotten records in the store which facts the buffer forgot.
func (r *Releaser) recordForgotten(ctx context.Context) {
	n := r.Buffer.Forgotten()
	if n == 0 {
		return
	}
	r.telemetry.Forgot(ctx, n)
	r.store.Forget(ctx, r.forgotten)
	clear(r.forgotten)
	r.forgotten = r.forgotten[:0]
}

// releaseOne judges one release and puts its spans, stamped, into the outbox.
func (r *Releaser) releaseOne(ctx context.Context, release *trace.Release, out *forward.Outbox) {
	trigger := TriggerOf[release.Reason]
	r.Open(release)
	if release.Of == nil {
		release.Of = r.Buffer.Trace(release.Trace)
	}
	d := r.judgeAndStamp(release, trigger)
	if v, ok := endingOf(release, &d, trigger); ok {
		r.telemetry.Run(ctx, v, 1)
	}
	sent := r.addSpans(ctx, release, &d, out)
	last := lastOwn(release)
	if d.Run != nil && d.Carrier < 0 && last != nil {
		span := abandoned(release, &d, r.Judge.ModelNames(release))
		if d.Run.Failed() {
			plan := r.Judge.Plan()
			stamp.Plan(span.Attributes(), d.Run, &plan)
		}
		if r.markStatus {
			stamp.Status(span, d.Run)
		}
		out.AddNew(ctx, span, last.Known.Caller, last.Known.Origin, forward.VerdictSize)
	}
	if r.store.Enabled() && last != nil {
		// After the last of its spans: a run that goes in several parcels is replayed as a whole after a crash, or not at
		// all.
		record(release, sent.unreadable, out)
	}
	r.letGo(release)
	r.Buffer.Done(release)
	if d.Contradicts {
		r.telemetry.Contradicted(ctx, 1)
	}
	switch release.Reason {
	case trace.Late:
		if !release.Beneath { // spans of other services mostly arrive later
			r.telemetry.Late(ctx, sent.spans)
		}
	case trace.RunExpired: // nothing was held
	default:
		r.telemetry.HoldTime(ctx, sent.held, trigger)
	}
}

// JudgeWhole judges a release whose spans stay in the call, and stamps the verdicts. It returns the ending to count once
// the run is forwarded; false for no ending.
func (r *Releaser) JudgeWhole(release *trace.Release) (v telemetry.Ending, ok bool) {
	r.Open(release)
	trigger := TriggerOf[release.Reason]
	d := r.judgeAndStamp(release, trigger)
	return endingOf(release, &d, trigger)
}

// endingOf returns the ending to count for the run of a judged release; false if it is not due.
func endingOf(release *trace.Release, d *judge.Diagnoses, trigger semconv.Trigger) (v telemetry.Ending, ok bool) {
	if d.Run != nil {
		return telemetry.Ending{Outcome: d.Run.Outcome, Class: d.Run.Class, Trigger: trigger}, true
	}
	return clientsVerdict(release)
}

// clientsVerdict returns the client's verdict on a run, if the run's span is released with that verdict: only the client
// knows the parts of the run in other traces.
func clientsVerdict(release *trace.Release) (v telemetry.Ending, ok bool) {
	if !release.Final || release.Run == nil {
		return telemetry.Ending{}, false
	}
	for i := range release.Members {
		if m := &release.Members[i]; m.Item == release.Run && m.Out && readable(m) {
			return telemetry.EndingOn(m.Span)
		}
	}
	return telemetry.Ending{}, false
}

// sent summarizes the released spans of a release.
type sent struct {
	spans      int
	held       time.Duration   // the longest hold time of a span
	unreadable []*trace.Member // spans that could not be unpacked
}

// addSpans puts the released spans into the outbox.
func (r *Releaser) addSpans(ctx context.Context, release *trace.Release, d *judge.Diagnoses, out *forward.Outbox) (s sent) {
	for i := range release.Members {
		m := &release.Members[i]
		if m.Foreign || !m.Out {
			continue
		}
		if m.Known.Sent { // an earlier process forwarded it
			if !isLast(release) {
				r.Buffer.SetFacts(m.Item, r.ReadFacts(m.Item))
			}
			m.Known.Body = packed.Span{}
			continue
		}
		s.spans++
		if !readable(m) {
			s.unreadable = append(s.unreadable, m)
			continue
		}
		size := int(m.Size)
		if i == d.Carrier || d.Members[i] != nil {
			size += forward.VerdictSize
		}
		if !isLast(release) {
			r.Buffer.SetFacts(m.Item, factsOf(m.Item, m.Span)) // its span is released
		}
		out.Add(ctx, m.Span, m.Known.Caller, m.Known.Origin, size)
		m.Known.Body = packed.Span{}
		s.held = max(s.held, m.Held)
	}
	if n := len(s.unreadable); n > 0 {
		r.telemetry.Flow.Gone(n)
		r.telemetry.Error("Held spans cannot be unpacked; they are lost", zap.Int("spans", n))
	}
	return s
}

// record records the spans of a release in the store once they are forwarded. Unreadable spans stay in the store, where
// they may be readable.
func record(release *trace.Release, unreadable []*trace.Member, out *forward.Outbox) {
	for i := range release.Members {
		m := &release.Members[i]
		switch {
		case m.Foreign || slices.Contains(unreadable, m):
		case isLast(release):
			out.Done(m.Known.Caller, m.Known.Ticket)
		case m.Out:
			out.Sent(m.Known.Caller, m.Known.Ticket)
		}
	}
}

// isLast reports whether the members of a release are not kept.
func isLast(r *trace.Release) bool {
	return r.Final || r.Reason == trace.Late || r.Reason == trace.RunExpired
}

// lastOwn returns the last member that belongs to the run itself, or nil.
func lastOwn(release *trace.Release) *trace.Member {
	for i := len(release.Members) - 1; i >= 0; i-- {
		if m := &release.Members[i]; !m.Foreign {
			return m
		}
	}
	return nil
}

// Open unpacks the spans of a release, and adds the evidence to their facts.
func (r *Releaser) Open(release *trace.Release) {
	for i := range release.Members {
		m := &release.Members[i]
		var ok bool
		if m.Span, ok = r.reader.Span(m.Known.Body); !ok {
			m.Span = ptrace.NewSpan() // its facts have been read
		}
	}
	r.evidence.Explain(release)
}

// ReadFacts reads the facts of a span that may be released, and returns their memory.
func (r *Releaser) ReadFacts(it *trace.Item) int {
	span, ok := r.reader.Span(it.Known.Body)
	if !ok {
		span = ptrace.NewSpan() // addSpans reports it
	}
	return factsOf(it, span)
}

// factsOf reads the facts of a span, and returns their memory.
func factsOf(it *trace.Item, span ptrace.Span) int {
	if names := dialect.RunNamesOf(span); names != (dialect.RunNames{}) {
		it.Known.Names = &names
	}
	return it.Known.Facts(span, kinds[it.Role]).Size() + it.Known.Names.Size()
}

// Explained reports whether no further span could explain more of a complete run.
func (r *Releaser) Explained(release *trace.Release) bool {
	r.Open(release)
	return r.Judge.Explained(release)
}

// letGo counts the members that a release lets go: a last release keeps none, and after an early one the facts stay.
func (r *Releaser) letGo(release *trace.Release) {
	last := isLast(release)
	for i := range release.Members {
		m := &release.Members[i]
		switch known := &m.Known; {
		case m.Foreign:
		case last:
			r.uses(m.Item).Remove(known.Origin)
		case m.Out && !m.Gone():
			r.Held.Remove(known.Origin)
			r.keep(m.Item)
		}
	}
}

// keep counts the scope of an item whose span is released.
func (r *Releaser) keep(it *trace.Item) {
	it.Known.Origin, it.Known.Kept = it.Known.Origin.Slim(), true
	r.Kept.Add(it.Known.Origin, 1)
}

// uses returns the count that the scope of an item is in.
func (r *Releaser) uses(it *trace.Item) *origin.Uses {
	if it.Known.Kept {
		return &r.Kept
	}
	return &r.Held
}

// Forget counts an item whose facts the buffer forgot. The next release records that in the store.
func (r *Releaser) Forget(it *trace.Item) {
	r.uses(it).Remove(it.Known.Origin)
	r.forgotten = append(r.forgotten, it.Known.Ticket)
}

// abandoned returns a span that represents a run whose own span never arrived, and that has no span left to carry the
// verdict. Its id is a hash of the run's, so that a second one after a crash is the same span.
func abandoned(release *trace.Release, d *judge.Diagnoses, names dialect.RunNames) ptrace.Span {
	span := ptrace.NewSpan()
	span.SetName(semconv.SpanRunAbandoned)
	span.SetKind(ptrace.SpanKindInternal)
	span.SetTraceID(release.Trace)
	span.SetParentSpanID(release.RunID)
	var id pcommon.SpanID
	run := binary.LittleEndian.Uint64(release.RunID[:])
	binary.LittleEndian.PutUint64(id[:], (trace.Hash(release.Trace)^run)*0x9e3779b97f4a7c15|1)
	span.SetSpanID(id)
	var end pcommon.Timestamp
	for i := range release.Members {
		if m := &release.Members[i]; !m.Foreign {
			end = max(end, m.End)
			names.Add(m.Known.Names)
		}
	}
	names.Write(span)
	span.SetStartTimestamp(end)
	span.SetEndTimestamp(end)
	stamp.Run(span, d.Run, nil, semconv.TriggerRunExpired)
	return span
}

// Package ledger records everything in a soak: what was sent, acknowledged and
// exported, and when the Collector was stopped or killed. From that it determines what
// was lost, doubled, altered, judged twice or not judged.
package ledger

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/soak/internal/load"
)

// Key identifies a span, or a run by its id.
type Key struct {
	Trace pcommon.TraceID
	Span  pcommon.SpanID
}

// Answer is the result of an attempt to send spans.
type Answer uint8

// The answers.
const (
	Acknowledged Answer = iota // the Collector owns the spans
	Refused                    // the Collector did not accept them, or never saw them: they are sent again
	Unanswered                 // the Collector may have accepted them; they are sent again
	Rejected                   // the Collector refused them permanently
)

// stop is one end of the Collector.
type stop struct {
	began, ended moment // beginning and end of the shutdown; equal for a kill
	kill         bool
}

// fill is a time in which the Collector's disk was full.
type fill struct{ began, ended moment }

// Ledger is safe for concurrent use. All times have to be from one clock.
type Ledger struct {
	seed  maphash.Seed
	began time.Time

	// mu guards everything declared below
	mu       sync.Mutex
	blocks   [][]span           // the spans, by their number
	spans    map[Key]int32      // their numbers
	more     map[Key][]delivery // the copies of those that have several
	runs     map[Key]*run
	byNumber []*run
	traces   int
	stops    []stop
	fills    []fill
	invented []Key // spans that were exported but never sent
	figures  Figures
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{
		seed: maphash.MakeSeed(), began: time.Now().Add(-longBefore),
		spans: make(map[Key]int32), more: make(map[Key][]delivery), runs: make(map[Key]*run),
	}
}

// Plan records a trace before it is sent.
func (l *Ledger) Plan(t *load.Trace) {
	hashes := make([]uint64, len(t.Spans))
	for i := range t.Spans {
		s := &t.Spans[i]
		rs := ptrace.NewResourceSpans()
		ss := rs.ScopeSpans().AppendEmpty()
		load.Services[s.Service].Fill(rs, ss)
		hashes[i] = l.hash(l.around(rs, ss), s.Span)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.traces++
	first := len(l.byNumber)
	for _, p := range t.Runs {
		key := Key{t.ID, p.ID}
		r := &run{key: key, plan: p, shape: t.Shape}
		l.runs[key] = r
		l.byNumber = append(l.byNumber, r)
	}
	for i := range t.Spans {
		s := &t.Spans[i]
		entry := span{key: Key{t.ID, s.SpanID()}, run: none, role: s.Role, late: s.Late, shown: s.Shown, risky: s.Risky, hash: hashes[i]}
		if s.Role == load.Other {
			l.add(&entry)
			continue
		}
		of := slices.IndexFunc(t.Runs, func(p load.Plan) bool { return p.ID == s.RunID })
		entry.run = int32(first + of) //nolint:gosec // there are fewer runs than spans
		r := l.byNumber[entry.run]
		r.spans = append(r.spans, l.add(&entry))
	}
}

// Judged returns a channel that is closed when a verdict on the run has been exported.
func (l *Ledger) Judged(run Key) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.runs[run]
	if r.judged == nil {
		r.judged = make(chan struct{})
		if r.told {
			close(r.judged)
		}
	}
	return r.judged
}

// Attempt records that spans are about to be sent.
func (l *Ledger) Attempt(keys []Key, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		s := l.span(l.spans[k])
		if s.attempts == 0 {
			s.first = l.moment(at)
			l.figures.Sent++
		}
		s.attempts++
	}
}

// Refused returns how many spans were refused so far, each counted each time.
func (l *Ledger) Refused() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.figures.Refused
}

// Answer records the result of an attempt.
func (l *Ledger) Answer(keys []Key, a Answer, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()

	for _, k := range keys {
		s := l.span(l.spans[k])
		if s.answered.IsZero() {
			s.answered = l.moment(at)
		}
		switch a {
		case Acknowledged:
			if s.acks++; s.acks == 1 {
				s.acked = l.moment(at)
				l.figures.Acknowledged++
			}
		case Refused:
			l.figures.Refused++
		case Unanswered:
			s.unknown++
			l.figures.Unanswered++
		case Rejected:
			s.rejected = true
		}
	}
}

// Deliver records spans that were exported. It keeps no reference to td.
func (l *Ledger) Deliver(td ptrace.Traces, at time.Time) {
	type arrival struct {
		key, parent Key
		abandoned   bool
		hash        uint64
		delivery    delivery
	}
	list := make([]arrival, 0, td.SpanCount())
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			around := l.around(rs, ss)
			for _, s := range ss.Spans().All() {
				a := arrival{key: Key{s.TraceID(), s.SpanID()}, parent: Key{s.TraceID(), s.ParentSpanID()}}
				a.abandoned = s.Name() == semconv.SpanRunAbandoned
				a.delivery = read(s)
				a.delivery.at = l.moment(at)
				a.hash = l.hash(around, s)
				list = append(list, a)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range list {
		n, known := l.spans[a.key]
		switch {
		case known:
			s := l.span(n)
			a.delivery.altered = a.hash != s.hash
			l.export(s, a.delivery)
			if s.copies == 1 {
				l.figures.Delivered++
			} else {
				l.figures.Duplicates++
			}
			if r := l.runOf(s); r != nil && a.delivery.outcome != semconv.RunOutcomeUnset {
				r.tell()
			}
		case a.abandoned && l.runs[a.parent] != nil:
			r := l.runs[a.parent]
			r.abandoned = append(r.abandoned, a.delivery)
			if r.abandons == nil {
				r.abandons = make(map[Key]bool)
			}
			r.abandons[a.key] = true
			r.tell()
		default:
			l.invented = append(l.invented, a.key)
		}
	}
}

func (r *run) tell() {
	if !r.told && r.judged != nil {
		close(r.judged)
	}
	r.told = true
}

// Stopped records a stop of the Collector, with its beginning and its end.
func (l *Ledger) Stopped(began, ended time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops = append(l.stops, stop{began: l.moment(began), ended: l.moment(ended)})
}

// Killed records that the Collector was killed.
func (l *Ledger) Killed(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops = append(l.stops, stop{began: l.moment(at), ended: l.moment(at), kill: true})
}

// Full records that the Collector's disk was full between two times, or until a process that
// was killed in between.
func (l *Ledger) Full(began, ended time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fills = append(l.fills, fill{l.moment(began), l.moment(ended)})
}

// read reads the verdict of a span.
func read(s ptrace.Span) (d delivery) {
	attrs := s.Attributes()
	if v, ok := attrs.Get(string(semconv.ClassificationTriggerKey)); ok {
		if d.trigger, ok = semconv.ParseTrigger(v.Str()); !ok {
			d.strange = true
		}
	}
	if v, ok := attrs.Get(string(semconv.RunOutcomeKey)); ok {
		if d.outcome, ok = semconv.ParseRunOutcome(v.Str()); !ok {
			d.strange = true
		}
	}
	_, d.failed = attrs.Get(string(semconv.FailureClassKey))
	if v, ok := attrs.Get(string(semconv.RetrySafetyKey)); ok {
		d.safe = v.Str() == semconv.RetrySafetySafeAutoRetry.String()
	}
	return d
}

// around hashes the resource and scope of spans.
func (l *Ledger) around(rs ptrace.ResourceSpans, ss ptrace.ScopeSpans) uint64 {
	td := ptrace.NewTraces()
	to := td.ResourceSpans().AppendEmpty()
	rs.Resource().CopyTo(to.Resource())
	to.SetSchemaUrl(rs.SchemaUrl())
	in := to.ScopeSpans().AppendEmpty()
	ss.Scope().CopyTo(in.Scope())
	in.SetSchemaUrl(ss.SchemaUrl())
	return l.sum(td)
}

// hash hashes the encoded span without verdicts, and without what comes with them: the status
// where it was unset, and a run's model. It does not change the span.
func (l *Ledger) hash(around uint64, s ptrace.Span) uint64 {
	td := ptrace.NewTraces()
	to := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.CopyTo(to)
	attrs := to.Attributes()
	if set, ok := attrs.Get(string(semconv.ClassificationStatusSetKey)); ok && set.Bool() {
		to.Status().SetCode(ptrace.StatusCodeUnset)
		to.Status().SetMessage("")
	}
	operation, ok := attrs.Get(string(otelsemconv.GenAIOperationNameKey))
	ofRun := ok && operation.AsString() == otelsemconv.GenAIOperationNameInvokeAgent.Value.AsString()
	attrs.RemoveIf(func(key string, _ pcommon.Value) bool {
		return verdicts[key] || ofRun && (key == string(otelsemconv.GenAIProviderNameKey) || key == string(otelsemconv.GenAIRequestModelKey))
	})
	return around*31 + l.sum(td)
}

func (l *Ledger) sum(td ptrace.Traces) uint64 {
	data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	if err != nil {
		return 0 // no sent span has this hash
	}
	return maphash.Bytes(l.seed, data)
}

// verdicts are the attributes that llm_classify writes.
var verdicts = map[string]bool{
	string(semconv.RunOutcomeKey): true, string(semconv.RunTimelineKey): true, string(semconv.RunRecoveredFailuresKey): true,
	string(semconv.HistoryMissingOutputsKey): true, string(semconv.RunForgottenCallsKey): true, string(semconv.RunWarningKey): true,
	string(semconv.FailureClassKey): true, string(semconv.FailureCauseKey): true, string(semconv.FailurePhaseKey): true,
	string(semconv.FailureOriginKey): true, string(semconv.FailureConfidenceKey): true, string(semconv.FailureSummaryKey): true,
	string(semconv.FailureSummaryKeyKey): true,
	string(semconv.FailureEvidenceKey):   true, string(semconv.FailureMissingEvidenceKey): true,
	string(semconv.RetrySafetyKey): true, string(semconv.RetryReasonKey): true,
	string(semconv.ResumeSendKey): true, string(semconv.ResumeAskKey): true, string(semconv.ResumeWaitKey): true, string(semconv.ResumeMoreKey): true,
	string(semconv.ResumeRanIDsKey): true, string(semconv.ResumeRanNamesKey): true, string(semconv.ResumeRanOutputsKey): true,
	string(semconv.ResumeMayHaveRunIDsKey): true, string(semconv.ResumeMayHaveRunNamesKey): true,
	string(semconv.ResumeNeverRanIDsKey): true, string(semconv.ResumeNeverRanNamesKey): true,
	string(semconv.ClassificationTriggerKey): true, string(semconv.ClassificationRulesetKey): true,
	string(semconv.ClassificationStatusSetKey): true,
}

package live

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/stamp"
	"github.com/otelllm/otelllm-go/semconv"
)

// Verdict is the verdict on one run, and on its requests and tools.
type Verdict struct {
	// ID is that of the run's own span, or else of the span that represents the run: the
	// parent of its requests.
	ID pcommon.SpanID
	// Run is the verdict on the run. It is nil if nothing is said of one, as of a lone
	// request.
	Run *classify.Diagnosis
	// Parts are the verdicts on the requests and tools that failed.
	Parts map[pcommon.SpanID]*classify.Diagnosis
}

// Judge judges all runs, in the order in which the first span of each was given.
func (t *Trace) Judge() []Verdict {
	all := t.runs()
	list := make([]Verdict, len(all))
	done := make(map[*run]judged, len(all))
	for i, r := range all {
		list[i] = t.judge(r, done).Verdict
	}
	return list
}

// JudgeRun judges the run with this id. It reports false if no span is of that run.
func (t *Trace) JudgeRun(id pcommon.SpanID) (Verdict, bool) {
	for _, r := range t.runs() {
		if r.id == id {
			return t.judge(r, make(map[*run]judged)).Verdict, true
		}
	}
	return Verdict{}, false
}

// judged is a verdict with what a run around the judged one needs of it.
type judged struct {
	Verdict
	effects   classify.Effects
	succeeded classify.Fact // of the runs within it
}

// noSpan is the span of a part, the facts of which have been read.
var noSpan ptrace.Span

// judge judges a run, after those within it.
func (t *Trace) judge(r *run, done map[*run]judged) judged {
	if j, ok := done[r]; ok {
		return j
	}
	within := assemble.Inner{}
	for _, inner := range r.inner {
		j := t.judge(inner, done)
		effects := j.effects
		if !r.open() {
			within.Succeeded = innerSucceeded(within.Succeeded, &j)
			if !inner.countsFor(r) {
				effects.Requests, effects.Tools = 0, 0
			}
		}
		within.Effects = within.Effects.Join(effects)
	}
	if r.named && r.open() && r.ranUnrecorded() {
		within.Effects = within.Effects.Join(unrecordedTool)
	}
	release := &assemble.Release{Reason: hold.RunEnded, Final: true, RunID: r.id, Named: r.named, Missing: t.incomplete}
	if r.named {
		release.Run = t.runItem(r, &within)
		release.Members = append(release.Members, assemble.Member{Item: release.Run, Out: true})
	}
	var outlive []*part
	for _, p := range r.members {
		if p.open && p.kind == KindRequest && !r.open() {
			outlive = append(outlive, p)
			continue
		}
		release.Members = append(release.Members, assemble.Member{Item: &p.item, Out: true, Above: t.above(p)})
	}
	if len(outlive) > 0 {
		within.Effects = within.Effects.Join(effectsOf(outlive, r))
	}
	var judge assemble.Judge
	d := judge.Diagnose(release, within)
	j := judged{Verdict: Verdict{ID: r.id, Run: d.Run, Parts: make(map[pcommon.SpanID]*classify.Diagnosis)}, effects: d.Effects, succeeded: within.Succeeded}
	for i, part := range d.Members {
		if part != nil && release.Members[i].Role != hold.Run {
			j.Parts[release.Members[i].ID] = part
		}
	}
	done[r] = j
	return j
}

// innerSucceeded joins how the runs within a run went with one more of them.
func innerSucceeded(so classify.Fact, j *judged) classify.Fact {
	succeeded := j.succeeded != classify.No && j.Run != nil && assemble.NeedsNoAction(j.Run.Outcome)
	if so == classify.No || !succeeded {
		return classify.No
	}
	return classify.Yes
}

// countsFor reports whether the numbers that the run around it announces include its own:
// they are of one process, which counts what begins under its runs. A run that outlasts the
// one around it began parts that are in no number.
func (r *run) countsFor(outer *run) bool {
	if r.span == nil || outer.span == nil {
		return false
	}
	in, out := &r.span.item, &outer.span.item
	announced := r.open() || in.Known.Facts(noSpan, dialect.Run).Run.AnnouncedRequests.Observed()
	return announced && (in.Run.IsEmpty() || in.Run == out.ID) && assemble.SameService(in, out) &&
		out.Start <= in.Start && in.End <= out.End+assemble.ClockGrain
}

// runItem returns the span of a named run as it is assembled. A run that goes on announces
// what is here, which is all that there is so far.
func (t *Trace) runItem(r *run, within *assemble.Inner) *assemble.Item {
	it := &assemble.Item{ID: r.id, Role: hold.Run}
	it.Known.Dialect = dialect.OTelLLM{}
	if r.span != nil {
		it.Parent, it.Run, it.Start, it.End = r.span.item.Parent, r.span.item.Run, r.span.item.Start, r.span.item.End
		it.Known.Origin = r.span.item.Known.Origin
	} else if len(r.members) > 0 {
		it.Known.Origin = r.members[0].item.Known.Origin
		it.Start = r.members[0].item.Start
		for _, p := range r.members {
			it.Start = min(it.Start, p.item.Start)
		}
	}
	facts := it.Known.Facts(ptrace.NewSpan(), dialect.Run).Run
	if r.span != nil {
		*facts = *r.span.item.Known.Facts(noSpan, dialect.Run).Run
	} else {
		*facts = classify.Run{Start: it.Start.AsTime()}
	}
	if r.open() {
		requests, tools := r.count()
		facts.AnnouncedRequests, facts.AnnouncedTools = classify.Counted(requests+within.Effects.Requests), 0
		if t.reportsTools(r) || r.declaresTools() {
			facts.AnnouncedTools = classify.Counted(tools + within.Effects.Tools)
		}
	}
	return it
}

// effectsOf returns what requests did that go on although their run has ended. None of them
// is counted.
func effectsOf(requests []*part, of *run) classify.Effects {
	run := classify.Run{}
	for _, p := range requests {
		run.Requests = append(run.Requests, *p.item.Known.Facts(noSpan, dialect.Request).Request)
	}
	recorded := of.declaresTools()
	for _, p := range of.members {
		if p.kind == KindTool {
			run.Tools = append(run.Tools, *p.item.Known.Facts(noSpan, dialect.Tool).Tool)
			recorded = true
		}
	}
	if recorded {
		run.ToolsRecorded = classify.Yes
	}
	e := classify.Judge(&run).Effects
	e.Requests, e.Tools = 0, 0
	return e
}

// RunAttributes returns the verdict on a run as attributes, or none for nil. Their trigger is
// the client's: a classifier that sees the spans later replaces them.
func RunAttributes(d *classify.Diagnosis) pcommon.Map {
	span := ptrace.NewSpan()
	if d != nil {
		stamp.Run(span, d, nil, semconv.TriggerClient)
		putAfter(span.Attributes(), d)
	}
	return span.Attributes()
}

// PartAttributes returns the verdict on a request or tool that failed as attributes, or none
// for nil.
func PartAttributes(d *classify.Diagnosis) pcommon.Map {
	span := ptrace.NewSpan()
	if d != nil {
		stamp.Span(span, d, semconv.TriggerClient)
		putAfter(span.Attributes(), d)
	}
	return span.Attributes()
}

// putAfter writes how long a retry is to wait.
func putAfter(attrs pcommon.Map, d *classify.Diagnosis) {
	if d.Retry.After > 0 {
		attrs.PutDouble(string(semconv.RetryAfterKey), d.Retry.After.Seconds())
	}
}

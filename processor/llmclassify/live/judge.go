package live

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/judge"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/stamp"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// Verdict is the verdict on one run, and on its requests and tools.
type Verdict struct {
	// ID is the id of the run's own span, or else of the span that represents the run: the parent of its requests.
	ID pcommon.SpanID
	// Run is the verdict on the run. It is nil if there is no run to judge, only a lone request.
	Run *classify.Diagnosis
	// Plan tells how to go on if the run failed.
	Plan classify.Plan
	// Parts are the verdicts on the requests and tools that failed.
	Parts map[pcommon.SpanID]*classify.Diagnosis
}

// Judge judges all runs, in the order in which their first spans were set.
func (t *Trace) Judge() []Verdict {
	all := t.runs()
	list := make([]Verdict, len(all))
	done := make(map[*run]judged, len(all))
	for i, r := range all {
		j := t.judge(r, done)
		list[i] = j.withPlan()
	}
	return list
}

// JudgeRun judges the run with this id. It reports false if no span belongs to that run.
func (t *Trace) JudgeRun(id pcommon.SpanID) (Verdict, bool) {
	j, ok := t.judgeOf(id)
	if !ok {
		return Verdict{}, false
	}
	return j.withPlan(), true
}

// judgeOf judges the run with this id, and the runs within it.
func (t *Trace) judgeOf(id pcommon.SpanID) (judged, bool) {
	for _, r := range t.runs() {
		if r.id == id {
			return t.judge(r, make(map[*run]judged)), true
		}
	}
	return judged{}, false
}

// JudgeCall judges requests of the run with this id as the attempts of one model call, in this order: the verdict is on
// sending that call again, see [classify.JudgeCall], and the plan on going on with it, see [classify.PlanCall]. It reports
// false if one of them is not a request of the run.
func (t *Trace) JudgeCall(id pcommon.SpanID, attempts []pcommon.SpanID) (classify.Diagnosis, classify.Plan, bool) {
	j, ok := t.judgeOf(id)
	if !ok {
		return classify.Diagnosis{}, classify.Plan{}, false
	}
	return j.judge.Call(j.release, attempts)
}

// PlanSince returns the plan to go on with the run with this id, from the parts that began at that time or later. It
// reports false if no span belongs to that run, or if the run has ended.
func (t *Trace) PlanSince(id pcommon.SpanID, at pcommon.Timestamp) (classify.Plan, bool) {
	for _, r := range t.runs() {
		if r.id == id && r.open() {
			j := t.judge(t.since(r, trace.Clock(at)), make(map[*run]judged))
			return j.judge.Plan(), true
		}
	}
	return classify.Plan{}, false
}

// judged is a verdict, with the facts for judging the run around it.
type judged struct {
	Verdict
	ended   trace.Ended
	judge   *judge.Judge
	release *trace.Release // the judged release
	// recorded is the effects of the runs within it, without an unrecorded tool. It is set if a tool ran that was
	// not recorded, and all requests that may show its call belong to the run or to an open run within it: the plan lists
	// the call, so that no other effect has to stand for it.
	recorded *trace.Inner
}

// withPlan returns the verdict with the plan to go on. A plan takes as long as the verdict did, and the runs within a run
// need none.
func (j *judged) withPlan() Verdict {
	v := j.Verdict
	if v.Run != nil && v.Run.Failed() {
		by := j.judge
		if j.recorded != nil {
			by = &judge.Judge{} // the verdict is in the memory of the other one
			by.Diagnose(j.release, *j.recorded)
		}
		v.Plan = by.Plan()
	}
	return v
}

// noSpan stands for the span of a part whose facts have been read.
var noSpan ptrace.Span

// judge judges a run, after the runs within it.
func (t *Trace) judge(r *run, done map[*run]judged) judged {
	if j, ok := done[r]; ok {
		return j
	}
	within, past := trace.Inner{}, false
	for _, inner := range r.inner {
		j := t.judge(inner, done)
		effects := j.ended.Effects
		past = past || !inner.open() && effects.Requests > 0
		if !r.open() {
			within.Ended(j.ended.Well)
			if !inner.countsFor(r) {
				effects.Requests, effects.Tools = 0, 0
			}
		}
		within.Effects = within.Effects.Join(effects)
	}
	recorded, unrecorded := within, r.named && r.open() && r.toolsHere == nil && r.ranUnrecorded()
	if unrecorded {
		within.Effects = within.Effects.Join(unrecordedTool)
	}
	release := &trace.Release{Reason: trace.RunEnded, Final: true, RunID: r.id, Named: r.named}
	if t.incomplete {
		release.Doubt = trace.Forgotten
	}
	if r.named {
		release.Run = t.runItem(r, &within)
		release.Members = append(release.Members, trace.Member{Item: release.Run, Out: true})
	}
	var outlive []*part
	for _, p := range r.members {
		if p.open && p.kind == KindRequest && !r.open() {
			outlive = append(outlive, p)
			continue
		}
		release.Members = append(release.Members, trace.Member{Item: &p.item, Out: true, Above: p.above})
	}
	if len(outlive) > 0 {
		outlived := effectsOf(outlive, r)
		within.Effects, recorded.Effects = within.Effects.Join(outlived), recorded.Effects.Join(outlived)
	}
	judge := &judge.Judge{}
	d := judge.Diagnose(release, within)
	j := judged{Verdict: Verdict{ID: r.id, Run: d.Run, Parts: make(map[pcommon.SpanID]*classify.Diagnosis)}, ended: d.Ended(within), judge: judge, release: release}
	if unrecorded && !past {
		j.recorded = &recorded
	}
	for i, part := range d.Members {
		if part != nil && release.Members[i].Role != trace.Run {
			j.Parts[release.Members[i].ID] = part
		}
	}
	done[r] = j
	return j
}

// countsFor reports whether the numbers that the run around it announces include its own.
func (r *run) countsFor(outer *run) bool {
	if r.span == nil || outer.span == nil {
		return false
	}
	in := trace.PositionOf(&r.span.item)
	announced := r.open() || r.span.item.Known.Facts(noSpan, dialect.Run).Run.AnnouncedRequests.Observed()
	return announced && in.CountsFor(&outer.span.item)
}

// runItem returns the span of a named run for the judge. An open run announces the parts that are here, which are all that
// there are so far.
func (t *Trace) runItem(r *run, within *trace.Inner) *trace.Item {
	it := &trace.Item{ID: r.id, Role: trace.Run}
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
		if r.toolsHere != nil && *r.toolsHere || r.toolsHere == nil && (t.reportsTools(r) || r.declaresTools()) {
			facts.AnnouncedTools = classify.Counted(tools + within.Effects.Tools)
		}
	}
	return it
}

// effectsOf returns the effects of requests that are still open although their run has ended. They add nothing to the
// counts.
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

// RunAttributes returns the verdict on a run as attributes, with the plan to go on if it failed, or none for nil. Their
// trigger is the client's: a classifier that reads the spans later replaces them.
func RunAttributes(d *classify.Diagnosis, plan *classify.Plan) pcommon.Map {
	span := ptrace.NewSpan()
	if d != nil {
		stamp.Run(span, d, nil, semconv.TriggerClient)
		putAfter(span.Attributes(), d)
		if plan != nil {
			stamp.Plan(span.Attributes(), d, plan)
		}
	}
	return span.Attributes()
}

// PartAttributes returns the verdict on a request or tool that failed as attributes, or none for nil.
func PartAttributes(d *classify.Diagnosis) pcommon.Map {
	span := ptrace.NewSpan()
	if d != nil {
		stamp.Span(span, d, semconv.TriggerClient)
		putAfter(span.Attributes(), d)
	}
	return span.Attributes()
}

// putAfter writes how long a retry has to wait.
func putAfter(attrs pcommon.Map, d *classify.Diagnosis) {
	if d.Retry.After > 0 {
		attrs.PutDouble(string(semconv.RetryAfterKey), d.Retry.After.Seconds())
	}
}

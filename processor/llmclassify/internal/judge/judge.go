// Package judge turns a release into verdicts: which of its spans are attempts of its requests, and which other spans of
// its trace explain them.
package judge

import (
	"cmp"
	"slices"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// Diagnoses are the verdicts on the spans of one release.
type Diagnoses struct {
	// Run is the verdict on the run. Nil if it is not due, or if there is no run but a single request or tool.
	Run *classify.Diagnosis
	// Carrier is the member that carries Run: the run span, or without one the LLM span that ended last; -1 if no span is
	// released.
	Carrier int
	// Members are the verdicts on requests and tools, by member; nil without a failure.
	Members []*classify.Diagnosis

	// Effects are the effects of the run, or of its parts in the release, with the runs within it.
	Effects classify.Effects

	// Unclaimed: the run ended, and its producer does not record its outcome. Its effects count.
	Unclaimed bool

	// Contradicts: the release is of a late span, or of a run within one that was judged before, and contradicts the
	// numbers that the outer run announced. Diagnose does not set it.
	Contradicts bool

	unexplained bool // a request of the run has an empty response without a known reason
}

// Ended is the outcome of the run, with the runs within it.
func (d *Diagnoses) Ended(within trace.Inner) trace.Ended {
	e := trace.Ended{Effects: d.Effects}
	if d.Run != nil {
		e.Retry = classify.Retry{Safety: d.Run.Retry.Safety, Reason: d.Run.Retry.Reason}
		e.Well = classify.FactOf(NeedsNoAction(d.Run.Outcome))
	}
	if within.Succeeded == classify.No {
		e.Well = classify.No
	}
	return e
}

// Judge judges releases one after the other, in reusable memory. Its zero value is ready to use. It is not safe for
// concurrent use.
type Judge struct {
	run             classify.Run
	requests, tools []int // the members in run, by index
	verdicts        classify.Verdicts
	verdictOf       []*classify.Diagnosis // by member
	relations       []relation            // by member
	lists           dialect.Lists         // of run
	certain         *classify.Run         // run without the requests placed by time, if that has the verdict
}

// Explained reports whether no further span could change the verdict on a complete run: none of its requests has an empty
// response without a known reason, which spans of other services may show.
func (j *Judge) Explained(release *trace.Release) bool {
	d := j.Diagnose(release, trace.Inner{})
	return !d.unexplained
}

// Diagnose judges a release: the run's own requests and tools as a run, and each other span on its own. The result is valid
// until the next call.
func (j *Judge) Diagnose(release *trace.Release, inner trace.Inner) Diagnoses {
	members := release.Members
	j.verdictOf = sized(j.verdictOf, len(members))
	d := Diagnoses{Carrier: -1, Members: j.verdictOf}
	j.certain = nil
	j.relations = relations(release, j.relations)
	s := j.relations
	for i := range members {
		if (s[i].apart || s[i].duplicate) && len(s[i].attempts) == 0 {
			d.Members[i] = judgeAlone(&members[i], classify.Upstream{})
		}
	}

	j.assemble(release)
	run, requests, tools := &j.run, j.requests, j.tools
	run.Within, run.Inner = inner.Succeeded, inner.Effects
	for i := range members {
		if s[i].lacks && !s[i].apart {
			run.Inner = run.Inner.Join(effectsShown(&members[i]))
		}
	}
	run.Partial, run.Doubts, run.Open = j.partial(release), nil, !release.Final
	if run.Partial {
		run.Doubts = j.doubts(release)
	}
	j.linkUpstream(release, d.Members)
	verdicts := &j.verdicts
	classify.JudgeInto(verdicts, run)
	for n, i := range requests {
		d.Members[i] = failed(&verdicts.Requests[n])
		d.unexplained = d.unexplained || unexplained(d.Members[i])
	}
	for n, i := range tools {
		d.Members[i] = failed(&verdicts.Tools[n])
	}
	j.judgeLogicalCalls(release, d.Members)
	for i := range members {
		if first := s[i].first; first >= 0 && members[first].Role == members[i].Role {
			d.Members[i] = d.Members[first]
		}
	}
	d.Effects = verdicts.Effects
	switch {
	case !release.Final || j.alone(release) || j.unfinished(release, d.Members):
	case verdicts.Run.Outcome == semconv.RunOutcomeUnset: // no outcome is recorded, or the client has judged it
		d.Unclaimed = run.ReturnsCalls || run.OKUnproven
	case inner.Unclaimed && len(requests) == 0 && run.Failed == classify.NotObserved && verdicts.Run.Class == semconv.ClassUnclassified:
		d.Unclaimed = true // nothing else speaks against success
	default:
		d.Run, d.Carrier = &verdicts.Run, j.carrier(release)
		switch certain := j.withoutByTime(release); {
		case certain == nil:
		case certain.Outcome == semconv.RunOutcomeUnset:
			d.Run, d.Carrier, d.Unclaimed = nil, -1, true
		default:
			d.Run = certain
		}
	}
	return d
}

// withoutByTime judges a run that succeeded without the requests that were placed by time in it. They may belong to a run
// within this one whose span is not here. It returns the verdict if that is no success, and nil otherwise. If all of the
// run's requests were placed by time, it returns nil, too, unless links of their chains were lost here, or the run is
// released before others had time to arrive.
func (j *Judge) withoutByTime(release *trace.Release) *classify.Diagnosis {
	byTime := func(i int) bool { return release.Members[i].ByTime }
	if release.Run == nil || !succeeded(j.verdicts.Run.Outcome) || !slices.ContainsFunc(j.requests, byTime) {
		return nil
	}
	run := j.run
	run.Requests = nil
	for n, i := range j.requests {
		if !byTime(i) {
			run.Requests = append(run.Requests, j.run.Requests[n])
		}
	}
	if len(run.Requests) == 0 && !release.Doubt.Has(trace.LinksLost) && !early(release) {
		return nil
	}
	run.Inner = j.verdicts.Effects // the run's effects include all requests
	run.Inner.Requests, run.Inner.Tools = j.run.Inner.Requests, j.run.Inner.Tools
	if v := classify.Judge(&run); !succeeded(v.Run.Outcome) {
		j.certain = &run
		return &v.Run
	}
	return nil
}

func succeeded(outcome semconv.RunOutcome) bool {
	return outcome == semconv.RunOutcomeSucceeded || outcome == semconv.RunOutcomeRecovered
}

// NeedsNoAction reports whether a run with this outcome needs no repair.
func NeedsNoAction(outcome semconv.RunOutcome) bool {
	switch outcome {
	case semconv.RunOutcomeSucceeded, semconv.RunOutcomeRecovered, semconv.RunOutcomeWaiting:
		return true
	default:
		return false
	}
}

// alone reports whether a release is of one request or tool without a run: its run span is not here, and no span names one.
// The attempts of a logical call are one request, and a gateway's requests for it are apart.
func (j *Judge) alone(release *trace.Release) bool {
	if release.Run != nil || release.Named {
		return false
	}
	tools, first := 0, -1
	for _, i := range j.tools {
		if release.Members[i].Run.IsEmpty() { // others belong to a run that yielded
			tools++
		}
	}
	if tools > 0 {
		return tools == 1 && len(j.requests) == 0
	}
	for n, i := range j.requests {
		call := callOf(j.relations, i)
		if n > 0 && call != first {
			return false
		}
		first = call
	}
	return true
}

// ModelNames returns the provider and the model of the requests of the run that was judged last: each is "" unless all
// requests that name one name the same.
func (j *Judge) ModelNames(release *trace.Release) dialect.RunNames {
	var providers, models agreed
	for _, i := range j.requests {
		m := &release.Members[i]
		provider, model := dialect.ModelOf(m.Span)
		if names := m.Known.Names; names != nil { // its span is released
			provider, model = names.Provider, names.Model
		}
		providers.add(provider)
		models.add(model)
	}
	return dialect.RunNames{Provider: providers.name, Model: models.name}
}

// agreed is the name that all agree on.
type agreed struct {
	name     string // "": none yet, or they differ
	disagree bool
}

func (a *agreed) add(name string) {
	switch {
	case name == "" || a.disagree:
	case a.name == "":
		a.name = name
	case a.name != name:
		*a = agreed{disagree: true}
	}
}

// unfinished reports whether the spans under one parent, without a run, end in something that asks for more, such as an
// answer with tool calls: the rest may be elsewhere. It is not a failure.
func (j *Judge) unfinished(release *trace.Release, parts []*classify.Diagnosis) bool {
	const unclassified = semconv.ClassUnclassified
	if release.Run != nil || release.Named || j.verdicts.Run.Class != unclassified {
		return false
	}
	return !slices.ContainsFunc(parts, func(d *classify.Diagnosis) bool { return d != nil && d.Class == unclassified })
}

// passesOn reports whether a gateway served a request and only passed it on, as far as its spans show: the requests that
// the gateway made have the same history, so that no tool ran between them, and each of them is safe to repeat.
func (j *Judge) passesOn(release *trace.Release, served int) bool {
	if !release.Members[served].Known.Server {
		return false
	}
	request := func(i int) *classify.Request {
		m := &release.Members[i]
		return m.Known.Facts(m.Span, dialect.Request).Request
	}
	before := request(served)
	if before.HistoryCalls == nil || before.HistoryOutputs == nil {
		return false
	}
	for i := range j.relations {
		if s := &j.relations[i]; s.apart || s.first >= 0 {
			continue
		}
		r := request(i) // never a tool: a tool is a call of its own
		if r.HistoryCalls == nil || r.HistoryOutputs == nil ||
			!slices.Equal(r.HistoryCalls, before.HistoryCalls) || !slices.Equal(r.HistoryOutputs, before.HistoryOutputs) {
			return false
		}
		if d := judgeAlone(&release.Members[i], classify.Upstream{}); d != nil && d.Retry.Safety != semconv.RetrySafetySafeAutoRetry {
			return false
		}
	}
	return true
}

// failed returns the verdict if it reports a failure, else nil.
func failed(d *classify.Diagnosis) *classify.Diagnosis {
	if !d.Failed() {
		return nil
	}
	return d
}

// noRun makes a run without an outcome, so that only its parts are judged.
const noRun = semconv.RunEndUnclear

// judgeAlone judges a request or tool on its own; upstream is the failure behind a request's response that another span
// shows.
func judgeAlone(m *trace.Member, upstream classify.Upstream) *classify.Diagnosis {
	switch m.Role {
	case trace.Request:
		return failed(&judgeRequest(m, upstream).Requests[0])
	case trace.Tool:
		run := classify.Run{Tools: make([]classify.Tool, 1), EndedBy: noRun}
		m.Known.Tool(m.Span, &run.Tools[0])
		return failed(&classify.Judge(&run).Tools[0])
	default:
		return nil
	}
}

// effectsOf returns the effects of a request or tool.
func effectsOf(m *trace.Member) classify.Effects {
	if m.Role == trace.Request {
		return judgeRequest(m, classify.Upstream{}).Effects
	}
	run := classify.Run{Tools: make([]classify.Tool, 1), EndedBy: noRun}
	m.Known.Tool(m.Span, &run.Tools[0])
	return classify.Judge(&run).Effects
}

// effectsShown returns the effects that the span of a logical call itself shows. They include no request: its attempts are its
// requests.
func effectsShown(call *trace.Member) classify.Effects {
	effects := effectsOf(call)
	effects.Requests = 0
	return effects
}

// judgeRequest is judgeAlone for a request, with its effects.
func judgeRequest(m *trace.Member, upstream classify.Upstream) classify.Verdicts {
	run := classify.Run{Requests: make([]classify.Request, 1), EndedBy: noRun}
	m.Known.Request(m.Span, &run.Requests[0], nil)
	run.Requests[0].Upstream = upstream
	return classify.Judge(&run)
}

// carrier returns the member that carries the run's verdict. A span of another service carries it only if no other span is
// released.
func (j *Judge) carrier(release *trace.Release) int {
	last := -1
	apart := func(i int) bool {
		if first := j.relations[i].first; first >= 0 {
			i = first
		}
		return j.relations[i].apart
	}
	for i := range release.Members {
		m := &release.Members[i]
		switch {
		case !m.Out || m.Known.Sent:
		case m.Item == release.Run:
			return i
		case m.Role == trace.Run: // delivered twice, or it yielded
		case last < 0 || apart(last) && !apart(i):
			last = i
		case apart(i) == apart(last) && endsAfter(m, &release.Members[last]):
			last = i
		}
	}
	return last
}

// endsAfter reports whether a span ended after another one. At the same end, the later start and then the higher id decide.
func endsAfter(a, b *trace.Member) bool {
	return cmp.Or(cmp.Compare(a.End, b.End), compareStarts(a, b)) > 0
}

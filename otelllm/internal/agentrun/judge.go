package agentrun

import (
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Diagnosis judges the run on the facts so far. It is the zero value for a nil run.
func (r *Run) Diagnosis() classify.Diagnosis {
	if r == nil {
		return classify.Diagnosis{}
	}
	j, _ := r.judge()
	d := j.diagnosis
	d.Evidence, d.MissingEvidence = slices.Clone(d.Evidence), slices.Clone(d.MissingEvidence)
	d.MissingOutputs, d.ForgottenCalls, d.Timeline = slices.Clone(d.MissingOutputs), slices.Clone(d.ForgottenCalls), slices.Clone(d.Timeline)
	return d
}

// Plan returns the plan to go on with the run, on the facts so far. It is the zero value for a nil run.
func (r *Run) Plan() classify.Plan {
	if r == nil {
		return classify.Plan{}
	}
	facts := r.planFacts()
	return classify.PlanRun(&facts)
}

// PlanSince is Plan for the parts that began at that time or later.
func (r *Run) PlanSince(t time.Time) classify.Plan {
	facts := r.planFacts()
	facts.Requests = slices.DeleteFunc(facts.Requests, func(q classify.Request) bool { return q.Start.Before(t) })
	facts.Tools = slices.DeleteFunc(facts.Tools, func(f classify.Tool) bool { return f.Start.Before(t) })
	r.mu.Lock()
	unrecorded := r.past.ranUnrecorded()
	r.mu.Unlock()
	if facts.AnnouncedRequests.Observed() {
		facts.AnnouncedRequests = classify.Counted(len(facts.Requests) + facts.Inner.Requests)
	}
	switch {
	case unrecorded: // the requests that show it may have begun before
		facts.AnnouncedTools = 0
	case facts.AnnouncedTools.Observed():
		facts.AnnouncedTools = classify.Counted(len(facts.Tools) + facts.Inner.Tools)
	}
	return classify.PlanRun(&facts)
}

// judge judges the run, once a generation. Settled: no part of the run is still going on, so that the judgment holds until
// the next generation.
func (r *Run) judge() (j *judgment, settled bool) {
	generation := r.generation.Load()
	r.mu.Lock()
	last := r.judgment
	r.mu.Unlock()
	if last != nil && last.generation == generation {
		return last, true
	}
	facts, settled := r.Facts()
	v := classify.Judge(&facts)
	r.addForgotten(&v.Run, facts.Requests)
	j = &judgment{generation: generation, diagnosis: v.Run, effects: v.Effects}
	j.effects.Requests, j.effects.Tools = len(facts.Requests)+facts.Inner.Requests, len(facts.Tools)+facts.Inner.Tools
	if settled {
		r.mu.Lock()
		r.judgment = j
		r.mu.Unlock()
	}
	return j, settled
}

// Facts copies the facts of the run and its parts. Settled: no part of the run is still going on.
func (r *Run) Facts() (run classify.Run, settled bool) { return r.recentFacts(0) }

// recentFacts is Facts with the last parts only, at most limit of each kind; 0: all.
func (r *Run) recentFacts(limit int) (run classify.Run, settled bool) {
	run, open, inner, settled := r.copyParts(limit)
	if inner.unrecorded { // the request that made the call may not be kept
		inner.effects = inner.effects.Join(unrecordedTool)
	}
	return r.joinInner(run, open, inner, limit, settled)
}

// planFacts returns the facts for a plan, which names each call: the effects of an unrecorded tool are added only if the
// requests that may show its call are not kept.
func (r *Run) planFacts() classify.Run {
	run, open, inner, settled := r.copyParts(0)
	if inner.unrecorded && inner.effects.Requests > 0 {
		inner.effects = inner.effects.Join(unrecordedTool)
	}
	run, _ = r.joinInner(run, open, inner, 0, settled)
	return run
}

// joinInner adds to the facts of a run the effects of the runs within it, and the requests that outlive it.
func (r *Run) joinInner(run classify.Run, open []classify.Request, inner innerRuns, limit int, settled bool) (classify.Run, bool) {
	ended := run.Ended == classify.Yes
	run.Inner = inner.effects
	for _, w := range inner.runs {
		e, done := w.effects()
		run.Inner, settled = run.Inner.Join(e), settled && done
	}
	if len(open) > 0 {
		run.Inner = run.Inner.Join(r.effectsOf(open, run.Tools))
	}
	if !ended || limit > 0 {
		// The parts so far are all that there are.
		run.AnnouncedRequests = classify.Counted(len(run.Requests) + run.Inner.Requests)
		run.AnnouncedTools = 0
		if r.recordsTools() {
			run.AnnouncedTools = classify.Counted(len(run.Tools) + run.Inner.Tools)
		}
	}
	return run, settled
}

// copyParts copies the run's own facts, with the last parts. Open are the requests that outlive the run: they were
// announced, and are missing until they end. Settled: no request of the run itself is going on.
func (r *Run) copyParts(limit int) (run classify.Run, open []classify.Request, inner innerRuns, settled bool) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock() // also if a request panics: the run may go on
	kept := r.parts
	if limit > 0 {
		kept = kept.recent(limit)
	}
	run = r.facts
	run.Requests = slices.Clone(kept.requests)
	for _, q := range r.open {
		request, ok := q.Snapshot(now)
		if !ok {
			request = q.SoFar()
		}
		if request.Open && r.facts.Ended == classify.Yes {
			open = append(open, request)
		} else {
			run.Requests = append(run.Requests, request)
		}
	}
	run.Tools = make([]classify.Tool, 0, len(kept.tools))
	for _, t := range kept.tools {
		run.Tools = append(run.Tools, t.Facts())
	}
	inner = r.inner
	inner.runs = slices.Clone(inner.runs)
	inner.unrecorded = r.past.ranUnrecorded()
	return run, open, inner, len(r.open) == 0
}

// addForgotten adds the facts of forgotten parts that the verdict on the run needs: calls whose outputs did not come back,
// and, if a later request was answered, the number of failed requests, which count as recovered.
func (r *Run) addForgotten(d *classify.Diagnosis, later []classify.Request) {
	r.mu.Lock()
	failures, lost := r.inner.failures, slices.Clone(r.past.lost)
	r.mu.Unlock()
	if d.Outcome == semconv.RunOutcomeUnset {
		return // no outcome is claimed
	}
	for _, id := range lost {
		if len(d.MissingOutputs) < classify.MaxIDs && !slices.Contains(d.MissingOutputs, id) {
			d.MissingOutputs = append(d.MissingOutputs, id)
		}
	}
	if failures == 0 || !slices.ContainsFunc(later, func(q classify.Request) bool { return q.Failed == classify.No }) {
		return
	}
	d.RecoveredFailures += failures
	if d.Outcome == semconv.RunOutcomeSucceeded {
		d.Outcome = semconv.RunOutcomeRecovered
	}
}

// effectsOf returns the effects of requests and tools of the run, without counts.
func (r *Run) effectsOf(requests []classify.Request, tools []classify.Tool) classify.Effects {
	e := r.judgeParts(requests, tools).Effects
	e.Requests, e.Tools = 0, 0
	return e
}

// judgeParts judges some requests and tools of the run by themselves.
func (r *Run) judgeParts(requests []classify.Request, tools []classify.Tool) classify.Verdicts {
	run := classify.Run{Requests: requests, Tools: tools}
	if r.recordsTools() {
		run.ToolsRecorded = classify.Yes
	}
	return classify.Judge(&run)
}

// JudgeRequest judges one request on the facts so far, as a part of its run if it has one. It is the zero value if nothing
// failed.
func (r *Run) JudgeRequest(f *classify.Request) classify.Diagnosis {
	if !classify.Failed(f) {
		return classify.Diagnosis{}
	}
	return r.JudgeCall([]classify.Request{*f}, false)
}

// JudgeCall is JudgeRequest for a call of several attempts, in the order of their beginning. The last one is judged.
// Partial: there were more of them.
func (r *Run) JudgeCall(attempts []classify.Request, partial bool) classify.Diagnosis {
	if !classify.Failed(&attempts[len(attempts)-1]) {
		return classify.Diagnosis{}
	}
	facts, at := r.factsAround(attempts, partial)
	return classify.JudgeCall(&facts, at)
}

// PlanCall returns the plan to go on with a call, as JudgeCall judges it.
func (r *Run) PlanCall(attempts []classify.Request, partial bool) classify.Plan {
	facts, at := r.factsAround(attempts, partial)
	return classify.PlanCall(&facts, at)
}

// factsAround returns the facts of the last parts of the run, with these attempts of a call among them, and their indices.
func (r *Run) factsAround(attempts []classify.Request, partial bool) (facts classify.Run, at []int) {
	last := &attempts[len(attempts)-1]
	since := last.Start
	if r != nil {
		facts, _ = r.recentFacts(RecentParts)
		if len(facts.Requests) > 0 {
			since = earliest(facts.Requests)
		}
	}
	at = make([]int, 0, len(attempts))
	for n := range attempts {
		f := &attempts[n]
		i := slices.IndexFunc(facts.Requests, func(q classify.Request) bool { return q.Start.Equal(f.Start) && q.End.Equal(f.End) })
		if i < 0 { // it is just ending, or so many ended after it
			i = len(facts.Requests)
			facts.Requests = append(facts.Requests, *f)
		}
		at = append(at, i)
	}
	if r != nil {
		r.mu.Lock()
		r.past.addTo(&facts, last, since)
		r.mu.Unlock()
	}
	facts.Partial = facts.Partial || partial
	return facts, at
}

// JudgeTool is JudgeRequest for a tool.
func (r *Run) JudgeTool(t *classify.Tool) classify.Diagnosis {
	if t.Outcome == semconv.ToolOutcomeSucceeded && t.Delivery != semconv.OutputDeliveryFailed && !r.inputOpen(t.CallID) {
		return classify.Diagnosis{}
	}
	return r.judgeToolsOf([]classify.Tool{*t})[0]
}

// judgeTools is JudgeTool for many tools, which are judged together.
func (r *Run) judgeTools(tools []*Tool) map[*Tool]classify.Diagnosis {
	facts := make([]classify.Tool, 0, len(tools))
	for _, t := range tools {
		facts = append(facts, t.Facts())
	}
	verdicts := make(map[*Tool]classify.Diagnosis, len(tools))
	for i, d := range r.judgeToolsOf(facts) {
		verdicts[tools[i]] = d
	}
	return verdicts
}

// judgeToolsOf judges tools of the run by the facts of its last parts.
func (r *Run) judgeToolsOf(tools []classify.Tool) []classify.Diagnosis {
	type key struct {
		start  int64
		callID string
	}
	keyOf := func(t *classify.Tool) key { return key{t.Start.UnixNano(), t.CallID} }
	facts, _ := r.recentFacts(RecentParts)
	kept := make(map[key]int, len(facts.Tools))
	for i := range facts.Tools {
		kept[keyOf(&facts.Tools[i])] = i
	}
	at := make([]int, len(tools))
	for n := range tools {
		i, ok := kept[keyOf(&tools[n])]
		if !ok { // it took so long that many began after it
			i = len(facts.Tools)
			facts.Tools = append(facts.Tools, tools[n])
		}
		at[n] = i
	}
	v := classify.Judge(&facts)
	verdicts := make([]classify.Diagnosis, len(tools))
	for n, i := range at {
		verdicts[n] = v.Tools[i]
	}
	return verdicts
}

// inputOpen reports whether a response was cut in the input of this call.
func (r *Run) inputOpen(callID string) bool {
	if callID == "" {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.requests) - 1; i >= max(0, len(r.requests)-RecentParts); i-- {
		if slices.Contains(r.requests[i].OpenCallIDs, callID) {
			return true
		}
	}
	return false
}

package classify

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/semconv"
)

// shapes holds one request for each state that a request can have.
var shapes = []struct {
	name   string
	change func(*Request)
}{
	{"answers", answers},
	{"calls", calls("a")},
	{"reset before output", reset(semconv.PhaseResponseStarted)},
	{"reset in text", all(reset(semconv.PhaseText), func(r *Request) { r.Text = Counted(1) })},
	{"reset in tool input", all(reset(semconv.PhaseToolInput), func(r *Request) {
		r.ToolInputsStarted, r.OpenCallIDs = Counted(1), []string{"a"}
	})},
	{"reset at tool call ready", all(calls("a"), reset(semconv.PhaseToolCallReady))},
	{"user abort", aborted(semconv.AbortSourceUser)},
	{"limited", all(answers, func(r *Request) { r.Finish = FinishMaxTokens })},
	{"rate limited", refused(429, semconv.ProviderErrorKindRateLimited)},
	{"nothing known", func(r *Request) { *r = Request{Start: r.Start, End: r.End} }},
}

// histories are what the second request says about the call "a".
var histories = []struct {
	name           string
	calls, outputs []string
}{
	{"carries", []string{"a"}, []string{"a"}},
	{"dangles", []string{"a"}, []string{}},
	{"empty", []string{}, []string{}},
	{"not observed", nil, nil},
}

// earlier are what the first request says about the call "z", which is not of this run.
var earlier = []struct{ calls, outputs []string }{
	{[]string{}, []string{}},
	{[]string{"z"}, []string{"z"}},
	{[]string{"z"}, []string{}},
}

// TestEveryRun judges every run of up to two requests and one tool that the shapes and
// histories give, with each effect, outcome and delivery of the tool and each ending of
// the run. It checks the invariants of every verdict, and that an additional unobserved
// effect or one observation less never makes a verdict safer.
func TestEveryRun(t *testing.T) {
	var tools []*Tool
	tools = append(tools, nil)
	for _, effect := range semconv.ToolEffectValues() {
		for _, outcome := range withUnset(semconv.ToolOutcomeValues()) {
			for _, delivery := range semconv.OutputDeliveryValues() {
				f := tool(1, 2, "a", effect, outcome)
				f.Delivery = delivery
				tools = append(tools, &f)
			}
		}
	}
	for i := range shapes {
		t.Run("first="+shapes[i].name, func(t *testing.T) {
			t.Parallel()
			everyRun(t, shapes[i].change, tools)
		})
	}
}

// everyRun judges every run whose first request has this shape.
func everyRun(t *testing.T, first func(*Request), tools []*Tool) {
	var scratch [2]Verdicts
	const ends = 3 * 3 * 2 * 3
	n, step := 0, sample.Every(269)
	for second := -1; second < len(shapes)*len(histories); second++ {
		for _, f := range tools {
			for end := range ends {
				if n++; n%step != 0 {
					continue
				}
				r := Run{Start: t0, End: at(60), Ended: facts[end%3], Failed: facts[end/3%3], Requests: []Request{request(0, 1, first)}}
				if end/9%2 == 1 {
					r.Abort.Source = [...]semconv.AbortSource{semconv.AbortSourceUser, semconv.AbortSourceUnknown}[n/ends%2]
				}
				before := earlier[(n/ends+n/ends/len(tools))%len(earlier)]
				r.Requests[0].HistoryCalls, r.Requests[0].HistoryOutputs = before.calls, before.outputs
				if second >= 0 {
					h := histories[second%len(histories)]
					q := request(3, 4, shapes[second/len(histories)].change)
					q.HistoryCalls, q.HistoryOutputs = h.calls, h.outputs
					if len(q.CallIDs) > 0 {
						q.CallIDs = []string{"b"} // ids are unique
					}
					r.Requests = append(r.Requests, q)
				}
				if f != nil {
					r.Tools = []Tool{*f}
				}
				if end/18 > 0 {
					r.AnnouncedRequests = Counted(len(r.Requests))
				}
				if end/18 == 2 {
					r.AnnouncedTools = Counted(len(r.Tools))
				}
				if problem := runProblem(&r, &scratch); problem != "" {
					t.Fatalf("%s\n%+v", problem, r)
				}
			}
		}
	}
	t.Logf("%d runs", n/step)
}

// runProblem checks the verdicts on a run, and those on the run with less knowledge or one
// more effect. scratch has the memory of both.
func runProblem(r *Run, scratch *[2]Verdicts) string {
	v, w := &scratch[0], &scratch[1]
	JudgeInto(v, r)
	if problem := verdictProblem(r, &v.Run); problem != "" {
		return "run: " + problem
	}
	if v.Run.Outcome == semconv.RunOutcomeUnset {
		return "no outcome"
	}
	if failed := v.Run.Outcome != semconv.RunOutcomeSucceeded && v.Run.Outcome != semconv.RunOutcomeRecovered && v.Run.Outcome != semconv.RunOutcomeWaiting; failed != v.Run.Failed() {
		return "outcome " + v.Run.Outcome.String() + " with class " + v.Run.Class.String()
	}
	if v.Run.Failed() && v.Run.Retry.Safety == SafeAutoRetry && !r.AnnouncedTools.Observed() &&
		slices.ContainsFunc(r.Requests, func(q Request) bool { return q.HistoryCalls == nil }) {
		return "a run of which parts may be missing may be repeated unasked: " + words(&v.Run)
	}
	if r.Abort.Source == semconv.AbortSourceUser && v.Run.Retry.Safety != NoRetry {
		return "a run that a person stopped may be repeated: " + words(&v.Run)
	}
	if r.Abort.Source == semconv.AbortSourceUnknown && v.Run.Failed() && v.Run.Retry.Safety == SafeAutoRetry {
		return "a run that a person may have stopped may be repeated unasked: " + words(&v.Run)
	}
	for i := range v.Requests {
		if problem := verdictProblem(r, &v.Requests[i]); problem != "" {
			return fmt.Sprintf("request %d: %s", i+1, problem)
		}
		switch v.Requests[i].Class {
		case semconv.ClassToolFailed, semconv.ClassToolOutputLost, semconv.ClassRunAbandoned:
			return "a request is blamed for " + v.Requests[i].Class.String()
		default:
		}
	}
	if problem := coverProblem(r, v); problem != "" {
		return problem
	}
	if r.Ended != r.Failed || r.Ended == No || r.Abort.Source != 0 {
		return "" // the verdict on a request does not depend on these
	}
	for _, less := range lessKnown {
		q := *r
		q.Requests, q.Tools = append([]Request(nil), r.Requests...), append([]Tool(nil), r.Tools...)
		less.change(&q)
		JudgeInto(w, &q)
		if v.Run.Failed() && v.Run.Class == w.Run.Class && v.Run.Cause == w.Run.Cause && w.Run.Retry.Safety < v.Run.Retry.Safety {
			return fmt.Sprintf("%s makes the run safer: %s, then %s", less.name, words(&v.Run), words(&w.Run))
		}
		for i := range v.Requests {
			before, after := v.Requests[i].Retry.Safety, w.Requests[i].Retry.Safety
			if v.Requests[i].Failed() && after < before {
				return fmt.Sprintf("%s makes request %d safer: %s, then %s", less.name, i+1, words(&v.Requests[i]), words(&w.Requests[i]))
			}
		}
	}
	return ""
}

// coverProblem checks that the verdict on a run is not safer than the verdicts on its
// requests, nor than what their histories show, and that the same is true of the run around
// it.
func coverProblem(r *Run, v *Verdicts) string {
	around := Judge(&Run{
		Start: r.Start, End: r.End, Ended: Yes, Failed: Yes, AnnouncedRequests: Counted(v.Effects.Requests), Inner: v.Effects,
	}).Run
	for i := range v.Requests {
		switch d := &v.Requests[i]; {
		case !d.Failed() || cleanup(r, i):
		case v.Run.Failed() && v.Run.Retry.Safety < d.Retry.Safety:
			return fmt.Sprintf("repeating the run is safer than repeating request %d: %s, %s", i+1, words(&v.Run), words(d))
		case around.Retry.Safety < d.Retry.Safety:
			return fmt.Sprintf("repeating the run around it is safer than repeating request %d: %s, %s", i+1, words(&around), words(d))
		}
	}
	if r.AnnouncedTools.Observed() || r.ToolsRecorded == Yes || !historyShowsTool(r) {
		return ""
	}
	for _, d := range []*Diagnosis{&v.Run, &around} {
		switch {
		case !d.Failed() || d.Retry.Safety == NoRetry:
		case d.Retry.Reason != semconv.RetryReasonToolStateUnknown && d.Retry.Reason != semconv.RetryReasonToolSideEffect:
			return "a tool in the history is not accounted for: " + words(d)
		}
	}
	return ""
}

// cleanup reports whether request i was cancelled without a reason of its own, while or
// after another request failed.
func cleanup(r *Run, i int) bool {
	a := &r.Requests[i]
	return Failed(a) && (a.Abort.Source == semconv.AbortSourceUnknown || a.Abort.Source == semconv.AbortSourceConsumer) &&
		slices.ContainsFunc(r.Requests, func(q Request) bool { return Failed(&q) && a.Start.Before(q.End) && !a.End.Before(q.End) })
}

// historyShowsTool reports whether the history of a request has a call or an output of no
// tool of the run, or may have one.
func historyShowsTool(r *Run) bool {
	unknown := func(id string) bool {
		return !slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.CallID == id })
	}
	return slices.ContainsFunc(r.Requests, func(q Request) bool {
		return len(q.HistoryCalls) >= MaxIDs || len(q.HistoryOutputs) >= MaxIDs ||
			slices.ContainsFunc(q.HistoryCalls, unknown) || slices.ContainsFunc(q.HistoryOutputs, unknown)
	})
}

// lessKnown are changes that remove an observation or add an effect.
var lessKnown = []struct {
	name   string
	change func(*Run)
}{
	{"not knowing the text", func(r *Run) { each(r, func(q *Request) { q.Text = 0 }) }},
	{"not knowing the calls", func(r *Run) {
		each(r, func(q *Request) { q.ToolCalls, q.ToolInputsCompleted, q.CallIDs = 0, 0, nil })
	}},
	{"not knowing the history", func(r *Run) { each(r, func(q *Request) { q.HistoryCalls, q.HistoryOutputs = nil, nil }) }},
	{"not knowing the provider's tools", func(r *Run) { each(r, func(q *Request) { q.ProviderTools = nil }) }},
	{"no manifest", func(r *Run) { r.AnnouncedTools = 0 }},
	{"a tool without an id", func(r *Run) {
		r.Tools = append(r.Tools, Tool{Start: at(0.5), End: at(0.6), Effect: semconv.ToolEffectNonIdempotent, Outcome: semconv.ToolOutcomeSucceeded})
		if r.AnnouncedTools.Observed() {
			r.AnnouncedTools++
		}
	}},
	{"parts that may be missing", func(r *Run) { r.Partial = true }},
	{"a call in the history", func(r *Run) {
		each(r, func(q *Request) {
			if q.HistoryCalls != nil {
				q.HistoryCalls, q.HistoryOutputs = append([]string{"h"}, q.HistoryCalls...), append([]string{"h"}, q.HistoryOutputs...)
			}
		})
	}},
	{"a call without an output in the history", func(r *Run) {
		each(r, func(q *Request) {
			if q.HistoryCalls != nil {
				q.HistoryCalls = append([]string{"h"}, q.HistoryCalls...)
			}
		})
	}},
	{"not knowing the effect", func(r *Run) {
		for t := range r.Tools {
			r.Tools[t].Effect = semconv.ToolEffectUnset
		}
	}},
}

func each(r *Run, change func(*Request)) {
	for i := range r.Requests {
		change(&r.Requests[i])
	}
}

// verdictProblem checks the invariants of every diagnosis.
func verdictProblem(r *Run, d *Diagnosis) string {
	if !d.Failed() {
		if d.Retry != (Retry{}) || d.Summary != "" || d.Cause != 0 {
			return "a verdict about nothing"
		}
		return ""
	}
	row, ok := table[d.Class.String()]
	switch {
	case !ok || !allows(row.causes, d.Cause.String()) || !allows(row.origins, d.Origin.String()):
		return fmt.Sprintf("%s/%s/%s is not in the table", d.Class, d.Cause, d.Origin)
	case d.Phase == 0 || d.Confidence == 0 || d.Retry.Safety == 0 || d.Retry.Reason == 0 || d.Summary == "":
		return "an incomplete verdict: " + words(d)
	case d.Class == semconv.ClassToolFailed && len(r.Tools) == 0:
		return "a tool is blamed that never began"
	case (d.Cause == semconv.CauseRunError || d.Cause == semconv.CauseNeverAnswered) && // what no part of the run explains
		(!r.AnnouncedRequests.Observed() || r.AnnouncedRequests.N() > len(r.Requests)):
		return "the application is blamed where a request may be missing: " + words(d)
	case d.SummaryKey == semconv.SummaryKeyToolNotRun && toolCalled(r) && d.Outcome != 0:
		return "the run's summary denies a tool that ran: " + d.Summary
	case d.Confidence == semconv.ConfidenceLow && d.Retry.Safety == SafeAutoRetry:
		return "safe at low confidence"
	case len(d.Summary) > 512 || len(d.Timeline) > maxTimeline || len(d.Evidence) > maxEvidence:
		return "out of bounds"
	default:
		return ""
	}
}

// toolCalled reports whether a tool of the run was called, whatever its outcome. A
// rejected call does not count.
func toolCalled(r *Run) bool {
	return slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.Outcome != semconv.ToolOutcomeRejected })
}

// FuzzJudge checks that any facts give a verdict that keeps the invariants, and no panic.
func FuzzJudge(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		next := func(n int) int {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return int(b) % n
		}
		ids := func() []string {
			if next(4) == 0 {
				return nil
			}
			out := []string{}
			for range next(4) {
				out = append(out, string(rune('a'+next(5))))
			}
			return out
		}
		r := Run{Start: at(float64(next(3))), End: at(float64(next(60))), Ended: Fact(next(3)), Failed: Fact(next(3)), ToolsRecorded: Fact(next(3))}
		r.Abort.Source = semconv.AbortSource(next(8))
		r.AnnouncedRequests, r.AnnouncedTools = Count(next(5)), Count(next(5))
		for range next(6) {
			q := Request{
				Start: at(float64(next(30))), Attempt: next(4), Basis: Basis(next(3)), Phase: semconv.Phase(next(12)),
				Ended: semconv.StreamEnd(next(10)), Failed: Fact(next(3)), Status: []int{0, 200, 429, 500}[next(4)], Finish: Finish(next(12)), Unread: next(4) == 0, Background: next(4) == 0,
				Text: Count(next(3)), Reasoning: Count(next(3)), ToolInputsStarted: Count(next(3)), ToolInputsCompleted: Count(next(3)),
				ToolCalls: Count(next(3)), CallIDs: ids(), OpenCallIDs: ids(), ProviderTools: ids(), ProviderToolsStarted: Count(next(3)),
				HistoryCalls: ids(), HistoryOutputs: ids(), Events: Count(next(3)), Upstream: Upstream{Failed: Fact(next(3))},
			}
			q.End = q.Start.Add(at(float64(next(10))).Sub(t0))
			q.Transport.Cause = semconv.TransportCause(next(len(semconv.TransportCauseValues()) + 1))
			q.Provider.Kind = semconv.ProviderErrorKind(next(len(semconv.ProviderErrorKindValues()) + 1))
			q.Abort.Source, q.Watchdog.Kind = semconv.AbortSource(next(8)), semconv.WatchdogKind(next(5))
			r.Requests = append(r.Requests, q)
		}
		for range next(5) {
			f := Tool{Start: at(float64(next(30))), Effect: semconv.ToolEffect(next(5)), Outcome: semconv.ToolOutcome(next(7)), Delivery: semconv.OutputDelivery(next(5))}
			if next(4) > 0 {
				f.End = f.Start.Add(at(float64(next(10))).Sub(t0))
			}
			if next(4) > 0 {
				f.CallID = string(rune('a' + next(5)))
			}
			f.Abort.Source, f.FailedBeforeEffect = semconv.AbortSource(next(8)), next(5) == 0
			r.Tools = append(r.Tools, f)
		}
		more := next(16)
		r.Waits, r.ReturnsCalls, r.OKUnproven, r.Partial = more&1 != 0, more&2 != 0, more&4 != 0, more&8 != 0
		v := Judge(&r)
		require.Empty(t, coverProblem(&r, &v))
		if v.Run.Outcome == semconv.RunOutcomeUnset { // nothing is said of it
			require.Equal(t, Diagnosis{}, v.Run)
			require.True(t, (r.ReturnsCalls || r.OKUnproven) && r.Failed == NotObserved)
		} else {
			require.Empty(t, verdictProblem(&r, &v.Run))
		}
		for i := range v.Requests {
			require.Empty(t, verdictProblem(&r, &v.Requests[i]))
		}
		for i := range v.Tools {
			require.Empty(t, verdictProblem(&r, &v.Tools[i]))
		}
	})
}

package classify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// little is a request as other instrumentations record it: no counts, no history.
func little(from, to float64, change func(*Request)) Request {
	r := Request{Start: at(from), End: at(to), Phase: semconv.PhaseUnknown}
	if change != nil {
		change(&r)
	}
	return r
}

// The model got the failure of a tool if it was asked again after that, whatever is known
// of its answer. The run did not end on the tool then.
func TestToolsAskedAbout(t *testing.T) {
	finished := func(f Finish) func(*Request) {
		return func(r *Request) { r.Ended, r.Basis, r.Finish = semconv.StreamEndTerminalEvent, Typed, f }
	}
	threw := Tool{Start: at(1), End: at(2), Outcome: semconv.ToolOutcomeFailed}
	stopped := Tool{Start: at(1), End: at(2), Outcome: semconv.ToolOutcomeInterrupted, Abort: Abort{Source: semconv.AbortSourceUnknown}}
	observed := func(r *Request) { r.HistoryCalls, r.HistoryOutputs = []string{}, []string{} }
	grainEarly := little(2, 3, nil)
	grainEarly.Start = at(2).Add(-clockGrain)
	for _, tt := range []struct {
		name      string
		tool      Tool
		then      []Request
		failed    Fact
		want      string
		recovered int
	}{
		{"answered", threw, []Request{little(2, 3, finished(FinishStop))}, NotObserved, "recovered ", 1},
		{"asked again, and the run is well", threw, []Request{little(2, 3, nil)}, No, "recovered ", 1},
		{"asked again within the clock's grain", threw, []Request{grainEarly}, No, "recovered ", 1},
		{"asked again, and nothing is known", threw, []Request{little(2, 3, nil)}, NotObserved, "incomplete unclassified", 1},
		{"asked again, and the run failed", threw, []Request{little(2, 3, nil)}, Yes, "failed unclassified", 0},
		{"asked again, and that failed", threw, []Request{little(2, 3, func(r *Request) { r.Failed = Yes })}, Yes, "failed unclassified", 0},
		{"asked while it ran", threw, []Request{little(1.5, 3, nil)}, NotObserved, "failed tool_failed", 0},
		{"asked again without its output", threw, []Request{little(2, 3, observed)}, NotObserved, "failed tool_failed", 0},
		{"not asked again", threw, nil, NotObserved, "failed tool_failed", 0},
		{"not asked again, and the run is well", threw, nil, No, "failed tool_failed", 0},
		{"stopped, and asked again", stopped, []Request{little(2, 3, nil)}, No, "succeeded ", 0},
		{"stopped", stopped, nil, NotObserved, "aborted local_abort", 0},
	} {
		run := Run{
			Start: at(0), End: at(9), Ended: Yes, Failed: tt.failed,
			Requests: append([]Request{little(0, 1, finished(FinishToolCalls))}, tt.then...), Tools: []Tool{tt.tool},
		}
		d := Judge(&run).Run
		assert.Equal(t, tt.want, d.Outcome.String()+" "+d.Class.String(), "%s: %s", tt.name, d.Summary)
		assert.Equal(t, tt.recovered, d.RecoveredFailures, tt.name)
		if d.Class != semconv.ClassUnset {
			assert.NotEqual(t, SafeAutoRetry, d.Retry.Safety, tt.name)
		}
	}
}

// A tool that failed may have got half an input if the request before it is not known to
// have come to its end.
func TestToolsOnHalfAnInput(t *testing.T) {
	finish := func(f Finish) func(*Request) {
		return func(r *Request) {
			r.Finish = f
			if f > FinishMissing {
				r.Ended, r.Basis = semconv.StreamEndTerminalEvent, Typed
			}
		}
	}
	broke := func(r *Request) { r.Failed, r.Ended, r.Basis = Yes, semconv.StreamEndReadError, Typed }
	named := func(r *Request) { broke(r); r.CallIDs = []string{"a"} }
	const blamed, unsure = semconv.ClassToolFailed, semconv.ClassUnclassified
	for _, tt := range []struct {
		name   string
		before []Request
		id     string
		want   semconv.Class
	}{
		{"a finish reason was due", []Request{little(0, 1, finish(FinishMissing))}, "", unsure},
		{"the stream broke off", []Request{little(0, 1, broke)}, "", unsure},
		{"the stream broke off, and did not name it", []Request{little(0, 1, broke)}, "a", unsure},
		{"the stream just ended", []Request{little(0, 1, func(r *Request) { r.Ended = semconv.StreamEndEOF })}, "", unsure},
		{"a limit", []Request{little(0, 1, finish(FinishMaxTokens))}, "", unsure},
		{"the stream broke off after the call", []Request{little(0, 1, named)}, "a", blamed},
		{"it came to its end", []Request{little(0, 1, finish(FinishToolCalls))}, "", blamed},
		{"its producer records no finish reason", []Request{little(0, 1, nil)}, "", blamed},
		{"it failed, and then was well", []Request{little(0, 0.5, broke), little(0.6, 1, finish(FinishToolCalls))}, "", blamed},
		{"it was well, and then failed", []Request{little(0, 0.5, finish(FinishToolCalls)), little(0.6, 1, broke)}, "", unsure},
		{"the one that broke off began later", []Request{little(0, 1, finish(FinishToolCalls)), little(3, 4, broke)}, "", blamed},
		{"it failed for an unknown reason", []Request{little(0, 1, func(r *Request) { r.Failed = Yes })}, "", unsure},
		{"no request", nil, "", blamed},
	} {
		run := Run{Start: at(0), End: at(9), Ended: Yes, Requests: tt.before, Tools: []Tool{
			{Start: at(1), End: at(2), CallID: tt.id, Outcome: semconv.ToolOutcomeFailed},
			{Start: at(1), End: at(2), CallID: tt.id, Outcome: semconv.ToolOutcomeSucceeded},
			{Start: at(1), End: at(2), CallID: tt.id, Outcome: semconv.ToolOutcomeRejected},
		}}
		v := Judge(&run)
		assert.Equal(t, tt.want, v.Tools[0].Class, tt.name)
		assert.GreaterOrEqual(t, v.Tools[0].Retry.Safety, UserConfirmedRetry, tt.name)
		assert.Equal(t, semconv.ClassUnset, v.Tools[1].Class, tt.name)
		assert.Equal(t, blamed, v.Tools[2].Class, tt.name)
		if tt.want == unsure {
			assert.NotEqual(t, blamed, func() semconv.Class { run.Tools = run.Tools[:1]; return Judge(&run).Run.Class }(), tt.name)
			assert.Equal(t, semconv.OriginUnknown, v.Tools[0].Origin, tt.name)
			assert.Equal(t, semconv.ConfidenceLow, v.Tools[0].Confidence, tt.name)
		}
	}
}

// Where the end of the request before it was not observed, the error of the tool shows that it
// got half an input.
func TestToolsThatFailToParse(t *testing.T) {
	for errorType, want := range map[string]semconv.Class{
		"SyntaxError": semconv.ClassUnclassified, "json.decoder.JSONDecodeError": semconv.ClassUnclassified, "AI_InvalidToolInputError": semconv.ClassUnclassified,
		"PatchError": semconv.ClassToolFailed, "": semconv.ClassToolFailed,
	} {
		tool := Tool{Start: at(1), End: at(2), Outcome: semconv.ToolOutcomeFailed, ErrorType: errorType}
		run := Run{Start: at(0), End: at(9), Ended: Yes, Requests: []Request{little(0, 1, nil)}, Tools: []Tool{tool}}
		assert.Equal(t, want, Judge(&run).Tools[0].Class, errorType)
		run.Requests[0].Ended, run.Requests[0].Finish, run.Requests[0].Basis = semconv.StreamEndTerminalEvent, FinishToolCalls, Typed
		assert.Equal(t, semconv.ClassToolFailed, Judge(&run).Tools[0].Class, "%s, on a whole input", errorType)
	}
}

// A run whose last answer asked for tools has done its work if one of them handed over to
// another agent, after that answer.
func TestHandedOver(t *testing.T) {
	asked := little(0, 1, func(r *Request) { r.Ended, r.Basis, r.Finish = semconv.StreamEndTerminalEvent, Typed, FinishToolCalls })
	for name, tt := range map[string]struct {
		tool Tool
		want semconv.RunOutcome
	}{
		"handed over":     {Tool{Start: at(1), End: at(2), Outcome: semconv.ToolOutcomeSucceeded, Handoff: true}, semconv.RunOutcomeSucceeded},
		"another tool":    {Tool{Start: at(1), End: at(2), Outcome: semconv.ToolOutcomeSucceeded}, semconv.RunOutcomeIncomplete},
		"before it asked": {Tool{Start: at(0.1), End: at(0.2), Outcome: semconv.ToolOutcomeSucceeded, Handoff: true}, semconv.RunOutcomeIncomplete},
		"in vain":         {Tool{Start: at(1), End: at(2), Outcome: semconv.ToolOutcomeFailed, Handoff: true}, semconv.RunOutcomeFailed},
	} {
		run := Run{Start: at(0), End: at(3), Ended: Yes, Requests: []Request{asked}, Tools: []Tool{tt.tool}}
		assert.Equal(t, tt.want, Judge(&run).Run.Outcome, name)
	}
}

// Finish reasons that are errors have no other meaning.
func TestFailedFinish(t *testing.T) {
	for _, reason := range []string{"MALFORMED_FUNCTION_CALL", "malformed_tool_use", "insufficient_system_resource", "network_error", "abort", "NO_IMAGE"} {
		assert.True(t, FailedFinish(reason), reason)
		assert.Equal(t, FinishOther, ParseFinish([]string{"stop", reason}), reason)
	}
	for _, reason := range []string{"stop", "length", "error", "unstated", "OTHER"} {
		assert.False(t, FailedFinish(reason), reason)
	}
}

// A limit that is not named cut the answer all the same.
func TestLimitWithoutAName(t *testing.T) {
	assert.Equal(t, FinishLimited, ParseFinish([]string{"incomplete"}))
	assert.Equal(t, FinishMaxTokens, ParseFinish([]string{"incomplete", "length"}), "a name says more")
	run := Run{Start: t0, End: t0.Add(time.Second), Ended: Yes, Failed: No, Requests: []Request{little(0, 1, func(r *Request) {
		r.Ended, r.Basis, r.Finish = semconv.StreamEndTerminalEvent, Typed, FinishLimited
	})}}
	d := Judge(&run).Run
	assert.Equal(t, semconv.RunOutcomeLimited, d.Outcome)
	assert.Equal(t, semconv.ClassOutputLimited, d.Class)
	assert.Equal(t, semconv.CauseUnknown, d.Cause)
	assert.Equal(t, NoRetry, d.Retry.Safety)
	assert.NotEqual(t, semconv.ConfidenceHigh, d.Confidence)
	assert.Contains(t, d.Evidence, "gen_ai.response.finish_reasons=incomplete")
}

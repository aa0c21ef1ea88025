package classify

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// cutAfter adds a request that was cut after it had handed over calls of these tools.
func (u *unreturnedRun) cutAfter(history, ids, names []string) {
	r := u.add(FinishMissing, ids, history, history)
	r.CallNames = names
	r.Failed, r.Ended, r.Phase = Yes, semconv.StreamEndReadError, semconv.PhaseToolCallReady
	r.Transport.Cause = semconv.TransportCauseConnectionReset
}

// A further attempt that knows nothing of a call that was handed over is said, beside what became
// of the run.
func TestForgottenCalls(t *testing.T) {
	none := []string{}
	for _, tt := range []struct {
		name    string
		run     func(u *unreturnedRun)
		ids     []string
		warning string
	}{
		{"the retry is older than the call", func(u *unreturnedRun) {
			u.cutAfter(none, []string{"a"}, []string{"pay"})
			u.add(FinishStop, nil, none, none)
		}, []string{"a"}, "The retry did not know of pay, which may have run."},
		{"within a longer run", func(u *unreturnedRun) {
			u.add(FinishToolCalls, []string{"old"}, none, none)
			u.cutAfter([]string{"old"}, []string{"a"}, []string{"pay"})
			u.add(FinishToolCalls, []string{"b"}, []string{"old"}, []string{"old"})
			u.add(FinishStop, nil, []string{"old", "b"}, []string{"old", "b"})
		}, []string{"a"}, "The retry did not know of pay, which may have run."},
		{"several attempts", func(u *unreturnedRun) {
			u.cutAfter(none, []string{"a"}, []string{"pay"})
			u.cutAfter(none, []string{"b", "c"}, []string{"pay", ""})
			u.add(FinishStop, nil, none, none)
		}, []string{"a", "b", "c"}, "The retry did not know of pay and a tool, which may have run."},
		{"a later request knows it", func(u *unreturnedRun) {
			u.cutAfter(none, []string{"a"}, []string{"pay"})
			u.add(FinishStop, nil, none, none)
			u.add(FinishStop, nil, []string{"a"}, []string{"a"})
		}, nil, ""},
		{"it went on under another id", func(u *unreturnedRun) {
			u.cutAfter(none, []string{"a"}, []string{"pay"})
			u.add(FinishStop, nil, []string{"a_0"}, []string{"a_0"})
		}, nil, ""},
		{"nothing followed", func(u *unreturnedRun) {
			u.cutAfter(none, []string{"a"}, []string{"pay"})
		}, nil, ""},
		{"what followed is not known", func(u *unreturnedRun) {
			u.cutAfter(none, []string{"a"}, []string{"pay"})
			u.add(FinishStop, nil, nil, nil)
		}, nil, ""},
		{"another conversation followed", func(u *unreturnedRun) {
			u.cutAfter([]string{"old"}, []string{"a"}, []string{"pay"})
			u.add(FinishStop, nil, none, none)
		}, nil, ""},
		{"the same again after a whole answer", func(u *unreturnedRun) {
			u.add(FinishToolCalls, []string{"a"}, none, none).CallNames = []string{"pay"}
			u.add(FinishStop, nil, none, none).Attempt = 2
		}, []string{"a"}, "The retry did not know of pay, which may have run."},
		{"it was answered and summarized", func(u *unreturnedRun) {
			u.add(FinishToolCalls, []string{"a"}, none, none)
			u.add(FinishStop, nil, none, none)
		}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var u unreturnedRun
			tt.run(&u)
			run := u.run()
			d := Judge(run).Run
			assert.Equal(t, tt.ids, d.ForgottenCalls)
			assert.Equal(t, tt.warning, d.Warning)
			if run.ToolsRecorded = Yes; len(run.Requests[len(run.Requests)-1].HistoryOutputs) == 0 {
				assert.Empty(t, Judge(run).Run.Warning, "no tool was recorded, so none ran")
			}
		})
	}
}

// A tool that was interrupted may have run, although the model was told something in place of its
// output, and the run went on.
func TestInterruptedToolsAreWarnedOf(t *testing.T) {
	var u unreturnedRun
	u.add(FinishToolCalls, []string{"a"}, []string{}, []string{})
	u.add(FinishStop, nil, []string{"a"}, []string{"a"})
	run := u.run()
	run.Tools = []Tool{{Start: u[0].End, End: u[1].Start, CallID: "a", Name: "pay", Outcome: semconv.ToolOutcomeInterrupted}}
	d := Judge(run).Run
	assert.Equal(t, semconv.RunOutcomeRecovered, d.Outcome)
	assert.Equal(t, "pay was interrupted, and may have run.", d.Warning)
	run.Tools[0].Name = ""
	assert.Equal(t, "A tool was interrupted, and may have run.", Judge(run).Run.Warning)
	run.Tools[0].Effect = semconv.ToolEffectReadOnly
	assert.Empty(t, Judge(run).Run.Warning)
}

func TestWarningIsBounded(t *testing.T) {
	names := numbered(100)
	for i := range names {
		names[i] = "a_tool_with_a_long_name_that_is_still_allowed_to_be_shown_" + names[i]
	}
	assert.Less(t, len("The retry did not know of "+listed(names)+", which may have run. "+listed(names)+" was interrupted, and may have run."), 512)
	assert.Equal(t, "a, b, c and 1 more", listed([]string{"a", "b", "c", "a", "d"}))
}

// What the conversation did before an inferred run counts for its repetition if the history was
// rewritten since then, and does not if the run before ended with its answer.
func TestPreviousRun(t *testing.T) {
	failed := func(history []string) *Run {
		var u unreturnedRun
		r := u.add(FinishNotObserved, nil, history, history)
		r.Failed, r.Status, r.Ended, r.Phase = Yes, 503, semconv.StreamEndHTTPError, semconv.PhaseAwaitingResponse
		r.Provider.Kind = semconv.ProviderErrorKindOverloaded
		run := u.run()
		run.EndedBy, run.Failed = semconv.RunEndFailure, Yes
		return run
	}
	for _, tt := range []struct {
		name     string
		history  []string
		previous semconv.RunPrevious
		want     semconv.RetrySafety
	}{
		{"nothing before", []string{}, semconv.RunPreviousUnset, SafeAutoRetry},
		{"calls before", []string{"a"}, semconv.RunPreviousUnset, UserConfirmedRetry},
		{"settled calls before", []string{"a"}, semconv.RunPreviousSettled, SafeAutoRetry},
		{"many settled calls before", numbered(MaxIDs), semconv.RunPreviousSettled, SafeAutoRetry},
		{"rewritten", []string{}, semconv.RunPreviousUnsettled, UserConfirmedRetry},
	} {
		run := failed(tt.history)
		run.Previous = tt.previous
		d := Judge(run).Run
		assert.Equal(t, tt.want, d.Retry.Safety, tt.name)
	}

	// What the run itself did counts all the same.
	var u unreturnedRun
	u.add(FinishToolCalls, []string{"b"}, []string{"a"}, []string{"a"})
	r := u.add(FinishNotObserved, nil, []string{"a", "b"}, []string{"a", "b"})
	r.Failed, r.Status, r.Ended, r.Phase = Yes, 503, semconv.StreamEndHTTPError, semconv.PhaseAwaitingResponse
	r.Provider.Kind = semconv.ProviderErrorKindOverloaded
	run := u.run()
	run.EndedBy, run.Failed, run.Previous = semconv.RunEndFailure, Yes, semconv.RunPreviousSettled
	d := Judge(run).Run
	assert.Equal(t, UserConfirmedRetry, d.Retry.Safety)
	assert.Contains(t, d.Evidence, "llm.history.tool_outputs=b")
}

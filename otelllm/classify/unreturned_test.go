package classify

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// unreturnedRun is a run of requests that follow each other by a second.
type unreturnedRun []Request

func (u *unreturnedRun) add(state Finish, made, calls, outputs []string) *Request {
	start := time.Date(2026, 3, 1, 12, 0, len(*u), 0, time.UTC)
	r := Request{
		Start: start, End: start.Add(time.Second / 2), Basis: Typed, Failed: No, Status: 200, Finish: state,
		Ended: semconv.StreamEndTerminalEvent, Phase: semconv.PhaseStreamEnd, Text: Counted(0), Reasoning: Counted(0),
		ToolInputsStarted: Counted(len(made)), ToolInputsCompleted: Counted(len(made)), ToolCalls: Counted(len(made)),
		CallIDs: made, HistoryCalls: calls, HistoryOutputs: outputs, ProviderTools: []string{},
	}
	if state == FinishMissing {
		r.Failed, r.Ended, r.Transport.Cause = Yes, semconv.StreamEndReadError, semconv.TransportCauseConnectionReset
	}
	*u = append(*u, r)
	return &(*u)[len(*u)-1]
}

func (u *unreturnedRun) run() *Run {
	last := (*u)[len(*u)-1]
	return &Run{
		Start: (*u)[0].Start, End: last.End, Ended: Yes, EndedBy: semconv.RunEndAnswer, Failed: No,
		AnnouncedRequests: Counted(len(*u)), Requests: *u,
	}
}

// numbered returns n ids.
func numbered(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprint("old", i))
	}
	return list
}

// The calls of a run's own responses whose output does not come back are named. They are
// not where the history may have been summarized or is not listed in full.
func TestUnreturnedOutputs(t *testing.T) {
	ids := func(list ...string) []string { return append([]string{}, list...) }
	none := ids()
	for _, tt := range []struct {
		name string
		run  func(u *unreturnedRun)
		want []string
	}{
		{"it comes back", func(u *unreturnedRun) {
			u.add(FinishToolCalls, ids("a"), none, none)
			u.add(FinishStop, nil, ids("a"), ids("a"))
		}, nil},
		{"one of two", func(u *unreturnedRun) {
			u.add(FinishToolCalls, ids("a", "b"), none, none)
			u.add(FinishStop, nil, ids("a", "b"), ids("b"))
		}, []string{"a"}},
		{"in the order of the calls, each once", func(u *unreturnedRun) {
			u.add(FinishToolCalls, ids("b", "a", "c"), none, none)
			u.add(FinishToolCalls, ids("d"), ids("b", "a", "c"), ids("c"))
			u.add(FinishStop, nil, ids("b", "a", "c", "d"), ids("c", "d"))
		}, []string{"b", "a"}},
		{"the call is gone as well", func(u *unreturnedRun) {
			u.add(FinishToolCalls, ids("a", "b"), none, none)
			u.add(FinishStop, nil, ids("b"), ids("b"))
		}, nil},
		{"history not observed", func(u *unreturnedRun) {
			u.add(FinishToolCalls, ids("a", "b"), none, none)
			u.add(FinishStop, nil, nil, ids("b"))
		}, nil},
		{"it comes late", func(u *unreturnedRun) {
			u.add(FinishToolCalls, ids("a", "b"), none, none)
			u.add(FinishToolCalls, ids("c"), ids("a", "b"), ids("b"))
			u.add(FinishStop, nil, ids("a", "b", "c"), ids("b", "a", "c"))
		}, nil},
		{"it comes late, where the history is on the server", func(u *unreturnedRun) {
			u.add(FinishToolCalls, ids("a", "b"), none, none)
			u.add(FinishToolCalls, ids("c"), ids("a", "b"), ids("b"))
			u.add(FinishStop, nil, nil, ids("a", "c"))
		}, nil},
		{"the model got it, and then it was removed", func(u *unreturnedRun) {
			u.add(FinishToolCalls, ids("a"), none, none)
			u.add(FinishToolCalls, ids("b"), ids("a"), ids("a"))
			u.add(FinishStop, nil, ids("a", "b"), ids("b"))
		}, nil},
		{"the request with it failed, and then it was removed", func(u *unreturnedRun) {
			u.add(FinishToolCalls, ids("a"), none, none)
			u.add(FinishMissing, nil, ids("a"), ids("a"))
			u.add(FinishStop, nil, ids("a"), none)
		}, []string{"a"}},
		{"the call of an earlier run", func(u *unreturnedRun) {
			u.add(FinishToolCalls, ids("b"), ids("a"), none)
			u.add(FinishStop, nil, ids("a", "b"), ids("b"))
		}, nil},
		{"the history is that of a request beside it", func(u *unreturnedRun) {
			u.add(FinishToolCalls, ids("a"), none, none)
			beside := u.add(FinishStop, nil, ids("a"), none)
			beside.Start = (*u)[0].Start
		}, nil},
		{"an id used again, the first output is there", func(u *unreturnedRun) {
			u.add(FinishToolCalls, ids("a"), none, none)
			u.add(FinishToolCalls, ids("a", "b"), ids("a"), ids("a"))
			u.add(FinishStop, nil, ids("a", "a", "b"), ids("a", "b"))
		}, []string{"a"}},
		{"an id used again, both are there", func(u *unreturnedRun) {
			u.add(FinishToolCalls, ids("a"), none, none)
			u.add(FinishToolCalls, ids("a"), ids("a"), ids("a"))
			u.add(FinishStop, nil, ids("a", "a"), ids("a", "a"))
		}, nil},
		{"a long history reaches back", func(u *unreturnedRun) {
			old := numbered(MaxIDs)
			for i := range old {
				u.add(FinishToolCalls, old[i:i+1], old[:i], old[:i])
			}
			u.add(FinishToolCalls, ids("a", "b"), old, old)
			u.add(FinishStop, nil, slices.Concat(old[2:], ids("a", "b")), slices.Concat(old[1:], ids("b")))
		}, []string{"a"}},
		{"a long history may have left it out", func(u *unreturnedRun) {
			old := append(numbered(MaxIDs), "a")
			u.add(FinishToolCalls, old, none, none)
			u.add(FinishStop, nil, old[1:], old[:MaxIDs])
		}, nil},
		{"a long history of ids used again", func(u *unreturnedRun) {
			old := numbered(MaxIDs)
			for i := range old {
				u.add(FinishToolCalls, old[i:i+1], old[:i], old[:i])
			}
			u.add(FinishToolCalls, ids("a", "a"), old, old)
			u.add(FinishStop, nil, slices.Concat(old[2:], ids("a", "a")), slices.Concat(old[1:], ids("a")))
		}, nil},
		{"no more than the bound", func(u *unreturnedRun) {
			many := numbered(MaxIDs + 2)
			u.add(FinishToolCalls, many[:MaxIDs], none, none)
			u.add(FinishToolCalls, many[MaxIDs:], many[:MaxIDs], none)
			u.add(FinishStop, nil, many[2:], none)
		}, numbered(MaxIDs)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var u unreturnedRun
			tt.run(&u)
			run := u.run()
			d := Judge(run).Run
			assert.Equal(t, tt.want, d.MissingOutputs)
			assertLost(t, &d, len(tt.want) > 0)

			run.EndedBy, run.Failed, run.Ended = semconv.RunEndUnset, NotObserved, NotObserved
			assert.Equal(t, tt.want, Judge(run).Run.MissingOutputs, "also while it goes on")
			run.EndedBy = semconv.RunEndUnclear
			d = Judge(run).Run
			assert.Equal(t, tt.want, d.MissingOutputs, "of a run whose end is unclear, this alone is claimed")
			if len(tt.want) == 0 {
				assert.Equal(t, semconv.RunOutcomeUnset, d.Outcome)
			} else {
				assertLost(t, &d, true)
			}
			run.AnnouncedRequests = Counted(len(run.Requests) + 1)
			assert.Equal(t, semconv.RunOutcomeUnset, Judge(run).Run.Outcome, "what is not here may have the output")
		})
	}
}

// assertLost checks the verdict on a run whose requests show that an output did not come back.
func assertLost(t *testing.T, d *Diagnosis, lost bool) {
	t.Helper()
	if !lost {
		assert.False(t, d.Failed())
		return
	}
	assert.Equal(t, semconv.RunOutcomeFailed, d.Outcome)
	assert.Equal(t, semconv.ClassToolOutputLost, d.Class)
	assert.Equal(t, semconv.CauseOmittedFromRetry, d.Cause)
	assert.Equal(t, semconv.ConfidenceMedium, d.Confidence, "that it ran is not observed")
	assert.Equal(t, UserConfirmedRetry, d.Retry.Safety)
	assert.Contains(t, d.Summary, "The model never got the output of its call of a tool")
}

// A recorded tool decides by itself.
func TestUnreturnedOutputOfARecordedTool(t *testing.T) {
	var u unreturnedRun
	u.add(FinishToolCalls, []string{"a"}, []string{}, []string{})
	u.add(FinishStop, nil, []string{"a"}, []string{})
	run := u.run()
	run.Tools = []Tool{{Start: u[0].End, End: u[0].End, CallID: "a", Outcome: semconv.ToolOutcomeRejected}}
	assert.Equal(t, []string{"a"}, Judge(run).Run.MissingOutputs)
	run.Tools[0].Outcome = semconv.ToolOutcomeInterrupted
	assert.Empty(t, Judge(run).Run.MissingOutputs, "it has no output")
}

// A provider that refuses a history without an output is named with the ids, also those of
// calls that an earlier run made.
func TestRefusedHistoryNamesOutputs(t *testing.T) {
	var u unreturnedRun
	r := u.add(FinishNotObserved, nil, []string{"a", "b"}, []string{"b"})
	r.Failed, r.Status, r.Ended, r.Phase = Yes, 400, semconv.StreamEndHTTPError, semconv.PhaseAwaitingResponse
	r.Provider.Kind = semconv.ProviderErrorKindInvalidRequest
	run := u.run()
	run.EndedBy, run.Failed = semconv.RunEndFailure, Yes
	d := Judge(run).Run
	assert.Equal(t, semconv.CauseMissingOutput, d.Cause)
	assert.Equal(t, []string{"a"}, d.MissingOutputs)
}

// A tool that a history shows has an output, whatever became of it: a retry without it has
// lost it.
func TestShownToolIsLostOnRetry(t *testing.T) {
	var u unreturnedRun
	u.add(FinishToolCalls, []string{"a"}, []string{}, []string{})
	u.add(FinishMissing, nil, []string{"a"}, []string{"a"})
	last := u.add(FinishStop, nil, []string{"a"}, []string{})
	run := u.run()
	run.Tools = []Tool{{Start: u[0].End, End: u[1].Start, CallID: "a", Delivery: semconv.OutputDeliveryPending}}
	d := Judge(run).Run
	assert.Equal(t, semconv.CauseOmittedFromRetry, d.Cause)
	assert.Equal(t, []string{"a"}, d.MissingOutputs)

	last.HistoryOutputs = []string{"a"}
	d = Judge(run).Run
	assert.Equal(t, semconv.RunOutcomeRecovered, d.Outcome)
	assert.Empty(t, d.MissingOutputs)
}

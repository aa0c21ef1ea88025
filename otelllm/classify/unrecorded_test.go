package classify

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/otelllm/otelllm-go/internal/sample"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

// TestToolsInTheHistory: what the history of a request says about tools that ran before it
// and are not recorded.
func TestToolsInTheHistory(t *testing.T) {
	const read, ok = semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded
	cut := reset(semconv.PhaseResponseStarted)
	const (
		safe    = "safe_auto_retry (no_output)"
		only    = "safe_auto_retry (read_only_tools_only)"
		unknown = "user_confirmed_retry (tool_state_unknown)"
	)
	history := func(calls, outputs []string) func(*Request) {
		return all(cut, func(r *Request) { r.HistoryCalls, r.HistoryOutputs = calls, outputs })
	}
	recorded := func(r *Run) { r.ToolsRecorded = Yes }
	for _, tt := range []struct {
		name   string
		first  func(*Request)
		tools  []Tool
		change func(*Run)
		want   string
		key    semconv.SummaryKey
		shown  string // in the evidence
	}{
		{"an empty history", history([]string{}, []string{}), nil, nil, safe, semconv.SummaryKeyNothingShown, ""},
		{"a call and its output", history([]string{"z"}, []string{"z"}), nil, nil, unknown, semconv.SummaryKeyToolOfUnknownEffectRan, "llm.history.tool_outputs=z"},
		{"an output alone", history([]string{}, []string{"y", "z"}), nil, nil, unknown, semconv.SummaryKeyToolOfUnknownEffectRan, "llm.history.tool_outputs=y,z"},
		{"a call without an output", history([]string{"z"}, []string{}), nil, nil, unknown, semconv.SummaryKeyToolStateUnknown, "llm.history.tool_calls=z"},
		{"the tool is recorded", history([]string{"z"}, []string{"z"}), []Tool{tool(-2, -1, "z", read, ok)}, nil, only, semconv.SummaryKeyHarmlessToolsRan, ""},
		{"one of two is recorded", history([]string{"y", "z"}, []string{"y", "z"}), []Tool{tool(-2, -1, "y", read, ok)}, nil, unknown, semconv.SummaryKeyToolOfUnknownEffectRan, "llm.history.tool_outputs=z"},
		{"a tool without an id", history([]string{"z"}, []string{"z"}), []Tool{tool(-2, -1, "", read, ok)}, nil, unknown, semconv.SummaryKeyToolOfUnknownEffectRan, "llm.history.tool_outputs=z"},
		{"a tool that began later", history([]string{"z"}, []string{"z"}), []Tool{tool(2, 3, "z", read, ok)}, nil, unknown, semconv.SummaryKeyToolOfUnknownEffectRan, "llm.history.tool_outputs=z"},
		{"a tool that began later by a coarse clock", history([]string{"z"}, []string{"z"}), []Tool{tool(0.001, 0.002, "z", read, ok)}, nil, only, semconv.SummaryKeyHarmlessToolsRan, ""},
		{"an id that was used twice", history([]string{"z", "z"}, []string{"z", "z"}), []Tool{tool(-2, -1, "z", read, ok)}, nil, unknown, semconv.SummaryKeyToolOfUnknownEffectRan, "llm.history.tool_outputs=z"},
		{"an id that was used twice, with two tools", history([]string{"z", "z"}, []string{"z", "z"}), []Tool{tool(-4, -3, "z", read, ok), tool(-2, -1, "z", read, ok)}, nil, only, semconv.SummaryKeyHarmlessToolsRan, ""},
		{"an id that was called again", history([]string{"z", "z"}, []string{"z"}), []Tool{tool(-2, -1, "z", read, ok)}, nil, unknown, semconv.SummaryKeyToolStateUnknown, "llm.history.tool_calls=z"},
		{"63 calls, all recorded", history(ids(MaxIDs-1), ids(MaxIDs-1)), executed(-2, -1, ids(MaxIDs-1)...), nil, only, semconv.SummaryKeyHarmlessToolsRan, ""},
		{"64 calls, all recorded: there may be more", history(ids(MaxIDs), ids(MaxIDs)), executed(-2, -1, ids(MaxIDs)...), nil, unknown, semconv.SummaryKeyToolOfUnknownEffectRan, "llm.history.tool_outputs=call_0,call_1,"},
		{"every tool is recorded", history([]string{"z"}, []string{"z"}), nil, recorded, safe, semconv.SummaryKeyNothingShown, ""},
		{"every tool is recorded, and the list is cut", history(ids(MaxIDs), ids(MaxIDs)), nil, recorded, safe, semconv.SummaryKeyNothingShown, ""},
		{"every tool is announced", history([]string{"z"}, []string{"z"}), nil, func(r *Run) { r.AnnouncedTools = Counted(0) }, safe, semconv.SummaryKeyNothingShown, ""},
		{"more tools are announced than are here", history([]string{"z"}, []string{"z"}), nil, func(r *Run) { r.AnnouncedTools = Counted(1) }, unknown, semconv.SummaryKeyToolOfUnknownEffectRan, "llm.history.tool_outputs=z"},
		{"runs within it have tools", history([]string{"z"}, []string{"z"}), nil, func(r *Run) { r.Inner.Tools = 1 }, unknown, semconv.SummaryKeyToolOfUnknownEffectRan, "llm.history.tool_outputs=z"},
		{"a history that was not observed", history(nil, nil), nil, nil, "user_confirmed_retry (evidence_incomplete)", semconv.SummaryKeyNothingToAdd, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Run{
				Start: at(-5), End: at(2), Ended: Yes, Failed: Yes, AnnouncedRequests: Counted(1),
				Requests: []Request{request(0, 1, tt.first)}, Tools: tt.tools,
			}
			if tt.change != nil {
				tt.change(&r)
			}
			v := Judge(&r)
			assert.Equal(t, "stream_interrupted/connection_reset@response_started "+tt.want, words(&v.Run))
			assert.Equal(t, tt.key, v.Run.SummaryKey, v.Run.Summary)
			has := slices.ContainsFunc(v.Run.Evidence, func(e string) bool { return tt.shown != "" && len(e) >= len(tt.shown) && e[:len(tt.shown)] == tt.shown })
			assert.Equal(t, tt.shown != "", has, v.Run.Evidence)

			around := Judge(&Run{
				Start: at(-6), End: at(3), Ended: Yes, AnnouncedRequests: Counted(v.Effects.Requests + 1), AnnouncedTools: r.AnnouncedTools, Inner: v.Effects,
				Requests: []Request{request(2, 3, cut)},
			})
			assert.GreaterOrEqual(t, around.Run.Retry.Safety, v.Run.Retry.Safety, "the run around it: %s", words(&around.Run))
			if tt.want == unknown {
				assert.Equal(t, semconv.RetryReasonToolStateUnknown, around.Run.Retry.Reason)
			}
		})
	}
}

// A tool that is known from the history alone has no name, whatever other tools ran.
func TestUnrecordedToolHasNoName(t *testing.T) {
	named := func(effect semconv.ToolEffect) Tool {
		f := tool(-2, -1, "a", effect, semconv.ToolOutcomeSucceeded)
		f.Name = "named"
		return f
	}
	for effect, want := range map[semconv.ToolEffect]string{
		semconv.ToolEffectReadOnly:      "A tool had already run, and its effects are not known. Ask before retrying: a tool could run twice.",
		semconv.ToolEffectIdempotent:    "A tool had already run, and its effects are not known. Ask before retrying: a tool could run twice.",
		semconv.ToolEffectUnknown:       "The tool named had already run, and its effects are not known. Ask before retrying: named could run twice.",
		semconv.ToolEffectNonIdempotent: "The tool named, which has side effects, had already run. Ask before retrying: named could run twice.",
	} {
		unrecorded := Run{Ended: Yes, Failed: Yes, AnnouncedRequests: Counted(1), Requests: []Request{request(0, 1, all(reset(semconv.PhaseResponseStarted), carries("z")))}}
		both := unrecorded
		both.Tools = []Tool{named(effect)}
		within := Run{Ended: Yes, Failed: Yes, AnnouncedRequests: Counted(1), Inner: Judge(&unrecorded).Effects, Tools: []Tool{named(effect)}}
		harmless := Run{Tools: []Tool{named(effect)}}
		joined := Run{Ended: Yes, Failed: Yes, AnnouncedRequests: Counted(1), Inner: Judge(&unrecorded).Effects.Join(Judge(&harmless).Effects)}
		for _, r := range []*Run{&both, &within, &joined} {
			assert.Contains(t, Judge(r).Run.Summary, want)
		}
	}
}

// A run is never safer to repeat than a request of it, and the reason is that request's.
func TestRunIsNotSaferThanItsRequests(t *testing.T) {
	cut := reset(semconv.PhaseResponseStarted)
	answered := func(from float64) Request { return request(from, from+0.5, answers) }
	for _, tt := range []struct {
		name     string
		requests []Request
		want     string
	}{
		{"alone", []Request{request(0, 1, cut)}, "safe_auto_retry (no_output)"},
		{"one that was refused for good, and made good", []Request{request(0, 1, refused(401, semconv.ProviderErrorKindAuthentication)), answered(2), request(3, 4, cut)}, "no_retry (not_transient)"},
		{"one that a person stopped, and the run went on", []Request{request(0, 1, aborted(semconv.AbortSourceUser)), answered(2), request(3, 4, cut)}, "no_retry (user_abort)"},
		{"several", []Request{request(0, 1, refused(401, semconv.ProviderErrorKindAuthentication)), request(1, 2, aborted(semconv.AbortSourceUser)), answered(2), request(3, 4, cut)}, "no_retry (user_abort)"},
		{"one that was cut by a limit", []Request{request(0, 1, all(answers, func(r *Request) { r.Finish = FinishMaxTokens })), answered(2), request(3, 4, cut)}, "no_retry (not_transient)"},
		{"one that a failure cancelled", []Request{request(0, 1, cut), request(0.5, 1.5, all(aborted(semconv.AbortSourceUnknown), func(r *Request) { r.Text = Counted(0) }))}, "safe_auto_retry (no_output)"},
		{"one that the application cancelled then", []Request{request(0, 1, cut), request(0.5, 1.5, all(aborted(semconv.AbortSourceApplication), func(r *Request) { r.Text = Counted(0) }))}, "no_retry (local_shutdown)"},
		{"one with a weaker basis", []Request{request(0, 1, all(cut, func(r *Request) { r.Basis = Inferred })), request(2, 3, all(answers, func(r *Request) { r.Text = Counted(0) })), request(3, 4, cut)}, "user_confirmed_retry (evidence_incomplete)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Run{Start: t0, End: at(9), Ended: Yes, Failed: Yes, AnnouncedRequests: Counted(len(tt.requests)), AnnouncedTools: Counted(0), Requests: tt.requests}
			v := Judge(&r)
			assert.Equal(t, semconv.ClassStreamInterrupted, v.Run.Class)
			assert.Equal(t, tt.want, v.Run.Retry.Safety.String()+" ("+v.Run.Retry.Reason.String()+")")
			r.Requests = append(slices.Clone(r.Requests), answered(8))
			r.Failed, r.AnnouncedRequests = No, Counted(len(r.Requests))
			v = Judge(&r)
			assert.Zero(t, v.Run.Retry, "it recovered: %s", words(&v.Run))
		})
	}
}

// If parts of a run may be missing, neither it nor a request of it is safe to repeat, and
// what is missing is named.
func TestPartial(t *testing.T) {
	for _, partial := range []bool{false, true} {
		r := run(true, []Request{request(0, 1, reset(semconv.PhaseResponseStarted))})
		r.Partial = partial
		v := Judge(&r)
		want, missing := "safe_auto_retry (no_output)", []string(nil)
		if partial {
			want, missing = "user_confirmed_retry (evidence_incomplete)", []string{"llm.run.id"}
		}
		for _, d := range []*Diagnosis{&v.Run, &v.Requests[0]} {
			assert.Equal(t, "stream_interrupted/connection_reset@response_started "+want, words(d))
			assert.Equal(t, missing, d.MissingEvidence)
		}
	}
}

// The request that made a tool's call may be missing, and show that its input was cut.
func TestPartialTool(t *testing.T) {
	failed := tool(1, 2, "a", semconv.ToolEffectReadOnly, semconv.ToolOutcomeFailed)
	for _, tt := range []struct {
		name     string
		partial  bool
		requests []Request
		want     string
	}{
		{"nothing is missing", false, nil, "tool_failed/execution_error@tool_execution safe_auto_retry (read_only_tools_only)"},
		{"its request may be missing", true, nil, "tool_failed/execution_error@tool_execution user_confirmed_retry (evidence_incomplete)"},
		{"its request is here", true, []Request{request(0, 1, calls("a"))}, "tool_failed/execution_error@tool_execution safe_auto_retry (read_only_tools_only)"},
		{"its request was cut", true, []Request{request(0, 1, all(reset(semconv.PhaseToolInput), func(r *Request) {
			r.ToolInputsStarted, r.OpenCallIDs = Counted(1), []string{"a"}
		}))}, "tool_failed/incomplete_input@tool_execution no_retry (not_transient)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := Judge(&Run{Partial: tt.partial, Requests: tt.requests, Tools: []Tool{failed}})
			assert.Equal(t, tt.want, words(&v.Tools[0]))
		})
	}
}

// TestRandomRunsCoverTheirRequests checks over random runs that a run is never safer to
// repeat than its requests, or than what their histories show.
func TestRandomRunsCoverTheirRequests(t *testing.T) {
	rounds := 20_000 / sample.Every(10)
	for seed := range rounds {
		r := randomRun(rand.New(rand.NewPCG(uint64(seed), 2))) //nolint:gosec // a test that can be repeated
		v := Judge(r)
		require.Empty(t, coverProblem(r, &v), "seed %d: %+v", seed, r)
	}
}

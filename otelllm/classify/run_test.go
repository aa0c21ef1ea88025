package classify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds float64) time.Time { return t0.Add(time.Duration(seconds * float64(time.Second))) }

// request returns a request as the client records it: everything was observed.
func request(from, to float64, change func(*Request)) Request {
	r := Request{
		Start: at(from), End: at(to), Attempt: 1, Basis: Typed, Status: 200, TimeToHeaders: 100 * time.Millisecond,
		Text: Counted(0), Reasoning: Counted(0), ToolInputsStarted: Counted(0), ToolInputsCompleted: Counted(0),
		ToolCalls: Counted(0), ProviderTools: []string{}, ProviderToolsStarted: Counted(0), Events: Counted(2),
		HistoryCalls: []string{}, HistoryOutputs: []string{},
	}
	change(&r)
	return r
}

func answers(r *Request) {
	r.Ended, r.Finish, r.Phase = semconv.StreamEndTerminalEvent, FinishStop, semconv.PhaseStreamEnd
	r.Text = Counted(3)
}

func calls(ids ...string) func(*Request) {
	return func(r *Request) {
		r.Ended, r.Finish, r.Phase = semconv.StreamEndTerminalEvent, FinishToolCalls, semconv.PhaseStreamEnd
		r.ToolInputsStarted, r.ToolInputsCompleted, r.ToolCalls = Counted(len(ids)), Counted(len(ids)), Counted(len(ids))
		r.CallIDs = ids
	}
}

func reset(phase semconv.Phase) func(*Request) {
	return func(r *Request) {
		r.Ended, r.Phase = semconv.StreamEndReadError, phase
		r.Transport = Transport{semconv.TransportStageBody, semconv.TransportCauseConnectionReset, "ECONNRESET"}
	}
}

func aborted(source semconv.AbortSource) func(*Request) {
	return func(r *Request) {
		r.Ended, r.Phase, r.Abort.Source, r.Text = semconv.StreamEndCancelled, semconv.PhaseText, source, Counted(1)
	}
}

func carries(ids ...string) func(*Request) {
	return func(r *Request) { r.HistoryCalls, r.HistoryOutputs = ids, ids }
}

func refused(status int, kind semconv.ProviderErrorKind) func(*Request) {
	return func(r *Request) {
		r.Ended, r.Phase, r.Status = semconv.StreamEndHTTPError, semconv.PhaseResponseStarted, status
		r.Provider.Kind = kind
	}
}

func all(changes ...func(*Request)) func(*Request) {
	return func(r *Request) {
		for _, c := range changes {
			c(r)
		}
	}
}

func tool(from, to float64, id string, effect semconv.ToolEffect, outcome semconv.ToolOutcome) Tool {
	return Tool{Start: at(from), End: at(to), CallID: id, Name: "apply_patch", Effect: effect, Outcome: outcome, Delivery: semconv.OutputDeliveryPending}
}

// run returns a run whose end and parts were all observed.
func run(failed bool, requests []Request, tools ...Tool) Run {
	return Run{
		Start: t0, End: at(60), Ended: Yes, Failed: FactOf(failed), Requests: requests, Tools: tools,
		AnnouncedRequests: Counted(len(requests)), AnnouncedTools: Counted(len(tools)),
	}
}

// words formats a diagnosis in the words of the vocabulary: class/cause@phase, then safety
// (reason).
func words(d *Diagnosis) string {
	if !d.Failed() {
		return ""
	}
	return d.Class.String() + "/" + d.Cause.String() + "@" + d.Phase.String() + " " + d.Retry.Safety.String() + " (" + d.Retry.Reason.String() + ")"
}

// TestAcceptance runs the acceptance cases of the design, and the statements of its text,
// on facts alone.
func TestAcceptance(t *testing.T) {
	const (
		write = semconv.ToolEffectNonIdempotent
		ok    = semconv.ToolOutcomeSucceeded
		bad   = semconv.ToolOutcomeFailed
	)
	toolInput := func(text int) func(*Request) {
		return func(r *Request) {
			reset(semconv.PhaseToolInput)(r)
			r.Text, r.ToolInputsStarted, r.OpenCallIDs = Counted(text), Counted(1), []string{"a"}
		}
	}
	for _, c := range []struct {
		name      string
		run       Run
		outcome   string
		want      string // verdict on the run
		requests  []string
		tools     []string
		recovered int
		missing   []string
		origin    semconv.Origin
	}{
		{
			name: "1 reset inside a tool call, after text", run: run(true, []Request{request(0, 1, toolInput(4))}), outcome: "failed",
			want:     "stream_interrupted/connection_reset@tool_input user_confirmed_retry (visible_output)",
			requests: []string{"stream_interrupted/connection_reset@tool_input user_confirmed_retry (visible_output)"},
			origin:   semconv.OriginTransport,
		},
		{
			name: "2 the same without text", run: run(true, []Request{request(0, 1, toolInput(0))}), outcome: "failed",
			want:     "stream_interrupted/connection_reset@tool_input safe_auto_retry (incomplete_tool_input)",
			requests: []string{"stream_interrupted/connection_reset@tool_input safe_auto_retry (incomplete_tool_input)"},
		},
		{
			name: "3 certificate", run: run(true, []Request{request(0, 1, func(r *Request) {
				r.Ended, r.Status, r.TimeToHeaders, r.Events = semconv.StreamEndNoResponse, 0, 0, Counted(0)
				r.Phase = semconv.PhaseBeforeConnection
				r.Transport = Transport{semconv.TransportStageTLS, semconv.TransportCauseTLS, CodeCertificate}
			})}), outcome: "failed",
			want:     "connection_failed/tls@before_connection no_retry (not_transient)",
			requests: []string{"connection_failed/tls@before_connection no_retry (not_transient)"},
		},
		{
			name: "3 handshake", run: run(true, []Request{request(0, 1, func(r *Request) {
				r.Ended, r.Status, r.Phase = semconv.StreamEndNoResponse, 0, semconv.PhaseBeforeConnection
				r.Transport = Transport{semconv.TransportStageTLS, semconv.TransportCauseTLS, "RECORD_HEADER"}
			})}), outcome: "failed",
			want:     "connection_failed/tls@before_connection safe_auto_retry (nothing_left_client)",
			requests: []string{"connection_failed/tls@before_connection safe_auto_retry (nothing_left_client)"},
		},
		{
			name: "5 clean end after text", run: run(false, []Request{request(0, 1, func(r *Request) {
				r.Ended, r.Phase, r.Text, r.Finish = semconv.StreamEndEOF, semconv.PhaseText, Counted(2), FinishMissing
				r.Transport.Cause = semconv.TransportCauseCleanEOF
			})}), outcome: "failed",
			want:     "stream_interrupted/clean_eof@text user_confirmed_retry (visible_output)",
			requests: []string{"stream_interrupted/clean_eof@text user_confirmed_retry (visible_output)"},
		},
		{
			name: "7 call ready and not executed", run: run(true, []Request{request(0, 1, all(calls("a"), reset(semconv.PhaseToolCallReady)))}), outcome: "failed",
			want:     "stream_interrupted/connection_reset@tool_call_ready safe_auto_retry (tool_call_not_executed)",
			requests: []string{"stream_interrupted/connection_reset@tool_call_ready safe_auto_retry (tool_call_not_executed)"},
		},
		{
			name: "7 call ready, tools not observed",
			run:  Run{Start: t0, Requests: []Request{request(0, 1, all(calls("a"), reset(semconv.PhaseToolCallReady)))}}, outcome: "failed",
			want:     "stream_interrupted/connection_reset@tool_call_ready user_confirmed_retry (tool_state_unknown)",
			requests: []string{"stream_interrupted/connection_reset@tool_call_ready user_confirmed_retry (tool_state_unknown)"},
		},
		{
			name: "8 tool ran, its output carried, then cut",
			run: run(true, []Request{
				request(0, 1, calls("a")), request(3, 4, all(reset(semconv.PhaseResponseStarted), carries("a"))),
			}, tool(1, 2, "a", write, ok)), outcome: "failed",
			want:     "stream_interrupted/connection_reset@response_started user_confirmed_retry (tool_side_effect)",
			requests: []string{"", "stream_interrupted/connection_reset@response_started safe_auto_retry (no_output)"},
		},
		{
			name: "9 and the retry lacks the output",
			run: run(true, []Request{
				request(0, 1, calls("a")), request(3, 4, all(reset(semconv.PhaseResponseStarted), carries("a"))),
				request(5, 6, refused(400, semconv.ProviderErrorKindInvalidRequest)),
			}, tool(1, 2, "a", write, ok)), outcome: "failed",
			want:     "tool_output_lost/omitted_from_retry@tool_output_delivery no_retry (not_transient)",
			requests: []string{"", "stream_interrupted/connection_reset@response_started safe_auto_retry (no_output)", "provider_error/invalid_request@response_started no_retry (not_transient)"},
			missing:  []string{"a"}, origin: semconv.OriginApplication,
		},
		{
			name: "9 and the model answers without it",
			run: run(false, []Request{
				request(0, 1, calls("a")), request(3, 4, all(reset(semconv.PhaseResponseStarted), carries("a"))),
				request(5, 6, answers),
			}, tool(1, 2, "a", write, ok)), outcome: "failed",
			want:     "tool_output_lost/omitted_from_retry@tool_output_delivery user_confirmed_retry (tool_side_effect)",
			requests: []string{"", "stream_interrupted/connection_reset@response_started safe_auto_retry (no_output)", ""},
			missing:  []string{"a"},
		},
		{
			name: "10 stop in mid-text", run: run(false, []Request{request(0, 1, aborted(semconv.AbortSourceUser))}), outcome: "aborted",
			want:     "local_abort/user@text no_retry (user_abort)",
			requests: []string{"local_abort/user@text no_retry (user_abort)"}, origin: semconv.OriginLocal,
		},
		{
			name: "11 shutdown", run: run(false, []Request{request(0, 1, aborted(semconv.AbortSourceShutdown))}), outcome: "aborted",
			want:     "local_abort/shutdown@text no_retry (local_shutdown)",
			requests: []string{"local_abort/shutdown@text no_retry (local_shutdown)"},
		},
		{
			name: "11 deadline before any text", run: run(true, []Request{request(0, 1, all(aborted(semconv.AbortSourceDeadline), func(r *Request) { r.Text = Counted(0) }))}), outcome: "aborted",
			want:     "local_abort/deadline@text user_confirmed_retry (deadline)",
			requests: []string{"local_abort/deadline@text user_confirmed_retry (deadline)"},
		},
		{
			name: "13 rate limited, then well", run: run(false, []Request{
				request(0, 1, refused(429, semconv.ProviderErrorKindRateLimited)), request(2, 3, answers),
			}), outcome: "recovered", recovered: 1,
			requests: []string{"provider_error/rate_limited@response_started safe_auto_retry (no_output)", ""},
		},
		{
			name: "14 no quota", run: run(true, []Request{request(0, 1, refused(429, semconv.ProviderErrorKindQuotaExhausted))}), outcome: "failed",
			want:     "provider_error/quota_exhausted@response_started no_retry (not_transient)",
			requests: []string{"provider_error/quota_exhausted@response_started no_retry (not_transient)"}, origin: semconv.OriginProvider,
		},
		{
			name: "15 overloaded in band after text", run: run(true, []Request{request(0, 1, func(r *Request) {
				r.Ended, r.Phase, r.Text = semconv.StreamEndTerminalEvent, semconv.PhaseText, Counted(1)
				r.Provider = ProviderError{Kind: semconv.ProviderErrorKindOverloaded, Code: "overloaded_error", InBand: true}
			})}), outcome: "failed",
			want:     "provider_error/overloaded@text user_confirmed_retry (visible_output)",
			requests: []string{"provider_error/overloaded@text user_confirmed_retry (visible_output)"},
		},
		{
			name: "15 the reader closes after the error", run: run(true, []Request{request(0, 1, func(r *Request) {
				r.Ended, r.Phase = semconv.StreamEndConsumerClosed, semconv.PhaseResponseStarted
				r.Provider = ProviderError{Kind: semconv.ProviderErrorKindServerError, InBand: true}
			})}), outcome: "failed",
			want:     "provider_error/server_error@response_started safe_auto_retry (no_output)",
			requests: []string{"provider_error/server_error@response_started safe_auto_retry (no_output)"},
		},
		{
			name: "16 tool fails, the model answers", run: run(false, []Request{
				request(0, 1, calls("a")), request(3, 4, all(answers, carries("a"))),
			}, tool(1, 2, "a", write, bad)), outcome: "recovered", recovered: 1,
			requests: []string{"", ""},
			tools:    []string{"tool_failed/execution_error@tool_execution user_confirmed_retry (tool_side_effect)"},
		},
		{
			name: "17 tool fails and the run ends", run: run(true, []Request{request(0, 1, calls("a"))},
				tool(1, 2, "a", semconv.ToolEffectReadOnly, bad)), outcome: "failed",
			want: "tool_failed/execution_error@tool_execution safe_auto_retry (read_only_tools_only)", requests: []string{""},
			tools: []string{"tool_failed/execution_error@tool_execution safe_auto_retry (read_only_tools_only)"}, origin: semconv.OriginTool,
			missing: []string{"a"},
		},
		{
			name: "18 tool fails, and sending its failure fails", run: run(true, []Request{request(0, 1, calls("a"))},
				func() Tool {
					f := tool(1, 2, "a", write, bad)
					f.Delivery, f.DeliveryError, f.ErrorType = semconv.OutputDeliveryFailed, "*net.OpError", "*fs.PathError"
					return f
				}()), outcome: "failed",
			want: "tool_output_lost/delivery_failed@tool_output_delivery user_confirmed_retry (tool_side_effect)", requests: []string{""},
			tools: []string{"tool_failed/execution_error@tool_execution user_confirmed_retry (tool_side_effect)"}, missing: []string{"a"},
		},
		{
			name: "19 an empty answer behind a gateway", run: run(false, []Request{request(0, 1, func(r *Request) {
				r.Ended, r.Phase, r.Finish, r.Upstream.Failed = semconv.StreamEndTerminalEvent, semconv.PhaseResponseStarted, FinishMissing, Yes
			})}), outcome: "failed",
			want:     "empty_completion/swallowed_error@response_started safe_auto_retry (no_output)",
			requests: []string{"empty_completion/swallowed_error@response_started safe_auto_retry (no_output)"}, origin: semconv.OriginGateway,
		},
		{
			name: "20 tool ran on half an input", run: run(true, []Request{request(0, 1, toolInput(0))},
				tool(1, 2, "a", write, bad)), outcome: "failed",
			want:     "tool_failed/incomplete_input@tool_execution no_retry (not_transient)",
			requests: []string{"stream_interrupted/connection_reset@tool_input user_confirmed_retry (tool_side_effect)"},
			tools:    []string{"tool_failed/incomplete_input@tool_execution no_retry (not_transient)"},
			missing:  []string{"a"},
		},
		{
			name: "21 output limit", run: run(false, []Request{request(0, 1, all(answers, func(r *Request) { r.Finish = FinishMaxTokens }))}), outcome: "limited",
			want:     "output_limited/max_output_tokens@stream_end no_retry (not_transient)",
			requests: []string{"output_limited/max_output_tokens@stream_end no_retry (not_transient)"},
		},
		{
			name: "21 the same within one tick of the clock", run: run(false, []Request{request(1, 1, all(answers, func(r *Request) { r.Finish = FinishMaxTokens }))}), outcome: "limited",
			want:     "output_limited/max_output_tokens@stream_end no_retry (not_transient)",
			requests: []string{"output_limited/max_output_tokens@stream_end no_retry (not_transient)"},
		},
		{
			name: "a paused answer that was continued", run: run(false, []Request{
				request(0, 1, all(answers, func(r *Request) { r.Finish = FinishPaused })), request(2, 3, answers),
			}), outcome: "succeeded", requests: []string{"output_limited/paused@stream_end no_retry (not_transient)", ""},
		},
		{
			name: "22 the end of the run never came", run: Run{Start: t0, Ended: No, Requests: []Request{request(0, 1, calls("a"))}}, outcome: "incomplete",
			want:     "run_abandoned/missing_end@unknown user_confirmed_retry (tool_state_unknown)",
			requests: []string{""},
		},
		{
			name: "23 the stream was forgotten", run: run(false, []Request{request(0, 1, func(r *Request) {
				r.Ended, r.Phase, r.Abort.Source = semconv.StreamEndAbandoned, semconv.PhaseText, semconv.AbortSourceConsumer
			})}), outcome: "aborted",
			want:     "local_abort/consumer_closed@text no_retry (not_transient)",
			requests: []string{"local_abort/consumer_closed@text no_retry (not_transient)"},
		},
		{
			name: "all is well", run: run(false, []Request{request(0, 1, calls("a")), request(3, 4, all(answers, carries("a")))},
				tool(1, 2, "a", write, ok)), outcome: "succeeded", requests: []string{"", ""}, tools: []string{""},
		},
		{
			name: "a hedge that lost is no failure", run: run(false, []Request{
				request(0, 2, aborted(semconv.AbortSourceApplication)), request(1, 3, answers), request(4, 5, answers),
			}), outcome: "succeeded", requests: []string{"local_abort/application@text no_retry (local_shutdown)", "", ""},
		},
		{
			name: "siblings cancelled after a failure do not hide it", run: run(true, []Request{
				request(0, 2, reset(semconv.PhaseResponseStarted)), request(1, 3, all(aborted(semconv.AbortSourceUnknown), func(r *Request) { r.Text = Counted(0) })),
			}), outcome: "failed", want: "stream_interrupted/connection_reset@response_started safe_auto_retry (no_output)",
			requests: []string{"stream_interrupted/connection_reset@response_started safe_auto_retry (no_output)", "local_abort/unknown@text no_retry (not_transient)"},
		},
		{
			name: "another agent's thread owes nothing to a tool", run: run(false, []Request{
				request(0, 1, calls("a")), request(3, 4, answers),
			}, tool(1, 2, "a", write, ok)), outcome: "succeeded", requests: []string{"", ""},
		},
		{
			name: "an agent that ends on a tool", run: run(false, []Request{request(0, 1, calls("a"))},
				tool(1, 2, "a", write, ok)), outcome: "succeeded", requests: []string{""},
		},
		{
			name: "the run failed before the output was sent", run: run(true, []Request{request(0, 1, calls("a"))},
				tool(1, 2, "a", semconv.ToolEffectIdempotent, ok)), outcome: "failed",
			want:     "tool_output_lost/never_answered@tool_output_delivery safe_auto_retry (idempotent_tools_only)",
			requests: []string{""}, missing: []string{"a"},
		},
		{
			name: "the application failed by itself", run: run(true, []Request{request(0, 1, answers)}), outcome: "failed",
			want: "application_error/run_error@unknown user_confirmed_retry (visible_output)", requests: []string{""}, origin: semconv.OriginApplication,
		},
		{
			name: "a child that never came", run: func() Run {
				r := run(false, []Request{request(0, 1, answers)})
				r.AnnouncedRequests = Counted(2)
				return r
			}(), outcome: "incomplete", want: "run_abandoned/missing_children@unknown user_confirmed_retry (visible_output)", requests: []string{""},
		},
		{
			name: "a failed run, and a child that never came", run: func() Run {
				r := run(true, []Request{request(0, 1, answers)})
				r.AnnouncedRequests, r.ErrorType = Counted(2), "*net.OpError"
				return r
			}(), outcome: "incomplete", want: "run_abandoned/missing_children@unknown user_confirmed_retry (visible_output)", requests: []string{""},
			origin: semconv.OriginUnknown,
		},
		{
			name: "a failed run that announces nothing, and none of its requests is here",
			run:  Run{Start: t0, End: at(9), Ended: Yes, Failed: Yes, ErrorType: "ECONNRESET"}, outcome: "failed",
			want: "unclassified/unknown@unknown user_confirmed_retry (evidence_incomplete)", origin: semconv.OriginUnknown,
		},
		{
			name: "a failed run that announces nothing, whose requests went well",
			run:  Run{Start: t0, End: at(9), Ended: Yes, Failed: Yes, Requests: []Request{request(0, 1, answers)}}, outcome: "failed",
			want: "unclassified/unknown@unknown user_confirmed_retry (visible_output)", requests: []string{""}, origin: semconv.OriginUnknown,
		},
		{
			name: "an output that no request took up, in a run that announces nothing",
			run: Run{
				Start: t0, End: at(9), Ended: Yes, Failed: Yes, Requests: []Request{request(0, 1, calls("a"))},
				Tools: []Tool{tool(1, 2, "a", semconv.ToolEffectIdempotent, ok)},
			}, outcome: "failed",
			want: "unclassified/unknown@unknown user_confirmed_retry (evidence_incomplete)", requests: []string{""}, origin: semconv.OriginUnknown,
		},
		{
			name: "a failed run that made no request", run: run(true, nil), outcome: "failed",
			want: "application_error/run_error@unknown user_confirmed_retry (evidence_incomplete)", origin: semconv.OriginApplication,
		},
		{
			name: "a run of which no request is here, and that says nothing of how it went",
			run:  Run{Start: t0, End: at(9), Ended: Yes}, outcome: "incomplete",
			want: "unclassified/unknown@unknown user_confirmed_retry (evidence_incomplete)", origin: semconv.OriginUnknown,
		},
		{
			name: "the same, with a tool",
			run:  Run{Start: t0, End: at(9), Ended: Yes, Tools: []Tool{tool(1, 2, "a", write, ok)}}, outcome: "incomplete",
			want: "unclassified/unknown@unknown user_confirmed_retry (tool_side_effect)",
		},
		{
			name: "a run of which no request is here, and whose own runs went well",
			run:  Run{Start: t0, End: at(9), Ended: Yes, Within: Yes}, outcome: "succeeded",
		},
		{
			name: "a run of which no request is here, and one of whose own runs did not go well",
			run:  Run{Start: t0, End: at(9), Ended: Yes, Within: No}, outcome: "incomplete",
			want: "unclassified/unknown@unknown user_confirmed_retry (evidence_incomplete)",
		},
		{
			name: "a run that says that it made no request", run: func() Run {
				r := run(false, nil)
				r.Failed = NotObserved
				return r
			}(), outcome: "succeeded",
		},
		{
			name: "a run that says that it went well", run: Run{Start: t0, End: at(9), Ended: Yes, Failed: No}, outcome: "succeeded",
		},
		{
			name: "a tool that refuses the half of an input", run: run(true, []Request{request(0, 1, toolInput(0))},
				tool(1, 2, "a", write, semconv.ToolOutcomeInvalidInput)), outcome: "failed",
			want:     "stream_interrupted/connection_reset@tool_input safe_auto_retry (incomplete_tool_input)",
			requests: []string{"stream_interrupted/connection_reset@tool_input safe_auto_retry (incomplete_tool_input)"},
			tools:    []string{"tool_failed/invalid_input@tool_execution no_retry (not_transient)"},
			origin:   semconv.OriginTransport,
		},
		{
			name: "cut between the end of a call's input and the call", run: run(true, []Request{request(0, 1, inputOnly)}), outcome: "failed",
			want:     "stream_interrupted/connection_reset@tool_call_ready safe_auto_retry (tool_call_not_executed)",
			requests: []string{"stream_interrupted/connection_reset@tool_call_ready safe_auto_retry (tool_call_not_executed)"},
		},
		{
			name: "the same, and whether its tool ran is not observed",
			run:  Run{Start: t0, Requests: []Request{request(0, 1, inputOnly)}}, outcome: "failed",
			want:     "stream_interrupted/connection_reset@tool_call_ready user_confirmed_retry (tool_state_unknown)",
			requests: []string{"stream_interrupted/connection_reset@tool_call_ready user_confirmed_retry (tool_state_unknown)"},
		},
		{
			name: "the same, and its tool ran", run: run(true, []Request{request(0, 1, inputOnly)}, tool(1, 2, "a", write, ok)), outcome: "failed",
			want:     "stream_interrupted/connection_reset@tool_call_ready user_confirmed_retry (tool_side_effect)",
			requests: []string{"stream_interrupted/connection_reset@tool_call_ready user_confirmed_retry (tool_side_effect)"},
			tools:    []string{""}, missing: []string{"a"},
		},
		{
			name: "a producer that says nothing of the end", run: Run{Start: t0, Requests: []Request{{Start: t0, End: at(1)}}}, outcome: "incomplete",
			want: "unclassified/unknown@unknown user_confirmed_retry (tool_state_unknown)", requests: []string{""},
		},
		{
			name: "an agent whose tools are not recorded", run: run(true, []Request{
				request(0, 1, calls("a")), request(2, 3, all(answers, calls("b"), carries("a"))), request(4, 5, all(calls("c"), carries("a", "b"), reset(semconv.PhaseToolCallReady))),
			}), outcome: "failed", want: "stream_interrupted/connection_reset@tool_call_ready user_confirmed_retry (tool_state_unknown)",
			requests: []string{"", "", "stream_interrupted/connection_reset@tool_call_ready user_confirmed_retry (tool_state_unknown)"},
		},
		{
			name: "a provider tool may have acted", run: run(true, []Request{request(0, 1, func(r *Request) {
				reset(semconv.PhaseAwaitingResponse)(r)
				r.Status, r.Events, r.ProviderTools = 0, Counted(0), []string{"web_search", "mcp"}
			})}), outcome: "failed", want: "stream_interrupted/connection_reset@awaiting_response user_confirmed_retry (provider_tool_side_effect)",
			requests: []string{"stream_interrupted/connection_reset@awaiting_response user_confirmed_retry (provider_tool_side_effect)"},
		},
		{
			name: "a protocol violation once, and again", run: run(true, []Request{
				request(0, 1, violation), request(2, 3, violation),
			}), outcome: "failed", want: "protocol_violation/malformed_event@response_started no_retry (not_transient)",
			requests: []string{
				"protocol_violation/malformed_event@response_started safe_auto_retry (no_output)",
				"protocol_violation/malformed_event@response_started no_retry (not_transient)",
			},
		},
		{
			name: "stopped while a tool ran", run: func() Run {
				f := tool(1, 2, "a", write, semconv.ToolOutcomeInterrupted)
				f.Abort.Source = semconv.AbortSourceUser
				r := run(false, []Request{request(0, 1, calls("a"))}, f)
				r.Abort.Source = semconv.AbortSourceUser
				return r
			}(), outcome: "aborted", want: "local_abort/user@tool_execution no_retry (user_abort)", requests: []string{""},
			tools: []string{"local_abort/user@tool_execution no_retry (user_abort)"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Judge(&c.run)
			assert.Equal(t, c.outcome, v.Run.Outcome.String())
			assert.Equal(t, c.want, words(&v.Run))
			assert.Equal(t, c.recovered, v.Run.RecoveredFailures)
			assert.Equal(t, c.missing, v.Run.MissingOutputs)
			if c.origin != semconv.OriginUnset {
				assert.Equal(t, c.origin, v.Run.Origin)
			}
			require.Len(t, v.Requests, len(c.requests))
			for i, want := range c.requests {
				assert.Equal(t, want, words(&v.Requests[i]), "request %d", i+1)
			}
			for i, want := range c.tools {
				assert.Equal(t, want, words(&v.Tools[i]), "tool %d", i+1)
			}
			require.NotEmpty(t, v.Run.Timeline)
		})
	}
}

// inputOnly changes a request to what Anthropic's client records if a stream is cut after
// the input of a call: the application gets the call only with the complete message.
func inputOnly(r *Request) {
	calls("a")(r)
	reset(semconv.PhaseToolCallReady)(r)
	r.ToolCalls, r.Finish = Counted(0), FinishMissing
}

func violation(r *Request) {
	r.Ended, r.Phase = semconv.StreamEndConsumerClosed, semconv.PhaseResponseStarted
	r.Transport.Cause = semconv.TransportCauseMalformedEvent
}

func TestSummaryOfTheFirstIncident(t *testing.T) {
	r := run(true, []Request{request(0, 1, func(r *Request) {
		reset(semconv.PhaseToolInput)(r)
		r.ToolInputsStarted, r.OpenCallIDs = Counted(1), []string{"a"}
	})})
	v := Judge(&r)
	assert.Equal(t, semconv.SummaryKeyToolNotRun, v.Run.SummaryKey)
	assert.Equal(t, SafeAutoRetry, v.Run.Retry.Safety)
	assert.Equal(t, semconv.ConfidenceHigh, v.Run.Confidence)
	assert.Contains(t, v.Run.Evidence, "llm.transport.cause=connection_reset")
	assert.Empty(t, v.Run.MissingEvidence)
}

// A tool was called with an incomplete input and refused it.
func TestSummaryOfARefusedInput(t *testing.T) {
	half := func(r *Request) {
		reset(semconv.PhaseToolInput)(r)
		r.ToolInputsStarted, r.OpenCallIDs = Counted(1), []string{"a"}
	}
	for _, c := range []struct {
		outcome semconv.ToolOutcome
		before  bool
		class   semconv.Class
		run     semconv.SummaryKey
		safety  semconv.RetrySafety
	}{
		{semconv.ToolOutcomeInvalidInput, false, semconv.ClassStreamInterrupted, semconv.SummaryKeyToolRefused, SafeAutoRetry},
		{semconv.ToolOutcomeRejected, false, semconv.ClassStreamInterrupted, semconv.SummaryKeyToolNotRun, SafeAutoRetry},
		{semconv.ToolOutcomeFailed, true, semconv.ClassToolFailed, semconv.SummaryKeyToolRefused, NoRetry},
	} {
		f := tool(1, 2, "a", semconv.ToolEffectNonIdempotent, c.outcome)
		f.FailedBeforeEffect = c.before
		r := run(true, []Request{request(0, 3, half)}, f)
		v := Judge(&r)
		assert.Equal(t, c.class, v.Run.Class, c.outcome)
		assert.Equal(t, c.run, v.Run.SummaryKey, c.outcome)
		assert.Equal(t, c.safety, v.Run.Retry.Safety, c.outcome)
		assert.Equal(t, semconv.SummaryKeyToolChangedNothing, v.Tools[0].SummaryKey, c.outcome)
		assert.Equal(t, NoRetry, v.Tools[0].Retry.Safety, c.outcome)
	}
}

// A run without any observed part is not reported as failed, and the missing evidence is
// named.
func TestSummaryOfARunThatNothingIsKnownOf(t *testing.T) {
	somethingFailed := failureText(&Diagnosis{Class: semconv.ClassUnclassified}, &risk{})
	r := Run{Start: t0, End: at(9), Ended: Yes}
	v := Judge(&r)
	assert.Equal(t, "unclassified/unknown@unknown user_confirmed_retry (evidence_incomplete)", words(&v.Run))
	assert.NotContains(t, v.Run.Summary, somethingFailed)
	assert.Equal(t, semconv.ConfidenceLow, v.Run.Confidence)
	assert.Contains(t, v.Run.MissingEvidence, "llm.run.requests")

	r.Failed, r.ErrorType = Yes, "ECONNRESET"
	v = Judge(&r)
	assert.Equal(t, "unclassified/unknown@unknown user_confirmed_retry (evidence_incomplete)", words(&v.Run))
	assert.Contains(t, v.Run.Summary, somethingFailed)
	assert.Equal(t, semconv.ConfidenceLow, v.Run.Confidence)
	assert.Contains(t, v.Run.Evidence, "error.type=ECONNRESET")
	assert.Contains(t, v.Run.MissingEvidence, "llm.run.requests")

	r.Failed, r.Requests = NotObserved, []Request{{Start: t0, End: at(1), Failed: Yes}}
	v = Judge(&r)
	assert.Equal(t, semconv.ClassUnclassified, v.Run.Class)
	assert.Contains(t, v.Run.Summary, somethingFailed)
}

// An agent that stopped at a limit of its own, or at a guard, failed: no part that may be missing
// explains it. Any other error of a run whose parts are not counted may be that of a missing part.
func TestRunThatStoppedItself(t *testing.T) {
	called := Request{
		Start: at(1), End: at(2), Ended: semconv.StreamEndTerminalEvent, Basis: Typed,
		Phase: semconv.PhaseStreamEnd, Finish: FinishToolCalls, CallIDs: []string{"a"},
	}
	ran := tool(2, 3, "a", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)
	for errorType, want := range map[string]string{
		"agents.exceptions.MaxTurnsExceeded":   "application_error/run_error@unknown user_confirmed_retry (tool_side_effect)",
		"MaxTurnsExceededError":                "application_error/run_error@unknown user_confirmed_retry (tool_side_effect)",
		"langgraph.errors.GraphRecursionError": "application_error/run_error@unknown user_confirmed_retry (tool_side_effect)",
		"InputGuardrailTripwireTriggered":      "application_error/run_error@unknown user_confirmed_retry (tool_side_effect)",
		"ValueError":                           "unclassified/unknown@unknown user_confirmed_retry (tool_side_effect)",
	} {
		r := Run{Start: t0, End: at(4), Ended: Yes, Failed: Yes, ErrorType: errorType, Requests: []Request{called}, Tools: []Tool{ran}}
		v := Judge(&r)
		assert.Equal(t, want, words(&v.Run), errorType)
		if errorType != "ValueError" {
			assert.Equal(t, semconv.RunOutcomeFailed, v.Run.Outcome, errorType)
		}
		r.Failed = No
		v = Judge(&r)
		assert.NotEqual(t, semconv.RunOutcomeFailed, v.Run.Outcome, "the framework handled %s", errorType)
	}
}

// If the last request asked for tools, the end of the run was not recorded, unless the run
// counts its tools.
func TestRunThatStopsAtItsToolCalls(t *testing.T) {
	wanted := Request{
		Start: at(1), End: at(2), Ended: semconv.StreamEndTerminalEvent, Basis: Typed,
		Phase: semconv.PhaseStreamEnd, Finish: FinishToolCalls,
	}
	v := Judge(&Run{Requests: []Request{wanted}})
	assert.Equal(t, semconv.RunOutcomeIncomplete, v.Run.Outcome)
	assert.Equal(t, semconv.ClassUnclassified, v.Run.Class)

	answered := wanted
	answered.Start, answered.End, answered.Finish = at(3), at(4), FinishStop
	v = Judge(&Run{Requests: []Request{wanted, answered}})
	assert.Equal(t, semconv.RunOutcomeSucceeded, v.Run.Outcome)

	v = Judge(&Run{Requests: []Request{wanted}, AnnouncedTools: Counted(0)}) // open, as the process that runs it sees it
	assert.Equal(t, semconv.RunOutcomeSucceeded, v.Run.Outcome)
}

// Spans of the JavaScript SDK begin on whole milliseconds: a request may seem to begin
// just before the end of the tool that it follows.
func TestRecoveryOverCoarseClocks(t *testing.T) {
	failed := tool(1, 2.0007, "a", semconv.ToolEffectUnknown, semconv.ToolOutcomeFailed)
	for at2, want := range map[float64]semconv.RunOutcome{2: semconv.RunOutcomeRecovered, 1.999: semconv.RunOutcomeFailed} {
		answered := Request{
			Start: at(at2), End: at(3), Ended: semconv.StreamEndTerminalEvent, Basis: Typed, Phase: semconv.PhaseStreamEnd, Finish: FinishStop,
		}
		v := Judge(&Run{Start: t0, End: at(4), Ended: Yes, Requests: []Request{answered}, Tools: []Tool{failed}})
		assert.Equal(t, want, v.Run.Outcome, "%v", at2)
	}
}

// Both failures of one tool call are in the evidence: the tool's own error and the loss of
// its output.
func TestTwoFailuresOfOneCallAreBothInEvidence(t *testing.T) {
	f := tool(1, 2, "a", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeFailed)
	f.Delivery, f.DeliveryError, f.ErrorType = semconv.OutputDeliveryFailed, "*net.OpError", "*fs.PathError"
	r := run(true, []Request{request(0, 1, calls("a"))}, f)
	v := Judge(&r)
	assert.Subset(t, v.Run.Evidence, []string{
		"llm.tool.outcome=failed", "error.type=*fs.PathError", "llm.tool.output_delivery=failed", "llm.tool.output_error=*net.OpError",
	})
}

// Low confidence never yields an automatic retry, and the diagnosis names what would have
// raised it.
func TestLowConfidenceIsCautious(t *testing.T) {
	r := request(0, 1, reset(semconv.PhaseResponseStarted))
	r.Basis = Inferred
	v := Judge(&Run{Start: t0, Requests: []Request{r}})
	assert.Equal(t, "stream_interrupted/connection_reset@response_started user_confirmed_retry (evidence_incomplete)", words(&v.Run))
	assert.Equal(t, semconv.ConfidenceLow, v.Run.Confidence)
}

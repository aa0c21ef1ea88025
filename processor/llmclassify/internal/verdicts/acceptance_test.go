// Package verdicts has tests with traces made by hand, and the verdicts on them.
package verdicts

import (
	"testing"

	"github.com/stretchr/testify/require"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

// acceptance are whole traces and what their spans say when they come out. Names
// begin with the number of the acceptance case.
func acceptance() []struct {
	name  string
	spans []harness.Span
	want  map[byte]harness.Verdict // by span; a span that is not named says nothing
} {
	type wants = map[byte]harness.Verdict
	interrupted := func(phase semconv.Phase, cause semconv.Cause) harness.Verdict {
		return harness.Failure(semconv.ClassStreamInterrupted, cause, phase, semconv.OriginTransport)
	}
	reset := interrupted(semconv.PhaseToolInput, semconv.CauseConnectionReset)
	unconnected := func(cause semconv.Cause) harness.Verdict {
		return harness.Failure(semconv.ClassConnectionFailed, cause, semconv.PhaseBeforeConnection, semconv.OriginTransport)
	}
	provider := func(cause semconv.Cause, phase semconv.Phase) harness.Verdict {
		return harness.Failure(semconv.ClassProviderError, cause, phase, semconv.OriginProvider)
	}
	limited := func(cause semconv.Cause) harness.Verdict {
		return harness.Failure(semconv.ClassOutputLimited, cause, semconv.PhaseStreamEnd, semconv.OriginProvider).
			Because(harness.Never, semconv.RetryReasonNotTransient)
	}
	toolFailed := func(cause semconv.Cause) harness.Verdict {
		return harness.Failure(semconv.ClassToolFailed, cause, semconv.PhaseToolExecution, semconv.OriginTool)
	}
	call := harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"call_1"}}
	answer := harness.Counts{Text: 3}
	failedTool := harness.ToolSpan(3, 1.5, 2, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeFailed).Failed("*fs.PathError")

	one := func(r harness.Span) []harness.Span {
		return []harness.Span{r, harness.RunSpan(1, 0, 3, 1, 0).Failed("*errors.errorString")}
	}
	both := func(v harness.Verdict, o semconv.RunOutcome) wants { return wants{2: v, 1: v.On(o)} }

	return []struct {
		name  string
		spans []harness.Span
		want  map[byte]harness.Verdict
	}{
		{
			name: "01_reset_in_tool_input_after_text",
			spans: append(one(harness.RequestSpan(2, 1, 0.1, 2).Cut(semconv.PhaseToolInput, semconv.TransportCauseConnectionReset, "ECONNRESET",
				harness.Counts{Text: 3, Inputs: 1, OpenIDs: []string{"call_1"}})), harness.OtherSpan(9, 1, 0.1, 0.2), harness.HTTPSpan(8, 2)),
			want: both(reset.Because(harness.Confirm, semconv.RetryReasonVisibleOutput), semconv.RunOutcomeFailed),
		},
		{
			name: "02_reset_in_tool_input",
			spans: one(harness.RequestSpan(2, 1, 0.1, 2).Cut(semconv.PhaseToolInput, semconv.TransportCauseConnectionReset, "ECONNRESET",
				harness.Counts{Inputs: 1, OpenIDs: []string{"call_1"}})),
			want: both(reset.Because(harness.Safe, semconv.RetryReasonIncompleteToolInput), semconv.RunOutcomeFailed),
		},
		{
			name:  "03_connection_refused",
			spans: one(harness.RequestSpan(2, 1, 0.1, 0.2).Unconnected(semconv.TransportStageConnect, semconv.TransportCauseConnectRefused, "ECONNREFUSED")),
			want:  both(unconnected(semconv.CauseConnectRefused).Because(harness.Safe, semconv.RetryReasonNothingLeftClient), semconv.RunOutcomeFailed),
		},
		{
			name:  "03_unknown_host",
			spans: one(harness.RequestSpan(2, 1, 0.1, 0.2).Unconnected(semconv.TransportStageDNS, semconv.TransportCauseDNSNotFound, "ENOTFOUND")),
			want:  both(unconnected(semconv.CauseDNSNotFound).Because(harness.Never, semconv.RetryReasonNotTransient), semconv.RunOutcomeFailed),
		},
		{
			name:  "04_body_truncated_after_headers",
			spans: one(harness.RequestSpan(2, 1, 0.1, 2).Cut(semconv.PhaseResponseStarted, semconv.TransportCauseBodyTruncated, "", harness.Counts{})),
			want:  both(interrupted(semconv.PhaseResponseStarted, semconv.CauseBodyTruncated).Because(harness.Safe, semconv.RetryReasonNoOutput), semconv.RunOutcomeFailed),
		},
		{
			name: "05_clean_eof_after_text",
			spans: one(harness.RequestSpan(2, 1, 0.1, 2).Streamed(semconv.PhaseText, semconv.StreamEndEOF, answer).Failed("io.ErrUnexpectedEOF").With(
				otelsemconv.GenAIResponseFinishReasons("error"),
				semconv.TransportCauseKey.String(semconv.TransportCauseCleanEOF.String()),
			)),
			want: both(interrupted(semconv.PhaseText, semconv.CauseCleanEOF).Because(harness.Confirm, semconv.RetryReasonVisibleOutput), semconv.RunOutcomeFailed),
		},
		{
			name: "06_reset_in_reasoning",
			spans: one(harness.RequestSpan(2, 1, 0.1, 2).Cut(semconv.PhaseReasoning, semconv.TransportCauseConnectionReset, "ECONNRESET",
				harness.Counts{Reasoning: 4})),
			want: both(interrupted(semconv.PhaseReasoning, semconv.CauseConnectionReset).Because(harness.Safe, semconv.RetryReasonReasoningOnly), semconv.RunOutcomeFailed),
		},
		{
			name:  "07_call_ready_tool_never_started",
			spans: one(harness.RequestSpan(2, 1, 0.1, 2).Cut(semconv.PhaseToolCallReady, semconv.TransportCauseConnectionReset, "ECONNRESET", call)),
			want:  both(interrupted(semconv.PhaseToolCallReady, semconv.CauseConnectionReset).Because(harness.Safe, semconv.RetryReasonToolCallNotExecuted), semconv.RunOutcomeFailed),
		},
		{
			// Anthropic hands a call over with the end of the message: its input is complete before.
			name: "07_input_complete_call_not_handed_over",
			spans: one(harness.RequestSpan(2, 1, 0.1, 2).Cut(semconv.PhaseToolCallReady, semconv.TransportCauseConnectionReset, "ECONNRESET",
				harness.Counts{Inputs: 1, Completed: 1, CallIDs: []string{"call_1"}})),
			want: both(interrupted(semconv.PhaseToolCallReady, semconv.CauseConnectionReset).Because(harness.Safe, semconv.RetryReasonToolCallNotExecuted), semconv.RunOutcomeFailed),
		},
		{
			name: "07_input_complete_and_its_tool_ran",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 2).Cut(semconv.PhaseToolCallReady, semconv.TransportCauseConnectionReset, "ECONNRESET",
					harness.Counts{Inputs: 1, Completed: 1, CallIDs: []string{"call_1"}}),
				harness.ToolSpan(3, 1.5, 1.9, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded),
				harness.RunSpan(1, 0, 3, 1, 1).Failed("*errors.errorString"),
			},
			want: wants{
				2: interrupted(semconv.PhaseToolCallReady, semconv.CauseConnectionReset).Because(harness.Confirm, semconv.RetryReasonToolSideEffect),
				1: interrupted(semconv.PhaseToolCallReady, semconv.CauseConnectionReset).Because(harness.Confirm, semconv.RetryReasonToolSideEffect).On(semconv.RunOutcomeFailed).Lacking("call_1"),
			},
		},
		{
			name: "08_cut_after_side_effect_history_whole",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 1).Answered("tool_calls", call),
				harness.ToolSpan(3, 1.1, 1.9, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded),
				harness.RequestSpan(4, 1, 2, 2.5).History([]string{"call_1"}, []string{"call_1"}).
					Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{}),
				harness.RunSpan(1, 0, 3, 2, 1).Failed("*errors.errorString"),
			},
			want: wants{
				4: interrupted(semconv.PhaseResponseStarted, semconv.CauseConnectionReset).Because(harness.Safe, semconv.RetryReasonNoOutput),
				1: interrupted(semconv.PhaseResponseStarted, semconv.CauseConnectionReset).Because(harness.Confirm, semconv.RetryReasonToolSideEffect).On(semconv.RunOutcomeFailed),
			},
		},
		{
			name: "09_retry_lacks_output",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 1).Answered("tool_calls", call),
				harness.ToolSpan(3, 1.1, 1.9, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded),
				harness.RequestSpan(4, 1, 2, 2.5).History([]string{"call_1"}, []string{"call_1"}).
					Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{}),
				harness.RequestSpan(5, 1, 2.6, 2.9).With(semconv.RequestAttempt(2)).History(nil, nil).Answered("stop", answer),
				harness.RunSpan(1, 0, 3, 3, 1),
			},
			want: wants{
				4: interrupted(semconv.PhaseResponseStarted, semconv.CauseConnectionReset).Because(harness.Safe, semconv.RetryReasonNoOutput),
				1: func() harness.Verdict {
					v := harness.Failure(semconv.ClassToolOutputLost, semconv.CauseOmittedFromRetry, semconv.PhaseToolOutputDelivery, semconv.OriginApplication).
						Because(harness.Confirm, semconv.RetryReasonToolSideEffect).On(semconv.RunOutcomeFailed)
					v.Missing = []string{"call_1"}
					return v
				}(),
			},
		},
		{
			name: "10_user_stops_in_text",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 2).Streamed(semconv.PhaseText, semconv.StreamEndCancelled, answer).With(
					semconv.AbortSourceKey.String(semconv.AbortSourceUser.String()), semconv.AbortReason("stop_button"),
				),
				harness.RunSpan(1, 0, 3, 1, 0).With(semconv.AbortSourceKey.String(semconv.AbortSourceUser.String()), semconv.AbortReason("stop_button")),
			},
			want: both(harness.Failure(semconv.ClassLocalAbort, semconv.CauseUser, semconv.PhaseText, semconv.OriginLocal).
				Because(harness.Never, semconv.RetryReasonUserAbort), semconv.RunOutcomeAborted),
		},
		{
			name: "11_shutdown",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 2).Streamed(semconv.PhaseText, semconv.StreamEndCancelled, answer).With(
					semconv.AbortSourceKey.String(semconv.AbortSourceShutdown.String()),
				),
				harness.RunSpan(1, 0, 3, 1, 0).With(semconv.AbortSourceKey.String(semconv.AbortSourceShutdown.String())),
			},
			want: both(harness.Failure(semconv.ClassLocalAbort, semconv.CauseShutdown, semconv.PhaseText, semconv.OriginLocal).
				Because(harness.Never, semconv.RetryReasonLocalShutdown), semconv.RunOutcomeAborted),
		},
		{
			name: "11_deadline",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 2).Streamed(semconv.PhaseResponseStarted, semconv.StreamEndCancelled, harness.Counts{}).Failed("context.deadlineExceededError").With(
					semconv.AbortSourceKey.String(semconv.AbortSourceDeadline.String()),
				),
				harness.RunSpan(1, 0, 3, 1, 0).Failed("context.deadlineExceededError"),
			},
			want: both(harness.Failure(semconv.ClassLocalAbort, semconv.CauseDeadline, semconv.PhaseResponseStarted, semconv.OriginLocal).
				Because(harness.Confirm, semconv.RetryReasonDeadline), semconv.RunOutcomeAborted),
		},
		{
			name: "13_rate_limited_then_success",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 0.4).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded").With(semconv.RetryAfter(1.5)),
				harness.RequestSpan(3, 1, 1.9, 2.8).With(semconv.RequestAttempt(2)).Answered("stop", answer),
				harness.RunSpan(1, 0, 3, 2, 0),
			},
			want: wants{
				2: provider(semconv.CauseRateLimited, semconv.PhaseResponseStarted).Because(harness.Safe, semconv.RetryReasonNoOutput),
				1: harness.Ran(semconv.RunOutcomeRecovered, 1),
			},
		},
		{
			name:  "14_quota_exhausted",
			spans: one(harness.RequestSpan(2, 1, 0.1, 0.4).Refused(429, semconv.ProviderErrorKindQuotaExhausted, "insufficient_quota")),
			want:  both(provider(semconv.CauseQuotaExhausted, semconv.PhaseResponseStarted).Because(harness.Never, semconv.RetryReasonNotTransient), semconv.RunOutcomeFailed),
		},
		{
			name:  "14_authentication",
			spans: one(harness.RequestSpan(2, 1, 0.1, 0.4).Refused(401, semconv.ProviderErrorKindAuthentication, "invalid_api_key")),
			want:  both(provider(semconv.CauseAuthentication, semconv.PhaseResponseStarted).Because(harness.Never, semconv.RetryReasonNotTransient), semconv.RunOutcomeFailed),
		},
		{
			name:  "14_context_length",
			spans: one(harness.RequestSpan(2, 1, 0.1, 0.4).Refused(400, semconv.ProviderErrorKindContextLengthExceeded, "context_length_exceeded")),
			want:  both(provider(semconv.CauseContextLengthExceeded, semconv.PhaseResponseStarted).Because(harness.Never, semconv.RetryReasonNotTransient), semconv.RunOutcomeFailed),
		},
		{
			name: "15_overloaded_in_band_after_text",
			spans: one(harness.RequestSpan(2, 1, 0.1, 2).Streamed(semconv.PhaseText, semconv.StreamEndTerminalEvent, answer).Failed("overloaded_error").With(
				otelsemconv.GenAIResponseFinishReasons("error"),
				semconv.ProviderErrorKindKey.String(semconv.ProviderErrorKindOverloaded.String()),
				semconv.ProviderErrorCode("overloaded_error"), semconv.ProviderErrorInBand(true),
			)),
			want: both(provider(semconv.CauseOverloaded, semconv.PhaseText).Because(harness.Confirm, semconv.RetryReasonVisibleOutput), semconv.RunOutcomeFailed),
		},
		{
			name: "16_tool_fails_model_answers",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 1).Answered("tool_calls", call), failedTool,
				harness.RequestSpan(4, 1, 2, 2.5).History([]string{"call_1"}, []string{"call_1"}).Answered("stop", answer),
				harness.RunSpan(1, 0, 3, 2, 1),
			},
			want: wants{
				3: toolFailed(semconv.CauseExecutionError).Because(harness.Safe, semconv.RetryReasonReadOnlyToolsOnly),
				1: harness.Ran(semconv.RunOutcomeRecovered, 1),
			},
		},
		{
			name: "17_tool_fails_run_ends",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 1).Answered("tool_calls", call), failedTool,
				harness.RunSpan(1, 0, 3, 1, 1).Failed("*fs.PathError"),
			},
			want: wants{
				3: toolFailed(semconv.CauseExecutionError).Because(harness.Safe, semconv.RetryReasonReadOnlyToolsOnly),
				1: toolFailed(semconv.CauseExecutionError).Because(harness.Safe, semconv.RetryReasonReadOnlyToolsOnly).On(semconv.RunOutcomeFailed).Lacking("call_1"),
			},
		},
		{
			name: "18_tool_fails_and_output_is_lost",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 1).Answered("tool_calls", call),
				failedTool.With(
					semconv.ToolOutputDeliveryKey.String(semconv.OutputDeliveryFailed.String()), semconv.ToolOutputError("*net.OpError"),
				),
				harness.RunSpan(1, 0, 3, 1, 1).Failed("*net.OpError"),
			},
			want: wants{
				3: toolFailed(semconv.CauseExecutionError).Because(harness.Safe, semconv.RetryReasonReadOnlyToolsOnly),
				1: func() harness.Verdict {
					v := harness.Failure(semconv.ClassToolOutputLost, semconv.CauseDeliveryFailed, semconv.PhaseToolOutputDelivery, semconv.OriginApplication).
						Because(harness.Safe, semconv.RetryReasonReadOnlyToolsOnly).On(semconv.RunOutcomeFailed)
					v.Missing = []string{"call_1"}
					return v
				}(),
			},
		},
		{
			name: "19_gateway_swallows_error",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 2).Answered("stop", harness.Counts{}),
				harness.HTTPSpan(5, 2),
				harness.GenAISpan(6, 5, otelsemconv.GenAIOperationNameChat, 0.3, 1.5, otelsemconv.HTTPResponseStatusCode(503)).Failed("503").In(harness.GatewayService),
				harness.RunSpan(1, 0, 3, 1, 0),
			},
			want: wants{
				2: harness.Failure(semconv.ClassEmptyCompletion, semconv.CauseSwallowedError, semconv.PhaseStreamEnd, semconv.OriginGateway).
					Because(harness.Safe, semconv.RetryReasonNoOutput),
				6: {
					Class: semconv.ClassProviderError, Cause: semconv.CauseOverloaded, Phase: semconv.PhaseResponseStarted,
					Origin: semconv.OriginProvider, Confidence: semconv.ConfidenceMedium,
					Safety: harness.Confirm, Reason: semconv.RetryReasonEvidenceIncomplete, Trigger: semconv.TriggerComplete,
				},
				1: harness.Failure(semconv.ClassEmptyCompletion, semconv.CauseSwallowedError, semconv.PhaseStreamEnd, semconv.OriginGateway).
					Because(harness.Safe, semconv.RetryReasonNoOutput).On(semconv.RunOutcomeFailed),
			},
		},
		{
			name: "20_tool_ran_on_incomplete_input",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 1).Cut(semconv.PhaseToolInput, semconv.TransportCauseConnectionReset, "ECONNRESET",
					harness.Counts{Inputs: 1, OpenIDs: []string{"call_1"}}),
				harness.ToolSpan(3, 1.1, 1.9, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded),
				harness.RunSpan(1, 0, 3, 1, 1).Failed("*errors.errorString"),
			},
			want: wants{
				2: reset.Because(harness.Confirm, semconv.RetryReasonToolSideEffect),
				3: toolFailed(semconv.CauseIncompleteInput).Because(harness.Never, semconv.RetryReasonNotTransient),
				1: toolFailed(semconv.CauseIncompleteInput).Because(harness.Never, semconv.RetryReasonNotTransient).On(semconv.RunOutcomeFailed).Lacking("call_1"),
			},
		},
		{
			name: "20_tool_refuses_half_an_input",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 1).Cut(semconv.PhaseToolInput, semconv.TransportCauseConnectionReset, "ECONNRESET",
					harness.Counts{Inputs: 1, OpenIDs: []string{"call_1"}}),
				harness.ToolSpan(3, 1.1, 1.2, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeInvalidInput).Failed("*json.SyntaxError"),
				harness.RunSpan(1, 0, 3, 1, 1).Failed("*net.OpError"),
			},
			want: wants{
				2: reset.Because(harness.Safe, semconv.RetryReasonIncompleteToolInput),
				3: toolFailed(semconv.CauseInvalidInput).Because(harness.Never, semconv.RetryReasonNotTransient),
				1: reset.Because(harness.Safe, semconv.RetryReasonIncompleteToolInput).On(semconv.RunOutcomeFailed),
			},
		},
		{
			name:  "21_max_tokens",
			spans: []harness.Span{harness.RequestSpan(2, 1, 0.1, 2).Answered("length", answer), harness.RunSpan(1, 0, 3, 1, 0)},
			want:  both(limited(semconv.CauseMaxOutputTokens), semconv.RunOutcomeLimited),
		},
		{
			name:  "21_refusal",
			spans: []harness.Span{harness.RequestSpan(2, 1, 0.1, 2).Answered("refusal", answer), harness.RunSpan(1, 0, 3, 1, 0)},
			want:  both(limited(semconv.CauseRefusal), semconv.RunOutcomeLimited),
		},
		{
			name:  "21_content_filter",
			spans: []harness.Span{harness.RequestSpan(2, 1, 0.1, 2).Answered("content_filter", answer), harness.RunSpan(1, 0, 3, 1, 0)},
			want:  both(limited(semconv.CauseContentFilter), semconv.RunOutcomeLimited),
		},
		{
			name:  "success",
			spans: []harness.Span{harness.RequestSpan(2, 1, 0.1, 2).Answered("stop", answer), harness.RunSpan(1, 0, 3, 1, 0), harness.OtherSpan(9, 2, 0.1, 0.2)},
			want:  wants{1: harness.Ran(semconv.RunOutcomeSucceeded, 0)},
		},
	}
}

func TestAcceptance(t *testing.T) {
	for _, tt := range acceptance() {
		t.Run(tt.name, func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			h.Consume(t, tt.spans...)
			out := h.Out()
			require.Equal(t, len(tt.spans), out.SpanCount(), "a run that is complete goes out in the call that completes it")
			harness.CheckVerdicts(t, out, tt.want)
			harness.CheckGolden(t, tt.name, harness.TracesOf(t, tt.spans...), out)
		})
		t.Run(tt.name+" span by span", func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			for _, spec := range tt.spans {
				h.Consume(t, spec)
			}
			out := h.Out()
			require.Equal(t, len(tt.spans), out.SpanCount(), "a run that is complete goes out in the call that completes it")
			harness.CheckVerdicts(t, out, tt.want)
			harness.CheckGolden(t, tt.name, harness.TracesOf(t, tt.spans...), out)
		})
	}
}

package recorded

import (
	"testing"

	"github.com/stretchr/testify/require"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

// TestGenAI judges whole traces of the GenAI conventions. Their run spans
// announce nothing, so that they settle first. What such spans never record, the
// history above all, makes no failure of theirs safe to retry unasked.
func TestGenAI(t *testing.T) {
	type wants = map[byte]harness.Verdict
	settled := func(v harness.Verdict) harness.Verdict { v.Trigger = semconv.TriggerRunEnded; return v }
	medium := func(v harness.Verdict) harness.Verdict { v.Confidence = semconv.ConfidenceMedium; return settled(v) }
	low := func(v harness.Verdict) harness.Verdict { v.Confidence = semconv.ConfidenceLow; return settled(v) }
	incomplete := harness.Verdict{}.Because(harness.Confirm, semconv.RetryReasonEvidenceIncomplete)
	toolUnknown := harness.Verdict{}.Because(harness.Confirm, semconv.RetryReasonToolStateUnknown)

	broke := medium(harness.Failure(semconv.ClassStreamInterrupted, semconv.CauseUnknown, semconv.PhaseUnknown, semconv.OriginTransport)).
		Because(toolUnknown.Safety, toolUnknown.Reason)
	cut := low(harness.Failure(semconv.ClassStreamInterrupted, semconv.CauseCleanEOF, semconv.PhaseUnknown, semconv.OriginTransport)).
		Because(toolUnknown.Safety, toolUnknown.Reason)
	limited := medium(harness.Failure(semconv.ClassOutputLimited, semconv.CauseMaxOutputTokens, semconv.PhaseStreamEnd, semconv.OriginProvider)).
		Because(harness.Never, semconv.RetryReasonNotTransient)
	unclassified := low(harness.Failure(semconv.ClassUnclassified, semconv.CauseUnknown, semconv.PhaseUnknown, semconv.OriginUnknown)).
		Because(toolUnknown.Safety, toolUnknown.Reason)
	overloaded := medium(harness.Failure(semconv.ClassProviderError, semconv.CauseOverloaded, semconv.PhaseResponseStarted, semconv.OriginProvider)).
		Because(incomplete.Safety, incomplete.Reason)
	toolFailed := settled(harness.Failure(semconv.ClassToolFailed, semconv.CauseExecutionError, semconv.PhaseToolExecution, semconv.OriginTool)).
		Because(toolUnknown.Safety, toolUnknown.Reason)

	for _, tt := range []struct {
		name  string
		spans []harness.Span
		want  wants
	}{
		{
			name: "genai_rate_limited_then_success",
			spans: []harness.Span{
				harness.ChatSpan(2, 1, 0.1, 0.4).Failed("openai.RateLimitError").With(otelsemconv.HTTPResponseStatusCode(429)),
				harness.ChatSpan(3, 1, 0.9, 2).Finished("stop"),
				harness.AgentSpan(1, 0, 0, 3),
			},
			want: wants{
				2: medium(harness.Failure(semconv.ClassProviderError, semconv.CauseRateLimited, semconv.PhaseResponseStarted, semconv.OriginProvider)).
					Because(incomplete.Safety, incomplete.Reason),
				1: settled(harness.Ran(semconv.RunOutcomeRecovered, 1)),
			},
		},
		{
			name:  "genai_connection_error",
			spans: []harness.Span{harness.ChatSpan(2, 1, 0.1, 2).Streaming().Failed("APIConnectionError"), harness.AgentSpan(1, 0, 0, 3).Failed("APIConnectionError")},
			want:  wants{2: unclassified, 1: unclassified.On(semconv.RunOutcomeFailed)},
		},
		{
			name: "genai_connection_error_after_a_response",
			spans: []harness.Span{
				harness.ChatSpan(2, 1, 0.1, 2).Streaming().Failed("APIConnectionError").With(otelsemconv.GenAIResponseID("msg_1")),
				harness.AgentSpan(1, 0, 0, 3).Failed("APIConnectionError"),
			},
			want: wants{2: broke, 1: broke.On(semconv.RunOutcomeFailed)},
		},
		{
			name: "genai_exception_event_names_the_error",
			spans: []harness.Span{
				func() harness.Span {
					s := harness.ChatSpan(2, 1, 0.1, 2).Streaming().Failed("")
					s.Exceptions = []string{"Error", "anthropic.OverloadedError"}
					return s.With(otelsemconv.HTTPResponseStatusCode(529))
				}(),
				harness.AgentSpan(1, 0, 0, 3).Failed(""),
			},
			want: wants{2: overloaded, 1: overloaded.On(semconv.RunOutcomeFailed)},
		},
		{
			name:  "genai_stream_without_finish_reason",
			spans: []harness.Span{harness.ChatSpan(2, 1, 0.1, 2).Streaming(), harness.AgentSpan(1, 0, 0, 3)},
			want:  wants{2: cut, 1: cut.On(semconv.RunOutcomeFailed)},
		},
		{
			name:  "genai_finish_reason_error_unset",
			spans: []harness.Span{harness.ChatSpan(2, 1, 0.1, 2).Streaming().Finished("error"), harness.AgentSpan(1, 0, 0, 3)},
			want:  wants{2: unclassified, 1: unclassified.On(semconv.RunOutcomeIncomplete)},
		},
		{
			name:  "genai_error_without_a_name",
			spans: []harness.Span{harness.ChatSpan(2, 1, 0.1, 2).Streaming().Failed(""), harness.AgentSpan(1, 0, 0, 3)},
			want:  wants{2: unclassified, 1: unclassified.On(semconv.RunOutcomeIncomplete)},
		},
		{
			name:  "genai_max_tokens",
			spans: []harness.Span{harness.ChatSpan(2, 1, 0.1, 2).Finished("max_tokens"), harness.AgentSpan(1, 0, 0, 3)},
			want:  wants{2: limited, 1: limited.On(semconv.RunOutcomeLimited)},
		},
		{
			name: "genai_tool_fails_model_answers",
			spans: []harness.Span{
				harness.ChatSpan(2, 1, 0.1, 1).Finished("tool_use"),
				harness.CallSpan(3, 1, 1.1, 1.2, "call_1").Failed("ValueError"),
				harness.ChatSpan(4, 1, 1.3, 2).Finished("end_turn"),
				harness.AgentSpan(1, 0, 0, 3),
			},
			want: wants{3: toolFailed, 1: settled(harness.Ran(semconv.RunOutcomeRecovered, 1))},
		},
		{
			name: "genai_mcp_call_beneath_its_tool",
			spans: []harness.Span{
				harness.ChatSpan(2, 1, 0.1, 1).Finished("tool_use"),
				harness.CallSpan(3, 1, 1.1, 1.2, "call_1"),
				harness.GenAISpan(5, 3, otelsemconv.McpMethodNameToolsCall, 1.11, 1.19).Failed("tool_error"),
				harness.ChatSpan(4, 1, 1.3, 2).Finished("end_turn"),
				harness.AgentSpan(1, 0, 0, 3),
			},
			want: wants{5: toolFailed, 1: settled(harness.Ran(semconv.RunOutcomeSucceeded, 0))},
		},
		{
			name:  "genai_nothing_known_of_the_last_request",
			spans: []harness.Span{harness.ChatSpan(2, 1, 0.1, 2), harness.AgentSpan(1, 0, 0, 3)},
			want: wants{1: low(harness.Failure(semconv.ClassUnclassified, semconv.CauseUnknown, semconv.PhaseUnknown, semconv.OriginUnknown)).
				Because(toolUnknown.Safety, toolUnknown.Reason).On(semconv.RunOutcomeIncomplete)},
		},
		{
			name:  "genai_failed_run_without_its_requests",
			spans: []harness.Span{harness.AgentSpan(1, 0, 0, 3).Failed("ECONNRESET")},
			want: wants{1: low(harness.Failure(semconv.ClassUnclassified, semconv.CauseUnknown, semconv.PhaseUnknown, semconv.OriginUnknown)).
				Because(incomplete.Safety, incomplete.Reason).On(semconv.RunOutcomeFailed)},
		},
		{
			name:  "genai_run_without_its_requests",
			spans: []harness.Span{harness.AgentSpan(1, 0, 0, 3)},
			want: wants{1: low(harness.Failure(semconv.ClassUnclassified, semconv.CauseUnknown, semconv.PhaseUnknown, semconv.OriginUnknown)).
				Because(incomplete.Safety, incomplete.Reason).On(semconv.RunOutcomeIncomplete)},
		},
		{
			name: "genai_failed_run_whose_last_request_is_missing",
			spans: []harness.Span{
				harness.ChatSpan(2, 1, 0.1, 1).Finished("tool_use"), harness.CallSpan(3, 1, 1.1, 1.2, "call_1"),
				harness.AgentSpan(1, 0, 0, 3).Failed("httpx.RemoteProtocolError"),
			},
			want: wants{1: low(harness.Failure(semconv.ClassUnclassified, semconv.CauseUnknown, semconv.PhaseUnknown, semconv.OriginUnknown)).
				Because(toolUnknown.Safety, toolUnknown.Reason).On(semconv.RunOutcomeFailed)},
		},
		{
			name: "genai_call_over_our_attempts",
			spans: []harness.Span{
				harness.ChatSpan(2, 1, 0.1, 2).Streaming().Failed("APIConnectionError"),
				harness.RequestSpan(3, 0, 0.1, 0.4).Refused(529, semconv.ProviderErrorKindOverloaded, "overloaded_error").Under(2),
				harness.RequestSpan(4, 0, 0.9, 1.9).With(semconv.RequestAttempt(2)).Cut(semconv.PhaseReasoning, semconv.TransportCauseConnectionReset, "ECONNRESET",
					harness.Counts{Reasoning: 2}).Under(2),
				harness.AgentSpan(1, 0, 0, 3).Failed("APIConnectionError"),
			},
			want: func() wants {
				reset := settled(harness.Failure(semconv.ClassStreamInterrupted, semconv.CauseConnectionReset, semconv.PhaseReasoning, semconv.OriginTransport)).
					Because(harness.Safe, semconv.RetryReasonReasoningOnly)
				return wants{
					3: settled(harness.Failure(semconv.ClassProviderError, semconv.CauseOverloaded, semconv.PhaseResponseStarted, semconv.OriginProvider)).
						Because(harness.Safe, semconv.RetryReasonNoOutput),
					4: reset, 2: reset, 1: reset.On(semconv.RunOutcomeFailed),
				}
			}(),
		},
		{
			name: "genai_runs_within_a_run",
			spans: []harness.Span{
				harness.ChatSpan(2, 1, 0.1, 1).Finished("tool_use"),
				harness.CallSpan(3, 1, 1.1, 2.5, "call_1"),
				harness.AgentSpan(10, 3, 1.2, 2.4),
				harness.ChatSpan(11, 10, 1.3, 1.4).Failed("InternalServerError").With(otelsemconv.HTTPResponseStatusCode(500)),
				harness.ChatSpan(12, 10, 1.5, 2.3).Finished("end_turn"),
				harness.ChatSpan(4, 1, 2.6, 2.9).Finished("end_turn"),
				harness.AgentSpan(1, 0, 0, 3),
			},
			want: wants{
				11: medium(harness.Failure(semconv.ClassProviderError, semconv.CauseServerError, semconv.PhaseResponseStarted, semconv.OriginProvider)).
					Because(incomplete.Safety, incomplete.Reason),
				10: settled(harness.Ran(semconv.RunOutcomeRecovered, 1)),
				1:  settled(harness.Ran(semconv.RunOutcomeSucceeded, 0)),
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			h.Consume(t, tt.spans...)
			require.Empty(t, h.Sink.AllTraces(), "the run announces nothing: more may come")
			h.Pass(t, harness.Settle)
			out := h.Out()
			require.Equal(t, len(tt.spans), out.SpanCount())
			harness.CheckVerdicts(t, out, tt.want)
			harness.CheckGolden(t, tt.name, harness.TracesOf(t, tt.spans...), out)
		})
	}
}

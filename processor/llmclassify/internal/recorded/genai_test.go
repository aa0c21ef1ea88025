package llmclassify

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// chatSpan is a model call as an instrumentation of the GenAI conventions records it.
func chatSpan(id, parent byte, from, to float64) spanSpec {
	return genAISpan(id, parent, otelsemconv.GenAIOperationNameChat, from, to,
		otelsemconv.GenAIProviderNameAnthropic, otelsemconv.GenAIRequestModel("claude-test"))
}

func (s spanSpec) streaming() spanSpec { return s.with(otelsemconv.GenAIRequestStream(true)) }

func (s spanSpec) finished(reason string) spanSpec {
	return s.with(otelsemconv.GenAIResponseFinishReasons(reason))
}

func agentSpan(id, parent byte, from, to float64) spanSpec {
	s := genAISpan(id, parent, otelsemconv.GenAIOperationNameInvokeAgent, from, to, otelsemconv.GenAIAgentName("coder"))
	s.kind = ptrace.SpanKindInternal
	return s
}

func callSpan(id, parent byte, from, to float64, call string) spanSpec {
	s := genAISpan(id, parent, otelsemconv.GenAIOperationNameExecuteTool, from, to,
		otelsemconv.GenAIToolName("apply_patch"), otelsemconv.GenAIToolCallID(call))
	s.kind = ptrace.SpanKindInternal
	return s
}

// TestGenAI judges whole traces of the GenAI conventions. Their run spans
// announce nothing, so that they settle first. What such spans never record, the
// history above all, makes no failure of theirs safe to retry unasked.
func TestGenAI(t *testing.T) {
	type wants = map[byte]verdict
	settled := func(v verdict) verdict { v.trigger = semconv.TriggerRunEnded; return v }
	medium := func(v verdict) verdict { v.confidence = semconv.ConfidenceMedium; return settled(v) }
	low := func(v verdict) verdict { v.confidence = semconv.ConfidenceLow; return settled(v) }
	incomplete := verdict{}.because(confirm, semconv.RetryReasonEvidenceIncomplete)
	toolUnknown := verdict{}.because(confirm, semconv.RetryReasonToolStateUnknown)

	broke := medium(failure(semconv.ClassStreamInterrupted, semconv.CauseUnknown, semconv.PhaseUnknown, semconv.OriginTransport)).
		because(toolUnknown.safety, toolUnknown.reason)
	cut := low(failure(semconv.ClassStreamInterrupted, semconv.CauseCleanEOF, semconv.PhaseUnknown, semconv.OriginTransport)).
		because(toolUnknown.safety, toolUnknown.reason)
	limited := medium(failure(semconv.ClassOutputLimited, semconv.CauseMaxOutputTokens, semconv.PhaseStreamEnd, semconv.OriginProvider)).
		because(never, semconv.RetryReasonNotTransient)
	unclassified := low(failure(semconv.ClassUnclassified, semconv.CauseUnknown, semconv.PhaseUnknown, semconv.OriginUnknown)).
		because(toolUnknown.safety, toolUnknown.reason)
	overloaded := medium(failure(semconv.ClassProviderError, semconv.CauseOverloaded, semconv.PhaseResponseStarted, semconv.OriginProvider)).
		because(incomplete.safety, incomplete.reason)
	toolFailed := settled(failure(semconv.ClassToolFailed, semconv.CauseExecutionError, semconv.PhaseToolExecution, semconv.OriginTool)).
		because(toolUnknown.safety, toolUnknown.reason)

	for _, tt := range []struct {
		name  string
		spans []spanSpec
		want  wants
	}{
		{
			name: "genai_rate_limited_then_success",
			spans: []spanSpec{
				chatSpan(2, 1, 0.1, 0.4).failed("openai.RateLimitError").with(otelsemconv.HTTPResponseStatusCode(429)),
				chatSpan(3, 1, 0.9, 2).finished("stop"),
				agentSpan(1, 0, 0, 3),
			},
			want: wants{
				2: medium(failure(semconv.ClassProviderError, semconv.CauseRateLimited, semconv.PhaseResponseStarted, semconv.OriginProvider)).
					because(incomplete.safety, incomplete.reason),
				1: settled(ran(semconv.RunOutcomeRecovered, 1)),
			},
		},
		{
			name:  "genai_connection_error",
			spans: []spanSpec{chatSpan(2, 1, 0.1, 2).streaming().failed("APIConnectionError"), agentSpan(1, 0, 0, 3).failed("APIConnectionError")},
			want:  wants{2: unclassified, 1: unclassified.on(semconv.RunOutcomeFailed)},
		},
		{
			name: "genai_connection_error_after_a_response",
			spans: []spanSpec{
				chatSpan(2, 1, 0.1, 2).streaming().failed("APIConnectionError").with(otelsemconv.GenAIResponseID("msg_1")),
				agentSpan(1, 0, 0, 3).failed("APIConnectionError"),
			},
			want: wants{2: broke, 1: broke.on(semconv.RunOutcomeFailed)},
		},
		{
			name: "genai_exception_event_names_the_error",
			spans: []spanSpec{
				func() spanSpec {
					s := chatSpan(2, 1, 0.1, 2).streaming().failed("")
					s.exceptions = []string{"Error", "anthropic.OverloadedError"}
					return s.with(otelsemconv.HTTPResponseStatusCode(529))
				}(),
				agentSpan(1, 0, 0, 3).failed(""),
			},
			want: wants{2: overloaded, 1: overloaded.on(semconv.RunOutcomeFailed)},
		},
		{
			name:  "genai_stream_without_finish_reason",
			spans: []spanSpec{chatSpan(2, 1, 0.1, 2).streaming(), agentSpan(1, 0, 0, 3)},
			want:  wants{2: cut, 1: cut.on(semconv.RunOutcomeFailed)},
		},
		{
			name:  "genai_finish_reason_error_unset",
			spans: []spanSpec{chatSpan(2, 1, 0.1, 2).streaming().finished("error"), agentSpan(1, 0, 0, 3)},
			want:  wants{2: unclassified, 1: unclassified.on(semconv.RunOutcomeIncomplete)},
		},
		{
			name:  "genai_error_without_a_name",
			spans: []spanSpec{chatSpan(2, 1, 0.1, 2).streaming().failed(""), agentSpan(1, 0, 0, 3)},
			want:  wants{2: unclassified, 1: unclassified.on(semconv.RunOutcomeIncomplete)},
		},
		{
			name:  "genai_max_tokens",
			spans: []spanSpec{chatSpan(2, 1, 0.1, 2).finished("max_tokens"), agentSpan(1, 0, 0, 3)},
			want:  wants{2: limited, 1: limited.on(semconv.RunOutcomeLimited)},
		},
		{
			name: "genai_tool_fails_model_answers",
			spans: []spanSpec{
				chatSpan(2, 1, 0.1, 1).finished("tool_use"),
				callSpan(3, 1, 1.1, 1.2, "call_1").failed("ValueError"),
				chatSpan(4, 1, 1.3, 2).finished("end_turn"),
				agentSpan(1, 0, 0, 3),
			},
			want: wants{3: toolFailed, 1: settled(ran(semconv.RunOutcomeRecovered, 1))},
		},
		{
			name: "genai_mcp_call_beneath_its_tool",
			spans: []spanSpec{
				chatSpan(2, 1, 0.1, 1).finished("tool_use"),
				callSpan(3, 1, 1.1, 1.2, "call_1"),
				genAISpan(5, 3, otelsemconv.McpMethodNameToolsCall, 1.11, 1.19).failed("tool_error"),
				chatSpan(4, 1, 1.3, 2).finished("end_turn"),
				agentSpan(1, 0, 0, 3),
			},
			want: wants{5: toolFailed, 1: settled(ran(semconv.RunOutcomeSucceeded, 0))},
		},
		{
			name:  "genai_nothing_known_of_the_last_request",
			spans: []spanSpec{chatSpan(2, 1, 0.1, 2), agentSpan(1, 0, 0, 3)},
			want: wants{1: low(failure(semconv.ClassUnclassified, semconv.CauseUnknown, semconv.PhaseUnknown, semconv.OriginUnknown)).
				because(toolUnknown.safety, toolUnknown.reason).on(semconv.RunOutcomeIncomplete)},
		},
		{
			name:  "genai_failed_run_without_its_requests",
			spans: []spanSpec{agentSpan(1, 0, 0, 3).failed("ECONNRESET")},
			want: wants{1: low(failure(semconv.ClassUnclassified, semconv.CauseUnknown, semconv.PhaseUnknown, semconv.OriginUnknown)).
				because(incomplete.safety, incomplete.reason).on(semconv.RunOutcomeFailed)},
		},
		{
			name:  "genai_run_without_its_requests",
			spans: []spanSpec{agentSpan(1, 0, 0, 3)},
			want: wants{1: low(failure(semconv.ClassUnclassified, semconv.CauseUnknown, semconv.PhaseUnknown, semconv.OriginUnknown)).
				because(incomplete.safety, incomplete.reason).on(semconv.RunOutcomeIncomplete)},
		},
		{
			name: "genai_failed_run_whose_last_request_is_missing",
			spans: []spanSpec{
				chatSpan(2, 1, 0.1, 1).finished("tool_use"), callSpan(3, 1, 1.1, 1.2, "call_1"),
				agentSpan(1, 0, 0, 3).failed("httpx.RemoteProtocolError"),
			},
			want: wants{1: low(failure(semconv.ClassUnclassified, semconv.CauseUnknown, semconv.PhaseUnknown, semconv.OriginUnknown)).
				because(toolUnknown.safety, toolUnknown.reason).on(semconv.RunOutcomeFailed)},
		},
		{
			name: "genai_call_over_our_attempts",
			spans: []spanSpec{
				chatSpan(2, 1, 0.1, 2).streaming().failed("APIConnectionError"),
				requestSpan(3, 0, 0.1, 0.4).refused(529, semconv.ProviderErrorKindOverloaded, "overloaded_error").under(2),
				requestSpan(4, 0, 0.9, 1.9).with(semconv.RequestAttempt(2)).cut(semconv.PhaseReasoning, semconv.TransportCauseConnectionReset, "ECONNRESET",
					counts{reasoning: 2}).under(2),
				agentSpan(1, 0, 0, 3).failed("APIConnectionError"),
			},
			want: func() wants {
				reset := settled(failure(semconv.ClassStreamInterrupted, semconv.CauseConnectionReset, semconv.PhaseReasoning, semconv.OriginTransport)).
					because(safe, semconv.RetryReasonReasoningOnly)
				return wants{
					3: settled(failure(semconv.ClassProviderError, semconv.CauseOverloaded, semconv.PhaseResponseStarted, semconv.OriginProvider)).
						because(safe, semconv.RetryReasonNoOutput),
					4: reset, 2: reset, 1: reset.on(semconv.RunOutcomeFailed),
				}
			}(),
		},
		{
			name: "genai_runs_within_a_run",
			spans: []spanSpec{
				chatSpan(2, 1, 0.1, 1).finished("tool_use"),
				callSpan(3, 1, 1.1, 2.5, "call_1"),
				agentSpan(10, 3, 1.2, 2.4),
				chatSpan(11, 10, 1.3, 1.4).failed("InternalServerError").with(otelsemconv.HTTPResponseStatusCode(500)),
				chatSpan(12, 10, 1.5, 2.3).finished("end_turn"),
				chatSpan(4, 1, 2.6, 2.9).finished("end_turn"),
				agentSpan(1, 0, 0, 3),
			},
			want: wants{
				11: medium(failure(semconv.ClassProviderError, semconv.CauseServerError, semconv.PhaseResponseStarted, semconv.OriginProvider)).
					because(incomplete.safety, incomplete.reason),
				10: settled(ran(semconv.RunOutcomeRecovered, 1)),
				1:  settled(ran(semconv.RunOutcomeSucceeded, 0)),
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			h.consume(t, tt.spans...)
			require.Empty(t, h.sink.AllTraces(), "the run announces nothing: more may come")
			h.pass(t, xSettle)
			out := h.out()
			require.Equal(t, len(tt.spans), out.SpanCount())
			checkVerdicts(t, out, tt.want)
			checkGolden(t, tt.name, tracesOf(t, tt.spans...), out)
		})
	}
}

func (s spanSpec) under(parent byte) spanSpec { s.parent = parent; return s }

package llmclassify

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/golden"
	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/ptracetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

var update = flag.Bool("update", false, "write the golden files")

// verdict is what a span is expected to say. Its zero value is a span of which
// nothing is said.
type verdict struct {
	outcome    semconv.RunOutcome
	recovered  int
	class      semconv.Class
	cause      semconv.Cause
	phase      semconv.Phase
	origin     semconv.Origin
	confidence semconv.Confidence
	safety     semconv.RetrySafety
	reason     semconv.RetryReason
	trigger    semconv.Trigger
	missing    []string // llm.history.missing_outputs
}

func verdictOf(span ptrace.Span) (v verdict) {
	for key, value := range span.Attributes().All() {
		ok := true
		switch key {
		case string(semconv.RunOutcomeKey):
			v.outcome, ok = semconv.ParseRunOutcome(value.Str())
		case string(semconv.RunRecoveredFailuresKey):
			v.recovered = int(value.Int())
		case string(semconv.FailureClassKey):
			v.class, ok = semconv.ParseClass(value.Str())
		case string(semconv.FailureCauseKey):
			v.cause, ok = semconv.ParseCause(value.Str())
		case string(semconv.FailurePhaseKey):
			v.phase, ok = semconv.ParsePhase(value.Str())
		case string(semconv.FailureOriginKey):
			v.origin, ok = semconv.ParseOrigin(value.Str())
		case string(semconv.FailureConfidenceKey):
			v.confidence, ok = semconv.ParseConfidence(value.Str())
		case string(semconv.RetrySafetyKey):
			v.safety, ok = semconv.ParseRetrySafety(value.Str())
		case string(semconv.RetryReasonKey):
			v.reason, ok = semconv.ParseRetryReason(value.Str())
		case string(semconv.ClassificationTriggerKey):
			v.trigger, ok = semconv.ParseTrigger(value.Str())
		case string(semconv.HistoryMissingOutputsKey):
			for _, id := range value.Slice().All() {
				v.missing = append(v.missing, id.Str())
			}
		}
		if !ok {
			panic(key + " is not of the vocabulary: " + value.Str())
		}
	}
	return v
}

// on is the same verdict on a run with this outcome.
func (v verdict) on(o semconv.RunOutcome) verdict { v.outcome = o; return v }

// lacking is the same verdict on a run that names these outputs as missing.
func (v verdict) lacking(ids ...string) verdict { v.missing = ids; return v }

func (v verdict) because(s semconv.RetrySafety, r semconv.RetryReason) verdict {
	v.safety, v.reason = s, r
	return v
}

func failure(class semconv.Class, cause semconv.Cause, phase semconv.Phase, origin semconv.Origin) verdict {
	return verdict{
		class: class, cause: cause, phase: phase, origin: origin,
		confidence: semconv.ConfidenceHigh, trigger: semconv.TriggerComplete,
	}
}

func ran(o semconv.RunOutcome, recovered int) verdict {
	return verdict{outcome: o, recovered: recovered, trigger: semconv.TriggerComplete}
}

const (
	safe    = semconv.RetrySafetySafeAutoRetry
	confirm = semconv.RetrySafetyUserConfirmedRetry
	never   = semconv.RetrySafetyNoRetry
)

// acceptance are whole traces and what their spans say when they come out. Names
// begin with the number of the acceptance case.
func acceptance() []struct {
	name  string
	spans []spanSpec
	want  map[byte]verdict // by span; a span that is not named says nothing
} {
	type wants = map[byte]verdict
	interrupted := func(phase semconv.Phase, cause semconv.Cause) verdict {
		return failure(semconv.ClassStreamInterrupted, cause, phase, semconv.OriginTransport)
	}
	reset := interrupted(semconv.PhaseToolInput, semconv.CauseConnectionReset)
	unconnected := func(cause semconv.Cause) verdict {
		return failure(semconv.ClassConnectionFailed, cause, semconv.PhaseBeforeConnection, semconv.OriginTransport)
	}
	provider := func(cause semconv.Cause, phase semconv.Phase) verdict {
		return failure(semconv.ClassProviderError, cause, phase, semconv.OriginProvider)
	}
	limited := func(cause semconv.Cause) verdict {
		return failure(semconv.ClassOutputLimited, cause, semconv.PhaseStreamEnd, semconv.OriginProvider).
			because(never, semconv.RetryReasonNotTransient)
	}
	toolFailed := func(cause semconv.Cause) verdict {
		return failure(semconv.ClassToolFailed, cause, semconv.PhaseToolExecution, semconv.OriginTool)
	}
	call := counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{"call_1"}}
	answer := counts{text: 3}
	failedTool := toolSpan(3, 1.5, 2, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeFailed).failed("*fs.PathError")

	one := func(r spanSpec) []spanSpec {
		return []spanSpec{r, runSpan(1, 0, 3, 1, 0).failed("*errors.errorString")}
	}
	both := func(v verdict, o semconv.RunOutcome) wants { return wants{2: v, 1: v.on(o)} }

	return []struct {
		name  string
		spans []spanSpec
		want  map[byte]verdict
	}{
		{
			name: "01_reset_in_tool_input_after_text",
			spans: append(one(requestSpan(2, 1, 0.1, 2).cut(semconv.PhaseToolInput, semconv.TransportCauseConnectionReset, "ECONNRESET",
				counts{text: 3, inputs: 1, openIDs: []string{"call_1"}})), otherSpan(9, 1, 0.1, 0.2), httpSpan(8, 2)),
			want: both(reset.because(confirm, semconv.RetryReasonVisibleOutput), semconv.RunOutcomeFailed),
		},
		{
			name: "02_reset_in_tool_input",
			spans: one(requestSpan(2, 1, 0.1, 2).cut(semconv.PhaseToolInput, semconv.TransportCauseConnectionReset, "ECONNRESET",
				counts{inputs: 1, openIDs: []string{"call_1"}})),
			want: both(reset.because(safe, semconv.RetryReasonIncompleteToolInput), semconv.RunOutcomeFailed),
		},
		{
			name:  "03_connection_refused",
			spans: one(requestSpan(2, 1, 0.1, 0.2).unconnected(semconv.TransportStageConnect, semconv.TransportCauseConnectRefused, "ECONNREFUSED")),
			want:  both(unconnected(semconv.CauseConnectRefused).because(safe, semconv.RetryReasonNothingLeftClient), semconv.RunOutcomeFailed),
		},
		{
			name:  "03_unknown_host",
			spans: one(requestSpan(2, 1, 0.1, 0.2).unconnected(semconv.TransportStageDNS, semconv.TransportCauseDNSNotFound, "ENOTFOUND")),
			want:  both(unconnected(semconv.CauseDNSNotFound).because(never, semconv.RetryReasonNotTransient), semconv.RunOutcomeFailed),
		},
		{
			name:  "04_body_truncated_after_headers",
			spans: one(requestSpan(2, 1, 0.1, 2).cut(semconv.PhaseResponseStarted, semconv.TransportCauseBodyTruncated, "", counts{})),
			want:  both(interrupted(semconv.PhaseResponseStarted, semconv.CauseBodyTruncated).because(safe, semconv.RetryReasonNoOutput), semconv.RunOutcomeFailed),
		},
		{
			name: "05_clean_eof_after_text",
			spans: one(requestSpan(2, 1, 0.1, 2).streamed(semconv.PhaseText, semconv.StreamEndEOF, answer).failed("io.ErrUnexpectedEOF").with(
				otelsemconv.GenAIResponseFinishReasons("error"),
				semconv.TransportCauseKey.String(semconv.TransportCauseCleanEOF.String()),
			)),
			want: both(interrupted(semconv.PhaseText, semconv.CauseCleanEOF).because(confirm, semconv.RetryReasonVisibleOutput), semconv.RunOutcomeFailed),
		},
		{
			name: "06_reset_in_reasoning",
			spans: one(requestSpan(2, 1, 0.1, 2).cut(semconv.PhaseReasoning, semconv.TransportCauseConnectionReset, "ECONNRESET",
				counts{reasoning: 4})),
			want: both(interrupted(semconv.PhaseReasoning, semconv.CauseConnectionReset).because(safe, semconv.RetryReasonReasoningOnly), semconv.RunOutcomeFailed),
		},
		{
			name:  "07_call_ready_tool_never_started",
			spans: one(requestSpan(2, 1, 0.1, 2).cut(semconv.PhaseToolCallReady, semconv.TransportCauseConnectionReset, "ECONNRESET", call)),
			want:  both(interrupted(semconv.PhaseToolCallReady, semconv.CauseConnectionReset).because(safe, semconv.RetryReasonToolCallNotExecuted), semconv.RunOutcomeFailed),
		},
		{
			// Anthropic hands a call over with the end of the message: its input is complete before.
			name: "07_input_complete_call_not_handed_over",
			spans: one(requestSpan(2, 1, 0.1, 2).cut(semconv.PhaseToolCallReady, semconv.TransportCauseConnectionReset, "ECONNRESET",
				counts{inputs: 1, completed: 1, callIDs: []string{"call_1"}})),
			want: both(interrupted(semconv.PhaseToolCallReady, semconv.CauseConnectionReset).because(safe, semconv.RetryReasonToolCallNotExecuted), semconv.RunOutcomeFailed),
		},
		{
			name: "07_input_complete_and_its_tool_ran",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 2).cut(semconv.PhaseToolCallReady, semconv.TransportCauseConnectionReset, "ECONNRESET",
					counts{inputs: 1, completed: 1, callIDs: []string{"call_1"}}),
				toolSpan(3, 1.5, 1.9, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded),
				runSpan(1, 0, 3, 1, 1).failed("*errors.errorString"),
			},
			want: wants{
				2: interrupted(semconv.PhaseToolCallReady, semconv.CauseConnectionReset).because(confirm, semconv.RetryReasonToolSideEffect),
				1: interrupted(semconv.PhaseToolCallReady, semconv.CauseConnectionReset).because(confirm, semconv.RetryReasonToolSideEffect).on(semconv.RunOutcomeFailed).lacking("call_1"),
			},
		},
		{
			name: "08_cut_after_side_effect_history_whole",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 1).answered("tool_calls", call),
				toolSpan(3, 1.1, 1.9, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded),
				requestSpan(4, 1, 2, 2.5).history([]string{"call_1"}, []string{"call_1"}).
					cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{}),
				runSpan(1, 0, 3, 2, 1).failed("*errors.errorString"),
			},
			want: wants{
				4: interrupted(semconv.PhaseResponseStarted, semconv.CauseConnectionReset).because(safe, semconv.RetryReasonNoOutput),
				1: interrupted(semconv.PhaseResponseStarted, semconv.CauseConnectionReset).because(confirm, semconv.RetryReasonToolSideEffect).on(semconv.RunOutcomeFailed),
			},
		},
		{
			name: "09_retry_lacks_output",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 1).answered("tool_calls", call),
				toolSpan(3, 1.1, 1.9, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded),
				requestSpan(4, 1, 2, 2.5).history([]string{"call_1"}, []string{"call_1"}).
					cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{}),
				requestSpan(5, 1, 2.6, 2.9).with(semconv.RequestAttempt(2)).history(nil, nil).answered("stop", answer),
				runSpan(1, 0, 3, 3, 1),
			},
			want: wants{
				4: interrupted(semconv.PhaseResponseStarted, semconv.CauseConnectionReset).because(safe, semconv.RetryReasonNoOutput),
				1: func() verdict {
					v := failure(semconv.ClassToolOutputLost, semconv.CauseOmittedFromRetry, semconv.PhaseToolOutputDelivery, semconv.OriginApplication).
						because(confirm, semconv.RetryReasonToolSideEffect).on(semconv.RunOutcomeFailed)
					v.missing = []string{"call_1"}
					return v
				}(),
			},
		},
		{
			name: "10_user_stops_in_text",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 2).streamed(semconv.PhaseText, semconv.StreamEndCancelled, answer).with(
					semconv.AbortSourceKey.String(semconv.AbortSourceUser.String()), semconv.AbortReason("stop_button"),
				),
				runSpan(1, 0, 3, 1, 0).with(semconv.AbortSourceKey.String(semconv.AbortSourceUser.String()), semconv.AbortReason("stop_button")),
			},
			want: both(failure(semconv.ClassLocalAbort, semconv.CauseUser, semconv.PhaseText, semconv.OriginLocal).
				because(never, semconv.RetryReasonUserAbort), semconv.RunOutcomeAborted),
		},
		{
			name: "11_shutdown",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 2).streamed(semconv.PhaseText, semconv.StreamEndCancelled, answer).with(
					semconv.AbortSourceKey.String(semconv.AbortSourceShutdown.String()),
				),
				runSpan(1, 0, 3, 1, 0).with(semconv.AbortSourceKey.String(semconv.AbortSourceShutdown.String())),
			},
			want: both(failure(semconv.ClassLocalAbort, semconv.CauseShutdown, semconv.PhaseText, semconv.OriginLocal).
				because(never, semconv.RetryReasonLocalShutdown), semconv.RunOutcomeAborted),
		},
		{
			name: "11_deadline",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 2).streamed(semconv.PhaseResponseStarted, semconv.StreamEndCancelled, counts{}).failed("context.deadlineExceededError").with(
					semconv.AbortSourceKey.String(semconv.AbortSourceDeadline.String()),
				),
				runSpan(1, 0, 3, 1, 0).failed("context.deadlineExceededError"),
			},
			want: both(failure(semconv.ClassLocalAbort, semconv.CauseDeadline, semconv.PhaseResponseStarted, semconv.OriginLocal).
				because(confirm, semconv.RetryReasonDeadline), semconv.RunOutcomeAborted),
		},
		{
			name: "13_rate_limited_then_success",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 0.4).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded").with(semconv.RetryAfter(1.5)),
				requestSpan(3, 1, 1.9, 2.8).with(semconv.RequestAttempt(2)).answered("stop", answer),
				runSpan(1, 0, 3, 2, 0),
			},
			want: wants{
				2: provider(semconv.CauseRateLimited, semconv.PhaseResponseStarted).because(safe, semconv.RetryReasonNoOutput),
				1: ran(semconv.RunOutcomeRecovered, 1),
			},
		},
		{
			name:  "14_quota_exhausted",
			spans: one(requestSpan(2, 1, 0.1, 0.4).refused(429, semconv.ProviderErrorKindQuotaExhausted, "insufficient_quota")),
			want:  both(provider(semconv.CauseQuotaExhausted, semconv.PhaseResponseStarted).because(never, semconv.RetryReasonNotTransient), semconv.RunOutcomeFailed),
		},
		{
			name:  "14_authentication",
			spans: one(requestSpan(2, 1, 0.1, 0.4).refused(401, semconv.ProviderErrorKindAuthentication, "invalid_api_key")),
			want:  both(provider(semconv.CauseAuthentication, semconv.PhaseResponseStarted).because(never, semconv.RetryReasonNotTransient), semconv.RunOutcomeFailed),
		},
		{
			name:  "14_context_length",
			spans: one(requestSpan(2, 1, 0.1, 0.4).refused(400, semconv.ProviderErrorKindContextLengthExceeded, "context_length_exceeded")),
			want:  both(provider(semconv.CauseContextLengthExceeded, semconv.PhaseResponseStarted).because(never, semconv.RetryReasonNotTransient), semconv.RunOutcomeFailed),
		},
		{
			name: "15_overloaded_in_band_after_text",
			spans: one(requestSpan(2, 1, 0.1, 2).streamed(semconv.PhaseText, semconv.StreamEndTerminalEvent, answer).failed("overloaded_error").with(
				otelsemconv.GenAIResponseFinishReasons("error"),
				semconv.ProviderErrorKindKey.String(semconv.ProviderErrorKindOverloaded.String()),
				semconv.ProviderErrorCode("overloaded_error"), semconv.ProviderErrorInBand(true),
			)),
			want: both(provider(semconv.CauseOverloaded, semconv.PhaseText).because(confirm, semconv.RetryReasonVisibleOutput), semconv.RunOutcomeFailed),
		},
		{
			name: "16_tool_fails_model_answers",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 1).answered("tool_calls", call), failedTool,
				requestSpan(4, 1, 2, 2.5).history([]string{"call_1"}, []string{"call_1"}).answered("stop", answer),
				runSpan(1, 0, 3, 2, 1),
			},
			want: wants{
				3: toolFailed(semconv.CauseExecutionError).because(safe, semconv.RetryReasonReadOnlyToolsOnly),
				1: ran(semconv.RunOutcomeRecovered, 1),
			},
		},
		{
			name: "17_tool_fails_run_ends",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 1).answered("tool_calls", call), failedTool,
				runSpan(1, 0, 3, 1, 1).failed("*fs.PathError"),
			},
			want: wants{
				3: toolFailed(semconv.CauseExecutionError).because(safe, semconv.RetryReasonReadOnlyToolsOnly),
				1: toolFailed(semconv.CauseExecutionError).because(safe, semconv.RetryReasonReadOnlyToolsOnly).on(semconv.RunOutcomeFailed).lacking("call_1"),
			},
		},
		{
			name: "18_tool_fails_and_output_is_lost",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 1).answered("tool_calls", call),
				failedTool.with(
					semconv.ToolOutputDeliveryKey.String(semconv.OutputDeliveryFailed.String()), semconv.ToolOutputError("*net.OpError"),
				),
				runSpan(1, 0, 3, 1, 1).failed("*net.OpError"),
			},
			want: wants{
				3: toolFailed(semconv.CauseExecutionError).because(safe, semconv.RetryReasonReadOnlyToolsOnly),
				1: func() verdict {
					v := failure(semconv.ClassToolOutputLost, semconv.CauseDeliveryFailed, semconv.PhaseToolOutputDelivery, semconv.OriginApplication).
						because(safe, semconv.RetryReasonReadOnlyToolsOnly).on(semconv.RunOutcomeFailed)
					v.missing = []string{"call_1"}
					return v
				}(),
			},
		},
		{
			name: "19_gateway_swallows_error",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 2).answered("stop", counts{}),
				httpSpan(5, 2),
				genAISpan(6, 5, otelsemconv.GenAIOperationNameChat, 0.3, 1.5, otelsemconv.HTTPResponseStatusCode(503)).failed("503").in(gatewayService),
				runSpan(1, 0, 3, 1, 0),
			},
			want: wants{
				2: failure(semconv.ClassEmptyCompletion, semconv.CauseSwallowedError, semconv.PhaseStreamEnd, semconv.OriginGateway).
					because(safe, semconv.RetryReasonNoOutput),
				6: {
					class: semconv.ClassProviderError, cause: semconv.CauseOverloaded, phase: semconv.PhaseResponseStarted,
					origin: semconv.OriginProvider, confidence: semconv.ConfidenceMedium,
					safety: confirm, reason: semconv.RetryReasonEvidenceIncomplete, trigger: semconv.TriggerComplete,
				},
				1: failure(semconv.ClassEmptyCompletion, semconv.CauseSwallowedError, semconv.PhaseStreamEnd, semconv.OriginGateway).
					because(safe, semconv.RetryReasonNoOutput).on(semconv.RunOutcomeFailed),
			},
		},
		{
			name: "20_tool_ran_on_incomplete_input",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 1).cut(semconv.PhaseToolInput, semconv.TransportCauseConnectionReset, "ECONNRESET",
					counts{inputs: 1, openIDs: []string{"call_1"}}),
				toolSpan(3, 1.1, 1.9, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded),
				runSpan(1, 0, 3, 1, 1).failed("*errors.errorString"),
			},
			want: wants{
				2: reset.because(confirm, semconv.RetryReasonToolSideEffect),
				3: toolFailed(semconv.CauseIncompleteInput).because(never, semconv.RetryReasonNotTransient),
				1: toolFailed(semconv.CauseIncompleteInput).because(never, semconv.RetryReasonNotTransient).on(semconv.RunOutcomeFailed).lacking("call_1"),
			},
		},
		{
			name: "20_tool_refuses_half_an_input",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 1).cut(semconv.PhaseToolInput, semconv.TransportCauseConnectionReset, "ECONNRESET",
					counts{inputs: 1, openIDs: []string{"call_1"}}),
				toolSpan(3, 1.1, 1.2, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeInvalidInput).failed("*json.SyntaxError"),
				runSpan(1, 0, 3, 1, 1).failed("*net.OpError"),
			},
			want: wants{
				2: reset.because(safe, semconv.RetryReasonIncompleteToolInput),
				3: toolFailed(semconv.CauseInvalidInput).because(never, semconv.RetryReasonNotTransient),
				1: reset.because(safe, semconv.RetryReasonIncompleteToolInput).on(semconv.RunOutcomeFailed),
			},
		},
		{
			name:  "21_max_tokens",
			spans: []spanSpec{requestSpan(2, 1, 0.1, 2).answered("length", answer), runSpan(1, 0, 3, 1, 0)},
			want:  both(limited(semconv.CauseMaxOutputTokens), semconv.RunOutcomeLimited),
		},
		{
			name:  "21_refusal",
			spans: []spanSpec{requestSpan(2, 1, 0.1, 2).answered("refusal", answer), runSpan(1, 0, 3, 1, 0)},
			want:  both(limited(semconv.CauseRefusal), semconv.RunOutcomeLimited),
		},
		{
			name:  "21_content_filter",
			spans: []spanSpec{requestSpan(2, 1, 0.1, 2).answered("content_filter", answer), runSpan(1, 0, 3, 1, 0)},
			want:  both(limited(semconv.CauseContentFilter), semconv.RunOutcomeLimited),
		},
		{
			name:  "success",
			spans: []spanSpec{requestSpan(2, 1, 0.1, 2).answered("stop", answer), runSpan(1, 0, 3, 1, 0), otherSpan(9, 2, 0.1, 0.2)},
			want:  wants{1: ran(semconv.RunOutcomeSucceeded, 0)},
		},
	}
}

func TestAcceptance(t *testing.T) {
	for _, tt := range acceptance() {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			h.consume(t, tt.spans...)
			out := h.out()
			require.Equal(t, len(tt.spans), out.SpanCount(), "a run that is complete goes out in the call that completes it")
			checkVerdicts(t, out, tt.want)
			checkGolden(t, tt.name, tracesOf(t, tt.spans...), out)
		})
		t.Run(tt.name+" span by span", func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			for _, spec := range tt.spans {
				h.consume(t, spec)
			}
			out := h.out()
			require.Equal(t, len(tt.spans), out.SpanCount(), "a run that is complete goes out in the call that completes it")
			checkVerdicts(t, out, tt.want)
			checkGolden(t, tt.name, tracesOf(t, tt.spans...), out)
		})
	}
}

func checkVerdicts(t *testing.T, out ptrace.Traces, want map[byte]verdict) {
	t.Helper()
	for id, span := range spansOf(out) {
		assert.Equal(t, want[id[7]], verdictOf(span), "%s (span %d)", span.Name(), id[7])
		if v := verdictOf(span); v.class != semconv.ClassUnset {
			summary, ok := span.Attributes().Get(string(semconv.FailureSummaryKey))
			assert.True(t, ok)
			assert.NotEmpty(t, summary.Str())
		}
	}
	for id := range want {
		assert.Contains(t, spansOf(out), spanID(id))
	}
}

// merged is td with each resource and each scope once, however many calls it came out in.
func merged(td ptrace.Traces) ptrace.Traces {
	all := ptrace.NewTraces()
	for _, rs := range td.ResourceSpans().All() {
		resource, found := rs, false
		for _, before := range all.ResourceSpans().All() {
			if before.SchemaUrl() == rs.SchemaUrl() && before.Resource().Attributes().Equal(rs.Resource().Attributes()) {
				resource, found = before, true
			}
		}
		if !found {
			resource = all.ResourceSpans().AppendEmpty()
			rs.Resource().CopyTo(resource.Resource())
			resource.SetSchemaUrl(rs.SchemaUrl())
		}
		for _, ss := range rs.ScopeSpans().All() {
			scope, found := ss, false
			for _, before := range resource.ScopeSpans().All() {
				if before.SchemaUrl() == ss.SchemaUrl() && before.Scope().Name() == ss.Scope().Name() && before.Scope().Version() == ss.Scope().Version() {
					scope, found = before, true
				}
			}
			if !found {
				scope = resource.ScopeSpans().AppendEmpty()
				ss.Scope().CopyTo(scope.Scope())
				scope.SetSchemaUrl(ss.SchemaUrl())
			}
			for _, span := range ss.Spans().All() {
				span.CopyTo(scope.Spans().AppendEmpty())
			}
		}
	}
	return all
}

// checkGolden holds a whole trace to testdata, going in and coming out.
func checkGolden(t *testing.T, name string, in, out ptrace.Traces) {
	t.Helper()
	for _, f := range []struct {
		file string
		td   ptrace.Traces
	}{{"in.yaml", in}, {"out.yaml", out}} {
		path := filepath.Join("testdata", "traces", name, f.file)
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			sortAttributes(f.td)
			require.NoError(t, golden.WriteTracesToFile(path, f.td))
		}
		want, err := golden.ReadTraces(path)
		require.NoError(t, err)
		assert.NoError(t, ptracetest.CompareTraces(merged(want), merged(f.td),
			ptracetest.IgnoreResourceSpansOrder(), ptracetest.IgnoreScopeSpansOrder(), ptracetest.IgnoreSpansOrder()), path)
	}
}

func sortAttributes(td ptrace.Traces) {
	for _, span := range spansOf(td) {
		sorted := pcommon.NewMap()
		raw := span.Attributes().AsRaw()
		keys := make([]string, 0, len(raw))
		for key := range raw {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			v, _ := span.Attributes().Get(key)
			v.CopyTo(sorted.PutEmpty(key))
		}
		sorted.CopyTo(span.Attributes())
	}
}

package stamp

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/verdictattr"
	"github.com/otelllm/otelllm-go/semconv"
)

var reset = classify.Diagnosis{
	Class: semconv.ClassStreamInterrupted, Cause: semconv.CauseConnectionReset, Phase: semconv.PhaseToolInput,
	Origin: semconv.OriginTransport, Confidence: semconv.ConfidenceHigh, Summary: "The connection was lost.", SummaryKey: semconv.SummaryKeyToolNotRun,
	Evidence: []string{"llm.transport.cause=connection_reset"}, MissingEvidence: []string{"llm.history.tool_calls"},
	Retry:          classify.Retry{Safety: classify.SafeAutoRetry, Reason: semconv.RetryReasonIncompleteToolInput},
	MissingOutputs: []string{"call_1"},
}

func failureAttrs() map[string]any {
	return map[string]any{
		"llm.failure.class": "stream_interrupted", "llm.failure.cause": "connection_reset", "llm.failure.phase": "tool_input",
		"llm.failure.origin": "transport", "llm.failure.confidence": "high", "llm.failure.summary": "The connection was lost.", "llm.failure.summary_key": "tool_not_run",
		"llm.failure.evidence":         []any{"llm.transport.cause=connection_reset"},
		"llm.failure.missing_evidence": []any{"llm.history.tool_calls"},
		"llm.retry.safety":             "safe_auto_retry", "llm.retry.reason": "incomplete_tool_input",
		"llm.history.missing_outputs": []any{"call_1"},
	}
}

func merged(list ...map[string]any) map[string]any {
	all := map[string]any{}
	for _, m := range list {
		maps.Copy(all, m)
	}
	return all
}

type attrs = map[string]any

func TestSpan(t *testing.T) {
	facts := attrs{"llm.stream.phase": "tool_input", "app": "x", "llm.retry.after": 1.5, "llm.history.tool_calls": []any{"call_1"}}
	client := attrs{"llm.classification.trigger": "client", "llm.failure.class": "local_abort", "llm.run.timeline": []any{"a"}, "llm.retry.reason": "user_abort"}
	for _, tt := range []struct {
		name    string
		before  attrs
		d       *classify.Diagnosis
		trigger semconv.Trigger
		want    attrs
	}{
		{"nothing failed", facts, nil, semconv.TriggerComplete, facts},
		{"nothing failed, and it had settled", facts, nil, semconv.TriggerRunEnded, facts},
		{"nothing failed, and it goes early", facts, nil, semconv.TriggerMemory, merged(facts, attrs{"llm.classification.trigger": "memory"})},
		{"failed", facts, &reset, semconv.TriggerComplete, merged(facts, failureAttrs(), attrs{"llm.classification.trigger": "complete"})},
		{
			"the client's verdict gives way", merged(facts, client), &reset, semconv.TriggerLate,
			merged(facts, failureAttrs(), attrs{"llm.classification.trigger": "late"}),
		},
		{"the client's verdict gives way to none", merged(facts, client), nil, semconv.TriggerComplete, facts},
		{
			"judged before",
			attrs{"llm.classification.trigger": "complete", "llm.failure.class": "local_abort"},
			&reset, semconv.TriggerLate,
			attrs{"llm.classification.trigger": "complete", "llm.failure.class": "local_abort"},
		},
		{"somebody else's verdict", attrs{"llm.failure.class": 7}, &reset, semconv.TriggerComplete, attrs{"llm.failure.class": 7}},
		{
			"not a trigger",
			attrs{"llm.classification.trigger": []any{"client"}},
			&reset, semconv.TriggerComplete,
			attrs{"llm.classification.trigger": []any{"client"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			span := ptrace.NewSpan()
			require.NoError(t, span.Attributes().FromRaw(tt.before))
			want := ptrace.NewSpan()
			require.NoError(t, want.Attributes().FromRaw(tt.want))
			Span(span, tt.d, tt.trigger)
			assert.Equal(t, want.Attributes().AsRaw(), span.Attributes().AsRaw())
			again := span.Attributes().Len()
			Span(span, tt.d, semconv.TriggerComplete)
			if _, judged := tt.want["llm.classification.trigger"]; judged {
				assert.Equal(t, again, span.Attributes().Len(), "a second look doubles nothing")
			}
		})
	}
}

func TestRun(t *testing.T) {
	limited := classify.Diagnosis{Outcome: semconv.RunOutcomeSucceeded, Timeline: []string{"+0s request 1: sent"}}
	common := attrs{"llm.run.timeline": []any{"+0s request 1: sent"}, "llm.classification.trigger": "complete", "llm.classification.ruleset": classify.Ruleset}
	recovered := limited
	recovered.Outcome, recovered.RecoveredFailures = semconv.RunOutcomeRecovered, 2
	failed := reset
	failed.Outcome, failed.Timeline = semconv.RunOutcomeFailed, limited.Timeline
	other := reset
	other.Class = semconv.ClassLocalAbort
	for _, tt := range []struct {
		name   string
		d, own *classify.Diagnosis
		want   attrs
	}{
		{"succeeded", &limited, nil, merged(common, attrs{"llm.run.outcome": "succeeded"})},
		{"recovered", &recovered, nil, merged(common, attrs{"llm.run.outcome": "recovered", "llm.run.recovered_failures": 2})},
		{"failed", &failed, nil, merged(common, failureAttrs(), attrs{"llm.run.outcome": "failed"})},
		{"failed, on a span that failed otherwise", &failed, &other, merged(common, failureAttrs(), attrs{"llm.run.outcome": "failed"})},
		{"recovered, on a span that failed", &recovered, &reset, func() attrs {
			a := merged(common, failureAttrs(), attrs{"llm.run.outcome": "recovered", "llm.run.recovered_failures": 2})
			delete(a, "llm.history.missing_outputs")
			return a
		}()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			span, want := ptrace.NewSpan(), ptrace.NewSpan()
			require.NoError(t, want.Attributes().FromRaw(tt.want))
			span.Attributes().PutStr("llm.classification.trigger", "client")
			span.Attributes().PutStr("llm.run.outcome", "incomplete")
			Run(span, tt.d, tt.own, semconv.TriggerComplete)
			assert.Equal(t, want.Attributes().AsRaw(), span.Attributes().AsRaw())
		})
	}
	span := ptrace.NewSpan()
	span.Attributes().PutStr("llm.run.outcome", "succeeded")
	Run(span, &failed, nil, semconv.TriggerComplete)
	assert.Equal(t, attrs{"llm.run.outcome": "succeeded"}, span.Attributes().AsRaw())
}

// A verdict fits into the room that is made for it.
func TestCapacity(t *testing.T) {
	d := reset
	d.Outcome, d.Timeline, d.RecoveredFailures = semconv.RunOutcomeFailed, []string{"a"}, 1
	span := ptrace.NewSpan()
	Run(span, &d, nil, semconv.TriggerComplete)
	Status(span, &d)
	assert.Equal(t, runAttributes+2+failureAttributes, span.Attributes().Len(), "with what was recovered and what is missing")
	for key := range span.Attributes().All() {
		assert.True(t, verdictattr.Is(key), key)
	}
}

// Status sets a status only on a span without one, and only for a failure.
func TestStatus(t *testing.T) {
	failed := reset
	limited, stopped, unclear := reset, reset, reset
	limited.Class, stopped.Class, unclear.Class = semconv.ClassOutputLimited, semconv.ClassLocalAbort, semconv.ClassUnclassified
	for _, tt := range []struct {
		name     string
		before   ptrace.StatusCode
		message  string
		verdicts []*classify.Diagnosis
		set      bool
	}{
		{"nothing failed", ptrace.StatusCodeUnset, "", []*classify.Diagnosis{nil, {Outcome: semconv.RunOutcomeSucceeded}}, false},
		{"failed", ptrace.StatusCodeUnset, "", []*classify.Diagnosis{&failed}, true},
		{"a part of it failed", ptrace.StatusCodeUnset, "", []*classify.Diagnosis{{Outcome: semconv.RunOutcomeRecovered}, &failed}, true},
		{"cut by a limit", ptrace.StatusCodeUnset, "", []*classify.Diagnosis{&limited}, false},
		{"stopped on purpose", ptrace.StatusCodeUnset, "", []*classify.Diagnosis{&stopped}, false},
		{"incomplete", ptrace.StatusCodeUnset, "", []*classify.Diagnosis{&unclear}, false},
		{"its producer left a message", ptrace.StatusCodeUnset, "rate limited", []*classify.Diagnosis{&failed}, false},
		{"its producer set it", ptrace.StatusCodeError, "", []*classify.Diagnosis{&failed}, false},
		{"its producer said that it was well", ptrace.StatusCodeOk, "", []*classify.Diagnosis{&failed}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			span := ptrace.NewSpan()
			span.Status().SetCode(tt.before)
			span.Status().SetMessage(tt.message)
			Status(span, tt.verdicts...)
			_, marked := span.Attributes().Get(string(semconv.ClassificationStatusSetKey))
			assert.Equal(t, tt.set, marked)
			if tt.set {
				assert.Equal(t, ptrace.StatusCodeError, span.Status().Code())
				assert.Equal(t, failed.Summary, span.Status().Message())
			} else {
				assert.Equal(t, tt.before, span.Status().Code())
				assert.Equal(t, tt.message, span.Status().Message())
			}

			verdictattr.RemoveFrom(span)
			assert.Equal(t, tt.before, span.Status().Code(), "the status goes with the verdict")
			assert.Equal(t, tt.message, span.Status().Message())
		})
	}
}

func BenchmarkSpan(b *testing.B) {
	facts := ptrace.NewSpan()
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		facts.Attributes().PutStr(key, "v")
	}
	b.ReportAllocs()
	for b.Loop() {
		span := ptrace.NewSpan()
		facts.CopyTo(span)
		Span(span, &reset, semconv.TriggerComplete)
	}
}

// Package stamp writes verdicts onto spans.
//
// Attributes are only added, and only unset statuses are set, with one exception: verdicts of the client (trigger `client`)
// are replaced. Any other verdict on a span stays, and none is added: two classifiers on one span would contradict each
// other, and a span that this processor has judged already must not get a second verdict.
package stamp

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/verdictattr"
	"github.com/otelllm/otelllm-go/semconv"
)

// Numbers of attributes, to reserve room: of a failure (at most), of a run without its failure (at least), of the provider
// and the model of a run, which the caller of Run may add, of a warning, and of a request or tool without its failure (at
// most).
const (
	failureAttributes = 11
	runAttributes     = 5
	modelAttributes   = 2
	warningAttributes = 2
	spanAttributes    = 3
)

// Span writes the verdict on a request or tool. A nil d means that the span did not fail: then only a span that is released
// early gets an attribute, the trigger. It reports whether anything was written.
func Span(span ptrace.Span, d *classify.Diagnosis, trigger semconv.Trigger) bool {
	attrs := span.Attributes()
	if !makeRoom(attrs) || d == nil && !Early(trigger) {
		return false
	}
	if d != nil {
		attrs.EnsureCapacity(attrs.Len() + spanAttributes + failureAttributes)
		failure(attrs, d)
		putStrings(attrs, string(semconv.HistoryMissingOutputsKey), d.MissingOutputs)
	}
	attrs.PutStr(string(semconv.ClassificationTriggerKey), trigger.String())
	return true
}

// Run writes the verdict on a run onto the span that carries it. If that is no run span, own is the verdict on the span
// itself, else nil; the failure of own is written if the run has none, because the run recovered and the span did not. It
// reports whether anything was written.
func Run(span ptrace.Span, d, own *classify.Diagnosis, trigger semconv.Trigger) bool {
	attrs := span.Attributes()
	if !makeRoom(attrs) {
		return false
	}
	room := runAttributes + modelAttributes
	if d.RecoveredFailures > 0 {
		room++
	}
	if len(d.MissingOutputs) > 0 {
		room++
	}
	if d.Warning != "" {
		room += warningAttributes
	}
	if d.Failed() || own != nil {
		room += failureAttributes
	}
	attrs.EnsureCapacity(attrs.Len() + room)
	attrs.PutStr(string(semconv.RunOutcomeKey), d.Outcome.String())
	putStrings(attrs, string(semconv.RunTimelineKey), d.Timeline)
	if d.RecoveredFailures > 0 {
		attrs.PutInt(string(semconv.RunRecoveredFailuresKey), int64(d.RecoveredFailures))
	}
	putStrings(attrs, string(semconv.HistoryMissingOutputsKey), d.MissingOutputs)
	putStrings(attrs, string(semconv.RunForgottenCallsKey), d.ForgottenCalls)
	if d.Warning != "" {
		attrs.PutStr(string(semconv.RunWarningKey), d.Warning)
	}
	switch {
	case d.Failed():
		failure(attrs, d)
	case own != nil:
		failure(attrs, own)
	}
	attrs.PutStr(string(semconv.ClassificationTriggerKey), trigger.String())
	attrs.PutStr(string(semconv.ClassificationRulesetKey), classify.Ruleset)
	return true
}

// Status sets the status of a span to ERROR, with the summary as its message, if its producer left it unset and the verdict
// says that the span failed. A span that was stopped on purpose, cut by a limit or is incomplete did not fail. An unset
// status with a message, which OpenTelemetry does not allow, stays as it is. A verdict may be nil.
func Status(span ptrace.Span, verdicts ...*classify.Diagnosis) {
	if span.Status().Code() != ptrace.StatusCodeUnset || span.Status().Message() != "" {
		return
	}
	for _, d := range verdicts {
		if d == nil || !d.Failed() || classify.OutcomeOf(d.Class) != semconv.RunOutcomeFailed {
			continue
		}
		span.Status().SetCode(ptrace.StatusCodeError)
		span.Status().SetMessage(d.Summary)
		span.Attributes().PutBool(string(semconv.ClassificationStatusSetKey), true)
		return
	}
}

// Early reports whether the span was released before its run could be judged completely, or after that.
func Early(trigger semconv.Trigger) bool {
	return trigger != semconv.TriggerComplete && trigger != semconv.TriggerRunEnded
}

func failure(attrs pcommon.Map, d *classify.Diagnosis) {
	attrs.PutStr(string(semconv.FailureClassKey), d.Class.String())
	attrs.PutStr(string(semconv.FailureCauseKey), d.Cause.String())
	attrs.PutStr(string(semconv.FailurePhaseKey), d.Phase.String())
	attrs.PutStr(string(semconv.FailureOriginKey), d.Origin.String())
	attrs.PutStr(string(semconv.FailureConfidenceKey), d.Confidence.String())
	attrs.PutStr(string(semconv.FailureSummaryKey), d.Summary)
	attrs.PutStr(string(semconv.FailureSummaryKeyKey), d.SummaryKey.String())
	putStrings(attrs, string(semconv.FailureEvidenceKey), d.Evidence)
	putStrings(attrs, string(semconv.FailureMissingEvidenceKey), d.MissingEvidence)
	attrs.PutStr(string(semconv.RetrySafetyKey), d.Retry.Safety.String())
	attrs.PutStr(string(semconv.RetryReasonKey), d.Retry.Reason.String())
}

func putStrings(attrs pcommon.Map, key string, values []string) {
	if len(values) == 0 {
		return
	}
	slice := attrs.PutEmptySlice(key)
	slice.EnsureCapacity(len(values))
	for _, v := range values {
		slice.AppendEmpty().SetStr(v)
	}
}

// makeRoom removes a verdict of the client. It reports whether the span has no verdict now.
func makeRoom(attrs pcommon.Map) bool {
	if !verdictattr.On(attrs) {
		return true
	}
	if !verdictattr.OfClient(attrs) {
		return false
	}
	verdictattr.Remove(attrs)
	return true
}

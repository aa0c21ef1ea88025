package spanfacts

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// AppendVerdict appends the client's own verdict on a request or a tool. It appends
// nothing if nothing failed.
func AppendVerdict(dst []attribute.KeyValue, d *classify.Diagnosis) []attribute.KeyValue {
	if !d.Failed() {
		return dst
	}
	dst = appendFailure(dst, d)
	dst = appendSome(dst, semconv.HistoryMissingOutputsKey, d.MissingOutputs)
	return append(dst, semconv.ClassificationTrigger(semconv.TriggerClient))
}

// AppendRunVerdict appends the client's own verdict on a run.
func AppendRunVerdict(dst []attribute.KeyValue, d *classify.Diagnosis) []attribute.KeyValue {
	dst = append(dst, semconv.RunOutcomeAttr(d.Outcome))
	dst = appendSome(dst, semconv.RunTimelineKey, d.Timeline)
	if d.RecoveredFailures > 0 {
		dst = append(dst, semconv.RunRecoveredFailures(d.RecoveredFailures))
	}
	dst = appendSome(dst, semconv.HistoryMissingOutputsKey, d.MissingOutputs)
	dst = appendSome(dst, semconv.RunForgottenCallsKey, d.ForgottenCalls)
	dst = appendString(dst, semconv.RunWarningKey, d.Warning)
	if d.Failed() {
		dst = appendFailure(dst, d)
	}
	return append(dst, semconv.ClassificationTrigger(semconv.TriggerClient), semconv.ClassificationRuleset(classify.Ruleset))
}

func appendFailure(dst []attribute.KeyValue, d *classify.Diagnosis) []attribute.KeyValue {
	dst = append(dst,
		semconv.FailureClass(d.Class),
		semconv.FailureCause(d.Cause),
		semconv.FailurePhase(d.Phase),
		semconv.FailureOrigin(d.Origin),
		semconv.FailureConfidence(d.Confidence),
		semconv.FailureSummary(d.Summary),
		semconv.FailureSummaryKeyAttr(d.SummaryKey),
	)
	dst = appendSome(dst, semconv.FailureEvidenceKey, d.Evidence)
	dst = appendSome(dst, semconv.FailureMissingEvidenceKey, d.MissingEvidence)
	return append(dst, semconv.RetrySafetyAttr(d.Retry.Safety), semconv.RetryReasonAttr(d.Retry.Reason))
}

// appendSome appends a list that is not empty.
func appendSome(dst []attribute.KeyValue, key attribute.Key, list []string) []attribute.KeyValue {
	if len(list) == 0 {
		return dst
	}
	return append(dst, key.StringSlice(list))
}

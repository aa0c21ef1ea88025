// Package verdictattr knows the attributes of a verdict, and reads the verdicts that a client wrote onto its spans.
package verdictattr

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// ClientScope is the instrumentation scope of the client that writes verdicts.
const ClientScope = "github.com/otelllm/otelllm-go/otelllm"

// keys are the attributes of a verdict, and of the plan beside it.
var keys = [...]string{
	string(semconv.RunOutcomeKey), string(semconv.RunTimelineKey), string(semconv.RunRecoveredFailuresKey),
	string(semconv.HistoryMissingOutputsKey), string(semconv.RunForgottenCallsKey), string(semconv.RunWarningKey),
	string(semconv.FailureClassKey), string(semconv.FailureCauseKey), string(semconv.FailurePhaseKey),
	string(semconv.FailureOriginKey), string(semconv.FailureConfidenceKey),
	string(semconv.FailureSummaryKey), string(semconv.FailureSummaryKeyKey),
	string(semconv.FailureEvidenceKey), string(semconv.FailureMissingEvidenceKey),
	string(semconv.RetrySafetyKey), string(semconv.RetryReasonKey),
	string(semconv.ResumeSendKey), string(semconv.ResumeAskKey), string(semconv.ResumeWaitKey), string(semconv.ResumeMoreKey),
	string(semconv.ResumeRanIDsKey), string(semconv.ResumeRanNamesKey), string(semconv.ResumeRanOutputsKey),
	string(semconv.ResumeMayHaveRunIDsKey), string(semconv.ResumeMayHaveRunNamesKey),
	string(semconv.ResumeNeverRanIDsKey), string(semconv.ResumeNeverRanNamesKey),
	string(semconv.ClassificationTriggerKey), string(semconv.ClassificationRulesetKey), string(semconv.ClassificationStatusSetKey),
}

// Keys returns the attributes of a verdict.
func Keys() []string { return slices.Clone(keys[:]) }

// namespace is the prefix of all keys.
const namespace = "llm."

// lengths is the set of the keys' lengths, as bits, and longest the greatest: most other keys have another length.
var lengths, longest = func() (set uint64, longest int) {
	for _, key := range keys {
		set |= 1 << len(key)
		longest = max(longest, len(key))
	}
	return set, longest
}()

// Is reports whether a key is an attribute of a verdict.
func Is(key string) bool {
	if len(key) > longest || lengths&(1<<len(key)) == 0 || key[:len(namespace)] != namespace {
		return false
	}
	return slices.Contains(keys[:], key)
}

// On reports whether there is a verdict, or any part of one.
func On(attrs pcommon.Map) bool {
	for key := range attrs.All() {
		if Is(key) {
			return true
		}
	}
	return false
}

// Remove removes a verdict, or any parts of one.
func Remove(attrs pcommon.Map) {
	attrs.RemoveIf(func(key string, _ pcommon.Value) bool { return Is(key) })
}

// RemoveFrom removes the verdict of a span, or any parts of one, and the status that came with it.
func RemoveFrom(span ptrace.Span) {
	if set, ok := span.Attributes().Get(string(semconv.ClassificationStatusSetKey)); ok && set.Type() == pcommon.ValueTypeBool && set.Bool() {
		span.Status().SetCode(ptrace.StatusCodeUnset)
		span.Status().SetMessage("")
	}
	Remove(span.Attributes())
}

// OfClient reports whether a verdict says that a client wrote it.
func OfClient(attrs pcommon.Map) bool {
	trigger, ok := attrs.Get(string(semconv.ClassificationTriggerKey))
	return ok && trigger.Type() == pcommon.ValueTypeStr && trigger.Str() == semconv.TriggerClient.String()
}

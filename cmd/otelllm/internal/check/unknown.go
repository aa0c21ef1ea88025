package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// namespaces are the vocabulary's own namespaces.
var namespaces = []string{
	"llm.stream.", "llm.transport.", "llm.provider.", "llm.provider_error.", "llm.abort.", "llm.watchdog.", "llm.retry.",
	"llm.history.", "llm.run.", "llm.tool.", "llm.failure.", "llm.classification.", "llm.connection.", "llm.resume.",
}

// verdictNames are attributes of verdicts: they are not facts, and not mistakes.
var verdictNames = []string{
	string(semconv.RunOutcomeKey), string(semconv.RunTimelineKey), string(semconv.RunRecoveredFailuresKey),
	string(semconv.HistoryMissingOutputsKey), string(semconv.RunForgottenCallsKey), string(semconv.RunWarningKey), string(semconv.RetrySafetyKey), string(semconv.RetryReasonKey),
	string(semconv.FailureClassKey), string(semconv.FailureCauseKey), string(semconv.FailurePhaseKey), string(semconv.FailureOriginKey),
	string(semconv.FailureConfidenceKey), string(semconv.FailureSummaryKey), string(semconv.FailureSummaryKeyKey), string(semconv.FailureEvidenceKey),
	string(semconv.ResumeSendKey), string(semconv.ResumeAskKey), string(semconv.ResumeWaitKey), string(semconv.ResumeMoreKey),
	string(semconv.ResumeRanIDsKey), string(semconv.ResumeRanNamesKey), string(semconv.ResumeRanOutputsKey),
	string(semconv.ResumeMayHaveRunIDsKey), string(semconv.ResumeMayHaveRunNamesKey), string(semconv.ResumeNeverRanIDsKey), string(semconv.ResumeNeverRanNamesKey),
	string(semconv.FailureMissingEvidenceKey), string(semconv.ClassificationTriggerKey), string(semconv.ClassificationStatusSetKey), string(semconv.ClassificationRulesetKey),
}

// unknown returns the span's attributes that are in the vocabulary's namespaces and are
// not facts of its kind: misspelled, or on the wrong span.
func (s *spanFacts) unknown() (names []string) {
	for key := range s.attrs.All() {
		if !slices.ContainsFunc(namespaces, func(space string) bool { return strings.HasPrefix(key, space) }) || slices.Contains(verdictNames, key) {
			continue
		}
		on := kindOther
		for _, k := range []kind{kindRequest, kindTool, kindRun} {
			if isFactOf(k, key) {
				on = k
			}
			if isFactOf(k, key) && k == s.kind {
				break
			}
		}
		switch on {
		case s.kind:
		case kindOther:
			names = append(names, cut(key))
		default:
			names = append(names, fmt.Sprintf("%s (of a %s)", key, on))
		}
	}
	slices.Sort(names)
	return names
}

func isFactOf(k kind, key string) bool {
	ordered, others := factsOf(k)
	is := func(f fact) bool { return f.key == key }
	return slices.ContainsFunc(ordered, is) || slices.ContainsFunc(others, is)
}

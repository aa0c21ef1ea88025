package classify

import "github.com/otelllm/otelllm-go/semconv"

// confidence returns how certain the verdict is. Low confidence never yields an automatic
// retry; a guard ensures that.
func (k *risk) confidence() semconv.Confidence {
	switch {
	case k.cause == semconv.CauseProcessDied: // that it died, not what it left behind
		if k.basis == Typed {
			return semconv.ConfidenceHigh
		}
		return semconv.ConfidenceMedium
	case k.basis == Inferred, k.class == semconv.ClassUnclassified, k.class == semconv.ClassRunAbandoned, k.cause == semconv.CauseUnknownEnd,
		k.class == semconv.ClassLocalAbort && k.cause == semconv.CauseUnknown: // who stopped it, or why, was not said
		return semconv.ConfidenceLow
	case k.basis == Typed && k.observed():
		return semconv.ConfidenceHigh
	default:
		return semconv.ConfidenceMedium
	}
}

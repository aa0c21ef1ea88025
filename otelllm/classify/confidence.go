package classify

import "github.com/otelllm/otelllm-go/semconv"

// confidence says how sure the verdict may be. Low never yields an automatic
// retry; a guard sees to that.
func (k *risk) confidence() semconv.Confidence {
	switch {
	case k.basis == Inferred, k.class == semconv.ClassUnclassified, k.class == semconv.ClassRunAbandoned:
		return semconv.ConfidenceLow
	case k.basis == Typed && k.observed():
		return semconv.ConfidenceHigh
	default:
		return semconv.ConfidenceMedium
	}
}

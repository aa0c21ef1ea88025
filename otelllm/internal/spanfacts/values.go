package spanfacts

import (
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/redact"
	"github.com/otelllm/otelllm-go/semconv"
)

// MaxString bounds every string on a span, in bytes.
const MaxString = redact.MaxLabel

// Bound returns a name that the application's author chose in a form that may be recorded:
// at most 256 bytes of valid UTF-8, or "redacted" if it looks like a credential.
func Bound(s string) string { return redact.Label(s) }

func appendString(dst []attribute.KeyValue, key attribute.Key, s string) []attribute.KeyValue {
	if s == "" {
		return dst
	}
	return append(dst, key.String(s))
}

// appendList appends a list; nil means not observed.
func appendList(dst []attribute.KeyValue, key attribute.Key, list []string) []attribute.KeyValue {
	if list == nil {
		return dst
	}
	return append(dst, key.StringSlice(list))
}

func appendFact(dst []attribute.KeyValue, key attribute.Key, f classify.Fact) []attribute.KeyValue {
	if f == classify.NotObserved {
		return dst
	}
	return append(dst, key.Bool(f == classify.Yes))
}

func appendCount(dst []attribute.KeyValue, key attribute.Key, c classify.Count) []attribute.KeyValue {
	if !c.Observed() {
		return dst
	}
	return append(dst, key.Int(c.N()))
}

func appendSeconds(dst []attribute.KeyValue, key attribute.Key, d time.Duration) []attribute.KeyValue {
	if d <= 0 {
		return dst
	}
	return append(dst, key.Float64(d.Seconds()))
}

func appendAbort(dst []attribute.KeyValue, a classify.Abort) []attribute.KeyValue {
	if a.Source == semconv.AbortSourceUnset {
		return dst
	}
	dst = append(dst, semconv.AbortSourceAttr(a.Source))
	return appendString(dst, semconv.AbortReasonKey, a.Reason)
}

package report

import (
	"slices"

	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// textErrors are the types of Go's errors that are nothing but text: a name of which says nothing
// about the failure.
var textErrors = []string{"*errors.errorString", "*errors.joinError", "*fmt.wrapError", "*fmt.wrapErrors"}

// nameErrors replaces, in the attributes of a record, the names of errors that are nothing but
// text: error.type by what the conventions write for an error without a name, or by the
// transport's cause.
func nameErrors(attrs map[string]any) {
	typeKey, chainKey := string(otelsemconv.ErrorTypeKey), string(semconv.TransportErrorChainKey)
	if name, ok := attrs[typeKey].(string); ok && slices.Contains(textErrors, name) {
		attrs[typeKey] = otelsemconv.ErrorTypeOther.Value.AsString()
		if cause, ok := attrs[string(semconv.TransportCauseKey)]; ok {
			attrs[typeKey] = cause
		}
	}
	chain, ok := attrs[chainKey].([]any)
	if !ok {
		return
	}
	named := slices.DeleteFunc(slices.Clone(chain), func(v any) bool {
		name, _ := v.(string)
		return slices.Contains(textErrors, name)
	})
	if len(named) == 0 {
		delete(attrs, chainKey)
		return
	}
	attrs[chainKey] = named
}

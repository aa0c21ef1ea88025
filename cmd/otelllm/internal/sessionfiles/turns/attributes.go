package turns

import (
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/engine"
	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// maxIDs bounds a list of ids.
const maxIDs = classify.MaxIDs

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func nameOf(operation, of string) string {
	if of == "" {
		return operation
	}
	return operation + " " + of
}

// fail marks a span as failed.
func fail(span ptrace.Span, errorType string) {
	span.Status().SetCode(ptrace.StatusCodeError)
	if errorType == "" {
		errorType = "_OTHER"
	}
	put(span, otelsemconv.ErrorTypeKey.String(errorType))
}

// putIDs writes the ids of calls, the newest if there are too many; an empty list for none.
func putIDs(span ptrace.Span, key attribute.Key, calls []*Call) {
	ids := make([]string, 0, min(len(calls), maxIDs))
	for _, c := range calls[max(0, len(calls)-maxIDs):] {
		if c.ID != "" {
			ids = append(ids, c.ID)
		}
	}
	put(span, key.StringSlice(ids))
}

func putText(span ptrace.Span, key attribute.Key, value string) {
	if value != "" {
		put(span, key.String(value))
	}
}

func put(span ptrace.Span, kv attribute.KeyValue) {
	engine.PutAttributes(span.Attributes(), []attribute.KeyValue{kv})
}

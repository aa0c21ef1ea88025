package incident

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// telling lists the attributes that show how a span ended.
var telling = []attribute.Key{
	otelsemconv.HTTPResponseStatusCodeKey, otelsemconv.ErrorTypeKey,
	otelsemconv.GenAIResponseFinishReasonsKey, "anthropic.message.stop_reason",
}

// Lines prints spans unchanged, one line each, children under their parents: the status
// with its description, and the attributes that show how the span ended.
func Lines(spans []tracetest.SpanStub) []string {
	children := make(map[trace.SpanID][]tracetest.SpanStub)
	known := make(map[trace.SpanID]bool)
	for _, s := range spans {
		known[s.SpanContext.SpanID()] = true
	}
	for _, s := range spans {
		parent := s.Parent.SpanID()
		if !known[parent] {
			parent = trace.SpanID{}
		}
		children[parent] = append(children[parent], s)
	}
	var lines []string
	var walk func(id trace.SpanID, depth int)
	walk = func(id trace.SpanID, depth int) {
		of := children[id]
		slices.SortStableFunc(of, func(a, b tracetest.SpanStub) int {
			return cmp.Or(a.StartTime.Compare(b.StartTime), b.EndTime.Compare(a.EndTime))
		})
		for _, s := range of {
			lines = append(lines, strings.Repeat("  ", depth)+line(&s))
			walk(s.SpanContext.SpanID(), depth+1)
		}
	}
	walk(trace.SpanID{}, 0)
	return lines
}

func line(s *tracetest.SpanStub) string {
	words := []string{s.Name}
	switch s.Status.Code {
	case codes.Error:
		words = append(words, "ERROR")
	case codes.Ok:
		words = append(words, "OK")
	default:
		words = append(words, "unset")
	}
	if s.Status.Description != "" {
		words = append(words, fmt.Sprintf("%q", s.Status.Description))
	}
	for _, key := range telling {
		for _, kv := range s.Attributes {
			if kv.Key == key {
				words = append(words, string(key)+"="+kv.Value.String())
			}
		}
	}
	for _, e := range s.Events {
		if e.Name != otelsemconv.ExceptionEventName {
			continue
		}
		for _, kv := range e.Attributes {
			if kv.Key == otelsemconv.ExceptionTypeKey || kv.Key == otelsemconv.ExceptionMessageKey && kv.Value.AsString() != s.Status.Description {
				words = append(words, string(kv.Key)+"="+kv.Value.String())
			}
		}
	}
	return strings.Join(words, "  ")
}

package report

import (
	"fmt"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// NextStep returns in words what the verdict on a span means for a retry, or "" if it has
// none.
func (s *Span) NextStep() string {
	after := ""
	if d := s.RetryAfter(); d > 0 {
		after = fmt.Sprintf(", %s after the failure", d.Round(time.Millisecond))
	}
	switch s.Verdict.Safety {
	case semconv.RetrySafetySafeAutoRetry:
		return "retry automatically" + after
	case semconv.RetrySafetyUserConfirmedRetry:
		return "ask a person before retrying" + after
	case semconv.RetrySafetyNoRetry:
		return "do not retry it as it is"
	default:
		return ""
	}
}

// Agent returns the name of the agent, or "".
func (s *Span) Agent() string { return s.text(otelsemconv.GenAIAgentNameKey) }

// Model returns the model that was asked for, or else the one that answered, or "".
func (s *Span) Model() string {
	if model := s.text(otelsemconv.GenAIRequestModelKey); model != "" {
		return model
	}
	return s.text(otelsemconv.GenAIResponseModelKey)
}

// RequestID returns the provider's own id for the request, or "".
func (s *Span) RequestID() string { return s.text(semconv.RequestIDKey) }

func (s *Span) text(key attribute.Key) string {
	if v, ok := s.Attributes.Get(string(key)); ok && v.Type() == pcommon.ValueTypeStr {
		return v.Str()
	}
	return ""
}

// Decisive returns the request that a reader looks at first: the last one that failed, else
// the last one. It returns nil for a run without requests.
func (r *Run) Decisive() *Span {
	for i := len(r.Requests) - 1; i >= 0; i-- {
		if r.Requests[i].Verdict.Failed() {
			return &r.Requests[i]
		}
	}
	if n := len(r.Requests); n > 0 {
		return &r.Requests[n-1]
	}
	return nil
}

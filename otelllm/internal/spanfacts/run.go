package spanfacts

import (
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// RunStart returns the attributes of a run's span that are known when it starts.
func RunStart(agent, conversationID string, inferred bool) []attribute.KeyValue {
	dst := append(make([]attribute.KeyValue, 0, 8), otelsemconv.GenAIOperationNameInvokeAgent)
	dst = appendString(dst, otelsemconv.GenAIAgentNameKey, agent)
	if inferred {
		dst = append(dst, semconv.RunInferred(true))
	}
	return appendString(dst, otelsemconv.GenAIConversationIDKey, conversationID)
}

// RunEnd returns the attributes that the end of a run adds to its span.
func RunEnd(r *classify.Run) []attribute.KeyValue {
	dst := appendCount(make([]attribute.KeyValue, 0, 8), semconv.RunRequestsKey, r.AnnouncedRequests)
	dst = appendCount(dst, semconv.RunToolsKey, r.AnnouncedTools)
	if r.EndedBy != semconv.RunEndUnset {
		dst = append(dst, semconv.RunEndAttr(r.EndedBy))
	}
	if r.Previous != semconv.RunPreviousUnset {
		dst = append(dst, semconv.RunPreviousAttr(r.Previous))
	}
	dst = appendString(dst, otelsemconv.ErrorTypeKey, r.ErrorType)
	return appendAbort(dst, r.Abort)
}

// ToolStart returns the attributes of a tool's span that are known when it starts.
func ToolStart(t *classify.Tool, runID string) []attribute.KeyValue {
	dst := append(make([]attribute.KeyValue, 0, 12),
		otelsemconv.GenAIOperationNameExecuteTool,
		otelsemconv.GenAIToolName(t.Name),
		otelsemconv.GenAIToolType("function"),
		semconv.ToolEffectAttr(t.Effect),
	)
	dst = appendString(dst, otelsemconv.GenAIToolCallIDKey, t.CallID)
	if t.FromHistory {
		dst = append(dst, semconv.ToolObservedAttr(semconv.ToolObservedHistory))
	}
	return appendString(dst, semconv.RunIDKey, runID)
}

// ToolEnd returns the attributes that the end of a tool adds to its span.
func ToolEnd(t *classify.Tool) []attribute.KeyValue {
	dst := make([]attribute.KeyValue, 0, 8)
	if t.Outcome != semconv.ToolOutcomeUnset {
		dst = append(dst, semconv.ToolOutcomeAttr(t.Outcome))
	}
	if t.FailedBeforeEffect {
		dst = append(dst, semconv.ToolFailedBeforeEffect(true))
	}
	dst = appendString(dst, otelsemconv.ErrorTypeKey, t.ErrorType)
	if t.Delivery != semconv.OutputDeliveryUnset {
		dst = append(dst, semconv.ToolOutputDelivery(t.Delivery))
	}
	dst = appendString(dst, semconv.ToolOutputErrorKey, t.DeliveryError)
	return appendAbort(dst, t.Abort)
}

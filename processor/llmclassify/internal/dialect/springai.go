package dialect

import (
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// Spring AI records through Micrometer, whose values are all strings: the finish reasons are
// JSON, the tokens are numerals, gen_ai.request.stream is "true". Its scope is that of the
// tracer of the application. A failure is ERROR with an exception event. What was received is
// recorded when a response came to its end, also to one without a finish reason; of a
// stream that is no longer read it is missing, and the status is UNSET. Tokens that were not
// counted are zeros. A tool has the key of its call under a name of Spring's. There is no
// span of a run: the operation of its ChatClient is "framework". Written from
// spring-projects/spring-ai 2.0.1 (DefaultChatModelObservationConvention,
// DefaultToolCallingObservationConvention, OpenAiChatModel).

// Keys of Spring AI on tools.
const (
	keySpringToolID   = "spring.ai.tool.call.id"
	keySpringToolName = "spring.ai.tool.definition.name"
)

// springEnding is what Spring AI alone records of a request.
type springEnding struct{ streamed, counted bool }

// read reads an attribute that only Spring AI writes as a string, and reports whether it is
// one.
func (s *springEnding) read(key string, v pcommon.Value, e *ending) bool {
	if v.Type() != pcommon.ValueTypeStr {
		return false
	}
	switch key {
	case string(otelsemconv.GenAIRequestStreamKey):
		s.streamed = v.Str() == "true"
		e.streamed = e.streamed || s.streamed
	case string(otelsemconv.GenAIUsageInputTokensKey):
		s.counted, e.input = true, numeral(v.Str())
	case string(otelsemconv.GenAIUsageOutputTokensKey):
		s.counted, e.output = true, numeral(v.Str())
	default:
		return false
	}
	return true
}

// cancelled reports whether nothing of a response is recorded of a stream.
func (s *springEnding) cancelled(e *ending) bool {
	return s.streamed && !s.counted && !e.responded && e.reasons == nil
}

// numeral is a count that is recorded as a string.
func numeral(s string) classify.Count {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0
	}
	return classify.Counted(int(n))
}

// springTool adds to the facts of a tool what Spring AI records under names of its own.
func springTool(span ptrace.Span, t *classify.Tool) {
	if t.CallID == "" {
		if v, ok := span.Attributes().Get(keySpringToolID); ok {
			t.CallID = id(v)
		}
	}
	if t.Name == "" {
		if v, ok := span.Attributes().Get(keySpringToolName); ok {
			t.Name = text(v)
		}
	}
}

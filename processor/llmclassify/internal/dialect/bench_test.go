package dialect

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// benchShapes are spans of every kind that a Collector meets, with 20 attributes.
func benchShapes() map[string]shape {
	own := shape{attrs: map[string]any{"gen_ai.operation.name": "chat", "llm.stream.end": "terminal_event", "llm.stream.phase": "stream_end"}}
	shapes := map[string]shape{
		"other":         {attrs: map[string]any{"db.system": "redis"}},
		"http":          undici(200, ""),
		"otelllm":       own,
		"gen_ai":        python("openai.RateLimitError", ""),
		"anthropic":     native(sdkGo, statusOK, map[string]any{"anthropic.message.stop_reason": "end_turn"}),
		"vercel_ai":     vercel6("ai.streamText.doStream", statusUnset, vercelFinish("stop")),
		"vercel_ai_v7":  vercel7("chat", statusUnset, map[string]any{"gen_ai.response.finish_reasons": []any{"stop"}}),
		"openinference": arize(oiOpenAI, "LLM", statusOK, map[string]any{"llm.finish_reason": "stop"}),
		"openai_agents": arize(oiAgents, "LLM", statusOK, map[string]any{"llm.token_count.total": 3}),
		"openllmetry":   traceloop("", statusOK, map[string]any{"llm.request.type": "chat", "gen_ai.completion.0.finish_reason": "stop"}),
		"openai_js":     openAIJS(statusUnset, map[string]any{"gen_ai.response.finish_reasons": []any{"stop"}}),
		"go_compile":    otelc(statusUnset, "", map[string]any{"gen_ai.response.finish_reasons": []any{"stop"}}),
	}
	for _, s := range shapes {
		for i := len(s.attrs); i < 20; i++ {
			s.attrs[fmt.Sprintf("app.attribute.%d", i)] = "a value as long as most of them"
		}
	}
	return shapes
}

// BenchmarkRecognise is the cost of telling a span, beside that of looking at every
// attribute once for nothing (pass).
func BenchmarkRecognise(b *testing.B) {
	for name, s := range benchShapes() {
		span, in := s.span(b), Default().In(s.scope)
		b.Run(name+"/pass", func(b *testing.B) {
			n := 0
			for b.Loop() {
				n += pass(span)
			}
			if n < 0 {
				b.Fatal()
			}
		})
		b.Run(name+"/recognise", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				in.Recognise(span)
			}
		})
	}
}

func pass(span ptrace.Span) (n int) {
	for key := range span.Attributes().All() {
		n += len(key)
	}
	return n
}

// BenchmarkRead is the cost of reading the facts of a request, once for each.
func BenchmarkRead(b *testing.B) {
	for name, s := range benchShapes() {
		span := s.span(b)
		head, d := Default().In(s.scope).Recognise(span)
		if d == nil {
			continue
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := Reading{Dialect: d}
				r.Facts(span, head.Kind)
			}
		})
	}
}

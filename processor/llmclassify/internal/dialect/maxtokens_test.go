package dialect

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// A request for one token that reached its limit is no failure, by any producer.
func TestMaxTokensOfProbes(t *testing.T) {
	type m = map[string]any
	limited := m{"gen_ai.response.finish_reasons": []any{"length"}, "gen_ai.usage.output_tokens": 1}
	with := func(attrs ...m) m {
		all := m{}
		for _, a := range attrs {
			maps.Copy(all, a)
		}
		return all
	}
	for _, tt := range []struct {
		name string
		shape
		want semconv.Class
	}{
		{"one token", adkCall(statusUnset, with(limited, m{"gen_ai.request.max_tokens": 1})), semconv.ClassUnset},
		{"two tokens", adkCall(statusUnset, with(limited, m{"gen_ai.request.max_tokens": 2})), semconv.ClassOutputLimited},
		{"not known how many", adkCall(statusUnset, limited), semconv.ClassOutputLimited},
		{"one token of OpenInference", arize(oiMessages, "LLM", statusOK, m{"llm.finish_reason": "length", "llm.token_count.completion": 1, "llm.invocation_parameters": `{"max_completion_tokens":1}`}), semconv.ClassUnset},
		{"many tokens of OpenInference", arize(oiMessages, "LLM", statusOK, m{"llm.finish_reason": "length", "llm.token_count.completion": 1, "llm.invocation_parameters": `{"max_tokens":1024}`}), semconv.ClassOutputLimited},
	} {
		_, _, facts := tt.read(t)
		v := classify.Judge(&classify.Run{Requests: []classify.Request{*facts.Request}})
		assert.Equal(t, tt.want, v.Requests[0].Class, tt.name)
	}
}

package dialect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// vLLM writes one span for each request that its engine finished, and nothing of how the
// client fared.
func TestVLLM(t *testing.T) {
	for _, scope := range []string{"vllm.llm_engine", "vllm.tracing.otel", "vllm.foundation.observability.tracing.otel"} {
		request := shape{scope: scope, name: "llm_request", kind: ptrace.SpanKindServer, attrs: map[string]any{
			"gen_ai.latency.time_to_first_token": 0.1, "gen_ai.latency.e2e": 1.5, "gen_ai.latency.time_in_queue": 0.01, "gen_ai.usage.prompt_tokens": 12,
			"gen_ai.usage.completion_tokens": 6, "gen_ai.request.id": "chatcmpl-1", "gen_ai.request.max_tokens": 64,
		}}
		head, d, facts := request.read(t)
		assert.Equal(t, Request, head.Kind)
		assert.Equal(t, VLLM{}, d)
		assert.Equal(t, &classify.Request{Start: start, End: end, Phase: semconv.PhaseUnknown}, facts.Request, "nothing is claimed")
		checkVerdict(t, facts.Request, unknown, []truth{success, limited, cut, stopped})
	}
	for _, s := range []shape{{scope: "vllm.v1.engine", name: "load_model"}, {scope: "my-server", name: "llm_request"}} {
		head, _, _ := s.read(t)
		assert.Equal(t, Head{}, head)
	}
}

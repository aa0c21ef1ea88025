package dialect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNewSet(t *testing.T) {
	s := vercel6("ai.streamText.doStream", statusUnset, map[string]any{"gen_ai.operation.name": "chat"})
	span := s.span(t)
	for _, c := range []struct {
		names []string
		by    Dialect
	}{
		{nil, Vercel{}},
		{[]string{"gen_ai", "vercel_ai"}, Vercel{}},
		{[]string{"vercel_ai", "gen_ai"}, Vercel{}},
		{[]string{"gen_ai"}, GenAI{}},
		{[]string{"openinference", "otelllm"}, nil},
	} {
		set, err := NewSet(c.names...)
		require.NoError(t, err)
		_, by := set.In(s.scope).Recognise(span)
		assert.Equal(t, c.by, by, c.names)
	}
	set, err := NewSet(Names()...)
	require.NoError(t, err)
	assert.Equal(t, Default(), set)

	_, err = NewSet("gen_ai", "langfuse")
	require.EqualError(t, err, `unknown dialect "langfuse": must be one of otelllm, anthropic, opencode, codex, claude_code, gemini_cli, qwen_code, google_adk, vllm, ebpf, vercel_ai, openai_agents, vercel_ai_v7, openinference, openllmetry, openai_js, go_compile, gen_ai`)
	_, err = NewSet("gen_ai", "gen_ai")
	require.EqualError(t, err, `duplicate dialect "gen_ai"`)
}

func TestScopes(t *testing.T) {
	for name, want := range map[string]scope{
		"": scopeUnknown, "gen_ai": scopeVercel7, "gen_ai.x": scopeUnknown, "ai": scopeUnknown,
		"com.anthropic.sdk.go": scopeAnthropicGo, "com.anthropic.sdk.go.bedrock": scopeAnthropicGo, "com.anthropic.sdk.typescript": scopeAnthropicTS,
		"com.anthropic.sdk.python": scopeAnthropicSDK, "com.anthropic.sdk.cli": scopeAnthropicSDK, "com.anthropic.claude-platform": scopeAnthropicAPI,
		"pydantic-ai": scopePydanticAI, "pydantic-ai.x": scopeUnknown, "strands.telemetry.tracer": scopeStrands, "gcp.vertex.agent": scopeADK,
		"vllm.llm_engine": scopeVLLM, "vllm.tracing.otel": scopeVLLM,
		oiAgents: scopeOpenAIAgents, oiOpenAI: scopeOpenInference, "openinference.instrumentation.openai": scopeOpenInference, oiGo: scopeOpenInference,
		pythonAgents: scopePythonAgents,
		traceloopJS:  scopeOpenLLMetryJS, traceloopPython: scopeOpenLLMetryPython, "opentelemetry.instrumentation.openai_v2": scopePython,
		"@opentelemetry/instrumentation-openai": scopeOpenAIJS,
		"codex_exec":                            scopeCodex, "codex_cli_rs": scopeCodex, "gemini-cli": scopeGeminiCLI, "gemini-cli-core": scopeUnknown, "qwen-code": scopeQwenCode,
		"com.anthropic.claude_code.tracing": scopeClaudeCode, "com.anthropic.claude_code.traces": scopeClaudeCode,
		"go.opentelemetry.io/otelc/instrumentation/github.com/openai/openai-go/v3": scopeGoCompile,
	} {
		assert.Equal(t, want, scopeOf(name), name)
	}
}

// Every dialect is found by its name, and none reads a span that says nothing.
func TestNoDialectClaimsAnything(t *testing.T) {
	for _, d := range all {
		set, err := NewSet(d.Name())
		require.NoError(t, err)
		for _, in := range scopes {
			for _, attrs := range []map[string]any{
				nil,
				{"db.system": "redis"},
				{"gen_ai.operation.name": "embeddings"},
				{"gen_ai.operation.name": 1},
				{"gen_ai.system": "openai"},
				{"openinference.span.kind": true},
				{"ai.operationId": "ai.embed"},
				{"traceloop.span.kind": "task"},
				{"llm.is_streaming": true},
			} {
				s := shape{scope: in.name, attrs: attrs}
				head, by := set.In(in.name).Recognise(s.span(t))
				assert.Equal(t, Head{}, head, "%s under %s: %v", d.Name(), in.name, attrs)
				assert.Nil(t, by)
			}
		}
	}
}

package otelllm

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestInstrumentationShutdown checks that Shutdown of an Instrumentation ends what its own
// methods began, and nothing else.
func TestInstrumentationShutdown(t *testing.T) {
	endLeftovers(t)
	r := newRecorder(t)
	one, other := New(WithTracerProvider(r)), New(WithTracerProvider(r))
	ctx, _ := one.StartRun(t.Context(), "one")
	StartTool(ctx, ToolCall{Name: "of_its_run"})
	_, outside := one.StartTool(t.Context(), ToolCall{Name: "of_no_run"})
	defer outside.End(nil) // Shutdown does not end a tool that the application has lost
	otherCtx, _ := other.StartRun(t.Context(), "other")
	globalCtx, _ := StartRun(t.Context(), "global", WithTracerProvider(r))

	require.NoError(t, one.Shutdown(t.Context()))
	for _, name := range []string{"invoke_agent one", "execute_tool of_its_run", "execute_tool of_no_run"} {
		spans := r.named(name)
		if assert.Len(t, spans, 1, name) {
			assert.Equal(t, "shutdown", spans[0].get("llm.abort.source"), name)
		}
	}
	assert.Empty(t, r.named("invoke_agent other"))
	assert.Empty(t, r.named("invoke_agent global"))

	StartTool(otherCtx, ToolCall{Name: "of_the_other"})
	StartTool(globalCtx, ToolCall{Name: "of_the_global_one"})
	require.NoError(t, Shutdown(t.Context()))
	assert.Len(t, r.named("invoke_agent global"), 1)
	assert.Len(t, r.named("execute_tool of_the_global_one"), 1)
	assert.Empty(t, r.named("invoke_agent other"))
	require.NoError(t, other.Shutdown(t.Context()))
	assert.Len(t, r.named("execute_tool of_the_other"), 1)
}

// TestInstrumentationOptions checks that an Instrumentation's options apply to everything
// that it records, and that the options of a method override them.
func TestInstrumentationOptions(t *testing.T) {
	everywhere, elsewhere := newRecorder(t), newRecorder(t)
	i := New(WithTracerProvider(everywhere), WithoutEvents(), WithVerdicts(), WithProviderName("acme"), nil)
	url := scriptedServer(t, sseHead+firstText, nil) + chatPath
	for _, rt := range []http.RoundTripper{i.NewTransport(base(t)), i.NewTransport(base(t), WithTracerProvider(elsewhere), WithProviderName("other"), nil)} {
		_, err := call(t.Context(), rt, url, chatBody)
		require.NoError(t, err)
	}
	for provider, r := range map[string]*recorder{"acme": everywhere, "other": elsewhere} {
		s := r.only(t)
		assert.Equal(t, provider, s.get("gen_ai.provider.name"))
		assert.Empty(t, s.Events())
		assert.NotNil(t, s.get("llm.failure.class"), "verdicts")
	}
	_, run := i.StartRun(t.Context(), "coder")
	run.End(nil)
	assert.Equal(t, "succeeded", everywhere.named("invoke_agent coder")[0].get("llm.run.outcome"))
}

package main

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/examples/internal/otlptest"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

func TestTheExample(t *testing.T) {
	calls := []faultyllm.Step{faultyllm.ToolCall("call_1", "get_weather", `{"city":`, `"Oslo"}`), faultyllm.Finish(faultyllm.ToolCalls)}
	asks := faultyllm.Answer(calls...)
	answers := faultyllm.Answer(faultyllm.Text("It will ", "snow."), faultyllm.Finish(faultyllm.Stop))
	broke := errors.New("station 7 is down")
	for _, tt := range []struct {
		name     string
		script   []faultyllm.Exchange
		breaks   bool // the tool breaks the session
		says     []string
		fails    bool
		tool     map[string]any
		requests []map[string]any
	}{
		{
			"whole",
			[]faultyllm.Exchange{asks, answers},
			false,
			[]string{"It will snow."},
			false,
			map[string]any{"llm.tool.outcome": "succeeded", "llm.tool.output_delivery": "sent"},
			[]map[string]any{
				{"llm.stream.end": "terminal_event", "llm.stream.tool_call_ids": []any{"call_1"}, "llm.history.tool_outputs": []any{}},
				{"llm.stream.end": "terminal_event", "llm.stream.text_chunks": int64(2), "llm.history.tool_calls": []any{"call_1"}, "llm.history.tool_outputs": []any{"call_1"}},
			},
		},
		{
			"the tool fails, and the model learns of it",
			[]faultyllm.Exchange{asks, answers},
			true,
			[]string{"It will snow."},
			false,
			map[string]any{"llm.tool.outcome": "failed", "llm.tool.output_delivery": "sent", "error.type": "*errors.errorString"},
			[]map[string]any{{"llm.stream.end": "terminal_event"}, {"llm.history.tool_outputs": []any{"call_1"}}},
		},
		{
			"the tool fails, and the model cannot learn of it",
			[]faultyllm.Exchange{faultyllm.Answer(append(calls, faultyllm.Reset())...)},
			true,
			[]string{"safe_auto_retry: read_only_tools_only"},
			true,
			map[string]any{"llm.tool.outcome": "failed", "llm.tool.output_delivery": "failed", "error.type": "*errors.errorString"},
			[]map[string]any{{"llm.stream.end": "terminal_event"}},
		},
		{
			"cut in a call",
			[]faultyllm.Exchange{faultyllm.Answer(faultyllm.Text("I look. "), faultyllm.ToolInput("call_1", "get_weather", `{"ci`), faultyllm.Reset())},
			false,
			[]string{"I look. ", "user_confirmed_retry: visible_output"},
			true, nil,
			[]map[string]any{{"llm.stream.end": "read_error", "llm.stream.phase": "tool_input", "llm.transport.cause": "connection_reset", "llm.stream.open_tool_call_ids": []any{"call_1"}}},
		},
		{
			"closed in the answer",
			[]faultyllm.Exchange{asks, faultyllm.Answer(faultyllm.Text("It will "), faultyllm.CleanEnd())},
			false,
			[]string{"It will ", "user_confirmed_retry: visible_output"},
			true,
			map[string]any{"llm.tool.output_delivery": "sent"},
			[]map[string]any{{"llm.stream.end": "terminal_event"}, {"llm.stream.end": "read_error", "llm.transport.cause": "clean_eof", "llm.transport.code": "WS_1000"}},
		},
		{
			"the response fails",
			[]faultyllm.Exchange{faultyllm.Answer(faultyllm.InBand(faultyllm.Failure{Trouble: faultyllm.RateLimited}))},
			false,
			nil, true, nil,
			[]map[string]any{{"llm.provider_error.kind": "rate_limited", "llm.provider_error.in_band": true}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv, err := faultyllm.Start()
			require.NoError(t, err)
			defer func() { assert.NoError(t, srv.Close()) }()
			srv.Play("c", tt.script...)
			spans := otlptest.Start(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", spans.URL)
			t.Setenv("OPENAI_BASE_URL", srv.BaseURL("c", faultyllm.Realtime))
			t.Setenv("OPENAI_API_KEY", "sk-none")

			weather := func(ctx context.Context, arguments string) (string, error) {
				if !tt.breaks {
					return forecast(ctx, arguments)
				}
				// The server's reaction to the call comes first.
				if err := srv.Await(ctx, "c", 1); err != nil {
					return "", err
				}
				return "", broke
			}
			var out bytes.Buffer
			err = ask(t.Context(), &out, weather, "Will it snow in Oslo?")
			assert.Equal(t, tt.fails, err != nil, "%v", err)
			for _, words := range tt.says {
				assert.Contains(t, out.String(), words)
			}
			requests := spans.Named("chat gpt-realtime")
			require.Len(t, requests, len(tt.requests))
			for i, want := range tt.requests {
				contains(t, want, requests[i].Attributes)
			}
			tools := spans.Named("execute_tool get_weather")
			if tt.tool == nil {
				assert.Empty(t, tools)
			} else if assert.Len(t, tools, 1) {
				contains(t, tt.tool, tools[0].Attributes)
			}
			assert.Len(t, spans.Named("invoke_agent example"), 1)
		})
	}
}

func contains(t *testing.T, want, got map[string]any) {
	t.Helper()
	for key, value := range want {
		assert.Equal(t, value, got[key], key)
	}
}

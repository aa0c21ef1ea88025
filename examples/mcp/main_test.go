package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/examples/internal/otlptest"
	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// serve starts an MCP server whose tools have every kind of annotation. One of them
// fails, and one breaks the connection of its caller.
func serve(t *testing.T) *httptest.Server {
	t.Helper()
	yes, no := true, false
	server := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1.0.0"}, nil)
	type input struct {
		City string `json:"city"`
	}
	add := func(name string, a *mcp.ToolAnnotations, does func() error) {
		mcp.AddTool(server, &mcp.Tool{Name: name, Description: "Does it.", Annotations: a},
			func(context.Context, *mcp.CallToolRequest, input) (*mcp.CallToolResult, any, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, does()
			})
	}
	var srv *httptest.Server
	well := func() error { return nil }
	add("forecast", &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &yes}, well)
	add("set_alarm", &mcp.ToolAnnotations{IdempotentHint: true, DestructiveHint: &yes}, well)
	add("send_mail", &mcp.ToolAnnotations{OpenWorldHint: &yes}, well)
	add("delete_note", &mcp.ToolAnnotations{DestructiveHint: &yes}, well)
	add("add_note", &mcp.ToolAnnotations{DestructiveHint: &no, Title: "Add a note"}, well)
	add("plain", nil, well)
	add("fail", &mcp.ToolAnnotations{ReadOnlyHint: true}, func() error { return errors.New("no such city") })
	add("vanish", &mcp.ToolAnnotations{DestructiveHint: &yes}, func() error {
		srv.CloseClientConnections()
		return nil
	})
	srv = httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(srv.Close)
	return srv
}

// The model calls a tool, and the request with its output is cut before any answer:
// whether the run may be repeated depends on what the tool may have done.
func TestVerdictDependsOnAnnotations(t *testing.T) {
	reset := faultyllm.Answer(faultyllm.Begin(), faultyllm.Reset())
	well := faultyllm.Answer(faultyllm.Text("Done."), faultyllm.Finish(faultyllm.Stop))
	for _, tc := range []struct {
		tool    string
		next    faultyllm.Exchange
		effect  semconv.ToolEffect
		outcome semconv.ToolOutcome
		says    string
		error   bool
	}{
		{"forecast", reset, otelllm.EffectReadOnly, semconv.ToolOutcomeSucceeded, "(safe_auto_retry: read_only_tools_only)", true},
		{"set_alarm", reset, otelllm.EffectIdempotent, semconv.ToolOutcomeSucceeded, "(safe_auto_retry: idempotent_tools_only)", true},
		{"send_mail", reset, otelllm.EffectNonIdempotent, semconv.ToolOutcomeSucceeded, "(user_confirmed_retry: tool_side_effect)", true},
		{"delete_note", reset, otelllm.EffectNonIdempotent, semconv.ToolOutcomeSucceeded, "(user_confirmed_retry: tool_side_effect)", true},
		{"add_note", reset, semconv.ToolEffectUnknown, semconv.ToolOutcomeSucceeded, "(user_confirmed_retry: tool_state_unknown)", true},
		{"plain", reset, semconv.ToolEffectUnknown, semconv.ToolOutcomeSucceeded, "(user_confirmed_retry: tool_state_unknown)", true},
		{"plain", well, semconv.ToolEffectUnknown, semconv.ToolOutcomeSucceeded, "Done.", false},
		{"fail", well, otelllm.EffectReadOnly, semconv.ToolOutcomeFailed, "Done.", false},
		{"invented", well, semconv.ToolEffectUnknown, semconv.ToolOutcomeInvalidInput, "Done.", false},
		{"vanish", well, otelllm.EffectNonIdempotent, semconv.ToolOutcomeFailed, "(user_confirmed_retry: tool_side_effect)", true},
	} {
		t.Run(tc.tool, func(t *testing.T) {
			srv, err := faultyllm.Start()
			require.NoError(t, err)
			defer func() { assert.NoError(t, srv.Close()) }()
			srv.Play("c", faultyllm.Answer(faultyllm.ToolCall("call_1", tc.tool, `{"city":"Oslo"}`), faultyllm.Finish(faultyllm.ToolCalls)), tc.next)
			spans := otlptest.Start(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", spans.URL)
			t.Setenv("OPENAI_API_KEY", "sk-none")
			t.Setenv("OPENAI_BASE_URL", srv.BaseURL("c", faultyllm.Chat))
			t.Setenv("MCP_URL", serve(t).URL)

			var out bytes.Buffer
			err = ask(t.Context(), &out, "Do it.")
			assert.Equal(t, tc.error, err != nil, "%v", err)
			assert.Contains(t, out.String(), tc.says)
			tools := spans.Named("execute_tool " + tc.tool)
			require.Len(t, tools, 1)
			for _, fact := range []struct{ key, want string }{
				{string(semconv.ToolEffectKey), tc.effect.String()}, {string(semconv.ToolOutcomeKey), tc.outcome.String()},
			} {
				assert.Equal(t, fact.want, tools[0].Attributes[fact.key], fact.key)
			}
		})
	}
}

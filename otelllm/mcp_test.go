package otelllm

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

// TestToolEffectFromMCP decodes annotations as an MCP server sends them. A hint that is
// false and one that is missing are the same.
func TestToolEffectFromMCP(t *testing.T) {
	for _, tt := range []struct {
		annotations string // "": the tool has none
		want        Effect
	}{
		{"", EffectUnknown},
		{`{}`, EffectUnknown},
		{`{"title":"Read a file"}`, EffectUnknown},
		{`{"readOnlyHint":true}`, EffectReadOnly},
		{`{"readOnlyHint":true,"destructiveHint":true}`, EffectReadOnly},
		{`{"readOnlyHint":true,"openWorldHint":true}`, EffectReadOnly},
		{`{"readOnlyHint":false}`, EffectUnknown},
		{`{"idempotentHint":true}`, EffectIdempotent},
		{`{"idempotentHint":true,"destructiveHint":true}`, EffectIdempotent},
		{`{"idempotentHint":false}`, EffectUnknown},
		{`{"destructiveHint":true}`, EffectNonIdempotent},
		{`{"destructiveHint":false}`, EffectUnknown},
		{`{"openWorldHint":true}`, EffectNonIdempotent},
		{`{"openWorldHint":false,"destructiveHint":false}`, EffectUnknown},
		{`{"openWorldHint":true,"destructiveHint":false}`, EffectNonIdempotent},
	} {
		var a *MCPAnnotations
		if tt.annotations != "" {
			require.NoError(t, json.Unmarshal([]byte(tt.annotations), &a))
		}
		assert.Equal(t, tt.want, ToolEffectFromMCP(a), tt.annotations)
	}
}

// toolAnnotations has the fields of mcp.ToolAnnotations, the type of the official Go SDK.
// Struct types are convertible if their fields are identical, tags aside.
type toolAnnotations struct {
	DestructiveHint *bool  `json:"destructiveHint,omitempty"`
	IdempotentHint  bool   `json:"idempotentHint,omitempty"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitempty"`
	ReadOnlyHint    bool   `json:"readOnlyHint,omitempty"`
	Title           string `json:"title,omitempty"`
}

func TestMCPAnnotationsConvert(t *testing.T) {
	yes := true
	a := &toolAnnotations{DestructiveHint: &yes, Title: "Delete"}
	assert.Equal(t, EffectNonIdempotent, ToolEffectFromMCP((*MCPAnnotations)(a)))
	assert.True(t, reflect.TypeFor[toolAnnotations]().ConvertibleTo(reflect.TypeFor[MCPAnnotations]()))
}

// The effect that the annotations declare is recorded on the tool's span.
func TestToolEffectFromMCPOnSpans(t *testing.T) {
	yes := true
	for effect, want := range map[Effect]string{
		ToolEffectFromMCP(nil):                                    "unknown",
		ToolEffectFromMCP(&MCPAnnotations{ReadOnlyHint: true}):    "read_only",
		ToolEffectFromMCP(&MCPAnnotations{IdempotentHint: true}):  "idempotent",
		ToolEffectFromMCP(&MCPAnnotations{DestructiveHint: &yes}): "non_idempotent",
	} {
		r := newRecorder(t)
		ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
		_, tool := StartTool(ctx, ToolCall{ID: "call_1", Name: "look", Effect: effect})
		tool.End(nil)
		run.End(nil)
		assert.Equal(t, want, r.named("execute_tool look")[0].get(semconv.ToolEffectKey))
	}
}

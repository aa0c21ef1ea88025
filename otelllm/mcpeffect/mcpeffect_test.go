package mcpeffect

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
	"github.com/otelllm/otelllm-go/semconv"
)

// TestOf decodes annotations as an MCP server sends them. A hint that is
// false and one that is missing are the same.
func TestOf(t *testing.T) {
	for _, tt := range []struct {
		annotations string // "": the tool has none
		want        otelllm.Effect
	}{
		{"", semconv.ToolEffectUnknown},
		{`{}`, semconv.ToolEffectUnknown},
		{`{"title":"Read a file"}`, semconv.ToolEffectUnknown},
		{`{"readOnlyHint":true}`, otelllm.EffectReadOnly},
		{`{"readOnlyHint":true,"destructiveHint":true}`, otelllm.EffectReadOnly},
		{`{"readOnlyHint":true,"openWorldHint":true}`, otelllm.EffectReadOnly},
		{`{"readOnlyHint":false}`, semconv.ToolEffectUnknown},
		{`{"idempotentHint":true}`, otelllm.EffectIdempotent},
		{`{"idempotentHint":true,"destructiveHint":true}`, otelllm.EffectIdempotent},
		{`{"idempotentHint":false}`, semconv.ToolEffectUnknown},
		{`{"destructiveHint":true}`, otelllm.EffectNonIdempotent},
		{`{"destructiveHint":false}`, semconv.ToolEffectUnknown},
		{`{"openWorldHint":true}`, otelllm.EffectNonIdempotent},
		{`{"openWorldHint":false,"destructiveHint":false}`, semconv.ToolEffectUnknown},
		{`{"openWorldHint":true,"destructiveHint":false}`, otelllm.EffectNonIdempotent},
	} {
		var a *Annotations
		if tt.annotations != "" {
			require.NoError(t, json.Unmarshal([]byte(tt.annotations), &a))
		}
		assert.Equal(t, tt.want, Of(a), tt.annotations)
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

func TestAnnotationsConvert(t *testing.T) {
	yes := true
	a := &toolAnnotations{DestructiveHint: &yes, Title: "Delete"}
	assert.Equal(t, otelllm.EffectNonIdempotent, Of((*Annotations)(a)))
	assert.True(t, reflect.TypeFor[toolAnnotations]().ConvertibleTo(reflect.TypeFor[Annotations]()))
}

// The effect that the annotations declare is recorded on the tool's span.
func TestOfOnSpans(t *testing.T) {
	yes := true
	for effect, want := range map[otelllm.Effect]string{
		Of(nil):                                 "unknown",
		Of(&Annotations{ReadOnlyHint: true}):    "read_only",
		Of(&Annotations{IdempotentHint: true}):  "idempotent",
		Of(&Annotations{DestructiveHint: &yes}): "non_idempotent",
	} {
		r := spantest.New(t)
		ctx, run := otelllm.StartRun(t.Context(), "coder", otelllm.WithTracerProvider(r))
		_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_1", Name: "look", Effect: effect})
		tool.End(nil)
		run.End(nil)
		assert.Equal(t, want, spantest.Get(r.Named("execute_tool look")[0], semconv.ToolEffectKey))
	}
}

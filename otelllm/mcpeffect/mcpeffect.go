// Package mcpeffect says what executing a tool of the Model Context Protocol may change, as
// far as the tool's annotations declare it.
package mcpeffect

import (
	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
)

// Annotations are the hints of an MCP tool about its effect (Model Context Protocol,
// ToolAnnotations). The fields are those of mcp.ToolAnnotations in the official Go SDK, in
// the same order, so that a tool's annotations convert:
//
//	mcpeffect.Of((*mcpeffect.Annotations)(tool.Annotations))
type Annotations struct {
	DestructiveHint *bool  `json:"destructiveHint,omitempty"`
	IdempotentHint  bool   `json:"idempotentHint,omitempty"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitempty"`
	ReadOnlyHint    bool   `json:"readOnlyHint,omitempty"`
	Title           string `json:"title,omitempty"`
}

// Of returns the effect that an MCP tool's annotations declare. Only what the server
// declared counts: MCP's defaults are a client's guess, and a hint that is false cannot be
// distinguished from one that is unset. A tool that declares nothing has an unknown effect,
// which is treated with the same caution as [otelllm.EffectNonIdempotent].
//
// The server makes these hints. Use them only for tools of servers that you trust.
func Of(a *Annotations) otelllm.Effect {
	said := func(hint *bool) bool { return hint != nil && *hint }
	switch {
	case a == nil:
		return semconv.ToolEffectUnknown
	case a.ReadOnlyHint:
		return otelllm.EffectReadOnly
	case a.IdempotentHint:
		return otelllm.EffectIdempotent
	case said(a.DestructiveHint), said(a.OpenWorldHint):
		return otelllm.EffectNonIdempotent
	default:
		return semconv.ToolEffectUnknown
	}
}

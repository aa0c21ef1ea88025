package otelllm

// MCPAnnotations are the hints of an MCP tool about what executing it may do
// (Model Context Protocol, ToolAnnotations). The fields are those of the official
// Go SDK's mcp.ToolAnnotations, in the same order, so that a tool's annotations
// convert:
//
//	otelllm.ToolEffectFromMCP((*otelllm.MCPAnnotations)(tool.Annotations))
type MCPAnnotations struct {
	DestructiveHint *bool  `json:"destructiveHint,omitempty"`
	IdempotentHint  bool   `json:"idempotentHint,omitempty"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitempty"`
	ReadOnlyHint    bool   `json:"readOnlyHint,omitempty"`
	Title           string `json:"title,omitempty"`
}

// ToolEffectFromMCP is the effect that an MCP tool's annotations declare. Only what
// the server said counts: MCP's defaults are a client's guess, and a hint that is
// false cannot be told from one that is unset. So a tool without annotations, or
// with none that says something, has an unknown effect, which is treated with the
// same caution as [EffectNonIdempotent].
//
// The hints are the server's word. Use them for tools of servers that you trust.
func ToolEffectFromMCP(a *MCPAnnotations) Effect {
	said := func(hint *bool) bool { return hint != nil && *hint }
	switch {
	case a == nil:
		return EffectUnknown
	case a.ReadOnlyHint:
		return EffectReadOnly
	case a.IdempotentHint:
		return EffectIdempotent
	case said(a.DestructiveHint), said(a.OpenWorldHint):
		return EffectNonIdempotent
	default:
		return EffectUnknown
	}
}

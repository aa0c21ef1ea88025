package mcpeffect_test

import (
	"fmt"

	"github.com/otelllm/otelllm-go/otelllm/mcpeffect"
)

// The effect of an MCP tool, from its annotations.
func ExampleOf() {
	var annotations *mcpeffect.Annotations // (*mcpeffect.Annotations)(tool.Annotations)
	fmt.Println(mcpeffect.Of(annotations))
	fmt.Println(mcpeffect.Of(&mcpeffect.Annotations{ReadOnlyHint: true}))
	// Output:
	// unknown
	// read_only
}

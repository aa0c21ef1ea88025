package report

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A type of Go's that is nothing but text says nothing about a failure.
func TestNameErrors(t *testing.T) {
	for name, tt := range map[string]struct{ in, want map[string]any }{
		"text alone": {map[string]any{"error.type": "*errors.errorString"}, map[string]any{"error.type": "_OTHER"}},
		"text with a cause": {
			map[string]any{"error.type": "*errors.errorString", "llm.transport.cause": "body_truncated", "llm.transport.error_chain": []any{"*fmt.wrapError", "*errors.errorString"}},
			map[string]any{"error.type": "body_truncated", "llm.transport.cause": "body_truncated"},
		},
		"named": {
			map[string]any{"error.type": "syscall.Errno", "llm.transport.error_chain": []any{"*net.OpError", "*fmt.wrapError", "syscall.Errno"}},
			map[string]any{"error.type": "syscall.Errno", "llm.transport.error_chain": []any{"*net.OpError", "syscall.Errno"}},
		},
		"nothing": {nil, nil},
	} {
		nameErrors(tt.in)
		assert.Equal(t, tt.want, tt.in, name)
	}
}

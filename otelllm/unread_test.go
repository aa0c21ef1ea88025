package otelllm

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
)

// A client that goes by lines has what a line brought, however the stream ends before
// the blank line: so has the record.
func TestLineWithoutItsBlankLine(t *testing.T) {
	const text = `data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}` + "\n"
	for name, then := range map[string]func(net.Conn){"end": nil, "reset": nettest.Reset} {
		for _, tt := range []struct {
			name, body string
			chunks     any
			unread     any
		}{
			{"whole", text, int64(1), nil},
			{"in part", text[:len(text)-5], int64(0), nil},
			{"not the protocol's", "data: oops\n\n" + text, int64(1), true},
			{"nothing that was read", "data: oops\n\n", nil, true},
		} {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				r := newRecorder(t)
				rt := NewTransport(base(t), WithTracerProvider(r))
				got, _ := call(t.Context(), rt, script(t, sseHead+tt.body, then)+chatPath, chatBody)
				assert.Equal(t, tt.body, got)
				s := r.only(t)
				assert.Equal(t, tt.chunks, s.get("llm.stream.text_chunks"))
				assert.Equal(t, tt.unread, s.get("llm.stream.unread"))
				assert.NotEqual(t, "terminal_event", s.get("llm.stream.end"))
			})
		}
	}
}

package otelllm

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
)

// A client that reads by lines has the content of a line even if the stream ends, in
// whatever way, before the blank line. The same content is recorded.
func TestLineWithoutItsBlankLine(t *testing.T) {
	const text = `data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}` + "\n"
	for name, then := range map[string]func(net.Conn){"end": nil, "reset": nettest.Reset} {
		for _, tt := range []struct {
			name, body string
			chunks     any
			unread     any
		}{
			{"a complete line", text, int64(1), nil},
			{"a part of a line", text[:len(text)-5], int64(0), nil},
			{"after a line that is not of the protocol", "data: oops\n\n" + text, int64(1), true},
			{"only a line that is not of the protocol", "data: oops\n\n", nil, true},
		} {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				r := newRecorder(t)
				rt := NewTransport(base(t), WithTracerProvider(r))
				got, _ := call(t.Context(), rt, scriptedServer(t, sseHead+tt.body, then)+chatPath, chatBody)
				assert.Equal(t, tt.body, got)
				s := r.only(t)
				assert.Equal(t, tt.chunks, s.get("llm.stream.text_chunks"))
				assert.Equal(t, tt.unread, s.get("llm.stream.unread"))
				assert.NotEqual(t, "terminal_event", s.get("llm.stream.end"))
			})
		}
	}
}

package otelllm

import (
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
)

// TestForeignForms checks that an answer in a form that is not of its protocol is unread, under either content
// type, whole or cut: nothing is claimed of its end, and [WithStreamErrors] returns what the server sent. A
// connection that breaks is a failure, and not safe to repeat.
func TestForeignForms(t *testing.T) {
	forms := map[string][]string{
		"llama.cpp, native":     {`{"index":0,"content":"Hel","tokens":[1],"stop":false,"id_slot":0}`, `{"index":0,"content":"","tokens":[],"stop":true,"model":"x","generation_settings":{"n":1,"samplers":["k"]}}`},
		"Workers AI":            {`{"response":"Hel"}`, `{"response":"lo"}`, `{"response":"","usage":{"prompt_tokens":1}}`},
		"Workers AI, enveloped": {`{"result":{"response":"Hello"},"success":true,"errors":[],"messages":[]}`},
		"text-generation":       {`{"index":1,"token":{"id":1,"text":"Hi","special":false},"generated_text":null,"details":null}`},
		"a list of text":        {`{"generated_text":"Hello"}`},
		"another answer":        {`{"answer":{"words":["Hello"]},"ok":true}`},
		"Gemini":                {`{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}`},
	}
	for name, payloads := range forms {
		for _, path := range []string{chatPath, responsesPath, messagesPath} {
			for contentType, text := range map[string]string{
				"text/event-stream":               "data: " + strings.Join(payloads, "\n\ndata: ") + "\n\n",
				"text/event-stream;charset=utf-8": ": hello\n\ndata: " + strings.Join(payloads, "\n\ndata: ") + "\n\ndata: [DONE]\n\n",
				"application/json":                payloads[0],
			} {
				answer := func(end error) roundTripper {
					return func(*http.Request) (*http.Response, error) {
						a := &encodedAnswer{http.StatusOK, "", []string{text}, end}
						return &http.Response{StatusCode: a.status, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(a)}, nil
					}
				}
				r := newRecorder(t)
				got, err := call(t.Context(), requestTransport(answer(io.EOF), WithTracerProvider(r), WithStreamErrors()), "http://x"+path, bodyFor(path))
				require.NoError(t, err, "%s on %s, %s", name, path, contentType)
				assert.Equal(t, text, got)
				s := r.only(t)
				assert.Nil(t, s.get("error.type"), "%s on %s, %s", name, path, contentType)
				assert.Nil(t, s.get("llm.stream.end"))
				assert.Equal(t, true, s.get("llm.stream.unread"))
				assert.Nil(t, s.get("llm.stream.text_chunks"))

				_, err = call(t.Context(), requestTransport(answer(syscall.ECONNRESET), WithTracerProvider(newRecorder(t)), WithStreamErrors()), "http://x"+path, bodyFor(path))
				var broken *StreamError
				require.ErrorAs(t, err, &broken)
				assert.Equal(t, "user_confirmed_retry", broken.Diagnosis.Retry.Safety.String(), "%s on %s, %s", name, path, contentType)
			}
		}
	}
}

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

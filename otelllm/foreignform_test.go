package otelllm

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

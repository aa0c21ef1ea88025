package otelllm

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A request that continues a response, or a conversation, of the server is safe to repeat
// where the calls of its history are known to be settled: in a client, and behind a gateway.
func TestHistoryOnServer(t *testing.T) {
	const output = `{"type":"function_call_output","call_id":"call_Xa81Zk20Q","output":"x"}`
	const next = `{"type":"message","role":"user","content":"go on"}`
	first := sseOf(
		`{"type":"response.created","response":{"id":"resp_68c1a0f2b3d4","model":"m","status":"in_progress"}}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"call_Xa81Zk20Q","name":"pay","arguments":"{}","status":"completed"}}`,
		`{"type":"response.completed","response":{"id":"resp_68c1a0f2b3d4","model":"m","status":"completed"}}`,
	)
	second := sseOf(
		`{"type":"response.created","response":{"id":"resp_68c1a0f2b3d5","model":"m","status":"in_progress"}}`,
		`{"type":"response.output_text.delta","output_index":0,"item_id":"msg_1","delta":"x"}`,
		`{"type":"response.completed","response":{"id":"resp_68c1a0f2b3d5","model":"m","status":"completed"}}`,
	)
	reset := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	status := func(code int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.WriteHeader(code) }
	}
	type turn struct{ state, input, answer string }
	made := turn{``, next, first}
	inConversation := turn{`"conversation":"conv_1",`, next, first}
	const chain, conv = `"previous_response_id":"resp_68c1a0f2b3d4",`, `"conversation":"conv_1",`
	for _, tt := range []struct {
		name         string
		before       []turn
		state, input string
		safe         bool
		known        bool // although it is not safe
	}{
		{"the response before it, with the output", []turn{made}, chain, output, true, false},
		{"the response before it, without the output", []turn{made}, chain, next, false, true},
		{"the response after that", []turn{made, {chain, output, second}}, `"previous_response_id":"resp_68c1a0f2b3d5",`, next, true, false},
		{"a response that is not known", []turn{made}, `"previous_response_id":"resp_68c1a0f2b3d9",`, output, false, false},
		{"a response and a reference to an item", []turn{made}, chain, `{"type":"item_reference","id":"fc_1"},` + output, false, false},
		{"after a response whose history was not known", []turn{{`"previous_response_id":"resp_68c1a0f2b3d0",`, next, first}}, chain, output, true, false},
		{"a conversation, with the output", []turn{inConversation}, conv, output, true, false},
		{"a conversation, without the output", []turn{inConversation}, conv, next, false, false},
		{"a conversation, later", []turn{inConversation, {conv, output, second}}, `"conversation":{"id":"conv_1"},`, next, true, false},
		{"another conversation", []turn{inConversation}, `"conversation":"conv_2",`, output, false, false},
	} {
		for failure, fail := range map[string]func(http.ResponseWriter){"429": status(429), "503": status(503), "reset": reset} {
			for _, through := range []string{"transport", "handler"} {
				t.Run(fmt.Sprintf("%s/%s/%s", tt.name, failure, through), func(t *testing.T) {
					r := newRecorder(t)
					with := New(WithTracerProvider(r), WithVerdicts())
					n := 0
					server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						if n++; n > len(tt.before) {
							fail(w)
							return
						}
						w.Header().Set("Content-Type", "text/event-stream")
						_, _ = io.WriteString(w, tt.before[n-1].answer)
					}))
					defer server.Close()
					target, client := watched(t, with, server.URL, through == "handler")
					send := func(state, input string) {
						body := `{"model":"m","stream":true,` + state + `"input":[` + input + `]}`
						req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target+responsesPath, strings.NewReader(body))
						require.NoError(t, err)
						req.Header.Set("Content-Type", "application/json")
						if resp, err := client.Do(req); err == nil {
							_, _ = io.Copy(io.Discard, resp.Body)
							resp.Body.Close()
						}
					}
					for _, b := range tt.before {
						send(b.state, b.input)
					}
					send(tt.state, tt.input)
					require.NoError(t, with.Shutdown(t.Context()))
					var last span
					for _, s := range r.spans.Ended() {
						if s.Name() == "chat m" && (last.ReadOnlySpan == nil || !s.StartTime().Before(last.StartTime())) {
							last = span{s}
						}
					}
					require.NotNil(t, last.ReadOnlySpan)
					assert.Equal(t, tt.safe, last.get("llm.retry.safety") == "safe_auto_retry", "%v", last.Attributes())
					assert.Equal(t, tt.safe || tt.known, last.get("llm.history.tool_calls") != nil)
				})
			}
		}
	}
}

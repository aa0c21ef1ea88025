package otelllm

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
)

// background is a response in the background, whose stream breaks twice and is resumed: its
// events are those of the whole stream.
var background = []string{
	`{"type":"response.created","sequence_number":0,"response":{"id":"resp_68c1a0f2b3d4","model":"m","status":"queued","background":true}}`,
	`{"type":"response.output_text.delta","sequence_number":1,"output_index":0,"item_id":"msg_1","delta":"CANARY"}`,
	`{"type":"response.output_text.delta","sequence_number":2,"output_index":0,"item_id":"msg_1","delta":"CANARY"}`,
	`{"type":"response.output_item.done","sequence_number":3,"output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"call_Xa81Zk20Q","name":"run","arguments":"{}","status":"completed"}}`,
	`{"type":"response.completed","sequence_number":4,"response":{"id":"resp_68c1a0f2b3d4","model":"m","status":"completed","output":[{"type":"function_call","id":"fc_1","call_id":"call_Xa81Zk20Q","name":"run","arguments":"{}","status":"completed"}]}}`,
}

// TestResumedStream checks that a request for the rest of a stream is an attempt of the one whose stream
// broke, and what follows continues both: in a client, and behind a gateway.
func TestResumedStream(t *testing.T) {
	for _, through := range []string{"transport", "handler"} {
		t.Run(through, func(t *testing.T) {
			r := newRecorder(t)
			with := inferring(r, time.Minute, WithVerdicts())
			parts := [][]string{background[:2], background[2:3], background[3:], {`{"type":"response.completed","response":{"id":"resp_68c1a0f2b3d5","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"CANARY"}]}]}}`}}
			n := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, sseOf(parts[n]...))
				n++
			}))
			defer server.Close()
			target, client := watched(t, with, server.URL, through == "handler")
			send := func(method, path, body string) {
				req, err := http.NewRequestWithContext(t.Context(), method, target+path, strings.NewReader(body))
				require.NoError(t, err)
				req.Header.Set("Content-Type", "application/json")
				resp, err := client.Do(req)
				require.NoError(t, err)
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			const ask = `{"type":"message","role":"user","content":"CANARY"}`
			send(http.MethodPost, responsesPath, `{"model":"m","background":true,"stream":true,"prompt_cache_key":"k","input":[`+ask+`]}`)
			send(http.MethodGet, responsesPath+"/resp_68c1a0f2b3d4?stream=true&starting_after=1", "")
			send(http.MethodGet, responsesPath+"/resp_68c1a0f2b3d4?starting_after=2&stream=true", "")
			send(http.MethodPost, responsesPath, `{"model":"m","stream":true,"prompt_cache_key":"k","previous_response_id":"resp_68c1a0f2b3d4","input":[{"type":"function_call_output","call_id":"call_Xa81Zk20Q","output":"CANARY"}]}`)
			require.NoError(t, with.Shutdown(t.Context()))
			assert.Len(t, r.named("invoke_agent agent"), 1)
			var requests []span
			for _, s := range r.spans.Ended() {
				assert.NotContains(t, spantest.Text(s), "CANARY")
				if strings.HasPrefix(s.Name(), "chat") {
					requests = append(requests, span{s})
				}
			}
			require.Len(t, requests, 4)
			for i, want := range []int64{1, 2, 3, 1} {
				assert.Equal(t, want, requests[i].get("llm.request.attempt"), i)
				assert.Equal(t, requests[0].get("llm.run.id"), requests[i].get("llm.run.id"), i)
			}
			assert.Equal(t, true, requests[0].get("llm.request.background"))
			assert.Equal(t, "eof", requests[1].get("llm.stream.end"))
			assert.Equal(t, "terminal_event", requests[2].get("llm.stream.end"))
			assert.Equal(t, "recovered", r.named("invoke_agent agent")[0].get("llm.run.outcome"))
			assert.Len(t, r.named("execute_tool run"), 1)
		})
	}
}

// TestRestOfStream checks that the zeros of a resumed stream say nothing about what came before it: in a client,
// and behind a gateway.
func TestRestOfStream(t *testing.T) {
	for _, rest := range []struct{ path, events string }{
		{responsesPath + "/resp_68c1a0f2b3d4?stream=true&starting_after=4", sseOf(`{"type":"response.completed","response":{"id":"resp_68c1a0f2b3d4","status":"completed"}}`)},
		{"/v1beta/interactions/v1_abc?stream=true&last_event_id=x", "event: interaction.completed\ndata: " + `{"event_type":"interaction.completed","interaction":{"id":"v1_abc","status":"completed"}}` + "\n\n"},
	} {
		for _, through := range []string{"transport", "handler"} {
			t.Run(through+rest.path, func(t *testing.T) {
				r := newRecorder(t)
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, rest.events)
				}))
				defer server.Close()
				with := New(WithTracerProvider(r), WithVerdicts())
				target, client := watched(t, with, server.URL, through == "handler")
				resp, err := client.Get(target + rest.path)
				require.NoError(t, err)
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				require.NoError(t, with.Shutdown(t.Context()))
				var s span
				for _, ended := range r.spans.Ended() {
					if s = (span{ended}); strings.HasPrefix(s.Name(), "chat") || strings.HasPrefix(s.Name(), "generate_content") {
						break
					}
				}
				for key, want := range map[string]any{
					"llm.stream.text_chunks": nil, "llm.stream.tool_calls": nil, "llm.stream.provider_tools_started": nil, "llm.stream.events": int64(1),
					"llm.stream.end": "terminal_event", "llm.failure.class": nil, "error.type": nil, "llm.stream.unread": nil,
					"llm.request.background": true, "gen_ai.request.stream": true,
				} {
					assert.Equal(t, want, s.get(attribute.Key(key)), key)
				}
			})
		}
	}
}

// TestRereadStream checks that a reader who looks at a whole response once more, and leaves, aborts no run.
func TestRereadStream(t *testing.T) {
	r := newRecorder(t)
	with := inferring(r, time.Minute)
	left := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		body, _ := io.ReadAll(req.Body)
		switch {
		case req.Method == http.MethodGet:
			_, _ = io.WriteString(w, sseOf(background[:2]...))
			_ = http.NewResponseController(w).Flush()
			<-left
		case strings.Contains(string(body), "function_call_output"):
			_, _ = io.WriteString(w, sseOf(`{"type":"response.completed","response":{"id":"resp_68c1a0f2b3d5","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"CANARY"}]}]}}`))
		default:
			_, _ = io.WriteString(w, sseOf(background...))
		}
	}))
	defer server.Close()
	client := &http.Client{Transport: with.NewTransport(base(t))}
	post := func(body string) {
		resp, err := client.Post(server.URL+responsesPath, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	post(`{"model":"m","stream":true,"input":[{"type":"message","role":"user","content":"CANARY"}]}`)
	resp, err := client.Get(server.URL + responsesPath + "/resp_68c1a0f2b3d4?stream=true")
	require.NoError(t, err)
	_, err = resp.Body.Read(make([]byte, 10))
	require.NoError(t, err)
	resp.Body.Close()
	close(left)
	post(`{"model":"m","stream":true,"previous_response_id":"resp_68c1a0f2b3d4","input":[{"type":"function_call_output","call_id":"call_Xa81Zk20Q","output":"CANARY"}]}`)
	require.NoError(t, with.Shutdown(t.Context()))
	runs := r.named("invoke_agent agent")
	require.Len(t, runs, 2)
	ends := map[any]any{}
	for _, run := range runs {
		ends[run.get("llm.run.end")] = run.get("llm.run.requests")
	}
	assert.Equal(t, map[any]any{"answer": int64(2), "shutdown": int64(1)}, ends)
}

// TestNotResumed checks that other requests with such paths are left alone.
func TestNotResumed(t *testing.T) {
	r := newRecorder(t)
	server := scriptedServer(t, jsonHead+`{}`, nil)
	for _, path := range []string{"/v1/responses/resp_1", "/v1/responses/resp_1?stream=false", "/v1/responses/resp_1/input_items?stream=true", "/responses/4711?stream=true", "/v1/files?stream=true"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+path, http.NoBody)
		require.NoError(t, err)
		resp, err := NewTransport(base(t), WithTracerProvider(r)).RoundTrip(req)
		require.NoError(t, err)
		resp.Body.Close()
	}
	assert.Empty(t, r.spans.Ended())
}

// TestCompaction checks that a summary of the history is a request of its own, whose answer is not shown to anyone.
func TestCompaction(t *testing.T) {
	r := newRecorder(t)
	with := inferring(r, time.Minute, WithVerdicts())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"resp_001","object":"response.compaction","created_at":1764967971,"output":[{"id":"msg_0","type":"message","status":"completed","content":[{"type":"input_text","text":"CANARY"}],"role":"user"},{"id":"cmp_001","type":"compaction","encrypted_content":"CANARY"}],"usage":{"input_tokens":139,"input_tokens_details":{"cached_tokens":0},"output_tokens":438,"output_tokens_details":{"reasoning_tokens":64},"total_tokens":577}}`)
	}))
	defer server.Close()
	client := &http.Client{Transport: with.NewTransport(http.DefaultTransport)}
	resp, err := client.Post(server.URL+"/v1/responses/compact", "application/json", strings.NewReader(`{"model":"m","input":[{"role":"user","content":"CANARY"}]}`))
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	require.NoError(t, with.Shutdown(t.Context()))
	s := r.only(t)
	assert.NotContains(t, spantest.Text(s), "CANARY")
	for key, want := range map[string]any{
		"llm.stream.text_chunks": int64(0), "llm.stream.reasoning_chunks": int64(1), "llm.stream.end": "terminal_event", "llm.stream.unread": nil,
		"gen_ai.usage.output_tokens": int64(438), "gen_ai.response.id": "resp_001", "llm.run.id": nil,
	} {
		assert.Equal(t, want, s.get(attribute.Key(key)), key)
	}
}

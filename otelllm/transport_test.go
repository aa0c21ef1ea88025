package otelllm

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
	"github.com/otelllm/otelllm-go/semconv"
)

// timesOnly are the attributes whose values are measured.
var timesOnly = map[attribute.Key]bool{
	"gen_ai.response.time_to_first_chunk": true, "llm.stream.time_to_headers": true,
	"llm.stream.last_progress": true, "llm.stream.longest_gap": true,
}

// facts are a span's attributes without those that change from run to run, whose
// values are checked to be there and to be sane.
func facts(t *testing.T, s span) map[string]any {
	t.Helper()
	m := map[string]any{}
	for _, kv := range s.Attributes() {
		switch {
		case timesOnly[kv.Key]:
			assert.Positive(t, kv.Value.AsFloat64(), kv.Key)
			assert.LessOrEqual(t, kv.Value.AsFloat64(), s.EndTime().Sub(s.StartTime()).Seconds(), kv.Key)
		case kv.Key == "server.port", kv.Key == "server.address":
		default:
			m[string(kv.Key)] = kv.Value.AsInterface()
		}
	}
	return m
}

func TestStreamSpans(t *testing.T) {
	own := map[string]stream{}
	for _, s := range ownStreams() {
		own[s.name] = s
	}
	for _, tt := range []struct {
		stream string
		body   string
		name   string
		want   map[string]any
		events []string
	}{
		{
			"own/chat",
			`{"model":"gpt-5","stream":true,"tools":[{"type":"function","function":{"name":"read_file"}}],"messages":[
				{"role":"assistant","tool_calls":[{"id":"call_0","type":"function","function":{"name":"read_file","arguments":"{}"}}]},
				{"role":"tool","tool_call_id":"call_0","content":"secret"}]}`,
			"chat gpt-5",
			map[string]any{
				"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5", "gen_ai.request.stream": true,
				"gen_ai.response.id": "chatcmpl-1", "gen_ai.response.model": "gpt-5-x", "gen_ai.response.finish_reasons": []string{"tool_calls"},
				"gen_ai.usage.input_tokens": int64(11), "gen_ai.usage.output_tokens": int64(7),
				"gen_ai.usage.cache_read.input_tokens": int64(5), "gen_ai.usage.reasoning.output_tokens": int64(2),
				"http.response.status_code": int64(200), "llm.provider.request_id": "req_1",
				"llm.request.provider_tools": []string{}, "llm.history.tool_calls": []string{"call_0"}, "llm.history.tool_outputs": []string{"call_0"},
				"llm.stream.phase": "stream_end", "llm.stream.end": "terminal_event",
				"llm.stream.events": int64(8), "llm.stream.keepalives": int64(0), "llm.stream.bytes": int64(len(strings.Join(own["own/chat"].events, ""))),
				"llm.stream.text_chunks": int64(1), "llm.stream.reasoning_chunks": int64(1),
				"llm.stream.tool_inputs_started": int64(1), "llm.stream.tool_inputs_completed": int64(1), "llm.stream.tool_calls": int64(1),
				"llm.stream.tool_call_ids": []string{"call_1"}, "llm.stream.provider_tools_started": int64(0),
			},
			[]string{
				"llm.request.written", "llm.response.started", "llm.stream.first_progress", "llm.stream.reasoning_started",
				"llm.stream.text_started", "llm.stream.tool_input_started", "llm.stream.tool_input_completed", "llm.stream.finish",
			},
		},
		{
			"own/responses", `{"model":"gpt-5","stream":true,"tools":[{"type":"web_search"}],"input":[],"previous_response_id":"resp_0"}`,
			"chat gpt-5",
			map[string]any{
				"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5", "gen_ai.request.stream": true,
				"gen_ai.response.id": "resp_1", "gen_ai.response.model": "gpt-5-x", "gen_ai.response.finish_reasons": []string{"tool_calls"},
				"gen_ai.usage.input_tokens": int64(3), "gen_ai.usage.output_tokens": int64(4),
				"http.response.status_code": int64(200), "llm.provider.request_id": "req_1",
				"llm.request.provider_tools": []string{"web_search"}, // the calls of the history are on the server: not observed
				"llm.history.tool_outputs":   []string{},
				"llm.stream.phase":           "stream_end", "llm.stream.end": "terminal_event",
				"llm.stream.events": int64(9), "llm.stream.keepalives": int64(0), "llm.stream.bytes": int64(len(strings.Join(own["own/responses"].events, ""))),
				"llm.stream.text_chunks": int64(0), "llm.stream.reasoning_chunks": int64(1),
				"llm.stream.tool_inputs_started": int64(1), "llm.stream.tool_inputs_completed": int64(1), "llm.stream.tool_calls": int64(1),
				"llm.stream.tool_call_ids": []string{"call_3"}, "llm.stream.provider_tools_started": int64(0),
			},
			[]string{
				"llm.request.written", "llm.response.started", "llm.stream.first_progress", "llm.stream.reasoning_started",
				"llm.stream.tool_input_started", "llm.stream.tool_input_completed", "llm.stream.finish",
			},
		},
		{
			"own/messages", `{"model":"claude-x","stream":true,"messages":[]}`,
			"chat claude-x",
			map[string]any{
				"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-x", "gen_ai.request.stream": true,
				"gen_ai.response.id": "msg_1", "gen_ai.response.model": "claude-x", "gen_ai.response.finish_reasons": []string{"tool_use"},
				"gen_ai.usage.input_tokens": int64(9), "gen_ai.usage.output_tokens": int64(8),
				"http.response.status_code": int64(200), "llm.provider.request_id": "req_1",
				"llm.request.provider_tools": []string{}, "llm.history.tool_calls": []string{}, "llm.history.tool_outputs": []string{},
				"llm.stream.phase": "stream_end", "llm.stream.end": "terminal_event",
				"llm.stream.events": int64(12), "llm.stream.keepalives": int64(1), "llm.stream.bytes": int64(len(strings.Join(own["own/messages"].events, ""))),
				"llm.stream.text_chunks": int64(1), "llm.stream.reasoning_chunks": int64(1),
				"llm.stream.tool_inputs_started": int64(1), "llm.stream.tool_inputs_completed": int64(1), "llm.stream.tool_calls": int64(1),
				"llm.stream.tool_call_ids": []string{"toolu_1"}, "llm.stream.provider_tools_started": int64(0),
			},
			[]string{
				"llm.request.written", "llm.response.started", "llm.stream.first_progress", "llm.stream.reasoning_started",
				"llm.stream.text_started", "llm.stream.tool_input_started", "llm.stream.tool_input_completed", "llm.stream.finish",
			},
		},
	} {
		t.Run(tt.stream, func(t *testing.T) {
			for _, events := range []bool{true, false} {
				r := newRecorder(t)
				url := script(t, strings.Replace(sseHead, "\r\n\r\n", "\r\nX-Request-Id: req_1\r\n\r\n", 1)+strings.Join(own[tt.stream].events, ""), nil)
				got, err := call(t.Context(), NewTransport(base(t), WithTracerProvider(r), WithEvents(events)), url+own[tt.stream].path, tt.body)
				require.NoError(t, err)
				assert.Equal(t, strings.Join(own[tt.stream].events, ""), got)
				s := r.only(t)
				assert.Equal(t, tt.name, s.Name())
				assert.Equal(t, trace.SpanKindClient, s.SpanKind())
				assert.Equal(t, tt.want, facts(t, s))
				assert.Equal(t, "127.0.0.1", s.get("server.address"))
				assert.Equal(t, sdktrace.Status{}, s.Status())
				assert.Equal(t, ScopeName, s.InstrumentationScope().Name)
				if !events {
					assert.Empty(t, s.Events())
					continue
				}
				assert.Equal(t, tt.events, s.events())
				for i, e := range s.Events() {
					if i > 0 {
						assert.False(t, e.Time.Before(s.Events()[i-1].Time), "events in order")
					}
					assert.False(t, e.Time.Before(s.StartTime()))
					assert.False(t, e.Time.After(s.EndTime()))
				}
			}
		})
	}
}

func TestBodiesThatDoNotStream(t *testing.T) {
	for _, tt := range []struct {
		path, request, response string
		finish                  []string
	}{
		{
			chatPath, `{"model":"m","messages":[]}`,
			`{"id":"r1","model":"m-1","choices":[{"index":0,"message":{"content":"hi","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`,
			[]string{"tool_calls"},
		},
		{
			responsesPath, `{"model":"m","input":[]}`,
			`{"id":"r1","object":"response","model":"m-1","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]},{"type":"function_call","call_id":"call_1","name":"f","arguments":"{}"}],"usage":{"input_tokens":1,"output_tokens":2}}`,
			[]string{"tool_calls"},
		},
		{
			messagesPath, `{"model":"m","messages":[]}`,
			`{"id":"r1","type":"message","model":"m-1","content":[{"type":"text","text":"hi"},{"type":"tool_use","id":"call_1","name":"f","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}`,
			[]string{"tool_use"},
		},
	} {
		t.Run(tt.path, func(t *testing.T) {
			r := newRecorder(t)
			_, err := call(t.Context(), NewTransport(base(t), WithTracerProvider(r)), script(t, jsonHead+tt.response, nil)+tt.path, tt.request)
			require.NoError(t, err)
			s := r.only(t)
			assert.Equal(t, "chat m", s.Name())
			for key, want := range map[attribute.Key]any{
				"gen_ai.request.stream": false, "gen_ai.response.id": "r1", "gen_ai.response.model": "m-1", "gen_ai.response.finish_reasons": tt.finish,
				"gen_ai.usage.input_tokens": int64(1), "gen_ai.usage.output_tokens": int64(2), "llm.stream.phase": "stream_end", "llm.stream.end": "terminal_event",
				"llm.stream.tool_calls": int64(1), "llm.stream.tool_call_ids": []string{"call_1"}, "llm.stream.text_chunks": int64(1),
				"gen_ai.response.time_to_first_chunk": nil, "llm.stream.keepalives": nil, "error.type": nil,
			} {
				assert.Equal(t, want, s.get(key), key)
			}
			assert.False(t, s.failed())
		})
	}
}

// What is not an answer of a model has a clear outcome too, and reaches the consumer as it is.
func TestOddAnswers(t *testing.T) {
	for _, tt := range []struct {
		name     string
		response string
		want     map[attribute.Key]any
		failed   bool
	}{
		{
			"an HTML page under 200", "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\n\r\n<html><body>secret</body></html>",
			map[attribute.Key]any{"llm.stream.end": "eof", "llm.transport.cause": "unexpected_content_type", "llm.transport.stage": "body", "error.type": "unexpected_content_type", "llm.stream.phase": "response_started"}, true,
		},
		{
			"text where JSON is due", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\nsecret no json",
			map[attribute.Key]any{"llm.stream.end": "eof", "llm.transport.cause": "malformed_event", "error.type": "malformed_event"}, true,
		},
		{
			"an event that is no JSON", sseHead + "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: secret\n\n",
			map[attribute.Key]any{"llm.stream.end": "eof", "llm.transport.cause": "malformed_event", "llm.stream.phase": "text", "gen_ai.response.finish_reasons": []string{"error"}}, true,
		},
		{
			"nothing at all", sseHead,
			map[attribute.Key]any{"llm.stream.end": "eof", "llm.transport.cause": "clean_eof", "llm.stream.phase": "response_started", "gen_ai.response.finish_reasons": []string{"error"}, "error.type": "clean_eof"}, true,
		},
		{
			"no body", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
			map[attribute.Key]any{"llm.stream.end": "eof", "llm.transport.cause": "clean_eof", "llm.stream.bytes": int64(0)}, true,
		},
		{
			"[DONE] alone", sseHead + "data: [DONE]\n\n",
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "gen_ai.response.finish_reasons": []string{"error"}, "error.type": "no_content", "llm.transport.cause": nil}, true,
		},
		{
			"[DONE] after text, without a finish reason", sseHead + "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n",
			map[attribute.Key]any{"llm.stream.end": "eof", "llm.transport.cause": "clean_eof", "llm.stream.phase": "text", "gen_ai.response.finish_reasons": []string{"error"}}, true,
		},
		{
			"a finish reason, and no [DONE]", sseHead + "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n",
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.transport.cause": nil, "llm.stream.phase": "stream_end", "gen_ai.response.finish_reasons": []string{"stop"}}, false,
		},
		{
			"an error in band", sseHead + "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"error\":{\"message\":\"secret\",\"type\":\"server_error\",\"code\":\"slow_down\"}}\n\ndata: [DONE]\n\n",
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.provider_error.kind": "overloaded", "llm.provider_error.code": "slow_down", "llm.provider_error.in_band": true, "error.type": "slow_down", "llm.stream.phase": "text", "gen_ai.response.finish_reasons": []string{"error"}}, true,
		},
		{
			"a content encoding that nobody here undoes", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: br\r\nConnection: close\r\n\r\nsecret",
			map[attribute.Key]any{"llm.stream.end": nil, "llm.stream.phase": "unknown", "llm.stream.events": nil, "llm.stream.bytes": int64(6), "llm.transport.cause": nil}, false,
		},
		{
			"a redirect", "HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
			map[attribute.Key]any{"llm.stream.end": nil, "llm.stream.phase": "unknown", "http.response.status_code": int64(307), "llm.transport.cause": nil}, false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			got, err := call(t.Context(), NewTransport(base(t), WithTracerProvider(r)), script(t, tt.response, nil)+chatPath, chatBody)
			require.NoError(t, err)
			_, want, _ := strings.Cut(tt.response, "\r\n\r\n")
			assert.Equal(t, want, got)
			s := r.only(t)
			for key, want := range tt.want {
				assert.Equal(t, want, s.get(key), key)
			}
			assert.Equal(t, tt.failed, s.failed())
			assert.Empty(t, s.Status().Description)
			for _, kv := range s.Attributes() {
				assert.NotContains(t, kv.Value.Emit(), "secret")
			}
		})
	}
}

// An event longer than any SDK would take passes whole, and only the recording ends.
func TestHugeEvent(t *testing.T) {
	if testing.Short() {
		t.Skip("40 MB")
	}
	huge := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + strings.Repeat("x", 40<<20) + "\"}}]}\n\n"
	r := newRecorder(t)
	got, err := call(t.Context(), NewTransport(base(t), WithTracerProvider(r)), script(t, sseHead+huge, nil)+chatPath, chatBody)
	require.NoError(t, err)
	assert.Equal(t, len(huge), len(got))
	assert.True(t, got == huge)
	s := r.only(t)
	assert.Equal(t, "event_too_long", s.get("llm.transport.cause"))
	assert.Equal(t, int64(len(huge)), s.get("llm.stream.bytes"))
	assert.True(t, s.failed())
}

func TestErrorResponses(t *testing.T) {
	for _, tt := range []struct {
		name, path, head, body string
		want                   map[attribute.Key]any
	}{
		{
			"rate limited", chatPath, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nX-Request-Id: req_9\r\n",
			`{"error":{"message":"secret","type":"tokens","code":"rate_limit_exceeded"}}`,
			map[attribute.Key]any{"llm.provider_error.kind": "rate_limited", "llm.provider_error.code": "rate_limit_exceeded", "llm.retry.after": 7.0, "error.type": "429", "llm.provider.request_id": "req_9"},
		},
		{
			"out of quota", chatPath, "HTTP/1.1 429 Too Many Requests\r\n",
			`{"error":{"message":"secret","type":"insufficient_quota","code":"insufficient_quota"}}`,
			map[attribute.Key]any{"llm.provider_error.kind": "quota_exhausted", "llm.provider_error.code": "insufficient_quota", "llm.retry.after": nil},
		},
		{
			"unauthorised", responsesPath, "HTTP/1.1 401 Unauthorized\r\n", `{"error":{"message":"secret","type":"invalid_request_error","code":"invalid_api_key"}}`,
			map[attribute.Key]any{"llm.provider_error.kind": "authentication", "error.type": "401"},
		},
		{
			"context length", chatPath, "HTTP/1.1 400 Bad Request\r\n", `{"error":{"message":"secret","type":"invalid_request_error","code":"context_length_exceeded"}}`,
			map[attribute.Key]any{"llm.provider_error.kind": "context_length_exceeded"},
		},
		{
			"overloaded", messagesPath, "HTTP/1.1 529 Overloaded\r\nretry-after-ms: 1500\r\nretry-after: 9\r\nrequest-id: req_011\r\n", `{"type":"error","error":{"type":"overloaded_error","message":"secret"}}`,
			map[attribute.Key]any{"llm.provider_error.kind": "overloaded", "llm.provider_error.code": "overloaded_error", "llm.retry.after": 1.5, "llm.provider.request_id": "req_011"},
		},
		{
			"a gateway's page", chatPath, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\n", "<html>secret</html>",
			map[attribute.Key]any{"llm.provider_error.kind": "server_error", "llm.provider_error.code": nil, "error.type": "502"},
		},
		{
			"words for a code", chatPath, "HTTP/1.1 500 Internal Server Error\r\n", `{"error":{"message":"secret","type":"the secret of the server"}}`,
			map[attribute.Key]any{"llm.provider_error.kind": "server_error", "llm.provider_error.code": "redacted"},
		},
		{
			"a wrong base URL", "/wrong" + chatPath, "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n", "404 page not found",
			map[attribute.Key]any{"llm.provider_error.kind": "not_found", "error.type": "404"},
		},
		{
			"an endless error", chatPath, "HTTP/1.1 503 Service Unavailable\r\n", strings.Repeat(" ", 1<<20) + `{"error":{"code":"too_late_to_be_read"}}`,
			map[attribute.Key]any{"llm.provider_error.kind": "overloaded", "llm.provider_error.code": nil},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			got, err := call(t.Context(), NewTransport(base(t), WithTracerProvider(r)), script(t, tt.head+"Connection: close\r\n\r\n"+tt.body, nil)+tt.path, chatBody)
			require.NoError(t, err)
			assert.Equal(t, tt.body, got)
			s := r.only(t)
			for key, want := range tt.want {
				assert.Equal(t, want, s.get(key), key)
			}
			assert.Equal(t, "http_error", s.get("llm.stream.end"))
			assert.Equal(t, "response_started", s.get("llm.stream.phase"))
			assert.Equal(t, false, s.get("llm.provider_error.in_band"))
			assert.Nil(t, s.get("llm.transport.cause"))
			assert.True(t, s.failed())
		})
	}

	t.Run("nobody reads it", func(t *testing.T) {
		r := newRecorder(t)
		url := script(t, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nConnection: close\r\n\r\n{\"error\":{\"code\":\"insufficient_quota\"}}", nil)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+chatPath, strings.NewReader(chatBody))
		require.NoError(t, err)
		resp, err := NewTransport(base(t), WithTracerProvider(r)).RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, "rate_limited", r.only(t).get("llm.provider_error.kind"), "by the status alone")
	})
}

func TestNoAnswer(t *testing.T) {
	for _, tt := range []struct {
		name  string
		setup func(t *testing.T) (http.RoundTripper, string)
		want  map[attribute.Key]any
	}{
		{
			"refused", func(t *testing.T) (http.RoundTripper, string) { return base(t), "http://" + nettest.Refused(t) },
			map[attribute.Key]any{"llm.stream.phase": "before_connection", "llm.transport.cause": "connect_refused", "llm.transport.stage": "connect", "llm.transport.code": "ECONNREFUSED", "error.type": "connect_refused"},
		},
		{
			"certificate", func(t *testing.T) (http.RoundTripper, string) {
				s := httptest.NewTLSServer(http.NotFoundHandler())
				t.Cleanup(s.Close)
				return base(t), s.URL
			},
			map[attribute.Key]any{"llm.stream.phase": "before_connection", "llm.transport.cause": "tls", "llm.transport.code": "CERTIFICATE_VERIFY_FAILED"},
		},
		{
			"closed before headers", func(t *testing.T) (http.RoundTripper, string) { return base(t), script(t, "", nil) },
			map[attribute.Key]any{"llm.stream.phase": "awaiting_response", "llm.transport.cause": "closed_before_headers", "llm.transport.stage": "headers"},
		},
		{
			"no scheme in the base URL", func(t *testing.T) (http.RoundTripper, string) { return base(t), "localhost:8080" },
			map[attribute.Key]any{"llm.stream.phase": "before_connection", "llm.transport.cause": nil, "error.type": "*errors.errorString"},
		},
		{
			"no host in the base URL", func(t *testing.T) (http.RoundTripper, string) { return base(t), "" },
			map[attribute.Key]any{"llm.stream.phase": "before_connection", "llm.transport.cause": nil},
		},
		{
			"another kind of transport", func(*testing.T) (http.RoundTripper, string) {
				return roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("secret") }), "http://model.example.com"
			},
			map[attribute.Key]any{"llm.stream.phase": "unknown", "llm.transport.cause": nil, "error.type": "*errors.errorString"},
		},
		{
			"a transport that breaks its contract", func(*testing.T) (http.RoundTripper, string) {
				return roundTripper(func(*http.Request) (*http.Response, error) { return nil, nil }), "http://model.example.com"
			},
			map[attribute.Key]any{"llm.stream.phase": "unknown", "error.type": "_OTHER"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			rt, target := tt.setup(t)
			u, err := url.Parse(target + chatPath)
			if err != nil {
				u = &url.URL{Scheme: "localhost", Opaque: "8080" + chatPath, Path: chatPath}
			}
			u.Path = chatPath
			req := (&http.Request{Method: http.MethodPost, URL: u, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(chatBody))}).WithContext(t.Context())
			resp, err := NewTransport(rt, WithTracerProvider(r)).RoundTrip(req)
			assert.Nil(t, resp)
			if tt.name != "a transport that breaks its contract" {
				require.Error(t, err)
			}
			s := r.only(t)
			for key, want := range tt.want {
				assert.Equal(t, want, s.get(key), key)
			}
			assert.Equal(t, "no_response", s.get("llm.stream.end"))
			assert.Nil(t, s.get("http.response.status_code"))
			assert.Nil(t, s.get("llm.stream.bytes"))
			assert.True(t, s.failed())
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// What is no model call goes through as it came, and so does everything while
// nobody listens.
func TestUntouched(t *testing.T) {
	var seen *http.Request
	response := &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("x"))}
	rt := roundTripper(func(req *http.Request) (*http.Response, error) {
		seen = req
		return response, nil
	})
	r := newRecorder(t)
	for name, tt := range map[string]struct {
		provider trace.TracerProvider
		method   string
		path     string
	}{
		"another path":   {r, http.MethodPost, "/v1/files"},
		"another method": {r, http.MethodGet, chatPath},
		"no provider":    {noop.NewTracerProvider(), http.MethodPost, chatPath},
		"no global one":  {nil, http.MethodPost, chatPath},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tt.method, "http://model.example.com"+tt.path, strings.NewReader(chatBody))
			require.NoError(t, err)
			body := response.Body
			resp, err := NewTransport(rt, WithTracerProvider(tt.provider)).RoundTrip(req)
			require.NoError(t, err)
			assert.Same(t, req, seen)
			assert.Same(t, response, resp)
			assert.Equal(t, body, resp.Body)
		})
	}
	assert.Empty(t, r.spans.Started())

	_, err := NewTransport(rt).RoundTrip(&http.Request{Method: http.MethodPost})
	require.NoError(t, err, "a request without a URL is the business of the transport below")
}

// The transport below gets the request with its own body, headers and length.
func TestRequestIsNotTouched(t *testing.T) {
	var seen *http.Request
	rt := roundTripper(func(req *http.Request) (*http.Response, error) {
		seen = req
		return nil, io.ErrUnexpectedEOF
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://model.example.com"+chatPath, strings.NewReader(chatBody))
	require.NoError(t, err)
	before := *req
	_, err = NewTransport(rt, WithTracerProvider(newRecorder(t))).RoundTrip(req)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Equal(t, before.Body, req.Body)
	assert.Equal(t, before.Context(), req.Context())
	assert.Equal(t, req.Body, seen.Body, "the body itself, not a wrapper")
	assert.Equal(t, req.Header, seen.Header)
	assert.Equal(t, req.ContentLength, seen.ContentLength)
	assert.NotSame(t, req, seen)
	assert.True(t, trace.SpanContextFromContext(seen.Context()).IsValid(), "what is below is below the span")
}

func TestWithProvider(t *testing.T) {
	r := newRecorder(t)
	stream := ownStreams()[0]
	url := script(t, sseHead+strings.Join(stream.events, ""), nil)
	rt := NewTransport(base(t), WithTracerProvider(r), WithProvider("gateway", "openai_chat"))
	_, err := call(t.Context(), rt, url+"/llm", chatBody)
	require.NoError(t, err)
	s := r.only(t)
	assert.Equal(t, "gateway", s.get("gen_ai.provider.name"))
	assert.Equal(t, "chatcmpl-1", s.get("gen_ai.response.id"))

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/upload", strings.NewReader("x"))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	resp, err := rt.RoundTrip(req)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Len(t, r.spans.Started(), 1, "an upload is no model call")

	var handled error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { handled = err }))
	NewTransport(nil, WithProvider("", "openai_chat"))
	require.NoError(t, handled)
	NewTransport(nil, WithProvider("", "smoke_signals"), nil)
	require.ErrorContains(t, handled, `unknown protocol "smoke_signals"; use openai_chat`)
}

func TestProviderByHost(t *testing.T) {
	for host, want := range map[string]string{
		"api.openai.com": "openai", "API.OpenAI.com.": "openai", "my-res.openai.azure.com": "azure.ai.openai", "openai.azure.com": "openai",
		"api.groq.com": "groq", "api.mistral.ai": "mistral_ai", "api.deepseek.com": "deepseek", "api.x.ai": "x_ai", "us-east-1.api.x.ai": "x_ai",
		"bedrock-runtime.us-east-1.amazonaws.com": "aws.bedrock", "my-lb.us-east-1.elb.amazonaws.com": "openai",
		"us-east1-aiplatform.googleapis.com": "gcp.vertex_ai", "openrouter.ai": "openrouter", "127.0.0.1": "openai", "": "openai",
		"api.openai.com.evil.example": "openai", "notapi.groq.com": "openai",
	} {
		req, err := http.NewRequest(http.MethodPost, "https://x"+chatPath, http.NoBody)
		require.NoError(t, err)
		protocol, ok := (&config{}).recognise(req)
		require.True(t, ok)
		assert.Equal(t, want, providerOf(host, protocol), host)
	}
	for target, want := range map[string]int{"https://a": 443, "http://a": 80, "http://a:8080": 8080, "ftp://a": 0, "http://a:x": 0} {
		u, err := url.Parse(target)
		if err == nil {
			assert.Equal(t, want, portOf(u), target)
		}
	}
}

// The model is on the span when the sampler looks, and the decision is kept.
func TestSampling(t *testing.T) {
	stream := ownStreams()[0]
	sampler := &noteSampler{}
	r := newRecorder(t, sdktrace.WithSampler(sampler))
	rt := NewTransport(base(t), WithTracerProvider(r))
	url := script(t, sseHead+strings.Join(stream.events, ""), nil)
	for range 2 {
		_, err := call(t.Context(), rt, url+chatPath, chatBody)
		require.NoError(t, err)
	}
	require.Len(t, sampler.seen, 2)
	assert.Equal(t, "gpt-5", sampler.seen[1]["gen_ai.request.model"].AsString())
	assert.Equal(t, "openai", sampler.seen[0]["gen_ai.provider.name"].AsString())
	for _, s := range r.spans.Ended() {
		assert.Equal(t, "chat gpt-5", s.Name(), "the first one too, whose body was read after its start")
		assert.Equal(t, "gpt-5", span{s}.get("gen_ai.request.model"))
	}

	var below trace.SpanContext
	rt = NewTransport(roundTripper(func(req *http.Request) (*http.Response, error) {
		below = trace.SpanContextFromContext(req.Context())
		return nil, io.EOF
	}), WithTracerProvider(newRecorder(t, sdktrace.WithSampler(sdktrace.NeverSample()))))
	_, err := call(t.Context(), rt, "http://x"+chatPath, chatBody)
	require.ErrorIs(t, err, io.EOF)
	assert.True(t, below.IsValid())
	assert.False(t, below.IsSampled(), "what is below follows the decision")
}

type noteSampler struct {
	seen []map[attribute.Key]attribute.Value
}

func (s *noteSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	m := map[attribute.Key]attribute.Value{}
	for _, kv := range p.Attributes {
		m[kv.Key] = kv.Value
	}
	s.seen = append(s.seen, m)
	return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
}

func (*noteSampler) Description() string { return "note" }

// The provider of the span in the context is used where none is given.
func TestProviderOfTheContext(t *testing.T) {
	r := newRecorder(t)
	ctx, parent := r.Tracer("app").Start(t.Context(), "app")
	_, err := call(ctx, NewTransport(base(t)), script(t, sseHead+strings.Join(ownStreams()[0].events, ""), nil)+chatPath, chatBody)
	require.NoError(t, err)
	parent.End()
	require.Len(t, r.named("chat gpt-5"), 1)
	assert.Equal(t, parent.SpanContext().SpanID(), r.named("chat gpt-5")[0].Parent().SpanID())
}

func TestAttemptHeader(t *testing.T) {
	for header, want := range map[string]any{"": nil, "0": int64(1), "2": int64(3), "-1": nil, "x": nil, "1000000": nil} {
		r := newRecorder(t)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+chatPath, strings.NewReader(chatBody))
		require.NoError(t, err)
		if header != "" {
			req.Header.Set("X-Stainless-Retry-Count", header)
		}
		rt := NewTransport(roundTripper(func(*http.Request) (*http.Response, error) { return nil, io.EOF }), WithTracerProvider(r))
		_, err = rt.RoundTrip(req)
		require.Error(t, err)
		assert.Equal(t, want, r.only(t).get("llm.request.attempt"), "header %q", header)
	}
}

// net/http sends a request again by itself when a kept connection turns out to be closed.
func TestResendCount(t *testing.T) {
	stream := strings.Join(ownStreams()[0].events, "")
	answer := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: " + strconv.Itoa(len(stream)) + "\r\n\r\n" + stream
	url := "http://" + nettest.Listen(t, func(c net.Conn) {
		if nettest.ReadRequest(c) == nil {
			return
		}
		_, _ = io.WriteString(c, answer)
		_ = nettest.ReadRequest(c) // the next one goes unanswered
	})
	r := newRecorder(t)
	rt := NewTransport(base(t), WithTracerProvider(r))
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+chatPath, strings.NewReader(chatBody))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "1") // else net/http does not repeat a POST
		resp, err := rt.RoundTrip(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
	}
	spans := r.named("chat gpt-5")
	require.Len(t, spans, 2)
	assert.Nil(t, spans[0].get("http.request.resend_count"))
	assert.Equal(t, int64(1), spans[1].get("http.request.resend_count"))
}

// A transparent gzip is read as it is undone.
func TestTransparentCompression(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "gzip", r.Header.Get("Accept-Encoding"))
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(gzipped(strings.Join(ownStreams()[0].events, "")))
	}))
	defer s.Close()
	r := newRecorder(t)
	_, err := call(t.Context(), NewTransport(s.Client().Transport, WithTracerProvider(r)), s.URL+chatPath, chatBody)
	require.NoError(t, err)
	assert.Equal(t, "terminal_event", r.only(t).get("llm.stream.end"))
}

// A panic below is not swallowed, and leaves no span open.
func TestPanicBelow(t *testing.T) {
	r := newRecorder(t)
	rt := NewTransport(roundTripper(func(*http.Request) (*http.Response, error) { panic("below") }), WithTracerProvider(r))
	assert.PanicsWithValue(t, "below", func() {
		_, _ = call(t.Context(), rt, "http://x"+chatPath, chatBody)
	})
	assert.Equal(t, "no_response", r.only(t).get("llm.stream.end"))
}

func TestMostEvents(t *testing.T) {
	var b strings.Builder
	b.WriteString(`data: {"choices":[{"index":0,"delta":{"tool_calls":[`)
	for i := range 60 {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(`{"index":` + strconv.Itoa(i) + `,"id":"call_` + strconv.Itoa(i) + `","function":{"name":"f","arguments":"{}"}}`)
	}
	b.WriteString("]}}]}\n\n")
	r := newRecorder(t)
	_, err := call(t.Context(), NewTransport(base(t), WithTracerProvider(r)), script(t, sseHead+b.String(), nil)+chatPath, chatBody)
	require.NoError(t, err)
	s := r.only(t)
	assert.LessOrEqual(t, len(s.Events()), 32)
	assert.Equal(t, semconv.EventStreamInterrupted, s.events()[len(s.Events())-1], "how it ended is there in any case")
	assert.Equal(t, int64(60), s.get("llm.stream.tool_inputs_started"))
	for _, e := range s.Events() {
		if e.Name == semconv.EventStreamToolInputStarted {
			assert.Len(t, e.Attributes, 2)
		}
	}
}

func TestCloseIdleConnections(t *testing.T) {
	closed := false
	client := http.Client{Transport: NewTransport(closer{closed: &closed})}
	client.CloseIdleConnections()
	assert.True(t, closed)
	(&http.Client{Transport: NewTransport(roundTripper(nil))}).CloseIdleConnections()
}

type closer struct {
	http.RoundTripper

	closed *bool
}

func (c closer) CloseIdleConnections() { *c.closed = true }

package otelllm

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
)

// A response that is not the answer of a model has a definite outcome, too, and reaches the
// consumer unchanged.
func TestOddAnswers(t *testing.T) {
	const pageHead = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=UTF-8\r\nConnection: close\r\n\r\n"
	whole := firstText + chatStop + chatDone
	for _, tt := range []struct {
		name     string
		response string
		want     map[attribute.Key]any
		failed   bool
	}{
		{
			"an HTML page under 200", pageHead + "<html><body>secret</body></html>",
			map[attribute.Key]any{"llm.stream.end": "eof", "llm.transport.cause": "unexpected_content_type", "llm.transport.stage": "body", "error.type": "unexpected_content_type", "llm.stream.phase": "response_started"},
			true,
		},
		{
			"a complete stream with the content type of a page", pageHead + whole,
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.transport.cause": nil, "llm.stream.text_chunks": int64(1), "llm.stream.phase": "stream_end"},
			false,
		},
		{
			"a server's warning before the stream", pageHead + "<br />\n<b>Warning</b>: secret\n\n" + whole,
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.transport.cause": nil, "llm.stream.text_chunks": int64(1)},
			false,
		},
		{
			"a call in a stream with the content type of a page", pageHead + "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\"}}]}}]}\n\n",
			map[attribute.Key]any{"llm.stream.end": "eof", "llm.transport.cause": "clean_eof", "llm.stream.tool_inputs_started": int64(1), "llm.stream.tool_inputs_completed": int64(1), "llm.stream.phase": "tool_call_ready"},
			true,
		},
		{
			"text instead of JSON", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\nsecret no json",
			map[attribute.Key]any{"llm.stream.end": "eof", "llm.transport.cause": "malformed_event", "error.type": "malformed_event"},
			true,
		},
		{
			"an event that is not JSON", sseHead + "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: secret\n\n",
			map[attribute.Key]any{"llm.stream.end": "eof", "llm.transport.cause": "malformed_event", "llm.stream.phase": "text", "gen_ai.response.finish_reasons": []string{"error"}},
			true,
		},
		{
			"nothing at all", sseHead,
			map[attribute.Key]any{"llm.stream.end": "eof", "llm.transport.cause": "clean_eof", "llm.stream.phase": "response_started", "gen_ai.response.finish_reasons": []string{"error"}, "error.type": "clean_eof"},
			true,
		},
		{
			"no body", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
			map[attribute.Key]any{"llm.stream.end": "eof", "llm.transport.cause": "clean_eof", "llm.stream.bytes": int64(0)},
			true,
		},
		{
			"[DONE] alone", sseHead + "data: [DONE]\n\n",
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "gen_ai.response.finish_reasons": []string{"error"}, "error.type": "no_content", "llm.transport.cause": nil},
			true,
		},
		{
			"[DONE] after text, without a finish reason", sseHead + "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n",
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.transport.cause": nil, "llm.stream.phase": "stream_end", "gen_ai.response.finish_reasons": []string{"unstated"}},
			false,
		},
		{
			"a finish reason without [DONE]", sseHead + "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n",
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.transport.cause": nil, "llm.stream.phase": "stream_end", "gen_ai.response.finish_reasons": []string{"stop"}},
			false,
		},
		{
			"an in-band error", sseHead + "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"error\":{\"message\":\"secret\",\"type\":\"server_error\",\"code\":\"slow_down\"}}\n\ndata: [DONE]\n\n",
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.provider_error.kind": "overloaded", "llm.provider_error.code": "slow_down", "llm.provider_error.in_band": true, "error.type": "slow_down", "llm.stream.phase": "text", "gen_ai.response.finish_reasons": []string{"error"}},
			true,
		},
		{
			"a content encoding that the transport does not decode", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: br\r\nConnection: close\r\n\r\nsecret",
			map[attribute.Key]any{"llm.stream.end": nil, "llm.stream.phase": "unknown", "llm.stream.events": nil, "llm.stream.bytes": int64(6), "llm.transport.cause": nil},
			false,
		},
		{
			"a redirect", "HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
			map[attribute.Key]any{"llm.stream.end": nil, "llm.stream.phase": "unknown", "http.response.status_code": int64(307), "llm.transport.cause": nil},
			false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			got, err := call(t.Context(), requestTransport(base(t), WithTracerProvider(r)), scriptedServer(t, tt.response, nil)+chatPath, chatBody)
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
				assert.NotContains(t, kv.Value.String(), "secret")
			}
		})
	}
}

// A content type that no model answers with is the cause even if the consumer reads
// nothing but the headers.
func TestPageThatIsNotRead(t *testing.T) {
	r := newRecorder(t)
	url := scriptedServer(t, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>", nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+chatPath, strings.NewReader(chatBody))
	require.NoError(t, err)
	resp, err := NewTransport(base(t), WithTracerProvider(r)).RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	s := r.only(t)
	assert.Equal(t, "consumer_closed", s.get("llm.stream.end"))
	assert.Equal(t, "unexpected_content_type", s.get("llm.transport.cause"))
}

// An event longer than any SDK accepts passes unchanged, and only the recording ends.
func TestHugeEvent(t *testing.T) {
	if sample.Only() {
		t.Skip("40 MB")
	}
	huge := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + strings.Repeat("x", 40<<20) + "\"}}]}\n\n"
	r := newRecorder(t)
	got, err := call(t.Context(), NewTransport(base(t), WithTracerProvider(r)), scriptedServer(t, sseHead+huge, nil)+chatPath, chatBody)
	require.NoError(t, err)
	assertSame(t, huge, got)
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
			map[attribute.Key]any{"llm.provider_error.kind": "rate_limited", "llm.provider_error.code": "rate_limit_exceeded", "llm.retry.after": 7.0, "error.type": "429", "llm.request.id": "req_9"},
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
			map[attribute.Key]any{"llm.provider_error.kind": "overloaded", "llm.provider_error.code": "overloaded_error", "llm.retry.after": 1.5, "llm.request.id": "req_011"},
		},
		{
			"a gateway's page", chatPath, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\n", "<html>secret</html>",
			map[attribute.Key]any{"llm.provider_error.kind": "server_error", "llm.provider_error.code": nil, "error.type": "502"},
		},
		{
			"a sentence as the code", chatPath, "HTTP/1.1 500 Internal Server Error\r\n", `{"error":{"message":"secret","type":"the secret of the server"}}`,
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
			got, err := call(t.Context(), NewTransport(base(t), WithTracerProvider(r)), scriptedServer(t, tt.head+"Connection: close\r\n\r\n"+tt.body, nil)+tt.path, bodyFor(tt.path))
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

	t.Run("not read", func(t *testing.T) {
		r := newRecorder(t)
		url := scriptedServer(t, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nConnection: close\r\n\r\n{\"error\":{\"code\":\"insufficient_quota\"}}", nil)
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
			"a certificate that the server refuses", func(t *testing.T) (http.RoundTripper, string) {
				s := httptest.NewUnstartedServer(http.NotFoundHandler())
				s.Config.ErrorLog = log.New(io.Discard, "", 0)
				// If the alert comes before the request is written, net/http may return only that it closed the connection.
				wrote := make(chan struct{})
				s.TLS = &tls.Config{
					ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS13,
					VerifyConnection: func(tls.ConnectionState) error { <-wrote; return errors.New("no certificate") },
				}
				s.StartTLS()
				t.Cleanup(s.Close)
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					hooks := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(wrote) }}
					return s.Client().Transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), hooks)))
				}), s.URL
			},
			map[attribute.Key]any{"llm.stream.phase": "before_connection", "llm.transport.cause": "tls", "llm.transport.code": "CERTIFICATE_VERIFY_FAILED"},
		},
		{
			"closed before headers", func(t *testing.T) (http.RoundTripper, string) { return base(t), scriptedServer(t, "", nil) },
			map[attribute.Key]any{"llm.stream.phase": "awaiting_response", "llm.transport.cause": "closed_before_headers", "llm.transport.stage": "headers"},
		},
		{
			"a base URL without a scheme", func(t *testing.T) (http.RoundTripper, string) { return base(t), "localhost:8080" },
			map[attribute.Key]any{"llm.stream.phase": "before_connection", "llm.transport.cause": "invalid_url", "llm.transport.stage": nil, "error.type": "invalid_url"},
		},
		{
			"a base URL without a host", func(t *testing.T) (http.RoundTripper, string) { return base(t), "" },
			map[attribute.Key]any{"llm.stream.phase": "before_connection", "llm.transport.cause": "invalid_url", "error.type": "invalid_url"},
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

// A response that net/http decompresses transparently is read in its decompressed form.
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

// A panic of the transport below is not swallowed, and no span stays open.
func TestPanicBelow(t *testing.T) {
	r := newRecorder(t)
	rt := NewTransport(roundTripper(func(*http.Request) (*http.Response, error) { panic("below") }), WithTracerProvider(r))
	assert.PanicsWithValue(t, "below", func() {
		_, _ = call(t.Context(), rt, "http://x"+chatPath, chatBody)
	})
	assert.Equal(t, "no_response", r.only(t).get("llm.stream.end"))
}

package otelllm

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
)

const (
	chatText = "data: {\"id\":\"c\",\"model\":\"gpt-5\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"
	chatStop = "data: {\"id\":\"c\",\"model\":\"gpt-5\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
	chatDone = "data: [DONE]\n\n"
)

// testGateway is a proxy with both sides instrumented, over HTTP/1.1.
type testGateway struct {
	*recorder

	url string
}

func newGateway(t *testing.T, next http.Handler, opts ...HandlerOption) *testGateway {
	t.Helper()
	g := &testGateway{recorder: newRecorder(t)}
	srv := httptest.NewServer(NewHandler(next, append(opts, WithTracerProvider(g))...))
	t.Cleanup(srv.Close)
	g.url = srv.URL
	return g
}

// proxy passes everything on to target.
func proxy(t *testing.T, target string) http.Handler {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	p := httputil.NewSingleHostReverseProxy(u)
	p.Transport = NewTransport(base(t))
	p.FlushInterval = -1
	return fullDuplex(p)
}

// fullDuplex lets next answer before it has read a request to its end. Without it,
// net/http closes the request's body when the answer begins, and a transport that
// has not read the EOF of the body yet closes the connection upstream.
func fullDuplex(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // fails over HTTP/2, which is always full duplex
		next.ServeHTTP(w, r)
	})
}

// served waits for the gateway's own span, which ends when the handler has returned.
func (g *testGateway) served(t *testing.T) span {
	t.Helper()
	return g.await(t, trace.SpanKindServer)
}

func (g *testGateway) upstream(t *testing.T) span {
	t.Helper()
	return g.await(t, trace.SpanKindClient)
}

func (g *testGateway) await(t *testing.T, kind trace.SpanKind) (found span) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, s := range g.spans.Ended() {
			if s.SpanKind() == kind {
				found = span{s}
				return true
			}
		}
		return false
	}, testTimeout, pollInterval)
	return found
}

func TestGateway(t *testing.T) {
	reset := func(c net.Conn) { nettest.Reset(c) }
	// swallowing answers with end, whatever happens upstream.
	swallowing := func(t *testing.T, target, end string) http.Handler {
		client := &http.Client{Transport: NewTransport(base(t))}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, target+r.URL.Path, r.Body)
			if err == nil {
				var resp *http.Response
				if resp, err = client.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, end)
		})
	}
	swallow := func(t *testing.T, target string) http.Handler { return swallowing(t, target, chatDone) }
	madeUp := func(t *testing.T, target string) http.Handler { return swallowing(t, target, chatStop+chatDone) }
	for _, tt := range []struct {
		name    string
		gateway func(*testing.T, string) http.Handler
		answer  string
		then    func(net.Conn)
		status  int
		read    string
		want    map[attribute.Key]any
		absent  []attribute.Key
	}{
		{
			"complete", proxy, sseHead + chatText + chatStop + chatDone, nil, 200, chatText + chatStop + chatDone,
			map[attribute.Key]any{
				"llm.stream.end": "terminal_event", "llm.stream.phase": "stream_end", "llm.stream.text_chunks": int64(1), "gen_ai.request.model": "gpt-5",
				"gen_ai.response.finish_reasons": []string{"stop"}, "http.response.status_code": int64(200), "llm.stream.bytes": int64(len(chatText + chatStop + chatDone)),
			},
			[]attribute.Key{"error.type", "llm.abort.source"},
		},
		{
			"upstream resets in text", proxy, sseHead + chatText, reset, 200, chatText,
			map[attribute.Key]any{"llm.stream.end": "read_error", "llm.stream.phase": "text", "llm.transport.cause": "connection_reset", "error.type": "connection_reset"},
			[]attribute.Key{"llm.abort.source"},
		},
		{
			"upstream ends in text", proxy, sseHead + chatText, nil, 200, chatText,
			map[attribute.Key]any{"llm.stream.end": "eof", "llm.stream.phase": "text", "llm.transport.cause": "clean_eof", "error.type": "clean_eof"},
			nil,
		},
		{
			"upstream closes before headers", proxy, "", nil, 502, "",
			map[attribute.Key]any{"llm.stream.end": "no_response", "http.response.status_code": int64(502), "llm.transport.cause": "closed_before_headers", "error.type": "closed_before_headers"},
			[]attribute.Key{"llm.provider_error.kind"},
		},
		{
			"upstream is overloaded", proxy, "HTTP/1.1 529 x\r\nContent-Type: application/json\r\nRetry-After: 7\r\nConnection: close\r\n\r\n{\"error\":{\"type\":\"overloaded_error\"}}", nil, 529, `{"error":{"type":"overloaded_error"}}`,
			map[attribute.Key]any{"llm.stream.end": "http_error", "llm.provider_error.kind": "overloaded", "error.type": "529", "llm.retry.after": 7.0},
			nil,
		},
		{
			"an in-band error is passed on", proxy, sseHead + chatText + "data: {\"error\":{\"code\":\"server_error\",\"message\":\"x\"}}\n\n", nil, 200, chatText + "data: {\"error\":{\"code\":\"server_error\",\"message\":\"x\"}}\n\n",
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.provider_error.kind": "server_error", "llm.provider_error.in_band": true},
			nil,
		},
		{
			"a reset is swallowed", swallow, sseHead + chatText, reset, 200, chatDone,
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.transport.cause": "connection_reset", "error.type": "connection_reset", "gen_ai.response.finish_reasons": []string{"error"}},
			nil,
		},
		{
			"an overload is swallowed", swallow, "HTTP/1.1 503 x\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{\"error\":{\"code\":\"server_is_overloaded\"}}", nil, 200, chatDone,
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.provider_error.kind": "overloaded", "error.type": "server_is_overloaded"},
			nil,
		},
		{
			"a reset is swallowed, with a finish reason", madeUp, sseHead + chatText, reset, 200, chatStop + chatDone,
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.transport.cause": "connection_reset", "error.type": "connection_reset", "gen_ai.response.finish_reasons": []string{"stop"}},
			nil,
		},
		{
			"empty without a failure", swallow, sseHead + chatText + chatStop + chatDone, nil, 200, chatDone,
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "error.type": "no_content"},
			[]attribute.Key{"llm.transport.cause", "llm.provider_error.kind"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGateway(t, tt.gateway(t, scriptedServer(t, tt.answer, tt.then)))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+chatPath, strings.NewReader(chatBody))
			require.NoError(t, err)
			resp, err := base(t).RoundTrip(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			read, _ := io.ReadAll(resp.Body)
			assert.Equal(t, tt.status, resp.StatusCode)
			assert.Equal(t, tt.read, string(read))
			s := g.served(t)
			assert.Equal(t, "chat gpt-5", s.Name())
			for key, want := range tt.want {
				assert.Equal(t, want, s.get(key), key)
			}
			for _, key := range tt.absent {
				assert.Nil(t, s.get(key), key)
			}
			assert.Equal(t, s.get("error.type") != nil, s.failed())
			up := g.upstream(t)
			assert.Equal(t, s.SpanContext().SpanID(), up.Parent().SpanID(), "the attempt upstream is a child of the served request")
		})
	}
}

// TestGatewayClientGone checks that a client that goes away is not an error of the gateway
// or of its upstream, and that the call succeeded if it goes after the terminal event.
func TestGatewayClientGone(t *testing.T) {
	for _, tt := range []struct {
		name, sends string
		want        map[attribute.Key]any
	}{
		{"in text", chatText, map[attribute.Key]any{"llm.stream.end": "consumer_closed", "llm.abort.source": "consumer", "llm.stream.phase": "text"}},
		{"after the terminal event", chatText + chatStop + chatDone, map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.stream.phase": "stream_end", "llm.abort.source": nil}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			upstream := scriptedServer(t, sseHead+tt.sends, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }) // until the gateway closes the connection
			g := newGateway(t, proxy(t, upstream))
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+chatPath, strings.NewReader(chatBody))
			require.NoError(t, err)
			resp, err := base(t).RoundTrip(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			_, err = io.ReadFull(resp.Body, make([]byte, len(tt.sends)))
			require.NoError(t, err)
			cancel()
			s, up := g.served(t), g.upstream(t)
			for key, want := range tt.want {
				assert.Equal(t, want, s.get(key), key)
			}
			assert.False(t, s.failed())
			assert.False(t, up.failed())
			if tt.want["llm.abort.source"] != nil {
				assert.Equal(t, "consumer", up.get("llm.abort.source"), "the attempt upstream knows who ended it, too")
			}
		})
	}
}

// TestGatewayAborts lets the gateway itself end the call deliberately.
func TestGatewayAborts(t *testing.T) {
	upstream := scriptedServer(t, sseHead+chatText, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) })
	client := &http.Client{Transport: NewTransport(base(t))}
	g := newGateway(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, abort := WithAbort(r.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, upstream+chatPath, r.Body)
		if err != nil {
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.CopyN(w, resp.Body, int64(len(chatText)))
		abort(AbortApplication, "budget")
		_, _ = io.Copy(w, resp.Body)
	}))
	read, err := call(t.Context(), base(t), g.url+chatPath, chatBody)
	require.NoError(t, err)
	assert.Equal(t, chatText, read)
	up := g.upstream(t)
	assert.Equal(t, "application", up.get("llm.abort.source"))
	assert.False(t, up.failed())
	s := g.served(t)
	assert.Equal(t, "cancelled", s.get("llm.stream.end"))
	assert.Equal(t, "application", s.get("llm.abort.source"))
	assert.Equal(t, "budget", s.get("llm.abort.reason"))
	assert.False(t, s.failed())
}

// TestGatewayRecovers checks that a failed attempt is not a failure of the gateway if a later
// attempt succeeds.
func TestGatewayRecovers(t *testing.T) {
	bad := scriptedServer(t, sseHead, reset)
	good := scriptedServer(t, sseHead+chatText+chatStop+chatDone, nil)
	rt := NewTransport(base(t))
	g := newGateway(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, err := call(r.Context(), rt, bad+chatPath, string(body))
		assert.Error(t, err)
		answer, err := call(r.Context(), rt, good+chatPath, string(body))
		assert.NoError(t, err)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.Copy(w, strings.NewReader(answer)) // by ReadFrom, if the writer has it
	}))
	read, err := call(t.Context(), base(t), g.url+chatPath, chatBody)
	require.NoError(t, err)
	assert.Equal(t, chatText+chatStop+chatDone, read)
	s := g.served(t)
	assert.False(t, s.failed())
	assert.Equal(t, int64(len(read)), s.get("llm.stream.bytes"))
	assert.Equal(t, "terminal_event", s.get("llm.stream.end"))
}

func reset(c net.Conn) { nettest.Reset(c) }

// TestHandlerChangesNothing checks that optional interfaces, early hints, panics and
// hijacking work as without the handler, and that other requests pass.
func TestHandlerChangesNothing(t *testing.T) {
	t.Run("interfaces", func(t *testing.T) {
		for _, path := range []string{chatPath, "/elsewhere"} {
			g := newGateway(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, flusher := w.(http.Flusher)
				_, hijacker := w.(http.Hijacker)
				_, readerFrom := w.(io.ReaderFrom)
				assert.True(t, flusher && hijacker && readerFrom)
				assert.NoError(t, http.NewResponseController(w).SetWriteDeadline(time.Now().Add(testTimeout)))
				w.WriteHeader(http.StatusEarlyHints)
				assert.NoError(t, http.NewResponseController(w).Flush())
			}))
			_, err := call(t.Context(), base(t), g.url+path, chatBody)
			require.NoError(t, err)
		}
		plain := NewHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, hijacker := w.(http.Hijacker)
			assert.False(t, hijacker, "the handler adds no interface that the writer lacks")
		}), WithTracerProvider(newRecorder(t)))
		plain.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(chatBody)))
	})
	t.Run("panics", func(t *testing.T) {
		r := newRecorder(t)
		boom := errors.New("boom")
		h := NewHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(boom) }), WithTracerProvider(r))
		assert.PanicsWithValue(t, boom, func() {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(chatBody)))
		})
		assert.True(t, r.only(t).failed())
	})
	t.Run("hijack", func(t *testing.T) {
		g := newGateway(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if assert.NoError(t, err) {
				_, _ = io.WriteString(conn, jsonHead+"{}")
				conn.Close()
			}
		}))
		_, err := call(t.Context(), base(t), g.url+chatPath, chatBody)
		require.NoError(t, err)
		assert.False(t, g.served(t).failed())
	})
	t.Run("without delay", func(t *testing.T) {
		// The upstream sends an event only when the client has received the previous one.
		ack := make(chan struct{})
		events := []string{chatText, chatText, chatStop, chatDone}
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, e := range events {
				_, _ = io.WriteString(w, e)
				_ = http.NewResponseController(w).Flush()
				select {
				case <-ack:
				case <-r.Context().Done():
					return
				}
			}
		}))
		defer upstream.Close()
		g := newGateway(t, proxy(t, upstream.URL))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+chatPath, strings.NewReader(chatBody))
		require.NoError(t, err)
		resp, err := base(t).RoundTrip(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		body := bufio.NewReader(resp.Body)
		for _, e := range events {
			got := make([]byte, len(e))
			_, err := io.ReadFull(body, got)
			require.NoError(t, err)
			assert.Equal(t, e, string(got))
			ack <- struct{}{}
		}
		_, err = body.ReadByte()
		require.ErrorIs(t, err, io.EOF)
		assert.Equal(t, int64(2), g.served(t).get("llm.stream.text_chunks"))
	})
}

// TestGatewayTrace checks that the given propagator extracts the trace context, and that
// the agent's span is the parent of the gateway's span.
func TestGatewayTrace(t *testing.T) {
	g := newGateway(t, proxy(t, scriptedServer(t, sseHead+chatText+chatStop+chatDone, nil)), WithPropagators(propagation.TraceContext{}))
	agent := newRecorder(t)
	_, err := call(t.Context(), NewTransport(base(t), WithTracerProvider(agent), WithPropagators(propagation.TraceContext{})), g.url+chatPath, chatBody)
	require.NoError(t, err)
	asked, served := agent.named("chat gpt-5")[0], g.served(t)
	assert.Equal(t, asked.SpanContext().TraceID(), served.SpanContext().TraceID())
	assert.Equal(t, asked.SpanContext().SpanID(), served.Parent().SpanID())
}

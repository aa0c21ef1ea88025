package websocket

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/responses"
)

const secret = "the-secret-of-the-user"

// fault is what the server does after the beginning of its answer.
type fault int

const (
	answers   fault = iota
	resets          // RST
	closes          // a close frame
	stalls          // nothing
	refuses         // an error in place of an answer
	faultsEnd       //
)

// serve answers each response.create with a long text, which compresses well.
func serve(t *testing.T, what fault, compression websocket.CompressionMode) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hijacked := &hijacker{ResponseWriter: w}
		conn, err := websocket.Accept(hijacked, r, &websocket.AcceptOptions{CompressionMode: compression, CompressionThreshold: 1})
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		ctx := r.Context()
		write := func(frame string) { _ = conn.Write(ctx, websocket.MessageText, []byte(frame)) }
		for n := 1; ; n++ {
			_, frame, err := conn.Read(ctx)
			if err != nil {
				return
			}
			id := fmt.Sprintf("resp_%d", n)
			if what == refuses {
				write(`{"type":"error","status":400,"error":{"type":"invalid_request_error","code":"previous_response_not_found","message":"` + secret + `"}}`)
				continue
			}
			write(`{"type":"response.created","response":{"id":"` + id + `","model":"m","status":"in_progress","output":[]}}`)
			if strings.Contains(string(frame), `"generate":false`) {
				write(`{"type":"response.completed","response":{"id":"` + id + `","model":"m","status":"completed","output":[]}}`)
				continue
			}
			for range 20 {
				write(`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"` + strings.Repeat(secret, 20) + `"}`)
			}
			switch what {
			case resets:
				_ = hijacked.conn.SetLinger(0)
				_ = hijacked.conn.Close()
				return
			case closes:
				_ = conn.Close(websocket.StatusGoingAway, secret)
				return
			case stalls:
				<-ctx.Done()
				return
			case answers, refuses, faultsEnd:
			}
			write(`{"type":"response.completed","response":{"id":"` + id + `","model":"m","status":"completed","output":[],"usage":{"input_tokens":1,"output_tokens":2}}}`)
		}
	}))
	t.Cleanup(server.Close)
	return "ws" + strings.TrimPrefix(server.URL, "http") + "/v1/responses"
}

// hijacker keeps the connection below a WebSocket, to break it.
type hijacker struct {
	http.ResponseWriter

	conn *net.TCPConn
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.conn, _ = conn.(*net.TCPConn)
	return conn, rw, err
}

func dial(t *testing.T, url string, compression websocket.CompressionMode) *websocket.Conn {
	t.Helper()
	h := http.Header{"User-Agent": {"codex_exec/0.169.0 (Debian)"}, "Session-Id": {"s1"}}
	conn, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPHeader: h, CompressionMode: compression, CompressionThreshold: 1})
	require.NoError(t, err)
	conn.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

type spans struct{ *tracetest.InMemoryExporter }

func record(t *testing.T) (spans, *otelllm.Instrumentation) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	with := otelllm.New(otelllm.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))))
	return spans{exporter}, with
}

// only returns the one span of this kind.
func (s spans) only(t *testing.T, kind trace.SpanKind) map[attribute.Key]any {
	t.Helper()
	var found []map[attribute.Key]any
	for _, span := range s.GetSpans() {
		assert.NotContains(t, fmt.Sprint(span), secret)
		if span.SpanKind != kind {
			continue
		}
		attrs := map[attribute.Key]any{}
		for _, kv := range span.Attributes {
			attrs[kv.Key] = kv.Value.AsInterface()
		}
		found = append(found, attrs)
	}
	require.Len(t, found, 1)
	return found[0]
}

const warm = `{"type":"response.create","model":"m","generate":false,"input":[]}`

const ask = `{"type":"response.create","model":"m","previous_response_id":"resp_1","input":[{"type":"message","role":"user","content":"` + secret + `"}]}`

// client asks once, and reads until the answer or the connection ends.
func client(t *testing.T, conn *websocket.Conn, sent, received func([]byte)) error {
	t.Helper()
	for _, frame := range []string{warm, ask} {
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
			return err
		}
		sent([]byte(frame))
		for {
			_, frame, err := conn.Read(t.Context())
			if err != nil {
				return err
			}
			received(frame)
			if strings.Contains(string(frame), `"response.completed"`) || strings.HasPrefix(string(frame), `{"type":"error"`) {
				break
			}
		}
	}
	return nil
}

var modes = map[string]websocket.CompressionMode{"plain": websocket.CompressionDisabled, "deflate": websocket.CompressionContextTakeover, "deflate without context": websocket.CompressionNoContextTakeover}

func TestClient(t *testing.T) {
	for mode, compression := range modes {
		for what, want := range map[fault]map[attribute.Key]any{
			answers: {"llm.stream.end": "terminal_event", "llm.stream.text_chunks": int64(20), "llm.history.tool_calls": nil},
			resets:  {"llm.stream.end": "read_error", "llm.transport.cause": "connection_reset"},
			closes:  {"llm.stream.end": "read_error", "llm.transport.cause": "clean_eof", "llm.transport.code": "WS_1001", "llm.stream.text_chunks": int64(20)},
			refuses: {"llm.provider_error.code": "previous_response_not_found"},
		} {
			t.Run(fmt.Sprint(mode, " ", what), func(t *testing.T) {
				recorded, with := record(t)
				url := serve(t, what, compression)
				conn := dial(t, url, compression)
				s := responses.NewSession(t.Context(), responses.Config{URL: url, Instrumentation: with})
				s.Close(client(t, conn, s.RecordSent, s.RecordReceived))
				require.NoError(t, with.Shutdown(context.Background()))
				got := recorded.only(t, trace.SpanKindClient)
				for key, value := range want {
					if key == "llm.history.tool_calls" {
						assert.Equal(t, []string{}, got[key], key)
						continue
					}
					assert.Equal(t, value, got[key], key)
				}
			})
		}
	}
}

// TestGateway passes every frame on and reports it: the frames, and the end of a connection, are
// seen by the agent as without the gateway.
func TestGateway(t *testing.T) {
	for mode, compression := range modes {
		for what, want := range map[fault]struct{ served, upstream map[attribute.Key]any }{
			answers: {map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.stream.text_chunks": int64(20)}, map[attribute.Key]any{"llm.stream.end": "terminal_event"}},
			resets:  {map[attribute.Key]any{"llm.transport.cause": "connection_reset", "llm.abort.source": nil}, map[attribute.Key]any{"llm.stream.end": "read_error", "llm.transport.cause": "connection_reset"}},
			stalls:  {map[attribute.Key]any{"llm.stream.end": "consumer_closed", "llm.abort.source": "consumer"}, map[attribute.Key]any{"llm.stream.end": "cancelled", "llm.abort.source": "consumer"}},
		} {
			t.Run(fmt.Sprint(mode, " ", what), func(t *testing.T) {
				recorded, with := record(t)
				url := serve(t, what, compression)
				done := make(chan struct{})
				gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					defer close(done)
					pass(t, w, r, url, compression, with)
				}))
				defer gateway.Close()
				conn := dial(t, "ws"+strings.TrimPrefix(gateway.URL, "http")+"/v1/responses", compression)
				var got int
				err := client(t, conn, func([]byte) {}, func([]byte) {
					if got++; what == stalls && got > 10 {
						_ = conn.CloseNow()
					}
				})
				assert.Equal(t, what == answers, err == nil, "%v", err)
				_ = conn.CloseNow()
				select {
				case <-done:
				case <-time.After(20 * time.Second):
					t.Fatal("the gateway goes on")
				}
				require.NoError(t, with.Shutdown(context.Background()))
				for key, value := range want.served {
					assert.Equal(t, value, recorded.only(t, trace.SpanKindServer)[key], key)
				}
				for key, value := range want.upstream {
					assert.Equal(t, value, recorded.only(t, trace.SpanKindClient)[key], key)
				}
			})
		}
	}
}

// pass is a gateway.
func pass(t *testing.T, w http.ResponseWriter, r *http.Request, url string, compression websocket.CompressionMode, with *otelllm.Instrumentation) {
	t.Helper()
	agent, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: compression})
	if err != nil {
		t.Errorf("the gateway has no connection: %v", err)
		return
	}
	defer func() { _ = agent.CloseNow() }()
	upstream, _, err := websocket.Dial(r.Context(), url, &websocket.DialOptions{CompressionMode: compression})
	if err != nil {
		t.Errorf("the gateway has no connection: %v", err)
		return
	}
	defer func() { _ = upstream.CloseNow() }()
	served := responses.NewSession(r.Context(), responses.Config{URL: "ws://" + r.Host, Header: r.Header, Serving: true, Instrumentation: with})
	sent := responses.NewSession(r.Context(), responses.Config{URL: url, Upstream: served, Instrumentation: with})

	ctx, cancel := context.WithCancel(r.Context())
	var passing sync.WaitGroup
	defer passing.Wait() // the last frame that was written may not have been reported
	defer cancel()
	gone := make(chan error, 1) // the agent's connection ended
	passing.Go(func() {
		for {
			kind, frame, err := agent.Read(ctx)
			if err != nil {
				gone <- err
				return
			}
			served.RecordReceived(frame)
			if err := upstream.Write(ctx, kind, frame); err != nil {
				sent.RecordSendFailure(frame, err)
				return
			}
			sent.RecordSent(frame)
		}
	})
	broke := make(chan error, 1) // the provider's did
	passing.Go(func() {
		for {
			kind, frame, err := upstream.Read(ctx)
			if err != nil {
				broke <- err
				return
			}
			sent.RecordReceived(frame)
			if err := agent.Write(ctx, kind, frame); err != nil {
				served.RecordSendFailure(frame, err)
				return
			}
			served.RecordSent(frame)
		}
	})
	select {
	case err := <-gone:
		served.Close(err)
		sent.Close(nil)
	case err := <-broke:
		sent.Close(err)
		served.Close(nil)
	}
}

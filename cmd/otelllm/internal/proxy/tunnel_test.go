package proxy

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // the handshake of WebSocket has it
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm"
)

// acceptRaw answers the handshake of a WebSocket.
func acceptRaw(p *peer) {
	req, err := http.ReadRequest(p.r)
	if err != nil {
		return
	}
	key := req.Header.Get("Sec-Websocket-Key")
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // see above
	p.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(sum[:]) + "\r\n\r\n")
}

// echo is a server of WebSockets that sends every message back, and knows some words.
func echo(mode websocket.CompressionMode) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: mode, Subprotocols: []string{"realtime"}})
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		conn.SetReadLimit(-1)
		ctx := r.Context()
		for {
			kind, message, err := conn.Read(ctx)
			if err != nil {
				return
			}
			switch string(message) {
			case "close":
				_ = conn.Close(1013, "later")
				return
			case "ping":
				go func() { _ = conn.Ping(ctx) }()
			}
			if conn.Write(ctx, kind, message) != nil {
				return
			}
		}
	})
}

func TestWebSocket(t *testing.T) {
	for _, mode := range []websocket.CompressionMode{websocket.CompressionDisabled, websocket.CompressionContextTakeover, websocket.CompressionNoContextTakeover} {
		t.Run([]string{"plain", "takeover", "no takeover"}[mode], func(t *testing.T) {
			secure := mode == websocket.CompressionContextTakeover
			up := httptest.NewUnstartedServer(echo(mode))
			up.EnableHTTP2 = true
			config := func(*Config) {}
			if secure {
				up.StartTLS()
				config = func(c *Config) { c.Transport = up.Client().Transport.(*http.Transport) }
			} else {
				up.Start()
			}
			defer up.Close()
			to, err := url.Parse(up.URL)
			require.NoError(t, err)
			proxy := start(t, to, config)
			pinged := make(chan struct{}, 10)
			conn, resp, err := websocket.Dial(t.Context(), "ws://"+proxy.addr+"/v1/realtime?model=m", &websocket.DialOptions{ //nolint:bodyclose // the library closes it
				CompressionMode: mode, Subprotocols: []string{"realtime"},
				OnPingReceived: func(context.Context, []byte) bool { pinged <- struct{}{}; return true },
			})
			require.NoError(t, err)
			defer func() { _ = conn.CloseNow() }()
			conn.SetReadLimit(-1)
			assert.Equal(t, "realtime", conn.Subprotocol())
			assert.Equal(t, mode != websocket.CompressionDisabled, strings.Contains(resp.Header.Get("Sec-Websocket-Extensions"), "permessage-deflate"))
			for _, message := range []string{"a", "", strings.Repeat("ab", 1000), strings.Repeat("0123456789", 100_000), "ping", strings.Repeat("ab", 1000)} {
				for _, kind := range []websocket.MessageType{websocket.MessageText, websocket.MessageBinary} {
					require.NoError(t, conn.Write(t.Context(), kind, []byte(message)))
					gotKind, got, err := conn.Read(t.Context())
					require.NoError(t, err)
					assert.Equal(t, kind, gotKind)
					assert.Equal(t, sha256.Sum256([]byte(message)), sha256.Sum256(got), "%d bytes", len(got))
				}
			}
			ended := make(chan error, 1)
			go func() { // a ping may come late, and only a Read answers it
				_, _, err := conn.Read(t.Context())
				ended <- err
			}()
			<-pinged
			require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte("close")))
			err = <-ended
			var closed websocket.CloseError
			require.ErrorAs(t, err, &closed)
			assert.Equal(t, websocket.CloseError{Code: 1013, Reason: "later"}, closed)
		})
	}
}

// A WebSocket that is refused gets the upstream's answer.
func TestWebSocketRefused(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) }))
	defer up.Close()
	to, _ := url.Parse(up.URL)
	proxy := start(t, to)
	_, resp, err := websocket.Dial(t.Context(), "ws://"+proxy.addr+"/v1/responses", nil) //nolint:bodyclose // the library closes it
	require.Error(t, err)
	assert.Equal(t, http.StatusUnauthorized, resp.StatusCode)
}

const (
	hello     = "\x81\x05hello" // a text frame
	handshake = "GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)

// A switch of protocols without a request for it ends on both sides, and not when memory is
// collected.
func TestWebSocketNotAskedFor(t *testing.T) {
	const switched = "HTTP/1.1 101 Switching Protocols\r\n"
	for name, tt := range map[string]struct{ upgrade, answer string }{
		"without a request":         {"", switched + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"},
		"to another protocol":       {"websocket", switched + "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"},
		"to no protocol":            {"websocket", switched + "\r\n"},
		"to none without a request": {"", switched + "\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan error, 1)
			up := serveRaw(t, func(_ *upstream, p *peer) {
				p.request()
				p.send(tt.answer)
				_ = p.SetReadDeadline(time.Now().Add(patience))
				_, err := p.r.ReadByte()
				ended <- err
			})
			proxy := start(t, up.url())
			var headers []string
			if tt.upgrade != "" {
				headers = []string{"Connection: Upgrade", "Upgrade: " + tt.upgrade}
			}
			got, _ := exchangeRaw(t, proxy.addr, post(proxy.addr, "/v1/responses", headers...))
			assert.Empty(t, got)
			assert.NotContains(t, endOf(<-ended), "other", "the connection upstream is still open")
			require.NoError(t, proxy.end())
		})
	}
}

// A WebSocket ends on the one side as it does on the other.
func TestWebSocketEnds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		serve func(p *peer)
		end   string
	}{
		{"reset between frames", func(p *peer) { p.send(hello); p.reset() }, rst},
		{"closed between frames", func(p *peer) { p.send(hello) }, fin},
		{"reset within a frame", func(p *peer) { p.send(hello + hello[:4]); p.reset() }, rst},
		{"closed within a frame", func(p *peer) { p.send(hello + hello[:4]) }, fin},
		{"a close frame", func(p *peer) { p.send(hello + "\x88\x02\x03\xf3") }, fin},
	} {
		t.Run("upstream: "+tt.name, func(t *testing.T) {
			up := serveRaw(t, func(_ *upstream, p *peer) { acceptRaw(p); tt.serve(p) })
			proxy := start(t, up.url())
			direct, directEnd := exchangeRaw(t, up.Addr().String(), handshake)
			got, end := exchangeRaw(t, proxy.addr, handshake)
			assert.Equal(t, tt.end, directEnd)
			assert.Equal(t, directEnd, end)
			_, want, _ := strings.Cut(direct, "\r\n\r\n")
			_, frames, _ := strings.Cut(got, "\r\n\r\n")
			assert.Equal(t, want, frames)
		})
	}
	for _, kind := range []string{fin, rst} {
		t.Run("client: "+kind, func(t *testing.T) {
			gone := make(chan error, 1)
			up := serveRaw(t, func(_ *upstream, p *peer) {
				acceptRaw(p)
				p.send(hello)
				_, err := io.Copy(io.Discard, p.r)
				if err == nil {
					err = io.EOF
				}
				gone <- err
			})
			proxy := start(t, up.url())
			conn := dial(t, proxy.addr)
			_, err := io.WriteString(conn, handshake+hello) // not masked, but nothing checks it
			require.NoError(t, err)
			got := make([]byte, 4096)
			for n := 0; !bytes.HasSuffix(got[:n], []byte(hello)); {
				m, err := conn.Read(got[n:])
				require.NoError(t, err)
				n += m
			}
			if kind == rst {
				require.NoError(t, conn.SetLinger(0))
			}
			require.NoError(t, conn.Close())
			assert.Equal(t, kind, endOf(<-gone))
		})
	}
}

// A session of the Realtime API is recorded.
func TestRealtime(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionContextTakeover, CompressionThreshold: 1})
		if !assert.NoError(t, err) {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		ctx := r.Context()
		say := func(text string) { _ = conn.Write(ctx, websocket.MessageText, []byte(text)) }
		say(`{"type":"session.created","session":{"model":"gpt-realtime"}}`)
		_, _, err = conn.Read(r.Context())
		assert.NoError(t, err)
		say(`{"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}`)
		say(`{"type":"response.output_text.delta","response_id":"resp_1","delta":"Hel"}`)
		_ = conn.Close(1011, "secret reason")
	}))
	defer up.Close()
	to, _ := url.Parse(up.URL)
	proxy := start(t, to)
	conn, _, err := websocket.Dial(t.Context(), "ws://"+proxy.addr+"/v1/realtime?model=gpt-realtime", &websocket.DialOptions{ //nolint:bodyclose // the library closes it
		CompressionMode: websocket.CompressionContextTakeover, CompressionThreshold: 1,
	})
	require.NoError(t, err)
	defer func() { _ = conn.CloseNow() }()
	require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":"response.create"}`)))
	for err == nil {
		_, _, err = conn.Read(t.Context())
	}
	assert.Equal(t, websocket.StatusCode(1011), websocket.CloseStatus(err))
	span := attributes(proxy.ended(t, oteltrace.SpanKindClient, 1)[0])
	assert.Equal(t, "gpt-realtime", span["gen_ai.request.model"])
	assert.Equal(t, "1", span["llm.stream.text_chunks"])
	assert.Equal(t, "clean_eof", span["llm.transport.cause"])
	for key, value := range span {
		assert.NotContains(t, value, "secret", key)
	}
}

// A session of the Realtime API is a run: what becomes of a call that it makes is said of the run.
func TestRealtimeRuns(t *testing.T) {
	const call = `{"id":"it_1","type":"function_call","status":"completed","call_id":"call_1","name":"pay","arguments":"{}"}`
	output := `{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"call_1","output":"secret"}}`
	for _, tt := range []struct {
		name    string
		sends   []string // after the call
		outcome string
		cause   string
		missing bool
	}{
		{"the session closes", nil, "failed", "never_answered", true},
		{"the person goes on", []string{`{"type":"response.create"}`}, "failed", "omitted_from_retry", true},
		{"the call is answered", []string{output, `{"type":"response.create"}`}, "succeeded", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, err := websocket.Accept(w, r, nil)
				if !assert.NoError(t, err) {
					return
				}
				defer func() { _ = conn.CloseNow() }()
				say := func(ctx context.Context, text string) { _ = conn.Write(ctx, websocket.MessageText, []byte(text)) }
				begun := 0
				for {
					_, message, err := conn.Read(r.Context())
					if err != nil {
						return
					}
					if !strings.Contains(string(message), "response.create") {
						continue
					}
					if begun++; begun == 1 {
						say(r.Context(), `{"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}`)
						say(r.Context(), `{"type":"response.output_item.added","response_id":"resp_1","output_index":0,"item":`+strings.Replace(call, "completed", "in_progress", 1)+`}`)
						say(r.Context(), `{"type":"response.output_item.done","response_id":"resp_1","output_index":0,"item":`+call+`}`)
						say(r.Context(), `{"type":"response.done","response":{"id":"resp_1","status":"completed","output":[`+call+`]}}`)
						continue
					}
					say(r.Context(), `{"type":"response.created","response":{"id":"resp_2","status":"in_progress"}}`)
					say(r.Context(), `{"type":"response.output_text.delta","response_id":"resp_2","delta":"Hel"}`)
					say(r.Context(), `{"type":"response.done","response":{"id":"resp_2","status":"completed","output":[]}}`)
				}
			}))
			defer up.Close()
			to, _ := url.Parse(up.URL)
			spans := tracetest.NewSpanRecorder()
			proxy := start(t, to, func(c *Config) {
				c.Instrumentation = otelllm.New(otelllm.WithVerdicts(), otelllm.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))))
			})
			conn, _, err := websocket.Dial(t.Context(), "ws://"+proxy.addr+"/v1/realtime?model=gpt-realtime", &websocket.DialOptions{ //nolint:bodyclose // the library closes it
				HTTPHeader: http.Header{"User-Agent": {"voicebot/1.2"}},
			})
			require.NoError(t, err)
			defer func() { _ = conn.CloseNow() }()
			readDone := func() {
				for {
					_, message, err := conn.Read(t.Context())
					require.NoError(t, err)
					if strings.Contains(string(message), "response.done") {
						return
					}
				}
			}
			require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":"response.create"}`)))
			readDone()
			for _, message := range tt.sends {
				require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(message)))
			}
			if len(tt.sends) > 0 {
				readDone()
			}
			require.NoError(t, conn.Close(websocket.StatusNormalClosure, ""))
			var run map[string]string
			require.Eventually(t, func() bool {
				for _, s := range spans.Ended() {
					if s.Name() == "invoke_agent voicebot" {
						run = attributes(s)
					}
				}
				return run != nil
			}, patience, time.Millisecond)
			assert.Equal(t, tt.outcome, run["llm.run.outcome"])
			assert.Equal(t, tt.cause, run["llm.failure.cause"])
			assert.Equal(t, tt.missing, run["llm.history.missing_outputs"] != "")
			assert.Equal(t, "true", run["llm.run.inferred"])
		})
	}
}

// Requests of the Responses API over a WebSocket are recorded once, as those over HTTP.
func TestResponses(t *testing.T) {
	for _, tt := range []struct {
		name           string
		serve          func(conn *websocket.Conn, say func(string))
		end, by, cause string
	}{
		{"whole", func(conn *websocket.Conn, say func(string)) {
			say(`{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hel"}]}]}}`)
			_, _, _ = conn.Read(context.Background())
		}, "terminal_event", "", ""},
		{"closed", func(conn *websocket.Conn, _ func(string)) { _ = conn.Close(1012, "secret reason") }, "read_error", "", "clean_eof"},
		{"the client goes", func(conn *websocket.Conn, say func(string)) {
			say(`{"type":"go"}`)
			_, _, _ = conn.Read(context.Background())
		}, "consumer_closed", "consumer", ""},
		{"shutdown", func(conn *websocket.Conn, say func(string)) {
			say(`{"type":"shutdown"}`)
			_, _, _ = conn.Read(context.Background())
		}, "cancelled", "shutdown", "cancelled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionContextTakeover, CompressionThreshold: 1})
				if !assert.NoError(t, err) {
					return
				}
				defer func() { _ = conn.CloseNow() }()
				ctx := r.Context()
				say := func(text string) { _ = conn.Write(ctx, websocket.MessageText, []byte(text)) }
				_, _, err = conn.Read(ctx)
				assert.NoError(t, err)
				say(`{"type":"response.created","response":{"id":"resp_1","status":"in_progress","model":"gpt-5"}}`)
				say(`{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"Hel"}`)
				tt.serve(conn, say)
			}))
			defer up.Close()
			to, _ := url.Parse(up.URL)
			proxy := start(t, to)
			conn, _, err := websocket.Dial(t.Context(), "ws://"+proxy.addr+"/v1/responses", &websocket.DialOptions{ //nolint:bodyclose // the library closes it
				CompressionMode: websocket.CompressionContextTakeover, CompressionThreshold: 1, HTTPHeader: http.Header{"User-Agent": {"codex_cli_rs/1.0"}},
			})
			require.NoError(t, err)
			defer func() { _ = conn.CloseNow() }()
			require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":"response.create","model":"gpt-5","input":[{"role":"user","content":"hi"}]}`)))
			for err == nil {
				var message []byte
				_, message, err = conn.Read(t.Context())
				switch {
				case strings.Contains(string(message), "completed"):
					_ = conn.Close(websocket.StatusNormalClosure, "")
				case strings.Contains(string(message), "go"):
					_ = conn.CloseNow()
				case strings.Contains(string(message), "shutdown"):
					require.NoError(t, proxy.end())
				}
			}
			asked := attributes(proxy.ended(t, oteltrace.SpanKindClient, 1)[0])
			assert.Empty(t, proxy.ended(t, oteltrace.SpanKindServer, 0))
			assert.Equal(t, tt.end, asked["llm.stream.end"])
			assert.Equal(t, tt.by, asked["llm.abort.source"])
			assert.Equal(t, tt.cause, asked["llm.transport.cause"])
			assert.Equal(t, "gpt-5", asked["gen_ai.request.model"])
		})
	}
}

// The frame reader finds the messages that another implementation reads, in pieces of any
// size.
func TestFrames(t *testing.T) {
	for _, mode := range []websocket.CompressionMode{websocket.CompressionDisabled, websocket.CompressionContextTakeover, websocket.CompressionNoContextTakeover} {
		for _, size := range []int{1, 3, 100, 1 << 20} {
			var sent []string
			fromClient, fromServer := &frameReader{}, &frameReader{}
			var gotClient, gotServer []string
			up := httptest.NewServer(echo(mode))
			to, _ := url.Parse(up.URL)
			transport := &tapped{addr: to.Host, size: size}
			transport.opened = func(extensions string) {
				fromClient.inflate, fromServer.inflate = newInflater(extensions, "client"), newInflater(extensions, "server")
			}
			transport.wrote = func(p []byte) { fromClient.read(p, func(m []byte) { gotClient = append(gotClient, string(m)) }) }
			transport.read = func(p []byte) { fromServer.read(p, func(m []byte) { gotServer = append(gotServer, string(m)) }) }
			conn, _, err := websocket.Dial(t.Context(), up.URL, &websocket.DialOptions{ //nolint:bodyclose // the library closes it
				HTTPClient: &http.Client{Transport: transport}, CompressionMode: mode, CompressionThreshold: 10,
			})
			require.NoError(t, err)
			conn.SetReadLimit(-1)
			for i := range 25 {
				message := strings.Repeat("text ", i*i*i/4)
				sent = append(sent, message)
				require.NoError(t, conn.Write(t.Context(), websocket.MessageBinary, []byte("not a text")))
				_, _, err = conn.Read(t.Context())
				require.NoError(t, err)
				require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(message)))
				_, _, err = conn.Read(t.Context())
				require.NoError(t, err)
			}
			require.NoError(t, conn.Close(4001, "x"))
			up.Close()
			assert.Equal(t, sent, gotClient)
			assert.Equal(t, sent, gotServer)
			assert.EqualValues(t, 4001, fromClient.closed.Load())
			assert.EqualValues(t, 4001, fromServer.closed.Load())
			assert.False(t, fromClient.failed || fromServer.failed)
		}
	}
}

// tapped is a transport that shows the bytes of a WebSocket, in pieces of a size.
type tapped struct {
	addr   string
	size   int
	opened func(extensions string)
	wrote  func([]byte)
	read   func([]byte)
}

// RoundTrip implements http.RoundTripper.
func (t *tapped) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	t.opened(resp.Header.Get("Sec-Websocket-Extensions"))
	resp.Body = &tappedBody{resp.Body.(io.ReadWriteCloser), t}
	return resp, nil
}

type tappedBody struct {
	io.ReadWriteCloser

	*tapped
}

func (b *tappedBody) Read(p []byte) (int, error) {
	n, err := b.ReadWriteCloser.Read(p[:min(len(p), b.size)])
	b.tapped.read(p[:n])
	return n, err
}

func (b *tappedBody) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), b.size)
		b.wrote(rest[:n])
		rest = rest[n:]
	}
	return b.ReadWriteCloser.Write(p)
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte(hello), uint8(3))
	f.Add([]byte("\x41\x85\x01\x02\x03\x04aaaaa\x80\x00"), uint8(1))
	f.Add([]byte("\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\x00\x88\x02\x03\xe8"), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		read := func(size int) (messages []string, closed int32, failed bool) {
			r := &frameReader{inflate: newInflater("permessage-deflate", "server")}
			for rest := data; len(rest) > 0; {
				n := min(len(rest), size)
				r.read(rest[:n], func(m []byte) { messages = append(messages, string(m)) })
				rest = rest[n:]
			}
			return messages, r.closed.Load(), r.failed
		}
		messages, closed, failed := read(int(size) + 1)
		wholeMessages, wholeClosed, wholeFailed := read(len(data) + 1)
		assert.Equal(t, wholeMessages, messages)
		assert.Equal(t, wholeClosed, closed)
		assert.Equal(t, wholeFailed, failed)
	})
}

// A message that is too long passes, and is not kept.
func TestFramesTooLong(t *testing.T) {
	r := &frameReader{}
	var got []string
	text := func(m []byte) { got = append(got, string(m)) }
	r.read([]byte("\x81\x7f\x00\x00\x00\x00\x04\x00\x00\x00"), text) // 64 MiB
	piece := make([]byte, 1<<20)
	for range 64 {
		r.read(piece, text)
		assert.LessOrEqual(t, cap(r.message), 2*maxMessage)
	}
	r.read([]byte(hello), text)
	assert.Equal(t, []string{"hello"}, got)
}

// However many close frames come, none of them is kept beside the one that counts.
func TestManyCloseFrames(t *testing.T) {
	var f frameReader
	frame := append([]byte{0x80 | opClose, 125, 0x03, 0xe8}, make([]byte, 123)...)
	for range 1000 {
		f.read(frame, func([]byte) {})
	}
	assert.EqualValues(t, 1000, f.closed.Load())
	assert.LessOrEqual(t, cap(f.inner), 1024)
	f.read([]byte{0x80 | opClose, 0}, func([]byte) {})
	assert.Empty(t, f.inner)
}

package otelllm

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

const historyBody = `{"model":"gpt-5","stream":true,"messages":[
	{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"call_2","type":"function","function":{"name":"f","arguments":"{}"}}]},
	{"role":"tool","tool_call_id":"call_1","content":"secret"}]}`

// TestRequestBodies checks that the history is read from every kind of body, and that the
// server receives each as without the transport.
func TestRequestBodies(t *testing.T) {
	file := filepath.Join(t.TempDir(), "body.json")
	require.NoError(t, os.WriteFile(file, []byte(historyBody), 0o600))
	big := strings.Replace(historyBody, "secret", strings.Repeat("s", 5<<20), 1)
	for _, tt := range []struct {
		name     string
		body     func(t *testing.T) io.Reader
		change   func(*http.Request)
		sent     string
		observed bool
	}{
		{"in memory", func(*testing.T) io.Reader { return strings.NewReader(historyBody) }, nil, historyBody, true},
		{"bytes", func(*testing.T) io.Reader { return bytes.NewReader([]byte(historyBody)) }, nil, historyBody, true},
		{"a buffer of 5 MB", func(*testing.T) io.Reader { return bytes.NewBufferString(big) }, nil, big, true},
		{"GetBody that rewinds the body that is being sent", func(*testing.T) io.Reader { return strings.NewReader(historyBody) }, func(r *http.Request) {
			body := strings.NewReader(historyBody)
			rewinding := struct{ io.Reader }{body} // as openai-go does for an io.ReadSeeker
			r.Body = io.NopCloser(rewinding)
			r.GetBody = func() (io.ReadCloser, error) {
				_, err := body.Seek(0, io.SeekStart)
				return io.NopCloser(rewinding), err
			}
		}, historyBody, true},
		{"a body that an SDK has wrapped", func(*testing.T) io.Reader { return strings.NewReader(historyBody) }, func(r *http.Request) {
			r.Body = struct{ io.ReadCloser }{r.Body}
		}, historyBody, true},
		{"a file", func(t *testing.T) io.Reader {
			f, err := os.Open(file)
			require.NoError(t, err)
			return f
		}, func(r *http.Request) { r.ContentLength = int64(len(historyBody)) }, historyBody, true},
		{"a pipe of unknown length", func(*testing.T) io.Reader { return io.MultiReader(oneByOne{strings.NewReader(historyBody)}) }, nil, historyBody, true},
		{"a pipe of 5 MB", func(*testing.T) io.Reader { return io.MultiReader(strings.NewReader(big)) }, nil, big, true},
		{"a pipe that is too long to keep", func(*testing.T) io.Reader {
			return io.MultiReader(strings.NewReader(strings.Repeat(" ", httpcall.MaxCopy) + historyBody))
		}, nil, strings.Repeat(" ", httpcall.MaxCopy) + historyBody, false},
		{"not JSON", func(*testing.T) io.Reader { return strings.NewReader("secret") }, nil, "secret", false},
		{"JSON that is cut", func(*testing.T) io.Reader { return strings.NewReader(historyBody[:len(historyBody)-9]) }, nil, historyBody[:len(historyBody)-9], false},
		{"no body", func(*testing.T) io.Reader { return nil }, nil, "", false},
		{"GetBody fails", func(*testing.T) io.Reader { return strings.NewReader(historyBody) }, func(r *http.Request) {
			r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("secret") }
		}, historyBody, true},
		{"GetBody panics", func(*testing.T) io.Reader { return strings.NewReader(historyBody) }, func(r *http.Request) {
			r.GetBody = func() (io.ReadCloser, error) { panic("secret") }
		}, historyBody, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, open := range []bool{true, false} { // with a run the body is read before the span starts
				var got []byte
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					got, _ = io.ReadAll(r.Body)
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, strings.Join(ownStreams()[0].events, ""))
				}))
				defer s.Close()
				r := newRecorder(t)
				ctx := t.Context()
				if open {
					ctx, _ = StartRun(ctx, "coder", WithTracerProvider(r))
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+chatPath, tt.body(t))
				require.NoError(t, err)
				if tt.change != nil {
					tt.change(req)
				}
				resp, err := NewTransport(s.Client().Transport, WithTracerProvider(r)).RoundTrip(req)
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(t, err)
				resp.Body.Close()
				assertSame(t, tt.sent, string(got))
				ended := r.only(t)
				if !tt.observed {
					assert.Nil(t, ended.get("llm.history.tool_calls"))
					assert.Nil(t, ended.get("llm.history.tool_outputs"))
					assert.Nil(t, ended.get("llm.request.provider_tools"))
					continue
				}
				assert.Equal(t, "chat gpt-5", ended.Name())
				assert.Equal(t, "gpt-5", ended.get("gen_ai.request.model"))
				assert.Equal(t, true, ended.get("gen_ai.request.stream"))
				assert.Equal(t, []string{"call_1", "call_2"}, ended.get("llm.history.tool_calls"))
				assert.Equal(t, []string{"call_1"}, ended.get("llm.history.tool_outputs"))
				assert.Equal(t, []string{}, ended.get("llm.request.provider_tools"))
			}
		})
	}
}

type oneByOne struct{ r io.Reader }

func (o oneByOne) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }

// TestBodySentAgain checks that the body that was sent is recorded if net/http sends a
// request again by GetBody, because a reused connection was closed without an answer.
func TestBodySentAgain(t *testing.T) {
	var conns atomic.Int32
	addr := nettest.Listen(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for i := 0; ; i++ {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if i == 1 && conns.CompareAndSwap(0, 1) { // closed without an answer
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: "+strconv.Itoa(len(chatStop+chatDone))+"\r\n\r\n"+chatStop+chatDone)
		}
	})
	r := newRecorder(t)
	rt := NewTransport(base(t), WithTracerProvider(r))
	got := 0
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+chatPath, struct{ io.Reader }{strings.NewReader(historyBody)})
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "1") // without it net/http sends no POST again
		req.ContentLength = int64(len(historyBody))
		req.GetBody = func() (io.ReadCloser, error) {
			got++
			return io.NopCloser(oneByOne{strings.NewReader(historyBody)}), nil
		}
		resp, err := rt.RoundTrip(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
	}
	assert.Equal(t, 1, got, "calls of GetBody, all of them by net/http")
	spans := r.named("chat gpt-5")
	require.Len(t, spans, 2)
	for i, s := range spans {
		assert.Equal(t, []string{"call_1", "call_2"}, s.get("llm.history.tool_calls"))
		assert.Equal(t, "terminal_event", s.get("llm.stream.end"))
		assert.Equal(t, []any{nil, int64(1)}[i], s.get("http.request.resend_count"))
	}
}

// TestGetBodyIsLeftAlone checks that the recording does not call the application's GetBody.
func TestGetBodyIsLeftAlone(t *testing.T) {
	for _, path := range []string{chatPath, "/v1/responses"} {
		for _, opts := range [][]TransportOption{nil, {WithProtocol(ProtocolOpenAIChat)}, {WithWatchdog(Watchdog{FirstProgress: time.Hour})}} {
			r := newRecorder(t)
			ctx, _ := StartRun(t.Context(), "coder", WithTracerProvider(r))
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, scriptedServer(t, sseHead+chatStop+chatDone, nil)+path, oneByOne{strings.NewReader(bodyFor(path))})
			require.NoError(t, err)
			req.GetBody = func() (io.ReadCloser, error) {
				t.Error("GetBody was called")
				return http.NoBody, nil
			}
			resp, err := NewTransport(base(t), append(opts, WithTracerProvider(r))...).RoundTrip(req)
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			assert.Len(t, r.named("chat gpt-5"), 1)
		}
	}
}

// TestProtocolByABodyThatIsSent checks that a body that is read as it is sent decides
// between two protocols.
func TestProtocolByABodyThatIsSent(t *testing.T) {
	gemini := `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
	for _, tt := range []struct{ name, path, body, named, answer, operation string }{
		{"Responses, with chat as the named protocol", "/v1/responses", `{"model":"gpt-5","stream":true,"input":"hi"}`, "openai_chat", "data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"status\":\"completed\"}}\n\n", "chat"},
		{"Gemini, under a path of chat", chatPath, gemini, "gemini", "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]},\"finishReason\":\"STOP\"}]}\n\n", "generate_content"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, scriptedServer(t, sseHead+tt.answer, nil)+tt.path, oneByOne{strings.NewReader(tt.body)})
			require.NoError(t, err)
			resp, err := requestTransport(base(t), WithTracerProvider(r), WithProtocol(Protocol(tt.named))).RoundTrip(req)
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			s := r.only(t)
			assert.Equal(t, "terminal_event", s.get("llm.stream.end"))
			assert.Equal(t, tt.operation, s.get("gen_ai.operation.name"))
			assert.False(t, s.failed())
		})
	}
}

// broken is a protocol whose selected readers panic.
type broken struct {
	wire.Protocol

	request, decoder, write, end, failure bool
}

func (b broken) ReadRequest(body []byte) (wire.Request, error) {
	if b.request {
		panic("request")
	}
	return b.Protocol.ReadRequest(body)
}

func (b broken) NewDecoder(contentType string) wire.Decoder {
	if b.decoder {
		panic("decoder")
	}
	return brokenDecoder{b.Protocol.NewDecoder(contentType), b}
}

func (b broken) ReadError(status int, body []byte) wire.Error {
	if b.failure {
		panic("error")
	}
	return b.Protocol.ReadError(status, body)
}

type brokenDecoder struct {
	wire.Decoder

	b broken
}

func (d brokenDecoder) Write(p []byte) {
	if d.b.write {
		panic("write")
	}
	d.Decoder.Write(p)
}

func (d brokenDecoder) Close() {
	if d.b.end {
		panic("close")
	}
	d.Decoder.Close()
}

// A panic of a reader ends the recording and nothing else.
func TestPanicsOfReaders(t *testing.T) {
	chat, _ := wire.ByName("openai_chat")
	events := strings.Join(ownStreams()[0].events, "")
	for name, tt := range map[string]struct {
		protocol broken
		answer   string
		end      any
	}{
		"request": {broken{request: true}, sseHead + events, "terminal_event"},
		"decoder": {broken{decoder: true}, sseHead + events, nil},
		"write":   {broken{write: true}, sseHead + events, nil},
		"close":   {broken{end: true}, sseHead + events, "terminal_event"}, // it had been read by then
		"error":   {broken{failure: true}, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n" + events, "http_error"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t)
			rt := NewTransport(base(t), WithTracerProvider(r))
			tt.protocol.Protocol = chat
			rt.transport.Config.Recogniser.Protocol = tt.protocol
			got, err := call(t.Context(), rt, scriptedServer(t, tt.answer, nil)+"/llm", historyBody)
			require.NoError(t, err)
			assert.Equal(t, events, got)
			s := r.only(t)
			assert.Equal(t, tt.end, s.get("llm.stream.end"))
			if tt.end == nil {
				assert.Equal(t, "unknown", s.get("llm.stream.phase"))
				assert.Nil(t, s.get("llm.stream.events"), "what was not observed is not claimed")
				assert.Nil(t, s.get("llm.stream.text_chunks"), "what was not observed is not claimed")
			}
			if name == "decoder" || name == "write" || name == "close" {
				assert.Equal(t, true, s.get("llm.stream.unread"))
			}
			assert.Equal(t, classify.FactOf(name != "request") == classify.Yes, s.get("llm.history.tool_calls") != nil)
		})
	}
}

// A span processor that panics ends the recording, not the stream.
func TestPanicOfASpanProcessor(t *testing.T) {
	var handled error
	before := otel.GetErrorHandler()
	t.Cleanup(func() { otel.SetErrorHandler(before) })
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { handled = err }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(panickingOnEnd{}))
	events := strings.Join(ownStreams()[0].events, "")
	rt := NewTransport(base(t), WithTracerProvider(provider))
	got, err := call(t.Context(), rt, scriptedServer(t, sseHead+events, nil)+chatPath, chatBody)
	require.NoError(t, err)
	assert.Equal(t, events, got)
	require.Error(t, handled)
	assert.NotContains(t, handled.Error(), "secret")
	_, err = call(t.Context(), rt, "http://"+nettest.Refused(t)+chatPath, chatBody)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

type panickingOnEnd struct{ discardSpans }

func (panickingOnEnd) OnEnd(sdktrace.ReadOnlySpan) { panic("secret") }

package otelllm

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

const historyBody = `{"model":"gpt-5","stream":true,"messages":[
	{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"call_2","type":"function","function":{"name":"f","arguments":"{}"}}]},
	{"role":"tool","tool_call_id":"call_1","content":"secret"}]}`

// TestRequestBodies reads the history out of every kind of body, and the server
// gets each as it would without.
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
		{"GetBody in pieces", func(*testing.T) io.Reader { return strings.NewReader(historyBody) }, func(r *http.Request) {
			r.GetBody = func() (io.ReadCloser, error) {
				return io.NopCloser(oneByOne{strings.NewReader(historyBody)}), nil
			}
		}, historyBody, true},
		{"a file", func(t *testing.T) io.Reader {
			f, err := os.Open(file)
			require.NoError(t, err)
			return f
		}, func(r *http.Request) { r.ContentLength = int64(len(historyBody)) }, historyBody, true},
		{"a pipe of unknown length", func(*testing.T) io.Reader { return io.MultiReader(oneByOne{strings.NewReader(historyBody)}) }, nil, historyBody, true},
		{"a pipe of 5 MB", func(*testing.T) io.Reader { return io.MultiReader(strings.NewReader(big)) }, nil, big, true},
		{"a pipe that is too long to keep", func(*testing.T) io.Reader {
			return io.MultiReader(strings.NewReader(strings.Repeat(" ", maxRequestCopy) + historyBody))
		}, nil, strings.Repeat(" ", maxRequestCopy) + historyBody, false},
		{"no JSON", func(*testing.T) io.Reader { return strings.NewReader("secret") }, nil, "secret", false},
		{"JSON that is cut", func(*testing.T) io.Reader { return strings.NewReader(historyBody[:len(historyBody)-9]) }, nil, historyBody[:len(historyBody)-9], false},
		{"no body", func(*testing.T) io.Reader { return nil }, nil, "", false},
		{"GetBody fails", func(*testing.T) io.Reader { return strings.NewReader(historyBody) }, func(r *http.Request) {
			r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("secret") }
		}, historyBody, false},
		{"GetBody panics", func(*testing.T) io.Reader { return strings.NewReader(historyBody) }, func(r *http.Request) {
			r.GetBody = func() (io.ReadCloser, error) { panic("secret") }
		}, historyBody, false},
		{"GetBody gives more than was announced", func(*testing.T) io.Reader { return strings.NewReader(historyBody) }, func(r *http.Request) {
			r.GetBody = func() (io.ReadCloser, error) {
				return io.NopCloser(io.MultiReader(strings.NewReader(historyBody+" "), endless{})), nil
			}
		}, historyBody, false},
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

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A body in memory is read where it lies.
func TestReadAheadDoesNotCopy(t *testing.T) {
	protocol, _ := wire.Recognise(http.MethodPost, chatPath)
	body := []byte(strings.Replace(historyBody, "secret", strings.Repeat("s", 1<<20), 1))
	req, err := http.NewRequest(http.MethodPost, "http://x"+chatPath, bytes.NewReader(body))
	require.NoError(t, err)
	said, ok := readAhead(req, protocol)
	require.True(t, ok)
	assert.Equal(t, "gpt-5", said.Model)
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = readAhead(req, protocol)
		}
	}).AllocedBytesPerOp()
	assert.Less(t, allocated, int64(64<<10), "of a body of 1 MB")
	left, err := io.ReadAll(req.Body)
	require.NoError(t, err)
	assert.Equal(t, body, left, "the body itself is as it was")
}

// A transport may go on reading the request after it has answered.
func TestRequestTeeOutlivesTheAttempt(t *testing.T) {
	protocol, _ := wire.Recognise(http.MethodPost, chatPath)
	tee := &requestTee{ReadCloser: io.NopCloser(strings.NewReader(historyBody)), protocol: protocol}
	n, err := tee.Read(make([]byte, 10))
	require.NoError(t, err)
	assert.Equal(t, 10, n)
	assert.Zero(t, tee.said())
	tee.drop()
	rest, err := io.ReadAll(tee)
	require.NoError(t, err)
	assert.Equal(t, historyBody[10:], string(rest))
	assert.Empty(t, tee.buf, "nothing is kept after it")
	assert.Zero(t, tee.said())
	require.NoError(t, tee.Close())
}

// broken is a protocol whose readers panic where they are told to.
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

// A panic of a reader ends what is recorded and nothing else.
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
		"close":   {broken{end: true}, sseHead + events, nil},
		"error":   {broken{failure: true}, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n" + events, "http_error"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t)
			rt := NewTransport(base(t), WithTracerProvider(r))
			tt.protocol.Protocol = chat
			rt.config.protocol = tt.protocol
			got, err := call(t.Context(), rt, script(t, tt.answer, nil)+"/llm", historyBody)
			require.NoError(t, err)
			assert.Equal(t, events, got)
			s := r.only(t)
			assert.Equal(t, tt.end, s.get("llm.stream.end"))
			if tt.end == nil {
				assert.Equal(t, "unknown", s.get("llm.stream.phase"))
				assert.Nil(t, s.get("llm.stream.events"), "what was not seen is not claimed")
			}
			assert.Equal(t, classify.FactOf(name != "request") == classify.Yes, s.get("llm.history.tool_calls") != nil)
		})
	}
}

// A span processor that panics ends the recording, not the stream.
func TestPanicOfASpanProcessor(t *testing.T) {
	var handled error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { handled = err }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(bombProcessor{}))
	events := strings.Join(ownStreams()[0].events, "")
	rt := NewTransport(base(t), WithTracerProvider(provider))
	got, err := call(t.Context(), rt, script(t, sseHead+events, nil)+chatPath, chatBody)
	require.NoError(t, err)
	assert.Equal(t, events, got)
	require.ErrorContains(t, handled, "ended by a panic (string)")
	_, err = call(t.Context(), rt, "http://"+nettest.Refused(t)+chatPath, chatBody)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

type bombProcessor struct{ nowhere }

func (bombProcessor) OnEnd(sdktrace.ReadOnlySpan) { panic("secret") }

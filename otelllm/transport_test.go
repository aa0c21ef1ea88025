package otelllm

import (
	"context"
	"io"
	"net"
	"net/http"
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
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A request that is not a model call passes unchanged, and so does every request while
// nothing is recorded.
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
	require.NoError(t, err, "the transport below decides on a request without a URL")
}

// The transport below gets the request with the caller's body, headers and length.
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
	assert.True(t, trace.SpanContextFromContext(seen.Context()).IsValid(), "the transport below gets a context with the span")
}

func TestWithProvider(t *testing.T) {
	r := newRecorder(t)
	stream := ownStreams()[0]
	url := scriptedServer(t, sseHead+strings.Join(stream.events, ""), nil)
	rt := requestTransport(base(t), WithTracerProvider(r), WithProviderName("gateway"), WithProtocol(ProtocolOpenAIChat))
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
	assert.Len(t, r.spans.Started(), 1, "an upload is not a model call")

	var handled error
	before := otel.GetErrorHandler()
	t.Cleanup(func() { otel.SetErrorHandler(before) })
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { handled = err }))
	requestTransport(nil, WithProtocol(ProtocolOpenAIChat))
	require.NoError(t, handled)
	requestTransport(nil, WithProtocol("smoke_signals"), nil)
	require.ErrorContains(t, handled, `unknown protocol "smoke_signals"; use one of the Protocol constants`)
}

// If the parent is sampled, the sampler sees the model. The sampler's decision applies to
// the context of the transport below.
func TestSampling(t *testing.T) {
	stream := ownStreams()[0]
	sampler := &recordingSampler{}
	r := newRecorder(t, sdktrace.WithSampler(sampler))
	rt := requestTransport(base(t), WithTracerProvider(r))
	url := scriptedServer(t, sseHead+strings.Join(stream.events, ""), nil)
	sampled := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled,
	}))
	for _, ctx := range []context.Context{t.Context(), sampled} {
		_, err := call(ctx, rt, url+chatPath, chatBody)
		require.NoError(t, err)
	}
	require.Len(t, sampler.seen, 2)
	assert.Equal(t, "gpt-5", sampler.seen[1]["gen_ai.request.model"].AsString())
	assert.Equal(t, "openai", sampler.seen[0]["gen_ai.provider.name"].AsString())
	for _, s := range r.spans.Ended() {
		assert.Equal(t, "chat gpt-5", s.Name(), "the root, too, whose body was read after its start")
		assert.Equal(t, "gpt-5", span{s}.get("gen_ai.request.model"))
	}

	var below trace.SpanContext
	rt = requestTransport(roundTripper(func(req *http.Request) (*http.Response, error) {
		below = trace.SpanContextFromContext(req.Context())
		return nil, io.EOF
	}), WithTracerProvider(newRecorder(t, sdktrace.WithSampler(sdktrace.NeverSample()))))
	_, err := call(t.Context(), rt, "http://x"+chatPath, chatBody)
	require.ErrorIs(t, err, io.EOF)
	assert.True(t, below.IsValid())
	assert.False(t, below.IsSampled(), "the transport below gets the sampler's decision")
}

type recordingSampler struct {
	seen []map[attribute.Key]attribute.Value
}

func (s *recordingSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	m := map[attribute.Key]attribute.Value{}
	for _, kv := range p.Attributes {
		m[kv.Key] = kv.Value
	}
	s.seen = append(s.seen, m)
	return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
}

func (*recordingSampler) Description() string { return "note" }

// If no provider is given, the provider of the context's span is used, for the run that is
// inferred, too.
func TestProviderOfTheContext(t *testing.T) {
	r, i := newRecorder(t), New()
	ctx, parent := r.Tracer("app").Start(t.Context(), "app")
	_, err := call(ctx, i.NewTransport(base(t)), scriptedServer(t, sseHead+strings.Join(ownStreams()[0].events, ""), nil)+chatPath, chatBody)
	require.NoError(t, err)
	parent.End()
	require.NoError(t, i.Shutdown(t.Context()))
	require.Len(t, r.named("chat gpt-5"), 1)
	run := r.runs(t, 1)[0]
	assert.Equal(t, run.SpanContext().SpanID(), r.named("chat gpt-5")[0].Parent().SpanID())
	assert.Equal(t, parent.SpanContext().SpanID(), run.Parent().SpanID())
}

func TestAttemptHeader(t *testing.T) {
	for header, want := range map[string]any{"": nil, "0": int64(1), "2": int64(3), "-1": nil, "x": nil, "1000000": nil} {
		r := newRecorder(t)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+chatPath, strings.NewReader(chatBody))
		require.NoError(t, err)
		if header != "" {
			req.Header.Set("X-Stainless-Retry-Count", header)
		}
		rt := requestTransport(roundTripper(func(*http.Request) (*http.Response, error) { return nil, io.EOF }), WithTracerProvider(r))
		_, err = rt.RoundTrip(req)
		require.Error(t, err)
		assert.Equal(t, want, r.only(t).get("llm.request.attempt"), "header %q", header)
	}
}

// net/http sends a request again by itself if an idle connection turns out to be closed.
func TestResendCount(t *testing.T) {
	stream := strings.Join(ownStreams()[0].events, "")
	answer := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: " + strconv.Itoa(len(stream)) + "\r\n\r\n" + stream
	url := "http://" + nettest.Listen(t, func(c net.Conn) {
		if nettest.ReadRequest(c) == nil {
			return
		}
		_, _ = io.WriteString(c, answer)
		_ = nettest.ReadRequest(c) // the next request gets no answer
	})
	r := newRecorder(t)
	rt := NewTransport(base(t), WithTracerProvider(r))
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+chatPath, strings.NewReader(chatBody))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "1") // without it net/http does not repeat a POST
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

// A server may answer with the status 000. Its response is one, though nothing of it can
// be read.
func TestStatusZero(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(net.Conn)
		end  any
	}{
		{"whole", nil, nil},
		{"cut", reset, "read_error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			url := scriptedServer(t, "HTTP/1.1 000 Zero\r\nConnection: close\r\n\r\nbody", tt.then)
			_, err := call(t.Context(), requestTransport(base(t), WithTracerProvider(r)), url+chatPath, chatBody)
			assert.Equal(t, tt.end == nil, err == nil)
			s := r.only(t)
			assert.Equal(t, tt.end, s.get("llm.stream.end"))
			assert.Equal(t, tt.end != nil, s.failed())
			assert.NotNil(t, s.get("llm.stream.bytes"))
		})
	}
}

package otelllm

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// Transport is an http.RoundTripper that records model calls. Requests that are
// none pass untouched, and so does everything while nobody listens: no
// TracerProvider is set and no run is open. It is safe for concurrent use.
//
// Every attempt becomes one span of kind CLIENT, `chat {model}`, which ends when
// the response's body has been read, has failed or is closed. A body that is
// never read to its end or closed ends its span when it is garbage collected.
type Transport struct {
	base   http.RoundTripper
	config config
	tracer trace.Tracer // of config.provider; nil: by context

	// heard: some span of this transport came from an SDK. Until then a request's
	// body is not read before its span says that somebody listens.
	heard atomic.Bool
}

// NewTransport wraps base, http.DefaultTransport when it is nil. The request's
// body is read for the ids in its history (from GetBody where there is one, else
// as it is sent, at most 8 MiB), the response's body as the consumer reads it.
func NewTransport(base http.RoundTripper, opts ...Option) *Transport {
	t := &Transport{base: base, config: config{events: true}}
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	for _, o := range opts {
		if o != nil {
			o.applyTransport(&t.config)
		}
	}
	if t.config.provider != nil {
		t.tracer = tracerFrom(t.config.provider)
	}
	return t
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements http.RoundTripper. It neither changes nor keeps req.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	protocol, ok := t.config.recognise(req)
	if !ok {
		return t.base.RoundTrip(req)
	}
	ctx, a := t.begin(req.Context(), req, protocol)
	switch {
	case a != nil:
		return a.roundTrip(ctx, t.base, req)
	case ctx != nil:
		return t.base.RoundTrip(req.WithContext(ctx))
	default:
		return t.base.RoundTrip(req)
	}
}

// CloseIdleConnections closes the idle connections of the transport below, where
// it has them: http.Client.CloseIdleConnections finds it here.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// begin starts the attempt, and returns it with the context that holds its span.
// Without an attempt nobody listens; the context is nil where it would hold
// nothing new.
func (t *Transport) begin(caller context.Context, req *http.Request, protocol wire.Protocol) (context.Context, *attempt) {
	start := time.Now()
	run := runOf(caller)
	parent := trace.SpanContextFromContext(caller)
	id := spanfacts.Identity{
		Operation:     protocol.Operation(),
		Provider:      t.config.providerName,
		ServerAddress: spanfacts.Bound(req.URL.Hostname()),
		ServerPort:    portOf(req.URL),
	}
	if id.Provider == "" {
		id.Provider = providerOf(id.ServerAddress, protocol)
	}
	if run != nil {
		id.RunID, id.ConversationID = run.id, run.conversationID
	}

	var said asked
	read, early := false, run != nil || parent.IsValid() || t.heard.Load()
	if early {
		// Before the span starts, so that samplers see the model.
		said, read = readAhead(req, protocol)
		takeIdentity(&id, &said)
	}
	tracer := t.tracer
	if tracer == nil {
		tracer = tracerOf(caller, nil)
	}
	ctx, span := tracer.Start(caller, id.SpanName(), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(start), startAttributes(&id))
	if sc := span.SpanContext(); sc.IsValid() && !sc.Equal(parent) && !t.heard.Load() {
		t.heard.Store(true)
	}
	if !span.IsRecording() && run == nil {
		span.End()
		if span.SpanContext().Equal(parent) { // a provider that does nothing
			ctx = nil
		}
		return ctx, nil
	}
	if !early {
		said, read = readAhead(req, protocol)
		takeIdentity(&id, &said)
		span.SetName(id.SpanName())
		span.SetAttributes(id.AppendBody(nil)...)
	}

	a := &attempt{
		ctx: caller, run: run, span: span, protocol: protocol, identity: id, start: start,
		trace: netcause.NewTrace(hostPort(req, id.ServerPort), req.URL.Scheme == "https", time.Now),
	}
	a.facts.Attempt = attemptOf(req.Header)
	a.facts.Usage = wire.Usage{Input: -1, Output: -1, CacheRead: -1, CacheCreation: -1, Reasoning: -1}
	takeAsked(&a.facts, &said)
	if !read {
		a.tee = &requestTee{ReadCloser: req.Body, protocol: protocol, length: req.ContentLength}
	}
	if t.config.events && span.IsRecording() {
		a.times = &timeline{moments: make([]moment, 0, 8)}
	}
	run.attemptBegan(a)
	return ctx, a
}

func startAttributes(id *spanfacts.Identity) trace.SpanStartOption {
	return trace.WithAttributes(id.Append(make([]attribute.KeyValue, 0, 8))...)
}

func hostPort(req *http.Request, port int) string {
	return net.JoinHostPort(req.URL.Hostname(), strconv.Itoa(port))
}

// roundTrip sends the request and begins to watch its response. Ctx holds the span.
func (a *attempt) roundTrip(ctx context.Context, base http.RoundTripper, req *http.Request) (*http.Response, error) {
	sent := req.WithContext(httptrace.WithClientTrace(ctx, a.trace.Hooks()))
	if a.tee != nil {
		sent.Body = a.tee
	}
	returned := false
	defer func() {
		if !returned { // a panic below, or a goroutine that ended
			a.unanswered(nil)
		}
	}()
	resp, err := base.RoundTrip(sent)
	returned = true
	if err != nil || resp == nil {
		a.unanswered(err)
		return resp, err
	}
	if resp.Request == sent {
		resp.Request = req
	}
	a.answered(resp, time.Now())
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		a.letGo(byEOF) // the connection is somebody else's now
	case resp.Body == nil || resp.Body == http.NoBody:
		a.read(nil, 0, io.EOF)
	default:
		resp.Body = newResponseBody(resp.Body, a)
	}
	return resp, err
}

package otelllm

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// Transport is an http.RoundTripper that records model calls. Requests that are
// none pass untouched, and so does everything while nothing is recorded: no
// TracerProvider is set, no run is open, no metrics are kept, and no option asks
// for more than recording. It is safe for concurrent use.
//
// Every attempt becomes one span of kind CLIENT, `chat {model}`, which ends when
// the response's body has been read, has failed or is closed. A body that is
// never read to its end or closed ends its span when it is garbage collected.
// Where one Transport lies above another, the one above records, and only its
// options count.
type Transport struct {
	base   http.RoundTripper
	config config
	tracer trace.Tracer // of config.provider; nil: by context
}

// NewTransport wraps base, http.DefaultTransport when it is nil. The request's
// body is read for its model and the ids in its history: where it lies, before it is sent,
// if it is one of those in memory that http.NewRequest knows, so that samplers see the
// model; else as it is sent, at most 8 MiB. GetBody is left to net/http. The response's
// body is read as the consumer reads it.
func NewTransport(base http.RoundTripper, opts ...Option) *Transport {
	t := &Transport{base: base, config: newConfig(opts)}
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	if t.config.provider != nil {
		t.tracer = tracerFrom(t.config.provider)
	}
	return t
}

var _ http.RoundTripper = (*Transport)(nil)

// attemptKey marks the context of a request that is recorded already.
type attemptKey struct{}

// markedContext is a context that holds the mark, until RoundTrip has returned: a request
// that is made later, with the context of the response's request, is another one. It is
// part of its attempt.
type markedContext struct {
	context.Context

	over atomic.Bool
}

// Value implements context.Context.
func (c *markedContext) Value(key any) any {
	if key == (attemptKey{}) && !c.over.Load() {
		return true
	}
	return c.Context.Value(key)
}

// RoundTrip implements http.RoundTripper. It neither changes nor keeps req.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, a := t.prepare(req)
	switch {
	case a != nil:
		return t.send(ctx, a, req)
	case ctx != nil:
		sent := t.propagate(req.WithContext(ctx))
		resp, err := t.base.RoundTrip(sent)
		if resp != nil && resp.Request == sent {
			resp.Request = req
		}
		return resp, err
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

// prepare begins to record req, as begin does, where it is a model call that is not
// recorded already. A panic of what the application has given (a sampler, a span
// processor, a meter) ends the recording only.
func (t *Transport) prepare(req *http.Request) (ctx context.Context, a *attempt) {
	defer func() {
		if p := recover(); p != nil {
			ctx, a = nil, nil
			panicked(p)
		}
	}()
	protocol, sure, ok := t.config.recognise(req)
	if !ok || req.Context().Value(attemptKey{}) != nil {
		return nil, nil
	}
	return t.begin(req.Context(), req, protocol, sure)
}

// begin starts the attempt, and returns it with the context that holds its span.
// Without an attempt nothing is recorded, or it is no model call; the context is nil
// where it would hold nothing new. Sure: the path proves that it is one.
func (t *Transport) begin(caller context.Context, req *http.Request, protocol wire.Protocol, sure bool) (context.Context, *attempt) {
	start := time.Now()
	c := &t.config
	run := runOf(caller)
	judged := run != nil || lastRequestOf(caller) != nil // sampled or not
	parent := trace.SpanContextFromContext(caller)
	id := c.identify(protocol, req.URL)
	run.identify(&id)

	var said asked
	if !sure && !judged && parent.IsValid() && !parent.IsSampled() && !c.acts() && !c.meters.enabled(caller) {
		return nil, nil // not worth the reading of a body
	}
	read, early := false, judged || parent.IsSampled() || !sure
	if early {
		// Before the span starts, so that samplers see the model. Where the parent is
		// not sampled this will hardly be: then the body is not even looked at.
		said, read = readAhead(req, protocol)
		if !sure && !calls(req, &said) {
			return nil, nil
		}
		takeIdentity(&id, &said)
	}
	tracer := t.tracer
	if tracer == nil {
		tracer = tracerOf(caller, nil)
	}
	ctx, span := startSpan(caller, tracer, clientKind, &id, start)
	if !span.IsRecording() && !judged && !c.acts() && !c.meters.enabled(ctx) {
		span.End()
		if span.SpanContext().Equal(parent) && c.propagator == nil { // a provider that does nothing
			ctx = nil
		}
		return ctx, nil
	}
	if !early {
		said, read = readAhead(req, protocol)
		takeIdentity(&id, &said)
	}

	a := &attempt{serving: servingOf(caller)}
	a.trace.Init(req.URL, time.Now)
	a.protocol = protocol
	a.record.init(caller, c, span, &id, start)
	a.facts.Attempt = attemptOf(req.Header)
	takeAsked(&a.facts, &said)
	a.untold = !early
	if !read {
		a.teeAsked(&requestTee{ReadCloser: req.Body, protocol: protocol, or: t.config.other(req, protocol), unsure: !sure && !coded(req), length: req.ContentLength}, req.URL)
	}
	a.misdeclared, a.stillborn = misdeclared(req), caller.Err() != nil
	a.begun(a)
	return ctx, a
}

// calls reports whether a request on a path that proves nothing is a model call, as far
// as what was read of its body tells. One that could not be read says nothing against it.
func calls(req *http.Request, said *asked) bool {
	if !said.read || coded(req) {
		return jsonBody(req)
	}
	return said.IsCall
}

// coded: the body of req is compressed, or otherwise not as its protocol has it.
func coded(req *http.Request) bool { return req.Header.Get("Content-Encoding") != "" }

// propagate puts trace context on the request's headers, where that was asked for.
func (t *Transport) propagate(req *http.Request) (sent *http.Request) {
	if t.config.propagator == nil {
		return req
	}
	defer func() {
		if p := recover(); p != nil {
			sent = req
			panicked(p)
		}
	}()
	ctx := req.Context()
	sent = req.Clone(ctx) // a RoundTripper must not change the caller's
	if sent.Header == nil {
		sent.Header = http.Header{}
	}
	t.config.propagator.Inject(ctx, propagation.HeaderCarrier(sent.Header))
	return sent
}

// send sends the request and begins to watch its response. Ctx holds the span.
func (t *Transport) send(ctx context.Context, a *attempt, req *http.Request) (*http.Response, error) {
	ctx = a.watch(a.mark(ctx), t.config.watchdog)
	sent := t.propagate(req.WithContext(httptrace.WithClientTrace(ctx, a.trace.Hooks())))
	if a.tee != nil {
		sent.Body, sent.GetBody = a.tee, a.tee.again(req.GetBody)
	}
	returned := false
	defer func() {
		a.marked.over.Store(true)
		if !returned { // a panic below, or a goroutine that ended
			a.unanswered(nil)
			a.dog.release()
		}
	}()
	resp, err := t.base.RoundTrip(sent)
	returned = true
	if err != nil || resp == nil {
		a.tee.readUnsent(req.GetBody)
		a.unanswered(err)
		err = a.word(err)
		a.dog.release()
		return resp, err
	}
	if resp.Request == sent {
		resp.Request = req
	}
	a.answered(resp, a.now())
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		a.letGo(byEOF, classify.Abort{}) // the connection belongs to the application now
		a.dog.unleash()
	case resp.Body == nil || resp.Body == http.NoBody:
		resp.Body = noBody(resp.Body, a)
	default:
		resp = withBody(resp, a)
	}
	return resp, err
}

// Package client records the model calls that an HTTP client makes.
package client

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/gateway"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/inferred"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/otelllm/internal/watchdog"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// Config configures a [Transport].
type Config struct {
	Record         record.Config
	Recogniser     httpcall.Recogniser
	TracerProvider trace.TracerProvider          // nil: see [telemetry.Tracer]
	Propagator     propagation.TextMapPropagator // nil: no trace context is sent
	Inferred       *inferred.Source              // nil: no runs are inferred

	Watchdog watchdog.Limits
	// WatchdogError makes the error for a limit of Watchdog that was reached.
	WatchdogError func(kind semconv.WatchdogKind, limit time.Duration) error
	// StreamError, if not nil, makes the error for the reader of a stream that broke off,
	// from the error that reading it returned.
	StreamError func(d classify.Diagnosis, err error) error
}

// acts reports whether the transport does more than record.
func (c *Config) acts() bool { return c.StreamError != nil || c.Watchdog != (watchdog.Limits{}) }

// Transport is an http.RoundTripper that records model calls.
type Transport struct {
	Base   http.RoundTripper
	Config Config
}

// attemptKey marks the context of a request that is recorded already.
type attemptKey struct{}

// markedContext is a context with the mark, until RoundTrip has returned: a request that is
// made later, with the context of the response's request, is another one. It is part of its
// attempt.
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
	ctx, a, err := t.prepare(req)
	switch {
	case err != nil:
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	case a != nil:
		return t.send(ctx, a, req)
	case ctx != nil:
		sent := t.propagate(req.WithContext(ctx))
		resp, err := t.Base.RoundTrip(sent)
		if resp != nil && resp.Request == sent {
			resp.Request = req
		}
		return resp, err
	default:
		return t.Base.RoundTrip(req)
	}
}

// prepare begins to record req, as begin does, if it is a model call that is not recorded
// already. It returns an error if the call is not admitted. A panic of what the application
// registered (a sampler, a span processor, a meter) ends the recording only.
func (t *Transport) prepare(req *http.Request) (ctx context.Context, a *attempt, err error) {
	defer func() {
		if p := recover(); p != nil {
			ctx, a, err = nil, nil, nil
			telemetry.ReportPanic(p)
		}
	}()
	preview := httpcall.NewPreview(req)
	defer preview.Close()
	protocol, sure, ok := t.Config.Recogniser.Recognise(preview)
	if !ok || req.Context().Value(attemptKey{}) != nil {
		return nil, nil, nil
	}
	caller := req.Context()
	if agentrun.Admitted(caller) {
		contents, read := preview.Contents(protocol)
		if err := admit(req, sure, &contents, read); err != nil {
			return nil, nil, err
		}
	}
	ctx, a = t.begin(caller, req, preview, protocol, sure)
	return ctx, a, nil
}

// admit asks whether req may be sent. A request that follows a redirect is part of one that was
// admitted.
func admit(req *http.Request, sure bool, contents *httpcall.Contents, read bool) error {
	if req.Response != nil || !sure && !httpcall.IsCall(req, contents) {
		return nil
	}
	var outputs []string
	if read {
		outputs = contents.HistoryOutputs
	}
	return agentrun.Admit(req.Context(), req.URL.Host, outputs)
}

// begin starts the attempt, and returns it with the context that holds its span.
// Without an attempt nothing is recorded, or it is no model call; the context is nil
// if it would hold nothing new. Sure: the path proves that it is one.
func (t *Transport) begin(caller context.Context, req *http.Request, preview *httpcall.Preview, protocol wire.Protocol, sure bool) (context.Context, *attempt) {
	start := time.Now()
	c := &t.Config
	run := agentrun.Of(caller)
	judged := run != nil || agentrun.LastRequestOf(caller) != nil // sampled or not
	parent := trace.SpanContextFromContext(caller)
	id := c.Recogniser.Identify(protocol, req.URL)
	run.Identify(&id)
	served := gateway.RequestOf(caller) // whose attempts are a part of it

	var contents httpcall.Contents
	if !sure && !judged && parent.IsValid() && !parent.IsSampled() && !c.acts() && !c.Record.Meters.Enabled(caller) {
		return nil, nil // not worth the reading of a body
	}
	read, beforeSpan := false, judged || parent.IsSampled() || !sure
	if beforeSpan {
		// Before the span starts, so that samplers see the model. If the parent is
		// not sampled this will hardly be: then the body is not even looked at.
		contents, read = preview.Contents(protocol)
		if !sure && !httpcall.IsCall(req, &contents) {
			return nil, nil
		}
	}
	infers := run == nil && served == nil && httpcall.Readable(req) && wire.LinksRequests(protocol) && c.Inferred.Infers(caller)
	var member *inferred.Request
	recorded := false
	defer func() {
		if !recorded { // or what the application has registered panicked
			member.Drop(start)
		}
	}()
	switch resumed := wire.Resumed(protocol); {
	case !infers:
	case resumed != "":
		member = c.Inferred.BeginWith(caller, start, inferred.ReadHeaders(req.Header), func(t *wire.Transcript) bool {
			t.Resume(resumed)
			return true
		})
	case preview.Present():
		member = c.Inferred.Begin(caller, start, req.Header, func(read func([]byte)) { preview.Read(read) })
	}
	if member.Recorded() {
		member.Run().Identify(&id)
		if !beforeSpan {
			contents, read = preview.Contents(protocol)
			beforeSpan = true
		}
	}
	record.FillIdentity(&id, &contents)
	id.UserAgent = httpcall.UserAgent(req.Header)
	ctx, span := record.StartSpan(member.Context(caller), c.TracerProvider, record.ClientKind, &id, start)
	if !span.IsRecording() && !judged && !c.acts() && !c.Record.Meters.Enabled(ctx) {
		span.End()
		if span.SpanContext().Equal(parent) && c.Propagator == nil { // a provider that does nothing
			ctx = nil
		}
		return ctx, nil
	}
	if !beforeSpan {
		contents, read = preview.Contents(protocol)
		record.FillIdentity(&id, &contents)
	}

	a := &attempt{config: c, served: served}
	a.trace.Init(req.URL, time.Now)
	a.rec.Init(caller, &c.Record, span, &id, start)
	a.rec.SetProtocol(protocol, !beforeSpan)
	a.rec.Facts().Attempt = httpcall.Attempt(req.Header)
	a.rec.FillContents(&contents)
	if !read {
		a.body = httpcall.NewBody(req.Body, httpcall.BodyConfig{
			Protocol:    protocol,
			Alternative: c.Recogniser.Alternative(req, protocol),
			Unsure:      !sure,
			Header:      req.Header,
			Length:      req.ContentLength,
		})
		a.rec.ReadBodyAsSent(a.body, &c.Recogniser, req.URL)
		if infers {
			a.rec.JoinLater(a.body, c.Inferred.BeginLater(caller, start, req.Header))
		}
	}
	if member != nil {
		a.rec.Join(member)
	}
	a.misdeclared, a.cancelled = httpcall.Misdeclared(req), caller.Err() != nil
	a.rec.Begin(a)
	recorded = true
	return ctx, a
}

// propagate puts trace context on the request's headers, if that was asked for.
func (t *Transport) propagate(req *http.Request) (sent *http.Request) {
	if t.Config.Propagator == nil {
		return req
	}
	defer func() {
		if p := recover(); p != nil {
			sent = req
			telemetry.ReportPanic(p)
		}
	}()
	ctx := req.Context()
	sent = req.Clone(ctx) // a RoundTripper must not change the caller's
	if sent.Header == nil {
		sent.Header = http.Header{}
	}
	t.Config.Propagator.Inject(ctx, propagation.HeaderCarrier(sent.Header))
	return sent
}

// send sends the request and begins to watch its response. Ctx holds the span.
func (t *Transport) send(ctx context.Context, a *attempt, req *http.Request) (*http.Response, error) {
	ctx = a.watch(a.mark(ctx))
	sent := t.propagate(req.WithContext(httptrace.WithClientTrace(ctx, a.trace.Hooks())))
	if a.body != nil {
		sent.Body, sent.GetBody = a.body, a.body.TrackGetBody(req.GetBody)
	}
	returned := false
	defer func() {
		a.marked.over.Store(true)
		if !returned { // a panic below, or a goroutine that ended
			a.failed(nil)
			a.watchdog.Release()
		}
	}()
	resp, err := t.Base.RoundTrip(sent)
	returned = true
	if err != nil || resp == nil {
		a.body.ReadUnsent(req.GetBody)
		a.failed(err)
		err = a.errorForReader(err)
		a.watchdog.Release()
		return resp, err
	}
	if resp.Request == sent {
		resp.Request = req
	}
	a.responded(resp)
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		a.closed() // the connection belongs to the application now
		a.watchdog.Stop()
	case resp.Body == nil || resp.Body == http.NoBody:
		resp.Body = noBody(resp.Body, a)
	default:
		resp = withBody(resp, a)
	}
	return resp, err
}

// Package gateway records the model calls that a gateway serves.
package gateway

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/abort"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/inferred"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// Config configures a [Handler].
type Config struct {
	Record         record.Config
	Recogniser     httpcall.Recogniser
	TracerProvider trace.TracerProvider          // nil: see [telemetry.Tracer]
	Propagator     propagation.TextMapPropagator // nil: the global one
	Inferred       *inferred.Source              // nil: no runs are inferred
}

// Handler is an http.Handler that records the model calls that Next serves.
type Handler struct {
	Next   http.Handler
	Config Config
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, s := h.prepare(r)
	if ctx != nil {
		r = r.WithContext(ctx) //nolint:contextcheck // it derives from the request's, except after a panic of the tracer's
	}
	if s == nil {
		h.Next.ServeHTTP(w, r)
		return
	}
	if s.body != nil {
		if r.ProtoMajor == 1 {
			s.limit = httpcall.NewBodyLimit(w)
			s.body.Limit = s.limit
		}
		r.Body = s.body
	}
	panicked := true
	// A panic goes on as it is: it is how a proxy breaks off a response.
	defer func() { s.returned(panicked) }()
	h.Next.ServeHTTP(s.writer(w), r)
	panicked = false
}

// prepare begins to record r, if it is a model call and is to be recorded. The context
// is nil if it would hold nothing new. A panic of what the application registered ends the
// recording only.
func (h *Handler) prepare(r *http.Request) (ctx context.Context, s *Request) {
	defer func() {
		if p := recover(); p != nil {
			ctx, s = nil, nil
			telemetry.ReportPanic(p)
		}
	}()
	preview := httpcall.NewPreview(r)
	defer preview.Close()
	protocol, sure, ok := h.Config.Recogniser.Recognise(preview)
	if !ok || !sure && !httpcall.JSON(r) {
		return nil, nil
	}
	var contents httpcall.Contents // of a request that has no body
	if r.Body == nil || r.Body == http.NoBody || wire.Resumed(protocol) != "" {
		contents, _ = preview.Contents(protocol)
	}
	return h.begin(r.Context(), r, &contents, protocol, sure)
}

// begin starts the span of a served request. The Request is nil if nothing records it.
func (h *Handler) begin(caller context.Context, r *http.Request, contents *httpcall.Contents, protocol wire.Protocol, sure bool) (context.Context, *Request) {
	start := time.Now()
	c := &h.Config
	ctx := caller
	if !trace.SpanContextFromContext(ctx).IsValid() {
		p := c.Propagator
		if p == nil {
			p = otel.GetTextMapPropagator()
		}
		ctx = p.Extract(ctx, propagation.HeaderCarrier(r.Header))
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	target := &url.URL{Scheme: scheme, Host: r.Host}
	id := c.Recogniser.Identify(protocol, target)
	agentrun.Of(ctx).Identify(&id)
	record.FillIdentity(&id, contents)
	id.UserAgent = httpcall.UserAgent(r.Header)
	parent := ctx
	ctx, span := record.StartSpan(ctx, c.TracerProvider, record.ServerKind, &id, start)
	if !span.IsRecording() {
		span.End()
		return ctx, nil
	}
	s := &Request{}
	s.rec.Init(caller, &c.Record, span, &id, start)
	s.rec.SetProtocol(protocol, false)
	f := s.rec.Facts()
	f.Attempt = httpcall.Attempt(r.Header)
	s.rec.FillContents(contents)
	if wire.Resumed(protocol) == "" && r.Body != nil && r.Body != http.NoBody {
		s.body = httpcall.NewBody(r.Body, httpcall.BodyConfig{
			Protocol:    protocol,
			Alternative: c.Recogniser.Alternative(r, protocol),
			Unsure:      !sure,
			Header:      r.Header,
			Length:      r.ContentLength,
		})
		s.rec.ReadBodyAsSent(s.body, &c.Recogniser, target)
		if agentrun.Of(ctx) == nil && httpcall.Readable(r) && wire.LinksRequests(protocol) && c.Inferred.Infers(parent) {
			s.rec.JoinLater(s.body, c.Inferred.BeginLater(parent, start, r.Header))
		}
	}
	s.rec.Begin(s)
	if resumed := wire.Resumed(protocol); resumed != "" && agentrun.Of(ctx) == nil && c.Inferred.Infers(parent) {
		s.rec.Join(c.Inferred.BeginWith(parent, start, inferred.ReadHeaders(r.Header), func(t *wire.Transcript) bool {
			t.Resume(resumed)
			return true
		}))
	}
	return context.WithValue(abort.WithClient(ctx, s.clientGone), requestKey{}, s), s
}

// Gateway is a reverse proxy for model calls that traces both of its sides: the requests that it serves, and those that
// it sends upstream.
// Set UPSTREAM_URL (https://api.openai.com) and OTEL_EXPORTER_OTLP_ENDPOINT (http://localhost:4318 for a Collector on
// this machine), then
//
//	go run ./gateway
//
// and point an SDK's base URL to http://localhost:8080/v1. An agent whose transport has
// otelllm.WithPropagators(propagation.TraceContext{}) gets one trace through the gateway.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ln, err := net.Listen("tcp", cmp.Or(os.Getenv("LISTEN"), "localhost:8080"))
	if err != nil {
		log.Fatal(err)
	}
	if err := run(ctx, ln, os.Getenv("UPSTREAM_URL")); err != nil {
		log.Fatal(err)
	}
}

// run serves on ln until ctx is done.
func run(ctx context.Context, ln net.Listener, upstream string) error {
	target, err := url.Parse(upstream)
	if err != nil || target.Host == "" {
		_ = ln.Close()
		return errors.New("UPSTREAM_URL is not set: set it to the provider's URL, for example https://api.openai.com")
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return err
	}
	spans := trace.NewTracerProvider(
		trace.WithBatcher(exporter),
		trace.WithResource(resource.NewSchemaless(semconv.ServiceName("gateway"))),
	)
	// Requests that are still open are recorded as ended by the shutdown, and exported.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = otelllm.Shutdown(ctx)
		_ = spans.Shutdown(ctx) // OpenTelemetry logs what fails
	}()

	srv := &http.Server{Handler: newGateway(target, spans, nil), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		// Give open responses time to end, so that their spans are complete; then cut them.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close()
		}
	}()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-ended
	return nil
}

// newGateway returns the gateway's handler. It sends upstream requests with the context of the request that it serves:
// only the context connects the two. failed responds if there is no upstream response to pass on; with nil it is a 502.
func newGateway(target *url.URL, spans *trace.TracerProvider, failed func(http.ResponseWriter, *http.Request, error)) http.Handler {
	asks := otelllm.NewTransport(&http.Transport{Proxy: http.ProxyFromEnvironment},
		otelllm.WithTracerProvider(spans), otelllm.WithWatchdog(otelllm.DefaultWatchdog()))
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			// A proxy passes on the headers that it receives, but the provider has no use for the agent's trace
			// context.
			for _, name := range []string{"Traceparent", "Tracestate", "Baggage"} {
				r.Out.Header.Del(name)
			}
		},
		Transport:    retrying{asks},
		ErrorHandler: failed,
	}
	return otelllm.NewHandler(proxy, otelllm.WithTracerProvider(spans), otelllm.WithPropagators(propagation.TraceContext{}))
}

// retrying retries once if the upstream failed before its headers, or is overloaded. Later the client may have read a
// part of the answer, so the client has to decide about a retry.
type retrying struct{ http.RoundTripper }

func (t retrying) RoundTrip(r *http.Request) (*http.Response, error) {
	var asked []byte
	if r.Body != nil {
		var err error
		if asked, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
	}
	try := func(ctx context.Context) (*http.Response, error) {
		again := r.Clone(ctx)
		again.Body = io.NopCloser(bytes.NewReader(asked))
		return t.RoundTripper.RoundTrip(again)
	}
	resp, err := try(r.Context())
	switch {
	case r.Context().Err() != nil: // the client has disconnected
		return resp, err
	case err != nil:
	case resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusTooManyRequests:
		_ = resp.Body.Close()
	default:
		return resp, nil
	}
	return try(r.Context())
}

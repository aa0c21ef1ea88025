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
	"cmp"
	"context"
	"errors"
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

	return serve(ctx, ln, newGateway(target, spans), 5*time.Second)
}

// serve serves on ln until ctx is done. Open responses then have the grace to end. What is cut after it is recorded as
// ended by the shutdown: without WithAbort it would be taken for the clients' doing.
func serve(ctx context.Context, ln net.Listener, h http.Handler, grace time.Duration) error {
	requests, abort := otelllm.WithAbort(context.WithoutCancel(ctx))
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return requests },
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		for _, wait := range []time.Duration{grace, time.Second} { // the second time for what was aborted
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
			_ = srv.Shutdown(ctx)
			cancel()
			abort(otelllm.AbortShutdown, "")
		}
		_ = srv.Close()
	}()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-ended
	return nil
}

// newGateway returns the gateway's handler. It sends upstream requests with the context of the request that it serves:
// only the context connects the two.
func newGateway(target *url.URL, spans *trace.TracerProvider) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			// A proxy passes on the headers that it receives, but the provider has no use for the agent's trace
			// context.
			for _, name := range []string{"Traceparent", "Tracestate", "Baggage"} {
				r.Out.Header.Del(name)
			}
		},
		Transport: otelllm.NewTransport(http.DefaultTransport, otelllm.WithTracerProvider(spans)),
	}
	duplex := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // see NewHandler
		proxy.ServeHTTP(w, r)
	})
	return otelllm.NewHandler(duplex, otelllm.WithTracerProvider(spans), otelllm.WithPropagators(propagation.TraceContext{}))
}

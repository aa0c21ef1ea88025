package otelllm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm"
)

// model is a server that streams these events and then breaks, or ends well.
func model(broken bool, events ...string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			_, _ = io.WriteString(w, "data: "+e+"\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		if broken {
			panic(http.ErrAbortHandler)
		}
	}))
}

// ask is what an SDK does: one request, and the stream read to its end.
func ask(ctx context.Context, client *http.Client, baseURL string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, baseURL+"/v1/chat/completions",
		strings.NewReader(`{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

const (
	text   = `{"id":"c1","choices":[{"index":0,"delta":{"content":"Hello"}}]}`
	tool   = `{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"apply_patch","arguments":"{\"pa"}}]}}]}`
	finish = `{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	done   = `[DONE]`
)

// show prints some attributes of the spans that have ended.
func show(spans *tracetest.InMemoryExporter, keys ...attribute.Key) {
	for _, span := range spans.GetSpans() {
		fmt.Println(span.Name)
		for _, key := range keys {
			for _, kv := range span.Attributes {
				if kv.Key == key {
					fmt.Println(" ", kv.Key, kv.Value.String())
				}
			}
		}
	}
}

// One line makes every model call of a client a span.
func ExampleNewTransport() {
	server := model(false, text, finish, done)
	defer server.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport, otelllm.WithTracerProvider(provider))}
	if err := ask(context.Background(), client, server.URL); err != nil {
		fmt.Println(err)
	}

	span := spans.GetSpans()[0]
	fmt.Println(span.Name)
	for _, kv := range span.Attributes {
		switch kv.Key {
		case "llm.stream.end", "llm.stream.phase", "gen_ai.response.finish_reasons":
			fmt.Println(kv.Key, kv.Value.String())
		}
	}
	// Output:
	// chat gpt-5
	// llm.stream.phase stream_end
	// llm.stream.end terminal_event
	// gen_ai.response.finish_reasons ["stop"]
}

// A stream that breaks off without its last word looks whole to most SDKs. Here
// it is an error, and the error carries the diagnosis.
func ExampleWithStreamErrors() {
	server := model(false, text) // a clean end, too early
	defer server.Close()
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport, otelllm.WithStreamErrors())}

	err := ask(context.Background(), client, server.URL)
	var cut *otelllm.StreamError
	if errors.As(err, &cut) {
		fmt.Println(cut.Diagnosis.Class, cut.Diagnosis.Cause, cut.Diagnosis.Retry.Safety)
	}
	fmt.Println(errors.Is(err, io.ErrUnexpectedEOF))
	// Output:
	// stream_interrupted clean_eof user_confirmed_retry
	// true
}

// A watchdog ends what has gone silent. DefaultWatchdog has good limits; these
// are short, for the example.
func ExampleWithWatchdog() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+text+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // and nothing more
	}))
	defer server.Close()
	limits := otelllm.DefaultWatchdog()
	limits.Idle = 50 * time.Millisecond
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport, otelllm.WithWatchdog(limits))}

	ctx, run := otelllm.StartRun(context.Background(), "coder")
	err := ask(ctx, client, server.URL)
	var fired *otelllm.WatchdogError
	if errors.As(err, &fired) {
		fmt.Println(fired.Kind, fired.Limit)
	}
	d := run.Diagnosis()
	fmt.Println(d.Class, d.Cause, d.Phase)
	run.End(err)
	// Output:
	// idle 50ms
	// watchdog_timeout idle text
}

// Metrics come by the GenAI conventions' instruments.
func ExampleWithMeterProvider() {
	server := model(false, text, finish, done)
	defer server.Close()
	reader := metric.NewManualReader()
	meters := metric.NewMeterProvider(metric.WithReader(reader))
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport, otelllm.WithMeterProvider(meters))}

	if err := ask(context.Background(), client, server.URL); err != nil {
		fmt.Println(err)
	}
	var all metricdata.ResourceMetrics
	_ = reader.Collect(context.Background(), &all)
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Name == "gen_ai.client.operation.duration" {
			fmt.Println(m.Name, m.Unit)
		}
	}
	// Output:
	// gen_ai.client.operation.duration s
}

// Trace context goes to a gateway of one's own, where it is asked for.
func ExampleWithPropagators() {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Header.Get("Traceparent") != "")
	}))
	defer server.Close()
	provider := sdktrace.NewTracerProvider()
	for _, rt := range []http.RoundTripper{
		otelllm.NewTransport(nil, otelllm.WithTracerProvider(provider)),
		otelllm.NewTransport(nil, otelllm.WithTracerProvider(provider), otelllm.WithPropagators(propagation.TraceContext{})),
	} {
		_ = ask(context.Background(), &http.Client{Transport: rt}, server.URL)
	}
	// Output:
	// false
	// true
}

// Both sides of a gateway: what it serves, and what it asks for. A proxy passes on
// the headers that it is sent, so it deletes the agent's trace context itself.
func ExampleNewHandler() {
	upstream := model(true, text) // breaks off
	defer upstream.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	target, _ := url.Parse(upstream.URL)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			for _, name := range []string{"Traceparent", "Tracestate", "Baggage"} {
				r.Out.Header.Del(name)
			}
		},
		Transport: otelllm.NewTransport(http.DefaultTransport),
	}
	handled := make(chan struct{})
	handler := otelllm.NewHandler(proxy, otelllm.WithTracerProvider(provider))
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(handled)
		_ = http.NewResponseController(w).EnableFullDuplex() // the proxy streams the request on
		handler.ServeHTTP(w, r)
	}))
	defer gateway.Close()

	fmt.Println(ask(context.Background(), http.DefaultClient, gateway.URL))
	<-handled
	for _, span := range spans.GetSpans() {
		fmt.Println(span.SpanKind)
	}
	show(spans, "llm.stream.end", "llm.transport.cause")
	// Output:
	// unexpected EOF
	// client
	// server
	// chat gpt-5
	//   llm.stream.end read_error
	//   llm.transport.cause body_truncated
	// chat gpt-5
	//   llm.stream.end read_error
	//   llm.transport.cause body_truncated
}

package otelllm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// model returns a server that streams events, and then breaks the connection or ends the stream.
func model(broken bool, events ...string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream(w, r, events...)
		if broken {
			panic(http.ErrAbortHandler)
		}
	}))
}

// silentModel returns a server that streams events, and then nothing until the client goes.
func silentModel(events ...string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream(w, r, events...)
		<-r.Context().Done()
	}))
}

func stream(w http.ResponseWriter, r *http.Request, events ...string) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		_, _ = io.WriteString(w, "data: "+e+"\n\n")
		_ = http.NewResponseController(w).Flush()
	}
}

// ask does what an SDK does: it makes one model call, and reads the stream to its end.
func ask(ctx context.Context, client *http.Client, baseURL string) error {
	return post(ctx, client, baseURL+"/v1/chat/completions", `{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
}

func post(ctx context.Context, client *http.Client, target, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
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

// show prints the spans that have ended, with some of their attributes.
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

// One line records every model call of a client as a span.
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

// A stream that breaks off without its final event looks complete to most SDKs. Here it
// is an error, and the error has the diagnosis.
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

// A watchdog ends a call that has gone silent. DefaultWatchdog has good limits; this one
// is short, for the example.
func ExampleWithWatchdog() {
	server := silentModel(text)
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

// Trace context goes to your own gateway, where you ask for it.
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

// Both sides of a gateway are recorded: the calls that it serves, and those that it makes.
// A proxy forwards the headers that it receives, so it deletes the agent's trace context itself.
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

// A gateway may have a path of its own, which does not say what is spoken there, and a
// host that does not say whose model it is.
func ExampleWithProtocol() {
	server := model(false, text, finish, done)
	defer server.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport,
		otelllm.WithProtocol(otelllm.ProtocolOpenAIChat),
		otelllm.WithProviderName("acme"),
		otelllm.WithTracerProvider(provider))}
	_ = post(context.Background(), client, server.URL+"/invoke", `{"model":"acme-1","stream":true,"messages":[]}`)
	show(spans, "gen_ai.provider.name", "llm.stream.end")
	// Output:
	// chat acme-1
	//   gen_ai.provider.name acme
	//   llm.stream.end terminal_event
	// invoke_agent agent
}

// A gateway with a path for each protocol has a client for each of them. Only requests to
// Gemini and Bedrock do not name the model in their body.
func ExampleProtocol() {
	server := model(true)
	defer server.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	for _, route := range []struct {
		path, body string
		protocol   otelllm.Protocol
	}{
		{"/llm/chat", `{"model":"m","messages":[]}`, otelllm.ProtocolOpenAIChat},
		{"/llm/responses", `{"model":"m","input":"hi"}`, otelllm.ProtocolOpenAIResponses},
		{"/llm/legacy", `{"model":"m","prompt":"hi"}`, otelllm.ProtocolOpenAICompletions},
		{"/llm/claude", `{"model":"m","max_tokens":9,"messages":[]}`, otelllm.ProtocolAnthropicMessages},
		{"/llm/gemini", `{"contents":[]}`, otelllm.ProtocolGemini},
		{"/llm/bedrock", `{"messages":[],"inferenceConfig":{}}`, otelllm.ProtocolBedrockConverse},
		{"/llm/local", `{"model":"m","messages":[]}`, otelllm.ProtocolOllama},
		{"/llm/interactions", `{"model":"m","input":"hi"}`, otelllm.ProtocolGeminiInteractions},
		{"/llm/cohere", `{"model":"m","messages":[]}`, otelllm.ProtocolCohereChat},
		{"/llm/mistral", `{"model":"m","inputs":"hi"}`, otelllm.ProtocolMistralConversations},
	} {
		client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport,
			otelllm.WithProtocol(route.protocol), otelllm.WithTracerProvider(provider))}
		_ = post(context.Background(), client, server.URL+route.path, route.body)
	}
	show(spans, "gen_ai.provider.name")
	// Output:
	// chat m
	//   gen_ai.provider.name openai
	// chat m
	//   gen_ai.provider.name openai
	// text_completion m
	//   gen_ai.provider.name openai
	// chat m
	//   gen_ai.provider.name anthropic
	// generate_content
	//   gen_ai.provider.name gcp.gemini
	// chat
	//   gen_ai.provider.name aws.bedrock
	// chat m
	//   gen_ai.provider.name ollama
	// generate_content m
	//   gen_ai.provider.name gcp.gemini
	// chat m
	//   gen_ai.provider.name cohere
	// chat m
	//   gen_ai.provider.name mistral_ai
}

// The events hold the times at which the facts were observed. The facts are attributes,
// with or without them.
func ExampleWithoutEvents() {
	server := model(false, text, finish, done)
	defer server.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	for _, opts := range [][]otelllm.TransportOption{nil, {otelllm.WithoutEvents()}} {
		opts = append(opts, otelllm.WithTracerProvider(provider))
		_ = ask(context.Background(), &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport, opts...)}, server.URL)
	}
	for _, span := range spans.GetSpans() {
		if span.SpanKind == trace.SpanKindClient {
			fmt.Println(len(span.Events) > 0)
		}
	}
	// Output:
	// true
	// false
}

// Limits of your own: those that you leave out are off. The error is a timeout, as net.Error has it.
func ExampleWatchdog() {
	server := silentModel()
	defer server.Close()
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport, otelllm.WithWatchdog(otelllm.Watchdog{
		Connect:       5 * time.Second,
		FirstProgress: 50 * time.Millisecond,
		Total:         time.Minute,
	}))}

	err := ask(context.Background(), client, server.URL)
	var timeout net.Error
	fmt.Println(errors.As(err, &timeout) && timeout.Timeout())
	var fired *otelllm.WatchdogError
	fmt.Println(errors.As(err, &fired), fired)
	// Output:
	// true
	// true otelllm: watchdog: no first event within 50ms
}

// A loop of your own sends a request again where its diagnosis says that this is safe.
func ExampleWithLastRequest() {
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			panic(http.ErrAbortHandler) // the connection breaks before the answer
		}
		stream(w, r, text, finish, done)
	}))
	defer server.Close()
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}

	for try := 1; try <= 3; try++ {
		ctx, last := otelllm.WithLastRequest(context.Background())
		err := ask(ctx, client, server.URL)
		d := last.Diagnosis()
		if err == nil && !d.Failed() {
			fmt.Println("answered at try", try)
			break
		}
		fmt.Println(d.Class, d.Phase, d.Retry.Safety)
		if d.Retry.Safety != classify.SafeAutoRetry {
			break
		}
		time.Sleep(d.Retry.After)
	}
	// Output:
	// stream_interrupted awaiting_response safe_auto_retry
	// answered at try 2
}

// The plan of one call says whether to send the same again.
func ExampleLastRequest_Plan() {
	server := model(true)
	defer server.Close()
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}

	ctx, last := otelllm.WithLastRequest(context.Background())
	_ = ask(ctx, client, server.URL)
	fmt.Println(last.Plan().Send)
	// Output: again
}

// The connections are those of the transport below.
func ExampleTransport_CloseIdleConnections() {
	server := model(false, text, finish, done)
	defer server.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	transport := otelllm.NewTransport(&http.Transport{}, otelllm.WithTracerProvider(provider), otelllm.WithoutInferredRuns())
	client := &http.Client{Transport: transport}

	_ = ask(context.Background(), client, server.URL)
	_ = ask(context.Background(), client, server.URL)
	transport.CloseIdleConnections() // or client.CloseIdleConnections, which calls it
	_ = ask(context.Background(), client, server.URL)
	show(spans, "llm.connection.reused")
	// Output:
	// chat gpt-5
	//   llm.connection.reused false
	// chat gpt-5
	//   llm.connection.reused true
	// chat gpt-5
	//   llm.connection.reused false
}

// What this package recorded is found by its scope.
func ExampleScopeName() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	ctx, span := provider.Tracer("example.com/agent").Start(context.Background(), "handle message")
	_, run := otelllm.StartRun(ctx, "coder")
	run.End(nil)
	span.End()

	for _, span := range spans.GetSpans() {
		scope := span.InstrumentationScope
		fmt.Println(span.Name, scope.Name == otelllm.ScopeName)
	}
	// Output:
	// invoke_agent coder true
	// handle message false
}

// The version of the scope of all spans and metrics.
func ExampleVersion() {
	fmt.Println(otelllm.Version() != "")
	// Output: true
}

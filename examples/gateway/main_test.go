package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/examples/internal/otlptest"
	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// patience is the timeout for a server in the same process.
const patience = 20 * time.Second

// kept holds the ended spans of one of the two processes.
type kept struct {
	*trace.TracerProvider

	spans *tracetest.SpanRecorder
}

func keep() kept {
	spans := tracetest.NewSpanRecorder()
	return kept{trace.NewTracerProvider(trace.WithSpanProcessor(spans)), spans}
}

// ofKind waits for n spans of a kind and returns them, ordered by their ends.
func (k kept) ofKind(t *testing.T, kind oteltrace.SpanKind, n int) []trace.ReadOnlySpan {
	t.Helper()
	var found []trace.ReadOnlySpan
	require.Eventually(t, func() bool {
		found = nil
		for _, s := range k.spans.Ended() {
			if s.SpanKind() == kind {
				found = append(found, s)
			}
		}
		return len(found) == n
	}, patience, time.Millisecond)
	return found
}

func says(s trace.ReadOnlySpan) map[string]string {
	m := map[string]string{}
	for _, kv := range s.Attributes() {
		m[string(kv.Key)] = kv.Value.String()
	}
	return m
}

// agentTurn is one turn of an agent behind the gateway. stop, if set, is called at the first text.
func agentTurn(ctx context.Context, baseURL string, spans kept, stop func(abort func(otelllm.AbortSource, string))) classify.Diagnosis {
	ctx, abort := otelllm.WithAbort(ctx)
	ctx, run := otelllm.StartRun(ctx, "agent", otelllm.WithTracerProvider(spans))
	client := openai.NewClient(option.WithBaseURL(baseURL), option.WithAPIKey("sk-none"), option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{
		Transport: otelllm.NewTransport(&http.Transport{DisableKeepAlives: true}, otelllm.WithPropagators(propagation.TraceContext{})),
	}))
	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model: openai.ChatModelGPT5_5, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Why is the sky blue?")},
	})
	defer stream.Close()
	for stream.Next() {
		if stop != nil && len(stream.Current().Choices) > 0 && stream.Current().Choices[0].Delta.Content != "" {
			stop(abort)
		}
	}
	run.End(stream.Err())
	return run.Diagnosis()
}

func TestTheGateway(t *testing.T) {
	whole := faultyllm.Answer(faultyllm.Text("Rayleigh ", "scattering."), faultyllm.Finish(faultyllm.Stop))
	for _, tt := range []struct {
		name     string
		script   []faultyllm.Exchange
		stops    bool
		agent    string            // the diagnosis in the agent's process
		served   map[string]string // the attributes of the gateway's server span
		attempts []string          // error.type of each upstream attempt
	}{
		{
			"whole",
			[]faultyllm.Exchange{whole},
			false, "succeeded",
			map[string]string{"llm.stream.end": "terminal_event", "llm.stream.text_chunks": "2", "http.response.status_code": "200", "error.type": ""},
			[]string{""},
		},
		{
			"the upstream resets in the text",
			[]faultyllm.Exchange{faultyllm.Answer(faultyllm.Text("Rayleigh "), faultyllm.Reset())},
			false,
			"failed stream_interrupted/body_truncated", // all that the agent can see
			map[string]string{"llm.stream.end": "read_error", "llm.stream.phase": "text", "llm.transport.cause": "connection_reset", "error.type": "connection_reset"},
			[]string{"connection_reset"},
		},
		{
			"the upstream resets before its response",
			[]faultyllm.Exchange{faultyllm.BeforeHeaders(faultyllm.Reset())},
			false,
			"failed provider_error/server_error", // the gateway's 502
			map[string]string{"llm.stream.end": "no_response", "http.response.status_code": "502", "error.type": "connection_reset"},
			[]string{"connection_reset"},
		},
		{
			"the upstream is overloaded",
			[]faultyllm.Exchange{faultyllm.Refuse(faultyllm.Failure{Trouble: faultyllm.Overloaded})},
			false,
			"failed provider_error/overloaded",
			map[string]string{"llm.stream.end": "http_error", "llm.provider_error.kind": "overloaded", "http.response.status_code": "503"},
			[]string{"503"},
		},
		{
			"the client stops",
			[]faultyllm.Exchange{faultyllm.Answer(faultyllm.Text("Rayleigh "), faultyllm.Stall())},
			true, "aborted local_abort/user",
			map[string]string{"llm.stream.end": "consumer_closed", "llm.abort.source": "consumer", "error.type": ""},
			[]string{""},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			upstream, err := faultyllm.Start()
			require.NoError(t, err)
			defer func() { assert.NoError(t, upstream.Close()) }()
			upstream.Play("c", tt.script...)
			agent, gateway := keep(), keep()

			srv := httptest.NewServer(newGateway(&url.URL{Scheme: "http", Host: upstream.Addr()}, gateway.TracerProvider))
			defer srv.Close()
			base, err := url.Parse(upstream.BaseURL("c", faultyllm.Chat))
			require.NoError(t, err)
			var stop func(abort func(otelllm.AbortSource, string))
			if tt.stops {
				stop = func(abort func(otelllm.AbortSource, string)) { abort(otelllm.AbortUser, "stop_button") }
			}
			d := agentTurn(t.Context(), srv.URL+base.Path, agent, stop)
			got := d.Outcome.String()
			if d.Failed() {
				got += " " + d.Class.String() + "/" + d.Cause.String()
			}
			assert.Equal(t, tt.agent, got)

			served := gateway.ofKind(t, oteltrace.SpanKindServer, 1)[0]
			for key, want := range tt.served {
				assert.Equal(t, want, says(served)[key], key)
			}
			attempts := gateway.ofKind(t, oteltrace.SpanKindClient, len(tt.attempts))
			for i, want := range tt.attempts {
				assert.Equal(t, want, says(attempts[i])["error.type"], "attempt %d", i+1)
				assert.Equal(t, want != "", attempts[i].Status().Code == codes.Error)
				assert.Equal(t, served.SpanContext().SpanID(), attempts[i].Parent().SpanID())
			}
			assert.Equal(t, says(served)["error.type"] != "", served.Status().Code == codes.Error)
			// One trace covers both processes, and the provider gets no trace context.
			asked := agent.ofKind(t, oteltrace.SpanKindClient, 1)[0]
			assert.Equal(t, asked.SpanContext().SpanID(), served.Parent().SpanID())
			assert.Equal(t, asked.SpanContext().TraceID(), served.SpanContext().TraceID())
		})
	}
}

// The agent's trace context is removed before the request goes to the provider.
func TestTraceContextIsNotForwarded(t *testing.T) {
	var seen http.Header
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Clone() }))
	defer upstream.Close()
	target, err := url.Parse(upstream.URL)
	require.NoError(t, err)
	gateway := httptest.NewServer(newGateway(target, keep().TracerProvider))
	defer gateway.Close()

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gateway.URL+"/v1/chat/completions", nil)
	require.NoError(t, err)
	for name, value := range map[string]string{
		"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Tracestate": "a=b", "Baggage": "user=alice", "X-Other": "kept",
	} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, "kept", seen.Get("X-Other"))
	for _, name := range []string{"Traceparent", "Tracestate", "Baggage"} {
		assert.Empty(t, seen.Get(name), name)
	}
}

// A stream that the shutdown cuts is recorded so on both sides, and not as the client's doing.
func TestShutdown(t *testing.T) {
	upstream, err := faultyllm.Start()
	require.NoError(t, err)
	defer func() { assert.NoError(t, upstream.Close()) }()
	upstream.Play("c", faultyllm.Answer(faultyllm.Text("Rayleigh "), faultyllm.Stall()))
	gateway := keep()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- serve(ctx, ln, newGateway(&url.URL{Scheme: "http", Host: upstream.Addr()}, gateway.TracerProvider), time.Millisecond)
	}()
	base, err := url.Parse(upstream.BaseURL("c", faultyllm.Chat))
	require.NoError(t, err)
	d := agentTurn(t.Context(), "http://"+ln.Addr().String()+base.Path, keep(), func(func(otelllm.AbortSource, string)) { cancel() })
	assert.Equal(t, semconv.ClassStreamInterrupted, d.Class)
	require.NoError(t, <-served)
	for _, kind := range []oteltrace.SpanKind{oteltrace.SpanKindServer, oteltrace.SpanKindClient} {
		assert.Equal(t, "shutdown", says(gateway.ofKind(t, kind, 1)[0])["llm.abort.source"], kind)
	}
}

// The program serves until its context ends, and then exports its spans.
func TestTheProgram(t *testing.T) {
	upstream, err := faultyllm.Start()
	require.NoError(t, err)
	defer func() { assert.NoError(t, upstream.Close()) }()
	upstream.Play("c", faultyllm.Answer(faultyllm.Text("a"), faultyllm.Finish(faultyllm.Stop)))
	spans := otlptest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", spans.URL)

	ctx, cancel := context.WithCancel(t.Context())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- run(ctx, ln, "http://"+upstream.Addr()) }()
	base, err := url.Parse(upstream.BaseURL("c", faultyllm.Chat))
	require.NoError(t, err)
	d := agentTurn(t.Context(), "http://"+ln.Addr().String()+base.Path, keep(), nil)
	assert.Equal(t, semconv.RunOutcomeSucceeded, d.Outcome)
	cancel()
	require.NoError(t, <-done)
	assert.Len(t, spans.Named("chat gpt-5.5"), 2)

	ln, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.ErrorContains(t, run(t.Context(), ln, ""), "UPSTREAM_URL")
}

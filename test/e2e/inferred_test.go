package e2e

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// undeclared is an agent that records nothing by itself: a loop over an SDK with a tool. It asks again once if a
// stream breaks.
func undeclared(ctx context.Context, client openai.Client, asksAgain bool) error {
	history := []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Will it snow in Oslo?")}
	for {
		var answer openai.ChatCompletionAccumulator
		read := func() error {
			answer = openai.ChatCompletionAccumulator{}
			stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{Model: "gpt-5.5", Messages: history})
			defer stream.Close()
			for stream.Next() {
				answer.AddChunk(stream.Current())
			}
			return stream.Err()
		}
		err := read()
		if err != nil && asksAgain {
			err = read()
		}
		if err != nil || len(answer.Choices) == 0 {
			return err
		}
		message := answer.Choices[0].Message
		if len(message.ToolCalls) == 0 {
			return nil
		}
		history = append(history, message.ToParam())
		for _, call := range message.ToolCalls {
			history = append(history, openai.ToolMessage("Snow.", call.ID))
		}
	}
}

// The line of the README, and nothing else: the Collector judges the agent's run.
func TestTransportAlone(t *testing.T) {
	p := start(t)
	srv, err := faultyllm.Start()
	require.NoError(t, err)
	defer func() { assert.NoError(t, srv.Close()) }()
	call := faultyllm.Answer(faultyllm.ToolCall("call_0f9a8b7c6d5e4f30", "forecast", `{"city":"Oslo"}`), faultyllm.Finish(faultyllm.ToolCalls))
	text := faultyllm.Answer(faultyllm.Text("Yes, ", "it will."), faultyllm.Finish(faultyllm.Stop))
	llm := otelllm.New(otelllm.WithTracerProvider(p.provider), otelllm.WithInferredRuns(otelllm.InferredRuns{RetryWait: time.Millisecond}))

	for _, tt := range []struct {
		name      string
		transport *otelllm.Transport
		script    []faultyllm.Exchange
		asksAgain bool
		requests  int
		tools     int
		want      report.Verdict
	}{
		{
			"healthy", otelllm.NewTransport(nil, otelllm.WithTracerProvider(p.provider)),
			[]faultyllm.Exchange{call, text},
			false, 2, 1,
			report.Verdict{Outcome: semconv.RunOutcomeSucceeded},
		},
		{
			"recovers", otelllm.NewTransport(nil, otelllm.WithTracerProvider(p.provider)),
			[]faultyllm.Exchange{call, faultyllm.Refuse(faultyllm.Failure{Trouble: faultyllm.Overloaded}), faultyllm.Answer(faultyllm.Text("Yes"), faultyllm.Reset()), text},
			true, 4, 1,
			report.Verdict{Outcome: semconv.RunOutcomeRecovered, Recovered: 2},
		},
		{
			"broken", llm.NewTransport(nil),
			[]faultyllm.Exchange{call, faultyllm.Answer(faultyllm.Begin(), faultyllm.Reset())},
			false, 2, 1,
			report.Verdict{
				Outcome: semconv.RunOutcomeFailed, Class: semconv.ClassStreamInterrupted, Cause: semconv.CauseConnectionReset,
				Safety: semconv.RetrySafetyUserConfirmedRetry, Reason: semconv.RetryReasonToolStateUnknown,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv.Play(tt.name, tt.script...)
			client := openai.NewClient(option.WithBaseURL(srv.BaseURL(tt.name, faultyllm.Chat)), option.WithAPIKey("none"),
				option.WithHeader("User-Agent", tt.name+"/1.0"), option.WithHTTPClient(&http.Client{Transport: tt.transport}))
			err := undeclared(t.Context(), client, tt.asksAgain)
			assert.Equal(t, tt.want.Outcome == semconv.RunOutcomeFailed, err != nil, err)

			var runs []report.Run
			require.Eventually(t, func() bool {
				runs = runsOf(p, "invoke_agent "+tt.name)
				return len(runs) > 0
			}, patience, 5*time.Millisecond)
			require.Len(t, runs, 1)
			run := &runs[0]
			inferred, _ := run.Attributes.Get(string(semconv.RunInferredKey))
			assert.True(t, inferred.Bool())
			assert.Len(t, run.Requests, tt.requests)
			assert.Len(t, run.Tools, tt.tools)
			got := report.Verdict{
				Outcome: run.Verdict.Outcome, Class: run.Verdict.Class, Cause: run.Verdict.Cause,
				Safety: run.Verdict.Safety, Reason: run.Verdict.Reason, Recovered: run.Verdict.Recovered,
			}
			assert.Equal(t, tt.want, got, run.Verdict.Summary)
		})
	}
}

// The bodies of these SDKs are read before they are sent: a request that is read while it is sent has a trace of its own.
func TestRequestsOfSDKsAreInTheTraceOfTheirRun(t *testing.T) {
	srv, err := faultyllm.Start()
	require.NoError(t, err)
	defer func() { assert.NoError(t, srv.Close()) }()
	for wire, read := range streams {
		t.Run(wire.String(), func(t *testing.T) {
			srv.Play("c", faultyllm.Answer(faultyllm.Text("Yes."), faultyllm.Finish(faultyllm.Stop)))
			spans := tracetest.NewSpanRecorder()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
			defer func() { assert.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context()))) }()
			rt := otelllm.NewTransport(nil, otelllm.WithTracerProvider(provider))
			require.NoError(t, read(t.Context(), srv.BaseURL("c", wire), &http.Client{Transport: rt}))
			ended := spans.Ended()
			require.Len(t, ended, 2)
			assert.Equal(t, "invoke_agent agent", ended[1].Name())
			assert.Equal(t, ended[1].SpanContext().SpanID(), ended[0].Parent().SpanID())
		})
	}
}

// runsOf returns the runs that the Collector has judged in the traces of the runs with this name.
func runsOf(p *pipeline, name string) (runs []report.Run) {
	for _, s := range p.ended.Ended() {
		if s.Name() == name {
			runs = append(runs, p.sink.runs(pcommon.TraceID(s.SpanContext().TraceID()))...)
		}
	}
	return runs
}

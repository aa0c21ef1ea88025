// Package otelllm records what happens to an agent's calls of language models:
// every attempt on the wire becomes a span that says how far the stream came,
// what broke it, what had already happened, and so whether it is safe to try
// again.
//
// [NewTransport] is all that a model client needs:
//
//	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}
//
// It recognises OpenAI Chat Completions, Responses and Completions, Anthropic
// Messages, Gemini, Amazon Bedrock and Ollama, streaming or not, whatever SDK is
// above it. More knowledge gives better verdicts: [StartRun] joins the requests and
// tools of one agent run, [StartTool] says which tools ran and what they may have
// done, [WithAbort] tells a person's stop from a broken connection. [Run.Diagnosis]
// judges what has been seen so far.
//
// What is not an HTTP client has an entry of its own: [NewHandler] the serving side
// of a gateway, [NewRealtime] a realtime session over a WebSocket, [StartRequest]
// any other transport.
//
// Options do more than record, where that is asked for: [WithWatchdog] ends what
// has gone silent, [WithStreamErrors] makes an error of a stream that broke off
// where SDKs show a whole answer, [WithVerdicts] writes the diagnosis onto the
// spans, so that the first value needs no Collector. Metrics come by the GenAI
// conventions' instruments ([WithMeterProvider]). [Shutdown] ends what is open when
// the process goes down.
//
// The instrument never changes the music. Bytes, errors and their moments are
// those of the transport below. Of content nothing is kept or recorded: no
// prompts, completions, tool arguments or results, no headers but the providers'
// request ids, no URL queries, no messages of errors.
package otelllm

import "github.com/otelllm/otelllm-go/otelllm/internal/telemetry"

// ScopeName is the name of the instrumentation scope of all spans.
const ScopeName = telemetry.ScopeName

// Version is the version of the instrumentation.
const Version = telemetry.Version

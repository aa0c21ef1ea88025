// Package otelllm records what happens to an agent's calls of language models. Every
// attempt on the wire becomes a span that says how far the stream came, what broke it,
// what it had already caused, and so whether a retry is safe.
//
// [NewTransport] is all that a model client needs:
//
//	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}
//
// It recognises OpenAI Chat Completions, Responses and Completions, Anthropic Messages,
// Gemini, Amazon Bedrock and Ollama, streaming or not, under any SDK. The more is
// recorded, the better the verdicts: [StartRun] joins the requests and tools of one agent
// run, [StartTool] records which tools ran and what they may have changed, and [WithAbort]
// keeps a person's stop apart from a broken connection. [Run.Diagnosis] judges what has
// been seen so far.
//
// [NewHandler] is for the serving side of a gateway. Package otelllm/realtime is for a
// realtime session over a WebSocket, and otelllm/manual for any other transport. Package
// otelllm/mcpeffect says what a tool of an MCP server may change.
//
// Some options do more than record. [WithWatchdog] ends a call that has gone silent.
// [WithStreamErrors] returns an error for a stream that broke off, where an SDK would
// return it as a whole answer. [WithVerdicts] writes the diagnosis onto the spans, so that
// it can be read without a Collector. Metrics use the instruments of the GenAI conventions
// ([WithMeterProvider]). [Shutdown] ends what is still open when the process goes down.
//
// Instrumentation never changes what it observes: bytes, errors and their timing are those
// of the transport below. Content is neither kept nor recorded: no prompts, completions,
// tool arguments or results, no headers except the providers' request ids, no URL queries
// and no error messages.
package otelllm

import "github.com/otelllm/otelllm-go/otelllm/internal/telemetry"

// ScopeName is the name of the instrumentation scope of all spans.
const ScopeName = telemetry.ScopeName

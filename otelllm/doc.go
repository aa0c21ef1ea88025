// Package otelllm records the model calls of an LLM agent. Every HTTP attempt of a call
// becomes a client span; a retry by the SDK is another span. The span records how far the
// response got, why it ended and what the model had already asked for. From these facts
// follows a diagnosis: what failed, who caused it, and whether a retry is safe. On spans
// the diagnosis is called a verdict; the Collector's processor writes it, or
// [WithVerdicts].
//
// [NewTransport] is all that a model client needs:
//
//	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}
//
// It recognises OpenAI Chat Completions, Responses and Completions, Anthropic Messages,
// Gemini and its Interactions, Amazon Bedrock, Ollama, Cohere and Mistral's conversations,
// streaming or not, under any SDK. It also infers the runs of the agent, since consecutive requests of a conversation repeat or extend each
// other: see [Transport].
//
// The more is recorded, the better the verdicts. [StartRun] declares a run: when it begins
// and ends, and with what error. [StartTool] records which tools ran and what they may have
// changed, and [WithAbort] records who cancelled, so that a user's stop is not reported as a
// broken connection. [Run.Diagnosis] judges what has been observed so far.
//
// [NewHandler] is for the serving side of a gateway. Package otelllm/realtime is for a
// realtime session over a WebSocket, otelllm/responses for the Responses API over one, and
// otelllm/manual for any other transport. Package otelllm/mcpeffect says what a tool of an
// MCP server may change.
//
// Two options do more than record. [WithWatchdog] ends a call that has gone silent.
// [WithStreamErrors] returns an error for a stream that broke off, where an SDK would
// return it as a complete answer. Without them, bytes, errors and their timing are those of
// the transport below. Metrics use the instruments of the GenAI conventions
// ([WithMeterProvider]). [Shutdown] ends what is still open before the process exits.
//
// Content is never recorded, and is held in memory only while it is decoded: no prompts,
// completions, tool arguments or results, no URL queries and no error messages. Of the
// headers only the providers' request ids, an agent's conversation id and the product in its
// User-Agent are recorded.
package otelllm

import "github.com/otelllm/otelllm-go/otelllm/internal/telemetry"

// ScopeName is the name of the instrumentation scope of all spans.
const ScopeName = telemetry.ScopeName

// Version returns the version of this module in the running program, such as "0.1.0": that of the
// instrumentation scope of all spans and metrics. It is "devel" if the program was built from a
// checkout.
func Version() string { return telemetry.Version() }

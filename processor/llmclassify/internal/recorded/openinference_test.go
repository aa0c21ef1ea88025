package recorded

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

// openInferenceFor is OpenInference's instrumentation for a library of Python.
func openInferenceFor(library string) framework {
	return framework{"openinference.instrumentation." + library, values{}}
}

func (f framework) oiAgent(to float64) framed {
	return f.span(1, 0, "Agent.run", 0, to, values{"openinference.span.kind": "AGENT", "graph.node.id": "n"})
}

func (f framework) oiLLM(more values) framed {
	more["openinference.span.kind"] = "LLM"
	return f.span(2, 1, "llm", .1, 1, more)
}

// completed is a span to which a processor of OpenInference has added its kind, and OK if it
// did not fail.
func completed(s framed, kind string) framed {
	s.values["openinference.span.kind"] = kind
	if s.raised == "" {
		s = s.ok()
	}
	return s
}

// OpenInference for Agno and ADK sets OK before the stream is read. An error of the stream is
// recorded, and the status stays OK, which the SDK for Python does not change.
func TestOKBeforeTheStreamBroke(t *testing.T) {
	for _, library := range []string{"agno", "google_adk"} {
		f := openInferenceFor(library)
		for _, class := range []string{"httpx.RemoteProtocolError", "openai.RateLimitError", "httpx.ReadError", "openai.APIError"} {
			llm := f.oiLLM(values{"llm.token_count.completion": 3}).ok()
			llm.raised = class
			got := whatIsSaid(t, f.oiAgent(2), llm)
			assert.NotEqual(t, semconv.RunOutcomeSucceeded, got[1].outcome, "%s, %s: %v", library, class, got)
		}
	}
}

// Agno's agent is OK when its stream is no longer read, as is its request from its beginning. Nothing is
// said of it. It succeeded where its last request shows an end, and failed where that failed.
func TestOpenInferenceAgent(t *testing.T) {
	f := openInferenceFor("agno")
	judged := func(llm framed) said { return whatIsSaid(t, f.oiAgent(2).ok(), llm)[1] }
	assert.Equal(t, said{}, judged(f.oiLLM(values{}).ok()))
	assert.Equal(t, said{}, judged(f.oiLLM(values{"llm.finish_reason": "tool_calls"}).ok()), "a node of a graph")
	assert.Equal(t, semconv.RunOutcomeSucceeded, judged(f.oiLLM(values{"llm.token_count.completion": 3}).ok()).outcome)
	assert.Equal(t, semconv.RunOutcomeSucceeded, judged(f.oiLLM(values{"llm.finish_reason": "stop"}).ok()).outcome)
	assert.Equal(t, semconv.RunOutcomeFailed, judged(f.oiLLM(values{}).raising("openai.RateLimitError", "x")).outcome)
	assert.Equal(t, said{}, whatIsSaid(t, f.oiAgent(2).ok())[1], "its requests are not recorded")
}

// The parameters of a call of Cohere's chat_stream and of Anthropic's messages.stream do not
// say that it streams, and LangChain's are those of the model. All are OK for a stream that
// ended without its end, some also for one that is no longer read.
func TestStreamsWithoutStreamParameter(t *testing.T) {
	for library, parameters := range map[string]string{
		"cohere":    `{"temperature":0.3}`,
		"anthropic": `{"max_tokens":1024}`,
		"langchain": `{"model":"gpt-4o","stream":false,"temperature":0.7}`,
	} {
		f := openInferenceFor(library)
		chain := f.oiAgent(2)
		llm := f.oiLLM(values{
			"llm.invocation_parameters":          parameters,
			"llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "I will now de",
		}).ok()
		got := whatIsSaid(t, chain, llm)
		assert.NotEqual(t, semconv.RunOutcomeSucceeded, got[1].outcome, "%s: %v", library, got)
	}
}

// OpenInference's span processors for these set OK on each span that is not ERROR: also on a
// chat and a run that were cancelled, or are no longer read. What is said is the same.
func TestProcessorsThatSetOK(t *testing.T) {
	for name, f := range map[string]framework{"pydantic-ai": pydantic, "Strands": strands, "Agent Framework": msAgents} {
		for what, more := range map[string]values{"cut": {"gen_ai.request.stream": true}, "whole": finished("stop"), "calls": finished("tool_calls")} {
			want := whatIsSaid(t, f.run(2), f.call(2, .1, 1, more))
			got := whatIsSaid(t, completed(f.run(2), "AGENT"), completed(f.call(2, .1, 1, more), "LLM"))
			assert.Equal(t, want, got, "%s, %s", name, what)
			assert.Equal(t, what == "whole", got[1].outcome == semconv.RunOutcomeSucceeded, "%s, %s: %v", name, what, got)
		}
	}
	waits := func(tool framed) framed { return deferred(tool).raising("ApprovalRequired", "x") }
	call := pydantic.call(2, .1, 1, finished("tool_call"))
	want := whatIsSaid(t, pydantic.run(2.1), call, waits(pydantic.tool(1, 2, "call_1")))
	got := whatIsSaid(t, completed(pydantic.run(2.1), "AGENT"), completed(call, "LLM"), completed(waits(pydantic.tool(1, 2, "call_1")), "TOOL"))
	assert.Equal(t, want, got, "a tool that waits for a person")
	assert.Equal(t, semconv.RunOutcomeWaiting, got[1].outcome)
}

// @arizeai/openinference-vercel sets OK on each span of the AI SDK that is UNSET: also on a stream
// that was aborted, or ended without a finish reason.
func TestVercelWithOpenInference(t *testing.T) {
	v7, v6 := framework{"gen_ai", values{}}, framework{"ai", values{}}
	for _, finish := range []string{"", "other", "unknown", "interrupted", "stop"} {
		for version := 6; version <= 7; version++ {
			spans := func() (run, call framed) {
				if version == 7 {
					run, call = v7.run(2), v7.call(2, .1, 1)
					if finish != "" {
						call.values["gen_ai.response.finish_reasons"] = []any{finish}
					}
					return run, call
				}
				run = v6.span(1, 0, "ai.streamText", 0, 2, values{"ai.operationId": "ai.streamText"})
				call = v6.span(2, 1, "ai.streamText.doStream", .1, 1, values{"ai.operationId": "ai.streamText.doStream", "ai.response.msToFirstChunk": 12.5})
				if finish != "" {
					call.values["ai.response.finishReason"] = finish
				}
				return run, call
			}
			run, call := spans()
			want := whatIsSaid(t, run, call)
			run, call = spans()
			got := whatIsSaid(t, completed(run, "AGENT"), completed(call, "LLM"))
			assert.Equal(t, want, got, "version %d, %q", version, finish)
			assert.Equal(t, finish == "stop", got[1].outcome == semconv.RunOutcomeSucceeded, "version %d, %q: %v", version, finish, got)
		}
	}
}

// The chain of the last request of a healthy agent breaks off: a span between them is not here. Nothing is
// said of the agent, nor of the one around it.
func TestUnprovenAgentByTime(t *testing.T) {
	f := openInferenceFor("agno")
	agent := f.span(1, 5, "Agent.run", 0, 4, values{"openinference.span.kind": "AGENT"}).ok()
	first := f.oiLLM(values{}).ok()
	last := f.span(3, 99, "llm", 2, 3, values{"openinference.span.kind": "LLM", "llm.finish_reason": "stop"}).ok()
	outer := handmade.run(5)
	outer.ID = 5
	for name, spans := range map[string][]framed{"the first request alone": {outer, agent, first}, "the last one by its time": {outer, agent, first, last}} {
		for id, got := range whatIsSaid(t, spans...) {
			assert.Equal(t, said{}, got, "%s: span %d", name, id)
		}
	}
	run, asks, answers := pydantic.run(4), pydantic.call(2, .1, 1, finished("tool_calls")), pydantic.call(3, 2, 3, finished("stop"))
	run.Parent, answers.Parent = 5, 99
	assert.Equal(t, said{}, whatIsSaid(t, run, asks, answers)[1], "pydantic-ai")
}

// A healthy agent was running when the process started, or for longer than run_timeout, and its last request does
// not show how it ended, or is not recorded: nothing is said of it.
func TestUnprovenAgentLacksParts(t *testing.T) {
	f := openInferenceFor("agno")
	llm := f.oiLLM(values{"llm.provider": "anthropic", "llm.token_count.completion": 6}).ok()
	for _, spans := range [][]framed{{llm, f.oiAgent(6).ok()}, {f.oiAgent(6).ok()}, {llm, f.oiAgent(7200).ok()}} {
		h := harness.New(t, harness.DefaultConfig(), nil)
		h.Pass(t, 3*time.Second)
		h.Lifetime.Begin(h.Clock.Now())
		h.Pass(t, 3*time.Second)
		require.NoError(t, h.ConsumeTraces(t.Context(), framedTraces(t, spans)))
		h.Pass(t, 2*harness.MaxHold)
		assert.Equal(t, said{}, saidOf(harness.SpansOf(h.Out())[harness.SpanID(1)]))
	}
}

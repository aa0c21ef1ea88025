package wire

import (
	"testing"

	"github.com/otelllm/otelllm-go/semconv"
)

func TestCompletions(t *testing.T) {
	text := func(index, s string) string {
		return `{"id":"cmpl-1","object":"text_completion","created":1589478378,"choices":[{"text":"` + s + `","index":` + index + `,"logprobs":null,"finish_reason":null}],"model":"m"}`
	}
	finish := func(index, reason string) string {
		return `{"id":"cmpl-1","object":"text_completion","created":1589478378,"choices":[{"text":"","index":` + index + `,"logprobs":null,"finish_reason":"` + reason + `"}],"model":"m"}`
	}
	usage := `{"id":"cmpl-1","object":"text_completion","created":1,"choices":[],"model":"m","usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}}`
	used := func(s *State) { s.Usage = Usage{Input: 5, Output: 7, CacheRead: -1, CacheCreation: -1, Reasoning: -1} }
	id := response("cmpl-1", "m")
	runDecodeTests(t, openAICompletions{}, []decodeTest{
		{"text", "", data(text("0", "a"), text("0", "b"), text("0", "")), all(id, events(3), texts(2), phase(semconv.PhaseText))},
		{"whole", "", data(text("0", "a"), finish("0", "stop"), usage) + done, all(id, used, events(4), texts(1), ended("stop"))},
		{"one of two prompts finished", "", data(text("0", "a"), text("1", "b"), finish("0", "length")) + done, all(id, events(4), texts(2), phase(semconv.PhaseText), terminal, finished("length"))},
		{"[DONE] and never a reason", "", data(text("0", "a")) + done, all(id, events(2), texts(1), ended("unstated"))},
		{"an error", "", data(text("0", "a"), `{"error":{"message":"secret","type":"InternalServerError","param":null,"code":500}}`) + done, all(id, events(3), texts(1), phase(semconv.PhaseText), failed(Error{Type: "InternalServerError", Code: "500", Status: 500}))},
		{"not streaming", jsonType, `{"id":"cmpl-1","object":"text_completion","model":"m","choices":[{"text":"a","index":0,"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":7}}`, all(id, used, events(1), texts(1), ended("stop"))},
		{"fill in the middle", "", data(`{"id":"cmpl-1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`, `{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}]}`) + done, all(id, events(3), texts(1), ended("stop"))},
	})
}

func TestCompletionsRequest(t *testing.T) {
	runRequestTests(t, openAICompletions{}, []requestTest{
		{"nothing", `{}`, Request{HistoryCalls: none, HistoryOutputs: none}},
		{"a prompt", `{"model":"m","prompt":"\"model\":\"n\"","stream":true}`, Request{Model: "m", Stream: true, HistoryCalls: none, HistoryOutputs: none}},
	})
}

package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

// delta returns a chunk of Chat Completions with one choice.
func delta(delta, finish string) string {
	if finish == "" {
		finish = "null"
	} else {
		finish = `"` + finish + `"`
	}
	return `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[{"index":0,"delta":` +
		delta + `,"logprobs":null,"finish_reason":` + finish + `}],"usage":null}`
}

const done = "data: [DONE]\n\n"

func TestChat(t *testing.T) {
	gpt := response("chatcmpl-1", "gpt-x")
	role := delta(`{"role":"assistant","content":"","refusal":null}`, "")
	hello, world := delta(`{"content":"hello"}`, ""), delta(`{"content":" wor\"ld"}`, "")
	think := delta(`{"reasoning_content":"hm"}`, "")
	callA := delta(`{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":""}}]}`, "")
	argsA := delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\""}}]}`, "")
	argsA2 := delta(`{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`, "")
	callB := delta(`{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"f","arguments":""}}]}`, "")
	argsB := delta(`{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}`, "")
	stop, toolCalls := delta(`{}`, "stop"), delta(`{}`, "tool_calls")
	usage := `{"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":15,"completion_tokens":78,"total_tokens":93,"prompt_tokens_details":{"audio_tokens":0,"cached_tokens":5},"completion_tokens_details":{"reasoning_tokens":64}}}`
	second := func(delta, finish string) string {
		return `{"choices":[{"finish_reason":` + finish + `,"delta":` + delta + `,"index":1}]}`
	}

	runDecodeTests(t, openAIChat{}, []decodeTest{
		{"role only", "", data(role), all(gpt, events(1))},
		{"text", "", data(role, hello, world), all(gpt, events(3), texts(2), phase(semconv.PhaseText))},
		{"empty text between", "", data(hello, delta(`{"content":""}`, ""), delta(`{"content":null}`, ""), world), all(gpt, events(4), texts(2), phase(semconv.PhaseText))},
		{"a whole answer", "", data(role, hello, world, stop, usage) + done, all(gpt, events(6), texts(2), ended("stop"), func(s *State) {
			s.Usage = Usage{Input: 15, Output: 78, CacheRead: 5, CacheCreation: -1, Reasoning: 64}
		})},
		{"complete before [DONE]", "", data(hello, stop), all(gpt, events(2), texts(1), ended("stop"), func(s *State) { s.Terminal = false })},
		{"finish in the last delta", "", data(hello, delta(`{"content":"!"}`, "stop")) + done, all(gpt, events(3), texts(2), ended("stop"))},
		{"[DONE] without the line end", "", data(hello, stop) + "data: [DONE]", all(gpt, events(3), texts(1), ended("stop"))},
		{"[DONE] cut", "", data(hello, stop) + "data: [DON", all(gpt, events(2), texts(1), ended("stop"), func(s *State) { s.Terminal = false })},
		{"no finish reason, in words", "", data(delta(`{"content":"a"}`, "None"), delta(`{"content":"b"}`, "null"), delta(`{"content":"c"}`, "NONE"), stop) + done, all(gpt, events(5), texts(3), ended("stop"))},
		{"no finish reason, in a word, cut", "", data(delta(`{"content":"a"}`, "None")), all(gpt, events(1), texts(1), phase(semconv.PhaseText))},
		{"no finish reason, in a word, and calls", "", data(delta(`{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":"{"}}]}`, "None")), all(gpt, events(1), calls("call_a"), phase(semconv.PhaseToolInput))},
		{"no finish reason in a whole answer, in a word", jsonType, `{"id":"chatcmpl-1","model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"None"}]}`, all(gpt, events(1), texts(1), ended("unstated"))},
		{"an error beside choices that are null", "", data(`{"id":"x","choices":null,"code":"server_error","error_message":"x"}`), all(response("x", ""), events(1), failed(Error{Code: "server_error"}))},
		{"error without data", "", data(role) + "event: error\nid: 1\n\n" + done, all(gpt, events(3), failed(Error{}))},
		{"error without data, alone", "", "event: error\n\n", all(events(1), failed(Error{}))},
		{"error without data, after text", "", data(role, hello) + "event:error\ndata:\n\n", all(gpt, events(3), texts(1), phase(semconv.PhaseText), failed(Error{}))},
		{"error without data, after the end", "", data(hello, stop) + done + "event: error\n\n", all(gpt, events(4), texts(1), ended("stop"))},
		{"another event without data", "", data(hello, stop) + "event: errors\n\n" + done, all(gpt, events(3), keepalives(1), texts(1), ended("stop"))},
		{"[DONE] alone", "", done, all(events(1), terminal)},
		{"[DONE] after no content proves nothing", "", data(role) + done, all(gpt, events(2), terminal)},
		{"[DONE] after text, and never a reason", "", data(role, hello) + done, all(gpt, events(3), texts(1), ended("unstated"))},
		{"[DONE] after text, and a reason of another choice", "", data(hello, strings.Replace(stop, `"index":0`, `"index":1`, 1)) + done, all(gpt, events(3), texts(1), finished("stop"), phase(semconv.PhaseText), terminal)},
		{"[DONE] after a whole call, and never a reason", "", data(callA, delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}`, "")) + done, all(gpt, events(3), calls("call_a!"), ended("unstated"))},
		{"[DONE] in the input of a call", "", data(callA, delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a"}}]}`, "")) + done, all(gpt, events(3), calls("call_a"), phase(semconv.PhaseToolInput), terminal)},
		{"content after [DONE]", "", data(hello, stop) + done + data(world, toolCalls), all(gpt, events(5), texts(2), unread, ended("stop"))},
		{"nothing after [DONE]", "", data(hello, stop) + done + data(delta(`{}`, ""), usage), all(gpt, events(5), texts(1), ended("stop"))},
		{"a provider's tool after [DONE]", "", data(hello, stop) + done + data(delta(`{"executed_tools":[{"type":"search"}]}`, "")), all(gpt, events(4), texts(1), providerTools(1, "search"), unread, ended("stop"))},
		{"a call whose end comes after [DONE]", "", data(callA) + done + data(toolCalls), all(gpt, events(3), calls("call_a!"), ended("unstated"))},
		{"another model, another name", "", data(callA, strings.Replace(delta(`{"tool_calls":[{"index":0,"function":{"name":"g"}}]}`, ""), "gpt-x", "gpt-y", 1)), all(gpt, events(2), calls("call_a+"), phase(semconv.PhaseToolCallReady))},
		{"a number that is missing", "", data(hello, hello, strings.Replace(hello, `"created":1`, `"created":`, 1)), all(gpt, events(2), texts(2), phase(semconv.PhaseText), broken)},
		{"not a number", "", data(hello, hello, strings.Replace(hello, `"created":1`, `"created":01`, 1)), all(gpt, events(2), texts(2), phase(semconv.PhaseText), broken)},
		{"crlf", "", strings.ReplaceAll(data(hello, stop)+done, "\n", "\r\n"), all(gpt, events(3), texts(1), ended("stop"))},
		{"keepalives", "", ": OPENROUTER PROCESSING\n\n" + data(hello) + ": OPENROUTER PROCESSING\n\n", all(gpt, events(1), keepalives(2), texts(1), phase(semconv.PhaseText))},
		{"filters before the answer", "", data(`{"choices":[],"id":"","model":"","prompt_filter_results":[{}]}`, hello), all(gpt, events(2), texts(1), phase(semconv.PhaseText))},
		{"length", "", data(hello, delta(`{}`, "length")) + done, all(gpt, events(3), texts(1), ended("length"))},
		{"refusal", "", data(delta(`{"refusal":"I can't"}`, ""), stop) + done, all(gpt, events(3), texts(1), ended("refusal"))},
		{"a refusal in pieces", "", data(role, delta(`{"refusal":"I"}`, ""), delta(`{"refusal":" can't"}`, ""), stop) + done, all(gpt, events(5), texts(2), ended("refusal"))},
		{"audio", "", data(delta(`{"audio":{"transcript":"a"}}`, "")), all(gpt, events(1), texts(1), phase(semconv.PhaseText))},
		{"a finish reason that is text", "", data(delta(`{}`, "the secret is")) + done, all(gpt, events(2), unread, ended("redacted"))},
		{"a model and id that are text", "", data(`{"id":"my id","model":"my model","choices":[]}`), all(events(1), response(SafeID("my id"), "redacted"))},

		{"reasoning", "", data(think, think), all(gpt, events(2), thoughts(2), phase(semconv.PhaseReasoning))},
		{"reasoning, as others call it", "", data(delta(`{"content":"","reasoning":"a","reasoning_details":[{"text":"a"}]}`, "")), all(gpt, events(1), thoughts(1), phase(semconv.PhaseReasoning))},
		{"encrypted reasoning", "", data(delta(`{"reasoning":null,"reasoning_details":[{"data":"a"}]}`, "")), all(gpt, events(1), thoughts(1), phase(semconv.PhaseReasoning))},
		{"reasoning, then text", "", data(think, delta(`{"content":null,"reasoning_content":"x"}`, ""), hello), all(gpt, events(3), thoughts(2), texts(1), phase(semconv.PhaseText))},
		{"empty reasoning beside text", "", data(delta(`{"content":"a","reasoning_content":""}`, "")), all(gpt, events(1), texts(1), phase(semconv.PhaseText))},
		{"a picture among the parts", "", data(delta(`{"content":[{"type":"image_url","image_url":{"url":"data:"}}]}`, ""), delta(`{"content":[{"type":"image_url","image_url":null,"text":"a"}]}`, ""), delta(`{"content":[{"type":"image_url","image_url":null}]}`, "")), all(gpt, events(3), texts(2), phase(semconv.PhaseText))},
		{"Groq's own tools without an index", "", data(delta(`{"executed_tools":[{"type":"search"},{"type":"python"}]}`, "")), all(gpt, events(1), providerTools(2, "search", "python"))},
		{"Groq's own tools, one of them twice", "", data(delta(`{"executed_tools":[{"index":0,"type":"search"},{"index":0,"type":"search"}]}`, "")), all(gpt, events(1), providerTools(1, "search"))},
		{"content in parts", "", data(delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`, ""), delta(`{"content":[{"type":"text","text":"4"}]}`, ""), delta(`{"content":[{"type":"text","text":""}]}`, "")), all(gpt, events(3), thoughts(1), texts(1), phase(semconv.PhaseText))},

		{"call begun", "", data(role, callA), all(gpt, events(2), calls("call_a+"), phase(semconv.PhaseToolCallReady))},
		{"call input under way", "", data(callA, argsA), all(gpt, events(2), calls("call_a"), phase(semconv.PhaseToolInput))},
		{"text, then a call", "", data(hello, callA, argsA), all(gpt, events(3), texts(1), calls("call_a"), phase(semconv.PhaseToolInput))},
		{"the next index is only a hint", "", data(callA, argsA, argsA2, callB, argsB), all(gpt, events(5), calls("call_a+", "call_b+"), phase(semconv.PhaseToolCallReady))},
		{"calls handed over", "", data(callA, argsA, argsA2, callB, argsB, toolCalls), all(gpt, events(6), calls("call_a!", "call_b!"), ended("tool_calls"), phase(semconv.PhaseToolCallReady), func(s *State) { s.Terminal = false })},
		{"usage after the calls", "", data(callA, toolCalls, `{"choices":[],"usage":{"prompt_tokens":1}}`), all(gpt, events(3), calls("call_a!"), ended("tool_calls"), phase(semconv.PhaseToolCallReady), func(s *State) { s.Terminal = false; s.Usage.Input = 1 })},
		{"calls and [DONE]", "", data(callA, argsA, argsA2, toolCalls) + done, all(gpt, events(5), calls("call_a!"), ended("tool_calls"))},
		{"calls under stop", "", data(callA, argsA, argsA2, stop) + done, all(gpt, events(5), calls("call_a!"), ended("stop"))},
		{"a call cut by the limit", "", data(callA, argsA, delta(`{}`, "length")) + done, all(gpt, events(4), calls("call_a"), ended("length"))},
		{"calls without [DONE]'s proof", "", data(callA, argsA) + done, all(gpt, events(3), calls("call_a"), phase(semconv.PhaseToolInput), terminal)},
		{"a whole call in one delta", "", data(delta(`{"content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":"{}"}}]}`, "tool_calls")) + done, all(gpt, events(2), calls("a!", "b/g!"), ended("tool_calls"))},
		{"every call at index 0", "", data(
			delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`, ""),
			delta(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}]}`, "")), all(gpt, events(2), calls("a+", "b+"), phase(semconv.PhaseToolCallReady))},
		{"a new id for every fragment", "", data(callA, delta(`{"tool_calls":[{"index":0,"id":"other","function":{"name":"","arguments":"{"}}]}`, ""), delta(`{"tool_calls":[{"index":0,"id":"third","function":{"name":null,"arguments":"}"}}]}`, ""), toolCalls), all(gpt, events(4), calls("call_a!"), ended("tool_calls"), phase(semconv.PhaseToolCallReady), func(s *State) { s.Terminal = false })},
		{"the same id in every fragment", "", data(callA, callA, toolCalls) + done, all(gpt, events(4), calls("call_a!"), ended("tool_calls"))},
		{"id and name come later", "", data(
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":""}}]}`, ""),
			delta(`{"tool_calls":[{"index":0,"id":"a","function":{}}]}`, ""),
			delta(`{"tool_calls":[{"index":0,"function":{"name":"f"}}]}`, "")), all(gpt, events(3), calls("a+"), phase(semconv.PhaseToolCallReady))},
		{"custom tool", "", data(delta(`{"tool_calls":[{"index":0,"id":"a","type":"custom","custom":{"name":"f","input":"x"}}]}`, ""), toolCalls) + done, all(gpt, events(3), calls("a!"), ended("tool_calls"))},
		{"function_call", "", data(delta(`{"function_call":{"name":"f","arguments":""}}`, ""), delta(`{"function_call":{"arguments":"{}"}}`, ""), delta(`{"function_call":null}`, ""), delta(`{}`, "function_call")) + done, all(gpt, events(5), calls("!"), ended("function_call"))},
		{"no tool_calls", "", data(delta(`{"tool_calls":null}`, ""), delta(`{"tool_calls":[]}`, "")), all(gpt, events(2))},
		{"ids and names that are text", "", data(delta(`{"tool_calls":[{"index":0,"id":"my id","function":{"name":"my tool"}}]}`, "")), all(gpt, events(1), calls(SafeID("my id")+"/redacted+"), phase(semconv.PhaseToolCallReady))},
		{"id and name come together, later", "", data(delta(`{"tool_calls":[{"index":0,"function":{"arguments":""}}]}`, ""), callA), all(gpt, events(2), calls("call_a+"), phase(semconv.PhaseToolCallReady))},
		{"an id alone, again after the end", "", data(delta(`{"tool_calls":[{"index":0,"id":"a"}]}`, ""), stop, delta(`{"tool_calls":[{"index":0,"id":"a"}]}`, "")), all(gpt, events(3), calls("a/!", "a/+"), finished("stop"), phase(semconv.PhaseToolCallReady), func(s *State) { s.Complete = true })},
		{"calls that take turns at index 0", "", data(callA, strings.Replace(callA, "call_a", "call_b", 1), callA), all(gpt, events(3), calls("call_a+", "call_b+", "call_a+"), phase(semconv.PhaseToolCallReady))},
		{"indexes that are not the places", "", data(delta(`{"tool_calls":[{"index":1,"id":"a","function":{"name":"f"}},{"index":0,"id":"b"}]}`, "")), all(gpt, events(1), calls("a+", "b/+"), phase(semconv.PhaseToolCallReady))},
		{"function_call beside calls without an index", "", data(delta(`{"tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"f"}}]}`, ""), delta(`{"function_call":{"name":"f"}}`, "")), all(gpt, events(2), calls("a+", "b+", "+"), phase(semconv.PhaseToolCallReady))},
		{"function_call beside a call", "", data(callB, delta(`{"function_call":{"name":"f"}}`, "")), all(gpt, events(2), calls("call_b+", "+"), phase(semconv.PhaseToolCallReady))},
		{"call after text after call", "", data(callA, hello, argsA), all(gpt, events(3), texts(1), calls("call_a+"), phase(semconv.PhaseText))},

		{"two choices, one finished", "", data(delta(`{"content":"a"}`, ""), second(`{"content":"b"}`, "null"), stop), all(gpt, events(3), texts(2), finished("stop"), phase(semconv.PhaseText))},
		{"two choices", "", data(hello, second(`{"content":"b"}`, "null"), stop, second(`{}`, `"length"`)) + done, all(gpt, events(5), texts(2), ended("stop", "length"))},
		{"two choices, calls of one", "", data(callA, second(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"f"}}]}`, "null"), toolCalls), all(gpt, events(3), calls("call_a!", "b+"), finished("tool_calls"), phase(semconv.PhaseToolCallReady))},
		{"two choices in one chunk", "", data(`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`), all(events(1), texts(2), phase(semconv.PhaseText))},
		{"two choices in every chunk", "", data(`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`, `{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`), all(events(2), texts(4), phase(semconv.PhaseText))},
		{"no choice in every chunk, then the second alone", "", data(`{"choices":[]}`, `{"choices":[]}`, second(`{}`, `"stop"`)), all(events(3), finished("stop"), phase(semconv.PhaseStreamEnd), func(s *State) { s.Complete = true })},
		{"two choices end after [DONE]", "", done + data(`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"},{"index":1,"delta":{"content":"b"},"finish_reason":"stop"}]}`), all(events(2), texts(2), unread, terminal)},
		{"usage of several sizes", "", data(`{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":1}}`, `{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":2}}`, `{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":1}}`), all(events(3), texts(3), phase(semconv.PhaseText), func(s *State) { s.Usage.Output = 1 })},
		{"choices said twice", "", data(`{"id":"chatcmpl-1","model":"gpt-x","choices":[{"delta":{"content":"a"}}],"choices":[]}`, `{"id":"chatcmpl-1","model":"gpt-x","choices":[{"delta":{"content":"a"}}],"choices":[],"x":1}`), all(gpt, events(2), texts(2), phase(semconv.PhaseText))},
		{"a choice that comes late", "", data(stop, second(`{"content":"b"}`, "null")), all(gpt, events(2), texts(1), finished("stop"), phase(semconv.PhaseText))},

		{"error", "", data(hello, `{"error":{"message":"secret","type":"server_error","param":null,"code":"boom"}}`), all(gpt, events(2), texts(1), phase(semconv.PhaseText), failed(Error{Type: "server_error", Code: "boom"}))},
		{"error and [DONE]", "", data(hello, `{"error":{"message":"secret","type":"InternalServerError","code":500}}`) + done, all(gpt, events(3), texts(1), phase(semconv.PhaseText), failed(Error{Type: "InternalServerError", Code: "500", Status: 500}))},
		{"vLLM's older error", "", data(`{"object":"error","message":"secret","type":"BadRequestError","param":null,"code":400}`) + done, all(events(2), failed(Error{Type: "BadRequestError", Code: "400", Status: 400}))},
		{"a type that is an error's", "", data(`{"type":"error","choices":[{"index":0,"delta":{"content":"a"}}]}`), all(events(1), texts(1), phase(semconv.PhaseText))},
		{"Groq's error", "", data(`{"choices":[],"x_groq":{"error":{"code":"boom"},"id":"req_1"}}`), all(events(1), failed(Error{Code: "boom"}))},
		{"error that is text", "", data(`{"error":"secret"}`), all(events(1), failed(Error{}))},
		{"error by the event's name", "", "event: error\ndata: {\"message\":\"secret\",\"code\":\"a\"}\n\n", all(events(1), failed(Error{Code: "a"}))},
		{"no error", "", data(`{"error":null,"choices":[]}`, `{"error":{},"choices":[]}`, `{"error":"","choices":[]}`), events(3)},
		{"error after the finish reason", "", data(hello, stop, `{"error":{"code":"late"}}`) + done, all(gpt, events(4), texts(1), finished("stop"), phase(semconv.PhaseStreamEnd), failed(Error{Code: "late"}))},
		{"error after [DONE]", "", data(hello, stop) + done + data(`{"error":{"code":"late"}}`), all(gpt, events(4), texts(1), ended("stop"))},
		{"error with a hint", "", data(`{"error":{"code":"rate_limit_exceeded","type":"tokens","message":"Limit 30000. Please try again in 1m3.5s. Visit"}}`), all(events(1), failed(Error{Type: "tokens", Code: "rate_limit_exceeded", RetryAfter: 63500 * time.Millisecond}))},
		{"finish reason error", "", data(hello, `{"id":"gen-1","error":{"code":502,"message":"Provider disconnected"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`) + done, all(gpt, events(3), texts(1), phase(semconv.PhaseText), finished("error"), failed(Error{Code: "502", Status: 502}))},
		{"finish reason error alone", "", data(callA, delta(`{}`, "error")) + done, all(gpt, events(3), calls("call_a"), phase(semconv.PhaseToolInput), finished("error"), failed(Error{Type: "error"}))},
		{"a status that comes with the second error", "", data(`{"error":{"code":"first"}}`, `{"error":{"code":503}}`, `{"error":{"code":500}}`), all(events(3), failed(Error{Code: "first", Status: 503}))},
		{"an error between the events, and more lines", "", data(hello) + `{"error":{"code":"boom"}}` + "\nat line 7\n\n" + data(world), all(gpt, events(3), texts(2), unread, phase(semconv.PhaseText), failed(Error{Code: "boom"}))},
		{"an error between the events, after one that was cut", "", data(hello) + "{\"error\":{\n\n" + data(hello) + `{"error":{"code":"boom"}}` + "\n\n", all(gpt, events(3), texts(2), phase(semconv.PhaseText), failed(Error{Code: "boom"}))},
		{"two errors", "", data(`{"error":{"code":"first"}}`, `{"error":{"code":"second","type":"t"}}`), all(events(2), failed(Error{Type: "t", Code: "first"}))},

		{"a whole completion", jsonType, `{"id":"chatcmpl-1","object":"chat.completion","model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":"hi","refusal":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, all(gpt, events(1), texts(1), ended("stop"), func(s *State) { s.Usage.Input, s.Usage.Output = 1, 2 })},
		{"a whole completion with calls", jsonType, `{"id":"chatcmpl-1","model":"gpt-x","choices":[{"index":0,"message":{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`, all(gpt, events(1), calls("a!", "b!"), ended("tool_calls"))},
		{"a whole completion without a finish reason", jsonType, `{"id":"chatcmpl-1","model":"gpt-x","choices":[{"index":0,"message":{"content":"a"}}]}`, all(gpt, events(1), texts(1), ended("unstated"))},
		{"a whole completion without a finish reason, with counts", jsonType, `{"id":"chatcmpl-1","model":"gpt-x","choices":[{"index":0,"message":{"content":"a"},"finish_reason":null}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, all(gpt, events(1), texts(1), ended("unstated"), func(s *State) { s.Usage.Input, s.Usage.Output = 1, 2 })},
		{"a whole completion, cut", jsonType, `{"id":"chatcmpl-1","model":"gpt-x","choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]`, nil},
		{"a whole completion as one event", "", data(`{"id":"chatcmpl-1","model":"gpt-x","choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}`) + done, all(gpt, events(2), texts(1), ended("stop"))},
		{"nothing of a completion", jsonType, `{"choices":{"a":1},"usage":[],"model":7}`, all(events(1), terminal)},
		{"a whole error", jsonType, `{"error":{"message":"secret","type":"t","code":null}}`, all(events(1), failed(Error{Type: "t"}))},
	})
}

// No more finish reasons than MaxIDs are listed.
func TestChatManyChoices(t *testing.T) {
	var choices []string
	for i := range MaxIDs + 2 {
		choices = append(choices, `{"index":`+itoa(i)+`,"message":{"content":"a"},"finish_reason":"stop"}`)
	}
	for n, want := range map[int]int{MaxIDs: MaxIDs, MaxIDs + 2: MaxIDs} {
		s := decode(openAIChat{}, jsonType, `{"choices":[`+strings.Join(choices[:n], ",")+`]}`)
		assert.True(t, s.Complete)
		assert.Equal(t, n, s.TextChunks)
		assert.Len(t, s.FinishReasons, want)
	}
}

// Calls beyond the bound of the list are still counted.
func TestChatManyCalls(t *testing.T) {
	var body strings.Builder
	want := started()
	response("chatcmpl-1", "gpt-x")(want)
	var ids []string
	for i := range 100 {
		id := "call_" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		ids = append(ids, id+"!")
		body.WriteString(data(delta(`{"tool_calls":[{"index":`+itoa(i)+`,"id":"`+id+`","function":{"name":"f","arguments":""}}]}`, "")))
		body.WriteString(data(delta(`{"tool_calls":[{"index":`+itoa(i)+`,"function":{"arguments":"{}"}}]}`, "")))
	}
	body.WriteString(data(delta(`{}`, "tool_calls")) + done)
	all(calls(ids...), events(202), ended("tool_calls"))(want)
	want.Calls = want.Calls[:MaxIDs]
	runDecodeTests(t, openAIChat{}, []decodeTest{{"100", "", body.String(), func(s *State) { *s = *want }}})
}

// After plain deltas, what differs in a chunk before its choices is read: another id or
// model changes nothing, an error does.
func TestChatHeads(t *testing.T) {
	const choices = `"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"id":"c%[1]d","function":{"name":"f","arguments":"{}"}}]}}]`
	head := func(n int, before string) string {
		return fmt.Sprintf(`data: {"id":"","model":"m",`+before+choices+"}\n\n", n)
	}
	named := func(n int, before string) string { return strings.Replace(head(n, before), `"id":""`, `"id":"r1"`, 1) }
	said := func(before string) string {
		return `data: {"id":"r1","model":"m",` + before + `"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n"
	}
	for name, tt := range map[string]struct {
		stream string
		calls  int
		failed bool
	}{
		"one head":              {said(`"created":1,`) + named(0, `"created":1,`) + named(1, `"created":1,`) + named(2, `"created":1,`), 3, false},
		"a number that changes": {said(`"created":1,`) + named(0, `"created":1,`) + named(1, `"created":2,`) + named(2, `"created":2,`) + named(3, `"created":33,`), 4, false},
		"an id that comes late": {head(0, "") + head(1, "") + named(2, "") + said("") + named(3, "") + head(4, ""), 5, false},
		"a longer one":          {said("") + said(`"x":"`+strings.Repeat("x", maxLiterals)+`",`) + named(0, "") + named(1, `"x":"`+strings.Repeat("x", maxLiterals)+`",`) + named(2, ""), 3, false},
		"usage in it":           {said("") + named(0, `"usage":{"prompt_tokens":1},`) + named(1, `"usage":{"prompt_tokens":1},`) + named(2, `"usage":{"prompt_tokens":7},`), 3, false},
		"an error in it":        {said("") + named(0, "") + named(1, `"error":{"code":"overloaded"},`), 2, true},
		"a text in it":          {said(`"obfuscation":"ab","created":1,`) + named(0, `"obfuscation":"abc","created":22,`) + named(1, `"obfuscation":"","created":3,`), 2, false},
		"no number in it":       {said(`"created":1,`) + named(0, `"created":"1",`) + named(1, `"created":null,`), 2, false},
		"after the choices":     {said("") + strings.Replace(said(""), `"choices"`, `"usage":null,"choices"`, 1) + named(0, "") + named(1, `"usage":null,`), 2, false},
		"as a line of its own":  {strings.Replace(said(""), `"model"`, "\ndata: \"model\"", 1) + named(0, "") + strings.Replace(named(1, ""), `"model"`, "\ndata: \"model\"", 1), 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := decode(openAIChat{}, sseType, tt.stream)
			assert.Equal(t, parsed(openAIChat{}, sseType, tt.stream), got)
			assert.Equal(t, tt.calls, got.ToolInputsStarted)
			assert.Equal(t, tt.failed, got.Err != nil)
			assert.Equal(t, "m", got.Model)
			assert.Equal(t, "r1", got.ResponseID)
			if name == "usage in it" {
				assert.Equal(t, 7, got.Usage.Input)
			}
		})
	}
}

// A client that fills the input of a call may have executed one that the stream's clean end or a
// limit left open, in pieces of any size, but none after an error or a cut.
func TestFillsInputs(t *testing.T) {
	begin := `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":%q}}]}}]}`
	more := `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":%q}}]}}]}`
	for _, input := range []string{"{", `{"pa`, `{"path":"a","b":[1,`, `[{"x":"\"`, `"te`, `{"a":{}`} {
		for cut := range len(input) {
			stream := data(fmt.Sprintf(begin, input[:cut]), fmt.Sprintf(more, input[cut:]))
			for _, tt := range []struct {
				name          string
				after         string
				close         func(Decoder)
				filled, ready bool
			}{
				{"a clean end", "", Decoder.Close, true, false},
				{"[DONE]", done, Decoder.Close, true, false},
				{"[DONE], and the reader leaves", done, func(d Decoder) { d.Cut(false) }, true, false},
				{"a cut", "", func(d Decoder) { d.Cut(true) }, false, false},
				{"an error", data(`{"error":{"message":"x","code":502}}`), Decoder.Close, false, false},
				{"length", data(delta(`{}`, "length")) + done, Decoder.Close, true, false},
				{"tool_calls", data(delta(`{}`, "tool_calls")) + done, Decoder.Close, true, true},
			} {
				for fills, p := range map[bool]Protocol{false: ForAgent(openAIChat{}), true: FillsInputs(ForAgent(openAIChat{}))} {
					d := p.NewDecoder("text/event-stream")
					for b := range []byte(stream + tt.after) {
						d.Write([]byte(stream + tt.after)[b : b+1])
					}
					tt.close(d)
					completed := tt.ready || fills && tt.filled
					st := d.State()
					assert.Equal(t, completed, st.ToolInputsCompleted == 1, "%s: %s, %v", input, tt.name, fills)
					assert.Equal(t, tt.ready, st.ToolCalls == 1, "%s: %s, %v", input, tt.name, fills)
					assert.Equal(t, tt.ready, st.Complete && slices.Equal(st.FinishReasons, []string{"tool_calls"}), "%s: %s, %v", input, tt.name, fills)
					d.Release()
				}
			}
		}
	}
}

// It is the same in every protocol that sends the input of a call in parts.
func TestFillsInputsOfEveryProtocol(t *testing.T) {
	call := map[Protocol]string{
		openAIResponses{}: "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"id\":\"i\",\"call_id\":\"a\",\"name\":\"f\"}}\n\n" +
			"data: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":0,\"delta\":\"{\\\"pa\"}\n\n",
		anthropicMessages{}: "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{}}}\n\n" +
			"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"pa\"}}\n\n",
		cohereChat{}: "data: {\"type\":\"tool-call-start\",\"index\":0,\"delta\":{\"message\":{\"tool_calls\":{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"pa\"}}}}}\n\n",
	}
	limit := map[Protocol]string{
		openAIResponses{}:   "data: {\"type\":\"response.incomplete\",\"response\":{\"status\":\"incomplete\",\"incomplete_details\":{\"reason\":\"max_output_tokens\"}}}\n\n",
		anthropicMessages{}: "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
		cohereChat{}:        "data: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"MAX_TOKENS\"}}\n\n",
	}
	for p, stream := range call {
		for _, tt := range []struct {
			name, after string
			close       func(Decoder)
			filled      bool
		}{
			{"a clean end", "", Decoder.Close, true},
			{"a cut", "", func(d Decoder) { d.Cut(true) }, false},
			{"a limit", limit[p], Decoder.Close, true},
		} {
			for fills, p := range map[bool]Protocol{false: p, true: FillsInputs(p)} {
				d := p.NewDecoder("text/event-stream")
				d.Write([]byte(stream + tt.after))
				require.Equal(t, 1, d.State().ToolInputsStarted, p.Name())
				tt.close(d)
				assert.Equal(t, fills && tt.filled, d.State().ToolInputsCompleted == 1, "%s: %s, %v", p.Name(), tt.name, fills)
				assert.Zero(t, d.State().ToolCalls, "%s: %s", p.Name(), tt.name)
				d.Release()
			}
		}
	}
	assert.Nil(t, FillsInputs(nil))
	assert.Nil(t, ForAgent(nil))
}

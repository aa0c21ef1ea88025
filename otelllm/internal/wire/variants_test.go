package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// Chat Completions of other services than OpenAI, as their documentation and servers write
// them.

// https://openrouter.ai/docs/api/reference/streaming
// https://openrouter.ai/docs/api/reference/errors-and-debugging
func TestOpenRouter(t *testing.T) {
	const processing = ": OPENROUTER PROCESSING\n\n"
	id := response("gen-1", "openai/gpt-4o-mini")
	text := `{"id":"gen-1","provider":"Azure","model":"openai/gpt-4o-mini","object":"chat.completion.chunk","created":1778031306,"choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"},"finish_reason":null,"native_finish_reason":null,"logprobs":null}],"system_fingerprint":"fp_1"}`
	stop := `{"id":"gen-1","provider":"Azure","model":"openai/gpt-4o-mini","object":"chat.completion.chunk","created":1778031306,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop","native_finish_reason":"completed","logprobs":null}]}`
	usage := `{"id":"gen-1","provider":"Azure","model":"openai/gpt-4o-mini","object":"chat.completion.chunk","created":1778031306,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null,"native_finish_reason":null,"logprobs":null}],"usage":{"prompt_tokens":20,"completion_tokens":4,"total_tokens":24,"cost":0.0000054,"is_byok":false,"prompt_tokens_details":{"cached_tokens":8},"completion_tokens_details":{"reasoning_tokens":0}}}`
	lost := `{"id":"gen-1","object":"chat.completion.chunk","created":1234567890,"model":"openai/gpt-4o-mini","provider":"openai","error":{"code":"server_error","message":"Provider disconnected unexpectedly"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`
	limited := `{"id":"gen-1","model":"openai/gpt-4o-mini","error":{"code":429,"message":"Provider returned error","metadata":{"provider_name":"Azure","raw":"secret","retry_after_seconds":3}},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","native_finish_reason":null}]}`
	native := func(finish, native string) string {
		return strings.NewReplacer(`"stop"`, `"`+finish+`"`, "completed", native).Replace(stop)
	}
	think := `{"id":"gen-1","model":"openai/gpt-4o-mini","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","format":"anthropic-claude-v1","index":0}]},"finish_reason":null}]}`
	runDecodeTests(t, openAIChat{}, []decodeTest{
		{"waiting", "", processing + processing, keepalives(2)},
		{"waiting, as one comment", "", ": OPENROUTER PROCESSING\n: OPENROUTER PROCESSING\n\n", keepalives(2)},
		{"whole", "", processing + data(text) + processing + data(stop, usage) + done, all(id, keepalives(2), events(4), texts(1), ended("stop"), func(s *State) {
			s.Usage = Usage{Input: 20, Output: 4, CacheRead: 8, CacheCreation: -1, Reasoning: 0}
		})},
		{"cut while it waits", "", data(text) + processing, all(id, keepalives(1), events(1), texts(1), phase(semconv.PhaseText))},
		{"reasoning", "", data(think), all(id, events(1), thoughts(1), phase(semconv.PhaseReasoning))},
		{"the provider was lost", "", data(text, lost), all(id, events(2), texts(1), phase(semconv.PhaseText), finished("error"), failed(Error{Code: "server_error"}))},
		{"the provider was lost, and [DONE]", "", data(text, lost) + done, all(id, events(3), texts(1), phase(semconv.PhaseText), finished("error"), failed(Error{Code: "server_error"}))},
		{"limited", "", data(text, limited), all(id, events(2), texts(1), phase(semconv.PhaseText), finished("error"), failed(Error{Code: "429", Status: 429, RetryAfter: 3 * time.Second}))},
		{"an error before the answer", "", processing + data(`{"error":{"code":502,"message":"secret","metadata":{"provider_name":"Meta","raw":null}},"user_id":"user_1"}`), all(keepalives(1), events(1), failed(Error{Code: "502", Status: 502}))},
		{"an error in a choice", jsonType, `{"id":"gen-1","model":"openai/gpt-4o-mini","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"error","error":{"code":502,"message":"secret","metadata":{"provider_name":"p"}}}]}`, all(id, events(1), finished("error"), failed(Error{Code: "502", Status: 502}))},
		{"an error in a choice alone", jsonType, `{"id":"gen-1","model":"openai/gpt-4o-mini","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":null,"error":{"code":502,"message":"secret"}}]}`, all(id, events(1), texts(1), failed(Error{Code: "502", Status: 502}))},
		// What the provider itself gave as the reason (reVrost/go-openrouter#43, earendil-works/pi#8511).
		{"a stop for a limit", "", data(text, native("stop", "MAX_TOKENS")) + done, all(id, events(3), texts(1), ended("MAX_TOKENS"))},
		{"a stop for a filter", "", data(text, native("stop", "SAFETY")) + done, all(id, events(3), texts(1), ended("SAFETY"))},
		{"a stop for a failure", "", data(text, native("stop", "network_error")) + done, all(id, events(3), texts(1), phase(semconv.PhaseText), finished("network_error"), failed(Error{Type: "network_error"}))},
		{"calls for a call that is no JSON", "", data(text, native("tool_calls", "MALFORMED_FUNCTION_CALL")) + done, all(id, events(3), texts(1), phase(semconv.PhaseText), finished("MALFORMED_FUNCTION_CALL"), failed(Error{Type: "MALFORMED_FUNCTION_CALL"}))},
		{"a stop for a limit, as a document", jsonType, `{"id":"gen-1","model":"openai/gpt-4o-mini","choices":[{"native_finish_reason":"length","index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`, all(id, events(1), texts(1), ended("length"))},
		{"a stop for the end of a turn", "", data(text, native("stop", "end_turn")) + done, all(id, events(3), texts(1), ended("stop"))},
		{"a stop for a word that is not known", "", data(text, native("stop", "FINISHED_BY_X")) + done, all(id, events(3), texts(1), ended("stop"))},
		{"a stop for an absent reason", "", data(text, native("stop", "unknown")) + done, all(id, events(3), texts(1), ended("stop"))},
		{"a stop for an error", "", data(text, native("stop", "error")) + done, all(id, events(3), texts(1), phase(semconv.PhaseText), finished("error"), failed(Error{Type: "error"}))},
		{"a limit, which the provider calls a stop", "", data(text, native("length", "STOP")) + done, all(id, events(3), texts(1), ended("length"))},
		{"no error in a choice", jsonType, `{"id":"gen-1","model":"openai/gpt-4o-mini","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop","error":null}]}`, all(id, events(1), texts(1), ended("stop"))},
	})
}

// https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
func TestVLLM(t *testing.T) {
	id := response("chatcmpl-1", "m")
	chunk := func(delta, finish string) string {
		return `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + finish + `,"stop_reason":null,"token_ids":null}],"prompt_token_ids":null}`
	}
	runDecodeTests(t, openAIChat{}, []decodeTest{
		{"reasoning_content", "", data(chunk(`{"role":"assistant","content":"","reasoning_content":null}`, "null"), chunk(`{"reasoning_content":"hm"}`, "null"), chunk(`{"content":"a"}`, "null"), chunk(`{"content":""}`, `"stop"`)) + done, all(id, events(5), thoughts(1), texts(1), ended("stop"))},
		{"reasoning", "", data(chunk(`{"reasoning":"hm"}`, "null"), chunk(`{"reasoning":"so"}`, "null"), chunk(`{"content":"a"}`, `"stop"`)) + done, all(id, events(4), thoughts(2), texts(1), ended("stop"))},
		{"both names at once", "", data(chunk(`{"reasoning":"hm","reasoning_content":"hm"}`, "null")), all(id, events(1), thoughts(1), phase(semconv.PhaseReasoning))},
		{"the older error, and [DONE]", "", data(chunk(`{"content":"a"}`, "null"), `{"object":"error","message":"secret","type":"BadRequestError","param":null,"code":400}`) + done, all(id, events(3), texts(1), phase(semconv.PhaseText), failed(Error{Type: "BadRequestError", Code: "400", Status: 400}))},
		{"the error, and [DONE]", "", data(chunk(`{"content":"a"}`, "null"), `{"error":{"message":"secret","type":"InternalServerError","param":null,"code":500}}`) + done, all(id, events(3), texts(1), phase(semconv.PhaseText), failed(Error{Type: "InternalServerError", Code: "500", Status: 500}))},
		{"an error instead of an answer, and [DONE]", "", data(`{"error":{"message":"secret","type":"InternalServerError","param":null,"code":500}}`) + done, all(events(2), failed(Error{Type: "InternalServerError", Code: "500", Status: 500}))},
		{"aborted", "", data(chunk(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{"}}]}`, "null"), chunk(`{"content":""}`, `"abort"`)) + done, all(id, events(3), calls("a"), finished("abort"), phase(semconv.PhaseToolInput), failed(Error{Type: "abort"}))},
		{"a stop token", "", data(strings.Replace(chunk(`{"content":"a"}`, `"stop"`), `"stop_reason":null`, `"stop_reason":128009`, 1)) + done, all(id, events(2), texts(1), ended("stop"))},
		{"usage in every chunk", "", data(strings.Replace(chunk(`{"content":"a"}`, "null"), `]}`, `],"usage":{"prompt_tokens":3,"total_tokens":4,"completion_tokens":1}}`, 1), strings.Replace(chunk(`{"content":"b"}`, "null"), `"prompt_token_ids":null`, `"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2}`, 1)), all(id, events(2), texts(2), phase(semconv.PhaseText), func(s *State) { s.Usage.Input, s.Usage.Output = 3, 2 })},
	})
}

// https://learn.microsoft.com/azure/ai-services/openai/concepts/content-streaming
func TestAzure(t *testing.T) {
	const safe = `{"hate":{"filtered":false,"severity":"safe"},"self_harm":{"filtered":false,"severity":"safe"},"sexual":{"filtered":false,"severity":"safe"},"violence":{"filtered":false,"severity":"safe"}}`
	id := response("chatcmpl-1", "gpt-35-turbo")
	prompt := `{"id":"","object":"","created":0,"model":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":` + safe + `}],"choices":[],"usage":null} `
	chunk := func(delta, finish string) string {
		return `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1692913344,"model":"gpt-35-turbo","choices":[{"index":0,"finish_reason":` + finish + `,"delta":` + delta + `}],"usage":null} `
	}
	filter := func(results, finish string) string {
		return `{"id":"","object":"","created":0,"model":"","choices":[{"index":0,"finish_reason":` + finish + `,"content_filter_results":` + results + `,"content_filter_offsets":{"check_offset":44,"start_offset":44,"end_offset":198}}],"usage":null} `
	}
	role, color := chunk(`{"role":"assistant"}`, "null"), chunk(`{"content":"Color"}`, "null")
	stop := chunk(`{}`, `"stop"`)
	runDecodeTests(t, openAIChat{}, []decodeTest{
		{"the prompt's filters come first", "", data(prompt), events(1)},
		{"the id comes later", "", data(prompt, role, color), all(id, events(3), texts(1), phase(semconv.PhaseText))},
		{"filters after the text", "", data(prompt, role, color, filter(safe, "null")), all(id, events(4), texts(1), phase(semconv.PhaseText))},
		{"filters after the end", "", data(prompt, role, color, stop, filter(safe, "null")) + "data: [DONE] \n\n", all(id, events(6), texts(1), ended("stop"))},
		{"filters after the end, [DONE] cut", "", data(color, stop, filter(safe, "null")), all(id, events(3), texts(1), ended("stop"), func(s *State) { s.Terminal = false })},
		{"blocked", "", data(prompt, role, color, filter(safe, "null"), filter(`{"protected_material_text":{"detected":true,"filtered":true}}`, `"content_filter"`)) + done, all(id, events(6), texts(1), ended("content_filter"))},
		{"blocked at once", "", data(prompt, chunk(`{}`, `"content_filter"`)) + done, all(id, events(3), ended("content_filter"))},
		{"filters that failed", "", data(color, filter(`{"error":{"code":"content_filter_error","message":"The contents are not filtered"}}`, "null"), stop) + done, all(id, events(4), texts(1), ended("stop"))},
		{"not streaming", jsonType, `{"id":"chatcmpl-1","model":"gpt-35-turbo","prompt_filter_results":[],"choices":[{"index":0,"finish_reason":"content_filter","message":{"role":"assistant"},"content_filter_results":` + safe + `}]}`, all(id, events(1), ended("content_filter"))},
	})
}

// https://console.groq.com/docs/api-reference
func TestGroq(t *testing.T) {
	id := response("chatcmpl-1", "llama-3.3-70b-versatile")
	chunk := func(delta, finish, groq string) string {
		return `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1745935006,"model":"llama-3.3-70b-versatile","system_fingerprint":"fp_1","choices":[{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + finish + `}]` + groq + `}`
	}
	first := chunk(`{"role":"assistant","content":""}`, "null", `,"x_groq":{"id":"req_1"}`)
	hi := chunk(`{"content":"hi"}`, "null", "")
	last := chunk(`{}`, `"stop"`, `,"x_groq":{"id":"req_1","usage":{"queue_time":0.05,"prompt_tokens":40,"prompt_time":0.001,"completion_tokens":2,"completion_time":0.01,"total_tokens":42,"total_time":0.02}}`)
	used := func(s *State) { s.Usage.Input, s.Usage.Output = 40, 2 }
	runDecodeTests(t, openAIChat{}, []decodeTest{
		{"whole", "", data(first, hi, last) + done, all(id, used, events(4), texts(1), ended("stop"))},
		{"its usage, and OpenAI's", "", data(first, hi, last, `{"choices":[],"usage":{"prompt_tokens":41,"completion_tokens":3}}`) + done, all(id, events(5), texts(1), ended("stop"), func(s *State) { s.Usage.Input, s.Usage.Output = 41, 3 })},
		{"stopped early", "", data(first, hi, chunk(`{}`, "null", `,"x_groq":{"id":"req_1","error":"over_capacity"}`)) + done, all(id, events(4), texts(1), phase(semconv.PhaseText), failed(Error{Code: "over_capacity"}))},
		{"stopped early, in words", "", data(first, hi, chunk(`{}`, "null", `,"x_groq":{"id":"req_1","error":"the secret is out"}`)), all(id, events(3), texts(1), phase(semconv.PhaseText), failed(Error{}))},
		{"not stopped", "", data(hi, chunk(`{}`, `"stop"`, `,"x_groq":{"error":null}`), chunk(`{}`, `null`, `,"x_groq":{"error":""}`), chunk(`{}`, `null`, `,"x_groq":null`)) + done, all(id, events(5), texts(1), ended("stop"))},
		{"an error event", "", data(first, hi) + "event: error\ndata: {\"error\":{\"message\":\"secret\",\"type\":\"internal_server_error\",\"code\":\"\",\"status_code\":503}}\n\n", all(id, events(3), texts(1), phase(semconv.PhaseText), failed(Error{Type: "internal_server_error", Status: 503}))},
		{"a call that failed", "", data(hi, `{"error":{"message":"secret","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"secret","status_code":400}}`), all(id, events(2), texts(1), phase(semconv.PhaseText), failed(Error{Type: "invalid_request_error", Code: "tool_use_failed", Status: 400}))},
	})
}

// https://api-docs.deepseek.com/quick_start/rate_limit
// https://api-docs.deepseek.com/api/create-chat-completion
func TestDeepSeek(t *testing.T) {
	id := response("1", "deepseek-reasoner")
	chunk := func(delta, finish string) string {
		return `{"id":"1","object":"chat.completion.chunk","created":1718345013,"model":"deepseek-reasoner","system_fingerprint":"fp_1","choices":[{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + finish + `}]}`
	}
	const alive = ": keep-alive\n\n"
	whole := `{"id":"1","model":"deepseek-reasoner","choices":[{"index":0,"message":{"content":"a","reasoning_content":"hm"},"finish_reason":"stop"}]}`
	runDecodeTests(t, openAIChat{}, []decodeTest{
		{"waiting", "", alive + alive + alive, keepalives(3)},
		{"waiting within", "", data(chunk(`{"role":"assistant","content":null,"reasoning_content":"hm"}`, "null")) + alive + data(chunk(`{"content":"a","reasoning_content":null}`, "null")), all(id, keepalives(1), events(2), thoughts(1), texts(1), phase(semconv.PhaseText))},
		{"out of resources", "", data(chunk(`{"content":"a"}`, "null"), chunk(`{"content":""}`, `"insufficient_system_resource"`)) + done, all(id, events(3), texts(1), phase(semconv.PhaseText), finished("insufficient_system_resource"), failed(Error{Type: "insufficient_system_resource"}))},
		{"waiting, not streaming", jsonType, "\n\n\n" + whole, all(id, events(1), thoughts(1), texts(1), ended("stop"))},
		{"cut while it waits, not streaming", jsonType, "\n\n\n", nil},
	})
}

// https://docs.mistral.ai/api/#tag/chat
func TestMistral(t *testing.T) {
	id := response("cmpl-1", "mistral-small")
	chunk := func(delta, finish, more string) string {
		return `{"id":"cmpl-1","object":"chat.completion.chunk","created":1770933892,"model":"mistral-small","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]` + more + `,"p":"abcdefgh"}`
	}
	usage := `,"usage":{"prompt_tokens":13,"total_tokens":31,"completion_tokens":18,"prompt_tokens_details":{"cached_tokens":4}}`
	used := func(s *State) { s.Usage.Input, s.Usage.Output, s.Usage.CacheRead = 13, 18, 4 }
	text := chunk(`{"content":"hi"}`, "null", "")
	runDecodeTests(t, openAIChat{}, []decodeTest{
		{"whole", "", data(chunk(`{"role":"assistant","content":""}`, "null", ""), text, chunk(`{"content":""}`, `"stop"`, usage)) + done, all(id, used, events(4), texts(1), ended("stop"))},
		{"whole calls", "", data(chunk(`{"content":"","tool_calls":[{"id":"a1b2c3d4e","function":{"name":"f","arguments":"{}"},"index":0},{"id":"f","function":{"name":"g","arguments":"{}"},"index":1}]}`, `"tool_calls"`, usage)) + done, all(id, used, events(2), calls("a1b2c3d4e!", "f/g!"), ended("tool_calls"))},
		{"calls in pieces", "", data(chunk(`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"a\""},"index":0}]}`, "null", ""), chunk(`{"tool_calls":[{"id":"null","function":{"name":"","arguments":":1}"},"index":0}]}`, "null", ""), chunk(`{"content":""}`, `"tool_calls"`, "")) + done, all(id, events(4), calls("a!"), ended("tool_calls"))},
		{"reasoning in parts", "", data(chunk(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}],"closed":false}]}`, "null", ""), chunk(`{"content":[{"type":"text","text":"a"}]}`, "null", "")), all(id, events(2), thoughts(1), texts(1), phase(semconv.PhaseText))},
		{"references", "", data(chunk(`{"content":[{"type":"reference","reference_ids":[1]}]}`, "null", "")), all(id, events(1))},
		{"the model's limit", "", data(chunk(`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"},"index":0}]}`, "null", ""), chunk(`{}`, `"model_length"`, "")) + done, all(id, events(3), calls("a"), ended("model_length"))},
		{"failed", "", data(text, chunk(`{"content":""}`, `"error"`, "")) + done, all(id, events(3), texts(1), phase(semconv.PhaseText), finished("error"), failed(Error{Type: "error"}))},
		{"an error", "", data(text, `{"object":"error","message":"secret","type":"internal_server_error","param":null,"code":"3000"}`), all(id, events(2), texts(1), phase(semconv.PhaseText), failed(Error{Type: "internal_server_error", Code: "3000"}))},
	})
}

package wire

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

// documentedStream returns the payloads of a stream in the words of the provider's
// documentation and of the types of its SDK. It is not recorded.
func documentedStream(tb testing.TB, name string) []string {
	tb.Helper()
	lines, err := os.ReadFile(filepath.Join("testdata", "documented", name+".jsonl"))
	require.NoError(tb, err)
	return strings.Split(strings.TrimSpace(string(lines)), "\n")
}

func TestCohere(t *testing.T) {
	s := documentedStream(t, "cohere")
	id := response("29f14a5a", "")
	used := func(s *State) {
		s.Usage = Usage{Input: 911, Output: 56, CacheRead: -1, CacheCreation: -1, Reasoning: -1}
	}
	end := func(reason string) string {
		return `{"type":"message-end","id":"29f14a5a","delta":{"finish_reason":"` + reason + `"}}`
	}
	runDecodeTests(t, cohereChat{}, []decodeTest{
		{"whole", "", named(s...), all(id, used, events(14), texts(2), thoughts(2), calls("call_a!~"), ended("TOOL_CALL"))},
		{"begun", "", named(s[0]), all(id, events(1))},
		{"a plan", "", named(s[1:3]...), all(events(2), thoughts(2), phase(semconv.PhaseReasoning))},
		{"a call begun", "", named(s[3:6]...), all(events(3), calls("call_a"), phase(semconv.PhaseToolInput))},
		{"a call's input", "", named(s[3:7]...), all(events(4), calls("call_a+~"), phase(semconv.PhaseToolCallReady))},
		{"the end of an unknown call", "", named(s[6]), all(events(1), unread)},
		{"text", "", named(s[7:10]...), all(events(3), texts(2), phase(semconv.PhaseText))},
		{"thinking", "", named(`{"type":"content-delta","index":0,"delta":{"message":{"content":{"thinking":"hm"}}}}`), all(events(1), thoughts(1), phase(semconv.PhaseReasoning))},
		{"a stop", "", named(s[8], end("COMPLETE")) + done, all(id, events(3), texts(1), ended("COMPLETE"))},
		{"a call without its end", "", named(s[3], s[4], end("TOOL_CALL")), all(id, events(3), calls("call_a!~"), ended("TOOL_CALL"))},
		{"input of an unknown call", "", named(s[4], end("COMPLETE")), all(id, events(2), unread, ended("COMPLETE"))},
		{"a limit in a call", "", named(s[3], end("MAX_TOKENS")), all(id, events(2), calls("call_a"), ended("MAX_TOKENS"))},
		{"an error", "", named(s[8], end("ERROR")), all(id, events(2), texts(1), phase(semconv.PhaseText), failed(Error{Code: "error"}))},
		{"a timeout", "", named(s[8], end("TIMEOUT")), all(id, events(2), texts(1), phase(semconv.PhaseText), failed(Error{Code: "timeout"}))},
		{"an error without a reason", "", named(`{"type":"message-end","delta":{"error":"secret"}}`), all(events(1), failed(Error{Code: "error"}))},
		{"an end without a reason", "", named(s[8], `{"type":"message-end","delta":{}}`), all(events(2), texts(1), terminal, phase(semconv.PhaseText))},
		{"text after the end", "", named(end("COMPLETE"), s[8]), all(id, events(2), texts(1), unread, ended("COMPLETE"))},
		{"an unknown event", "", named(`{"type":"debug","prompt":"x"}`), all(events(1), unread)},
		{"an unknown part", "", named(`{"type":"content-delta","delta":{"message":{"content":{"video":"x"}}}}`), all(events(1), unread)},
		{
			"a document", jsonType,
			`{"id":"c1","finish_reason":"TOOL_CALL","message":{"role":"assistant","tool_plan":"I","tool_calls":[{"id":"call_a","type":"function","function":{"name":"f","arguments":"{}"}}],"content":[{"type":"thinking","thinking":"a"},{"type":"text","text":"b"}]},"usage":{"billed_units":{"input_tokens":911,"output_tokens":56},"cached_tokens":3}}`,
			all(response("c1", ""), events(1), thoughts(1), texts(1), calls("call_a!"), ended("TOOL_CALL"), func(s *State) {
				s.Usage = Usage{Input: 911, Output: 56, CacheRead: 3, CacheCreation: -1, Reasoning: -1}
			}),
		},
		{"a document that is an error", jsonType, `{"message":"secret","id":"c1"}`, all(events(1), terminal, unread, response("c1", ""))},
	})
	for _, tt := range []struct {
		body string
		want Request
	}{
		{`{"model":"command-a","stream":true,"messages":[{"role":"assistant","tool_calls":[{"id":"a"}]},{"role":"tool","tool_call_id":"a","content":[]}],"tools":[{"type":"function"}]}`, Request{Model: "command-a", Stream: true, IsCall: true, HistoryCalls: []string{"a"}, HistoryOutputs: []string{"a"}, ProviderTools: []string{}}},
		{`{"model":"command-a","message":"hello"}`, Request{Model: "command-a", HistoryCalls: []string{}, HistoryOutputs: []string{}}}, // of the first version, which has connectors
	} {
		got, err := cohereChat{}.ReadRequest([]byte(tt.body))
		require.NoError(t, err)
		assert.Equal(t, tt.want, got)
	}
}

func TestMistralConversations(t *testing.T) {
	s := documentedStream(t, "mistral")
	model := response("", "mistral-x")
	long := strings.Repeat("c", maxSafeID) + "d"
	used := func(s *State) {
		s.Usage = Usage{Input: 189, Output: 18, CacheRead: -1, CacheCreation: -1, Reasoning: -1}
	}
	runDecodeTests(t, mistralConversations{}, []decodeTest{
		{"whole", "", named(s...), all(model, used, events(11), texts(2), providerTools(1, "web_search"), calls("call_a!", "call_b!"), ended("tool_calls"))},
		{"begun", "", named(s[0]), events(1)},
		{"a tool of the provider", "", named(s[:4]...), all(events(4), providerTools(1, "web_search"))},
		{"a handoff", "", named(`{"type":"agent.handoff.started","id":"h","previous_agent_id":"a","previous_agent_name":"b"}`, `{"type":"agent.handoff.done","id":"h","next_agent_id":"a","next_agent_name":"b"}`), all(events(2), providerTools(1, "handoff"))},
		{"text", "", named(s[4:7]...), all(model, events(3), texts(2), phase(semconv.PhaseText))},
		{"reasoning", "", named(`{"type":"message.output.delta","content":{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}}`), all(events(1), thoughts(1), phase(semconv.PhaseReasoning))},
		{"a call", "", named(s[7:9]...), all(model, events(2), calls("call_a+"), phase(semconv.PhaseToolCallReady))},
		{"two calls", "", named(s[7:10]...), all(model, events(3), calls("call_a+", "call_b+"), phase(semconv.PhaseToolCallReady))},
		{"text after a call", "", named(s[4], s[7], s[5]), all(model, events(3), texts(2), calls("call_a+"), phase(semconv.PhaseText))},
		{"a long id", "", named(strings.Replace(s[7], "call_a", long, 1), strings.Replace(s[8], "call_a", long, 1), s[10]), all(model, used, events(3), calls(SafeID(long)+"!"), ended("tool_calls"))},
		{"long ids that end differently", "", named(strings.Replace(s[7], "call_a", long+"1", 1), strings.Replace(s[8], "call_a", long+"2", 1)), all(model, events(2), calls(SafeID(long+"1")+"+", SafeID(long+"2")+"+"), phase(semconv.PhaseToolCallReady))},
		{"an error in the input of a call", "", named(s[7], `{"type":"conversation.response.error","code":500}`, s[10]), all(model, used, events(3), calls("call_a"), phase(semconv.PhaseToolInput), failed(Error{Code: "500", Status: 500}))},
		{"an unknown event in the input of a call", "", named(s[7], `{"type":"conversation.note","note":"x"}`, s[8]), all(model, events(3), unread, calls("call_a+"), phase(semconv.PhaseToolCallReady))},
		{"an answer", "", named(s[0], s[4], s[10]), all(model, used, events(3), texts(1), ended("stop"))},
		{"an error", "", named(s[4], `{"type":"conversation.response.error","message":"secret","code":429}`), all(model, events(2), texts(1), phase(semconv.PhaseText), failed(Error{Code: "429", Status: 429}))},
		{"text after the end", "", named(s[10], s[4]), all(model, used, events(2), texts(1), unread, ended("stop"))},
		{"an unknown event", "", named(`{"type":"conversation.note","note":"x"}`), all(events(1), unread)},
		{
			"a document", jsonType,
			`{"object":"conversation.response","conversation_id":"conv_1","outputs":[{"object":"entry","type":"tool.execution","name":"web_search","arguments":"{}"},{"object":"entry","type":"message.output","created_at":"x","model":"mistral-x","id":"m","role":"assistant","content":[{"type":"text","text":"a"}]},{"type":"function.call","tool_call_id":"call_a","name":"f","arguments":"{}"}],"usage":{"prompt_tokens":189,"completion_tokens":18,"total_tokens":207}}`,
			all(model, used, events(1), texts(1), providerTools(1, "web_search"), calls("call_a!"), ended("tool_calls")),
		},
		{"a document of something else", jsonType, `{"object":"conversation","id":"conv_1","metadata":{}}`, all(events(1), terminal, unread)},
	})
	none := []string{}
	for _, tt := range []struct {
		path, body string
		want       Request
	}{
		{"/v1/conversations", `{"model":"m","stream":true,"inputs":"hello","tools":[{"type":"web_search"},{"type":"function"}]}`, Request{Model: "m", Stream: true, IsCall: true, ProviderTools: []string{"web_search"}, HistoryCalls: none, HistoryOutputs: none}},
		{"/v1/conversations", `{"agent_id":"ag","inputs":[{"type":"function.call","tool_call_id":"a"},{"type":"function.result","tool_call_id":"a","result":"secret"}]}`, Request{IsCall: true, HistoryCalls: []string{"a"}, HistoryOutputs: []string{"a"}}},
		{"/v1/conversations/conv_1", `{"inputs":[{"type":"function.result","tool_call_id":"a"}]}`, Request{IsCall: true, ConversationID: "conv_1", HistoryOutputs: []string{"a"}}},
		{"/v1/conversations/conv_1/restart", `{"from_entry_id":"e","inputs":"x"}`, Request{IsCall: true, ConversationID: "conv_1", HistoryOutputs: none}},
		{"/v1/conversations", `{"items":[],"metadata":{}}`, Request{ProviderTools: none, HistoryCalls: none, HistoryOutputs: none}},
	} {
		p, _, ok := Match("POST", tt.path)
		assert.True(t, ok)
		got, err := p.ReadRequest([]byte(tt.body))
		require.NoError(t, err)
		assert.Equal(t, tt.want, got, tt.body)
	}
}

func interactionsNamed(payloads ...string) string {
	var b strings.Builder
	for _, p := range payloads {
		_, typ, _ := strings.Cut(p, `"event_type":"`)
		typ, _, _ = strings.Cut(typ, `"`)
		b.WriteString("event: " + typ + "\ndata: " + p + "\n\n")
	}
	return b.String()
}

func TestInteractions(t *testing.T) {
	s, named := documentedStream(t, "interactions"), interactionsNamed
	id := response("v1_abc", "gemini-x")
	used := func(s *State) {
		s.Usage = Usage{Input: 12, Output: 82, CacheRead: 2, CacheCreation: -1, Reasoning: 12}
	}
	end := func(status string) string {
		return `{"interaction":{"id":"v1_abc","status":"` + status + `"},"event_type":"interaction.completed"}`
	}
	final := func(status, steps string) string {
		return `{"interaction":{"id":"v1_abc","status":"` + status + `","steps":[` + steps + `]},"event_type":"interaction.completed"}`
	}
	bare := response("v1_abc", "")
	runDecodeTests(t, geminiInteractions{}, []decodeTest{
		{"whole", "", named(s...) + "event: done\ndata: [DONE]\n\n", all(id, used, events(17), texts(2), thoughts(1), providerTools(1, "google_search"), calls("call_a!"), ended("tool_calls"))},
		{"begun", "", named(s[:2]...), all(id, events(2))},
		{"thoughts", "", named(s[2:6]...), all(events(4), thoughts(1), phase(semconv.PhaseReasoning))},
		{"a tool of the provider", "", named(s[6:8]...), all(events(2), providerTools(1, "google_search"))},
		{"text", "", named(s[8:12]...), all(events(4), texts(2), phase(semconv.PhaseText))},
		{"a picture", "", named(`{"index":0,"delta":{"type":"image","mime_type":"image/png","data":"AAAA"},"event_type":"step.delta"}`), all(events(1), texts(1), phase(semconv.PhaseText))},
		{"a call begun", "", named(s[12:14]...), all(events(2), calls("call_a+"), phase(semconv.PhaseToolCallReady))},
		{"a call's input", "", named(s[12:15]...), all(events(3), calls("call_a+"), phase(semconv.PhaseToolCallReady))},
		{"a call without its end", "", named(s[12], end("requires_action")), all(bare, events(2), calls("call_a!"), ended("tool_calls"))},
		{"all of it in the final event", "", named(s[0], final("completed", `{"type":"user_input","content":[{"type":"text","text":"a"}]},{"type":"model_output","content":[{"type":"text","text":"a"}]}`)), all(id, events(2), texts(1), ended("stop"))},
		{"a call in the final event", "", named(s[0], final("requires_action", `{"type":"function_call","id":"call_a","name":"f","arguments":{}}`)), all(id, events(2), calls("call_a!"), ended("tool_calls"))},
		{"the final event repeats the steps", "", named(s[0], s[8], s[9], final("completed", `{"type":"model_output","content":[{"type":"text","text":"a"}]}`)), all(id, events(4), texts(1), ended("stop"))},
		{"it waits for nothing that is known", "", named(s[0], end("requires_action")), all(id, events(2), unread, ended("tool_calls"))},
		{"a call without an id and a name", "", named(`{"index":3,"step":{"type":"function_call"},"event_type":"step.start"}`, s[13], s[14], end("completed")), all(bare, events(4), calls("/!"), ended("tool_calls"))},
		{"input of an unknown call", "", named(s[13], end("completed")), all(bare, events(2), unread, ended("stop"))},
		{"input after the end of its call", "", named(s[12], s[13], s[14], s[13]), all(events(4), calls("call_a+"), unread, phase(semconv.PhaseToolCallReady))},
		{"input of a tool of the provider", "", named(s[6], `{"index":1,"delta":{"type":"arguments_delta","arguments":"{}"},"event_type":"step.delta"}`, `{"index":1,"delta":{"type":"google_search_call","arguments":{}},"event_type":"step.delta"}`, s[7]), all(events(4), providerTools(1, "google_search"))},
		{"a tool of the provider without its beginning", "", named(`{"index":1,"delta":{"type":"google_search_call","arguments":{}},"event_type":"step.delta"}`, `{"index":1,"delta":{"type":"google_search_call","arguments":{"a":1}},"event_type":"step.delta"}`, end("completed")), all(bare, events(3), providerTools(1, "google_search"), ended("stop"))},
		{"complete", "", named(s[9], end("completed")), all(bare, events(2), texts(1), ended("stop"))},
		{"incomplete", "", named(s[9], end("incomplete")), all(bare, events(2), texts(1), ended("incomplete"))},
		{"in the background", "", named(end("in_progress")), all(bare, events(1), ended("in_progress"))},
		{"failed", "", named(s[9], end("failed")), all(bare, events(2), texts(1), phase(semconv.PhaseText), failed(Error{}))},
		{"cancelled", "", named(end("cancelled")), all(bare, events(1), failed(Error{Code: "cancelled"}))},
		{"an unknown status", "", named(s[9], end("paused_somehow")), all(bare, events(2), texts(1), unread, terminal, phase(semconv.PhaseText))},
		{"an error", "", named(s[9], `{"error":{"code":"rate_limit_exceeded","message":"secret"},"event_type":"error"}`), all(events(2), texts(1), phase(semconv.PhaseText), failed(Error{Code: "rate_limit_exceeded"}))},
		{"[DONE] proves nothing", "", named(s[9]) + "event: done\ndata: [DONE]\n\n", all(events(2), texts(1), phase(semconv.PhaseText))},
		{"an unknown step", "", named(`{"index":0,"step":{"type":"poem"},"event_type":"step.start"}`), all(events(1), unread)},
		{"an unknown delta", "", named(`{"index":0,"delta":{"type":"poem","text":"x"},"event_type":"step.delta"}`), all(events(1), unread)},
		{
			"before there were steps", "", named(`{"event_type":"interaction.start","interaction":{"id":"v1_abc","model":"gemini-x","status":"in_progress"}}`,
				`{"event_type":"content.start","index":0,"content":{"type":"text"}}`, `{"event_type":"content.delta","index":0,"delta":{"type":"text","text":"a"}}`, `{"event_type":"content.stop","index":0}`,
				`{"event_type":"content.start","index":1,"content":{"type":"function_call"}}`, `{"event_type":"content.delta","index":1,"delta":{"type":"function_call","id":"call_a","name":"f","arguments":{"a":1}}}`, `{"event_type":"content.stop","index":1}`,
				`{"event_type":"interaction.complete","interaction":{"id":"v1_abc","status":"requires_action"}}`),
			all(id, events(8), texts(1), calls("call_a!"), ended("tool_calls")),
		},
		{
			"a document", jsonType,
			`{"id":"v1_abc","model":"gemini-x","object":"interaction","status":"requires_action","created":"x","input":"secret","steps":[{"type":"user_input","content":[{"type":"text","text":"a"}]},{"type":"thought","summary":[{"type":"text","text":"a"}],"signature":"s"},{"type":"model_output","content":[{"type":"text","text":"a"}]},{"type":"function_call","id":"call_a","name":"f","arguments":{"x":"y"}},{"type":"code_execution_call","id":"ce","arguments":{"code":"x"}},{"type":"code_execution_result","call_id":"ce","result":"x"}],"usage":{"total_input_tokens":12,"total_output_tokens":70,"total_thought_tokens":12,"total_cached_tokens":2}}`,
			all(id, used, events(1), texts(1), thoughts(1), providerTools(1, "code_execution"), calls("call_a!"), ended("tool_calls")),
		},
		{"a document that is an error", jsonType, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"secret"}}`, all(events(1), failed(Error{Type: "RESOURCE_EXHAUSTED", Code: "429", Status: 429}))},
		{"a document of something else", jsonType, `{"name":"x"}`, all(events(1), terminal, unread)},
	})
	none := []string{}
	for _, tt := range []struct {
		body string
		want Request
	}{
		{`{"model":"gemini-x","input":"hello","stream":true,"background":true,"tools":[{"type":"google_search"},{"type":"function"},{"type":"mcp_server"}]}`, Request{Model: "gemini-x", Stream: true, Background: true, IsCall: true, ProviderTools: []string{"google_search", "mcp"}, HistoryCalls: none, HistoryOutputs: none}},
		{`{"model":"gemini-x","input":[{"type":"function_call","id":"a","name":"f","arguments":{}},{"type":"function_result","call_id":"a","result":"secret"}]}`, Request{Model: "gemini-x", IsCall: true, ProviderTools: none, HistoryCalls: []string{"a"}, HistoryOutputs: []string{"a"}}},
		{`{"agent":"deep-research","previous_interaction_id":"v1_abc","input":{"type":"text","text":"x"}}`, Request{IsCall: true, PreviousID: "v1_abc", BodyCalls: none, HistoryOutputs: none}},
		{`{"clicks":[]}`, Request{ProviderTools: none, HistoryCalls: none, HistoryOutputs: none}},
	} {
		got, err := geminiInteractions{}.ReadRequest([]byte(tt.body))
		require.NoError(t, err)
		assert.Equal(t, tt.want, got, tt.body)
	}
}

// documented are the streams that are not recorded.
func documented(tb testing.TB) []recording {
	tb.Helper()
	split := func(p Protocol, stream string) recording {
		return recording{protocol: p, events: strings.SplitAfter(strings.TrimSuffix(stream, "\n\n"), "\n\n")}
	}
	list := []recording{
		split(cohereChat{}, named(documentedStream(tb, "cohere")...)),
		split(mistralConversations{}, named(documentedStream(tb, "mistral")...)),
		split(geminiInteractions{}, interactionsNamed(documentedStream(tb, "interactions")...)),
	}
	for i := range list {
		list[i].events[len(list[i].events)-1] += "\n\n"
	}
	return list
}

func FuzzDecodeCohere(f *testing.F)       { fuzzDecode(f, cohereChat{}) }
func FuzzDecodeMistral(f *testing.F)      { fuzzDecode(f, mistralConversations{}) }
func FuzzDecodeInteractions(f *testing.F) { fuzzDecode(f, geminiInteractions{}) }

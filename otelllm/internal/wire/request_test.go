package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

type requestTest struct {
	name, body string
	want       Request
}

func runRequestTests(t *testing.T, p Protocol, tests []requestTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := p.ReadRequest([]byte(tt.body))
			require.NoError(t, err)
			switch {
			case tt.want.ProviderTools == nil:
				tt.want.ProviderTools = []string{}
			case len(tt.want.ProviderTools) == 1 && tt.want.ProviderTools[0] == hidden:
				tt.want.ProviderTools = nil
			}
			got.IsCall = false // see TestIsCall
			assert.Equal(t, tt.want, got)
		})
	}
}

var none = []string{}

// hidden, as the only expected tool: the request does not show what is offered.
const hidden = "?"

// Tools that the request does not show are not observed as missing.
func TestHiddenTools(t *testing.T) {
	tools := []string{hidden}
	chat := Request{HistoryCalls: none, HistoryOutputs: none}
	hiding := chat
	hiding.ProviderTools = tools
	compound := func(model string) Request {
		r := chat
		r.Model, r.ProviderTools = model, tools
		return r
	}
	runRequestTests(t, openAIChat{}, []requestTest{
		{"Groq's compound", `{"model":"groq/compound","messages":[]}`, compound("groq/compound")},
		{"the small one", `{"model":"groq/compound-mini"}`, compound("groq/compound-mini")},
		{"the first one", `{"model":"compound-beta","tools":[{"type":"web_search"}]}`, compound("compound-beta")},
		{"another model", `{"model":"compounds"}`, Request{Model: "compounds", HistoryCalls: none, HistoryOutputs: none}},
		{"deferred", `{"deferred":true}`, Request{Background: true, HistoryCalls: none, HistoryOutputs: none}},
	})
	runRequestTests(t, openAIChat{host: providerMistral}, []requestTest{
		{"an agent", `{"agent_id":"ag_1","messages":[],"tools":[{"type":"web_search"}]}`, hiding},
		{"no agent", `{"agent_id":"","tools":[{"type":"function"},{"function":{"name":"f"}}]}`, chat},
	})
	runRequestTests(t, openAIChat{}, []requestTest{
		{"a tool without a type", `{"tools":[{"type":"function"},{"google_search":{}}]}`, hiding},
		{"a tool whose type is no text", `{"tools":[{"type":7}]}`, hiding},
		{"a tool that is no object", `{"tools":["web_search"]}`, hiding},
		{"tools that are no list", `{"tools":{"google_search":{}}}`, hiding},
	})
	runRequestTests(t, cohereChat{}, []requestTest{{"a tool without a type", `{"tools":[{"google_search":{}}]}`, hiding}})
	runRequestTests(t, openAIResponses{}, []requestTest{
		{"a tool without a type", `{"tools":[{"type":"web_search"},{"google_search":{}}]}`, hiding},
		{"a shell without an environment", `{"tools":[{"type":"shell"}]}`, chat},
	})
	runRequestTests(t, geminiInteractions{}, []requestTest{{"a tool without a type", `{"tools":[{"google_search":{}}]}`, hiding}})
	runRequestTests(t, mistralConversations{}, []requestTest{{"a tool without a type", `{"tools":[{"web_search":{}}]}`, hiding}})
	runRequestTests(t, mistralConversations{conversation: "conv_1"}, []requestTest{
		{"a conversation that has tools of its own", `{"tools":[{"type":"web_search"}]}`, Request{ConversationID: "conv_1", ProviderTools: tools, HistoryOutputs: none}},
	})
	runRequestTests(t, ollama{}, []requestTest{
		{"a tool without a type", `{"stream":false,"tools":[{"web_search":{}}]}`, hiding},
		{"a function without a type", `{"stream":false,"tools":[{"function":{"name":"f"}}]}`, chat},
	})
	runRequestTests(t, anthropicMessages{}, []requestTest{
		{"tools that are no list", `{"tools":{"name":"f"}}`, hiding},
		{"a tool without a type", `{"tools":[{"name":"f","input_schema":{}}]}`, chat},
	})
	runRequestTests(t, gemini{}, []requestTest{
		{"tools that are no list", `{"tools":{"googleSearch":{}}}`, Request{StreamUnknown: true, ProviderTools: tools, HistoryCalls: none, HistoryOutputs: none}},
	})
	runRequestTests(t, bedrockConverse{}, []requestTest{
		{"an unknown tool", `{"toolConfig":{"tools":[{"toolSpec":{"name":"f"}},{"serverTool":{"name":"g"}}]}}`, Request{StreamUnknown: true, ProviderTools: tools, HistoryCalls: none, HistoryOutputs: none}},
		{"a tool without a name", `{"toolConfig":{"tools":[{"systemTool":{}}]}}`, Request{StreamUnknown: true, ProviderTools: tools, HistoryCalls: none, HistoryOutputs: none}},
		{"a cache point", `{"toolConfig":{"tools":[{"toolSpec":{"name":"f"}},{"cachePoint":{"type":"default"}}],"toolChoice":{}}}`, Request{StreamUnknown: true, HistoryCalls: none, HistoryOutputs: none}},
	})
	runRequestTests(t, openAIResponses{}, []requestTest{
		{"a stored prompt", `{"prompt":{"id":"pmpt_1"},"tools":[{"type":"web_search"}]}`, Request{ProviderTools: tools, HistoryCalls: none, HistoryOutputs: none}},
		{"no prompt", `{"prompt":null,"background":false}`, Request{HistoryCalls: none, HistoryOutputs: none}},
		{"in the background", `{"model":"m","background":true,"stream":true}`, Request{Model: "m", Stream: true, Background: true, HistoryCalls: none, HistoryOutputs: none}},
	})
	const prompt = "arn:aws:bedrock:us-east-1:111122223333:prompt/PROMPT12345:1"
	runRequestTests(t, bedrockConverse{model: prompt, fromPath: true}, []requestTest{
		{"a stored prompt", `{"promptVariables":{}}`, Request{Model: prompt, ProviderTools: tools, HistoryCalls: none, HistoryOutputs: none}},
	})
	const profile = "arn:aws:bedrock:us-east-1:111122223333:inference-profile/us.anthropic.claude"
	runRequestTests(t, bedrockConverse{model: profile, fromPath: true}, []requestTest{
		{"another ARN", `{"messages":[]}`, Request{Model: profile, HistoryCalls: none, HistoryOutputs: none}},
	})
}

func TestChatRequest(t *testing.T) {
	runRequestTests(t, openAIChat{}, []requestTest{
		{"nothing", `{}`, Request{HistoryCalls: none, HistoryOutputs: none}},
		{"first turn", `{"model":"gpt-x","stream":true,"messages":[{"role":"user","content":"call_x \"id\":\"call_y\""}]}`, Request{Model: "gpt-x", Stream: true, HistoryCalls: none, HistoryOutputs: none}},
		{"not streaming", `{"model":"gpt-x","stream":false,"messages":"none"}`, Request{Model: "gpt-x", HistoryCalls: none, HistoryOutputs: none}},
		{
			"history", `{"messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"id\":\"no\"}"}},{"function":{},"id":"b"}]},
			{"role":"tool","tool_call_id":"a","content":"{\"tool_call_id\":\"no\"}"},{"content":[{"id":"no"}],"tool_call_id":"b","role":"tool"},{"role":"assistant","tool_calls":null}],"model":"m"}`,
			Request{Model: "m", HistoryCalls: []string{"a", "b"}, HistoryOutputs: []string{"a", "b"}},
		},
		{"ids that are text", `{"messages":[{"tool_calls":[{"id":"my id"},{"id":"my\u0020id"}]}]}`, Request{HistoryCalls: []string{SafeID("my id"), SafeID("my id")}, HistoryOutputs: none}},
		{"a call with an empty id", `{"messages":[{"tool_calls":[{"id":"a"},{"id":""}]},{"role":"tool","tool_call_id":"a"}]}`, Request{HistoryOutputs: []string{"a"}}},
		{"a call with a number", `{"messages":[{"tool_calls":[{"id":7}]}]}`, Request{HistoryOutputs: none}},
		{"an output without an id", `{"messages":[{"tool_calls":[{"id":"a"}]},{"role":"tool","content":"done"}]}`, Request{HistoryOutputs: none}},
		{"provider's tools", `{"web_search_options":{},"tools":[{"type":"function","function":{"name":"f"}},{"type":"custom"},{"type":"browser_search"},{"type":"browser_search"},{"type":"my tool"}]}`, Request{ProviderTools: []string{"web_search", "browser_search", "redacted"}, HistoryCalls: none, HistoryOutputs: none}},
		{"no web search", `{"web_search_options":null,"tools":null}`, Request{HistoryCalls: none, HistoryOutputs: none}},
	})
}

func TestResponsesRequest(t *testing.T) {
	runRequestTests(t, openAIResponses{}, []requestTest{
		{"ids of outputs", `{"input":[{"type":"function_call_output","id":"fc"},{"type":"local_shell_call_output","id":"ls","call_id":"a"}]}`, Request{HistoryCalls: none, HistoryOutputs: []string{"a"}}},
		{"text", `{"model":"gpt-x","input":"hello","stream":true}`, Request{Model: "gpt-x", Stream: true, HistoryCalls: none, HistoryOutputs: none}},
		{
			"history", `{"input":[{"role":"user","content":[{"type":"input_text","text":"x"}]},
			{"type":"reasoning","id":"rs","encrypted_content":"…"},
			{"type":"function_call","id":"fc","call_id":"a","name":"f","arguments":"{}"},{"call_id":"b","type":"custom_tool_call"},
			{"type":"computer_call","call_id":"c"},{"type":"local_shell_call","call_id":"d"},{"type":"apply_patch_call","call_id":"e"},{"type":"shell_call","call_id":"f"},
			{"type":"web_search_call","id":"ws"},{"type":"mcp_call","id":"m"},{"type":"shell_call","call_id":"g","environment":{"type":"container_auto"}},
			{"type":"function_call_output","call_id":"a","output":"x"},{"output":[],"type":"custom_tool_call_output","call_id":"b"},
			{"type":"computer_call_output","call_id":"c"},{"type":"local_shell_call_output","id":"d"},{"type":"apply_patch_call_output","call_id":"e"},{"type":"shell_call_output","call_id":"f"}]}`,
			Request{HistoryCalls: []string{"a", "b", "c", "d", "e", "f"}, HistoryOutputs: []string{"a", "b", "c", "d", "e", "f"}},
		},
		{"previous response", `{"previous_response_id":"resp_1","input":[{"type":"function_call_output","call_id":"a"}]}`, Request{HistoryOutputs: []string{"a"}, PreviousID: "resp_1", BodyCalls: none}},
		{"previous response and calls", `{"previous_response_id":"resp_1","input":[{"type":"function_call","call_id":"a"}]}`, Request{HistoryOutputs: none, PreviousID: "resp_1", BodyCalls: []string{"a"}}},
		{"previous response and a reference", `{"previous_response_id":"resp_1","input":[{"type":"item_reference","id":"a"}]}`, Request{HistoryOutputs: none, PreviousID: "resp_1"}},
		{"no previous response", `{"previous_response_id":null,"conversation":null,"input":[{"type":"function_call","call_id":"a"}]}`, Request{HistoryCalls: []string{"a"}, HistoryOutputs: none}},
		{"conversation", `{"conversation":"conv_1","input":[]}`, Request{ConversationID: "conv_1", HistoryOutputs: none, BodyCalls: none}},
		{"conversation as an object", `{"conversation":{"id":"conv_1"},"input":[]}`, Request{ConversationID: "conv_1", HistoryOutputs: none, BodyCalls: none}},
		{"references", `{"input":[{"type":"item_reference","id":"fc_1"},{"type":"function_call_output","call_id":"a"}]}`, Request{HistoryOutputs: []string{"a"}}},
		{
			"provider's tools", `{"tools":[{"type":"function","name":"web_search"},{"type":"custom"},{"type":"computer_use_preview"},{"type":"local_shell"},{"type":"apply_patch"},{"type":"shell"},{"type":"tool_search","execution":"client"},
			{"type":"web_search_preview_2025_03_11"},{"type":"web_search_2025_08_26"},{"type":"file_search","vector_store_ids":["v"]},{"type":"code_interpreter","container":{"type":"auto"}},{"type":"mcp","server_label":"a"},{"type":"mcp","server_label":"b"},{"type":"image_generation"},{"type":"shell","environment":{"type":"container_auto"}},{"type":"tool_search"}]}`,
			Request{ProviderTools: []string{"web_search", "file_search", "code_interpreter", "mcp", "image_generation", "shell", "tool_search"}, HistoryCalls: none, HistoryOutputs: none},
		},
	})
}

func TestMessagesRequest(t *testing.T) {
	runRequestTests(t, anthropicMessages{}, []requestTest{
		{"text", `{"model":"claude-x","max_tokens":5,"stream":true,"system":"tool_use","messages":[{"role":"user","content":"x"}]}`, Request{Model: "claude-x", Stream: true, MaxTokens: classify.Counted(5), HistoryCalls: none, HistoryOutputs: none}},
		{"a new thread", `{"thread":{"type":"create"},"messages":[{"content":[{"type":"tool_use","id":"a"}]}]}`, Request{HistoryCalls: []string{"a"}, HistoryOutputs: none}},
		{
			"a thread that goes on", `{"thread":{"type":"continue","previous_message_id":"msg_1"},"messages":[{"content":[{"type":"tool_result","tool_use_id":"a"}]}]}`,
			Request{HistoryOutputs: []string{"a"}, PreviousID: "msg_1", BodyCalls: none, EndsWithOutputs: true, ProviderTools: []string{hidden}},
		},
		{
			"history", `{"messages":[{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"a","name":"f","input":{"id":"no","type":"tool_use"}},{"input":{},"id":"b","type":"tool_use"},{"type":"server_tool_use","id":"no"}]},
			{"content":[{"tool_use_id":"a","type":"tool_result","content":[{"type":"tool_result","tool_use_id":"no"}]},{"type":"tool_result","tool_use_id":"b","is_error":true},{"type":"web_search_tool_result","tool_use_id":"no"}],"role":"user"}]}`,
			Request{EndsWithOutputs: true, HistoryCalls: []string{"a", "b"}, HistoryOutputs: []string{"a", "b"}},
		},
		{
			"provider's tools", `{"mcp_servers":[{"type":"url","url":"https://example.com"}],"tools":[{"name":"f","input_schema":{"type":"object"}},{"type":"custom","name":"g"},{"type":"bash_20250124"},{"type":"text_editor_20250728"},{"type":"computer_20250124"},{"type":"memory_20250818"},
			{"type":"web_search_20250305","name":"web_search"},{"type":"web_fetch_20250910"},{"type":"code_execution_20250825"},{"type":"tool_search_tool_regex_20251119"},{"type":"tool_search_tool_bm25_20251119"},{"type":"mcp_toolset"},{"type":"advisor_20260301"}]}`,
			Request{ProviderTools: []string{"mcp", "web_search", "web_fetch", "code_execution", "tool_search", "advisor"}, HistoryCalls: none, HistoryOutputs: none},
		},
		{"no mcp", `{"mcp_servers":[],"tools":[]}`, Request{HistoryCalls: none, HistoryOutputs: none}},
	})
}

func TestNewestIDs(t *testing.T) {
	var messages []string
	for i := range 200 {
		messages = append(messages, fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d"}`, i))
	}
	for n := range messages {
		req, err := openAIChat{}.ReadRequest([]byte(`{"messages":[` + strings.Join(messages[:n], ",") + `]}`))
		require.NoError(t, err)
		require.Len(t, req.HistoryOutputs, min(n, MaxIDs))
		for i, id := range req.HistoryOutputs {
			require.Equal(t, fmt.Sprintf("c%d", max(0, n-MaxIDs)+i), id)
		}
	}
}

// The error about a body contains no byte of it, and the readable part is still returned.
func TestBrokenRequests(t *testing.T) {
	for _, tt := range []struct{ body, want string }{
		{"", "wire: the request body is empty"},
		{"secret", "wire: the request body is not a JSON object"},
		{" \n", "wire: the request body is not a JSON object"},
		{`["secret"]`, "wire: the request body is not a JSON object"},
		{`{"model":"m"`, "wire: the request body is not valid JSON at byte 12 of 12"},
		{`{"model":"m",secret}`, "wire: the request body is not valid JSON at byte 13 of 20"},
		{`{"model":"m"}secret`, "wire: the request body is not valid JSON at byte 13 of 19"},
		{"{\"model\":\"m\",\"a\":\"secret\x01\"}", "wire: the request body is not valid JSON at byte 17 of 27"},
	} {
		for _, p := range protocols {
			req, err := p.ReadRequest([]byte(tt.body))
			require.EqualError(t, err, tt.want)
			if strings.Contains(tt.body, "model") {
				assert.Equal(t, "m", req.Model)
			}
		}
	}
}

// A tool that a message defines is offered, as one of the request is.
func TestToolsInMessages(t *testing.T) {
	for block, want := range map[string][]string{
		`{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"pay","input_schema":{"type":"object"}}}}`:               {},
		`{"type":"tool_addition","tool":{"definition":{"type":"web_search_20250305","name":"x"},"type":"tool_definition"}}`:                     {"web_search"},
		`{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"mcp_toolset","mcp_server_name":"x"}}}`:                  {"mcp"},
		`{"type":"compaction","tool_changes":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"mcp_toolset"}}}]}`: {"mcp"},
		`{"type":"compaction","tool_changes":null}`:                                                    {},
		`{"type":"tool_addition","tool":{"type":"tool_reference","name":"pay"}}`:                       {},
		`{"type":"tool_removal","tool":{"type":"mcp_toolset_reference","server_name":"x"}}`:            {},
		`{"type":"tool_addition","tool":{"type":"agent","name":"x"}}`:                                  nil,
		`{"type":"tool_use","id":"a","name":"f","input":{"tool":{"type":"agent"},"tool_changes":[1]}}`: {},
	} {
		assert.Equal(t, want, toolsOf(t, anthropicMessages{}, `{"model":"m","messages":[{"role":"user","content":[`+block+`]}]}`), block)
	}
}

// TestBrokenInput: a call of the history whose input is a text that is not JSON.
func TestBrokenInput(t *testing.T) {
	for input, want := range map[string]bool{
		`"{}"`: false, `"{\"a\":[1,\"b\\\"\"]}"`: false, `{"a":1}`: false, `null`: false, `"7"`: false,
		`"{"`: true, `""`: true, `"{\"a\":}"`: true, `"{}{}"`: true, `"{'a':1}"`: true,
	} {
		for name, body := range map[string]string{
			"openai_chat":      `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":` + input + `}}]}]}`,
			"openai_responses": `{"model":"m","input":[{"type":"function_call","call_id":"c","name":"f","arguments":` + input + `}]}`,
		} {
			p, ok := ByName(name)
			require.True(t, ok)
			r, err := p.ReadRequest([]byte(body))
			require.NoError(t, err)
			assert.Equal(t, want, r.BrokenInput, "%s: %s", name, input)
		}
	}
}

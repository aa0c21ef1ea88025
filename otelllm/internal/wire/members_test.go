package wire

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// requestKinds are the protocols with the members that are known, and with the smallest body
// of a request.
var requestKinds = []struct {
	Protocol

	known members
	body  string // without its last brace
}{
	{openAIChat{}, chatMembers, `{"model":"m","messages":[{"role":"user","content":"hi"}]`},
	{openAIResponses{}, responsesMembers, `{"model":"m","input":"hi"`},
	{openAICompletions{}, completionsMembers, `{"model":"m","prompt":"hi"`},
	{anthropicMessages{}, messagesMembers, `{"model":"m","messages":[{"role":"user","content":"hi"}]`},
	{gemini{}, geminiMembers, `{"contents":[{"parts":[{"text":"hi"}]}]`},
	{geminiInteractions{}, interactionsMembers, `{"model":"m","input":"hi"`},
	{bedrockConverse{}, converseMembers, `{"messages":[{"role":"user","content":[{"text":"hi"}]}]`},
	{ollama{}, ollamaMembers, `{"model":"m","messages":[{"role":"user","content":"hi"}]`},
	{cohereChat{}, cohereMembers, `{"model":"m","messages":[{"role":"user","content":"hi"}]`},
	{mistralConversations{}, mistralMembers, `{"model":"m","inputs":"hi"`},
}

func toolsOf(t *testing.T, p Protocol, body string) []string {
	t.Helper()
	req, err := p.ReadRequest([]byte(body))
	require.NoError(t, err, body)
	return req.ProviderTools
}

// A member that is not known hides what is offered if it has a value, whatever it is.
func TestUnknownMembers(t *testing.T) {
	names := []string{
		"agent", "agent_reference", "agent_id", "assistant_id", "tool_ids", "features", "integrations", "connectors",
		"builtin_tools", "toolsets", "skills", "tool_servers", "mcp", "preset", "prompt_id", "compound_custom", "workflow",
		"Tools", "MODEL", "x", "", "tools ", "nobody_knows_this_one",
	}
	values := []string{`"x"`, `1`, `0`, `-0.5`, `true`, `["x"]`, `[null]`, `[[]]`, `{"x":1}`, `{"x":{"y":[false,"z"]}}`, `{"":"\u0000"}`}
	empty := []string{`null`, `false`, `""`, `[]`, `{}`, `{"x":false,"y":null}`, `{"x":{"y":{}},"z":[]}`}
	for _, k := range requestKinds {
		require.Equal(t, []string{}, toolsOf(t, k, k.body+"}"), k.Name())
		for _, name := range names {
			if _, known := k.known[name]; known {
				t.Errorf("%s: %q is known", k.Name(), name)
			}
			for _, v := range values {
				member := fmt.Sprintf(",%q:%s", name, v)
				assert.Nil(t, toolsOf(t, k, k.body+member+"}"), "%s %s", k.Name(), member)
				assert.Nil(t, toolsOf(t, k, "{"+member[1:]+","+k.body[1:]+"}"), "%s %s first", k.Name(), member)
			}
			for _, v := range empty {
				member := fmt.Sprintf(",%q:%s", name, v)
				assert.Equal(t, []string{}, toolsOf(t, k, k.body+member+"}"), "%s %s", k.Name(), member)
			}
		}
	}
}

// A known member hides nothing, with a value of any type that makes sense for it.
func TestKnownMembers(t *testing.T) {
	stateful := map[string]string{ // they are about what is on the server
		"cached_content": "", "cachedContent": "", "prompt": "", "container": "", "plugins": "", "tools": "", "mcp_servers": "",
		"toolConfig": "", "tool_config": "", "additionalModelRequestFields": "", "promptVariables": "", "request": "", "thread": "",
	}
	for _, k := range requestKinds {
		for name, tool := range k.known {
			if _, special := stateful[name]; special || strings.Contains(k.body, `"`+name+`"`) {
				continue
			}
			for _, v := range []string{`"x"`, `1`, `true`, `["x"]`, `{"x":1}`} {
				got := toolsOf(t, k, k.body+fmt.Sprintf(",%q:%s}", name, v))
				want := []string{}
				if tool != "" {
					want = []string{tool}
				}
				if name == "web_search_options" && v[0] != '{' {
					want = []string{} // every server refuses that
				}
				assert.Equal(t, want, got, "%s: %s: %s", k.Name(), name, v)
			}
		}
	}
}

func TestOfferingMembers(t *testing.T) {
	chat := requestKinds[0].body
	for member, want := range map[string][]string{
		`"web_search_options":{}`:                                                   {"web_search"},
		`"web_search_options":null`:                                                 {},
		`"enable_search":true`:                                                      {"web_search"},
		`"enable_search":false`:                                                     {},
		`"search_parameters":{"mode":"auto"}`:                                       {"live_search"},
		`"enable_code_interpreter":true`:                                            {"code_interpreter"},
		`"data_sources":[{"type":"azure_search"}]`:                                  {"retrieval"},
		`"plugins":[{"id":"web","max_results":3},{"id":"response-healing"}]`:        {"web_search", "response-healing"},
		`"plugins":[{"id":"file-parser","pdf":{"engine":"x"}},{"id":"pay"}]`:        {"file-parser", "pay"},
		`"plugins":[{"id":"web","enabled":false}]`:                                  {},
		`"plugins":["web-fetch"]`:                                                   {"web_fetch"},
		`"plugins":[{"name":"pay"}]`:                                                nil,
		`"plugins":"pay"`:                                                           nil,
		`"plugins":[]`:                                                              {},
		`"tools":[{"type":"openrouter:web_search"},{"type":"mcp"}]`:                 {"openrouter:web_search", "mcp"},
		`"extra_body":{"chat_template_kwargs":{"enable_thinking":false},"top_k":2}`: {},
		`"extra_body":{"tools":[{"type":"mcp"}]}`:                                   nil,
		`"extra_body":{"tool_ids":["x"]}`:                                           nil,
		`"extra_body":{"agent":null}`:                                               {},
		`"extra_body":"x"`:                                                          nil,
		`"features":{"web_search":false,"code_interpreter":false,"image_generation":false}`: {},
	} {
		assert.Equal(t, want, toolsOf(t, openAIChat{}, chat+","+member+"}"), member)
	}
	messages := requestKinds[3].body
	for member, want := range map[string][]string{
		`"container":"container_1"`: {},
		`"container":null`:          {},
		`"container":{"id":"c","skills":[{"type":"anthropic","skill_id":"xlsx"}]}`: {"skills"},
		`"container":{"skills":[]}`:                                  {},
		`"container":{"setup":"x"}`:                                  nil,
		`"mcp_servers":[{"url":"x"}]`:                                {"mcp"},
		`"agent":{"name":"x"}`:                                       nil,
		`"context_management":{"edits":[{}]}`:                        {},
		`"tools":[{"type":"teleport_20270101"}]`:                     {"teleport"},
		`"thread":{"type":"create"}`:                                 {},
		`"thread":null`:                                              {},
		`"thread":"msg_1"`:                                           nil,
		`"thread":{"type":"fork"}`:                                   nil,
		`"thread":{"type":"continue","previous_message_id":"msg_1"}`: nil, // the thread has its tools
	} {
		assert.Equal(t, want, toolsOf(t, anthropicMessages{}, messages+","+member+"}"), member)
	}
	converse := requestKinds[6].body
	for member, want := range map[string][]string{
		`"additionalModelRequestFields":{"thinking":{"type":"enabled"},"anthropic_beta":["x"]}`:            {},
		`"additionalModelRequestFields":{"tools":[{"type":"computer_20250124"},{"type":"bash_20250124"}]}`: {},
		`"additionalModelRequestFields":{"tools":[{"type":"code_execution_20250522"}]}`:                    {"code_execution"},
		`"additionalModelRequestFields":{"mcp_servers":[{}]}`:                                              nil,
		`"additionalModelRequestFields":null`:                                                              {},
		`"additionalModelRequestFields":["x"]`:                                                             nil,
		`"toolConfig":{"tools":[{"toolSpec":{}}],"toolChoice":{"auto":{}}}`:                                {},
		`"toolConfig":{"agents":["x"]}`:                                                                    nil,
	} {
		assert.Equal(t, want, toolsOf(t, bedrockConverse{}, converse+","+member+"}"), member)
	}
}

// A request to an agent has the tools of that agent.
func TestAgents(t *testing.T) {
	for path, hides := range map[string]bool{
		"/api/projects/p/agents/pay/endpoint/protocols/openai/responses": true,
		"/api/projects/p/applications/a/protocols/openai/responses":      true,
		"/v1/agents/completions":                                                     true,
		"/api/agents/v1/chat/completions":                                            true,
		"/v1/chat/completions":                                                       false,
		"/api/v1/agents_openai/x/chat/completions":                                   true,
		"/v1/orchestrate/x/chat/completions":                                         true,
		"/mcp/v1/chat/completions":                                                   true,
		"/api/application/x/chat/completions":                                        true,
		"/api/chat/completions":                                                      true,
		"/api/v1/chat/completions":                                                   false,
		"/chat/api/01234567-89ab-cdef-0123-456789ABCDEF/chat/completions":            true,
		"/chat/api/x/chat/completions":                                               false,
		"/01234567-89ab-cdef-0123-456789abcdef/v1/chat/completions":                  false,
		"/v1/voice-beta/agent-01234567-89ab-cdef-0123-456789abcdef/chat/completions": true,
		"/v1/agent-x/chat/completions":                                               false,
		"/agentgateway/v1/chat/completions":                                          false,
		"/openai/deployments/agents-x/chat/completions":                              false,
	} {
		p, _, ok := Match("POST", path)
		require.True(t, ok, path)
		body := `{"model":"m","messages":[]}`
		if p.Name() == "openai_responses" {
			body = `{"model":"m","input":"hi"}`
		}
		req, err := p.ReadRequest([]byte(body))
		require.NoError(t, err)
		assert.Equal(t, hides, req.ProviderTools == nil && req.HistoryCalls != nil, path)
		assert.True(t, HasTerminalEvent(p) && LinksRequests(p) && Resumed(p) == "", path)
	}
	assert.Equal(t, ForAgent(openAIChat{}), ForAgent(ForAgent(openAIChat{})))
	assert.False(t, HasTerminalEvent(ForAgent(gemini{})))
	for model, hides := range map[string]bool{
		"azure_ai/agents/asst_1": true, "asst_1": true, "openai/@preset/x": true, "gpt-5@preset/x": true, "openclaw:main": true,
		"bedrock/agentcore/x": true, "groq/compound-mini": true, "gpt-5": false, "agentica-org/deepcoder-14b": false, "compounds": false, "": false,
		"hermes-agent": true, "nous/hermes-agent": true, "hermes-4-405b": false, "NousResearch/Hermes-3-Llama-3.1-8B": false,
		"openhands_gateway_demo": true, "litellm_proxy/openhands_x": true, "openhands-lm-32b": false, "all-hands/openhands-lm-32b-v0.1": false,
		"openclaw/default": true, "01234567-89ab-cdef-0123-456789abcdef": true, "ft:01234567-89ab-cdef-0123-456789abcdef": false,
		"letta/agent-1": true, "agent-01234567-89ab-cdef-0123-456789abcdef": true, "agent-flan-7b": false, "01234567-89ab-cdef-0123-456789abcdeg": false,
	} {
		for _, k := range requestKinds {
			if k.Name() == "gemini" || k.Name() == "bedrock_converse" {
				continue // below
			}
			body := strings.Replace(k.body, `"m"`, fmt.Sprintf("%q", model), 1)
			assert.Equal(t, hides, toolsOf(t, k, body+"}") == nil, "%s %s", k.Name(), model)
		}
		assert.Equal(t, hides, toolsOf(t, gemini{model: model}, requestKinds[4].body+"}") == nil, model)
		assert.Equal(t, hides, toolsOf(t, bedrockConverse{model: model}, requestKinds[6].body+"}") == nil, model)
	}
}

func TestEndsWithOutputs(t *testing.T) {
	for _, k := range requestKinds {
		req, err := k.ReadRequest([]byte(k.body + "}"))
		require.NoError(t, err)
		assert.False(t, req.EndsWithOutputs, k.Name())
	}
	use, result := `{"role":"assistant","content":[{"type":"tool_use","id":"a"}]}`, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"text","text":"x"}]}`
	for messages, want := range map[string]bool{
		use: false, use + "," + result: true, use + "," + result + `,{"role":"assistant","content":"x"}`: false,
		result + `,{"role":"user","content":[{"type":"text","text":"go on"}]}`: false,
	} {
		req, err := anthropicMessages{}.ReadRequest([]byte(`{"model":"m","messages":[` + messages + `]}`))
		require.NoError(t, err)
		assert.Equal(t, want, req.EndsWithOutputs, messages)
	}
}

func TestMaxTokens(t *testing.T) {
	for i, members := range [...][]string{
		{`"max_tokens":1`, `"max_completion_tokens":1`, `"n_predict":1`, `"max_tokens":9,"max_completion_tokens":1`},
		{`"max_output_tokens":1`},
		{`"max_tokens":1`},
		{`"max_tokens":1`},
		{`"generationConfig":{"maxOutputTokens":1}`, `"generation_config":{"max_output_tokens":1}`},
		{`"generation_config":{"max_output_tokens":1}`},
		{`"inferenceConfig":{"maxTokens":1}`},
		{`"options":{"num_predict":1}`},
		{`"max_tokens":1`},
		{`"completion_args":{"max_tokens":1}`},
	} {
		k := requestKinds[i]
		for _, m := range members {
			for _, tt := range []struct {
				value string
				want  classify.Count
			}{{"1", classify.Counted(1)}, {"0", classify.Counted(0)}, {"-1", 0}, {"null", 0}, {`"1"`, 0}, {"1.5", 0}} {
				body := k.body + "," + strings.ReplaceAll(m, ":1", ":"+tt.value) + "}"
				req, err := k.ReadRequest([]byte(body))
				require.NoError(t, err)
				if strings.Contains(m, ":9") && tt.want == 0 {
					continue
				}
				assert.Equal(t, tt.want, req.MaxTokens, "%s %s", k.Name(), body)
			}
		}
		req, err := k.ReadRequest([]byte(k.body + "}"))
		require.NoError(t, err)
		assert.False(t, req.MaxTokens.Observed(), k.Name())
	}
}

// A request with very many members takes time and memory in proportion to its size.
func TestManyMembers(t *testing.T) {
	for _, k := range requestKinds {
		for _, value := range []string{`"x"`, `{}`, strings.Repeat(`{"a":`, 50) + `1` + strings.Repeat(`}`, 50)} {
			var b strings.Builder
			b.WriteString(k.body)
			for i := range 10_000 / sample.Every(20) {
				fmt.Fprintf(&b, `,"m%d":%s`, i, value)
			}
			body := []byte(b.String() + "}")
			start := time.Now()
			req, err := k.ReadRequest(body)
			require.NoError(t, err)
			assert.Equal(t, value == `{}`, req.ProviderTools != nil)
			assert.Less(t, time.Since(start), 5*time.Second, "%s: %d bytes", k.Name(), len(body)) // a quadratic reader takes minutes
			allocs := testing.AllocsPerRun(1, func() { _, _ = k.ReadRequest(body) })
			assert.Less(t, allocs, 50.0, k.Name())
		}
	}
}

// What published agents send hides nothing: see the recordings beside those of streams.
func TestRecordedMembers(t *testing.T) {
	dir := os.Getenv("OTELLLM_FIXTURES")
	if dir == "" {
		t.Skip("no recorded agents: OTELLLM_FIXTURES names the folder beside them")
	}
	files, err := filepath.Glob(filepath.Join(dir, "..", "agents", "*", "*.requests.jsonl.gz"))
	require.NoError(t, err)
	read := 0
	for _, file := range files {
		f, err := os.Open(file)
		require.NoError(t, err)
		z, err := gzip.NewReader(f)
		require.NoError(t, err)
		lines := bufio.NewScanner(z)
		lines.Buffer(nil, MaxEvent)
		for lines.Scan() {
			var r struct {
				Method, Path string
				Body         json.RawMessage
			}
			require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
			path, _, _ := strings.Cut(r.Path, "?")
			p, _, ok := Match(r.Method, path)
			if !ok || len(r.Body) == 0 {
				continue
			}
			req, err := p.ReadRequest(r.Body)
			require.NoError(t, err)
			assert.NotNil(t, req.ProviderTools, "%s: %s", file, r.Body[:min(len(r.Body), 300)])
			read++
		}
		require.NoError(t, lines.Err())
		require.NoError(t, f.Close())
	}
	assert.Greater(t, read, 50)
}

// The helpers in other languages know a part of the members, and no other ones.
func TestMembersOfHelpers(t *testing.T) {
	known := []members{chatMembers, responsesMembers, messagesMembers}
	lists := regexp.MustCompile("(?s)(?:commonMembers = `|_COMMON_MEMBERS = \"{3}|members\\(commonMembers, `|_COMMON_MEMBERS \\+ \"{3})(.*?)(?:`|\"{3})")
	var all [][]string
	for _, file := range []string{"node/otelllm-facts.mjs", "python/otelllm_facts.py"} {
		source, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", filepath.FromSlash(file)))
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("the helpers are part of another module, which is not beside this one")
		}
		require.NoError(t, err)
		found := lists.FindAllStringSubmatch(string(source), -1)
		require.Len(t, found, 1+len(known), file)
		for i, names := range found {
			all = append(all, strings.Fields(names[1]))
			for _, name := range all[len(all)-1] {
				for j, k := range known {
					if _, ok := k[name]; i == 0 || i == j+1 {
						assert.True(t, ok, "%s: %s", file, name)
					}
				}
			}
		}
	}
	assert.Equal(t, all[:4], all[4:])
}

package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMatchPaths(t *testing.T) {
	const sure, hint = true, false
	for _, tt := range []struct {
		method, path, want string
		sure               bool
	}{
		{"POST", "/v1/chat/completions", "openai_chat", sure},
		{"POST", "/openai/deployments/gpt-4o/chat/completions", "openai_chat", sure},
		{"POST", "/openai/v1/chat/completions", "openai_chat", sure},
		{"POST", "/api/v1/chat/completions/", "openai_chat", sure},
		{"POST", "/v1/projects/p/locations/l/endpoints/openapi/chat/completions", "openai_chat", sure},
		{"POST", "/v1/projects/p/locations/l/publishers/mistralai/models/mistral-x:streamRawPredict", "openai_chat", sure},
		{"POST", "/v1/responses", "openai_responses", hint},
		{"POST", "/api/v1/responses", "openai_responses", hint},
		{"POST", "/openai/v1/responses", "openai_responses", sure},
		{"POST", "/openai/responses", "openai_responses", sure},
		{"POST", "/myopenai/v1/responses", "openai_responses", hint},
		{"POST", "/backend-api/codex/responses", "openai_responses", hint},
		{"POST", "/surveys/7/responses", "openai_responses", hint},
		{"POST", "/v1/messages", "anthropic_messages", hint},
		{"POST", "/anthropic/v1/messages", "anthropic_messages", hint},
		{"POST", "/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@1:streamRawPredict", "anthropic_messages", sure},
		{"POST", "/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@1:rawPredict", "anthropic_messages", sure},
		{"POST", "/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict", "", hint},
		{"POST", "/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@1", "", hint},
		{"POST", "/v1/projects/p/locations/l/publishers/meta/models/x:rawPredict", "", hint},
		{"POST", "/model/us.anthropic.claude-x-v1:0/invoke-with-response-stream", "anthropic_messages", sure},
		{"POST", "/model/anthropic.claude-x-v1:0/invoke", "anthropic_messages", sure},
		{"POST", "/model/arn:aws:bedrock:us-east-1:1:application-inference-profile/a1/invoke", "anthropic_messages", hint},
		{"POST", "/model/amazon.nova-x-v1:0/invoke", "", hint},
		{"POST", "/v1beta/models/gemini-x:generateContent", "gemini", sure},
		{"POST", "/v1/projects/p/locations/l/publishers/google/models/gemini-x:streamGenerateContent", "gemini", sure},
		{"POST", "/v1internal:streamGenerateContent", "gemini", sure},
		{"POST", "/v1beta/models/gemini-x:countTokens", "", hint},
		{"POST", "/v1beta/models/gemini-x/generateContent", "", hint},
		{"POST", "/model/us.anthropic.claude-x-v1:0/converse-stream", "bedrock_converse", sure},
		{"POST", "/prefix/model/arn:aws:bedrock:us-east-1:1:inference-profile/a.b/converse", "bedrock_converse", sure},
		{"POST", "/model/x/converse/y", "", hint},
		{"POST", "/converse", "", hint},
		{"POST", "/api/chat", "ollama", hint},
		{"POST", "/ollama/api/generate", "ollama", hint},
		{"POST", "/api/embed", "", hint},
		{"POST", "/v1/completions", "openai_completions", sure},
		{"POST", "/openai/deployments/gpt-x/completions", "openai_completions", sure},
		{"POST", "/beta/completions", "openai_completions", hint},
		{"POST", "/v1/fim/completions", "openai_completions", hint},
		{"POST", "/v1/responses/compact", "openai_responses", hint},
		{"POST", "/openai/v1/responses/compact", "openai_responses", sure},
		{"POST", "/v1/agents/completions", "openai_chat", sure},
		{"POST", "/serving-endpoints/x/invocations", "openai_chat", hint},
		{"POST", "/v2/chat", "cohere_chat", hint},
		{"POST", "/v2/chat/7", "", hint},
		{"POST", "/v1/conversations", "mistral_conversations", hint},
		{"POST", "/v1/conversations/conv_1", "mistral_conversations", hint},
		{"POST", "/v1/conversations/conv_1/restart", "mistral_conversations", hint},
		{"POST", "/v1/conversations/conv_1/items", "", hint},
		{"POST", "/v1/conversationsx", "", hint},
		{"POST", "/v1beta/interactions", "gemini_interactions", sure},
		{"POST", "/v1beta1/projects/p/locations/l/interactions", "gemini_interactions", sure},
		{"POST", "/app/interactions", "gemini_interactions", hint},
		{"POST", "/v1beta/interactions/i1/cancel", "", hint},
		{"GET", "/v1/responses", "", hint},
		{"GET", "/v1/completions", "", hint},
		{"POST", "/v1/messages/count_tokens", "", hint},
		{"POST", "/v1/messages/batches", "", hint},
		{"POST", "/v1/threads/t/messages", "", hint},
		{"POST", "/v1/responses/resp_1/cancel", "", hint},
		{"POST", "/v1/embeddings", "", hint},
		{"POST", "", "", hint},
	} {
		p, proof, ok := Match(tt.method, tt.path)
		assert.Equal(t, tt.want != "", ok, tt.path)
		assert.Equal(t, tt.sure, proof, tt.path)
		if ok {
			assert.Equal(t, tt.want, p.Name(), tt.path)
			named, ok := ByName(tt.want)
			assert.True(t, ok)
			assert.IsType(t, bare(p), named)
		}
	}
	_, ok := ByName("soap")
	assert.False(t, ok)
}

func TestMatchResume(t *testing.T) {
	for _, tt := range []struct{ method, path, query, want, id string }{
		{"GET", "/v1/responses/resp_1", "stream=true&starting_after=4", "openai_responses", "resp_1"},
		{"GET", "/openai/v1/responses/resp-1", "starting_after=4&stream=true", "openai_responses", "resp-1"},
		{"GET", "/v1beta/interactions/v1_abc", "stream=true&last_event_id=x", "gemini_interactions", "v1_abc"},
		{"GET", "/v1/responses/resp_1", "", "", ""},
		{"GET", "/v1/responses/resp_1", "stream=false", "", ""},
		{"GET", "/v1/responses/resp_1", "stream=%zz", "", ""},
		{"GET", "/v1/responses/", "stream=true", "", ""},
		{"GET", "/v1/responses/4711", "stream=true", "", ""},
		{"GET", "/app/interactions/7", "stream=true", "", ""},
		{"GET", "resp_1", "stream=true", "", ""},
		{"POST", "/v1/responses/resp_1", "stream=true", "", ""},
	} {
		p, ok := MatchResume(tt.method, tt.path, tt.query)
		assert.Equal(t, tt.want != "", ok, "%s?%s", tt.path, tt.query)
		if ok {
			assert.Equal(t, tt.want, p.Name())
			assert.Equal(t, tt.id, Resumed(p))
			assert.True(t, LinksRequests(p))
			d := p.NewDecoder("text/event-stream")
			assert.True(t, d.State().Resumed)
			d.Release()
		}
	}
	for _, p := range []Protocol{openAIResponses{}, geminiInteractions{}} {
		assert.False(t, p.NewDecoder("text/event-stream").State().Resumed)
	}
	assert.Empty(t, Resumed(openAIChat{}))
	assert.False(t, LinksRequests(mistralConversations{}))
	assert.False(t, LinksRequests(openAIResponses{compacts: true}))
}

// The data of the path, other than the protocol.
func TestPaths(t *testing.T) {
	for _, tt := range []struct {
		path, body, provider, model string
		stream                      bool
	}{
		{"/v1/chat/completions", `{"model":"m","messages":[]}`, "openai", "m", false},
		{"/openai/deployments/gpt-4o/chat/completions", `{"messages":[],"stream":true}`, "azure.ai.openai", "gpt-4o", true},
		{"/openai/deployments/gpt-4o/chat/completions", `{"model":"m","messages":[]}`, "azure.ai.openai", "m", false},
		{"/openai/deployments/a name/completions", `{"prompt":""}`, "azure.ai.openai", "redacted", false},
		{"/openai/deployments/gpt-4o?api-key=secret/chat/completions", `{"messages":[]}`, "azure.ai.openai", "gpt-4o", false},
		{"/openai/deployments/gpt-4o%3Fapi-key=secret/chat/completions", `{"messages":[]}`, "azure.ai.openai", "gpt-4o", false},
		{"/openai/deployments/fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0/chat/completions", `{"messages":[]}`, "azure.ai.openai", "redacted", false},
		{"/v1beta/models/gemini-x?key=secret:generateContent", `{"contents":[]}`, "gcp.gemini", "gemini-x", false},
		{"/v1/projects/p/locations/l/publishers/mistralai/models/mistral-x:streamRawPredict", `{"messages":[],"stream":true}`, "gcp.vertex_ai", "mistral-x", true},
		{"/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@1:streamRawPredict", `{"anthropic_version":"vertex-2023-10-16","messages":[]}`, "gcp.vertex_ai", "claude-x@1", true},
		{"/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@1:rawPredict", `{"anthropic_version":"vertex-2023-10-16","messages":[]}`, "gcp.vertex_ai", "claude-x@1", false},
		{"/model/us.anthropic.claude-x-v1:0/invoke-with-response-stream", `{"anthropic_version":"bedrock-2023-05-31","messages":[]}`, "aws.bedrock", "us.anthropic.claude-x-v1:0", true},
		{"/model/us.anthropic.claude-x-v1:0/invoke", `{"messages":[]}`, "aws.bedrock", "us.anthropic.claude-x-v1:0", false},
		{"/model/arn:aws:bedrock:e:1:application-inference-profile/a1/invoke", `{"anthropic_version":"bedrock-2023-05-31","messages":[]}`, "aws.bedrock", "arn:aws:bedrock:e:1:application-inference-profile/a1", false},
		{"/v1beta/models/gemini-x:streamGenerateContent", `{"contents":[]}`, "gcp.gemini", "gemini-x", true},
		{"/v1/projects/p/locations/l/publishers/google/models/gemini-x:generateContent", `{"contents":[]}`, "gcp.vertex_ai", "gemini-x", false},
		{"/v1/projects/p/locations/l/endpoints/123:streamGenerateContent", `{"contents":[]}`, "gcp.vertex_ai", "123", true},
		{"/model/m/converse-stream", `{"messages":[]}`, "aws.bedrock", "m", true},
		{"/v1/completions", `{"model":"m","prompt":["a","b"],"stream":true}`, "openai", "m", true},
	} {
		p, _, ok := Match("POST", tt.path)
		require.True(t, ok, tt.path)
		assert.Equal(t, tt.provider, p.Provider(), tt.path)
		req, err := p.ReadRequest([]byte(tt.body))
		require.NoError(t, err)
		assert.Equal(t, tt.model, req.Model, tt.path)
		assert.Equal(t, tt.stream, req.Stream, tt.path)
		assert.False(t, req.StreamUnknown, tt.path)
		assert.True(t, req.IsCall, tt.path)
	}
}

// The body shows whether a path that other applications have too is that of a model call.
func TestIsCall(t *testing.T) {
	for _, tt := range []struct {
		path, body string
		want       bool
	}{
		{"/x/responses", `{"model":"m","input":"hi"}`, true},
		{"/x/responses", `{"model":"m","input":[{"role":"user","content":"hi"}]}`, true},
		{"/x/responses", `{"prompt":{"id":"pmpt_1"}}`, true},
		{"/x/responses", `{"prompt":{"id":"pmpt_1","variables":{"a":"b"}},"input":[]}`, true},
		{"/x/responses", `{"model":"m","previous_response_id":"resp_1"}`, true},
		{"/x/responses", `{"model":"m","conversation":{"id":"conv_1"}}`, true},
		{"/x/responses", `{"model":"m","conversation":null,"previous_response_id":null}`, false},
		{"/x/responses", `{"prompt":{"text":"what do you think"}}`, false},
		{"/x/responses", `{"prompt":{"id":7}}`, false},
		{"/x/responses", `{"model":"m","input":[1,2]}`, false},
		{"/x/responses", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, false},
		{"/x/responses", `{"input":"hi"}`, false},
		{"/x/responses", `{"input":"hi","stream":true}`, true},
		{"/x/responses", `{"model":"m"}`, false},
		{"/x/responses", `{"model":"m","input":{"q1":"yes"}}`, false},
		{"/x/responses", `{"survey":7,"answers":[1,2]}`, false},
		{"/x/responses", `{"prompt":"what do you think"}`, false},
		{"/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`, true},
		{"/v1/messages", `{"message_type":"text","text":"hi","to":"1","from":"2","channel":"sms"}`, false},
		{"/v1/messages", `{"model":"m","messages":"hi"}`, false},
		{"/v1/messages", `{"messages":[]}`, false},
		{"/model/arn:aws:bedrock:e:1:provisioned-model/a1/invoke", `{"messages":[]}`, false},
		{"/api/chat", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, true},
		{"/api/chat", `{"model":"m","messages":[]}`, true},
		{"/api/chat", `{"model":"m","messages":[{"role":"user","parts":[{"type":"text","text":"hi"}]}]}`, false},
		{"/api/chat", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`, false},
		{"/api/chat", `{"room":"a","text":"hi"}`, false},
		{"/api/generate", `{"model":"m","prompt":"hi"}`, true},
		{"/api/generate", `{"model":"m"}`, false},
		{"/api/generate", `{"prompt":"a report"}`, false},
		{"/api/generate", `{"model":7,"prompt":"a report"}`, false},
		{"/v1/chat/completions", `{"model":"m","messages":[]}`, true},
		{"/v1/chat/completions", `{"model":"m"}`, false},
		{"/x/completions", `{"model":"m","prompt":"hi"}`, true},
		{"/x/completions", `{"model":"m","prompt":[1,2]}`, true},
		{"/x/completions", `{"course":"m"}`, false},
		{"/x/completions", `{"model":"m"}`, false},
		{"/x/completions", `{"prompt":"hi"}`, false},
		{"/v1internal:generateContent", `{"model":"m","project":"p","request":{"contents":[]}}`, true},
		{"/v1internal:generateContent", `{"model":"m","request":{}}`, false},
		{"/v1internal:generateContent", `{"model":"m","request":{"contents":{"parts":[]}}}`, true},
		{"/v1internal:generateContent", `{"model":"m","request":{"contents":"hi"}}`, false},
		{"/model/arn:aws:bedrock:e:1:prompt/a1/converse", `{"promptVariables":{"a":{"text":"hi"}}}`, true},
		{"/model/arn:aws:bedrock:e:1:prompt/a1/converse", `{"promptVariables":null}`, false},
		{"/model/arn:aws:bedrock:e:1:prompt/a1/converse", `{"messages":[],"promptVariables":null}`, true},
	} {
		p, _, ok := Match("POST", tt.path)
		require.True(t, ok, tt.path)
		req, err := p.ReadRequest([]byte(tt.body))
		require.NoError(t, err)
		assert.Equal(t, tt.want, req.IsCall, "%s %s", tt.path, tt.body)
	}
}

// Under another path a protocol that was found by name does not report what it would have
// read from its own path.
func TestForeignPaths(t *testing.T) {
	for name, body := range map[string]string{
		"gemini":           `{"contents":[{"parts":[{"text":"hi"}]}]`,
		"bedrock_converse": `{"messages":[{"role":"user","content":[{"text":"hi"}]}]`,
	} {
		p, _ := ByName(name)
		for more, want := range map[string]Request{
			`}`:                                {StreamUnknown: true, IsCall: true},
			`,"stream":true,"model":"m"}`:      {Model: "m", Stream: true, IsCall: true},
			`,"stream":false}`:                 {IsCall: true},
			`,"stream":"yes","model":["a b"]}`: {StreamUnknown: true, IsCall: true},
		} {
			req, err := p.ReadRequest([]byte(body + more))
			require.NoError(t, err)
			want.ProviderTools, want.HistoryCalls, want.HistoryOutputs = none, none, none
			assert.Equal(t, want, req, name+more)
		}
		req, err := p.ReadRequest([]byte(`{"input":"hi"}`))
		require.NoError(t, err)
		assert.False(t, req.IsCall)
	}
}

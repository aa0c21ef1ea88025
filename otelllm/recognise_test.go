package otelllm

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
)

// TestUnsurePaths checks that a request to a path that other applications may have, too, is
// a model call only if its body is one, and passes unchanged otherwise.
func TestUnsurePaths(t *testing.T) {
	target := scriptedServer(t, jsonHead+`{}`, nil)
	for _, tt := range []struct {
		name, path, body string
		once             bool // the body can be read only once
		contentType      string
		recorded         bool
	}{
		{"Responses by its body", "/gateway/responses", `{"model":"gpt-5","input":"hi"}`, false, "application/json", true},
		{"a survey's answers", "/survey/responses", `{"answers":[1,2]}`, false, "application/json", false},
		{"a survey's form", "/survey/responses", `a=b`, false, "application/x-www-form-urlencoded", false},
		{"Responses by its body, of a gateway", "/v1/responses", `{"model":"m","input":[{"role":"user","content":"hi"}]}`, false, "application/json", true},
		{"a stored prompt", "/v1/responses", `{"prompt":{"id":"pmpt_1"}}`, false, "application/json", true},
		{"Responses with a body that can be read only once", "/v1/responses", `{"model":"m","input":"hi"}`, true, "application/json", true},
		{"a survey's answers, versioned", "/v1/responses", `{"answers":[1]}`, false, "application/json", false},
		{"a survey's upload", "/v1/responses", "--x--", false, "multipart/form-data; boundary=x", false},
		{"a survey's upload that can be read only once", "/v1/responses", "--x--", true, "multipart/form-data; boundary=x", false},
		{"Responses of Azure by their path", "/openai/v1/responses", `{"odd":true}`, false, "application/json", true},
		{"Ollama by its body", "/api/chat", `{"model":"llama","messages":[{"role":"user","content":"hi"}]}`, false, "application/json", true},
		{"another chat", "/api/chat", `{"room":7,"text":"hi"}`, false, "application/json", false},
		{"another chat with a model", "/api/chat", `{"model":"sofa","text":"hi"}`, false, "application/json", false},
		{"Ollama with a body that can be read only once", "/api/chat", `{"model":"llama","messages":[]}`, true, "application/json", true},
		{"an upload that can be read only once", "/api/generate", `x`, true, "multipart/form-data; boundary=x", false},
		{"certain by its path", "/v1/chat/completions", `{"odd":true}`, false, "application/json", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			var body io.Reader = strings.NewReader(tt.body)
			if tt.once {
				body = oneByOne{body}
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target+tt.path, body)
			require.NoError(t, err)
			req.Header.Set("Content-Type", tt.contentType)
			resp, err := NewTransport(base(t), WithTracerProvider(r)).RoundTrip(req)
			require.NoError(t, err)
			ours := strings.HasSuffix(fmt.Sprintf("%T", resp.Body), "client.responseBody")
			resp.Body.Close()
			assert.Equal(t, tt.recorded, ours)
			assert.Len(t, r.spans.Ended(), map[bool]int{true: 1}[tt.recorded])
		})
	}
}

// TestForeignBodies sends bodies that can only be read as they are sent and turn out not
// to be those of a model call. Such a request is not judged, on either side of a gateway.
func TestForeignBodies(t *testing.T) {
	for _, head := range []string{"200 OK", "500 Internal Server Error", "304 Not Modified"} {
		r := newRecorder(t)
		target := scriptedServer(t, "HTTP/1.1 "+head+"\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{\"error\":{}}", nil)
		u, err := url.Parse(target)
		require.NoError(t, err)
		passing := httputil.NewSingleHostReverseProxy(u)
		passing.Transport = NewTransport(base(t), WithTracerProvider(r))
		gateway := httptest.NewServer(NewHandler(fullDuplex(passing), WithTracerProvider(r)))
		t.Cleanup(gateway.Close)
		_, err = call(t.Context(), base(t), gateway.URL+"/survey/responses", `{"answers":[1,2]}`)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return len(r.spans.Ended()) == 2 }, testTimeout, pollInterval)
		for _, ended := range r.spans.Ended() {
			s := span{ended}
			assert.False(t, s.failed(), head)
			assertFacts(t, s, map[attribute.Key]any{
				"llm.stream.end": nil, "error.type": nil, "llm.provider_error.kind": nil, "gen_ai.response.finish_reasons": nil, "llm.stream.text_chunks": nil,
				"llm.stream.phase": "unknown",
			})
		}
	}
}

// TestEncodedRequests checks that a compressed body, which cannot be read, does not contradict
// its path.
func TestEncodedRequests(t *testing.T) {
	for contentType, want := range map[string]int{"application/json": 1, "text/plain": 0} {
		r := newRecorder(t)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, scriptedServer(t, jsonHead+`{}`, nil)+"/v1/responses", strings.NewReader("\x1f\x8b\x08"))
		require.NoError(t, err)
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("Content-Encoding", "gzip")
		resp, err := NewTransport(base(t), WithTracerProvider(r)).RoundTrip(req)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Len(t, r.spans.Ended(), want, contentType)
	}
}

// TestKnownHosts checks that the path alone is proof on the hosts of providers.
func TestKnownHosts(t *testing.T) {
	for host, want := range map[string]bool{
		"api.openai.com": true, "eu.api.openai.com": true, "openrouter.ai": true, "my-res.openai.azure.com": true,
		"survey.example.com": false, "localhost": false,
		"API.OpenAI.com.": true, "api.openai.com..": false, "x" + strings.Repeat(".", 1<<20): false,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+host+responsesPath, http.NoBody)
		require.NoError(t, err)
		_, sure, ok := (&httpcall.Recogniser{}).Recognise(httpcall.NewPreview(req))
		assert.True(t, ok, host)
		assert.Equal(t, want, sure, host)
	}
}

// TestPathsOfSeveralProviders checks that a path that providers use for different things is proof on the host of
// one of them only: OpenAI creates a conversation by the path of Mistral's.
func TestPathsOfSeveralProviders(t *testing.T) {
	for target, want := range map[string]bool{
		"https://api.mistral.ai/v1/conversations": true, "https://api.mistral.ai/v1/conversations/conv_1/restart": true,
		"https://api.openai.com/v1/conversations": false, "https://api.cohere.com/v2/chat": true, "https://api.openai.com/v2/chat": false,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, http.NoBody)
		require.NoError(t, err)
		_, sure, ok := (&httpcall.Recogniser{}).Recognise(httpcall.NewPreview(req))
		assert.True(t, ok, target)
		assert.Equal(t, want, sure, target)
	}
	r := newRecorder(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, scriptedServer(t, jsonHead+`{}`, nil)+"/v1/conversations", strings.NewReader(`{"items":[{"type":"message","role":"user","content":"CANARY"}]}`))
	require.NoError(t, err)
	resp, err := NewTransport(base(t), WithTracerProvider(r)).RoundTrip(req)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Empty(t, r.spans.Ended())
}

// TestHeaderAsProof checks that the header that Anthropic's API requires is proof on a path that
// other applications have, too. That the client is an SDK is not proof: Ollama's SDK loads
// models by the same path, and any SDK may be pointed at another service.
func TestHeaderAsProof(t *testing.T) {
	target := scriptedServer(t, jsonHead+`{}`, nil)
	for _, tt := range []struct {
		name, path, header, value, body string
		recorded                        bool
	}{
		{"Anthropic's version", "/v1/messages", "anthropic-version", "2023-06-01", `{"odd":true}`, true},
		{"no version", "/v1/messages", "User-Agent", "Anthropic/Go 1.84.0", `{"odd":true}`, false},
		{"another protocol's header", "/survey/responses", "anthropic-version", "2023-06-01", `{"answers":[1]}`, false},
		{"an SDK for a survey", "/survey/responses", "User-Agent", "OpenAI/Go 3.95.0", `{"answers":[1]}`, false},
		{"Ollama loads a model", "/api/chat", "User-Agent", "ollama-python/0.6.0 (x86_64 linux) Python/3.13.0", `{"model":"llama3"}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target+tt.path, strings.NewReader(tt.body))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set(tt.header, tt.value)
			resp, err := NewTransport(base(t), WithTracerProvider(r)).RoundTrip(req)
			require.NoError(t, err)
			resp.Body.Close()
			assert.Len(t, r.spans.Ended(), map[bool]int{true: 1}[tt.recorded])
		})
	}
}

// TestBedrockErrorHeader checks that the exception is read from a header: AWS does not name
// it in the body.
func TestBedrockErrorHeader(t *testing.T) {
	r := newRecorder(t)
	url := scriptedServer(t, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nX-Amzn-Errortype: ThrottlingException:http://internal.amazon.com/coral/\r\nContent-Length: 20\r\n\r\n{\"message\":\"secret\"}", nil)
	_, err := call(t.Context(), NewTransport(base(t), WithTracerProvider(r)), url+"/model/claude-x/converse", `{"messages":[]}`)
	require.NoError(t, err)
	s := r.only(t)
	assert.Equal(t, "ThrottlingException", s.get("llm.provider_error.code"))
	assert.Equal(t, "rate_limited", s.get("llm.provider_error.kind"))
}

// TestProtocolOfAGateway checks that a protocol with much information in its path is read
// under another path, too, and that nothing is recorded that only the path could prove.
func TestProtocolOfAGateway(t *testing.T) {
	r := newRecorder(t)
	url := scriptedServer(t, sseHead+"data: {\"candidates\":[{\"index\":0,\"content\":{\"parts\":[{\"text\":\"a\"}]},\"finishReason\":\"STOP\"}],\"modelVersion\":\"gemini-x\"}\n\n", nil)
	_, err := call(t.Context(), requestTransport(base(t), WithTracerProvider(r), WithProviderName("acme"), WithProtocol(ProtocolGemini)), url+"/llm", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`)
	require.NoError(t, err)
	s := r.only(t)
	assert.Equal(t, "generate_content", s.Name())
	assert.Equal(t, "acme", s.get("gen_ai.provider.name"))
	assert.Nil(t, s.get("gen_ai.request.stream"), "neither path nor body says that it streams")
	assert.Equal(t, "terminal_event", s.get("llm.stream.end"))
	assert.Equal(t, int64(1), s.get("llm.stream.text_chunks"))
	assert.NotNil(t, s.get("gen_ai.response.time_to_first_chunk"), "the response did stream")
}

// TestCodeAssist checks that the wrapped chunks of Gemini Code Assist are read, and that a
// finish reason completes the answer.
func TestCodeAssist(t *testing.T) {
	r := newRecorder(t)
	url := scriptedServer(t, sseHead+"data: {\"response\":{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]},\"finishReason\":\"STOP\"}],\"modelVersion\":\"gemini-x\"},\"traceId\":\"t\"}\n\n", nil)
	_, err := call(t.Context(), requestTransport(base(t), WithTracerProvider(r), WithStreamErrors()), url+"/v1internal:streamGenerateContent",
		`{"model":"gemini-x","project":"p","request":{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}}`)
	require.NoError(t, err)
	s := r.only(t)
	assert.Equal(t, "generate_content gemini-x", s.Name())
	assert.Equal(t, true, s.get("gen_ai.request.stream"))
	assert.Equal(t, "terminal_event", s.get("llm.stream.end"))
	assert.Equal(t, int64(1), s.get("llm.stream.text_chunks"))
	assert.Equal(t, "gemini-x", s.get("gen_ai.response.model"))
}

// TestNamedProtocol checks that the protocol that the application has named takes
// precedence over a path that other applications have, too.
func TestNamedProtocol(t *testing.T) {
	whole := firstText + chatStop + chatDone
	for _, path := range []string{"/llm", "/api/chat", "/api/generate", "/v1/messages", "/v1/responses", "/gw/responses", "/openai/responses", "/v1/completions", chatPath} {
		t.Run(path, func(t *testing.T) {
			r := newRecorder(t)
			rt := requestTransport(base(t), WithTracerProvider(r), WithProviderName("acme"), WithProtocol(ProtocolOpenAIChat), WithStreamErrors())
			got, err := call(t.Context(), rt, scriptedServer(t, sseHead+whole, nil)+path, chatBody)
			require.NoError(t, err)
			assert.Equal(t, whole, got)
			s := r.only(t)
			assert.Equal(t, "chat gpt-5", s.Name())
			assert.Equal(t, "acme", s.get("gen_ai.provider.name"))
			assert.Equal(t, "terminal_event", s.get("llm.stream.end"))
			assert.Equal(t, int64(1), s.get("llm.stream.text_chunks"))
		})
	}
}

// TestPathOrName checks that the body decides between the protocol of the path and the
// named one, if it is a call of only one of them.
func TestPathOrName(t *testing.T) {
	const (
		responsesBody = `{"model":"m","input":"hi"}`
		geminiBody    = `{"contents":[{"parts":[{"text":"hi"}]}]}`
	)
	for _, tt := range []struct {
		name, url, header, body string
		once                    bool // the body can be read only once
		named, want             string
	}{
		{"a path that proves nothing, a body of both", "http://gw/v1/messages", "", chatBody, false, "openai_chat", "openai_chat"},
		{"a path that proves nothing, a body of the path's protocol", "http://gw/v1/responses", "", responsesBody, false, "openai_chat", "openai_responses"},
		{"a path that proves nothing, a body of neither", "http://gw/v1/responses", "", `{"odd":true}`, false, "openai_chat", "openai_chat"},
		{"a path that proves nothing, a body that can be read only once", "http://gw/v1/responses", "", responsesBody, true, "openai_chat", "openai_chat"},
		{"a path that is proof, a body of both", "http://gw/openai/responses", "", `{"model":"m","input":"hi","messages":[]}`, false, "openai_chat", "openai_responses"},
		{"a path that is proof, a body of the named protocol", "http://gw/v1/chat/completions", "", geminiBody, false, "gemini", "gemini"},
		{"a path that is proof, a body of neither", "http://gw/v1/chat/completions", "", `{"odd":true}`, false, "gemini", "openai_chat"},
		{"a path that is proof, a body that can be read only once", "http://gw/v1/chat/completions", "", geminiBody, true, "gemini", "openai_chat"},
		{"an unknown path", "http://gw/llm", "", geminiBody, false, "gemini", "gemini"},
		{"a header that is proof", "http://gw/v1/messages", "Anthropic-Version", chatBody, false, "openai_chat", "anthropic_messages"},
		{"a provider's own host", "https://api.openai.com/v1/responses", "", chatBody, false, "openai_chat", "openai_responses"},
		{"another provider's own host", "https://openrouter.ai/api/v1/messages", "", chatBody, false, "openai_chat", "anthropic_messages"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var body io.Reader = strings.NewReader(tt.body)
			if tt.once {
				body = oneByOne{body}
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tt.url, body)
			require.NoError(t, err)
			if tt.header != "" {
				req.Header.Set(tt.header, "1")
			}
			c := configure(global, []TransportOption{WithProtocol(Protocol(tt.named))}, TransportOption.applyTransport)
			p, sure, ok := c.recogniser.Recognise(httpcall.NewPreview(req))
			require.True(t, ok)
			assert.True(t, sure, "the protocol is certain")
			assert.Equal(t, tt.want, p.Name())
		})
	}
	c := configure(global, []TransportOption{WithProtocol(ProtocolOpenAIChat)}, TransportOption.applyTransport)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gw/v1/responses", strings.NewReader("--x--"))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	p, sure, ok := c.recogniser.Recognise(httpcall.NewPreview(req))
	assert.True(t, ok)
	assert.False(t, sure)
	assert.Equal(t, "openai_responses", p.Name(), "the path decides for an upload")
}

package otelllm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// TestNoKeyLeaks plants credentials where a provider, a gateway, a model or the
// application puts ids, codes and names, and searches everything that is exported for them.
func TestNoKeyLeaks(t *testing.T) {
	requests := map[string]string{
		chatPath: `{"model":"KEY","stream":true,"tools":[{"type":"KEY"},{"type":"function","function":{"name":"KEY"}}],"messages":[
			{"role":"assistant","tool_calls":[{"id":"KEY","type":"function","function":{"name":"KEY","arguments":"{}"}}]},{"role":"tool","tool_call_id":"KEY","content":"x"}]}`,
		responsesPath: `{"model":"org/KEY","stream":true,"conversation":"KEY","input":[{"type":"function_call","call_id":"KEY","name":"KEY","arguments":"{}"},
			{"type":"function_call_output","call_id":"KEY","output":"x"}],"tools":[{"type":"KEY"}]}`,
		messagesPath: `{"model":"KEY","stream":true,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"KEY","name":"KEY","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"KEY","content":"x"}]}],"tools":[{"type":"KEY","name":"KEY"}]}`,
		"/v1beta/models/KEY:streamGenerateContent":                           `{"contents":[{"role":"model","parts":[{"functionCall":{"id":"KEY","name":"KEY","args":{}}}]}],"tools":[{"KEY":{}}]}`,
		"/v1beta/models/gemini-x%3Fkey=KEY:streamGenerateContent":            `{"contents":[{"role":"user","parts":[{"text":"x"}]}]}`,
		"/model/KEY/converse-stream":                                         `{"messages":[{"role":"user","content":[{"toolResult":{"toolUseId":"KEY","content":[]}}]}]}`,
		"/model/us.anthropic.claude-x-v1%3A0%3Ftoken=KEY/converse-stream":    `{"messages":[]}`,
		"/model/anthropic.claude-x%253Ftoken%253DKEY/converse-stream":        `{"messages":[]}`,
		"/openai/deployments/KEY/chat/completions":                           `{"messages":[],"stream":true}`,
		"/openai/deployments/gpt-5%3Fapi-key=KEY/chat/completions":           `{"messages":[],"stream":true}`,
		"/v1/projects/p/publishers/anthropic/models/KEY:streamRawPredict":    `{"anthropic_version":"vertex-2023-10-16","stream":true,"messages":[]}`,
		"/v1/projects/KEY/locations/KEY/endpoints/KEY:streamGenerateContent": `{"contents":[{"role":"user","parts":[{"text":"x"}]}]}`,
		"/api/chat": `{"model":"KEY","messages":[{"role":"tool","tool_name":"KEY","content":"x"}]}`,
	}
	answers := map[string]string{
		"chat": `data: {"id":"KEY","model":"KEY","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"KEY","function":{"name":"KEY","arguments":"{}"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"KEY"}]}

data: [DONE]

`,
		"responses": `data: {"type":"response.created","response":{"id":"resp_KEY","model":"gpt-5-KEY"}}

data: {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"call_KEY","name":"KEY","arguments":""}}

data: {"type":"response.incomplete","response":{"incomplete_details":{"reason":"KEY"}}}

`,
		"messages": `data: {"type":"message_start","message":{"id":"KEY","model":"KEY"}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"KEY","name":"KEY"}}

data: {"type":"content_block_stop","index":0}

data: {"type":"message_delta","delta":{"stop_reason":"KEY"}}

`,
		"gemini": `data: {"responseId":"KEY","modelVersion":"KEY","candidates":[{"index":0,"content":{"parts":[{"functionCall":{"id":"KEY","name":"KEY","args":{}}}]},"finishReason":"KEY"}]}

`,
		"ollama":       "{\"model\":\"KEY\",\"message\":{\"tool_calls\":[{\"id\":\"KEY\",\"function\":{\"name\":\"KEY\",\"arguments\":{}}}]},\"done\":true,\"done_reason\":\"KEY\"}\n",
		"code":         `{"error":{"message":"Incorrect API key provided: KEY","type":"invalid_request_error","code":"KEY"}}`,
		"type":         `{"error":{"message":"x","type":"KEY","code":null}}`,
		"code, within": `{"error":{"message":"x","type":"error:KEY","code":"invalid_key.KEY"}}`,
		"AWS":          `{"__type":"com.amazon.coral#KEY","message":"x"}`,
		"Google":       `[{"error":{"code":429,"message":"x","status":"KEY","details":[{"reason":"KEY","violations":[{"quotaId":"PerDay-KEY"}]}]}}]`,
		"in band":      "data: {\"error\":{\"type\":\"KEY\",\"code\":\"KEY\"}}\n\n",
		"no body":      "",
	}
	for i, key := range spantest.Credentials {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			r, m := newRecorder(t), newMetricsSDK(t)
			answers := maps.Clone(answers)
			answers["bedrock"] = awsMessage("messageStart", `{"role":"assistant"}`) +
				awsMessage("contentBlockStart", spantest.WithKey(`{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"KEY","name":"KEY"}}}`, key)) +
				awsMessage("messageStop", spantest.WithKey(`{"stopReason":"KEY"}`, key))
			answers["in band, AWS"] = awsMessage(key, `{"message":"x"}`)
			var reply func(http.ResponseWriter) // set before each request
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				for _, name := range httpcall.RequestIDs {
					w.Header().Set(name, key)
				}
				for _, name := range []string{"X-Amzn-Errortype", "X-Should-Retry", "Retry-After", "Openai-Organization", "Server", "Via"} {
					w.Header().Set(name, key)
				}
				reply(w)
			}))
			defer s.Close()
			base := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, s.Listener.Addr().String())
			}}
			defer base.CloseIdleConnections()
			rt := NewTransport(base, WithMeterProvider(m), WithVerdicts(), WithProviderName("gateway "+key))
			for path, body := range requests {
				for name, answer := range answers {
					status := http.StatusTooManyRequests
					stream := strings.HasPrefix(answer, "data:") || strings.HasPrefix(answer, "\x00")
					if stream || name == "ollama" {
						status = http.StatusOK
					}
					reply = func(w http.ResponseWriter) {
						switch {
						case strings.HasPrefix(answer, "data:"):
							w.Header().Set("Content-Type", "text/event-stream")
						case stream:
							w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
						}
						w.WriteHeader(status)
						_, _ = io.WriteString(w, spantest.WithKey(answer, key))
					}
					ctx, abort := WithAbort(t.Context())
					ctx, run := StartRun(ctx, "coder "+key, WithTracerProvider(r), WithVerdicts(), WithConversationID(key))
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+key+".example.com"+spantest.WithKey(path, key)+"?key="+key, strings.NewReader(spantest.WithKey(body, key)))
					require.NoError(t, err)
					req.URL.User = url.UserPassword("user", key)
					req.Header.Set("User-Agent", key)
					req.Header.Set("X-Stainless-Retry-Count", key)
					resp, err := rt.RoundTrip(req)
					require.NoError(t, err, "%s %s", path, name)
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					_, tool := StartTool(ctx, ToolCall{ID: key, Name: key})
					tool.End(errors.New(key))
					tool.RecordOutputFailure(errors.New(key))
					abort(AbortUser, key)
					_, tool = StartTool(ctx, ToolCall{ID: spantest.WithKey("call_KEY", key), Name: "mcp__" + key})
					tool.End(ctx.Err())
					run.End(errors.New(key))
					assert.NotContains(t, fmt.Sprintf("%+v", run.Diagnosis()), key, "%s %s", path, name)
				}
			}

			// A gateway, whose client sets the Host header.
			gateway := httptest.NewServer(NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("X-Request-Id", key)
				http.Error(w, spantest.WithKey(answers["code"], key), http.StatusUnauthorized)
			}), WithTracerProvider(r), WithVerdicts()))
			defer gateway.Close()
			for _, host := range []string{key, "user:" + key + "@host", key + ".example.com:443"} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gateway.URL+chatPath+"?key="+key, strings.NewReader(spantest.WithKey(requests[chatPath], key)))
				require.NoError(t, err)
				req.Host = host
				req.Header.Set("User-Agent", key)
				resp, err := gateway.Client().Do(req)
				require.NoError(t, err)
				resp.Body.Close()
			}

			// Agents that declare no runs.
			inferred := inferring(r, time.Minute, WithVerdicts())
			reply = streamed(spantest.WithKey(answers["chat"], key))
			for _, userAgent := range []string{key, key + "/1.0", "agent/" + key} {
				for range 2 {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+chatPath, strings.NewReader(spantest.WithKey(requests[chatPath], key)))
					require.NoError(t, err)
					req.Header.Set("User-Agent", userAgent)
					for _, name := range []string{"Session-Id", "X-Session-Id", "Thread-Id", "X-Claude-Code-Session-Id", "X-Session-Affinity"} {
						req.Header.Set(name, key)
					}
					resp, err := inferred.NewTransport(base).RoundTrip(req)
					require.NoError(t, err)
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
			require.NoError(t, inferred.Shutdown(t.Context()))
			require.NotEmpty(t, r.named("invoke_agent agent"))

			all := spantest.Exported(t, r.Recorder, m.reader)
			assert.Empty(t, spantest.Find(all, key), "a key is exported")
			// The attributes with the planted values are exported; only the values are replaced.
			for _, want := range []string{"redacted", "gen_ai.response.model", "gen_ai.tool.name", "gen_ai.conversation.id", "llm.provider_error.code", "server.address", "llm.abort.reason"} {
				assert.Contains(t, all, want)
			}
			assert.Contains(t, all, "gen_ai.tool.call.id "+wire.SafeID(key), "ids stay comparable")
		})
	}
}

package otelllm

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
)

// TestNothingLeaks plants a canary in every place that can hold content or a secret,
// in calls that succeed and in calls that fail, and searches everything that would be
// exported for it.
func TestNothingLeaks(t *testing.T) {
	const canary = "CANARY"
	requests := map[string]string{
		chatPath: `{"model":"gpt-5","stream":true,"user":"CANARY","metadata":{"CANARY":"CANARY"},"tools":[{"type":"function","function":{"name":"CANARY f","description":"CANARY"}}],"messages":[
			{"role":"system","content":"CANARY"},{"role":"user","name":"CANARY","content":[{"type":"text","text":"CANARY"}]},
			{"role":"assistant","content":"CANARY","tool_calls":[{"id":"call CANARY","type":"function","function":{"name":"CANARY f","arguments":"{\"CANARY\":1}"}}]},
			{"role":"tool","tool_call_id":"call CANARY","content":"CANARY"}]}`,
		responsesPath: `{"model":"gpt-5","stream":true,"instructions":"CANARY","conversation":"CANARY conversation","input":[{"role":"user","content":"CANARY"},
			{"type":"function_call","call_id":"call CANARY","name":"CANARY f","arguments":"CANARY"},{"type":"function_call_output","call_id":"call CANARY","output":"CANARY"}],"tools":[{"type":"CANARY tool"}]}`,
		messagesPath: `{"model":"claude-x","stream":true,"system":"CANARY","metadata":{"user_id":"CANARY"},"messages":[{"role":"user","content":"CANARY"},
			{"role":"assistant","content":[{"type":"tool_use","id":"toolu CANARY","name":"CANARY f","input":{"CANARY":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu CANARY","content":"CANARY"}]}]}`,
		"/v1beta/models/gemini-x:streamGenerateContent": `{"systemInstruction":{"parts":[{"text":"CANARY"}]},"cachedContent":"CANARY content","contents":[{"role":"user","parts":[{"text":"CANARY"},{"inlineData":{"mimeType":"CANARY","data":"CANARY"}}]},
			{"role":"model","parts":[{"functionCall":{"id":"call CANARY","name":"CANARY f","args":{"CANARY":1}}}]},{"role":"user","parts":[{"functionResponse":{"id":"call CANARY","name":"CANARY f","response":{"output":"CANARY"}}}]}],"tools":[{"functionDeclarations":[{"name":"CANARY f"}]},{"CANARY tool":{}}]}`,
		"/model/anthropic.claude-x/converse-stream": `{"system":[{"text":"CANARY"}],"messages":[{"role":"user","content":[{"text":"CANARY"}]},
			{"role":"assistant","content":[{"toolUse":{"toolUseId":"tooluse CANARY","name":"CANARY f","input":{"CANARY":1}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"tooluse CANARY","content":[{"text":"CANARY"}]}}]}],"toolConfig":{"tools":[{"toolSpec":{"name":"CANARY f"}}]},"requestMetadata":{"CANARY":"CANARY"}}`,
		"/api/chat":       `{"model":"llama-x","messages":[{"role":"user","content":"CANARY","images":["CANARY"]},{"role":"assistant","content":"CANARY","tool_calls":[{"function":{"name":"CANARY f","arguments":{"CANARY":1}}}]},{"role":"tool","tool_name":"CANARY f","content":"CANARY"}],"tools":[{"function":{"name":"CANARY f"}}]}`,
		"/v1/completions": `{"model":"gpt-5","stream":true,"prompt":"CANARY","suffix":"CANARY","user":"CANARY"}`,
	}
	answers := map[string]string{
		"chat": `data: {"id":"id CANARY","model":"model CANARY","system_fingerprint":"CANARY","choices":[{"index":0,"delta":{"content":"CANARY","reasoning_content":"CANARY","tool_calls":[{"index":0,"id":"call CANARY","function":{"name":"CANARY f","arguments":"CANARY"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"because CANARY"}]}

data: [DONE]

`,
		"responses": `data: {"type":"response.created","response":{"id":"id CANARY","model":"model CANARY"}}

data: {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"call CANARY","name":"CANARY f","arguments":"CANARY"}}

data: {"type":"response.output_text.delta","delta":"CANARY"}

data: {"type":"response.incomplete","response":{"incomplete_details":{"reason":"because CANARY"}}}

`,
		"messages": `data: {"type":"message_start","message":{"id":"id CANARY","model":"model CANARY"}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu CANARY","name":"CANARY f"}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"CANARY"}}

data: {"type":"message_delta","delta":{"stop_reason":"because CANARY"}}

`,
		"error in band": `data: {"error":{"message":"CANARY","type":"type CANARY","code":"code CANARY","param":"CANARY"}}

`,
		"gemini": `data: {"responseId":"id CANARY","modelVersion":"model CANARY","candidates":[{"index":0,"content":{"parts":[{"text":"CANARY","thought":true},{"text":"CANARY"},{"functionCall":{"id":"call CANARY","name":"CANARY f","args":{"CANARY":1}}}]}}]}

data: {"candidates":[{"index":0,"finishReason":"because CANARY","finishMessage":"CANARY"}],"promptFeedback":{"blockReason":"because CANARY"}}

`,
		"gemini error": `[{"error":{"code":429,"message":"CANARY","status":"status CANARY","details":[{"@type":"CANARY","retryDelay":"CANARY","reason":"CANARY reason"}]}}]`,
		"bedrock": awsMessage("messageStart", `{"role":"CANARY"}`) + awsMessage("contentBlockStart", `{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"tooluse CANARY","name":"CANARY f"}}}`) +
			awsMessage("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"toolUse":{"input":"CANARY"}}}`) + awsMessage("contentBlockDelta", `{"contentBlockIndex":1,"delta":{"text":"CANARY"}}`) +
			awsMessage("CANARY event", `{"CANARY":"CANARY"}`) + awsMessage("messageStop", `{"stopReason":"because CANARY","additionalModelResponseFields":{"CANARY":1}}`),
		"bedrock error": awsMessage("throttlingException", `{"message":"CANARY"}`) + awsMessage("CANARY Exception", `{"message":"CANARY"}`),
		"ollama":        "{\"model\":\"model CANARY\",\"message\":{\"role\":\"assistant\",\"content\":\"CANARY\",\"thinking\":\"CANARY\",\"tool_calls\":[{\"function\":{\"name\":\"CANARY f\",\"arguments\":{\"CANARY\":1}}}]},\"done\":false}\n{\"model\":\"model CANARY\",\"message\":{},\"done\":true,\"done_reason\":\"because CANARY\"}\n",
		"ollama error":  "{\"error\":\"CANARY\"}\n",
		"completions":   "data: {\"id\":\"id CANARY\",\"model\":\"model CANARY\",\"choices\":[{\"index\":0,\"text\":\"CANARY\",\"finish_reason\":\"because CANARY\"}]}\n\n",
		"page":          "<html><title>CANARY</title>CANARY</html>",
		"malformed":     "data: CANARY\n\n: CANARY\n\nCANARY: CANARY\n\n",
	}
	r, m := newRecorder(t), newMetricsSDK(t)
	before := otel.GetErrorHandler()
	var handled []string
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { handled = append(handled, err.Error()) }))
	t.Cleanup(func() { otel.SetErrorHandler(before) })
	check := func(t *testing.T, diagnosis string) {
		t.Helper()
		require.NotEmpty(t, r.spans.Ended())
		for _, s := range r.spans.Ended() {
			assert.NotContains(t, spantest.Text(span{s}), canary)
		}
		assert.NotContains(t, diagnosis, canary)
		assert.NotContains(t, strings.Join(handled, "\n"), canary)
		r.spans.Reset()
	}
	for path, body := range requests {
		for name, answer := range answers {
			for _, how := range []struct {
				name   string
				status int
				limit  Watchdog // if set, the server hangs
			}{
				{"200", http.StatusOK, Watchdog{}},
				{"400", http.StatusBadRequest, Watchdog{}},
				{"429", http.StatusTooManyRequests, Watchdog{}},
				{"watchdog", http.StatusOK, Watchdog{Total: 10 * time.Millisecond}},
			} {
				t.Run(fmt.Sprint(path, "/", name, "/", how.name), func(t *testing.T) {
					s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						_, _ = io.Copy(io.Discard, r.Body)
						w.Header().Set("Content-Type", "text/event-stream; CANARY=CANARY")
						w.Header().Set("X-Request-Id", "an id with CANARY in it")
						w.Header().Set("Cf-Ray", "CANARY "+strings.Repeat("x", 200))
						w.Header().Set("Retry-After", canary)
						w.Header().Set("Set-Cookie", "CANARY=CANARY")
						w.Header().Set("X-Canary", canary)
						w.Header().Set("Trailer", "X-Canary-Trailer")
						w.WriteHeader(how.status)
						_, _ = io.WriteString(w, answer)
						_ = http.NewResponseController(w).Flush()
						if how.limit != (Watchdog{}) {
							<-r.Context().Done()
						}
						panic(http.ErrAbortHandler)
					}))
					defer s.Close()
					ctx, abort := WithAbort(t.Context())
					ctx, run := StartRun(ctx, "coder", WithTracerProvider(r), WithVerdicts())
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path+"?key=CANARY&CANARY=1", strings.NewReader(body))
					require.NoError(t, err)
					req.URL.User = url.UserPassword(canary, canary)
					req.URL.Fragment = canary
					req.Header.Set("Authorization", "Bearer CANARY")
					req.Header.Set("X-Api-Key", canary)
					req.Header.Set("X-Stainless-Retry-Count", canary)
					req.Header.Set("User-Agent", canary)
					resp, err := NewTransport(s.Client().Transport, WithMeterProvider(m), WithStreamErrors(), WithWatchdog(how.limit)).RoundTrip(req)
					if err == nil {
						_, err = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
					if how.limit != (Watchdog{}) {
						require.Error(t, err)
					}
					_, tool := StartTool(ctx, ToolCall{ID: "call CANARY", Name: "CANARY f"})
					tool.End(fmt.Errorf("CANARY: %w", FailedBeforeEffect(errors.New("CANARY"))))
					tool.RecordOutputFailure(errors.New(canary))
					_, tool = StartTool(ctx, ToolCall{ID: "call_9", Name: "f"})
					abort(AbortUser, "CANARY is the reason")
					tool.End(ctx.Err())
					run.End(errors.New(canary))
					check(t, fmt.Sprintf("%+v", run.Diagnosis()))
				})
			}
		}
	}
	t.Run("no answer", func(t *testing.T) {
		ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
		rt := roundTripper(func(*http.Request) (*http.Response, error) { return nil, fmt.Errorf("CANARY %w", errors.New(canary)) })
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://CANARYuser:CANARY@127.0.0.1:1"+chatPath+"?CANARY", strings.NewReader("CANARY"))
		require.NoError(t, err)
		_, err = NewTransport(rt).RoundTrip(req)
		require.Error(t, err)
		run.End(err)
		check(t, fmt.Sprintf("%+v", run.Diagnosis()))
	})
	t.Run("inferred runs", func(t *testing.T) {
		for path, body := range requests {
			for _, answer := range answers {
				answer := streamed(answer)
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					answer(w)
				}))
				i := inferring(r, time.Minute, WithVerdicts())
				gateway := httptest.NewServer(i.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					answer(w)
				})))
				for _, to := range []struct {
					url string
					rt  http.RoundTripper
				}{{s.URL, i.NewTransport(base(t))}, {gateway.URL, base(t)}} {
					for range 2 {
						req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to.url+path, strings.NewReader(body))
						require.NoError(t, err)
						req.Header.Set("User-Agent", canary)
						for _, name := range []string{"Session-Id", "X-Session-Id", "Thread-Id", "X-Session-Affinity", "X-Claude-Code-Session-Id", "X-Claude-Code-Agent-Id", "X-Codex-Turn-Metadata"} {
							req.Header.Set(name, "an id with CANARY in it")
						}
						resp, err := to.rt.RoundTrip(req)
						require.NoError(t, err)
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}
				s.Close()
				gateway.Close()
				require.NoError(t, i.Shutdown(t.Context()))
				require.NotEmpty(t, r.named("invoke_agent agent"))
				check(t, "")
			}
		}
	})
	points := m.points(t)
	assert.NotEmpty(t, points[durationMetric])
	assert.NotEmpty(t, points[firstMetric])
	for name, list := range points {
		for _, p := range list {
			assert.NotContains(t, p.attrs.Encoded(attribute.DefaultEncoder()), canary, name)
		}
	}
}

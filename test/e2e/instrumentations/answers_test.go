package instrumentations

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.yaml.in/yaml/v3"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/built"
	"github.com/otelllm/otelllm-go/test/nodeagent"
)

// answer is an answer of a model server, as answers.mjs and answers.py read it, and the
// request.
type answer struct {
	name        string
	ofCatalogue bool

	Path    string            `json:"path"`
	Request string            `json:"request"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// TestErrorsInNode requires that otelllm-facts.mjs records the same facts as the transport for
// each error in the catalogue.
func TestErrorsInNode(t *testing.T) {
	t.Parallel()
	agents := nodeagent.Find(t)
	compareAnswers(t, func(file string) *exec.Cmd { return agents.Command(t.Context(), "answers.mjs", file) })
}

// TestErrorsInPython is TestErrorsInNode for otelllm_facts.py.
func TestErrorsInPython(t *testing.T) {
	t.Parallel()
	agents := findPython(t)
	compareAnswers(t, func(file string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), agents.python, "-X", "dev", "answers.py", file)
		cmd.Dir = agents.dir
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		return cmd
	})
}

func compareAnswers(t *testing.T, command func(file string) *exec.Cmd) {
	all := slices.Concat(catalogueAnswers(t), otherAnswers(), periodAnswers(t), quotingAnswers())
	var answers []answer
	for i := 0; i < len(all); i += sample.Every(5) {
		answers = append(answers, all[i])
	}
	file := filepath.Join(t.TempDir(), "answers.json")
	list, err := json.Marshal(answers)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, list, 0o600))

	cmd := command(file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, len(answers))

	errors := 0
	for i := range answers {
		var recorded map[string]any
		require.NoError(t, json.Unmarshal([]byte(lines[i]), &recorded))
		want, got := compared(factsInGo(t, &answers[i])), compared(recorded)
		if after, ok := want[string(semconv.RetryAfterKey)].(float64); ok {
			// A wait until a moment: the clock goes on between the answers.
			assert.InDelta(t, after, got[string(semconv.RetryAfterKey)], 120, "%s: %s", answers[i].name, answers[i].Body)
			if after > 1000 {
				got[string(semconv.RetryAfterKey)] = after
			}
		}
		if want[string(semconv.ProviderErrorKindKey)] == nil && answers[i].ofCatalogue { // no error in the form of this protocol
			assert.Nil(t, got[string(semconv.ProviderErrorKindKey)], "%s: %s", answers[i].name, answers[i].Body)
			continue
		}
		errors++
		assert.Equal(t, want, got, "%s: %s", answers[i].name, answers[i].Body)
	}
	assert.Greater(t, errors, 1500/sample.Every(5))
	t.Logf("%d answers, %d of them errors", len(answers), errors)
}

// catalogueAnswers returns the bodies of the catalogue's entries, as a response with an error
// status and inside a response with the status 200, in each protocol that the helpers read.
func catalogueAnswers(t *testing.T) (answers []answer) {
	file, err := os.ReadFile(filepath.Join(built.Root(t), "otelllm", "internal", "catalogue", "errors.yaml"))
	require.NoError(t, err)
	var entries []struct {
		ID, Code, Type, Phrase, Example string

		Status  int
		InBand  bool `yaml:"in_band"`
		Headers map[string]string
	}
	require.NoError(t, yaml.Unmarshal(file, &entries))
	for _, e := range entries {
		body := e.Example
		if body == "" && e.Code+e.Type+e.Phrase != "" { // what the source does not show has the usual form
			usual, err := json.Marshal(map[string]any{"error": map[string]any{"message": "Sorry: " + e.Phrase + ".", "type": e.Type, "code": e.Code}})
			require.NoError(t, err)
			body = string(usual)
		}
		status := e.Status
		if n, err := strconv.Atoi(e.Code); err == nil && n >= 400 && n < 600 && status == 0 && !e.InBand {
			status = n
		}
		for path, request := range requests {
			add := func(form string, status int, media, body string) {
				headers := map[string]string{"Content-Type": media}
				maps.Copy(headers, e.Headers)
				maps.DeleteFunc(headers, func(name, _ string) bool { return strings.HasPrefix(name, ":") }) // of AWS' event streams
				answers = append(answers, answer{e.ID + " " + form + " " + path, true, path, request, status, headers, body})
			}
			if status >= 400 {
				add("refused", status, mediaOf(body), body)
			}
			if status >= 400 && len(e.Headers) == 0 && json.Valid([]byte(body)) { // gateways put it into their own, as text
				quoted, err := json.Marshal(body)
				require.NoError(t, err)
				add("raw", status, "application/json", fmt.Sprintf(`{"error":{"message":"Provider returned error","code":%d,"metadata":{"raw":%s}}}`, status, quoted))
				add("in words", status, "text/plain", "an error from upstream: "+body)
			}
			if e.InBand || e.Status == 0 {
				add("in a stream", 200, "text/event-stream", body+"\n\n") // an event or, without framing, a bare object
			}
			if (e.InBand || e.Status == 0) && json.Valid([]byte(body)) {
				add("in an event", 200, "text/event-stream", "data: "+body+"\n\n")
				add("as a document", 200, "application/json", body)
			}
		}
	}
	return answers
}

// Events of a stream of Chat Completions.
const (
	chatRole     = `{"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	chatText     = `{"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`
	chatStop     = `{"id":"c1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	chatUnknown  = `{"note":"the worker was lost"}`
	messageStart = `{"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":1}}}`
	chatBroken   = `{"id":"c1","object":"chat.cdata: {"id":"c1","choices":[{"index":0,"delta":{"content":"x"}}]}`
)

// requests are a request of each protocol that the helpers read.
var requests = map[string]string{
	"/v1/chat/completions": `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`,
	"/v1/responses":        `{"model":"m","stream":true,"input":"x"}`,
	"/v1/messages":         `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"x"}]}`,
}

// otherAnswers returns answers for what the catalogue's do not have: waits and servers in front
// of the provider by their headers, and facts about tools.
func otherAnswers() (answers []answer) {
	for i, headers := range []map[string]string{
		{"Retry-After": "7"},
		{"Retry-After": "7200"},
		{"Retry-After": "soon"},
		{"Retry-After-Ms": "1500", "Retry-After": "7"},
		{"Retry-After": "Sat, 28 Nov 2026 12:00:30 GMT", "Date": "Sat, 28 Nov 2026 12:00:00 GMT"},
		{"Anthropic-Ratelimit-Tokens-Remaining": "0", "Anthropic-Ratelimit-Tokens-Reset": "2026-11-28T12:01:00Z", "Date": "Sat, 28 Nov 2026 12:00:00 GMT"},
		{"Anthropic-Ratelimit-Unified-Status": "rejected", "Anthropic-Ratelimit-Unified-Reset": "1795867300", "Date": "Sat, 28 Nov 2026 12:00:00 GMT"},
		{"X-Should-Retry": "false"},
		{"X-Should-Retry": "true"},
		{"Cf-Mitigated": "challenge"},
		{"Server": "nginx/1.25.3"},
		{"Server": "uvicorn"},
		{"Via": "1.1 proxy"},
		{"Cf-Ray": "8f0c1e2d3a4b5c6d-FRA"},
		{"Content-Type": "application/problem+json", "Server": "envoy"},
	} {
		for status, body := range map[int]string{
			429: `{"error":{"message":"slow down, try again in 2m3.5s"}}`, 400: `{"error":{"message":"x"}}`, 503: "", 502: "<html>", 500: "Internal error", 407: "", 524: "",
		} {
			answers = append(answers, answer{fmt.Sprintf("headers %d", i), false, "/v1/messages", requests["/v1/messages"], status, headers, body})
		}
	}
	stream := func(name, path, request string, events ...string) {
		body := "data: " + strings.Join(events, "\n\ndata: ") + "\n\n"
		answers = append(answers, answer{name, false, path, request, 200, map[string]string{"Content-Type": "text/event-stream"}, body})
	}
	for i, events := range [][]string{
		{`{"text":"Internal error","error_code":50001}`},
		{chatText, `{"text":"Internal error","error_code":"50001"}`},
		{`{"error_code":0,"text":"x"}`},
		{`{"error_code":336003,"error_msg":"the max length of current question is 300"}`},
		{chatRole, chatUnknown},
		{chatText, chatUnknown},
		{chatText, chatUnknown, chatText},
		{chatUnknown, chatText},
		{chatUnknown},
		{chatText, chatUnknown, chatStop},
		{chatText, chatStop, chatUnknown},
		{chatText, `{"metadata":{"n":[1,""]}}`},
		{chatText, chatBroken, chatStop},
		{chatText, chatStop, chatBroken},
		{chatBroken, chatText, chatStop},
		{chatText, chatBroken},
		{chatText, "ping", chatStop},
		{chatText, `{"id":"c1","choices":[{"index":0,"delta":{"content":"x"},"logprobs":nil}]}`, chatStop},
	} {
		stream(fmt.Sprintf("objects %d", i), "/v1/chat/completions", requests["/v1/chat/completions"], append(events, "[DONE]")...)
	}
	behind := `{"type":"error","sequence_number":0,"error":{"type":"upstream_error","message":"stream_read_error"}}`
	for i, half := range []string{`{"type":"response.completed","response":{"id":"resp_1","out`, `{"type":"response.output_text.delta","del`} {
		stream(fmt.Sprintf("an error behind half an event %d", i), "/v1/responses", requests["/v1/responses"],
			`{"type":"response.created","response":{"id":"resp_1","model":"m"}}`, half+"\ndata: "+behind)
	}
	for _, output := range []string{`[]`, `[{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"x"}]}]`} {
		stream("a broken delta", "/v1/responses", requests["/v1/responses"],
			`{"type":"response.created","response":{"id":"resp_1","model":"m"}}`, `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","content":[]}}`,
			`{"type":"response.output_text.delta","output_index":0,"item_id":"msg_1","delta":"x"}`, `{"type":"response.output_text.delta","output_index":0,"item_id":"msg_1","delta":"x`,
			`{"type":"response.completed","response":{"id":"resp_1","model":"m","status":"completed","output":`+output+`}}`)
	}
	for i, events := range [][]string{
		{`{"type":"response.failed","error":{"type":"invalid_request_error","message":"Selected model is at capacity. Please try a different model."}}`},
		{`{"type":"response.failed","is_gateway_error":false,"error":{"code":"server_error","message":"x"},"extra_fields":{}}`},
		{`{"type":"response.failed","response":{"id":"resp_1","status":"failed","error":null},"error":{"code":"insufficient_quota"}}`},
		{`{"type":"response.failed","response":{"id":"resp_1","status":"failed","error":{"code":"server_error"}},"error":{"code":"insufficient_quota"}}`},
		{`{"type":"response.failed","code":"server_error","message":"x"}`},
		{`{"type":"response.failed"}`},
		{`{"type":"response.error","response":{"id":"resp_1","status":"failed"},"error":{"code":"server_error","message":"x"}}`},
		{`{"code":"server_error","message":"x"}`},
		{`{"code":1,"message":"x"}`},
	} {
		stream(fmt.Sprintf("response.failed %d", i), "/v1/responses", requests["/v1/responses"],
			append([]string{`{"type":"response.created","response":{"id":"resp_1","model":"m"}}`}, events...)...)
	}
	for i, end := range []string{
		`{"type":"response.completed","response":{"id":"resp_1","output":[],"stop_reason":"length"}}`, `{"type":"response.completed","response":{"id":"resp_1","status":"incomplete","output":[]}}`,
		`{"type":"response.completed","response":{"id":"resp_1","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}}`,
		`{"type":"response.completed","response":{"id":"resp_1","status":"completed","stop_reason":"stop","output":[]}}`,
		`{"type":"response.incomplete","response":{"id":"resp_1","status":"incomplete","output":[]}}`,
		`{"type":"response.incomplete","response":{"id":"resp_1","status":"incomplete","stop_reason":"length","incomplete_details":{"reason":"content_filter"},"output":[]}}`,
	} {
		stream(fmt.Sprintf("an end that cuts %d", i), "/v1/responses", requests["/v1/responses"], `{"type":"response.created","response":{"id":"resp_1","model":"m"}}`,
			`{"type":"response.output_text.delta","output_index":0,"item_id":"msg_1","delta":"x"}`, end)
	}
	for _, none := range []string{"None", "null", "NONE", "none"} {
		text := strings.Replace(chatText, `:null`, `:"`+none+`"`, 1)
		stream("a reason "+none, "/v1/chat/completions", requests["/v1/chat/completions"], text, text, chatStop, "[DONE]")
		stream("a reason "+none+", and no other", "/v1/chat/completions", requests["/v1/chat/completions"], text, "[DONE]")
		stream("a reason "+none+", and no end", "/v1/chat/completions", requests["/v1/chat/completions"], text)
	}
	for path, begun := range map[string]string{"/v1/chat/completions": chatText, "/v1/responses": `{"type":"response.created","response":{"id":"resp_1","model":"m"}}`, "/v1/messages": messageStart} {
		for _, before := range []string{"", "data: " + begun + "\n\n"} {
			for _, after := range []string{"", "data: [DONE]\n\n"} {
				for _, nameless := range []string{"event: error\nid: 1\n\n", "event:error\ndata:\n\n"} {
					answers = append(answers, answer{"an error without data", false, path, requests[path], 200, map[string]string{"Content-Type": "text/event-stream"}, before + nameless + after})
				}
			}
		}
	}
	messageText := []string{
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`,
		`{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`,
	}
	messageCall := []string{
		`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"pay","input":{}}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":":1}"}}`, `{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`,
	}
	for i, first := range [][]string{messageText, messageCall} {
		for kept := range first {
			for _, second := range [][]string{messageText, messageCall, messageText[:2], {`{"type":"error","error":{"type":"overloaded_error"}}`}} {
				stream(fmt.Sprintf("another answer after %d of %d", kept, i), "/v1/messages", requests["/v1/messages"],
					slices.Concat([]string{messageStart}, first[:kept], []string{strings.Replace(messageStart, "msg_1", "msg_2", 1)}, second)...)
				stream(fmt.Sprintf("message_start again after %d of %d", kept, i), "/v1/messages", requests["/v1/messages"],
					slices.Concat([]string{messageStart}, first[:kept], []string{messageStart}, first[kept:])...)
			}
		}
	}
	for _, input := range []string{
		`{\"a\":1}`, `{\"a\":`, `no JSON`, ``, `undefined`, `nan`, `NaN`, `Infinity`, `null`, `nul`, `nulls`, `true`, `-1.5e3`, `1 2`, `7`, ` {} `, `{}{}`, `{},`, `[1,2]`, `[1,]`, `[,1]`, `[1 2]`, `[}`,
		`{\"a\":undefined}`, `{\"a\":NaN}`, `{a:1}`, `{'a':1}`, `{\"a\":1,}`, `{\"a\" 1}`, `{\"a\":1 \"b\":2}`, `{\"a\":{\"b\":[true,false,null,\"\\\"}\"]}}`, `{\"a\":\"\\x\"}`,
		`{\"a\":\"\\u00g0\"}`, `{\"a\":\"\\u00e0\"}`, `{\"a\":\"\n\"}`, `{\"a\": // \n 1}`, `\"text\"`, `\"text`, `:`, `{\"a\":tru}`, `\u00a0{}`,
		strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 65) + "!", strings.Repeat("[", 64) + "!",
	} {
		stream("a call with "+input, "/v1/chat/completions", `{"model":"m","stream":true,"max_completion_tokens":50,"max_tokens":60,"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"pay"}}]}`,
			`{"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"pay","arguments":""}}]},"finish_reason":null}]}`,
			`{"id":"c1","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"`+input+`"}}]},"finish_reason":null}]}`,
			`{"id":"c1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, `[DONE]`)
		stream("a call with "+input, "/v1/responses", `{"model":"m","stream":true,"max_output_tokens":50,"input":"x","tools":[{"type":"function","name":"pay"},{"type":"web_search"}]}`,
			`{"type":"response.created","response":{"id":"resp_1","model":"m"}}`,
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"web_search_call","id":"ws_1","status":"in_progress"}}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"web_search_call","id":"ws_1","status":"completed"}}`,
			`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"pay","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","output_index":1,"item_id":"fc_1","delta":"`+input+`"}`,
			`{"type":"response.function_call_arguments.done","output_index":1,"item_id":"fc_1","arguments":"`+input+`"}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"pay","arguments":"`+input+`","status":"completed"}}`,
			`{"type":"response.completed","response":{"id":"resp_1","model":"m","status":"completed","output":[]}}`)
		stream("a call with "+input, "/v1/messages", `{"model":"m","stream":true,"max_tokens":50,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"toolu_0","name":"look","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_0"}]}],"tools":[{"name":"pay","input_schema":{}},{"type":"code_execution_20250825","name":"code_execution"}]}`,
			`{"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"bash_code_execution","input":{}}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"pay","input":{}}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"`+input+`"}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`)
	}
	return answers
}

// periodAnswers returns refusals with each word of periods.yaml, in a message and in a code, near and
// not near a limit.
func periodAnswers(t *testing.T) (answers []answer) {
	file, err := os.ReadFile(filepath.Join(built.Root(t), "otelllm", "internal", "catalogue", "periods.yaml"))
	require.NoError(t, err)
	var lists map[string][]string
	require.NoError(t, yaml.Unmarshal(file, &lists))
	texts := []string{
		"tokens per minute (TPM) limit exceeded; the daily limit is 5", "Your daily token count is fine. A limit was hit",
		"daily " + strings.Repeat("x ", 21) + "limit", "daily " + strings.Repeat("x ", 21) + " limit", "daily " + strings.Repeat("x ", 21) + "a limit",
		"limit " + strings.Repeat("限", 15) + " daily", "limit " + strings.Repeat("限", 16) + " daily",
		strings.Repeat("every day ", 15) + strings.Repeat("x", 60) + " weekly limit", strings.Repeat("every day ", 16) + strings.Repeat("x", 60) + " weekly limit",
		"15 hours 5h limit", "x5h limit", "1.5h quota", "user_weekly-rate", "usage_limit_reached_monthly_2",
	}
	for list, words := range lists {
		for _, word := range words {
			word = strings.ReplaceAll(word, "#", "15")
			for _, form := range map[string][]string{
				"long":    {"Your %s limit", "You have used all tokens %s", "x%s limit", "%sx limit", "%s limit, 5 per minute", "quota: %s。限制"},
				"short":   {"Your %s limit", "quota %s, and a daily limit", "x%s limit of a week"},
				"limits":  {"The %ss of this month", "per day: 5%s", "session %s", "plan usage %s", "weekly; %s"},
				"counted": {"All %s of today", "All %s of today reached", "weekly_%s"},
				"spent":   {"%s the messages of this week", "x%s the messages of this week"},
				"owners":  {"Your %s limit", "Your %s usage quota", "Your %s usage", "Your %s usage ", "Your %s", "x%s limit", "%s and limit", "限制 %s 上限"},
			}[list] {
				texts = append(texts, fmt.Sprintf(form, word))
			}
		}
	}
	for _, text := range texts {
		for _, said := range []map[string]string{{"message": text}, {"code": strings.ReplaceAll(text, " ", "_")}} {
			body, err := json.Marshal(map[string]any{"error": said})
			require.NoError(t, err)
			for _, status := range []int{429, 404} {
				answers = append(answers, answer{text, false, "/v1/messages", requests["/v1/messages"], status, map[string]string{"Content-Type": "application/json"}, string(body)})
			}
		}
	}
	for _, after := range []string{"0", "600", "601"} { // a window that slides passes
		answers = append(answers, answer{"a wait of " + after, false, "/v1/messages", requests["/v1/messages"], 429, map[string]string{"Retry-After": after}, "Your weekly limit"})
	}
	return answers
}

// quotingAnswers returns answers of gateways that quote the status of a provider.
func quotingAnswers() (answers []answer) {
	for _, said := range []string{
		"Error code: 400", "HTTP 429", "status of 403", "'status': '404'", `"status_code":"422"`, "code (401)", "http=413", "error 400", "4001", "code 4001", "code: 502",
		"code 400, code 400", "code 400, code 404", "code 400, code 502", "code 400; error doing the fallback: code 404",
		"litellm.BadRequestError", "litellm.UnprocessableEntityError", "litellm.AuthenticationError", "litellm.PermissionDeniedError", "litellm.NotFoundError",
		"litellm.RateLimitError", "litellm.RateLimitError, code 429", "litellm.RateLimitError, code 400", "litellm.Timeouterror", "xlitellm.RateLimitError", "错误code: 400错误",
		"400 Bad Request", "HTTP 403 Forbidden", "401 unauthorized, 403 forbidden", "404 pages", "4429 Too Many Requests", "502 Bad Gateway",
		strings.Repeat("code: 502 ", 15) + "code: 400", strings.Repeat("code: 502 ", 16) + "code: 400",
	} {
		for _, body := range []map[string]any{
			{"error": map[string]any{"message": said}},
			{"error": map[string]any{"message": said, "type": "server_error"}},
			{"error": map[string]any{"message": "a", "metadata": map[string]any{"raw": said}}},
			{"message": "a", "detail": said, "code": 503},
		} {
			for _, status := range []int{200, 402, 429, 500, 503} {
				text, _ := json.Marshal(body)
				answers = append(answers, answer{said, false, "/v1/messages", requests["/v1/messages"], status, map[string]string{"Content-Type": "application/json"}, string(text)})
			}
		}
	}
	return answers
}

// mediaOf returns the Content-Type that servers send with a body.
func mediaOf(body string) string {
	switch {
	case strings.HasPrefix(body, "<"):
		return "text/html"
	case json.Valid([]byte(body)):
		return "application/json"
	default:
		return "text/plain"
	}
}

// userAgent is that of the agents, of which the first product is recorded.
const userAgent = "coder/1.2.3 (host of alice)"

// factsInGo returns what the transport records of an answer.
func factsInGo(t *testing.T, a *answer) map[string]any {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	transport := otelllm.NewTransport(answering{a}, otelllm.WithTracerProvider(provider), otelllm.WithoutInferredRuns())
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "https://model.example"+a.Path, strings.NewReader(a.Request))
	require.NoError(t, err)
	req.Header.Set("User-Agent", userAgent)
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Len(t, spans.Ended(), 1)
	facts := map[string]any{}
	for _, kv := range spans.Ended()[0].Attributes() {
		facts[string(kv.Key)] = kv.Value.AsInterface()
	}
	text, err := json.Marshal(facts)
	require.NoError(t, err)
	facts = nil
	require.NoError(t, json.Unmarshal(text, &facts))
	return facts
}

// answering is a server that always gives one answer.
type answering struct{ answer *answer }

// RoundTrip implements [http.RoundTripper].
func (s answering) RoundTrip(req *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, req.Body)
	header := http.Header{}
	for name, value := range s.answer.Headers {
		header.Set(name, value)
	}
	return &http.Response{
		StatusCode: s.answer.Status, Header: header, Body: io.NopCloser(strings.NewReader(s.answer.Body)), ContentLength: int64(len(s.answer.Body)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
	}, nil
}

// timed are the facts that are times of this run of the test.
var timed = regexp.MustCompile(`^llm\.stream\.(time_to_|last_progress|longest_gap)`)

// compared returns the facts that have to be the same.
func compared(facts map[string]any) map[string]any {
	same := map[string]any{}
	for name, value := range facts {
		if !strings.HasPrefix(name, "llm.") && name != "gen_ai.request.max_tokens" && name != "user_agent.original" || timed.MatchString(name) {
			continue
		}
		same[name] = value
	}
	return same
}

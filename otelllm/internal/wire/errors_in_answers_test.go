package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// TestErrorsInAnswers: errors under the status 200, in forms that hide them.
func TestErrorsInAnswers(t *testing.T) {
	const text = `data: {"id":"x","choices":[{"index":0,"delta":{"content":"Hello"}}]}` + "\n\n"
	for _, tt := range []struct {
		name, protocol, media, body string
		code, typ                   string
	}{
		{"llama.cpp's field", "openai_chat", "text/event-stream", "error: {\"code\":400,\"message\":\"too long\",\"type\":\"exceed_context_size_error\"}\n\ndata: [DONE]\n\n", "400", "exceed_context_size_error"},
		{"the field after text", "openai_chat", "text/event-stream", text + "error: {\"code\":500,\"message\":\"x\",\"type\":\"server_error\"}\n\n", "500", "server_error"},
		{"the field on lines", "openai_chat", "text/event-stream", "error: {\n  \"code\": 503,\n  \"type\": \"unavailable_error\"\n}\n\n", "503", "unavailable_error"},
		{"MiniMax", "openai_chat", "application/json", `{"id":"x","choices":null,"usage":null,"base_resp":{"status_code":1008,"status_msg":"x"}}`, "base_resp.1008", ""},
		{"MiniMax in a stream", "openai_chat", "text/event-stream", `data: {"id":"x","choices":null,"base_resp":{"status_code":1002,"status_msg":"x"}}` + "\n\n", "base_resp.1002", ""},
		{"a flat code", "openai_chat", "application/json", `{"code":1005,"msg":"exceed quota limit"}`, "1005", ""},
		{"a flat code in a stream", "openai_chat", "text/event-stream", `data: {"code":"Throttling.AllocationQuota","message":"x"}` + "\n\n", "Throttling.AllocationQuota", ""},
		{"a flat status, Anthropic", "anthropic_messages", "application/json", `{"statusCode":429,"message":"x"}`, "", ""},
		{"a bare line", "openai_chat", "text/event-stream", `{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}` + "\n", "503", "UNAVAILABLE"},
		{"without a type, Responses", "openai_responses", "text/event-stream", "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\ndata: {\"error\":{\"type\":\"insufficient_quota\",\"code\":\"insufficient_quota\"}}\n\n", "insufficient_quota", "insufficient_quota"},
		{"without a type, Messages", "anthropic_messages", "text/event-stream", "data: {\"error\":{\"message\":\"x\",\"code\":\"401\"}}\n\n", "401", ""},
		{"FastChat", "openai_chat", "text/event-stream", "data: {\"text\":\"x\",\"error_code\":50001}\n\ndata: [DONE]\n\n", "50001", ""},
		{"FastChat, after text", "openai_chat", "text/event-stream", text + "data: {\"text\":\"x\",\"error_code\":50002}\n\ndata: [DONE]\n\n", "50002", ""},
		{"Qianfan", "openai_chat", "application/json", `{"error_code":336003,"error_msg":"x"}`, "336003", ""},
		{"behind half an event, Responses", "openai_responses", "text/event-stream", "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\nevent: response.completed\ndata: {\"type\":\"response.comp\ndata: {\"type\":\"error\",\"error\":{\"type\":\"upstream_error\"}}\n\n", "", "upstream_error"},
		{"behind half an event, Chat", "openai_chat", "text/event-stream", text + "data: {\"id\":\"x\",\"cho\ndata: {\"error\":{\"code\":\"server_error\"}}\n\n", "server_error", ""},
		{"behind half an event, Messages", "anthropic_messages", "text/event-stream", "data: {\"type\":\"message_st\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n", "", "overloaded_error"},
		// https://github.com/Wei-Shaw/claude-relay-service/issues/998
		{"a text beside a code, Messages", "anthropic_messages", "text/event-stream", "event: error\ndata: {\"error\":\"x\",\"code\":\"insufficient_quota\",\"status\":429}\n\n", "insufficient_quota", ""},
		{"a text beside a type, Responses", "openai_responses", "text/event-stream", "event: error\ndata: {\"error\":\"x\",\"error_type\":\"y\",\"code\":\"insufficient_quota\"}\n\n", "insufficient_quota", ""},
		{"a text beside a code, Chat", "openai_chat", "text/event-stream", text + "data: {\"error\":\"x\",\"code\":\"insufficient_quota\"}\n\n", "insufficient_quota", ""},
		{"a text beside a code, Gemini", "gemini", "text/event-stream", "data: {\"error\":\"x\",\"code\":\"insufficient_quota\"}\n\n", "insufficient_quota", ""},
		{"a text beside a code, Ollama", "ollama", "application/x-ndjson", "{\"error\":\"x\",\"code\":\"insufficient_quota\"}\n", "insufficient_quota", ""},
		{"a text beside a provider's error", "anthropic_messages", "text/event-stream", "event: error\ndata: {\"error\":\"x\",\"details\":\"{\\\"error\\\":{\\\"type\\\":\\\"overloaded_error\\\"}}\"}\n\n", "", "overloaded_error"},
		{"a bare flat line", "openai_chat", "text/event-stream", text + `{"type":"overloaded_error","message":"x"}` + "\n\n", "", "overloaded_error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, ok := ByName(tt.protocol)
			require.True(t, ok)
			for size := 1; size <= len(tt.body); size += max(1, len(tt.body)-1) { // byte by byte, and in one piece
				d := p.NewDecoder(tt.media)
				for at := 0; at < len(tt.body); at += size {
					d.Write([]byte(tt.body[at:min(len(tt.body), at+size)]))
				}
				d.Close()
				st := d.State()
				require.NotNil(t, st.Err)
				assert.Equal(t, tt.code, st.Err.Code)
				assert.Equal(t, tt.typ, st.Err.Type)
				assert.False(t, st.Complete)
			}
		})
	}
}

// TestNoErrorsInAnswers: what looks like an error, but is not one.
func TestNoErrorsInAnswers(t *testing.T) {
	for name, body := range map[string]string{
		"MiniMax's success":       `{"id":"x","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"insufficient balance (1008)"}}],"base_resp":{"status_code":0,"status_msg":""}}`,
		"text about an error":     `{"id":"x","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"{\"error\":{\"code\":\"insufficient_quota\"}}"}}]}`,
		"an answer with a code":   `{"id":"x","code":"insufficient_quota","message":"prompt is too long","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"x"}}]}`,
		"an empty list of errors": `{"id":"x","error":[],"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"x"}}]}`,
		"an error of null":        `{"id":"x","error":null,"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"x"}}]}`,
		"an empty answer":         `{"id":"x","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":""}}]}`,
		"a job's state":           `{"id":"x","status":"cancelled"}`,
		"another object":          `{"id":"x","content":"my own words: quota","stop":true}`,
		"FastChat's success":      `{"text":"max_tokens must be at least 1, got -1","error_code":0}`,
	} {
		p, _ := ByName("openai_chat")
		d := p.NewDecoder("application/json")
		d.Write([]byte(body))
		d.Close()
		assert.Nil(t, d.State().Err, name)
	}
}

// TestUnknownObjectAndNoReason: an answer in which an object of an unknown form came, and not one
// finish reason, has not reached a good end.
func TestUnknownObjectAndNoReason(t *testing.T) {
	const (
		role  = `{"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`
		text  = `{"id":"x","choices":[{"index":0,"delta":{"content":"Hello"}}]}`
		stop  = `{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		usage = `{"id":"x","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`
		half  = `{"id":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]}}]}`
		done  = "[DONE]"
	)
	unknown := []string{`{"note":"the worker was lost"}`, `{"id":"x","output":"sorry"}`, `{"model":"m","result":{"text":"sorry"}}`}
	for _, object := range unknown {
		for _, tt := range []struct {
			name    string
			reasons []string
			events  []string
		}{
			{"in place of an answer", []string{finishUnrecognized}, []string{role, object, done}},
			{"after text", []string{finishUnrecognized}, []string{role, text, object, done}},
			{"between texts", []string{finishUnrecognized}, []string{text, object, text, done}},
			{"before the answer", []string{finishUnrecognized}, []string{object, text, done}},
			{"before the usage", []string{finishUnrecognized}, []string{text, object, usage, done}},
			{"within a call", []string{}, []string{text, half, object, done}},
			{"before a reason", []string{"stop"}, []string{text, object, stop, done}},
			{"after a reason", []string{"stop"}, []string{text, stop, object, done}},
			{"alone", []string{}, []string{object, done}},
		} {
			p, _ := ByName("openai_chat")
			st := decode(p, sseType, "data: "+strings.Join(tt.events, "\n\ndata: ")+"\n\n")
			assert.Equal(t, tt.reasons, st.FinishReasons, "%s %s", object, tt.name)
			assert.Equal(t, len(tt.reasons) > 0, st.Complete, "%s %s", object, tt.name)
			assert.True(t, st.Unread, "%s %s", object, tt.name)
		}
	}
	assert.False(t, classify.KnownFinish(finishUnrecognized))
}

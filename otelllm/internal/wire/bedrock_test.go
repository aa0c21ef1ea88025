package wire

import (
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

// packet returns an AWS event-stream message with these headers, names and values alternating.
func packet(payload string, headers ...string) string {
	var h []byte
	for i := 0; i < len(headers); i += 2 {
		h = append(append(append(h, byte(len(headers[i]))), headers[i]...), 7)
		h = append(binary.BigEndian.AppendUint16(h, uint16(len(headers[i+1]))), headers[i+1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(12+len(h)+len(payload)+4))
	b = binary.BigEndian.AppendUint32(b, uint32(len(h)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, h...), payload...)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

func frame(event, payload string) string {
	return packet(payload, ":event-type", event, ":content-type", "application/json", ":message-type", "event")
}

func exception(name, payload string) string {
	return packet(payload, ":exception-type", name, ":content-type", "application/json", ":message-type", "exception")
}

func TestBedrock(t *testing.T) {
	const (
		callReady = semconv.PhaseToolCallReady
		malformed = semconv.TransportCauseMalformedEvent
	)
	start := frame("messageStart", `{"role":"assistant","p":"abc"}`)
	delta := func(index, d string) string {
		return frame("contentBlockDelta", `{"contentBlockIndex":`+index+`,"delta":`+d+`,"p":"abcdef"}`)
	}
	blockStop := func(index string) string {
		return frame("contentBlockStop", `{"contentBlockIndex":`+index+`}`)
	}
	stop := func(reason string) string { return frame("messageStop", `{"stopReason":"`+reason+`"}`) }
	tool := func(index, id string) string {
		return frame("contentBlockStart", `{"contentBlockIndex":`+index+`,"start":{"toolUse":{"toolUseId":"`+id+`","name":"f"}}}`)
	}
	metadata := frame("metadata", `{"usage":{"inputTokens":10,"outputTokens":15,"cacheReadInputTokens":3000,"cacheWriteInputTokens":200,"serverToolUsage":{}},"metrics":{"latencyMs":7}}`)
	used := func(s *State) {
		s.Usage = Usage{Input: 3210, Output: 15, CacheRead: 3000, CacheCreation: 200, Reasoning: -1}
	}
	hi := delta("0", `{"text":"hi"}`)
	think := delta("0", `{"reasoningContent":{"text":"hm"}}`)
	input := delta("1", `{"toolUse":{"input":"{\"a\":1}"}}`)
	input2 := delta("2", `{"toolUse":{"input":"{\"a\""}}`)
	throttled := exception("throttlingException", `{"message":"secret, try again in 2s"}`)

	tests := []decodeTest{
		{"begun", awsType, start, events(1)},
		{"text", awsType, start + hi + delta("0", `{"text":" \u00e9"}`) + delta("0", `{"text":""}`), all(events(4), texts(2), phase(semconv.PhaseText))},
		{"a whole answer", awsType, start + hi + blockStop("0") + stop("end_turn") + metadata, all(events(5), texts(1), used, ended("end_turn"))},
		{"metadata before the end", awsType, hi + metadata + stop("end_turn"), all(events(3), texts(1), used, ended("end_turn"))},
		{"without metadata", awsType, hi + stop("max_tokens"), all(events(2), texts(1), ended("max_tokens"))},
		{"a stop without a reason", awsType, hi + frame("messageStop", `{}`), all(events(2), texts(1), phase(semconv.PhaseText), terminal)},
		{"a reason that is a text", awsType, stop("because of you"), all(events(1), unread, ended("redacted"))},
		{"content after the stop", awsType, hi + stop("end_turn") + hi + tool("1", "a") + throttled, all(events(5), texts(2), calls("a"), unread, ended("end_turn"))},
		{"an unknown piece", awsType, delta("0", `{"poem":"hi"}`), all(events(1), unread)},
		{"an unknown event", awsType, frame("news", `{"delta":{"text":"hi"}}`), all(events(1), unread)},
		{"a heartbeat", awsType, packet("") + frame("x", ""), keepalives(2)},

		{"reasoning", awsType, think + think, all(events(2), thoughts(2), phase(semconv.PhaseReasoning))},
		{"a signature", awsType, think + delta("0", `{"reasoningContent":{"signature":"abc"}}`) + delta("0", `{"reasoningContent":{"signature":"def"}}`), all(events(3), thoughts(1), phase(semconv.PhaseReasoning))},
		{"redacted reasoning", awsType, delta("0", `{"reasoningContent":{"redactedContent":"abc"}}`), all(events(1), thoughts(1), phase(semconv.PhaseReasoning))},
		{"a picture", awsType, strings.Repeat(delta("0", `{"image":{"source":{"bytes":"AAAA"}}}`), 2), all(events(2), texts(2), phase(semconv.PhaseText))},

		{"a call begun", awsType, tool("1", "a"), all(events(1), calls("a+"), phase(semconv.PhaseToolCallReady))},
		{"a call's input", awsType, tool("1", "a") + delta("1", `{"toolUse":{"input":"{\"a\""}}`) + delta("1", `{"toolUse":{"input":"x"}}`), all(events(3), calls("a+"), phase(callReady))},
		{"a call complete", awsType, tool("1", "a") + input + blockStop("1"), all(events(3), calls("a+"), phase(callReady))},
		{"a call handed over", awsType, tool("1", "a") + input + blockStop("1") + stop("tool_use"), all(events(4), calls("a!"), ended("tool_use"))},
		{"two calls, one open", awsType, tool("1", "a") + tool("2", "b") + blockStop("1") + input2 + hi, all(events(5), calls("a+", "b+"), texts(1), phase(semconv.PhaseText))},
		{"a call cut by a limit", awsType, tool("1", "a") + blockStop("1") + tool("2", "b") + input2 + stop("max_tokens"), all(events(5), calls("a+", "b"), ended("max_tokens"))},
		{"a call that was malformed", awsType, tool("1", "a") + blockStop("1") + stop("malformed_tool_use"), all(events(3), calls("a+"), phase(callReady), finished("malformed_tool_use"), failed(Error{Type: "malformed_tool_use"}))},
		{"input of an unknown call", awsType, input + stop("end_turn"), all(events(2), unread, ended("end_turn"))},
		{"a call whose id is a text", awsType, tool("1", "an id"), all(events(1), calls(SafeID("an id")+"+"), phase(semconv.PhaseToolCallReady))},
		{"provider's tools", awsType, frame("contentBlockStart", `{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"a","name":"nova_grounding","type":"server_tool_use"}}}`) + input + blockStop("1"), all(events(3), providerTools(1, "nova_grounding"))},

		{"an exception", awsType, hi + throttled, all(events(2), texts(1), phase(semconv.PhaseText), failed(Error{Type: "throttlingException", RetryAfter: 2e9}))},
		{"an exception of the model", awsType, exception("modelStreamErrorException", `{"message":"x","originalStatusCode":424,"originalMessage":"secret"}`), all(events(1), failed(Error{Type: "modelStreamErrorException"}))},
		{"an exception without a payload", awsType, exception("serviceUnavailableException", ""), all(events(1), failed(Error{Type: "serviceUnavailableException"}))},
		{"an error", awsType, packet("", ":message-type", "error", ":error-code", "503", ":error-message", "secret"), all(events(1), failed(Error{Code: "503", Status: 503}))},
		{"an error with a payload", awsType, packet(`{"type":"t"}`, ":message-type", "error", ":error-code", "503"), all(events(1), failed(Error{Type: "t", Code: "503", Status: 503}))},
		{"an exception with a code", awsType, exception("throttlingException", `{"code":"c"}`), all(events(1), failed(Error{Type: "throttlingException", Code: "c"}))},
		{"two exceptions", awsType, throttled + exception("validationException", "{}"), all(events(2), failed(Error{Type: "throttlingException", RetryAfter: 2e9}))},

		{"a checksum", awsType, hi + hi[:len(hi)-1] + "~" + hi, all(events(1), texts(1), phase(semconv.PhaseText), unread, violated(malformed))},
		{"not a payload", awsType, hi + frame("contentBlockDelta", `{"delta":`) + hi, all(events(2), texts(2), phase(semconv.PhaseText), broken)},
		{"text", awsType, "upstream connect error", violated(malformed)},
		{"html", awsType, "<html>", violated(semconv.TransportCauseUnexpectedContentType)},
		{"cut within a message", awsType, hi + hi[:len(hi)-1], all(events(1), texts(1), phase(semconv.PhaseText))},
		{"messages without a type", "none", hi + stop("end_turn"), all(events(2), texts(1), ended("end_turn"))},
		{"messages called json", jsonType, hi + stop("end_turn"), all(events(2), texts(1), ended("end_turn"))},
		{"an error in json", awsType, `{"error":{"type":"a"}}`, all(events(1), failed(Error{Type: "a"}))},
		{"as events of a gateway", sseType, "event: contentBlockDelta\ndata: {\"delta\":{\"text\":\"hi\"}}\n\nevent: messageStop\ndata: {\"stopReason\":\"end_turn\"}\n\n", all(events(2), texts(1), ended("end_turn"))},

		{
			"not streaming", jsonType, `{"output":{"message":{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"hm","signature":"x"}}},{"text":"hi"},{"toolUse":{"toolUseId":"a","name":"f","input":{"toolUseId":"no"}}}]}},"stopReason":"tool_use","usage":{"inputTokens":10,"outputTokens":15,"cacheReadInputTokens":3000,"cacheWriteInputTokens":200}}`,
			all(events(1), thoughts(1), texts(1), calls("a!"), used, ended("tool_use")),
		},
		{"not streaming, what is cited", jsonType, `{"output":{"id":"x","message":{"content":[{"citationsContent":{"citations":[{"title":"a"}],"content":[{"text":"hi"}]}},{"citationsContent":{"citations":[{"title":"a"}],"content":[]}}]}},"stopReason":"end_turn"}`, all(events(1), texts(1), ended("end_turn"))},
		{"not streaming, without a reason", jsonType, `{"output":{"message":{"content":[{"text":"hi"},{"toolUse":{"toolUseId":"a","name":"f"}}]}}}`, all(events(1), texts(1), calls("a+"), terminal)},
		{"not streaming, in another place", jsonType, `{"answer":"hi","stopReason":"end_turn"}`, all(events(1), unread, ended("end_turn"))},
		{"not streaming, nothing", jsonType, `{"output":{}}`, all(events(1), terminal)},
	}
	runDecodeTests(t, bedrockConverse{}, tests)
}

// AWS's client reports no error where the bytes stop, so a program may execute a call without
// arguments then, and reports a reset.
func TestConverseCutBeforeTheInput(t *testing.T) {
	for truncated, want := range map[bool]int{true: 1, false: 0} {
		d := bedrockConverse{}.NewDecoder(awsType)
		d.Write([]byte(frame("contentBlockStart", `{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"a","name":"f"}}}`)))
		d.Cut(truncated)
		assert.Equal(t, want, d.State().ToolInputsCompleted)
	}
}

func TestBedrockRequest(t *testing.T) {
	for _, tt := range []struct {
		path, model string
		stream      bool
	}{
		{"/model/us.anthropic.claude-x-v1:0/converse-stream", "us.anthropic.claude-x-v1:0", true},
		{"/model/us.anthropic.claude-x-v1:0/converse/", "us.anthropic.claude-x-v1:0", false},
		{"/prefix/model/arn:aws:bedrock:us-east-1:1:inference-profile/a.b/converse-stream", "arn:aws:bedrock:us-east-1:1:inference-profile/a.b", true},
		{"/model/a model/converse", "redacted", false},
		{"/model/us.anthropic.claude-x-v1%3A0/converse", "us.anthropic.claude-x-v1:0", false},
		{"/model/us.anthropic.claude-x-v1:0?X-Amz-Security-Token=t/converse", "us.anthropic.claude-x-v1:0", false},
		{"/model/us.anthropic.claude-x-v1%3A0%3FX-Amz-Security-Token=t/converse", "us.anthropic.claude-x-v1:0", false},
		{"/model/claude%zz/converse", "redacted", false},
	} {
		p, _, ok := Match("POST", tt.path)
		require.True(t, ok, tt.path)
		for _, body := range []string{`{"messages":[]}`, `{"messages":`, ""} {
			req, err := p.ReadRequest([]byte(body))
			assert.Equal(t, len(body) == 15, err == nil)
			assert.Equal(t, tt.model, req.Model, tt.path)
			assert.Equal(t, tt.stream, req.Stream, tt.path)
		}
	}
	runRequestTests(t, bedrockConverse{model: "m", stream: true, fromPath: true}, []requestTest{
		{"text", `{"system":[{"toolUse":{"toolUseId":"no"}}],"messages":[{"role":"user","content":[{"text":"toolUseId"}]}]}`, Request{Model: "m", Stream: true, HistoryCalls: none, HistoryOutputs: none}},
		{
			"history", `{"messages":[{"role":"assistant","content":[{"text":"x"},{"toolUse":{"toolUseId":"a","name":"f","input":{"toolUseId":"no"}}},{"toolUse":{"toolUseId":"my id"}},{"toolUse":{"toolUseId":"no","type":"server_tool_use"}}]},
			{"role":"user","content":[{"toolResult":{"toolUseId":"a","content":[{"text":"x"}],"status":"error"}},{"toolResult":{"toolUseId":"my id"}},{"toolResult":{"toolUseId":"no","type":"nova_grounding_result"}}]}]}`,
			Request{Model: "m", Stream: true, EndsWithOutputs: true, HistoryCalls: []string{"a", SafeID("my id")}, HistoryOutputs: []string{"a", SafeID("my id")}},
		},
		{"tools", `{"toolConfig":{"toolChoice":{"auto":{}},"tools":[{"toolSpec":{"name":"f"}},{"cachePoint":{}},{"systemTool":{"name":"nova_grounding"}}]}}`, Request{Model: "m", Stream: true, ProviderTools: []string{"nova_grounding"}, HistoryCalls: none, HistoryOutputs: none}},
	})
}

func TestBedrockReadError(t *testing.T) {
	assert.Equal(t, Error{Type: "ThrottlingException"}, bedrockConverse{}.ReadError(429, []byte(`{"__type":"com.amazon.coral.availability#ThrottlingException","message":"secret"}`)))
	assert.Equal(t, Error{Type: "ThrottlingException"}, bedrockConverse{}.ReadError(429, []byte(`{"__type":"ThrottlingException:http://internal.amazon.com/coral/","message":"secret"}`)))

	for _, tt := range []struct{ body, header, want string }{
		{`{"message":"secret"}`, "ValidationException:http://internal.amazon.com/coral/com.amazon.bedrock/", "ValidationException"},
		{`{"message":"secret"}`, "ThrottlingException", "ThrottlingException"},
		{`{"message":"secret"}`, "com.amazon.coral.service#AccessDeniedException", "AccessDeniedException"},
		{`{"__type":"A","message":"secret"}`, "B", "A"},
		{`{"message":"secret"}`, "", ""},
		{`{"message":"secret"}`, "throttlingexception", "throttlingexception"},
		{`{"message":"secret"}`, "NeverHeardOfException", ""},
		{`{"message":"secret"}`, "MoreThanAllowedPerDay", ""},
		{``, "s" + "k-9fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA", ""},
		{``, strings.Repeat("x", 1000), ""},
	} {
		h := http.Header{}
		h.Set("X-Amzn-ErrorType", tt.header)
		e := bedrockConverse{}.ReadError(400, []byte(tt.body))
		assert.Equal(t, Error{Type: tt.want, Foreign: tt.want == ""}, CompleteError(e, h.Get), tt.header)
	}
}

package wire

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm/internal/carry"
	"github.com/otelllm/otelllm-go/semconv"
)

func TestMessages(t *testing.T) {
	msg := response("msg_1", "claude-x")
	start := `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":200,"cache_read_input_tokens":3000,"cache_creation":{"ephemeral_5m_input_tokens":1},"output_tokens":1}}}`
	other := strings.Replace(start, "msg_1", "msg_2", 1)
	used := func(out int) func(*State) {
		return func(s *State) {
			s.Usage = Usage{Input: 3210, Output: out, CacheRead: 3000, CacheCreation: 200, Reasoning: -1}
		}
	}
	blockStart := func(index, block string) string {
		return `{"type":"content_block_start","index":` + index + `,"content_block":` + block + `}`
	}
	blockDelta := func(index, delta string) string {
		return `{"type":"content_block_delta","index":` + index + `,"delta":` + delta + `}`
	}
	blockStop := func(index string) string { return `{"type":"content_block_stop","index":` + index + `}` }
	text := func(s string) string { return blockDelta("0", `{"type":"text_delta","text":"`+s+`"}`) }
	textStart := blockStart("0", `{"type":"text","text":""}`)
	tool := blockStart("1", `{"type":"tool_use","id":"toolu_a","name":"f","input":{}}`)
	open := blockDelta("1", `{"type":"input_json_delta","partial_json":"{\"a\""}`)
	input := blockDelta("1", `{"type":"input_json_delta","partial_json":"{\"a\":1}"}`)
	emptyInput := blockDelta("1", `{"type":"input_json_delta","partial_json":""}`)
	stop := func(reason string) string {
		return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},"usage":{"output_tokens":15}}`
	}
	out := func(s *State) { s.Usage.Output = 15 }
	end := `{"type":"message_stop"}`
	ping := `{"type":"ping"}`
	think := blockDelta("0", `{"type":"thinking_delta","thinking":"hm"}`)
	thinkStart := blockStart("0", `{"type":"thinking","thinking":"","signature":""}`)

	runDecodeTests(t, anthropicMessages{}, []decodeTest{
		{"begun", "", named(start), all(msg, events(1), used(-1))},
		{"text block", "", named(start, textStart), all(msg, events(2), used(-1))},
		{"text", "", named(start, textStart, text("hi"), text(" \\u00e9"), text("")), all(msg, events(5), used(-1), texts(2), phase(semconv.PhaseText))},
		{"text in the block's start", "", named(blockStart("0", `{"type":"text","text":"hi"}`)), all(events(1), texts(1), phase(semconv.PhaseText))},
		{"a whole answer", "", named(start, textStart, ping, text("hi"), blockStop("0"), stop("end_turn"), end), all(msg, events(6), keepalives(1), used(15), texts(1), ended("end_turn"))},
		{"without names", "", data(start, textStart, ping, text("hi"), blockStop("0"), stop("end_turn"), end), all(msg, events(6), keepalives(1), used(15), texts(1), ended("end_turn"))},
		{"without types", "", "event: message_delta\ndata: {\"delta\":{\"stop_reason\":\"end_turn\"}}\n\nevent: message_stop\ndata: {}\n\n", all(events(2), ended("end_turn"))},
		{"ping without data", "", "event: ping\n\n", keepalives(1)},
		{"the end without message_stop", "", named(text("hi"), blockStop("0"), stop("end_turn")), all(events(3), texts(1), ended("end_turn"), out)},
		{"message_stop without a stop_reason", "", named(text("hi"), end), all(events(2), texts(1), phase(semconv.PhaseText), terminal)},
		{"content after message_stop", "", named(stop("end_turn"), end, text("hi"), tool), all(events(4), texts(1), calls("toolu_a"), ended("end_turn"), unread, out)},
		{"[DONE] from a gateway", "", named(stop("end_turn"), end) + done, all(events(3), ended("end_turn"), out)},
		{"[DONE] proves nothing", "", named(text("hi")) + done, all(events(2), texts(1), phase(semconv.PhaseText))},
		{"refusal", "", named(start, stop("refusal"), end), all(msg, events(3), used(15), ended("refusal"))},
		{"paused", "", named(text("a"), stop("pause_turn"), end), all(events(3), texts(1), ended("pause_turn"), out)},
		{"unknown types", "", named(`{"type":"quantum_start","index":0}`, blockDelta("0", `{"type":"quantum_delta","content":"x"}`)), all(events(2), unread)},
		{"a compaction", "", named(blockStart("0", `{"type":"compaction","content":null}`), blockDelta("0", `{"type":"compaction_delta","content":"x"}`), blockStart("0", `{"type":"fallback","from":{"model":"a"}}`)), all(events(3), thoughts(1), phase(semconv.PhaseReasoning))},
		{"citations", "", named(text("a"), blockDelta("0", `{"type":"citations_delta","citation":{"cited_text":"secret"}}`)), all(events(2), texts(1), phase(semconv.PhaseText))},
		{"usage is cumulative", "", named(start, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":11,"output_tokens":2,"cache_read_input_tokens":0}}`), all(msg, events(2), ended("end_turn"), func(s *State) {
			s.Usage = Usage{Input: 211, Output: 2, CacheRead: 0, CacheCreation: 200, Reasoning: -1}
		})},

		{"usage of a cache alone", "", named(`{"type":"message_start","message":{"usage":{"input_tokens":0,"cache_read_input_tokens":5}}}`), all(events(1), func(s *State) { s.Usage.Input, s.Usage.CacheRead = 5, 5 })},
		{"a compaction in the block's start", "", named(blockStart("0", `{"type":"compaction","content":"x"}`)), all(events(1), thoughts(1), phase(semconv.PhaseReasoning))},
		{"a block with a member that is not known", "", named(blockStart("0", `{"type":"text","text":"","verse":"hi"}`)), all(events(1), unread)},
		{"a message with a member that is not known", "", named(`{"type":"message_start","message":{"id":"msg_1","model":"claude-x","poem":"hi","usage":null}}`), all(msg, events(1), unread)},

		{"thinking block", "", named(thinkStart), all(events(1), phase(semconv.PhaseReasoning))},
		{"thinking", "", named(thinkStart, think, think, blockDelta("0", `{"type":"signature_delta","signature":"s"}`), blockStop("0")), all(events(5), thoughts(2), phase(semconv.PhaseReasoning))},
		{"thinking that is left out", "", named(thinkStart, blockDelta("0", `{"type":"thinking_delta","thinking":""}`)), all(events(2), phase(semconv.PhaseReasoning))},
		{"redacted thinking", "", named(blockStart("0", `{"type":"redacted_thinking","data":"x"}`)), all(events(1), thoughts(1), phase(semconv.PhaseReasoning))},
		{"thinking, then text", "", named(thinkStart, think, blockStop("0"), text("a")), all(events(4), thoughts(1), texts(1), phase(semconv.PhaseText))},

		{"tool begun", "", named(tool), all(events(1), calls("toolu_a+"), phase(semconv.PhaseToolCallReady))},
		{"tool input under way", "", named(tool, emptyInput, open), all(events(3), calls("toolu_a"), phase(semconv.PhaseToolInput))},
		{"tool input complete", "", named(tool, input, blockStop("1")), all(events(3), calls("toolu_a+"), phase(semconv.PhaseToolCallReady))},
		{"stop reason, no message_stop", "", named(tool, input, blockStop("1"), stop("tool_use")), all(events(4), calls("toolu_a!"), ended("tool_use"), out)},
		{"tool handed over", "", named(tool, input, blockStop("1"), stop("tool_use"), end), all(events(5), calls("toolu_a!"), ended("tool_use"), out)},
		{"tool handed over without a stop_reason", "", named(tool, input, blockStop("1"), end), all(events(4), calls("toolu_a!"), phase(semconv.PhaseToolCallReady), terminal)},
		{"tool cut by the limit", "", named(tool, input, blockStop("1"), stop("max_tokens"), end), all(events(5), calls("toolu_a+"), ended("max_tokens"), out)},
		{"two tools", "", named(tool, blockStop("1"), blockStart("2", `{"type":"tool_use","id":"toolu_b","name":"g","input":{}}`)), all(events(3), calls("toolu_a+", "toolu_b/g+"), phase(semconv.PhaseToolCallReady))},
		{"two tools at once", "", named(tool, blockStart("2", `{"type":"tool_use","id":"toolu_b","name":"g","input":{}}`), input, blockStop("1")), all(events(4), calls("toolu_a+", "toolu_b/g+"), phase(semconv.PhaseToolCallReady))},
		{"text after a tool", "", named(tool, blockStop("1"), text("a")), all(events(3), texts(1), calls("toolu_a+"), phase(semconv.PhaseText))},
		{"another answer within a call", "", named(start, tool, open, other, tool, blockStop("1"), stop("tool_use"), end), all(msg, events(8), used(15), calls("toolu_a!~", "toolu_a!"), ended("tool_use"), spoiled)},
		{"another answer after a call", "", named(start, tool, input, blockStop("1"), other, textStart, text("a")), all(msg, events(7), used(-1), calls("toolu_a+"), texts(1), phase(semconv.PhaseText), spoiled)},
		{"another answer within a text", "", named(start, textStart, text("a"), other, textStart, text("b"), blockStop("0"), stop("end_turn"), end), all(msg, events(9), used(15), texts(2), ended("end_turn"), spoiled)},
		{"another answer after the end", "", named(textStart, text("a"), stop("end_turn"), end, `{"type":"message_start","message":{"id":"msg_2"}}`), all(events(5), texts(1), ended("end_turn"), out)},
		{"another answer after an error", "", named(textStart, text("a"), `{"type":"error","error":{"type":"api_error"}}`, other), all(events(4), texts(1), phase(semconv.PhaseText), failed(Error{Type: "api_error"}))},
		{"message_start again within the message", "", named(start, textStart, start, text("a"), start, blockStop("0"), stop("end_turn"), start, end), all(msg, events(9), used(15), texts(1), ended("end_turn"))},
		{"other messages before any block", "", named(start, other, textStart, text("a"), stop("end_turn"), end), all(msg, events(6), used(15), texts(1), ended("end_turn"))},
		{"message_start several times", "", named(start, start, ping, start, textStart, text("a"), blockStop("0"), stop("end_turn"), end), all(msg, events(8), keepalives(1), used(15), texts(1), ended("end_turn"))},
		{"a message that is whole at its start", "", named(`{"type":"message_start","message":{"id":"msg_1","model":"claude-x","content":[{"type":"tool_use","id":"toolu_a","name":"f","input":{},"caller":{"type":"code_execution_20250825","tool_id":"srvtoolu_1"}}],"stop_reason":"tool_use"}}`, end), all(msg, events(2), calls("toolu_a!"), ended("tool_use"))},
		{"a tool's id and name that are text", "", named(blockStart("1", `{"type":"tool_use","id":"my id","name":"my tool"}`)), all(events(1), calls(SafeID("my id")+"/redacted+"), phase(semconv.PhaseToolCallReady))},

		{"input of an unknown block", "", named(input), all(events(1), unread)},
		{"server tool", "", named(text("a"), blockStart("1", `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}`), input, blockStop("1"), blockStart("2", `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}`), blockStop("2")), all(events(6), texts(1), providerTools(1, "web_search"), phase(semconv.PhaseText))},
		{"mcp tool", "", named(blockStart("0", `{"type":"mcp_tool_use","id":"m","name":"echo","server_name":"s"}`), blockStart("1", `{"type":"mcp_tool_result","tool_use_id":"m","content":[{"type":"text","text":"secret"}]}`)), all(events(2), providerTools(1, "mcp"))},

		{"error", "", named(start, text("hi"), `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`), all(msg, events(3), used(-1), texts(1), phase(semconv.PhaseText), failed(Error{Type: "overloaded_error"}))},
		{"error without data", "", named(text("a")) + "event: error\nid: 1\n\n", all(events(2), texts(1), phase(semconv.PhaseText), failed(Error{}))},
		{"error without data, after message_stop", "", named(text("a"), stop("end_turn"), end) + "event: error\n\n", all(events(4), texts(1), ended("end_turn"), out)},
		{"error without data, cut", "", named(text("a")) + "event: error\nid: 1\n", all(events(1), texts(1), phase(semconv.PhaseText))},
		{"error by its name", "", "event: error\ndata: {\"error\":{\"type\":\"api_error\"}}\n\n", all(events(1), failed(Error{Type: "api_error"}))},
		{"error, flat", "", named(`{"type":"error","code":"overloaded_error","message":"x"}`), all(events(1), failed(Error{Code: "overloaded_error"}))},
		{"error without a type, flat", "", named(`{"code":429,"message":"x"}`), all(events(1), failed(Error{Code: "429", Status: 429}))},
		{"error in a tool's input", "", named(tool, open, `{"type":"error","error":{"type":"api_error"}}`), all(events(3), calls("toolu_a"), phase(semconv.PhaseToolInput), failed(Error{Type: "api_error"}))},
		{"message_stop after an error", "", named(tool, blockStop("1"), `{"type":"error","error":{"type":"api_error"}}`, stop("tool_use"), end), all(events(5), calls("toolu_a+"), phase(semconv.PhaseToolCallReady), failed(Error{Type: "api_error"}))},
		{"error after message_stop", "", named(stop("end_turn"), end, `{"type":"error","error":{"type":"api_error"}}`), all(events(3), ended("end_turn"), out)},

		{"a whole message", jsonType, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}`, all(msg, events(1), thoughts(1), texts(1), ended("end_turn"), func(s *State) { s.Usage.Input, s.Usage.Output = 1, 2 })},
		{"a whole message with tools", jsonType, `{"id":"msg_1","type":"message","model":"claude-x","content":[{"type":"server_tool_use","id":"s","name":"web_search"},{"type":"tool_use","id":"toolu_a","name":"f","input":{"id":"x","type":"y"}},{"type":"tool_use","id":"toolu_b","name":"f","input":{}}],"stop_reason":"tool_use"}`, all(msg, events(1), providerTools(1, "web_search"), calls("toolu_a!", "toolu_b!"), ended("tool_use"))},
		{"a whole message without a stop_reason", jsonType, `{"id":"msg_1","model":"claude-x","type":"message","content":[{"type":"text","text":"a"}],"stop_reason":null}`, all(msg, events(1), texts(1), terminal)},
		{"a whole message with a tool, without a stop_reason", jsonType, `{"id":"msg_1","model":"claude-x","content":[{"type":"tool_use","id":"toolu_a","name":"f"}]}`, all(msg, events(1), calls("toolu_a+"), terminal)},
		{"a whole message in another place", jsonType, `{"id":"msg_1","model":"claude-x","poem":"hi","stop_reason":"end_turn"}`, all(msg, events(1), unread, ended("end_turn"))},
		{"a whole message with a member that is not known", jsonType, `{"id":"msg_1","model":"claude-x","poem":"hi","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn"}`, all(msg, events(1), texts(1), ended("end_turn"))},
		{"a whole message, cut", jsonType, `{"id":"msg_1","type":"message","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn"`, nil},
		{"a whole error", jsonType, `{"type":"error","error":{"type":"not_found_error","message":"x"}}`, all(events(1), failed(Error{Type: "not_found_error"}))},
	})
}

func TestMessagesCRLF(t *testing.T) {
	body := strings.ReplaceAll(named(`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`), "\n", "\r\n")
	runDecodeTests(t, anthropicMessages{}, []decodeTest{{"crlf", "", body, all(events(2), ended("end_turn"))}})
}

// chunk wraps an event as InvokeModelWithResponseStream does.
func chunk(event string) string {
	return frame("chunk", `{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(event))+`","p":"abcdefghij"}`)
}

// A long event in a chunk does not stay in memory after the next event.
func TestMessagesInChunksKeepLittle(t *testing.T) {
	d := messagesDecoders.get(awsType, formMessages|formChunks)
	text := func(n int) {
		d.Write([]byte(chunk(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + strings.Repeat("x", n) + `"}}`)))
	}
	text(10)
	small := &d.inner[0]
	text(10)
	assert.Same(t, small, &d.inner[0], "a short one is written over the one before")
	text(10 * carry.Keep)
	text(10)
	assert.LessOrEqual(t, cap(d.inner), carry.Keep)
	assert.Equal(t, 4, d.State().TextChunks)
}

// Streams of Amazon Bedrock's InvokeModel.
func TestMessagesInChunks(t *testing.T) {
	start := chunk(`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"usage":{"input_tokens":10,"output_tokens":1}}}`)
	hi := chunk(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`)
	stop := chunk(`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}`) +
		chunk(`{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":10,"outputTokenCount":15}}`)
	tool := chunk(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}`) +
		chunk(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}`) +
		chunk(`{"type":"content_block_stop","index":1}`)
	msg := response("msg_1", "claude-x")
	used := func(s *State) {
		s.Usage = Usage{Input: 10, Output: 15, CacheRead: -1, CacheCreation: -1, Reasoning: -1}
	}
	runDecodeTests(t, anthropicMessages{}, []decodeTest{
		{"whole", awsType, start + hi + hi + stop, all(msg, used, events(5), texts(2), ended("end_turn"))},
		{"a call", awsType, hi + tool, all(events(4), texts(1), calls("a+"), phase(semconv.PhaseToolCallReady))},
		{"an exception", awsType, hi + exception("modelStreamErrorException", `{"message":"secret"}`), all(events(2), texts(1), phase(semconv.PhaseText), failed(Error{Type: "modelStreamErrorException"}))},
		{"an error of the model", awsType, hi + chunk(`{"type":"error","error":{"type":"overloaded_error"}}`), all(events(2), texts(1), phase(semconv.PhaseText), failed(Error{Type: "overloaded_error"}))},
		{"cut", awsType, hi + hi[:len(hi)-5], all(events(1), texts(1), phase(semconv.PhaseText))},
		{"something else in it", awsType, frame("chunk", `{"data":"aGk="}`), all(events(1), unread)},
		{"nothing in it", awsType, frame("chunk", `{}`), events(1)},
		{"not base64", awsType, hi + frame("chunk", `{"bytes":"e30=!"}`), all(events(1), texts(1), phase(semconv.PhaseText), broken)},
		{"not an event", awsType, frame("chunk", `{"bytes":"aGk="}`), broken},
		{"long", awsType, chunk(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+strings.Repeat("x", 9000)+`"}}`) + hi, all(events(2), texts(2), phase(semconv.PhaseText))},
		{"not streaming", jsonType, `{"id":"msg_1","type":"message","model":"claude-x","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":15}}`, all(msg, used, events(1), texts(1), ended("end_turn"))},
	})
}

package otelllm

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var fixtures = flag.String("fixtures", "", "folder of recorded streams, one folder a protocol; by default that of OTELLLM_FIXTURES")

// fixturesDir returns the folder of recorded streams, or "". It reads the variable when it
// is called and not at initialization, so that the go command records the dependency and
// does not use a cached result of another folder.
func fixturesDir() string {
	if *fixtures != "" {
		return *fixtures
	}
	return os.Getenv("OTELLLM_FIXTURES")
}

// stream is a model's answer, as the bytes of its events.
type stream struct {
	name   string
	path   string // of the request
	events []string
}

// streams returns the project's own streams and those of the folder of recorded streams,
// if one is named.
func streams(tb testing.TB) []stream {
	tb.Helper()
	all := ownStreams()
	dir := fixturesDir()
	if dir == "" {
		return all
	}
	for _, folder := range []string{"openai-chat", "openai-responses", "azure-openai", "anthropic-messages"} {
		files, err := filepath.Glob(filepath.Join(dir, folder, "*.jsonl"))
		require.NoError(tb, err)
		require.NotEmpty(tb, files, "no recorded streams in %s", filepath.Join(dir, folder))
		for _, file := range files {
			lines, err := os.ReadFile(file)
			require.NoError(tb, err)
			all = append(all, framed(tb, folder+"/"+strings.TrimSuffix(filepath.Base(file), ".jsonl"), lines)...)
		}
	}
	return all
}

// framed encodes payloads, one per line, as events. A file may hold the answers of several
// turns.
func framed(tb testing.TB, name string, lines []byte) (all []stream) {
	tb.Helper()
	current := stream{name: name}
	flush := func() {
		if current.path == chatPath {
			current.events = append(current.events, "data: [DONE]\n\n")
		}
		if len(current.events) > 0 {
			all = append(all, current)
		}
		current = stream{name: name}
	}
	for line := range bytes.Lines(lines) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		var payload struct{ Type string }
		require.NoError(tb, json.Unmarshal(line, &payload))
		event := "event: " + payload.Type + "\ndata: " + string(line) + "\n\n"
		switch {
		case payload.Type == "":
			current.path, event = chatPath, "data: "+string(line)+"\n\n"
		case strings.HasPrefix(payload.Type, "response."), payload.Type == "error" && current.path == responsesPath:
			current.path = responsesPath
		default:
			current.path = messagesPath
		}
		current.events = append(current.events, event)
		switch payload.Type {
		case "message_stop", "response.completed", "response.failed", "response.incomplete":
			flush()
		}
	}
	flush()
	return all
}

// ownStreams returns short answers with everything that matters: reasoning, text, tool
// calls, errors, and the ends of the protocols.
func ownStreams() []stream {
	chat := func(payloads ...string) (events []string) {
		for _, p := range payloads {
			events = append(events, "data: "+p+"\n\n")
		}
		return events
	}
	typed := func(payloads ...string) (events []string) {
		for _, p := range payloads {
			var payload struct{ Type string }
			_ = json.Unmarshal([]byte(p), &payload)
			events = append(events, "event: "+payload.Type+"\ndata: "+p+"\n\n")
		}
		return events
	}
	return []stream{
		{"own/chat", chatPath, chat(
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","model":"gpt-5-x","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
			`{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"reasoning_content":"Hm"},"finish_reason":null}]}`,
			`{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"I look"},"finish_reason":null}]}`,
			`{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"read_file","arguments":""}}]},"finish_reason":null}]}`,
			`{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"p\":1}"}}]},"finish_reason":null}]}`,
			`{"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
			`{"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":5},"completion_tokens_details":{"reasoning_tokens":2}}}`,
			`[DONE]`,
		)},
		{"own/chat without text", chatPath, chat(
			`{"id":"chatcmpl-2","model":"gpt-5-x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_2","type":"function","function":{"name":"read_file","arguments":"{}"}}]},"finish_reason":null}]}`,
			`{"id":"chatcmpl-2","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
			`[DONE]`,
		)},
		{"own/chat error then done", chatPath, chat(
			`{"id":"chatcmpl-3","model":"gpt-5-x","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`,
			`{"error":{"message":"secret","type":"server_error","code":"server_is_overloaded"}}`,
			`[DONE]`,
		)},
		{"own/responses", responsesPath, typed(
			`{"type":"response.created","response":{"id":"resp_1","model":"gpt-5-x","status":"in_progress"}}`,
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1"}}`,
			`{"type":"response.reasoning_summary_text.delta","output_index":0,"item_id":"rs_1","delta":"Hm"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1"}}`,
			`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"call_3","name":"read_file","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","output_index":1,"item_id":"fc_1","delta":"{}"}`,
			`{"type":"response.function_call_arguments.done","output_index":1,"item_id":"fc_1","arguments":"{}"}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"call_3","name":"read_file","arguments":"{}"}}`,
			`{"type":"response.completed","response":{"id":"resp_1","status":"completed","usage":{"input_tokens":3,"output_tokens":4}}}`,
		)},
		{"own/messages", messagesPath, typed(
			`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"usage":{"input_tokens":9,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"ping"}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I look"}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"read_file","input":{}}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{}"}}`,
			`{"type":"content_block_stop","index":2}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":8}}`,
			`{"type":"message_stop"}`,
		)},
	}
}

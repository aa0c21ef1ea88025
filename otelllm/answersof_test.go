package otelllm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	geminiPath   = "/v1beta/models/gemini-x:streamGenerateContent"
	bedrockPath  = "/model/anthropic.claude-x/converse-stream"
	ollamaPath   = "/api/chat"
	generatePath = "/api/generate"

	sseType   = "text/event-stream"
	jsonType  = "application/json"
	linesType = "application/x-ndjson"
	awsType   = "application/vnd.amazon.eventstream"
)

// wireKinds returns the protocols in each of their framings, without events.
func wireKinds() []wireStream {
	const contents = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
	const messages = `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`
	return []wireStream{
		{"chat", chatPath, chatBody, sseType, nil},
		{"responses", responsesPath, bodyFor(responsesPath), sseType, nil},
		{"messages", messagesPath, bodyFor(messagesPath), sseType, nil},
		{"gemini", geminiPath, contents, sseType, nil},
		{"gemini array", geminiPath, contents, jsonType, nil},
		{"bedrock", bedrockPath, messages, awsType, nil},
		{"ollama", ollamaPath, `{"model":"llama-x","messages":[{"role":"user","content":"hi"}]}`, linesType, nil},
		{"ollama generate", generatePath, `{"model":"llama-x","prompt":"hi"}`, linesType, nil},
		{"cohere", "/v2/chat", `{"model":"command-x","messages":[]}`, sseType, nil},
		{"mistral", "/v1/conversations", `{"model":"mistral-x","inputs":"hi"}`, sseType, nil},
		{"interactions", "/v1beta/interactions", `{"model":"gemini-x","input":"hi"}`, sseType, nil},
		{"chat document", chatPath, `{"model":"gpt-5","messages":[]}`, jsonType, nil},
		{"messages document", messagesPath, `{"model":"claude-x","messages":[]}`, jsonType, nil},
		{"responses document", responsesPath, `{"model":"gpt-5","input":"x"}`, jsonType, nil},
	}
}

// answerOf frames the payloads of an answer of this kind. The payload of a Bedrock
// message is an object with one key, the event's type.
func answerOf(tb testing.TB, kind, name string, payloads ...string) wireStream {
	tb.Helper()
	kinds := wireKinds()
	at := slices.IndexFunc(kinds, func(w wireStream) bool { return w.name == kind })
	require.GreaterOrEqual(tb, at, 0, kind)
	w := kinds[at]
	w.name = name
	for i, p := range payloads {
		event := ""
		switch kind {
		case "chat":
			event = "data: " + p + "\n\n"
		case "gemini":
			event = "data: " + p + "\r\n\r\n"
		case "gemini array":
			event = ",\r\n" + p
			if i == 0 {
				event = "[" + p
			}
		case "ollama", "ollama generate":
			event = p + "\n"
		case "bedrock":
			event = awsEvent(tb, p)
		case "responses", "messages", "cohere", "mistral", "interactions":
			var typed struct {
				Type  string
				Event string `json:"event_type"`
			}
			require.NoError(tb, json.Unmarshal([]byte(p), &typed))
			event = "event: " + typed.Type + typed.Event + "\ndata: " + p + "\n\n"
		default:
			event = p
		}
		w.events = append(w.events, event)
	}
	switch kind {
	case "chat":
		w.events = append(w.events, "data: [DONE]\n\n")
	case "gemini array":
		w.events = append(w.events, "]")
	}
	return w
}

// awsEvent returns a Bedrock message, made from an object with the event's type as its one key.
func awsEvent(tb testing.TB, payload string) string {
	tb.Helper()
	var object map[string]json.RawMessage
	require.NoError(tb, json.Unmarshal([]byte(payload), &object))
	require.Len(tb, object, 1)
	for event, inner := range object {
		return awsMessage(event, string(inner))
	}
	return ""
}

// ownAnswers returns the answers that are part of this package's tests and of those of its decoders.
func ownAnswers(tb testing.TB) []wireStream {
	tb.Helper()
	all := wireStreams()
	for _, file := range []struct{ name, kind string }{
		{"bedrock-tools", "bedrock"},
		{"chat-tools", "chat"},
		{"chat-two-choices", "chat"},
		{"gemini-tools", "gemini"},
		{"messages-tools", "messages"},
		{"ollama-generate", "ollama generate"},
		{"ollama-tools", "ollama"},
		{"responses-tools", "responses"},
	} {
		payloads := payloadsOf(tb, filepath.Join("internal", "wire", "testdata", "streams", file.name+".jsonl"))
		all = append(all, answerOf(tb, file.kind, file.name, payloads...))
	}
	for _, kind := range []string{"cohere", "mistral", "interactions"} {
		payloads := payloadsOf(tb, filepath.Join("internal", "wire", "testdata", "documented", kind+".jsonl"))
		all = append(all, answerOf(tb, kind, kind, payloads...))
	}
	return all
}

// payloadsOf returns the lines of a file that are not empty.
func payloadsOf(tb testing.TB, file string) (payloads []string) {
	tb.Helper()
	lines, err := os.ReadFile(file)
	require.NoError(tb, err)
	for line := range bytes.Lines(lines) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			payloads = append(payloads, string(line))
		}
	}
	return payloads
}

// recordedAnswers returns the answers in the folder of recorded streams, if one is named.
func recordedAnswers(tb testing.TB) (all []wireStream) {
	tb.Helper()
	dir := fixturesDir()
	if dir == "" {
		return nil
	}
	for _, s := range streams(tb) {
		if !strings.HasPrefix(s.name, "own/") {
			all = append(all, wireStream{s.name, s.path, bodyFor(s.path), sseType, s.events})
		}
	}
	for _, kind := range []string{"gemini", "bedrock"} {
		files, err := filepath.Glob(filepath.Join(dir, kind, "*.jsonl"))
		require.NoError(tb, err)
		require.NotEmpty(tb, files, "no recorded streams of %s", kind)
		for _, file := range files {
			name, payloads := kind+"/"+strings.TrimSuffix(filepath.Base(file), ".jsonl"), payloadsOf(tb, file)
			all = append(all, answerOf(tb, kind, name, payloads...))
			if kind == "gemini" {
				all = append(all, answerOf(tb, "gemini array", name+" as an array", payloads...))
			}
		}
	}
	return all
}

// oddPayloads are payloads that ownAnswers lacks, by kind: rare content, tools of
// the provider, states of a job, errors, and events that no protocol has.
var oddPayloads = map[string][]string{
	"chat": {
		`{"id":"c","choices":[{"index":0,"delta":{"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]},"finish_reason":null}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{"audio":{"id":"a","transcript":"hi"}},"finish_reason":null}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{"refusal":"I can not"},"finish_reason":null}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{"function_call":{"name":"pay","arguments":"{}"}},"finish_reason":null}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{"executed_tools":[{"index":0,"type":"python","arguments":"{}"}]},"finish_reason":null}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","text":"Hm"}]},"finish_reason":null}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{"content":[{"type":"text","text":"a"}]},"finish_reason":null}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{"thought":"a"},"finish_reason":null}]}`,
		`{"id":"c","choices":[{"index":1,"delta":{"content":"b"},"finish_reason":null}]}`,
		`{"id":"c","choices":[{"index":0,"message":{"content":"whole"},"finish_reason":"stop"}]}`,
		`{"id":"c","choices":[{"index":0,"text":"legacy","finish_reason":null}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"eos_token"}]}`,
		`{"error":{"message":"x","type":"invalid_request_error","code":"context_length_exceeded"}}`,
		`{"error":{"message":"x","type":"server_error","code":"server_is_overloaded"}}`,
		`{"object":"error","message":"x","type":"InternalServerError","code":500}`,
		`{"vendor":{"note":"x"}}`,
	},
	"responses": {
		`{"type":"response.queued","response":{"id":"r","status":"queued","background":true}}`,
		`{"type":"response.in_progress","response":{"id":"r","status":"in_progress"}}`,
		`{"type":"response.output_item.added","output_index":2,"item":{"type":"message","id":"m","content":[{"type":"output_text","text":"hi"}]}}`,
		`{"type":"response.content_part.added","output_index":2,"content_index":0,"part":{"type":"output_text","text":"hi"}}`,
		`{"type":"response.content_part.done","output_index":2,"content_index":0,"part":{"type":"output_text","text":"hi"}}`,
		`{"type":"response.output_text.delta","output_index":2,"content_index":0,"delta":"hi"}`,
		`{"type":"response.output_text.done","output_index":2,"content_index":0,"text":"hi"}`,
		`{"type":"response.refusal.done","output_index":2,"content_index":0,"refusal":"no"}`,
		`{"type":"response.output_item.added","output_index":3,"item":{"type":"code_interpreter_call","id":"ci","status":"in_progress","code":""}}`,
		`{"type":"response.output_item.added","output_index":4,"item":{"type":"web_search_call","id":"ws","status":"in_progress"}}`,
		`{"type":"response.output_item.added","output_index":5,"item":{"type":"mcp_approval_request","id":"ap","name":"pay","arguments":"{}","server_label":"bank"}}`,
		`{"type":"response.output_item.added","output_index":6,"item":{"type":"compaction","id":"cp","encrypted_content":"AA"}}`,
		`{"type":"response.output_item.added","output_index":7,"item":{"type":"hologram_call","id":"h"}}`,
		`{"type":"response.image_generation_call.partial_image","output_index":8,"partial_image_b64":"AA"}`,
		`{"type":"response.hologram.delta","output_index":7,"delta":"hi"}`,
		`{"type":"error","code":"server_error","message":"x","param":null}`,
		`{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"rate_limit_exceeded","message":"x"}}}`,
		`{"type":"response.incomplete","response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`,
		`{"type":"response.completed","response":{"id":"r","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}]}}`,
	},
	"messages": {
		`{"type":"content_block_start","index":5,"content_block":{"type":"server_tool_use","id":"s","name":"code_execution","input":{}}}`,
		`{"type":"content_block_start","index":6,"content_block":{"type":"mcp_tool_use","id":"s","name":"pay","server_name":"bank","input":{}}}`,
		`{"type":"content_block_start","index":7,"content_block":{"type":"web_search_tool_result","tool_use_id":"s","content":[]}}`,
		`{"type":"content_block_start","index":8,"content_block":{"type":"redacted_thinking","data":"AA"}}`,
		`{"type":"content_block_start","index":9,"content_block":{"type":"compaction","content":"so far"}}`,
		`{"type":"content_block_start","index":10,"content_block":{"type":"hologram","data":"AA"}}`,
		`{"type":"content_block_start","index":11,"content_block":{"type":"text","text":"at once"}}`,
		`{"type":"content_block_delta","index":11,"delta":{"type":"hologram_delta","hologram":"a"}}`,
		`{"type":"content_block_delta","index":11,"delta":{"type":"text_delta","text":"more"}}`,
		`{"type":"content_block_delta","index":12,"delta":{"type":"input_json_delta","partial_json":"{"}}`,
		`{"type":"message_delta","delta":{"stop_reason":"pause_turn"},"usage":{"output_tokens":8}}`,
		`{"type":"message_delta","delta":{"stop_reason":"astonishment"},"usage":{"output_tokens":8}}`,
		`{"type":"error","error":{"type":"overloaded_error","message":"x"}}`,
		`{"type":"error","error":{"type":"invalid_request_error","message":"x"}}`,
		`{"type":"hologram","text":"hi"}`,
	},
	"gemini": {
		`{"candidates":[{"index":0,"content":{"parts":[{"executableCode":{"language":"PYTHON","code":"1"}}]}}]}`,
		`{"candidates":[{"index":0,"content":{"parts":[{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}}]}}]}`,
		`{"candidates":[{"index":0,"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"AA"}}]}}]}`,
		`{"candidates":[{"index":0,"content":{"parts":[{"text":"Hm","thought":true}]}}]}`,
		`{"candidates":[{"index":0,"content":{"parts":[{"hologram":{"data":"AA"}}]}}]}`,
		`{"candidates":[{"index":0,"finishReason":"MALFORMED_FUNCTION_CALL"}]}`,
		`{"candidates":[{"index":0,"finishReason":"MAX_TOKENS"}]}`,
		`{"candidates":[{"index":0,"finishReason":"ASTONISHMENT"}]}`,
		`{"promptFeedback":{"blockReason":"SAFETY"}}`,
		`{"error":{"code":503,"status":"UNAVAILABLE","message":"x"}}`,
		`{"usageMetadata":{"promptTokenCount":3}}`,
	},
	"cohere": {
		`{"type":"content-start","index":1,"delta":{"message":{"content":{"type":"thinking","thinking":"Hm"}}}}`,
		`{"type":"content-delta","index":1,"delta":{"message":{"content":{"hologram":"a"}}}}`,
		`{"type":"tool-call-end","index":7}`,
		`{"type":"message-end","delta":{"finish_reason":"MAX_TOKENS"}}`,
		`{"type":"message-end","delta":{"finish_reason":"ASTONISHMENT"}}`,
		`{"type":"message-end","delta":{"finish_reason":"ERROR","error":"x"}}`,
		`{"type":"hologram","text":"hi"}`,
	},
	"mistral": {
		`{"type":"agent.handoff.started","id":"h","previous_agent_id":"a","previous_agent_name":"b"}`,
		`{"type":"message.output.delta","content":{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]}}`,
		`{"type":"message.output.delta","content":{"type":"hologram","data":"AA"}}`,
		`{"type":"function.call.delta","tool_call_id":"call_other","name":"pay","arguments":"{"}`,
		`{"type":"conversation.response.error","message":"x","code":500}`,
		`{"type":"hologram","text":"hi"}`,
	},
	"interactions": {
		`{"event_type":"step.start","index":7,"step":{"type":"mcp_server_tool_call","id":"m","name":"pay","arguments":{}}}`,
		`{"event_type":"step.start","index":8,"step":{"type":"hologram"}}`,
		`{"event_type":"step.delta","index":8,"delta":{"type":"image","data":"AA"}}`,
		`{"event_type":"step.delta","index":8,"delta":{"type":"hologram","data":"AA"}}`,
		`{"event_type":"interaction.completed","interaction":{"id":"i","status":"in_progress"}}`,
		`{"event_type":"interaction.completed","interaction":{"id":"i","status":"incomplete"}}`,
		`{"event_type":"interaction.completed","interaction":{"id":"i","status":"astonishment"}}`,
		`{"event_type":"interaction.completed","interaction":{"id":"i","status":"failed"}}`,
		`{"event_type":"error","error":{"code":"internal","message":"x"}}`,
		`{"event_type":"hologram","text":"hi"}`,
	},
	"ollama": {
		`{"message":{"role":"assistant","content":"","thinking":"Hm"},"done":false}`,
		`{"message":{"role":"assistant","content":"","images":["AA"]},"done":false}`,
		`{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"pay","arguments":{}}}]},"done":false}`,
		`{"message":{"role":"assistant","hologram":"a"},"done":false}`,
		`{"message":{"role":"assistant","content":""},"done":true,"done_reason":"load"}`,
		`{"message":{"role":"assistant","content":""},"done":true,"done_reason":"length"}`,
		`{"error":"out of memory"}`,
	},
	"bedrock": {
		`{"contentBlockDelta":{"contentBlockIndex":1,"delta":{"reasoningContent":{"text":"Hm"}}}}`,
		`{"contentBlockStart":{"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"t","name":"pay"}}}}`,
		`{"contentBlockDelta":{"contentBlockIndex":2,"delta":{"toolUse":{"input":"{}"}}}}`,
		`{"contentBlockDelta":{"contentBlockIndex":3,"delta":{"hologram":"a"}}}`,
		`{"messageStop":{"stopReason":"max_tokens"}}`,
		`{"messageStop":{"stopReason":"astonishment"}}`,
		`{"hologram":{"text":"hi"}}`,
	},
}

// changeEach makes an answer sloppy by changing each of its events.
func changeEach(change func(event string) string) func(*wireStream) {
	return func(w *wireStream) {
		for i, e := range w.events {
			w.events[i] = change(e)
		}
	}
}

// insertTwice inserts an event after the first event of an answer, and in its middle.
func insertTwice(event func(w *wireStream) string) func(*wireStream) {
	return func(w *wireStream) {
		e, n := event(w), len(w.events)
		w.events = slices.Concat(w.events[:1], []string{e}, w.events[1:n-n/2], []string{e}, w.events[n-n/2:])
	}
}

func fixed(s string) func(*wireStream) string { return func(*wireStream) string { return s } }

var keyWords = regexp.MustCompile(`"[a-z]\w*":`)

// sloppiness lists how servers and proxies that do not follow a protocol strictly frame
// their events, and what they put between them; by content type.
var sloppiness = map[string][]struct {
	name   string
	change func(*wireStream)
}{
	sseType: {
		{"one newline between events", changeEach(func(e string) string { return strings.TrimRight(e, "\r\n") + "\n" })},
		{"leading blanks", changeEach(func(e string) string { return strings.ReplaceAll(e, "data:", " data:") })},
		{"no blank after the colon", changeEach(func(e string) string { return strings.ReplaceAll(e, "data: ", "data:") })},
		{"CRLF", changeEach(func(e string) string { return strings.ReplaceAll(strings.ReplaceAll(e, "\r", ""), "\n", "\r\n") })},
		{"CR", changeEach(func(e string) string { return strings.ReplaceAll(strings.ReplaceAll(e, "\r", ""), "\n", "\r") })},
		{"keepalives everywhere", changeEach(func(e string) string { return ": ping\n\n" + strings.ReplaceAll(e, "data:", ": ping\ndata:") })},
		{"ids and retries", changeEach(func(e string) string { return "id: 7\nretry: 10\n" + e })},
		{"no event fields", changeEach(func(e string) string { return e[max(0, strings.Index(e, "data:")):] })},
		{"bytes after the JSON", changeEach(func(e string) string { return strings.Replace(e, "}\n\n", "} x\n\n", 1) })},
		{"data in several lines", changeEach(func(e string) string { return strings.Replace(e, `,"`, ",\ndata: \"", 1) })},
		{"keys in another case", changeEach(func(e string) string {
			return keyWords.ReplaceAllStringFunc(e, func(k string) string { return `"` + strings.ToUpper(k[1:2]) + k[2:] })
		})},
		{"every event twice", changeEach(func(e string) string { return e + e })},
		{"a line that is not JSON", insertTwice(fixed("data: oops\n\n"))},
		{"a line that is not an event", insertTwice(fixed("oops\n\n"))},
		{"half a JSON", insertTwice(fixed("data: {\"a\":\n\n"))},
		{"an error", insertTwice(func(w *wireStream) string { return "event: error\ndata: " + errorFor(w.path) + "\n\n" })},
		{"an unknown event", insertTwice(fixed("event: hologram\ndata: {\"type\":\"hologram\",\"text\":\"hi\"}\n\n"))},
		{"[DONE]", insertTwice(fixed("data: [DONE]\n\n"))},
		{"a byte order mark", func(w *wireStream) { w.events[0] = "\ufeff" + w.events[0] }},
		{"a page before the stream", func(w *wireStream) { w.events[0] = "<br />\n<b>Warning</b>: x\n\n" + w.events[0] }},
		{"twice", func(w *wireStream) { w.events = slices.Concat(w.events, w.events) }},
		{"no last blank line", func(w *wireStream) {
			last := len(w.events) - 1
			w.events[last] = strings.TrimRight(w.events[last], "\r\n")
		}},
	},
	linesType: {
		{"CRLF", changeEach(func(e string) string { return strings.TrimRight(e, "\n") + "\r\n" })},
		{"empty lines", changeEach(func(e string) string { return e + "\n\n" })},
		{"no newlines", changeEach(func(e string) string { return strings.TrimRight(e, "\n") })},
		{"bytes after the JSON", changeEach(func(e string) string { return strings.TrimRight(e, "\n") + " x\n" })},
		{"keys in another case", changeEach(func(e string) string { return keyWords.ReplaceAllStringFunc(e, strings.ToUpper) })},
		{"a line that is not JSON", insertTwice(fixed("oops\n"))},
		{"an error", insertTwice(fixed("{\"error\":\"out of memory\"}\n"))},
		{"twice", func(w *wireStream) { w.events = slices.Concat(w.events, w.events) }},
	},
	jsonType: {
		{"bytes after the JSON", func(w *wireStream) { w.events = append(w.events, " x") }},
		{"keys in another case", changeEach(func(e string) string { return keyWords.ReplaceAllStringFunc(e, strings.ToUpper) })},
		{"blanks before the JSON", func(w *wireStream) { w.events[0] = "\n \n" + w.events[0] }},
		{"objects in a row", changeEach(func(e string) string { return strings.Trim(e, "[],\r\n") + "\n" })},
	},
	awsType: {
		{"an error", func(w *wireStream) {
			w.events = slices.Insert(w.events, len(w.events)/2, awsException("throttlingException"))
		}},
		{"a broken checksum", func(w *wireStream) {
			e := []byte(w.events[len(w.events)/2])
			e[len(e)-1] ^= 1
			w.events[len(w.events)/2] = string(e)
		}},
		{"an unknown event", insertTwice(fixed(awsMessage("hologram", `{"text":"hi"}`)))},
		{"half a JSON", insertTwice(fixed(awsMessage("contentBlockDelta", `{"delta":`)))},
		{"twice", func(w *wireStream) { w.events = slices.Concat(w.events, w.events) }},
	},
}

// awsException returns an exception of an AWS event-stream.
func awsException(name string) string {
	return awsHeaders([][2]string{{":exception-type", name}, {":content-type", jsonType}, {":message-type", "exception"}}, `{"message":"x"}`)
}

// errorFor returns an in-band error in the protocol of a path.
func errorFor(path string) string {
	switch path {
	case responsesPath:
		return `{"type":"error","code":"server_error","message":"x","param":null}`
	case messagesPath:
		return `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`
	case geminiPath:
		return `{"error":{"code":503,"status":"UNAVAILABLE","message":"x"}}`
	default:
		return `{"error":{"message":"x","type":"server_error","code":"server_is_overloaded"}}`
	}
}

// sloppyAnswers returns every answer of ownAnswers, made sloppy in every way.
func sloppyAnswers(tb testing.TB) (all []wireStream) {
	tb.Helper()
	for _, w := range ownAnswers(tb) {
		for _, s := range sloppiness[w.contentType] {
			sloppy := w
			sloppy.events = slices.Clone(w.events)
			s.change(&sloppy)
			sloppy.name = w.name + ", " + s.name
			all = append(all, sloppy)
		}
	}
	return all
}

// generatedAnswers returns answers made of the events of ownAnswers and of oddPayloads, in
// any order, some of them sloppy.
func generatedAnswers(tb testing.TB) (all []wireStream) {
	tb.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	own := ownAnswers(tb)
	answers := 24
	if everyCut() {
		answers = 400
	}
	for _, kind := range wireKinds() {
		var pool []string
		for _, w := range own {
			if w.path == kind.path && w.contentType == kind.contentType {
				pool = append(pool, w.events...)
			}
		}
		odd := oddPayloads[strings.TrimSuffix(kind.name, " array")]
		if len(odd) == 0 {
			continue // a document is one event
		}
		framed := answerOf(tb, kind.name, "", odd...).events[:len(odd)]
		for i := range answers {
			w := kind
			w.name = fmt.Sprintf("%s, generated %d", kind.name, i)
			for range 2 + r.IntN(7) {
				from := pool
				if r.IntN(2) == 0 {
					from = framed
				}
				w.events = append(w.events, from[r.IntN(len(from))])
			}
			if kind.name == "gemini array" {
				w.events[0] = "[" + strings.TrimLeft(w.events[0], "[,\r\n")
			}
			if ways := sloppiness[kind.contentType]; r.IntN(3) == 0 {
				ways[r.IntN(len(ways))].change(&w)
			}
			all = append(all, w)
		}
	}
	return all
}

// splicedAnswers returns answers of which a gateway has kept the first events when it appended that
// of another attempt: streams of one kind, spliced at random.
func splicedAnswers(tb testing.TB) (all []wireStream) {
	tb.Helper()
	r := rand.New(rand.NewPCG(20261129, 991))
	byKind := map[string][]wireStream{}
	for _, w := range slices.Concat(ownAnswers(tb), generatedAnswers(tb)) {
		if len(w.events) > 2 && w.contentType != jsonType {
			byKind[w.path] = append(byKind[w.path], w)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		answers := byKind[kind]
		for range 40 {
			first, second := answers[r.IntN(len(answers))], answers[r.IntN(len(answers))]
			kept := 1 + r.IntN(len(first.events)-1)
			first.name = fmt.Sprintf("%s, cut after %d events, and %s", first.name, kept, second.name)
			first.events = slices.Concat(first.events[:kept], second.events)
			all = append(all, first)
		}
	}
	return all
}

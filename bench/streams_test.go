package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stream is one response as it arrives over the network.
type stream struct {
	name   string
	wire   *wire
	events [][]byte
}

// wire describes one wire protocol for a client.
type wire struct {
	name, url, contentType string
	request                string // a small request's body; %s is replaced by a long history
}

var (
	chat = &wire{
		"openai_chat", "https://api.openai.com/v1/chat/completions", sseType,
		`{"model":"gpt-5","stream":true,"messages":[%s{"role":"user","content":"hi"}]}`,
	}
	responses = &wire{
		"openai_responses", "https://api.openai.com/v1/responses", sseType,
		`{"model":"gpt-5","stream":true,"input":[%s{"role":"user","content":"hi"}]}`,
	}
	anthropicMessages = &wire{
		"anthropic_messages", "https://api.anthropic.com/v1/messages", sseType,
		`{"model":"claude-sonnet-5","stream":true,"max_tokens":1024,"messages":[%s{"role":"user","content":"hi"}]}`,
	}
	gemini = &wire{
		"gemini", "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", sseType,
		`{"contents":[%s{"role":"user","parts":[{"text":"hi"}]}]}`,
	}
	bedrock = &wire{
		"bedrock_converse", "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse-stream", "application/vnd.amazon.eventstream",
		`{"messages":[%s{"role":"user","content":[{"text":"hi"}]}]}`,
	}
	ollama = &wire{
		"ollama", "http://localhost:11434/api/chat", "application/x-ndjson",
		`{"model":"llama3.2","messages":[%s{"role":"user","content":"hi"}]}`,
	}
	wires = []*wire{chat, responses, anthropicMessages, gemini, bedrock, ollama}
)

const sseType = "text/event-stream"

// path returns the path of requests of this wire protocol on any host.
func (s *stream) path() string {
	u, err := url.Parse(s.wire.url)
	if err != nil {
		panic(err)
	}
	return u.RequestURI()
}

// body returns a request's body with a history of about n bytes.
func (w *wire) body(n int) []byte {
	turn := `{"role":"user","content":"` + strings.Repeat("the quick brown fox ", 50) + `"},`
	switch w {
	case gemini:
		turn = `{"role":"user","parts":[{"text":"` + strings.Repeat("the quick brown fox ", 50) + `"}]},`
	case bedrock:
		turn = `{"role":"user","content":[{"text":"` + strings.Repeat("the quick brown fox ", 50) + `"}]},`
	}
	return []byte(fmt.Sprintf(w.request, strings.Repeat(turn, n/len(turn))))
}

// recorded returns the recorded streams in the folder that OTELLLM_FIXTURES names, or
// nil if it is not set.
func recorded(tb testing.TB) []stream {
	tb.Helper()
	dir := os.Getenv("OTELLLM_FIXTURES")
	if dir == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.jsonl"))
	require.NoError(tb, err)
	if len(files) == 0 {
		tb.Fatal("no recorded streams in OTELLLM_FIXTURES:", &fs.PathError{Op: "glob", Path: dir, Err: errors.New("no */*.jsonl")})
	}
	var all []stream
	for _, file := range files {
		lines, err := os.ReadFile(file)
		require.NoError(tb, err)
		all = append(all, framed(tb, strings.TrimSuffix(filepath.Base(file), ".jsonl"), lines)...)
	}
	return all
}

// framed frames the payloads of a file, one per line, as they arrive over the network.
// A file may hold the streams of several turns.
func framed(tb testing.TB, name string, lines []byte) []stream {
	tb.Helper()
	var all []stream
	s := stream{name: name}
	flush := func() {
		if s.wire == chat {
			s.events = append(s.events, []byte("data: [DONE]\n\n"))
		}
		if len(s.events) > 0 {
			all = append(all, s)
		}
		s = stream{name: name}
	}
	ended := false
	for line := range bytes.Lines(lines) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if ended {
			flush()
		}
		var payload map[string]json.RawMessage
		require.NoError(tb, json.Unmarshal(line, &payload))
		typ := strings.Trim(string(payload["type"]), `"`)
		event := fmt.Appendf(nil, "event: %s\ndata: %s\n\n", typ, line)
		switch {
		case strings.HasPrefix(typ, "response."), typ == "error" && s.wire == responses:
			s.wire = responses
			ended = typ == "response.completed" || typ == "response.failed" || typ == "response.incomplete"
		case payload["candidates"] != nil || payload["promptFeedback"] != nil:
			s.wire = gemini
			event = fmt.Appendf(nil, "data: %s\r\n\r\n", line)
		case len(payload) == 1 && payload["error"] == nil && typ == "":
			s.wire = bedrock
			for name, inner := range payload {
				event = message(name, inner)
			}
		case typ != "":
			s.wire = anthropicMessages
			ended = typ == "message_stop"
		default:
			s.wire = chat
			event = fmt.Appendf(nil, "data: %s\n\n", line)
		}
		s.events = append(s.events, event)
	}
	flush()
	return all
}

// synthetic returns streams of n deltas of one word each, framed as each provider
// frames them.
func synthetic(n int) []stream {
	return []stream{
		deltas(chat, n, nil,
			"data: "+chatChunk+`"choices":[{"index":0,"delta":{"content":"%s"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"Qup1BsQ3"}`+"\n\n",
			"data: "+chatChunk+`"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}`+"\n\n", "data: [DONE]\n\n"),
		deltas(responses, n,
			[]string{"event: response.created\ndata: " + `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","model":"m","output":[]}}` + "\n\n"},
			"event: response.output_text.delta\ndata: "+`{"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_0372d86dfc1762fe00692741f339a08190bce9b78ee2079295","output_index":0,"content_index":0,"delta":"%s","logprobs":[],"obfuscation":"wsWQt8Nr5nwWBf7"}`+"\n\n",
			"event: response.completed\ndata: "+`{"type":"response.completed","sequence_number":5,"response":{"id":"resp_1","status":"completed","output":[]}}`+"\n\n"),
		deltas(anthropicMessages, n,
			[]string{
				"event: message_start\ndata: " + `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}` + "\n\n",
				"event: content_block_start\ndata: " + `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n",
			},
			"event: content_block_delta\ndata: "+`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}`+"\n\n",
			"event: content_block_stop\ndata: "+`{"type":"content_block_stop","index":0}`+"\n\n",
			"event: message_delta\ndata: "+`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":30}}`+"\n\n",
			"event: message_stop\ndata: "+`{"type":"message_stop"}`+"\n\n"),
		deltas(gemini, n, nil,
			"data: "+`{"candidates":[{"content":{"parts":[{"text":"%s"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":12,"totalTokenCount":323,"promptTokensDetails":[{"modality":"TEXT","tokenCount":9}],"thoughtsTokenCount":302},"modelVersion":"gemini-3-pro-preview","responseId":"M3iLaY-AI7zTxN8P3Piw4Qg"}`+"\r\n\r\n",
			`data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"responseId":"M3iLaY-AI7zTxN8P3Piw4Qg"}`+"\r\n\r\n"),
		bedrockDeltas(n),
		deltas(ollama, n, nil,
			`{"model":"llama3.2:3b","created_at":"2026-01-02T03:04:05.123456Z","message":{"role":"assistant","content":"%s"},"done":false}`+"\n",
			`{"model":"llama3.2:3b","created_at":"2026-01-02T03:05:00Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":1000}`+"\n"),
	}
}

const chatChunk = `{"id":"chatcmpl-D8Z5oo6uDh67AD85p73ksdT1KxhE0","object":"chat.completion.chunk","created":1770933892,"model":"gpt-4.1-nano-2025-04-14","service_tier":"default","system_fingerprint":"fp_de604bd877",`

var words = [...]string{" the", " connection", ",", " was\\n", " reset", ` \"here\"`}

func deltas(w *wire, n int, first []string, delta string, last ...string) stream {
	s := stream{name: fmt.Sprintf("%d deltas", n), wire: w}
	for _, event := range first {
		s.events = append(s.events, []byte(event))
	}
	for i := range n {
		s.events = append(s.events, fmt.Appendf(nil, delta, words[i%len(words)]))
	}
	for _, event := range last {
		s.events = append(s.events, []byte(event))
	}
	return s
}

func bedrockDeltas(n int) stream {
	s := stream{name: fmt.Sprintf("%d deltas", n), wire: bedrock}
	for i := range n {
		s.events = append(s.events, message("contentBlockDelta",
			fmt.Appendf(nil, `{"contentBlockIndex":0,"delta":{"text":"%s"},"p":"%s"}`, words[i%len(words)], "abcdefghijklmnopqrstuvwxyz"[:i%26])))
	}
	s.events = append(s.events, message("messageStop", []byte(`{"stopReason":"end_turn"}`)))
	return s
}

// lasts are the events after which a decoder stops.
var lasts = [...]string{"event: message_stop", "event: response.completed", "event: response.failed", "event: response.incomplete", "event: error", "data: [DONE]"}

// unended returns the events of streams of one wire protocol in one piece, without
// those that would end the decoding.
func unended(streams []stream, w *wire) (body []byte, events int) {
	for i := range streams {
		if streams[i].wire != w {
			continue
		}
		for _, event := range streams[i].events {
			if slices.ContainsFunc(lasts[:], func(last string) bool { return bytes.HasPrefix(event, []byte(last)) }) ||
				bytes.Contains(event, []byte("\x0bmessageStop")) || bytes.Contains(event, []byte(`"done":true`)) {
				continue
			}
			body = append(body, event...)
			events++
		}
	}
	return body, events
}

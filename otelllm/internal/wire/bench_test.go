package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// benchStreams returns streams of the size and form of recorded ones: mostly deltas of one
// word each, with the events around them.
func benchStreams(n int) map[string]string {
	var chat, responses, anthropic strings.Builder
	word := func(i int) string {
		return [...]string{" the", " connection", ",", " was\\n", " reset", " \\\"here\\\""}[i%6]
	}

	const chunk = `{"id":"chatcmpl-D8Z5oo6uDh67AD85p73ksdT1KxhE0","object":"chat.completion.chunk","created":1770933892,"model":"gpt-4.1-nano-2025-04-14","service_tier":"default","system_fingerprint":"fp_de604bd877",`
	for i := range n {
		fmt.Fprintf(&chat, "data: "+chunk+`"choices":[{"index":0,"delta":{"content":"%s"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"Qup1BsQ3"}`+"\n\n", word(i))
	}
	chat.WriteString("data: " + chunk + `"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}` + "\n\ndata: [DONE]\n\n")

	responses.WriteString("event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"model\":\"m\"}}\n\n")
	for i := range n {
		fmt.Fprintf(&responses, "event: response.output_text.delta\ndata: "+`{"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_0372d86dfc1762fe00692741f339a08190bce9b78ee2079295","output_index":0,"content_index":0,"delta":"%s","logprobs":[],"obfuscation":"wsWQt8Nr5nwWBf7"}`+"\n\n", i, word(i))
	}
	responses.WriteString("event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"status\":\"completed\"}}\n\n")

	anthropic.WriteString("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"m\",\"usage\":{\"input_tokens\":3}}}\n\n")
	for i := range n {
		fmt.Fprintf(&anthropic, "event: content_block_delta\ndata: "+`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}`+"\n\n", word(i))
	}
	anthropic.WriteString("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")

	var google strings.Builder
	for i := range n {
		fmt.Fprintf(&google, "data: "+`{"candidates":[{"content":{"parts":[{"text":"%s"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":%d,"totalTokenCount":%d,"promptTokensDetails":[{"modality":"TEXT","tokenCount":9}],"thoughtsTokenCount":302},"modelVersion":"gemini-3-pro-preview","responseId":"M3iLaY-AI7zTxN8P3Piw4Qg"}`+"\r\n\r\n", strings.Repeat(word(i), 5), i, i+311)
	}
	google.WriteString(`data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"responseId":"M3iLaY-AI7zTxN8P3Piw4Qg"}` + "\r\n\r\n")

	var local strings.Builder
	for i := range n {
		fmt.Fprintf(&local, `{"model":"llama3.2:3b","created_at":"2026-01-02T03:04:%02d.%06dZ","message":{"role":"assistant","content":"%s"},"done":false}`+"\n", i%60, i, word(i))
	}
	local.WriteString(`{"model":"llama3.2:3b","created_at":"2026-01-02T03:05:00Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":1000}` + "\n")

	var aws strings.Builder
	for i := range n {
		aws.WriteString(frame("contentBlockDelta", fmt.Sprintf(`{"contentBlockIndex":0,"delta":{"text":"%s"},"p":"%s"}`, word(i), "abcdefghijklmnopqrstuvwxyz"[:i%26])))
	}
	aws.WriteString(frame("messageStop", `{"stopReason":"end_turn"}`))

	completions := strings.NewReplacer(`"delta":{"content":`, `"text":`, `},"logprobs"`, `,"logprobs"`, `"delta":{}`, `"text":""`).Replace(chat.String())

	return map[string]string{
		"openai_completions": completions,
		"bedrock_converse":   aws.String(),
		"ollama":             local.String(),
		"gemini":             google.String(),
		"openai_chat":        chat.String(),
		"openai_responses":   responses.String(),
		"anthropic_messages": anthropic.String(),
	}
}

func BenchmarkDecode(b *testing.B) {
	streams := benchStreams(1000)
	for _, p := range protocols {
		stream := []byte(streams[p.Name()])
		b.Run(p.Name(), func(b *testing.B) {
			benchDecode(b, p, stream, 4<<10)
		})
		if p.Name() == (bedrockConverse{}).Name() {
			continue // its payloads are not in lines
		}
		b.Run("encoding_json/"+p.Name(), func(b *testing.B) {
			benchJSON(b, p.Name(), stream)
		})
	}
}

// BenchmarkDecodeRecorded decodes the recorded streams of each protocol, if there are any,
// and their deltas alone, in reads of two sizes. encoding_json is the cost of the same facts
// with that package. The recordings of some protocols are a few kilobytes: they are
// repeated, so that the decoding dominates; short does not repeat them, so that the
// creation of the decoder has weight.
func BenchmarkDecodeRecorded(b *testing.B) {
	dir := fixturesDir(b)
	for _, folder := range [...]string{"openai-chat", "openai-responses", "anthropic-messages", "gemini", "bedrock"} {
		var all, deltas []byte
		var p Protocol
		files, _ := filepath.Glob(filepath.Join(dir, folder, "*.jsonl"))
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				b.Fatal(err)
			}
			for _, rec := range recordingsOf(b, data) {
				p = rec.protocol
				for _, ev := range rec.events {
					// Terminal events would end the decoding early.
					if isTerminal(ev) {
						continue
					}
					all = append(all, ev...)
					if isDelta(ev) {
						deltas = append(deltas, ev...)
					}
				}
			}
		}
		once := all
		for len(all) < 512<<10 {
			all = append(all, once...)
		}
		b.Run("short/"+p.Name(), func(b *testing.B) { benchDecode(b, p, once, 32<<10) })
		for _, read := range [...]int{4 << 10, 32 << 10} {
			b.Run(fmt.Sprintf("%s/%dk", p.Name(), read>>10), func(b *testing.B) { benchDecode(b, p, all, read) })
			if len(deltas) > 0 {
				b.Run(fmt.Sprintf("deltas/%s/%dk", p.Name(), read>>10), func(b *testing.B) { benchDecode(b, p, deltas, read) })
			}
		}
		if p.Name() != (bedrockConverse{}).Name() {
			b.Run("encoding_json/"+p.Name(), func(b *testing.B) { benchJSON(b, p.Name(), all) })
		}
	}
}

// isDelta reports whether the name of an event says that it is a delta.
func isDelta(event string) bool {
	name, _, _ := strings.Cut(event, "\n")
	return strings.HasPrefix(name, "event: ") && strings.HasSuffix(name, "delta") && name != "event: message_delta"
}

func isTerminal(event string) bool {
	for _, typ := range [...]string{"event: message_stop", "event: response.completed", "event: response.failed", "event: error", "data: [DONE]"} {
		if strings.HasPrefix(event, typ) || strings.Contains(event, "\x0bmessageStop") {
			return true
		}
	}
	return false
}

// benchDecode decodes stream in reads of this size, as a connection delivers them.
func benchDecode(b *testing.B, p Protocol, stream []byte, read int) {
	b.Helper()
	var events int
	var before, after runtime.MemStats
	b.SetBytes(int64(len(stream)))
	ct := "text/event-stream"
	switch p.Name() {
	case ollama{}.Name():
		ct = linesType
	case bedrockConverse{}.Name():
		ct = awsType
	}
	runtime.ReadMemStats(&before)
	for b.Loop() {
		d := p.NewDecoder(ct)
		for at := 0; at < len(stream); at += read {
			d.Write(stream[at:min(at+read, len(stream))])
		}
		d.Close()
		if d.State().Violation != 0 {
			b.Fatal(d.State().Violation)
		}
		events += d.State().Events + d.State().Keepalives
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(events), "allocs/event")
}

// benchJSON measures the cost of the same facts with encoding/json into small structs,
// after a framing without cost.
func benchJSON(b *testing.B, name string, stream []byte) {
	var payloads [][]byte
	for line := range strings.SplitSeq(string(stream), "\n") {
		if data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\r"), "data: "); (ok || strings.HasPrefix(data, "{")) && data != "[DONE]" {
			payloads = append(payloads, []byte(data))
		}
	}
	var chat struct {
		Choices []struct {
			Index int
			Delta struct {
				Content          *string
				ReasoningContent *string `json:"reasoning_content"`
				ToolCalls        []struct {
					Index int
					ID    string
				} `json:"tool_calls"`
			}
			FinishReason *string `json:"finish_reason"`
		}
		Usage *struct {
			PromptTokens int `json:"prompt_tokens"`
		}
		Error *struct{ Type, Code string }
	}
	var other struct {
		Type        string
		OutputIndex int `json:"output_index"`
		Index       int
		Delta       json.RawMessage
		Item        *struct{ Type, CallID string }
	}
	var google struct {
		Candidates []struct {
			Index   int
			Content struct {
				Parts []struct {
					Text         string
					Thought      bool
					FunctionCall *struct{ ID, Name string }
				}
			}
			FinishReason string
		}
		UsageMetadata *struct{ PromptTokenCount, CandidatesTokenCount int }
	}
	var local struct {
		Message struct{ Content, Thinking string }
		Done    bool
	}
	into := any(&other)
	switch name {
	case "openai_chat", "openai_completions":
		into = &chat
	case "gemini":
		into = &google
	case "ollama":
		into = &local
	}
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		for _, p := range payloads {
			var other *json.UnmarshalTypeError // a field that has another type at a provider
			if err := json.Unmarshal(p, into); err != nil && !errors.As(err, &other) {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(payloads)), "ns/event")
}

// BenchmarkRealtime reads frames of audio and of its transcript, alternating as in a session.
func BenchmarkRealtime(b *testing.B) {
	r := NewRealtime()
	r.Received([]byte(rtCreated("resp_1")))
	var frames [][]byte
	size := 0
	for i := range 100 {
		typ, delta := "response.output_audio_transcript.delta", " word"
		if i%4 > 0 {
			typ, delta = "response.output_audio.delta", strings.Repeat("UklGRiQA", 800)
		}
		frames = append(frames, fmt.Appendf(nil, `{"type":"%s","event_id":"event_%d","response_id":"resp_1","item_id":"item_1","output_index":0,"content_index":0,"delta":"%s"}`, typ, i, delta))
		size += len(frames[i])
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		for _, f := range frames {
			if r.Received(f).Kind != FrameProgress {
				b.Fatal("no progress")
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(frames)), "ns/frame")
}

func BenchmarkReadRequest(b *testing.B) {
	text := strings.Repeat(`\tif err != nil {\n\t\treturn fmt.Errorf(\"read the file %s: %w\", name, err)\n\t}\n`, 40)
	for _, tt := range []struct{ name, before, turn, after string }{
		{
			"openai_chat", `{"model":"m","stream":true,"messages":[`,
			`{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"call_%[1]d","content":"%s"}`, `]}`,
		},
		{
			"openai_responses", `{"model":"m","stream":true,"input":[`,
			`{"type":"function_call","call_id":"call_%d","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"call_%[1]d","output":"%s"}`, `]}`,
		},
		{
			"bedrock_converse", `{"messages":[`,
			`{"role":"assistant","content":[{"toolUse":{"toolUseId":"tooluse_%d","name":"f","input":{"a":1}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"tooluse_%[1]d","content":[{"text":"%s"}]}}]}`, `]}`,
		},
		{
			"ollama", `{"model":"m","messages":[`,
			`{"role":"assistant","tool_calls":[{"id":"call_%d","function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool","tool_call_id":"call_%[1]d","content":"%s"}`, `]}`,
		},
		{
			"gemini", `{"contents":[`,
			`{"role":"model","parts":[{"functionCall":{"id":"call_%d","name":"f","args":{"a":1}}}]},{"role":"user","parts":[{"functionResponse":{"id":"call_%[1]d","name":"f","response":{"output":"%s"}}}]}`, `]}`,
		},
		{
			"anthropic_messages", `{"model":"m","stream":true,"messages":[`,
			`{"role":"assistant","content":[{"type":"tool_use","id":"toolu_%d","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%[1]d","content":"%s"}]}`, `]}`,
		},
	} {
		var turns []string
		for i := range 300 {
			turns = append(turns, fmt.Sprintf(tt.turn, i, text))
		}
		body := []byte(tt.before + strings.Join(turns, ",") + tt.after)
		p, _ := ByName(tt.name)
		b.Run(tt.name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				req, err := p.ReadRequest(body)
				if err != nil || len(req.HistoryOutputs) != MaxIDs {
					b.Fatal(err, len(req.HistoryOutputs))
				}
			}
		})
	}
}

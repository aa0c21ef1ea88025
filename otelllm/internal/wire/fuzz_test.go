package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/sse"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire/eventstream"
	"github.com/otelllm/otelllm-go/semconv"
)

// newParser makes a decoder without the fast path: every payload is parsed.
func newParser(p Protocol, contentType string) Decoder {
	d := p.NewDecoder(contentType)
	bodyOf(d).tally.values = nil
	return d
}

func bodyOf(d Decoder) *bodyDecoder { return d.(interface{ body() *bodyDecoder }).body() }

func (d *bodyDecoder) body() *bodyDecoder { return d }

// parsed is the state of a response without the fast path.
func parsed(p Protocol, contentType, body string) *State {
	d := newParser(p, contentType)
	d.Write([]byte(body))
	d.Close()
	return d.State()
}

// literals are the bytes that the fast path holds.
func (f *fastPath) literals() string {
	var all strings.Builder
	for i := range f.kept {
		all.Write(f.shapes[i].literal)
	}
	return all.String()
}

func FuzzDecodeChat(f *testing.F)      { fuzzDecode(f, openAIChat{}) }
func FuzzDecodeResponses(f *testing.F) { fuzzDecode(f, openAIResponses{}) }
func FuzzDecodeMessages(f *testing.F)  { fuzzDecode(f, anthropicMessages{}) }
func FuzzDecodeGemini(f *testing.F)    { fuzzDecode(f, gemini{}) }
func FuzzDecodeOllama(f *testing.F)    { fuzzDecode(f, ollama{}) }
func FuzzDecodeBedrock(f *testing.F)   { fuzzDecode(f, bedrockConverse{}) }

func FuzzDecodeCompletions(f *testing.F) { fuzzDecode(f, openAICompletions{}) }

func fuzzDecode(f *testing.F, p Protocol) {
	f.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "streams", "*.jsonl"))
	require.NoError(f, err)
	for _, file := range files {
		lines, err := os.ReadFile(file)
		require.NoError(f, err)
		for _, rec := range recordingsOf(f, lines) {
			if rec.protocol != p {
				continue
			}
			f.Add([]byte(strings.Join(rec.events, "")), uint64(1))
			for i := 0; i+3 < len(rec.events); i += 3 {
				f.Add([]byte(strings.Join(rec.events[i:i+3], "")), uint64(i))
			}
		}
	}
	for _, rec := range documented(f) {
		if rec.protocol == p {
			f.Add([]byte(strings.Join(rec.events, "")), uint64(1))
			f.Add([]byte(strings.Join(rec.events, "")), uint64(4))
		}
	}
	f.Add([]byte(`{"error":{"type":"a","code":429}}`), uint64(2))
	f.Add([]byte("<br />\ndata: {}\n\ndata: {\n\n"), uint64(4))
	for _, line := range []string{"data: {}ata: {", "data: {}>\ndata: {", "data: {}b\ndata: {"} {
		f.Add([]byte("</>\n"+line+"\n\n"), uint64(4))
		f.Add([]byte("< />\n"+line), uint64(4))
	}
	f.Add([]byte("--x\r\ndata: {}\r\n\r\ndata: {\r\n\r\n"), uint64(3))
	f.Add([]byte(`{"id":"x","model":"m","status":"completed","type":"message","stop_reason":"end_turn","content":[{"type":"text","text":"a"}],"output":[{"type":"function_call","call_id":"c"}],"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`), uint64(3))
	f.Add([]byte(`[{"candidates":[{"content":{"parts":[{"text":"a"},{"functionCall":{"name":"f","willContinue":true}}]}}],"usageMetadata":{"candidatesTokenCount":1}},`+"\r\n"+`{"candidates":[{"content":{"parts":[{"functionCall":{}}]},"finishReason":"STOP"}],"promptFeedback":{"blockReason":"OTHER"}}]`), uint64(5))
	f.Add([]byte(strings.Repeat(data(`{"response":{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"candidatesTokenCount":1}},"traceId":"t"}`), 3)), uint64(4))
	f.Add([]byte("{\"message\":{\"content\":\"a\"},\"done\":false}\n{\"message\":{\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]},\"done\":false}\n\n{\"response\":\"a\",\"done\":true}{\"error\":\"x\"}"), uint64(6))
	f.Add([]byte("{\"message\":{\"content\":\"a\"},\"done\":false} {\"message\":{\"content\":\"b\"},\"done\":false}\n"), uint64(1))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"\\u00e9\"}}]}\r\n\r\n: x\r\n\r\ndata: [DONE]"), uint64(4))

	f.Add([]byte(chunk(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`)+chunk(`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`)+frame("chunk", `{"bytes":"e30"}`)), uint64(9))
	f.Add([]byte(frame("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"a"},"p":"a"}`)+frame("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":""},"p":"ab"}`)+exception("throttlingException", `{"message":"x"}`)), uint64(8))

	types := []string{sseType, jsonType, "", "text/html"}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		ct := types[seed%4]
		whole := decode(p, ct, string(body))
		checkState(t, whole)
		r := rand.New(rand.NewPCG(seed, 1))
		assert.Equal(t, whole, decode(p, ct, string(body), randomCuts(r, len(body))...), "in pieces")
		assert.Equal(t, whole, parsed(p, ct, string(body)), "with every payload parsed")
		if ct == sseType {
			malformed := whole.Violation == semconv.TransportCauseMalformedEvent
			assert.Equal(t, !wellFormedStream(p, body, malformed), malformed, "malformed as encoding/json has it")
		}
	})
}

// checkState checks what holds for every state.
func checkState(t *testing.T, s *State) {
	t.Helper()
	assert.LessOrEqual(t, s.ToolInputsCompleted, s.ToolInputsStarted)
	assert.LessOrEqual(t, s.ToolCalls, s.ToolInputsCompleted)
	assert.LessOrEqual(t, len(s.Calls), min(s.ToolInputsStarted, MaxIDs))
	assert.LessOrEqual(t, len(s.FinishReasons), MaxIDs)
	assert.GreaterOrEqual(t, s.Phase, semconv.PhaseResponseStarted)
	if s.Err != nil {
		assert.False(t, s.Complete, "complete and failed")
		assert.True(t, s.Terminal, "failed and not terminal")
		assert.LessOrEqual(t, len(s.Err.Code), maxCode)
		assert.LessOrEqual(t, len(s.Err.Type), maxCode)
		assert.True(t, s.Err.RetryAfter >= 0 && s.Err.RetryAfter <= maxAfter)
	}
	for _, c := range s.Calls {
		assert.Equal(t, SafeID(c.ID), c.ID)
		assert.Equal(t, SafeName(c.Name), c.Name)
		assert.False(t, c.Ready && !c.Completed)
	}
	for _, reason := range s.FinishReasons {
		assert.Equal(t, SafeName(reason), reason)
	}
	assert.Equal(t, SafeID(s.ResponseID), s.ResponseID)
	assert.Equal(t, safeModel([]byte(s.Model)), s.Model)
}

// wellFormedStream reports whether every payload of an event stream, which may be cut, is
// JSON. malformed is the result of the decoder.
func wellFormedStream(p Protocol, body []byte, malformed bool) bool {
	head := bytes.TrimLeft(body, " \t\r\n")
	for bytes.HasPrefix(head, []byte(byteOrderMark)) { // more than one have no other effect
		head = bytes.TrimLeft(head[len(byteOrderMark):], " \t\r\n")
	}
	if (p == (bedrockConverse{}) || p == (anthropicMessages{})) && isMessages(head) {
		return wellFormedMessages(p, head)
	}
	if p == (gemini{}) && bytes.HasPrefix(head, []byte("[")) {
		return wellFormedList(head)
	}
	sink := &validator{chunks: p == (anthropicMessages{})}
	d := sse.New(sink, MaxEvent)
	d.Write(head)
	d.Close()
	if sink.stray {
		return !malformed // objects between the events are not checked
	}
	// Before the first event a page is another violation.
	page := bytes.HasPrefix(head, []byte("<")) && !sink.good
	return !sink.bad || page
}

// wellFormedList reports whether an array, which may be cut, has only objects that are
// well-formed. An object counts once it has closed.
func wellFormedList(body []byte) bool {
	body = body[1:]
	for due := "{]"; ; {
		if body = bytes.TrimLeft(body, " \t\r\n"); len(body) == 0 {
			return true
		}
		if !strings.Contains(due, string(body[:1])) {
			return false
		}
		switch body[0] {
		case ']':
			return true
		case ',':
			due, body = "{", body[1:]
		case '{':
			var d document
			if d.write(body); !d.closed {
				return true
			}
			if !json.Valid(d.buf) {
				return false
			}
			due, body = ",]", body[len(d.buf):]
		}
	}
}

// wellFormedMessages reports whether the framing of messages, which may be cut, is right
// and their payloads are JSON.
func wellFormedMessages(p Protocol, body []byte) bool {
	sink := &validator{chunks: p == (anthropicMessages{})}
	d := eventstream.New(sink, MaxEvent)
	d.Write(body)
	d.Close()
	return !sink.bad
}

type validator struct {
	good, bad bool // at least one event was, or was not
	stray     bool // there was an object between the events
	chunks    bool // events are inside of chunks
}

func (v *validator) Event(ev sse.Event) {
	data := bytes.TrimSpace(ev.Data)
	if len(data) == 0 {
		return
	}
	ok := json.Valid(ev.Data) || bytes.HasPrefix(data, []byte("[DONE]"))
	if ok && v.chunks && string(ev.Name) == "chunk" && data[0] != '[' {
		var chunk map[string]any
		_ = json.Unmarshal(ev.Data, &chunk)
		if encoded, _ := chunk["bytes"].(string); encoded != "" {
			inner, err := base64.StdEncoding.DecodeString(encoded)
			ok = err == nil && json.Valid(inner)
		}
	}
	var first map[string]any
	begins := json.NewDecoder(bytes.NewReader(ev.Data)).Decode(&first) == nil // some clients read no further
	v.good = v.good || ok || begins
	v.bad = v.bad || !ok && !ev.Unterminated
}

func (v *validator) Message(m *eventstream.Message) {
	if string(m.Type) != "exception" && string(m.Type) != "error" {
		v.Event(sse.Event{Name: m.Event, Data: m.Payload})
	}
}
func (v *validator) Malformed()         { v.bad = true }
func (v *validator) Take([]byte) int    { return 0 }
func (v *validator) Comment()           {}
func (v *validator) Stray([]byte, bool) { v.stray = true }
func (v *validator) TooLong()           {}
func (v *validator) Dropped(bool)       {}
func (v *validator) NoRoom()            {}

func FuzzReadRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","stream":true,"messages":[{"tool_calls":[{"id":"a"}]},{"tool_call_id":"a"},{"content":[{"type":"tool_use","id":"a"},{"type":"tool_result","tool_use_id":"a"}]}],"tools":[{"type":"web_search_20250305"}]}`))
	f.Add([]byte(`{"conversation":{"id":"c"},"input":[{"type":"function_call","call_id":"a"},{"type":"item_reference"}],"web_search_options":{},"mcp_servers":[{}]}`))
	f.Add([]byte(`{"model":1,"messages":{},"input":7,"tools":"x"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var object map[string]json.RawMessage
		valid := json.Unmarshal(body, &object) == nil && object != nil
		for _, p := range protocols {
			before := slices.Clone(body)
			req, err := p.ReadRequest(body)
			assert.Equal(t, before, body, "the body is changed")
			assert.Equal(t, valid, err == nil, p.Name())
			assert.LessOrEqual(t, len(req.Model), maxModel)
			assert.False(t, req.Stream && req.StreamUnknown)
			assert.NotNil(t, req.HistoryOutputs)
			for _, ids := range [][]string{req.HistoryCalls, req.HistoryOutputs, {req.ConversationID}} {
				assert.LessOrEqual(t, len(ids), MaxIDs)
				for _, id := range ids {
					assert.Equal(t, SafeID(id), id)
				}
			}
			for _, name := range req.ProviderTools {
				assert.Equal(t, SafeName(name), name)
			}
		}
	})
}

func FuzzReadError(f *testing.F) {
	f.Add(400, []byte(`{"error":{"message":"Please try again in 1m3.5s.","type":"tokens","param":null,"code":"rate_limit_exceeded","retry_after":"7"}}`))
	f.Add(529, []byte(`{"type":"error","error":{"type":"overloaded_error"}}`))
	f.Add(500, []byte(`{"object":"error","code":500,"statusCode":503,"metadata":{"retry_after_ms":1e9}}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		for _, p := range protocols {
			e := p.ReadError(status, body)
			assert.LessOrEqual(t, len(e.Type), maxCode)
			assert.LessOrEqual(t, len(e.Code), maxCode)
			assert.True(t, e.Status == 0 || e.Status >= 400 && e.Status <= 599)
			assert.True(t, e.RetryAfter >= 0 && e.RetryAfter <= maxAfter)
		}
	})
}

// A payload of a known shape must have the meaning that it has when it is parsed. These
// streams alternate between shapes that differ in little.
func TestShapes(t *testing.T) {
	chatDelta := func(d string) string { return data(delta(d, "")) }
	block := func(index, d string) string {
		return named(`{"type":"content_block_delta","index":` + index + `,"delta":` + d + `}`)
	}
	for _, tt := range []struct {
		name string
		p    Protocol
		body string
	}{
		{"text and reasoning in one", openAIChat{}, chatDelta(`{"content":"a","reasoning":""}`) + chatDelta(`{"content":"","reasoning":"b"}`) + chatDelta(`{"content":"a","reasoning":"b"}`)},
		{"audio beside text", openAIChat{}, chatDelta(`{"content":"a","audio":{"data":"x"}}`) + chatDelta(`{"content":"","audio":{"data":"x"}}`)},
		{"parts", openAIChat{}, strings.Repeat(chatDelta(`{"content":[{"type":"text","text":"a"}]}`), 3)},
		{"calls", openAIChat{}, chatDelta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}`) + strings.Repeat(chatDelta(`{"tool_calls":[{"index":0,"function":{"arguments":"x"}}]}`), 3) + chatDelta(`{"content":"a"}`) + chatDelta(`{"tool_calls":[{"index":0,"function":{"arguments":""}}]}`)},
		{"calls side by side", openAIChat{}, chatDelta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}},{"index":1,"id":"b","function":{"name":"f","arguments":""}}]}`) + strings.Repeat(chatDelta(`{"tool_calls":[{"index":0,"function":{"arguments":"x"}}]}`)+chatDelta(`{"tool_calls":[{"index":1,"function":{"arguments":"x"}}]}`)+chatDelta(`{"tool_calls":[{"index":2,"function":{"arguments":"x"}}]}`), 3) + chatDelta(`{"content":"a"}`)},
		{"more shapes than are kept", anthropicMessages{}, named(`{"type":"content_block_start","index":7,"content_block":{"type":"tool_use","id":"a","name":"f"}}`) + strings.Repeat(block("1", `{"type":"text_delta","text":"x"}`)+block("2", `{"type":"text_delta","text":""}`)+block("3", `{"type":"thinking_delta","thinking":"x"}`)+block("7", `{"type":"input_json_delta","partial_json":"x"}`)+block("8", `{"type":"input_json_delta","partial_json":"x"}`)+block("9", `{"type":"text_delta","text":"x"}`), 4)},
		{"arguments in pieces", gemini{}, data(`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","willContinue":true}}]}}]}`) + strings.Repeat(data(`{"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.a","stringValue":"x","willContinue":true}],"willContinue":true}}]}}],"usageMetadata":{"promptTokenCount":1}}`, `{"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.b","numberValue":7}],"willContinue":true}}]}}]}`), 3) + strings.Repeat(data(`{"candidates":[{"content":{"parts":[{"functionCall":{}}]}}]}`), 3)},
		{"a picture beside a text", gemini{}, data(`{"candidates":[{"content":{"parts":[{"text":"a","inlineData":{"data":"x"}}]}}]}`, `{"candidates":[{"content":{"parts":[{"text":"","inlineData":{"data":"x"}}]}}]}`)},
		{"a count said twice", gemini{}, strings.Repeat(data(`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":5,"promptTokenCount":"x"}}`), 3)},
		{"two of one name", openAIChat{}, chatDelta(`{"content":"a","content":""}`) + chatDelta(`{"content":"","content":"a"}`) + chatDelta(`{"content":"","content":""}`)},
		{"an error that looks like a delta", openAIChat{}, chatDelta(`{"content":"a"}`) + strings.Replace(chatDelta(`{"content":"a"}`), "data:", "event: error\ndata:", 1)},
		{"broken after a shape", openAIChat{}, chatDelta(`{"content":"a"}`) + chatDelta(`{"content":"\x"}`)},
		{"a longer end", openAIChat{}, chatDelta(`{"content":"a"}`) + data(delta(`{"content":"a"}`, "")+"}")},
		{"created that is no number", openAIChat{}, data(`{"created":1,"choices":[{"delta":{"content":"a"}}]}`, `{"created":01,"choices":[{"delta":{"content":"a"}}]}`)},
		{"created that is a fraction", openAIChat{}, data(`{"created":1.5,"choices":[{"delta":{"content":"a"}}]}`, `{"created":2.5,"choices":[{"delta":{"content":"a"}}]}`, `{"created":2,"choices":[{"delta":{"content":"a"}}]}`)},
		{"usage in every chunk", openAIChat{}, data(`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1}}`, `{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":2}}`)},
		{"input and text", anthropicMessages{}, named(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f"}}`) + strings.Repeat(block("0", `{"type":"input_json_delta","partial_json":"x"}`)+block("1", `{"type":"text_delta","text":"x"}`), 3)},
		{"the same type at another index", anthropicMessages{}, named(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f"}}`) + block("1", `{"type":"input_json_delta","partial_json":"x"}`) + block("0", `{"type":"input_json_delta","partial_json":"x"}`)},
		{"another payload after a shape", anthropicMessages{}, strings.Repeat(block("0", `{"type":"text_delta","text":"x"}`), 2) + named(`{}`) + data(`{"type":"content_block_delta"}`, `{"index":0}`)},
		{"another payload after a shape", openAIResponses{}, strings.Repeat(data(`{"type":"response.output_text.delta","output_index":1,"delta":"a"}`), 2) + data(`{}`, `{"output_index":1}`)},
		{"items by index", openAIResponses{}, named(item("added", "0", `{"type":"function_call","call_id":"a","name":"f"}`), `{"type":"response.x.delta","output_index":1,"delta":"a"}`, `{"type":"response.output_text.delta","output_index":1,"delta":"a"}`, `{"type":"response.x.delta","output_index":0,"delta":"a"}`)},
		{"a payload of several lines, then its bytes", openAIChat{}, "data: {\ndata: \"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n" + "data: {\n\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"},
		{"a payload that begins with an empty line, then its bytes", openAIChat{}, strings.Repeat("data:\ndata: "+delta(`{"content":"a"}`, "")+"\n\n", 2) + "data: \n" + delta(`{"content":"a"}`, "") + "\n\n"},
		{"blank lines after events", openAIChat{}, strings.Repeat(chatDelta(`{"content":"a"}`)+"\n\n\n\r\n\r\n", 3)},
		{"another name", anthropicMessages{}, strings.Repeat(block("0", `{"type":"text_delta","text":"x"}`), 2) + strings.Replace(block("0", `{"type":"text_delta","text":"x"}`), "event: content", "event:content", 1)},
		{"line ends that differ", openAIChat{}, chatDelta(`{"content":"a"}`) + strings.ReplaceAll(chatDelta(`{"content":"a"}`), "\n", "\r\n") + strings.ReplaceAll(chatDelta(`{"content":"a"}`), "\n", "\r") + strings.Replace(chatDelta(`{"content":"a"}`), "\n\n", "\r\n\n", 1) + strings.ReplaceAll(chatDelta(`{"content":"a"}`), "\n", "\r\n") + chatDelta(`{"content":"a"}`)},
		{"line ends that differ, with a name", anthropicMessages{}, block("0", `{"type":"text_delta","text":"x"}`) + strings.ReplaceAll(block("0", `{"type":"text_delta","text":"x"}`), "\n", "\r\n") + block("0", `{"type":"text_delta","text":"x"}`)},
		{"more lines of data after what is known", openAIChat{}, chatDelta(`{"content":"a"}`) + strings.TrimSuffix(chatDelta(`{"content":"a"}`), "\n") + "data: 1\n\n"},
		{"an event of a chunk, not in a chunk", anthropicMessages{}, strings.Repeat("event: chunk\ndata: {\"bytes\":\"eyJ0eXBlIjoiY29udGVudF9ibG9ja19kZWx0YSIsImRlbHRhIjp7InR5cGUiOiJ0ZXh0X2RlbHRhIiwidGV4dCI6ImEifX0=\"}\n\n", 2) + "event: chunk\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n"},
		{"sequence numbers", openAIResponses{}, named(`{"type":"response.output_text.delta","sequence_number":9,"output_index":1,"delta":"a"}`, `{"type":"response.output_text.delta","sequence_number":10,"output_index":1,"delta":""}`, `{"type":"response.output_text.delta","sequence_number":-1,"output_index":1,"delta":"a"}`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, parsed(tt.p, sseType, tt.body), decode(tt.p, sseType, tt.body))
		})
	}
}

// A shape keeps the bytes around the values, never the values.
func TestShapesKeepNoText(t *testing.T) {
	const secret = "canary"
	for p, body := range map[Protocol]string{
		openAIChat{}:        delta(`{"content":"canary","reasoning":"canary","tool_calls":[{"index":0,"function":{"arguments":"canary"}}]}`, ""),
		openAIResponses{}:   `{"type":"response.output_text.delta","output_index":1,"delta":"canary","obfuscation":"canary"}`,
		anthropicMessages{}: `{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"canary"}}`,
		bedrockConverse{}:   `{"contentBlockIndex":0,"delta":{"text":"canary"},"p":"canary"}`,
		ollama{}:            `{"model":"m","created_at":"canary","message":{"content":"canary","thinking":"canary"},"done":false}`,
		gemini{}:            `{"candidates":[{"content":{"parts":[{"text":"canary"}]}}],"usageMetadata":{"totalTokenCount":7}}`,
	} {
		d := bodyOf(p.NewDecoder(""))
		require.Equal(t, progress, d.event([]byte("contentBlockDelta"), []byte(body)))
		learned := d.fast.literals()
		require.NotEmpty(t, learned, p.Name())
		assert.NotContains(t, learned, secret, p.Name())
	}
}

// An empty delta is not learned: its form would replace that of a delta with content.
func TestEmptyDeltasAreNotLearned(t *testing.T) {
	for text, learned := range map[string]int{"": 0, "a": 1} {
		d := bodyOf(messagesDecoders.get("", 0))
		payload := `{"type":"content_block_delta","delta":{"type":"text_delta","text":"` + text + `"}}`
		require.Equal(t, progress, d.event(nil, []byte(payload)))
		assert.Equal(t, learned, int(d.fast.kept), payload)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	for name, stream := range benchStreams(50) {
		if !strings.Contains(stream, "\n\n") {
			continue // without blank lines: see below
		}
		p, _ := ByName(name)
		d := p.NewDecoder(sseType)
		deltas := stream[strings.Index(stream, "\n\n")+2:]
		deltas = deltas[:strings.LastIndex(deltas[:len(deltas)-400], "\n\n")+2]
		d.Write([]byte(stream[:strings.Index(stream, "\n\n")+2]))
		body := []byte(deltas)
		d.Write(body)
		assert.Zero(t, testing.AllocsPerRun(20, func() { d.Write(body) }), name)
		assert.Greater(t, d.State().TextChunks, 20*30, name)
		assert.False(t, d.State().Terminal, name)
	}
	const chunk = `{"candidates":[{"content":{"parts":[{"text":" words \\n"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":10},"modelVersion":"m"}`
	const line = `{"model":"m","created_at":"2026-01-02T03:04:05.678901Z","message":{"role":"assistant","content":" words \\n"},"done":false}`
	for name, tt := range map[string]struct {
		p            Protocol
		before, item string
	}{
		"gemini":       {gemini{}, "", "data: " + chunk + "\r\n\r\n"},
		"ollama":       {ollama{}, "", line + "\n"},
		"bedrock":      {bedrockConverse{}, "", frame("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":" words \\n"},"p":"abc"}`)},
		"gemini array": {gemini{}, "[" + chunk, ",\r\n" + chunk},
	} {
		d := tt.p.NewDecoder("")
		d.Write([]byte(tt.before + tt.item))
		body := []byte(strings.Repeat(tt.item, 50))
		run := func() { d.Write(body[:333]); d.Write(body[333:]) }
		run()
		assert.Zero(t, testing.AllocsPerRun(20, run), name)
		assert.Greater(t, d.State().TextChunks, 20*50, name)
		assert.False(t, d.State().Terminal, name)
	}
}

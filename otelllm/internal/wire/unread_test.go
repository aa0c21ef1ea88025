package wire

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/carry"
	"github.com/otelllm/otelllm-go/semconv"
)

// What any client delivers of a stream is counted, or the state is Unread.
func TestSloppyStreams(t *testing.T) {
	var (
		m     = response("chatcmpl-1", "gpt-x")
		hello = delta(`{"content":"Hello"}`, "")
		stop  = delta(`{}`, "stop")
		tool  = delta(`{"tool_calls":[{"index":0,"id":"call_a","function":{"name":"f","arguments":"{}"}}]}`, "tool_calls")
		boom  = `{"error":{"type":"server_error","code":"boom"}}`
		text  = phase(semconv.PhaseText)
		bad   = all(unread, violated(semconv.TransportCauseMalformedEvent))
	)
	runDecodeTests(t, openAIChat{}, []decodeTest{
		{"one line end apart", "", "data: " + hello + "\ndata: " + stop + "\ndata: [DONE]\n", all(m, events(3), texts(1), ended("stop"))},
		{"indented", "", " data: " + hello + "\n\n\tdata: " + stop + "\n\n  data: [DONE]\n\n", all(m, events(3), texts(1), ended("stop"))},
		{"blanks after the field", "", "data:\t" + hello + "\n\ndata:" + stop + "\n\ndata:   [DONE]\n\n", all(m, events(3), texts(1), ended("stop"))},
		{"a line that is no JSON, then the answer", "", data("oops", hello, stop, "[DONE]"), all(m, bad, events(3), texts(1), ended("stop"))},
		{"bytes after the JSON", "", data(hello+" trailing", stop, "[DONE]"), all(m, bad, events(3), texts(1), ended("stop"))},
		{"two objects in a payload", "", data(hello + hello), all(m, bad, events(1), texts(1), text)},
		{"an error in band, then text", "", data(boom, hello), all(m, unread, events(2), texts(1), failed(Error{Type: "server_error", Code: "boom"}), func(s *State) { s.ResponseID, s.Model = "", "" })},
		{"an error in band, then a call", "", data(boom, tool), all(unread, events(2), calls("call_a!"), phase(semconv.PhaseResponseStarted), failed(Error{Type: "server_error", Code: "boom"}))},
		{"an error in band, then [DONE]", "", data(boom, "[DONE]"), all(events(2), failed(Error{Type: "server_error", Code: "boom"}))},
		{"members in another case", "", data(strings.Replace(hello, "content", "Content", 1), strings.NewReplacer("choices", "Choices", "finish_reason", "FINISH_REASON").Replace(stop), "[DONE]"), all(m, events(3), texts(1), ended("stop"))},
		{"calls in another case", "", data(strings.NewReplacer("tool_calls\":[", "TOOL_CALLS\":[", `"id":"call_a"`, `"ID":"call_a"`, "function", "Function").Replace(tool)), all(m, events(1), calls("call_a!"), func(s *State) { s.Complete = true }, phase(semconv.PhaseToolCallReady), finished("tool_calls"))},
		{"a member that is not known", "", data(delta(`{"poem":"Hello"}`, "")), all(m, unread, events(1))},
		{"a member that is not known and says nothing", "", data(delta(`{"poem":{"a":[null,""],"b":7,"c":true}}`, "")), all(m, events(1))},
		{"an answer that is elsewhere", "", data(`{"id":"chatcmpl-1","model":"gpt-x","answers":[{"text":"Hello"}]}`), all(m, unread, events(1))},
		{"a reason that is not known", "", data(delta(`{}`, "moonrise"), "[DONE]"), all(m, unread, events(2), ended("moonrise"))},
		{"pictures", "", data(delta(`{"images":[{"type":"image_url","image_url":{"url":"data:"}}]}`, "stop")), all(m, events(1), texts(1), func(s *State) { s.Complete = true }, phase(semconv.PhaseStreamEnd), finished("stop"))},
		{"speech", "", data(delta(`{"audio":{"id":"audio_1"}}`, ""), delta(`{"audio":{"id":"audio_1","data":"UklG"}}`, "")), all(m, events(2), texts(1), text)},
		{"Groq's own tools", "", data(delta(`{"executed_tools":[{"index":0,"type":"search"}]}`, ""), delta(`{"executed_tools":[{"index":0,"type":"search","output":"x"},{"index":1,"type":"python"}]}`, "")), all(m, events(2), providerTools(2, "search", "python"))},
		{"deferred", jsonType, `{"request_id":"b3a1"}`, all(events(1), ended("deferred"))},
		{"a JSON array where an object is due", jsonType, `[` + hello + `]`, bad},
		{"a document and more", jsonType, strings.Replace(hello, `"finish_reason":null`, `"finish_reason":"stop"`, 1) + hello, all(m, unread, events(1), texts(1), ended("stop"))},
	})

	resp := response("resp_1", "gpt-x")
	created := `{"type":"response.created","response":{"id":"resp_1","model":"gpt-x","status":"in_progress","output":[]}}`
	done := func(output string) string {
		return `{"type":"response.completed","response":{"id":"resp_1","model":"gpt-x","status":"completed","output":[` + output + `]}}`
	}
	message := `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello","annotations":[]}]}`
	runDecodeTests(t, openAIResponses{}, []decodeTest{
		{"text without deltas", "", named(created, `{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"Hello"}`), all(resp, events(2), texts(1), text)},
		{"a refusal without deltas", "", named(created, `{"type":"response.refusal.done","output_index":0,"refusal":"No"}`, done("")), all(resp, events(3), texts(1), ended("refusal"))},
		{"a part without deltas", "", named(created, `{"type":"response.content_part.done","output_index":0,"part":{"type":"output_text","text":"Hello"}}`), all(resp, events(2), texts(1), text)},
		{"a part that begins with text", "", named(created, `{"type":"response.content_part.added","output_index":0,"part":{"type":"output_text","text":"Hello"}}`), all(resp, events(2), texts(1), text)},
		{"an item that begins with text", "", named(created, item("added", "0", message)), all(resp, events(2), texts(1), text)},
		{"reasoning without deltas", "", named(created, `{"type":"response.reasoning_summary_text.done","output_index":0,"text":"Hm"}`), all(resp, events(2), thoughts(1), phase(semconv.PhaseReasoning))},
		{"deltas and their whole", "", named(created, `{"type":"response.output_text.delta","output_index":0,"delta":"Hello"}`, `{"type":"response.output_text.done","output_index":0,"text":"Hello"}`), all(resp, events(3), texts(1), text)},
		{"an event that is not known", "", named(created, `{"type":"response.poem.delta","output_index":0,"delta":"Hello"}`), all(resp, unread, events(2))},
		{"one that began empty", "", named(created, `{"type":"response.poem.delta","output_index":0,"delta":""}`, `{"type":"response.poem.delta","output_index":0,"delta":"Hello"}`), all(resp, unread, events(3))},
		{"an event that is not known and says nothing", "", named(created, `{"type":"response.poem.began","output_index":0,"place":7}`), all(resp, events(2))},
		{"an item that is not known", "", named(created, item("added", "0", `{"type":"poem"}`)), all(resp, unread, events(2))},
		{"a part that is not known", "", named(created, `{"type":"response.content_part.done","output_index":0,"part":{"type":"poem","verse":"Hello"}}`), all(resp, unread, events(2))},
		{"a compaction", jsonType, `{"id":"resp_1","model":"gpt-x","status":"completed","output":[{"type":"compaction","encrypted_content":"x"}]}`, all(resp, events(1), thoughts(1), ended("stop"))},
		{"an approval", jsonType, `{"id":"resp_1","model":"gpt-x","status":"completed","output":[{"type":"mcp_approval_request","id":"mcpr_1","name":"f","arguments":"{}"}]}`, all(resp, events(1), ended("approval_required"))},
		{"queued", jsonType, `{"id":"resp_1","model":"gpt-x","status":"queued","background":true,"output":[]}`, all(resp, events(1), ended("queued"))},
		{"a status that is not known", jsonType, `{"id":"resp_1","model":"gpt-x","status":"musing","output":[` + message + `]}`, all(resp, unread, events(1), texts(1), ended("stop"))},
		{"a failure after an answer in part", jsonType, `{"id":"resp_1","model":"gpt-x","status":"failed","error":{"code":"server_error"},"output":[` + message + `]}`, all(resp, events(1), texts(1), failed(Error{Code: "server_error"}))},
		{"an error, then the answer", "", named(created, `{"type":"error","code":"server_error"}`, done(message)), all(resp, unread, events(3), texts(1), failed(Error{Code: "server_error"}))},
	})

	local := response("", "m")
	runDecodeTests(t, ollama{}, []decodeTest{
		{"a broken line, then text", linesType, "{}\noops\n" + `{"model":"m","message":{"content":"Hello"},"done":false}` + "\n", all(local, bad, events(2), texts(1), text)},
		{"a model that was loaded", jsonType, `{"model":"m","created_at":"x","response":"","done":true,"done_reason":"load"}`, all(local, events(1), ended("load"))},
		{"a member that is not known", linesType, `{"model":"m","message":{"poem":"Hello"},"done":false}` + "\n", all(local, unread, events(1))},
	})
	runDecodeTests(t, gemini{}, []decodeTest{
		{"a part that is not known", "", data(`{"candidates":[{"content":{"parts":[{"poem":"Hello"}]}}]}`), all(unread, events(1))},
		{"members in another case", "", data(`{"Candidates":[{"content":{"PARTS":[{"Text":"Hello"}]},"finishreason":"STOP"}]}`), all(events(1), texts(1), finished("STOP"), phase(semconv.PhaseStreamEnd), func(s *State) { s.Complete = true })},
		{"a signature that is missing", "", data(`{"candidates":[{"finishReason":"MISSING_THOUGHT_SIGNATURE"}]}`), all(events(1), finished("MISSING_THOUGHT_SIGNATURE"), failed(Error{Type: "MISSING_THOUGHT_SIGNATURE"}))},
	})
	runDecodeTests(t, anthropicMessages{}, []decodeTest{
		{"a block that is not known", "", named(`{"type":"content_block_start","index":0,"content_block":{"type":"poem"}}`), all(unread, events(1))},
		{"a delta that is not known", "", named(`{"type":"content_block_delta","index":0,"delta":{"type":"poem_delta","verse":"Hello"}}`), all(unread, events(1))},
		{"an event that is not known", "", named(`{"type":"poem","verse":"Hello"}`), all(unread, events(1))},
		{"an event that is not known and says nothing", "", named(`{"type":"poem","index":0}`), events(1)},
	})
}

// Of a body that was cut, a complete line of the last event counts but does not end the
// response. An incomplete line does not count, and does not set Unread.
func TestCut(t *testing.T) {
	hello, stop := "data: "+delta(`{"content":"Hello"}`, "")+"\n\n", "data: "+delta(`{"content":"!"}`, "stop")
	cut := func(body string) *State {
		d := openAIChat{}.NewDecoder(sseType)
		d.Write([]byte(body))
		d.Cut(false)
		return d.State()
	}
	for _, end := range []string{"", "\n"} {
		s := cut(hello + stop + end)
		assert.Equal(t, 2, s.TextChunks)
		assert.False(t, s.Complete)
		assert.False(t, s.Terminal)
		assert.Equal(t, semconv.PhaseText, s.Phase)
		assert.False(t, s.Unread)
	}
	for n := len("data: {"); n < len(stop); n++ {
		s := cut(hello + stop[:n])
		require.Equal(t, 1, s.TextChunks, "%q", stop[:n])
		require.False(t, s.Unread, "%q", stop[:n])
	}
	s := cut(hello + stop + "\n\ndata: [DONE]\n")
	assert.True(t, s.Complete)
	assert.False(t, s.Terminal)
	s = cut(hello + `data: {"error":{"code":"boom"}}` + "\n")
	assert.Equal(t, &Error{Code: "boom"}, s.Err)
	assert.True(t, s.Terminal)
	s = cut(hello + stop + "\n\ndata: [DONE]\n\n")
	assert.True(t, s.Complete && s.Terminal)
}

// The state of a longer prefix of a stream includes that of a shorter one: counts only grow,
// and Unread stays set.
func checkPrefixes(t *testing.T, p Protocol, ct, body string) {
	t.Helper()
	before := started()
	for n := range len(body) + 1 {
		d := p.NewDecoder(ct)
		d.Write([]byte(body[:n]))
		d.Cut(false)
		s := d.State()
		for _, grows := range [][2]int{
			{before.TextChunks, s.TextChunks},
			{before.ReasoningChunks, s.ReasoningChunks},
			{before.ToolInputsStarted, s.ToolInputsStarted},
			{before.ToolCalls, s.ToolCalls},
			{before.ProviderToolsStarted, s.ProviderToolsStarted},
		} {
			require.LessOrEqual(t, grows[0], grows[1], "cut at %d of %q", n, body)
		}
		// The name of an event may follow its data, and may mean that it is an error.
		named := before.Err == nil && s.Err != nil
		require.False(t, before.Unread && !s.Unread && !named, "cut at %d of %q", n, body)
		before = s
	}
}

func TestPrefixes(t *testing.T) {
	for name, stream := range benchStreams(3) {
		p, _ := ByName(name)
		ct := sseType
		switch name {
		case ollama{}.Name():
			ct = linesType
		case bedrockConverse{}.Name():
			ct = awsType
		}
		checkPrefixes(t, p, ct, stream)
		if ct != sseType {
			continue
		}
		for _, sloppy := range []string{
			strings.ReplaceAll(stream, "\n\n", "\n"), strings.ReplaceAll(stream, "data:", "\t data:"), strings.ReplaceAll(stream, "}\n\n", "} oops\n\n"),
			strings.ReplaceAll(stream, "\n\n", "\n\ndata: oops\n\n"), strings.ReplaceAll(stream, "\n\n", "\r\n: x\r\n\r\n"),
		} {
			checkPrefixes(t, p, ct, sloppy)
		}
	}
}

func FuzzPrefixes(f *testing.F) {
	f.Add([]byte("data: "+delta(`{"content":"a"}`, "")+"\ndata: "+delta(`{"content":"a"}`, "stop")+" x\n\n data: [DONE]\n"), uint8(0))
	f.Add([]byte(named(`{"type":"response.output_text.delta","output_index":0,"delta":"a"}`, `{"type":"error","code":"a"}`)), uint8(1))
	f.Add([]byte("{\"message\":{\"content\":\"a\"}}\n{}{\n"), uint8(4))
	f.Add([]byte(`data: "cha{"id":l-1`), uint8(0))
	f.Add([]byte(" response\xb7output_text.delta\ndata: \"response.\xe3outpuxe_ttt.delta\","), uint8(1))
	f.Fuzz(func(t *testing.T, body []byte, which uint8) {
		checkPrefixes(t, protocols[int(which)%len(protocols)].Protocol, sseType, string(body[:min(len(body), 400)]))
	})
}

// A member or a type under another name sets Unread wherever it makes a count smaller.
func TestUnknownShapes(t *testing.T) {
	for _, tt := range []struct {
		p     Protocol
		event string
	}{
		{openAIChat{}, delta(`{"role":"assistant","content":"Hello"}`, "")},
		{openAIChat{}, delta(`{"reasoning_content":"Hello"}`, "")},
		{openAIChat{}, delta(`{"refusal":"Hello"}`, "")},
		{openAIChat{}, delta(`{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":"{}"}}]}`, "")},
		{openAIResponses{}, `{"type":"response.output_text.delta","output_index":0,"delta":"Hello"}`},
		{openAIResponses{}, item("added", "0", `{"type":"function_call","call_id":"a","name":"f"}`)},
		{openAIResponses{}, item("done", "0", `{"type":"message","content":[{"type":"output_text","text":"Hello"}]}`)},
		{anthropicMessages{}, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}`},
		{anthropicMessages{}, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f"}}`},
		{gemini{}, `{"candidates":[{"content":{"parts":[{"text":"Hello"}]}}]}`},
		{gemini{}, `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","id":"a"}}]}}]}`},
		{ollama{}, `{"model":"m","message":{"content":"Hello"},"done":false}`},
		{ollama{}, `{"model":"m","message":{"tool_calls":[{"function":{"name":"f"}}]},"done":false}`},
	} {
		seen := func(event string) (n int, unread bool) {
			s := decode(tt.p, sseType, "data: "+event+"\n\n")
			return s.TextChunks + s.ReasoningChunks + s.ToolInputsStarted + s.ProviderToolsStarted, s.Unread
		}
		n, doubted := seen(tt.event)
		require.Equal(t, 1, n, tt.event)
		require.False(t, doubted, tt.event)
		for _, word := range wordsOf(t, tt.event) {
			other := strings.Replace(tt.event, word, `"quux`+word[1:], 1)
			n, doubted := seen(other)
			assert.True(t, n > 0 || doubted, other)
		}
	}
}

// A member of an answer with another JSON type counts, or the state is Unread. One without
// text does not set Unread.
func TestValuesOfAnotherType(t *testing.T) {
	for _, tt := range []struct {
		p       Protocol
		payload string // with %s for a value
		value   string // the original value: a part of an answer
	}{
		{openAIChat{}, `{"id":"a","model":"m","choices":%s}`, `[{"index":0,"delta":{"content":"Hello"}}]`},
		{openAIChat{}, `{"id":"a","model":"m","choices":[{"index":0,"delta":%s}]}`, `{"content":"Hello"}`},
		{openAIChat{}, `{"id":"a","model":"m","choices":[{"index":0,"message":%s}]}`, `{"content":"Hello"}`},
		{openAIChat{}, `{"id":"a","model":"m","choices":[{"index":0,"delta":{"content":%s}}]}`, `"Hello"`},
		{openAIChat{}, `{"id":"a","model":"m","choices":[{"index":0,"delta":{"content":[{"type":"text","text":%s}]}}]}`, `"Hello"`},
		{openAIChat{}, `{"id":"a","model":"m","choices":[{"index":0,"delta":{"audio":%s}}]}`, `{"transcript":"Hello"}`},
		{openAIChat{}, `{"id":"a","model":"m","choices":[{"index":0,"delta":{"tool_calls":%s}}]}`, `[{"index":0,"id":"a","function":{"name":"f"}}]`},
		{openAIChat{}, `{"id":"a","model":"m","choices":[{"index":0,"delta":{"function_call":%s}}]}`, `{"name":"f"}`},
		{openAIChat{}, `{"id":"a","model":"m","choices":[{"index":0,"delta":{"executed_tools":%s}}]}`, `[{"index":0,"type":"search"}]`},
		{openAICompletions{}, `{"id":"a","model":"m","choices":[{"index":0,"text":%s}]}`, `"Hello"`},
		{openAIResponses{}, `{"type":"response.output_text.delta","output_index":0,"delta":%s}`, `"Hello"`},
		{openAIResponses{}, `{"type":"response.output_text.done","output_index":0,"text":%s}`, `"Hello"`},
		{openAIResponses{}, `{"type":"response.content_part.done","output_index":0,"part":%s}`, `{"type":"output_text","text":"Hello"}`},
		{openAIResponses{}, `{"type":"response.output_item.added","output_index":0,"item":%s}`, `{"type":"function_call","call_id":"a","name":"f"}`},
		{openAIResponses{}, `{"type":"response.completed","response":%s}`, `{"id":"r","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hello"}]}]}`},
		{openAIResponses{}, `{"type":"response.completed","response":{"id":"r","output":%s}}`, `[{"type":"message","content":[{"type":"output_text","text":"Hello"}]}]`},
		{openAIResponses{}, `{"type":"response.completed","response":{"id":"r","output":[{"type":"message","content":%s}]}}`, `[{"type":"output_text","text":"Hello"}]`},
		{anthropicMessages{}, `{"type":"content_block_delta","index":0,"delta":%s}`, `{"type":"text_delta","text":"Hello"}`},
		{anthropicMessages{}, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}`, `"Hello"`},
		{anthropicMessages{}, `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":%s}}`, `"Hello"`},
		{anthropicMessages{}, `{"type":"content_block_start","index":0,"content_block":%s}`, `{"type":"tool_use","id":"a","name":"f"}`},
		{anthropicMessages{}, `{"type":"message_start","message":{"id":"m","content":%s}}`, `[{"type":"text","text":"Hello"}]`},
		{gemini{}, `{"candidates":%s}`, `[{"content":{"parts":[{"text":"Hello"}]}}]`},
		{gemini{}, `{"candidates":[{"content":%s}]}`, `{"parts":[{"text":"Hello"}]}`},
		{gemini{}, `{"candidates":[{"content":{"parts":%s}}]}`, `[{"text":"Hello"}]`},
		{gemini{}, `{"candidates":[{"content":{"parts":[{"text":%s}]}}]}`, `"Hello"`},
		{gemini{}, `{"candidates":[{"content":{"parts":[{"functionCall":%s}]}}]}`, `{"name":"f","id":"a"}`},
		{ollama{}, `{"model":"m","message":%s,"done":false}`, `{"content":"Hello"}`},
		{ollama{}, `{"model":"m","message":{"content":%s},"done":false}`, `"Hello"`},
		{ollama{}, `{"model":"m","message":{"tool_calls":%s},"done":false}`, `[{"function":{"name":"f"}}]`},
		{ollama{generate: true}, `{"model":"m","response":%s,"done":false}`, `"Hello"`},
		{ollama{generate: true}, `{"model":"m","response":"","thinking":%s,"done":false}`, `"Hello"`},
		{ollama{generate: true}, `{"model":"m","response":"","tool_calls":%s,"done":false}`, `[{"function":{"name":"f"}}]`},
	} {
		seen := func(value string) (n int, unread bool) {
			s := decode(tt.p, sseType, "data: "+fmt.Sprintf(tt.payload, value)+"\n\n")
			assert.Equal(t, 1, s.Events, value)
			return s.TextChunks + s.ReasoningChunks + s.ToolInputsStarted + s.ProviderToolsStarted, s.Unread
		}
		n, doubted := seen(tt.value)
		assert.Equal(t, 1, n, tt.payload)
		assert.False(t, doubted, tt.payload)
		for _, other := range [...]string{`[%s]`, `{"value":%s}`, `[[%s]]`, `[{"value":%s}]`} {
			n, doubted := seen(fmt.Sprintf(other, tt.value))
			assert.True(t, n > 0 || doubted, tt.payload+other)
		}
		for _, nothing := range [...]string{`null`, `false`, `7`, `[]`, `{}`, `""`, `[""]`} {
			n, doubted := seen(nothing)
			assert.False(t, n > 0 && doubted, tt.payload+nothing)
		}
	}
}

// wordsOf returns the names of the members of a document, and the types in it.
func wordsOf(t *testing.T, document string) (words []string) {
	t.Helper()
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				words = append(words, fmt.Sprintf("%q:", key))
				if typ, ok := value.(string); ok && key == "type" {
					words = append(words, fmt.Sprintf("%q", typ))
				}
				walk(value)
			}
		case []any:
			for _, value := range v {
				walk(value)
			}
		}
	}
	var v any
	require.NoError(t, json.Unmarshal([]byte(document), &v))
	walk(v)
	return words
}

// All open streams together hold a bounded number of bytes. Beyond the bound a stream drops
// the event that it is in the middle of, and continues.
func TestStreamsHoldABoundTogether(t *testing.T) {
	before := carry.Held()
	begin := []byte("data: {\"id\":\"x\",\"user\":\"" + strings.Repeat("x", 9<<20))
	var decoders []Decoder
	lost := 0
	for range 12 {
		d := openAIChat{}.NewDecoder(sseType)
		d.Write(begin)
		decoders = append(decoders, d)
		require.LessOrEqual(t, carry.Held(), int64(carry.Most))
	}
	for _, d := range decoders {
		d.Write([]byte("\"}\n\ndata: " + delta(`{"content":"a"}`, "") + "\n\n"))
		assert.Equal(t, 1, d.State().TextChunks)
		assert.Zero(t, d.State().Violation)
		if d.State().Events == 1 {
			lost++
		}
	}
	assert.Positive(t, lost)
	assert.Less(t, lost, len(decoders))
	for _, d := range decoders {
		d.Release()
	}
	assert.Equal(t, before, carry.Held())
}

// TestNoEventStream: a body under text/event-stream that is something else is unread, however it
// ends: a text, and an answer compressed without a word about it.
func TestNoEventStream(t *testing.T) {
	answer := data(`{"choices":[{"index":0,"delta":{"content":"Hi"}}]}`) + done
	bodies := map[string]string{"text": "The model is busy\n", "text of a line": "upstream went away", "a field of another format": "status: busy\n\n"}
	for name, compress := range map[string]func(io.Writer) io.WriteCloser{
		"gzip": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"zlib": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	} {
		var b bytes.Buffer
		w := compress(&b)
		_, err := io.WriteString(w, answer)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		bodies[name] = b.String()
	}
	for name, body := range bodies {
		for _, p := range []Protocol{openAIChat{}, openAIResponses{}, anthropicMessages{}, gemini{}} {
			for ending, end := range map[string]func(Decoder){"clean": Decoder.Close, "cut": func(d Decoder) { d.Cut(true) }} {
				d := p.NewDecoder("text/event-stream")
				for _, b := range []byte(body) {
					d.Write([]byte{b})
				}
				end(d)
				assert.True(t, d.State().Unread && d.State().GaveUp, "%s, %s, %s", name, p.Name(), ending)
				assert.False(t, d.State().Complete)
				d.Release()
			}
		}
	}
	for _, healthy := range []string{"", "\n", ": ping\n\n", "retry: 10\n\n", "id: 1\n", "eve", "\xEF\xBB\xBFda", "data"} {
		d := openAIChat{}.NewDecoder("text/event-stream")
		d.Write([]byte(healthy))
		d.Close()
		assert.False(t, d.State().Unread, "%q", healthy)
		d.Release()
	}
}

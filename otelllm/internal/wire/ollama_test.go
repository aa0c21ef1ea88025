package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

func TestOllama(t *testing.T) {
	const callReady = semconv.PhaseToolCallReady
	lines := func(payloads ...string) string { return strings.Join(payloads, "\n") + "\n" }
	message := func(m string) string {
		return `{"model":"m","created_at":"2026-01-02T03:04:05Z","message":{"role":"assistant",` + m + `},"done":false}`
	}
	hi, hm := message(`"content":"hi"`), message(`"content":"","thinking":"hm"`)
	call := message(`"content":"","tool_calls":[{"id":"a","function":{"index":0,"name":"f","arguments":{"done":true,"name":"g"}}}]`)
	stop := `{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":5,"eval_count":7}`
	m := response("", "m")
	used := func(s *State) { s.Usage.Input, s.Usage.Output = 5, 7 }

	tests := []decodeTest{
		{"nothing", linesType, "", nil},
		{"blank lines", linesType, "{}\n\n \n\r\n", all(events(1), keepalives(3))},
		{"text", linesType, lines(hi, hi, message(`"content":""`), message(`"content":" \u00e9"`)), all(m, events(4), texts(3), phase(semconv.PhaseText))},
		{"pictures", linesType, lines(message(`"images":["AAAA"]`), message(`"images":["AAAA"]`)), all(m, events(2), texts(2), phase(semconv.PhaseText))},
		{"as events of a gateway", "", data(hi, hi, hi, stop), all(m, events(4), texts(3), used, ended("stop"))},
		{"reasoning", linesType, lines(hm, hm), all(m, events(2), thoughts(2), phase(semconv.PhaseReasoning))},
		{"both in one", linesType, lines(message(`"thinking":"hm","content":"hi"`), message(`"thinking":"hm","content":"hi"`)), all(m, events(2), thoughts(2), texts(2), phase(semconv.PhaseText))},
		{"a whole answer", linesType, lines(hi, stop), all(m, events(2), texts(1), used, ended("stop"))},
		{"text in the last line", linesType, lines(strings.Replace(stop, `""`, `"hi"`, 1)), all(m, events(1), texts(1), used, ended("stop"))},
		{"the last line without its end", linesType, hi + "\n" + stop, all(m, events(2), texts(1), used, ended("stop"))},
		{"a line that is cut", linesType, hi + "\n" + stop[:30], all(m, events(1), texts(1), phase(semconv.PhaseText))},
		{"CRLF", linesType, hi + "\r\n" + stop + "\r\n", all(m, events(2), texts(1), used, ended("stop"))},
		{"done without a reason", linesType, lines(`{"done":true}`), all(events(1), ended("stop"))},
		{"a reason that is a text", linesType, lines(`{"done":true,"done_reason":"because of you"}`), all(events(1), unread, ended("redacted"))},
		{"a reason without done", linesType, lines(hi, `{"model":"m","message":{"role":"assistant","content":""},"done_reason":"stop"}`), all(m, events(2), texts(1), ended("stop"))},
		{"a reason without done, generate", linesType, lines(`{"response":"a"}`, `{"response":"b","done_reason":"length","eval_count":7}`), all(events(2), texts(2), ended("length"), func(s *State) { s.Usage.Output = 7 })},
		{"a reason without done, after a call", linesType, lines(call, `{"done_reason":"stop"}`), all(m, events(2), calls("a!"), ended("stop"))},
		{"a reason without done, as events", "", data(hi, `{"done_reason":"stop"}`), all(m, events(2), texts(1), ended("stop"))},
		{"a reason without done, not streaming", jsonType, `{"message":{"content":"hi"},"done_reason":"stop"}`, all(events(1), texts(1), ended("stop"))},
		{"an empty reason without done", linesType, lines(hi, `{"done_reason":""}`, `{"done_reason":null}`), all(m, events(3), texts(1), phase(semconv.PhaseText))},
		{"a reason that is not the end", linesType, lines(hi, `{"done_reason":"stop","done":false}`, hi), all(m, events(3), texts(2), phase(semconv.PhaseText))},
		{"a model that is loaded", linesType, lines(`{"done":true,"done_reason":"load"}`), all(events(1), ended("load"))},
		{"content after done", linesType, lines(hi, stop, hi, hi, call, `{"error":"x"}`), all(m, events(6), texts(3), calls("a!"), unread, used, ended("stop"))},
		{"generate", linesType, lines(`{"model":"m","response":"a","done":false}`, `{"model":"m","response":"b","done":false}`, `{"model":"m","response":"","thinking":"hm","done":false}`, `{"model":"m","response":"","done":true,"done_reason":"length","context":[1,2]}`), all(m, events(4), texts(2), thoughts(1), ended("length"))},

		{"a call", linesType, lines(call), all(m, events(1), calls("a!"), phase(callReady))},
		{"calls", linesType, lines(call, message(`"tool_calls":[{"function":{"name":"g"}},{"id":"an id","function":{"name":"my tool"}}]`), stop), all(m, events(3), calls("a!", "/g!", SafeID("an id")+"/redacted!"), used, ended("stop"))},

		{"an error", linesType, lines(hi, `{"error":"secret"}`), all(m, events(2), texts(1), phase(semconv.PhaseText), failed(Error{}))},
		{"an error of another server", linesType, lines(`{"error":{"type":"server_error","code":"boom"},"done":true}`), all(events(1), failed(Error{Type: "server_error", Code: "boom"}))},
		{"a line of text", linesType, lines(hi, "upstream error"), all(m, events(1), texts(1), unread, phase(semconv.PhaseText), violated(semconv.TransportCauseMalformedEvent))},
		{"two objects in a line", linesType, lines(hi + hi), all(m, events(1), texts(1), phase(semconv.PhaseText), unread, violated(semconv.TransportCauseMalformedEvent))},
		{"html after a line", linesType, lines(hi, "<html>"), all(m, events(1), texts(1), unread, phase(semconv.PhaseText), violated(semconv.TransportCauseMalformedEvent))},
		{"as text", "text/plain", lines(hi, stop), all(m, events(2), texts(1), used, ended("stop"))},
		{"without a type", "none", lines(hi, stop), all(m, events(2), texts(1), used, ended("stop"))},

		{"not streaming", jsonType, strings.Replace(stop, `""`, `"hi"`, 1), all(m, events(1), texts(1), used, ended("stop"))},
		{"not streaming, indented", jsonType, "{\n  \"message\": {\n \"content\": \"hi\"},\n\"done\":\n true }\n", all(events(1), texts(1), ended("stop"))},
		{"streaming as json", jsonType, lines(hi, hi, stop), all(m, events(3), texts(2), used, ended("stop"))},
		{"streaming as json, cut", jsonType, lines(hi) + hi[:20], all(m, events(1), texts(1), phase(semconv.PhaseText))},
		{"streaming as json, an error in text", jsonType, lines(hi, "upstream error"), all(m, events(1), texts(1), unread, phase(semconv.PhaseText), violated(semconv.TransportCauseMalformedEvent))},
		{"streaming as json, an array", jsonType, lines(hi, "["), all(m, events(1), texts(1), unread, phase(semconv.PhaseText), violated(semconv.TransportCauseMalformedEvent))},
		{"streaming as json, with commas", jsonType, hi + "," + hi, all(m, events(2), texts(2), unread, phase(semconv.PhaseText), violated(semconv.TransportCauseMalformedEvent))},
	}
	runDecodeTests(t, ollama{}, tests)
}

// A last line without a line end ends the answer if its object is complete.
func TestCutLine(t *testing.T) {
	for line, ends := range map[string]bool{`{"done":true}`: true, `{"done":true} x`: false, `{"done":true`: false, "": false} {
		d := ollama{}.NewDecoder(linesType)
		d.Write([]byte(`{"message":{"content":"hi"}}` + "\n" + line))
		d.Cut(false)
		assert.Equal(t, ends, d.State().Complete, line)
		assert.Equal(t, ends, d.State().Terminal, line)
		assert.Equal(t, 1, d.State().TextChunks)
	}
}

func TestLineTooLong(t *testing.T) {
	d := ollama{}.NewDecoder(linesType)
	d.Write([]byte("{}\n{\"a\":\""))
	long := []byte(strings.Repeat("x", 1<<20))
	for range MaxEvent >> 20 {
		d.Write(long)
	}
	d.Write([]byte("\"}\n{}\n"))
	d.Close()
	want := started()
	all(events(2), unread, violated(semconv.TransportCauseEventTooLong))(want)
	assert.Equal(t, want, d.State())
}

func TestOllamaRequest(t *testing.T) {
	p, _, _ := Match("POST", "/api/generate")
	assert.Equal(t, "text_completion", p.Operation())
	p, _, _ = Match("POST", "/api/chat")
	assert.Equal(t, "chat", p.Operation())

	runRequestTests(t, ollama{}, []requestTest{
		{"nothing", `{}`, Request{Stream: true, HistoryCalls: none, HistoryOutputs: none}},
		{"streaming", `{"model":"m","stream":true}`, Request{Model: "m", Stream: true, HistoryCalls: none, HistoryOutputs: none}},
		{"streaming by default", `{"stream":null}`, Request{Stream: true, HistoryCalls: none, HistoryOutputs: none}},
		{"not streaming", `{"stream":false,"model":"m"}`, Request{Model: "m", HistoryCalls: none, HistoryOutputs: none}},
		{
			"history", `{"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":{"id":"no"}}},{"function":{},"id":"my id"}]},{"role":"tool","tool_call_id":"a","content":"x"},{"tool_call_id":"my id","role":"tool"}]}`,
			Request{Stream: true, HistoryCalls: []string{"a", SafeID("my id")}, HistoryOutputs: []string{"a", SafeID("my id")}},
		},
		{"a call without an id", `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]},{"role":"tool","tool_name":"f","tool_call_id":"a"}]}`, Request{Stream: true, HistoryOutputs: []string{"a"}}},
		{"an output without an id", `{"messages":[{"role":"assistant","tool_calls":[{"id":"a"}]},{"role":"tool","tool_name":"f"}]}`, Request{Stream: true, HistoryOutputs: none}},
		{"a history in tokens", `{"prompt":"x","context":[1,2]}`, Request{Stream: true, HistoryOutputs: none}},
		{"no history in tokens", `{"prompt":"x","context":[]}`, Request{Stream: true, HistoryCalls: none, HistoryOutputs: none}},
		{"tools", `{"tools":[{"type":"function","function":{"name":"f"}},{"type":"web_search"}]}`, Request{Stream: true, ProviderTools: []string{"web_search"}, HistoryCalls: none, HistoryOutputs: none}},
	})
}

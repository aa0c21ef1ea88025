package wire

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/semconv"
)

// The result of every protocol for bodies that are not of the expected form.
func TestBodies(t *testing.T) {
	const (
		malformedEvent = semconv.TransportCauseMalformedEvent
		unexpectedType = semconv.TransportCauseUnexpectedContentType
		html           = "<!DOCTYPE html><html><body>502 Bad Gateway</body></html>"
		apiError       = `{"error":{"message":"secret","type":"server_error","code":"boom"}}`
	)
	tests := []decodeTest{
		{"empty", "", "", nil},
		{"empty, no type", "none", "", nil},
		{"empty json", jsonType, "", nil},
		{"blank json", jsonType, " \n", nil},

		{"html by its type", "text/html; charset=utf-8", html, violated(unexpectedType)},
		{"html by its type, empty", "text/html", "", violated(unexpectedType)},
		{"a type with a broken parameter", "text/html; charset", html, violated(unexpectedType)},
		{"xml by its type", "application/xml", "<a/>", violated(unexpectedType)},
		{"an image", "image/png", "\x89PNG", violated(unexpectedType)},
		{"blank html", "text/html", "\r\n\r\n", violated(unexpectedType)},
		{"half a field as html", "text/html", "dat", violated(unexpectedType)},
		{"a script", "text/javascript", "callback({})", violated(unexpectedType)},
		{"a style", "text/css", "body { }", violated(unexpectedType)},
		{"parts", "multipart/mixed; boundary=x", "--x\r\nContent-Type: application/json\r\n\r\n{}\r\n--x--\r\n", violated(unexpectedType)},
		{"html called json", jsonType, html, violated(unexpectedType)},
		{"html called an event stream", sseType, "\n  " + html, violated(unexpectedType)},
		{"html without a type", "none", html, violated(unexpectedType)},
		{"html as text", "text/plain", html, violated(unexpectedType)},

		{"text called json", jsonType, "upstream connect error", violated(malformedEvent)},
		{"text without a type", "none", "upstream connect error", violated(malformedEvent)},
		{"text that begins like a field", "none", "date: now", violated(malformedEvent)},
		{"not JSON", jsonType, `{oops}`, broken},
		{"json with a hole", jsonType, `{"a":}`, broken},
		{"brackets that do not match", jsonType, `{"a":]}`, broken},
		{"truncated json", jsonType, `{"error":{"code":"a"`, nil},
		{"truncated in a string", jsonType, `{"a":"}}}`, nil},
		{"truncated in an escape", jsonType, `{"a":"\`, nil},

		{"bare error in an event stream", sseType, apiError, all(events(1), failed(Error{Type: "server_error", Code: "boom"}))},
		{"bare indented error in an event stream", sseType, "{\n  \"error\": {\n    \"type\": \"a\"\n  }\n}\n", all(events(1), failed(Error{Type: "a"}))},
		{"bare json in an event stream that is no error", sseType, `{"id":"x"}`, all(unread, violated(malformedEvent))},
		{"bare json in an event stream, broken", sseType, `{"id":"x"x}`, all(unread, violated(malformedEvent))},
		{"bare json in an event stream, cut", sseType, `{"error":{"type":"a"`, nil},
		{"bare error after events", sseType, "data: {}\n\n" + apiError + "\n\n", all(events(2), failed(Error{Type: "server_error", Code: "boom"}))},
		{"bare indented error after events", sseType, "data: {}\n\n{\n  \"error\": {\n    \"type\": \"a\",\n    \"param\": [\n    ]\n  }\n}\n", all(events(2), failed(Error{Type: "a"}))},
		{"bare json cut by an event", sseType, "{\n  \"error\": {\n    \"type\": \"a\"\ndata: {}\n\n }\n}\n", events(1)},
		{"bare json after events, cut by an event", sseType, "data: {}\n\n{\n  \"error\": {\n    \"type\": \"a\"\ndata: {}\n\n }\n}\n", events(2)},
		{"bare json after events that is no error", sseType, "data: {}\n\n{\"a\":1}\n\n", events(1)},
		{"bare text after events that is no error", sseType, "data: {}\n\n{\"a\":\"b\"}\n\n", all(events(1), unread)},
		{"error in json", jsonType, apiError, all(events(1), failed(Error{Type: "server_error", Code: "boom"}))},
		{"error in json without a type", "none", "\xEF\xBB\xBF\n" + apiError, all(events(1), failed(Error{Type: "server_error", Code: "boom"}))},

		{"events called json", jsonType, "data: {}\n\n", events(1)},
		{"events without a type", "none", "event: x\ndata: {}\n\n", events(1)},
		{"events as text", "text/plain", "\n: hi\n\nid: 1\ndata: {}\n\n", all(events(1), keepalives(1))},
		{"events as bytes", "application/octet-stream", "retry: 1\ndata: {}\n\n", events(1)},
		{"events after a byte order mark", "none", "\xEF\xBB\xBFdata: {}\n\n", events(1)},
		{"events as html", "text/html; charset=UTF-8", "\n\ndata: {}\n\n: hi\n\n", all(events(1), keepalives(1))},
		{"events as xml", "text/xml", "event: x\ndata: {}\n\n", events(1)},
		{"events as a script", "application/javascript", ": hi\n\ndata: {}\n\n", all(events(1), keepalives(1))},
		{"events as parts", "multipart/form-data", "\xEF\xBB\xBFdata: {}\n\n", events(1)},
		{"error in json as html", "text/html", apiError + "\n", all(events(1), failed(Error{Type: "server_error", Code: "boom"}))},
		{"broken events as html", "text/html", "data: {}\n\ndata: oops\n\n", all(events(1), unread, violated(malformedEvent))},
		{"half a field without a type", "none", "dat", nil},

		// The SDKs ignore what precedes the events, and read what follows.
		{"a warning before the events", "text/html", "<br />\n<b>Warning</b>:  Undefined variable\n\ndata: {}\n\n: hi\n\ndata: {}\n\n", all(events(2), keepalives(1))},
		{"a long line before the events", "text/html", strings.Repeat("x", maxStray-1) + "\n\ndata: {}\n\ndata: {\"x\":[" + strings.Repeat("1,", maxStray) + "1]}\n\n", events(2)},
		{"too long a line before the events", "text/html", strings.Repeat("x", maxStray+1) + "\n\ndata: {}\n\n", events(1)},
		{"a warning before the events of a stream", sseType, "<br />\n<b>Warning</b>:  Undefined variable\ndata: {}\n\n", events(1)},
		{"a warning before events that are broken in two ways", "text/html", "<br />\n\ndata: oops\n\ndata: {\"x\":[" + strings.Repeat("1,", maxStray) + "1]}\n\ndata: {}\n\n", all(events(1), unread, violated(malformedEvent))},
		{"a warning before broken events", "text/html", "<br />\n\ndata: oops\n\ndata: {}\n\n", all(events(1), unread, violated(malformedEvent))},
		{"a warning before an error", "text/html", "<br />\n" + apiError + "\n", all(events(1), violated(unexpectedType), failed(Error{Type: "server_error", Code: "boom"}))},
		{"text before the events", "none", "Notice: x\ndata: {}\n\n", events(1)},
		{"parts that hold events", "multipart/mixed; boundary=x", "--x\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\r\n\r\n--x--\r\n", events(1)},

		{"heartbeats", sseType, ": a\n\n:\n\ndata:\n\ndata: \n\ndata:   \n\nevent: x\n\n", keepalives(6)},
		{"malformed event", sseType, "data: {}\n\ndata: {\"a\":\n\ndata: {}\n\n", all(events(2), broken)},
		{"two documents in an event", sseType, "data: {}{}\n\n", all(events(1), unread, violated(malformedEvent))},
		{"control character in an event", sseType, "data: {\"a\":\"\x01\"}\n\n", broken},
		{"text in an event", sseType, "data: upstream error\n\n", all(unread, violated(malformedEvent))},
		{"an event over several lines", sseType, "data: {\ndata: }\n\n", events(1)},
		{"an unknown event that says nothing", sseType, "event: new\ndata: {\"x\":[1,{}]}\n\n", events(1)},
		{"events one line end apart", sseType, "data: {}\ndata: {}\ndata: {}\n\n", events(3)},
		{"an indented event", sseType, "\tdata: {}\n\n data:{}\n\n", events(2)},
		{"words after an event's object", sseType, "data: {} oops\n\ndata: {}\n\n", all(events(2), unread, violated(malformedEvent))},
		{"an event that is no object", sseType, "data: null\n\ndata: 1\n\n", events(2)},
		{"cut inside an event", sseType, "data: {}\n\ndata: {\"a\":", events(1)},
		{"cut before the blank line", sseType, "data: {}\n\ndata: {}\n", events(2)},
		{"cut before the line end", sseType, "data: {}", events(1)},
	}
	for _, p := range protocols {
		t.Run(p.Name(), func(t *testing.T) { runDecodeTests(t, p, tests) })
	}
	runDecodeTests(t, openAIChat{}, []decodeTest{
		{"an array", jsonType, "[]", all(unread, violated(malformedEvent))},
		{"a zero byte, as messages begin with, before the events", "none", "\x00\ndata: {}\n\n", events(1)},
	})
}

// An event that is too long is not read, but what follows it is.
func TestEventTooLong(t *testing.T) {
	long := "data: {\"a\":\"" + strings.Repeat("x", 1<<20)
	for i, p := range protocols {
		if i%sample.Every(5) != 0 {
			continue
		}
		d := p.NewDecoder(sseType)
		d.Write([]byte("data: {}\n\n"))
		d.Write([]byte(long))
		for range MaxEvent >> 20 {
			d.Write([]byte(long[100:]))
		}
		assert.True(t, d.State().Unread)
		d.Write([]byte("\"}\n\ndata: {}\n\n"))
		d.Close()
		want := started()
		all(events(2), unread, violated(semconv.TransportCauseEventTooLong))(want)
		assert.Equal(t, want, d.State(), p.Name())
	}
}

// A document that is too long sets Unread and GaveUp and has no other effect.
func TestDocumentTooLong(t *testing.T) {
	for i, p := range protocols {
		d := p.NewDecoder("application/json")
		if p.Name() == (ollama{}).Name() || i%sample.Every(5) != 0 {
			continue // there an object is an event
		}
		d.Write([]byte(`{"a":"`))
		for range MaxEvent >> 20 {
			assert.False(t, d.State().GaveUp)
			d.Write([]byte(strings.Repeat("x", 1<<20)))
		}
		assert.True(t, d.State().GaveUp)
		d.Write([]byte(`"}`))
		d.Close()
		want := started()
		want.Unread, want.GaveUp = true, true
		assert.Equal(t, want, d.State(), p.Name())
	}
}

// An event of exactly MaxEvent bytes is read; one of one more byte is not, whether it
// arrives in one piece or several.
func TestLongestEvent(t *testing.T) {
	const begins = `{"model":"`
	filler := []byte(strings.Repeat("x", MaxEvent-len(begins)))
	for _, tt := range []struct {
		name, ct string
		p        Protocol
		before   string
	}{
		{"line", linesType, ollama{}, ""},
		{"item", jsonType, gemini{}, "["},
		{"document", jsonType, openAIChat{}, ""},
	} {
		d := tt.p.NewDecoder(tt.ct)
		d.Write([]byte(tt.before + begins))
		d.Write(filler[:len(filler)/2])
		d.Write(filler[len(filler)/2:])
		assert.False(t, d.State().Unread, tt.name)
		d.Write([]byte(`"`))
		assert.True(t, d.State().Unread, tt.name)
		d.Release()
	}
	s := decode(gemini{}, jsonType, "["+begins+string(filler)+`"}]`)
	want := started()
	all(unread, terminal, violated(semconv.TransportCauseEventTooLong))(want)
	assert.Equal(t, want, s)
}

// A body is decoded at its last byte: some clients never read the EOF.
func TestDocumentIsReadAtItsLastByte(t *testing.T) {
	d := openAIChat{}.NewDecoder(jsonType)
	d.Write([]byte(`{"choices":[{"index":0,"message":{"content":"a}"},"finish_reason":"stop"}]`))
	assert.False(t, d.State().Terminal)
	d.Write([]byte("}"))
	assert.True(t, d.State().Complete)
	before := *d.State()
	d.Write([]byte("\n \r\n"))
	assert.Equal(t, &before, d.State())
	d.Write([]byte("{}<html>"))
	d.Close()
	before.Unread = true
	assert.Equal(t, &before, d.State())
}

func TestWriteAfterClose(t *testing.T) {
	for _, p := range protocols {
		for _, ct := range []string{sseType, jsonType, ""} {
			d := p.NewDecoder(ct)
			d.Close()
			d.Write([]byte("data: {}\n\n{}"))
			assert.Equal(t, started(), d.State())
		}
	}
}

// Millions of small elements in one payload must not become millions of structs.
func TestListsOfOnePayloadAreBounded(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("{},", 1<<20/sample.Every(8)), ",")
	for body, p := range map[string]Protocol{
		`{"choices":[` + many + `]}`: openAIChat{},
		`{"choices":[{"message":{"tool_calls":[` + many + `]},"finish_reason":"stop"}]}`: openAIChat{},
		`{"status":"completed","output":[` + many + `]}`:                                 openAIResponses{},
		`{"type":"message","content":[` + many + `],"stop_reason":"end_turn"}`:           anthropicMessages{},
		`{"output":{"message":{"content":[` + many + `]}},"stopReason":"end_turn"}`:      bedrockConverse{},
		`{"message":{"tool_calls":[` + many + `]},"done":true}`:                          ollama{},
		`{"candidates":[` + many + `]}`:                                                  gemini{},
		`{"candidates":[{"content":{"parts":[` + many + `]},"finishReason":"STOP"}]}`:    gemini{},
	} {
		s := decode(p, jsonType, body)
		assert.True(t, s.Terminal)
		assert.LessOrEqual(t, s.ToolInputsStarted, maxListed)
		assert.LessOrEqual(t, len(s.Calls), MaxIDs)
	}
}

// All elements of a list are counted up to the bound of elements that are read.
func TestListsAreReadUpToTheirBound(t *testing.T) {
	for _, tt := range []struct {
		p                      Protocol
		before, element, after string
	}{
		{openAIChat{}, `{"choices":[`, `{"message":{"content":"a"}}`, `]}`},
		{openAIChat{}, `{"choices":[{"message":{"tool_calls":[`, `{}`, `]}}]}`},
		{openAIResponses{}, `{"status":"completed","output":[`, `{"type":"function_call"}`, `]}`},
		{anthropicMessages{}, `{"type":"message","content":[`, `{"type":"text","text":"a"}`, `]}`},
		{bedrockConverse{}, `{"output":{"message":{"content":[`, `{"text":"a"}`, `]}}}`},
		{ollama{}, `{"message":{"tool_calls":[`, `{}`, `]},"done":true}`},
		{gemini{}, `{"candidates":[`, `{"content":{"parts":[{"text":"a"}]}}`, `]}`},
		{gemini{}, `{"candidates":[{"content":{"parts":[`, `{"text":"a"}`, `]}}]}`},
	} {
		for n, want := range map[int]int{maxListed: maxListed, maxListed + 1: maxListed} {
			s := decode(tt.p, jsonType, tt.before+strings.TrimSuffix(strings.Repeat(tt.element+",", n), ",")+tt.after)
			assert.Equal(t, want, s.TextChunks+s.ToolInputsStarted, "%d of %s", n, tt.before)
			assert.Equal(t, n > maxListed, s.Unread, "%d of %s", n, tt.before)
		}
	}
	for n, want := range map[int]int{maxListed - 1: 1, maxListed: 0} {
		s := decode(gemini{}, jsonType, `{"candidates":[`+strings.Repeat("{},", n)+`{"content":{"parts":[{"text":"a"}]}}]}`)
		assert.Equal(t, want, s.TextChunks, "behind %d candidates", n)
		assert.Equal(t, want == 0, s.Unread, "behind %d candidates", n)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

func TestSafe(t *testing.T) {
	long := strings.Repeat("word", 50)
	key := "s" + "k-9fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA"
	assert.Equal(t, "call_1.a:b/c-D", SafeID("call_1.a:b/c-D"))
	assert.Empty(t, SafeID(""))
	assert.Equal(t, "id-4da963c72a97ccb7", SafeID("the user's name is"))
	assert.Regexp(t, "^id-[0-9a-f]{16}$", SafeID(long))
	assert.Equal(t, long[:128], SafeID(long[:128]))
	assert.NotEqual(t, SafeID("a b"), SafeID("a c"))
	assert.Regexp(t, "^id-[0-9a-f]{16}$", SafeID(key))
	assert.Equal(t, SafeID(key), safeID([]byte(key)))

	assert.Equal(t, "mcp__server__tool", SafeName("mcp__server__tool"))
	assert.Empty(t, SafeName(""))
	assert.Equal(t, "redacted", SafeName("my tool"))
	assert.Equal(t, long[:64], SafeName(long[:64]))
	assert.Equal(t, "redacted", SafeName(long[:65]))
	assert.Equal(t, "redacted", SafeName(key))

	assert.Equal(t, "org/model@v1[1m]", safeModel([]byte("org/model@v1[1m]")))
	assert.Equal(t, "redacted", safeModel([]byte("a sentence")))
	assert.Equal(t, "redacted", safeModel([]byte(long+long)))
	assert.Equal(t, "redacted", safeModel([]byte(key)))
}

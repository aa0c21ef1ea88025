package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

// crlf frames payloads as Google does.
func crlf(payloads ...string) string {
	return strings.ReplaceAll(data(payloads...), "\n", "\r\n")
}

func TestGemini(t *testing.T) {
	const callReady = semconv.PhaseToolCallReady
	candidate := func(index, parts, finish string) string {
		if finish != "" {
			finish = `,"finishReason":"` + finish + `"`
		}
		return `{"content":{"parts":[` + parts + `],"role":"model"}` + finish + `,"index":` + index + `}`
	}
	chunk := func(candidates string) string { return `{"candidates":[` + candidates + `]}` }
	part := func(p string) string { return chunk(candidate("0", p, "")) }
	stop := func(reason string) string { return chunk(candidate("0", `{"text":""}`, reason)) }
	hi := part(`{"text":"hi"}`)
	wrap := func(answer string) string { return `{"response":` + answer + `,"traceId":"t1","metadata":{}}` }
	whole := func(id string) string { return `{"functionCall":{"id":"` + id + `","name":"f","args":{"a":"}"}}}` }
	begin := part(`{"functionCall":{"name":"f","willContinue":true}}`)
	more := part(`{"functionCall":{"partialArgs":[{"jsonPath":"$.a","stringValue":"x","willContinue":true}],"willContinue":true}}`)
	last := part(`{"functionCall":{"partialArgs":[{"jsonPath":"$.a","numberValue":1}]}}`)
	complete := func(s *State) { s.Complete = true }
	done := func(reasons ...string) func(*State) {
		return all(phase(semconv.PhaseStreamEnd), finished(reasons...), complete)
	}
	used := func(in, out, cached, reasoning int) func(*State) {
		return func(s *State) {
			s.Usage = Usage{Input: in, Output: out, CacheRead: cached, CacheCreation: -1, Reasoning: reasoning}
		}
	}
	usage := func(counts string) string {
		return `{"candidates":[` + candidate("0", `{"text":"a"}`, "") + `],"usageMetadata":{` + counts + `}}`
	}
	unavailable := `{"error":{"code":503,"message":"secret","status":"UNAVAILABLE"}}`
	failedWith := failed(Error{Type: "UNAVAILABLE", Code: "503", Status: 503})

	runDecodeTests(t, gemini{}, []decodeTest{
		{"begun", "", crlf(`{"responseId":"r1","modelVersion":"gemini-x"}`), all(events(1), response("r1", "gemini-x"))},
		{"text", "", crlf(hi, hi, part(`{"text":""}`), part(`{"text":" \u00e9"}`)), all(events(4), texts(3), phase(semconv.PhaseText))},
		{"reasoning", "", crlf(part(`{"text":"hm","thought":true}`), part(`{"thought":true,"text":"hm"}`), part(`{"text":"hm","thought":true}`)), all(events(3), thoughts(3), phase(semconv.PhaseReasoning))},
		{"no thought", "", crlf(part(`{"thought":false,"text":"hm"}`)), all(events(1), texts(1), phase(semconv.PhaseText))},
		{"a picture", "", crlf(part(`{"inlineData":{"mimeType":"image/png","data":"AAAA"}}`)), all(events(1), texts(1), phase(semconv.PhaseText))},
		{"a whole answer", "", crlf(hi, stop("STOP")), all(events(2), texts(1), done("STOP"))},
		{"the last text with the reason", "", crlf(hi, chunk(candidate("0", `{"text":"hi"}`, "MAX_TOKENS"))), all(events(2), texts(2), done("MAX_TOKENS"))},
		{"no content with the reason", "", crlf(chunk(`{"finishReason":"SAFETY"}`)), all(events(1), done("SAFETY"))},
		{"not a reason", "", crlf(hi, stop("FINISH_REASON_UNSPECIFIED")), all(events(2), texts(1), phase(semconv.PhaseText))},
		{"a reason that is a text", "", crlf(stop("because of you")), all(events(1), unread, done("redacted"))},
		{"a gateway's done", "", crlf(hi, stop("STOP"), "[DONE]"), all(events(3), texts(1), ended("STOP"))},
		{"done and nothing finished", "", crlf(hi, "[DONE]"), all(events(2), texts(1), phase(semconv.PhaseText), terminal)},
		{"content after done", "", crlf(hi, stop("STOP"), "[DONE]", hi, hi, part(whole("a"))), all(events(6), texts(3), calls("a!"), unread, ended("STOP"))},

		{"two candidates, one finished", "", crlf(chunk(candidate("0", `{"text":"a"}`, "") + "," + candidate("1", `{"text":"b"}`, "STOP"))), all(events(1), texts(2), phase(semconv.PhaseText), finished("STOP"))},
		{"parts of three candidates", "", crlf(chunk(candidate("0", `{"text":"a"}`, "") + "," + candidate("1", `{"text":"hm","thought":true}`, "") + "," + candidate("2", `{"text":"c"}`, ""))), all(events(1), texts(2), thoughts(1), phase(semconv.PhaseText))},
		{"two candidates", "", crlf(chunk(candidate("0", `{"text":"a"}`, "")+","+candidate("1", `{"text":"b"}`, "STOP")), stop("MAX_TOKENS")), all(events(2), texts(2), done("STOP", "MAX_TOKENS"))},
		{"a candidate after one that finished", "", crlf(stop("STOP"), chunk(candidate("1", `{"text":"b"}`, ""))), all(events(2), texts(1), phase(semconv.PhaseText), finished("STOP"))},
		{"a reason twice", "", crlf(stop("STOP"), stop("STOP")), all(events(2), done("STOP"))},

		{"a blocked prompt", "", crlf(`{"promptFeedback":{"blockReason":"SAFETY","safetyRatings":[{"category":"x"}]},"usageMetadata":{"promptTokenCount":4}}`), all(events(1), done("SAFETY"), used(4, -1, -1, -1))},
		{"a blocked prompt that says no more", "", crlf(`{"promptFeedback":{"blockReason":"OTHER"}}`), all(events(1), done("content_filter"))},
		{"a prompt that is not blocked", "", crlf(`{"promptFeedback":{"safetyRatings":[]}}`), events(1)},

		{"a call", "", crlf(part(whole("a"))), all(events(1), calls("a!"), phase(callReady))},
		{"calls", "", crlf(part(whole("a")+","+whole("b")), stop("STOP")), all(events(2), calls("a!", "b!"), finished("STOP"), complete, phase(callReady))},
		{"a call without an id", "", crlf(part(`{"functionCall":{"name":"f"}}`)), all(events(1), calls("/f!"), phase(callReady))},
		{"a call whose id is a text", "", crlf(part(whole("an id"))), all(events(1), calls(SafeID("an id")+"!"), phase(callReady))},
		{"a call whose name is a text", "", crlf(part(`{"functionCall":{"id":"a","name":"my tool"}}`)), all(events(1), calls("a/redacted!"), phase(callReady))},
		{"text after a call", "", crlf(part(whole("a")), hi), all(events(2), calls("a!"), texts(1), phase(semconv.PhaseText))},
		{"a call begun", "", crlf(begin), all(events(1), calls("/f+"), phase(callReady))},
		{"a call going on", "", crlf(begin, more), all(events(2), calls("/f+"), phase(callReady))},
		{"a call in pieces", "", crlf(begin, more, last), all(events(3), calls("/f!"), phase(callReady))},
		{"a call in pieces, an empty end", "", crlf(begin, part(`{"functionCall":{}}`), begin), all(events(3), calls("/f!", "/f+"), phase(callReady))},
		{"a call in pieces without an end", "", crlf(begin, more, stop("STOP")), all(events(3), calls("/f!"), finished("STOP"), complete, phase(callReady))},
		{"a call in pieces that was cut", "", crlf(begin, more, stop("MAX_TOKENS")), all(events(3), calls("/f"), done("MAX_TOKENS"))},
		{"a call that was malformed", "", crlf(hi, stop("MALFORMED_FUNCTION_CALL")), all(events(2), texts(1), phase(semconv.PhaseText), finished("MALFORMED_FUNCTION_CALL"), failed(Error{Type: "MALFORMED_FUNCTION_CALL"}))},
		{"a call within one in pieces", "", crlf(begin, part(whole("a")), last), all(events(3), calls("/f!", "a!"), phase(callReady))},
		{"a text and a call, twice", "", crlf(part(`{"text":"hi"},{"functionCall":{"name":"f"}}`), part(`{"text":"hi"},{"functionCall":{"name":"f"}}`)), all(events(2), texts(2), calls("/f!", "/f!"), phase(callReady))},
		{"ids alone", "", crlf(part(`{"functionCall":{"id":"a"}}`), part(`{"functionCall":{"id":"a"}}`)), all(events(2), calls("a/!", "a/!"), phase(callReady))},
		{"a piece of nothing", "", crlf(last), events(1)},
		{"a call in pieces of another candidate", "", crlf(begin, chunk(candidate("1", `{"functionCall":{}}`, ""))), all(events(2), calls("/f+"), phase(callReady))},
		{"an error within a call in pieces", "", crlf(begin, more, unavailable), all(events(3), calls("/f+"), phase(semconv.PhaseToolInput), failedWith)},
		{"no call", "", crlf(part(`{"functionCall":null}`)), events(1)},

		{"provider's tools", "", crlf(part(`{"executableCode":{"code":"x"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK"}}`), part(`{"toolCall":{"toolType":"GOOGLE_SEARCH_WEB","id":"a"}},{"toolResponse":{"id":"a"}}`)), all(events(2), providerTools(2, "code_execution", "google_search"))},
		{"one of the provider's tools alone", "", crlf(part(`{"executableCode":{"code":"x"}}`), part(`{"executableCode":{"code":"x"}}`)), all(events(2), providerTools(2, "code_execution"))},

		{"usage", "", crlf(usage(`"promptTokenCount":5,"toolUsePromptTokenCount":2,"candidatesTokenCount":3,"thoughtsTokenCount":4,"cachedContentTokenCount":1,"totalTokenCount":14`)), all(events(1), texts(1), phase(semconv.PhaseText), used(7, 7, 1, 4))},
		{"usage that grows", "", crlf(usage(`"candidatesTokenCount":3`), usage(`"candidatesTokenCount":30`), usage(`"candidatesTokenCount":31`)), all(events(3), texts(3), phase(semconv.PhaseText), used(-1, 31, -1, -1))},
		{"usage of thoughts alone", "", crlf(usage(`"thoughtsTokenCount":3`), usage(`"thoughtsTokenCount":5`)), all(events(2), texts(2), phase(semconv.PhaseText), used(-1, 5, -1, 5))},
		{"not a usage", "", crlf(usage(`"candidatesTokenCount":3`), usage(`"candidatesTokenCount":1234567890123`), usage(`"candidatesTokenCount":3.5`), usage(`"candidatesTokenCount":"4"`)), all(events(4), texts(4), phase(semconv.PhaseText), used(-1, 3, -1, -1))},

		// Chunks that Code Assist wraps.
		{"a wrapped answer", "", crlf(wrap(hi), wrap(`{"responseId":"r1","modelVersion":"gemini-x"}`), wrap(part(whole("a"))), wrap(stop("STOP"))), all(events(4), texts(1), calls("a!"), response("r1", "gemini-x"), finished("STOP"), complete, phase(callReady))},
		{"a wrapped answer, cut", "", crlf(wrap(hi), wrap(hi), wrap(hi), wrap(part(`{"text":""}`))), all(events(4), texts(3), phase(semconv.PhaseText))},
		{"a wrapped answer that was blocked", "", crlf(wrap(`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4}}`)), all(events(1), done("SAFETY"), used(4, -1, -1, -1))},
		{"a wrapped answer in one", jsonType, wrap(chunk(candidate("0", `{"text":"hi"}`, "STOP"))), all(events(1), texts(1), ended("STOP"))},
		{"wrapped answers in an array", jsonType, "[" + wrap(hi) + "," + wrap(stop("STOP")) + "]", all(events(2), texts(1), ended("STOP"))},
		{"a wrapper within one", "", crlf(`{"response":` + wrap(stop("STOP")) + `}`), events(1)},
		{"a wrapper without an answer", "", crlf(`{"traceId":"x"}`, `{"response":null}`, `{"response":""}`), events(3)},
		{"a wrapper that is a text", "", crlf(`{"response":"STOP"}`), all(events(1), unread)},

		{"an error", "", crlf(hi, unavailable), all(events(2), texts(1), phase(semconv.PhaseText), failedWith)},
		{"a bare error", "", crlf(hi) + unavailable + "\r\n\r\n", all(events(2), texts(1), phase(semconv.PhaseText), failedWith)},
		{"a bare indented error", "", crlf(hi) + "{\r\n  \"error\": {\r\n    \"code\": 503,\r\n    \"status\": \"UNAVAILABLE\"\r\n  }\r\n}\r\n", all(events(2), texts(1), phase(semconv.PhaseText), failedWith)},
		{"an error, flat", "", crlf(`{"code":429,"message":"x"}`), all(events(1), failed(Error{Code: "429", Status: 429}))},
		{"an error with details", "", crlf(`{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}`), all(events(1), failed(Error{Type: "RESOURCE_EXHAUSTED", Code: "429", Status: 429, RetryAfter: 34500 * time.Millisecond}))},
		{"an error with a reason", "", crlf(`{"error":{"code":400,"status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}`), all(events(1), failed(Error{Type: "INVALID_ARGUMENT", Code: "API_KEY_INVALID", Status: 400}))},

		{"an array", jsonType, "[" + hi + "\n,\r\n" + stop("STOP") + "\n]\n", all(events(2), texts(1), ended("STOP"))},
		{"an array with a call", jsonType, "[" + part(whole("a")) + "," + stop("STOP") + "]", all(events(2), calls("a!"), ended("STOP"))},
		{"an array as an event stream", sseType, "\r\n[ " + hi + "]", all(events(1), texts(1), phase(semconv.PhaseText), terminal)},
		{"an array without a type", "none", "[" + hi, all(events(1), texts(1), phase(semconv.PhaseText))},
		{"an array cut before its end", jsonType, "[" + hi + "," + stop("STOP"), all(events(2), texts(1), done("STOP"))},
		{"an array cut within an object", jsonType, "[" + hi + "," + stop("STOP")[:40], all(events(1), texts(1), phase(semconv.PhaseText))},
		{"an array with an error", jsonType, "[" + hi + "," + unavailable + "]", all(events(2), texts(1), phase(semconv.PhaseText), failedWith)},
		{"an empty array", jsonType, "[]", terminal},
		{"what follows an array", jsonType, "[" + hi + "]]" + hi, all(events(1), texts(1), phase(semconv.PhaseText), terminal, unread)},
		{"an array without a comma", jsonType, "[" + hi + hi + "]", all(events(2), texts(2), unread, phase(semconv.PhaseText), violated(semconv.TransportCauseMalformedEvent))},
		{"an array with a comma too much", jsonType, "[" + hi + ",]", all(events(1), texts(1), unread, phase(semconv.PhaseText), violated(semconv.TransportCauseMalformedEvent))},
		{"an array that begins with a comma", jsonType, "[,", all(unread, violated(semconv.TransportCauseMalformedEvent))},
		{"an array of arrays", jsonType, "[[", all(unread, violated(semconv.TransportCauseMalformedEvent))},
		{"an array of words", jsonType, "[true", all(unread, violated(semconv.TransportCauseMalformedEvent))},
		{"an array with a broken object", jsonType, `[{"a":}]`, all(terminal, broken)},

		{"not streaming", jsonType, `{"candidates":[` + candidate("0", `{"text":"hm","thought":true},{"text":"hi"},`+whole("a"), "STOP") + `],"usageMetadata":{"promptTokenCount":1},"responseId":"r1","modelVersion":"m"}`, all(events(1), texts(1), thoughts(1), calls("a!"), response("r1", "m"), used(1, -1, -1, -1), ended("STOP"))},
		{"not streaming, blocked", jsonType, `{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}`, all(events(1), ended("PROHIBITED_CONTENT"))},
		{"not streaming, nothing", jsonType, `{"usageMetadata":{}}`, all(events(1), terminal)},
		{"not streaming, an error", jsonType, unavailable, all(events(1), failedWith)},
	})
}

// A call whose last part is missing was executed by no client, unless the stream ended without an
// error.
func TestGeminiCallInPiecesCut(t *testing.T) {
	const begin = `{"candidates":[{"index":0,"content":{"parts":[{"functionCall":{"name":"f","willContinue":true}}]}}]}`
	const more = `{"candidates":[{"index":0,"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.a","stringValue":"x"}],"willContinue":true}}]}}]}`
	for _, body := range []string{data(begin), data(begin, more), data(begin, more, more)} {
		cut := decodeCut(gemini{}, sseType, body)
		assert.Zero(t, cut.ToolInputsCompleted)
		assert.Equal(t, semconv.PhaseToolInput, cut.Phase)
		assert.Equal(t, 1, decode(gemini{}, sseType, body).ToolInputsCompleted)
	}
}

func TestSnake(t *testing.T) {
	for name, want := range map[string]string{"googleSearch": "google_search", "fromAToZ[@": "from_a_to_z[@", "": ""} {
		assert.Equal(t, want, string(snake([]byte(name))))
	}
	long := strings.Repeat("word", maxSafeName/4)
	assert.Equal(t, long, SafeName(string(snake([]byte(long)))))
	assert.Equal(t, redacted, SafeName(string(snake([]byte(long+"x")))), "one that was cut is not taken for a whole one")
}

func TestGeminiRequest(t *testing.T) {
	for _, tt := range []struct {
		path, model string
		stream      bool
	}{
		{"/v1beta/models/gemini-2.5-flash:generateContent", "gemini-2.5-flash", false},
		{"/v1beta/models/gemini-2.5-flash:streamGenerateContent", "gemini-2.5-flash", true},
		{"/prefix/v1/projects/p/locations/l/publishers/google/models/gemini-x@001:streamGenerateContent/", "gemini-x@001", true},
		{"/v1beta/models/a model:generateContent", "redacted", false},
		{":generateContent", "", false},
		{"/v1internal:streamGenerateContent", "", true}, // of Code Assist, which has the model in the body
		{"/prefix/v1internal:generateContent", "", false},
	} {
		p, _, ok := Match("POST", tt.path)
		require.True(t, ok, tt.path)
		for _, body := range []string{`{"contents":[]}`, `{"contents":`, ""} {
			req, err := p.ReadRequest([]byte(body))
			assert.Equal(t, len(body) == 15, err == nil)
			assert.Equal(t, tt.model, req.Model, tt.path)
			assert.Equal(t, tt.stream, req.Stream, tt.path)
		}
	}
	runRequestTests(t, gemini{model: "m", fromPath: true}, []requestTest{
		{"nothing", `{}`, Request{Model: "m", HistoryCalls: none, HistoryOutputs: none}},
		{"first turn", `{"contents":[{"role":"user","parts":[{"text":"functionCall id"}]}],"systemInstruction":{"parts":[{"functionCall":{"id":"no"}}]}}`, Request{Model: "m", HistoryCalls: none, HistoryOutputs: none}},
		{"a model of its own", `{"model":"n"}`, Request{Model: "n", HistoryCalls: none, HistoryOutputs: none}},
		{
			"history", `{"contents":[{"role":"model","parts":[{"text":"x"},{"functionCall":{"id":"a","name":"f","args":{"id":"no"}}},{"function_call":{"name":"f","id":"b"},"thoughtSignature":"x"}]},
			{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"id":"no"}}},{"function_response":{"id":"my id"}}]}]}`,
			Request{Model: "m", HistoryCalls: []string{"a", "b"}, HistoryOutputs: []string{"a", SafeID("my id")}},
		},
		{"a call without an id", `{"contents":[{"parts":[{"functionCall":{"id":"a"}},{"functionCall":{"name":"f"}}]},{"parts":[{"functionResponse":{"id":"a"}}]}]}`, Request{Model: "m", HistoryOutputs: []string{"a"}}},
		{"an output without an id", `{"contents":[{"parts":[{"functionCall":{"id":"a"}}]},{"parts":[{"functionResponse":{"id":"","name":"f"}}]}]}`, Request{Model: "m", HistoryOutputs: none}},
		{"one content", `{"contents":{"parts":{"functionCall":{"id":"a"}}}}`, Request{Model: "m", HistoryCalls: []string{"a"}, HistoryOutputs: none}},
		{"a cached history", `{"cachedContent":"cachedContents/x","contents":[]}`, Request{Model: "m", ProviderTools: []string{hidden}, HistoryOutputs: none}},
		{
			"wrapped", `{"model":"n","project":"p","user_prompt_id":"x","request":{"contents":[{"parts":[{"functionCall":{"id":"a"}}]},{"parts":[{"functionResponse":{"id":"a"}}]}],"tools":[{"googleSearch":{}}],"session_id":"s"}}`,
			Request{Model: "n", ProviderTools: []string{"google_search"}, HistoryCalls: []string{"a"}, HistoryOutputs: []string{"a"}},
		},
		{"wrapped twice", `{"request":{"request":{"contents":[{"parts":[{"functionCall":{"id":"a"}}]}]}}}`, Request{Model: "m", ProviderTools: []string{hidden}, HistoryCalls: none, HistoryOutputs: none}},
		{"no call", `{"cachedContent":"","contents":[{"parts":[{"functionCall":null}]}]}`, Request{Model: "m", HistoryCalls: none, HistoryOutputs: none}},
		{
			"provider's tools", `{"tools":[{"functionDeclarations":[{"name":"f"}]},{"computerUse":{}},{"googleSearch":{},"codeExecution":{}},{"google_search":{}},{"urlContext":null},{"googleSearchRetrieval":{}},{"mcpServers":[{"name":"x"}]},{"fileSearch":{}},{"my tool":{}}]}`,
			Request{Model: "m", ProviderTools: []string{"google_search", "code_execution", "google_search_retrieval", "mcp", "file_search", "redacted"}, HistoryCalls: none, HistoryOutputs: none},
		},
	})
}

// An error is an array if the request asked for an array.
func TestGeminiReadError(t *testing.T) {
	want := Error{Type: "RESOURCE_EXHAUSTED", Code: "429", Status: 429, RetryAfter: 17 * time.Second}
	object := `{"error":{"code":429,"message":"Slow down. Please retry in 17.2s.","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"17s"}]}}`
	for _, body := range []string{object, "[" + object + "\n]\n", "\n [\n" + object} {
		assert.Equal(t, want, gemini{}.ReadError(429, []byte(body)), body)
	}
}

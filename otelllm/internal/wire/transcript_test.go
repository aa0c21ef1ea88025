package wire

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/otelllm/otelllm-go/internal/sample"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bodyMaker makes requests with what the protocols have, and writes the same request in
// different ways.
type bodyMaker struct {
	*rand.Rand
	asIs bool // write the content as it is
}

func (g bodyMaker) one(texts ...string) string { return texts[g.IntN(len(texts))] }

func (g bodyMaker) text() string {
	return g.one("a", "b", `say "c" \ now`, "é\n", "", "aborted", "aborted by user after 3s", "<d>")
}

func (g bodyMaker) id() string {
	return g.one("call_0", "call_1", "toolu_01abcDEF234", "x y", strings.Repeat("i", 200))
}

func (g bodyMaker) input() any {
	return []any{object{}, object{"path": "x", "n": 1}, object{"list": []any{1, "a", nil, object{"b": true}}}}[g.IntN(3)]
}

// content is texts, as a string or as a list of parts.
func (g bodyMaker) content(typ string) any {
	switch g.IntN(5) {
	case 0:
		return nil
	case 1:
		return g.text()
	}
	parts := []any{}
	for range g.IntN(4) {
		p := object{"text": g.text()}
		if typ != "" {
			p["type"] = typ
		}
		switch g.IntN(8) {
		case 0:
			p = object{"type": "image", "source": object{"data": g.text()}}
		case 1:
			p["annotations"] = []any{}
		}
		parts = append(parts, p)
	}
	return parts
}

func (g bodyMaker) chat() object {
	list := []any{}
	for range g.IntN(3) {
		list = append(list, object{"role": g.one("system", "developer"), "content": g.text()})
	}
	for range g.IntN(6) {
		switch g.IntN(4) {
		case 0:
			list = append(list, object{"role": "user", "content": g.content("text")})
		case 1:
			m := object{"role": "assistant", "content": g.content("text")}
			if calls := g.list(3, func() any {
				if g.IntN(4) == 0 {
					return object{"id": g.id(), "type": "custom", "custom": object{"name": g.text(), "input": g.text()}}
				}
				return object{"id": g.id(), "type": "function", "function": object{"name": g.text(), "arguments": `{"a":1}`}}
			}); len(calls) > 0 {
				m["tool_calls"] = calls
			} else if g.IntN(4) == 0 {
				m["function_call"] = object{"name": g.text(), "arguments": "{}"}
			}
			list = append(list, m)
		case 2:
			list = append(list, object{"role": "tool", "tool_call_id": g.id(), "content": g.content("text")})
		case 3:
			list = append(list, object{"role": g.one("system", "developer", "user", "function"), "name": "n", "content": g.text()})
		}
	}
	b := object{"model": "m", "messages": list}
	if g.IntN(3) == 0 {
		b["tool_choice"] = []any{"auto", "required", object{"type": "function", "function": object{"name": "f"}}, object{"type": "custom", "custom": object{"name": "f"}}}[g.IntN(4)]
	}
	return g.offered(b)
}

func (g bodyMaker) list(n int, f func() any) (list []any) {
	for range g.IntN(n) {
		list = append(list, f())
	}
	return list
}

// offered adds tools and what the client says about the conversation.
func (g bodyMaker) offered(b object) object {
	if g.IntN(2) == 0 {
		b["tools"] = json.RawMessage(g.one(`[]`, `[{"name":"f"}]`, `[{"name":"g", "input_schema":{}}]`))
	}
	for _, name := range []string{"prompt_cache_key", "conversation"} {
		if g.IntN(4) == 0 {
			b[name] = g.one("one", "two")
		}
	}
	if g.IntN(4) == 0 {
		b["metadata"] = object{"user_id": g.one("u", "v"), "other": g.text()}
	}
	return b
}

func (g bodyMaker) responses() object {
	list := g.list(8, func() any {
		switch g.IntN(8) {
		case 0:
			return object{"type": "function_call", "call_id": g.id(), "id": "fc_1", "status": "completed", "name": "f", "arguments": g.text()}
		case 1:
			return object{"type": "custom_tool_call", "call_id": g.id(), "name": "f", "input": g.text()}
		case 2:
			return object{"type": "local_shell_call", "call_id": g.id(), "action": object{"type": "exec", "command": []any{g.text()}}}
		case 3:
			return object{"type": g.one("function_call_output", "custom_tool_call_output", "computer_call_output"), "call_id": g.id(), "output": g.content("input_text")}
		case 4:
			return object{"type": "local_shell_call_output", "id": g.id(), "output": g.text()}
		case 5:
			return object{"type": g.one("reasoning", "web_search_call"), "id": "rs_1", "summary": []any{}}
		case 6:
			return object{"type": "message", "role": g.one("assistant", "user", "developer"), "content": g.content(g.one("input_text", "output_text"))}
		default:
			return object{"role": g.one("user", "assistant"), "content": g.text()}
		}
	})
	b := object{"model": "m", "input": list}
	if g.IntN(8) == 0 {
		b["input"] = g.text()
	}
	if g.IntN(3) == 0 {
		b["previous_response_id"] = g.one("resp_1", "resp_2", strings.Repeat("resp", 50))
	}
	if g.IntN(3) == 0 {
		b["instructions"] = g.text()
	}
	if g.IntN(3) == 0 {
		b["tool_choice"] = []any{"auto", object{"type": "function", "name": "f"}, object{"type": "allowed_tools", "mode": "auto", "tools": []any{}}}[g.IntN(3)]
	}
	return g.offered(b)
}

func (g bodyMaker) messages() object {
	list := g.list(6, func() any {
		parts := listOf(g.content("text"))
		for range g.IntN(3) {
			switch g.IntN(3) {
			case 0:
				parts = append(parts, object{"type": "tool_use", "id": g.id(), "name": "f", "input": g.input()})
			case 1:
				p := object{"type": "tool_result", "tool_use_id": g.id(), "content": g.content("text")}
				if g.IntN(2) == 0 {
					p["is_error"] = g.IntN(2) == 0
				}
				parts = append(parts, p)
			case 2:
				parts = append(parts, object{"type": "server_tool_use", "id": g.id(), "name": "web_search", "input": g.input()})
			}
		}
		return object{"role": g.one("user", "assistant"), "content": parts}
	})
	b := object{"model": "m", "messages": list}
	switch g.IntN(3) {
	case 0:
		b["system"] = g.one("s1", "s2")
	case 1:
		b["system"] = []any{object{"type": "text", "text": "x-anthropic-billing-header: " + g.text()}, object{"type": "text", "text": "s1"}}
	}
	if g.IntN(3) == 0 {
		b["tool_choice"] = []any{object{"type": "auto"}, object{"type": "tool", "name": "f"}}[g.IntN(2)]
	}
	return g.offered(b)
}

func (g bodyMaker) gemini() object {
	list := g.list(6, func() any {
		parts := []any{}
		for range g.IntN(4) {
			switch g.IntN(4) {
			case 0:
				parts = append(parts, object{"functionCall": object{"id": g.id(), "name": "f", "args": g.input()}, "thoughtSignature": "s"})
			case 1:
				r := object{"name": "f", "response": object{g.one("output", "error"): g.text()}}
				if r["response"].(object)["error"] == "" {
					r["response"] = object{"other": 1}
				}
				if g.IntN(2) == 0 {
					r["id"] = g.id()
				}
				parts = append(parts, object{"functionResponse": r})
			default:
				parts = append(parts, object{"text": g.text()})
			}
		}
		m := object{"parts": parts}
		if role := g.one("user", "model", ""); role != "" {
			m["role"] = role
		}
		return m
	})
	b := object{"contents": list}
	if g.IntN(2) == 0 {
		b["systemInstruction"] = object{"parts": []any{object{"text": g.one("s1", "s2")}}}
	}
	if g.IntN(4) == 0 {
		b["cachedContent"] = g.one("cachedContents/1", "cachedContents/2")
	}
	if g.IntN(4) == 0 {
		b["toolConfig"] = object{"functionCallingConfig": []any{object{"mode": "AUTO"}, object{"mode": "ANY", "allowedFunctionNames": []any{"f"}}}[g.IntN(2)]}
	}
	if g.IntN(2) == 0 {
		b["tools"] = json.RawMessage(`[{"functionDeclarations":[]}]`)
	}
	if g.IntN(4) == 0 { // Code Assist
		b["session_id"] = g.one("one", "two")
		return object{"model": "m", "project": "p", "request": b}
	}
	return b
}

func (g bodyMaker) bedrock() object {
	list := g.list(6, func() any {
		parts := []any{}
		for range g.IntN(4) {
			switch g.IntN(4) {
			case 0:
				parts = append(parts, object{"toolUse": object{"toolUseId": g.id(), "name": "f", "input": g.input()}})
			case 1:
				content := []any{[]any{object{"text": g.text()}}, []any{object{"json": g.input()}}}[g.IntN(2)]
				parts = append(parts, object{"toolResult": object{"toolUseId": g.id(), "content": content, "status": g.one("success", "error")}})
			default:
				parts = append(parts, object{"text": g.text()})
			}
		}
		return object{"role": g.one("user", "assistant"), "content": parts}
	})
	b := object{"messages": list}
	if g.IntN(2) == 0 {
		b["system"] = []any{object{"text": g.one("s1", "s2")}}
	}
	if g.IntN(2) == 0 {
		b["toolConfig"] = object{"tools": json.RawMessage(`[{"toolSpec":{}}]`), "toolChoice": []any{object{"auto": object{}}, object{"tool": object{"name": "f"}}}[g.IntN(2)]}
	}
	return b
}

func (g bodyMaker) ollama() object {
	list := g.list(6, func() any {
		switch g.IntN(3) {
		case 0:
			return object{"role": "tool", "tool_name": "f", "content": g.text()}
		case 1:
			m := object{"role": "assistant", "content": g.text()}
			if calls := g.list(3, func() any { return object{"function": object{"name": "f", "arguments": g.input()}} }); len(calls) > 0 {
				m["tool_calls"] = calls
			}
			return m
		default:
			return object{"role": g.one("user", "system"), "content": g.text()}
		}
	})
	return g.offered(object{"model": "m", "messages": list})
}

func (g bodyMaker) body(protocol string) object {
	switch protocol {
	case "chat":
		return g.chat()
	case "responses":
		return g.responses()
	case "messages":
		return g.messages()
	case "gemini":
		return g.gemini()
	case "bedrock":
		return g.bedrock()
	default:
		return g.ollama()
	}
}

var transcriptProtocols = []string{"chat", "responses", "messages", "gemini", "bedrock", "ollama"}

// write writes a value with the members of its objects in any order and white space
// between them. Content is written in different ways of the same meaning.
func (g bodyMaker) write(v any) []byte {
	var b bytes.Buffer
	g.writeTo(&b, v, "")
	return b.Bytes()
}

func (g bodyMaker) writeTo(b *bytes.Buffer, v any, name string) {
	space := func() { b.WriteString(g.one("", "", "", " ", "\n\t")) }
	space()
	switch v := v.(type) {
	case object:
		b.WriteByte('{')
		keys := make([]string, 0, len(v)+1)
		for k := range v {
			keys = append(keys, k)
		}
		_, isPart := v["text"]
		if isPart && !g.asIs && g.IntN(3) == 0 {
			keys = append(keys, "cache_control")
		}
		g.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for i, k := range keys {
			if i > 0 {
				b.WriteByte(',')
			}
			space()
			name, _ := json.Marshal(k)
			b.Write(name)
			space()
			b.WriteByte(':')
			if e, ok := v[k]; ok {
				g.writeTo(b, e, k)
			} else {
				b.WriteString(g.one("null", `{"type":"ephemeral"}`))
			}
		}
		space()
		b.WriteByte('}')
	case []any:
		one, _ := func() (any, bool) {
			if len(v) == 1 && name == "content" {
				o, _ := v[0].(object)
				if text, ok := o["text"]; ok && (len(o) == 1 || len(o) == 2 && o["type"] != nil) {
					return text, true
				}
			}
			return nil, false
		}()
		if one != nil && !g.asIs && g.IntN(2) == 0 {
			g.writeTo(b, one, "")
			return
		}
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			g.writeTo(b, e, "")
		}
		space()
		b.WriteByte(']')
	case json.RawMessage:
		b.Write(v)
	default:
		s, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		b.Write(s)
	}
	space()
}

// Whatever a request has, its transcript has the same as the decoded body, however it is
// written, and different requests have different hashes.
func TestTranscriptOfGeneratedBodies(t *testing.T) {
	n := 2000 / sample.Every(20)
	for _, protocol := range transcriptProtocols {
		t.Run(protocol, func(t *testing.T) {
			g := bodyMaker{Rand: rand.New(rand.NewPCG(1, 1))}
			h := newHashed()
			for range n {
				body := g.body(protocol)
				first := checkTranscript(t, h, protocol, g.write(body))
				for range 2 {
					again := g.write(body)
					require.Equal(t, first, checkTranscript(t, h, protocol, again), "%s", again)
				}
			}
		})
	}
}

// agentRequest is a recorded request of a coding agent.
type agentRequest struct {
	Wire    string
	Body    json.RawMessage
	Headers map[string]string
}

// recordedRequests returns the requests in a file.
func recordedRequests(tb testing.TB, file string) (list []agentRequest) {
	tb.Helper()
	f, err := os.Open(file)
	require.NoError(tb, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(tb, err)
	for dec := json.NewDecoder(z); ; {
		var r agentRequest
		if err := dec.Decode(&r); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			tb.Fatal(err)
		}
		if r.Wire != "" {
			list = append(list, r)
		}
	}
}

// The requests of real agents: every request but the first begins with another one's.
func TestTranscriptOfRecordedBodies(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(fixturesDir(t), "..", "agents", "*", "*.requests.jsonl.gz"))
	require.NoError(t, err)
	if len(files) == 0 {
		t.Skip("no agents beside the recorded streams")
	}
	h := newHashed()
	n := 0
	for _, file := range files {
		for _, r := range recordedRequests(t, file) {
			n++
			checkTranscript(t, h, r.Wire, r.Body)
		}
	}
	assert.Greater(t, n, 50)
}

func read(t *testing.T, body string) *Transcript {
	t.Helper()
	require.True(t, json.Valid([]byte(body)), body)
	var tr Transcript
	require.True(t, tr.Read([]byte(body)), body)
	return &tr
}

// Requests of the same meaning have the same transcript.
func TestTranscriptLeavesOut(t *testing.T) {
	for _, tt := range []struct{ name, a, b string }{
		{"a string or a list", `{"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`},
		{"a mark for the cache", `{"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"content":[{"cache_control":{"type":"ephemeral"},"type":"text","text":"a"}],"role":"user"}]}`},
		{"a mark of a message", `{"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"role":"user","content":"a","cache_control":{}}]}`},
		{"a mark in a result", `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"a"}]}]}`, `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"a","cache_control":{}}]}]}]}`},
		{"a cache point", `{"messages":[{"role":"user","content":[{"text":"a"}]}]}`, `{"messages":[{"role":"user","content":[{"text":"a"},{"cachePoint":{"type":"default"}}]}]}`},
		{"the billing header", `{"system":[{"text":"x-anthropic-billing-header: 1"},{"text":"s"}],"messages":[{"role":"user","content":"a"}]}`, `{"system":"s","messages":[{"role":"user","content":"a"}]}`},
		{"parameters", `{"model":"m","temperature":1,"messages":[{"role":"user","content":"a"}]}`, `{"model":"n","messages":[{"role":"user","content":"a"}],"stream":true}`},
		{"what follows the messages", `{"system":["s","t"],"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"role":"user","content":"a"}],"system":["s","t"]}`},
		{"Code Assist's wrapper", `{"contents":[{"parts":[{"text":"a"}]}],"cachedContent":"c"}`, `{"project":"p","request":{"cachedContent":"c","contents":[{"parts":[{"text":"a"}]}]}}`},
		{"no earlier response", `{"input":"a"}`, `{"previous_response_id":null,"input":"a"}`},
		{"the order of marks of the server's state", `{"previous_response_id":"r","instructions":"s","input":"a"}`, `{"input":"a","instructions":"s","previous_response_id":"r"}`},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, read(t, tt.a), read(t, tt.b)) })
	}
}

// Requests of another meaning have another history.
func TestTranscriptKeeps(t *testing.T) {
	seen := map[uint64]string{}
	for _, body := range []string{
		`{"messages":[{"role":"user","content":"a"}]}`,
		`{"messages":[{"role":"user","content":["a","b"]}]}`,
		`{"messages":[{"role":"user","content":["b","a"]}]}`,
		`{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`,
		`{"messages":[{"role":"user","content":"ab"}]}`,
		`{"messages":[{"role":"assistant","content":"a"}]}`,
		`{"system":"s","messages":[{"role":"user","content":"a"}]}`,
		`{"system":"t","messages":[{"role":"user","content":"a"}]}`,
		`{"input":"a"}`,
		`{"input":"a","previous_response_id":"r1"}`,
		`{"input":"a","previous_response_id":"r2"}`,
		`{"input":"a","prompt":{"id":"p1"}}`,
		`{"input":"a","prompt":{"id":"p2"}}`,
		`{"prompt":[1,2,3]}`, `{"prompt":[1,2,4]}`, `{"prompt":["a","b"]}`,
		`{"messages":[{"role":"user","content":[{"type":"image","source":{"data":"a"}}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image","source":{"data":"b"}}]}]}`,
		`{"messages":[{"role":"user","content":[[1]]}]}`, `{"messages":[{"role":"user","content":[[2]]}]}`,
		`{"messages":[1]}`, `{"messages":[{"role":"user","content":1}]}`,
	} {
		tr := read(t, body)
		p, ok := tr.Point(0)
		require.True(t, ok, body)
		assert.Empty(t, seen[p.History], body)
		seen[p.History] = body
	}
}

func TestTranscriptWithoutMessages(t *testing.T) {
	for _, body := range []string{``, `{}`, `[]`, `null`, `"a"`, `{"messages":null}`, `{"model":"m"}`, `{"request":{"request":{"contents":[]}}}`, `{"messages":[{"role":"user"`} {
		var tr Transcript
		assert.False(t, tr.Read([]byte(body)), body)
	}
	var tr Transcript
	assert.True(t, tr.Read([]byte(`{"messages":[]}`)))
	_, ok := tr.Point(0)
	assert.False(t, ok)
}

// A message may grow by a few parts; other messages do not grow.
func TestTranscriptPoints(t *testing.T) {
	var tr Transcript
	list := func(n int) string { return strings.Repeat(`"a",`, n) + `"a"` }
	body := func(parts, messages int) []byte {
		return []byte(`{"messages":[` + strings.Repeat(`{"role":"user","content":["a","b"]},`, messages) + `{"role":"user","content":[` + list(parts-1) + `]}]}`)
	}
	for _, tt := range []struct{ parts, messages, want int }{{1, 0, 1}, {3, 0, 3}, {8, 1, 9}, {20, 2, 10}, {2, 100, MaxIDs}} {
		require.True(t, tr.Read(body(tt.parts, tt.messages)))
		_, ok := tr.Point(tt.want - 1)
		assert.True(t, ok)
		_, ok = tr.Point(tt.want)
		assert.False(t, ok)
	}
	_, ok := tr.Point(-1)
	assert.False(t, ok)

	short, long := read(t, string(body(2, 1))), read(t, string(body(3, 1)))
	end, _ := short.Point(0)
	within, _ := long.Point(1)
	end.Tail, end.Words = 0, 0 // of a message that has grown
	assert.Equal(t, end, within)
}

// What follows an answer is the same in the whole history as by itself.
func TestTranscriptPointTails(t *testing.T) {
	turns := []string{`{"role":"user","content":"a"}`, `{"role":"user","content":"b"},{"role":"user","content":"c"}`, `{"type":"function_call_output","call_id":"c","output":"d"}`}
	answers := []string{`{"role":"assistant","content":"x"}`, `{"role":"assistant","content":"y"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`}
	whole := read(t, `{"input":[`+turns[0]+`,`+answers[0]+`,`+turns[1]+`,`+answers[1]+`,`+turns[2]+`]}`)
	for _, tt := range []struct{ point, turn int }{{0, 2}, {3, 1}, {6, 0}} {
		point, ok := whole.Point(tt.point)
		require.True(t, ok)
		assert.Equal(t, read(t, `{"previous_response_id":"r","input":[`+turns[tt.turn]+`]}`).Tail, point.Tail, tt.turn)
		assert.Equal(t, tt.turn, point.Before.Answers)
	}
	for _, n := range []int{1, 2, 5} { // behind an answer's item
		point, ok := whole.Point(n)
		require.True(t, ok)
		assert.Zero(t, point.Tail, n)
	}
}

func TestTranscriptResults(t *testing.T) {
	for _, tt := range []struct {
		name, item string
		want       TranscriptResult
	}{
		{"chat", `{"role":"tool","tool_call_id":"c","content":"fine"}`, ResultUnknown},
		{"chat, interrupted", `{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"Tool execution aborted"}]}`, ResultInterrupted},
		{"chat, an error of a newer client", `{"role":"tool","tool_call_id":"c","content":"no","status":"error"}`, ResultFailed},
		{"responses, interrupted", `{"type":"function_call_output","call_id":"c","output":"aborted"}`, ResultInterrupted},
		{"responses, after a while", `{"type":"function_call_output","call_id":"c","output":"aborted by user after 2.1s"}`, ResultInterrupted},
		{"responses, a list", `{"type":"custom_tool_call_output","call_id":"c","output":[{"type":"input_text","text":"aborted"}]}`, ResultInterrupted},
		{"responses, about it", `{"type":"function_call_output","call_id":"c","output":"aborted?"}`, ResultUnknown},
		{"messages", `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":false,"content":"a"}]}`, ResultUnknown},
		{"messages, failed", `{"role":"user","content":[{"is_error":true,"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"a"}]}]}`, ResultFailed},
		{"messages, interrupted", `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":true,"content":"[Request interrupted by user for tool use]"}]}`, ResultInterrupted},
		{"bedrock", `{"role":"user","content":[{"toolResult":{"toolUseId":"c","status":"success","content":[{"text":"a"}]}}]}`, ResultUnknown},
		{"bedrock, failed", `{"role":"user","content":[{"toolResult":{"status":"error","toolUseId":"c","content":[{"text":"a"}]}}]}`, ResultFailed},
		{"gemini", `{"role":"user","parts":[{"functionResponse":{"id":"c","name":"f","response":{"output":"a"}}}]}`, ResultUnknown},
		{"gemini, failed", `{"role":"user","parts":[{"functionResponse":{"id":"c","name":"f","response":{"error":"a"}}}]}`, ResultFailed},
		{"gemini, failed, with a status", `{"role":"user","parts":[{"functionResponse":{"id":"c","response":{"error":"a"},"status":"done"}}]}`, ResultFailed},
		{"gemini, no error", `{"role":"user","parts":[{"functionResponse":{"id":"c","name":"f","response":{"error":null,"output":"aborted"}}}]}`, ResultInterrupted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := read(t, `{"messages":[`+tt.item+`]}`)
			require.Equal(t, 1, tr.Total.Outputs)
			out, _ := tr.Output(0)
			assert.Equal(t, TranscriptOutput{ID: TranscriptID("c"), Result: tt.want}, out)
		})
	}
}

// What the provider executed is not the client's: neither its calls nor its outputs count.
func TestTranscriptOfProvidersTools(t *testing.T) {
	for _, body := range []string{
		`{"input":[{"type":"shell_call","call_id":"c","environment":{"type":"container_auto"}},{"type":"shell_call_output","call_id":"c","output":[]}]}`,
		`{"input":[{"type":"tool_search_call","call_id":null,"execution":"server"}]}`,
		`{"input":[{"type":"tool_search_call","call_id":"c","execution":"server"},{"type":"tool_search_output","call_id":"c"}]}`,
		`{"input":[{"type":"web_search_call","id":"c"},{"type":"mcp_call","id":"d","output":"x"}]}`,
		`{"messages":[{"role":"assistant","content":[{"type":"server_tool_use","id":"c","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"c","content":[]}]}]}`,
		`{"messages":[{"role":"assistant","content":[{"toolUse":{"toolUseId":"c","type":"server_tool_use"}},{"toolResult":{"toolUseId":"c","type":"web_search_result"}}]}]}`,
	} {
		assert.Equal(t, TranscriptCount{Answers: 1}, read(t, body).Total, body)
	}
	tr := read(t, `{"input":[{"type":"shell_call","call_id":"c","action":{"commands":["a"]}},{"type":"shell_call","call_id":"d","action":{"commands":["b"]}},{"type":"shell_call_output","call_id":"c"}]}`)
	assert.Equal(t, TranscriptCount{Calls: 2, Outputs: 1, Answers: 1}, tr.Total)
	a, _ := tr.Call(0)
	b, _ := tr.Call(1)
	assert.NotEqual(t, a.Input, b.Input, "other commands")
}

// Histories longer than what is kept: the newest is kept, and counted are all.
func TestTranscriptOfLongHistories(t *testing.T) {
	const n = 3*MaxIDs + 5
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf(`{"type":"function_call","call_id":"c%d","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c%d","output":"o"}`, i, i))
	}
	tr := read(t, `{"input":[`+strings.Join(items, ",")+`]}`)
	assert.Equal(t, TranscriptCount{Calls: n, Outputs: n, Answers: n}, tr.Total)
	for i := range n + 1 {
		call, ok := tr.Call(i)
		require.Equal(t, i >= n-MaxIDs && i < n, ok)
		out, outOK := tr.Output(i)
		require.Equal(t, ok, outOK)
		if ok {
			assert.Equal(t, TranscriptID(fmt.Sprint("c", i)), call.ID)
			assert.Equal(t, call.ID, out.ID)
		}
	}
}

// Nothing that a body contains makes Read panic. A body that is read is the same in
// another order of its members.
func FuzzTranscript(f *testing.F) {
	g := bodyMaker{Rand: rand.New(rand.NewPCG(3, 3))}
	for _, protocol := range transcriptProtocols {
		for range 5 {
			f.Add(g.write(g.body(protocol)), uint64(1))
		}
	}
	f.Add([]byte(`{"messages":["a\\\"b\\\\"]}`), uint64(2))
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		var tr, again Transcript
		tr.Read(body)
		var b object
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber()
		if dec.Decode(&b) != nil {
			return
		}
		// Tools and strings are compared as they are written, so both are written anew.
		for _, inner := range []any{b, b["request"], b["toolConfig"], b["tool_config"]} {
			if inner, ok := inner.(object); ok {
				for _, name := range []string{"tools", "functions"} {
					if raw, err := json.Marshal(inner[name]); err == nil && inner[name] != nil {
						inner[name] = json.RawMessage(raw)
					}
				}
			}
		}
		one, err := json.Marshal(b)
		require.NoError(t, err)
		other := bodyMaker{Rand: rand.New(rand.NewPCG(seed, 1)), asIs: true}.write(b)
		require.Equal(t, tr.Read(one), again.Read(other))
		if !reflect.DeepEqual(tr, again) { // without a print of all that is in it
			t.Fatalf("%s and %s", one, other)
		}
	})
}

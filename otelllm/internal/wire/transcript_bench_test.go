package wire

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type object = map[string]any

// agentBodies are requests of coding agents, by protocol: instructions, tools, and a
// history of calls whose outputs are files of a few kilobytes, until it has this size.
func agentBodies(tb testing.TB, size int) map[string][]byte {
	tb.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	prose := func(n int) string {
		var b strings.Builder
		for b.Len() < n {
			b.WriteString("\tif err := decode(value); err != nil {\n\t\treturn fmt.Errorf(\"decode %q: %w\", value, err)\n\t}\n"[:20+rng.IntN(70)])
		}
		return b.String()
	}
	system := prose(size / 8)
	var schema []any
	for i := range 10 {
		schema = append(schema, object{"name": fmt.Sprint("tool", i), "description": prose(size / 150), "input_schema": object{
			"type": "object", "properties": object{"path": object{"type": "string", "description": "where"}}, "required": []any{"path"},
		}})
	}
	chat := []any{object{"role": "system", "content": system}, object{"role": "user", "content": "fix it"}}
	responses := []any{object{"type": "message", "role": "user", "content": []any{object{"type": "input_text", "text": "fix it"}}}}
	messages := []any{object{"role": "user", "content": "fix it"}}
	gemini := []any{object{"role": "user", "parts": []any{object{"text": "fix it"}}}}
	bedrock := []any{object{"role": "user", "content": []any{object{"text": "fix it"}}}}
	ollama := []any{object{"role": "system", "content": system}, object{"role": "user", "content": "fix it"}}
	for n := 0; n < size*3/4; {
		id, say, out := fmt.Sprintf("call_%024x", rng.Uint64()), prose(100), prose(500+rng.IntN(4000))
		path := fmt.Sprintf("dir/file%d.go", rng.IntN(1000))
		args := object{"path": path}
		quoted := fmt.Sprintf(`{"path":%q}`, path)
		chat = append(chat, object{"role": "assistant", "content": say, "tool_calls": []any{object{"id": id, "type": "function", "function": object{"name": "read", "arguments": quoted}}}},
			object{"role": "tool", "tool_call_id": id, "content": out})
		responses = append(responses, object{"type": "message", "role": "assistant", "content": []any{object{"type": "output_text", "text": say}}},
			object{"type": "function_call", "call_id": id, "name": "read", "arguments": quoted},
			object{"type": "function_call_output", "call_id": id, "output": out})
		messages = append(messages, object{"role": "assistant", "content": []any{object{"type": "text", "text": say}, object{"type": "tool_use", "id": id, "name": "read", "input": args}}},
			object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": id, "content": []any{object{"type": "text", "text": out}}}}})
		gemini = append(gemini, object{"role": "model", "parts": []any{object{"text": say}, object{"functionCall": object{"id": id, "name": "read", "args": args}}}},
			object{"role": "user", "parts": []any{object{"functionResponse": object{"id": id, "name": "read", "response": object{"output": out}}}}})
		bedrock = append(bedrock, object{"role": "assistant", "content": []any{object{"text": say}, object{"toolUse": object{"toolUseId": id, "name": "read", "input": args}}}},
			object{"role": "user", "content": []any{object{"toolResult": object{"toolUseId": id, "content": []any{object{"text": out}}, "status": "success"}}}})
		ollama = append(ollama, object{"role": "assistant", "content": say, "tool_calls": []any{object{"function": object{"name": "read", "arguments": args}}}},
			object{"role": "tool", "tool_name": "read", "content": out})
		n += len(say) + len(out) + 200
	}
	bodies := map[string][]byte{}
	for name, body := range map[string]object{
		"chat":      {"model": "m", "messages": chat, "tools": schema, "stream": true},
		"responses": {"model": "m", "instructions": system, "input": responses, "tools": schema, "stream": true},
		"messages":  {"model": "m", "system": []any{object{"type": "text", "text": system}}, "messages": messages, "tools": schema, "stream": true},
		"gemini":    {"systemInstruction": object{"parts": []any{object{"text": system}}}, "contents": gemini, "tools": []any{object{"functionDeclarations": schema}}},
		"bedrock":   {"system": []any{object{"text": system}}, "messages": bedrock, "toolConfig": object{"tools": schema}},
		"ollama":    {"model": "m", "messages": ollama, "tools": schema},
	} {
		var err error
		bodies[name], err = json.Marshal(body)
		require.NoError(tb, err)
	}
	return bodies
}

func BenchmarkTranscript(b *testing.B) {
	for _, size := range []int{40 << 10, 400 << 10} {
		for name, body := range agentBodies(b, size) {
			b.Run(fmt.Sprintf("%s/%dKB", name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				var t Transcript
				for b.Loop() {
					if !t.Read(body) {
						b.Fatal("no messages")
					}
				}
			})
		}
	}
}

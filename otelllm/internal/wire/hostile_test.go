package wire

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/internal/sample"
)

// A megabyte of braces costs memory and time in proportion to its size, wherever it is: as the value
// of a member, in the input of a call, or as nothing at all.
func TestMegabyteOfBraces(t *testing.T) {
	if sample.Only() {
		t.Skip("seconds")
	}
	const megabyte = 1 << 20
	bodies := map[string]string{"braces": strings.Repeat("{", megabyte), "brackets": strings.Repeat("[", megabyte)}
	for name, open := range map[string]string{"objects": `{"a":`, "lists": `[`} {
		n := megabyte / len(open)
		closed := map[string]string{`{"a":`: "}", `[`: "]"}[open]
		bodies[name+", open"] = strings.Repeat(open, n)
		bodies[name+", closed"] = strings.Repeat(open, n) + "1" + strings.Repeat(closed, n)
		bodies[name+", not deep"] = "[" + strings.Repeat(open+"1"+closed+",", n) + "1]"
	}
	input := func(pieces int) string {
		var b strings.Builder
		for range pieces {
			b.WriteString(data(delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"`+strings.Repeat("{", megabyte/pieces)+`"}}]}`, "")))
		}
		return b.String()
	}
	bounded := func(what string, do func()) {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		do()
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		assert.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(24), "%s: MiB allocated", what)
		assert.Less(t, int64(after.StackSys)-int64(before.StackSys), int64(16<<20), "%s: bytes of stack", what)
		assert.Less(t, took, 5*time.Second, what) // a quadratic reader takes minutes
	}
	for i, k := range requestKinds {
		if i%sample.Every(24) != 0 {
			continue
		}
		for name, braces := range bodies {
			if i > 2 && name != "braces" && name != "objects, closed" {
				continue // the reading of JSON is the same
			}
			for place, body := range map[string]string{"alone": braces, "unknown": k.body + `,"hologram":` + braces + "}", "tools": k.body + `,"tools":` + braces + "}"} {
				bounded(k.Name()+", request, "+name+", "+place, func() { _, _ = k.ReadRequest([]byte(body)) })
			}
			for place, body := range map[string]string{
				"document": braces, "event": "data: " + braces + "\n\n", "member": `data: {"a":` + braces + "}\n\n",
				"choices": `data: {"choices":` + braces + "}\n\n", "candidates": `data: {"candidates":` + braces + "}\n\n",
			} {
				bounded(k.Name()+", response, "+name+", "+place, func() {
					d := k.NewDecoder("")
					for piece := range slices.Chunk([]byte(body), 4<<10) {
						d.Write(piece)
					}
					d.Close()
				})
			}
		}
	}
	for _, pieces := range []int{1, 64, 4096} {
		bounded(fmt.Sprint("input in pieces: ", pieces), func() {
			st := decode(openAIChat{}, sseType, input(pieces))
			assert.Equal(t, 1, st.ToolInputsStarted)
			assert.Equal(t, 1, st.ToolInputsCompleted, "deeper than is followed: a client may have executed it")
		})
	}
}

// BenchmarkHostile decodes streams that begin as many calls, items or choices as possible.
// The cost of an event must not grow with their number.
func BenchmarkHostile(b *testing.B) {
	const each = 4096
	list := func(element string) string {
		elements := make([]string, each)
		for i := range elements {
			elements[i] = fmt.Sprintf(element, i)
		}
		return strings.Join(elements, ",")
	}
	var items, blocks strings.Builder
	for i := range each {
		fmt.Fprintf(&items, "data: {\"type\":\"response.output_item.added\",\"output_index\":%d,\"item\":{\"type\":\"function_call\"}}\n\n", i)
		fmt.Fprintf(&blocks, "data: {\"type\":\"content_block_start\",\"index\":%d,\"content_block\":{\"type\":\"tool_use\"}}\n\n", i)
	}
	for i := range each {
		fmt.Fprintf(&items, "data: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":%d,\"delta\":\"x\"}\n\n", i)
		fmt.Fprintf(&blocks, "data: {\"type\":\"content_block_delta\",\"index\":%d,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"x\"}}\n\n", i)
	}
	words := data(delta(`{"content":"words"}`, ""))
	for _, tt := range []struct {
		name   string
		p      Protocol
		stream string
	}{
		{"plain", openAIChat{}, strings.Repeat(words, 1000)},
		{"plain, parsed", openAIChat{}, data(`{"choices":[` + list(`{"index":0,"delta":{"content":"%d"}}`) + `]}`)},
		{"choices", openAIChat{}, data(`{"choices":[` + list(`{"index":%d,"delta":{"content":"a"}}`) + `]}`)},
		{"fragments", openAIChat{}, data(`{"choices":[{"index":0,"delta":{"tool_calls":[` + list(`{"index":%d,"function":{"arguments":"x"}}`) + `]}}]}`)},
		{"fragments, finished", openAIChat{}, data(`{"choices":[` + list(`{"index":%[1]d,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"x"}}]},"finish_reason":"stop"}`) + `]}`)},
		{"many choices, then words", openAIChat{}, data(`{"choices":[`+list(`{"index":%d,"delta":{}}`)+`]}`) + strings.Repeat(words, 1000)},
		{"items", openAIResponses{}, items.String()},
		{"blocks", anthropicMessages{}, blocks.String()},
		{"candidates", gemini{}, data(`{"candidates":[` + list(`{"index":%d,"content":{"parts":[{"text":"a"}]}}`) + `]}`)},
		{"members in another case", openAIChat{}, data(`{"Choices":[` + list(`{"Index":%d,"Delta":{"Content":"a"}}`) + `]}`)},
		{"words after objects", openAIChat{}, strings.Repeat(strings.ReplaceAll(words, "}\n", "} x\n"), 1000)},
		{"no blank lines", openAIChat{}, strings.Repeat(strings.ReplaceAll(words, "\n\n", "\n"), 1000)},
	} {
		stream := []byte(tt.stream)
		b.Run(tt.name, func(b *testing.B) {
			b.SetBytes(8 << 20)
			for b.Loop() {
				d := tt.p.NewDecoder(sseType)
				for n := 0; n < 8<<20; n += len(stream) {
					d.Write(stream)
				}
				d.Close()
				d.Release()
			}
		})
	}
}

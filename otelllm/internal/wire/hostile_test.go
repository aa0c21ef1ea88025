package wire

import (
	"fmt"
	"strings"
	"testing"
)

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

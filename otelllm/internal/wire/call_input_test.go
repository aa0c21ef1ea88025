package wire

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// quoted returns text as it is between the quotes of a JSON string.
func quoted(tb testing.TB, text string) []byte {
	tb.Helper()
	b, err := json.Marshal(text)
	require.NoError(tb, err)
	return b[1 : len(b)-1]
}

func TestCallInput(t *testing.T) {
	for _, tt := range []struct {
		text                string
		open, broken, empty bool
	}{
		{text: "", open: true, empty: true},
		{text: " \n\t", open: true, empty: true},
		{text: `{`, open: true, broken: true},
		{text: `{"a"`, open: true, broken: true},
		{text: `{"a":`, open: true, broken: true},
		{text: `{"a":1`, open: true, broken: true},
		{text: `{"a":"}`, open: true, broken: true},
		{text: `{"a":"\"}`, open: true, broken: true},
		{text: `{"a":"\u00`, open: true, broken: true},
		{text: `[[[]`, open: true, broken: true},
		{text: `{}`},
		{text: ` {"a":[1,-2.5e+3,true,null,"x",{}],"b":{"c":"\\\"\u0041é\/"}} ` + "\n"},
		{text: `[]`},
		{text: `"a"`},
		{text: `1`},
		{text: `12`},
		{text: `null`},
		{text: `{}{}`, broken: true},
		{text: `{}x`, broken: true},
		{text: `{'a':1}`, broken: true},
		{text: `{"a":True}`, broken: true},
		{text: `{"a":a.txt}`, broken: true},
		{text: `{"a":undefined}`, broken: true},
		{text: `{"a":nan}`, broken: true},
		{text: `{"a":truee}`, broken: true},
		{text: `{"a":nul}`, broken: true},
		{text: `[true,false,null]`},
		{text: `tru`, open: true, broken: true},
		{text: `{"a" 1}`, broken: true},
		{text: `{"a":1,}`, broken: true},
		{text: `{"a":1 "b":2}`, broken: true},
		{text: `[1,]`, broken: true},
		{text: `[1}`, broken: true},
		{text: `{1:2}`, broken: true},
		{text: `}`, broken: true},
		{text: "{\"a\":\"line\nbreak\"}", broken: true},
		{text: `{"a":"\x"}`, broken: true},
		{text: `<arg>`, broken: true},
		{text: strings.Repeat("[", 64), open: true, broken: true},
		{text: strings.Repeat("[", 64) + strings.Repeat("]", 64)},
		{text: strings.Repeat("[", 65)}, // not followed, so nothing is claimed
	} {
		var in callInput
		in.write(quoted(t, tt.text))
		assert.Equal(t, tt.open, in.isOpen(), "open: %s", tt.text)
		assert.Equal(t, tt.broken, in.isBroken(), "broken: %s", tt.text)
		assert.Equal(t, tt.empty, in.isEmpty(), "empty: %s", tt.text)
	}
}

// randomJSON writes a random value, sometimes with a fault.
func randomJSON(r *rand.Rand, depth int) string {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	if r.IntN(40) == 0 {
		return pick("", "'a'", "{", "}", "[", "]", ",", ":", "True", `"`, "\n", `\`, "{}{}")
	}
	space := pick("", "", "", " ", "\n")
	switch n := r.IntN(6); {
	case n == 0 && depth > 0:
		parts := make([]string, r.IntN(4))
		for i := range parts {
			parts[i] = randomJSON(r, depth-1)
		}
		return space + "[" + strings.Join(parts, ",") + "]" + space
	case n <= 2 && depth > 0:
		parts := make([]string, r.IntN(4))
		for i := range parts {
			parts[i] = pick(`"a"`, `"b c"`, `"\u00e9"`, `"\\"`, `"\""`) + space + ":" + randomJSON(r, depth-1)
		}
		return space + "{" + strings.Join(parts, ",") + "}" + space
	case n == 3:
		return pick(`"x"`, `""`, `"é\n\t\"{[}]"`, `"\ud83d\ude00"`)
	default:
		return pick("1", "-2", "3.5", "true", "false", "null", "1e9")
	}
}

// At every cut, encoding/json is the judge of what is one value and what is not; and how the
// text was divided and escaped does not matter.
func TestCallInputAgainstJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 4000 {
		text := randomJSON(r, 5)
		if strings.TrimSpace(text) != "" && strings.IndexAny(strings.TrimSpace(text)[:1], "{[\"") != 0 {
			continue // a scalar at the top may be whole at any time
		}
		for cut := range len(text) + 1 {
			if cut < len(text) && text[cut] >= 0x80 && text[cut] < 0xc0 {
				continue // not within a character
			}
			in := pieces(t, r, text[:cut])
			if json.Valid([]byte(text[:cut])) {
				assert.False(t, in.isOpen(), "%q", text[:cut])
				assert.False(t, in.isBroken(), "%q", text[:cut])
			} else {
				assert.True(t, in.isBroken() || in.isEmpty(), "%q", text[:cut])
			}
		}
	}
}

// pieces writes a text in random pieces, some with every character escaped.
func pieces(t *testing.T, r *rand.Rand, text string) callInput {
	t.Helper()
	var in callInput
	runes := []rune(text)
	for len(runes) > 0 {
		n := 1 + r.IntN(len(runes))
		raw := quoted(t, string(runes[:n]))
		if r.IntN(3) == 0 {
			raw = nil
			for _, c := range string(runes[:n]) {
				if c > 0xffff {
					raw = append(raw, quoted(t, string(c))...)
				} else {
					raw = append(raw, []byte(`\u`+hex4(c))...)
				}
			}
		}
		in.write(raw)
		runes = runes[n:]
	}
	return in
}

func hex4(c rune) string {
	const digits = "0123456789abcdefABCDEF"
	return string([]byte{digits[c>>12&15], digits[c>>8&15], digits[c>>4&15], digits[c&15]})
}

// The grammar at a depth of a million costs no memory and no more time than its bytes.
func TestCallInputOfManyBraces(t *testing.T) {
	var in callInput
	in.write([]byte(strings.Repeat("{", 1<<20)))
	assert.False(t, in.isOpen())
	raw := []byte(strings.Repeat("{", 1<<10))
	assert.Zero(t, testing.AllocsPerRun(100, func() { in = callInput{}; in.write(raw) }))
	in = callInput{}
	for range 1 << 20 {
		in.write([]byte(`{}`))
	}
	assert.True(t, in.isBroken())
}

// Some clients drop an event that no blank line has ended, and report no error at the clean end
// of a body: of a call whose first input was in it they know no input, and execute it.
func TestCallWithoutTheLastEvent(t *testing.T) {
	const head = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"%s"}}]}}]}` + "\n\n"
	broken := func(d Decoder) { d.Cut(false) }
	const part = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a"}}]}}]}` + "\n"
	for _, tt := range []struct {
		name, first, rest string
		end               func(Decoder)
		want              int
	}{
		{"clean end", "", "", Decoder.Close, 1},
		{"error", "", "", broken, 0},
		{"the event has ended", "", "\n", Decoder.Close, 0},
		{"there was input before it", `{\"b\":`, "", Decoder.Close, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, _, ok := Match("POST", "/v1/chat/completions")
			require.True(t, ok)
			d := p.NewDecoder("text/event-stream")
			d.Write(fmt.Appendf(nil, head+"%s%s", tt.first, part, tt.rest))
			tt.end(d)
			assert.Equal(t, tt.want, d.State().ToolInputsCompleted)
		})
	}
}

// A client that passes on an error event, or drops one that nothing has ended, takes the end of the
// body for that of the answer, and executes a call without arguments.
func TestErrorsBeforeACleanEnd(t *testing.T) {
	const (
		chat     = `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}}]}`
		chatOpen = `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}`
		failure  = `{"error":{"message":"x","type":"server_error"}}`
		messages = `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}`
		typed    = `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`
	)
	for _, tt := range []struct {
		name     string
		protocol Protocol
		body     string
		clean    int // calls that may have been executed after a clean end
	}{
		{"chat", openAIChat{}, data(chat, failure), 1},
		{"chat, with [DONE]", openAIChat{}, data(chat, failure, "[DONE]"), 1},
		{"chat, an open input", openAIChat{}, data(chatOpen, failure), 0},
		{"messages", anthropicMessages{}, named(messages, typed), 0},
		{"messages, not ended", anthropicMessages{}, strings.TrimSuffix(named(messages, typed), "\n"), 1},
	} {
		assert.Equal(t, tt.clean, decode(tt.protocol, sseType, tt.body).ToolInputsCompleted, tt.name)
		assert.Zero(t, decodeCut(tt.protocol, sseType, tt.body).ToolInputsCompleted, tt.name)
	}
}

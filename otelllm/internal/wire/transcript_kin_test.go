package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// One conversation in the words of several protocols has the same words, voice and offers,
// whatever its calls are named.
func TestWordsOfAllProtocols(t *testing.T) {
	bodies := map[string]string{
		"chat": `{"messages":[{"role":"system","content":"You are it."},{"role":"user","content":"do"},
			{"role":"assistant","content":"well","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c1","content":"one"},{"role":"tool","tool_call_id":"c2","content":"two"},{"role":"user","content":"also"}],
			"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"name":{"type":"string"}}}}},{"type":"function","function":{"name":"g"}}]}`,
		"chat, content first": `{"messages":[{"content":"You are it.","role":"system"},{"content":"do","role":"user"},
			{"content":"well","role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},
			{"content":"one","role":"tool","tool_call_id":"c1"},{"content":[{"type":"text","text":"two"}],"role":"tool","tool_call_id":"c2"},{"content":"also","role":"user"}],
			"tools":[{"type":"function","function":{"name":"g"}},{"type":"function","function":{"name":"f"}}]}`,
		"responses": `{"instructions":"You are it.","input":[{"role":"user","content":[{"type":"input_text","text":"do"}]},
			{"type":"function_call","call_id":"x1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"x1","output":"one"},
			{"type":"function_call_output","call_id":"x2","output":"two"},{"role":"user","content":"also"}],"tools":[{"type":"function","name":"f"},{"type":"function","name": "g"}]}`,
		"messages": `{"system":[{"type":"text","text":"You are it."}],"messages":[{"role":"user","content":"do"},
			{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"one"},{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"two"}]},{"type":"text","text":"also"}]}],
			"tools":[{"name":"f","input_schema":{}},{"name":"g","input_schema":{}}]}`,
		"gemini": `{"systemInstruction":{"parts":[{"text":"You are it."}]},"contents":[{"role":"user","parts":[{"text":"do"}]},
			{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},
			{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"one"}}},{"functionResponse":{"name":"f","response":{"output":"two"}}},{"text":"also"}]}],
			"tools":[{"functionDeclarations":[{"name":"f"},{"name":"g"}]}]}`,
	}
	want := read(t, bodies["chat"])
	end, _ := want.Point(0)
	require.NotZero(t, end.Words)
	require.NotZero(t, want.Voice)
	require.NotZero(t, want.Offers)
	for name, body := range bodies {
		tr := read(t, body)
		p, _ := tr.Point(0)
		assert.Equal(t, end.Words, p.Words, name)
		assert.Equal(t, want.Voice, tr.Voice, name)
		assert.Equal(t, want.Offers, tr.Offers, name)
	}
	for name, body := range map[string]string{
		"other words":   `{"messages":[{"role":"user","content":"do it"}]}`,
		"another order": `{"messages":[{"role":"user","content":"also"},{"role":"user","content":"do"}]}`,
	} {
		tr := read(t, body)
		p, _ := tr.Point(0)
		first := read(t, `{"messages":[{"role":"user","content":"do"},{"role":"user","content":"also"}]}`)
		q, _ := first.Point(0)
		assert.NotEqual(t, q.Words, p.Words, name)
	}
}

// The date and the time in the instructions move, and are left out of their hash. Nothing else is.
func TestInstructionsWithTheTime(t *testing.T) {
	at := func(text string) *Transcript {
		return read(t, `{"messages":[{"role":"system","content":"It is `+text+` now."},{"role":"user","content":"12:00"}]}`)
	}
	want := at("2026-03-01T12:00:00Z")
	for text, same := range map[string]bool{
		"2026-03-01T12:00:01.5Z": true, "12:30": true, "3/17/2026": true, "2026-12-31": true,
		"late": false, "1-2": false, "2026": false, "version 1.2.3": false, "9/10": false,
	} {
		tr := at(text)
		assert.Equal(t, same, want.Opening == tr.Opening && want.Voice == tr.Voice, text)
	}
	assert.NotEqual(t, read(t, `{"messages":[{"role":"user","content":"12:00"}]}`).Words(), read(t, `{"messages":[{"role":"user","content":"12:01"}]}`).Words(),
		"what a person says is not left out")
	a, b := read(t, `{"instructions":"at 12:00","input":"a"}`), read(t, `{"instructions":"at 12:01","input":"a"}`)
	assert.Equal(t, a.Opening, b.Opening)
}

// Words returns those of the whole history.
func (t *Transcript) Words() uint64 {
	p, _ := t.Point(0)
	return p.Words
}

func TestIDStem(t *testing.T) {
	for id, want := range map[string]string{
		"call_1a2b3c4d5e6f7890":            "call_1a2b3c4d5e6f7890",
		"call_1a2b3c4d5e6f7890_0":          "call_1a2b3c4d5e6f7890",
		"call_1a2b3c4d5e6f7890|fc_9f8e7d6": "call_1a2b3c4d5e6f7890",
		"functions.get_weather:12":         "",
		"call_0":                           "",
		"":                                 "",
	} {
		assert.Equal(t, want, idStem(id), id)
	}
	tr := read(t, `{"messages":[{"role":"assistant","tool_calls":[{"id":"call_1a2b3c4d5e6f7890_0","type":"function","function":{"name":"f","arguments":""}}]},
		{"role":"tool","tool_call_id":"call_1a2b3c4d5e6f7890_0","content":"x"}]}`)
	c, _ := tr.Call(0)
	assert.True(t, c.Is(TranscriptID("call_1a2b3c4d5e6f7890")))
	assert.True(t, c.Is(TranscriptID("call_1a2b3c4d5e6f7890_0")))
	out, _ := tr.Output(0)
	assert.Equal(t, c.Stem, out.Stem)
}

// Outputs that an agent made up are listed while no answer follows them.
func TestMadeUpOutputs(t *testing.T) {
	const history = `{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]},`
	for _, tt := range []struct {
		items string
		want  []string
	}{
		{`{"role":"tool","tool_call_id":"c1","content":"aborted"},{"role":"tool","tool_call_id":"c2","content":"ok"}`, []string{"c1"}},
		{`{"role":"tool","content":"No result provided","tool_call_id":"c1"},{"role":"tool","content":"[Tool execution was interrupted]","tool_call_id":"c2"}`, []string{"c1", "c2"}},
		{`{"role":"tool","tool_call_id":"c1","content":"aborted the build"}`, nil},
		{`{"role":"tool","tool_call_id":"c1","content":"aborted"},{"role":"assistant","content":"well"},{"role":"user","content":"go on"}`, nil},
	} {
		assert.Equal(t, tt.want, read(t, `{"messages":[`+history+tt.items+`]}`).MadeUp, tt.items)
	}
	assert.Equal(t, []string{"t1"}, read(t, `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"No result provided","is_error":true}]}]}`).MadeUp)
	assert.Equal(t, []string{"x1"}, read(t, `{"input":[{"type":"function_call_output","call_id":"x1","output":"aborted"}]}`).MadeUp)
}

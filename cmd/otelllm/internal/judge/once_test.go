package judge

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// once judges facts on their own.
func once(t *testing.T, facts string) map[string]any {
	t.Helper()
	var answer map[string]any
	require.NoError(t, json.Unmarshal(Once([]byte(facts)), &answer))
	return answer
}

const (
	begunRun  = `{"run":"r","kind":"run","state":"begun","start":1,"llm.run.tools":0}`
	cutAtText = `{"run":"r","kind":"request","id":"q1","start":2,"end":3,"llm.stream.end":"read_error","llm.transport.cause":"connection_reset",
		"llm.stream.phase":"text","llm.stream.text_chunks":2,"llm.stream.tool_inputs_started":0,"llm.stream.tool_inputs_completed":0,
		"llm.stream.tool_calls":0,"llm.request.provider_tools":[],"llm.history.tool_calls":[],"llm.history.tool_outputs":[],"error.type":"ECONNRESET"}`
)

// refusedLater is a second attempt of the call that cutAtText is the first one of.
var refusedLater = strings.NewReplacer(`"q1"`, `"q2"`, `"start":2,"end":3`, `"start":4,"end":5`, `text_chunks":2`, `text_chunks":0`,
	`phase":"text"`, `phase":"response_started"`).Replace(cutAtText)

func TestOnceAnswersAsTheJudgeDoes(t *testing.T) {
	j := New(Options{})
	j.Line([]byte(begunRun), 1)
	want := j.Line([]byte(cutAtText), 2)
	assert.JSONEq(t, string(want), string(Once([]byte("["+begunRun+","+cutAtText+"]"))))
	assert.Contains(t, string(want), "user_confirmed_retry")
	assert.JSONEq(t, string(New(Options{}).Line([]byte(begunRun), 1)), string(Once([]byte(begunRun))), "one line, without an array")
}

// What one attempt showed another call would show again, although the last one showed nothing.
func TestVerdictOnACall(t *testing.T) {
	facts := "[" + begunRun + "," + cutAtText + "," + refusedLater + ","
	last := once(t, facts+`{"run":"r","call":["q2"]}]`)
	assert.Equal(t, "safe_auto_retry", last["part"].(map[string]any)["llm.retry.safety"])
	assert.Equal(t, "again", last["plan"].(map[string]any)["send"])
	both := once(t, facts+`{"run":"r","call":["q1","q2"]}]`)
	assert.Equal(t, "user_confirmed_retry", both["part"].(map[string]any)["llm.retry.safety"])
	assert.Equal(t, "visible_output", both["plan"].(map[string]any)["ask"])
}

// What an earlier turn of the run did is not asked for again, unless a tool ran that is not recorded.
func TestPlanSince(t *testing.T) {
	facts := "[" + begunRun + "," + cutAtText + "," + refusedLater + ","
	all := once(t, facts+`{"run":"r"}]`)["plan"].(map[string]any)
	assert.Equal(t, "visible_output", all["ask"])
	since := once(t, facts+`{"run":"r","since":4}]`)["plan"].(map[string]any)
	assert.Equal(t, "again", since["send"])
	assert.Nil(t, since["ask"])

	call := func(id, request, at, history string) string {
		return `{"run":"r","kind":"request","id":"` + request + `","start":` + at + `,"end":` + at + `.5,"llm.stream.end":"` + map[bool]string{true: "read_error", false: "terminal_event"}[id == "c2"] +
			`","llm.stream.tool_inputs_started":1,"llm.stream.tool_inputs_completed":1,"llm.stream.tool_calls":1,"llm.stream.tool_call_ids":["` + id + `"],"llm.stream.text_chunks":0,` +
			`"llm.request.provider_tools":[],"llm.history.tool_calls":` + history + `,"llm.history.tool_outputs":` + history + `}`
	}
	for history, asks := range map[string]any{`[]`: nil, `["c1"]`: "tool_state_unknown"} {
		lines := "[" + begunRun + "," + call("c1", "q1", "2", "[]") + "," + call("c2", "q2", "4", history) + `,{"run":"r","since":4}]`
		plan := once(t, lines)["plan"].(map[string]any)
		assert.Equal(t, asks, plan["ask"], "%s: %v", history, plan)
	}
}

func TestBadFactsSayWhatAndWhere(t *testing.T) {
	for facts, want := range map[string]answerError{
		``:                                   {Error: "the line is not a JSON object", Line: 1},
		`[]`:                                 {Error: "there are no facts: the array is empty", Line: 1},
		`[{"run":"r"}`:                       {Error: "the facts are not valid JSON", Line: 1},
		`[` + begunRun + `,7]`:               {Error: "the line is not a JSON object", Line: 2},
		`[` + begunRun + `,{"kind":"tool"}]`: {Error: "run is missing: the name that the program gives to the run", Line: 2},
		`[` + begunRun + `,{"run":"r","call":[]}]`:     {Error: "call has to be a list of 1 to 256 ids of requests", Line: 2},
		`[` + begunRun + `,{"run":"r","call":["q9"]}]`: {Error: "call has an id that is not a request of the run", Line: 2},
		`{"run":"r","since":"x"}`:                      {Error: "since has to be a time: seconds since 1970, or RFC 3339 such as 2026-01-02T15:04:05.678Z", Line: 1},
		`{"run":"secret"}`:                             {Error: "there is no such open run", Line: 1},
	} {
		var got answerError
		require.NoError(t, json.Unmarshal(Once([]byte(facts)), &got))
		assert.Equal(t, want, got, facts)
	}
}

// Lines that are judged on their own know nothing of each other, and may be longer than lines of a judge that keeps its runs.
func TestServeOnce(t *testing.T) {
	facts := strings.Join(strings.Fields("["+begunRun+","+cutAtText+"]"), "")
	long := "[" + strings.Repeat(" ", MaxLine) + facts[1:]
	var out strings.Builder
	require.NoError(t, ServeOnce(strings.NewReader(facts+"\n\n"+`{"run":"r"}`+"\n"+long), &out))
	want := string(Once([]byte(facts)))
	assert.Equal(t, want+"\n"+string(Once([]byte(`{"run":"r"}`)))+"\n"+want+"\n", out.String())
}

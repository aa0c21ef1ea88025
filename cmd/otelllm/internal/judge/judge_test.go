package judge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clock is a clock that only tests move.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newClock() *clock { return &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

// ask gives the judge a line, and returns its answer.
func ask(t *testing.T, j *Judge, line string) map[string]any {
	t.Helper()
	out := j.Line([]byte(line), 7)
	require.NotNil(t, out, line)
	var a map[string]any
	require.NoError(t, json.Unmarshal(out, &a))
	return a
}

// verdict is a field of the verdict on the run.
func verdict(a map[string]any, key string) any {
	v, _ := a["verdict"].(map[string]any)
	return v[key]
}

// cut is a request whose stream was reset, with all facts that a verdict needs.
func cut(run, id string, text int, history ...string) string {
	list, _ := json.Marshal(append([]string{}, history...))
	return fmt.Sprintf(`{"run":%q,"kind":"request","id":%q,"error.type":"ECONNRESET","llm.stream.end":"read_error",`+
		`"llm.transport.cause":"connection_reset","llm.stream.phase":"text","llm.stream.text_chunks":%d,"llm.stream.events":1,`+
		`"llm.stream.tool_inputs_started":0,"llm.stream.tool_inputs_completed":0,"llm.stream.tool_calls":0,`+
		`"llm.request.provider_tools":[],"llm.history.tool_calls":%s,"llm.history.tool_outputs":%s}`, run, id, text, list, list)
}

func TestRetryLoop(t *testing.T) {
	j := New(Options{Now: newClock().now})
	a := ask(t, j, `{"run":"r","kind":"run","state":"begun","llm.run.tools":0,"ref":"first"}`)
	assert.Equal(t, "first", a["ref"])
	assert.Equal(t, "succeeded", verdict(a, "llm.run.outcome"), "nothing has failed")

	// Nothing had been shown: a retry is safe, of the request and of the run.
	a = ask(t, j, cut("r", "q1", 0))
	assert.Equal(t, "stream_interrupted", verdict(a, "llm.failure.class"))
	assert.Equal(t, "safe_auto_retry", verdict(a, "llm.retry.safety"))
	part, _ := a["part"].(map[string]any)
	assert.Equal(t, "safe_auto_retry", part["llm.retry.safety"])
	assert.Equal(t, "q1", a["id"])

	// The retry is answered with a call, and the tool changes something.
	a = ask(t, j, `{"run":"r","kind":"request","id":"q2","llm.stream.end":"terminal_event","llm.stream.phase":"stream_end",`+
		`"gen_ai.response.finish_reasons":["tool_calls"],"llm.stream.tool_calls":1,"llm.stream.tool_inputs_started":1,"llm.stream.tool_inputs_completed":1,`+
		`"llm.stream.tool_call_ids":["c1"],"llm.stream.text_chunks":0,"llm.request.provider_tools":[],"llm.history.tool_calls":[],"llm.history.tool_outputs":[]}`)
	assert.Equal(t, "recovered", verdict(a, "llm.run.outcome"))
	tool := `{"run":"r","kind":"tool","id":"t1","gen_ai.tool.name":"pay","gen_ai.tool.call.id":"c1","llm.tool.effect":"non_idempotent","state":"begun"}`
	assert.NotContains(t, ask(t, j, tool), "part")
	ask(t, j, `{"run":"r","kind":"tool","id":"t1","llm.tool.outcome":"succeeded","llm.tool.output_delivery":"sent"}`)

	// A request that carries the output may be sent again; the run would pay twice.
	a = ask(t, j, cut("r", "q3", 0, "c1"))
	part, _ = a["part"].(map[string]any)
	assert.Equal(t, "safe_auto_retry", part["llm.retry.safety"])
	assert.Equal(t, "user_confirmed_retry", verdict(a, "llm.retry.safety"))
	assert.Equal(t, "tool_side_effect", verdict(a, "llm.retry.reason"))
	plan, _ := a["plan"].(map[string]any)
	assert.Equal(t, map[string]any{
		"ran":          []any{map[string]any{"id": "c1", "name": "pay", "effect": "non_idempotent", "output": "delivered"}},
		"may_have_run": []any{}, "never_ran": []any{}, "send": "rest",
		"words": "Already done: pay (c1) ran, with the output that you have. Do not call it again. Go on from the conversation, with every output that exists.",
	}, plan)
	assert.Equal(t, a["verdict"], ask(t, j, `{"run":"r"}`)["verdict"], "a question")

	a = ask(t, j, `{"run":"r","kind":"run","error.type":"RetryError","llm.run.requests":3,"llm.run.tools":1}`)
	assert.Equal(t, "failed", verdict(a, "llm.run.outcome"))
	assert.Equal(t, "there is no such open run", ask(t, j, `{"run":"r"}`)["error"])
	runs, bytes := j.Open()
	assert.Zero(t, runs)
	assert.Zero(t, bytes)
}

// What a run within a run did counts for the run around it.
func TestInnerRun(t *testing.T) {
	j := New(Options{Now: newClock().now})
	ask(t, j, `{"run":"outer","kind":"run","state":"begun","llm.run.tools":0}`)
	ask(t, j, `{"run":"inner","kind":"run","state":"begun","parent_run":"outer"}`)
	ask(t, j, `{"run":"inner","kind":"tool","id":"t1","gen_ai.tool.name":"pay","gen_ai.tool.call.id":"c1","llm.tool.effect":"non_idempotent","llm.tool.outcome":"succeeded"}`)
	a := ask(t, j, cut("outer", "q1", 0))
	assert.Equal(t, "user_confirmed_retry", verdict(a, "llm.retry.safety"))
	assert.Equal(t, "tool_side_effect", verdict(a, "llm.retry.reason"))
	ask(t, j, `{"run":"inner","kind":"run","llm.run.requests":0,"llm.run.tools":1}`)
	ask(t, j, `{"run":"inner"}`) // it is kept for the run around it
	a = ask(t, j, `{"run":"outer","kind":"run","error.type":"E","llm.run.requests":1,"llm.run.tools":1}`)
	assert.Equal(t, "tool_side_effect", verdict(a, "llm.retry.reason"))
	runs, _ := j.Open()
	assert.Zero(t, runs)
}

func TestBadLines(t *testing.T) {
	j := New(Options{Now: newClock().now})
	ask(t, j, `{"run":"r","kind":"request","id":"q","state":"begun"}`)
	for line, says := range map[string]string{
		`oops`:                               "not a JSON object",
		`[1]`:                                "not a JSON object",
		`{"run":"r"`:                         "not a JSON object",
		`{}`:                                 "run is missing",
		`{"run":""}`:                         "run has to be a string of 1 to 128 bytes",
		`{"run":1}`:                          "run has to be a string",
		`{"run":"x"}`:                        "no such open run",
		`{"run":"r","kind":"span","id":"q"}`: "kind has to be",
		`{"run":"r","kind":"tool"}`:          "id is missing",
		`{"run":"r","kind":"tool","id":"q"}`: "another kind",
		`{"run":"r","kind":"run","state":"open"}`:             "state has to be",
		`{"run":"r","kind":"run","status":"bad"}`:             "status has to be",
		`{"run":"r","kind":"run","start":"yesterday"}`:        "start has to be a time",
		`{"run":"r","kind":"run","end":-1}`:                   "end has to be a time",
		`{"run":"r","kind":"run","parent_run":"none"}`:        "parent_run has to be on the first line",
		`{"run":"n","kind":"run","parent_run":"none"}`:        "parent_run is not an open run",
		`{"run":"r","answer":"no"}`:                           "answer has to be true or false",
		`{"run":"r","ref":{}}`:                                "ref has to be",
		`{"run":"` + strings.Repeat("x", maxKey+1) + `"}`:     "run has to be",
		`{"resourceSpans":7}`:                                 "not OTLP JSON",
		`{"resourceSpans":[],"answer":1}`:                     "answer has to be",
		`{"trace":"x"}`:                                       "32 hexadecimal digits",
		`{"trace":"5b8efff798038103d269b633813fc60c"}`:        "no such trace",
		`{"run":"r","kind":"request","id":"q","start":1e400}`: "start has to be a time",
		"{\"run\":\"r\",\"ref\":\"" + "a\x01" + "\"}":         "not a JSON object",
	} {
		a := ask(t, j, line)
		assert.Contains(t, a["error"], says, line)
		assert.InDelta(t, 7, a["line"], 0)
		assert.Len(t, a, 2)
	}
	a := ask(t, j, `{"run":"nowhere","ref":42}`)
	assert.InDelta(t, 42, a["ref"], 0, "an error has the reference, too")
	assert.Nil(t, j.Line([]byte(""), 1))
	assert.Nil(t, j.Line([]byte(`{"run":"r","kind":"request","id":"q","answer":false}`), 1))
	assert.NotNil(t, j.Line([]byte(`{"run":"r","kind":"tool","id":"q","answer":false}`), 1), "an error is always answered")
}

// Nothing that is not of the vocabulary comes back, whatever is on a line.
func TestCanaries(t *testing.T) {
	const canary = "CANARY7c1f"
	j := New(Options{Now: newClock().now})
	for _, line := range []string{
		`{"run":"r","kind":"run","state":"begun","gen_ai.input.messages":"CANARY7c1f","CANARY7c1f":1,"llm.run.end":"CANARY7c1f"}`,
		`{"run":"r","kind":"request","id":"q","llm.stream.end":"CANARY7c1f","llm.stream.phase":["CANARY7c1f"],"llm.stream.text_chunks":"CANARY7c1f",` +
			`"llm.transport.cause":"CANARY7c1f","prompt":"CANARY7c1f","llm.abort.source":"CANARY7c1f","exception.message":"CANARY7c1f","error.type":"CANARY7c1f CANARY7c1f"}`,
		`{"run":"r","kind":"tool","id":"t","gen_ai.tool.call.arguments":"CANARY7c1f","llm.tool.outcome":"failed","error.type":"failed: CANARY7c1f"}`,
		`{"run":"r"}`,
		`CANARY7c1f`, `{"run":"r","kind":"CANARY7c1f"}`, `{"run":"r","start":"CANARY7c1f","kind":"run"}`, `{"CANARY7c1f":`,
		`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"CANARY7c1f"}]}]}]}`,
		`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"00f067aa0ba902b7","name":"CANARY7c1f","status":{"code":2,"message":"CANARY7c1f"},` +
			`"attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.prompt","value":{"stringValue":"CANARY7c1f"}}]}]}]}]}`,
		`{"run":"r","kind":"run","error.type":"E","output":"CANARY7c1f"}`,
	} {
		assert.NotContains(t, string(j.Line([]byte(line), 1)), canary, line)
	}
	a := ask(t, j, `{"run":"r2","kind":"request","id":"q","llm.stream.end":"exploded","llm.stream.text":"x","llm.stream.events":1.5}`)
	assert.Equal(t, []any{"llm.stream.end", "llm.stream.events"}, a["invalid"])
	assert.InDelta(t, 1, a["ignored"], 0)
}

// A run that was forgotten is never taken for a new one of which nothing is known.
func TestBounds(t *testing.T) {
	tool := `{"run":%q,"kind":"tool","id":"t","llm.tool.effect":"non_idempotent","gen_ai.tool.call.id":"c","llm.tool.outcome":"succeeded"}`
	for name, forget := range map[string]func(*testing.T, *Judge, *clock){
		"too many": func(t *testing.T, j *Judge, _ *clock) {
			for i := range 10 {
				ask(t, j, fmt.Sprintf(`{"run":"n%d","kind":"run","state":"begun"}`, i))
			}
		},
		"too large": func(t *testing.T, j *Judge, _ *clock) {
			for i := range 50 {
				ask(t, j, fmt.Sprintf(`{"run":"n","kind":"request","id":"q%d","llm.request.id":%q}`, i, strings.Repeat("x", 1000)))
			}
		},
		"too old": func(t *testing.T, j *Judge, c *clock) {
			c.at = c.at.Add(2 * time.Minute)
			ask(t, j, `{"run":"n","kind":"run","state":"begun"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			var why []string
			j := New(Options{MaxRuns: 10, MaxBytes: 100 << 10, Idle: time.Minute, Now: c.now, Forgot: func(w string) { why = append(why, w) }})
			ask(t, j, fmt.Sprintf(tool, "r"))
			forget(t, j, c)
			assert.NotEmpty(t, why)
			assert.Equal(t, "there is no such open run", ask(t, j, `{"run":"r"}`)["error"])
			runs, bytes := j.Open()
			assert.LessOrEqual(t, runs, 10)
			assert.LessOrEqual(t, bytes, 100<<10)

			a := ask(t, j, cut("r", "q", 0))
			assert.Equal(t, true, a["incomplete"])
			assert.NotEqual(t, "safe_auto_retry", verdict(a, "llm.retry.safety"), "the tool was forgotten")
			part, _ := a["part"].(map[string]any)
			assert.NotEqual(t, "safe_auto_retry", part["llm.retry.safety"])

			ask(t, j, `{"run":"new","kind":"run","state":"begun","llm.run.tools":0}`)
			a = ask(t, j, cut("new", "q", 0))
			assert.NotContains(t, a, "incomplete", "it has just begun")
			assert.Equal(t, "safe_auto_retry", verdict(a, "llm.retry.safety"))
		})
	}
}

// One run cannot take all memory, nor can one part.
func TestLargeRun(t *testing.T) {
	j := New(Options{MaxBytes: 1 << 20, Now: newClock().now})
	var last map[string]any
	for i := range 4000 {
		last = ask(t, j, fmt.Sprintf(`{"run":"r","kind":"tool","id":"t%d","gen_ai.tool.name":%q}`, i, strings.Repeat("n", 900)))
		if last["error"] != nil {
			break
		}
	}
	assert.Contains(t, last["error"], "was forgotten")
	_, bytes := j.Open()
	assert.Zero(t, bytes)

	list, _ := json.Marshal(make([]string, maxList+1))
	a := ask(t, j, fmt.Sprintf(`{"run":"s","kind":"request","id":"q","llm.history.tool_calls":%s,"llm.request.id":%q}`, list, strings.Repeat("x", maxText+1)))
	assert.Equal(t, []any{"llm.history.tool_calls", "llm.request.id"}, a["invalid"])
}

func TestServe(t *testing.T) {
	j := New(Options{Now: newClock().now})
	var out strings.Builder
	in := "{\"run\":\"r\",\"kind\":\"run\",\"state\":\"begun\"}\r\n\n" + strings.Repeat("x", MaxLine+1) + "\n{\"run\":\"r\",\"ref\":1}"
	require.NoError(t, j.Serve(strings.NewReader(in), &out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 3)
	assert.Contains(t, lines[0], `"run":"r"`)
	assert.JSONEq(t, fmt.Sprintf(`{"error":"the line is longer than %d bytes","line":3}`, MaxLine), lines[1])
	assert.Contains(t, lines[2], `"ref":1`, "the last line needs no newline")
}

func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		`{"run":"r","kind":"run","state":"begun","llm.run.tools":0}`, cut("r", "q", 3), `{"run":"r"}`, `{"run":"i","kind":"run","parent_run":"r"}`,
		`{"run":"r","kind":"tool","id":"t","llm.tool.effect":"unknown","start":1,"end":"2026-01-02T15:04:05Z"}`,
		`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"01000000000000000000000000000000","spanId":"0200000000000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}}]}]}]}]}`,
		`{"run":"r","llm.stream.text_chunks":9223372036854775807,"kind":"request","id":"q"}`,
	} {
		f.Add([]byte(seed), []byte(cut("r", "q2", 0)))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		j := New(Options{MaxRuns: 4, MaxBytes: 1 << 20, Now: newClock().now})
		for _, line := range [][]byte{first, second, first} {
			out := j.Line(line, 1)
			if out != nil && !json.Valid(out) {
				t.Fatalf("not JSON: %q", out)
			}
			if _, bytes := j.Open(); bytes < 0 || bytes > 1<<20 {
				t.Fatalf("%d bytes", bytes)
			}
		}
	})
}

package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

func TestRepeated(t *testing.T) {
	long := `{"a":[` + strings.Repeat(`"some words",`, 20) + `null]}`
	for _, tt := range []struct {
		name, first, then string
		same              bool
	}{
		{"the same", long, long, true},
		{"the same after white space", long, " \n" + long, true},
		{"one byte is another", long, strings.Replace(long, "words", "Words", 1), false},
		{"it goes on", long, long[:len(long)-1] + `,"b":1}`, false},
		{"it is cut", long, long[:len(long)-1], false},
		{"an array", "[" + long + "]", "[" + long + "]", true},
		{"short", `{"a":1}`, `{"a":1}`, false},
		{"no object or array: it may go on", strings.Repeat("1", 200), strings.Repeat("1", 200), false},
		{"not well-formed", long[:len(long)-1], long[:len(long)-1], false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r repeated
			c := cursor{b: []byte(tt.first)}
			assert.False(t, r.pass(&c))
			c.skip()
			r.learn(&c, 0)

			c = cursor{b: []byte(tt.then)}
			require.Equal(t, tt.same, r.pass(&c))
			if !tt.same {
				c.skip()
			}
			assert.Equal(t, wellFormed([]byte(tt.then)), c.end())
		})
	}
}

// What a response says again is not read again, and what it says otherwise is.
func TestResponseSaidAgain(t *testing.T) {
	tools := `[{"type":"function","name":"f","parameters":{"d":"` + strings.Repeat("what it takes ", 20) + `"}}]`
	response := func(status, tools string) string {
		return `{"id":"resp_1","model":"gpt-5","status":"` + status + `","output":[],"tools":` + tools + `,"usage":{"input_tokens":1,"output_tokens":2}}`
	}
	event := func(name, response string) string {
		return "event: response." + name + "\ndata: {\"type\":\"response." + name + "\",\"sequence_number\":0,\"response\":" + response + "}\n\n"
	}
	created := event("created", response("in_progress", tools))
	for _, tt := range []struct {
		name, body string
		violation  semconv.TransportCause
		complete   bool
	}{
		{"all of it", event("in_progress", response("in_progress", tools)) + event("completed", response("completed", tools)), 0, true},
		{"other tools", event("completed", response("completed", strings.ToUpper(tools))), 0, true},
		{"no tools", event("completed", response("completed", "null")), 0, true},
		{"broken within the tools", event("completed", response("completed", strings.Replace(tools, `":"`, `"."`, 1))), semconv.TransportCauseMalformedEvent, false},
		{"broken within the response", event("in_progress", strings.Replace(response("in_progress", tools), `"status"`, `"status`, 1)), semconv.TransportCauseMalformedEvent, false},
		{"broken behind it", event("in_progress", response("in_progress", tools)+"}"), semconv.TransportCauseMalformedEvent, false},
		{"what began, as an end", event("failed", response("in_progress", tools)), 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := decode(openAIResponses{}, sseType, created+tt.body)
			assert.Equal(t, tt.violation, st.Violation)
			assert.Equal(t, tt.complete, st.Complete)
			assert.Equal(t, "resp_1", st.ResponseID)
			assert.Equal(t, unshaped(openAIResponses{}, sseType, created+tt.body), st)
		})
	}
}

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
		known             bool // it was learned
	}{
		{"the same", long, long, true},
		{"the same after white space", long, " \n" + long, true},
		{"one byte is another", long, strings.Replace(long, "words", "Words", 1), true},
		{"it goes on", long, long[:len(long)-1] + `,"b":1}`, true},
		{"it is cut", long, long[:len(long)-1], true},
		{"broken", long, strings.Replace(long, `","`, `"."`, 1), true},
		{"an array", "[" + long + "]", "[" + long + "]", true},
		{"short", `{"a":1}`, `{"a":1}`, false},
		{"no object or array: it may go on", strings.Repeat("1", 200), strings.Repeat("1", 300), false},
		{"not well-formed", long[:len(long)-1], long[:len(long)-1], false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r repeated
			r.skip(&cursor{b: []byte(tt.first)})
			require.Equal(t, tt.known, r != repeated{})

			c := cursor{b: []byte(tt.then)}
			r.skip(&c)
			assert.Equal(t, wellFormed([]byte(tt.then)), c.end())
		})
	}
}

// A value that is not found again is forgotten, so that the number of bytes that are
// hashed is bounded by a multiple of the payload.
func TestRepeatedLooksOnce(t *testing.T) {
	var r repeated
	r.skip(&cursor{b: []byte("[" + strings.Repeat("1,", 1000) + "1]")})
	c := cursor{b: []byte("1" + strings.Repeat(" ", 3000))}
	r.skip(&c)
	assert.Equal(t, repeated{}, r)
}

// The tools of a response are skipped if they are the same, and read if not.
func TestToolsSaidAgain(t *testing.T) {
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
		{"twice in one response", event("completed", strings.Replace(response("completed", tools), `"tools"`, `"tools":1,"tools"`, 1)), 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := decode(openAIResponses{}, sseType, created+tt.body)
			assert.Equal(t, tt.violation, st.Violation)
			assert.Equal(t, tt.complete, st.Complete)
			assert.Equal(t, "resp_1", st.ResponseID)
			assert.Equal(t, parsed(openAIResponses{}, sseType, created+tt.body), st)
		})
	}
}

package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// turn is a request of an agent, and what the provider makes of it.
type turn struct {
	path, body string
	header     map[string]string

	status int    // 0: 200
	answer string // the body of the response
	cut    bool   // a reset follows the body
	where  string // Location of a redirect
}

// scripted is a provider that plays one turn for each request.
type scripted struct{ turns []turn }

func (s *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	t := s.turns[0]
	s.turns = s.turns[1:]
	var body io.Reader = strings.NewReader(t.answer)
	if t.cut {
		body = io.MultiReader(body, failingReader{})
	}
	status := t.status
	if status == 0 {
		status = http.StatusOK
	}
	h := http.Header{"Content-Type": {"text/event-stream"}}
	if status >= 400 {
		h.Set("Content-Type", "application/json")
	}
	if t.where != "" {
		h.Set("Location", t.where)
	}
	return &http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: h, Body: io.NopCloser(body), Request: req, ContentLength: -1}, nil
}

var errReset = errors.New("read: connection reset by peer")

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errReset }

// play sends the turns one after the other, and returns the records of what was judged.
func play(t *testing.T, oneAgent bool, turns ...turn) []report.Record {
	t.Helper()
	s, err := Start(t.Context(), Config{OneAgent: oneAgent})
	require.NoError(t, err)
	base := &scripted{turns: turns}
	transport := s.Instrumentation.NewTransport(base)
	for len(base.turns) > 0 {
		next := base.turns[0]
		path := next.path
		if path == "" {
			path = "/v1/chat/completions"
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://model.test"+path, bytes.NewReader([]byte(next.body)))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		for k, v := range next.header {
			req.Header.Set(k, v)
		}
		resp, err := transport.RoundTrip(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
	s.Instrumentation.EndInferredRuns()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
	defer cancel()
	require.NoError(t, s.Close(ctx))
	records := s.Store.Records()
	slices.Reverse(records)
	return records
}

// sse returns a stream of Chat Completions.
func sse(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString("data: " + e + "\n\n")
	}
	return b.String()
}

func delta(delta string) string {
	return `{"id":"x","choices":[{"index":0,"delta":` + delta + `}]}`
}

func finish(reason string) string {
	return `{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

// wantsTo returns the part of a stream that calls tools.
func wantsTo(pay ...string) string {
	var events []string
	for i, id := range pay {
		events = append(events, delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":"pay","arguments":"{}"}}]}`, i, id)))
	}
	return sse(append(events, finish("tool_calls"))...)
}

func calls(ids ...string) string { return wantsTo(ids...) + sse("[DONE]") }

var hello = sse(delta(`{"content":"hello"}`), finish("stop"), "[DONE]")

const helloOfMessages = `event: message_start
data: {"type":"message_start","message":{"id":"m","content":[]}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}

event: message_stop
data: {"type":"message_stop"}

`

const payTool = `,"tools":[{"type":"function","function":{"name":"pay","parameters":{}}}]`

func chat(messages ...string) string { return offering(payTool, messages...) }

func offering(tools string, messages ...string) string {
	return `{"model":"m","stream":true,"messages":[` + strings.Join(messages, ",") + `]` + tools + `}`
}

func says(role, text string) string { return fmt.Sprintf(`{"role":%q,"content":%q}`, role, text) }

func user(text string) string { return says("user", text) }

func called(ids ...string) string {
	var calls []string
	for _, id := range ids {
		calls = append(calls, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"pay","arguments":"{}"}}`, id))
	}
	return `{"role":"assistant","content":"hello","tool_calls":[` + strings.Join(calls, ",") + `]}`
}

func output(id, text string) string {
	return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, id, text)
}

const call1, call2 = "call_1a2b3c4d5e6f7890", "call_9f8e7d6c5b4a3210"

// want is what is said of a run, or of a call without one.
type want struct {
	kind     report.RecordKind
	outcome  string
	cause    string
	safety   string
	requests int
	tools    int
	warning  string
	missing  string
}

func wantOf(r *report.Record) want {
	get := func(key string) string {
		switch v := r.Attributes[key].(type) {
		case string:
			return v
		case []any:
			return strings.Trim(fmt.Sprint(v), "[]")
		default:
			return ""
		}
	}
	return want{
		kind: r.Kind, outcome: get("llm.run.outcome"), cause: get("llm.failure.cause"), safety: get("llm.retry.safety"),
		requests: len(r.Requests), tools: len(r.Tools), warning: get("llm.run.warning"), missing: get("llm.history.missing_outputs"),
	}
}

// An agent does more than to go on with one conversation, and one prompt is one run all the same.
func TestConversations(t *testing.T) {
	session := map[string]string{"Session-Id": "01a203c0-9208-7863-86fa-f6e890e736b3"}
	do := user("do")
	const run, lone = report.RecordRun, report.RecordRequest
	forgot := "The retry did not know of pay, which may have run."
	unsure := want{kind: lone} // nothing is claimed of its run
	well := func(requests, tools int) want {
		return want{kind: run, outcome: "succeeded", requests: requests, tools: tools}
	}
	recovered := func(requests, tools int) want {
		return want{kind: run, outcome: "recovered", requests: requests, tools: tools}
	}
	refused := func(safety string) want {
		return want{kind: run, outcome: "failed", cause: "overloaded", safety: safety, requests: 1}
	}
	cutAfterCall := turn{body: chat(do), answer: wantsTo(call1), cut: true}
	const aborted = "pay was interrupted, and may have run."
	for _, tt := range []struct {
		name    string
		turns   []turn
		want    []want
		session bool // the rest needs an id of the session, or that one agent makes all calls
	}{
		{"a call that nothing follows", []turn{{body: chat(do), answer: calls(call1)}}, []want{unsure}, false},
		{"a title on the side", []turn{
			{body: chat(do), answer: calls(call1)},
			{body: offering("", says("system", "write a title"), do), answer: hello},
			{body: chat(do, called(call1), output(call1, "ok")), answer: hello},
		}, []want{well(2, 1), well(1, 0)}, false},
		{"a summary while a tool runs", []turn{
			{body: chat(do), answer: calls(call1)},
			{body: chat(do, called(call1), user("summarize")), answer: hello},
			{body: chat(do, called(call1), output(call1, "ok")), answer: hello},
		}, []want{well(2, 1), well(1, 0)}, false},
		{"a summary of the output before it is sent", []turn{
			{body: chat(do), answer: calls(call1)},
			{body: offering("", do, called(call1), output(call1, "ok"), user("summarize")), answer: hello},
			{body: chat(do, called(call1), output(call1, "ok")), answer: hello},
		}, []want{well(2, 1), well(1, 0)}, false},
		{"a refusal that is an output", []turn{
			{body: chat(do), answer: calls(call1)},
			{body: chat(do, called(call1), output(call1, "The user does not want this."), user("instead")), answer: hello},
		}, []want{well(2, 1)}, false},
		{"a refusal without an output", []turn{
			{body: chat(do), answer: calls(call1)},
			{body: chat(do, called(call1), user("instead")), answer: hello},
		}, []want{unsure, well(1, 0)}, false},
		{"ids that repeat every turn", []turn{
			{body: chat(do), answer: calls("functions.pay:0")},
			{body: chat(do, called("functions.pay:0"), output("functions.pay:0", "ok")), answer: calls("functions.pay:0")},
			{body: chat(do, called("functions.pay:0"), output("functions.pay:0", "ok"), called("functions.pay:0"), output("functions.pay:0", "ok")), answer: hello},
		}, []want{well(3, 2)}, false},
		{"two calls with one id", []turn{
			{body: chat(do), answer: calls("c", "c")},
			{body: chat(do, called("c", "c"), output("c", "ok"), output("c", "ok")), answer: hello},
		}, []want{well(2, 2)}, false},
		{"ids with a suffix", []turn{
			{body: chat(do), answer: calls(call1, call2)},
			{body: chat(do, called(call1+"_0", call2+"_1"), output(call1+"_0", "ok"), output(call2+"_1", "ok")), answer: hello},
		}, []want{well(2, 2)}, false},
		{"ids of another provider", []turn{
			{body: chat(do), answer: calls(call1)},
			{body: chat(do, called("toolu_01AbCdEf12"), output("toolu_01AbCdEf12", "ok")), answer: hello},
		}, []want{well(2, 1)}, true},
		{"fewer tools", []turn{{body: chat(do), status: 503, answer: "{}"}, {body: offering("", do), answer: hello}}, []want{recovered(2, 0)}, true},
		{"the time in the instructions", []turn{
			{body: chat(says("system", "It is 12:00:01."), do), status: 503, answer: "{}"},
			{body: chat(says("system", "It is 12:00:07."), do), answer: hello},
		}, []want{recovered(2, 0)}, false},
		{"something else in the instructions", []turn{
			{body: chat(says("system", "3 files"), do), status: 503, answer: "{}"},
			{body: chat(says("system", "4 files"), do), answer: hello},
		}, []want{recovered(2, 0)}, true},
		{"another protocol", []turn{
			{body: chat(do), status: 503, answer: "{}"},
			{path: "/v1/messages", body: `{"model":"m","stream":true,"max_tokens":9,"messages":[` + do + `]}`, answer: helloOfMessages},
		}, []want{recovered(2, 0)}, true},
		{"a redirect", []turn{{body: chat(do), status: 307, where: "/v1/chat/completions"}, {body: chat(do), answer: hello}}, []want{well(2, 0)}, false},
		{"the same again after a whole answer", []turn{{body: chat(do), answer: hello}, {body: chat(do), answer: hello}, {body: chat(do), answer: hello}}, []want{well(3, 0)}, true},
		{
			"a retry without a call that was handed over",
			[]turn{cutAfterCall, {body: chat(do), answer: hello}},
			[]want{{kind: run, outcome: "recovered", requests: 2, warning: forgot}},
			false,
		},
		{
			"a call comes back without its output",
			[]turn{{body: chat(do), answer: calls(call1)}, {body: chat(do, called(call1)), answer: hello}},
			[]want{{kind: run, outcome: "failed", cause: "omitted_from_retry", safety: "user_confirmed_retry", requests: 2, missing: call1}},
			false,
		},
		{
			"a cut call comes back without its output",
			[]turn{cutAfterCall, {body: chat(do, called(call1)), answer: hello}},
			[]want{{kind: run, outcome: "failed", cause: "omitted_from_retry", safety: "user_confirmed_retry", requests: 2, missing: call1}},
			false,
		},
		{"the output comes after the retry", []turn{
			cutAfterCall, {body: chat(do), answer: hello}, {body: chat(do, called(call1), output(call1, "ok")), answer: hello},
		}, []want{recovered(3, 1)}, false},
		{"the output comes after the retry, with that of another call", []turn{
			cutAfterCall,
			{body: chat(do), answer: calls(call2)},
			{body: chat(do, called(call1), output(call1, "ok"), called(call2), output(call2, "ok")), answer: hello},
		}, []want{recovered(3, 2)}, false},
		{"the next turn asks for nothing that is settled", []turn{
			{body: chat(do), answer: calls(call1)},
			{body: chat(do, called(call1), output(call1, "ok")), answer: hello},
			{body: chat(do, called(call1), output(call1, "ok"), says("assistant", "hello"), user("more")), status: 503, answer: "{}"},
		}, []want{well(2, 1), refused("safe_auto_retry")}, false},
		{"an output that was made up", []turn{
			cutAfterCall, {body: chat(do, called(call1), output(call1, "aborted"), user("go on")), answer: hello},
		}, []want{{kind: run, outcome: "recovered", requests: 2, tools: 1, warning: aborted}}, false},
		{"an output that was made up in a resumed conversation", []turn{
			{body: chat(do, called(call1), output(call1, "No result provided"), user("go on")), answer: hello},
		}, []want{{kind: run, outcome: "recovered", requests: 1, tools: 1, warning: "A tool was interrupted, and may have run."}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check := func(oneAgent bool) {
				var got []want
				for _, r := range play(t, oneAgent, tt.turns...) {
					got = append(got, wantOf(&r))
				}
				assert.Equal(t, tt.want, got)
			}
			check(true)
			for i := range tt.turns {
				tt.turns[i].header = session
			}
			check(false)
			if !tt.session {
				for i := range tt.turns {
					tt.turns[i].header = nil
				}
				check(false)
			}
		})
	}
}

// After a compaction the history shows nothing of what was paid. In a session the payments are
// remembered.
func TestPaymentsBeforeACompaction(t *testing.T) {
	const askFirst, safe = "user_confirmed_retry", "safe_auto_retry"
	do, summary := user("do"), user("so far: it was paid twice")
	paid := []string{do, called(call1), output(call1, "ok"), called(call2), output(call2, "ok")}
	begin := []turn{{body: chat(do), answer: calls(call1)}, {body: chat(paid[:3]...), answer: calls(call2)}}
	for name, tt := range map[string]struct {
		turns    []turn
		oneAgent string // the safety under `otelllm run`, if the client sends no id of its session
	}{
		"in the turn":         {append(slices.Clone(begin), turn{body: chat(summary), status: 503, answer: "{}"}), askFirst},
		"by a summary":        {append(slices.Clone(begin), turn{body: offering("", append(slices.Clone(paid), user("summarize"))...), answer: hello}, turn{body: chat(summary), status: 503, answer: "{}"}), askFirst},
		"after a failure":     {append(slices.Clone(begin), turn{body: chat(paid...), status: 400, answer: `{"error":{"code":"context_length_exceeded"}}`}, turn{body: chat(summary), status: 503, answer: "{}"}), askFirst},
		"after the answer":    {append(slices.Clone(begin), turn{body: chat(paid...), answer: hello}, turn{body: chat(summary), status: 503, answer: "{}"}), safe},
		"and nothing is paid": {[]turn{{body: chat(do), answer: hello}, {body: chat(summary), status: 503, answer: "{}"}}, safe},
	} {
		t.Run(name, func(t *testing.T) {
			last := func(oneAgent bool) string {
				records := play(t, oneAgent, tt.turns...)
				return wantOf(&records[len(records)-1]).safety
			}
			assert.Equal(t, tt.oneAgent, last(true))
			for i := range tt.turns {
				tt.turns[i].header = map[string]string{"Session-Id": "01a203c0-9208-7863-86fa-f6e890e736b3"}
			}
			want := askFirst
			if name == "and nothing is paid" {
				want = safe
			}
			assert.Equal(t, want, last(false))
		})
	}
}

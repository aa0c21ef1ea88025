package wire

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadClientMessage(t *testing.T) {
	long := strings.Repeat("a", maxTrace+1)
	for _, tt := range []struct {
		name, message string
		want          ClientMessage
	}{
		{"a request", `{"type":"response.create","model":"m","input":[]}`, ClientMessage{Kind: ClientCreate}},
		{"in a stream", `{"stream_id":"main","type":"response.create"}`, ClientMessage{Kind: ClientCreate, Stream: "main"}},
		{"a prewarm", `{"type":"response.create","generate":false,"input":[]}`, ClientMessage{Kind: ClientPrewarm}},
		{"not a prewarm", `{"type":"response.create","generate":true}`, ClientMessage{Kind: ClientCreate}},
		{"not a boolean", `{"type":"response.create","generate":null}`, ClientMessage{Kind: ClientCreate}},
		{"steering", `{"type":"response.steer","previous_response_id":"r","input":"a"}`, ClientMessage{Kind: ClientSteer}},
		{"another one", `{"type":"session.update"}`, ClientMessage{}},
		{"text in the input", `{"type":"response.create","input":[{"type":"response.steer","stream_id":"x","generate":false}]}`, ClientMessage{Kind: ClientCreate}},
		{
			"trace context", `{"type":"response.create","client_metadata":{"thread_id":"t","ws_request_header_traceparent":"00-1-2-01","ws_request_header_tracestate":"a=b","x":{"y":[]}}}`,
			ClientMessage{Kind: ClientCreate, TraceParent: "00-1-2-01", TraceState: "a=b"},
		},
		{"a long trace context", `{"type":"response.create","client_metadata":{"ws_request_header_traceparent":"` + long + `"}}`, ClientMessage{Kind: ClientCreate}},
		{"a long stream", `{"type":"response.create","stream_id":"` + long + `"}`, ClientMessage{}},
		{"cut", `{"type":"response.create"`, ClientMessage{}},
		{"nothing", ``, ClientMessage{}},
		{"a list", `["response.create"]`, ClientMessage{}},
	} {
		assert.Equal(t, tt.want, ReadClientMessage([]byte(tt.message)), tt.name)
	}
	long32 := make([]byte, MaxEvent+1)
	assert.Zero(t, ReadClientMessage(long32))
	copy(long32, `{"type":"response.create","generate":false,`)
	assert.Equal(t, ClientMessage{Kind: ClientCreate}, ReadClientMessage(long32))
}

func TestReadServerMessage(t *testing.T) {
	for _, tt := range []struct {
		name, message string
		want          ServerMessage
	}{
		{"created", `{"type":"response.created","response":{"id":"r1","tools":[{"id":"x"}]}}`, ServerMessage{Kind: ServerBegins, ResponseID: "r1"}},
		{"queued", `{"response":{"id":"r1"},"type":"response.queued"}`, ServerMessage{Kind: ServerBegins, ResponseID: "r1"}},
		{"a delta", `{"type":"response.output_text.delta","delta":"a"}`, ServerMessage{Kind: ServerPart}},
		{"a delta of a stream", `{"type":"response.output_text.delta","delta":"a","stream_id":"main"}`, ServerMessage{Kind: ServerPart, Stream: "main"}},
		{"a delta about streams", `{"type":"response.output_text.delta","delta":"\"stream_id\":\"x\""}`, ServerMessage{Kind: ServerPart}},
		{"a type of another form", `{"type":"response.\u0063ompleted","response":{"id":"r1"}}`, ServerMessage{Kind: ServerEnds, ResponseID: "r1"}},
		{"the type behind", `{"delta":"a","type":"response.output_text.delta"}`, ServerMessage{Kind: ServerPart}},
		{"completed", `{"type":"response.completed","response":{"id":"r1"}}`, ServerMessage{Kind: ServerEnds, ResponseID: "r1"}},
		{"incomplete", `{"type":"response.incomplete","response":{}}`, ServerMessage{Kind: ServerEnds}},
		{"failed", `{"type":"response.failed","response":null}`, ServerMessage{Kind: ServerEnds, Failed: true}},
		{"cancelled", `{"type":"response.cancelled"}`, ServerMessage{Kind: ServerEnds, Failed: true}},
		{"an error", `{"type":"error","status":400,"stream_id":"main","error":{"code":"previous_response_not_found"}}`, ServerMessage{Kind: ServerError, Stream: "main"}},
		{"a flat error", `{"type":"error","code":"server_error"}`, ServerMessage{Kind: ServerError}},
		{"the limit", `{"type":"error","error":{"type":"invalid_request_error","code":"websocket_connection_limit_reached"},"status":400}`, ServerMessage{Kind: ServerError, Connection: true}},
		{"the limit, flat", `{"type":"error","code":"websocket_connection_limit_reached"}`, ServerMessage{Kind: ServerError, Connection: true}},
		{"steering", `{"type":"response.steer.accepted","stream_id":"main","steer":{}}`, ServerMessage{Kind: ServerSteerAccepted, Stream: "main"}},
		{"rejected steering", `{"type":"response.steer.failed","steer":{"input":"a"}}`, ServerMessage{Kind: ServerOther}},
		{"failed steering", `{"type":"response.steer.failed","steer":{"id":"st_1"}}`, ServerMessage{Kind: ServerSteerDone}},
		{"steering that waits", `{"type":"response.steer.pending","steer":{"id":"st_1"}}`, ServerMessage{Kind: ServerSteerDone}},
		{"other steering", `{"type":"response.steer.seen"}`, ServerMessage{Kind: ServerOther}},
		{"steered", `{"type":"response.incomplete","response":{"incomplete_details":{"x":1,"reason":"steered"},"id":"r1"}}`, ServerMessage{Kind: ServerEnds, ResponseID: "r1", Steered: true}},
		{"limited", `{"type":"response.incomplete","response":{"id":"r1","incomplete_details":{"reason":"max_output_tokens"}}}`, ServerMessage{Kind: ServerEnds, ResponseID: "r1"}},
		{"limits", `{"type":"codex.rate_limits","rate_limits":{}}`, ServerMessage{Kind: ServerKeepalive}},
		{"a long stream", `{"type":"response.created","stream_id":"` + strings.Repeat("a", maxStreamID+1) + `"}`, ServerMessage{Kind: ServerPart}},
		{"names in another case", `{"Type":"response.completed","Response":{"id":"r1"}}`, ServerMessage{Kind: ServerEnds, ResponseID: "r1"}},
		{"unknown", `{"kind":"x"}`, ServerMessage{Kind: ServerPart}},
		{"cut", `{"type":"response.completed","response":{"id":"r1"`, ServerMessage{Kind: ServerPart}},
		{"no JSON", `hello`, ServerMessage{Kind: ServerPart}},
	} {
		assert.Equal(t, tt.want, ReadServerMessage([]byte(tt.message)), tt.name)
	}
	assert.Equal(t, ServerMessage{Kind: ServerPart}, ReadServerMessage(make([]byte, MaxEvent+1)))
}

// recordings returns the recorded streams.
func recordings(tb testing.TB) (all []recording) {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "streams", "*.jsonl"))
	require.NoError(tb, err)
	for _, file := range files {
		lines, err := os.ReadFile(file)
		require.NoError(tb, err)
		all = append(all, recordingsOf(tb, lines)...)
	}
	return all
}

// messagesOf returns the JSON objects of a recorded event stream.
func messagesOf(events []string) (messages [][]byte) {
	for _, ev := range events {
		for line := range strings.Lines(ev) {
			if m, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
				messages = append(messages, []byte(m))
			}
		}
	}
	return messages
}

// TestMessagesAsEvents checks that a response means the same over a WebSocket as over HTTP, after every
// message.
func TestMessagesAsEvents(t *testing.T) {
	n := 0
	for _, rec := range recordings(t) {
		if rec.protocol != (openAIResponses{}) {
			continue
		}
		messages := messagesOf(rec.events)
		over := NewResponsesMessages()
		for i, m := range messages {
			over.Write(m)
			want := decodeCut(openAIResponses{}, sseType, strings.Join(rec.events[:i+1], ""))
			got := *over.State()
			require.Equal(t, want, &got, "after %d messages of %s", i+1, messages[0])
			n++
		}
		over.Close()
		over.Release()
	}
	assert.Greater(t, n, 20)
}

func TestMessagesThatCannotBeRead(t *testing.T) {
	d := NewResponsesMessages()
	d.Write(make([]byte, MaxEvent+1))
	assert.True(t, d.State().Unread)
	d.Write([]byte(`{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}`))
	assert.True(t, d.State().Complete)
	d.Release()
}

// TestReadAfter checks that a history in two bodies is that of one.
func TestReadAfter(t *testing.T) {
	item := func(role, text string) string {
		return `{"type":"message","role":"` + role + `","content":[{"type":"input_text","text":"` + text + `"}]}`
	}
	items := []string{
		item("developer", "a"), item("developer", "b"), item("user", "c"), item("assistant", "d"),
		`{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`, `{"type":"function_call_output","call_id":"c1","output":"x"}`, item("user", "e"),
	}
	body := func(previous string, items []string) []byte {
		return []byte(`{"instructions":"i","tools":[{"type":"function","name":"f"}],` + previous + `"input":[` + strings.Join(items, ",") + `]}`)
	}
	whole := read(t, string(body("", items)))
	for n := range len(items) {
		var first, both Transcript
		require.True(t, first.Read(body("", items[:n])))
		require.True(t, both.ReadAfter(&first, body(`"previous_response_id":"r1",`, items[n:])))
		assert.Equal(t, whole.Total, both.Total, n)
		assert.Equal(t, whole.Answered, both.Answered, n)
		assert.Equal(t, whole.Opening, both.Opening, n)
		assert.Equal(t, whole.Tail, both.Tail, n)
		for i := range len(items) + 1 {
			want, ok := whole.Point(i)
			got, same := both.Point(i)
			assert.Equal(t, ok, same, "%d: %d", n, i)
			assert.Equal(t, want, got, "%d: %d", n, i)
		}
		for i := range 2 {
			want, _ := whole.Call(i)
			got, _ := both.Call(i)
			assert.Equal(t, want, got, n)
			wantOutput, _ := whole.Output(i)
			gotOutput, _ := both.Output(i)
			assert.Equal(t, wantOutput, gotOutput, n)
		}
	}
}

// TestTail checks that what is new in a request is the same with and without the rest of the history.
func TestTail(t *testing.T) {
	user := `{"type":"message","role":"user","content":"a"}`
	short := read(t, `{"previous_response_id":"r","input":[`+user+`]}`)
	long := read(t, `{"input":[{"role":"user","content":"x"},{"type":"message","role":"assistant","content":"y"},`+user+`]}`)
	assert.Equal(t, short.Tail, long.Tail)
	assert.NotZero(t, short.Tail)
	assert.NotEqual(t, short.Tail, read(t, `{"input":[`+user+`,`+user+`]}`).Tail)
	assert.Zero(t, read(t, `{"input":[`+user+`,{"role":"assistant","content":"y"}]}`).Tail)
}

func FuzzMessages(f *testing.F) {
	for _, rec := range recordings(f) {
		if rec.protocol == (openAIResponses{}) {
			f.Add([]byte(string(joined(messagesOf(rec.events)))))
		}
	}
	f.Add([]byte(`{"type":"response.create","client_metadata":{"ws_request_header_traceparent":"x"},"generate":false,"stream_id":"a"}`))
	f.Add([]byte("{\"type\":\"error\",\"error\":{\"code\":\"websocket_connection_limit_reached\"}}\n{\"type\":\"response.output_text.delta\",\"stream_id\":\"a\",\"delta\":\"b\"}\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, plain := NewResponsesMessages(), NewResponsesMessages()
		bodyOf(plain).tally.values = nil
		for line := range strings.SplitSeq(string(data), "\n") {
			p := []byte(line)
			d.Write(p)
			plain.Write(p)
			m := ReadServerMessage(p)
			assert.LessOrEqual(t, len(m.Stream), maxStreamID)
			assert.LessOrEqual(t, len(m.ResponseID), maxSafeID)
			c := ReadClientMessage(p)
			assert.LessOrEqual(t, len(c.TraceParent)+len(c.TraceState), 2*maxTrace)
		}
		d.Cut(false)
		plain.Cut(false)
		checkState(t, d.State())
		assert.Equal(t, plain.State(), d.State(), "with every payload parsed")
		d.Release()
	})
}

func joined(messages [][]byte) (all []byte) {
	for _, m := range messages {
		all = append(append(all, m...), '\n')
	}
	return all
}

func FuzzReadAfter(f *testing.F) {
	f.Add([]byte(`{"input":[{"role":"developer","content":"a"}]}`), []byte(`{"previous_response_id":"r","input":[{"role":"user","content":"b"},{"type":"function_call","call_id":"c","arguments":"{}"}]}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if !json.Valid(a) || !json.Valid(b) {
			return
		}
		var first, both Transcript
		if !first.Read(a) || !both.ReadAfter(&first, b) {
			return
		}
		assert.GreaterOrEqual(t, both.Total.Calls, first.Total.Calls)
		assert.GreaterOrEqual(t, both.Total.Outputs, first.Total.Outputs)
		assert.Zero(t, both.Previous)
		for n := range MaxIDs + 1 {
			both.Point(n)
			both.Call(n)
			both.Output(n)
		}
	})
}

package instrumentations

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/realtime"
	"github.com/otelllm/otelllm-go/semconv"
)

// step is a frame of a realtime session, or its end: what, and the frame or the error.
type step [2]string

// TestSessionsInPython requires that otelllm_realtime.py records the same facts as package realtime, for sessions of every
// kind, whole and cut after each frame, by this side and by a reset.
func TestSessionsInPython(t *testing.T) {
	t.Parallel()
	agents := findPython(t)
	sessions := realtimeSessions()
	file := filepath.Join(t.TempDir(), "sessions.json")
	list, err := json.Marshal(sessions)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, list, 0o600))
	cmd := exec.CommandContext(t.Context(), agents.python, "-X", "dev", "sessions.py", file)
	cmd.Dir = agents.dir
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, len(sessions))
	for i, session := range sessions {
		var recorded []map[string]any
		require.NoError(t, json.Unmarshal([]byte(lines[i]), &recorded))
		var got []map[string]any
		for _, facts := range recorded {
			got = append(got, comparedInSession(facts))
		}
		assert.Equal(t, sessionInGo(t, session), got, "%v", session)
	}
}

// sessionInGo returns the facts that package realtime records of a session, of each span but the run's.
func sessionInGo(t *testing.T, session []step) (all []map[string]any) {
	spans := tracetest.NewSpanRecorder()
	inst := otelllm.New(otelllm.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))))
	ctx, run := inst.StartRun(t.Context(), "coder")
	s := realtime.NewSession(ctx, realtime.Config{Instrumentation: inst})
	reset := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for _, step := range session {
		switch step[0] {
		case "received":
			s.RecordReceived([]byte(step[1]))
		case "sent":
			s.RecordSent([]byte(step[1]))
		case "unsent":
			s.RecordSendFailure([]byte(step[1]), reset)
		case "closed":
			if step[1] == "" {
				s.Close(nil)
			} else {
				s.Close(reset)
			}
		}
	}
	run.End(nil)
	ended := spans.Ended()
	slices.SortStableFunc(ended, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	for _, span := range ended {
		if strings.HasPrefix(span.Name(), "invoke_agent") {
			continue
		}
		facts := map[string]any{}
		for _, kv := range span.Attributes() {
			facts[string(kv.Key)] = kv.Value.AsInterface()
		}
		text, err := json.Marshal(facts)
		require.NoError(t, err)
		facts = nil
		require.NoError(t, json.Unmarshal(text, &facts))
		all = append(all, comparedInSession(facts))
	}
	return all
}

// comparedInSession returns the facts that have to be the same: those of compared, without the id of the run and what each
// language names in its own way.
func comparedInSession(facts map[string]any) map[string]any {
	same := compared(facts)
	for _, key := range []attribute.Key{semconv.RunIDKey, semconv.TransportErrorChainKey, semconv.StreamKeepalivesKey} {
		delete(same, string(key))
	}
	for _, key := range []string{"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.id", "gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.response.finish_reasons", "gen_ai.usage.input_tokens"} {
		if value, ok := facts[key]; ok {
			same[key] = value
		}
	}
	return same
}

func realtimeSessions() (sessions [][]step) {
	received := func(frame string) step { return step{"received", frame} }
	sent := func(frame string) step { return step{"sent", frame} }
	session := received(`{"type":"session.created","session":{"model":"gpt-realtime","tools":[]}}`)
	create := sent(`{"type":"response.create","event_id":"evt_1"}`)
	of := func(typ, more string) step {
		return received(`{"type":"response.` + typ + `","response_id":"resp_1","output_index":0,"item_id":"item_1"` + more + `}`)
	}
	created := received(`{"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}`)
	done := func(status, details, output string) step {
		return received(fmt.Sprintf(`{"type":"response.done","response":{"id":"resp_1","status":%q,"status_details":%s,"output":[%s],"usage":{"input_tokens":13,"output_tokens":5}}}`, status, details, output))
	}
	message := `{"type":"message","id":"item_1","content":[{"type":"output_audio","transcript":"secret"}]}`
	call := `{"type":"function_call","id":"item_1","call_id":"call_1","name":"pay","arguments":"{\"a\":1}","status":"completed"}`
	speech := []step{session, create, created, of("output_item.added", `,"item":{"type":"message","id":"item_1","content":[]}`), of("output_audio_transcript.delta", `,"delta":"secret"`), of("output_audio.delta", `,"delta":"AAAA"`), done("completed", "null", message)}
	calls := []step{
		session, create, created, of("output_item.added", `,"item":{"type":"function_call","id":"item_1","call_id":"call_1","name":"pay","arguments":""}`),
		of("function_call_arguments.delta", `,"call_id":"call_1","delta":"{\"a\""`), of("function_call_arguments.delta", `,"call_id":"call_1","delta":":1}"`),
		of("function_call_arguments.done", `,"call_id":"call_1","arguments":"{\"a\":1}"`), of("output_item.done", `,"item":`+call), done("completed", "null", call),
	}
	output := sent(`{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"call_1","output":"secret"}}`)
	second := []step{
		sent(`{"type":"response.create"}`), received(`{"type":"response.created","response":{"id":"resp_2"}}`),
		received(`{"type":"response.text.delta","response_id":"resp_2","delta":"secret"}`),
		received(`{"type":"response.done","response":{"id":"resp_2","status":"completed","output":[]}}`),
	}
	for _, whole := range [][]step{
		speech,
		calls,
		slices.Concat(calls, []step{output}, second),
		slices.Concat(calls, []step{sent(`{"type":"conversation.item.delete","item_id":"i"}`)}, second),
		{session, created, of("output_item.added", `,"item":{"type":"message","id":"item_1","content":[]}`), of("text.delta", `,"delta":"secret"`), done("completed", "null", message)},
		{session, create, created, of("output_audio.delta", `,"delta":"AAAA"`), done("cancelled", `{"type":"cancelled","reason":"turn_detected"}`, "")},
		{session, create, created, of("output_audio.delta", `,"delta":"AAAA"`), done("cancelled", `{"type":"cancelled","reason":"client_cancelled"}`, "")},
		{session, create, created, done("incomplete", `{"type":"incomplete","reason":"max_output_tokens"}`, message)},
		{session, create, created, done("incomplete", `{"type":"incomplete","reason":"content_filter"}`, "")},
		{session, create, created, done("failed", `{"type":"failed","error":{"type":"server_error","code":"rate_limit_exceeded","message":"secret"}}`, "")},
		{session, create, created, done("failed", `{"type":"failed","error":{"type":"insufficient_quota","code":"insufficient_quota"}}`, "")},
		{session, create, created, done("new", "null", "")},
		{session, create, created, done("completed", "null", call)},
		{session, create, created, done("completed", "null", "")},
		{session, create, received(`{"type":"error","error":{"type":"invalid_request_error","code":"conversation_already_has_active_response","message":"secret"}}`)},
		{session, create, received(`{"type":"error","error":{"type":"server_error","code":"rate_limit_exceeded","event_id":"evt_1"}}`)},
		{session, create, received(`{"type":"error","error":{"type":"server_error","event_id":"evt_9"}}`), created},
		{session, {"unsent", `{"type":"response.create"}`}},
		{sent(`{"type":"session.update","session":{"model":"m","tools":[{"type":"function","name":"pay"},{"type":"mcp","server_label":"s"}]}}`), create, created, of("output_item.added", `,"item":{"type":"mcp_call","id":"item_1"}`)},
		{sent(`{"type":"session.update","session":{"agent":"x"}}`), session, create, created},
		{session, sent(`{"type":"response.create","response":{"tools":[{"type":"mcp"}]}}`), created},
		{session, received(`no JSON`), create, received(`[1]`), created, received(`{"type":7}`), received(`{}`)},
	} {
		for n := range len(whole) + 1 {
			for _, end := range []step{{"closed", ""}, {"closed", "reset"}} {
				sessions = append(sessions, append(slices.Clone(whole[:n]), end))
			}
		}
	}
	return sessions
}

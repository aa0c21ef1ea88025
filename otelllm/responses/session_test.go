package responses

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
	"github.com/otelllm/otelllm-go/semconv"
)

// The frames are in the words of Codex CLI 0.169 and of OpenAI's guide of the WebSocket mode.

// codex returns the headers of Codex' handshake.
func codex(session string) http.Header {
	h := http.Header{}
	h.Set("User-Agent", "codex_exec/0.169.0 (Debian 12.0.0; x86_64) xterm (codex_exec; 0.169.0)")
	h.Set("Session-Id", session)
	h.Set("Thread-Id", session)
	return h
}

const secret = "the-secret-of-the-user"

const tools = `"tools":[{"type":"function","name":"shell","parameters":{"type":"object"}}],"tool_choice":"auto","store":false,"stream":true,"prompt_cache_key":"k1"`

func message(role, text string) string {
	return fmt.Sprintf(`{"type":"message","role":%q,"content":[{"type":"input_text","text":%q}]}`, role, text)
}

func answer(text string) string {
	return fmt.Sprintf(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":%q}]}`, text)
}

func call(id string) string {
	return fmt.Sprintf(`{"type":"function_call","name":"shell","call_id":%q,"arguments":"{\"command\":[\"%s\"]}"}`, id, secret)
}

func output(id string) string {
	return fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":%q}`, id, secret)
}

// create returns a response.create. More are members before the input.
func create(more string, input ...string) []byte {
	return []byte(`{"type":"response.create","model":"gpt-5.5",` + more + `"input":[` + strings.Join(input, ",") + `],` + tools + `}`)
}

func previous(id string) string { return `"previous_response_id":"` + id + `",` }

func event(typ, more string) []byte { return []byte(`{"type":"` + typ + `"` + more + `}`) }

func created(id string) []byte {
	return event("response.created", `,"response":{"id":"`+id+`","object":"response","status":"in_progress","model":"gpt-5.5-2026","output":[]},"sequence_number":0`)
}

func text(s string) []byte {
	return event("response.output_text.delta", `,"item_id":"m1","output_index":0,"content_index":0,"delta":"`+s+`","sequence_number":3`)
}

func called(id string) []byte {
	return event("response.output_item.done", `,"output_index":0,"item":{"id":"fc_1","type":"function_call","status":"completed","call_id":"`+id+`","name":"shell","arguments":"{\"command\":[\"`+secret+`\"]}"}`)
}

func completed(id string) []byte {
	return event("response.completed", `,"response":{"id":"`+id+`","object":"response","status":"completed","model":"gpt-5.5-2026","output":[],"usage":{"input_tokens":7,"output_tokens":5}}`)
}

func refusal(code string) []byte {
	return []byte(`{"type":"error","status":400,"error":{"type":"invalid_request_error","code":"` + code + `","message":"` + secret + `"}}`)
}

var reset = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}

func received(s *Session, frames ...[]byte) {
	for _, f := range frames {
		s.RecordReceived(f)
	}
}

// world is an SDK and an Instrumentation that records with it.
type world struct {
	*spantest.Recorder

	with *otelllm.Instrumentation
}

func newWorld(t *testing.T) *world {
	t.Helper()
	r := spantest.New(t)
	w := &world{r, otelllm.New(otelllm.WithTracerProvider(r.TracerProvider))}
	t.Cleanup(func() {
		require.NoError(t, w.with.Shutdown(context.Background()))
		for _, s := range r.Spans.Ended() {
			assert.NotContains(t, spantest.Text(s), secret)
		}
	})
	return w
}

func (w *world) client() *Session {
	return NewSession(context.Background(), Config{URL: "wss://api.openai.com/v1/responses", Header: codex("s1"), Instrumentation: w.with})
}

// requests returns the spans of requests that have ended.
func (w *world) requests() (spans tracetest.SpanStubs) {
	for _, s := range w.Spans.Ended() {
		if strings.HasPrefix(s.Name(), "chat") {
			spans = append(spans, tracetest.SpanStubFromReadOnlySpan(s))
		}
	}
	return spans
}

func (w *world) named(name string) tracetest.SpanStubs {
	w.with.EndInferredRuns() // those that wait for the same request again
	return tracetest.SpanStubsFromReadOnlySpans(w.Named(name))
}

func get(s tracetest.SpanStub, key attribute.Key) any {
	for _, kv := range s.Attributes {
		if kv.Key == key {
			return kv.Value.AsInterface()
		}
	}
	return nil
}

// want are attributes that a span has; nil: it has not.
type want map[attribute.Key]any

func (w want) check(t *testing.T, s tracetest.SpanStub) {
	t.Helper()
	for key, value := range w {
		assert.Equal(t, value, get(s, key), "%s of %s", key, s.Name)
	}
}

func TestRequestEnds(t *testing.T) {
	for _, tt := range []struct {
		name     string
		received [][]byte
		close    error
		want     want
	}{
		{
			"complete",
			[][]byte{created("r1"), text("a"), text("b"), completed("r1")},
			nil,
			want{
				"llm.stream.end": "terminal_event", "llm.stream.phase": "stream_end", "llm.stream.text_chunks": int64(2), "llm.stream.events": int64(4),
				"gen_ai.response.id": "r1", "gen_ai.response.model": "gpt-5.5-2026", "gen_ai.usage.output_tokens": int64(5), "gen_ai.request.model": "gpt-5.5",
				"gen_ai.request.stream": true, "gen_ai.provider.name": "openai", "server.address": "api.openai.com", "server.port": int64(443),
				"llm.request.provider_tools": []string{}, "llm.history.tool_calls": []string{}, "error.type": nil, "llm.stream.unread": nil,
			},
		},
		{
			"limits of the account are no content",
			[][]byte{event("codex.rate_limits", `,"plan_type":"pro","rate_limits":{"allowed":true}`), created("r1"), event("codex.rate_limits", `,"plan_type":"pro"`), completed("r1")},
			nil,
			want{"llm.stream.end": "terminal_event", "llm.stream.unread": nil, "llm.stream.keepalives": int64(1), "llm.stream.events": int64(2)},
		},
		{
			"incomplete",
			[][]byte{created("r1"), text("a"), event("response.incomplete", `,"response":{"id":"r1","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}`)},
			nil,
			want{"llm.stream.end": "terminal_event", "gen_ai.response.finish_reasons": []string{"max_output_tokens"}},
		},
		{
			"failed",
			[][]byte{created("r1"), text("a"), event("response.failed", `,"response":{"id":"r1","status":"failed","error":{"code":"server_error","message":"`+secret+`"}}`)},
			nil,
			want{"llm.stream.end": "terminal_event", "llm.provider_error.kind": "server_error", "llm.provider_error.in_band": true, "llm.stream.phase": "text"},
		},
		{
			"an error, and what may follow it",
			[][]byte{created("r1"), event("error", `,"code":"rate_limit_exceeded","message":"`+secret+`"`), event("response.failed", `,"response":{"id":"r1","status":"failed","error":{"code":"server_error"}}`)},
			nil,
			want{"llm.stream.end": "terminal_event", "llm.provider_error.kind": "rate_limited"},
		},
		{
			"an error before it began",
			[][]byte{refusal("invalid_stream_id")},
			nil,
			want{"llm.stream.end": "terminal_event", "llm.provider_error.kind": "invalid_request", "llm.provider_error.code": "invalid_stream_id"},
		},
		{
			"reset in text",
			[][]byte{created("r1"), text("a")},
			reset,
			want{"llm.stream.end": "read_error", "llm.transport.cause": "connection_reset", "llm.transport.code": "ECONNRESET", "llm.stream.phase": "text"},
		},
		{
			"reset before it began", nil, reset,
			want{"llm.stream.end": "no_response", "llm.transport.cause": "connection_reset", "llm.stream.phase": "awaiting_response"},
		},
		{
			"closed by this side",
			[][]byte{created("r1"), text("a")},
			nil,
			want{"llm.stream.end": "consumer_closed", "llm.abort.source": "consumer"},
		},
		{
			"a message that is no JSON",
			[][]byte{created("r1"), []byte(`{"type":"response.output_text.delta",`), completed("r1")},
			nil,
			want{"llm.stream.end": "terminal_event", "llm.stream.unread": true, "llm.stream.text_chunks": nil},
		},
		{
			"two answers run together",
			[][]byte{created("r1"), text("a"), created("r2"), text("b"), completed("r2")},
			nil,
			want{"llm.stream.end": "eof", "gen_ai.response.id": "r1", "llm.stream.text_chunks": int64(1)},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			s := w.client()
			s.RecordSent(create("", message("user", secret)))
			received(s, tt.received...)
			s.Close(tt.close)
			s.Close(reset)
			spans := w.requests()
			require.NotEmpty(t, spans)
			tt.want.check(t, spans[0])
			assert.Equal(t, "chat gpt-5.5", spans[0].Name)
			assert.Equal(t, oteltrace.SpanKindClient, spans[0].SpanKind)
		})
	}
}

// TestCodexRun replays what Codex sends when a connection breaks after a tool has run: the
// prewarm, two requests by reference, and the whole history over new connections, then over
// HTTP. All of that is one run with one tool, and each further one an attempt.
func TestCodexRun(t *testing.T) {
	w := newWorld(t)
	first := w.client()
	instructions, who, where, ask := message("developer", "be brief"), message("developer", "who"), message("user", "where"), message("user", secret)
	first.RecordSent(create(`"generate":false,`, instructions))
	received(first, created("resp_warm"), completed("resp_warm"))
	first.RecordSent(create(previous("resp_warm"), who, where, ask))
	received(first, created("resp_1"), called("call_a81Zk20Q"), completed("resp_1"))
	first.RecordSent(create(previous("resp_1"), output("call_a81Zk20Q")))
	received(first, created("resp_2"), text("I"))
	first.Close(reset)
	whole := create("", instructions, who, where, ask, call("call_a81Zk20Q"), output("call_a81Zk20Q"))
	for range 2 {
		again := w.client()
		again.RecordSent(whole)
		received(again, created("resp_x"), text("I"))
		again.Close(reset)
	}
	last := w.client()
	last.RecordSent(whole)
	received(last, created("resp_3"), text("Done"), completed("resp_3"))
	last.Close(nil)

	runs, requests := w.named("invoke_agent codex_exec"), w.requests()
	require.Len(t, runs, 1)
	require.Len(t, requests, 5)
	want{"llm.run.inferred": true, "gen_ai.conversation.id": "s1", "llm.run.requests": int64(5)}.check(t, runs[0])
	for i, attempt := range []any{int64(1), int64(1), int64(2), int64(3), int64(4)} {
		assert.Equal(t, runs[0].SpanContext.SpanID(), requests[i].Parent.SpanID(), "request %d", i)
		want{"llm.request.attempt": attempt}.check(t, requests[i])
	}
	want{"llm.history.tool_calls": []string{}, "llm.stream.tool_call_ids": []string{"call_a81Zk20Q"}}.check(t, requests[0])
	for _, r := range requests[1:] {
		want{"llm.history.tool_calls": []string{"call_a81Zk20Q"}, "llm.history.tool_outputs": []string{"call_a81Zk20Q"}}.check(t, r)
	}
	tools := w.named("execute_tool shell")
	require.Len(t, tools, 1)
	want{"llm.tool.observed": "history", "gen_ai.tool.call.id": "call_a81Zk20Q"}.check(t, tools[0])
}

// TestInFull checks that a request with the whole history is a further attempt of the one that
// referred to an earlier response, where nothing but the session relates them.
func TestInFull(t *testing.T) {
	for name, end := range map[string]func(s *Session){
		"reset":               func(s *Session) { received(s, created("resp_2"), text("I")); s.Close(reset) },
		"lost state":          func(s *Session) { received(s, refusal("previous_response_not_found")); s.Close(nil) },
		"end of a connection": func(s *Session) { received(s, refusal("websocket_connection_limit_reached")); s.Close(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.client()
			s.RecordSent(create("", message("user", "hello")))
			received(s, created("resp_1"), text("Hi"), completed("resp_1"))
			s.RecordSent(create(previous("resp_1"), message("user", "and now?")))
			end(s)
			again := w.client()
			again.RecordSent(create("", message("user", "hello"), answer("Hi"), message("user", "and now?")))
			received(again, created("resp_3"), text("Now"), completed("resp_3"))
			again.Close(nil)
			requests := w.requests()
			require.Len(t, requests, 3)
			assert.Len(t, w.named("invoke_agent codex_exec"), 2, "the first answer ended the first run")
			assert.Equal(t, requests[1].Parent.SpanID(), requests[2].Parent.SpanID())
			want{"llm.request.attempt": int64(2)}.check(t, requests[2])
		})
	}
}

// TestLostState checks that the verdict says what to do when a server has lost its state. A
// request with the whole history only needs another connection.
func TestLostState(t *testing.T) {
	const limit = "websocket_connection_limit_reached"
	for _, tt := range []struct {
		name, code, previous string
		class, cause, safety string
	}{
		{"a lost response", "previous_response_not_found", previous("resp_0"), "history_broken", "lost_state", "no_retry"},
		{"the end of a connection, by reference", limit, previous("resp_0"), "history_broken", "lost_state", "no_retry"},
		{"the same to a known response", limit, previous("resp_1"), "history_broken", "lost_state", "no_retry"},
		{"the same with the whole history", limit, "", "provider_error", "timeout", "safe_auto_retry"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := spantest.New(t)
			with := otelllm.New(otelllm.WithTracerProvider(r.TracerProvider), otelllm.WithVerdicts(), otelllm.WithoutInferredRuns())
			s := NewSession(context.Background(), Config{Instrumentation: with})
			s.RecordSent(create("", message("user", "1")))
			received(s, created("resp_1"), text("a"), completed("resp_1"))
			s.RecordSent(create(tt.previous, message("user", secret)))
			received(s, refusal(tt.code))
			s.Close(nil)
			spans := r.Spans.Ended()
			require.Len(t, spans, 2)
			span := spans[1]
			assert.Equal(t, tt.class, spantest.Get(span, "llm.failure.class"))
			assert.Equal(t, tt.cause, spantest.Get(span, "llm.failure.cause"))
			assert.Equal(t, tt.safety, spantest.Get(span, "llm.retry.safety"))
			if tt.class == "history_broken" {
				assert.Contains(t, spantest.Get(span, "llm.failure.summary"), "Send the whole history")
			}
		})
	}
}

// TestLimitEndsEveryRequest checks that the error that ends a connection ends the requests of all streams.
func TestLimitEndsEveryRequest(t *testing.T) {
	w := newWorld(t)
	s := w.client()
	s.RecordSent(create(`"stream_id":"a",`, message("user", "1")))
	s.RecordSent(create(`"stream_id":"b",`, message("user", "2")))
	received(s, event("response.created", `,"stream_id":"a","response":{"id":"ra"}`), refusal("websocket_connection_limit_reached"))
	s.Close(nil)
	requests := w.requests()
	require.Len(t, requests, 2)
	for _, r := range requests {
		want{"llm.provider_error.code": "websocket_connection_limit_reached", "llm.stream.end": "terminal_event"}.check(t, r)
	}
}

func TestStreams(t *testing.T) {
	in := func(stream string, frame []byte) []byte {
		return []byte(strings.Replace(string(frame), `{"type"`, `{"stream_id":"`+stream+`","type"`, 1))
	}
	w := newWorld(t)
	s := NewSession(context.Background(), Config{Instrumentation: w.with})
	s.RecordSent(in("plan", create("", message("user", "plan"))))
	s.RecordSent(in("list", create("", message("user", "list"))))
	s.RecordSent(in("plan", create("", message("user", "plan more"))))
	received(s, in("list", created("r_list")), in("plan", created("r_plan")), in("list", text("a")), in("plan", text("b")), in("list", text("c")))
	received(s, in("list", completed("r_list")), in("plan", completed("r_plan")), in("plan", created("r_more")), in("plan", refusal("x")))
	s.Close(nil)
	chunks := map[any]any{}
	for _, r := range w.requests() {
		chunks[get(r, "gen_ai.response.id")] = get(r, "llm.stream.text_chunks")
	}
	assert.Equal(t, map[any]any{"r_list": int64(2), "r_plan": int64(1), "r_more": int64(0)}, chunks)
}

// TestAnswerBeforeRequest checks frames of a reader that is quicker than the writer's report.
func TestAnswerBeforeRequest(t *testing.T) {
	w := newWorld(t)
	s := w.client()
	received(s, created("r1"), text("a"))
	s.RecordSent(create("", message("user", "1")))
	received(s, text("b"), completed("r1"))
	received(s, created("r2"), text("a"), completed("r2"), created("r3"), text("a"))
	s.RecordSent(create(previous("r1"), message("user", "2")))
	s.RecordSent(create(`"generate":false,`, message("user", "3")))
	received(s, completed("r3"))
	received(s, created("r4"), text("a"))
	s.Close(reset)
	spans := w.requests()
	require.Len(t, spans, 3)
	want{"gen_ai.response.id": "r1", "llm.stream.text_chunks": int64(2), "gen_ai.request.model": "gpt-5.5", "llm.stream.end": "terminal_event"}.check(t, spans[0])
	want{"gen_ai.response.id": "r2", "llm.stream.text_chunks": int64(1), "gen_ai.request.model": "gpt-5.5", "llm.stream.end": "terminal_event", "llm.history.tool_calls": []string{}}.check(t, spans[1])
	want{"gen_ai.response.id": "r4", "gen_ai.request.model": nil, "llm.stream.end": "read_error", "llm.history.tool_calls": nil}.check(t, spans[2])
}

// TestUnreportedRequest checks that an answer whose request was not reported is not taken for
// that of a request long after it, and that nothing is claimed then of what was not seen,
// unless the request goes on with that answer.
func TestUnreportedRequest(t *testing.T) {
	for more, chunks := range map[string]any{"": nil, previous("r1"): int64(0)} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			s := w.client()
			received(s, created("r1"), text("a"), completed("r1"))
			time.Sleep(2 * reportGrace)
			s.RecordSent(create(more, message("user", "1")))
			received(s, created("r2"), completed("r2"))
			s.Close(nil)
			spans := w.requests()
			require.Len(t, spans, 2)
			want{"gen_ai.response.id": "r1", "gen_ai.request.model": nil, "llm.stream.text_chunks": int64(1), "llm.stream.end": "terminal_event"}.check(t, spans[0])
			want{"gen_ai.response.id": "r2", "gen_ai.request.model": "gpt-5.5", "llm.stream.text_chunks": chunks}.check(t, spans[1])
			require.NoError(t, w.with.Shutdown(context.Background()))
		})
	}
}

// TestLateRequest checks a request that is reported long after its answer has begun, or
// after it was refused.
func TestLateRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.client()
		received(s, created("r1"), text("a"))
		time.Sleep(2 * reportGrace)
		s.RecordSent(create("", message("user", "1")))
		received(s, completed("r1"))
		received(s, refusal("rate_limit_exceeded"))
		s.RecordSent(create("", message("user", "2")))
		s.RecordSent(create("", message("user", "3")))
		received(s, created("r3"), text("b"), completed("r3"))
		s.Close(nil)
		spans := w.requests()
		require.Len(t, spans, 3)
		want{"gen_ai.response.id": "r1", "gen_ai.request.model": "gpt-5.5", "llm.stream.text_chunks": int64(1), "llm.stream.unread": nil}.check(t, spans[0])
		want{"llm.provider_error.code": "rate_limit_exceeded", "gen_ai.request.model": "gpt-5.5", "llm.stream.unread": nil}.check(t, spans[1])
		want{"gen_ai.response.id": "r3", "llm.stream.text_chunks": int64(1), "llm.stream.end": "terminal_event"}.check(t, spans[2])
		require.NoError(t, w.with.Shutdown(context.Background()))
	})
}

// TestLongFrame checks that a request that is too long to be read is one.
func TestLongFrame(t *testing.T) {
	w := newWorld(t)
	s := w.client()
	s.RecordSent(create("", message("user", strings.Repeat("a", 33<<20))))
	received(s, created("r1"), text("a"))
	s.Close(reset)
	spans := w.requests()
	require.Len(t, spans, 1)
	want{"gen_ai.response.id": "r1", "llm.history.tool_calls": nil, "llm.request.provider_tools": nil, "llm.stream.end": "read_error"}.check(t, spans[0])
}

const steer = `{"type":"response.steer","previous_response_id":"r1","input":"` + secret + `"}`

var (
	steerAccepted = event("response.steer.accepted", `,"steer":{"id":"st_1","input":"`+secret+`"}`)
	steered       = event("response.incomplete", `,"response":{"id":"r1","status":"incomplete","incomplete_details":{"reason":"steered"}}`)
)

// TestSteered checks an answer that the client has steered and the one that goes on with it:
// both are of one run, which ends with the second one.
func TestSteered(t *testing.T) {
	for name, cut := range map[string]bool{"answered": false, "cut": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.client()
			s.RecordSent(create("", message("user", "1")))
			received(s, created("r1"), text("a"))
			s.RecordSent([]byte(steer))
			received(s, steerAccepted, steered)
			received(s, created("r2"), text("b"))
			if cut {
				s.Close(reset)
			} else {
				received(s, completed("r2"))
				s.Close(nil)
			}
			require.NoError(t, w.with.Shutdown(context.Background()))
			spans, runs := w.requests(), w.named("invoke_agent codex_exec")
			require.Len(t, spans, 2)
			require.Len(t, runs, 1)
			want{"gen_ai.response.finish_reasons": []string{"steered"}, "llm.stream.unread": nil, "llm.stream.end": "terminal_event", "error.type": nil}.check(t, spans[0])
			want{
				"gen_ai.response.id": "r2", "gen_ai.request.model": "gpt-5.5", "llm.request.provider_tools": []string{}, "llm.stream.text_chunks": int64(1),
				"llm.history.tool_calls": []string{}, "llm.history.tool_outputs": []string{},
			}.check(t, spans[1])
			want{"llm.run.requests": int64(2)}.check(t, runs[0])
			for _, span := range spans {
				assert.Equal(t, runs[0].SpanContext.SpanID(), span.Parent.SpanID())
			}
		})
	}
}

// TestSteeredAtTheEnd checks that a run does not end well with an answer that was to go on.
func TestSteeredAtTheEnd(t *testing.T) {
	w := newWorld(t)
	s := w.client()
	ctx, run := w.with.StartRun(context.Background(), "assistant")
	s.RecordSentContext(ctx, create("", message("user", "1")))
	received(s, created("r1"))
	s.RecordSent([]byte(steer))
	received(s, steerAccepted, steered)
	s.Close(reset)
	run.End(nil)
	assert.Equal(t, semconv.RunOutcomeLimited, run.Diagnosis().Outcome)
	assert.Equal(t, semconv.CausePaused, run.Diagnosis().Cause)
}

// TestSteerOrder checks which answer is whose where a client steers and asks as well.
func TestSteerOrder(t *testing.T) {
	pending := event("response.steer.pending", `,"steer":{"id":"st_1"}`)
	for name, tt := range map[string]struct {
		received [][]byte
		ids      []any // of the first request, the second one, and one that goes on with the first
	}{
		"accepted":          {[][]byte{steerAccepted, completed("r1"), created("r2"), completed("r2"), created("r3"), completed("r3")}, []any{"r1", "r2", "r3"}},
		"rejected":          {[][]byte{event("response.steer.failed", `,"steer":{},"error":{}`), completed("r1"), created("r2"), completed("r2")}, []any{"r1", "r2"}},
		"accepted, failed":  {[][]byte{steerAccepted, completed("r1"), event("response.steer.failed", `,"steer":{"id":"st_1"}`), created("r2"), completed("r2")}, []any{"r1", "r2"}},
		"for the next one":  {[][]byte{steerAccepted, completed("r1"), pending, created("r2"), completed("r2")}, []any{"r1", "r2"}},
		"refused as itself": {[][]byte{refusal("invalid_request"), completed("r1"), created("r2"), completed("r2")}, []any{"r1", nil, "r2"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.client()
			s.RecordSent(create("", message("user", "1")))
			received(s, created("r1"))
			s.RecordSent([]byte(steer))
			if name != "refused as itself" {
				s.RecordSent([]byte(`{"type":"response.create","model":"second","input":[]}`))
			}
			received(s, tt.received...)
			s.Close(reset)
			for _, span := range w.requests() {
				if get(span, "gen_ai.request.model") == "second" {
					want{"gen_ai.response.id": tt.ids[len(tt.ids)-1]}.check(t, span)
				}
				want{"llm.stream.end": "terminal_event", "error.type": nil}.check(t, span)
			}
		})
	}
}

func TestSendFailure(t *testing.T) {
	refused := fmt.Errorf("failed to WebSocket dial: %w", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
	for name, tt := range map[string]struct {
		err  error
		want want
	}{
		"broken pipe": {os.NewSyscallError("write", syscall.EPIPE), want{"llm.stream.end": "no_response", "llm.transport.stage": "write", "llm.stream.phase": "awaiting_response"}},
		"not dialled": {refused, want{"llm.stream.end": "no_response", "llm.transport.stage": "connect", "llm.transport.cause": "connect_refused", "llm.stream.phase": "before_connection"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.client()
			s.RecordSendFailure([]byte(`{"type":"response.steer","input":"x"}`), tt.err)
			s.RecordSendFailure(create("", message("user", "1")), tt.err)
			ctx, run := w.with.StartRun(context.Background(), "assistant")
			s.RecordSendFailureContext(ctx, create("", message("user", "1")), tt.err)
			run.End(tt.err)
			s.Close(tt.err)
			spans := w.requests()
			require.Len(t, spans, 2)
			tt.want.check(t, spans[0])
			tt.want.check(t, spans[1])
			want{"llm.run.id": w.named("invoke_agent assistant")[0].SpanContext.SpanID().String()}.check(t, spans[1])
		})
	}
}

// TestDeclaredRun checks that the run of a frame's context counts, and that outputs are delivered by it.
func TestDeclaredRun(t *testing.T) {
	w := newWorld(t)
	s := w.client()
	ctx, run := w.with.StartRun(context.Background(), "assistant")
	s.RecordSentContext(ctx, create("", message("user", "1")))
	received(s, created("r1"), called("call_1"), completed("r1"))
	_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_1", Name: "shell", Effect: otelllm.EffectReadOnly})
	tool.End(nil)
	s.RecordSentContext(ctx, create(previous("r1"), output("call_1")))
	received(s, created("r2"), text("a"), completed("r2"))
	run.End(nil)
	s.Close(nil)
	require.Len(t, w.named("invoke_agent assistant"), 1)
	for _, r := range w.requests() {
		want{"llm.run.id": w.named("invoke_agent assistant")[0].SpanContext.SpanID().String(), "llm.run.inferred": nil}.check(t, r)
	}
	assert.Equal(t, semconv.RunOutcomeSucceeded, run.Diagnosis().Outcome)
}

// gateway is both sides of a gateway.
type gateway struct{ agent, upstream *Session }

func (w *world) gateway() gateway {
	agent := NewSession(context.Background(), Config{
		URL: "ws://gateway.test:8080/v1/responses", Header: codex("s1"), Serving: true, Instrumentation: w.with, Propagators: propagation.TraceContext{},
	})
	return gateway{agent, NewSession(context.Background(), Config{URL: "wss://api.openai.com/v1/responses", Upstream: agent, Instrumentation: w.with})}
}

// asks passes a frame of the agent on, answers those of the server.
func (g gateway) asks(frame []byte) {
	g.agent.RecordReceived(frame)
	g.upstream.RecordSent(frame)
}

func (g gateway) answers(frames ...[]byte) {
	for _, f := range frames {
		g.upstream.RecordReceived(f)
		g.agent.RecordSent(f)
	}
}

func TestGateway(t *testing.T) {
	const parent = "00-0e60e43b22cea1bddc403f9406793b01-641d2fd069647eb8-01"
	ask := create(`"client_metadata":{"ws_request_header_traceparent":"`+parent+`","session_id":"s1"},`, message("user", secret))
	for _, tt := range []struct {
		name             string
		do               func(g gateway)
		served, upstream want
	}{
		{
			"complete",
			func(g gateway) {
				g.answers(created("r1"), text("a"), completed("r1"))
				g.agent.Close(errors.New("gone"))
				g.upstream.Close(nil)
			},
			want{"llm.stream.end": "terminal_event", "llm.stream.text_chunks": int64(1), "llm.abort.source": nil},
			want{"llm.stream.end": "terminal_event", "llm.stream.text_chunks": int64(1)},
		},
		{
			"complete, and reported late",
			func(g gateway) {
				g.answers(created("r1"), text("a"))
				g.upstream.RecordReceived(completed("r1"))
				g.agent.Close(reset)
				g.upstream.Close(nil)
				g.agent.RecordSent(completed("r1"))
			},
			want{"llm.stream.end": "terminal_event", "llm.abort.source": nil},
			want{"llm.stream.end": "terminal_event"},
		},
		{
			"the provider breaks off",
			func(g gateway) {
				g.answers(created("r1"), text("a"))
				g.upstream.Close(reset)
				g.agent.Close(nil)
			},
			want{"llm.stream.end": "eof", "llm.transport.cause": "connection_reset", "llm.transport.code": "ECONNRESET", "llm.abort.source": nil, "llm.stream.phase": "text"},
			want{"llm.stream.end": "read_error", "llm.transport.cause": "connection_reset"},
		},
		{
			"the provider breaks off before it answers",
			func(g gateway) {
				g.upstream.Close(reset)
				g.agent.Close(nil)
			},
			want{"llm.stream.end": "no_response", "llm.transport.cause": "connection_reset", "llm.abort.source": nil},
			want{"llm.stream.end": "no_response", "llm.transport.cause": "connection_reset"},
		},
		{
			"the agent goes away",
			func(g gateway) {
				g.answers(created("r1"), text("a"))
				g.agent.Close(reset)
				g.upstream.Close(nil)
			},
			want{"llm.stream.end": "consumer_closed", "llm.abort.source": "consumer", "llm.transport.cause": nil},
			want{"llm.stream.end": "cancelled", "llm.abort.source": "consumer", "llm.transport.cause": nil},
		},
		{
			"the agent cannot be written to",
			func(g gateway) {
				g.answers(created("r1"))
				g.upstream.RecordReceived(text("a"))
				g.agent.RecordSendFailure(text("a"), reset)
				g.agent.Close(nil)
				g.upstream.Close(nil)
			},
			want{"llm.stream.end": "consumer_closed", "llm.abort.source": "consumer"},
			want{"llm.stream.end": "cancelled", "llm.abort.source": "consumer"},
		},
		{
			"the gateway gives up",
			func(g gateway) {
				g.agent.Close(nil)
				g.upstream.Close(nil)
			},
			want{"llm.stream.end": "no_response", "llm.transport.cause": "closed_before_headers"},
			want{"llm.stream.end": "consumer_closed"},
		},
		{
			"the provider refuses",
			func(g gateway) {
				g.answers(refusal("previous_response_not_found"))
				g.agent.Close(nil)
				g.upstream.Close(nil)
			},
			want{"llm.provider_error.code": "previous_response_not_found", "llm.stream.end": "terminal_event"},
			want{"llm.provider_error.code": "previous_response_not_found", "llm.stream.end": "terminal_event"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // the clock stands still
				w := newWorld(t)
				g := w.gateway()
				g.asks(create(`"generate":false,`, message("developer", "be brief")))
				g.answers(created("warm"), completed("warm"))
				g.asks(ask)
				tt.do(g)
				spans := w.requests()
				require.Len(t, spans, 2)
				served, upstream := spans[0], spans[1]
				if served.SpanKind != oteltrace.SpanKindServer {
					served, upstream = upstream, served
				}
				assert.Equal(t, oteltrace.SpanKindServer, served.SpanKind)
				assert.Equal(t, oteltrace.SpanKindClient, upstream.SpanKind)
				assert.Equal(t, served.SpanContext.SpanID(), upstream.Parent.SpanID())
				assert.Equal(t, "0e60e43b22cea1bddc403f9406793b01", served.SpanContext.TraceID().String())
				tt.served.check(t, served)
				tt.upstream.check(t, upstream)
				want{"server.address": "gateway.test", "server.port": int64(8080), "llm.run.inferred": true}.check(t, served)
				want{"server.address": "api.openai.com", "llm.run.inferred": nil}.check(t, upstream)
				require.NoError(t, w.with.Shutdown(context.Background()))
				assert.Len(t, w.named("invoke_agent codex_exec"), 1)
			})
		})
	}
}

// TestLateReports checks answers of several requests whose ends are reported late.
func TestLateReports(t *testing.T) { synctest.Test(t, testLateReports) }

func testLateReports(t *testing.T) {
	t.Helper()
	w := newWorld(t)
	g := w.gateway()
	g.asks(create("", message("user", "1")))
	g.asks(create("", message("user", "2")))
	received(g.upstream, created("r1"), completed("r1"), created("r2"), completed("r2"))
	g.agent.Close(reset)
	g.upstream.Close(nil)
	for _, f := range [][]byte{created("r1"), completed("r1"), created("r2"), completed("r2"), created("r3"), completed("r3")} {
		g.agent.RecordSent(f)
	}
	var ids []any
	for _, s := range w.requests() {
		if s.SpanKind == oteltrace.SpanKindServer {
			ids = append(ids, get(s, "gen_ai.response.id"))
			want{"llm.stream.end": "terminal_event"}.check(t, s)
		}
	}
	assert.Equal(t, []any{"r1", "r2"}, ids)
}

// TestNeverDelivered checks an answer of the provider whose end the agent never got.
func TestNeverDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g := w.gateway()
		g.asks(create("", message("user", "1")))
		g.answers(created("r1"))
		g.upstream.RecordReceived(completed("r1"))
		closed := time.Now()
		g.agent.Close(reset)
		g.upstream.Close(nil)
		time.Sleep(2 * reportGrace)
		spans := w.requests()
		require.Len(t, spans, 2)
		want{"llm.stream.end": "consumer_closed", "llm.abort.source": "consumer"}.check(t, spans[1])
		assert.Equal(t, closed, spans[1].EndTime)
		require.NoError(t, w.with.Shutdown(context.Background()))
	})
}

// TestGatewayRetries checks that a request that the gateway sends again belongs to the same
// served one, and those after it to theirs.
func TestGatewayRetries(t *testing.T) {
	w := newWorld(t)
	g := w.gateway()
	one, two := create("", message("user", "1")), create("", message("user", "2"))
	g.asks(one)
	g.asks(two)
	g.upstream.Close(reset)
	again := gateway{g.agent, NewSession(context.Background(), Config{Upstream: g.agent, Instrumentation: w.with})}
	again.upstream.RecordSent(one)
	again.upstream.RecordSent(two)
	again.answers(created("r1"), completed("r1"), created("r2"), completed("r2"))
	again.upstream.Close(nil)
	g.agent.Close(nil)
	parents := map[string]int{}
	for _, s := range w.requests() {
		if s.SpanKind == oteltrace.SpanKindClient {
			parents[s.Parent.SpanID().String()]++
		} else {
			want{"llm.stream.end": "terminal_event", "error.type": nil}.check(t, s)
		}
	}
	assert.Len(t, parents, 2)
	for _, n := range parents {
		assert.Equal(t, 2, n)
	}
}

// TestBounds checks that a hostile peer does not make a session grow.
func TestBounds(t *testing.T) {
	w := newWorld(t)
	s := w.client()
	for i := range 200 {
		s.RecordSent(create(fmt.Sprintf(`"stream_id":"s%d",`, i%100), message("user", "1")))
		s.RecordSent(create(`"generate":false,`, message("user", "1")))
		received(s, event("response.created", fmt.Sprintf(`,"stream_id":"x%d","response":{"id":"r%d"}`, i, i)))
	}
	c := s.connection
	assert.LessOrEqual(t, len(c.streams), maxStreams)
	for _, st := range c.streams {
		assert.LessOrEqual(t, len(st.waiting), maxWaiting)
		assert.LessOrEqual(t, len(st.unmatched), maxWaiting)
	}
	s.Close(nil)
	s.RecordSent(create("", message("user", "late")))
	received(s, created("late"))
	assert.Empty(t, c.streams[""].waiting)
}

// TestTooManyRequests checks that of more requests than are followed the oldest ones get their
// answers, and that of the others nothing is claimed.
func TestTooManyRequests(t *testing.T) {
	w := newWorld(t)
	s := w.client()
	const all = maxWaiting + 4
	ctx, run := w.with.StartRun(context.Background(), "assistant")
	for i := range all {
		s.RecordSentContext(ctx, fmt.Appendf(nil, `{"type":"response.create","model":"m%d","input":[]}`, i))
	}
	for i := range all {
		id := fmt.Sprintf("r%d", i)
		received(s, created(id), text("a"), completed(id))
	}
	s.RecordSentContext(ctx, []byte(`{"type":"response.create","model":"m_last","input":[]}`))
	received(s, created("r_last"), completed("r_last"))
	s.Close(reset)
	spans := w.requests()
	require.Len(t, spans, all+1)
	byModel := map[any]tracetest.SpanStub{}
	for _, span := range spans {
		byModel[get(span, "gen_ai.request.model")] = span
	}
	for i := range maxWaiting {
		want{"gen_ai.response.id": fmt.Sprintf("r%d", i), "llm.stream.text_chunks": int64(1), "llm.stream.unread": nil}.check(t, byModel[fmt.Sprintf("m%d", i)])
	}
	for i := maxWaiting; i < all; i++ {
		want{"llm.stream.text_chunks": nil, "llm.stream.unread": true, "llm.stream.end": nil, "llm.stream.phase": "unknown"}.check(t, byModel[fmt.Sprintf("m%d", i)])
	}
	want{"gen_ai.response.id": "r_last"}.check(t, byModel["m_last"])
	run.End(reset)
	assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, run.Diagnosis().Retry.Safety)
}

// TestErrorOfAnother checks errors that are not of the answer which is open.
func TestErrorOfAnother(t *testing.T) {
	failed := func(id string) []byte {
		return event("response.failed", `,"response":{"id":"`+id+`","status":"failed","error":{"code":"server_error"}}`)
	}
	second := []byte(`{"type":"response.create","model":"second","input":[]}`)
	for name, tt := range map[string]struct {
		received      [][]byte
		first, second want
	}{
		"it refuses the next one": {
			[][]byte{created("r1"), refusal("rate_limit_exceeded"), text("a"), completed("r1")},
			want{"llm.stream.text_chunks": int64(1), "error.type": nil, "llm.stream.end": "terminal_event"},
			want{"llm.provider_error.code": "rate_limit_exceeded", "llm.stream.text_chunks": int64(0), "gen_ai.response.id": nil},
		},
		"it ends the open one": {
			[][]byte{created("r1"), text("a"), refusal("rate_limit_exceeded"), created("r2"), text("b"), completed("r2")},
			want{"llm.stream.text_chunks": int64(1), "llm.provider_error.code": "rate_limit_exceeded"},
			want{"gen_ai.response.id": "r2", "llm.stream.text_chunks": int64(1), "error.type": nil},
		},
		"a response.failed follows": {
			[][]byte{refusal("rate_limit_exceeded"), failed("r1"), created("r2"), text("b"), completed("r2")},
			want{"llm.provider_error.code": "rate_limit_exceeded"},
			want{"gen_ai.response.id": "r2", "llm.stream.text_chunks": int64(1), "error.type": nil},
		},
		"the next one fails first": {
			[][]byte{created("r1"), failed("r2"), text("a"), completed("r1")},
			want{"gen_ai.response.id": "r1", "llm.stream.text_chunks": int64(1), "error.type": nil},
			want{"llm.provider_error.kind": "server_error", "gen_ai.response.id": "r2"},
		},
		"the end of the open one never came": {
			[][]byte{created("r1"), created("r2"), text("b"), completed("r2")},
			want{"llm.stream.end": "eof", "llm.stream.text_chunks": nil, "llm.stream.unread": true},
			want{"gen_ai.response.id": "r2", "llm.stream.text_chunks": int64(1), "error.type": nil},
		},
		"at the end": {
			[][]byte{created("r1"), text("a"), refusal("rate_limit_exceeded")},
			want{"llm.provider_error.code": "rate_limit_exceeded", "llm.stream.text_chunks": int64(1)},
			want{"llm.stream.end": "no_response"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.client()
			s.RecordSent(create("", message("user", "1")))
			s.RecordSent(second)
			received(s, tt.received...)
			s.Close(reset)
			spans := w.requests()
			require.Len(t, spans, 2)
			if get(spans[0], "gen_ai.request.model") == "second" {
				spans[0], spans[1] = spans[1], spans[0]
			}
			tt.first.check(t, spans[0])
			tt.second.check(t, spans[1])
		})
	}
}

// TestManyStreams checks that streams without a request under way make room for others.
func TestManyStreams(t *testing.T) {
	w := newWorld(t)
	s := w.client()
	for i := range 3 * maxStreams {
		in := fmt.Sprintf(`"stream_id":"s%d",`, i)
		s.RecordSent([]byte(`{` + in + `"type":"session.update"}`))
		s.RecordSent(create(in, message("user", "1")))
		s.RecordReceived([]byte(`{` + in + `"type":"response.created","response":{"id":"r"}}`))
		s.RecordReceived([]byte(`{` + in + `"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}`))
	}
	s.Close(nil)
	spans := w.requests()
	require.Len(t, spans, 3*maxStreams)
	for _, span := range spans {
		want{"gen_ai.response.id": "r", "llm.stream.end": "terminal_event", "llm.stream.unread": nil}.check(t, span)
	}
}

// TestPanickingPropagator checks that a panic of the application's own keeps neither the spans
// of other requests from their end, nor the answers from their requests.
func TestPanickingPropagator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := spantest.New(t)
		with := otelllm.New(otelllm.WithTracerProvider(r.TracerProvider), otelllm.WithoutInferredRuns())
		s := NewSession(context.Background(), Config{Serving: true, Propagators: panics{}, Instrumentation: with})
		for _, f := range [][]byte{created("r0"), completed("r0")} {
			s.RecordSent(f)
		}
		time.Sleep(2 * reportGrace)
		s.RecordReceived(create(`"client_metadata":{"ws_request_header_traceparent":"x"},`)) // and the end of r0 is due
		s.RecordReceived([]byte(`{"type":"response.create","model":"second","input":[]}`))
		for _, f := range [][]byte{created("r1"), completed("r1"), created("r2"), completed("r2")} {
			s.RecordSent(f)
		}
		s.Close(nil)
		require.NoError(t, with.Shutdown(context.Background()))
		assert.Len(t, r.Spans.Ended(), len(r.Spans.Started()))
		ids := map[string]any{}
		for _, span := range r.Spans.Ended() {
			ids[span.Name()] = spantest.Get(span, "gen_ai.response.id")
		}
		assert.Equal(t, map[string]any{"chat": "r0", "chat second": "r2"}, ids)
	})
}

// panics is a propagator that panics where there is something to extract.
type panics struct{ propagation.TraceContext }

func (panics) Extract(ctx context.Context, carrier propagation.TextMapCarrier) context.Context {
	if carrier.Get("traceparent") != "" {
		panic("of the application")
	}
	return ctx
}

// TestUnsampled checks that a session records nothing where nothing is sampled, and works on.
func TestUnsampled(t *testing.T) {
	r := spantest.New(t, trace.WithSampler(trace.NeverSample()))
	s := NewSession(context.Background(), Config{Instrumentation: otelllm.New(otelllm.WithTracerProvider(r.TracerProvider))})
	s.RecordSent(create("", message("user", "1")))
	received(s, created("r1"), text("a"), completed("r1"))
	s.Close(nil)
	assert.Empty(t, r.Spans.Ended())
	var none *Session
	none.RecordSent(nil)
	none.RecordSentContext(context.Background(), nil)
	none.RecordReceived(nil)
	none.RecordSendFailure(nil, nil)
	none.RecordSendFailureContext(context.Background(), nil, nil)
	none.Close(nil)
}

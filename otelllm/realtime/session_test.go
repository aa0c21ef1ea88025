package realtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/setup"
	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
	"github.com/otelllm/otelllm-go/semconv"
)

const (
	rtSession = `{"type":"session.created","event_id":"e0","session":{"type":"realtime","id":"sess_1","model":"gpt-realtime"}}`
	rtCreate  = `{"type":"response.create","event_id":"c1"}`
	rtCreated = `{"type":"response.created","event_id":"e1","response":{"object":"realtime.response","id":"r1","status":"in_progress"}}`
	rtText    = `{"type":"response.output_text.delta","event_id":"e2","response_id":"r1","item_id":"i1","output_index":0,"content_index":0,"delta":"a"}`
	rtAdded   = `{"type":"response.output_item.added","event_id":"e3","response_id":"r1","output_index":0,"item":{"id":"i1","type":"function_call","status":"in_progress","name":"f","call_id":"call_a","arguments":""}}`
	rtArgs    = `{"type":"response.function_call_arguments.delta","event_id":"e4","response_id":"r1","item_id":"i1","output_index":0,"call_id":"call_a","delta":"{"}`
	rtCall    = `{"type":"response.output_item.done","event_id":"e5","response_id":"r1","output_index":0,"item":{"id":"i1","type":"function_call","status":"completed","name":"f","call_id":"call_a","arguments":"{}"}}`
	rtOutput  = `{"type":"conversation.item.create","event_id":"c2","item":{"type":"function_call_output","call_id":"call_a","output":"secret"}}`
)

func rtDone(status, details string) string {
	return fmt.Sprintf(`{"type":"response.done","event_id":"e9","response":{"object":"realtime.response","id":"r1","status":%q,"status_details":%s,"usage":{"total_tokens":5,"input_tokens":3,"output_tokens":2}}}`, status, details)
}

// CloseError has the shape of the errors by which WebSocket libraries report a close.
type CloseError struct {
	Code   int
	Reason string
}

func (e CloseError) Error() string { return "closed: " + e.Reason }

func TestSessionEnds(t *testing.T) {
	reset := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for _, tt := range []struct {
		name     string
		asked    bool
		received []string
		close    error
		want     map[attribute.Key]any
		failed   bool
	}{
		{
			"complete", true,
			[]string{rtCreated, rtText, rtDone("completed", "null")},
			nil,
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.stream.phase": "stream_end", "llm.stream.text_chunks": int64(1), "gen_ai.usage.output_tokens": int64(2)},
			false,
		},
		{
			"begun by the server", false,
			[]string{rtCreated, rtText, rtDone("completed", "null")},
			nil,
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "gen_ai.response.id": "r1"},
			false,
		},
		{
			"failed", true,
			[]string{rtCreated, rtText, rtDone("failed", `{"type":"failed","error":{"type":"server_error","code":"rate_limit_exceeded"}}`)},
			nil,
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.provider_error.kind": "rate_limited", "llm.provider_error.in_band": true, "llm.stream.phase": "text"},
			true,
		},
		{
			"limited", true,
			[]string{rtCreated, rtText, rtDone("incomplete", `{"type":"incomplete","reason":"max_output_tokens"}`)},
			nil,
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "gen_ai.response.finish_reasons": []string{"max_output_tokens"}},
			false,
		},
		{
			"the user began to speak", true,
			[]string{rtCreated, rtText, rtDone("cancelled", `{"type":"cancelled","reason":"turn_detected"}`)},
			nil,
			map[attribute.Key]any{"llm.stream.end": "cancelled", "llm.abort.source": "user", "llm.abort.reason": "turn_detected", "llm.stream.phase": "text"},
			false,
		},
		{
			"cancelled by the client", true,
			[]string{rtCreated, rtText, rtDone("cancelled", `{"type":"cancelled","reason":"client_cancelled"}`)},
			nil,
			map[attribute.Key]any{"llm.stream.end": "cancelled", "llm.abort.source": "application"},
			false,
		},
		{
			"reset in a tool's input", true,
			[]string{rtCreated, rtText, rtAdded, rtArgs},
			reset,
			map[attribute.Key]any{"llm.stream.end": "read_error", "llm.transport.cause": "connection_reset", "llm.transport.code": "ECONNRESET", "llm.stream.phase": "tool_input", "llm.stream.open_tool_call_ids": []string{"call_a"}},
			true,
		},
		{
			"closed by the server in text", true,
			[]string{rtCreated, rtText},
			fmt.Errorf("read: %w", CloseError{Code: 1001, Reason: "secret"}),
			map[attribute.Key]any{"llm.stream.end": "read_error", "llm.transport.cause": "clean_eof", "llm.transport.code": "WS_1001"},
			true,
		},
		{
			"lost without a close frame", true,
			[]string{rtCreated, rtText},
			&CloseError{Code: 1006},
			map[attribute.Key]any{"llm.transport.cause": "connection_lost", "llm.transport.code": "WS_1006"},
			true,
		},
		{
			"lost before it began", true, nil, io.EOF,
			map[attribute.Key]any{"llm.stream.end": "no_response", "llm.transport.cause": "closed_before_headers", "llm.stream.phase": "awaiting_response"},
			true,
		},
		{
			"closed by this side", true,
			[]string{rtCreated, rtText},
			nil,
			map[attribute.Key]any{"llm.stream.end": "consumer_closed", "llm.abort.source": "consumer"},
			false,
		},
		{
			"stopped", true,
			[]string{rtCreated, rtText},
			&otelllm.AbortError{Source: otelllm.AbortUser, Reason: "stop_button"},
			map[attribute.Key]any{"llm.stream.end": "cancelled", "llm.abort.source": "user", "llm.abort.reason": "stop_button"},
			false,
		},
		{
			"a deadline of its reader", true,
			[]string{rtCreated, rtText},
			fmt.Errorf("read: %w", context.DeadlineExceeded),
			map[attribute.Key]any{"llm.stream.end": "cancelled", "llm.abort.source": "deadline", "llm.stream.phase": "text"},
			false,
		},
		{
			"refused", true,
			[]string{`{"type":"error","event_id":"e1","error":{"type":"invalid_request_error","code":"conversation_already_has_active_response","message":"secret","event_id":"c1"}}`},
			nil,
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.provider_error.kind": "rate_limited", "llm.provider_error.code": "conversation_already_has_active_response"},
			true,
		},
		{
			"an error about something else", true,
			[]string{rtCreated, `{"type":"error","event_id":"e1","error":{"type":"invalid_request_error","code":"input_audio_buffer_commit_empty","event_id":"c7"}}`, rtText, rtDone("completed", "null")},
			nil,
			map[attribute.Key]any{"llm.stream.end": "terminal_event", "llm.provider_error.kind": nil},
			false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := spantest.New(t)
			llm := otelllm.New(otelllm.WithTracerProvider(r), otelllm.WithoutInferredRuns())
			session := NewSession(t.Context(), Config{Instrumentation: llm})
			session.RecordReceived([]byte(rtSession))
			if tt.asked {
				session.RecordSent([]byte(rtCreate))
			}
			for _, f := range tt.received {
				session.RecordReceived([]byte(f))
			}
			session.Close(tt.close)
			session.Close(errors.New("again"))
			s := r.Only(t)
			assert.Equal(t, "chat gpt-realtime", s.Name())
			for key, want := range tt.want {
				assert.Equal(t, want, spantest.Get(s, key), key)
			}
			assert.Equal(t, "openai", spantest.Get(s, "gen_ai.provider.name"))
			assert.Equal(t, tt.failed, spantest.Failed(s))
			assert.Zero(t, openRequests(llm))
		})
	}
}

// TestSessionTools checks that the delivery of a tool's output, or its failure, is
// recorded, and that the history of the next response has the outputs that the
// conversation holds.
func TestSessionTools(t *testing.T) {
	for _, delivered := range []bool{true, false} {
		t.Run(fmt.Sprint("delivered ", delivered), func(t *testing.T) {
			r := spantest.New(t)
			ctx, run := otelllm.StartRun(t.Context(), "voice", otelllm.WithTracerProvider(r))
			session := NewSession(ctx, Config{})
			session.RecordReceived([]byte(rtSession))
			session.RecordSent([]byte(rtCreate))
			for _, f := range []string{rtCreated, rtAdded, rtArgs, rtCall, rtDone("completed", "null")} {
				session.RecordReceived([]byte(f))
			}
			_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_a", Name: "f", Effect: otelllm.EffectReadOnly})
			tool.End(errors.New("tool broke"))
			lost := errors.New("broken pipe")
			if delivered {
				session.RecordSent([]byte(rtOutput))
				session.RecordSent([]byte(rtCreate))
				session.RecordReceived([]byte(rtCreated))
				session.RecordReceived([]byte(rtText))
				session.RecordReceived([]byte(rtDone("completed", "null")))
				session.Close(nil)
				run.End(nil)
			} else {
				session.RecordSendFailure([]byte(rtOutput), lost)
				session.Close(lost)
				run.End(lost)
			}
			executed := r.Named("execute_tool f")
			require.Len(t, executed, 1)
			assert.Equal(t, "failed", spantest.Get(executed[0], "llm.tool.outcome"))
			requests := r.Named("chat gpt-realtime")
			assert.Equal(t, []string{"call_a"}, spantest.Get(requests[0], "llm.stream.tool_call_ids"))
			assert.Equal(t, []string{}, spantest.Get(requests[0], "llm.history.tool_outputs"))
			d := run.Diagnosis()
			if delivered {
				assert.Equal(t, "sent", spantest.Get(executed[0], "llm.tool.output_delivery"))
				require.Len(t, requests, 2)
				assert.Equal(t, []string{"call_a"}, spantest.Get(requests[1], "llm.history.tool_outputs"))
				assert.Equal(t, []string{"call_a"}, spantest.Get(requests[1], "llm.history.tool_calls"))
				assert.Equal(t, "recovered", d.Outcome.String())
				return
			}
			assert.Equal(t, "failed", spantest.Get(executed[0], "llm.tool.output_delivery"))
			assert.Equal(t, "tool_output_lost/delivery_failed", d.Class.String()+"/"+d.Cause.String())
		})
	}
}

// TestSessionRefusedOutput lets the server refuse an output that has been sent. The
// conversation does not hold it then.
func TestSessionRefusedOutput(t *testing.T) {
	const (
		refusal = `{"type":"error","event_id":"e8","error":{"type":"invalid_request_error","code":"invalid_tool_call_id","message":"secret","event_id":"c2"}}`
		again   = `{"type":"conversation.item.create","event_id":"c3","item":{"type":"function_call_output","call_id":"call_a","output":"secret"}}`
		unnamed = `{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"call_a","output":"secret"}}`
	)
	sent := func(frame string) func(*Session, *otelllm.Tool) {
		return func(s *Session, _ *otelllm.Tool) { s.RecordSent([]byte(frame)) }
	}
	received := func(frame string) func(*Session, *otelllm.Tool) {
		return func(s *Session, _ *otelllm.Tool) { s.RecordReceived([]byte(frame)) }
	}
	sendFailed := func(s *Session, _ *otelllm.Tool) { s.RecordSendFailure([]byte(again), syscall.EPIPE) }
	ended := func(_ *Session, tool *otelllm.Tool) { tool.End(nil) }
	closed := func(s *Session, _ *otelllm.Tool) { s.Close(nil) }
	done := rtDone("completed", "null")
	none, held := []string{}, []string{"call_a"}
	for _, tt := range []struct {
		name     string
		steps    []func(*Session, *otelllm.Tool)
		delivery string
		history  []string // of the last response, nil for none
	}{
		{"refused", []func(*Session, *otelllm.Tool){ended, sent(rtOutput), received(refusal)}, "failed", nil},
		{"before the tool has ended", []func(*Session, *otelllm.Tool){sent(rtOutput), received(refusal), ended}, "failed", nil},
		{"while the tool ends", []func(*Session, *otelllm.Tool){sent(rtOutput), ended, received(refusal)}, "failed", nil},
		{"before the next response is asked for", []func(*Session, *otelllm.Tool){ended, sent(rtOutput), received(refusal), sent(rtCreate), received(rtCreated), received(done)}, "failed", none},
		{"after the next response was asked for", []func(*Session, *otelllm.Tool){ended, sent(rtOutput), sent(rtCreate), received(refusal), received(rtCreated), received(done)}, "failed", none},
		{"in a response that the server began", []func(*Session, *otelllm.Tool){ended, sent(rtOutput), received(rtCreated), received(refusal), received(done)}, "failed", none},
		{"after the session's end", []func(*Session, *otelllm.Tool){ended, sent(rtOutput), closed, received(refusal)}, "failed", nil},
		{"sent again", []func(*Session, *otelllm.Tool){ended, sent(rtOutput), received(refusal), sent(again), sent(rtCreate), received(rtCreated), received(done)}, "sent", held},
		{"one of two", []func(*Session, *otelllm.Tool){ended, sent(rtOutput), sent(again), received(refusal), sent(rtCreate), received(rtCreated), received(done)}, "sent", held},
		{"written, and not a second time", []func(*Session, *otelllm.Tool){ended, sent(rtOutput), sendFailed}, "sent", nil},
		{"about something else", []func(*Session, *otelllm.Tool){ended, sent(again), received(refusal)}, "sent", nil},
		{"sent without an id", []func(*Session, *otelllm.Tool){ended, sent(unnamed), received(refusal)}, "sent", nil},
		{"used by a response", []func(*Session, *otelllm.Tool){ended, sent(rtOutput), sent(rtCreate), received(rtCreated), received(refusal), received(done)}, "sent", held},
		{"used by a response that is reported late", []func(*Session, *otelllm.Tool){ended, sent(rtOutput), received(rtCreated), sent(rtCreate), received(refusal), received(done)}, "sent", held},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := spantest.New(t)
			ctx, run := otelllm.StartRun(t.Context(), "voice", otelllm.WithTracerProvider(r))
			session := NewSession(ctx, Config{})
			session.RecordReceived([]byte(rtSession))
			_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_a", Name: "f"})
			for _, step := range tt.steps {
				step(session, tool)
			}
			session.Close(nil)
			run.End(io.EOF)
			executed := r.Named("execute_tool f")
			require.Len(t, executed, 1)
			assert.Equal(t, tt.delivery, spantest.Get(executed[0], "llm.tool.output_delivery"))
			if tt.delivery == "failed" {
				assert.Equal(t, "realtime.outputRefused", spantest.Get(executed[0], "llm.tool.output_error"))
				assert.Equal(t, semconv.ClassToolOutputLost, run.Diagnosis().Class)
			}
			assert.Equal(t, r.Diagnosis(), run.Diagnosis(), "the spans give the same diagnosis")
			requests := r.Named("chat gpt-realtime")
			if tt.history == nil {
				assert.Empty(t, requests)
				return
			}
			require.Len(t, requests, 1)
			assert.Equal(t, tt.history, spantest.Get(requests[0], "llm.history.tool_outputs"))
		})
	}
}

// TestSessionActiveResponse: the server refuses to begin a response while another one is open, and
// does not name the event. The output waits for an answer until one is asked for again.
func TestSessionActiveResponse(t *testing.T) {
	const refusal = `{"type":"error","event_id":"e8","error":{"type":"invalid_request_error","code":"conversation_already_has_active_response","message":"secret","event_id":null}}`
	for name, again := range map[string]bool{"never asked for again": false, "asked for again": true} {
		t.Run(name, func(t *testing.T) {
			r := spantest.New(t)
			ctx, run := otelllm.StartRun(t.Context(), "voice", otelllm.WithTracerProvider(r))
			session := NewSession(ctx, Config{})
			session.RecordReceived([]byte(rtSession))
			session.RecordSent([]byte(rtCreate))
			session.RecordReceived([]byte(rtCreated))
			session.RecordReceived([]byte(rtCall))
			_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_a", Name: "f"})
			tool.End(nil)
			session.RecordSent([]byte(rtOutput))
			session.RecordSent([]byte(rtCreate)) // the first response is still open
			session.RecordReceived([]byte(refusal))
			session.RecordReceived([]byte(rtDone("completed", "null")))
			if again {
				session.RecordSent([]byte(rtCreate))
				for _, frame := range []string{rtCreated, rtText, rtDone("completed", "null")} {
					session.RecordReceived([]byte(strings.ReplaceAll(frame, `"r1"`, `"r2"`)))
				}
			}
			session.Close(nil)
			run.End(nil)
			d := run.Diagnosis()
			for _, span := range r.Named("chat gpt-realtime") {
				assert.NotEqual(t, "consumer_closed", spantest.Get(span, "llm.stream.end"), "the refused response is over")
			}
			if again {
				assert.Contains(t, []string{"succeeded", "recovered"}, d.Outcome.String(), d.Summary)
			} else {
				assert.NotEqual(t, "succeeded", d.Outcome.String(), d.Summary)
			}
		})
	}
}

// The span of a tool ends when its output can no longer be refused, and after OutputWait
// at the latest.
func TestSessionRefusableOutputWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := spantest.New(t)
		ctx, run := otelllm.StartRun(t.Context(), "voice", otelllm.WithTracerProvider(r))
		session := NewSession(ctx, Config{})
		tools := func() int { return len(r.Named("execute_tool f")) }
		for range 2 {
			_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_a", Name: "f"})
			tool.End(nil)
			session.RecordSent([]byte(rtOutput))
			assert.Zero(t, tools())
			session.RecordSent([]byte(rtCreate))
			assert.Zero(t, tools(), "the response has been asked for, but has not begun")
			session.RecordReceived([]byte(rtCreated))
			assert.Equal(t, 1, tools())
			session.RecordReceived([]byte(rtDone("completed", "null")))
			r.Spans.Reset()
		}
		_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_b", Name: "f"})
		tool.End(nil)
		session.RecordSent([]byte(strings.Replace(rtOutput, "call_a", "call_b", 1)))
		time.Sleep(agentrun.OutputWait)
		synctest.Wait()
		assert.Equal(t, 1, tools())

		// It is too late for the tool's span. The run still knows, and records it on its own.
		session.RecordReceived([]byte(`{"type":"error","error":{"type":"invalid_request_error","event_id":"c2"}}`))
		assert.Equal(t, semconv.OutputDeliveryFailed, agentrun.Of(ctx).ToolOf("call_b").Facts().Delivery)
		session.Close(nil)
		run.End(nil)
		assert.Equal(t, []string{"llm.tool.output_failed"}, spantest.Events(r.Named("invoke_agent voice")[0]))
	})
}

// The number of outputs that may still be refused is bounded by classify.MaxIDs, as every list
// of ids is.
func TestSessionRefusableOutputsAreBounded(t *testing.T) {
	ctx, run := otelllm.StartRun(t.Context(), "voice", otelllm.WithTracerProvider(spantest.New(t)))
	session := NewSession(ctx, Config{})
	for i := range classify.MaxIDs + 1 {
		_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: fmt.Sprint("call_", i), Name: "f"})
		tool.End(nil)
		session.RecordSent(fmt.Appendf(nil, `{"type":"conversation.item.create","event_id":"c%d","item":{"type":"function_call_output","call_id":"call_%d"}}`, i, i))
	}
	for i := range classify.MaxIDs + 1 {
		session.RecordReceived(fmt.Appendf(nil, `{"type":"error","error":{"type":"invalid_request_error","event_id":"c%d"}}`, i))
	}
	facts, _ := agentrun.Of(ctx).Facts()
	assert.Equal(t, semconv.OutputDeliverySent, facts.Tools[0].Delivery)
	for _, f := range facts.Tools[1:] {
		assert.Equal(t, semconv.OutputDeliveryFailed, f.Delivery)
	}
	assert.Empty(t, session.conversation.outputs)
	session.Close(nil)
	run.End(nil)
}

// TestSessionRequestReportedLate reads a response before the writer has reported the event that
// asked for it. Both are one request.
func TestSessionRequestReportedLate(t *testing.T) {
	r := spantest.New(t)
	session := NewSession(t.Context(), Config{Instrumentation: otelllm.New(otelllm.WithTracerProvider(r), otelllm.WithoutInferredRuns())})
	session.RecordReceived([]byte(rtSession))
	session.RecordReceived([]byte(rtCreated))
	session.RecordSent([]byte(rtCreate))
	session.RecordReceived([]byte(rtText))
	session.RecordReceived([]byte(rtDone("completed", "null")))
	session.Close(nil)
	assert.Equal(t, "terminal_event", spantest.Get(r.Only(t), "llm.stream.end"))
}

// A client may ask for a response before it has read the session's model.
func TestSessionAskedFirst(t *testing.T) {
	r := spantest.New(t)
	session := NewSession(t.Context(), Config{Instrumentation: otelllm.New(otelllm.WithTracerProvider(r), otelllm.WithoutInferredRuns())})
	session.RecordSent([]byte(rtCreate))
	for _, f := range []string{rtSession, rtCreated, rtText, rtDone("completed", "null")} {
		session.RecordReceived([]byte(f))
	}
	s := r.Only(t)
	assert.Equal(t, "chat gpt-realtime", s.Name())
	assert.Equal(t, "gpt-realtime", spantest.Get(s, "gen_ai.request.model"))
}

func TestSessionAbandoned(t *testing.T) {
	r := spantest.New(t)
	func() {
		session := NewSession(t.Context(), Config{Instrumentation: otelllm.New(otelllm.WithTracerProvider(r), otelllm.WithoutInferredRuns())})
		session.RecordReceived([]byte(rtSession))
		session.RecordSent([]byte(rtCreate))
		session.RecordReceived([]byte(rtCreated))
		session.RecordReceived([]byte(rtText))
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return len(r.Spans.Ended()) == 1
	}, 10*time.Second, time.Millisecond)
	assert.Equal(t, "abandoned", spantest.Get(r.Only(t), "llm.stream.end"))
	var none *Session
	none.RecordReceived(nil)
	none.RecordSent(nil)
	none.RecordSendFailure(nil, nil)
	none.Close(nil)
}

// TestSessionAfterClose checks that events after the end of a session begin no response,
// and still record the delivery of a tool's output.
func TestSessionAfterClose(t *testing.T) {
	sent := func(frame string) func(*Session) { return func(s *Session) { s.RecordSent([]byte(frame)) } }
	received := func(frame string) func(*Session) { return func(s *Session) { s.RecordReceived([]byte(frame)) } }
	unsent := func(frame string) func(*Session) {
		return func(s *Session) { s.RecordSendFailure([]byte(frame), syscall.EPIPE) }
	}
	for _, tt := range []struct {
		name     string
		late     func(*Session)
		delivery string
	}{
		{"asked", sent(rtCreate), "pending"},
		{"begun", received(rtCreated), "pending"},
		{"could not ask", unsent(rtCreate), "pending"},
		{"done", received(rtDone("completed", "null")), "pending"},
		{"an output sent", sent(rtOutput), "sent"},
		{"an output that could not be sent", unsent(rtOutput), "failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, end := range []func(*Session){
				func(s *Session) { s.Close(nil) },
				func(s *Session) { s.Close(io.EOF) },
				func(s *Session) { s.conversation.abandoned() },
			} {
				r := spantest.New(t)
				ctx, run := otelllm.StartRun(t.Context(), "voice", otelllm.WithTracerProvider(r))
				session := NewSession(ctx, Config{})
				session.RecordReceived([]byte(rtSession))
				_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_a", Name: "f"})
				tool.End(nil)
				end(session)
				tt.late(session)
				run.End(nil)
				assert.Empty(t, r.Named("chat gpt-realtime"))
				assert.Len(t, r.Spans.Ended(), len(r.Spans.Started()))
				assert.Equal(t, tt.delivery, spantest.Get(r.Named("execute_tool f")[0], "llm.tool.output_delivery"))
				assert.Zero(t, openRequests(nil))
			}
		})
	}
}

// A writing goroutine may not know yet that the reading one has closed the session. Every
// span that has begun ends, in whichever order they run.
func TestSessionClosedWhileWriting(t *testing.T) {
	r := spantest.New(t)
	var wait sync.WaitGroup
	for range 200 {
		ctx, run := otelllm.StartRun(t.Context(), "voice", otelllm.WithTracerProvider(r))
		session := NewSession(ctx, Config{})
		_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_a", Name: "f"})
		wait.Go(func() { tool.End(nil) })
		wait.Go(func() {
			for range 3 {
				session.RecordSent([]byte(rtOutput))
				session.RecordSent([]byte(rtCreate))
				session.RecordSendFailure([]byte(rtCreate), syscall.EPIPE)
			}
			run.End(nil)
		})
		wait.Go(func() {
			session.RecordReceived([]byte(`{"type":"error","error":{"type":"invalid_request_error","event_id":"c2"}}`))
			session.RecordReceived([]byte(rtCreated))
			session.RecordReceived([]byte(rtText))
			session.Close(io.EOF)
		})
	}
	wait.Wait()
	assert.Zero(t, len(r.Spans.Started())-len(r.Spans.Ended()))
	assert.Zero(t, openRequests(nil))
}

// TestSessionDiagnosis diagnoses the run while another goroutine feeds the session.
func TestSessionDiagnosis(t *testing.T) {
	ctx, run := otelllm.StartRun(t.Context(), "voice", otelllm.WithTracerProvider(spantest.New(t)))
	session := NewSession(ctx, Config{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			session.RecordSent([]byte(rtCreate))
			for _, f := range []string{rtCreated, rtAdded, rtArgs, rtCall, rtDone("completed", "null")} {
				session.RecordReceived([]byte(f))
			}
		}
	}()
	for range 50 {
		_ = run.Diagnosis()
	}
	<-done
	session.Close(nil)
	_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_a", Name: "f"})
	tool.End(nil)
	run.End(nil)
	assert.NotEqual(t, classify.Diagnosis{}, run.Diagnosis())
}

// The options of an Instrumentation apply to its sessions, and its Shutdown ends their
// responses.
func TestInstrumentation(t *testing.T) {
	for _, tt := range []struct {
		name     string
		provider string // of the Config
		opts     []otelllm.Option
		want     string
	}{
		{"OpenAI", "", nil, "openai"},
		{"another provider", "azure.ai.openai", nil, "azure.ai.openai"},
		{"the provider of a gateway", "azure.ai.openai", []otelllm.Option{otelllm.WithProviderName("gateway")}, "gateway"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := spantest.New(t)
			one, other := otelllm.New(append(tt.opts, otelllm.WithTracerProvider(r), otelllm.WithVerdicts(), otelllm.WithoutEvents(), otelllm.WithoutInferredRuns())...), otelllm.New()
			session := NewSession(t.Context(), Config{Provider: tt.provider, Instrumentation: one})
			session.RecordSent([]byte(rtCreate))
			untouched := NewSession(t.Context(), Config{Instrumentation: other})
			untouched.RecordSent([]byte(rtCreate))
			require.NoError(t, one.Shutdown(t.Context()))
			s := r.Only(t)
			assert.Equal(t, "chat", s.Name())
			assert.Equal(t, "shutdown", spantest.Get(s, "llm.abort.source"))
			assert.Equal(t, tt.want, spantest.Get(s, "gen_ai.provider.name"))
			assert.Equal(t, "local_abort", spantest.Get(s, "llm.failure.class"), "verdicts")
			assert.Empty(t, s.Events())
			assert.Equal(t, [2]int{0, 1}, [2]int{openRequests(one), openRequests(other)})
			untouched.Close(nil)
			assert.Zero(t, openRequests(other))
		})
	}
}

// TestNoKeyLeaks plants credentials in the frames of a session, and searches what is
// exported for them.
func TestNoKeyLeaks(t *testing.T) {
	for i, key := range spantest.Credentials {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			r, reader := spantest.New(t), metric.NewManualReader()
			llm := otelllm.New(otelllm.WithTracerProvider(r), otelllm.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))), otelllm.WithVerdicts())
			ctx, run := llm.StartRun(t.Context(), key)
			session := NewSession(ctx, Config{Provider: key, Instrumentation: llm})
			frame := func(text string) []byte { return []byte(spantest.WithKey(text, key)) }
			session.RecordReceived(frame(`{"type":"session.created","session":{"model":"KEY","tools":[{"type":"KEY"}]}}`))
			session.RecordSent(frame(`{"type":"response.create","event_id":"KEY"}`))
			session.RecordReceived(frame(`{"type":"response.created","response":{"id":"KEY"}}`))
			session.RecordReceived(frame(`{"type":"response.output_item.added","response_id":"KEY","output_index":0,"item":{"type":"function_call","call_id":"KEY","name":"KEY"}}`))
			session.RecordReceived(frame(`{"type":"response.done","response":{"id":"KEY","status":"cancelled","status_details":{"reason":"KEY"}}}`))
			session.RecordSent(frame(`{"type":"response.create","event_id":"KEY"}`))
			session.RecordReceived(frame(`{"type":"error","error":{"type":"KEY","code":"KEY","event_id":"KEY"}}`))
			session.Close(nil)
			run.End(nil)
			all := spantest.Exported(t, r, reader)
			assert.Empty(t, spantest.Find(all, key), "a key is exported")
			// The attributes with the planted values are exported; only the values are replaced.
			for _, want := range []string{"redacted", "gen_ai.request.model", "llm.provider_error.code", "llm.abort.reason", "gen_ai.client.operation.duration"} {
				assert.Contains(t, all, want)
			}
		})
	}
}

// openRequests counts the open requests of an Instrumentation; nil: those of the functions
// of package otelllm.
func openRequests(i *otelllm.Instrumentation) int {
	requests, _, _ := setup.Of(i).Record.Live.Len()
	return requests
}

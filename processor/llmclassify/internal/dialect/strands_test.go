package dialect

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

const strandsScope = "strands.telemetry.tracer"

// strandsChat is an attempt of a model call of Strands 1.40, in its default conventions. The
// event of each message comes before the choice; reason is "" where none was written.
func strandsChat(status ptrace.StatusCode, tokens int, reason string, events ...event) requestShape {
	attrs := map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.system": "strands-agents", "gen_ai.request.model": "model-test",
		"gen_ai.event.start_time": "2026-01-01T00:00:00Z", "gen_ai.event.end_time": "2026-01-01T00:00:01Z",
	}
	if reason != "" {
		maps.Copy(attrs, map[string]any{
			"gen_ai.usage.input_tokens": 2 * tokens, "gen_ai.usage.output_tokens": tokens, "gen_ai.usage.prompt_tokens": 2 * tokens,
			"gen_ai.usage.completion_tokens": tokens, "gen_ai.usage.total_tokens": 3 * tokens,
		})
	}
	s := shape{scope: strandsScope, name: "chat", kind: ptrace.SpanKindInternal, status: status, attrs: attrs}
	for range 40 { // a history longer than the exceptions that are read
		s.events = append(s.events, event{name: "gen_ai.user.message"})
	}
	s.events = append(s.events, events...)
	return requestShape{s, reason}
}

// requestShape is a shape with the finish reason of its choice.
type requestShape struct {
	shape
	reason string
}

func (s requestShape) span(tb testing.TB) ptrace.Span {
	tb.Helper()
	span := s.shape.span(tb)
	if s.reason != "" {
		e := span.Events().AppendEmpty()
		e.SetName("gen_ai.choice")
		e.Attributes().PutStr("message", canary)
		e.Attributes().PutStr("finish_reason", s.reason)
	}
	return span
}

func TestStrandsRequest(t *testing.T) {
	ok := func(r classify.Request) classify.Request { r.Failed = classify.No; return r }
	throttled := event{class: "strands.types.exceptions.ModelThrottledException", message: canary}
	for name, tt := range map[string]struct {
		requestShape
		truths []truth
		want   verdict
		facts  classify.Request
	}{
		"an answer":                             {strandsChat(statusOK, 6, "end_turn"), []truth{success}, well, ok(answered(classify.FinishStop))},
		"calls":                                 {strandsChat(statusOK, 6, "tool_use"), []truth{success}, well, ok(answered(classify.FinishToolCalls))},
		"calls of a server that does not count": {strandsChat(statusOK, 0, "tool_use"), []truth{success}, well, answered(classify.FinishToolCalls)},
		"a limit": {
			strandsChat(statusOK, 6, "max_tokens"),
			[]truth{limited},
			verdict{semconv.ClassOutputLimited, semconv.CauseMaxOutputTokens, medium, never},
			ok(answered(classify.FinishMaxTokens)),
		},
		"cut, or not counted: the default reason": {strandsChat(statusOK, 0, "end_turn"), []truth{success, cut}, unknown, classify.Request{}},
		"the reason in another form, counted":     {uncounted(strandsChat(statusOK, 6, "end_turn")), []truth{success}, well, ok(classify.Request{})},
		"throttled": {
			strandsChat(statusError, 0, "", throttled),
			[]truth{passing},
			ofProvider(semconv.CauseRateLimited, confirm),
			said(semconv.ProviderErrorKindRateLimited, throttled.class),
		},
		"the context is too long": {
			strandsChat(statusError, 0, "", event{class: "strands.types.exceptions.ContextWindowOverflowException", message: canary}),
			[]truth{refusal},
			ofProvider(semconv.CauseContextLengthExceeded, never),
			said(semconv.ProviderErrorKindContextLengthExceeded, "strands.types.exceptions.ContextWindowOverflowException"),
		},
		"cut": {
			strandsChat(statusError, 0, "", event{class: "httpx.RemoteProtocolError", message: canary}),
			[]truth{cut},
			interrupted(semconv.CauseBodyTruncated, medium),
			transport(semconv.TransportCauseBodyTruncated, "httpx.RemoteProtocolError"),
		},
		"cut, under Bedrock": {
			strandsChat(statusError, 0, "", event{class: "botocore.exceptions.EventStreamError", message: canary}),
			[]truth{cut, inBand},
			unclassified,
			failedWith(classify.Request{}),
		},
		"cancelled": {
			strandsChat(statusOK, 0, "cancelled"),
			[]truth{stopped},
			aborted(semconv.CauseUnknown, low),
			classify.Request{Ended: semconv.StreamEndCancelled, Abort: classify.Abort{Source: semconv.AbortSourceUnknown}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			span := tt.span(t)
			head, d := Default().In(strandsScope).Recognise(span)
			assert.Equal(t, Request, head.Kind)
			facts := (&Reading{Dialect: d}).Facts(span, Request)
			want := tt.facts
			want.Start, want.End = start, end
			if want.Phase == semconv.PhaseUnset {
				want.Phase = semconv.PhaseUnknown
			}
			want.Error = facts.Request.Error // see TestErrorOf
			assert.Equal(t, &want, facts.Request)
			checkVerdict(t, facts.Request, tt.want, tt.truths)
		})
	}
}

// uncounted is the shape without the event of the choice, as in the newer conventions.
func uncounted(s requestShape) requestShape { s.reason = ""; return s }

func TestStrandsOthers(t *testing.T) {
	for _, c := range []struct {
		status  ptrace.StatusCode
		message string
		events  []event
		want    semconv.ToolOutcome
		class   string
	}{
		{statusOK, "", nil, semconv.ToolOutcomeSucceeded, ""},
		{statusError, canary, nil, semconv.ToolOutcomeFailed, ""},
		{statusError, canary, []event{{class: "ValueError", message: canary}}, semconv.ToolOutcomeFailed, "ValueError"},
	} {
		tool := shape{
			scope: strandsScope, name: "execute_tool write", status: c.status, message: c.message, events: c.events,
			attrs: map[string]any{
				"gen_ai.operation.name": "execute_tool", "gen_ai.system": "strands-agents", "gen_ai.tool.name": "write", "gen_ai.tool.call.id": "tooluse_1",
				"gen_ai.tool.status": "success",
			},
		}
		_, _, facts := tool.read(t)
		assert.Equal(t, &classify.Tool{Start: start, End: end, CallID: "tooluse_1", Name: "write", Outcome: c.want, ErrorType: c.class}, facts.Tool)
	}
	run := shape{scope: strandsScope, name: "invoke_agent agent", status: statusOK, attrs: map[string]any{"gen_ai.operation.name": "invoke_agent"}}
	_, _, facts := run.read(t)
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes}, facts.Run, "OK also when its last stream was cut")
	for reason, want := range map[string]classify.Run{
		"end_turn":  {},
		"interrupt": {Failed: classify.No, Waits: true}, "checkpoint": {Failed: classify.No},
		"cancelled": {Abort: classify.Abort{Source: semconv.AbortSourceUnknown}},
	} {
		span := requestShape{run, reason}.span(t)
		_, d := Default().In(strandsScope).Recognise(span)
		want.Start, want.End, want.Ended = start, end, classify.Yes
		assert.Equal(t, &want, (&Reading{Dialect: d}).Facts(span, Run).Run, reason)
	}
	run.status, run.events = statusError, []event{{class: "strands.types.exceptions.EventLoopException"}}
	_, _, facts = run.read(t)
	assert.Equal(t, classify.Yes, facts.Run.Failed)

	cycle := shape{scope: strandsScope, name: "execute_event_loop_cycle", status: statusOK, attrs: map[string]any{"gen_ai.operation.name": "execute_event_loop_cycle"}}
	head, d, _ := cycle.read(t)
	assert.Equal(t, Head{}, head)
	assert.Nil(t, d)
}

package dialect

import (
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

var (
	start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	end   = start.Add(2 * time.Second)
)

// span makes a span of these attributes.
func span(t *testing.T, attrs map[string]any) ptrace.Span {
	t.Helper()
	s := ptrace.NewSpan()
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(start))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(end))
	require.NoError(t, s.Attributes().FromRaw(attrs))
	return s
}

func read(t *testing.T, s ptrace.Span) Facts {
	t.Helper()
	head, d := Default().In("").Recognise(s)
	require.NotNil(t, d)
	r := Reading{Dialect: d}
	return r.Facts(s, head.Kind)
}

// Every fact of the vocabulary reaches the field that it is for.
func TestOTelLLMRequest(t *testing.T) {
	ids := func(s ...any) []any { return s }
	s := span(t, map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": ids("length"),
		"http.response.status_code":  200,
		"llm.run.id":                 "00f067aa0ba902b7",
		"llm.request.attempt":        2,
		"llm.request.provider_tools": ids("web_search"),
		"llm.history.tool_calls":     ids("a", "b"), "llm.history.tool_outputs": ids("a"),
		"llm.stream.phase": "tool_input", "llm.stream.end": "read_error",
		"llm.stream.events": 9, "llm.stream.bytes": 100, "llm.stream.keepalives": 1,
		"llm.stream.text_chunks": 3, "llm.stream.reasoning_chunks": 0,
		"llm.stream.tool_inputs_started": 2, "llm.stream.tool_inputs_completed": 1, "llm.stream.tool_calls": 1,
		"llm.stream.tool_call_ids": ids("c"), "llm.stream.open_tool_call_ids": ids("d"),
		"llm.stream.provider_tools_started": 4,
		"llm.stream.time_to_headers":        0.25, "llm.stream.last_progress": 1, "llm.stream.longest_gap": 0.5,
		"llm.transport.stage": "body", "llm.transport.cause": "connection_reset", "llm.transport.code": "ECONNRESET",
		"llm.provider_error.kind": "overloaded", "llm.provider_error.code": "overloaded_error", "llm.provider_error.in_band": true,
		"llm.provider_error.history": "invalid_signature", "llm.provider_error.intermediary": true,
		"llm.abort.source": "user", "llm.abort.reason": "stop_button",
		"llm.watchdog.kind": "idle", "llm.watchdog.limit": 30.0,
		"llm.retry.after": 1.5,
	})
	s.Status().SetCode(ptrace.StatusCodeError)

	head, d := Default().In("").Recognise(s)
	assert.Equal(t, OTelLLM{}, d)
	assert.Equal(t, Head{Kind: Request, Run: pcommon.SpanID{0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7}}, head)
	assert.Equal(t, &classify.Request{
		Start: start, End: end, Attempt: 2,
		Basis: classify.Typed, Phase: semconv.PhaseToolInput, Ended: semconv.StreamEndReadError, Failed: classify.Yes,
		Status:    200,
		Transport: classify.Transport{Stage: semconv.TransportStageBody, Cause: semconv.TransportCauseConnectionReset, Code: "ECONNRESET"},
		Provider:  classify.ProviderError{Kind: semconv.ProviderErrorKindOverloaded, Code: "overloaded_error", InBand: true, History: semconv.ProviderErrorHistoryInvalidSignature, Intermediary: true},
		Abort:     classify.Abort{Source: semconv.AbortSourceUser, Reason: "stop_button"},
		Watchdog:  classify.Watchdog{Kind: semconv.WatchdogKindIdle, Limit: 30 * time.Second},
		Finish:    classify.FinishMaxTokens,
		Text:      classify.Counted(3), Reasoning: classify.Counted(0),
		ToolInputsStarted: classify.Counted(2), ToolInputsCompleted: classify.Counted(1), ToolCalls: classify.Counted(1),
		CallIDs: []string{"c"}, OpenCallIDs: []string{"d"},
		ProviderTools: []string{"web_search"}, ProviderToolsStarted: classify.Counted(4),
		HistoryCalls: []string{"a", "b"}, HistoryOutputs: []string{"a"},
		Events: classify.Counted(9), TimeToHeaders: 250 * time.Millisecond, LastProgress: time.Second, LongestGap: 500 * time.Millisecond,
		RetryAfter: 1500 * time.Millisecond,
	}, read(t, s).Request)
}

// What is absent says what the vocabulary means by its absence.
func TestOTelLLMAbsent(t *testing.T) {
	r := read(t, span(t, map[string]any{"gen_ai.operation.name": "chat", "llm.stream.end": "no_response"})).Request
	assert.Equal(t, &classify.Request{
		Start: start, End: end, Basis: classify.Typed, Ended: semconv.StreamEndNoResponse,
	}, r)
	r = read(t, span(t, map[string]any{
		"gen_ai.operation.name": "chat", "llm.stream.end": "terminal_event",
		"llm.history.tool_calls": []any{}, "llm.history.tool_outputs": []any{}, "llm.request.provider_tools": []any{},
	})).Request
	assert.Equal(t, classify.No, r.Failed, "this producer means success by UNSET after a terminal event")
	assert.NotNil(t, r.ProviderTools, "a list that is empty was seen to be")
	assert.NotNil(t, r.HistoryCalls)
	assert.NotNil(t, r.HistoryOutputs)
}

// A value of the wrong type, or out of all bounds, was not observed. Where there is a failure or
// a deliberate end, it is not known of what kind; what may be true is.
func TestOTelLLMWrong(t *testing.T) {
	giant := strings.Repeat("x", 1<<20)
	many := make([]any, 100)
	for i := range many {
		many[i] = strings.Repeat("y", i+1)
	}
	want := &classify.Request{
		Start: start, End: end, Provider: classify.ProviderError{Kind: semconv.ProviderErrorKindUnknown}, Abort: classify.Abort{Source: semconv.AbortSourceUnknown},
		Background: true, Unread: true,
	}
	for name, v := range map[string]any{
		"bool": true, "map": map[string]any{"a": 1}, "bytes": []byte("abc"), "empty": nil, "mixed list": []any{"a", 1},
		"unknown word": "no such word", "negative": -1, "NaN": math.NaN(), "infinite": math.Inf(1), "giant": giant,
	} {
		t.Run(name, func(t *testing.T) {
			attrs := map[string]any{"gen_ai.operation.name": "chat"}
			for _, key := range []string{
				"llm.request.attempt", "llm.request.provider_tools", "llm.history.tool_calls", "llm.history.tool_outputs",
				"llm.stream.phase", "llm.stream.end", "llm.stream.events", "llm.stream.text_chunks", "llm.stream.reasoning_chunks",
				"llm.stream.tool_inputs_started", "llm.stream.tool_inputs_completed", "llm.stream.tool_calls",
				"llm.stream.tool_call_ids", "llm.stream.open_tool_call_ids", "llm.stream.provider_tools_started",
				"llm.stream.time_to_headers", "llm.stream.last_progress", "llm.stream.longest_gap",
				"llm.transport.stage", "llm.transport.cause", "llm.provider_error.kind", "llm.abort.source", "llm.watchdog.kind",
				"llm.request.background", "llm.stream.unread", "llm.watchdog.limit", "llm.retry.after", "http.response.status_code", "gen_ai.response.finish_reasons", "llm.run.id",
			} {
				attrs[key] = v
			}
			want := *want
			if name == "unknown word" {
				want.Finish = classify.FinishOther // a finish reason alone is one in a list
			}
			assert.Equal(t, &want, read(t, span(t, attrs)).Request)
		})
	}
	r := read(t, span(t, map[string]any{
		"gen_ai.operation.name": "chat", "llm.stream.end": "eof",
		"llm.transport.code": giant, "llm.provider_error.code": "please call +49", "llm.abort.reason": giant,
		"llm.history.tool_calls": many, "llm.stream.events": int64(math.MaxInt64), "llm.retry.after": 1e300,
	})).Request
	assert.Equal(t, classify.Redacted, r.Transport.Code)
	assert.Equal(t, classify.Redacted, r.Abort.Reason)
	assert.Equal(t, classify.Redacted, r.Provider.Code)
	assert.Len(t, r.HistoryCalls, classify.MaxIDs)
	assert.Equal(t, many[99], r.HistoryCalls[63], "the newest are kept")
	assert.Positive(t, r.Events.N())
	assert.Zero(t, r.RetryAfter)
}

func TestOTelLLMTool(t *testing.T) {
	s := span(t, map[string]any{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "call_1", "gen_ai.tool.name": "apply_patch",
		"error.type": "*fs.PathError", "llm.tool.effect": "non_idempotent", "llm.tool.outcome": "failed",
		"llm.tool.failed_before_effect": true, "llm.tool.output_delivery": "failed", "llm.tool.output_error": "*net.OpError",
		"llm.abort.source": "deadline", "llm.abort.reason": "budget", "llm.run.id": "00f067aa0ba902b7",
	})
	head, _ := Default().In("").Recognise(s)
	assert.Equal(t, Tool, head.Kind)
	assert.False(t, head.Run.IsEmpty())
	assert.Equal(t, &classify.Tool{
		Start: start, End: end, CallID: "call_1", Name: "apply_patch",
		Effect: semconv.ToolEffectNonIdempotent, Outcome: semconv.ToolOutcomeFailed, FailedBeforeEffect: true,
		Delivery: semconv.OutputDeliveryFailed, DeliveryError: "*net.OpError", ErrorType: "*fs.PathError",
		Abort: classify.Abort{Source: semconv.AbortSourceDeadline, Reason: "budget"},
	}, read(t, s).Tool)
}

func TestOTelLLMRun(t *testing.T) {
	attrs := map[string]any{"gen_ai.operation.name": "invoke_agent", "llm.run.requests": 2, "llm.run.tools": 0}
	s := span(t, attrs)
	head, _ := Default().In("").Recognise(s)
	assert.Equal(t, Head{Kind: Run, Requests: classify.Counted(2), Tools: classify.Counted(0)}, head)
	want := &classify.Run{
		Start: start, End: end, Ended: classify.Yes, Failed: classify.No,
		AnnouncedRequests: classify.Counted(2), AnnouncedTools: classify.Counted(0),
	}
	assert.Equal(t, want, read(t, s).Run)

	attrs["llm.abort.source"] = "user"
	want.Failed, want.Abort.Source = classify.NotObserved, semconv.AbortSourceUser
	assert.Equal(t, want, read(t, span(t, attrs)).Run)

	attrs["error.type"] = "*errors.errorString"
	s = span(t, attrs)
	s.Status().SetCode(ptrace.StatusCodeError)
	want.Failed, want.ErrorType = classify.Yes, "*errors.errorString"
	assert.Equal(t, want, read(t, s).Run)
}

// The spans of a run that was inferred show which outputs never came back: those of calls that
// no tool's span is about, and those of tools that a history showed and a retry lost.
func TestOTelLLMOutputsThatNeverComeBack(t *testing.T) {
	ids := func(list ...any) []any { return list }
	at := func(second int, attrs map[string]any) ptrace.Span {
		attrs["llm.run.id"] = "00f067aa0ba902b7"
		s := span(t, attrs)
		from := start.Add(time.Duration(second) * time.Second)
		s.SetStartTimestamp(pcommon.NewTimestampFromTime(from))
		s.SetEndTimestamp(pcommon.NewTimestampFromTime(from.Add(time.Second / 2)))
		return s
	}
	request := func(second int, made, calls, outputs []any, more map[string]any) classify.Request {
		attrs := map[string]any{
			"gen_ai.operation.name": "chat", "http.response.status_code": 200, "llm.stream.end": "terminal_event", "llm.stream.phase": "stream_end",
			"gen_ai.response.finish_reasons": ids("stop"), "llm.history.tool_calls": calls, "llm.history.tool_outputs": outputs,
			"llm.stream.tool_calls": len(made), "llm.stream.tool_call_ids": made,
		}
		maps.Copy(attrs, more)
		return *read(t, at(second, attrs)).Request
	}
	cut := map[string]any{"llm.stream.end": "read_error", "llm.transport.cause": "connection_reset", "error.type": "connection_reset"}
	run := *read(t, span(t, map[string]any{"gen_ai.operation.name": "invoke_agent", "llm.run.inferred": true, "llm.run.end": "answer", "llm.run.requests": 3})).Run
	tool := *read(t, at(0, map[string]any{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "b", "gen_ai.tool.name": "run",
		"llm.tool.effect": "unknown", "llm.tool.observed": "history", "llm.tool.output_delivery": "pending",
	})).Tool
	tool.End = start.Add(time.Second)
	run.Tools = []classify.Tool{tool}
	run.Requests = []classify.Request{
		request(0, ids("a", "b"), ids(), ids(), nil),
		request(1, ids(), ids("a", "b"), ids("b"), nil),
		request(2, ids(), ids("a", "b"), ids("b"), nil),
	}
	d := classify.Judge(&run).Run
	assert.Equal(t, semconv.RunOutcomeFailed, d.Outcome)
	assert.Equal(t, semconv.CauseOmittedFromRetry, d.Cause)
	assert.Equal(t, []string{"a"}, d.MissingOutputs)

	run.Requests[1] = request(1, ids(), ids("a", "b"), ids("b"), cut)
	run.Requests[2] = request(2, ids(), ids("a", "b"), ids("a"), nil)
	d = classify.Judge(&run).Run
	assert.Equal(t, semconv.CauseOmittedFromRetry, d.Cause)
	assert.Equal(t, []string{"b"}, d.MissingOutputs)
}

// A request names its run although it is in a trace of its own: the client learned of the
// run when the request's span had begun, and links it.
func TestRunInAnotherTrace(t *testing.T) {
	run := pcommon.SpanID{0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7}
	for name, tt := range map[string]struct {
		links []pcommon.TraceID
		want  pcommon.SpanID
	}{
		"no link":               {nil, run},
		"link within the trace": {[]pcommon.TraceID{{1}}, run},
		"link to another trace": {[]pcommon.TraceID{{2}}, pcommon.SpanID{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := span(t, map[string]any{"gen_ai.operation.name": "chat", "llm.stream.phase": "text", "llm.run.id": run.String()})
			s.SetTraceID(pcommon.TraceID{1})
			s.Links().AppendEmpty().SetTraceID(pcommon.TraceID{3}) // of another span
			for _, id := range tt.links {
				link := s.Links().AppendEmpty()
				link.SetTraceID(id)
				link.SetSpanID(run)
			}
			head, _ := Default().In("").Recognise(s)
			assert.Equal(t, Head{Kind: Request, Run: tt.want}, head)
		})
	}
}

func TestRecognise(t *testing.T) {
	for _, tt := range []struct {
		name  string
		attrs map[string]any
		kind  Kind
		by    Dialect
	}{
		{"nothing", nil, Other, nil},
		{"HTTP client", map[string]any{"http.request.method": "POST", "url.full": "https://api.example.com", "http.response.status_code": 200}, Other, nil},
		{"empty key", map[string]any{"": "chat"}, Other, nil},
		{"long key", map[string]any{strings.Repeat("g", 100): "chat"}, Other, nil},
		{"operation of no interest", map[string]any{"gen_ai.operation.name": "embeddings"}, Other, nil},
		{"operation of the wrong type", map[string]any{"gen_ai.operation.name": 1}, Other, nil},
		{"our facts without an operation", map[string]any{"llm.stream.end": "eof"}, Other, nil},
		{"chat", map[string]any{"gen_ai.operation.name": "chat"}, Request, GenAI{}},
		{"text_completion", map[string]any{"gen_ai.operation.name": "text_completion"}, Request, GenAI{}},
		{"generate_content", map[string]any{"gen_ai.operation.name": "generate_content"}, Request, GenAI{}},
		{"execute_tool", map[string]any{"gen_ai.operation.name": "execute_tool"}, Tool, GenAI{}},
		{"invoke_agent", map[string]any{"gen_ai.operation.name": "invoke_agent"}, Run, GenAI{}},
		{"invoke_workflow", map[string]any{"gen_ai.operation.name": "invoke_workflow"}, Run, GenAI{}},
		{"MCP call", map[string]any{"mcp.method.name": "tools/call"}, Tool, GenAI{}},
		{"MCP list", map[string]any{"mcp.method.name": "tools/list"}, Other, nil},
		{"ours", map[string]any{"gen_ai.operation.name": "chat", "llm.stream.phase": "text"}, Request, OTelLLM{}},
		{"our tool's fact on a chat", map[string]any{"gen_ai.operation.name": "chat", "llm.tool.effect": "read_only"}, Request, GenAI{}},
		{"a run id makes a span not ours", map[string]any{"gen_ai.operation.name": "chat", "llm.run.id": "00f067aa0ba902b7"}, Request, GenAI{}},
		{"OpenInference's llm keys alone", map[string]any{"llm.model_name": "m", "llm.provider": "p"}, Other, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			head, by := Default().In("").Recognise(span(t, tt.attrs))
			assert.Equal(t, tt.kind, head.Kind)
			assert.Equal(t, tt.by, by)
		})
	}
}

func TestReadingIsLazyAndKept(t *testing.T) {
	s := span(t, map[string]any{"gen_ai.operation.name": "chat", "llm.stream.end": "eof", "llm.transport.code": "E", "llm.history.tool_calls": []any{"abc"}})
	r := Reading{Dialect: OTelLLM{}}
	var direct, kept classify.Request
	r.Request(s, &direct, nil)
	facts := r.Facts(s, Request)
	r.Request(ptrace.NewSpan(), &kept, nil)
	assert.Equal(t, direct, *facts.Request)
	assert.Equal(t, direct, kept, "the span has gone, its facts stay")
	assert.Greater(t, facts.Size(), 100)
	assert.Equal(t, Facts{}, (&Reading{Dialect: OTelLLM{}}).Facts(s, Other))
}

// The end of a run that this version does not know, of a newer client, is not known.
func TestUnknownRunEnd(t *testing.T) {
	for _, end := range []any{"disconnected", 3} {
		facts := read(t, span(t, map[string]any{"gen_ai.operation.name": "invoke_agent", "llm.run.requests": 1, "llm.run.end": end}))
		assert.Equal(t, semconv.RunEndUnclear, facts.Run.EndedBy, end)
		assert.Equal(t, classify.NotObserved, facts.Run.Failed, end)
	}
}

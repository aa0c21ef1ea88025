package dialect

import (
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Codex reads the spans of Codex CLI (scope codex_exec, codex_cli_rs and others that begin
// with codex). Its spans have no status and no operation: their names identify them.
//
// A turn, session_task.turn, is a run. It counts its attempts in the event
// codex.turn_profile, and those that were retries. Each attempt is a span try_run_sampling_request, which itself records
// nothing of its end. Two spans beneath it do, and are read as its attempt, as hold joins
// nested requests: handle_responses with the usage that arrives with the last event of a
// response, and endpoint_session.stream_encoded_json_with whose last codex.api_request has a
// status or an error. An attempt without either is not known to have failed, nor to have
// gone well: a stream that broke is only in the logs of Codex. A response whose usage counts no
// token of output but those of reasoning was empty.
//
// A tool is the span dispatch_tool_call_with_state, with the event codex.tool_result. If the
// turn was stopped meanwhile there is no such event: then it is the span around it, which
// has the tool's own name and aborted=true.
//
// Codex exports at most 512 spans at a time. When a turn fails in a process that then exits,
// its last spans are lost, or all of them. Measured with Codex CLI 0.169.0.
type Codex struct{}

var _ Dialect = Codex{}

// Names of Codex's spans.
const (
	nameCodexTurn     = "session_task.turn"
	nameCodexAttempt  = "try_run_sampling_request"
	nameCodexResponse = "handle_responses"
	nameCodexHTTP     = "endpoint_session.stream_encoded_json_with"
	nameCodexDispatch = "dispatch_tool_call_with_state"
)

// Keys and events of Codex. The values in events are strings.
const (
	keyEventName = "event.name"
	keyCallID    = "call_id"
	keyToolName  = "tool_name"
	keyAborted   = "aborted"
	keyTurnID    = "turn_id"
	keyTurnDotID = "turn.id"

	keyCodexSuccess   = "success"
	keyCodexReasoning = "codex.usage.reasoning_output_tokens"
	keyCodexError     = "error.message"
	keyCodexAttempt   = "attempt"
	keyCodexRequests  = "sampling_request_count"
	keyCodexRetries   = "sampling_retry_count"

	eventCodexHTTP    = "codex.api_request"
	eventCodexTool    = "codex.tool_result"
	eventCodexProfile = "codex.turn_profile"
)

// Name implements [Dialect].
func (Codex) Name() string { return "codex" }

func (Codex) claims() claims { return claims{scopes: scopesOf(scopeCodex)} }

// Recognise implements [Dialect].
func (Codex) Recognise(s *AttributeScan) Head {
	h := s.head(s.kind)
	h.Part = s.part
	return h
}

// scanCodex scans a span of Codex by its name and by what is recorded within it.
func (s *AttributeScan) scanCodex(span ptrace.Span) {
	attrs := span.Attributes()
	switch span.Name() {
	case nameCodexTurn:
		if requests, _ := codexProfile(span); requests.Observed() {
			s.kind = Run
		}
	case nameCodexAttempt:
		s.kind = Request
	case nameCodexResponse:
		if _, completed := attrs.Get(string(otelsemconv.GenAIUsageOutputTokensKey)); completed {
			s.kind, s.part = Request, true
		}
	case nameCodexHTTP:
		if e, ok := codexEvent(span, eventCodexHTTP); ok && codexHTTPFailed(e) {
			s.kind, s.part = Request, true
		}
	case nameCodexDispatch:
		if _, ok := codexEvent(span, eventCodexTool); ok {
			s.kind = Tool
		}
	default:
		if v, ok := attrs.Get(keyAborted); ok && boolean(v) {
			s.kind = Tool
		}
	}
	if s.kind == Other {
		return
	}
	for _, key := range [...]string{keyTurnID, keyTurnDotID} {
		if v, ok := attrs.Get(key); ok {
			s.session = v.Str()
			return
		}
	}
}

// codexEvent is the last event of this kind on a span.
func codexEvent(span ptrace.Span, name string) (attrs pcommon.Map, ok bool) {
	for e := range lastEvents(span) {
		if v, named := e.Attributes().Get(keyEventName); named && v.Str() == name {
			return e.Attributes(), true
		}
	}
	return attrs, false
}

// codexProfile is the number of attempts that a turn counted, and how many of them were
// retries.
func codexProfile(span ptrace.Span) (requests classify.Count, retries int) {
	if e, ok := codexEvent(span, eventCodexProfile); ok {
		if n, ok := codexInt(e, keyCodexRequests); ok {
			requests = classify.Counted(n)
		}
		retries, _ = codexInt(e, keyCodexRetries)
	}
	return requests, retries
}

// codexInt is a number of an event, which is a string there.
func codexInt(attrs pcommon.Map, key string) (int, bool) {
	v, ok := attrs.Get(key)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(v.AsString(), 10, 16)
	return int(n), err == nil
}

func codexStatus(attrs pcommon.Map) int {
	n, _ := codexInt(attrs, string(otelsemconv.HTTPResponseStatusCodeKey))
	if n < 100 || n > 599 {
		return 0
	}
	return n
}

func codexHTTPFailed(attrs pcommon.Map) bool {
	_, failed := attrs.Get(keyCodexError)
	return failed || codexStatus(attrs) >= 400
}

// Read implements [Dialect].
func (Codex) Read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		codexRequest(span, into.Request)
	case into.Tool != nil:
		codexTool(span, into.Tool)
	case into.Run != nil:
		readRunWithoutOK(span, into.Run)
		into.Run.AnnouncedRequests, into.Run.Retries = codexProfile(span)
	}
}

func codexRequest(span ptrace.Span, r *classify.Request) {
	var e ending
	e.begin(span, r)
	if r.Failed == classify.No {
		r.Failed = classify.NotObserved
	}
	switch span.Name() {
	case nameCodexResponse:
		// The response is complete: Codex makes an error of any other. Whether it asks for tool
		// calls is not recorded, so it is read as one that may: a turn whose own span is lost
		// is then not known to have ended with it.
		r.Finish = classify.FinishToolCalls
		r.Ended, r.Basis, r.Phase = semconv.StreamEndTerminalEvent, classify.Typed, semconv.PhaseStreamEnd
		if codexEmpty(span.Attributes()) {
			r.Finish = classify.FinishStop
			nothingIn(r, classify.Corroborated)
		}
	case nameCodexHTTP:
		event, ok := codexEvent(span, eventCodexHTTP)
		if !ok {
			return
		}
		r.Failed = classify.Yes
		if n, ok := codexInt(event, keyCodexAttempt); ok {
			r.Attempt = n + 1
		}
		if r.Status = codexStatus(event); r.Status >= 400 {
			e.typed = true
			e.refused(r)
		}
	}
}

// codexEmpty reports whether the usage of a response counts no token of an answer.
func codexEmpty(attrs pcommon.Map) bool {
	output, counted := codexInt(attrs, string(otelsemconv.GenAIUsageOutputTokensKey))
	reasoning, _ := codexInt(attrs, keyCodexReasoning)
	return counted && output <= reasoning
}

func codexTool(span ptrace.Span, t *classify.Tool) {
	*t = classify.Tool{Start: at(span.StartTimestamp()), End: at(span.EndTimestamp())}
	attrs := span.Attributes()
	event, ended := codexEvent(span, eventCodexTool)
	if ended {
		attrs = event
	}
	if v, ok := attrs.Get(keyCallID); ok {
		t.CallID = id(v)
	}
	if v, ok := attrs.Get(keyToolName); ok {
		t.Name = text(v)
	}
	if !ended {
		t.Outcome, t.Abort.Source = semconv.ToolOutcomeInterrupted, semconv.AbortSourceUnknown
		return
	}
	if v, ok := attrs.Get(keyCodexSuccess); ok {
		switch v.AsString() {
		case "true":
			t.Outcome = semconv.ToolOutcomeSucceeded
		case "false":
			t.Outcome = semconv.ToolOutcomeFailed
		}
	}
}

package dialect

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// QwenCode reads the spans of Qwen Code (scope qwen-code): qwen-code.interaction is a run,
// qwen-code.llm_request a request and qwen-code.tool a tool, by the operations of the GenAI
// conventions. The attribute attempt of a request is the number of its last attempt: those
// before it failed. Its hooks and the span qwen-code.tool.execution within a tool have no
// operation.
//
// success=true is written for every stream that ended without an error, also for one that
// broke off: it is success only beside a finish reason. A stream without a finish reason
// broke off if a part of an answer is recorded; if nothing is, [DONE] alone may have come,
// and how it ended is not known. success=false without an error is a cancelled request.
// The finish reason error is written for every error. error.type is a class, or a class and
// the code of its cause: TypeError:ECONNRESET. TypeError:UND_ERR_SOCKET before any part of
// an answer is a connection that was closed before the headers or after them. APIError is the
// SDK's class for an error without a known status: beside a part of an answer, an error in
// the stream.
//
// A tool records success and, in tool.failure_kind, why not. A run is UNSET if it went well
// and if it was cancelled, which qwen-code.turn_status distinguishes; ok is not read as
// success. Measured with Qwen Code 0.24.4; the kinds of a tool's failure by its source.
type QwenCode struct{}

var _ Dialect = QwenCode{}

// Keys and values of Qwen Code.
const (
	keyQwenSuccess    = "success"
	keyQwenStatus     = "error_status_code"
	keyQwenAttempt    = "attempt"
	keyQwenTurn       = "qwen-code.turn_status"
	keyQwenFailure    = "tool.failure_kind"
	qwenCancelled     = "cancelled"
	classOpenAIError  = "APIError"
	qwenTimeout       = "timeout"
	qwenToolError     = "tool_error"
	qwenToolException = "tool_exception"
	qwenStoppedAfter  = "post_hook_stopped"
)

// qwenRejections are the values of tool.failure_kind of tools that were not executed.
var qwenRejections = map[string]bool{
	"pre_hook_blocked": true, "invocation_guard_denied": true, "permission_denied": true, "permission_hook_denied": true,
	"plan_mode_blocked": true, "non_interactive_denied": true, "background_agent_denied": true,
}

// Name implements [Dialect].
func (QwenCode) Name() string { return "qwen_code" }

func (QwenCode) claims() claims { return claims{scopes: scopesOf(scopeQwenCode)} }

// Recognise implements [Dialect].
func (QwenCode) Recognise(s *AttributeScan) Head { return s.head(operation(s.operation)) }

// Read implements [Dialect].
func (QwenCode) Read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		qwenRequest(span, into.Request)
	case into.Tool != nil:
		qwenTool(span, into.Tool)
	case into.Run != nil:
		readRunWithoutOK(span, into.Run)
		if v, ok := span.Attributes().Get(keyQwenTurn); ok && text(v) == qwenCancelled && into.Run.Abort.Source == semconv.AbortSourceUnset {
			into.Run.Abort.Source = semconv.AbortSourceUnknown
		}
	}
}

func qwenRequest(span ptrace.Span, r *classify.Request) {
	var e ending
	e.begin(span, r)
	success, arrived := classify.NotObserved, false
	for key, v := range span.Attributes().All() {
		switch key {
		case keyQwenSuccess:
			success = fact(v)
		case keyQwenStatus:
			r.Status = status(v)
		case keyQwenAttempt:
			r.Attempt = count(v).N()
			r.FailedBefore = max(0, r.Attempt-1)
		case string(otelsemconv.GenAIResponseTimeToFirstChunkKey):
			arrived = true
		default:
			e.read(key, v, r)
		}
	}
	if _, code, ok := strings.Cut(e.errorType, ":"); ok {
		e.errorType = code
	}
	e.end(span, r)
	e.typed = e.typed || r.Status >= 400
	arrived = arrived || e.responded
	if r.Failed == classify.No {
		r.Failed = classify.NotObserved
	}
	switch {
	case e.unset && success == classify.No && e.errorType == "":
		r.Ended, r.Abort.Source = semconv.StreamEndCancelled, semconv.AbortSourceUnknown
	case r.Failed == classify.Yes && e.errorType == classOpenAIError && r.Status == 0 && arrived:
		r.Basis, r.Provider.Kind, r.Provider.InBand = classify.Corroborated, semconv.ProviderErrorKindUnknown, true
	case r.Failed == classify.Yes && e.errorType == undSocket && r.Status == 0 && !arrived:
		r.Ended = semconv.StreamEndReadError
	case e.conclude(r), r.Failed == classify.Yes:
	case e.unset && e.streamed && arrived && e.reasons == nil && !e.output.Observed():
		r.Ended = semconv.StreamEndEOF // a finish reason was due
	}
}

func qwenTool(span ptrace.Span, t *classify.Tool) {
	genAITool(span, t)
	if t.Outcome == semconv.ToolOutcomeSucceeded {
		t.Outcome = semconv.ToolOutcomeUnset
	}
	success, kind := classify.NotObserved, ""
	for key, v := range span.Attributes().All() {
		switch key {
		case keyQwenSuccess:
			success = fact(v)
		case keyQwenFailure:
			kind = text(v)
		}
	}
	switch {
	case kind == qwenCancelled:
		t.Outcome, t.Abort.Source = semconv.ToolOutcomeInterrupted, semconv.AbortSourceUnknown
	case kind == qwenTimeout:
		t.Outcome = semconv.ToolOutcomeTimedOut
	case qwenRejections[kind]:
		t.Outcome = semconv.ToolOutcomeRejected
	case t.Outcome != semconv.ToolOutcomeUnset:
	case kind == qwenToolError, kind == qwenToolException, kind == qwenStoppedAfter, success == classify.No:
		t.Outcome = semconv.ToolOutcomeFailed
	case kind == "" && success == classify.Yes:
		t.Outcome = semconv.ToolOutcomeSucceeded
	}
}

package dialect

import (
	"slices"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// GenAI reads spans of OpenTelemetry's GenAI conventions, and MCP's tool calls.
//
// These record how a request ended only as a finish reason, a status and the
// name of an error. How far it had got, what had been streamed, which tools were
// offered and what the history held is never recorded: it stays not observed,
// which costs confidence and never safety. UNSET is no success.
type GenAI struct{}

var _ Dialect = GenAI{}

// Name implements [Dialect].
func (GenAI) Name() string { return "gen_ai" }

// Markers implements [Dialect].
func (GenAI) Markers() []string {
	return []string{string(otelsemconv.GenAIOperationNameKey), string(otelsemconv.McpMethodNameKey)}
}

// mcpToolCall is the mcp.method.name of a tool call.
const mcpToolCall = "tools/call"

// Recognise implements [Dialect].
func (GenAI) Recognise(span ptrace.Span) Head {
	var head Head
	mcp := false
	for key, v := range span.Attributes().All() {
		switch key {
		case string(otelsemconv.GenAIOperationNameKey):
			head.Kind = operation(v)
		case string(otelsemconv.McpMethodNameKey):
			mcp = text(v, maxWord) == mcpToolCall
		case string(semconv.RunIDKey):
			head.Run = spanID(v)
		}
	}
	if head.Kind == Other && mcp {
		head.Kind = Tool
	}
	if head.Kind == Other {
		return Head{}
	}
	return head
}

// Read implements [Dialect].
func (GenAI) Read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		genAIRequest(span, into.Request)
	case into.Tool != nil:
		genAITool(span, into.Tool)
	case into.Run != nil:
		genAIRun(span, into.Run)
	}
}

// The words of finish reasons that stand for none.
const (
	finishError       = "error"
	finishInterrupted = "interrupted"
)

func genAIRequest(span ptrace.Span, r *classify.Request) {
	*r = classify.Request{
		Start: at(span.StartTimestamp()), End: at(span.EndTimestamp()),
		Phase: semconv.PhaseUnknown, Failed: failed(span),
	}
	var streamed bool
	var reasons []string
	var errorType string
	for key, v := range span.Attributes().All() {
		switch key {
		case string(otelsemconv.GenAIRequestStreamKey):
			streamed = boolean(v)
		case string(otelsemconv.GenAIResponseFinishReasonsKey):
			reasons = list(v)
		case string(otelsemconv.HTTPResponseStatusCodeKey):
			r.Status = status(v)
		case string(otelsemconv.ErrorTypeKey):
			errorType = text(v, maxString)
		}
	}
	r.Finish = classify.ParseFinish(reasons)
	name, known := firstKnown(span, errorType)
	if code, err := strconv.Atoi(errorType); err == nil && code >= 400 && code <= 599 && r.Status == 0 {
		r.Status = code // the HTTP conventions' error.type of a status
	}

	switch unset := span.Status().Code() == ptrace.StatusCodeUnset; {
	case r.Status >= 400:
		r.Ended, r.Basis, r.Phase = semconv.StreamEndHTTPError, classify.Typed, semconv.PhaseResponseStarted
		r.Provider.Kind = classify.ProviderErrorKind(r.Status, name)
		if named, ok := failureOf(name); ok && named.provider != semconv.ProviderErrorKindUnset {
			r.Provider.Kind = named.provider
		}
		r.Provider.Code = codeOf(name)

	case known && (r.Failed == classify.Yes || unset && (errorType != "" || r.Finish <= classify.FinishMissing)):
		// An exception event on a span that came to its finish reason was got over.
		f, _ := failureOf(name)
		f.apply(r, name)

	case r.Failed == classify.Yes: // something failed, and nothing says what

	case r.Finish > classify.FinishMissing:
		r.Ended, r.Basis, r.Phase = semconv.StreamEndTerminalEvent, classify.Typed, semconv.PhaseStreamEnd

	case unset && slices.Contains(reasons, finishError):
		r.Ended, r.Abort.Source = semconv.StreamEndCancelled, semconv.AbortSourceUnknown

	case unset && slices.Contains(reasons, finishInterrupted):
		r.Ended, r.Basis = semconv.StreamEndEOF, classify.Corroborated

	case unset && streamed:
		r.Ended = semconv.StreamEndEOF // a finish reason was due, and neither it nor an error came
	}
}

// apply writes what an error's name says about how a request ended.
func (f failure) apply(r *classify.Request, name string) {
	r.Basis = classify.Typed
	switch {
	case f.abort != semconv.AbortSourceUnset:
		r.Ended, r.Abort.Source = semconv.StreamEndCancelled, f.abort
	case f.watchdog != semconv.WatchdogKindUnset:
		r.Ended, r.Watchdog.Kind = semconv.StreamEndWatchdog, f.watchdog
	case f.provider != semconv.ProviderErrorKindUnset:
		r.Provider.Kind, r.Provider.Code = f.provider, codeOf(name)
	default:
		r.Transport.Cause, r.Transport.Code = f.transport, codeOf(name)
	}
}

// codeOf is the name of an error where it is fit to be a code, else empty.
func codeOf(name string) string {
	if code := classify.SanitizeCode(name); code != classify.Redacted {
		return code
	}
	return ""
}

func genAITool(span ptrace.Span, t *classify.Tool) {
	*t = classify.Tool{Start: at(span.StartTimestamp()), End: at(span.EndTimestamp())}
	for key, v := range span.Attributes().All() {
		switch key {
		case string(otelsemconv.GenAIToolCallIDKey):
			t.CallID = text(v, maxString)
		case string(otelsemconv.GenAIToolNameKey):
			t.Name = text(v, maxString)
		case string(otelsemconv.ErrorTypeKey):
			t.ErrorType = text(v, maxString)
		}
	}
	switch failed(span) {
	case classify.Yes:
		t.Outcome = semconv.ToolOutcomeFailed
	case classify.No:
		t.Outcome = semconv.ToolOutcomeSucceeded
	case classify.NotObserved: // a failure may be told in the result alone
	}
	name, known := firstKnown(span, t.ErrorType)
	if t.ErrorType == "" {
		t.ErrorType = name
	}
	if f, _ := failureOf(name); known && t.Outcome == semconv.ToolOutcomeFailed {
		switch {
		case f.abort == semconv.AbortSourceDeadline, f.watchdog != semconv.WatchdogKindUnset:
			t.Outcome = semconv.ToolOutcomeTimedOut
		case f.abort != semconv.AbortSourceUnset:
			t.Outcome = semconv.ToolOutcomeInterrupted
		}
	}
}

func genAIRun(span ptrace.Span, run *classify.Run) {
	*run = classify.Run{
		Start: at(span.StartTimestamp()), End: at(span.EndTimestamp()),
		Ended: classify.Yes, Failed: failed(span),
	}
	if v, ok := span.Attributes().Get(string(otelsemconv.ErrorTypeKey)); ok {
		run.ErrorType = text(v, maxString)
	}
	name, known := firstKnown(span, run.ErrorType)
	if run.ErrorType == "" {
		run.ErrorType = name
	}
	if f, _ := failureOf(name); known {
		run.Abort.Source = f.abort
	}
}

// failed is the producer's own word.
func failed(span ptrace.Span) classify.Fact {
	switch span.Status().Code() {
	case ptrace.StatusCodeError:
		return classify.Yes
	case ptrace.StatusCodeOk:
		return classify.No
	default:
		return classify.NotObserved
	}
}

// maxExceptions bounds how many events of a span are looked at.
const maxExceptions = 32

// firstKnown is the first name of an error on the span whose meaning is known:
// error.type, then the types of the exception events in their order. Where none
// is known it is the first name there is.
func firstKnown(span ptrace.Span, errorType string) (name string, known bool) {
	if _, ok := failureOf(errorType); ok {
		return errorType, true
	}
	name = errorType
	for i := range min(span.Events().Len(), maxExceptions) {
		event := span.Events().At(i)
		if event.Name() != otelsemconv.ExceptionEventName {
			continue
		}
		v, ok := event.Attributes().Get(string(otelsemconv.ExceptionTypeKey))
		if !ok || v.Type() != pcommon.ValueTypeStr {
			continue
		}
		exception := text(v, maxString)
		if _, ok := failureOf(exception); ok {
			return exception, true
		}
		if name == "" {
			name = exception
		}
	}
	return name, false
}

package dialect

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// The words of finish reasons that stand for none.
const (
	finishError       = "error"
	finishInterrupted = "interrupted"
	finishStop        = "stop"
	finishOther       = "other" // the AI SDK's, for a stream that just ended, too
	finishUnknown     = "unknown"
)

// signs are what a request's span says of how it ended. A dialect collects them in
// its pass over the attributes and draws its own conclusions.
type signs struct {
	fault
	errorType string
	streamed  bool
	reasons   []string // nil where none was recorded
	unset     bool     // the status is UNSET
}

// begin writes what every request's span has.
func (s *signs) begin(span ptrace.Span, r *classify.Request) {
	*r = classify.Request{
		Start: at(span.StartTimestamp()), End: at(span.EndTimestamp()),
		Phase: semconv.PhaseUnknown, Failed: failed(span),
	}
	s.unset = span.Status().Code() == ptrace.StatusCodeUnset
}

// read reads the attributes of the conventions.
func (s *signs) read(key string, v pcommon.Value, r *classify.Request) {
	switch key {
	case string(otelsemconv.GenAIRequestStreamKey):
		s.streamed = s.streamed || boolean(v)
	case string(otelsemconv.GenAIResponseFinishReasonsKey):
		s.reasons = list(v)
	case string(otelsemconv.HTTPResponseStatusCodeKey):
		r.Status = status(v)
	case string(otelsemconv.ErrorTypeKey):
		s.errorType = text(v, maxString)
	}
}

// finish is for a producer that records one finish reason as a string.
func (s *signs) finish(v pcommon.Value) {
	switch reason := text(v, maxWord); reason {
	case "", "None", "null": // as languages write nothing
	default:
		s.reasons = []string{reason}
	}
}

// end closes the pass.
func (s *signs) end(span ptrace.Span, r *classify.Request) {
	r.Finish = classify.ParseFinish(s.reasons)
	s.fault = faultOf(span, s.errorType)
	if r.Status == 0 {
		r.Status = s.fault.status
	}
}

// has reports whether the finish reasons name this one.
func (s *signs) has(reason string) bool { return slices.Contains(s.reasons, reason) }

// conclude draws the conclusions that hold for every producer that marks what
// failed, and reports whether there were any: an HTTP status, the name of an error,
// a finish reason.
func (s *signs) conclude(r *classify.Request) bool {
	switch {
	case r.Status >= 400:
		s.refused(r)
	case s.known && (r.Failed == classify.Yes || s.unset && (s.errorType != "" || r.Finish <= classify.FinishMissing)):
		// An exception event on a span that came to its finish reason was got over.
		s.apply(r)
	case r.Failed == classify.Yes: // something failed, and nothing says what
		return false
	case r.Finish > classify.FinishMissing:
		r.Ended, r.Basis, r.Phase = semconv.StreamEndTerminalEvent, classify.Typed, semconv.PhaseStreamEnd
	default:
		return false
	}
	return true
}

// refused writes that the response was an HTTP error.
func (s *signs) refused(r *classify.Request) {
	r.Ended, r.Basis, r.Phase = semconv.StreamEndHTTPError, s.basis(), semconv.PhaseResponseStarted
	r.Provider.Kind = classify.ProviderErrorKind(r.Status, s.name)
	if s.provider != semconv.ProviderErrorKindUnset {
		r.Provider.Kind = s.provider
	}
	r.Provider.Code = codeOf(s.name)
}

// apply writes what the error says about how the request ended.
func (s *signs) apply(r *classify.Request) {
	r.Basis = s.basis()
	switch {
	case s.abort != semconv.AbortSourceUnset:
		r.Ended, r.Abort.Source = semconv.StreamEndCancelled, s.abort
	case s.watchdog != semconv.WatchdogKindUnset:
		r.Ended, r.Watchdog.Kind = semconv.StreamEndWatchdog, s.watchdog
	case s.provider != semconv.ProviderErrorKindUnset:
		r.Provider.Kind, r.Provider.Code = s.provider, codeOf(s.name)
	case s.unstaged:
		// It may have broken before a connection or in the body: two classes, and
		// nothing to choose by.
		r.Failed, r.Basis = classify.Yes, classify.Inferred
	case s.failure.end != semconv.StreamEndUnset:
		r.Ended = s.failure.end
	default:
		r.Transport.Cause, r.Transport.Code = s.transport, s.failure.code
		if r.Transport.Code == "" && s.typed {
			r.Transport.Code = codeOf(s.name)
		}
	}
}

// fault is what a span says of its error.
type fault struct {
	failure
	name     string // as it was recorded, empty when there was none
	known    bool   // failure says something
	status   int    // an HTTP status in an error's place, 0 for none
	typed    bool   // the name itself is known, not a text alone
	agrees   bool   // a text and the class that it belongs to agree
	recorded bool   // an exception was recorded
}

// basis is what a conclusion from the error rests on.
func (f *fault) basis() classify.Basis {
	switch {
	case f.vague:
		return classify.Inferred
	case f.typed:
		return classify.Typed
	case f.agrees:
		return classify.Corroborated
	default:
		return classify.Inferred
	}
}

// maxExceptions bounds how many events of a span are looked at.
const maxExceptions = 32

// faultOf finds the error of a span: error.type, then the types of the exception
// events in their order; the first name whose meaning is known, else the first
// there is. A fixed text beside a name says more of it; it stands for itself where
// no name is known.
func faultOf(span ptrace.Span, errorType string) (f fault) {
	f.take(errorType)
	f.typed = f.known || f.status != 0
	var said failure
	var class string
	for i := range min(span.Events().Len(), maxExceptions) {
		event := span.Events().At(i)
		if event.Name() != otelsemconv.ExceptionEventName {
			continue
		}
		f.recorded = true
		var name, message string
		for key, v := range event.Attributes().All() {
			switch key {
			case string(otelsemconv.ExceptionTypeKey):
				name = text(v, maxString)
			case string(otelsemconv.ExceptionMessageKey):
				if v.Type() == pcommon.ValueTypeStr {
					message = v.Str()
				}
			}
		}
		if !f.typed {
			f.take(name)
			f.typed = f.known || f.status != 0
		}
		if t, ok := textOf(message, name); ok && !said.known() {
			said, class = t, name
		}
		if code := statuses[message]; code != 0 && f.status == 0 && f.name == "" {
			f.status = code
		}
	}
	if !said.known() {
		said, _ = textOf(span.Status().Message(), errorType)
	}
	switch {
	case !said.known():
	case !f.known && f.status == 0:
		f.failure, f.known, f.agrees = said, true, class != ""
	case f.transport != semconv.TransportCauseUnset && said.transport != semconv.TransportCauseUnset:
		f.failure = said // the name and its text: the text is the more precise
	}
	if f.status == 0 && !f.known && f.name == "" {
		f.status = statuses[span.Status().Message()]
	}
	return f
}

// take takes a name where no better one is known yet.
func (f *fault) take(name string) {
	if name == "" || f.known {
		return
	}
	if known, ok := failureOf(name); ok {
		f.failure, f.known, f.name = known, true, name
		return
	}
	if f.status == 0 {
		f.status = statusOf(name)
	}
	if f.name == "" {
		f.name = name
	}
}

// codeOf is the name of an error where it is fit to be a code, else empty.
func codeOf(name string) string {
	if code := classify.SanitizeCode(name); code != classify.Redacted {
		return code
	}
	return ""
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

// readTool reads a tool's span. keys are those of the call's id and the tool's
// name, in the producer's words.
func readTool(span ptrace.Span, t *classify.Tool, id, name string) {
	*t = classify.Tool{Start: at(span.StartTimestamp()), End: at(span.EndTimestamp())}
	for key, v := range span.Attributes().All() {
		switch key {
		case id:
			t.CallID = text(v, maxString)
		case name:
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
		if t.ErrorType == mcpToolError {
			t.Outcome = semconv.ToolOutcomeFailed
		}
	}
	f := faultOf(span, t.ErrorType)
	if t.ErrorType == "" {
		t.ErrorType = f.name
	}
	if t.Outcome != semconv.ToolOutcomeFailed {
		return
	}
	switch {
	case f.abort == semconv.AbortSourceDeadline, f.watchdog != semconv.WatchdogKindUnset:
		t.Outcome = semconv.ToolOutcomeTimedOut
	case f.abort != semconv.AbortSourceUnset:
		t.Outcome = semconv.ToolOutcomeInterrupted
	}
}

// mcpToolError is the error.type of an MCP result with isError.
const mcpToolError = "tool_error"

// readRun reads a run's span.
func readRun(span ptrace.Span, run *classify.Run) {
	*run = classify.Run{
		Start: at(span.StartTimestamp()), End: at(span.EndTimestamp()),
		Ended: classify.Yes, Failed: failed(span),
	}
	if v, ok := span.Attributes().Get(string(otelsemconv.ErrorTypeKey)); ok {
		run.ErrorType = text(v, maxString)
	}
	f := faultOf(span, run.ErrorType)
	if run.ErrorType == "" {
		run.ErrorType = f.name
	}
	run.Abort.Source = f.abort
}

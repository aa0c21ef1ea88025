package dialect

import (
	"iter"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// fault is what a span records of its error.
type fault struct {
	failure
	name     string // as it is recorded, or empty
	known    bool   // the meaning of the error is known: failure is set
	status   int    // an HTTP status in place of an error's name, or 0
	typed    bool   // the name itself is known, not only a text
	agrees   bool   // a text and the class to which it belongs agree
	recorded bool   // an exception is recorded
	early    bool   // an exception of a fetch that got no response
}

// basis is the evidence for a conclusion from the error.
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

// Bounds of the events of a span that are read: the last ones. Some producers write an event
// for each message of a history before the exception.
const (
	maxEvents     = 256
	maxExceptions = 32
)

// eventsOf are the events of a span in their order.
func eventsOf(span ptrace.Span) iter.Seq[ptrace.SpanEvent] {
	return func(yield func(ptrace.SpanEvent) bool) {
		n := span.Events().Len()
		for i := max(0, n-maxEvents); i < n; i++ {
			if !yield(span.Events().At(i)) {
				return
			}
		}
	}
}

// lastEvents are the events of a span, the last one first.
func lastEvents(span ptrace.Span) iter.Seq[ptrace.SpanEvent] {
	return func(yield func(ptrace.SpanEvent) bool) {
		n := span.Events().Len()
		for i := range min(n, maxEvents) {
			if !yield(span.Events().At(n - 1 - i)) {
				return
			}
		}
	}
}

// raised reports whether an exception is recorded on a span.
func raised(span ptrace.Span) bool {
	for event := range lastEvents(span) {
		if event.Name() == otelsemconv.ExceptionEventName {
			return true
		}
	}
	return false
}

// faultOf finds the error of a span: error.type, then the types of the exception events
// in their order; the first name whose meaning is known, else the first name. A fixed
// text beside a name is more precise than the name; it is used alone where no name is
// known.
func faultOf(span ptrace.Span, errorType string) (f fault) {
	f.typed = f.take(errorType)
	var said failure
	var class string
	exceptions := 0
	for event := range eventsOf(span) {
		if event.Name() != otelsemconv.ExceptionEventName {
			continue
		}
		if exceptions++; exceptions > maxExceptions {
			break
		}
		f.recorded = true
		var name, message string
		for key, v := range event.Attributes().All() {
			switch key {
			case string(otelsemconv.ExceptionTypeKey):
				name = text(v)
			case string(otelsemconv.ExceptionMessageKey):
				if v.Type() == pcommon.ValueTypeStr {
					message = v.Str()
				}
			}
		}
		f.early = f.early || message == fetchFailed && baseName(name) == "TypeError"
		if !f.typed {
			f.typed = f.take(name)
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

// vagueTexts are messages that a producer sets for every error.
var vagueTexts = map[string]bool{"AI SDK operation failed": true, "Error getting response": true, "Error in agent run": true}

// errorOf identifies the error of a span that failed, by its type and the message of its status.
func errorOf(span ptrace.Span, errorType string) classify.ErrorID {
	message := span.Status().Message()
	switch {
	case span.Status().Code() != ptrace.StatusCodeError:
		return classify.ErrorID{}
	case vagueTexts[message]:
		message = ""
	}
	return classify.IdentifyError(errorType, message)
}

// take takes a name if no better one is known yet, and reports whether its meaning is
// known.
func (f *fault) take(name string) bool {
	if name == "" || f.known {
		return false
	}
	if known, ok := failureOf(name); ok {
		f.failure, f.known, f.name = known, true, name
		return true
	}
	if f.name == "" {
		f.name = name
	}
	status := statusOf(name)
	if f.status == 0 {
		f.status = status
	}
	return status != 0
}

// codeOf is the name of an error if it may be recorded as a code, else empty.
func codeOf(name string) string {
	if code := classify.SanitizeCode(name); code != classify.Redacted {
		return code
	}
	return ""
}

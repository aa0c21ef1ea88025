package dialect

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Values of finish reasons that are not reasons of a model.
const (
	finishError       = "error"
	finishInterrupted = "interrupted"
	finishStop        = "stop"
	finishOther       = "other" // the AI SDK's, also for a stream that ended without a finish reason
	finishUnknown     = "unknown"
)

// ending is what a request's span records about how the request ended. A dialect
// fills it in its pass over the attributes and draws its own conclusions.
type ending struct {
	fault
	errorType string
	streamed  bool
	responded bool     // a part of a response is recorded
	reasons   []string // nil where no finish reason is recorded
	unset     bool     // the status is UNSET
}

// begin reads what every request's span has.
func (e *ending) begin(span ptrace.Span, r *classify.Request) {
	*r = classify.Request{
		Start: at(span.StartTimestamp()), End: at(span.EndTimestamp()),
		Phase: semconv.PhaseUnknown, Failed: failed(span),
	}
	e.unset = span.Status().Code() == ptrace.StatusCodeUnset
}

// read reads the attributes of the conventions.
func (e *ending) read(key string, v pcommon.Value, r *classify.Request) {
	switch key {
	case string(otelsemconv.GenAIRequestStreamKey):
		e.streamed = e.streamed || boolean(v)
	case string(otelsemconv.GenAIResponseFinishReasonsKey):
		e.reasons = list(v, nil)
	case string(otelsemconv.HTTPResponseStatusCodeKey):
		r.Status = status(v)
	case string(otelsemconv.GenAIResponseIDKey):
		e.responded = e.responded || text(v, maxString) != ""
	case string(otelsemconv.ErrorTypeKey):
		e.errorType = text(v, maxString)
	}
}

// finish is for a producer that records one finish reason as a string.
func (e *ending) finish(v pcommon.Value) {
	e.reasons = nil
	e.addFinish(v)
}

// addFinish is for a producer that may record it under several keys.
func (e *ending) addFinish(v pcommon.Value) {
	switch reason := text(v, maxWord); reason {
	case "", "None", "null": // as languages write a missing value
	default:
		e.reasons = append(e.reasons, reason)
	}
}

// end completes the pass over the attributes.
func (e *ending) end(span ptrace.Span, r *classify.Request) {
	r.Finish = classify.ParseFinish(e.reasons)
	e.fault = faultOf(span, e.errorType)
	if r.Status == 0 {
		r.Status = e.fault.status
	}
}

// has reports whether the finish reasons name this one.
func (e *ending) has(reason string) bool { return slices.Contains(e.reasons, reason) }

// conclude draws the conclusions that hold for every producer that marks failures: from an
// HTTP status, the name of an error, a finish reason. It reports whether there were any.
func (e *ending) conclude(r *classify.Request) bool {
	switch {
	case r.Status >= 400:
		e.refused(r)
	case e.known && (r.Failed == classify.Yes || e.unset && (e.errorType != "" || r.Finish <= classify.FinishMissing)):
		// From an exception on a span with a finish reason the producer has recovered.
		e.apply(r)
	case r.Failed == classify.Yes: // the reason is not recorded
		return false
	case r.Finish > classify.FinishMissing:
		r.Ended, r.Basis, r.Phase = semconv.StreamEndTerminalEvent, classify.Typed, semconv.PhaseStreamEnd
	default:
		return false
	}
	return true
}

// refused is for a response that was an HTTP error.
func (e *ending) refused(r *classify.Request) {
	r.Ended, r.Basis, r.Phase = semconv.StreamEndHTTPError, e.basis(), semconv.PhaseResponseStarted
	r.Provider.Kind = classify.ProviderErrorKind(r.Status, e.name)
	if e.provider != semconv.ProviderErrorKindUnset {
		r.Provider.Kind = e.provider
	}
	r.Provider.Code = codeOf(e.name)
}

// apply writes what the error shows of how the request ended.
func (e *ending) apply(r *classify.Request) {
	r.Basis = e.basis()
	switch {
	case e.abort != semconv.AbortSourceUnset:
		r.Ended, r.Abort.Source = semconv.StreamEndCancelled, e.abort
	case e.watchdog != semconv.WatchdogKindUnset:
		r.Ended, r.Watchdog.Kind = semconv.StreamEndWatchdog, e.watchdog
	case e.provider != semconv.ProviderErrorKindUnset:
		r.Provider.Kind, r.Provider.Code = e.provider, codeOf(e.name)
	case e.unstaged && (e.responded || r.Status > 0):
		r.Ended, r.Basis = semconv.StreamEndReadError, classify.Corroborated // there was a response
	case e.unstaged, e.timer:
		// It may have failed before a connection was made or later: several classes, and
		// no evidence for one of them.
		r.Failed, r.Basis = classify.Yes, classify.Inferred
	case e.failure.end != semconv.StreamEndUnset:
		r.Ended = e.failure.end
	default:
		r.Transport.Cause, r.Transport.Code = e.transport, e.failure.code
		if r.Transport.Code == "" && e.typed {
			r.Transport.Code = codeOf(e.name)
		}
		if classify.BeforeConnection(e.transport) && (e.responded || r.Status > 0) {
			// There was a connection, and a response to break.
			r.Transport.Cause, r.Ended = semconv.TransportCauseUnset, semconv.StreamEndReadError
			r.Basis = min(r.Basis, classify.Corroborated)
		}
	}
}

// failed is the status that the producer set.
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

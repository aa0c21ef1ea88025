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
	responded bool     // something of a response was recorded
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
		s.reasons = list(v, nil)
	case string(otelsemconv.HTTPResponseStatusCodeKey):
		r.Status = status(v)
	case string(otelsemconv.GenAIResponseIDKey):
		s.responded = s.responded || text(v, maxString) != ""
	case string(otelsemconv.ErrorTypeKey):
		s.errorType = text(v, maxString)
	}
}

// finish is for a producer that records one finish reason as a string.
func (s *signs) finish(v pcommon.Value) {
	s.reasons = nil
	s.addFinish(v)
}

// addFinish is for one that may record it under several keys.
func (s *signs) addFinish(v pcommon.Value) {
	switch reason := text(v, maxWord); reason {
	case "", "None", "null": // as languages write nothing
	default:
		s.reasons = append(s.reasons, reason)
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
	case s.unstaged && (s.responded || r.Status > 0):
		r.Ended, r.Basis = semconv.StreamEndReadError, classify.Corroborated // there was a response to break
	case s.unstaged, s.timer:
		// It may have broken before a connection or later: several classes, and
		// nothing to choose by.
		r.Failed, r.Basis = classify.Yes, classify.Inferred
	case s.failure.end != semconv.StreamEndUnset:
		r.Ended = s.failure.end
	default:
		r.Transport.Cause, r.Transport.Code = s.transport, s.failure.code
		if r.Transport.Code == "" && s.typed {
			r.Transport.Code = codeOf(s.name)
		}
		if noConnection(s.transport) && (s.responded || r.Status > 0) {
			// There was a connection, and a response to break.
			r.Transport.Cause, r.Ended = semconv.TransportCauseUnset, semconv.StreamEndReadError
			r.Basis = min(r.Basis, classify.Corroborated)
		}
	}
}

// noConnection: the cause says that there was no connection.
func noConnection(c semconv.TransportCause) bool {
	switch c {
	case semconv.TransportCauseDNSNotFound, semconv.TransportCauseDNSTemporary, semconv.TransportCauseConnectRefused,
		semconv.TransportCauseConnectUnreachable, semconv.TransportCauseConnectTimeout, semconv.TransportCauseTLS, semconv.TransportCauseProxy:
		return true
	default:
		return false
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

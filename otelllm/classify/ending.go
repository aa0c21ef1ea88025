package classify

import "github.com/otelllm/otelllm-go/semconv"

// ending is everything that the class table reads of one request.
type ending struct {
	watchdog  semconv.WatchdogKind
	abort     semconv.AbortSource
	end       semconv.StreamEnd
	provider  semconv.ProviderErrorKind // also set by an HTTP status >= 400 alone
	transport semconv.TransportCause
	finish    Finish
	content   Fact // anything at all came: text, reasoning, a tool input, a provider tool
	failed    Fact // how the producer marked it
	upstream  Upstream
	connected Fact          // a connection had been made: false only before_connection
	history   semconv.Cause // what is wrong with the history that the provider refused; unset: nothing that shows
}

// what is a row of the class table.
type classification struct {
	class  semconv.Class
	cause  semconv.Cause
	origin semconv.Origin
}

// endingOf abstracts the facts that say how a request ended.
func endingOf(r *Request) ending {
	e := ending{
		watchdog:  r.Watchdog.Kind,
		abort:     r.Abort.Source,
		end:       r.Ended,
		provider:  r.Provider.Kind,
		transport: r.Transport.Cause,
		finish:    r.Finish,
		content:   content(r),
		failed:    r.Failed,
		upstream:  r.Upstream,
		connected: NotObserved,
	}
	if e.provider == semconv.ProviderErrorKindUnset && r.Status >= 400 && !r.answerCutOff() {
		e.provider = ProviderErrorKind(r.Status, r.Provider.Code)
	}
	e.provider = KindByWait(e.provider, r.Status, r.Provider.Code, r.RetryAfter)
	if e.provider != semconv.ProviderErrorKindUnset {
		e.history = r.brokenHistory(e.provider)
	}
	switch r.Phase {
	case semconv.PhaseUnset, semconv.PhaseUnknown:
	default:
		e.connected = FactOf(r.Phase != semconv.PhaseBeforeConnection)
	}
	if failsConnection(e.transport) && e.connected == Yes {
		// A transport that sends again what it had sent before (net/http does so by
		// itself) reports its last try. What broke is the connection that the request
		// went out on.
		e.transport = semconv.TransportCauseConnectionLost
		if r.Phase == semconv.PhaseAwaitingResponse {
			e.transport = semconv.TransportCauseClosedBeforeHeaders
		}
	}
	return e
}

// brokenOff: the provider's own answer never came, or not whole. A status beside
// that is a gateway's word for it (502), not the provider's.
func (r *Request) answerCutOff() bool {
	switch r.Ended {
	case semconv.StreamEndNoResponse, semconv.StreamEndReadError, semconv.StreamEndEOF, semconv.StreamEndWatchdog:
		return true
	default:
		return false
	}
}

// content reports whether anything of an answer came.
func content(r *Request) Fact {
	seen := No
	for _, c := range [...]Count{r.Text, r.Reasoning, r.ToolInputsStarted, r.ToolCalls, r.ProviderToolsStarted} {
		switch c.atLeast(r.mayHoldMore()).Fact() {
		case Yes:
			return Yes
		case NotObserved:
			seen = NotObserved
		case No:
		}
	}
	return seen
}

// doubtful: the response may hold more than was counted. A reason for its end that is
// not known comes from a version of the protocol that is not known either.
func (r *Request) mayHoldMore() bool { return r.Unread || r.Finish == FinishOther }

// what is the class table: the first row that holds decides. It returns the zero
// value for a request that nothing is known to have failed in.
//
// What began first is the cause. An error of the provider or bytes that are not
// the protocol can only have been read before this side let go of the stream, so
// an untyped local end after them is their cleanup; a typed abort is not.
func (e ending) classify() classification {
	switch {
	case e.watchdog != semconv.WatchdogKindUnset, e.end == semconv.StreamEndWatchdog, e.abort == semconv.AbortSourceWatchdog:
		return classification{semconv.ClassWatchdogTimeout, watchdogCause(e.watchdog), semconv.OriginWatchdog}

	case e.abort != semconv.AbortSourceUnset || e.endedLocally() && e.provider == semconv.ProviderErrorKindUnset && !e.violatesProtocol():
		return classification{semconv.ClassLocalAbort, abortCause(e.abort), semconv.OriginLocal}

	case e.history != semconv.CauseUnset:
		return classification{semconv.ClassHistoryBroken, e.history, semconv.OriginApplication}

	case e.provider != semconv.ProviderErrorKindUnset || e.end == semconv.StreamEndHTTPError:
		return e.upstream.providerFailure(e.provider)

	case e.transport == semconv.TransportCauseInvalidURL, e.transport == semconv.TransportCauseInvalidRequest:
		return classification{semconv.ClassApplicationError, transportCause(e.transport), semconv.OriginApplication}

	case failsConnection(e.transport),
		e.end == semconv.StreamEndNoResponse && e.transport == semconv.TransportCauseUnset && e.connected == No:
		return classification{semconv.ClassConnectionFailed, transportCause(e.transport), semconv.OriginTransport}

	case interrupts(e.transport),
		e.transport == semconv.TransportCauseUnset && (e.end == semconv.StreamEndReadError || e.end == semconv.StreamEndNoResponse):
		return classification{semconv.ClassStreamInterrupted, transportCause(e.transport), semconv.OriginTransport}

	case e.violatesProtocol():
		return classification{semconv.ClassProtocolViolation, transportCause(e.transport), semconv.OriginProvider}

	case e.end == semconv.StreamEndEOF,
		e.end == semconv.StreamEndTerminalEvent && e.finish == FinishMissing && e.content != No:
		// A clean end without the protocol's word that the answer is whole; [DONE] is no such word.
		return classification{semconv.ClassStreamInterrupted, semconv.CauseCleanEOF, semconv.OriginTransport}

	case e.complete() && e.finish.limited() != semconv.CauseUnset:
		return classification{semconv.ClassOutputLimited, e.finish.limited(), semconv.OriginProvider}

	case e.empty() && e.upstream.Failed == Yes:
		return classification{semconv.ClassEmptyCompletion, semconv.CauseSwallowedError, semconv.OriginGateway}

	case e.empty():
		return classification{semconv.ClassEmptyCompletion, semconv.CauseNoContent, semconv.OriginProvider}

	case e.failed == Yes:
		return classification{semconv.ClassUnclassified, semconv.CauseUnknown, semconv.OriginUnknown}

	default:
		return classification{}
	}
}

// empty: the answer came to its end with nothing in it, while output was due.
func (e ending) empty() bool {
	return e.complete() && e.content == No && e.finish != FinishNothingDue && e.finish != FinishWaiting
}

// behind is the class of an error status or an error event of this kind. A gateway
// reports as its own error what its upstream came to: the request that it made for this
// one shows what happened, and whose doing it was.
func (u Upstream) providerFailure(kind semconv.ProviderErrorKind) classification {
	c := classification{semconv.ClassProviderError, providerCause(kind), semconv.OriginProvider}
	if u.Failed != Yes {
		return c
	}
	switch kind {
	case semconv.ProviderErrorKindServerError, semconv.ProviderErrorKindOverloaded, semconv.ProviderErrorKindTimeout,
		semconv.ProviderErrorKindCancelled, semconv.ProviderErrorKindUnknown, semconv.ProviderErrorKindUnset:
	default:
		return c // a refusal of the request, which a gateway may well make itself
	}
	switch u.Class {
	case semconv.ClassWatchdogTimeout, semconv.ClassProviderError, semconv.ClassConnectionFailed, semconv.ClassStreamInterrupted,
		semconv.ClassProtocolViolation:
		return classification{u.Class, u.Cause, u.Origin}
	default:
		c.origin = semconv.OriginGateway
		return c
	}
}

// letGo: this side ended the stream, on any request.
func (e ending) endedLocally() bool {
	switch e.end {
	case semconv.StreamEndCancelled, semconv.StreamEndConsumerClosed, semconv.StreamEndAbandoned:
		return true
	default:
		return e.transport == semconv.TransportCauseCancelled
	}
}

// violated: the bytes were not the protocol.
func (e ending) violatesProtocol() bool {
	switch e.transport {
	case semconv.TransportCauseMalformedEvent, semconv.TransportCauseEventTooLong, semconv.TransportCauseUnexpectedContentType:
		return true
	default:
		return false
	}
}

// complete: the answer came to the end that the protocol has for it.
func (e ending) complete() bool {
	switch e.end {
	case semconv.StreamEndTerminalEvent:
		return true
	case semconv.StreamEndUnset: // a producer that records no ending, but a finish reason
		return e.finish > FinishMissing
	default:
		return false
	}
}

// succeeded: nothing failed, and that is known, not assumed. It is asked only
// where [ending.what] names no class.
func (e ending) succeeded() bool {
	return e.complete() || e.failed == No
}

// failsConnection: no request byte left this side on that try.
func failsConnection(c semconv.TransportCause) bool {
	switch c {
	case semconv.TransportCauseDNSNotFound, semconv.TransportCauseDNSTemporary,
		semconv.TransportCauseConnectRefused, semconv.TransportCauseConnectUnreachable, semconv.TransportCauseConnectTimeout,
		semconv.TransportCauseTLS, semconv.TransportCauseProxy, semconv.TransportCauseProxyRefused:
		return true
	default:
		return false
	}
}

// interrupts: the transport broke after the connection had been made.
func interrupts(c semconv.TransportCause) bool {
	switch c {
	case semconv.TransportCauseWriteFailed, semconv.TransportCauseClosedBeforeHeaders, semconv.TransportCauseHeaderTimeout,
		semconv.TransportCauseBodyTruncated, semconv.TransportCauseConnectionReset, semconv.TransportCauseH2StreamReset,
		semconv.TransportCauseH2Goaway, semconv.TransportCauseConnectionLost, semconv.TransportCauseCleanEOF:
		return true
	default:
		return false
	}
}

// causeOf is the failure cause of the same name as another enum's value.
func causeOf(name string) semconv.Cause {
	if c, ok := semconv.ParseCause(name); ok {
		return c
	}
	return semconv.CauseUnknown
}

func transportCause(c semconv.TransportCause) semconv.Cause   { return causeOf(c.String()) }
func providerCause(k semconv.ProviderErrorKind) semconv.Cause { return causeOf(k.String()) }
func watchdogCause(k semconv.WatchdogKind) semconv.Cause      { return causeOf(k.String()) }

func abortCause(s semconv.AbortSource) semconv.Cause {
	if s == semconv.AbortSourceConsumer {
		return semconv.CauseConsumerClosed
	}
	return causeOf(s.String())
}

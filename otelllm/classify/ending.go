package classify

import "github.com/otelllm/otelllm-go/semconv"

// ending is everything that the class table reads about one request.
type ending struct {
	watchdog  semconv.WatchdogKind
	abort     semconv.AbortSource
	end       semconv.StreamEnd
	provider  semconv.ProviderErrorKind // also set by an HTTP status >= 400 alone
	transport semconv.TransportCause
	finish    Finish
	answer    answer
	failed    Fact // whether the producer marked the request as failed
	upstream  Upstream
	connected Fact          // whether a connection was made; No only in phase before_connection
	history   semconv.Cause // what is wrong with the history that the provider refused; unset if nothing shows that
	inFront   bool          // the error is that of a server in front of the provider
}

// answer is what arrived of an answer, as far as the class table asks.
type answer uint8

const (
	answerUnknown   answer = iota // it is not known whether anything did
	answerNone                    // nothing
	answerReasoning               // nothing but reasoning
	answerText                    // text, and no call
	answerCalls                   // calls, or something that may be one
	answerInvalid                 // a call whose input is not JSON
)

// classification is the result of the class table.
type classification struct {
	class  semconv.Class
	cause  semconv.Cause
	origin semconv.Origin
}

// endingOf reduces the facts of a request to those that decide how it ended.
func endingOf(r *Request) ending {
	e := ending{
		watchdog:  r.Watchdog.Kind,
		abort:     r.Abort.Source,
		end:       r.Ended,
		provider:  r.Provider.Kind,
		transport: r.Transport.Cause,
		finish:    r.finish(),
		answer:    r.answer(),
		failed:    r.Failed,
		upstream:  r.Upstream,
		connected: NotObserved,
		inFront:   r.Provider.Intermediary,
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
	if BeforeConnection(e.transport) && e.connected == Yes {
		// A transport that resends a request by itself, as net/http does, reports the
		// error of its last attempt. The failure is that of the connection on which the
		// request was sent.
		e.transport = semconv.TransportCauseConnectionLost
		if r.Phase == semconv.PhaseAwaitingResponse {
			e.transport = semconv.TransportCauseClosedBeforeHeaders
		}
	}
	return e
}

// finish returns the meaning of the finish reasons for what the request asked for. A request
// for at most one token is a probe, or warms a cache: that it reached its limit is what was
// asked for. After the outputs of tools a model may end its turn without a word
// (https://docs.claude.com/en/api/handling-stop-reasons). An answer with a call whose input is
// not JSON, and with as many tokens as were asked for, was cut by that limit, whatever reason
// the server gives (https://github.com/vllm-project/vllm/issues/53269).
func (r *Request) finish() Finish {
	switch limit := r.MaxTokens; {
	case r.ToolInputsInvalid.N() > 0 && limit.Observed() && r.OutputTokens.Observed() && r.OutputTokens.N() >= limit.N():
		return FinishMaxTokens
	case limit.Observed() && limit.N() <= 1 && (r.Finish == FinishMaxTokens || r.Finish == FinishLimited),
		limit.Observed() && limit.N() == 0 && r.Finish == FinishStop,
		r.HistoryEndsWithOutputs && r.Finish == FinishStop:
		return FinishNothingDue
	default:
		return r.Finish
	}
}

// answerCutOff reports whether the provider's own answer never arrived, or only in part. A
// status recorded beside that (502) comes from a gateway, not from the provider.
func (r *Request) answerCutOff() bool {
	switch r.Ended {
	case semconv.StreamEndNoResponse, semconv.StreamEndReadError, semconv.StreamEndEOF, semconv.StreamEndWatchdog:
		return true
	default:
		return false
	}
}

// answer returns what arrived of the answer.
func (r *Request) answer() answer {
	called := r.anyOf(r.ToolInputsStarted, r.ToolCalls, r.ProviderToolsStarted)
	text, reasoning := r.anyOf(r.Text), r.anyOf(r.Reasoning)
	switch {
	case r.ToolInputsInvalid.N() > 0:
		return answerInvalid
	case called == No && text == Yes:
		return answerText
	case called == Yes || text == Yes:
		return answerCalls
	case called == NotObserved || text == NotObserved:
		if reasoning == Yes {
			return answerCalls
		}
		return answerUnknown
	case reasoning == Yes:
		return answerReasoning
	case reasoning == NotObserved:
		return answerUnknown
	default:
		return answerNone
	}
}

// anyOf reports whether any of these parts of an answer arrived.
func (r *Request) anyOf(parts ...Count) Fact {
	seen := No
	for _, c := range parts {
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

// mayHoldMore reports whether the response may contain more than was counted: a part could
// not be decoded, or the finish reason is unknown, which means that the version of the
// protocol is unknown too.
func (r *Request) mayHoldMore() bool { return r.Unread || r.Finish == FinishOther }

// classify is the class table: the first matching row decides. It returns the zero value
// if the request is not known to have failed.
//
// The first event is the cause. A provider error or a protocol violation can only have
// been read before this side closed the stream, so an untyped local end after it is
// cleanup. A typed abort is not: it always decides.
func (e ending) classify() classification {
	switch {
	case e.watchdog != semconv.WatchdogKindUnset, e.end == semconv.StreamEndWatchdog, e.abort == semconv.AbortSourceWatchdog:
		return classification{semconv.ClassWatchdogTimeout, watchdogCause(e.watchdog), semconv.OriginWatchdog}

	case e.abort != semconv.AbortSourceUnset || e.endedLocally() && e.provider == semconv.ProviderErrorKindUnset && !e.violatesProtocol():
		return classification{semconv.ClassLocalAbort, abortCause(e.abort), semconv.OriginLocal}

	case e.history != semconv.CauseUnset:
		return classification{semconv.ClassHistoryBroken, e.history, semconv.OriginApplication}

	case e.provider != semconv.ProviderErrorKindUnset || e.end == semconv.StreamEndHTTPError:
		c := e.upstream.providerFailure(e.provider)
		if e.inFront && c.origin == semconv.OriginProvider {
			c.origin = semconv.OriginGateway
		}
		return c

	case e.transport == semconv.TransportCauseInvalidURL, e.transport == semconv.TransportCauseInvalidRequest:
		return classification{semconv.ClassApplicationError, transportCause(e.transport), semconv.OriginApplication}

	case e.upstream.shutDown() && e.brokeOff():
		return classification{semconv.ClassStreamInterrupted, semconv.CauseShutdown, semconv.OriginGateway}

	case BeforeConnection(e.transport),
		e.end == semconv.StreamEndNoResponse && e.transport == semconv.TransportCauseUnset && e.connected == No:
		return classification{semconv.ClassConnectionFailed, transportCause(e.transport), semconv.OriginTransport}

	case interrupts(e.transport),
		e.transport == semconv.TransportCauseUnset && (e.end == semconv.StreamEndReadError || e.end == semconv.StreamEndNoResponse):
		return classification{semconv.ClassStreamInterrupted, transportCause(e.transport), semconv.OriginTransport}

	case e.violatesProtocol():
		c := classification{semconv.ClassProtocolViolation, transportCause(e.transport), semconv.OriginProvider}
		if e.inFront {
			c.origin = semconv.OriginGateway
		}
		return c

	case e.end == semconv.StreamEndEOF,
		e.end == semconv.StreamEndTerminalEvent && e.finish == FinishMissing && e.answer != answerNone:
		// The stream closed cleanly, but the protocol did not confirm that the answer is
		// complete. [DONE] does not confirm it.
		return classification{semconv.ClassStreamInterrupted, semconv.CauseCleanEOF, semconv.OriginTransport}

	case e.complete() && e.finish.limited() != semconv.CauseUnset:
		return classification{semconv.ClassOutputLimited, e.finish.limited(), semconv.OriginProvider}

	case e.complete() && e.finish == FinishOther:
		return classification{semconv.ClassProviderError, semconv.CauseUnknownEnd, semconv.OriginProvider}

	case e.complete() && (e.answer == answerInvalid || e.answer == answerText && e.finish == FinishToolCalls):
		return classification{semconv.ClassProtocolViolation, semconv.CauseInvalidToolInput, semconv.OriginProvider}

	case e.empty():
		return e.emptiness()

	case e.failed == Yes:
		return classification{semconv.ClassUnclassified, semconv.CauseUnknown, semconv.OriginUnknown}

	default:
		return classification{}
	}
}

// brokeOff reports whether the connection was lost after it was made, or the stream closed
// without its last event.
func (e ending) brokeOff() bool {
	switch {
	case e.connected == No, BeforeConnection(e.transport), e.violatesProtocol():
		return false
	case interrupts(e.transport):
		return true
	default:
		return e.end == semconv.StreamEndReadError || e.end == semconv.StreamEndNoResponse || e.end == semconv.StreamEndEOF
	}
}

// shutDown reports whether the gateway ended its own request because its process was shut
// down. What the agent got from it broke off for the same reason.
func (u Upstream) shutDown() bool {
	return u.Failed == Yes && u.Class == semconv.ClassLocalAbort && u.Cause == semconv.CauseShutdown
}

// empty reports whether the answer is complete and has no content but reasoning, although
// content was due.
func (e ending) empty() bool {
	due := e.finish != FinishNothingDue && e.finish != FinishCompacted && e.finish != FinishWaiting
	return e.complete() && due && (e.answer == answerNone || e.answer == answerReasoning)
}

// emptiness returns the classification of an empty answer. A gateway that got a failure of its
// upstream hid it. One that got an empty answer has passed it on, and so is not to blame.
func (e ending) emptiness() classification {
	switch up := e.upstream; {
	case up.Failed == Yes && up.Class == semconv.ClassEmptyCompletion:
		return classification{up.Class, up.Cause, up.Origin}
	case up.Failed == Yes:
		return classification{semconv.ClassEmptyCompletion, semconv.CauseSwallowedError, semconv.OriginGateway}
	case e.answer == answerReasoning:
		return classification{semconv.ClassEmptyCompletion, semconv.CauseReasoningOnly, semconv.OriginProvider}
	default:
		return classification{semconv.ClassEmptyCompletion, semconv.CauseNoContent, semconv.OriginProvider}
	}
}

// providerFailure returns the classification of an error status or an error event of this
// kind. A gateway reports a failure of its upstream as its own error. If the gateway's
// request to that upstream was observed, its classification replaces the gateway's.
func (u Upstream) providerFailure(kind semconv.ProviderErrorKind) classification {
	c := classification{semconv.ClassProviderError, providerCause(kind), semconv.OriginProvider}
	if u.Failed == NotObserved {
		return c
	}
	switch kind {
	case semconv.ProviderErrorKindServerError, semconv.ProviderErrorKindOverloaded, semconv.ProviderErrorKindTimeout,
		semconv.ProviderErrorKindCancelled, semconv.ProviderErrorKindUnknown, semconv.ProviderErrorKindUnset:
	default:
		return c // a refusal of the request, which may be the gateway's own
	}
	if u.Failed == No {
		c.origin = semconv.OriginGateway // its upstream has answered: the error is its own
		return c
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

// gotErrorOf reports whether the request got an error of a gateway, and c is the classification of
// the gateway's own request, which is another failure than that error.
func (r *Request) gotErrorOf(c classification) bool {
	up := r.Upstream
	return (r.Ended == semconv.StreamEndHTTPError || r.Provider.Kind != semconv.ProviderErrorKindUnset) &&
		up.Failed == Yes && c.class != semconv.ClassProviderError && c == classification{up.Class, up.Cause, up.Origin}
}

// endedLocally reports whether this side ended the stream, for whatever reason.
func (e ending) endedLocally() bool {
	switch e.end {
	case semconv.StreamEndCancelled, semconv.StreamEndConsumerClosed, semconv.StreamEndAbandoned:
		return true
	default:
		return e.transport == semconv.TransportCauseCancelled
	}
}

// violatesProtocol reports whether the bytes received did not follow the protocol.
func (e ending) violatesProtocol() bool { return ViolatesProtocol(e.transport) }

// ViolatesProtocol reports whether a transport cause means that the bytes received did not
// follow the protocol.
func ViolatesProtocol(c semconv.TransportCause) bool {
	switch c {
	case semconv.TransportCauseMalformedEvent, semconv.TransportCauseEventTooLong, semconv.TransportCauseUnexpectedContentType:
		return true
	default:
		return false
	}
}

// complete reports whether the answer reached the end that the protocol defines.
func (e ending) complete() bool {
	switch e.end {
	case semconv.StreamEndTerminalEvent:
		return true
	case semconv.StreamEndUnset: // the producer records no ending, but a finish reason
		return e.finish > FinishMissing
	default:
		return false
	}
}

// succeeded reports whether the request is known, not only assumed, to have succeeded.
// Call it only if [ending.classify] returns no class.
func (e ending) succeeded() bool {
	return e.complete() || e.failed == No
}

// BeforeConnection reports whether a transport cause means that the attempt failed before
// a connection was made: no byte of the request left this side on that attempt.
func BeforeConnection(c semconv.TransportCause) bool {
	switch c {
	case semconv.TransportCauseDNSNotFound, semconv.TransportCauseDNSTemporary,
		semconv.TransportCauseConnectRefused, semconv.TransportCauseConnectUnreachable, semconv.TransportCauseConnectTimeout,
		semconv.TransportCauseTLS, semconv.TransportCauseProxy, semconv.TransportCauseProxyRefused:
		return true
	default:
		return false
	}
}

// interrupts reports whether the transport failed after the connection was made.
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

// causeOf returns the failure cause that has the same name as a value of another enum.
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

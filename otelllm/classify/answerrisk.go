package classify

import "github.com/otelllm/otelllm-go/semconv"

// readyCalls returns how many calls the response made or may have made: a call may be
// executed as soon as its input is complete. The number is not known if the producer does
// not count and an answer may have arrived, or more calls than its list has room for, or if
// the response may contain more than was counted.
func (r *Request) readyCalls() (n int, known bool) {
	n = max(r.ToolCalls.N(), r.ToolInputsCompleted.N(), len(r.CallIDs))
	counted := r.ToolCalls.Observed() || r.ToolInputsCompleted.Observed()
	listed := n > 0 && len(r.CallIDs) < MaxIDs
	return n, !r.mayHoldMore() && (counted || listed) || r.cannotHaveAnswer()
}

// callState is what happened to the calls that the model made.
type callState uint8

// addResponse adds what the response of one request shows.
func (j *judge) addResponse(k *risk, pos int) {
	r := j.requestAt(int32(pos))
	barren, doubtful := r.cannotHaveAnswer(), r.mayHoldMore()
	seen := func(c Count) Fact {
		fact := c.atLeast(doubtful).Fact()
		if barren && fact == NotObserved {
			return No
		}
		return fact
	}
	k.sent = worse(k.sent, r.sent())
	k.text = worse(k.text, seen(r.Text))
	k.reasoning = worse(k.reasoning, seen(r.Reasoning))
	k.toolInput = worse(k.toolInput, seen(r.ToolInputsStarted))
	k.calls = max(k.calls, j.callState(pos))
	k.providerTools = max(k.providerTools, r.providerTools())
	k.continues = k.continues || r.continues()
	k.partsMissing = k.partsMissing || r.Open // it may show text, or hand over a call, at any moment
}

// refused reports whether the provider did not accept the request: it refused it, or redirected the
// client. A timeout or a server error does not show that.
func (r *Request) refused() bool {
	return r.redirected() || r.Status >= 400 && r.Status < 500 && r.Status != 408
}

// redirected reports whether the answer is that the request has to be sent to another place.
func (r *Request) redirected() bool {
	switch r.Status {
	case 301, 302, 307, 308: // not 303, which follows work that was done
		return true
	default:
		return false
	}
}

// continues reports whether the provider continues to process the request although its
// stream is gone or never existed.
func (r *Request) continues() bool {
	return r.Background && r.sent() != No && !r.refused() &&
		(!r.reachedProtocolEnd() || r.Finish == FinishWaiting || r.Provider.InBand)
}

// sent reports whether any part of the request left this side.
func (r *Request) sent() Fact {
	switch {
	case r.Status > 0:
		return Yes
	case r.Phase == semconv.PhaseBeforeConnection:
		return No
	case r.Phase != semconv.PhaseUnset && r.Phase != semconv.PhaseUnknown:
		return Yes // on an earlier attempt, even if the last one failed to connect
	case BeforeConnection(r.Transport.Cause):
		return No
	default:
		return NotObserved
	}
}

// mayHaveStartedCall reports whether the response may have begun the input of a call.
func (r *Request) mayHaveStartedCall() bool {
	return !r.cannotHaveAnswer() && r.ToolInputsStarted.Fact() != No
}

// cannotHaveAnswer reports whether no part of an answer can have arrived, whether or not
// the parts were counted.
func (r *Request) cannotHaveAnswer() bool {
	switch r.Phase {
	case semconv.PhaseBeforeConnection, semconv.PhaseAwaitingResponse:
		return true
	case semconv.PhaseUnset, semconv.PhaseUnknown:
	default:
		return r.Status >= 400 || r.redirected()
	}
	switch r.Transport.Cause {
	case semconv.TransportCauseClosedBeforeHeaders, semconv.TransportCauseHeaderTimeout, semconv.TransportCauseWriteFailed:
		return true
	}
	return r.Status >= 400 || r.redirected() || r.Ended == semconv.StreamEndHTTPError || r.Ended == semconv.StreamEndNoResponse ||
		BeforeConnection(r.Transport.Cause) || r.Watchdog.Kind == semconv.WatchdogKindConnect
}

// reachedProtocolEnd reports whether the response reached the end that the protocol
// defines, with success or with an error. A [DONE] without a finish reason is not such an
// end.
func (r *Request) reachedProtocolEnd() bool {
	switch r.Ended {
	case semconv.StreamEndTerminalEvent:
		return r.Finish != FinishMissing || r.Provider.Kind != semconv.ProviderErrorKindUnset
	case semconv.StreamEndUnset:
		return r.Finish > FinishMissing
	default:
		return false
	}
}

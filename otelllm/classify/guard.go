package classify

import "github.com/otelllm/otelllm-go/semconv"

// guard requires a minimum level of safety if its condition is met.
type guard struct {
	reason semconv.RetryReason
	level  semconv.RetrySafety
	asks   func(*risk) bool
}

// guards are in order of precedence. The verdict is the highest level that any guard
// requires; the first guard at that level gives the reason. One more side effect, or one
// observation less, can therefore never make a retry safer.
var guards = [...]guard{
	{semconv.RetryReasonUserAbort, NoRetry, func(k *risk) bool {
		return k.abort == semconv.AbortSourceUser
	}},
	{semconv.RetryReasonLocalShutdown, NoRetry, func(k *risk) bool {
		return k.abort == semconv.AbortSourceShutdown || k.abort == semconv.AbortSourceApplication
	}},
	{semconv.RetryReasonNotTransient, NoRetry, func(k *risk) bool {
		return !transient(k)
	}},
	{semconv.RetryReasonToolSideEffect, UserConfirmedRetry, func(k *risk) bool {
		return k.started.has(semconv.ToolEffectNonIdempotent)
	}},
	{semconv.RetryReasonToolStateUnknown, UserConfirmedRetry, func(k *risk) bool {
		return k.calls == callsUnknown || k.started.has(semconv.ToolEffectUnknown)
	}},
	{semconv.RetryReasonProviderToolSideEffect, UserConfirmedRetry, func(k *risk) bool {
		return k.providerTools == providerToolsPossible || k.providerTools == providerToolsBegan
	}},
	{semconv.RetryReasonHistoryIncomplete, UserConfirmedRetry, func(k *risk) bool {
		return k.missingOutput == Yes
	}},
	{semconv.RetryReasonProviderContinues, UserConfirmedRetry, func(k *risk) bool {
		return k.continues
	}},
	{semconv.RetryReasonVisibleOutput, UserConfirmedRetry, func(k *risk) bool {
		return k.text == Yes
	}},
	{semconv.RetryReasonDeadline, UserConfirmedRetry, func(k *risk) bool {
		return k.abort == semconv.AbortSourceDeadline
	}},
	{semconv.RetryReasonEvidenceIncomplete, UserConfirmedRetry, func(k *risk) bool {
		return k.class == semconv.ClassApplicationError || // the failure of the application itself is not observed
			k.class == semconv.ClassProviderError && k.cause == semconv.CauseUnknown ||
			k.abort == semconv.AbortSourceUnknown || // it may have been a person
			!k.observed() || k.confidence() == semconv.ConfidenceLow // confidence is low for unclassified and run_abandoned
	}},
}

// judge combines the guards, and for a run the verdicts on its parts: a run is never safer
// to repeat than they are. If none requires more than the safest level, the furthest
// progress observed gives the reason.
func (k *risk) judge() (semconv.RetrySafety, semconv.RetryReason) {
	safety, reason := k.guarded()
	switch parts := moreCareful(k.requests, k.tools); {
	case parts.Safety > safety:
		return parts.Safety, parts.Reason
	case safety == SafeAutoRetry:
		return safety, k.safeReason()
	default:
		return safety, reason
	}
}

// raised reports whether the verdict on a request of the run is more careful than the
// guards.
func (k *risk) raised() bool {
	safety, _ := k.guarded()
	return k.requests.Safety > safety
}

// raisedByTool reports whether the verdict on a tool of the run is more careful than the
// guards and the verdicts on its requests.
func (k *risk) raisedByTool() bool {
	safety, _ := k.guarded()
	return k.tools.Safety > max(safety, k.requests.Safety)
}

// guarded combines the guards. The reason is unset if none requires more than the safest
// level.
func (k *risk) guarded() (semconv.RetrySafety, semconv.RetryReason) {
	safety, reason := SafeAutoRetry, semconv.RetryReasonUnset
	for i := range guards {
		if g := &guards[i]; g.level > safety && g.asks(k) {
			safety, reason = g.level, g.reason
		}
	}
	return safety, reason
}

// safeReason returns the reason of a retry that no guard objects to: the furthest progress
// that was observed.
func (k *risk) safeReason() semconv.RetryReason {
	switch {
	case k.started.has(semconv.ToolEffectIdempotent):
		return semconv.RetryReasonIdempotentToolsOnly
	case k.started.has(semconv.ToolEffectReadOnly):
		return semconv.RetryReasonReadOnlyToolsOnly
	case k.calls == callsNotExecuted:
		return semconv.RetryReasonToolCallNotExecuted
	case k.toolInput == Yes:
		return semconv.RetryReasonIncompleteToolInput
	case k.reasoning == Yes:
		return semconv.RetryReasonReasoningOnly
	case k.sent == No:
		return semconv.RetryReasonNothingLeftClient
	default:
		return semconv.RetryReasonNoOutput
	}
}

// transient reports whether the cause may be gone at the next attempt. A deliberate end by
// this side (local_abort) is transient only if it is a deadline; the guards for aborts
// come before this one.
func transient(k *risk) bool {
	switch k.class {
	case semconv.ClassWatchdogTimeout, semconv.ClassStreamInterrupted, semconv.ClassEmptyCompletion:
		return true
	case semconv.ClassConnectionFailed:
		switch k.cause {
		case semconv.CauseDNSNotFound, semconv.CauseProxyRefused:
			return false
		case semconv.CauseTLS:
			return k.permanent == No
		default:
			return true
		}
	case semconv.ClassProviderError:
		switch k.cause {
		case semconv.CauseRateLimited, semconv.CauseOverloaded, semconv.CauseServerError, semconv.CauseTimeout, semconv.CauseUnknownEnd:
			return true
		case semconv.CauseUnknown: // nothing says that it passes, nor that it does not
			return true
		default:
			return false
		}
	case semconv.ClassProtocolViolation:
		return !k.repeated
	case semconv.ClassLocalAbort:
		return k.cause == semconv.CauseDeadline
	case semconv.ClassOutputLimited, semconv.ClassHistoryBroken:
		return false
	case semconv.ClassApplicationError: // a request that cannot be sent now cannot be sent later
		return k.cause == semconv.CauseRunError
	case semconv.ClassToolFailed:
		switch k.cause {
		case semconv.CauseRejected, semconv.CauseInvalidInput, semconv.CauseIncompleteInput:
			return false
		default:
			return true
		}
	default: // tool_output_lost, run_abandoned, unclassified: other guards decide
		return true
	}
}

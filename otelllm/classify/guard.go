package classify

import "github.com/otelllm/otelllm-go/semconv"

// guard looks at what had happened and asks for a least level of safety.
type guard struct {
	reason semconv.RetryReason
	level  semconv.RetrySafety
	asks   func(*risk) bool
}

// guards in the order of the table: the verdict is the highest level that any
// guard asks for, and the first guard at that level names the reason. So one
// more side effect, or one observation less, can never make a retry safer.
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
		return k.class == semconv.ClassApplicationError || // what failed in the application is not observed
			!k.observed() || k.confidence() == semconv.ConfidenceLow // as it is of what is unclassified or abandoned
	}},
}

// judge joins the guards. Where none asks for more, the furthest thing that was
// seen names the reason.
func (k *risk) judge() (semconv.RetrySafety, semconv.RetryReason) {
	safety, reason := SafeAutoRetry, semconv.RetryReasonUnset
	for i := range guards {
		if g := &guards[i]; g.level > safety && g.asks(k) {
			safety, reason = g.level, g.reason
		}
	}
	if safety == SafeAutoRetry {
		reason = k.safeReason()
	}
	return safety, reason
}

// seen is the reason of a retry that no guard objects to, by the furthest thing
// that was seen.
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

// passing reports whether the cause is one that may be gone at the next try.
// A cause that this side chose to end by (local_abort) passes only as a
// deadline; the guards for aborts come before this one.
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
		case semconv.CauseRateLimited, semconv.CauseOverloaded, semconv.CauseServerError, semconv.CauseTimeout:
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
	case semconv.ClassApplicationError: // a request that cannot be sent as it is will not be
		return k.cause == semconv.CauseRunError
	case semconv.ClassToolFailed:
		switch k.cause {
		case semconv.CauseRejected, semconv.CauseInvalidInput, semconv.CauseIncompleteInput:
			return false
		default:
			return true
		}
	default: // tool_output_lost, run_abandoned, unclassified: other guards speak
		return true
	}
}

package classify

import (
	"strings"

	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue"
	"github.com/otelllm/otelllm-go/semconv"
)

// finishes maps what a finish reason means, as the catalogue has it. A meaning that is not
// here is a failure.
var finishes = map[catalogue.Meaning]Finish{
	catalogue.FinishGood: FinishStop, catalogue.FinishNothingDue: FinishNothingDue, catalogue.FinishToolCalls: FinishToolCalls,
	catalogue.FinishCompacted: FinishCompacted, catalogue.FinishLimited: FinishLimited, catalogue.FinishMaxTokens: FinishMaxTokens,
	catalogue.FinishContentFilter: FinishContentFilter, catalogue.FinishRefusal: FinishRefusal,
	catalogue.FinishContextWindow: FinishContextWindow, catalogue.FinishPaused: FinishPaused, catalogue.FinishWaiting: FinishWaiting,
}

// finishOf returns the meaning of a finish reason: FinishOther for one that is not known to be
// a good end.
func finishOf(reason string) Finish {
	switch strings.ToLower(reason) {
	case "error", "unknown", "interrupted": // producers write them where no reason came
		return FinishMissing
	case "unstated": // of this project: [DONE] came after content, and not one reason
		return FinishUnstated
	case "approval_required": // of this project: a person has to approve a call first
		return FinishWaiting
	case "steered": // of the Responses API: another answer follows, with what the user has added
		return FinishPaused
	}
	meaning, _ := catalogue.Finish("", reason)
	if f, ok := finishes[meaning]; ok {
		return f
	}
	return FinishOther
}

// ParseFinish returns the combined meaning of a response's finish reasons, one for each
// choice, as the provider wrote them. A missing reason (an empty but non-nil list, or
// `error`) outweighs a limit, a limit outweighs a tool call, a tool call outweighs a plain
// stop, and a reason that is not known to be a good end outweighs all but a missing one and a
// limit. A nil list means not observed.
func ParseFinish(reasons []string) Finish {
	if reasons == nil {
		return FinishNotObserved
	}
	if len(reasons) == 0 {
		return FinishMissing
	}
	worst, other := FinishNothingDue, false
	for _, reason := range reasons {
		switch finish := finishOf(reason); finish {
		case FinishMissing:
			return FinishMissing
		case FinishOther:
			other = true
		default:
			worst = max(worst, finish)
		}
	}
	if other && worst.limited() == semconv.CauseUnset {
		return FinishOther
	}
	return worst
}

// FailedFinish reports whether a finish reason is an error by itself, such as that of a
// provider that ran out of resources, or could not parse what its model wrote. Such an answer
// is not complete. Gemini's OTHER does not count: nothing says what it means.
func FailedFinish(reason string) bool {
	return finishOf(reason) == FinishOther && catalogue.FinishKind(reason) != semconv.ProviderErrorKindUnset
}

// KnownFinish reports whether the meaning of a finish reason is known.
func KnownFinish(reason string) bool { return finishOf(reason) != FinishOther || FailedFinish(reason) }

// limited returns the cause of an answer that a limit cut, and unset for any other finish.
func (f Finish) limited() semconv.Cause {
	switch f {
	case FinishLimited:
		return semconv.CauseUnknown
	case FinishMaxTokens:
		return semconv.CauseMaxOutputTokens
	case FinishContentFilter:
		return semconv.CauseContentFilter
	case FinishRefusal:
		return semconv.CauseRefusal
	case FinishContextWindow:
		return semconv.CauseContextWindow
	case FinishPaused:
		return semconv.CausePaused
	default:
		return semconv.CauseUnset
	}
}

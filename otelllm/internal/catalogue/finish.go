package catalogue

import (
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// Meaning is what a finish reason means.
type Meaning uint8

// The meanings of finish reasons.
const (
	FinishUnknown       Meaning = iota // the reason is not in the catalogue
	FinishGood                         // the answer is complete
	FinishNothingDue                   // no answer was due
	FinishToolCalls                    // the answer ends with calls of tools
	FinishCompacted                    // the answer is a summary of the history
	FinishLimited                      // a limit cut the answer; which one is not said
	FinishMaxTokens                    // the limit of tokens cut the answer
	FinishContentFilter                // a filter stopped the answer
	FinishRefusal                      // the model refused
	FinishContextWindow                // the context window was full
	FinishPaused                       // another request continues the answer
	FinishWaiting                      // the answer is available later, or a person has to approve it
	FinishError                        // the provider failed while it answered
	FinishOverloaded                   // the provider ran out of resources while it answered
	FinishTimeout                      // the provider's own time limit ended the answer
	FinishCancelled                    // the answer was cancelled
)

// Finish returns the meaning of a finish reason of a protocol, in any case of its letters.
// Protocols are those of wire.Protocol's Name. A reason that this protocol is not known to use
// has the meaning that it has in the others, if they agree. known: it is in the catalogue.
func Finish(protocol, reason string) (meaning Meaning, known bool) {
	if len(reason) > maxName {
		return FinishUnknown, false
	}
	reason = strings.ToLower(reason)
	if m, ok := finishes[finishKey{protocol, reason}]; ok {
		return m, true
	}
	m, ok := finishes[finishKey{"", reason}]
	return m, ok
}

// FinishKind returns the kind of error that a finish reason is by itself, and unset for
// any other reason, also for those that say nothing, such as other and error.
func FinishKind(reason string) semconv.ProviderErrorKind {
	return finishKinds[normalName(reason)]
}

// finishKey is a finish reason in lower case, in one protocol; "": in any.
type finishKey struct{ protocol, reason string }

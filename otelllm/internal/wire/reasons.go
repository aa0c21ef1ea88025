package wire

import (
	"bytes"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue"
)

// finishRefusal is the finish reason of a refusal where the provider has none of its own.
const finishRefusal = "refusal"

// Finish reasons of answers that are not available yet.
const (
	finishApproval = "approval_required" // a person has to approve a call first
	finishDeferred = "deferred"          // the client requests it later, by its id
)

// finishUnstated is the finish reason of an answer that its server has ended and given none.
const finishUnstated = "unstated"

// finishUnrecognized is the finish reason of such an answer that has an object of an unknown
// form. It is not a good end.
const finishUnrecognized = "unrecognized"

// finishReason is [safeName] without an allocation for the most frequent reasons.
func finishReason(reason []byte) string {
	switch string(reason) {
	case "stop":
		return "stop"
	case "tool_calls":
		return "tool_calls"
	case "end_turn":
		return "end_turn"
	case "tool_use":
		return "tool_use"
	case "STOP":
		return "STOP"
	default:
		return safeName(reason)
	}
}

// noFinish reports whether a text stands for the absence of a finish reason, as servers write
// their language's null: SGLang None, gateways of DashScope null.
func noFinish(reason []byte) bool {
	return len(reason) == len("null") && (bytes.EqualFold(reason, []byte("none")) || bytes.EqualFold(reason, []byte("null")))
}

// isFailure reports whether a finish reason is an error: that of OpenRouter, Mistral and
// vLLM, and those of [classify.FailedFinish]. Such an answer is not complete, whatever
// preceded it.
func isFailure(reason []byte) bool {
	return string(reason) == "error" || classify.FailedFinish(string(reason))
}

// cutsInput reports whether an answer with this finish reason may end within the input of
// a call.
func cutsInput(reason []byte) bool {
	switch means, known := catalogue.Finish("", string(reason)); means {
	case catalogue.FinishGood, catalogue.FinishNothingDue, catalogue.FinishToolCalls, catalogue.FinishCompacted, catalogue.FinishPaused,
		catalogue.FinishWaiting:
		return false
	default:
		return known && string(reason) != "unknown"
	}
}

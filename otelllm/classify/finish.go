package classify

import (
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// finishes maps the providers' finish reasons, in lower case, to their meaning. Sources:
// OpenAI Chat Completions and Responses, Anthropic Messages, Gemini, Bedrock Converse,
// Ollama, and the unified finish reasons of the Vercel AI SDK.
var finishes = map[string]Finish{
	"stop": FinishStop, "end_turn": FinishStop, "stop_sequence": FinishStop, "completed": FinishStop,
	"eos": FinishStop, "eos_token": FinishStop, "end": FinishStop, "complete": FinishStop,

	"load": FinishNothingDue, "unload": FinishNothingDue, // Ollama

	"unstated": FinishUnstated, // of this project: [DONE] came after content, and not one reason

	// A background job of OpenAI or xAI, and an MCP call that a person has to approve.
	"queued": FinishWaiting, "in_progress": FinishWaiting, "deferred": FinishWaiting, "approval_required": FinishWaiting,

	"compaction": FinishCompacted, // Anthropic, and the Responses API: a summary of the history, for the model

	"tool_calls": FinishToolCalls, "tool-calls": FinishToolCalls, "tool_call": FinishToolCalls,
	"tool_use": FinishToolCalls, "function_call": FinishToolCalls,

	"incomplete": FinishLimited, // the status of a response, where its incomplete_details are not recorded

	"length": FinishMaxTokens, "max_tokens": FinishMaxTokens, "max_output_tokens": FinishMaxTokens,

	"content_filter": FinishContentFilter, "content-filter": FinishContentFilter, "content_filtered": FinishContentFilter,
	"guardrail_intervened": FinishContentFilter, "safety": FinishContentFilter, "recitation": FinishContentFilter,
	"blocklist": FinishContentFilter, "prohibited_content": FinishContentFilter, "spii": FinishContentFilter,
	"image_safety": FinishContentFilter, "language": FinishContentFilter, "model_armor": FinishContentFilter,
	"jailbreak": FinishContentFilter, "image_prohibited_content": FinishContentFilter, "image_recitation": FinishContentFilter,

	"refusal": FinishRefusal,

	"model_context_window_exceeded": FinishContextWindow, "model_length": FinishContextWindow,

	"pause_turn": FinishPaused, "pause": FinishPaused,
	"steered": FinishPaused, // of the Responses API: another answer follows, with what the user has added

	"error": FinishMissing, "unknown": FinishMissing, "interrupted": FinishMissing,
}

// ParseFinish returns the combined meaning of a response's finish reasons, one for each
// choice, as the provider wrote them. A missing reason (an empty but non-nil list, or
// `error`) outweighs a limit, a limit outweighs a tool call, a tool call outweighs a plain
// stop, and a plain stop outweighs an unknown reason. A nil list means not observed.
func ParseFinish(reasons []string) Finish {
	if reasons == nil {
		return FinishNotObserved
	}
	if len(reasons) == 0 {
		return FinishMissing
	}
	worst := FinishNothingDue
	for _, reason := range reasons {
		finish, ok := finishes[reason]
		if !ok {
			finish, ok = finishes[strings.ToLower(reason)]
		}
		switch {
		case !ok:
			worst = max(worst, FinishOther)
		case finish == FinishMissing:
			return FinishMissing
		default:
			worst = max(worst, finish)
		}
	}
	return worst
}

// FailedFinish reports whether a finish reason is an error by itself: the provider ran out of
// resources (DeepSeek), or could not parse what its model wrote (Gemini, Bedrock). Such an
// answer is not complete.
func FailedFinish(reason string) bool {
	switch reason {
	case "insufficient_system_resource":
		return true
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE",
		"malformed_function_call", "unexpected_tool_call", "too_many_tool_calls", "malformed_response", "missing_thought_signature":
		return true
	case "malformed_model_output", "malformed_tool_use":
		return true
	default:
		return false
	}
}

// KnownFinish reports whether [ParseFinish] knows the meaning of a finish reason.
func KnownFinish(reason string) bool {
	if _, ok := finishes[reason]; ok {
		return true
	}
	_, ok := finishes[strings.ToLower(reason)]
	return ok
}

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

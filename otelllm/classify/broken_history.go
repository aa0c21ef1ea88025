package classify

import (
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// historyCodes maps provider error codes, in lower case, to the reason why the provider
// refused a history. Sources: the error references of OpenAI and Gemini, and OpenAI's guide
// of the WebSocket mode, https://developers.openai.com/api/docs/guides/websocket-mode.
var historyCodes = map[string]semconv.Cause{
	"previous_response_not_found": semconv.CauseLostState,
	"conversation_not_found":      semconv.CauseLostState,
	connectionLimitCode:           semconv.CauseLostState,
	"item_not_found":              semconv.CauseLostState,
	"container_expired":           semconv.CauseLostState,
	"missing_thought_signature":   semconv.CauseInvalidSignature,
	"invalid_thought_signature":   semconv.CauseInvalidSignature,
	"invalid_encrypted_content":   semconv.CauseInvalidSignature,
	"missing_tool_output":         semconv.CauseMissingOutput,
	"tool_output_missing":         semconv.CauseMissingOutput,
}

// connectionLimitCode is the code by which a WebSocket of the Responses API ends after an
// hour, and with it the responses that the server keeps for it alone. A request that has its
// whole history only needs another connection.
const connectionLimitCode = "websocket_connection_limit_reached"

// brokenHistory returns what is wrong with the history of a request that the provider
// refused with an error of this kind. It returns unset if nothing shows that the history
// was the reason.
//
// Most providers have no code for this. For them, the history is taken as the reason if
// the status is 400 or 422, the code names no other cause, and the history has a call
// without an output or an output without a call. The ids prove nothing if part of the
// history is on the server, or if the lists may have been cut.
func (r *Request) brokenHistory(kind semconv.ProviderErrorKind) semconv.Cause {
	code := strings.ToLower(r.Provider.Code)
	if cause, ok := historyCodes[code]; ok && (code != connectionLimitCode || r.HistoryCalls == nil) {
		return cause
	}
	if kind != semconv.ProviderErrorKindInvalidRequest || r.Status != 400 && r.Status != 422 || !generalCode(r.Provider.Code) ||
		r.HistoryCalls == nil || r.HistoryOutputs == nil || len(r.HistoryCalls) >= MaxIDs || len(r.HistoryOutputs) >= MaxIDs {
		return semconv.CauseUnset
	}
	switch {
	case len(without(r.HistoryCalls, r.HistoryOutputs)) > 0:
		return semconv.CauseMissingOutput
	case len(without(r.HistoryOutputs, r.HistoryCalls)) > 0:
		return semconv.CauseMissingCall
	default:
		return semconv.CauseUnset
	}
}

// generalCode reports whether a code means only that the request is invalid.
func generalCode(code string) bool {
	switch code = strings.ToLower(code); code {
	case "", "400", "422", "validationexception", "invalid_argument", "failed_precondition":
		return true
	default:
		return generalCodes[code]
	}
}

// unmatched returns the ids that break a history which is broken for this cause.
func unmatched(r *Request, cause semconv.Cause) []string {
	switch cause {
	case semconv.CauseMissingOutput:
		return without(r.HistoryCalls, r.HistoryOutputs)
	case semconv.CauseMissingCall:
		return without(r.HistoryOutputs, r.HistoryCalls)
	default:
		return nil
	}
}

// without returns the ids that occur more often in ids than in others, each once, in the
// order of ids.
func without(ids, others []string) (lacking []string) {
	// An output mostly follows the order of the calls, so the lists begin alike.
	same := 0
	for same < min(len(ids), len(others)) && ids[same] == others[same] {
		same++
	}
	if same == len(ids) {
		return nil
	}
	more := make(map[string]int, len(ids)-same) // how much more often an id occurs in ids
	for _, id := range ids[same:] {
		more[id]++
	}
	for _, id := range others[same:] {
		if n, known := more[id]; known {
			more[id] = n - 1
		}
	}
	for _, id := range ids {
		if more[id] > 0 {
			lacking = append(lacking, id)
			delete(more, id)
		}
	}
	return lacking
}

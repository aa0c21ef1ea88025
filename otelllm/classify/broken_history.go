package classify

import (
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// historyCodes are the providers' codes of a history that they refuse, in lower case.
// Sources: the error references of OpenAI and Gemini.
var historyCodes = map[string]semconv.Cause{
	"previous_response_not_found": semconv.CauseLostState,
	"conversation_not_found":      semconv.CauseLostState,
	"item_not_found":              semconv.CauseLostState,
	"container_expired":           semconv.CauseLostState,
	"missing_thought_signature":   semconv.CauseInvalidSignature,
	"invalid_thought_signature":   semconv.CauseInvalidSignature,
	"invalid_encrypted_content":   semconv.CauseInvalidSignature,
	"missing_tool_output":         semconv.CauseMissingOutput,
	"tool_output_missing":         semconv.CauseMissingOutput,
}

// brokenHistory says what is wrong with the history that the provider refused with an
// error of this kind, unset where nothing shows that the history was why.
//
// Most providers have no code for it: then a 400 that names no other cause, over a
// history in which a call has no output or an output no call, is taken for it. Where part
// of the history is on the server, or the lists may have been cut, the ids prove nothing.
func (r *Request) brokenHistory(kind semconv.ProviderErrorKind) semconv.Cause {
	if cause, ok := historyCodes[strings.ToLower(r.Provider.Code)]; ok {
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

// generalCode reports whether a code says no more than that the request is not valid.
func generalCode(code string) bool {
	switch code = strings.ToLower(code); code {
	case "", "400", "422", "validationexception", "invalid_argument", "failed_precondition":
		return true
	default:
		return generalCodes[code]
	}
}

// without are the ids that are more often among ids than among others, each once.
func without(ids, others []string) (lacking []string) {
	for i, id := range ids {
		if !hasID(ids[:i], id) && countID(ids, id) > countID(others, id) {
			lacking = append(lacking, id)
		}
	}
	return lacking
}

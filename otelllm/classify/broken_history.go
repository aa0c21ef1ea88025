package classify

import (
	"slices"

	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue"
	"github.com/otelllm/otelllm-go/semconv"
)

// brokenHistory returns what is wrong with the history of a request that the provider
// refused with an error of this kind. It returns unset if nothing shows that the history
// was the reason.
//
// Few providers have a code for this, and most say it in words, which are recorded as
// [ProviderError.History]. Without either, the history is taken as the reason if the status is
// 400 or 422, no code names another cause, and the history has a call without an output, or an
// output without a call. The ids prove nothing if part of the history is on the server, or if
// the lists may have been cut. Neither do two calls with one id: some models count their calls
// anew in each answer, and a provider that refuses that says so.
func (r *Request) brokenHistory(kind semconv.ProviderErrorKind) semconv.Cause {
	if said := r.Provider.saysHistory(); said != semconv.ProviderErrorHistoryUnset && (!catalogue.Passes(kind) || r.HistoryCalls == nil) {
		// An error that passes, such as the end of a connection, loses only what the
		// request left on the server.
		return causeOf(said.String())
	}
	if kind != semconv.ProviderErrorKindInvalidRequest || r.Status != 400 && r.Status != 422 || catalogue.NamesCause(r.Provider.Code) ||
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

// saysHistory returns what the error itself says is wrong with the history: by what was
// recorded, otherwise by its code.
func (e *ProviderError) saysHistory() semconv.ProviderErrorHistory {
	if e.History != semconv.ProviderErrorHistoryUnset {
		return e.History
	}
	return catalogue.NamedHistory(e.Code)
}

// distinct returns the ids without repetitions.
func distinct(ids []string) []string {
	all := slices.Clone(ids)
	slices.Sort(all)
	return slices.Compact(all)
}

// unmatched returns the ids that break a history which is broken for this cause.
func unmatched(r *Request, cause semconv.Cause) []string {
	switch cause {
	case semconv.CauseMissingOutput:
		return without(r.HistoryCalls, r.HistoryOutputs)
	case semconv.CauseMissingCall:
		return without(r.HistoryOutputs, r.HistoryCalls)
	case semconv.CauseDuplicateCall:
		return without(r.HistoryCalls, distinct(r.HistoryCalls))
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

package dialect

import (
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// keyResponseStatus is the state of a response that is made in the background, as its provider
// reported it when the response was requested or fetched. GenAI's conventions 0.1.0 have it.
const keyResponseStatus = "gen_ai.response.status"

// lifecycle is what such a state means. Exactly one field is set.
type lifecycle struct {
	finish   classify.Finish           // it has reached an end, or waits
	provider semconv.ProviderErrorKind // its provider gave up
}

// lifecycles are the states of the conventions, and of OpenAI and Google beyond them. The
// status of the span only says whether the state could be fetched.
var lifecycles = map[string]lifecycle{
	"queued":          {finish: classify.FinishWaiting},
	"in_progress":     {finish: classify.FinishWaiting},
	"completed":       {finish: classify.FinishStop},
	"requires_action": {finish: classify.FinishToolCalls},
	"incomplete":      {finish: classify.FinishLimited},
	"budget_exceeded": {finish: classify.FinishLimited},
	"failed":          {provider: semconv.ProviderErrorKindUnknown},
	"cancelled":       {provider: semconv.ProviderErrorKindCancelled},
}

// reached draws the conclusions from the state of a response, if that is known and the span
// itself has not failed. A finish reason beside it is more precise for how an answer ended.
func (l lifecycle) reached(r *classify.Request) bool {
	switch {
	case l == lifecycle{}, r.Failed == classify.Yes, r.Status >= 400, l.finish == classify.FinishStop && r.Finish == classify.FinishMissing:
		return false
	case l.provider != semconv.ProviderErrorKindUnset:
		r.Failed, r.Basis, r.Finish = classify.Yes, classify.Typed, classify.FinishMissing
		r.Provider.Kind, r.Provider.InBand = l.provider, true
		return true
	case r.Finish == classify.FinishNotObserved || l.finish == classify.FinishWaiting || l.finish == classify.FinishLimited && r.Finish < classify.FinishLimited:
		r.Finish = l.finish
	}
	r.Ended, r.Basis, r.Phase = semconv.StreamEndTerminalEvent, classify.Typed, semconv.PhaseStreamEnd
	return true
}

package trace

import (
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Inner summarizes the runs within a run. The zero value: there are none.
type Inner struct {
	Succeeded classify.Fact    // see [classify.Run.Within]
	Effects   classify.Effects // see [classify.Run.Inner]
	// Unclaimed: for some runs no outcome is recorded, and none of the others failed.
	Unclaimed bool
}

// Ended adds the outcome of a run, NotObserved if that is not recorded.
func (i *Inner) Ended(well classify.Fact) {
	switch {
	case well == classify.No || i.Succeeded == classify.No:
		i.Succeeded, i.Unclaimed = classify.No, false
	case well == classify.NotObserved || i.Unclaimed:
		i.Succeeded, i.Unclaimed = classify.NotObserved, true
	default:
		i.Succeeded = classify.Yes
	}
}

// Repeat is the verdict on repeating all effects of a run, after a failure that the repetition may not meet again.
func Repeat(effects classify.Effects) classify.Retry {
	run := classify.Run{
		Ended: classify.Yes, Failed: classify.Yes, Inner: effects,
		// This request and the effects are all that there is.
		AnnouncedRequests: classify.Counted(effects.Requests + 1), AnnouncedTools: classify.Counted(effects.Tools),
		Requests: []classify.Request{{
			Phase: semconv.PhaseBeforeConnection, Ended: semconv.StreamEndNoResponse, Failed: classify.Yes, Basis: classify.Typed,
			Transport:     classify.Transport{Stage: semconv.TransportStageConnect, Cause: semconv.TransportCauseConnectRefused},
			ProviderTools: []string{}, HistoryCalls: []string{}, HistoryOutputs: []string{},
		}},
	}
	return classify.Judge(&run).Run.Retry
}

// MoreCareful returns a with the verdict of the higher level. At one level the reason that comes first wins.
func MoreCareful(a, b classify.Retry) classify.Retry {
	if b.Safety > a.Safety || b.Safety == a.Safety && b.Reason < a.Reason {
		a.Safety, a.Reason = b.Safety, b.Reason
	}
	return a
}

package trace

import (
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Inner is what is known about the runs within a run. The zero value: nothing.
type Inner struct {
	Succeeded classify.Fact    // see [classify.Run.Within]
	Effects   classify.Effects // see [classify.Run.Inner]
	// Unclaimed: of some it is not recorded how they ended, and none of the others failed.
	Unclaimed bool
}

// Ended adds how a run ended, NotObserved if that is not recorded.
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

// Repeat is the verdict on doing again all that a run did, after a failure that a repetition
// may not meet again.
func Repeat(effects classify.Effects) classify.Retry {
	run := classify.Run{
		Ended: classify.Yes, Failed: classify.Yes, Inner: effects,
		// It and what the run did are all that there is.
		AnnouncedRequests: classify.Counted(effects.Requests + 1), AnnouncedTools: classify.Counted(effects.Tools),
		Requests: []classify.Request{{
			Phase: semconv.PhaseBeforeConnection, Ended: semconv.StreamEndNoResponse, Failed: classify.Yes, Basis: classify.Typed,
			Transport:     classify.Transport{Stage: semconv.TransportStageConnect, Cause: semconv.TransportCauseConnectRefused},
			ProviderTools: []string{}, HistoryCalls: []string{}, HistoryOutputs: []string{},
		}},
	}
	return classify.Judge(&run).Run.Retry
}

// MoreCareful is the verdict with the higher level. At one level it is the one whose reason
// comes first.
func MoreCareful(a, b classify.Retry) classify.Retry {
	if b.Safety > a.Safety || b.Safety == a.Safety && b.Reason < a.Reason {
		a.Safety, a.Reason = b.Safety, b.Reason
	}
	return a
}

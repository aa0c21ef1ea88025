package assemble

import (
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

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

// SeenOnly is the verdict on doing again what was seen of the run that was diagnosed last, as
// if that were all of it: what was not seen can only make it more careful.
func (j *Judge) SeenOnly() classify.Retry {
	run := j.run
	run.Partial, run.EndedBy = false, semconv.RunEndUnset
	run.AnnouncedRequests = classify.Counted(len(run.Requests) + run.Inner.Requests)
	if run.AnnouncedTools.Observed() {
		run.AnnouncedTools = classify.Counted(len(run.Tools) + run.Inner.Tools)
	}
	return Repeat(classify.Judge(&run).Effects)
}

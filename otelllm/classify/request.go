package classify

import (
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// diagnoseRequest returns the verdict on the request at a position. Others are the positions of
// further attempts that the verdict covers.
func (j *judge) diagnoseRequest(pos int, others []int) Diagnosis {
	i := j.order[pos]
	r, c := &j.run.Requests[i], j.classifications[i]
	h := j.historyState(pos)
	missing := j.missingOutputs(pos, h)
	k := j.requestRisk(pos, c, h)
	for _, other := range others {
		j.addAttempt(&k, other)
	}
	d := c.diagnosis(requestPhase(r, c), &k)
	d.Retry.After = retryAfter(d.Retry.Safety, r)
	d.MissingOutputs = missing
	broken := unmatched(r, c.cause)
	if c.cause == semconv.CauseMissingOutput {
		d.MissingOutputs = broken
	}
	d.Evidence = j.attemptsEvidence(requestEvidence(r, c, broken), others)
	d.MissingEvidence = missingEvidence(&k, r, j.run.Doubts)
	summarize(&d, &k)
	return d
}

// requestPhase returns the phase in which the request ended.
func requestPhase(r *Request, c classification) semconv.Phase {
	switch {
	case c.class == semconv.ClassConnectionFailed && BeforeConnection(r.Transport.Cause):
		return semconv.PhaseBeforeConnection
	case r.Phase != semconv.PhaseUnset:
		return r.Phase
	default:
		return semconv.PhaseUnknown
	}
}

func (c classification) diagnosis(phase semconv.Phase, k *risk) Diagnosis {
	d := Diagnosis{Class: c.class, Cause: c.cause, Origin: c.origin, Phase: phase, Confidence: k.confidence()}
	d.Retry.Safety, d.Retry.Reason = k.judge()
	return d
}

func retryAfter(safety semconv.RetrySafety, r *Request) (after time.Duration) {
	if safety != NoRetry {
		after = r.RetryAfter
	}
	return after
}

// handedOver reports whether a call of a request handed the work over to another agent: no
// further request of this one was due.
func (j *judge) handedOver(request int) bool {
	end := j.run.Requests[request].End
	return slices.ContainsFunc(j.run.Tools, func(t Tool) bool {
		return t.Handoff && t.Outcome == semconv.ToolOutcomeSucceeded && !t.Start.Add(clockGrain).Before(end)
	})
}

// Failed reports whether a request failed by itself, that is, whether [Judge] diagnoses
// it. It costs a fraction of a call to Judge.
func Failed(r *Request) bool { return endingOf(r).classify().class != semconv.ClassUnset }

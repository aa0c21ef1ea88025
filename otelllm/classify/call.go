package classify

import (
	"slices"

	"github.com/otelllm/otelllm-go/semconv"
)

// JudgeCall diagnoses one model call of several attempts, which are the requests of r with these
// indices. What failed is that of the last attempt of the list. A retry is as safe as the least
// safe of the attempts: what one of them showed or set off, another call would repeat. The
// diagnosis is the zero value if the last attempt did not fail. The list must not be empty.
func JudgeCall(r *Run, attempts []int) Diagnosis {
	j := judges.Get().(*judge)
	defer j.release()
	return j.judgeCall(r, attempts)
}

// judgeCall is [JudgeCall]. Afterwards j can answer questions about the run.
func (j *judge) judgeCall(r *Run, attempts []int) Diagnosis {
	j.run = r
	j.prepare()
	last := attempts[len(attempts)-1]
	if j.classifications[last].class == semconv.ClassUnset {
		return Diagnosis{}
	}
	others := make([]int, 0, len(attempts))
	for pos, i := range j.order {
		if i != last && slices.Contains(attempts, i) {
			others = append(others, pos)
		}
	}
	return j.diagnoseRequest(slices.Index(j.order, last), others)
}

// addAttempt adds to the risk of repeating a call what another attempt of it, at a position,
// showed and set off.
func (j *judge) addAttempt(k *risk, pos int) {
	i := j.order[pos]
	k.otherText = k.otherText || k.text != Yes
	j.addEffects(k, pos)
	if j.classifications[i].class != semconv.ClassUnset && !j.cancelledByFailure(i) {
		k.requests = moreCareful(k.requests, j.diagnoseRequest(pos, nil).Retry)
	}
}

// attemptsEvidence adds to the evidence of a call what other attempts of it, at these positions,
// showed and set off.
func (j *judge) attemptsEvidence(e evidence, others []int) evidence {
	for _, pos := range others {
		r := j.requestAt(int32(pos))
		e.positive(string(semconv.StreamTextChunksKey), r.Text)
		e.positive(string(semconv.StreamToolCallsKey), r.ToolCalls)
		e.positive(string(semconv.StreamProviderToolsStartedKey), r.ProviderToolsStarted)
	}
	return e
}

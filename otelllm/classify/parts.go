package classify

import "github.com/otelllm/otelllm-go/semconv"

// A long run may be judged in parts, each with the effects of the others. The rules compare
// some parts of a run with each other: a protocol violation with an earlier one, a tool
// with the response that made its call. Effects keep enough of that for a verdict that is
// not less careful than the one on the whole run.

// partEffects returns what a part of the run matters to others, joined with Run.Inner. The
// verdicts on its requests and tools are in v.
func (j *judge) partEffects(v *Verdicts) *Effects {
	if j.part != nil {
		return j.part
	}
	e := &Effects{}
	for i := range j.run.Requests {
		r := &j.run.Requests[i]
		e.repeated = e.repeated || j.violatedBefore(i)
		if j.classifications[i].class == semconv.ClassProtocolViolation || ViolatesProtocol(r.Transport.Cause) {
			e.violations |= 1 << r.Transport.Cause
		}
		for _, id := range r.OpenCallIDs {
			e.opened.add(id)
		}
	}
	for t := range j.run.Tools {
		if v.Tools[t].Failed() {
			e.tools = moreCareful(e.tools, v.Tools[t].Retry)
		}
		if n := j.index.toolID[t]; n >= 0 && len(j.index.uses(n, roleMade)) == 0 {
			e.unmade.add(j.run.Tools[t].CallID)
		}
	}
	*e = j.run.Inner.Join(*e)
	j.part = e
	return e
}

// addOtherParts adds to the risk of repeating the run what its parts, of which some are
// not here, mean to each other. Which of them failed last is not known, so each failure
// counts.
func (j *judge) addOtherParts(k *risk, e *Effects) {
	never := Retry{Safety: NoRetry, Reason: semconv.RetryReasonNotTransient}
	k.tools = e.tools
	if e.opened&e.unmade != 0 { // a tool may have run on an input that never completed
		k.tools = moreCareful(k.tools, never)
	}
	if e.repeated && e.violations != 0 { // the run may have ended on a protocol violation
		k.requests = moreCareful(k.requests, never)
	}
}

// violatedElsewhere reports whether a part of the run that is not here had the same
// protocol violation as r.
func (j *judge) violatedElsewhere(r *Request) bool {
	return j.run.Partial && j.run.Inner.violations&(1<<r.Transport.Cause) != 0
}

package classify

import (
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// endMissing reports whether the end of the run never came, or the next request of an
// inferred one.
func (r *Run) endMissing() bool {
	return r.Ended == No || r.EndedBy == semconv.RunEndIdle || r.processDied()
}

// processDied reports whether the process of the agent is gone, or is taken to be, and did not
// end the run.
func (r *Run) processDied() bool {
	return r.EndedBy == semconv.RunEndProcessDied || r.EndedBy == semconv.RunEndProcessSilent
}

// endUnclear reports whether a request that is not known to be of the run may have continued it.
func (r *Run) endUnclear() bool {
	return r.EndedBy == semconv.RunEndUnclear || r.EndedBy == semconv.RunEndEvicted
}

// stoppedItself reports whether the run failed by a rule of its own: at the limit of its steps, or
// because a guard of the application refused its input or its answer. No part of it explains that.
//
// The errors are those of OpenAI's agents SDK, LangGraph, Pydantic AI, smolagents and ADK.
func (r *Run) stoppedItself() bool {
	switch className(r.ErrorType) {
	case "MaxTurnsExceeded", "MaxTurnsExceededError", "GraphRecursionError", "UsageLimitExceeded", "AgentMaxStepsError",
		"LlmCallsLimitExceededError", "InputGuardrailTripwireTriggered", "OutputGuardrailTripwireTriggered":
		return r.Failed == Yes
	default:
		return false
	}
}

// claimed reports whether anything can be said of the run. Nothing can of an inferred run
// that may have gone on unnoticed, unless it lost an output before that, or of which requests
// are not here: they are in the traces of their callers.
func (j *judge) claimed() bool {
	switch {
	case j.run.EndedBy == semconv.RunEndUnset:
		return true
	case j.run.endUnclear():
		return !j.run.Partial && !j.partsMissing() && len(j.addUnreturned(nil)) > 0
	default:
		return !j.partsMissing()
	}
}

// primary is the failure of the run.
type primary struct {
	classification
	phase   semconv.Phase
	basis   Basis
	abort   semconv.AbortSource
	request *Request // the request that failed, or nil
	tool    *Tool    // the tool that failed, or nil
	stopped Retry    // the verdict on the request that was stopped because the run failed, if it ended on one

	call     bool   // the output of a call was lost that no recorded tool executed
	callName string // the tool of that call, "" if it is not known
}

// diagnoseRun writes the diagnosis of the run to d.
func (j *judge) diagnoseRun(v *Verdicts, d *Diagnosis) {
	p, recovered, missing := j.primary(v)
	if p.class == semconv.ClassUnset {
		recovered += j.failuresCountedAlone()
	}
	if p.class == semconv.ClassUnclassified && p.request == nil && p.tool == nil && j.mayHaveGoneWell() {
		return
	}
	*d = Diagnosis{RecoveredFailures: recovered, MissingOutputs: missing}
	defer j.warn(d)
	switch {
	case p.class != semconv.ClassUnset:
		k := j.runRisk(v, p.classification, p.basis, p.abort)
		k.requests = moreCareful(k.requests, p.stopped)
		k.nothingMarkedFailed = p.request == nil && j.run.Failed != Yes
		switch {
		case p.tool != nil:
			k.aboutTool(p.tool)
		case p.request != nil:
			k.limit, k.silence, k.incomplete = p.request.Watchdog.Limit, p.request.waited(), p.request.Finish == FinishMissing
			k.relayed = p.request.gotErrorOf(p.classification)
			k.otherText = p.request.Text.N() == 0
		case p.cause == semconv.CauseMissingEnd, p.cause == semconv.CauseProcessDied:
			k.lastSeen = j.lastSeen()
		}
		if p.call {
			k.failedTool, k.call = p.callName, true
		}
		outcome := OutcomeOf(p.class)
		if p.class == semconv.ClassUnclassified && j.run.Failed == Yes && j.run.Abort.Source == semconv.AbortSourceUnset {
			outcome = semconv.RunOutcomeFailed // it says so itself, and not why
		}
		*d = p.diagnosis(p.phase, &k)
		d.Outcome, d.RecoveredFailures, d.MissingOutputs = outcome, recovered, missing
		d.Evidence = j.runEvidence(&p)
		d.MissingEvidence = missingEvidence(&k, p.request, j.run.Doubts)
		if p.request != nil {
			d.Retry.After = retryAfter(d.Retry.Safety, p.request)
		}
		summarize(d, &k)
	case j.waits():
		d.Outcome = semconv.RunOutcomeWaiting
	case recovered > 0:
		d.Outcome = semconv.RunOutcomeRecovered
	default:
		d.Outcome = semconv.RunOutcomeSucceeded
	}
	d.Timeline = j.timeline(v)
}

// lastSeen returns in words the latest end of a request, or the latest start or end of a
// tool, that was observed in the run: "write_file succeeded". It returns "" for a run
// without parts.
func (j *judge) lastSeen() string {
	var last time.Time
	text := ""
	for i := range j.run.Requests {
		if end := j.run.Requests[i].End; text == "" || !end.Before(last) {
			last, text = end, requestText(j.states[i])
		}
	}
	for t := range j.run.Tools {
		tool := &j.run.Tools[t]
		at := tool.End
		if at.IsZero() {
			at = tool.Start
		}
		if text == "" || !at.Before(last) {
			last, text = at, toolText(tool)
		}
	}
	return text
}

// primary returns the failure of the run, the number of failures that the run recovered
// from, and the ids of calls whose output was lost. The first case that applies is the
// failure of the run:
//
//  1. the death of the agent's process, which explains everything that it left open
//  2. a tool that ran on an input that never completed, unless the model answered it
//  3. an output that could not be delivered, or that a retry omitted
//  4. a request that failed, was cut by a limit or was stopped, and that no later one
//     recovered; but not one that was stopped because the run failed
//  5. a deliberate end of the run, or of one of its tools
//  6. a tool that failed, and after which the run ended
//  7. an output that never reached the model, if the run failed and no part of it is missing,
//     or if the conversation ended without any output of the call
//  8. a call that no recorded tool executed, and whose output a later history lacks, if no part of the run is missing
//  9. the run's own failure, under the same condition: a missing part might explain it, unless it
//     stopped itself
//  10. a run without its end, or without parts that it announced
//  11. a run that failed, or whose end was not recorded
func (j *judge) primary(v *Verdicts) (p primary, recovered int, missing []string) {
	incomplete, undelivered, failedTool, neverAnswered, abortedTool := -1, -1, -1, -1, -1 // tools
	var undeliveredCause semconv.Cause
	var unanswered []string // ids of outputs that never reached the model; they count as missing only if the run failed
	for t := range j.run.Tools {
		tool := &j.run.Tools[t]
		lost := j.lost(t)
		switch {
		case lost == semconv.CauseUnset || tool.CallID == "":
		case lost == semconv.CauseNeverAnswered:
			if !tool.ran() {
				break
			}
			unanswered = addIDs(unanswered, tool.CallID)
		default:
			missing = addIDs(missing, tool.CallID)
		}
		if lost == semconv.CauseUnset && j.redelivered(t) {
			recovered++
		}
		class, cause := v.Tools[t].Class, v.Tools[t].Cause
		if class == semconv.ClassUnset && lost == semconv.CauseUnset {
			continue
		}
		switch good := j.toolRecovered(t); {
		case lost == semconv.CauseDeliveryFailed || lost == semconv.CauseOmittedFromRetry:
			undelivered, undeliveredCause = t, lost
		case (class == semconv.ClassToolFailed || class == semconv.ClassUnclassified) && good:
			recovered++
		case cause == semconv.CauseIncompleteInput:
			incomplete = t
		case class == semconv.ClassToolFailed && j.askedAgain(t):
			// The run failed after the model was asked again: not on the tool.
		case class == semconv.ClassToolFailed:
			failedTool = j.later(failedTool, t)
		case class == semconv.ClassLocalAbort && !good:
			abortedTool = j.later(abortedTool, t)
		case lost == semconv.CauseNeverAnswered:
			neverAnswered = t
		}
	}
	ended, made := j.endedOn(missing)
	recovered += made
	known := len(missing)
	missing = j.addUnreturned(missing)
	unreturned := missing[known:]

	run := j.run
	tool := func(n int, c classification, phase semconv.Phase) primary {
		t := &run.Tools[n]
		return primary{classification: c, phase: phase, basis: Typed, tool: t, abort: t.Abort.Source}
	}
	lost := func(t int, c semconv.Cause) primary {
		p := tool(t, classification{semconv.ClassToolOutputLost, c, semconv.OriginApplication}, semconv.PhaseToolOutputDelivery)
		p.abort = semconv.AbortSourceUnset
		return p
	}
	switch {
	case run.endUnclear():
		p = lostCall(j.nameOfCall(missing[0])) // otherwise nothing is claimed
	case run.processDied():
		p = primary{classification: classification{semconv.ClassRunAbandoned, semconv.CauseProcessDied, semconv.OriginUnknown}, phase: semconv.PhaseUnknown, basis: Corroborated}
		if run.EndedBy == semconv.RunEndProcessDied {
			p.basis = Typed
		}
	case incomplete >= 0:
		p = tool(incomplete, j.classifyTool(incomplete), semconv.PhaseToolExecution)
	case undelivered >= 0:
		p = lost(undelivered, undeliveredCause)
	case ended >= 0 && !j.stoppedByFailure(ended):
		r := &run.Requests[ended]
		p = primary{classification: j.classifications[ended], phase: requestPhase(r, j.classifications[ended]), basis: j.basisOf(r, j.classifications[ended]), abort: r.Abort.Source, request: r}
		if p.cause == semconv.CauseMissingOutput {
			missing = addIDs(missing, v.Requests[ended].MissingOutputs...)
		}
	case run.Abort.Source != semconv.AbortSourceUnset:
		p = primary{classification: classification{semconv.ClassLocalAbort, abortCause(run.Abort.Source), semconv.OriginLocal}, phase: semconv.PhaseUnknown, basis: Typed}
		if abortedTool >= 0 {
			p.phase, p.tool = semconv.PhaseToolExecution, &run.Tools[abortedTool]
		}
	case abortedTool >= 0:
		p = tool(abortedTool, j.classifyTool(abortedTool), semconv.PhaseToolExecution)
	case failedTool >= 0:
		p = tool(failedTool, j.classifyTool(failedTool), semconv.PhaseToolExecution)
	case neverAnswered >= 0 && (run.Failed == Yes && j.allPartsPresent() || run.Tools[neverAnswered].unanswered()):
		p = lost(neverAnswered, semconv.CauseNeverAnswered)
	case len(unreturned) > 0 && !run.Partial && !j.partsMissing():
		p = lostCall(j.nameOfCall(unreturned[0]))
	case run.Failed == Yes && j.allPartsPresent(), run.stoppedItself():
		p = primary{classification: classification{semconv.ClassApplicationError, semconv.CauseRunError, semconv.OriginApplication}, phase: semconv.PhaseUnknown, basis: Typed}
	case run.endMissing():
		p = primary{classification: classification{semconv.ClassRunAbandoned, semconv.CauseMissingEnd, semconv.OriginUnknown}, phase: semconv.PhaseUnknown}
	case j.partsMissing():
		p = primary{classification: classification{semconv.ClassRunAbandoned, semconv.CauseMissingChildren, semconv.OriginUnknown}, phase: semconv.PhaseUnknown}
	case j.failed() == Yes, j.outcomeUnknown():
		p = primary{classification: classification{semconv.ClassUnclassified, semconv.CauseUnknown, semconv.OriginUnknown}, phase: semconv.PhaseUnknown}
	}
	if ended >= 0 && j.stoppedByFailure(ended) {
		p.stopped = v.Requests[ended].Retry
	}
	// If a person stopped the whole run, or it is not known who did, that decides, even if
	// something failed first.
	switch {
	case run.Abort.Source == semconv.AbortSourceUser,
		run.Abort.Source == semconv.AbortSourceUnknown && p.class != semconv.ClassLocalAbort,
		p.abort == semconv.AbortSourceUnset && p.class == semconv.ClassLocalAbort:
		p.abort = run.Abort.Source
	}
	if OutcomeOf(p.class) == semconv.RunOutcomeFailed && p.class != semconv.ClassUnset && !p.call {
		missing = addIDs(missing, unanswered...)
	}
	return p, recovered, missing
}

// lostCall is the failure of a run whose requests show that an output did not come back, of a call
// of this tool that no recorded tool executed.
func lostCall(name string) primary {
	return primary{
		classification: classification{semconv.ClassToolOutputLost, semconv.CauseOmittedFromRetry, semconv.OriginApplication},
		phase:          semconv.PhaseToolOutputDelivery, basis: Corroborated, call: true, callName: name,
	}
}

// addIDs adds those of more that are not among ids, up to MaxIDs.
func addIDs(ids []string, more ...string) []string {
	for _, id := range more {
		if len(ids) < MaxIDs && !hasID(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// later returns which of two tools ended later. The first one may be -1, for none.
func (j *judge) later(a, b int) int {
	if a < 0 || j.run.Tools[b].End.After(j.run.Tools[a].End) {
		return b
	}
	return a
}

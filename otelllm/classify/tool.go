package classify

import "github.com/otelllm/otelllm-go/semconv"

// classifyTool is the class table for one execution of a tool.
func (j *judge) classifyTool(n int) classification {
	t := &j.run.Tools[n]
	failed := func(c semconv.Cause) classification {
		return classification{semconv.ClassToolFailed, c, semconv.OriginTool}
	}
	switch {
	case t.Outcome == semconv.ToolOutcomeRejected:
		return failed(semconv.CauseRejected)
	case t.Outcome == semconv.ToolOutcomeInvalidInput:
		return failed(semconv.CauseInvalidInput)
	case j.inputIncomplete(n):
		return failed(semconv.CauseIncompleteInput)
	case t.Abort.Source != semconv.AbortSourceUnset && (t.Outcome == semconv.ToolOutcomeInterrupted || t.Outcome == semconv.ToolOutcomeUnset):
		return classification{semconv.ClassLocalAbort, abortCause(t.Abort.Source), semconv.OriginLocal}
	case t.Outcome == semconv.ToolOutcomeTimedOut:
		return failed(semconv.CauseTimeout)
	case t.Outcome == semconv.ToolOutcomeInterrupted:
		return failed(semconv.CauseInterrupted)
	case t.Outcome == semconv.ToolOutcomeFailed && t.ErrorType == errorTypePanic:
		return failed(semconv.CausePanic)
	case t.Outcome == semconv.ToolOutcomeFailed && j.inputUnsure(n):
		return classification{semconv.ClassUnclassified, semconv.CauseUnknown, semconv.OriginUnknown}
	case t.Outcome == semconv.ToolOutcomeFailed:
		return failed(semconv.CauseExecutionError)
	case j.undelivered(t) && !j.answered(n):
		return classification{semconv.ClassToolOutputLost, semconv.CauseDeliveryFailed, semconv.OriginApplication}
	default:
		return classification{}
	}
}

// inputIncomplete reports whether the tool executed a call whose input never completed.
func (j *judge) inputIncomplete(t int) bool {
	n := j.index.toolID[t]
	return n >= 0 && len(j.index.uses(n, roleMade)) == 0 && len(j.index.uses(n, roleOpened)) > 0
}

// isMade reports whether a response made or began the call of a tool, which has an id.
func (j *judge) isMade(t int) bool {
	n := j.index.toolID[t]
	return n >= 0 && len(j.index.uses(n, roleMaker)) > 0
}

// diagnoseTool writes the diagnosis of a tool to d, if it failed.
func (j *judge) diagnoseTool(n int, d *Diagnosis) {
	c := j.classifyTool(n)
	if c.class == semconv.ClassUnset {
		return
	}
	t := &j.run.Tools[n]
	k := risk{
		class: c.class, cause: c.cause, basis: Typed, abort: t.Abort.Source,
		sent: Yes, text: No, reasoning: No, toolInput: No, missingOutput: No,
		partsMissing: j.run.Partial && !j.isMade(n), // the request that made the call may have been cut in its input
	}
	if t.MayHaveActed() {
		k.start(t.effect(), t.Name)
	} else {
		k.calls = callsNotExecuted
	}
	k.aboutTool(t)
	phase := semconv.PhaseToolExecution
	if c.class == semconv.ClassToolOutputLost {
		phase = semconv.PhaseToolOutputDelivery
	}
	*d = c.diagnosis(phase, &k)
	d.Evidence = toolEvidence(t)
	d.MissingEvidence = missingEvidence(&k, nil, j.run.Doubts)
	summarize(d, &k)
}

// errorTypePanic is the error.type of a tool or a run that panicked.
const errorTypePanic = "panic"

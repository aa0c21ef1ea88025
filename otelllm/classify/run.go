package classify

import (
	"slices"
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// state is the result of one request.
type state uint8

const (
	stateUnknown state = iota // nothing shows whether it failed
	stateOK
	stateLimited // complete, but cut by a limit or paused
	stateWaiting // complete, and waiting for a person or a background job
	stateAborted // deliberately ended by this side
	stateFailed
)

// answered reports whether the model answered: in full, up to a limit, or up to the point
// at which it waits.
func (s state) answered() bool { return s == stateOK || s == stateLimited || s == stateWaiting }

// judge holds what the rules derive from a run while they judge it.
type judge struct {
	run             *Run
	order           []int // indexes of requests, ordered by start
	classifications []classification
	states          []state

	starts []time.Time // by position in order

	part        *Effects    // the result of partEffects, once it was called
	recorded    Fact        // the result of toolsRecorded, once it was called
	reused      Fact        // the result of reusesIDs, once it was called
	haveExpects bool        // expects are valid
	haveAnswers bool        // answers are valid
	haveLosses  bool        // losses are valid
	unrecorded  unrecorded  // the result of unrecordedTools, once it was called
	failures    []time.Time // the ends of the requests that failed, sorted; built on first use
	lastEnds    []time.Time // by position: the latest end of the answered requests before it; built on first use

	index     index
	marks     []mark  // by the number of the id; see look
	looked    int32   // 1 + the position of the request that was looked at; 0 for none
	looks     int32   // how many requests were looked at
	inHistory []int32 // the result of look
	expects   []int32 // by tool: see outputsExpected
	answers   []int32 // by tool: see answeredBy
	losses    []semconv.Cause

	// Summaries of the run; each is built on first use.
	cachedOverview         overview
	madeCalls              *madeCalls
	foreignOutputs         []foreignOutput
	outputs                *outputs
	carriers, carriersFrom []int32 // see answeredCarriers
	toolSums

	pending pending
	lacking []int32 // scratch
	namings namings // scratch

	lines, others []line // scratch of the timeline
	text          []byte // scratch of the timeline
}

// Judge diagnoses a run and each of its parts. It does not modify r, and the verdicts
// share no memory with it except the ids that they name.
//
// A run that is still open (Ended not observed) is judged by the facts so far: each part
// gets the verdict that these allow.
func Judge(r *Run) Verdicts {
	var v Verdicts
	JudgeInto(&v, r)
	return v
}

// JudgeInto is like [Judge], for callers that judge many runs: it overwrites the verdicts
// in v and reuses the memory of its lists.
func JudgeInto(v *Verdicts, r *Run) {
	j := judges.Get().(*judge)
	defer j.release()
	j.run = r
	v.Requests, v.Tools = zeroed(v.Requests, len(r.Requests)), zeroed(v.Tools, len(r.Tools))
	j.prepare()
	for pos, i := range j.order {
		if j.classifications[i].class != semconv.ClassUnset {
			v.Requests[i] = j.diagnoseRequest(pos, nil)
		}
	}
	for t := range r.Tools {
		j.diagnoseTool(t, &v.Tools[t])
	}
	if v.Run = (Diagnosis{}); j.claimed() {
		j.diagnoseRun(v, &v.Run)
	}
	v.Effects = j.effects(v)
}

// endMissing reports whether the end of the run never came, or the next request of an
// inferred one.
func (r *Run) endMissing() bool { return r.Ended == No || r.EndedBy == semconv.RunEndIdle }

// endUnclear reports whether a request that is not known to be of the run may have continued it.
func (r *Run) endUnclear() bool {
	return r.EndedBy == semconv.RunEndUnclear || r.EndedBy == semconv.RunEndEvicted
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

// prepare sorts the run's requests and classifies each of them.
func (j *judge) prepare() {
	r := j.run
	j.order, j.classifications, j.states = zeroed(j.order, len(r.Requests)), zeroed(j.classifications, len(r.Requests)), zeroed(j.states, len(r.Requests))
	for i := range r.Requests {
		j.order[i] = i
		e := endingOf(&r.Requests[i])
		j.classifications[i] = e.classify()
		j.states[i] = stateOf(j.classifications[i].class, e)
	}
	slices.SortStableFunc(j.order, func(a, b int) int { return r.Requests[a].Start.Compare(r.Requests[b].Start) })
	j.starts = zeroed(j.starts, len(r.Requests))
	for pos, i := range j.order {
		j.starts[pos] = r.Requests[i].Start
	}
	j.findStalls()
	j.index.build(r, j.order)
	j.marks = zeroed(j.marks, int(j.index.count))
}

var judges = sync.Pool{New: func() any { return new(judge) }}

// release drops the references to the run, and keeps the memory for the next one unless it
// is large.
func (j *judge) release() {
	const most = 1 << 10 // requests, and a fifth of the lines of a timeline and of the ids
	if cap(j.order) > most || cap(j.lines) > 5*most || cap(j.index.list) > 5*most || cap(j.marks) > 5*most {
		return
	}
	clear(j.index.numbers)
	clear(j.index.ids)
	*j = judge{
		order: j.order, starts: j.starts, classifications: j.classifications, states: j.states,
		index: j.index, marks: j.marks, inHistory: j.inHistory, expects: j.expects, answers: j.answers, losses: j.losses,
		lacking: j.lacking, namings: j.namings, pending: pending{calls: j.pending.calls},
		cachedOverview: overview{unobserved: j.cachedOverview.unobserved, fullHistories: j.cachedOverview.fullHistories},
		lines:          j.lines, others: j.others, text: j.text,
	}
	judges.Put(j)
}

// zeroed returns n zero elements, in the memory of list if its capacity allows.
func zeroed[E any](list []E, n int) []E {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}

func stateOf(c semconv.Class, e ending) state {
	switch c {
	case semconv.ClassUnset:
		switch {
		case !e.succeeded():
			return stateUnknown
		case e.finish == FinishWaiting:
			return stateWaiting
		default:
			return stateOK
		}
	case semconv.ClassLocalAbort:
		return stateAborted
	case semconv.ClassOutputLimited:
		return stateLimited
	default:
		return stateFailed
	}
}

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
	d.MissingEvidence = missingEvidence(&k, r)
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
	d.MissingEvidence = missingEvidence(&k, nil)
	summarize(d, &k)
}

// errorTypePanic is the error.type of a tool or a run that panicked.
const errorTypePanic = "panic"

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
			k.otherText = p.request.Text.N() == 0
		case p.cause == semconv.CauseMissingEnd:
			k.lastSeen = j.lastSeen()
		}
		if p.call {
			k.failedTool, k.call = p.callName, true
		}
		outcome := OutcomeOf(p.class)
		*d = p.diagnosis(p.phase, &k)
		d.Outcome, d.RecoveredFailures, d.MissingOutputs = outcome, recovered, missing
		d.Evidence = j.runEvidence(&p)
		d.MissingEvidence = missingEvidence(&k, p.request)
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

// OutcomeOf returns the outcome of a run whose failure has this class.
func OutcomeOf(c semconv.Class) semconv.RunOutcome {
	switch c {
	case semconv.ClassOutputLimited:
		return semconv.RunOutcomeLimited
	case semconv.ClassLocalAbort:
		return semconv.RunOutcomeAborted
	case semconv.ClassRunAbandoned, semconv.ClassUnclassified:
		return semconv.RunOutcomeIncomplete
	default:
		return semconv.RunOutcomeFailed
	}
}

// primary returns the failure of the run, the number of failures that the run recovered
// from, and the ids of calls whose output was lost. The first case that applies is the
// failure of the run:
//
//  1. a tool that ran on an input that never completed, unless the model answered it
//  2. an output that could not be delivered, or that a retry omitted
//  3. a request that failed, was cut by a limit or was stopped, and that no later one
//     recovered; but not one that was stopped because the run failed
//  4. a deliberate end of the run, or of one of its tools
//  5. a tool that failed, and after which the run ended
//  6. an output that never reached the model, if the run failed and no part of it is missing,
//     or if the conversation ended without any output of the call
//  7. a call that no recorded tool executed, and whose output a later history lacks, if no part of the run is missing
//  8. the run's own failure, under the same condition: a missing part might explain it
//  9. a run without its end, or without parts that it announced
//  10. a run that failed, or whose end was not recorded
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
		if tool.Delivery == semconv.OutputDeliverySent && tool.DeliveryError != "" {
			recovered++ // an earlier attempt to send it failed
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
	case run.Failed == Yes && j.allPartsPresent():
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

// partsMissing reports whether the run announced more parts than are present.
func (j *judge) partsMissing() bool {
	return j.run.AnnouncedRequests.N() > len(j.run.Requests)+j.run.Inner.Requests || j.toolsMissing()
}

// toolsMissing reports whether the run announced more tools than are present. What those
// did is not known, nor for which request's call they ran.
func (j *judge) toolsMissing() bool {
	return j.run.AnnouncedTools.N() > len(j.run.Tools)+j.run.Inner.Tools
}

// allPartsPresent reports whether the run announced its parts and all of them are present.
// Tools that are not declared as recorded belong to the application, as does the run
// itself.
func (j *judge) allPartsPresent() bool {
	return j.run.AnnouncedRequests.Observed() && !j.partsMissing() && !j.run.Partial
}

// waits reports whether the run waits for a person or a background job: it says so, or its
// last answer, or a tool after which nothing else was sent or done.
func (j *judge) waits() bool {
	n := len(j.order)
	return j.run.Waits || n > 0 && j.states[j.order[n-1]] == stateWaiting || j.toolWaits()
}

// toolWaits reports whether the last tool that ended to wait still does: no request, and no
// other execution of its call, began after it.
func (j *judge) toolWaits() bool {
	last := -1
	for t := range j.run.Tools {
		if tool := &j.run.Tools[t]; tool.Waits && !tool.End.IsZero() {
			last = j.later(last, t)
		}
	}
	if last < 0 || j.run.Partial {
		return false
	}
	waiting, n := &j.run.Tools[last], len(j.order)
	return (n == 0 || !j.starts[n-1].After(waiting.End)) && !slices.ContainsFunc(j.run.Tools, func(t Tool) bool {
		return !t.Waits && t.CallID == waiting.CallID && t.Start.After(waiting.End)
	})
}

// mayHaveGoneWell reports whether nothing but what its producer does not record speaks against a
// run: that it returned the calls that were not answered, or how its last request ended.
func (j *judge) mayHaveGoneWell() bool {
	if j.run.Partial && !j.run.OKUnproven || j.run.Failed != NotObserved {
		return false
	}
	n := len(j.order)
	if n == 0 {
		return j.run.OKUnproven
	}
	switch j.states[j.order[n-1]] {
	case stateOK:
		return j.run.ReturnsCalls || j.run.OKUnproven
	case stateUnknown:
		return j.run.OKUnproven
	default:
		return false
	}
}

// outcomeUnknown reports whether nothing shows how the run went: not the run itself, not
// its last request and, for a run without requests, not the runs within it. If the last
// request asked for tool calls, another request was due; whether it was sent is not known,
// unless the run counts its requests. A run span without any observed request has lost
// some, unless it announces that it made none.
func (j *judge) outcomeUnknown() bool {
	n := len(j.order)
	switch {
	case j.run.Failed == No, j.waits():
		return false
	case n > 0:
		last := j.order[n-1]
		if j.run.Requests[last].Open {
			return false // nothing has failed so far
		}
		return j.states[last] == stateUnknown || j.run.Requests[last].Finish == FinishToolCalls &&
			!j.run.AnnouncedRequests.Observed() && !j.run.AnnouncedTools.Observed() && !j.handedOver(last)
	default:
		return j.run.Ended == Yes && !j.run.AnnouncedRequests.Observed() && j.run.Within != Yes
	}
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

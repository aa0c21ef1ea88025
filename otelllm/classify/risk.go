package classify

import (
	"sort"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// risk is everything that the guards read: what had happened when the failure occurred, as
// far as it was observed. Every field that they read is a small enum or a set of four, so
// that the guards can be tested over every combination.
type risk struct {
	class semconv.Class
	cause semconv.Cause
	basis Basis

	permanent    Fact // whether a TLS failure will occur again
	repeated     bool // the same protocol violation occurred before
	partsMissing bool // an announced part never arrived, unannounced parts may exist, or a request goes on

	// The following fields only affect the words, and the names of missing evidence.
	endMissing          bool          // unannounced parts may exist because the end of the run never came
	idle                bool          // the end of an inferred run never came: its process may be well
	unannouncedParts    bool          // unannounced parts may exist because the run announced no counts
	nothingMarkedFailed bool          // no part was marked as failed
	incomplete          bool          // the answer lacks its finish reason
	relayed             bool          // the request got an error of a gateway, whose own request failed in this way
	toolRefused         bool          // a tool was called, and the application asserts that it changed nothing
	failedTool          string        // the name of the tool that the verdict is about
	ownFailure          bool          // that tool failed, whatever became of its output
	unsent              bool          // the conversation ended without any output of that tool
	handoff             bool          // that tool hands over to another agent
	call                bool          // the verdict is about its call: whether it ran was not observed
	limit               time.Duration // of the watchdog that fired; 0 if not observed
	silence             time.Duration // before this side closed the stream, or gave up waiting for it; 0 if it is not worth mentioning
	otherText           bool          // the request that the verdict on a run is about showed no text; another one did
	lastSeen            string        // what an abandoned run was last observed to do, in words

	abort semconv.AbortSource // the source of the deliberate end, if one decided the verdict

	sent      Fact // whether anything left this side
	reasoning Fact
	text      Fact // whether visible text was streamed
	toolInput Fact // whether a tool input began

	calls         callState
	started       effects // effects of the tools that began and whose output the history lacks
	providerTools providerTools
	missingOutput Fact // whether the history lacks a tool output that exists
	continues     bool // the provider continues to process a request although its stream is gone

	tool string // the name of the tool with the most harmful effect in started, "" if it is not known

	requests Retry // runs only: the most careful verdict on a request
	tools    Retry // runs of which parts may be missing: the most careful verdict on a tool
}

const (
	callsNone        callState = iota // there was none, or every one is accounted for
	callsNotExecuted                  // there were some, and they are known not to have been executed
	callsUnknown                      // there were or may have been some, and whether they ran was not observed
)

// effects is a set of [semconv.ToolEffect].
type effects uint8

func (s effects) has(e semconv.ToolEffect) bool { return s&(1<<e) != 0 }

// effect returns what executing the tool may do; unknown unless it was declared.
func (t *Tool) effect() semconv.ToolEffect {
	if t.Effect == semconv.ToolEffectUnset {
		return semconv.ToolEffectUnknown
	}
	return t.Effect
}

// observed reports whether every fact that a guard reads was observed.
func (k *risk) observed() bool {
	return !k.partsMissing && k.text != NotObserved && k.calls != callsUnknown &&
		k.providerTools != providerToolsUnknown && k.missingOutput != NotObserved
}

// requestRisk returns the risk of sending request i again unchanged.
func (j *judge) requestRisk(pos int, c classification, h historyState) risk {
	i := j.order[pos]
	r := &j.run.Requests[i]
	k := risk{
		class: c.class, cause: c.cause, basis: j.basisOf(r, c),
		permanent:     r.Transport.permanent(),
		repeated:      c.class == semconv.ClassProtocolViolation && (j.violatedBefore(i) || j.violatedElsewhere(r)),
		abort:         r.Abort.Source,
		missingOutput: h.missing,
		limit:         r.Watchdog.Limit,
		incomplete:    r.Finish == FinishMissing,
		relayed:       r.gotErrorOf(c),
		silence:       r.waited(),
		partsMissing:  j.run.Partial || (j.run.Open || j.toolsMissing()) && r.mayHaveStartedCall(),
		sent:          No, reasoning: No, text: No, toolInput: No, // combined below
	}
	j.addEffects(&k, pos)
	return k
}

// addEffects adds what sending the request at a position again could repeat.
func (j *judge) addEffects(k *risk, pos int) {
	j.addResponse(k, pos)
	j.addTools(k, pos)
	if j.unaccountedCalls(pos) {
		k.calls = callsUnknown
	}
	if j.repaired(pos) {
		k.start(semconv.ToolEffectUnknown, "")
	}
}

// repaired reports whether the client executed a call although its input was cut in the response
// at a position, as far as later histories show: one contains its output, or is not known and
// may.
func (j *judge) repaired(pos int) bool {
	opened := j.index.numbersOf(pos, roleOpened)
	if len(opened) == 0 {
		return false
	}
	if pos < j.index.lastUnknown {
		return true
	}
	r := j.requestAt(int32(pos))
	for at, n := range opened {
		if r.OpenCallIDs[at] != "" && j.cameBack(n, pos) {
			return true
		}
	}
	return false
}

// runRisk returns the risk of repeating the whole run from its start. The verdicts on its
// requests are in v.
func (j *judge) runRisk(v *Verdicts, c classification, basis Basis, abort semconv.AbortSource) risk {
	k := risk{
		class: c.class, cause: c.cause, basis: basis, abort: abort,
		missingOutput: No, reasoning: No, text: No, toolInput: No, sent: No,
		permanent: No,
		// A run whose end never came announced nothing: any of its parts may be missing
		// here.
		endMissing:       j.run.endMissing(),
		idle:             j.run.EndedBy == semconv.RunEndIdle,
		unannouncedParts: j.mayHaveUnannouncedParts(),
	}
	k.partsMissing = k.endMissing || k.unannouncedParts || j.run.Partial || j.partsMissing()
	k.addInner(&j.run.Inner)
	for pos, i := range j.order {
		r := &j.run.Requests[i]
		if c.class == semconv.ClassConnectionFailed && BeforeConnection(r.Transport.Cause) {
			k.permanent = worse(k.permanent, r.Transport.permanent())
		}
		if c.class == semconv.ClassProtocolViolation {
			k.repeated = k.repeated || j.violatedBefore(i)
		}
		j.addResponse(&k, pos)
		if d := &v.Requests[i]; d.Failed() && (j.run.Partial || !j.cancelledByFailure(i)) {
			k.requests = moreCareful(k.requests, d.Retry)
		}
	}
	if j.run.Partial {
		j.addOtherParts(&k, j.partEffects(v))
	}
	for t := range j.run.Tools {
		k.add(&j.run.Tools[t])
	}
	j.addUnrecorded(&k)
	return k
}

// mayHaveUnannouncedParts reports whether the run may have parts that were not recorded:
// it does not say how many parts it has, and the history of one of its requests was not
// observed. A producer that loses requests which were cut off is such a case.
func (j *judge) mayHaveUnannouncedParts() bool {
	if j.run.AnnouncedRequests.Observed() || j.run.AnnouncedTools.Observed() {
		return false
	}
	for i := range j.run.Requests {
		if j.run.Requests[i].HistoryCalls == nil {
			return true
		}
	}
	return len(j.run.Requests) == 0
}

// add adds an execution of a tool.
func (k *risk) add(tool *Tool) {
	switch {
	case tool.unanswered():
		k.calls = callsUnknown
	case tool.MayHaveActed():
		k.start(tool.effect(), tool.Name)
	case tool.Outcome != semconv.ToolOutcomeRejected: // a rejected call was not executed
		k.toolRefused = true
	}
}

// aboutTool makes a tool the one that the verdict is about.
func (k *risk) aboutTool(t *Tool) {
	k.failedTool, k.handoff, k.unsent = t.Name, t.Handoff, t.unanswered()
	k.ownFailure = t.Outcome == semconv.ToolOutcomeFailed || t.Outcome == semconv.ToolOutcomeTimedOut
}

// start adds a tool that began.
func (k *risk) start(effect semconv.ToolEffect, name string) {
	began := effects(1 << effect)
	k.tool = k.started.toolName(k.tool, began, name)
	k.started |= began
}

// addInner adds what the runs within a run did.
func (k *risk) addInner(e *Effects) {
	k.tool = k.started.toolName(k.tool, e.started, e.tool)
	k.started |= e.started
	k.calls = max(k.calls, e.calls)
	k.providerTools = max(k.providerTools, e.providerTools)
	k.text = worse(k.text, FactOf(e.text))
	k.partsMissing = k.partsMissing || e.incomplete
	k.continues = k.continues || e.continues
	k.requests = moreCareful(k.requests, e.requests)
}

// effects returns what the run did, for an enclosing run. The verdicts on its requests are
// in v.
func (j *judge) effects(v *Verdicts) Effects {
	k := j.runRisk(v, classification{}, Typed, semconv.AbortSourceUnset)
	var e Effects
	if j.run.Partial {
		e = *j.partEffects(v)
	}
	return Effects{
		tools: e.tools, repeated: e.repeated, violations: e.violations, opened: e.opened, unmade: e.unmade,
		Requests: len(j.run.Requests) + j.run.Inner.Requests, Tools: len(j.run.Tools) + j.run.Inner.Tools,
		started: k.started, calls: k.calls, providerTools: k.providerTools, text: k.text == Yes,
		incomplete: k.partsMissing || k.text == NotObserved || k.missingOutput == NotObserved,
		continues:  k.continues, tool: k.tool, requests: k.requests,
	}
}

// basisOf returns the basis of the verdict on a request. Unless the error says so, the status
// and the ids only suggest that the provider refused the request because of its history. An
// answer that ends without a finish reason, and without anything in it, is empty by what is
// missing alone.
func (j *judge) basisOf(r *Request, c classification) Basis {
	if c.class == semconv.ClassEmptyCompletion && c.cause != semconv.CauseSwallowedError && r.Finish == FinishMissing {
		return Inferred
	}
	if c.class == semconv.ClassHistoryBroken && r.Provider.saysHistory() == semconv.ProviderErrorHistoryUnset {
		return min(r.Basis, Corroborated)
	}
	return r.Basis
}

// worse combines two facts about harm: Yes outweighs NotObserved, which outweighs No. The
// zero value is NotObserved, so combining starts from No.
func worse(a, b Fact) Fact {
	switch {
	case a == Yes || b == Yes:
		return Yes
	case a == NotObserved || b == NotObserved:
		return NotObserved
	default:
		return No
	}
}

// callState returns what happened to the calls of one response.
func (j *judge) callState(pos int) callState {
	r := j.requestAt(int32(pos))
	ready, known := r.readyCalls()
	switch {
	case !known:
		return callsUnknown
	case ready == 0:
		return callsNone
	}
	executed := 0
	made := j.index.numbersOf(pos, roleMade)
	for at, n := range made {
		if j.executedFor(pos, n, made[:at]) {
			executed++
		}
	}
	switch {
	case executed >= ready:
		return callsNone
	case j.toolsRecorded() && !j.run.Inner.mayHaveExecuted():
		return callsNotExecuted
	default:
		return callsUnknown
	}
}

// executedFor reports whether a recorded tool executed the call with an id of the response at a
// position, after the calls before it. Where ids are used again, a tool that began before the request
// executed another call.
func (j *judge) executedFor(pos int, n int32, before []int32) bool {
	if !j.reusesIDs() {
		return j.index.executed(n)
	}
	tools := j.index.executions(n) // by their start
	left := len(tools) - sort.Search(len(tools), func(i int) bool { return !j.run.Tools[tools[i]].Start.Before(j.starts[pos]) })
	for _, b := range before {
		if b == n {
			left--
		}
	}
	return left > 0
}

// providerTools returns what provider-executed tools of this request may have done.
func (r *Request) providerTools() providerTools {
	harmful := mayHaveEffects(r.ProviderTools)
	began := r.ProviderToolsStarted.atLeast(r.mayHoldMore()).Fact()
	known := len(r.ProviderToolTypes) > 0 // what began
	switch {
	case began == Yes && known && mayHaveEffects(r.ProviderToolTypes),
		began == Yes && !known && (harmful || len(r.ProviderTools) == 0):
		return providerToolsBegan
	case r.sent() == No, r.refused():
		return providerToolsNone // the provider never received the request, or refused it
	case (began == No || began == Yes && known && !r.mayHoldMore()) && r.reachedProtocolEnd():
		return providerToolsNone // if a response was cut off, the start of a tool may be in the part that was lost
	case r.ProviderTools == nil:
		return providerToolsUnknown
	case !harmful:
		return providerToolsNone
	default:
		return providerToolsPossible
	}
}

// ran reports whether the call was accepted and executed.
func (t *Tool) ran() bool {
	return t.Outcome != semconv.ToolOutcomeRejected && t.Outcome != semconv.ToolOutcomeInvalidInput
}

// MayHaveActed reports whether the tool ran and the application does not assert that it
// changed nothing.
func (t *Tool) MayHaveActed() bool { return t.ran() && !t.FailedBeforeEffect }

// callsUnnamed reports whether the response may have made or begun calls whose ids are not
// in its lists.
func (r *Request) callsUnnamed() bool {
	n, known := r.readyCalls()
	return !known || n > len(r.CallIDs) || r.ToolInputsStarted.N() > len(r.CallIDs)+len(r.OpenCallIDs)
}

// violatedBefore reports whether an earlier request of the run had the same protocol
// violation, or request i is itself a later attempt.
func (j *judge) violatedBefore(i int) bool {
	r := &j.run.Requests[i]
	if r.Attempt > 1 {
		return true
	}
	first, met := j.overview().violations[r.Transport.Cause]
	return met && first.Before(r.Start)
}

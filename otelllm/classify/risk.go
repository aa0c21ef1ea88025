package classify

import (
	"slices"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// risk is everything that the guards read: what had happened when it failed, as
// far as it was observed. Every field is a small enum or a set of four, so that
// the guards can be checked over every combination.
type risk struct {
	class semconv.Class
	cause semconv.Cause
	basis Basis

	permanent    Fact // a tls failure is of a kind that does not pass
	repeated     bool // the same protocol violation had come before
	partsMissing bool // a part that was announced never arrived, or may exist unannounced

	// These only choose words and name what is missing.
	endMissing          bool   // a part may exist unannounced, because the run's end never came
	unannouncedParts    bool   // a part may exist unannounced, because the run says of none
	nothingMarkedFailed bool   // nothing was marked as failed
	toolRefused         bool   // a tool was called, and vouches that nothing came of it
	failedTool          string // the name of the tool that the verdict is about
	handoff             bool   // which hands over to another agent

	abort semconv.AbortSource // the deliberate end, if that is what ended it

	sent      Fact // anything left this side
	reasoning Fact
	text      Fact // visible text had been streamed
	toolInput Fact // a tool input had begun

	calls         callState
	started       effects // effects of the tools that began and are not accounted for
	providerTools providerTools
	missingOutput Fact // the history lacks a tool output that exists
	continues     bool // the provider goes on with a request although its stream is gone

	tool string // the name of the tool among started of which there is most to fear
}

// readyCalls is how many calls the response handed over, or may have: an input
// that is complete may be executed before the call is. It is not known where
// the producer does not count and an answer may have come, nor where there may be more.
func (r *Request) readyCalls() (n int, known bool) {
	n = max(r.ToolCalls.N(), r.ToolInputsCompleted.N(), len(r.CallIDs))
	return n, !r.mayHoldMore() && (n > 0 || r.ToolCalls.Observed() || r.ToolInputsCompleted.Observed()) || r.cannotHaveAnswer()
}

// callState says what became of the calls that the model had handed over.
type callState uint8

const (
	callsNone        callState = iota // none was ready, or every one is accounted for
	callsNotExecuted                  // some were ready and are known not to have been executed
	callsUnknown                      // some were or may have been ready, and whether they ran is not observed
)

// providerTools says what tools on the provider's side may have done.
type providerTools uint8

const (
	providerToolsNone     providerTools = iota // none offered, none began, or only such as have no effects
	providerToolsUnknown                       // what was offered is not observed
	providerToolsPossible                      // offered, and what the response contained is not known
	providerToolsBegan                         // one that may have effects began
)

// effects is a set of [semconv.ToolEffect].
type effects uint8

func (s effects) has(e semconv.ToolEffect) bool { return s&(1<<e) != 0 }

// effect is what executing the tool may do; unknown unless it was declared.
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

// harmlessProviderTools have no effects outside the answer.
var harmlessProviderTools = []string{"web_search", "file_search", "web_fetch", "retrieval"}

// requestRisk is the risk of sending request i again as it was.
func (j *judge) requestRisk(i int, c classification) risk {
	r := &j.run.Requests[i]
	k := risk{
		class: c.class, cause: c.cause, basis: j.basisOf(r, c),
		permanent:     r.Transport.permanent(),
		repeated:      c.class == semconv.ClassProtocolViolation && j.violatedBefore(i),
		abort:         r.Abort.Source,
		missingOutput: j.missingOutput(r),
		sent:          No, reasoning: No, text: No, toolInput: No, // joined below
	}
	j.addResponse(&k, r)
	j.addTools(&k, r)
	if j.unaccountedCalls(i) {
		k.calls = callsUnknown
	}
	return k
}

// runRisk is the risk of repeating the whole run from its start.
func (j *judge) runRisk(c classification, basis Basis, abort semconv.AbortSource) risk {
	k := risk{
		class: c.class, cause: c.cause, basis: basis, abort: abort,
		missingOutput: No, reasoning: No, text: No, toolInput: No, sent: No,
		permanent: No,
		// A run whose end never came has announced nothing: any part of it may be elsewhere.
		endMissing:       j.run.Ended == No,
		unannouncedParts: j.mayHaveUnannouncedParts(),
	}
	k.partsMissing = k.endMissing || k.unannouncedParts || j.partsMissing()
	k.addInner(&j.run.Inner)
	for i := range j.run.Requests {
		r := &j.run.Requests[i]
		if c.class == semconv.ClassConnectionFailed && failsConnection(r.Transport.Cause) {
			k.permanent = worse(k.permanent, r.Transport.permanent())
		}
		if c.class == semconv.ClassProtocolViolation {
			k.repeated = k.repeated || j.violatedBefore(i)
		}
		j.addResponse(&k, r)
	}
	for t := range j.run.Tools {
		k.add(&j.run.Tools[t])
	}
	return k
}

// unannounced reports whether the run may have parts that were not recorded: it does
// not say how many it has, and what its requests had before them was not observed
// either. A producer that loses a request that was cut is of this kind.
func (j *judge) mayHaveUnannouncedParts() bool {
	if j.run.AnnouncedRequests.Observed() || j.run.AnnouncedTools.Observed() {
		return false
	}
	return len(j.run.Requests) == 0 ||
		slices.ContainsFunc(j.run.Requests, func(r Request) bool { return r.HistoryCalls == nil })
}

// add joins an execution of a tool.
func (k *risk) add(tool *Tool) {
	switch {
	case tool.mayHaveActed():
		k.start(tool.effect(), tool.Name)
	case tool.Outcome != semconv.ToolOutcomeRejected: // such a call was never made
		k.toolRefused = true
	}
}

// start joins the beginning of a tool.
func (k *risk) start(effect semconv.ToolEffect, name string) {
	before := k.started.harm()
	k.started |= 1 << effect
	if k.tool == "" || k.started.harm() > before {
		k.tool = name
	}
}

// addInner joins what the runs within a run did.
func (k *risk) addInner(e *Effects) {
	if k.tool == "" || e.started.harm() > k.started.harm() {
		k.tool = e.tool
	}
	k.started |= e.started
	k.calls = max(k.calls, e.calls)
	k.providerTools = max(k.providerTools, e.providerTools)
	k.text = worse(k.text, FactOf(e.text))
	k.partsMissing = k.partsMissing || e.incomplete
	k.continues = k.continues || e.continues
}

// effects is what the run did that a run around it would do again.
func (j *judge) effects() Effects {
	k := j.runRisk(classification{}, Typed, semconv.AbortSourceUnset)
	return Effects{
		Requests: len(j.run.Requests) + j.run.Inner.Requests, Tools: len(j.run.Tools) + j.run.Inner.Tools,
		started: k.started, calls: k.calls, providerTools: k.providerTools, text: k.text == Yes,
		incomplete: k.partsMissing || k.text == NotObserved, continues: k.continues, tool: k.tool,
	}
}

// bases is what the verdict on a request rests on. That a history is why the provider
// refused a request is concluded from the status and the ids, unless a code says so.
func (j *judge) basisOf(r *Request, c classification) Basis {
	if _, coded := historyCodes[strings.ToLower(r.Provider.Code)]; c.class == semconv.ClassHistoryBroken && !coded {
		return min(r.Basis, Corroborated)
	}
	return r.Basis
}

// addResponse joins what one request's response shows into k.
func (j *judge) addResponse(k *risk, r *Request) {
	barren, doubtful := r.cannotHaveAnswer(), r.mayHoldMore()
	seen := func(c Count) Fact {
		fact := c.atLeast(doubtful).Fact()
		if barren && fact == NotObserved {
			return No
		}
		return fact
	}
	k.sent = worse(k.sent, r.sent())
	k.text = worse(k.text, seen(r.Text))
	k.reasoning = worse(k.reasoning, seen(r.Reasoning))
	k.toolInput = worse(k.toolInput, seen(r.ToolInputsStarted))
	k.calls = max(k.calls, j.callState(r))
	k.providerTools = max(k.providerTools, r.providerTools())
	k.continues = k.continues || r.continues()
}

// refused: the provider did not take the request up. A timeout or an error of a server's
// own does not show that.
func (r *Request) refused() bool { return r.Status >= 400 && r.Status < 500 && r.Status != 408 }

// continues: the provider goes on with the request although its stream is gone, or was
// never there.
func (r *Request) continues() bool {
	return r.Background && r.sent() != No && !r.refused() &&
		(!r.reachedProtocolEnd() || r.Finish == FinishWaiting || r.Provider.InBand)
}

// worse joins two facts about harm: seen outweighs not observed, which outweighs
// seen not to be. The zero value of k is NotObserved, so joins start from No.
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

// sent reports whether anything of the request left this side.
func (r *Request) sent() Fact {
	switch {
	case r.Status > 0:
		return Yes
	case r.Phase == semconv.PhaseBeforeConnection:
		return No
	case r.Phase != semconv.PhaseUnset && r.Phase != semconv.PhaseUnknown:
		return Yes // on an earlier try, should the last one have failed to connect
	case failsConnection(r.Transport.Cause):
		return No
	default:
		return NotObserved
	}
}

// barren: no answer can have come, whether it was counted or not.
func (r *Request) cannotHaveAnswer() bool {
	switch r.Phase {
	case semconv.PhaseBeforeConnection, semconv.PhaseAwaitingResponse:
		return true
	case semconv.PhaseUnset, semconv.PhaseUnknown:
	default:
		return r.Status >= 400
	}
	switch r.Transport.Cause {
	case semconv.TransportCauseClosedBeforeHeaders, semconv.TransportCauseHeaderTimeout, semconv.TransportCauseWriteFailed:
		return true
	}
	return r.Status >= 400 || r.Ended == semconv.StreamEndHTTPError || r.Ended == semconv.StreamEndNoResponse ||
		failsConnection(r.Transport.Cause) || r.Watchdog.Kind == semconv.WatchdogKindConnect
}

// looksWhole: within a call the stream came to an end of the bytes, clean or too early, or
// to its last event, be that an error or a [DONE] without a reason. Some clients take that
// for the end of the answer (AWS's does so with an end that comes too early), and hand over
// the call with what input it has.
func (r *Request) looksComplete() bool {
	clean := r.Ended == semconv.StreamEndEOF || r.Ended == semconv.StreamEndTerminalEvent || r.Transport.Cause == semconv.TransportCauseBodyTruncated
	return clean && r.ToolInputsStarted.N() > max(r.ToolInputsCompleted.N(), r.ToolCalls.N())
}

// callState says what became of the calls of one response.
func (j *judge) callState(r *Request) callState {
	ready, known := r.readyCalls()
	switch {
	case !known, r.looksComplete() && !j.toolsRecorded():
		return callsUnknown
	case ready == 0:
		return callsNone
	}
	executed := 0
	for _, id := range r.CallIDs {
		if j.toolOf(id) != nil {
			executed++
		}
	}
	switch {
	case executed >= ready:
		return callsNone
	case j.toolsRecorded():
		return callsNotExecuted
	default:
		return callsUnknown
	}
}

// providerTools says what provider-executed tools of this request may have done.
func (r *Request) providerTools() providerTools {
	harmful := slices.ContainsFunc(r.ProviderTools, func(name string) bool {
		return !slices.Contains(harmlessProviderTools, name)
	})
	switch began := r.ProviderToolsStarted.atLeast(r.mayHoldMore()).Fact(); {
	case began == Yes && (harmful || len(r.ProviderTools) == 0):
		return providerToolsBegan
	case r.sent() == No, r.refused():
		return providerToolsNone // the provider never had it, or refused it
	case began == No && r.reachedProtocolEnd():
		return providerToolsNone // of a response that was cut, the beginning may be in the part that was lost
	case r.ProviderTools == nil:
		return providerToolsUnknown
	case !harmful:
		return providerToolsNone
	default:
		return providerToolsPossible
	}
}

// cameToItsEnd: the response came to the end that the protocol has for it, well or not. A
// [DONE] without a reason for the end is no such end.
func (r *Request) reachedProtocolEnd() bool {
	switch r.Ended {
	case semconv.StreamEndTerminalEvent:
		return r.Finish != FinishMissing || r.Provider.Kind != semconv.ProviderErrorKindUnset
	case semconv.StreamEndUnset:
		return r.Finish > FinishMissing
	default:
		return false
	}
}

// ran: the call was accepted and executed.
func (t *Tool) ran() bool {
	return t.Outcome != semconv.ToolOutcomeRejected && t.Outcome != semconv.ToolOutcomeInvalidInput
}

// mayHaveActed: the tool ran, and the application does not vouch that nothing happened.
func (t *Tool) mayHaveActed() bool { return t.ran() && !t.FailedBeforeEffect }

// addTools joins into k the tools of which sending r again could repeat what they did,
// and whose output r's history does not carry. Those are the tools that began before r
// ended, and those that executed one of r's own calls. A tool without an id can not be
// told apart, so it counts for every request; and so does, where not all calls of r are
// named, one whose call no response is known to have made.
func (j *judge) addTools(k *risk, r *Request) {
	if j.allTools == nil {
		j.allTools = j.countTools(func(*Tool) bool { return true })
		j.nameless = j.countTools(func(t *Tool) bool { return t.CallID == "" })
		j.strays = j.countTools(func(t *Tool) bool { return t.CallID != "" && !j.isMade(t.CallID) })
	}
	n := j.allTools.before(r.End)
	n.join(j.nameless.after(r.End))
	unnamed := r.callsUnnamed()
	if unnamed {
		n.join(j.strays.after(r.End))
	}
	own := func(tool *Tool) bool { return hasID(r.CallIDs, tool.CallID) || hasID(r.OpenCallIDs, tool.CallID) }
	counted := func(tool *Tool) bool {
		return tool.Start.Before(r.End) || tool.CallID == "" || own(tool) || unnamed && !j.isMade(tool.CallID)
	}
	for in := roleMade; in <= roleOpened; in++ {
		for at, id := range r.idsOf(in) {
			if hasID(r.idsOf(in)[:at], id) || in == roleOpened && hasID(r.CallIDs, id) {
				continue
			}
			for _, u := range j.uses(roleExecuted, id) {
				if tool := &j.run.Tools[u]; !tool.Start.Before(r.End) {
					n.add(tool, 1)
				}
			}
		}
	}
	for at, id := range r.HistoryOutputs {
		if hasID(r.HistoryOutputs[:at], id) {
			continue
		}
		for _, u := range j.uses(roleExecuted, id) {
			if tool := &j.run.Tools[u]; counted(tool) && j.carries(r, tool) {
				n.add(tool, -1)
			}
		}
	}
	k.toolRefused = k.toolRefused || n[semconv.ToolEffectUnset] > 0
	for effect := semconv.ToolEffectReadOnly; effect <= semconv.ToolEffectUnknown; effect++ {
		if n[effect] == 0 {
			continue
		}
		k.start(effect, j.nameOf(effect, func(tool *Tool) bool {
			return counted(tool) && (tool.CallID == "" || !j.carries(r, tool))
		}))
	}
}

// nameOf is the name of the first tool of an effect that may have acted and is wanted.
func (j *judge) nameOf(effect semconv.ToolEffect, wanted func(*Tool) bool) string {
	for t := range j.run.Tools {
		if tool := &j.run.Tools[t]; tool.effect() == effect && tool.mayHaveActed() && wanted(tool) {
			return tool.Name
		}
	}
	return ""
}

// callsUnnamed: the response may have made calls whose ids are not in its lists.
func (r *Request) callsUnnamed() bool {
	n, known := r.readyCalls()
	return !known || n > len(r.CallIDs) || r.ToolInputsStarted.N() > len(r.CallIDs)+len(r.OpenCallIDs)
}

// violatedBefore reports whether an earlier request of the run met the same
// protocol violation, or request i is itself a later attempt.
func (j *judge) violatedBefore(i int) bool {
	r := &j.run.Requests[i]
	if r.Attempt > 1 {
		return true
	}
	first, met := j.overview().violations[r.Transport.Cause]
	return met && first.Before(r.Start)
}

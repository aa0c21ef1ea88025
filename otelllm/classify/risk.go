package classify

import (
	"slices"
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

// readyCalls returns how many calls the response made or may have made: a call may be
// executed as soon as its input is complete. The number is not known if the producer does
// not count and an answer may have arrived, or more calls than its list has room for, or if
// the response may contain more than was counted.
func (r *Request) readyCalls() (n int, known bool) {
	n = max(r.ToolCalls.N(), r.ToolInputsCompleted.N(), len(r.CallIDs))
	counted := r.ToolCalls.Observed() || r.ToolInputsCompleted.Observed()
	listed := n > 0 && len(r.CallIDs) < MaxIDs
	return n, !r.mayHoldMore() && (counted || listed) || r.cannotHaveAnswer()
}

// callState is what happened to the calls that the model made.
type callState uint8

const (
	callsNone        callState = iota // there was none, or every one is accounted for
	callsNotExecuted                  // there were some, and they are known not to have been executed
	callsUnknown                      // there were or may have been some, and whether they ran was not observed
)

// providerTools is what provider-executed tools may have done.
type providerTools uint8

const (
	providerToolsNone     providerTools = iota // none was offered, none began, or none has effects
	providerToolsUnknown                       // which tools were offered was not observed
	providerToolsPossible                      // tools were offered, and whether one began is not known
	providerToolsBegan                         // a tool that may have effects began
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

// harmlessProviderTools have no effects beyond the answer: they search, read, or change the
// request or the answer on their way.
var harmlessProviderTools = setOf(
	// OpenAI, https://platform.openai.com/docs/guides/tools; a list of tools of an MCP server
	// that is not a call of one.
	"web_search", "file_search", "tool_search", "mcp_list_tools",
	// Anthropic, https://docs.claude.com/en/docs/agents-and-tools/tool-use/overview
	"web_fetch",
	// Google, Tool of google.golang.org/genai
	"google_search", "google_search_retrieval", "url_context", "google_maps", "enterprise_web_search", "parallel_ai_search",
	"exa_ai_search", "retrieval",
	// Bedrock, https://docs.aws.amazon.com/nova/latest/nova2-userguide/web-grounding.html
	"nova_grounding",
	// xAI, https://docs.x.ai/docs/guides/tools/overview
	"x_search", "collections_search", "live_search", "attachment_search", "view_image", "view_x_video",
	// Groq, https://console.groq.com/docs/compound/built-in-tools
	"browser_search", "search", "visit", "visit_website", "wolfram_alpha",
	// Mistral, https://docs.mistral.ai/agents/tools/built-in
	"web_search_premium", "document_library",
	// OpenRouter, https://openrouter.ai/docs/guides/features/server-tools and …/features/plugins
	"openrouter:web_search", "openrouter:web_fetch", "openrouter:tool_search", "openrouter:file_search", "openrouter:datetime",
	"openrouter:experimental__search_models",
	"response-healing", "file-parser", "moderation", "context-compression", "auto-router", "auto-beta-router", "pareto-router",
)

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// mayHaveEffects reports whether one of these provider-executed tools may have effects. A
// list that is full may lack some.
func mayHaveEffects(types []string) bool {
	return len(types) >= MaxIDs || slices.ContainsFunc(types, func(name string) bool { return !harmlessProviderTools[name] })
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

// addResponse adds what the response of one request shows.
func (j *judge) addResponse(k *risk, pos int) {
	r := j.requestAt(int32(pos))
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
	k.calls = max(k.calls, j.callState(pos))
	k.providerTools = max(k.providerTools, r.providerTools())
	k.continues = k.continues || r.continues()
	k.partsMissing = k.partsMissing || r.Open // it may show text, or hand over a call, at any moment
}

// refused reports whether the provider did not accept the request. A timeout or a server
// error does not show that.
func (r *Request) refused() bool { return r.Status >= 400 && r.Status < 500 && r.Status != 408 }

// continues reports whether the provider continues to process the request although its
// stream is gone or never existed.
func (r *Request) continues() bool {
	return r.Background && r.sent() != No && !r.refused() &&
		(!r.reachedProtocolEnd() || r.Finish == FinishWaiting || r.Provider.InBand)
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

// sent reports whether any part of the request left this side.
func (r *Request) sent() Fact {
	switch {
	case r.Status > 0:
		return Yes
	case r.Phase == semconv.PhaseBeforeConnection:
		return No
	case r.Phase != semconv.PhaseUnset && r.Phase != semconv.PhaseUnknown:
		return Yes // on an earlier attempt, even if the last one failed to connect
	case BeforeConnection(r.Transport.Cause):
		return No
	default:
		return NotObserved
	}
}

// mayHaveStartedCall reports whether the response may have begun the input of a call.
func (r *Request) mayHaveStartedCall() bool {
	return !r.cannotHaveAnswer() && r.ToolInputsStarted.Fact() != No
}

// cannotHaveAnswer reports whether no part of an answer can have arrived, whether or not
// the parts were counted.
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
		BeforeConnection(r.Transport.Cause) || r.Watchdog.Kind == semconv.WatchdogKindConnect
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
	for _, n := range j.index.numbersOf(pos, roleMade) {
		if j.index.executed(n) {
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

// reachedProtocolEnd reports whether the response reached the end that the protocol
// defines, with success or with an error. A [DONE] without a finish reason is not such an
// end.
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

// ran reports whether the call was accepted and executed.
func (t *Tool) ran() bool {
	return t.Outcome != semconv.ToolOutcomeRejected && t.Outcome != semconv.ToolOutcomeInvalidInput
}

// MayHaveActed reports whether the tool ran and the application does not assert that it
// changed nothing.
func (t *Tool) MayHaveActed() bool { return t.ran() && !t.FailedBeforeEffect }

// addTools adds the tools whose effects sending the request at a position again could
// repeat, and whose output its history does not contain. Those are the tools that began
// before the request ended, and those that executed one of its own calls. A tool without an
// id cannot be assigned to a request, so it counts for every one. If some calls of the
// request are not named, a tool whose call no response is known to have made counts too.
func (j *judge) addTools(k *risk, pos int) {
	r, x := j.requestAt(int32(pos)), &j.index
	if j.allTools == nil {
		j.sumTools()
	}
	unnamed := r.callsUnnamed()
	n := j.allTools.before(r.End)
	n.join(j.nameless.after(r.End), 1)
	if unnamed {
		n.join(j.strays.after(r.End), 1)
	}
	inHistory := j.look(pos)
	for in := roleMade; in <= roleOpened; in++ {
		for at, id := range x.numbersOf(pos, in) {
			if !x.executed(id) || slices.Contains(x.numbersOf(pos, in)[:at], id) || in == roleOpened && j.times(id, roleMade) > 0 {
				continue
			}
			n.join(j.executionCounts(id, j.executionsBefore(id, r.End), len(x.executions(id))), 1)
		}
	}
	for _, id := range inHistory {
		if j.times(id, roleCarried) == 0 || !x.executed(id) {
			continue
		}
		n.join(j.carriedCounts(id, j.countedFor(r, id, unnamed)), -1)
	}
	k.toolRefused = k.toolRefused || n[semconv.ToolEffectUnset] > 0
	for effect := semconv.ToolEffectReadOnly; effect <= semconv.ToolEffectUnknown; effect++ {
		if n[effect] > 0 {
			k.start(effect, j.nameOf(effect, pos, unnamed))
		}
	}
}

// toolSums are sums over the tools of a run.
type toolSums struct {
	allTools, nameless, strays *toolsByStart
	// byEffect holds the tools with each effect that may have acted, ordered by start.
	byEffect [semconv.ToolEffectUnknown + 1][]int32
	// executed counts, for each of index.tools, the tools of its id up to it; expected is
	// the most outputs that one of those expects.
	executed []toolCounts
	expected []int32
}

func (j *judge) sumTools() {
	j.toolSums = toolSums{
		allTools: j.countTools(func(int) bool { return true }),
		nameless: j.countTools(func(t int) bool { return j.index.toolID[t] < 0 }),
		strays: j.countTools(func(t int) bool {
			n := j.index.toolID[t]
			return n >= 0 && len(j.index.uses(n, roleMaker)) == 0
		}),
		executed: make([]toolCounts, len(j.index.tools)), expected: make([]int32, len(j.index.tools)),
	}
	for n := range j.index.count {
		var sum toolCounts
		most := int32(0)
		for i := j.index.toolsFrom[n]; i < j.index.toolsFrom[n+1]; i++ {
			t := j.index.tools[i]
			sum.add(&j.run.Tools[t], 1)
			most = max(most, j.outputsExpected(int(t)))
			j.executed[i], j.expected[i] = sum, most
		}
	}
	for t := range j.run.Tools {
		if tool := &j.run.Tools[t]; tool.MayHaveActed() {
			j.byEffect[tool.effect()] = append(j.byEffect[tool.effect()], int32(t))
		}
	}
	for _, tools := range j.byEffect {
		slices.SortStableFunc(tools, func(a, b int32) int { return j.run.Tools[a].Start.Compare(j.run.Tools[b].Start) })
	}
}

// executionsBefore returns how many executions of the call with an id began before t.
func (j *judge) executionsBefore(n int32, t time.Time) int {
	tools := j.index.executions(n)
	return sort.Search(len(tools), func(i int) bool { return !j.run.Tools[tools[i]].Start.Before(t) })
}

// executionCounts counts the executions of the call with an id in a range.
func (j *judge) executionCounts(n int32, from, until int) (c toolCounts) {
	at := int(j.index.toolsFrom[n])
	if until > 0 {
		c = j.executed[at+until-1]
	}
	if from > 0 {
		c.join(j.executed[at+from-1], -1)
	}
	return c
}

// countedFor returns how many executions of the call with an id, the first ones, count for a
// request that was looked at, and began early enough for it to carry their output.
func (j *judge) countedFor(r *Request, n int32, unnamed bool) int {
	began := int(j.executedBy(n, int(j.looked)-1))
	if j.times(n, roleMade) > 0 || j.times(n, roleOpened) > 0 || unnamed && len(j.index.uses(n, roleMaker)) == 0 {
		return began
	}
	return min(began, j.executionsBefore(n, r.End))
}

// maxExecutions bounds the executions of one call that are compared with the outputs of a
// request, the last ones, if it does not contain the outputs of all. The others are taken
// to be missing from it.
const maxExecutions = 16

// carriedCounts counts those of the first executions of the call with an id whose output
// the request that was looked at contains.
func (j *judge) carriedCounts(n int32, first int) (c toolCounts) {
	carried := j.times(n, roleCarried)
	if first == 0 || j.expected[int(j.index.toolsFrom[n])+first-1] <= carried {
		return j.executionCounts(n, 0, first)
	}
	for _, t := range j.index.executions(n)[max(0, first-maxExecutions):first] {
		if j.outputsExpected(int(t)) <= carried {
			c.add(&j.run.Tools[t], 1)
		}
	}
	return c
}

// maxNamed bounds the tools with an effect that are searched for one to name.
const maxNamed = 2 * MaxIDs

// nameOf returns the name of the first tool with this effect that counts for the request at
// a position, which was looked at, and whose output that does not contain. It returns "" if
// the first tools with the effect, and those of the request's own calls, are not such ones.
func (j *judge) nameOf(effect semconv.ToolEffect, pos int, unnamed bool) string {
	r, x := j.requestAt(int32(pos)), &j.index
	wanted := func(t int32) bool {
		tool, n := &j.run.Tools[t], x.toolID[t]
		if n < 0 {
			return true
		}
		counts := tool.Start.Before(r.End) || j.times(n, roleMade) > 0 || j.times(n, roleOpened) > 0 || unnamed && len(x.uses(n, roleMaker)) == 0
		return counts && (tool.Start.Sub(r.Start) > clockGrain || j.times(n, roleCarried) < j.outputsExpected(int(t)))
	}
	tools := j.byEffect[effect]
	for _, t := range tools[:min(len(tools), maxNamed)] {
		if wanted(t) {
			return j.run.Tools[t].Name
		}
	}
	for in := roleMade; in <= roleOpened; in++ {
		for _, n := range x.numbersOf(pos, in) {
			for _, t := range x.executions(n)[:min(len(x.executions(n)), 1)] {
				if tool := &j.run.Tools[t]; tool.effect() == effect && tool.MayHaveActed() && wanted(t) {
					return tool.Name
				}
			}
		}
	}
	return ""
}

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

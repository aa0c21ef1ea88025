package assemble

import (
	"bytes"
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/semconv"
)

// Diagnoses are the verdicts on the spans of one release.
type Diagnoses struct {
	// Run is the verdict on the run, nil if it is not due, or if there is no run: of one
	// request or tool alone.
	Run *classify.Diagnosis
	// Carrier is the member that carries Run: the run span, or without one the LLM span
	// that ended last; -1 if no span is released.
	Carrier int
	// Members are the verdicts on requests and tools, by member; nil where nothing
	// failed.
	Members []*classify.Diagnosis

	// Effects is what the run did, or its parts in the release, with the runs within it.
	Effects classify.Effects

	// Unclaimed: the run ended, and its producer does not record how. What it did counts.
	Unclaimed bool

	// Contradicts: the release is of a late span, or of a run within one that was judged
	// before, and contradicts what that run announced. Diagnose does not set it.
	Contradicts bool

	unexplained bool // a request of the run has an empty response without a known reason
}

// Inner is what is known about the runs within a run. The zero value: nothing.
type Inner struct {
	Succeeded classify.Fact    // see [classify.Run.Within]
	Effects   classify.Effects // see [classify.Run.Inner]
	// Unclaimed: of some it is not recorded how they ended, and none of the others failed.
	Unclaimed bool
}

// Ended adds how a run ended, NotObserved if that is not recorded.
func (i *Inner) Ended(well classify.Fact) {
	switch {
	case well == classify.No || i.Succeeded == classify.No:
		i.Succeeded, i.Unclaimed = classify.No, false
	case well == classify.NotObserved || i.Unclaimed:
		i.Succeeded, i.Unclaimed = classify.NotObserved, true
	default:
		i.Succeeded = classify.Yes
	}
}

// Judge judges releases one after the other, with memory that is used again. Its zero
// value is ready to use. It is not safe for concurrent use.
type Judge struct {
	run             classify.Run
	requests, tools []int // which members those of run are
	verdicts        classify.Verdicts
	verdictOf       []*classify.Diagnosis // by member
	relations       []relation            // by member
	lists           dialect.Lists         // of run
}

// Explained reports whether no span that may still arrive would change the verdict on a
// complete run: none of its requests has an empty response, the reason of which the spans
// of other services may show.
func (j *Judge) Explained(release *Release) bool {
	d := j.Diagnose(release, Inner{})
	return !d.unexplained
}

// Diagnose judges a release: the run's own requests and tools as a run, and each other
// span on its own. What it returns is valid until the next call.
func (j *Judge) Diagnose(release *Release, inner Inner) Diagnoses {
	members := release.Members
	j.verdictOf = sized(j.verdictOf, len(members))
	d := Diagnoses{Carrier: -1, Members: j.verdictOf}
	j.relations = relations(release, j.relations)
	s := j.relations
	for i := range members {
		if (s[i].apart || s[i].duplicate) && len(s[i].attempts) == 0 {
			d.Members[i] = judgeAlone(&members[i], classify.Upstream{})
		}
	}

	j.assemble(release)
	run, requests, tools := &j.run, j.requests, j.tools
	run.Within, run.Inner = inner.Succeeded, inner.Effects
	for i := range members {
		if s[i].lacks && !s[i].apart {
			run.Inner = run.Inner.Join(shown(&members[i]))
		}
	}
	run.Partial, run.Open = j.partial(release), !release.Final
	j.linkUpstream(release, d.Members)
	verdicts := &j.verdicts
	classify.JudgeInto(verdicts, run)
	for n, i := range requests {
		d.Members[i] = failed(&verdicts.Requests[n])
		d.unexplained = d.unexplained || unexplained(d.Members[i])
	}
	for n, i := range tools {
		d.Members[i] = failed(&verdicts.Tools[n])
	}
	j.judgeLogicalCalls(release, d.Members)
	for i := range members {
		if first := s[i].first; first >= 0 && members[first].Role == members[i].Role {
			d.Members[i] = d.Members[first]
		}
	}
	d.Effects = verdicts.Effects
	switch {
	case !release.Final || j.alone(release) || j.unfinished(release, d.Members):
	case verdicts.Run.Outcome == semconv.RunOutcomeUnset: // nothing is claimed, or the client has judged it
		d.Unclaimed = run.ReturnsCalls || run.OKUnproven
	case inner.Unclaimed && len(requests) == 0 && run.Failed == classify.NotObserved && verdicts.Run.Class == semconv.ClassUnclassified:
		d.Unclaimed = true // nothing speaks against it but that
	default:
		d.Run, d.Carrier = &verdicts.Run, j.carrier(release)
		switch certain := j.withoutByTime(release); {
		case certain == nil:
		case certain.Outcome == semconv.RunOutcomeUnset:
			d.Run, d.Carrier, d.Unclaimed = nil, -1, true
		default:
			d.Run = certain
		}
	}
	return d
}

// withoutByTime is the verdict on a run without the requests of which only the time shows
// that they belong to it, if it succeeded only with them: they may be of a run within it, the
// span of which is not here. It is nil otherwise, and where all of its
// requests are such, unless the chains of their parents were lost here, or it goes before the
// others had time to come.
func (j *Judge) withoutByTime(release *Release) *classify.Diagnosis {
	byTime := func(i int) bool { return release.Members[i].ByTime }
	if release.Run == nil || !succeeded(j.verdicts.Run.Outcome) || !slices.ContainsFunc(j.requests, byTime) {
		return nil
	}
	run := j.run
	run.Requests = nil
	for n, i := range j.requests {
		if !byTime(i) {
			run.Requests = append(run.Requests, j.run.Requests[n])
		}
	}
	early := release.Reason == hold.Memory || release.Reason == hold.Shutdown && !release.Settled
	if len(run.Requests) == 0 && !release.LinksLost && !early {
		return nil
	}
	run.Inner = j.verdicts.Effects // it did all of that
	run.Inner.Requests, run.Inner.Tools = j.run.Inner.Requests, j.run.Inner.Tools
	if v := classify.Judge(&run); !succeeded(v.Run.Outcome) {
		return &v.Run
	}
	return nil
}

func succeeded(outcome semconv.RunOutcome) bool {
	return outcome == semconv.RunOutcomeSucceeded || outcome == semconv.RunOutcomeRecovered
}

// NeedsNoAction reports whether nothing of a run with this outcome is to be mended.
func NeedsNoAction(outcome semconv.RunOutcome) bool {
	switch outcome {
	case semconv.RunOutcomeSucceeded, semconv.RunOutcomeRecovered, semconv.RunOutcomeWaiting:
		return true
	default:
		return false
	}
}

// alone reports whether a release is of one request or tool, and of no run: its run span is
// not here, and nothing names one. The attempts of a logical call are one request, and what
// a gateway did for it is apart.
func (j *Judge) alone(release *Release) bool {
	if release.Run != nil || release.Named {
		return false
	}
	tools, first := 0, -1
	for _, i := range j.tools {
		if release.Members[i].Run.IsEmpty() { // others are of a run that yielded
			tools++
		}
	}
	if tools > 0 {
		return tools == 1 && len(j.requests) == 0
	}
	for n, i := range j.requests {
		call := callOf(j.relations, i)
		if n > 0 && call != first {
			return false
		}
		first = call
	}
	return true
}

// ModelNames are the provider and the model of the requests of the run that was judged last:
// each is "" unless all requests that name one name the same.
func (j *Judge) ModelNames(release *Release) dialect.RunNames {
	var providers, models agreed
	for _, i := range j.requests {
		m := &release.Members[i]
		provider, model := dialect.ModelOf(m.Span)
		if names := m.Known.Names; names != nil { // its span has gone
			provider, model = names.Provider, names.Model
		}
		providers.add(provider)
		models.add(model)
	}
	return dialect.RunNames{Provider: providers.name, Model: models.name}
}

// agreed is the name that all agree on.
type agreed struct {
	name     string // "": none yet, or they differ
	disagree bool
}

func (a *agreed) add(name string) {
	switch {
	case name == "" || a.disagree:
	case a.name == "":
		a.name = name
	case a.name != name:
		*a = agreed{disagree: true}
	}
}

// unfinished reports whether the spans under one parent, of no run, end in something that
// nothing followed, such as an answer with tool calls: what followed may be elsewhere. It
// is not a failure.
func (j *Judge) unfinished(release *Release, parts []*classify.Diagnosis) bool {
	const unclassified = semconv.ClassUnclassified
	if release.Run != nil || release.Named || j.verdicts.Run.Class != unclassified {
		return false
	}
	return !slices.ContainsFunc(parts, func(d *classify.Diagnosis) bool { return d != nil && d.Class == unclassified })
}

// partial reports whether parts of the run may be missing that had no time to arrive: the
// others were judged before or forgotten, spans have one id, the spans went early to make room or for a shutdown,
// or they are beneath a root that did not wait for them. A root with nothing of its service beneath it is
// taken for all that there is, and so is one that only passes a request on.
func (j *Judge) partial(release *Release) bool {
	if release.Missing || slices.ContainsFunc(j.relations, func(s relation) bool { return s.clashes }) {
		return true
	}
	switch release.Reason {
	case hold.Late:
		return true
	case hold.Memory, hold.SpanLimit:
	case hold.Complete:
		if release.Run != nil {
			return false
		}
	default:
		early := release.Reason == hold.Shutdown && !release.Settled
		if counted(release) || !early && !release.Gaps {
			return false
		}
	}
	calls, last := 0, 0
	for i := range j.relations {
		if s := &j.relations[i]; !s.apart && s.first < 0 && !s.attempt {
			calls, last = calls+1, i
		}
	}
	if calls != 1 || !release.Members[last].Root() {
		return true
	}
	return len(j.relations[last].attempts) > 0 && !j.passesOn(release, last)
}

// counted reports whether the run of a release announced how many parts it has, so that it
// shows if one is missing.
func counted(release *Release) bool {
	return release.Run != nil && release.Run.Announced.Known && !release.Run.Announced.Void
}

// passesOn reports whether a request is one that a gateway served and only passed on, as far
// as its spans show: the requests that it made for it have the same history, so that no tool
// ran between them, and none of the spans is unsafe to repeat by itself.
func (j *Judge) passesOn(release *Release, served int) bool {
	if !release.Members[served].Known.Server {
		return false
	}
	request := func(i int) *classify.Request {
		m := &release.Members[i]
		return m.Known.Facts(m.Span, dialect.Request).Request
	}
	before := request(served)
	if before.HistoryCalls == nil || before.HistoryOutputs == nil {
		return false
	}
	for i := range j.relations {
		if s := &j.relations[i]; s.apart || s.first >= 0 {
			continue
		}
		r := request(i) // all of them are requests: a tool is a call of its own
		if r.HistoryCalls == nil || r.HistoryOutputs == nil ||
			!slices.Equal(r.HistoryCalls, before.HistoryCalls) || !slices.Equal(r.HistoryOutputs, before.HistoryOutputs) {
			return false
		}
		if d := judgeAlone(&release.Members[i], classify.Upstream{}); d != nil && d.Retry.Safety != semconv.RetrySafetySafeAutoRetry {
			return false
		}
	}
	return true
}

// callOf is the logical call that a request is an attempt of, or the request itself.
func callOf(s []relation, i int) int {
	for range maxDepth {
		if !s[i].attempt {
			break
		}
		i = s[i].above
	}
	return i
}

// assemble builds the run of a release, and lists which members are its requests and
// tools, in the order of their start.
func (j *Judge) assemble(release *Release) {
	run, s := &j.run, j.relations
	before := *run
	*run = classify.Run{}
	j.lists.Reset()
	if release.Run != nil {
		for i := range release.Members {
			if m := &release.Members[i]; m.Item == release.Run {
				m.Known.Run(m.Span, run)
			}
		}
	}
	if exceeds(release, s, run) {
		run.AnnouncedRequests, run.AnnouncedTools = 0, 0 // nothing follows from them
	}
	requests, tools := j.requests[:0], j.tools[:0]
	for i := range release.Members {
		switch m := &release.Members[i]; {
		case !s[i].own():
		case m.Role == hold.Request:
			requests = append(requests, i)
		case m.Role == hold.Tool:
			tools = append(tools, i)
		}
	}
	byStart := func(a, b int) int { return compareStarts(&release.Members[a], &release.Members[b]) }
	slices.SortFunc(requests, byStart)
	slices.SortFunc(tools, byStart)

	run.Requests = room(before.Requests, len(requests))
	for n, i := range requests {
		m := &release.Members[i]
		m.Known.Request(m.Span, &run.Requests[n], &j.lists)
	}
	run.Tools = room(before.Tools, len(tools))
	for n, i := range tools {
		m := &release.Members[i]
		m.Known.Tool(m.Span, &run.Tools[n])
	}
	if release.Run == nil {
		span(run)
		if release.Reason == hold.RunExpired && release.Named {
			run.Ended = classify.No // there is a run, and its span will not arrive
		}
	}
	j.requests, j.tools = requests, tools
}

// exceeds reports whether more requests or tools name the run of a release, and began before
// its end, than it announced.
func exceeds(release *Release, s []relation, run *classify.Run) bool {
	if !run.AnnouncedRequests.Observed() && !run.AnnouncedTools.Observed() {
		return false
	}
	requests, tools := 0, 0
	for i := range release.Members {
		m := &release.Members[i]
		if m.Foreign || s[i].first >= 0 || m.Run != release.RunID || release.Run.End != 0 && m.Start > release.Run.End {
			continue
		}
		switch m.Role {
		case hold.Request:
			requests++
		case hold.Tool:
			tools++
		case hold.Run:
		}
	}
	return run.AnnouncedRequests.Observed() && requests > run.AnnouncedRequests.N() ||
		run.AnnouncedTools.Observed() && tools > run.AnnouncedTools.N()
}

// compareStarts orders spans by their start, and those that started at the same time by
// their id. What is said of them must not follow from the order in which they arrived.
func compareStarts(a, b *Member) int {
	if c := cmp.Compare(a.Start, b.Start); c != 0 {
		return c
	}
	return compareIDs(a, b)
}

func compareIDs(a, b *Member) int { return bytes.Compare(a.ID[:], b.ID[:]) }

// room is n elements that are to be overwritten, in the memory of list if it is large
// enough. It clears the elements after them.
func room[E any](list []E, n int) []E {
	clear(list[min(n, len(list)):])
	return slices.Grow(list[:0], n)[:n]
}

// sized is n zero elements, in the memory of list if it is large enough.
func sized[E any](list []E, n int) []E {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}

// span gives a run without a span the time of its requests and tools.
func span(run *classify.Run) {
	for i := range run.Requests {
		r := &run.Requests[i]
		if run.Start.IsZero() || r.Start.Before(run.Start) {
			run.Start = r.Start
		}
		if r.End.After(run.End) {
			run.End = r.End
		}
	}
	for i := range run.Tools {
		t := &run.Tools[i]
		if run.Start.IsZero() || t.Start.Before(run.Start) {
			run.Start = t.Start
		}
		if t.End.After(run.End) {
			run.End = t.End
		}
	}
}

// failed is the verdict if it reports a failure, else nil.
func failed(d *classify.Diagnosis) *classify.Diagnosis {
	if !d.Failed() {
		return nil
	}
	return d
}

// noRun makes a run of which nothing is claimed, so that only its parts are judged.
const noRun = semconv.RunEndUnclear

// judgeAlone judges a request or tool on its own; upstream is the failure behind a
// request's response that another span shows.
func judgeAlone(m *Member, upstream classify.Upstream) *classify.Diagnosis {
	switch m.Role {
	case hold.Request:
		return failed(&judgeRequest(m, upstream).Requests[0])
	case hold.Tool:
		run := classify.Run{Tools: make([]classify.Tool, 1), EndedBy: noRun}
		m.Known.Tool(m.Span, &run.Tools[0])
		return failed(&classify.Judge(&run).Tools[0])
	default:
		return nil
	}
}

// effectsOf is what a request or tool did.
func effectsOf(m *Member) classify.Effects {
	if m.Role == hold.Request {
		return judgeRequest(m, classify.Upstream{}).Effects
	}
	run := classify.Run{Tools: make([]classify.Tool, 1), EndedBy: noRun}
	m.Known.Tool(m.Span, &run.Tools[0])
	return classify.Judge(&run).Effects
}

// shown is what a logical call did, as its own span shows. Its attempts are its requests.
func shown(call *Member) classify.Effects {
	did := effectsOf(call)
	did.Requests = 0
	return did
}

// judgeRequest is judgeAlone for a request, with what it did.
func judgeRequest(m *Member, upstream classify.Upstream) classify.Verdicts {
	run := classify.Run{Requests: make([]classify.Request, 1), EndedBy: noRun}
	m.Known.Request(m.Span, &run.Requests[0], nil)
	run.Requests[0].Upstream = upstream
	return classify.Judge(&run)
}

// judgeLogicalCalls writes the verdicts on the logical calls of several attempts: that on
// the last one, or, if that is less safe to repeat, that on all of them together.
// If the last one did not fail, but the call is marked as failed, its producer observed more,
// and the call has a verdict of its own. The run covers that call too, so it is judged again
// with what the call did.
func (j *Judge) judgeLogicalCalls(release *Release, verdicts []*classify.Diagnosis) {
	members, again := release.Members, false
	worst := mostCareful(j.relations, verdicts)
	room := maxJudgedAgain * len(members)
	for i := range j.relations {
		last := lastAttempt(members, j.relations, i)
		if last == i {
			continue
		}
		m := &members[i]
		if verdicts[i] = verdicts[last]; verdicts[i] != nil {
			if all := j.judgeAttempts(members, i, &room); all.Retry.Safety > verdicts[i].Retry.Safety {
				verdicts[i] = all
			}
			if w, ok := worst[i]; ok && verdicts[w].Retry.Safety > verdicts[i].Retry.Safety {
				verdicts[i] = verdicts[w]
			}
			continue
		}
		if m.Known.Facts(m.Span, dialect.Request).Request.Failed != classify.Yes {
			continue
		}
		v := judgeRequest(m, classify.Upstream{})
		if verdicts[i] = failed(&v.Requests[0]); verdicts[i] != nil && !j.relations[i].apart {
			v.Effects.Requests = 0 // its attempts are counted
			j.run.Inner, again = j.run.Inner.Join(v.Effects), true
		}
	}
	if again {
		classify.JudgeInto(&j.verdicts, &j.run) // the verdicts on the requests and tools stay as they are
	}
}

// mostCareful finds, for the logical calls of several attempts, a failed attempt that is the
// least safe to repeat.
func mostCareful(s []relation, verdicts []*classify.Diagnosis) map[int]int {
	var worst map[int]int
	for i, d := range verdicts {
		if d == nil || len(s[i].attempts) > 0 {
			continue
		}
		for at, n := i, 0; s[at].attempt && n < maxDepth; n++ {
			at = s[at].above
			if w, ok := worst[at]; ok && d.Retry.Safety <= verdicts[w].Retry.Safety {
				continue
			}
			if worst == nil {
				worst = make(map[int]int)
			}
			worst[at] = i
		}
	}
	return worst
}

// maxJudgedAgain bounds how often the attempts of a release are judged together, on average:
// calls may be within calls.
const maxJudgedAgain = 8

// judgeAttempts judges the attempts of a logical call together: repeating the call repeats
// all of them. Room is for how many attempts there is time; where it does not suffice some
// of them are missing.
func (j *Judge) judgeAttempts(members []Member, call int, room *int) *classify.Diagnosis {
	run := classify.Run{Ended: classify.Yes}
	var attempts []int
	calls := []int{call}
	for n := 0; n < len(calls); n++ {
		if j.relations[calls[n]].lacks {
			run.Inner = run.Inner.Join(shown(&members[calls[n]]))
		}
		for _, at := range j.relations[calls[n]].attempts {
			if *room--; *room < 0 {
				run.Partial = true
				break
			}
			if len(j.relations[at].attempts) > 0 {
				calls = append(calls, at)
			} else {
				attempts = append(attempts, at)
			}
		}
	}
	slices.SortFunc(attempts, func(a, b int) int { return compareStarts(&members[a], &members[b]) })
	run.Requests = make([]classify.Request, len(attempts))
	for n, at := range attempts {
		members[at].Known.Request(members[at].Span, &run.Requests[n], nil)
	}
	run.AnnouncedRequests, run.AnnouncedTools = classify.Counted(len(run.Requests)), classify.Counted(0)
	span(&run)
	d := classify.Judge(&run).Run
	d.Outcome, d.RecoveredFailures, d.Timeline = semconv.RunOutcomeUnset, 0, nil
	return &d
}

// lastAttempt is the last attempt of a logical call, or i itself if it has none.
func lastAttempt(members []Member, s []relation, i int) int {
	for range maxDepth {
		attempts := s[i].attempts
		if len(attempts) == 0 {
			break
		}
		i = slices.MaxFunc(attempts, func(a, b int) int { return compareStarts(&members[a], &members[b]) })
	}
	return i
}

// unexplained reports whether a response ended with nothing in it, without a known reason.
func unexplained(d *classify.Diagnosis) bool {
	return d != nil && d.Cause == semconv.CauseNoContent
}

// linkUpstream finds the failures of other spans behind the results of requests that a
// gateway may have caused: what a gateway served or requested itself is beneath the
// request, or belongs to another service within the request's time. It writes such a
// failure to the run's own requests, and judges the other requests again that it explains.
func (j *Judge) linkUpstream(release *Release, verdicts []*classify.Diagnosis) {
	j.setOwnErrors(release, verdicts)
	members, s := release.Members, j.relations
	var failed []int
	var last map[pcommon.SpanID]int
	for i := range members {
		if !s[i].apart || !failedUpstream(verdicts[i]) {
			continue
		}
		if last == nil {
			last = lastTries(members, s)
		}
		if at, ok := last[members[i].Parent]; ok && at != i && !failedUpstream(verdicts[at]) {
			continue // a later attempt succeeded
		}
		failed = append(failed, i)
	}
	if len(failed) == 0 {
		return
	}
	depths := depthsOf(s)
	slices.SortStableFunc(failed, func(a, b int) int {
		const empty = semconv.ClassEmptyCompletion
		switch x, y := verdicts[a].Class == empty, verdicts[b].Class == empty; {
		case x != y: // an empty answer explains nothing that another failure does
			if y {
				return -1
			}
			return 1
		case isLower(members, depths, a, b):
			return -1
		case isLower(members, depths, b, a):
			return 1
		default:
			return 0
		}
	})
	behind := lowestBehind(members, s, depths, failed, j.requests)
	for n, request := range j.requests {
		if rank := behind[request]; rank != noRank && mayBeGateways(&j.run.Requests[n]) {
			j.run.Requests[n].Upstream = upstreamOf(verdicts[failed[rank]])
		}
	}
	again := make(map[int]classify.Upstream)
	for request, rank := range behind {
		if m := &members[request]; rank != noRank && s[request].apart && verdicts[request] != nil && mayBeGateways(m.Known.Facts(m.Span, dialect.Request).Request) {
			again[request] = upstreamOf(verdicts[failed[rank]])
		}
	}
	for request, upstream := range again {
		verdicts[request] = judgeAlone(&members[request], upstream)
	}
}

// lastTries are the last of the requests apart under each parent, by the parent.
func lastTries(members []Member, s []relation) map[pcommon.SpanID]int {
	last := make(map[pcommon.SpanID]int)
	for i := range members {
		m := &members[i]
		if !s[i].apart || s[i].first >= 0 || m.Role != hold.Request || m.Parent.IsEmpty() {
			continue
		}
		if before, ok := last[m.Parent]; !ok || compareStarts(m, &members[before]) > 0 {
			last[m.Parent] = i
		}
	}
	return last
}

// isLower reports whether span a is further from the agent than span b: it is beneath
// more spans, or it is what a gateway requested and b what one served, or it began later.
func isLower(members []Member, depths []int32, a, b int) bool {
	if x, y := depths[a], depths[b]; x != y {
		return x > y
	}
	x, y := members[a].Item, members[b].Item
	if x.Known.Server != y.Known.Server {
		return !x.Known.Server
	}
	return compareStarts(&members[a], &members[b]) > 0
}

// mayBeGateways reports whether a gateway may have caused the result of a request: a
// server error, an error in the stream, a truncated stream, or an empty response.
func mayBeGateways(r *classify.Request) bool {
	switch {
	case r.Abort.Source != semconv.AbortSourceUnset || r.Watchdog.Kind != semconv.WatchdogKindUnset:
		return false // it ended on this side
	case r.Status >= 500 || r.Provider.InBand:
		return true
	case r.Status >= 400:
		return false
	}
	switch r.Ended {
	case semconv.StreamEndEOF, semconv.StreamEndReadError:
		return true
	case semconv.StreamEndNoResponse:
		return r.Phase != semconv.PhaseBeforeConnection
	default:
		return r.Text.Fact() == classify.No
	}
}

// upstreamOf is a failure as the cause of another one.
func upstreamOf(d *classify.Diagnosis) classify.Upstream {
	return classify.Upstream{Failed: classify.Yes, Class: d.Class, Cause: d.Cause, Origin: d.Origin}
}

// failedUpstream reports whether the result of a request apart is a failure that may be
// the cause of another one. A request that this side ended is not, as a gateway stops when
// its caller does; one that the gateway's shutdown ended is.
func failedUpstream(d *classify.Diagnosis) bool {
	if d == nil {
		return false
	}
	switch d.Class {
	case semconv.ClassLocalAbort:
		return d.Cause == semconv.CauseShutdown
	case semconv.ClassOutputLimited:
		return false
	default:
		return !isEmpty(d) // nothing was hidden behind it, as far as it shows
	}
}

// carrier is the member that carries the run's verdict. What another service did carries
// it only if nothing else is released.
func (j *Judge) carrier(release *Release) int {
	last := -1
	apart := func(i int) bool {
		if first := j.relations[i].first; first >= 0 {
			i = first
		}
		return j.relations[i].apart
	}
	for i := range release.Members {
		m := &release.Members[i]
		switch {
		case !m.Out:
		case m.Item == release.Run:
			return i
		case m.Role == hold.Run: // delivered twice, or it yielded
		case last < 0 || apart(last) && !apart(i):
			last = i
		case apart(i) == apart(last) && endsAfter(m, &release.Members[last]):
			last = i
		}
	}
	return last
}

// endsAfter reports whether a span ended after another one; of those that ended at the same
// time, whether it started after that, or has the higher id.
func endsAfter(a, b *Member) bool {
	return cmp.Or(cmp.Compare(a.End, b.End), compareStarts(a, b)) > 0
}

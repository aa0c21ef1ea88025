package classify

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/otelllm/otelllm-go/internal/sample"

	"github.com/otelllm/otelllm-go/semconv"
)

// naive answers the same questions as [judge] without indexes, by looking at each request
// and tool in turn. It defines what the indexes have to return.
type naive struct {
	*judge

	wasRecorded, wasReused Fact
}

// toolsRecorded reports whether every tool that ran is recorded: the producer says so, and
// nothing contradicts it. A contradiction is the output of a call that the run's own model
// made and that no recorded tool executed: that agent executes tools without recording
// them.
func (j *naive) toolsRecorded() bool {
	if j.wasRecorded == NotObserved {
		announced := j.run.AnnouncedTools
		full := announced.Observed() && len(j.run.Tools)+j.run.Inner.Tools >= announced.N()
		j.wasRecorded = FactOf((full || j.run.ToolsRecorded == Yes) && !j.toolsUnrecorded())
	}
	return j.wasRecorded == Yes
}

// toolOf returns an execution of a call, or nil.
func (j *naive) toolOf(id string) *Tool {
	for t := range j.run.Tools {
		if tool := &j.run.Tools[t]; tool.CallID == id && id != "" {
			return tool
		}
	}
	return nil
}

func (j *naive) toolsUnrecorded() bool {
	nameless := 0
	for t := range j.run.Tools {
		if j.run.Tools[t].CallID == "" {
			nameless++
		}
	}
	orphans := 0
	for i := range j.run.Requests {
		maker := &j.run.Requests[i]
		for _, id := range maker.CallIDs {
			switch {
			case j.toolOf(id) == nil:
				if j.laterCarries(maker, func(output string) bool { return output == id }) {
					orphans++
				}
			case j.outnumbered(id, maker):
				orphans++
			}
		}
		calls, known := maker.readyCalls()
		if (!known || calls > len(maker.CallIDs)) && j.laterCarries(maker, func(output string) bool {
			return j.toolOf(output) == nil && !hasID(maker.HistoryOutputs, output) && !hasID(maker.CallIDs, output)
		}) {
			orphans++
		}
	}
	return orphans > nameless
}

// outnumbered reports whether the history grows by more outputs of an id that is used again
// than tools executed it, from maker on until another response makes the call.
func (j *naive) outnumbered(id string, maker *Request) bool {
	if maker.HistoryCalls == nil || !j.reusesIDs() {
		return false
	}
	for _, i := range j.order {
		r := &j.run.Requests[i]
		if r == maker || r.Start.Before(maker.End) || !hasID(r.HistoryOutputs, id) {
			continue
		}
		executed := 0
		for t := range j.run.Tools {
			if tool := &j.run.Tools[t]; tool.CallID == id && !tool.Start.Before(maker.Start) && !tool.Start.After(r.Start) {
				executed++
			}
		}
		if countID(r.HistoryOutputs, id)-countID(maker.HistoryOutputs, id) > executed {
			return true
		}
		if hasID(r.CallIDs, id) {
			return false
		}
	}
	return false
}

// laterCarries reports whether a request after maker carries such an output, or may carry
// it because its history was not observed.
func (j *naive) laterCarries(maker *Request, such func(output string) bool) bool {
	for i := range j.run.Requests {
		r := &j.run.Requests[i]
		if r != maker && !r.Start.Before(maker.End) && (r.HistoryCalls == nil || slices.ContainsFunc(r.HistoryOutputs, such)) {
			return true
		}
	}
	return false
}

// unaccountedCalls reports whether a call that precedes request i may have run unrecorded.
// Such a call is in the request's history, or an earlier request of the run made it or may
// have made it; its output is not in the history, and no tool is known to have executed
// it.
func (j *naive) unaccountedCalls(i int) bool {
	r := &j.run.Requests[i]
	open := func(ids []string) bool {
		for _, id := range ids {
			if !hasID(r.HistoryOutputs, id) && j.toolOf(id) == nil && !j.toolsRecorded() {
				return true
			}
		}
		return false
	}
	if open(r.HistoryCalls) {
		return true
	}
	for _, id := range slices.Concat(r.HistoryCalls, r.HistoryOutputs) {
		if made := j.madeBefore(r, id); !j.carriesAll(r, id, made, false) && !j.toolsRecorded() {
			return true
		}
	}
	for e := range j.run.Requests {
		earlier := &j.run.Requests[e]
		if e == i || earlier.End.After(r.Start) {
			continue
		}
		calls, known := earlier.readyCalls()
		if open(earlier.CallIDs) || (!known || calls > len(earlier.CallIDs)) && !j.toolsRecorded() {
			return true
		}
	}
	return false
}

// madeBefore returns how many calls with an id the responses to earlier requests made.
func (j *naive) madeBefore(r *Request, id string) (made int) {
	for _, i := range j.order {
		if &j.run.Requests[i] == r {
			break
		}
		made += countID(j.run.Requests[i].CallIDs, id)
	}
	return made
}

// carriesAll reports whether r's history has an output for each of so many calls, or executions, with an id
// that several calls have. Those that were in the history of a response which made one belong to
// calls before it.
func (j *naive) carriesAll(r *Request, id string, calls int, executed bool) bool {
	made, carried, earliest := 0, countID(r.HistoryOutputs, id), MaxIDs
	for i := range j.run.Requests {
		made += countID(j.run.Requests[i].CallIDs, id)
	}
	if made < 2 || id == "" || j.madeBefore(r, id) == 0 {
		return true
	}
	for _, i := range j.order {
		maker := &j.run.Requests[i]
		if maker == r {
			break
		}
		if n := countID(maker.CallIDs, id); n > 0 {
			before := countID(maker.HistoryOutputs, id)
			if !executed && before+n > carried {
				return false
			}
			earliest = min(earliest, before)
		}
	}
	return calls <= carried-earliest
}

// missingOutput reports whether the history of r lacks an output that existed when r
// began. If neither the history nor the tools were observed, that is not observed either.
func (j *naive) missingOutput(r *Request) Fact {
	missing := No
	if r.HistoryCalls == nil && !j.toolsRecorded() {
		missing = NotObserved
	}
	for t := range j.run.Tools {
		tool := &j.run.Tools[t]
		if !tool.hasOutput() || tool.End.After(r.Start) {
			continue
		}
		missing = worse(missing, j.lacks(r, tool))
	}
	return missing
}

// lacks reports whether r's history lacks the output of a tool that ended before r began.
//
// If both the call and an output that a completed request carried before are gone, they
// were summarized away, not lost. A list at its maximum length may have been cut: in most
// cases it proves nothing about an id that is not in it.
func (j *naive) lacks(r *Request, tool *Tool) Fact {
	cut := len(r.HistoryOutputs) >= MaxIDs
	switch {
	case tool.CallID == "":
		return NotObserved
	case j.carries(r, tool):
		return No
	case hasID(r.HistoryOutputs, tool.CallID):
		// This output belongs to another call with the same id. Which call's output the
		// history contains is known only if it contains more calls than outputs.
		if !cut && countID(r.HistoryCalls, tool.CallID) > countID(r.HistoryOutputs, tool.CallID) {
			return Yes
		}
		return NotObserved
	case hasID(r.HistoryCalls, tool.CallID) && (!cut || j.reaches(r, tool.CallID)):
		return Yes
	case r.HistoryCalls == nil:
		return NotObserved
	case j.answered(tool, r):
		return No
	case cut:
		return NotObserved
	default:
		return Yes
	}
}

// carries reports whether r's history contains the output of this execution of a tool.
// Some models and servers reuse an id. The history then contains one more output of that
// id than the history of the request whose response made the call.
func (j *naive) carries(r *Request, tool *Tool) bool {
	if !hasID(r.HistoryOutputs, tool.CallID) || tool.Start.After(r.Start) && tool.Start.Sub(r.Start) > clockGrain {
		return false
	}
	if j.wasReused == No || !j.reuses() {
		return true
	}
	return countID(r.HistoryOutputs, tool.CallID) >= j.owed(tool)
}

// reuses reports whether any response makes a call with an id that its own history, or
// another of its calls, already has.
func (j *naive) reuses() bool {
	if j.wasReused == NotObserved {
		j.wasReused = No
		for i := range j.run.Requests {
			if r := &j.run.Requests[i]; r.repeatsAny(r.CallIDs) || r.repeatsAny(r.OpenCallIDs) {
				j.wasReused = Yes
				break
			}
		}
	}
	return j.wasReused == Yes
}

func (j *naive) owed(tool *Tool) int {
	var by *Request
	for _, i := range j.order {
		r := &j.run.Requests[i]
		if (hasID(r.CallIDs, tool.CallID) || hasID(r.OpenCallIDs, tool.CallID)) && r.Start.Before(tool.Start) {
			by = r
		}
	}
	if by == nil {
		return 1
	}
	return countID(by.HistoryOutputs, tool.CallID) + max(1, countID(by.CallIDs, tool.CallID))
}

func (j *naive) reaches(r *Request, id string) bool {
	maker := func(id string) *Request {
		for _, i := range j.order {
			if r := &j.run.Requests[i]; hasID(r.CallIDs, id) || hasID(r.OpenCallIDs, id) {
				return r
			}
		}
		return nil
	}
	first, made := maker(r.HistoryOutputs[0]), maker(id)
	return first != nil && made != nil && first.Start.Before(made.Start)
}

func (j *naive) answered(tool *Tool, until *Request) bool {
	sent := tool.Delivery == semconv.OutputDeliverySent
	if tool.CallID == "" {
		return sent
	}
	if sent && !j.leftOut(tool.CallID) {
		return true
	}
	by := j.firstAnswer(tool)
	return by != nil && (until == nil || by.Start.Before(until.Start))
}

// leftOut reports whether a request that completed, and has the whole conversation, follows
// the last one with an output and does not have it.
func (j *naive) leftOut(id string) bool {
	left, carried := false, false
	for _, i := range j.order {
		r := &j.run.Requests[i]
		switch {
		case slices.Contains(r.HistoryOutputs, id):
			left, carried = false, true
		case carried && j.states[i].answered() && r.fullHistory():
			left = true
		}
	}
	return left
}

func (j *naive) firstAnswer(tool *Tool) *Request {
	for _, i := range j.order {
		if r := &j.run.Requests[i]; j.states[i].answered() && j.carries(r, tool) {
			return r
		}
	}
	return nil
}

// missingOutputs returns the ids of the calls whose output r's history is observed to
// lack, each once.
func (j *naive) missingOutputs(r *Request) (ids []string) {
	for t := range j.run.Tools {
		tool := &j.run.Tools[t]
		if tool.hasOutput() && !tool.End.After(r.Start) && j.lacks(r, tool) == Yes && !hasID(ids, tool.CallID) {
			ids = append(ids, tool.CallID)
		}
	}
	return ids
}

// unreturned returns the ids of the calls that responses made, that no recorded tool
// executed, and whose output is not in the last history that contains the call, nor in a
// later one, nor in one that was answered.
func (j *naive) unreturned() (ids []string) {
	for _, i := range j.order {
		maker := &j.run.Requests[i]
		for _, id := range maker.CallIDs {
			if id == "" || len(ids) == MaxIDs || j.toolOf(id) != nil || hasID(ids, id) {
				continue
			}
			last := -1
			for pos, l := range j.order {
				if hasID(j.run.Requests[l].HistoryCalls, id) {
					last = pos
				}
			}
			if last < 0 {
				continue
			}
			r := &j.run.Requests[j.order[last]]
			due := countID(r.HistoryCalls, id)
			if maker.End.After(r.Start) || due <= countID(r.HistoryOutputs, id) ||
				len(r.HistoryOutputs) >= MaxIDs && (j.reuses() || !j.reaches(r, id)) {
				continue
			}
			back := false
			for pos, u := range j.order {
				back = back || countID(j.run.Requests[u].HistoryOutputs, id) >= due && (pos > last || j.states[u].answered())
			}
			if !back {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// lost returns why a tool's output did not reach the model. It returns unset if the output
// did, or if nothing shows that it did not.
func (j *naive) lost(tool *Tool) semconv.Cause {
	if j.answered(tool, nil) {
		return semconv.CauseUnset
	}
	carried, asked := false, false
	for _, i := range j.order {
		r := &j.run.Requests[i]
		if !tool.End.IsZero() && r.Start.Before(tool.End) && j.carries(r, tool) {
			carried = true
		}
		if tool.End.IsZero() || r.Start.Before(tool.End) {
			continue
		}
		if j.carries(r, tool) {
			carried = true
			continue
		}
		lacks := j.lacks(r, tool) == Yes
		if lacks && tool.hasOutput() && j.retries(r, tool) {
			if j.undelivered(tool) {
				return semconv.CauseDeliveryFailed // the delivery failed first, so that is the cause
			}
			return semconv.CauseOmittedFromRetry
		}
		asked = asked || !lacks
	}
	switch {
	case carried:
		return semconv.CauseUnset // the diagnosis of the request that carried it explains the failure
	case j.undelivered(tool):
		return semconv.CauseDeliveryFailed
	case asked || !tool.hasOutput() || tool.Delivery == semconv.OutputDeliveryCached:
		return semconv.CauseUnset
	case j.overtaken(tool):
		return semconv.CauseOmittedFromRetry
	default:
		return semconv.CauseNeverAnswered
	}
}

func (j *naive) undelivered(t *Tool) bool {
	kept := t.Delivery == semconv.OutputDeliveryCached && t.DeliveryError != "" && (j.run.Ended == Yes || j.run.Ended == No)
	return kept || t.Delivery == semconv.OutputDeliveryFailed
}

// retries reports whether r continues the call's conversation: its history still contains
// the call, or it follows a failed request that made the call or carried its output.
// Otherwise r may belong to another agent's conversation, which owes nothing to the tool.
func (j *naive) retries(r *Request, tool *Tool) bool {
	if hasID(r.HistoryCalls, tool.CallID) {
		return true
	}
	for i := range j.run.Requests {
		if j.states[i] != stateFailed {
			continue
		}
		before := &j.run.Requests[i]
		if !before.End.After(r.Start) &&
			(hasID(before.HistoryOutputs, tool.CallID) || hasID(before.CallIDs, tool.CallID)) {
			return true
		}
	}
	return false
}

// recoveredLater reports whether a later request continued the work of request i.
func (j *naive) recoveredLater(i int) bool {
	f := &j.run.Requests[i]
	for _, l := range slices.Backward(j.order) {
		r := &j.run.Requests[l]
		if l == i || r.Start.Add(clockGrain).Before(f.End) {
			return false
		}
		if r.Start.Before(f.End) && !r.followsEarly(f) {
			continue
		}
		if j.states[l].answered() && (j.run.Failed == No || j.states[i] != stateFailed || sameThread(r, f)) {
			return true
		}
	}
	return false
}

// sameThread reports whether r carries every output that f carried, as far as both were
// observed.
func sameThread(r, f *Request) bool {
	return !r.fullHistory() || f.HistoryCalls == nil ||
		!slices.ContainsFunc(f.HistoryOutputs, func(id string) bool { return !hasID(r.HistoryOutputs, id) })
}

// toolRecovered reports whether the model answered the tool's output or error, or the run
// continued successfully without it.
func (j *naive) toolRecovered(t *Tool) bool {
	sent := j.answered(t, nil)
	for _, i := range j.order {
		if r := &j.run.Requests[i]; j.states[i].answered() && j.carries(r, t) && !r.Start.Add(clockGrain).Before(t.Start) {
			return true
		}
	}
	if !sent && j.run.Failed == Yes {
		return false
	}
	if len(j.order) == 0 {
		return sent
	}
	follows := func(r *Request) bool {
		if !r.Start.Before(t.End) {
			return true
		}
		made := t.CallID != "" && (hasID(r.CallIDs, t.CallID) || hasID(r.OpenCallIDs, t.CallID))
		return !made && !r.Start.Add(clockGrain).Before(t.End) && !r.End.Before(t.End)
	}
	for _, i := range slices.Backward(j.order) {
		if j.states[i].answered() {
			if follows(&j.run.Requests[i]) {
				return true
			}
			break
		}
	}
	last := j.order[len(j.order)-1]
	return j.states[last] == stateUnknown && j.run.Requests[last].HistoryCalls == nil && follows(&j.run.Requests[last])
}

func (j *naive) concerns(tool *Tool, r *Request) bool {
	if tool.CallID == "" || tool.Start.Before(r.End) || hasID(r.CallIDs, tool.CallID) || hasID(r.OpenCallIDs, tool.CallID) {
		return true
	}
	return r.callsUnnamed() && !slices.ContainsFunc(j.run.Requests, func(q Request) bool {
		return hasID(q.CallIDs, tool.CallID) || hasID(q.OpenCallIDs, tool.CallID)
	})
}

// started adds what addTools adds, except for the tool's name.
func (j *naive) started(k *risk, r *Request) {
	for t := range j.run.Tools {
		tool := &j.run.Tools[t]
		if j.concerns(tool, r) && !(j.carries(r, tool) && j.carriesAll(r, tool.CallID, j.executions(r, tool.CallID), true)) {
			k.add(tool)
		}
	}
}

// executions returns how many executions of the call with an id concern r and may be in its history.
func (j *naive) executions(r *Request, id string) (n int) {
	for t := range j.run.Tools {
		if tool := &j.run.Tools[t]; tool.CallID == id && j.concerns(tool, r) && tool.Start.Sub(r.Start) <= clockGrain {
			n++
		}
	}
	return n
}

// overtaken reports whether a retry was sent without the tool's output while the tool ran.
func (j *naive) overtaken(tool *Tool) bool {
	for _, i := range j.order {
		r := &j.run.Requests[i]
		if !r.Start.After(tool.Start) || !r.Start.Before(tool.End) || hasID(r.HistoryOutputs, tool.CallID) {
			continue
		}
		if hasID(r.HistoryCalls, tool.CallID) || r.fullHistory() && j.retries(r, tool) {
			return true
		}
	}
	return false
}

// violatedBefore reports whether an earlier request of the run had the same protocol
// violation, or request i is itself a later attempt.
func (j *naive) violatedBefore(i int) bool {
	r := &j.run.Requests[i]
	if r.Attempt > 1 {
		return true
	}
	for e := range j.run.Requests {
		earlier := &j.run.Requests[e]
		if e != i && earlier.Start.Before(r.Start) && earlier.Transport.Cause == r.Transport.Cause &&
			j.classifications[e].class == semconv.ClassProtocolViolation {
			return true
		}
	}
	return false
}

// unrecordedTools reports what the histories show of tools that are not recorded. It takes
// the tools of each id that began before the request, one for each call.
func (j *naive) unrecordedTools() (ran, called, unobserved bool) {
	if j.toolsRecorded() {
		return false, false, false
	}
	more := func(r *Request, ids []string) bool {
		for _, id := range ids {
			began := 0
			for t := range j.run.Tools {
				if tool := &j.run.Tools[t]; tool.CallID == id && tool.CallID != "" && tool.Start.Sub(r.Start) <= clockGrain {
					began++
				}
			}
			if countID(ids, id) > began {
				return true
			}
		}
		return len(ids) >= MaxIDs
	}
	for i := range j.run.Requests {
		r := &j.run.Requests[i]
		ran = ran || more(r, r.HistoryOutputs)
		called = called || more(r, r.HistoryCalls)
		unobserved = unobserved || r.HistoryCalls == nil
	}
	return ran, called, unobserved
}

// cancelledByFailure reports whether request i was cancelled without a reason of its own,
// and another one failed while it was in flight.
func (j *naive) cancelledByFailure(i int) bool {
	a := &j.run.Requests[i]
	if a.Abort.Source != semconv.AbortSourceUnknown && a.Abort.Source != semconv.AbortSourceConsumer {
		return false
	}
	for f := range j.run.Requests {
		if j.cancelledAfter(i, f) {
			return true
		}
	}
	return false
}

// randomRun returns a run of a few requests and tools, or of more than are scanned one by
// one. It uses few ids, so that they match and repeat.
func randomRun(rnd *rand.Rand) *Run {
	n := 1 + rnd.IntN(6)
	if rnd.IntN(3) == 0 {
		n = fewIDs + rnd.IntN(2*fewIDs)
	}
	span, ids := 3*n, n+1
	if rnd.IntN(4) == 0 {
		ids = 1 + rnd.IntN(3)
	}
	if rnd.IntN(8) == 0 {
		span = 1
	}
	id := func() string {
		if rnd.IntN(40) == 0 {
			return ""
		}
		return "call_" + strconv.Itoa(rnd.IntN(ids))
	}
	list := func(most int) []string {
		if rnd.IntN(5) == 0 {
			return nil
		}
		out := []string{}
		for range rnd.IntN(most + 1) {
			if s := id(); s != "" {
				out = append(out, s)
			}
		}
		if rnd.IntN(12) == 0 {
			for len(out) < MaxIDs {
				out = append(out, "call_"+strconv.Itoa(rnd.IntN(200)))
			}
		}
		return out
	}
	r := &Run{Start: t0, End: at(float64(span)), Ended: facts[rnd.IntN(3)], Failed: facts[rnd.IntN(3)], ToolsRecorded: facts[rnd.IntN(3)]}
	if rnd.IntN(2) == 0 {
		r.AnnouncedRequests = Counted(n)
	}
	changes := []func(*Request){answers, aborted(semconv.AbortSourceUnknown), aborted(semconv.AbortSourceApplication), reset(semconv.PhaseResponseStarted), reset(semconv.PhaseToolInput), calls("x"), refused(503, semconv.ProviderErrorKindOverloaded)}
	for range n {
		from := float64(rnd.IntN(span))
		q := request(from, from+float64(rnd.IntN(4)), changes[rnd.IntN(len(changes))])
		q.CallIDs, q.OpenCallIDs = list(2), list(1)
		q.HistoryCalls, q.HistoryOutputs = list(4), list(4)
		q.ToolInputsStarted, q.ToolCalls, q.Unread = Count(rnd.IntN(4)), Count(rnd.IntN(4)), rnd.IntN(8) == 0
		q.Transport.Cause = semconv.TransportCause(rnd.IntN(len(semconv.TransportCauseValues()) + 1))
		r.Requests = append(r.Requests, q)
	}
	for range rnd.IntN(n + 2) {
		from := float64(rnd.IntN(span))
		f := tool(from, from+float64(rnd.IntN(4)), id(), semconv.ToolEffect(rnd.IntN(5)), semconv.ToolOutcome(rnd.IntN(7)))
		f.Delivery, f.FailedBeforeEffect = semconv.OutputDelivery(rnd.IntN(5)), rnd.IntN(6) == 0
		if rnd.IntN(8) == 0 {
			f.End = time.Time{}
		}
		r.Tools = append(r.Tools, f)
	}
	if rnd.IntN(2) == 0 {
		r.AnnouncedTools = Counted(len(r.Tools))
	}
	return r
}

// TestIndexes compares the answers of the indexes with their definitions.
func TestIndexes(t *testing.T) {
	rounds := 10_000 / sample.Every(40)
	for seed := range rounds {
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		run := randomRun(rnd)
		j := &judge{run: run}
		j.prepare()
		n := &naive{judge: &judge{run: run}}
		n.prepare()
		check := func(what string, want, got any) {
			t.Helper()
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("seed %d: %s: want %v, got %v\n%+v", seed, what, want, got, run)
			}
		}
		check("toolsRecorded", n.toolsRecorded(), j.toolsRecorded())
		ran, called, unobserved := n.unrecordedTools()
		u := j.unrecordedTools()
		check("a tool that is not recorded ran", ran, u.ran)
		check("one was called", called || ran, u.called || u.ran)
		check("a history that was not observed", unobserved || j.toolsRecorded(), u.unobserved || j.toolsRecorded())
		check("the request that shows it", ran || called, u.first >= 0)
		bounded := false // more executions of a call, or requests that carry its output, than are compared
		for id := range j.index.count {
			bounded = bounded || len(j.index.executions(id)) > maxExecutions || len(j.answeredCarriers(id)) > maxThreads
		}
		for pos, i := range j.order {
			r := &run.Requests[i]
			h := j.historyState(pos)
			check("missingOutput", n.missingOutput(r), h.missing)
			want, got := n.missingOutputs(r), j.missingOutputs(pos, h)
			slices.Sort(want)
			slices.Sort(got)
			check("missingOutputs", want, got)
			check("unaccountedCalls", n.unaccountedCalls(i), j.unaccountedCalls(pos))
			check("cancelledByFailure", n.cancelledByFailure(i), j.cancelledByFailure(i))
			check("violatedBefore", n.violatedBefore(i), j.violatedBefore(i))
			var before, after risk
			n.started(&before, r)
			j.addTools(&after, pos)
			if bounded {
				check("tools, at least", after.started, after.started|before.started)
			} else {
				check("tools", []any{before.started, before.toolRefused}, []any{after.started, after.toolRefused})
			}
			if s := j.states[i]; s != stateOK && s != stateUnknown {
				if want, got := n.recoveredLater(i), j.recoveredLater(pos); !bounded || got {
					check("recoveredLater", want, got)
				}
			}
		}
		for i := range run.Tools {
			tool := &run.Tools[i]
			check("answered", n.answered(tool, nil), j.answered(i))
			check("lost", n.lost(tool), j.lost(i))
			check("toolRecovered", n.toolRecovered(tool), j.toolRecovered(i))
		}
		check("calls that did not return", n.unreturned(), j.addUnreturned(nil))
	}
}

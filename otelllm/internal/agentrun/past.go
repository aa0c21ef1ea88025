package agentrun

import (
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// RecentParts is how many requests, and how many tools, of an open run are in the verdict on one of its parts. For the
// parts before them, see [past].
const RecentParts = 64

// past holds the older parts that may make the verdict on a request more careful: a few of each kind. Each list is one
// longer than the longest list of ids in a request's history, so that at least one of its parts is not in that history. The
// run's mu guards it.
type past struct {
	tools    map[string]*Tool               // the last kept tool of each call id
	acted    map[semconv.ToolEffect][]*Tool // the first tools that may have changed something, by effect
	waiting  []*Tool                        // tools whose output no completed request carried, at most MaxParts
	violated []classify.Request             // the first request with each violation of the protocol
	lost     []string                       // calls whose output had not come back when a part of the run was forgotten

	forgotten int // number of tools that the run no longer keeps

	// Calls that no recorded tool executed. If a later request carries the output of such a call, not all tools are
	// recorded, unless the tools without ids account for it.
	owed                 map[string]time.Time // calls whose output no request carries, with the time of the call
	strays               []stray              // the first calls whose output a request carries
	strayCalls, nameless int                  // the number of such calls, and of tools without ids
	unnamed              time.Time            // when a response first had, or may have had, calls without ids
}

// stray is a call that was executed by a tool that is not recorded.
type stray struct {
	id string
	at time.Time
}

func (p *past) toolBegan(t *Tool) {
	if p.tools == nil {
		p.tools, p.acted = map[string]*Tool{}, map[semconv.ToolEffect][]*Tool{}
	}
	if t.callID == "" {
		p.nameless++
	} else {
		p.tools[t.callID] = t
		delete(p.owed, t.callID)
	}
	if len(p.waiting) < MaxParts {
		p.waiting = append(p.waiting, t)
	}
	list := p.acted[t.effect]
	if len(list) > classify.MaxIDs {
		list = slices.DeleteFunc(list, func(t *Tool) bool { f := t.Facts(); return !f.MayHaveActed() })
	}
	if len(list) <= classify.MaxIDs {
		list = append(list, t)
	}
	p.acted[t.effect] = list
}

// forget removes a tool that the run no longer keeps. Its effect stays.
func (p *past) forget(t *Tool) {
	p.forgotten++
	if p.tools[t.callID] == t {
		delete(p.tools, t.callID)
	}
}

// addLost takes the calls that a verdict on the run names for their missing outputs, before the requests that show them may
// be forgotten.
func (p *past) addLost(callIDs []string) {
	for _, id := range callIDs {
		if len(p.lost) < classify.MaxIDs && !slices.Contains(p.lost, id) {
			p.lost = append(p.lost, id)
		}
	}
}

// requestEnded takes the history of a request, and its own calls.
func (p *past) requestEnded(f *classify.Request) {
	if f.HistoryCalls == nil { // it may have any output
		for id := range p.owed {
			p.addStray(id)
		}
	}
	answered := f.Ended == semconv.StreamEndTerminalEvent && f.Finish != classify.FinishMissing
	if answered && len(p.lost) > 0 {
		p.lost = slices.DeleteFunc(p.lost, func(id string) bool { return slices.Contains(f.HistoryOutputs, id) })
	}
	for _, id := range f.HistoryOutputs {
		if _, ok := p.owed[id]; ok {
			p.addStray(id)
		}
		if t := p.tools[id]; t != nil && answered && !t.begun.After(f.Start) {
			p.outputAnswered(t)
		}
	}
	for _, id := range f.CallIDs {
		if p.tools[id] == nil && len(p.owed) < MaxParts {
			if p.owed == nil {
				p.owed = map[string]time.Time{}
			}
			p.owed[id] = f.End
		}
	}
	if p.unnamed.IsZero() && callsUnnamed(f) {
		p.unnamed = f.End
	}
	if classify.ViolatesProtocol(f.Transport.Cause) && !slices.ContainsFunc(p.violated, func(v classify.Request) bool { return v.Transport.Cause == f.Transport.Cause }) {
		p.violated = append(p.violated, *f)
	}
}

// outputAnswered forgets a tool that waits: the model got its output.
func (p *past) outputAnswered(t *Tool) {
	t.setAnswered()
	for i, w := range slices.Backward(p.waiting) {
		if w == t {
			p.waiting = slices.Delete(p.waiting, i, i+1)
			return
		}
	}
}

// addStray counts a call whose output a request has, and which no recorded tool executed.
func (p *past) addStray(id string) {
	p.strayCalls++
	if len(p.strays) <= classify.MaxIDs {
		p.strays = append(p.strays, stray{id, p.owed[id]})
	}
	delete(p.owed, id)
}

// ranUnrecorded reports whether calls ran without a recorded tool.
func (p *past) ranUnrecorded() bool { return p.strayCalls > p.nameless }

// unrecordedTool is the unknown effects of a tool that is not recorded.
var unrecordedTool = func() classify.Effects {
	e := classify.Judge(&classify.Run{
		AnnouncedRequests: classify.Counted(0), AnnouncedTools: classify.Counted(1), Tools: []classify.Tool{{}},
	}).Effects
	e.Requests, e.Tools = 0, 0
	return e
}()

// callsUnnamed reports whether a response has calls without ids, or may have.
func callsUnnamed(f *classify.Request) bool {
	if !f.ToolCalls.Observed() && !f.ToolInputsCompleted.Observed() {
		return f.Status > 0 && f.Status < 400
	}
	return max(f.ToolCalls.N(), f.ToolInputsCompleted.N()) > len(f.CallIDs)
}

// unexecuted returns a request before f that made a call which is not in f's history, and which no recorded tool executed.
// It reports false if there is no such request.
func (p *past) unexecuted(f *classify.Request) (classify.Request, bool) {
	before := func(id string, at time.Time) bool {
		return !at.After(f.Start) && !slices.Contains(f.HistoryOutputs, id) && !slices.Contains(f.CallIDs, id)
	}
	made := func(at time.Time, ids ...string) (classify.Request, bool) {
		return classify.Request{
			Start: at, End: at, CallIDs: ids, ToolCalls: classify.Counted(1),
			HistoryCalls: []string{}, HistoryOutputs: []string{}, Failed: classify.No,
		}, true
	}
	if !p.unnamed.IsZero() && !p.unnamed.After(f.Start) {
		return made(p.unnamed)
	}
	for id, at := range p.owed {
		if before(id, at) {
			return made(at, id)
		}
	}
	for _, s := range p.strays {
		if before(s.id, s.at) {
			return made(s.at, s.id)
		}
	}
	return classify.Request{}, false
}

// addTo adds to run, which has only the parts since a time, the older parts that may make the verdict on its request f more
// careful.
func (p *past) addTo(run *classify.Run, f *classify.Request, since time.Time) {
	var older []classify.Tool
	missing := 0
	for _, t := range p.waiting {
		if !t.begun.Before(since) || missing == classify.MaxIDs || missing > 0 && f.HistoryCalls == nil {
			break
		}
		if t.callID == "" || !slices.Contains(f.HistoryOutputs, t.callID) {
			missing++
			older = append(older, t.Facts())
		}
	}
	for _, tools := range p.acted {
		for _, t := range tools {
			tool := t.Facts()
			if !t.begun.Before(since) || !tool.MayHaveActed() || t.callID != "" && slices.Contains(f.HistoryOutputs, t.callID) {
				continue
			}
			if !slices.ContainsFunc(older, func(u classify.Tool) bool { return u.Start.Equal(tool.Start) && u.CallID == tool.CallID }) {
				if t.isAnswered() {
					tool.Delivery = semconv.OutputDeliverySent // the request that answered it may not be there
				}
				older = append(older, tool)
			}
			break
		}
	}
	if len(older) > 0 {
		slices.SortStableFunc(older, func(a, b classify.Tool) int { return a.Start.Compare(b.Start) })
		run.Tools = append(older, run.Tools...)
	}
	if run.AnnouncedTools.Observed() {
		run.AnnouncedTools = classify.Counted(run.Inner.Tools + len(run.Tools))
	}
	if p.ranUnrecorded() {
		run.AnnouncedTools = 0
	}
	if !run.AnnouncedTools.Observed() {
		if r, ok := p.unexecuted(f); ok {
			run.Requests = append(run.Requests, r)
		}
	}
	for i := range p.violated {
		if v := &p.violated[i]; v.Start.Before(since) && v.Transport.Cause == f.Transport.Cause {
			run.Requests = append(run.Requests, *v)
		}
	}
}

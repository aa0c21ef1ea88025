package otelllm

import (
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// recentParts is how many requests, and tools, a verdict on one part of an open run
// looks at one by one. What it needs of those before is in [past].
const recentParts = 64

// past is what the verdict on a request needs of the parts before the recent ones: of
// each kind that could make it more careful, one. Each list is longer by one than the
// longest list of ids in a request's history, so that one of its parts is not in that
// history, if so many came. It is guarded by the run's mu.
type past struct {
	tools    map[string]*Tool               // those that are kept, by the call's id: the last one
	acted    map[semconv.ToolEffect][]*Tool // the first tools that may have done something, by effect
	callers  []classify.Request             // the first requests that made calls, where no tool is recorded
	violated []classify.Request             // the first one of each violation

	// The calls that responses made and that no recorded tool executed; how many of them a
	// later request has the output of; and how many recorded tools have no id. Tools whose
	// outputs are there are not all recorded, unless the tools without ids account for them.
	owed              map[string]struct{}
	orphans, nameless int
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
	list := p.acted[t.effect]
	if len(list) > classify.MaxIDs {
		list = slices.DeleteFunc(list, func(t *Tool) bool { f := t.seen(); return !mayHaveActed(&f) })
	}
	if len(list) <= classify.MaxIDs {
		list = append(list, t)
	}
	p.acted[t.effect] = list
}

// forget forgets a tool that is not kept any more, but for its effect.
func (p *past) forget(t *Tool) {
	if p.tools[t.callID] == t {
		delete(p.tools, t.callID)
	}
}

// requestEnded takes what a request says about those before it, and its own calls.
func (p *past) requestEnded(f *classify.Request, toolsRecorded bool) {
	if f.HistoryCalls == nil {
		p.orphans += len(p.owed)
		clear(p.owed)
	}
	answered := f.Ended == semconv.StreamEndTerminalEvent && f.Finish != classify.FinishMissing
	for _, id := range f.HistoryOutputs {
		if _, ok := p.owed[id]; ok {
			p.orphans++
			delete(p.owed, id)
		}
		if t := p.tools[id]; t != nil && answered && !t.begun.After(f.Start) {
			t.answer()
		}
	}
	for _, id := range f.CallIDs {
		if p.tools[id] == nil && len(p.owed) < maxParts {
			if p.owed == nil {
				p.owed = map[string]struct{}{}
			}
			p.owed[id] = struct{}{}
		}
	}
	switch {
	case toolsRecorded:
		p.callers = nil
	case len(p.callers) <= classify.MaxIDs && callsOf(f) > 0:
		p.callers = append(p.callers, *f)
	}
	if violates(f.Transport.Cause) && !slices.ContainsFunc(p.violated, func(v classify.Request) bool { return v.Transport.Cause == f.Transport.Cause }) {
		p.violated = append(p.violated, *f)
	}
}

// violates reports whether a cause is a violation of the protocol: the first passes.
func violates(c semconv.TransportCause) bool {
	switch c {
	case semconv.TransportCauseMalformedEvent, semconv.TransportCauseEventTooLong, semconv.TransportCauseUnexpectedContentType:
		return true
	default:
		return false
	}
}

// callsOf is how many calls a response handed over at least.
func callsOf(f *classify.Request) int {
	return max(len(f.CallIDs), f.ToolCalls.N(), f.ToolInputsCompleted.N())
}

// mayHaveActed: that the tool did nothing is not known.
func mayHaveActed(t *classify.Tool) bool {
	return !t.FailedBeforeEffect && t.Outcome != semconv.ToolOutcomeRejected && t.Outcome != semconv.ToolOutcomeInvalidInput
}

// addTo adds to run, of which only the parts since a moment are there, what else may
// make the verdict on its request f more careful.
func (p *past) addTo(run *classify.Run, f *classify.Request, since time.Time) {
	for _, tools := range p.acted {
		for _, t := range tools {
			tool := t.seen()
			if !t.begun.Before(since) || !mayHaveActed(&tool) || t.callID != "" && slices.Contains(f.HistoryOutputs, t.callID) {
				continue
			}
			if t.isAnswered() {
				tool.Delivery = semconv.OutputDeliverySent // the request that answered it may not be there
			}
			run.Tools = append(run.Tools, tool)
			break
		}
	}
	for i := range p.callers {
		c := &p.callers[i]
		if c.Start.Before(since) && (callsOf(c) > len(c.CallIDs) ||
			slices.ContainsFunc(c.CallIDs, func(id string) bool { return !slices.Contains(f.HistoryOutputs, id) })) {
			run.Requests = append(run.Requests, *c)
			break
		}
	}
	for i := range p.violated {
		if v := &p.violated[i]; v.Start.Before(since) && v.Transport.Cause == f.Transport.Cause {
			run.Requests = append(run.Requests, *v)
		}
	}
}

// verdictOn judges one request on what has been seen so far, as a part of its run
// where it has one. It is the zero value where nothing failed.
func (r *Run) verdictOn(f *classify.Request) classify.Diagnosis {
	if alone := classify.Judge(&classify.Run{Requests: []classify.Request{*f}}).Requests[0]; r == nil || !alone.Failed() {
		return alone
	}
	seen, _ := r.view(recentParts)
	i := slices.IndexFunc(seen.Requests, func(q classify.Request) bool { return q.Start.Equal(f.Start) && q.End.Equal(f.End) })
	if i < 0 { // it is being ended, or so many ended after it
		i = len(seen.Requests)
		seen.Requests = append(seen.Requests, *f)
	}
	r.addPast(&seen, f)
	return classify.Judge(&seen).Requests[i]
}

// addPast adds to a view of the run's recent parts what the verdict on its request f
// needs of those before.
func (r *Run) addPast(seen *classify.Run, f *classify.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tools := len(seen.Tools)
	r.past.addTo(seen, f, earliest(seen.Requests))
	if seen.AnnouncedTools.Observed() {
		seen.AnnouncedTools = classify.Counted(seen.AnnouncedTools.N() + len(seen.Tools) - tools)
	}
	if r.past.orphans > r.past.nameless {
		seen.AnnouncedTools = 0
	}
}

// verdictOnTool is verdictOn for a tool.
func (r *Run) verdictOnTool(t *classify.Tool) classify.Diagnosis {
	if t.Outcome == semconv.ToolOutcomeSucceeded && t.Delivery != semconv.OutputDeliveryFailed && !r.inputOpen(t.CallID) {
		return classify.Diagnosis{}
	}
	seen, _ := r.view(recentParts)
	i := len(seen.Tools) - 1
	for i >= 0 && !(seen.Tools[i].Start.Equal(t.Start) && seen.Tools[i].CallID == t.CallID) {
		i--
	}
	if i < 0 { // it took so long that many began after it
		i = len(seen.Tools)
		seen.Tools = append(seen.Tools, *t)
	}
	return classify.Judge(&seen).Tools[i]
}

// inputOpen reports whether a response was cut in the input of this call.
func (r *Run) inputOpen(callID string) bool {
	if callID == "" {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.requests) - 1; i >= max(0, len(r.requests)-recentParts); i-- {
		if slices.Contains(r.requests[i].OpenCallIDs, callID) {
			return true
		}
	}
	return false
}

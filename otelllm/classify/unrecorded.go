package classify

import (
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// unrecorded is what the histories of a run's requests show of tools that ran before them
// and are not recorded.
type unrecorded struct {
	known      bool     // the histories were read
	ran        bool     // one has an output of no recorded tool
	called     bool     // one has a call of no recorded tool, without an output
	unobserved bool     // one was not observed
	shows      *Request // the first request whose history shows ran or called; nil for none
}

// unrecordedTools reads the histories. If the producer records every tool, a call without a
// tool belongs to an earlier run of the conversation.
func (j *judge) unrecordedTools() *unrecorded {
	u := &j.unrecorded
	if u.known {
		return u
	}
	u.known = true
	if j.toolsRecorded() {
		return u
	}
	for _, i := range j.order {
		r := &j.run.Requests[i]
		u.unobserved = u.unobserved || r.HistoryCalls == nil
		if u.ran {
			continue
		}
		u.ran = j.anyUnrecorded(r, r.HistoryOutputs)
		u.called = u.called || j.anyUnrecorded(r, r.HistoryCalls)
		if u.shows == nil && (u.ran || u.called) {
			u.shows = r
		}
	}
	return u
}

// addUnrecorded adds what the histories show to the risk of repeating the run. It comes
// after the recorded tools.
func (j *judge) addUnrecorded(k *risk) {
	u := j.unrecordedTools()
	if u.ran {
		k.start(semconv.ToolEffectUnknown, "")
	}
	if u.called {
		k.calls = callsUnknown
	}
	if u.unobserved {
		k.missingOutput = NotObserved
	}
}

// anyUnrecorded reports whether one of ids, which are in r's history, is of a call that no
// recorded tool executed. A list at its maximum length may have been cut, so that it stands
// for more calls than it has ids.
func (j *judge) anyUnrecorded(r *Request, ids []string) bool {
	if len(ids) >= MaxIDs {
		return true
	}
	for at := range ids {
		if !j.recordedAt(r, ids, at) {
			return true
		}
	}
	return false
}

// recordedAt reports whether a tool accounts for the id at a place of a list in r's
// history. A tool accounts for one call, and began before the request.
func (j *judge) recordedAt(r *Request, ids []string, at int) bool {
	id := ids[at]
	due := 0
	for _, t := range j.uses(roleExecuted, id) {
		if j.run.Tools[t].Start.Sub(r.Start) > clockGrain {
			continue
		}
		if due == 0 {
			due = countID(ids[:at+1], id)
		}
		if due--; due == 0 {
			return true
		}
	}
	return false
}

// unrecorded adds the ids in a history that show tools which are not recorded, as many as
// the bound of an entry allows.
func (e *evidence) unrecorded(j *judge) {
	r := j.unrecordedTools().shows
	if r == nil {
		return
	}
	key, ids := semconv.HistoryToolOutputsKey, r.HistoryOutputs
	if !j.anyUnrecorded(r, ids) {
		key, ids = semconv.HistoryToolCallsKey, r.HistoryCalls
	}
	var shown []string
	for at, id := range ids {
		if len(ids) >= MaxIDs || !j.recordedAt(r, ids, at) {
			shown = append(shown, id)
		}
	}
	e.add(string(key), strings.Join(shown, ","))
}

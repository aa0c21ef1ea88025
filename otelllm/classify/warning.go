package classify

import (
	"slices"
	"strconv"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// warn adds to the verdict on a run what else is to be known about it: the calls that a later
// attempt does not know, and the tools that were interrupted and did not fail the run. Either may
// have had effects that the model did not learn about.
func (j *judge) warn(d *Diagnosis) {
	var names []string
	d.ForgottenCalls, names = j.forgottenCalls()
	var sentences []string
	if len(d.ForgottenCalls) > 0 {
		sentences = append(sentences, "The retry did not know of "+listed(names)+", which may have run.")
	}
	if OutcomeOf(d.Class) != semconv.RunOutcomeFailed || d.Class == semconv.ClassUnset {
		if names := j.interruptedTools(); len(names) > 0 {
			sentences = append(sentences, upperFirst(listed(names))+" was interrupted, and may have run.")
		}
	}
	d.Warning = strings.Join(sentences, " ")
}

// forgottenCalls returns the ids of the calls, each once and at most MaxIDs, that a response
// handed over before it failed or was stopped, and that no later request of the run knows, with
// the names of their tools. A further attempt was made without them: its history has neither the
// calls nor any others in their place. A call that a recorded tool executed is not among them:
// what became of its output is known.
func (j *judge) forgottenCalls() (ids, names []string) {
	if j.toolsRecorded() {
		return nil, nil
	}
	for pos, i := range j.order {
		r := &j.run.Requests[i]
		if len(r.CallIDs) == 0 || !j.attemptedWithout(pos, j.states[i]) {
			continue
		}
		for at, n := range j.index.numbersOf(pos, roleMade) {
			id := r.CallIDs[at]
			if id == "" || len(ids) == MaxIDs || j.index.executed(n) || j.knownAfter(n, pos) || hasID(ids, id) {
				continue
			}
			ids, names = append(ids, id), append(names, r.nameOf(at))
		}
	}
	return ids, names
}

// attemptedWithout reports whether a later request continues the conversation of the one at a
// position, which has this state, and its history has no more calls than that one's. After an
// answer the history may have been rewritten: then only what is known to be a further attempt is
// one.
func (j *judge) attemptedWithout(pos int, s state) bool {
	r := j.requestAt(int32(pos))
	if !r.fullHistory() {
		return false
	}
	first := max(pos+1, j.firstFrom(r.End.Add(-clockGrain)))
	for at := first; at < min(len(j.order), first+maxThreads); at++ {
		later := j.requestAt(int32(at))
		if s != stateFailed && s != stateAborted && later.Attempt <= r.Attempt {
			continue
		}
		if later.fullHistory() && len(later.HistoryCalls) <= len(r.HistoryCalls) && j.sameThread(at, pos) {
			return true
		}
	}
	return false
}

// knownAfter reports whether a request after the one at a position has a call in its history, or
// its output.
func (j *judge) knownAfter(n int32, pos int) bool {
	for _, in := range [...]role{roleHeld, roleCarried} {
		if uses := j.index.uses(n, in); len(uses) > 0 && int(uses[len(uses)-1].pos) > pos {
			return true
		}
	}
	return false
}

// nameOf returns the name of the tool of a call of r, "" if it is not known.
func (r *Request) nameOf(call int) string {
	if call >= len(r.CallNames) {
		return ""
	}
	return r.CallNames[call]
}

// nameOfCall returns the name of the tool of a call that a request of the run made, "" if it is
// not known.
func (j *judge) nameOfCall(id string) string {
	for i := range j.run.Requests {
		r := &j.run.Requests[i]
		if at := slices.Index(r.CallIDs, id); at >= 0 {
			return r.nameOf(at)
		}
	}
	return ""
}

// interruptedTools returns the names of the tools that were interrupted and may have changed
// something, "" for those without a name.
func (j *judge) interruptedTools() (names []string) {
	for t := range j.run.Tools {
		tool := &j.run.Tools[t]
		if tool.Outcome == semconv.ToolOutcomeInterrupted && tool.MayHaveActed() && tool.effect() >= semconv.ToolEffectNonIdempotent {
			names = append(names, tool.Name)
		}
	}
	return names
}

// maxListed bounds the tools that a warning names.
const maxListed = 3

// listed returns the names of tools as a list in words, each once: "pay", "pay and a tool", "a, b,
// c and 2 more". Names that may not be shown are replaced.
func listed(names []string) string {
	var list []string
	more := 0
	for _, name := range names {
		if name = safeName(name); name == "" {
			name = "a tool"
		}
		switch {
		case slices.Contains(list, name):
		case len(list) == maxListed:
			more++
		default:
			list = append(list, name)
		}
	}
	last := len(list) - 1
	switch {
	case more > 0:
		return strings.Join(list, ", ") + " and " + strconv.Itoa(more) + " more"
	case last > 0:
		return strings.Join(list[:last], ", ") + " and " + list[last]
	default:
		return list[0]
	}
}

// upperFirst returns a phrase in the form that it has at the beginning of a sentence, unless it
// begins with the name of a tool.
func upperFirst(phrase string) string {
	if strings.HasPrefix(phrase, "a tool") {
		return "A" + phrase[1:]
	}
	return phrase
}

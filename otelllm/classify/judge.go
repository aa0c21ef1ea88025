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
	makingsOf              map[int32][]making // by the number of the id; see makings
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
	j.judgeInto(v, r)
}

// judgeInto is [JudgeInto]. Afterwards j can answer questions about the run.
func (j *judge) judgeInto(v *Verdicts, r *Run) {
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

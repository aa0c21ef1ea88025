package ledger

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/test/soak/internal/load"
)

// Wait is how long a span took beyond what was due.
type Wait struct {
	Key   Key
	Due   time.Time // when it should have been exported
	Wait  time.Duration
	Shape string
}

// Waits returns the waits of the spans that were exported, from the first attempt to
// send them. What is due is: nothing for spans that llm_classify passes on and late ones;
// for others the time until the last span of their run was sent, and settle where the run
// does not announce its spans; max_hold at most, and where the span of a run is never
// sent. Where a trace has several runs, the last span of all of them counts. What of a
// wait disturbed returns is subtracted.
func (l *Ledger) Waits(rules Rules, disturbed func(from, to time.Time) time.Duration) (list []Wait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	traces := make(map[pcommon.TraceID]*journey)
	at := func(id pcommon.TraceID) *journey {
		j := traces[id]
		if j == nil {
			j = &journey{}
			traces[id] = j
		}
		return j
	}
	for s := range l.all {
		if s.attempts > 0 {
			at(s.key.Trace).sent(s)
		}
	}
	for key, r := range l.runs {
		at(key.Trace).run(r)
	}
	for s := range l.all {
		if s.acks == 0 || s.copies == 0 {
			continue
		}
		out, j, due := s.firstCopy[0].at, traces[s.key.Trace], s.first
		if s.role != load.Other && !s.late {
			latest := s.first.Add(rules.MaxHold)
			if due = j.due(rules.Settle); j.open || due.After(latest) {
				due = latest
			}
		}
		wait := out.Sub(due)
		if wait > 0 {
			wait -= disturbed(l.time(due), l.time(out))
		}
		list = append(list, Wait{Key: s.key, Due: l.time(due), Wait: max(wait, 0), Shape: l.shape(s)})
	}
	return list
}

// journey is how a trace is due.
type journey struct {
	last  moment // the last of its model calls, tools and runs
	quiet bool   // a run announces nothing
	open  bool   // the span of a run is never sent
}

func (j *journey) sent(s *span) {
	if s.role != load.Other && !s.late && s.first.After(j.last) {
		j.last = s.first
	}
}

func (j *journey) run(r *run) {
	j.quiet = j.quiet || !r.plan.Announces
	j.open = j.open || !r.plan.Ends
}

func (j *journey) due(settle time.Duration) moment {
	if j.quiet {
		return j.last.Add(settle)
	}
	return j.last
}

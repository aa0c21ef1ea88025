package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/soak/internal/load"
)

// whole reports whether the run was judged after it had ended, on any copy of its spans.
func (l *Ledger) whole(r *run) bool {
	for s := range l.spansOf(r) {
		if slices.ContainsFunc(l.copies(s), func(d delivery) bool {
			return d.judges() && (d.trigger == semconv.TriggerComplete || d.trigger == semconv.TriggerRunEnded)
		}) {
			return true
		}
	}
	return false
}

// verdicts returns the first verdict on a run of each span that has one.
func (c *checker) verdicts(r *run) (list []delivery) {
	for s := range c.spansOf(r) {
		for _, d := range c.copies(s) {
			if d.outcome != semconv.RunOutcomeUnset {
				list = append(list, d)
				break
			}
		}
	}
	for range r.abandons {
		list = append(list, r.abandoned[0])
	}
	return list
}

// first returns when the first span of the run was sent.
func (l *Ledger) first(r *run) (at moment) {
	for s := range l.spansOf(r) {
		if s.attempts > 0 && (at.IsZero() || s.first.Before(at)) {
			at = s.first
		}
	}
	return at
}

// out returns when the last of its spans was exported.
func (l *Ledger) out(r *run) (at moment) {
	for s := range l.spansOf(r) {
		for _, d := range l.copies(s) {
			if d.at.After(at) {
				at = d.at
			}
		}
	}
	return at
}

// taken returns when spans of the run were first and last accepted, and their number.
func (l *Ledger) taken(r *run) (from, to moment, spans int) {
	for s := range l.spansOf(r) {
		if s.acks == 0 {
			continue
		}
		if spans == 0 || s.first.Before(from) {
			from = s.first
		}
		if s.acked.After(to) {
			to = s.acked
		}
		spans++
	}
	return from, to, spans
}

// parted reports whether a part of the run may have been judged as a lone request, which
// has no run verdict: nothing names the run, and there was no room for its spans, or the
// Collector was stopped, before all of them had come.
func (c *checker) parted(r *run) bool {
	from, to, _ := c.taken(r)
	return !r.plan.Named && (c.rules.Bounded || c.between(from, to.Add(c.rules.MaxHold), false))
}

// due reports whether the run has to have a verdict: its span was accepted or, without
// its span, what is known of its other spans was not lost.
func (c *checker) due(r *run) bool {
	from, to, spans := c.taken(r)
	if spans == 0 || c.parted(r) || c.rules.Forgetful && !r.plan.Ends {
		return false
	}
	for s := range c.spansOf(r) {
		if s.role == load.Run {
			return s.acks > 0
		}
	}
	// Without a storage, the memory of exported spans is lost with the process.
	return c.rules.Storage || !c.between(from, to.Add(c.rules.RunTimeout), false)
}

func (c *checker) checkRun(r *run) {
	from, to, spans := c.taken(r)
	if spans == 0 {
		return
	}
	split := c.between(from, to, false)
	if split {
		c.figures.Split++
	}
	list := c.verdicts(r)
	if len(list) > 0 {
		c.figures.Verdicts[list[0].trigger]++
		c.figures.Outcomes[list[0].outcome]++
	}
	for _, v := range list {
		switch {
		case !v.safe || !r.plan.Risky:
		case v.trigger == semconv.TriggerRunEnded && c.unseen(r):
			c.figures.Unseen++
		default:
			c.add(LessCareful, r.key, "a %s run in which text was shown, or a tool changed something, is safe to repeat, by %s", r.shape, v.trigger)
		}
		if v.trigger == semconv.TriggerComplete && v.outcome != r.plan.Outcome {
			c.add(WrongVerdict, r.key, "a %s run with all its spans is %q, want %q", r.shape, v.outcome, r.plan.Outcome)
		}
		if v.trigger == semconv.TriggerLate {
			c.add(WrongTrigger, r.key, "the verdict on a %s run has the trigger %q", r.shape, v.trigger)
		}
	}
	if len(list) == 0 {
		if c.due(r) {
			c.add(NotJudged, r.key, "a %s run of %d spans has no verdict", r.shape, spans)
		}
		return
	}
	// The memory that a run has been judged expires, and is lost with the process: what arrives
	// later is a run of its own.
	slow := to.Sub(c.given(r)) >= c.rules.remembers(r)
	unnoted := c.unnoted(r, split, from)
	switch {
	case slow:
		c.figures.Slow++
	case unnoted:
		c.figures.Unnoted++
	}
	forgot := slow || unnoted
	// The run is given up before a span arrives that is retried for that long.
	givenUp := c.out(r).Sub(from) >= c.rules.RunTimeout &&
		slices.ContainsFunc(list, func(v delivery) bool { return v.trigger == semconv.TriggerRunExpired })
	switch {
	case len(list) > 1 && forgot:
		c.figures.Again++
	case len(list) > 1:
		c.add(JudgedTwice, r.key, "a %s run of %d spans has %d verdicts: %s", r.shape, spans, len(list), describe(list))
	}
	for s := range c.spansOf(r) {
		if outcomes := c.outcomes(s); len(outcomes) > 1 && !forgot {
			c.add(JudgedTwice, s.key, "copies of one span of a %s run say %s", r.shape, describe(outcomes))
		}
		if s.role == load.Run && s.copies > 0 && !forgot && !givenUp && !slices.ContainsFunc(c.copies(s), delivery.judges) {
			c.add(NotJudged, s.key, "the run span of a %s run came out without a verdict", r.shape)
		}
		if s.late && s.acks > 0 && s.copies > 0 && s.first.After(list[0].at) && !forgot && s.firstCopy[0].trigger != semconv.TriggerLate {
			c.add(LateNotMarked, s.key, "sent after the verdict on its run was exported, but its trigger is %q", s.firstCopy[0].trigger)
		}
	}
}

// unseen reports whether llm_classify cannot have known of the spans that make a run unsafe to
// repeat: it announces no counts, and when their first attempt had its result, the run span
// had been sent for longer than llm_classify waits for them. A refused attempt counts: what
// was refused is known to come. No run that announces no counts contains another one here.
func (c *checker) unseen(r *run) bool {
	var sent moment // the run span
	for s := range c.spansOf(r) {
		if s.role == load.Run {
			sent = s.first
		}
	}
	risky := 0
	for s := range c.spansOf(r) {
		if s.risky {
			risky++
			if !s.answered.IsZero() && !s.answered.After(sent.Add(c.rules.Settle)) {
				return false
			}
		}
	}
	return risky > 0 && !sent.IsZero() && !r.plan.Announces
}

// unnoted reports whether a process did not know of the first verdict on the run when spans of it
// arrived: the run has spans on both sides of a stop or kill, or its spans were judged again after a
// kill. With a storage that is possible only if the kill came between the export of the verdict and the
// record that its spans are done, which follows at once, or once the disk has room.
func (c *checker) unnoted(r *run, split bool, from moment) bool {
	if split || !c.rules.Storage {
		return split || c.between(from, c.out(r), true)
	}
	first, _ := c.judgedAt(r)
	return slices.ContainsFunc(c.stops, func(s stop) bool {
		if !s.kill || s.ended.Before(from.Add(-slack)) {
			return false
		}
		out := s.began.Sub(first) // less than 0 while it was on its way to the backend
		return out.Abs() <= c.rules.Noted || c.full(first, s.began) || c.rules.Queued && out < 0 && c.repeated(r)
	})
}

// full reports whether the record of a verdict that was exported at a time met a full disk, and
// whether a kill came before there was room for it. The next write brings it.
func (c *checker) full(exported, killed moment) bool {
	return slices.ContainsFunc(c.fills, func(f fill) bool {
		for _, s := range c.stops { // the next process has room
			if s.began.After(f.began) && s.began.Before(f.ended) {
				f.ended = s.began
			}
		}
		return !exported.Before(f.began.Add(-c.rules.Noted)) && !exported.After(f.ended) &&
			!killed.Before(f.began) && !killed.After(f.ended.Add(c.rules.Noted))
	})
}

// judgedAt returns when the first verdict on the run was exported, and the span that had
// it, nil for llm.run.abandoned.
func (l *Ledger) judgedAt(r *run) (at moment, on *span) {
	first := func(s *span, list []delivery) {
		for _, d := range list {
			if d.judges() && (at.IsZero() || d.at.Before(at)) {
				at, on = d.at, s
			}
		}
	}
	for s := range l.spansOf(r) {
		first(s, l.copies(s))
	}
	first(nil, r.abandoned)
	return at, on
}

// given returns the earliest time at which the first verdict on the run was given: it
// may have waited long for the backend before it was exported.
func (c *checker) given(r *run) moment {
	if _, on := c.judgedAt(r); on != nil {
		return on.first
	}
	return c.first(r).Add(c.rules.RunTimeout)
}

// remembers returns the minimum time for which llm_classify remembers that the run was
// judged: for spans that do not name the run and are not its direct children, through
// the spans that it had.
func (rules *Rules) remembers(r *run) time.Duration {
	if r.plan.Named {
		return rules.RunTimeout
	}
	return min(rules.RunTimeout, 2*rules.MaxHold)
}

// repeated reports whether a span of the run was exported twice, that is, was read from
// the journal again.
func (l *Ledger) repeated(r *run) bool {
	for s := range l.spansOf(r) {
		if s.copies > 1 {
			return true
		}
	}
	return false
}

func describe(list []delivery) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = fmt.Sprintf("%s by %s", v.outcome, v.trigger)
	}
	return strings.Join(texts, ", ")
}

func (d delivery) judges() bool { return d.outcome != semconv.RunOutcomeUnset }

package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/soak/internal/load"
)

func (c *checker) checkSpan(s *span) {
	copies := c.copies(s)
	switch {
	case s.rejected:
		c.add(NeverTaken, s.key, "the Collector refused it for good")
	case s.attempts > 0 && s.acks == 0:
		c.add(NeverTaken, s.key, "no attempt of %d was acknowledged", s.attempts)
	case s.acks > 0 && len(copies) == 0:
		c.add(Lost, s.key, "%s of a %s trace, acknowledged but not exported", roles[s.role], c.shape(s))
	}
	if len(copies) == 0 {
		return
	}
	if last := copies[len(copies)-1].at; s.copies > s.acks+s.unknown && !c.between(s.first, last, true) {
		c.add(Doubled, s.key, "%s of a %s trace came out %d times; %d acknowledgements, %d attempts without an answer, no kill since it was sent",
			roles[s.role], c.shape(s), s.copies, s.acks, s.unknown)
	}
	if out := c.outBeforeKill(s); out > c.rules.Again {
		c.add(Doubled, s.key, "it had been out for %s when the Collector was killed, and came again", out)
	} else {
		c.figures.Oldest = max(c.figures.Oldest, out)
	}
	for _, d := range copies {
		if d.altered {
			c.add(Altered, s.key, "the exported %s differs from the one that was sent", roles[s.role])
			break
		}
	}
	for i := range copies {
		if copies[i].safe && s.shown {
			c.add(LessCareful, s.key, "a model call whose text was shown is safe to send again, by %s", copies[i].trigger)
		}
		c.trigger(s, &copies[i])
	}
}

// outBeforeKill returns the longest time between the export of a copy of the span and a kill
// that caused its second export. A copy that was also sent again does not count: it was
// exported for that reason.
func (c *checker) outBeforeKill(s *span) (longest time.Duration) {
	if s.unknown > 0 {
		return 0
	}
	copies := c.copies(s)
	for i := 1; i < len(copies); i++ {
		before, after := copies[i-1].at, copies[i].at
		for _, k := range c.stops {
			if k.kill && k.began.After(before) && k.began.Before(after) {
				longest = max(longest, k.began.Sub(before))
				break
			}
		}
	}
	return longest
}

func (l *Ledger) shape(s *span) string {
	if r := l.runOf(s); r != nil {
		return r.shape
	}
	return "-"
}

// trigger checks that a copy of a span has a trigger that is allowed for it.
func (c *checker) trigger(s *span, d *delivery) {
	wrong := func(format string, args ...any) {
		c.add(WrongTrigger, s.key, "%s of a %s trace has the trigger %q: %s", roles[s.role], c.shape(s), d.trigger, fmt.Sprintf(format, args...))
	}
	if d.strange {
		wrong("not in the vocabulary")
		return
	}
	if s.role == load.Other {
		if d.trigger != semconv.TriggerUnset || d.outcome != semconv.RunOutcomeUnset {
			wrong("this span must not be judged")
		}
		return
	}
	if d.trigger != semconv.TriggerUnset && d.outcome == semconv.RunOutcomeUnset {
		c.figures.Marks[d.trigger]++
	}
	r := c.runOf(s)
	p := &r.plan
	switch d.trigger {
	case semconv.TriggerUnset: // it was judged with its run
		if !c.whole(r) && !c.parted(r) {
			wrong("but its run was not judged as a whole")
		}
	case semconv.TriggerComplete:
		if !p.Announces {
			wrong("the run announced nothing")
		}
	case semconv.TriggerRunEnded:
		if p.Announces {
			wrong("the run announced everything")
		}
	case semconv.TriggerHoldExpired:
		// A span that is released early takes others of its run with it, or all if it is the
		// run span.
		if held := d.at.Sub(c.first(r)); held < c.rules.MaxHold*7/8 {
			wrong("%s after the first of its run was sent", held)
		}
	case semconv.TriggerSpanLimit:
		if p.Spans <= c.rules.SpanLimit {
			wrong("its run has %d spans", p.Spans)
		}
	case semconv.TriggerMemory:
		if !c.rules.Bounded {
			wrong("there is enough room")
		}
	case semconv.TriggerShutdown:
		if !c.between(s.first, d.at, false) {
			wrong("the Collector was not stopped")
		}
	case semconv.TriggerLate:
		if len(c.verdicts(r)) == 0 && !c.parted(r) {
			wrong("its run was not judged")
		}
	default:
		wrong("no span may have this trigger")
	}
}

// outcomes returns the copies of a span if they judge its run differently.
func (l *Ledger) outcomes(s *span) (list []delivery) {
	for _, d := range l.copies(s) {
		if d.judges() && !slices.ContainsFunc(list, func(o delivery) bool { return o.outcome == d.outcome }) {
			list = append(list, d)
		}
	}
	return list
}

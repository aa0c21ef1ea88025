package ledger

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/examples/soak/internal/load"
	"github.com/otelllm/otelllm-go/semconv"
)

// Rules say what may happen in a part of a soak.
type Rules struct {
	MaxHold    time.Duration // llm_classify's max_hold
	RunTimeout time.Duration // its run_timeout
	SpanLimit  int           // its max_spans_per_run
	Again      time.Duration // how long a span may have been out that a kill brings again
	Bounded    bool          // its max_held_bytes is less than the load needs
	Storage    bool          // it has a storage
	Noted      time.Duration // how long before or after a kill a verdict may come out that a storage has not noted
	Queued     bool          // there is a queue behind llm_classify: a verdict may have left it long before it comes out
}

// Figures are what was counted.
type Figures struct {
	Traces, Runs int
	Sent         int // spans that were sent at least once
	Acknowledged int // spans
	Refused      int // spans, each time that they were refused and sent again
	Unanswered   int // spans, each time that the answer was lost and they were sent again

	Delivered    int // spans that came out at least once
	Duplicates   int // spans that came out once more
	Stops, Kills int
	// Split is how many runs had spans on both sides of a stop or kill.
	Split int
	// Slow is how many runs had spans that came so long after the verdict that
	// llm_classify may not remember it, Unnoted how many others may have been judged
	// without a note of it that outlived the process. Again is how many of both had
	// another verdict, on what came later.
	Slow, Unnoted, Again int
	// Oldest is the longest that a span that came twice had been out when the Collector was killed.
	Oldest   time.Duration
	Verdicts map[semconv.Trigger]int // runs, by trigger
	Outcomes map[semconv.RunOutcome]int
	Marks    map[semconv.Trigger]int // model calls and tools that bear a trigger
}

// Problem is something that must not happen.
type Problem struct {
	What string // "lost", "doubled", …
	Key  Key
	Why  string
}

func (p Problem) String() string {
	return fmt.Sprintf("%-16s trace %s span %s: %s", p.What, hex.EncodeToString(p.Key.Trace[:]), hex.EncodeToString(p.Key.Span[:]), p.Why)
}

// What a problem may be.
const (
	Lost          = "lost"
	Doubled       = "doubled"
	Altered       = "altered"
	Invented      = "invented"
	NeverTaken    = "never taken"
	NotJudged     = "not judged"
	JudgedTwice   = "judged twice"
	WrongVerdict  = "wrong verdict"
	WrongTrigger  = "wrong trigger"
	LateNotMarked = "late, not marked"
)

// slack is how far two readings of the clock for one event may be apart: an
// acknowledgement is entered after it was given.
const slack = 250 * time.Millisecond

// Settled reports whether everything that was acknowledged has come out, and every
// run that has to be judged has been. More may come still, if something is wrong.
func (l *Ledger) Settled(rules Rules) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.spans {
		if s.acks > 0 && len(s.copies) == 0 {
			return false
		}
	}
	c := checker{Ledger: l, rules: rules}
	for _, r := range l.runs {
		if c.due(r) && len(c.verdicts(r)) == 0 {
			return false
		}
	}
	return true
}

// Check closes the books. Problems are in the order of their kinds and ids.
func (l *Ledger) Check(rules Rules) (Figures, []Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := checker{Ledger: l, rules: rules}
	c.figures.Traces, c.figures.Runs = l.traces, len(l.runs)
	c.figures.Verdicts, c.figures.Marks = make(map[semconv.Trigger]int), make(map[semconv.Trigger]int)
	c.figures.Outcomes = make(map[semconv.RunOutcome]int)
	c.figures.Stops, c.figures.Kills, c.figures.Split, c.figures.Slow, c.figures.Unnoted, c.figures.Again, c.figures.Oldest = 0, 0, 0, 0, 0, 0, 0
	for _, s := range l.stops {
		if s.kill {
			c.figures.Kills++
		} else {
			c.figures.Stops++
		}
	}
	for _, s := range l.spans {
		c.span(s)
	}
	for _, r := range l.runs {
		c.run(r)
	}
	for _, k := range l.invented {
		c.add(Invented, k, "it came out and was never sent")
	}
	slices.SortFunc(c.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.What, b.What), slices.Compare(a.Key.Trace[:], b.Key.Trace[:]), slices.Compare(a.Key.Span[:], b.Key.Span[:]))
	})
	figures := l.figures
	figures.Verdicts, figures.Marks, figures.Outcomes = maps.Clone(figures.Verdicts), maps.Clone(figures.Marks), maps.Clone(figures.Outcomes)
	return figures, c.problems
}

// checker goes through the books once.
type checker struct {
	*Ledger
	rules    Rules
	problems []Problem
}

func (c *checker) add(what string, k Key, format string, args ...any) {
	c.problems = append(c.problems, Problem{what, k, fmt.Sprintf(format, args...)})
}

// between reports whether the Collector ended between two times.
func (c *checker) between(from, to time.Time, kills bool) bool {
	return slices.ContainsFunc(c.stops, func(s stop) bool {
		return (s.kill || !kills) && !s.ended.Before(from.Add(-slack)) && !s.began.After(to.Add(slack))
	})
}

func (c *checker) span(s *span) {
	switch {
	case s.rejected:
		c.add(NeverTaken, s.key, "the Collector refused it for good")
	case s.attempts > 0 && s.acks == 0:
		c.add(NeverTaken, s.key, "no attempt of %d was acknowledged", s.attempts)
	case s.acks > 0 && len(s.copies) == 0:
		c.add(Lost, s.key, "%s of a %s trace, acknowledged and not come out", roles[s.role], s.shape())
	}
	if len(s.copies) == 0 {
		return
	}
	if last := s.copies[len(s.copies)-1].at; len(s.copies) > s.acks+s.unknown && !c.between(s.first, last, true) {
		c.add(Doubled, s.key, "%s of a %s trace came out %d times; %d acknowledgements, %d attempts without an answer, no kill since it was sent",
			roles[s.role], s.shape(), len(s.copies), s.acks, s.unknown)
	}
	if out := c.outBeforeKill(s); out > c.rules.Again {
		c.add(Doubled, s.key, "it had been out for %s when the Collector was killed, and came again", out)
	} else {
		c.figures.Oldest = max(c.figures.Oldest, out)
	}
	for _, d := range s.copies {
		if d.altered {
			c.add(Altered, s.key, "what came out of the %s is not what went in", roles[s.role])
			break
		}
	}
	for i := range s.copies {
		c.trigger(s, &s.copies[i])
	}
}

// outBeforeKill is the longest that a copy of the span had been out when a kill
// brought it again. One that was sent again, too, came again for that.
func (c *checker) outBeforeKill(s *span) (longest time.Duration) {
	if s.unknown > 0 {
		return 0
	}
	for i := 1; i < len(s.copies); i++ {
		before, after := s.copies[i-1].at, s.copies[i].at
		for _, k := range c.stops {
			if k.kill && k.began.After(before) && k.began.Before(after) {
				longest = max(longest, k.began.Sub(before))
				break
			}
		}
	}
	return longest
}

var roles = [...]string{load.Other: "span", load.Request: "model call", load.Tool: "tool", load.Run: "run span"}

func (s *span) shape() string {
	if s.run == nil {
		return "-"
	}
	return s.run.shape
}

// trigger checks that a copy of a span bears a trigger that it may have.
func (c *checker) trigger(s *span, d *delivery) {
	wrong := func(format string, args ...any) {
		c.add(WrongTrigger, s.key, "%s of a %s trace bears %q: %s", roles[s.role], s.shape(), d.trigger, fmt.Sprintf(format, args...))
	}
	if d.strange {
		wrong("no word of the vocabulary")
		return
	}
	if s.role == load.Other {
		if d.trigger != semconv.TriggerUnset || d.outcome != semconv.RunOutcomeUnset {
			wrong("it is no span to be judged")
		}
		return
	}
	if d.trigger != semconv.TriggerUnset && d.outcome == semconv.RunOutcomeUnset {
		c.figures.Marks[d.trigger]++
	}
	p := &s.run.plan
	switch d.trigger {
	case semconv.TriggerUnset: // it went with its run
		if !s.run.whole() {
			wrong("and its run was not judged as a whole")
		}
	case semconv.TriggerComplete:
		if !p.Announces {
			wrong("nothing was announced")
		}
	case semconv.TriggerRunEnded:
		if p.Announces {
			wrong("all was announced")
		}
	case semconv.TriggerHoldExpired:
		// One that has to go takes with it others of its run, and all where it is the run span.
		if held := d.at.Sub(s.run.first()); held < c.rules.MaxHold*7/8 {
			wrong("%s after the first of its run was sent", held)
		}
	case semconv.TriggerSpanLimit:
		if p.Spans <= c.rules.SpanLimit {
			wrong("its run has %d spans", p.Spans)
		}
	case semconv.TriggerMemory:
		if !c.rules.Bounded {
			wrong("there is room enough")
		}
	case semconv.TriggerShutdown:
		if !c.between(s.first, d.at, false) {
			wrong("the Collector was not stopped")
		}
	case semconv.TriggerLate:
		if len(c.verdicts(s.run)) == 0 {
			wrong("its run was not judged")
		}
	default:
		wrong("no span that was sent may")
	}
}

// whole reports whether the run was judged when it had ended, by any copy of its spans.
func (r *run) whole() bool {
	return slices.ContainsFunc(r.spans, func(s *span) bool {
		return slices.ContainsFunc(s.copies, func(d delivery) bool {
			return d.judges() && (d.trigger == semconv.TriggerComplete || d.trigger == semconv.TriggerRunEnded)
		})
	})
}

// verdicts are the first verdicts on a run of each span that has one.
func (c *checker) verdicts(r *run) (list []delivery) {
	for _, s := range r.spans {
		for _, d := range s.copies {
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

// first is when the first span of the run was sent.
func (r *run) first() (at time.Time) {
	for _, s := range r.spans {
		if s.attempts > 0 && (at.IsZero() || s.first.Before(at)) {
			at = s.first
		}
	}
	return at
}

// out is when the last of its spans came out.
func (r *run) out() (at time.Time) {
	for _, s := range r.spans {
		for _, d := range s.copies {
			if d.at.After(at) {
				at = d.at
			}
		}
	}
	return at
}

// taken is from when to when spans of the run were taken, and how many were.
func (r *run) taken() (from, to time.Time, spans int) {
	for _, s := range r.spans {
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

// due reports whether there has to be a verdict on the run: its span was taken, or,
// where there is none, what is known of its other spans was not lost on the way.
func (c *checker) due(r *run) bool {
	from, to, spans := r.taken()
	if spans == 0 {
		return false
	}
	for _, s := range r.spans {
		if s.role == load.Run {
			return s.acks > 0
		}
	}
	// Without a storage what is known of spans that went out ends with the process.
	return c.rules.Storage || !c.between(from, to.Add(c.rules.RunTimeout), false)
}

func (c *checker) run(r *run) {
	from, to, spans := r.taken()
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
		if v.trigger == semconv.TriggerComplete && v.outcome != r.plan.Outcome {
			c.add(WrongVerdict, r.key, "a %s run with all its spans is %q, and was to be %q", r.shape, v.outcome, r.plan.Outcome)
		}
		if v.trigger == semconv.TriggerLate {
			c.add(WrongTrigger, r.key, "the verdict on a %s run bears %q", r.shape, v.trigger)
		}
	}
	if len(list) == 0 {
		if c.due(r) {
			c.add(NotJudged, r.key, "a %s run of %d spans has no verdict", r.shape, spans)
		}
		return
	}
	// Whether a run has been judged is forgotten in time, and without a storage when the
	// process ends: what comes after that is a run of its own.
	slow := to.Sub(c.given(r)) >= c.rules.remembers(r)
	unnoted := c.unnoted(r, split, from)
	switch {
	case slow:
		c.figures.Slow++
	case unnoted:
		c.figures.Unnoted++
	}
	forgot := slow || unnoted
	// What is sent again for that long is given up before its span comes.
	givenUp := r.out().Sub(from) >= c.rules.RunTimeout &&
		slices.ContainsFunc(list, func(v delivery) bool { return v.trigger == semconv.TriggerRunExpired })
	switch {
	case len(list) > 1 && forgot:
		c.figures.Again++
	case len(list) > 1:
		c.add(JudgedTwice, r.key, "a %s run of %d spans has %d verdicts: %s", r.shape, spans, len(list), describe(list))
	}
	for _, s := range r.spans {
		if outcomes := s.outcomes(); len(outcomes) > 1 && !forgot {
			c.add(JudgedTwice, s.key, "copies of one span of a %s run say %s", r.shape, describe(outcomes))
		}
		if s.role == load.Run && len(s.copies) > 0 && !forgot && !givenUp && !slices.ContainsFunc(s.copies, delivery.judges) {
			c.add(NotJudged, s.key, "the run span of a %s run came out without a verdict", r.shape)
		}
		if s.late && s.acks > 0 && len(s.copies) > 0 && s.first.After(list[0].at) && !forgot && s.copies[0].trigger != semconv.TriggerLate {
			c.add(LateNotMarked, s.key, "sent after the verdict on its run had come out, it bears %q", s.copies[0].trigger)
		}
	}
}

// unnoted reports whether the first verdict on a run may not have been noted when the
// process ended that gave it. With a storage that is only so where a kill came between
// the verdict's way out and the note, which follows at once.
func (c *checker) unnoted(r *run, split bool, from time.Time) bool {
	if !c.rules.Storage {
		return split || c.between(from, r.out(), true)
	}
	first, _ := r.judgedAt()
	return slices.ContainsFunc(c.stops, func(s stop) bool {
		if !s.kill || s.ended.Before(from.Add(-slack)) {
			return false
		}
		out := s.began.Sub(first) // less than 0: it was on its way to the backend
		return out.Abs() <= c.rules.Noted || c.rules.Queued && out < 0 && r.repeated()
	})
}

// judgedAt is when the first verdict on the run came out, and the span that bore it,
// nil for llm.run.abandoned.
func (r *run) judgedAt() (at time.Time, on *span) {
	first := func(s *span, list []delivery) {
		for _, d := range list {
			if d.judges() && (at.IsZero() || d.at.Before(at)) {
				at, on = d.at, s
			}
		}
	}
	for _, s := range r.spans {
		first(s, s.copies)
	}
	first(nil, r.abandoned)
	return at, on
}

// given is when the first verdict on the run was given at the earliest: it may have
// waited long for the backend before it came out.
func (c *checker) given(r *run) time.Time {
	if _, on := r.judgedAt(); on != nil {
		return on.first
	}
	return r.first().Add(c.rules.RunTimeout)
}

// remembers is how long llm_classify remembers at least that the run was judged: for
// what does not name it, and is not right beneath it, by the spans that it had.
func (rules *Rules) remembers(r *run) time.Duration {
	if r.plan.Named {
		return rules.RunTimeout
	}
	return min(rules.RunTimeout, 2*rules.MaxHold)
}

// repeated reports whether a span of the run came out twice: it was taken up again.
func (r *run) repeated() bool {
	return slices.ContainsFunc(r.spans, func(s *span) bool { return len(s.copies) > 1 })
}

func describe(list []delivery) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = fmt.Sprintf("%s by %s", v.outcome, v.trigger)
	}
	return strings.Join(texts, ", ")
}

func (d delivery) judges() bool { return d.outcome != semconv.RunOutcomeUnset }

// outcomes are copies of a span that judge its run differently.
func (s *span) outcomes() (list []delivery) {
	for _, d := range s.copies {
		if d.judges() && !slices.ContainsFunc(list, func(o delivery) bool { return o.outcome == d.outcome }) {
			list = append(list, d)
		}
	}
	return list
}

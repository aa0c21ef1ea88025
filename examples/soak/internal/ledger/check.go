package ledger

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
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

var roles = [...]string{load.Other: "span", load.Request: "model call", load.Tool: "tool", load.Run: "run span"}

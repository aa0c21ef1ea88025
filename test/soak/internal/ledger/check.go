package ledger

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/soak/internal/load"
)

// Rules define what may happen in a part of a soak.
type Rules struct {
	MaxHold    time.Duration // llm_classify's max_hold
	Settle     time.Duration // its settle
	RunTimeout time.Duration // its run_timeout
	SpanLimit  int           // its max_spans_per_run
	Again      time.Duration // maximum time between a span's export and a kill that causes its second export
	Bounded    bool          // its max_held_bytes is less than the load needs
	Forgetful  bool          // others may take the room of its facts: a run without an end may have no verdict
	Storage    bool          // it has a storage
	Noted      time.Duration // maximum time between a kill and the export of a verdict whose spans are not recorded as done
	Queued     bool          // there is a queue behind llm_classify: a verdict may be exported long after llm_classify has sent it
}

// Figures are the counts of a part.
type Figures struct {
	Traces, Runs int
	Sent         int // spans that were sent at least once
	Acknowledged int // spans
	Refused      int // spans, counted each time that they were refused and sent again
	Unanswered   int // spans, counted each time that the response was lost and they were sent again

	Delivered    int // spans that came out at least once
	Duplicates   int // further exports of spans that had come out
	Stops, Kills int
	// Split is the number of runs with spans on both sides of a stop or kill.
	Split int
	// Slow is the number of runs with spans that arrived so long after the verdict that
	// llm_classify may have forgotten it. Unnoted is the number of other runs whose verdict may
	// be forgotten because the process ended. Again is the number of both that got
	// another verdict, on spans that arrived later.
	Slow, Unnoted, Again int
	// Unseen is the number of runs that announce no counts and were judged before any span that
	// makes them unsafe to repeat had been sent.
	Unseen int
	// Oldest is the longest time between the export of a span and the kill that caused its second
	// export.
	Oldest   time.Duration
	Verdicts map[semconv.Trigger]int // runs, by trigger
	Outcomes map[semconv.RunOutcome]int
	Marks    map[semconv.Trigger]int // model calls and tools with a trigger
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

// The kinds of problems.
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
	LessCareful   = "less careful"
)

// DependsOnTime reports whether the problem may be due to a machine that is slow or busy at
// the wrong moment: it is found by comparing what happened with when this process saw it.
// That spans are lost, altered or invented, and that a verdict is wrong or less careful, never
// is.
func (p Problem) DependsOnTime() bool {
	switch p.What {
	case Doubled, NeverTaken, NotJudged, JudgedTwice, WrongTrigger, LateNotMarked:
		return true
	default:
		return false
	}
}

// slack is the maximum difference between two readings of the clock for one event: an
// acknowledgement is recorded after it was sent.
const slack = 250 * time.Millisecond

// Settled reports whether all acknowledged spans have been exported, and every run that has to be
// judged has been. If something is wrong, more spans may follow.
func (l *Ledger) Settled(rules Rules) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.all {
		if s.acks > 0 && s.copies == 0 {
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

// Check compares the records with the rules. Problems are ordered by kind and id.
func (l *Ledger) Check(rules Rules) (Figures, []Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := checker{Ledger: l, rules: rules, figures: l.figures}
	c.figures.Traces, c.figures.Runs = l.traces, len(l.runs)
	c.figures.Verdicts, c.figures.Marks = make(map[semconv.Trigger]int), make(map[semconv.Trigger]int)
	c.figures.Outcomes = make(map[semconv.RunOutcome]int)
	for _, s := range l.stops {
		if s.kill {
			c.figures.Kills++
		} else {
			c.figures.Stops++
		}
	}
	for s := range l.all {
		c.checkSpan(s)
	}
	for _, r := range l.runs {
		c.checkRun(r)
	}
	for _, k := range l.invented {
		c.add(Invented, k, "it came out and was never sent")
	}
	slices.SortFunc(c.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.What, b.What), slices.Compare(a.Key.Trace[:], b.Key.Trace[:]), slices.Compare(a.Key.Span[:], b.Key.Span[:]))
	})
	return c.figures, c.problems
}

// checker is one pass through the records.
type checker struct {
	*Ledger
	rules    Rules
	figures  Figures // those of the ledger, and what this pass counts
	problems []Problem
}

func (c *checker) add(what string, k Key, format string, args ...any) {
	c.problems = append(c.problems, Problem{what, k, fmt.Sprintf(format, args...)})
}

// between reports whether the Collector ended between two times.
func (c *checker) between(from, to moment, kills bool) bool {
	return slices.ContainsFunc(c.stops, func(s stop) bool {
		return (s.kill || !kills) && !s.ended.Before(from.Add(-slack)) && !s.began.After(to.Add(slack))
	})
}

var roles = [...]string{load.Other: "span", load.Request: "model call", load.Tool: "tool", load.Run: "run span"}

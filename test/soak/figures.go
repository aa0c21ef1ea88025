package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// print prints the figures of a part and at most the given number of problems of each
// kind. It reports whether there is any problem.
func (o *outcome) print(s *soak, most int) bool {
	f := &o.figures
	s.say("  spans        sent %d, acknowledged %d, delivered %d, of them again %d", f.Sent, f.Acknowledged, f.Delivered, f.Duplicates)
	s.say("  on the way   refused and sent again %d, without an answer and sent again %d; calls of the backend: %d taken, %d failed",
		f.Refused, f.Unanswered, o.backend.Taken, o.backend.Failed)
	s.say("  runs         %d in %d traces; split by a stop or kill %d; spans after the memory of the verdict %d, verdict not noted for certain %d, of both judged again %d; sent too late to count %d",
		f.Runs, f.Traces, f.Split, f.Slow, f.Unnoted, f.Again, f.Unseen)
	s.say("  verdicts     %s", counts(f.Verdicts))
	s.say("  outcomes     %s", counts(f.Outcomes))
	s.say("  early, late  %s", counts(f.Marks))
	s.say("  Collector    stops %d (the last among them), kills %d, peak resident memory %s", f.Stops, f.Kills, size(o.memory))
	if o.part.kills > 0 {
		s.say("  longest that a span was out when a kill brought it again: %s", f.Oldest.Round(time.Millisecond))
	}
	s.say("  held         at most %s, of a bound of %s", size(int64(o.held)), size(int64(o.bound)))
	s.say("  time         %.1fs, %.0f spans/s while the load lasted", o.took.Seconds(), float64(f.Delivered)/o.loaded.Seconds())
	if len(o.problems) == 0 {
		s.say("  OK")
		return false
	}
	s.say("  FAILED: %d problems", len(o.problems))
	listed := make(map[string]int) // by kind, the first word or two
	for _, problem := range o.problems {
		kind, _, _ := strings.Cut(problem, "  ")
		if listed[kind]++; listed[kind] <= most {
			s.say("    %s", problem)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(listed)) {
		if n := listed[kind]; n > most {
			s.say("    … and %d more: %s", n-most, kind)
		}
	}
	return true
}

// counts lists counts by their names in the vocabulary.
func counts[K semconv.Trigger | semconv.RunOutcome](m map[K]int) string {
	if len(m) == 0 {
		return "none"
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%v %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}

// size formats a number of bytes. 0 means that it is not available.
func size(bytes int64) string {
	switch {
	case bytes <= 0:
		return "not available on this system"
	case bytes < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
	default:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
}

// summary prints the parts side by side.
func summary(s *soak, all []outcome, took time.Duration) {
	s.say("\n%-14s %9s %9s %9s %9s %9s %7s %6s %6s %10s %9s %s", "part", "sent", "acked", "refused", "delivered", "again", "runs",
		"stops", "kills", "memory", "spans/s", "")
	var sent, delivered, problems int
	for i := range all {
		o := &all[i]
		f := &o.figures
		verdict := "OK"
		if len(o.problems) > 0 {
			verdict = fmt.Sprintf("%d PROBLEMS", len(o.problems))
		}
		s.say("%-14s %9d %9d %9d %9d %9d %7d %6d %6d %10s %9.0f %s", o.part.name, f.Sent, f.Acknowledged, f.Refused, f.Delivered, f.Duplicates,
			f.Runs, f.Stops, f.Kills, size(o.memory), float64(f.Delivered)/o.loaded.Seconds(), verdict)
		sent, delivered, problems = sent+f.Sent, delivered+f.Delivered, problems+len(o.problems)
	}
	s.say("%d spans sent, %d delivered, %d problems, %.0fs", sent, delivered, problems, took.Seconds())
}

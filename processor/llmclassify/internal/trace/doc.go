// Package trace knows traces: which run a span belongs to, which spans are above it, which runs are complete, and which
// effects judged runs had. Its [Buffer] is a pure data structure, bounded by age, spans and bytes: the caller passes the
// time, and gets the spans to release with the reason.
//
// The facts of a span stay after the span itself had to be released, so that its run can still be judged on all of them.
// After all spans of a trace are released, the [History] keeps the facts that later runs and late spans need.
//
// A trace lives as follows:
//
//	Add          buffer.go         spans and links arrive; a span whose run was judged is late (late.go)
//	  ready      complete.go       is a run complete, by the numbers that it announced?
//	  sweepReady sweep.go          releases complete runs, and parts of runs that are too large
//	Due, Evict   sweep.go          releases what waited too long, or has no room; Drain at the end
//	  group      group.go          the items by run: locate.go finds the run, join.go where parents are missing
//	  setDoubts  doubt.go          which runs may lack parts, and why
//	  notAround  runs.go           a run around one that is still to be judged waits
//	  explain.go                   a failed run waits for spans that explain its failure
//	  releaseGroup, releaseEarly   release.go: the run for its verdict, or spans alone; the facts stay (kept.go)
//	JudgingOrder judging_order.go  inner runs before the runs around them
//	Done, Ready  ready.go          judged: the runs around it may be complete now
//	History      history.go        what judged runs did: Within (nests.go), Late (corrections.go)
//
// Whole (whole.go) is the way of a trace that comes whole in one call. judged.go and memory.go remember which runs were
// judged, and which traces were forgotten; lifetime.go knows the spans that an earlier process may have received.
package trace

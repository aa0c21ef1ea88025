// Package classify turns the facts of an agent run into a diagnosis: what failed and why,
// how far the run had progressed, which party caused the failure, and whether trying again
// is safe.
//
// The package is pure: values in, values out. It uses no spans, no clock and no I/O. The
// client, which observes a stream live, and the Collector, which reads the same facts from
// spans, therefore reach the same verdict.
//
// The rules, in the order in which they are applied:
//
//   - ending.go: how one request ended: class, cause and origin. The first matching row wins.
//   - risk.go: what had already happened by then, as far as it was observed.
//   - guard.go: the guards, which together decide whether a retry is safe.
//   - confidence.go: how certain the verdict is.
//   - executed.go: which calls are known to have been executed, or not executed.
//   - run.go: which failure is the failure of the run.
//   - recovery.go: which failures a later attempt or the model recovered from.
//   - history.go: which tool outputs never reached the model.
//   - summary.go, evidence.go, timeline.go: the verdict in words.
//   - plan.go, plan_calls.go, plan_words.go: how to go on after a failure.
//
// What the tests prove: the guards over every combination of the values that they read,
// and the class table over every combination of what it reads except the kind of broken
// history and the class of an upstream failure, which have tests of their own. The step
// from facts to those values (risk.go, executed.go, history.go) has too many inputs for
// that. It is tested over a sample: runs of up to two requests and one tool, in every
// combination of a fixed set of shapes; random runs, against simpler definitions of the
// same rules; and fuzzing.
package classify

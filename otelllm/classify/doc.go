// Package classify turns the facts of an agent run into a diagnosis: what
// failed, why, how far it had got, by whose doing, and whether trying again is
// safe.
//
// It is pure: values in, values out. It knows no span, no clock and no I/O, so
// the client that watched a stream live and the Collector that read the same
// facts off spans come to the same verdict by construction.
//
// The rules stand in the order in which they are applied:
//
//   - ending.go: what ended one request: class, cause and origin, first row wins.
//   - risk.go: what had already happened by then, as far as it was observed.
//   - guard.go: the guards that together decide whether a retry is safe.
//   - confidence.go: how sure the verdict may be.
//   - executed.go: which calls are known to have been executed, or not to.
//   - run.go: which failure is the run's.
//   - recovery.go: which failures a later attempt or the model made good.
//   - history.go: which tool outputs the model never got.
//   - summary.go, evidence.go, timeline.go: the same in words.
//
// Every combination of the abstracted facts is checked by the package's tests.
package classify

package classify

import (
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// Ruleset is the version of the rules, recorded as llm.classification.ruleset.
// It changes whenever the same facts may give another verdict.
const Ruleset = "2"

// Diagnosis is the simple truth about one request, one tool execution or one run.
// Its zero value says that nothing failed.
type Diagnosis struct {
	Outcome semconv.RunOutcome // runs only

	Class      semconv.Class // unset: nothing failed
	Cause      semconv.Cause
	Phase      semconv.Phase
	Origin     semconv.Origin
	Confidence semconv.Confidence
	Summary    string // one or two plain sentences, at most 512 bytes
	SummaryKey semconv.SummaryKey

	Evidence        []string // at most 24 `fact=value`
	MissingEvidence []string // at most 24 names of facts that would have raised the confidence

	Retry Retry

	RecoveredFailures int      // runs only: failures that a later attempt or the model made good
	MissingOutputs    []string // runs and requests: ids of calls whose output the model never got
	Timeline          []string // runs only: at most 24 lines
}

// Failed reports whether there is a failure to tell about.
func (d *Diagnosis) Failed() bool { return d.Class != semconv.ClassUnset }

// Retry answers whether trying again is safe: for a request, sending it again as
// it was; for a tool, executing the call again; for a run, repeating it from its
// start. It is unset where nothing failed.
type Retry struct {
	Safety semconv.RetrySafety
	Reason semconv.RetryReason
	After  time.Duration // the provider's wish, 0 for none
}

// Retry safety, from the safest to the least safe.
const (
	SafeAutoRetry      = semconv.RetrySafetySafeAutoRetry
	UserConfirmedRetry = semconv.RetrySafetyUserConfirmedRetry
	NoRetry            = semconv.RetrySafetyNoRetry
)

// Verdicts are the diagnoses of a run and of each of its parts, under the
// indexes that the parts have in the [Run].
type Verdicts struct {
	Run      Diagnosis
	Requests []Diagnosis
	Tools    []Diagnosis
	// Effects is what the run did, the runs within it included: see [Run.Inner].
	Effects Effects
}

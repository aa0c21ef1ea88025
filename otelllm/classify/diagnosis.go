package classify

import (
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// Ruleset is the version of the rules, recorded as llm.classification.ruleset. It changes
// whenever the same facts may give a different verdict.
const Ruleset = "4"

// Diagnosis is the verdict on one request, one tool execution or one run. Its zero value
// means that nothing failed.
type Diagnosis struct {
	Outcome semconv.RunOutcome // runs only

	Class      semconv.Class // unset: nothing failed
	Cause      semconv.Cause
	Phase      semconv.Phase
	Origin     semconv.Origin
	Confidence semconv.Confidence
	Summary    string // one or two plain sentences, at most 512 bytes
	SummaryKey semconv.SummaryKey

	Evidence        []string // at most 24 entries of the form `fact=value`
	MissingEvidence []string // at most 24 names of facts that would have raised the confidence

	Retry Retry

	RecoveredFailures int      // runs only: failures that a later attempt or the model recovered from
	MissingOutputs    []string // runs and requests: ids of calls whose output never reached the model
	// ForgottenCalls are, for runs only, the ids of calls that a response handed over before it
	// failed, and that no later request knows: their tools may have run.
	ForgottenCalls []string
	// Warning is, for runs only, what else to know about the run whatever its outcome is: one or
	// two plain sentences, at most 512 bytes, fit to show to a user; "" for nothing.
	Warning  string
	Timeline []string // runs only: at most 24 lines
}

// Failed reports whether d describes a failure.
func (d *Diagnosis) Failed() bool { return d.Class != semconv.ClassUnset }

// String returns the diagnosis in one line, for a log: the outcome of a run, what failed where and
// by whom, whether to try again, and the summary. It has no content and no secrets.
//
//	failed: stream_interrupted/connection_reset in tool_input by transport, safe_auto_retry (incomplete_tool_input): The connection …
func (d Diagnosis) String() string {
	var parts []string
	if d.Outcome != semconv.RunOutcomeUnset {
		parts = append(parts, d.Outcome.String())
	}
	if !d.Failed() {
		if d.RecoveredFailures > 0 {
			parts = append(parts, plural(int64(d.RecoveredFailures), "failure"))
		}
		if len(parts) == 0 {
			return "nothing failed"
		}
		return strings.Join(parts, ": ")
	}
	verdict := d.Class.String() + "/" + d.Cause.String() + " in " + d.Phase.String() + " by " + d.Origin.String() +
		", " + d.Retry.Safety.String() + " (" + d.Retry.Reason.String() + ")"
	if d.Retry.After > 0 {
		verdict += " after " + d.Retry.After.String()
	}
	return strings.Join(append(parts, verdict, d.Summary), ": ")
}

// Retry is the verdict on trying again: for a request, sending it again unchanged; for a
// tool, executing the call again; for a run, repeating it from its start. It is unset if
// nothing failed. A verdict on a run is never safer than those on its requests.
type Retry struct {
	Safety semconv.RetrySafety
	Reason semconv.RetryReason
	After  time.Duration // the wait that the provider asked for; 0 for none
}

// moreCareful returns the verdict with the higher level. At the same level it is the one
// whose guard comes first.
func moreCareful(a, b Retry) Retry {
	if b.Safety > a.Safety || b.Safety == a.Safety && b.Reason < a.Reason {
		a.Safety, a.Reason = b.Safety, b.Reason
	}
	return a
}

// The levels of retry safety, from the safest to the least safe.
const (
	SafeAutoRetry      = semconv.RetrySafetySafeAutoRetry
	UserConfirmedRetry = semconv.RetrySafetyUserConfirmedRetry
	NoRetry            = semconv.RetrySafetyNoRetry
)

// Verdicts holds the diagnoses of a run and of each of its parts. A part has the same
// index here as in the [Run].
type Verdicts struct {
	Run      Diagnosis
	Requests []Diagnosis
	Tools    []Diagnosis
	// Effects is what the run did, including the runs within it; see [Run.Inner].
	Effects Effects
}

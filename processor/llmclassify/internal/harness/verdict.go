package harness

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// Verdict is the verdict on a span. Its zero value is the verdict on a span without one.
type Verdict struct {
	Outcome    semconv.RunOutcome
	Recovered  int
	Class      semconv.Class
	Cause      semconv.Cause
	Phase      semconv.Phase
	Origin     semconv.Origin
	Confidence semconv.Confidence
	Safety     semconv.RetrySafety
	Reason     semconv.RetryReason
	Trigger    semconv.Trigger
	Missing    []string // llm.history.missing_outputs
}

// VerdictOf reads the verdict of a span.
func VerdictOf(span ptrace.Span) (v Verdict) {
	for key, value := range span.Attributes().All() {
		ok := true
		switch key {
		case string(semconv.RunOutcomeKey):
			v.Outcome, ok = semconv.ParseRunOutcome(value.Str())
		case string(semconv.RunRecoveredFailuresKey):
			v.Recovered = int(value.Int())
		case string(semconv.FailureClassKey):
			v.Class, ok = semconv.ParseClass(value.Str())
		case string(semconv.FailureCauseKey):
			v.Cause, ok = semconv.ParseCause(value.Str())
		case string(semconv.FailurePhaseKey):
			v.Phase, ok = semconv.ParsePhase(value.Str())
		case string(semconv.FailureOriginKey):
			v.Origin, ok = semconv.ParseOrigin(value.Str())
		case string(semconv.FailureConfidenceKey):
			v.Confidence, ok = semconv.ParseConfidence(value.Str())
		case string(semconv.RetrySafetyKey):
			v.Safety, ok = semconv.ParseRetrySafety(value.Str())
		case string(semconv.RetryReasonKey):
			v.Reason, ok = semconv.ParseRetryReason(value.Str())
		case string(semconv.ClassificationTriggerKey):
			v.Trigger, ok = semconv.ParseTrigger(value.Str())
		case string(semconv.HistoryMissingOutputsKey):
			for _, id := range value.Slice().All() {
				v.Missing = append(v.Missing, id.Str())
			}
		}
		if !ok {
			panic(key + " is not of the vocabulary: " + value.Str())
		}
	}
	return v
}

// On is the same verdict on a run with this outcome.
func (v Verdict) On(o semconv.RunOutcome) Verdict { v.Outcome = o; return v }

// Lacking is the same verdict on a run that names these outputs as missing.
func (v Verdict) Lacking(ids ...string) Verdict { v.Missing = ids; return v }

// Because is the same verdict with another retry safety and its reason.
func (v Verdict) Because(s semconv.RetrySafety, r semconv.RetryReason) Verdict {
	v.Safety, v.Reason = s, r
	return v
}

// Failure is the verdict on a failure, of a run that was complete.
func Failure(class semconv.Class, cause semconv.Cause, phase semconv.Phase, origin semconv.Origin) Verdict {
	return Verdict{
		Class: class, Cause: cause, Phase: phase, Origin: origin,
		Confidence: semconv.ConfidenceHigh, Trigger: semconv.TriggerComplete,
	}
}

// Ran is the verdict on a run that did not fail, and was complete.
func Ran(o semconv.RunOutcome, recovered int) Verdict {
	return Verdict{Outcome: o, Recovered: recovered, Trigger: semconv.TriggerComplete}
}

// Values of the retry safety, for short.
const (
	Safe    = semconv.RetrySafetySafeAutoRetry
	Confirm = semconv.RetrySafetyUserConfirmedRetry
	Never   = semconv.RetrySafetyNoRetry
)

// Verdicts are the verdicts of td, by span.
func Verdicts(td ptrace.Traces) map[byte]Verdict {
	found := map[byte]Verdict{}
	for id, span := range SpansOf(td) {
		if v := VerdictOf(span); span.Name() != semconv.SpanRunAbandoned {
			found[id[7]] = v
		}
	}
	return found
}

// Words are the outcome, the failure and the retry safety in one line, empty without a verdict.
func (v Verdict) Words() string {
	words := []string{}
	if v.Outcome != semconv.RunOutcomeUnset {
		words = append(words, v.Outcome.String())
	}
	if v.Class != semconv.ClassUnset {
		words = append(words, v.Class.String()+"/"+v.Cause.String(), v.Safety.String())
	}
	return strings.Join(words, " ")
}

// EarlyVerdict is the verdict on a span that did not fail: only its trigger.
func EarlyVerdict(trigger semconv.Trigger) Verdict { return Verdict{Trigger: trigger} }

// Outcomes are the outcomes of the runs, by span.
func Outcomes(td ptrace.Traces) map[byte]semconv.RunOutcome {
	found := map[byte]semconv.RunOutcome{}
	for id, span := range SpansOf(td) {
		if v := VerdictOf(span); v.Outcome != semconv.RunOutcomeUnset {
			found[id[7]] = v.Outcome
		}
	}
	return found
}

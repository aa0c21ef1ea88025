package report

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/semconv"
)

// Verdict is llm_classify's verdict on one span. The zero value is a span without a
// verdict.
type Verdict struct {
	Outcome    semconv.RunOutcome // runs only
	Class      semconv.Class      // unset if nothing failed
	Cause      semconv.Cause
	Phase      semconv.Phase
	Origin     semconv.Origin
	Confidence semconv.Confidence
	Summary    string
	SummaryKey semconv.SummaryKey

	Safety semconv.RetrySafety
	Reason semconv.RetryReason

	Evidence, MissingEvidence []string
	MissingOutputs            []string // ids of tool calls
	ForgottenCalls            []string // runs only: ids of tool calls that a retry did not know
	Warning                   string   // runs only: what else to know, whatever the outcome is
	Recovered                 int      // runs only: number of failures that a retry repaired
	Timeline                  []string // runs only
	Trigger                   semconv.Trigger
	Ruleset                   string

	// Unknown lists attributes of the verdict with a value that is not in the vocabulary,
	// as key=value.
	Unknown []string
}

// Failed reports whether the verdict reports a failure.
func (v *Verdict) Failed() bool { return v.Class != semconv.ClassUnset }

// ReadVerdict reads the verdict from a span's attributes.
func ReadVerdict(attrs pcommon.Map) Verdict {
	r := reader{attrs: attrs}
	v := Verdict{
		Outcome:         enum(&r, semconv.RunOutcomeKey, semconv.ParseRunOutcome),
		Class:           enum(&r, semconv.FailureClassKey, semconv.ParseClass),
		Cause:           enum(&r, semconv.FailureCauseKey, semconv.ParseCause),
		Phase:           enum(&r, semconv.FailurePhaseKey, semconv.ParsePhase),
		Origin:          enum(&r, semconv.FailureOriginKey, semconv.ParseOrigin),
		Confidence:      enum(&r, semconv.FailureConfidenceKey, semconv.ParseConfidence),
		Summary:         r.text(semconv.FailureSummaryKey),
		SummaryKey:      enum(&r, semconv.FailureSummaryKeyKey, semconv.ParseSummaryKey),
		Safety:          enum(&r, semconv.RetrySafetyKey, semconv.ParseRetrySafety),
		Reason:          enum(&r, semconv.RetryReasonKey, semconv.ParseRetryReason),
		Evidence:        r.list(semconv.FailureEvidenceKey),
		MissingEvidence: r.list(semconv.FailureMissingEvidenceKey),
		MissingOutputs:  r.list(semconv.HistoryMissingOutputsKey),
		ForgottenCalls:  r.list(semconv.RunForgottenCallsKey),
		Warning:         r.text(semconv.RunWarningKey),
		Timeline:        r.list(semconv.RunTimelineKey),
		Trigger:         enum(&r, semconv.ClassificationTriggerKey, semconv.ParseTrigger),
		Ruleset:         r.text(semconv.ClassificationRulesetKey),
	}
	if n, ok := attrs.Get(string(semconv.RunRecoveredFailuresKey)); ok {
		v.Recovered = int(n.Int())
	}
	v.Unknown = r.unknown
	return v
}

// reader reads typed values from attributes.
type reader struct {
	attrs   pcommon.Map
	unknown []string
}

func enum[T any](r *reader, key attribute.Key, parse func(string) (T, bool)) T {
	text := r.text(key)
	value, ok := parse(text)
	if !ok && text != "" {
		r.unknown = append(r.unknown, string(key)+"="+text)
	}
	return value
}

func (r *reader) text(key attribute.Key) string {
	v, ok := r.attrs.Get(string(key))
	if !ok {
		return ""
	}
	return v.AsString()
}

func (r *reader) list(key attribute.Key) []string {
	v, ok := r.attrs.Get(string(key))
	if !ok || v.Type() != pcommon.ValueTypeSlice {
		return nil
	}
	var list []string
	for _, e := range v.Slice().All() {
		list = append(list, e.AsString())
	}
	return list
}

// seconds converts an attribute in seconds to a duration. It returns 0 if the attribute is
// missing.
func seconds(attrs pcommon.Map, key attribute.Key) time.Duration {
	v, ok := attrs.Get(string(key))
	if !ok {
		return 0
	}
	return time.Duration(v.Double() * float64(time.Second))
}

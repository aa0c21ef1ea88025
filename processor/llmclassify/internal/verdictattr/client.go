package verdictattr

import (
	"unicode"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Bounds on a verdict that a client writes.
const (
	maxSummary = 512 // bytes
	maxString  = 256 // bytes
	maxLines   = 24  // of a timeline and of evidence
	maxRuleset = 16  // bytes
)

// part is a set of the parts of a verdict.
type part uint32

const (
	partOutcome part = 1 << iota
	partTimeline
	partRecovered
	partMissing
	partForgotten
	partWarning
	partClass
	partCause
	partPhase
	partOrigin
	partConfidence
	partSummary
	partSummaryKey
	partEvidence
	partMissingEvidence
	partSafety
	partReason
	partTrigger
	partRuleset

	// failureParts are in every failure, and runParts in every verdict on a run; optionalParts and optionalOfRun may be in
	// them.
	failureParts  = partClass | partCause | partPhase | partOrigin | partConfidence | partSummary | partSummaryKey | partSafety | partReason
	runParts      = partOutcome | partTrigger | partRuleset
	optionalParts = partEvidence | partMissingEvidence
	optionalOfRun = partTimeline | partRecovered | partMissing | partForgotten | partWarning
)

// ReadClient reads a verdict that a client wrote: onto the span of a run, or of a request or tool. It returns false unless
// the verdict is complete, has values of the vocabulary alone, and does not contradict itself.
func ReadClient(attrs pcommon.Map, run bool) (d classify.Diagnosis, ok bool) {
	r := reader{d: &d}
	for key, v := range attrs.All() {
		if Is(key) && !r.read(key, v) {
			return classify.Diagnosis{}, false
		}
	}
	if !r.complete(run) || !consistent(&d, run) || !r.plan.fits(&d, run) {
		return classify.Diagnosis{}, false
	}
	return d, true
}

// reader reads a verdict, attribute by attribute.
type reader struct {
	d    *classify.Diagnosis
	seen part
	plan plan
}

// read reads one attribute. It returns false for a value that a client does not write, and for an attribute that it has
// read before.
func (r *reader) read(key string, v pcommon.Value) bool {
	d := r.d
	switch key {
	case string(semconv.RunOutcomeKey):
		return r.sees(partOutcome) && enum(v, semconv.ParseRunOutcome, &d.Outcome)
	case string(semconv.RunTimelineKey):
		return r.sees(partTimeline) && list(v, maxLines)
	case string(semconv.RunRecoveredFailuresKey):
		d.RecoveredFailures = int(v.Int())
		return r.sees(partRecovered) && v.Type() == pcommon.ValueTypeInt && v.Int() > 0
	case string(semconv.HistoryMissingOutputsKey):
		return r.sees(partMissing) && list(v, classify.MaxIDs)
	case string(semconv.RunForgottenCallsKey):
		return r.sees(partForgotten) && list(v, classify.MaxIDs)
	case string(semconv.RunWarningKey):
		return r.sees(partWarning) && text(v, maxSummary)
	case string(semconv.FailureClassKey):
		return r.sees(partClass) && enum(v, semconv.ParseClass, &d.Class)
	case string(semconv.FailureCauseKey):
		return r.sees(partCause) && enum(v, semconv.ParseCause, &d.Cause)
	case string(semconv.FailurePhaseKey):
		return r.sees(partPhase) && enum(v, semconv.ParsePhase, &d.Phase)
	case string(semconv.FailureOriginKey):
		return r.sees(partOrigin) && enum(v, semconv.ParseOrigin, &d.Origin)
	case string(semconv.FailureConfidenceKey):
		return r.sees(partConfidence) && enum(v, semconv.ParseConfidence, &d.Confidence)
	case string(semconv.FailureSummaryKey):
		return r.sees(partSummary) && text(v, maxSummary)
	case string(semconv.FailureSummaryKeyKey):
		return r.sees(partSummaryKey) && enum(v, semconv.ParseSummaryKey, &d.SummaryKey)
	case string(semconv.FailureEvidenceKey):
		return r.sees(partEvidence) && list(v, maxLines)
	case string(semconv.FailureMissingEvidenceKey):
		return r.sees(partMissingEvidence) && list(v, maxLines)
	case string(semconv.RetrySafetyKey):
		return r.sees(partSafety) && enum(v, semconv.ParseRetrySafety, &d.Retry.Safety)
	case string(semconv.RetryReasonKey):
		return r.sees(partReason) && enum(v, semconv.ParseRetryReason, &d.Retry.Reason)
	case string(semconv.ClassificationTriggerKey):
		var trigger semconv.Trigger
		return r.sees(partTrigger) && enum(v, semconv.ParseTrigger, &trigger) && trigger == semconv.TriggerClient
	case string(semconv.ClassificationRulesetKey):
		return r.sees(partRuleset) && text(v, maxRuleset)
	default:
		return r.plan.read(key, v)
	}
}

// sees notes a part. It reports whether the part is new.
func (r *reader) sees(p part) bool {
	first := r.seen&p == 0
	r.seen |= p
	return first
}

// complete reports whether the verdict has all parts that it needs, and no part that it may not have.
func (r *reader) complete(run bool) bool {
	needed, allowed := partTrigger, partMissing
	if run {
		needed, allowed = runParts, optionalOfRun
	}
	if !run || r.seen&(failureParts|optionalParts) != 0 {
		needed |= failureParts
		allowed |= optionalParts
	}
	return r.seen&needed == needed && r.seen&^(needed|allowed) == 0
}

// enum reads a value of an enum of the vocabulary.
func enum[E any](v pcommon.Value, parse func(string) (E, bool), to *E) (ok bool) {
	if v.Type() != pcommon.ValueTypeStr {
		return false
	}
	*to, ok = parse(v.Str())
	return ok
}

// text reports whether a value is text of at most this many bytes: not empty, and of printable characters alone.
func text(v pcommon.Value, limit int) bool {
	if v.Type() != pcommon.ValueTypeStr || v.Str() == "" || len(v.Str()) > limit || !utf8.ValidString(v.Str()) {
		return false
	}
	for _, c := range v.Str() {
		if !unicode.IsPrint(c) {
			return false
		}
	}
	return true
}

// list reports whether a value is a list of at least one and at most this many texts.
func list(v pcommon.Value, limit int) bool {
	if v.Type() != pcommon.ValueTypeSlice || v.Slice().Len() == 0 || v.Slice().Len() > limit {
		return false
	}
	for _, entry := range v.Slice().All() {
		if !text(entry, maxString) {
			return false
		}
	}
	return true
}

// consistent reports whether the parts of a verdict may stand together.
func consistent(d *classify.Diagnosis, run bool) bool {
	if run && !fitsOutcome(d) {
		return false
	}
	return !d.Failed() || d.Retry.Safety == levelOf(d.Retry.Reason) && (d.Retry.Safety != classify.SafeAutoRetry || maybeSafe(d))
}

// fitsOutcome reports whether the failure, and the number of recovered failures, fit the outcome of a run.
func fitsOutcome(d *classify.Diagnosis) bool {
	switch d.Outcome {
	case semconv.RunOutcomeSucceeded:
		return !d.Failed() && d.RecoveredFailures == 0
	case semconv.RunOutcomeRecovered:
		return !d.Failed() && d.RecoveredFailures > 0
	case semconv.RunOutcomeWaiting:
		return !d.Failed()
	case semconv.RunOutcomeLimited:
		return d.Class == semconv.ClassOutputLimited
	case semconv.RunOutcomeAborted:
		return d.Class == semconv.ClassLocalAbort
	case semconv.RunOutcomeIncomplete:
		return d.Class == semconv.ClassRunAbandoned || d.Class == semconv.ClassUnclassified
	default:
		switch d.Class {
		case semconv.ClassUnset, semconv.ClassOutputLimited, semconv.ClassLocalAbort, semconv.ClassRunAbandoned:
			return false
		default:
			return true
		}
	}
}

// levelOf returns the level of a reason. The reasons are in the order of the guards, the least safe level first.
func levelOf(reason semconv.RetryReason) semconv.RetrySafety {
	switch {
	case reason <= semconv.RetryReasonNotTransient:
		return classify.NoRetry
	case reason <= semconv.RetryReasonEvidenceIncomplete:
		return classify.UserConfirmedRetry
	default:
		return classify.SafeAutoRetry
	}
}

// maybeSafe reports whether a retry may be safe after a failure.
func maybeSafe(d *classify.Diagnosis) bool {
	switch d.Class {
	case semconv.ClassLocalAbort, semconv.ClassOutputLimited, semconv.ClassHistoryBroken, semconv.ClassApplicationError,
		semconv.ClassRunAbandoned, semconv.ClassUnclassified:
		return false
	}
	switch d.SummaryKey {
	case semconv.SummaryKeyToolWithEffectsRan, semconv.SummaryKeyToolOfUnknownEffectRan, semconv.SummaryKeyToolStateUnknown,
		semconv.SummaryKeyProviderToolActed, semconv.SummaryKeyProviderContinues, semconv.SummaryKeyTextShown:
		return false
	}
	return d.Confidence != semconv.ConfidenceLow
}

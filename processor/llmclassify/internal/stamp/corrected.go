package stamp

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// maxSummary bounds a summary in bytes.
const maxSummary = 512

// The names of runs in the summary of [Corrected].
const (
	OwnRun    = "Its run"
	RunAround = "The run around it"
)

// Corrected writes onto a late span that its run, or the run around it, became less safe to repeat since that run was
// judged: run is the verdict on repeating the run now. d is the verdict on the span itself, nil without a failure; a retry
// of the span never becomes safer.
func Corrected(span ptrace.Span, d *classify.Diagnosis, run classify.Retry, name string, trigger semconv.Trigger) {
	attrs := span.Attributes()
	if !makeRoom(attrs) {
		return
	}
	attrs.EnsureCapacity(attrs.Len() + spanAttributes + failureAttributes)
	if d != nil {
		failure(attrs, d)
		putStrings(attrs, string(semconv.HistoryMissingOutputsKey), d.MissingOutputs)
	}
	correct(attrs, d, run, name)
	attrs.PutStr(string(semconv.ClassificationTriggerKey), trigger.String())
}

// CorrectedAround writes onto a judged run span that the run around it became less safe to repeat since that one was
// judged. d is the verdict on the span if the span failed, else nil.
func CorrectedAround(span ptrace.Span, d *classify.Diagnosis, around classify.Retry) {
	correct(span.Attributes(), d, around, RunAround)
}

// correct writes the corrected verdict on the span's own run, or on the run around it.
func correct(attrs pcommon.Map, d *classify.Diagnosis, run classify.Retry, name string) {
	retry, summary := run, correction(run, name)
	if d != nil {
		retry = trace.MoreCareful(d.Retry, run)
		if len(d.Summary)+1+len(summary) <= maxSummary {
			summary = d.Summary + " " + summary
		}
	}
	attrs.PutStr(string(semconv.FailureSummaryKey), summary)
	attrs.PutStr(string(semconv.RetrySafetyKey), retry.Safety.String())
	attrs.PutStr(string(semconv.RetryReasonKey), retry.Reason.String())
}

// correction says in plain words how a late span changes the verdict on repeating the run with this name.
func correction(run classify.Retry, name string) string {
	arrived := name + " was judged before this arrived. "
	if run.Safety == classify.NoRetry {
		return arrived + "Do not repeat the run."
	}
	return arrived + "Ask before repeating the run: " + doubt(run.Reason)
}

// doubt says why a person has to confirm that a run is repeated.
func doubt(reason semconv.RetryReason) string {
	switch reason {
	case semconv.RetryReasonToolSideEffect:
		return "a tool with side effects could run twice."
	case semconv.RetryReasonToolStateUnknown:
		return "a tool could run twice."
	case semconv.RetryReasonProviderToolSideEffect:
		return "a tool on the provider's side could run twice."
	case semconv.RetryReasonProviderContinues:
		return "the provider could do the same work twice."
	case semconv.RetryReasonVisibleOutput:
		return "the answer would be shown again from the start."
	default:
		return "the recorded facts do not prove that it is safe."
	}
}

package intake

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/verdictattr"
	"github.com/otelllm/otelllm-go/semconv"
)

// The values of [Config.IncomingVerdicts].
const (
	KeepClient = "keep_client"
	Strip      = "strip"
	Keep       = "keep"
)

// incoming decides which incoming verdicts stay. Other verdicts are removed before anything else is read from the span,
// which is then judged as if it had arrived without.
type incoming string

// clean removes a span's verdict that does not stay. It reports whether it removed anything.
func (p incoming) clean(span ptrace.Span, scope string, kind dialect.Kind) (removed bool) {
	switch {
	case p == Keep:
		return false
	case p == KeepClient && kind != dialect.Other && scope == verdictattr.ClientScope && Trusted(span, kind):
		return false
	}
	verdictattr.RemoveFrom(span)
	return true
}

// cleanShared removes any part of a verdict from the attributes that spans share, of a resource or a scope: no verdict is
// written there, but a reader of the spans may look there.
func (p incoming) cleanShared(attrs pcommon.Map) {
	if p != Keep && verdictattr.On(attrs) {
		verdictattr.Remove(attrs)
	}
}

// Trusted reports whether the client may have written the verdict on a span: it is whole, consistent, and not contradicted
// by the facts beside it.
func Trusted(span ptrace.Span, kind dialect.Kind) bool {
	given, ok := verdictattr.ReadClient(span.Attributes(), kind == dialect.Run)
	if !ok {
		return false
	}
	if kind == dialect.Run {
		return fitsRun(span, &given)
	}
	// The facts alone, with all the knowledge of the rest of the run that could make a retry safer. Further knowledge of
	// the client can only have made its verdict more careful.
	run := classify.Run{Ended: classify.Yes, AnnouncedTools: classify.Counted(0)}
	var d classify.Diagnosis
	if kind == dialect.Request {
		run.AnnouncedRequests, run.Requests = classify.Counted(1), make([]classify.Request, 1)
		dialect.OTelLLM{}.Read(span, dialect.Facts{Request: &run.Requests[0]})
		d = classify.Judge(&run).Requests[0]
	} else {
		run.AnnouncedTools, run.Tools = classify.Counted(1), make([]classify.Tool, 1)
		dialect.OTelLLM{}.Read(span, dialect.Facts{Tool: &run.Tools[0]})
		d = classify.Judge(&run).Tools[0]
		if given.Cause == semconv.CauseIncompleteInput { // its request shows that
			return given.Class == semconv.ClassToolFailed && given.Retry.Safety == classify.NoRetry
		}
	}
	return given.Class == d.Class && given.Cause == d.Cause && given.Retry.Safety >= d.Retry.Safety
}

// fitsRun reports whether the facts on the span of a run allow a verdict.
func fitsRun(span ptrace.Span, given *classify.Diagnosis) bool {
	var run classify.Run
	dialect.OTelLLM{}.Read(span, dialect.Facts{Run: &run})
	switch {
	case run.Failed == classify.Yes && !given.Failed():
		return false // a run with an error has failed
	case run.Abort.Source != semconv.AbortSourceUnset && given.Retry.Safety == classify.SafeAutoRetry:
		return false // a run that was stopped on purpose is not repeated without asking
	default:
		return true
	}
}

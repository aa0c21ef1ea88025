package stamp

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Plan writes the plan to go on with a run beside the verdict on the run, after [Run]. It writes nothing if the run did not
// fail, or if the plan is less careful than the verdict.
func Plan(attrs pcommon.Map, d *classify.Diagnosis, p *classify.Plan) {
	if !d.Failed() || p.Send == semconv.ResumeSendUnset || p.Send == semconv.ResumeSendAgain && d.Retry.Safety != classify.SafeAutoRetry {
		return
	}
	attrs.PutStr(string(semconv.ResumeSendKey), p.Send.String())
	if p.Ask != semconv.RetryReasonUnset {
		attrs.PutStr(string(semconv.ResumeAskKey), p.Ask.String())
	}
	if p.Wait > 0 {
		attrs.PutDouble(string(semconv.ResumeWaitKey), p.Wait.Seconds())
	}
	if p.More {
		attrs.PutBool(string(semconv.ResumeMoreKey), true)
	}
	putCalls(attrs, p.Ran, string(semconv.ResumeRanIDsKey), string(semconv.ResumeRanNamesKey))
	if len(p.Ran) > 0 {
		putColumn(attrs, string(semconv.ResumeRanOutputsKey), p.Ran, func(c *classify.PlannedCall) string { return c.Output.String() })
	}
	putCalls(attrs, p.MayHaveRun, string(semconv.ResumeMayHaveRunIDsKey), string(semconv.ResumeMayHaveRunNamesKey))
	putCalls(attrs, p.NeverRan, string(semconv.ResumeNeverRanIDsKey), string(semconv.ResumeNeverRanNamesKey))
}

// putCalls writes the ids of calls, and the names of their tools if one is known.
func putCalls(attrs pcommon.Map, calls []classify.PlannedCall, ids, names string) {
	if len(calls) == 0 {
		return
	}
	putColumn(attrs, ids, calls, func(c *classify.PlannedCall) string { return c.ID })
	if slices.ContainsFunc(calls, func(c classify.PlannedCall) bool { return c.Name != "" }) {
		putColumn(attrs, names, calls, func(c *classify.PlannedCall) string { return c.Name })
	}
}

// putColumn writes one string for each call, in their order.
func putColumn(attrs pcommon.Map, key string, calls []classify.PlannedCall, of func(*classify.PlannedCall) string) {
	slice := attrs.PutEmptySlice(key)
	slice.EnsureCapacity(len(calls))
	for i := range calls {
		slice.AppendEmpty().SetStr(of(&calls[i]))
	}
}

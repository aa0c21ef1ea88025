package spanfacts

import (
	"slices"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// AppendPlan appends the plan to go on with a run beside the verdict on it. It appends nothing if
// the run did not fail, nor a plan that is less careful than the verdict.
func AppendPlan(dst []attribute.KeyValue, d *classify.Diagnosis, p *classify.Plan) []attribute.KeyValue {
	if !d.Failed() || p.Send == semconv.ResumeSendUnset || p.Send == semconv.ResumeSendAgain && d.Retry.Safety != classify.SafeAutoRetry {
		return dst
	}
	dst = append(dst, semconv.ResumeSendAttr(p.Send))
	if p.Ask != semconv.RetryReasonUnset {
		dst = append(dst, semconv.ResumeAsk(p.Ask))
	}
	if p.Wait > 0 {
		dst = append(dst, semconv.ResumeWait(p.Wait.Seconds()))
	}
	if p.More {
		dst = append(dst, semconv.ResumeMore(true))
	}
	dst = appendCalls(dst, p.Ran, semconv.ResumeRanIDsKey, semconv.ResumeRanNamesKey)
	if len(p.Ran) > 0 {
		dst = append(dst, semconv.ResumeRanOutputs(column(p.Ran, func(c *classify.PlannedCall) string { return c.Output.String() })...))
	}
	dst = appendCalls(dst, p.MayHaveRun, semconv.ResumeMayHaveRunIDsKey, semconv.ResumeMayHaveRunNamesKey)
	return appendCalls(dst, p.NeverRan, semconv.ResumeNeverRanIDsKey, semconv.ResumeNeverRanNamesKey)
}

// appendCalls appends the ids of calls, and the names of their tools where one is known.
func appendCalls(dst []attribute.KeyValue, calls []classify.PlannedCall, ids, names attribute.Key) []attribute.KeyValue {
	if len(calls) == 0 {
		return dst
	}
	dst = append(dst, ids.StringSlice(column(calls, func(c *classify.PlannedCall) string { return c.ID })))
	if slices.ContainsFunc(calls, func(c classify.PlannedCall) bool { return c.Name != "" }) {
		dst = append(dst, names.StringSlice(column(calls, func(c *classify.PlannedCall) string { return c.Name })))
	}
	return dst
}

// column is what each call has of something, in their order.
func column(calls []classify.PlannedCall, of func(*classify.PlannedCall) string) []string {
	list := make([]string, len(calls))
	for i := range calls {
		list[i] = of(&calls[i])
	}
	return list
}

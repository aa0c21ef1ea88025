package judge

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// SeenOnly is the verdict on repeating the run that was diagnosed last, as if its seen parts were all of it. Unseen parts
// can only make the verdict more careful.
func (j *Judge) SeenOnly() classify.Retry {
	run := j.run
	run.Partial, run.Doubts, run.EndedBy = false, nil, semconv.RunEndUnset
	run.AnnouncedRequests = classify.Counted(len(run.Requests) + run.Inner.Requests)
	if run.AnnouncedTools.Observed() {
		run.AnnouncedTools = classify.Counted(len(run.Tools) + run.Inner.Tools)
	}
	return trace.Repeat(classify.Judge(&run).Effects)
}

// Plan returns the plan to go on with the run that Diagnose judged last, without parts that it judged on their own.
func (j *Judge) Plan() classify.Plan {
	if j.certain != nil {
		return classify.PlanRun(j.certain)
	}
	return classify.PlanRun(&j.run)
}

// Call judges requests of the release that Diagnose judged last as the attempts of one model call, in the order of ids, and
// returns the plan to go on with it. It reports false if one of them is not a request of the run.
func (j *Judge) Call(release *trace.Release, ids []pcommon.SpanID) (classify.Diagnosis, classify.Plan, bool) {
	attempts := make([]int, 0, len(ids))
	for _, id := range ids {
		n := slices.IndexFunc(j.requests, func(i int) bool { return release.Members[i].ID == id })
		if n < 0 {
			return classify.Diagnosis{}, classify.Plan{}, false
		}
		attempts = append(attempts, n)
	}
	if len(attempts) == 0 {
		return classify.Diagnosis{}, classify.Plan{}, false
	}
	return classify.JudgeCall(&j.run, attempts), classify.PlanCall(&j.run, attempts), true
}

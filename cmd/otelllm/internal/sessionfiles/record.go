package sessionfiles

import (
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// RecordOf returns a turn as the record of a run, as all commands of otelllm print it; nil for a
// turn of which nothing is said.
func RecordOf(j *turns.Judged) *report.Record {
	var spans report.Spans
	spans.Add(j.Traces)
	for _, r := range spans.Records(j.Trace) {
		if r.Kind == report.RecordRun {
			return &r
		}
	}
	return nil
}

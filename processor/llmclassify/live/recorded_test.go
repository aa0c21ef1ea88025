package live_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/golden"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/live"
	"github.com/otelllm/otelllm-go/semconv"
)

// elsewhere are recorded traces whose verdict rests on what a live judge is not given: requests of
// other runs as evidence, and the time that passes.
var elsewhere = map[string]string{
	"19_gateway_by_another_clock":   "a request of another run is evidence",
	"19_gateway_in_the_trace_alone": "a request of another run is evidence",
	"19_gateway_of_another_run":     "a request of another run is evidence",
	"22_run_abandoned":              "time passes",
}

// Once all spans of a run have ended, the verdict is the processor's.
func TestRecordedTraces(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join("..", "testdata", "traces", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			in, err := golden.ReadTraces(filepath.Join(dir, "in.yaml"))
			require.NoError(t, err)
			out, err := golden.ReadTraces(filepath.Join(dir, "out.yaml"))
			require.NoError(t, err)
			if why := elsewhere[filepath.Base(dir)]; why != "" {
				t.Skip(why)
			}
			want := verdicts(out)
			for _, spans := range [][]live.Span{spansOf(in), reversed(spansOf(in))} {
				trace := live.NewTrace()
				for _, s := range spans {
					trace.Set(s)
				}
				assert.Equal(t, want, stamped(trace))
			}
		})
	}
	_, err = os.Stat(filepath.Join("..", "testdata"))
	require.NoError(t, err)
}

func reversed(spans []live.Span) []live.Span {
	slices.Reverse(spans)
	return spans
}

func spansOf(td ptrace.Traces) (list []live.Span) {
	for _, rs := range td.ResourceSpans().All() {
		service := [16]byte{}
		if name, ok := rs.Resource().Attributes().Get("service.name"); ok {
			copy(service[:], name.Str())
		}
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				list = append(list, live.Span{Span: span, Scope: ss.Scope().Name(), Service: service})
			}
		}
	}
	return list
}

// verdicts are the attributes of verdicts in a classified trace by span, without the trigger,
// which says when it was judged.
func verdicts(td ptrace.Traces) map[string]map[string]any {
	all := make(map[string]map[string]any)
	for _, s := range spansOf(td) {
		attrs := make(map[string]any)
		for key, v := range s.Attributes().All() {
			if isVerdict[key] {
				attrs[key] = v.AsRaw()
			}
		}
		if len(attrs) > 0 {
			all[s.SpanID().String()] = attrs
		}
	}
	return all
}

var isVerdict = map[string]bool{
	string(semconv.RunOutcomeKey): true, string(semconv.RunTimelineKey): true, string(semconv.RunRecoveredFailuresKey): true,
	string(semconv.RunForgottenCallsKey): true, string(semconv.RunWarningKey): true,
	string(semconv.HistoryMissingOutputsKey): true, string(semconv.FailureClassKey): true, string(semconv.FailureCauseKey): true,
	string(semconv.FailurePhaseKey): true, string(semconv.FailureOriginKey): true, string(semconv.FailureConfidenceKey): true,
	string(semconv.FailureSummaryKey): true, string(semconv.FailureSummaryKeyKey): true, string(semconv.FailureEvidenceKey): true,
	string(semconv.FailureMissingEvidenceKey): true, string(semconv.RetrySafetyKey): true, string(semconv.RetryReasonKey): true,
	string(semconv.ResumeSendKey): true, string(semconv.ResumeAskKey): true, string(semconv.ResumeWaitKey): true, string(semconv.ResumeMoreKey): true,
	string(semconv.ResumeRanIDsKey): true, string(semconv.ResumeRanNamesKey): true, string(semconv.ResumeRanOutputsKey): true,
	string(semconv.ResumeMayHaveRunIDsKey): true, string(semconv.ResumeMayHaveRunNamesKey): true,
	string(semconv.ResumeNeverRanIDsKey): true, string(semconv.ResumeNeverRanNamesKey): true,
	string(semconv.ClassificationRulesetKey): true,
}

// stamped are the verdicts of a trace, as verdicts returns them.
func stamped(trace *live.Trace) map[string]map[string]any {
	all := make(map[string]map[string]any)
	put := func(id pcommon.SpanID, attrs pcommon.Map) {
		raw := attrs.AsRaw()
		maps.DeleteFunc(raw, func(key string, _ any) bool { return !isVerdict[key] })
		if len(raw) > 0 {
			all[id.String()] = raw
		}
	}
	for _, v := range trace.Judge() {
		for id, d := range v.Parts {
			put(id, live.PartAttributes(d))
		}
		put(v.ID, live.RunAttributes(v.Run, &v.Plan))
	}
	return all
}

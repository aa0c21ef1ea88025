package llmagentlogs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// claudeRecording is what Claude Code exported of one turn.
func claudeRecording(tb testing.TB, fault string) (logs []plog.Logs, own []ptrace.Traces) {
	tb.Helper()
	read := func(signal string) []string {
		text, err := os.ReadFile(filepath.Join("testdata", "claude-code", fault+"."+signal+".jsonl"))
		require.NoError(tb, err)
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	for _, line := range read("logs") {
		ld, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs([]byte(line))
		require.NoError(tb, err)
		logs = append(logs, ld)
	}
	for _, line := range read("traces") {
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces([]byte(line))
		require.NoError(tb, err)
		own = append(own, td)
	}
	return logs, own
}

// claudeTruths are the verdicts on the runs of the recordings: by the spans, by the logs and
// by both; and the requests and tools in the timeline of the last. The attempts of a request
// are one span. The logs alone do not show whether a turn that went well is over.
var claudeTruths = map[string]struct {
	spans, logs, both string
	requests, tools   int
}{
	"ok_tool":          {"succeeded", "", "succeeded", 2, 1},
	"tool_denied":      {"recovered", "", "recovered", 2, 1},
	"tool_failed":      {"recovered", "", "recovered", 2, 1},
	"reset_headers":    {"incomplete unclassified", "failed unclassified", "incomplete unclassified", 1, 0},
	"reset_text":       {"failed stream_interrupted", "failed stream_interrupted", "failed stream_interrupted", 1, 0},
	"reset_text_once":  {"recovered", "", "recovered", 1, 0},
	"reset_tool_input": {"failed stream_interrupted", "failed stream_interrupted", "failed stream_interrupted", 1, 0},
	"clean_eof":        {"failed stream_interrupted", "failed stream_interrupted", "failed stream_interrupted", 1, 0},
	"r429_ok":          {"recovered", "", "recovered", 1, 0},
	"overloaded":       {"failed provider_error", "failed provider_error", "failed provider_error", 1, 0},
	"unauthorized":     {"failed provider_error", "failed provider_error", "failed provider_error", 1, 0},
	"inband":           {"incomplete unclassified", "failed unclassified", "incomplete unclassified", 1, 0},
	"stall":            {"incomplete unclassified", "", "incomplete unclassified", 0, 0},
	"tool_reset":       {"incomplete unclassified", "failed unclassified", "incomplete unclassified", 2, 1},
}

func runVerdicts(spans []ptrace.Span) (said, timelines []string) {
	for _, span := range spans {
		if outcome := value(span, semconv.RunOutcomeKey); outcome != "" {
			said = append(said, strings.TrimSpace(outcome+" "+value(span, semconv.FailureClassKey)))
			timelines = append(timelines, value(span, semconv.RunTimelineKey))
		}
	}
	return said, timelines
}

// A turn of Claude Code by its spans, by its logs and by both, in both orders: the same, or
// nothing. No request and no tool counts twice.
func TestClaudeCodeRecorded(t *testing.T) {
	for fault, want := range claudeTruths {
		t.Run(fault, func(t *testing.T) {
			logs, own := claudeRecording(t, fault)
			made := madeOf(t, defaultConfig(), logs...)
			expect := func(what, want string, tds ...ptrace.Traces) (timelines []string) {
				spans := judge(t, tds...)
				said, timelines := runVerdicts(spans)
				assert.Equal(t, want, strings.Join(said, ", "), what)
				for _, span := range spans {
					assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry.String(), value(span, semconv.RetrySafetyKey), what)
				}
				return timelines
			}
			expect("spans", want.spans, own...)
			expect("logs", want.logs, made...)
			for what, tds := range map[string][]ptrace.Traces{"spans first": slices.Concat(own, made), "logs first": slices.Concat(made, own)} {
				for _, timeline := range expect(what, want.both, tds...) {
					assert.Equal(t, want.requests, strings.Count(timeline, ": sent"), "%s: %s", what, timeline)
					assert.Equal(t, want.tools, strings.Count(timeline, ": started"), "%s: %s", what, timeline)
				}
			}
		})
	}
	recorded, err := filepath.Glob(filepath.Join("testdata", "claude-code", "*.logs.jsonl"))
	require.NoError(t, err)
	assert.Len(t, claudeTruths, len(recorded))
}

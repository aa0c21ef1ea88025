package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/child"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

func TestSummary(t *testing.T) {
	tool := func(name, outcome string) report.Record {
		return report.Record{Kind: report.RecordTool, Attributes: map[string]any{"gen_ai.tool.name": name, string(semconv.ToolOutcomeKey): outcome}}
	}
	verdict := func(kind report.RecordKind, outcome, class string) report.Record {
		return report.Record{Kind: kind, Requests: make([]report.Record, 2), Attributes: map[string]any{
			string(semconv.RunOutcomeKey): outcome, string(semconv.FailureClassKey): class,
		}}
	}
	well, recovered := verdict(report.RecordRun, "succeeded", ""), verdict(report.RecordRun, "recovered", "")
	stopped, lone := verdict(report.RecordRun, "aborted", "local_abort"), verdict(report.RecordRequest, "", "provider_error")
	failed := verdict(report.RecordRun, "failed", "stream_interrupted")
	failed.Attributes[string(semconv.FailureSummaryKey)] = "The connection was lost."
	failed.Attributes[string(semconv.RetrySafetyKey)] = "user_confirmed_retry"
	failed.Tools = []report.Record{tool("write_file", "succeeded"), tool("shell", ""), tool("write_file", "succeeded")}

	warned := verdict(report.RecordRun, "recovered", "")
	warned.Attributes[string(semconv.RunWarningKey)] = "The retry did not know of pay, which may have run."
	unclear := report.Record{Kind: report.RecordRequest, Attributes: map[string]any{string(semconv.RunInferredKey): true, string(semconv.RunIDKey): "00f067aa0ba902b7"}}

	one, another := verdict(report.RecordRequest, "", "provider_error"), verdict(report.RecordRequest, "", "provider_error")
	one.Attributes[string(semconv.RequestIDKey)], another.Attributes[string(semconv.RequestIDKey)] = "req_1", "req_2"

	begin := time.Date(2026, 3, 1, 14, 3, 22, 0, time.Local)
	for _, tt := range []struct {
		name    string
		records []report.Record
		status  int
		want    string
	}{
		{"none", nil, 0, "otelllm: no model call went through the proxy\n"},
		{"well", []report.Record{well}, 0, "otelllm: 1 run, 2 model calls; ok\n"},
		{"recovered", []report.Record{well, recovered}, 0, "otelllm: 2 runs, 4 model calls; ok; recovered from failures on the way\n"},
		{"none, and the command failed", nil, 1, "otelllm: no model call went through the proxy; codex exited 1\n"},
		{"recovered with a warning", []report.Record{well, warned}, 0, `otelllm: 2 runs, 4 model calls; recovered from failures on the way; 1 warning
  14:03:22 recovered
  warning  The retry did not know of pay, which may have run.

`},
		{"well, and the command failed", []report.Record{well}, 2, "otelllm: 1 run, 2 model calls; codex exited 2 although every model call was answered\n"},
		{"recovered, and the command failed", []report.Record{recovered}, 1, "otelllm: 1 run, 2 model calls; recovered from failures on the way; codex exited 1 although every model call was answered\n"},
		{"unclear", []report.Record{well, unclear, unclear}, 0, "otelllm: 1 run, 4 model calls; it is not known how 1 run ended\n"},
		{"unclear and failed", []report.Record{lone, unclear}, 1, "otelllm: 2 model calls; 1 did not end well; it is not known how 1 run ended; codex exited 1\n  14:03:22 provider_error\n\n"},
		{"stopped", []report.Record{well, stopped}, 0, "otelllm: 2 runs, 4 model calls (1 stopped by the command); ok\n"},
		{"interrupted", []report.Record{stopped}, 1, "otelllm: 1 run, 2 model calls; 1 did not end well; codex exited 1\n  14:03:22 aborted / local_abort\n\n"},
		{"a call without a run", []report.Record{lone}, 1, "otelllm: 1 model call; 1 did not end well; codex exited 1\n  14:03:22 provider_error\n\n"},
		{"the same twice", []report.Record{lone, lone}, 1, "otelllm: 2 model calls; 2 did not end well; codex exited 1\n  14:03:22 provider_error (2 times)\n\n"},
		{"the same with other ids", []report.Record{one, another}, 1, "otelllm: 2 model calls; 2 did not end well; codex exited 1\n  14:03:22 provider_error (2 times)\n  where    req_1\n\n"},
		{"failed", []report.Record{failed}, 0, `otelllm: 1 run, 2 model calls, 3 tool calls; 1 did not end well
  14:03:22 failed / stream_interrupted
  what     The connection was lost.
  ran      write_file (succeeded) 2 times, shell
  retry    look first, then decide

`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			for i := range tt.records {
				tt.records[i].Start = begin
			}
			(&summary{ending: &ending{Ended: child.Ended{Code: tt.status}, name: "codex"}, records: tt.records}).print(&out)
			assert.Equal(t, tt.want, out.String())
		})
	}
}

// What a person acts on: when, which model, tool and request, which attempt, and when to try again.
func TestSummaryToActOn(t *testing.T) {
	end := time.Date(2026, 3, 1, 5, 45, 0, 0, time.Local)
	failed := func(cause string, attempt int64) report.Record {
		return report.Record{Kind: report.RecordRequest, Start: end.Add(-time.Minute), End: end, Attributes: map[string]any{
			string(semconv.FailureClassKey): "provider_error", string(semconv.FailureCauseKey): cause, string(semconv.RequestAttemptKey): attempt,
			"gen_ai.request.model": "gpt-5.1", string(semconv.RequestIDKey): "req_abc", string(semconv.StreamToolCallNamesKey): []any{"exec_command"},
			string(semconv.RetryAfterKey): (23*time.Hour + 51*time.Minute).Seconds(),
		}}
	}
	answered := report.Record{Kind: report.RecordRequest, Attributes: map[string]any{string(semconv.StreamEndKey): "terminal_event"}}
	run := func(outcome string, requests ...report.Record) report.Record {
		return report.Record{Kind: report.RecordRun, Start: end.Add(-time.Hour), Attributes: map[string]any{
			string(semconv.RunOutcomeKey): outcome, string(semconv.RetrySafetyKey): "no_retry", string(semconv.FailureSummaryKey): strings.Repeat("Much is to be said. ", 100),
		}, Requests: requests}
	}
	var out bytes.Buffer
	s := &summary{
		ending: &ending{name: "codex"}, now: end, failOn: "failed", more: "open runs.html",
		records: []report.Record{
			run("failed", failed("overloaded", 1), failed("quota_exhausted", 2)),
			run("recovered", failed("overloaded", 1), failed("overloaded", 2), failed("overloaded", 3), failed("rate_limited", 4), answered),
		},
	}
	s.print(&out)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	assert.Equal(t, "otelllm: 2 runs, 7 model calls; 1 did not end well; recovered from 3 × overloaded, 1 × rate limited", lines[0])
	assert.Equal(t, "  04:45:00 failed", lines[1])
	assert.Equal(t, "  where    gpt-5.1 · exec_command · req_abc · attempt 2", lines[2])
	assert.Contains(t, out.String(), "  retry    do not run it again as it is, try again at 05:36 (in 23 h 51 min)\n")
	assert.Equal(t, []string{"otelllm: exit status 3, because of --fail-on failed", "otelllm: open runs.html"}, lines[len(lines)-2:])
	assert.LessOrEqual(t, len(lines), 1+12+1+2)
}

func TestHowACommandEnded(t *testing.T) {
	at := time.Date(2026, 3, 1, 14, 3, 22, 0, time.UTC)
	request := func(attrs map[string]any) []report.Record {
		attrs["gen_ai.request.model"] = "gpt-5.1"
		return []report.Record{{Kind: report.RecordRequest, Start: at.Add(-time.Minute), End: at, Attributes: attrs}}
	}
	tool := func() []report.Record {
		return request(map[string]any{string(semconv.StreamToolCallNamesKey): []any{"exec_command"}})
	}
	open := func() []report.Record {
		return request(map[string]any{string(semconv.FailureClassKey): "local_abort", string(semconv.StreamLastProgressKey): 32.0})
	}
	for _, tt := range []struct {
		name    string
		ended   child.Ended
		records []report.Record
		want    string
		crashed bool // and so it did not cancel what was open
	}{
		{"well", child.Ended{}, nil, "", false},
		{"failed", child.Ended{Code: 1}, nil, "codex exited 1", true},
		{"failed with a call", child.Ended{Code: 1}, tool(), "codex exited 1 and sent no output of exec_command, which may have run", true},
		{"killed in a tool", child.Ended{Code: 137, Signal: 9}, tool(), "codex was killed by signal 9 while exec_command may have been running", true},
		{"killed in an answer", child.Ended{Code: 137, Signal: 9}, open(), "codex was killed by signal 9 after 28 s without progress", true},
		{"Ctrl-C", child.Ended{Code: 130, Interrupted: at}, open(), "you pressed Ctrl-C after 28 s without progress", false},
		{"Ctrl-C in a tool", child.Ended{Code: 130, Interrupted: at}, tool(), "you pressed Ctrl-C while exec_command may have been running", false},
		{"told to end", child.Ended{Code: 143, Signal: 15, Told: at}, nil, "codex was told to end", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.ended.At = at
			e := &ending{Ended: tt.ended, name: "codex"}
			assert.Equal(t, tt.want, e.words(tt.records, false))
			if records := open(); tt.crashed {
				assert.Equal(t, "run_abandoned", text(&e.correct(records)[0], semconv.FailureClassKey))
				assert.Equal(t, "local_abort", text(&records[0], semconv.FailureClassKey), "others read it")
			} else {
				assert.Equal(t, records, e.correct(records))
			}
		})
	}
}

// The verdict on a model call that is not known to belong to a run says nothing of what ran before
// it. Alone it is all that the command did.
func TestRetryOfAModelCallBesideOthers(t *testing.T) {
	call := report.Record{Kind: report.RecordRequest, Attributes: map[string]any{
		string(semconv.FailureClassKey): "stream_interrupted", string(semconv.RetrySafetyKey): "safe_auto_retry",
	}}
	answered := report.Record{Kind: report.RecordRequest, Attributes: map[string]any{string(semconv.StreamEndKey): "terminal_event"}}
	for _, tt := range []struct {
		records []report.Record
		want    string
	}{
		{[]report.Record{call}, "  retry    safe: run it again\n"},
		{[]report.Record{answered, call}, "  retry    safe for this model call alone: look at what ran before it\n"},
	} {
		var out bytes.Buffer
		(&summary{ending: &ending{name: "codex"}, records: tt.records}).print(&out)
		assert.Contains(t, out.String(), tt.want)

		step := filepath.Join(t.TempDir(), "step.md")
		require.NoError(t, addStepSummary(step, &ending{name: "codex"}, tt.records))
		table, err := os.ReadFile(step)
		require.NoError(t, err)
		_, words, _ := strings.Cut(strings.TrimSpace(tt.want), "    ")
		assert.Contains(t, string(table), "| "+words+" |")
	}
}

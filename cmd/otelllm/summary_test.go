package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

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

	for _, tt := range []struct {
		name    string
		records []report.Record
		status  int
		want    string
	}{
		{"none", nil, 0, "otelllm: no model call went through the proxy\n"},
		{"well", []report.Record{well}, 0, "otelllm: 1 run, 2 model calls; ok\n"},
		{"recovered", []report.Record{well, recovered}, 0, "otelllm: 2 runs, 4 model calls; ok, recovered from failures on the way\n"},
		{"none, and the command failed", nil, 1, "otelllm: no model call went through the proxy before the command failed\n"},
		{"recovered with a warning", []report.Record{well, warned}, 0, `otelllm: 2 runs, 4 model calls; recovered from failures on the way, with 1 warning
  verdict  recovered
  warning  The retry did not know of pay, which may have run.

`},
		{"well, and the command failed", []report.Record{well}, 2, "otelllm: 1 run, 2 model calls; the command exited with status 2 although every model call was answered\n"},
		{"recovered, and the command failed", []report.Record{recovered}, 1, "otelllm: 1 run, 2 model calls; recovered from failures on the way; the command exited with status 1 although every model call was answered\n"},
		{"unclear", []report.Record{well, unclear, unclear}, 0, "otelllm: 1 run, 4 model calls; it is not known how 1 run ended\n"},
		{"unclear and failed", []report.Record{lone, unclear}, 1, "otelllm: 2 model calls; 1 did not end well; it is not known how 1 run ended\n  verdict  provider_error\n\n"},
		{"stopped", []report.Record{well, stopped}, 0, "otelllm: 2 runs, 4 model calls (1 stopped by the command); ok\n"},
		{"interrupted", []report.Record{stopped}, 1, "otelllm: 1 run, 2 model calls; 1 did not end well\n  verdict  aborted / local_abort\n\n"},
		{"a call without a run", []report.Record{lone}, 1, "otelllm: 1 model call; 1 did not end well\n  verdict  provider_error\n\n"},
		{"the same twice", []report.Record{lone, lone}, 1, "otelllm: 2 model calls; 2 did not end well\n  verdict  provider_error\n           (2 times)\n\n"},
		{"failed", []report.Record{failed}, 0, `otelllm: 1 run, 2 model calls, 3 tool calls; 1 did not end well
  verdict  failed / stream_interrupted
  what     The connection was lost.
  ran      write_file (succeeded) 2 times, shell
  retry    look first, then decide

`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			printSummary(&out, tt.records, 0, tt.status)
			assert.Equal(t, tt.want, out.String())
		})
	}
}

//go:build unix

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// readSessions reads the sessions of a folder of testdata.
func readSessions(t *testing.T, names ...string) (list []*sessionfiles.Session) {
	t.Helper()
	home := t.TempDir()
	for _, name := range names {
		codexSession(t, home, name)
	}
	list = readHome(t, home)
	require.Len(t, list, len(names))
	return list
}

// readHome reads the sessions below a home directory.
func readHome(t *testing.T, home string) (list []*sessionfiles.Session) {
	t.Helper()
	files, err := sessionfiles.Named([]string{home}, nil, time.Time{}, func(p *sessionfiles.Problem) { t.Error(p) })
	require.NoError(t, err)
	scan := sessionfiles.Scan{Now: time.Now(), Around: sessionfiles.LookAround()}
	scan.Sessions(t.Context(), files, func(one *sessionfiles.Session) { list = append(list, one) })
	return list
}

// TestJoinSession adds to the wire what only the session file shows.
func TestJoinSession(t *testing.T) {
	died, two := readSessions(t, "kill_in_tool"), readSessions(t, "kill_in_tool", "ok_tool")
	request := report.Record{Kind: report.RecordRequest, SpanID: "q"}
	run := report.Record{Kind: report.RecordRun, SpanID: "r", Requests: []report.Record{request}}

	joined := joinSession([]report.Record{run}, died)
	require.Len(t, joined, 1)
	assert.Equal(t, "r", joined[0].SpanID)
	require.Len(t, joined[0].Tools, 1)
	assert.Equal(t, "exec_command", joined[0].Tools[0].Attributes["gen_ai.tool.name"])

	joined = joinSession([]report.Record{request}, died)
	require.Len(t, joined, 1)
	assert.Equal(t, report.RecordRun, joined[0].Kind)
	assert.Equal(t, semconv.CauseProcessDied.String(), joined[0].Text(semconv.FailureCauseKey))
	assert.Equal(t, []report.Record{request}, joined[0].Requests)
	assert.Len(t, joined[0].Tools, 1)

	for name, wire := range map[string][]report.Record{"none": {}, "two runs": {run, run}, "a run and a call": {run, run, request}} {
		assert.Equal(t, wire, joinSession(wire, died), name)
	}
	assert.Equal(t, []report.Record{run}, joinSession([]report.Record{run}, two))
	assert.Equal(t, []report.Record{run}, joinSession([]report.Record{run}, nil))
}

// A session that does not show why its run failed takes the reason from the wire, unless the advice would differ.
func TestExplainByCall(t *testing.T) {
	verdict := func(class semconv.Class, safety semconv.RetrySafety) map[string]any {
		return map[string]any{string(semconv.FailureClassKey): class.String(), string(semconv.RetrySafetyKey): safety.String(), string(semconv.FailureSummaryKey): class.String()}
	}
	ask, safe := semconv.RetrySafetyUserConfirmedRetry, semconv.RetrySafetySafeAutoRetry
	for _, tt := range []struct{ run, call, want map[string]any }{
		{verdict(semconv.ClassUnclassified, ask), verdict(semconv.ClassProviderError, ask), verdict(semconv.ClassProviderError, ask)},
		{verdict(semconv.ClassUnclassified, ask), verdict(semconv.ClassProviderError, safe), verdict(semconv.ClassUnclassified, ask)},
		{verdict(semconv.ClassToolFailed, ask), verdict(semconv.ClassProviderError, ask), verdict(semconv.ClassToolFailed, ask)},
		{verdict(semconv.ClassUnclassified, ask), map[string]any{}, verdict(semconv.ClassUnclassified, ask)},
	} {
		run := report.Record{Kind: report.RecordRun, Attributes: tt.run, Requests: []report.Record{{Kind: report.RecordRequest, Attributes: tt.call}}}
		explainByCall(&run)
		for key, value := range tt.want {
			assert.Equal(t, value, run.Attributes[key])
		}
	}
}

package report_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

var (
	traceA = pcommon.TraceID{1}
	traceB = pcommon.TraceID{2}
	at     = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
)

// span adds a span; attrs are pairs of a key and a string, an int, a float64 or a []any.
func span(td ptrace.Traces, trace pcommon.TraceID, id, parent byte, name string, start int, attrs ...any) {
	s := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetTraceID(trace)
	s.SetSpanID(pcommon.SpanID{id})
	if parent != 0 {
		s.SetParentSpanID(pcommon.SpanID{parent})
	}
	s.SetName(name)
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(at.Add(time.Duration(start) * time.Millisecond)))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(at.Add(time.Duration(start+10) * time.Millisecond)))
	for i := 0; i < len(attrs); i += 2 {
		if err := s.Attributes().PutEmpty(attrs[i].(string)).FromRaw(attrs[i+1]); err != nil {
			panic(err)
		}
	}
}

const runID = "0100000000000000" // the id of span 1

// failedRun returns a run with a tool between two requests, the second of which was cut.
func failedRun() ptrace.Traces {
	td := ptrace.NewTraces()
	span(td, traceA, 4, 2, "chat gpt", 30, "gen_ai.operation.name", "chat", "llm.run.id", runID,
		"llm.failure.class", "stream_interrupted", "llm.failure.cause", "connection_reset", "llm.retry.after", 0.25)
	span(td, traceA, 3, 1, "execute_tool apply_patch", 20, "gen_ai.operation.name", "execute_tool", "llm.run.id", runID)
	span(td, traceA, 2, 1, "chat gpt", 10, "gen_ai.operation.name", "chat", "llm.run.id", runID)
	span(td, traceA, 9, 1, "SELECT", 12)
	span(td, traceA, 1, 0, "invoke_agent coder", 0, "gen_ai.operation.name", "invoke_agent",
		"llm.run.outcome", "failed", "llm.run.recovered_failures", 1,
		"llm.failure.class", "stream_interrupted", "llm.failure.cause", "connection_reset", "llm.failure.phase", "response_started",
		"llm.failure.origin", "transport", "llm.failure.confidence", "high",
		"llm.failure.summary", "The connection to the model was lost (connection reset) just after the response had begun. "+
			"The tool apply_patch, which changes things, had already run. Ask before retrying: apply_patch could run twice.",
		"llm.failure.summary_key", "tool_with_effects_ran",
		"llm.retry.safety", "user_confirmed_retry", "llm.retry.reason", "tool_side_effect",
		"llm.failure.evidence", []any{"llm.stream.end=read_error"}, "llm.failure.missing_evidence", []any{"x"},
		"llm.history.missing_outputs", []any{"call_1"},
		"llm.run.timeline", []any{"+0.010s request 1: headers 200", "+0.040s request 2: connection reset"},
		"llm.classification.trigger", "complete", "llm.classification.ruleset", "2")
	return td
}

// loneRequest returns a request without a run, which also represents the run.
func loneRequest() ptrace.Traces {
	td := ptrace.NewTraces()
	span(td, traceB, 1, 0, "POST /task", 0)
	span(td, traceB, 2, 1, "chat gpt", 5, "gen_ai.operation.name", "chat")
	span(td, traceB, 3, 1, "chat gpt", 15, "gen_ai.operation.name", "chat", "llm.run.outcome", "succeeded")
	span(td, traceB, 4, 9, "chat gpt", 15, "gen_ai.operation.name", "chat")
	return td
}

func TestRunsAreFoundInAnyOrder(t *testing.T) {
	var spans report.Spans
	spans.Add(failedRun())
	spans.Add(loneRequest())

	runs := spans.All()
	require.Len(t, runs, 2)
	run := runs[0]
	assert.Equal(t, "invoke_agent coder", run.Name)
	require.Len(t, run.Requests, 2)
	require.Len(t, run.Tools, 1)
	assert.Equal(t, pcommon.SpanID{2}, run.Requests[0].ID, "requests are ordered by start time")
	assert.Equal(t, semconv.ClassStreamInterrupted, run.Requests[1].Verdict.Class)
	assert.Equal(t, 250*time.Millisecond, run.Requests[1].RetryAfter())
	assert.Zero(t, run.Requests[0].RetryAfter())
	assert.Len(t, spans.Trace(traceA), 5)

	lone := runs[1]
	assert.Equal(t, pcommon.SpanID{3}, lone.ID)
	assert.Len(t, lone.Requests, 2, "the requests under the same parent, including the one that represents the run")
	assert.Empty(t, spans.Runs(pcommon.TraceID{7}))
}

// A gateway's spans are found by their place in the trace: by name they are not part of
// the run.
func TestGatewaySpansAreServed(t *testing.T) {
	td := failedRun()
	asks := []any{"gen_ai.operation.name", "chat"}
	span(td, traceA, 6, 5, "chat gpt", 33, append(asks, "llm.failure.class", "provider_error", "llm.failure.cause", "overloaded")...)
	span(td, traceA, 5, 4, "chat gpt", 32, asks...)
	span(td, traceA, 7, 8, "chat gpt", 33, asks...) // a loop, beside the run
	span(td, traceA, 8, 7, "chat gpt", 33, asks...)
	for _, rs := range td.ResourceSpans().All() {
		if id := rs.ScopeSpans().At(0).Spans().At(0).SpanID(); id == (pcommon.SpanID{5}) || id == (pcommon.SpanID{6}) {
			rs.Resource().Attributes().PutStr("service.name", "gateway")
		}
	}
	var spans report.Spans
	spans.Add(td)
	runs := spans.Runs(traceA)
	require.Len(t, runs, 1)
	require.Len(t, runs[0].Requests, 2)
	require.Len(t, runs[0].Served, 2)
	assert.Equal(t, pcommon.SpanID{5}, runs[0].Served[0].ID)
	assert.Equal(t, pcommon.SpanID{6}, runs[0].Served[1].ID)

	var out bytes.Buffer
	(&report.Printer{W: &out}).Detail(report.Row{Label: "one", Run: &runs[0]})
	assert.Contains(t, out.String(), "  beneath   gateway, chat gpt: provider_error / overloaded\n")
}

// Spans of other instrumentations do not name their run. The spans below a run's span
// belong to it.
func TestSpansThatNameNoRun(t *testing.T) {
	td := ptrace.NewTraces()
	span(td, traceA, 1, 0, "invoke_agent coder", 0, "gen_ai.operation.name", "invoke_agent", "llm.run.outcome", "failed")
	span(td, traceA, 2, 1, "step 1", 1)
	span(td, traceA, 3, 2, "chat gpt", 2, "gen_ai.operation.name", "chat")
	span(td, traceA, 4, 3, "chat gpt", 3, "gen_ai.operation.name", "chat") // a gateway's span
	span(td, traceA, 5, 2, "execute_tool x", 4, "gen_ai.operation.name", "execute_tool")
	span(td, traceA, 6, 5, "invoke_agent helper", 5, "gen_ai.operation.name", "invoke_agent", "llm.run.outcome", "succeeded")
	span(td, traceA, 7, 6, "chat gpt", 6, "gen_ai.operation.name", "chat")
	span(td, traceA, 8, 8, "chat gpt", 7, "gen_ai.operation.name", "chat") // its own parent
	var spans report.Spans
	spans.Add(td)
	runs := spans.Runs(traceA)
	require.Len(t, runs, 2)
	ids := func(list []report.Span) (ids []byte) {
		for _, s := range list {
			ids = append(ids, s.ID[0])
		}
		return ids
	}
	assert.Equal(t, []byte{3}, ids(runs[0].Requests))
	assert.Equal(t, []byte{4}, ids(runs[0].Served))
	assert.Equal(t, []byte{5}, ids(runs[0].Tools))
	assert.Equal(t, []byte{7}, ids(runs[1].Requests))

	// An SDK's own span above ours is not another request.
	named := ptrace.NewTraces()
	span(named, traceB, 1, 0, "invoke_agent coder", 0, "gen_ai.operation.name", "invoke_agent", "llm.run.outcome", "failed")
	span(named, traceB, 2, 1, "messages.create", 1, "gen_ai.operation.name", "chat")
	span(named, traceB, 3, 2, "chat claude", 2, "gen_ai.operation.name", "chat", "llm.run.id", runID)
	spans.Add(named)
	assert.Equal(t, []byte{3}, ids(spans.Runs(traceB)[0].Requests))
}

func TestReadVerdict(t *testing.T) {
	var spans report.Spans
	spans.Add(failedRun())
	v := spans.All()[0].Verdict
	assert.Equal(t, report.Verdict{
		Outcome: semconv.RunOutcomeFailed, Class: semconv.ClassStreamInterrupted, Cause: semconv.CauseConnectionReset,
		Phase: semconv.PhaseResponseStarted, Origin: semconv.OriginTransport, Confidence: semconv.ConfidenceHigh,
		Summary: v.Summary, SummaryKey: semconv.SummaryKeyToolWithEffectsRan, Safety: semconv.RetrySafetyUserConfirmedRetry, Reason: semconv.RetryReasonToolSideEffect,
		Evidence: []string{"llm.stream.end=read_error"}, MissingEvidence: []string{"x"}, MissingOutputs: []string{"call_1"},
		Recovered: 1, Timeline: []string{"+0.010s request 1: headers 200", "+0.040s request 2: connection reset"},
		Trigger: semconv.TriggerComplete, Ruleset: "2",
	}, v)
	assert.NotEmpty(t, v.Summary)
	assert.True(t, v.Failed())
}

func TestUnknownValuesAreReported(t *testing.T) {
	attrs := pcommon.NewMap()
	attrs.PutStr("llm.failure.class", "gremlins")
	attrs.PutStr("llm.retry.safety", "no_retry")
	v := report.ReadVerdict(attrs)
	assert.Equal(t, []string{"llm.failure.class=gremlins"}, v.Unknown)
	assert.Equal(t, semconv.RetrySafetyNoRetry, v.Safety)
	assert.False(t, v.Failed())
}

func TestTailReadsCompleteLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	tail := report.NewTail(path)
	var spans report.Spans
	grown, err := tail.Read(&spans)
	require.NoError(t, err, "a missing file reads as empty")
	assert.False(t, grown)

	var json ptrace.JSONMarshaler
	first, err := json.MarshalTraces(failedRun())
	require.NoError(t, err)
	second, err := json.MarshalTraces(loneRequest())
	require.NoError(t, err)
	all := string(first) + "\n\n" + string(second) + "\n"
	var written int
	for _, upTo := range []int{10, len(first), len(first) + 1, len(first) + 20, len(all) - 1, len(all)} {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = f.WriteString(all[written:upTo])
		require.NoError(t, err)
		require.NoError(t, f.Close())
		written = upTo
		grown, err := tail.Read(&spans)
		require.NoError(t, err)
		assert.True(t, grown)
		want := strings.Count(strings.ReplaceAll(all[:upTo], "\n\n", "\n"), "\n")
		assert.Len(t, spans.All(), want, "after %d bytes", upTo)
	}
	grown, err = tail.Read(&spans)
	require.NoError(t, err)
	assert.False(t, grown)

	require.NoError(t, os.WriteFile(path, []byte(all+"{oops\n"), 0o600))
	_, err = tail.Read(&spans)
	require.ErrorContains(t, err, "not OTLP JSON")
}

func TestPrinting(t *testing.T) {
	var spans report.Spans
	spans.Add(failedRun())
	spans.Add(loneRequest())
	runs := spans.All()
	rows := []report.Row{{Label: "one – cut", Run: &runs[0]}, {Label: "two, a longer label", Run: &runs[1]}, {Label: "three"}}

	var out bytes.Buffer
	p := &report.Printer{W: &out}
	p.Table(rows)
	for _, r := range rows[:1] {
		p.Detail(r)
	}
	p.Detail(rows[2])
	assert.Equal(t, `                     outcome     class               cause             phase             retry
one – cut            failed      stream_interrupted  connection_reset  response_started  user_confirmed_retry
two, a longer label  succeeded   -                   -                 -                 -
three                no verdict  -                   -                 -                 -
one – cut
  The connection to the model was lost (connection reset) just after the response had begun. The
  tool apply_patch, which changes things, had already run. Ask before retrying: apply_patch could
  run twice.
  what      failed: stream_interrupted / connection_reset, phase response_started, origin transport, confidence high
  retry     user_confirmed_retry, because of tool_side_effect
  made good 1 failure
  lost      the output of call_1
  timeline  +0.010s request 1: headers 200
            +0.040s request 2: connection reset
  trace     01000000000000000000000000000000
three
  no verdict has come for it
`, out.String())

	var colored bytes.Buffer
	(&report.Printer{W: &colored, Color: true}).Table(rows)
	assert.Contains(t, colored.String(), "\x1b[31mfailed    \x1b[0m")
	assert.Contains(t, colored.String(), "\x1b[32msucceeded \x1b[0m")
	assert.Contains(t, colored.String(), "\x1b[33muser_confirmed_retry\x1b[0m")
}

func TestFileGetsNoColor(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer f.Close()
	assert.False(t, report.NewPrinter(f).Color)
}

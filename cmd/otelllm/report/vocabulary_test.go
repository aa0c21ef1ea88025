package report_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// vocabulary reads the attributes and the events of the vocabulary from its source.
func vocabulary(t *testing.T) (keys, events []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "semconv", "*.go"))
	require.NoError(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			name, value := spec.Names[0].Name, spec.Values[0]
			if call, ok := value.(*ast.CallExpr); ok && len(call.Args) == 1 {
				value = call.Args[0]
			}
			text, ok := value.(*ast.BasicLit)
			if !ok || text.Kind != token.STRING {
				return true
			}
			word, err := strconv.Unquote(text.Value)
			require.NoError(t, err)
			switch {
			case strings.HasSuffix(name, "Key"):
				keys = append(keys, word)
			case strings.HasPrefix(name, "Event"):
				events = append(events, word)
			}
			return true
		})
	}
	return keys, events
}

// A record has every attribute and event of the vocabulary.
func TestRecordHasTheVocabulary(t *testing.T) {
	keys, events := vocabulary(t)
	require.Greater(t, len(keys), 60)
	require.Greater(t, len(events), 10)
	td := ptrace.NewTraces()
	span(td, traceA, 1, 0, "chat gpt", 0, "gen_ai.operation.name", "chat")
	s := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	for _, key := range keys {
		s.Attributes().PutStr(key, "x")
	}
	s.Attributes().Remove("llm.run.outcome") // it would be a run
	for _, event := range events {
		s.Events().AppendEmpty().SetName(event)
	}
	var spans report.Spans
	spans.Add(td)
	records := spans.Records(traceA)
	require.Len(t, records, 1)
	for _, key := range keys {
		if key != "llm.run.outcome" {
			assert.Contains(t, records[0].Attributes, key)
		}
	}
	var got []string
	for _, e := range records[0].Events {
		got = append(got, e.Name)
	}
	assert.Equal(t, events, got)
}

// contents are attributes in which instrumentations put content.
var contents = []string{
	"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.definitions", "gen_ai.tool.call.arguments",
	"gen_ai.tool.call.result", "gen_ai.tool.description", "gen_ai.prompt", "gen_ai.completion", "gen_ai.prompt.0.content", "gen_ai.completion.0.content",
	"gen_ai.retrieval.query.text", "gen_ai.agent.description", "input.value", "output.value", "llm.input_messages.0.message.content", "llm.output_messages.0.message.content",
	"llm.prompts", "llm.prompt_template.template", "llm.invocation_parameters", "llm.tools.0.tool.json_schema", "llm.request.functions.0.arguments",
	"ai.prompt", "ai.prompt.messages", "ai.response.text", "ai.toolCall.args", "ai.toolCall.result", "ai.response.toolCalls", "traceloop.entity.input",
	"traceloop.entity.output", "exception.message", "exception.stacktrace", "url.full", "url.query", "http.request.header.authorization", "db.query.text",
	"user.id", "user.email", "error.message", "message", "event.body", "CANARY",
}

// Nothing else is in a record: not in runs, in requests, in tools, in calls without a run, nor
// in their events.
func TestRecordHasNoContent(t *testing.T) {
	const canary = "CANARY7c1f"
	td := failedRun()
	loneRequest().ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	for _, rs := range td.ResourceSpans().All() {
		rs.Resource().Attributes().PutStr("process.command_line", canary)
		for _, ss := range rs.ScopeSpans().All() {
			ss.Scope().Attributes().PutStr("x", canary)
			for _, s := range ss.Spans().All() {
				s.Status().SetMessage(canary)
				s.TraceState().FromRaw("x=" + canary)
				s.Links().AppendEmpty().Attributes().PutStr("x", canary)
				for _, name := range []string{"exception", "gen_ai.client.inference.operation.details", "llm.stream.text_started", "gen_ai.choice"} {
					e := s.Events().AppendEmpty()
					e.SetName(name)
					for _, key := range contents {
						e.Attributes().PutStr(key, canary)
						s.Attributes().PutStr(key, canary)
					}
				}
			}
		}
	}
	var spans report.Spans
	spans.Add(td)
	n := 0
	for _, id := range []pcommon.TraceID{traceA, traceB} {
		for _, r := range spans.Records(id) {
			n += 1 + len(r.Requests) + len(r.Tools)
			raw, err := json.Marshal(r)
			require.NoError(t, err)
			assert.NotContains(t, string(raw), canary)
			assert.Contains(t, string(raw), "llm.stream.text_started", "the canaries are there")
		}
	}
	assert.GreaterOrEqual(t, n, 5)
}

// Records takes a time in proportion to the spans of a trace.
func TestRecordsAreLinear(t *testing.T) {
	many := func(n int) time.Duration {
		td := ptrace.NewTraces()
		for i := range n { // each request is beneath the one before
			span(td, traceA, 0, 0, "chat gpt", i, "gen_ai.operation.name", "chat")
			s := td.ResourceSpans().At(i).ScopeSpans().At(0).Spans().At(0)
			s.SetSpanID(idOf(i + 1))
			s.SetParentSpanID(idOf(i * (i % 2)))
		}
		var spans report.Spans
		spans.Add(td)
		best := time.Hour
		for range 3 {
			begin := time.Now()
			require.NotEmpty(t, spans.Records(traceA))
			best = min(best, time.Since(begin))
		}
		return best
	}
	small, large := many(500), many(8000)
	assert.Less(t, large, 80*small, "16 times as many spans took %s instead of %s", large, small)
}

func idOf(n int) (id pcommon.SpanID) {
	for i := range 4 {
		id[7-i] = byte(n >> (8 * i))
	}
	return id
}

// Model calls without a run are shown with those beneath them, and parents may form a cycle.
func TestLone(t *testing.T) {
	td := ptrace.NewTraces()
	span(td, traceA, 2, 1, "chat served", 10, "gen_ai.operation.name", "chat")
	span(td, traceA, 1, 0, "chat gpt", 0, "gen_ai.operation.name", "chat", "llm.failure.class", "provider_error")
	span(td, traceA, 3, 0, "execute_tool ok", 20, "gen_ai.operation.name", "execute_tool")
	span(td, traceA, 4, 0, "execute_tool bad", 30, "gen_ai.operation.name", "execute_tool", "llm.failure.class", "tool_failed")
	span(td, traceA, 5, 0, "ai.streamText", 40, "llm.failure.class", "stream_interrupted")
	span(td, traceA, 6, 7, "a", 50)
	span(td, traceA, 7, 6, "chat in a cycle", 60, "gen_ai.operation.name", "chat")
	var spans report.Spans
	spans.Add(td)
	var names []string
	for _, r := range spans.Lone(traceA) {
		names = append(names, r.Name)
		if r.Name == "chat gpt" {
			require.Len(t, r.Served, 1)
			assert.Equal(t, "chat served", r.Served[0].Name)
		}
	}
	assert.Equal(t, []string{"chat gpt", "execute_tool bad", "ai.streamText", "chat in a cycle"}, names)
	records := spans.Records(traceA)
	require.Len(t, records, 4)
	assert.Equal(t, []report.RecordKind{report.RecordRequest, report.RecordTool, report.RecordRequest, report.RecordRequest},
		[]report.RecordKind{records[0].Kind, records[1].Kind, records[2].Kind, records[3].Kind})
	assert.Len(t, records[0].Served, 1)
}

// The words for a retry follow the verdict.
func TestNextStep(t *testing.T) {
	for safety, want := range map[string]string{
		"safe_auto_retry": "retry automatically, 1.5s after the failure", "user_confirmed_retry": "ask a person before retrying, 1.5s after the failure",
		"no_retry": "do not retry it as it is", "": "",
	} {
		td := ptrace.NewTraces()
		span(td, traceA, 1, 0, "chat gpt", 0, "gen_ai.operation.name", "chat", "llm.retry.safety", safety, "llm.retry.after", 1.5,
			"gen_ai.request.model", "gpt", "llm.request.id", "req_1", "gen_ai.agent.name", "coder")
		var spans report.Spans
		spans.Add(td)
		s := spans.Trace(traceA)[0]
		assert.Equal(t, want, s.NextStep())
		assert.Equal(t, []string{"gpt", "req_1", "coder"}, []string{s.Model(), s.RequestID(), s.Agent()})
	}
}

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/child"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// What names and values of a foreign trace contain does nothing to the terminal.
func TestNamesAreOnlyPrinted(t *testing.T) {
	t.Parallel()
	const hostile = "\x1b]52;c;cm0gLXJm\a\x1b[2J\r\nforged  ok\u202e"
	raw, err := os.ReadFile(examples + "complete.json")
	require.NoError(t, err)
	td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(raw)
	require.NoError(t, err)
	spoil := func(attrs pcommon.Map) {
		for key, v := range attrs.All() {
			if v.Type() == pcommon.ValueTypeStr && !strings.Contains(key, "operation") && !strings.HasPrefix(key, "llm.tool.") && !strings.HasPrefix(key, "llm.run.") {
				v.SetStr(v.Str() + hostile)
			}
		}
		attrs.PutStr("gen_ai."+hostile, hostile)
	}
	for _, rs := range td.ResourceSpans().All() {
		spoil(rs.Resource().Attributes())
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				span.SetName(span.Name() + hostile)
				spoil(span.Attributes())
			}
		}
	}
	spoiled, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
	require.NoError(t, err)
	for _, command := range []string{"classify", "check"} {
		_, out, errs := runCommand(t, string(spoiled), command, "-")
		assert.Contains(t, out, `\x1b]52;c;`, command)
		assert.Equal(t, strings.ReplaceAll(out+errs, "\n", " "), report.Printable(strings.ReplaceAll(out+errs, "\n", " ")), command)
		assert.NotContains(t, out, "\nforged", command)
	}

	var out bytes.Buffer
	(&summary{ending: &ending{Ended: child.Ended{Code: 1}, name: "codex" + hostile}, records: []report.Record{{
		Kind:       report.RecordRun,
		Attributes: map[string]any{"llm.run.outcome": "failed", "llm.failure.summary": "The tool " + hostile + " had run."},
		Tools:      []report.Record{{Attributes: map[string]any{"gen_ai.tool.name": hostile}}},
	}}}).print(&out)
	assert.Contains(t, out.String(), `\x1b]52;c;`)
	assert.NotContains(t, out.String(), "\x1b")
}

package check

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/input"
)

// one is a span of a trace.
type one struct {
	id, parent    byte
	operation     string
	conversation  string
	session, runs string
}

// A run is missing only where nothing joins the requests and tools of a trace.
func TestMissingRun(t *testing.T) {
	const missing = "the span of a run"
	for name, tt := range map[string]struct {
		spans   []one
		missing bool
	}{
		"a lone request":                        {[]one{{id: 1, operation: "chat"}}, false},
		"a request beneath another span":        {[]one{{id: 1, parent: 9, operation: "chat"}}, false},
		"requests under one parent":             {[]one{{id: 1, parent: 9, operation: "chat"}, {id: 2, parent: 9, operation: "execute_tool"}, {id: 3, parent: 9, operation: "chat"}}, false},
		"requests of one conversation":          {[]one{{id: 1, operation: "chat", conversation: "c"}, {id: 2, operation: "chat", conversation: "c"}}, false},
		"requests of one session":               {[]one{{id: 1, parent: 8, operation: "chat", session: "s"}, {id: 2, parent: 9, operation: "chat", session: "s"}}, false},
		"joined by a parent, then a session":    {[]one{{id: 1, parent: 8, operation: "chat", session: "s"}, {id: 2, parent: 8, operation: "chat"}, {id: 3, parent: 9, operation: "chat", session: "s"}}, false},
		"a tool beneath its request":            {[]one{{id: 1, operation: "chat"}, {id: 2, parent: 1, operation: "execute_tool"}}, false},
		"a tool beneath a span beneath it":      {[]one{{id: 1, operation: "chat"}, {id: 3, parent: 1}, {id: 2, parent: 3, operation: "execute_tool"}}, false},
		"a run":                                 {[]one{{id: 9, operation: "invoke_agent"}, {id: 1, parent: 9, operation: "chat"}, {id: 2, parent: 9, operation: "chat"}}, false},
		"two requests under nothing":            {[]one{{id: 1, operation: "chat"}, {id: 2, operation: "chat"}}, true},
		"two requests under different parents":  {[]one{{id: 1, parent: 8, operation: "chat"}, {id: 2, parent: 9, operation: "chat"}}, true},
		"a tool beside its request":             {[]one{{id: 1, operation: "chat"}, {id: 2, operation: "execute_tool"}}, true},
		"two conversations":                     {[]one{{id: 1, operation: "chat", conversation: "a"}, {id: 2, operation: "chat", conversation: "b"}}, true},
		"requests that name a run that is lost": {[]one{{id: 1, operation: "chat", runs: "00000000000000ff"}, {id: 2, operation: "chat", runs: "00000000000000ff"}}, false},
		"parents in a cycle":                    {[]one{{id: 1, parent: 2, operation: "chat"}, {id: 2, parent: 1, operation: "chat"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			td := ptrace.NewTraces()
			spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
			for _, o := range tt.spans {
				s := spans.AppendEmpty()
				s.SetTraceID(pcommon.TraceID{1})
				s.SetSpanID(pcommon.SpanID{o.id})
				if o.parent != 0 {
					s.SetParentSpanID(pcommon.SpanID{o.parent})
				}
				for key, text := range map[string]string{
					"gen_ai.operation.name": o.operation, "gen_ai.conversation.id": o.conversation, "session.id": o.session, "llm.run.id": o.runs,
				} {
					if text != "" {
						s.Attributes().PutStr(key, text)
					}
				}
			}
			var traces input.Traces
			traces.Add(td)
			findings, _ := Traces(traces.List)
			found := 0
			for i := range findings {
				for _, m := range findings[i].Missing {
					if m.Fact == missing {
						found++
						assert.True(t, m.Needed)
					}
				}
			}
			want := 0
			if tt.missing {
				want = 1
			}
			assert.Equal(t, want, found, "once a trace")
		})
	}
}

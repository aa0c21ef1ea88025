package instrumentations

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/examples/internal/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// recorded says in one line what the producer put on the spans of the trace that tells of an end.
func (c *cell) recorded() string {
	spans := slices.Clone(c.spans)
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.StartTimestamp(), b.StartTimestamp()), -cmp.Compare(a.EndTimestamp(), b.EndTimestamp()), cmp.Compare(a.Name(), b.Name()))
	})
	var lines []string
	for _, s := range spans {
		if s.scope != applicationScope && s.Name() != semconv.SpanRunAbandoned {
			lines = append(lines, told(s))
		}
	}
	if len(lines) == 0 {
		return "no span"
	}
	return strings.Join(lines, "; ")
}

// applicationScope is that of the span around the agent.
const applicationScope = "examples/node"

// told is what a span tells of its end, in the producer's words.
func told(s span) string {
	words := []string{"`" + s.Name() + "`"}
	if code := s.Status().Code(); code != ptrace.StatusCodeUnset {
		words = append(words, strings.ToUpper(code.String()))
	}
	value := func(short string, keys ...string) {
		for _, key := range keys {
			if v, ok := s.Attributes().Get(key); ok {
				words = append(words, short+"="+v.AsString())
				return
			}
		}
	}
	value("status", "http.response.status_code")
	value("error.type", "error.type")
	for _, e := range s.Events().All() {
		if e.Name() == "exception" {
			if v, ok := e.Attributes().Get("exception.type"); ok {
				words = append(words, "exception="+v.AsString())
			} else {
				words = append(words, "exception")
			}
			break
		}
	}
	value("finish", "gen_ai.response.finish_reasons", "llm.finish_reason", "ai.response.finishReason", "anthropic.message.stop_reason")
	value("end", "llm.stream.end")
	value("cause", "llm.transport.cause")
	value("phase", "llm.stream.phase")
	value("outcome", "llm.tool.outcome")
	return strings.Join(words, " ")
}

// verdicts are those of a cell, one a line.
func (c *cell) verdicts() string {
	var b strings.Builder
	spans, verdicts := c.judged()
	for i := range verdicts {
		v := &verdicts[i]
		fmt.Fprintf(&b, "  %s: %s %s / %s at %s, origin %s, %s, %s (%s) missing %q\n", spans[i].Name(), v.Outcome, v.Class, v.Cause, v.Phase,
			v.Origin, v.Confidence, v.Safety, v.Reason, v.MissingEvidence)
	}
	return b.String()
}

func (m *matrix) page() string { return "" }

var _ = report.Verdict{}

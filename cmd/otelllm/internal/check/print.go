package check

import (
	"fmt"
	"io"
	"strings"

	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// Print prints the finding of each span, and a summary.
func Print(w io.Writer, findings []Finding, others int) {
	trace, good, lacking, contradictory := "", 0, 0, 0
	for i := range findings {
		f := &findings[i]
		if f.TraceID != trace {
			trace = f.TraceID
			fmt.Fprintf(w, "trace %s\n", trace)
		}
		fmt.Fprintf(w, "  %s %s  %s\n", f.Kind, f.SpanID, report.Printable(f.Name))
		for _, c := range f.Contradictions {
			fmt.Fprintf(w, "    CONTRADICTION  %s\n", report.Printable(c))
		}
		for _, m := range f.Missing {
			if m.Needed {
				fmt.Fprintf(w, "    MISSING        %s: not known without it: %s\n", m.Fact, m.Why)
			}
		}
		var useful []string
		for _, m := range f.Missing {
			if !m.Needed {
				useful = append(useful, m.Fact)
			}
		}
		list(w, "could be added", useful)
		list(w, "present", f.Present)
		list(w, "NO SUCH FACT", f.Unknown)
		switch {
		case len(f.Contradictions) > 0:
			contradictory++
		case f.lacks():
			lacking++
		default:
			good++
		}
	}
	fmt.Fprintf(w, "\n%s: %d have all that a verdict needs, %d lack some of it, %d contradict themselves. %s of other kinds.\n",
		count(len(findings), "span"), good, lacking, contradictory, count(others, "span"))
}

// PrintNothing prints why no span was checked.
func PrintNothing(w io.Writer, others int) {
	fmt.Fprintf(w, "None of %s is a model call, a tool or an agent's run by the vocabulary: each of them needs at least %s\n"+
		"(chat, text_completion, generate_content; execute_tool; invoke_agent). llm_classify also recognises\n"+
		"spans of other instrumentations: `otelllm classify FILE` prints its verdicts.\n",
		count(others, "span"), otelsemconv.GenAIOperationNameKey)
}

func list(w io.Writer, name string, items []string) {
	if len(items) > 0 {
		fmt.Fprintf(w, "    %-14s %s\n", name, report.Printable(strings.Join(items, " ")))
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

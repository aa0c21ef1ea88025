package explain

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// Print prints the explanation as text.
func (e *Explanation) Print(w io.Writer) {
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%-10s %s\n", name, report.Printable(value))
		}
	}
	for _, l := range report.Wrap(e.Summary, 100) {
		fmt.Fprintln(w, report.Printable(l))
	}
	v := &e.Verdict
	what := join(" / ", v.Class, v.Cause)
	field("outcome", join(": ", v.Outcome, what))
	field("where", join(", ", named("phase", v.Phase), named("origin", v.Origin), named("confidence", v.Confidence)))
	field("retry", join(", because of ", v.RetrySafety, v.RetryReason))
	field("lost", strings.Join(v.MissingOutputs, ", "))
	field("app", join(", ", e.App.Agent, strings.Join(e.App.UserAgents, ", "), named("service", e.App.Service)))
	field("model", join(" ", strings.Join(e.App.Models, ", "), named("by", strings.Join(e.App.Providers, ", "))))
	field("HTTP", strings.Join(e.App.Protocols, ", "))
	field("began", e.Start.Format("2006-01-02 15:04:05.000 MST"))
	field("trace", e.TraceID)
	for i, l := range e.Timeline {
		if i == 0 {
			fmt.Fprintln(w, "\nTimeline")
		}
		fmt.Fprintln(w, "  "+report.Printable(l))
	}
	for i := range e.Parts {
		e.Parts[i].print(w)
	}
}

func (p *Part) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s  %s  %s  %.3fs\n", p.Label, report.Printable(p.Name), p.SpanID, p.Seconds)
	for _, key := range slices.Sorted(maps.Keys(p.Facts)) {
		fmt.Fprintf(w, "  %s=%s\n", key, report.Printable(fmt.Sprint(p.Facts[key])))
	}
	for _, fact := range p.Negative {
		fmt.Fprintln(w, "  "+fact)
	}
	if len(p.NotObserved) > 0 {
		fmt.Fprintln(w, "  not observed: "+strings.Join(p.NotObserved, " "))
	}
	if p.Verdict != nil {
		fmt.Fprintf(w, "  verdict: %s / %s, %s (%s)\n", p.Verdict.Class, p.Verdict.Cause, p.Verdict.RetrySafety, p.Verdict.RetryReason)
		fmt.Fprintln(w, "  decided by: "+report.Printable(strings.Join(p.Verdict.Evidence, " ")))
	}
}

func named(name, value string) string {
	if value == "" {
		return ""
	}
	return name + " " + value
}

// join joins those of the texts that are not empty.
func join(between string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), between)
}

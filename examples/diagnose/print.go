package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/examples/internal/report"
)

// runsOf returns the judged runs of the traces.
func runsOf(traces []*trace) []report.Run {
	var spans report.Spans
	for _, t := range traces {
		spans.Add(t.td)
	}
	return spans.All()
}

// printRuns prints one line per run, and each failure as an operator reads it.
func printRuns(f *os.File, traces []*trace) {
	runs := runsOf(traces)
	if len(runs) == 0 {
		printCalls(f, traces)
		return
	}
	rows := make([]report.Row, len(runs))
	for i := range runs {
		rows[i] = report.Row{Label: label(&runs[i]), Run: &runs[i]}
	}
	p := report.NewPrinter(f)
	p.Table(rows)
	failed := 0
	for _, r := range rows {
		if r.Run.Verdict.Failed() {
			failed++
			fmt.Fprintln(f)
			p.Detail(r)
			if missing := r.Run.Verdict.MissingEvidence; len(missing) > 0 {
				fmt.Fprintf(f, "  %-9s %s\n", "not known", strings.Join(missing, ", "))
			}
		}
	}
	fmt.Fprintf(f, "\n%s in %s, %d with a failure.\n", count(len(runs), "run"), count(len(traces), "trace"), failed)
}

// printCalls prints the failures in traces without a run: each model call and each tool has
// a verdict of its own.
func printCalls(f *os.File, traces []*trace) {
	var spans report.Spans
	calls, failed := 0, 0
	for _, t := range traces {
		spans.Add(t.td)
		findings, _ := examine(t)
		calls += len(findings)
	}
	for _, t := range traces {
		for _, s := range spans.Trace(t.id) {
			if s.Verdict.Failed() {
				failed++
				fmt.Fprintf(f, "%s\n  %s\n\n", label(&report.Run{Span: s}), s.Verdict.Summary)
			}
		}
	}
	why := "no span is an agent's run, and no failure was recognized.\n`diagnose -check` prints which facts the spans lack."
	if calls+failed > 0 {
		why = fmt.Sprintf("no span is an agent's run whose end is here. %s with a failure.", count(failed, "call"))
	}
	fmt.Fprintf(f, "No run in %s: %s\n", count(len(traces), "trace"), why)
}

// label distinguishes a run from others with the same name.
func label(r *report.Run) string {
	return r.Start.UTC().Format("2006-01-02 15:04:05") + "  " + r.Name + "  " + r.TraceID.String()[:8]
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// runJSON is a run as -json prints it. Unknown values are left out.
type runJSON struct {
	TraceID string    `json:"trace_id"`
	SpanID  string    `json:"span_id"`
	Name    string    `json:"name"`
	Service string    `json:"service,omitempty"`
	Start   time.Time `json:"start"`
	Seconds float64   `json:"duration_s"`

	Outcome string `json:"outcome"`
	verdictJSON

	Recovered      int      `json:"recovered_failures,omitempty"`
	MissingOutputs []string `json:"missing_outputs,omitempty"`
	Timeline       []string `json:"timeline,omitempty"`
	Trigger        string   `json:"trigger,omitempty"`
	Ruleset        string   `json:"ruleset,omitempty"`

	Requests []spanJSON `json:"requests,omitempty"`
	Tools    []spanJSON `json:"tools,omitempty"`
}

// spanJSON is a request or a tool of a run.
type spanJSON struct {
	SpanID string    `json:"span_id"`
	Name   string    `json:"name"`
	Start  time.Time `json:"start"`
	verdictJSON
}

type verdictJSON struct {
	Class           string     `json:"class,omitempty"`
	Cause           string     `json:"cause,omitempty"`
	Phase           string     `json:"phase,omitempty"`
	Origin          string     `json:"origin,omitempty"`
	Confidence      string     `json:"confidence,omitempty"`
	Summary         string     `json:"summary,omitempty"`
	Evidence        []string   `json:"evidence,omitempty"`
	MissingEvidence []string   `json:"missing_evidence,omitempty"`
	Retry           *retryJSON `json:"retry,omitempty"`
}

type retryJSON struct {
	Safety string  `json:"safety"`
	Reason string  `json:"reason,omitempty"`
	After  float64 `json:"after_s,omitempty"`
}

// printJSON prints each run on one line.
func printJSON(w io.Writer, traces []*trace) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, r := range runsOf(traces) {
		v := &r.Verdict
		line := runJSON{
			TraceID: r.TraceID.String(), SpanID: r.ID.String(), Name: r.Name, Service: r.Service,
			Start: r.Start.UTC(), Seconds: r.End.Sub(r.Start).Seconds(),
			Outcome: v.Outcome.String(), verdictJSON: verdict(&r.Span),
			Recovered: v.Recovered, MissingOutputs: v.MissingOutputs, Timeline: v.Timeline,
			Trigger: v.Trigger.String(), Ruleset: v.Ruleset,
			Requests: parts(r.Requests), Tools: parts(r.Tools),
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

func parts(spans []report.Span) []spanJSON {
	list := make([]spanJSON, len(spans))
	for i := range spans {
		s := &spans[i]
		list[i] = spanJSON{SpanID: s.ID.String(), Name: s.Name, Start: s.Start.UTC(), verdictJSON: verdict(s)}
	}
	return list
}

func verdict(s *report.Span) verdictJSON {
	v := &s.Verdict
	out := verdictJSON{
		Class: v.Class.String(), Cause: v.Cause.String(), Phase: v.Phase.String(), Origin: v.Origin.String(),
		Confidence: v.Confidence.String(), Summary: v.Summary, Evidence: v.Evidence, MissingEvidence: v.MissingEvidence,
	}
	if safety := v.Safety.String(); safety != "" {
		out.Retry = &retryJSON{Safety: safety, Reason: v.Reason.String(), After: s.RetryAfter().Seconds()}
	}
	return out
}

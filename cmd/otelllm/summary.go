package main

import (
	"fmt"
	"io"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// summaryWidth is the width of the text beside the labels.
const summaryWidth = 84

// maxSummaries bounds the runs that are described one by one.
const maxSummaries = 10

// printSummary prints what became of the runs: one line if all are well, and a paragraph for
// each of the others. A command that succeeded may well have stopped what it did not need any
// more, such as the title of a conversation. One that failed although all are well had another
// reason, or could not read the answers.
func printSummary(w io.Writer, records []report.Record, dropped, status int) {
	succeeded := status == 0
	if len(records) == 0 {
		what := "no model call went through the proxy"
		if !succeeded {
			what = "no model call went through the proxy before the command failed"
		}
		fmt.Fprintln(w, "otelllm: "+what)
		return
	}
	var runs, calls, tools, recovered, stopped int
	unclear := make(map[string]bool) // the ids of runs
	var unwell, warned []*report.Record
	for i := range records {
		r := &records[i]
		if r.Kind == report.RecordRun {
			runs++
			calls += len(r.Requests)
			tools += len(r.Tools)
		} else {
			calls++
		}
		outcome := text(r, semconv.RunOutcomeKey)
		if text(r, semconv.RunWarningKey) != "" {
			warned = append(warned, r)
		}
		switch {
		case outcome == semconv.RunOutcomeRecovered.String():
			recovered++
		case well(r) && r.Attributes[string(semconv.RunInferredKey)] == true && outcome == "":
			unclear[text(r, semconv.RunIDKey)] = true // of the run that the model call belongs to, nothing is claimed
		case succeeded && text(r, semconv.FailureClassKey) == semconv.ClassLocalAbort.String():
			stopped++
		case !well(r):
			unwell = append(unwell, r)
		}
	}
	line := "otelllm: " + joined(counted(runs, "run"), counted(calls, "model call"), counted(tools, "tool call"))
	if stopped > 0 {
		line += fmt.Sprintf(" (%d stopped by the command)", stopped)
	}
	var said []string
	if len(unwell) > 0 {
		said = append(said, did(len(unwell))+" not end well")
	}
	if n := len(unclear); n > 0 {
		said = append(said, "it is not known how "+counted(n, "run")+" ended")
	}
	switch {
	case len(said) > 0:
	case recovered > 0 && len(warned) > 0:
		said = append(said, "recovered from failures on the way, with "+counted(len(warned), "warning"))
	case len(warned) > 0:
		said = append(said, counted(len(warned), "warning"))
	case recovered > 0 && succeeded:
		said = append(said, "ok, recovered from failures on the way")
	case recovered > 0:
		said = append(said, "recovered from failures on the way")
	case succeeded:
		said = append(said, "ok")
	}
	if !succeeded && len(unwell) == 0 && len(unclear) == 0 {
		said = append(said, fmt.Sprintf("the command exited with status %d although every model call was answered", status))
	}
	fmt.Fprintf(w, "%s; %s\n", line, strings.Join(said, "; "))
	printUnwell(w, append(unwell, wellButWarned(warned)...))
	if dropped > 0 {
		fmt.Fprintf(w, "  the oldest runs are not shown: there were more than are kept in memory\n")
	}
}

// wellButWarned returns those of the runs with a warning that ended well.
func wellButWarned(warned []*report.Record) (list []*report.Record) {
	for _, r := range warned {
		if well(r) {
			list = append(list, r)
		}
	}
	return list
}

// printUnwell describes runs that did not end well, or that have a warning. Those of which the same is said are
// described once.
func printUnwell(w io.Writer, list []*report.Record) {
	times := make(map[string]int)
	var texts []string
	for _, r := range list {
		var b strings.Builder
		describe(&b, r)
		if times[b.String()]++; times[b.String()] == 1 {
			texts = append(texts, b.String())
		}
	}
	for i, text := range texts {
		if i == maxSummaries {
			fmt.Fprintf(w, "  and %d more; --json FILE has them all\n", len(texts)-i)
			return
		}
		fmt.Fprint(w, text)
		if n := times[text]; n > 1 {
			field(w, "", fmt.Sprintf("(%d times)", n))
		}
		fmt.Fprintln(w)
	}
}

// well reports whether nothing has to be said of a record.
func well(r *report.Record) bool {
	switch text(r, semconv.RunOutcomeKey) {
	case semconv.RunOutcomeSucceeded.String(), semconv.RunOutcomeRecovered.String(), semconv.RunOutcomeWaiting.String():
		return true
	case "":
		return text(r, semconv.FailureClassKey) == ""
	default:
		return false
	}
}

// describe prints a run that did not end well, or that has a warning.
func describe(w io.Writer, r *report.Record) {
	var verdict []string
	for _, key := range []attribute.Key{semconv.RunOutcomeKey, semconv.FailureClassKey, semconv.FailureCauseKey} {
		if value := text(r, key); value != "" {
			verdict = append(verdict, value)
		}
	}
	field(w, "verdict", strings.Join(verdict, " / "))
	field(w, "what", text(r, semconv.FailureSummaryKey))
	field(w, "warning", text(r, semconv.RunWarningKey))
	field(w, "ran", strings.Join(ran(r), ", "))
	field(w, "retry", retryWords[text(r, semconv.RetrySafetyKey)])
}

// retryWords say what to do.
var retryWords = map[string]string{
	semconv.RetrySafetySafeAutoRetry.String():      "safe: run it again",
	semconv.RetrySafetyUserConfirmedRetry.String(): "look first, then decide",
	semconv.RetrySafetyNoRetry.String():            "do not run it again as it is",
}

// ran returns the tools of a run, with how each ended.
func ran(r *report.Record) []string {
	var list []string
	counts := make(map[string]int)
	for i := range r.Tools {
		t := &r.Tools[i]
		name := text(t, otelsemconv.GenAIToolNameKey)
		if name == "" {
			name = "a tool"
		}
		if outcome := text(t, semconv.ToolOutcomeKey); outcome != "" {
			name += " (" + outcome + ")"
		}
		if counts[name]++; counts[name] == 1 {
			list = append(list, name)
		}
	}
	for i, name := range list {
		if n := counts[name]; n > 1 {
			list[i] = fmt.Sprintf("%s %d times", name, n)
		}
	}
	return list
}

func field(w io.Writer, name, value string) {
	for i, line := range report.Wrap(value, summaryWidth) {
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(w, "  %-8s %s\n", name, report.Printable(line))
	}
}

// text returns an attribute that is a string, or "".
func text(r *report.Record, key attribute.Key) string {
	s, _ := r.Attributes[string(key)].(string)
	return s
}

func counted(n int, what string) string {
	if n == 0 {
		return ""
	}
	return count(n, what)
}

func joined(parts ...string) string {
	var list []string
	for _, p := range parts {
		if p != "" {
			list = append(list, p)
		}
	}
	return strings.Join(list, ", ")
}

func did(n int) string {
	if n == 1 {
		return "1 did"
	}
	return fmt.Sprintf("%d did", n)
}

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
// more, such as the title of a conversation.
func printSummary(w io.Writer, records []report.Record, dropped int, succeeded bool) {
	if len(records) == 0 {
		fmt.Fprintln(w, "otelllm: no model call went through the proxy")
		return
	}
	var runs, calls, tools, recovered, stopped int
	var unwell []*report.Record
	for i := range records {
		r := &records[i]
		if r.Kind == report.RecordRun {
			runs++
			calls += len(r.Requests)
			tools += len(r.Tools)
		} else {
			calls++
		}
		switch {
		case text(r, semconv.RunOutcomeKey) == semconv.RunOutcomeRecovered.String():
			recovered++
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
	switch {
	case len(unwell) > 0:
		fmt.Fprintf(w, "%s; %s not end well\n", line, did(len(unwell)))
	case recovered > 0:
		fmt.Fprintf(w, "%s; ok, recovered from failures on the way\n", line)
	default:
		fmt.Fprintf(w, "%s; ok\n", line)
	}
	printUnwell(w, unwell)
	if dropped > 0 {
		fmt.Fprintf(w, "  the oldest runs are not shown: there were more than are kept in memory\n")
	}
}

// printUnwell describes runs that did not end well. Those of which the same is said are
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

// describe prints a run that did not end well.
func describe(w io.Writer, r *report.Record) {
	var verdict []string
	for _, key := range []attribute.Key{semconv.RunOutcomeKey, semconv.FailureClassKey, semconv.FailureCauseKey} {
		if value := text(r, key); value != "" {
			verdict = append(verdict, value)
		}
	}
	field(w, "verdict", strings.Join(verdict, " / "))
	field(w, "what", text(r, semconv.FailureSummaryKey))
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
	switch n {
	case 0:
		return ""
	case 1:
		return "1 " + what
	default:
		return fmt.Sprintf("%d %ss", n, what)
	}
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

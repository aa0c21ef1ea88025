package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// ciOptions are the flags for the reports to continuous integration.
type ciOptions struct {
	junit  string
	github bool
}

func (o *ciOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.junit, "junit", "", "write the runs to `FILE.xml` as a JUnit test suite, a test case a run")
	f.BoolVar(&o.github, "github", false, "in GitHub Actions: annotate the runs that did not end well, and add all to the summary of the step")
}

// open checks that the file can be written, before the command starts.
func (o *ciOptions) open() error {
	if o.junit == "" {
		return nil
	}
	if err := replaceOutput(o.junit, func(w io.Writer) error { return writeJUnit(w, nil) }); err != nil {
		return fmt.Errorf("--junit: nothing can be written: %w", err)
	}
	return nil
}

// write writes the requested reports. Annotations go to w.
func (o *ciOptions) write(w io.Writer, how *ending, records []report.Record) error {
	var errs []error
	if o.junit != "" {
		if err := replaceOutput(o.junit, func(w io.Writer) error { return writeJUnit(w, records) }); err != nil {
			errs = append(errs, fmt.Errorf("--junit: %w", err))
		}
	}
	if o.github {
		annotate(w, records)
		if err := addStepSummary(os.Getenv("GITHUB_STEP_SUMMARY"), how, records); err != nil {
			errs = append(errs, fmt.Errorf("--github: %w", err))
		}
	}
	return errors.Join(errs...)
}

// title names a run for people: its time, its agent or service, and its model.
func title(r *report.Record) string {
	parts := []string{r.Start.Local().Format(time.TimeOnly)}
	for _, part := range []string{text(r, otelsemconv.GenAIAgentNameKey), text(decisiveOf(r), otelsemconv.GenAIRequestModelKey)} {
		if part != "" {
			parts = append(parts, report.Printable(part))
		}
	}
	return strings.Join(parts, " ")
}

// problem returns the problem of a run in words; "" for none.
func problem(r *report.Record) string {
	switch warning := text(r, semconv.RunWarningKey); {
	case !well(r):
		return report.Printable(strings.TrimSpace(text(r, semconv.FailureSummaryKey) + " " + warning))
	case r.Unfollowed():
		return "The answer was a redirect, and no other came."
	default:
		return report.Printable(warning)
	}
}

// The elements of JUnit's XML that its readers agree on.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitFailure `xml:"failure"`
	}
	junitFailure struct {
		Type    string `xml:"type,attr"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes the runs as a test suite.
func writeJUnit(w io.Writer, records []report.Record) error {
	suite := junitSuite{Name: "otelllm", Tests: len(records)}
	var total float64
	for i := range records {
		r := &records[i]
		seconds := max(0, r.End.Sub(r.Start).Seconds())
		total += seconds
		one := junitCase{Class: "otelllm." + string(r.Kind), Name: title(r), Time: fmt.Sprintf("%.3f", seconds)}
		if why := problem(r); why != "" {
			suite.Failures++
			one.Failure = &junitFailure{Type: verdictOf(r), Message: why, Text: why + "\n" + strings.Join(where(r, decisiveOf(r)), " · ") + "\n"}
		}
		suite.Cases = append(suite.Cases, one)
	}
	suite.Time = fmt.Sprintf("%.3f", total)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	return encoder.Encode(&suite)
}

// maxAnnotations is how many annotations GitHub shows of a step.
const maxAnnotations = 10

// annotate prints GitHub's commands for annotations: an error for a run that did not end well, a warning for a run that has
// a warning.
func annotate(w io.Writer, records []report.Record) {
	n := 0
	for i := range records {
		r := &records[i]
		why := problem(r)
		if why == "" {
			continue
		}
		if n++; n > maxAnnotations {
			return
		}
		level := "error"
		if well(r) {
			level = "warning"
		}
		fmt.Fprintf(w, "::%s title=%s::%s\n", level, escapeProperty.Replace(strings.TrimSuffix(title(r)+": "+verdictOf(r), ": ")), escapeData.Replace(why))
	}
}

// The characters that GitHub's commands escape.
var (
	escapeData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	escapeProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// addStepSummary adds a table of the runs to the file of a step's summary; "" for none.
func addStepSummary(path string, how *ending, records []report.Record) error {
	if path == "" {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### otelllm: %s\n\n| run | verdict | what | retry |\n|---|---|---|---|\n", escapeCell(report.Printable(how.name)))
	for i := range records {
		r := &records[i]
		verdict := verdictOf(r)
		if verdict == "" {
			verdict = "ok"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", escapeCell(title(r)), escapeCell(verdict), escapeCell(problem(r)), retryWordsOf(r, len(records) > 1))
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, b.String()+"\n")
	return errors.Join(err, f.Close())
}

// escapeCell makes a foreign name a cell of a table in Markdown, without any markup.
func escapeCell(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("|\\`*_[]<>&!#~@", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

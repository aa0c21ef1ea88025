package instrumentations

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// recorded is what the producer put on the spans of the trace that reports an end.
// Spans that tell the same are counted; their order is the alphabet's, since the
// clocks of JavaScript give none.
func (c *cell) recorded() string {
	times := make(map[string]int)
	for _, s := range c.spans {
		if s.scope == applicationScope || s.Name() == semconv.SpanRunAbandoned {
			continue
		}
		line, ok := unsteady[c.producer.file+"/"+c.fault.key+"/"+s.Name()]
		if !ok {
			line = told(s)
		}
		times[line]++
	}
	var lines []string
	for _, line := range slices.Sorted(maps.Keys(times)) {
		if n := times[line]; n > 1 {
			line = fmt.Sprintf("%d × %s", n, line)
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return "nothing"
	}
	return strings.Join(lines, "; ")
}

// unsteady has the text for spans that the same producer does not always end in the same
// way.
var unsteady = map[string]string{
	"vercel-7/after-tool/invoke_agent gpt-5.5": "`invoke_agent gpt-5.5` ERROR exception=Error, or without an error and finish=[\"tool-calls\"]",
}

// applicationScope is that of the span around the agent.
const applicationScope = "examples/node"

// told returns what a span reports about its end, with the producer's values.
func told(s span) string {
	words := []string{"`" + s.Name() + "`"}
	_, classifiers := s.Attributes().Get(string(semconv.ClassificationStatusSetKey))
	if code := s.Status().Code(); code != ptrace.StatusCodeUnset && !classifiers {
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

// verdicts returns the verdicts of a cell, one per line.
func (c *cell) verdicts() string {
	var b strings.Builder
	spans, verdicts := c.judged()
	for i := range verdicts {
		v := &verdicts[i]
		fmt.Fprintf(&b, "  %s: %s %s / %s at %s, origin %s, %s, %s (%s) missing %q, judged at %s\n", spans[i].Name(), v.Outcome, v.Class, v.Cause, v.Phase,
			v.Origin, v.Confidence, v.Safety, v.Reason, v.MissingEvidence, v.Trigger)
	}
	return b.String()
}

// said is how much a verdict says.
type said uint8

const (
	nothing said = iota // nothing
	open                // that the outcome is unknown
	truly               // what really happened
)

func (s said) String() string { return [...]string{"○", "◐", "●"}[s] }

func (c *cell) said() said {
	v, ok := c.run()
	switch {
	case !ok:
		if _, verdicts := c.judged(); len(verdicts) > 0 {
			return open
		}
		return nothing
	case cautious(&v):
		return open
	default:
		return truly
	}
}

// verdict returns a short form of the run's verdict.
func (c *cell) verdict() (what, retry string) {
	v, ok := c.run()
	switch {
	case !ok:
		return "–", "–"
	case !v.Failed():
		return v.Outcome.String(), "–"
	case v.Class == semconv.ClassUnclassified:
		return "`unclassified`", "`" + v.Safety.String() + "`"
	default:
		return "`" + v.Class.String() + " / " + v.Cause.String() + "`, " + v.Confidence.String(), "`" + v.Safety.String() + "`"
	}
}

//go:embed page.md
var intro string

// folder is where the page of each producer's file is, beside the overview in docs.
const folder = "instrumentations"

// pages are the matrix as people read it, by their names in docs: an overview, and
// one for each producer's file.
func (m *matrix) pages() map[string]string {
	var overview strings.Builder
	overview.WriteString(intro)
	m.overview(&overview)
	pages := map[string]string{folder + ".md": overview.String()}
	for i := range m.producers {
		p := &m.producers[i]
		name := folder + "/" + p.file + ".md"
		if pages[name] == "" {
			pages[name] = m.heading(p)
		}
		var b strings.Builder
		m.section(&b, p)
		pages[name] += b.String()
	}
	return pages
}

// heading is how the page of a producer's file begins.
func (m *matrix) heading(p *producer) string {
	heading := "# " + strings.ReplaceAll(p.title, "`", "") + ": spans and verdicts\n\n" + generated + "\n\n" +
		"How this was measured, what the signs mean, and the other instrumentations: [What you get with which instrumentation](../instrumentations.md).\n"
	if m.unhandled[p.file] {
		heading += "\nThis instrumentation splits streams and leaves the error of one half unhandled (`unhandledRejection`). " +
			"A process that does not handle that event ends.\n"
	}
	return heading
}

// generated is the comment that each page has.
const generated = "<!-- Generated by test/e2e/instrumentations: `make node-matrix UPDATE=1`. Do not edit. -->"

// overview has a row for each fault and a column for each producer's file.
func (m *matrix) overview(b *strings.Builder) {
	var files, titles []string
	for i := range m.producers {
		if p := &m.producers[i]; !slices.Contains(files, p.file) {
			files, titles = append(files, p.file), append(titles, "["+p.title+"]("+folder+"/"+p.file+".md)")
		}
	}
	fmt.Fprintf(b, "| fault | %s |\n|---|%s\n", strings.Join(titles, " | "), strings.Repeat("---|", len(files)))
	for i := range m.faults {
		f := &m.faults[i]
		fmt.Fprintf(b, "| %s |", f.title)
		for _, file := range files {
			b.WriteByte(' ')
			for j := range m.cells {
				c := &m.cells[j]
				if c.fault.key != f.key || c.producer.file != file {
					continue
				}
				if c.producer.http {
					b.WriteByte('+')
				}
				b.WriteString(c.said().String())
			}
			b.WriteString(" |")
		}
		b.WriteByte('\n')
	}
}

// section is the table of one producer.
func (m *matrix) section(b *strings.Builder, p *producer) {
	fmt.Fprintf(b, "\n## %s\n\n", p.label())
	missing := make(map[string]bool)
	for i := range m.cells {
		if c := &m.cells[i]; c.producer == p {
			if v, _ := c.run(); v.Failed() {
				for _, fact := range v.MissingEvidence {
					missing[fact] = true
				}
			}
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(b, "`llm.failure.missing_evidence` on these runs names: `%s`.\n\n", strings.Join(slices.Sorted(maps.Keys(missing)), "`, `"))
	}
	b.WriteString("| fault | the application saw | the spans record | verdict | retry of the run |\n|---|---|---|---|---|\n")
	for i := range m.cells {
		c := &m.cells[i]
		if c.producer != p {
			continue
		}
		saw := "–"
		if len(c.saw) > 0 {
			saw = "`" + strings.Join(c.saw, " ← ") + "`"
		}
		what, retry := c.verdict()
		fmt.Fprintf(b, "| %s | %s | %s | %s %s | %s |\n", c.fault.title, saw, c.recorded(), c.said(), what, retry)
	}
}

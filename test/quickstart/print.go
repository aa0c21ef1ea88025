package main

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/acceptance"
)

// judge returns the verdicts that are not as expected.
func (d *demo) judge() (wrong []string) {
	for i := range d.cases {
		runs := d.runs(i)
		differences := d.cases[i].Diff(runs)
		if r := d.results[i]; len(runs) == 1 && r.Observed {
			differences = append(differences, d.cases[i].DiffLive(r.Live, &runs[0])...)
		}
		if len(differences) > 0 {
			wrong = append(wrong, fmt.Sprintf("  %s:\n    %s", d.cases[i].Label(), strings.Join(differences, "\n    ")))
		}
	}
	return append(wrong, d.judgeIncidents()...)
}

// print prints one line for each case, then each failure as an operator reads it.
func (d *demo) print() {
	verdicts := make([]*report.Run, len(d.cases))
	for i := range d.cases {
		if runs := d.runs(i); len(runs) > 0 {
			verdicts[i] = &runs[0]
		}
	}
	lines := gather(d.cases, verdicts)
	p := report.NewPrinter(os.Stdout)
	fmt.Println("\nOver C: OpenAI Chat Completions, R: OpenAI Responses, A: Anthropic Messages, W: OpenAI Realtime, a WebSocket")
	fmt.Println()
	p.Table(table(lines))
	fmt.Println("\nWhat an operator reads of each failure:")
	for _, l := range lines {
		if l.run == nil || l.run.Verdict.Failed() {
			fmt.Println()
			p.Detail(report.Row{Label: l.name + " (" + strings.Join(l.wires, ", ") + ")", Run: l.run})
		}
	}
}

// line is one case with its run, for every wire protocol with the same result.
type line struct {
	name  string
	wires []string
	run   *report.Run // over the first of the wire protocols; nil if there is no verdict
}

// gather joins the wire protocols of a case that have the same result.
func gather(cases []acceptance.Case, verdicts []*report.Run) []*line {
	var lines []*line
	index := map[string]*line{}
	for i, run := range verdicts {
		key := cases[i].Name()
		if run != nil {
			key += fmt.Sprint(report.Row{Run: run}.Cells(), run.Verdict.Reason, run.Verdict.Summary)
		}
		l := index[key]
		if l == nil {
			l = &line{name: cases[i].Name(), run: run}
			index[key] = l
			lines = append(lines, l)
		}
		l.wires = append(l.wires, cases[i].Wire.String())
	}
	return lines
}

// table returns a row for each line: the name, and the first letters of the wire
// protocols.
func table(lines []*line) []report.Row {
	width := 0
	for _, l := range lines {
		width = max(width, utf8.RuneCountInString(l.name))
	}
	rows := make([]report.Row, len(lines))
	for i, l := range lines {
		var wires strings.Builder
		for _, w := range l.wires {
			if w == faultyllm.Realtime.String() { // R is already in use
				w = "websocket"
			}
			wires.WriteString(strings.ToUpper(w[:1]))
		}
		pad := strings.Repeat(" ", width-utf8.RuneCountInString(l.name))
		rows[i] = report.Row{Label: l.name + pad + "  " + wires.String(), Run: l.run}
	}
	return rows
}

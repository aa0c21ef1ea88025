package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/otelllm/otelllm-go/examples/internal/acceptance"
	"github.com/otelllm/otelllm-go/examples/internal/report"
)

// print prints a line a case, then each kind of failure as an operator would read
// it, and returns what is not as expected.
func (d *demo) print() (wrong []string) {
	p := report.NewPrinter(os.Stdout)
	rows := make([]report.Row, len(d.cases))
	for i := range d.cases {
		rows[i].Label = d.cases[i].Label()
		runs := d.runs(i)
		if len(runs) > 0 {
			rows[i].Run = &runs[0]
		}
		differences := d.cases[i].Diff(runs)
		if r := d.results[i]; len(runs) == 1 && r.Observed {
			differences = append(differences, acceptance.DiffLive(r.Live, &runs[0])...)
		}
		if len(differences) > 0 {
			wrong = append(wrong, fmt.Sprintf("  %s:\n    %s", rows[i].Label, strings.Join(differences, "\n    ")))
		}
	}
	fmt.Println()
	p.Table(rows)
	fmt.Println("\nWhat an operator reads of each failure:")
	for _, g := range groups(d.cases, rows) {
		fmt.Println()
		p.Detail(rows[g[0]])
		if len(g) > 1 {
			same := make([]string, len(g)-1)
			for n, i := range g[1:] {
				same[n] = d.cases[i].How()
			}
			fmt.Printf("  the same over: %s\n", strings.Join(same, "; "))
		}
	}
	return wrong
}

// groups gathers the rows that failed: one group for what is the same to a reader,
// which is the same case with the same verdict over another wire.
func groups(cases []acceptance.Case, rows []report.Row) [][]int {
	type same struct {
		number  int
		cells   string
		summary string
	}
	var groups [][]int
	index := map[same]int{}
	for i, r := range rows {
		if r.Run != nil && !r.Run.Verdict.Failed() {
			continue
		}
		key := same{number: cases[i].Number}
		if r.Run != nil {
			key.cells, key.summary = fmt.Sprint(r.Cells()), r.Run.Verdict.Summary
		}
		if g, ok := index[key]; ok {
			groups[g] = append(groups[g], i)
			continue
		}
		index[key] = len(groups)
		groups = append(groups, []int{i})
	}
	return groups
}

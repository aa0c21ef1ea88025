package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/input"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// shown is a run, or a span without one, as it is printed.
type shown struct {
	report.Row
	lone bool
}

// printVerdicts prints one line for each run and for each model call without one, and each failure as an operator reads it.
func printVerdicts(p *report.Printer, traces []*input.Trace) {
	var all []shown
	runs, lone, failed := 0, 0, 0
	for _, t := range traces {
		var spans report.Spans
		spans.Add(t.Data)
		of := spans.Runs(t.ID)
		for i := range of {
			runs++
			all = append(all, shown{report.Row{Label: label(&of[i]), Run: &of[i]}, false})
		}
		calls := spans.Lone(t.ID)
		for i := range calls {
			lone++
			all = append(all, shown{report.Row{Label: label(&calls[i]) + "  (no run)", Run: &calls[i]}, true})
		}
	}
	if len(all) > 0 {
		rows := make([]report.Row, len(all))
		for i := range all {
			rows[i] = all[i].Row
		}
		p.Table(rows)
	}
	for i := range all {
		if s := &all[i]; s.Run.Verdict.Failed() {
			failed++
			fmt.Fprintln(p.W)
			s.detail(p)
		}
	}
	if len(all) > 0 {
		fmt.Fprintln(p.W)
	}
	fmt.Fprintln(p.W, total(runs, lone, len(traces), failed))
}

// total is the last line.
func total(runs, lone, traces, failed int) string {
	in := "in " + count(traces, "trace")
	switch {
	case runs+lone == 0:
		return fmt.Sprintf("No run %s: no span is a model call or an agent's run whose end is here. `otelllm check` prints which facts the spans lack.", in)
	case lone == 0:
		return fmt.Sprintf("%s %s, %d with a failure.", count(runs, "run"), in, failed)
	default:
		return fmt.Sprintf("%s and %s that belong to no run %s, %d with a failure.", count(runs, "run"), count(lone, "call"), in, failed)
	}
}

// label distinguishes a run from others with the same name.
func label(r *report.Run) string {
	parts := []string{r.Start.UTC().Format("2006-01-02 15:04:05"), r.Service, r.Name}
	if model := modelOf(r); model != "" && !strings.Contains(r.Name, model) {
		parts = append(parts, model)
	}
	parts = append(parts, r.TraceID.String()[:8])
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "  ")
}

// modelOf returns the model that the run asked.
func modelOf(r *report.Run) string {
	if model := r.Model(); model != "" {
		return model
	}
	if q := r.Decisive(); q != nil {
		return q.Model()
	}
	return ""
}

// detail prints a failure.
func (s *shown) detail(p *report.Printer) {
	p.Detail(s.Row)
	p.Field("service", s.Run.Service)
	p.Field("agent", s.Run.Agent())
	p.Field("model", modelOf(s.Run))
	request := s.Run.Decisive()
	if s.lone {
		request = &s.Run.Span
	}
	if request != nil {
		p.Field("request", request.RequestID())
	}
	p.Field("not known", strings.Join(s.Run.Verdict.MissingEvidence, ", "))
	p.Field("next", s.Run.NextStep())
}

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// printPlan prints the plan to go on with the session that was asked for.
func (t *sessionTable) printPlan(w io.Writer) error {
	switch len(t.planned) {
	case 0:
		return fmt.Errorf("--plan: no session was found whose id begins with %q; --since 0 reads old ones, too", t.plan)
	case 1:
		return printSessionPlan(w, t.planned[0])
	}
	if at := slices.IndexFunc(t.planned, func(s *sessionfiles.Session) bool { return s.ID == t.plan }); at >= 0 {
		return printSessionPlan(w, t.planned[at])
	}
	return fmt.Errorf("--plan: the ids of %d sessions begin with %q: write more of it", len(t.planned), t.plan)
}

// printSessionPlan prints the plan for the last turn that is not well.
func printSessionPlan(w io.Writer, s *sessionfiles.Session) error {
	last := s.Last()
	switch last.State {
	case turns.Running:
		return errors.New("--plan: the session still runs: there is nothing to resume")
	case turns.Waits:
		return errors.New("--plan: the session waits for you: there is nothing to resume")
	}
	at := len(s.Turns) - 1
	for at >= 0 && s.Turns[at].Plan == nil {
		at--
	}
	line, unwell := lineOf(s, sessionfiles.RecordOf(last))
	head := fmt.Sprintf("%s session %s", s.Agent.Title, report.Printable(s.ID))
	switch {
	case unwell && last.State != turns.Well:
		fmt.Fprintf(w, "%s %s\n", head, report.Printable(line.what))
	case at < 0:
		fmt.Fprintf(w, "%s: its last turn ended well, there is nothing to make good\n", head)
		return nil
	default:
		fmt.Fprintf(w, "%s: its last turn ended well; this is about an earlier one, which did not\n", head)
	}
	if gone := ifGone(last); gone != nil {
		fmt.Fprintln(w, "If its process is gone:")
		printTurnPlan(w, s, gone)
		return nil
	}
	if at < 0 {
		fmt.Fprintln(w, "Nothing can be said of what ran. Look before you resume it.")
		return nil
	}
	if at != len(s.Turns)-1 && last.State != turns.Well {
		fmt.Fprintln(w, "Nothing more can be said of its last turn. This is about an earlier one, which did not end well:")
	}
	printTurnPlan(w, s, &s.Turns[at])
	return nil
}

// ifGone returns a turn as if its process were gone, where that is not known; nil for another turn.
func ifGone(j *turns.Judged) *turns.Judged {
	if j.State != turns.Undetermined || j.Ending != turns.Open || j.Writer != turns.WriterUnknown {
		return nil
	}
	source := j.Source
	source.Writer = turns.WriterGone
	if gone := turns.Judge(j.Turn, source); gone.Plan != nil {
		return &gone
	}
	return nil
}

// printTurnPlan prints the plan for a turn that has one.
func printTurnPlan(w io.Writer, s *sessionfiles.Session, j *turns.Judged) {
	printPlannedCalls(w, "ran", j.Plan.Ran)
	printPlannedCalls(w, "may have run", j.Plan.MayHaveRun)
	printPlannedCalls(w, "never ran", j.Plan.NeverRan)
	if j.Plan.More {
		planField(w, "may have run", "calls that are not recorded")
	}
	if j.Unlisted {
		planField(w, "may have run", "calls of a sub-agent, which are not listed here")
	}
	if warning := sessionfiles.ResumeWarning(s, j); warning != "" {
		planField(w, "if resumed", warning)
	}
	if words := j.Plan.String(); words != "" {
		fmt.Fprintf(w, "\nTo tell the model, before anything else:\n\n")
		for _, text := range report.Wrap(words, summaryWidth) {
			fmt.Fprintf(w, "  %s\n", report.Printable(text))
		}
	}
}

// printPlannedCalls prints the calls of one list of a plan.
func printPlannedCalls(w io.Writer, what string, calls []classify.PlannedCall) {
	for _, c := range calls {
		name := c.String()
		if output := outputWords[c.Output]; output != "" {
			name += ": " + output
		}
		planField(w, what, name)
	}
}

// planField prints a value beside its name.
func planField(w io.Writer, name, value string) {
	for _, line := range report.Wrap(value, summaryWidth) {
		fmt.Fprintf(w, "  %-12s  %s\n", name, report.Printable(line))
		name = ""
	}
}

// outputWords say what became of the output of a call.
var outputWords = map[classify.CallOutput]string{
	classify.OutputDelivered: "the model has its output",
	classify.OutputKept:      "its output is in the file, and the model has not answered it",
	classify.OutputLost:      "its output is lost",
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/demo"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// demoOptions are the flags of `otelllm demo`.
type demoOptions struct {
	report  string
	verbose bool
}

func newDemoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "break three streams of an agent, and judge them",
		Long: `Demo runs a small agent against a model server on loopback that breaks its streams in three
ways, once as it is and once with otelllm. It prints what the agent's user sees before, and
the verdict now. Nothing leaves this machine.

Exit status: 0; 1 if a verdict is not the expected one; 2 for any other error.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.report, "report", "", "also write the runs to `FILE.html`, as one page that needs nothing else")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print everything that a verdict has")
	return cmd
}

// statusWrong is the exit status of a demo with another verdict than the expected one.
const statusWrong = 1

func (o *demoOptions) run(ctx context.Context, w io.Writer) error {
	broken, err := demo.Play(ctx)
	if err != nil && !errors.Is(err, demo.ErrUnexpected) {
		return err
	}
	printDemo(newPrinter(w), broken, o.verbose)
	if o.report != "" {
		var records []report.Record
		for i := range broken {
			records = append(records, broken[i].Records...)
		}
		if err := writeReport(o.report, records); err != nil {
			return err
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "otelllm: %v\n", err)
		return statusCode(statusWrong)
	}
	return nil
}

// demoWidth is the width of the text beside the labels.
const demoWidth = 96

// printDemo prints three lines for each stream, or everything.
func printDemo(p *report.Printer, broken []demo.Broken, verbose bool) {
	fmt.Fprintf(p.W, "%d streams of an agent break. What it got before, and what otelllm says now:\n", len(broken))
	for i := range broken {
		b := &broken[i]
		before := fmt.Sprintf("%s  (%s, %s)", b.Before, b.Run.Decisive().Model(), b.Doing)
		if verbose {
			fmt.Fprintln(p.W)
			p.Detail(report.Row{Label: fmt.Sprintf("%d before  %s", i+1, before), Run: &b.Run})
			continue
		}
		p.Field(fmt.Sprintf("%d before", i+1), before)
		label := "  now"
		for _, line := range report.Wrap(b.Run.Verdict.Summary, demoWidth) {
			p.Field(label, line)
			label = ""
		}
	}
}

package main

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/check"
)

// statusFound is the exit status of check if it found a problem.
const statusFound = 1

// checkOptions are the options of check.
type checkOptions struct {
	sources
	json bool
}

func newCheckCommand() *cobra.Command {
	o := &checkOptions{}
	cmd := &cobra.Command{
		Use:   "check SOURCE...",
		Short: "print which facts spans have, and which a verdict would still need",
		Long: `Check prints for the span of each model call, tool and run which facts of the vocabulary it
has, which are missing, those that a verdict needs most first, and which contradict each
other. A trace of several requests that nothing joins also lacks a run: spans under one
parent or of one conversation are a run, and a lone request needs none.

` + sourcesHelp + `

Exit status: 0 nothing is wrong, 1 a fact that a verdict needs is missing or contradicted, or
there is nothing to check, 2 some of the input was not read, or the arguments are wrong.`,
		Example: `  otelllm check traces.jsonl
  my-program --print-spans | otelllm check -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object per line: each span with what is present, missing and contradictory")
	return cmd
}

func (o *checkOptions) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	traces, bad, err := o.read(ctx, stdin, stderr)
	if err != nil {
		return err
	}
	findings, others := check.Traces(traces)
	status := 0
	switch {
	case len(findings) == 0:
		status = statusFound
		if o.json {
			stdout = stderr // nothing but JSON is on stdout
		}
		check.PrintNothing(stdout, others)
	case o.json:
		if err := encodeFindings(stdout, findings); err != nil {
			return err
		}
	default:
		check.Print(stdout, findings, others)
	}
	for i := range findings {
		if findings[i].Problem() {
			status = statusFound
		}
	}
	switch {
	case bad:
		return statusCode(statusError)
	case status != 0:
		return statusCode(status)
	}
	return nil
}

func encodeFindings(w io.Writer, findings []check.Finding) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for i := range findings {
		if err := encoder.Encode(&findings[i]); err != nil {
			return err
		}
	}
	return nil
}

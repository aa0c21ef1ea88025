package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/explain"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/input"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// explainOptions are the options of explain.
type explainOptions struct {
	sources
	run  string
	json bool
}

func newExplainCommand() *cobra.Command {
	o := &explainOptions{}
	cmd := &cobra.Command{
		Use:   "explain RUN SOURCE...",
		Short: "export one run: what failed, when what happened, and every fact that decided",
		Long: `Explain prints one run to attach to a report of a problem: the summary, a timeline of at most
200 lines, and all facts, also those that were observed not to be, such as an abort that did
not happen. It has names, counts and codes, and no content.

RUN is the id of the run, of its trace or of a part of it, or at least 4 digits that it begins
with; "last" is the last run that failed.

Sources are what "otelllm run --json" and "otelllm classify --json" wrote, the folder of
--keep, and everything that "otelllm classify" reads.

Exit status: 0 the run was found, 2 it was not, or some of the input was not read.`,
		Example: `  otelllm explain last runs.jsonl
  otelllm explain 5b8efff7 --json ~/.otelllm > report.json`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.run, o.names = args[0], args[1:]
			return o.explain(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object")
	return cmd
}

func (o *explainOptions) explain(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	records, bad, err := o.records(ctx, stdin, stderr)
	if err != nil {
		return err
	}
	found := explain.Find(records, o.run)
	switch {
	case len(found) == 0:
		return fmt.Errorf("run %s is not in the input; it has %s", o.run, count(len(records), "run"))
	case len(found) > 1:
		ids := make([]string, 0, len(found))
		for _, r := range found {
			ids = append(ids, r.SpanID)
		}
		return fmt.Errorf("%s matches %d runs, name one of them: %s", o.run, len(found), strings.Join(ids[:min(len(ids), 10)], " "))
	}
	e := explain.Of(found[0])
	if o.json {
		encoder := json.NewEncoder(stdout)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(&e)
	} else {
		e.Print(stdout)
	}
	if err == nil && bad {
		err = statusCode(statusError)
	}
	return err
}

// records reads the sources: files of records as they are, and traces with their verdicts.
func (o *explainOptions) records(ctx context.Context, stdin io.Reader, stderr io.Writer) (records []report.Record, bad bool, err error) {
	files, err := input.Files(o.names)
	if err != nil {
		return nil, false, err
	}
	var traces []string
	for _, name := range files {
		list, ok, err := recordsIn(name)
		if err != nil {
			return nil, false, err
		}
		if !ok {
			traces = append(traces, name)
		}
		records = append(records, list...)
	}
	if len(traces) == 0 {
		return records, false, nil
	}
	o.names = traces
	all, bad, err := o.read(ctx, stdin, stderr)
	if err != nil {
		if len(records) > 0 { // an empty file beside the records
			return records, true, nil
		}
		return nil, false, err
	}
	if err := judgeTraces(ctx, false, all); err != nil {
		return nil, false, err
	}
	return append(records, slices.Concat(recordsOf(all)...)...), bad, nil
}

// recordsIn returns the records of a file. It reports false for a file of another form, for standard input, and for a trace
// in a backend.
func recordsIn(name string) ([]report.Record, bool, error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) || name == "-" {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = f.Close() }()
	return explain.ReadRecords(f)
}

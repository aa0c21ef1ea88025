package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/backend"
	"github.com/otelllm/otelllm-go/cmd/otelllm/engine"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/input"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/page"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// sourcesHelp is the part of the help that classify and check share.
const sourcesHelp = `Sources are files, - for standard input, and traces in a backend:

  jaeger://host:port/TRACEID   from Jaeger 2, over HTTP; jaeger+https:// over HTTPS
  tempo://host:port/TRACEID    from Tempo, over HTTP; tempo+https:// over HTTPS

A file may have OTLP JSON (one document, one per line, or printed over many lines), OTLP
protobuf, the length-prefixed messages of the Collector's file exporter, or the JSON that
Jaeger's UI downloads; each as it is, or compressed with gzip or zstd. What it has is
recognised by the content. The spans of a trace may be anywhere in the sources.

Empty files and a last document that was not written to its end are skipped with a message.
Other bad input is reported with the file and the line, the rest is still read, and the exit
status is 2.

Memory: the sources are read as streams, and their spans are kept, at most --max-mib of them
counted as protobuf; all in all about ten times as much memory is used. One document may have
256 MiB. With --trace only the spans of that trace are kept.`

// sources are the flags and arguments of commands that read traces.
type sources struct {
	names  []string
	trace  string
	maxMiB int
}

func (s *sources) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.trace, "trace", "", "read only the trace with this `id`; others take no memory")
	cmd.Flags().IntVar(&s.maxMiB, "max-mib", input.DefaultMaxBytes>>20, "`MiB` of spans, as protobuf, that are read at most")
}

// read reads the traces. Bad reports whether a part of the input could not be read, which is then on stderr.
func (s *sources) read(ctx context.Context, stdin io.Reader, stderr io.Writer) (traces []*input.Trace, bad bool, err error) {
	o := input.Options{Stdin: stdin, MaxBytes: int64(s.maxMiB) << 20, Report: func(p *input.Problem) {
		bad = bad || !p.Skipped
		fmt.Fprintf(stderr, "otelllm: %s\n", report.Printable(fmt.Sprint(p)))
	}}
	if s.maxMiB <= 0 {
		return nil, false, errors.New("--max-mib must be greater than 0")
	}
	if s.trace != "" {
		if o.Only, err = backend.ParseTraceID(s.trace); err != nil {
			return nil, false, err
		}
	}
	all, err := input.Read(ctx, s.names, o)
	switch {
	case ctx.Err() != nil:
		return nil, false, errors.New("interrupted")
	case err != nil:
		return nil, false, err
	case len(all.List) == 0 && s.trace != "":
		return nil, false, fmt.Errorf("trace %s is not in the input", o.Only)
	case len(all.List) == 0:
		return nil, false, errors.New("there is no span in the input")
	}
	return all.List, bad, nil
}

// classifyOptions are the options of classify.
type classifyOptions struct {
	sources
	json   bool
	again  bool
	report string
	by     string
}

func newClassifyCommand() *cobra.Command {
	o := &classifyOptions{}
	cmd := &cobra.Command{
		Use:   "classify SOURCE...",
		Short: "print the verdicts on traces that exist",
		Long: `Classify prints the verdict on each run in traces that exist, and on each model call that
belongs to no run. It needs no Collector: llm_classify runs in this process, and nothing is
sent anywhere. Verdicts that a Collector wrote stay, unless --again is set.

` + sourcesHelp + `

Exit status: 0 all input was read, 2 some of it was not, or the arguments are wrong.`,
		Example: `  otelllm classify traces.jsonl
  otelllm classify --json traces/*.json.gz | jq .
  otelllm classify --by agent traces/*.json.gz
  otelllm classify jaeger://127.0.0.1:16686/5b8efff798038103d269b633813fc60c`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			if o.by != "" && o.by != byAgent {
				return fmt.Errorf("--by %s is not known: write --by %s", o.by, byAgent)
			}
			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object per line: each run with its requests and tools, and each model call without a run")
	cmd.Flags().StringVar(&o.report, "report", "", "also write the runs as one HTML page to this `file`, which needs nothing else")
	cmd.Flags().StringVar(&o.by, "by", "", "print one line for each `group` of runs in place of the runs: agent compares agents and their versions")
	cmd.Flags().BoolVar(&o.again, "again", false, "judge traces again that have verdicts from a Collector")
	return cmd
}

func (o *classifyOptions) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	traces, bad, err := o.read(ctx, stdin, stderr)
	if err != nil {
		return err
	}
	if err := judgeTraces(ctx, o.again, traces); err != nil {
		return err
	}
	if o.report != "" {
		if err := writeReport(o.report, slices.Concat(recordsOf(traces)...)); err != nil {
			return err
		}
	}
	switch {
	case o.by == byAgent:
		err = printAgents(stdout, slices.Concat(recordsOf(traces)...), o.json)
	case o.json:
		err = printRecords(stdout, traces)
	default:
		printVerdicts(newPrinter(stdout), traces)
	}
	if err == nil && bad {
		err = statusCode(statusError)
	}
	return err
}

// judgeTraces replaces the spans of the traces by the same spans with their verdicts.
func judgeTraces(ctx context.Context, again bool, traces []*input.Trace) error {
	var todo []ptrace.Traces
	spans := make(map[pcommon.TraceID]int)
	for _, t := range traces {
		if again || !judged(t) {
			todo = append(todo, t.Data)
			spans[t.ID] = t.Spans
		}
	}
	if len(todo) == 0 {
		return nil
	}
	var out input.Traces
	if err := engine.Judge(ctx, again, todo, out.Add); err != nil {
		return err
	}
	for _, t := range traces {
		if spans[t.ID] == 0 {
			continue
		}
		got := out.Trace(t.ID)
		if got == nil || got.Spans < t.Spans {
			return fmt.Errorf("trace %s: some of its %d spans were lost while they were judged: please report this", t.ID, t.Spans)
		}
		*t = *got
	}
	return nil
}

// judged reports whether a span of the trace has a verdict, other than the recording client's own.
func judged(t *input.Trace) bool {
	for span := range t.All() {
		by, ok := span.Attributes().Get(string(semconv.ClassificationTriggerKey))
		if ok && by.Str() != semconv.TriggerClient.String() {
			return true
		}
	}
	return false
}

// printRecords prints each run, and each request without one, as a line of JSON.
func printRecords(w io.Writer, traces []*input.Trace) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, records := range recordsOf(traces) {
		for i := range records {
			if err := encoder.Encode(&records[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeReport writes the page.
func writeReport(path string, records []report.Record) (err error) {
	f, err := createOutput(path)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := page.WriteReport(f, records); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// recordsOf returns the records of each trace.
func recordsOf(traces []*input.Trace) [][]report.Record {
	all := make([][]report.Record, len(traces))
	for i, t := range traces {
		var spans report.Spans
		spans.Add(t.Data)
		all[i] = spans.Records(t.ID)
	}
	return all
}

// newPrinter returns a printer to w, with color if w is a terminal that supports it.
func newPrinter(w io.Writer) *report.Printer {
	if f, ok := w.(*os.File); ok {
		return report.NewPrinter(f)
	}
	return &report.Printer{W: w}
}

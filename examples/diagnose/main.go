// Diagnose prints the verdicts on existing traces: OTLP JSON files, as the Collector's
// file exporter writes them, or one trace from Jaeger or Tempo. It runs traces without
// a verdict through the Collector first.
//
//	diagnose traces.jsonl
//	diagnose -json traces.jsonl
//	diagnose -check traces.jsonl
//	diagnose -jaeger http://127.0.0.1:16686 -trace 5b8efff798038103d269b633813fc60c
//	diagnose -tempo http://127.0.0.1:3200 -trace 5b8efff798038103d269b633813fc60c
//
// With -check it prints which facts of the vocabulary each span has, which are missing
// and which contradict each other, those that a verdict needs most first. It exits with
// status 0 if nothing is wrong, 1 if a fact that a verdict needs is missing or
// contradicted, and 2 if the input cannot be read.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// options are the options of the command line.
type options struct {
	root      string
	collector string
	jaeger    string
	tempo     string
	trace     string
	files     []string
	json      bool
	check     bool
}

// The exit status of the command.
const (
	statusOK    = 0
	statusCheck = 1 // -check found a problem
	statusError = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := command(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// command runs the whole command, without the process around it.
func command(ctx context.Context, args []string, stdin io.Reader, stdout *os.File, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return statusOK
	case err == nil:
		var status int
		if status, err = run(ctx, o, stdin, stdout, stderr); err == nil {
			return status
		}
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
	}
	fmt.Fprintf(stderr, "diagnose: %v\n", err)
	return statusError
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("diagnose", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.root, "root", "..", "`folder` of the repository, which the Collector's path is relative to")
	f.StringVar(&o.collector, "collector", "build/otelcol-llm", "Collector `binary`, as `make collector` builds it")
	f.StringVar(&o.jaeger, "jaeger", "", "read the trace named by -trace from the Jaeger at this `URL`, such as http://127.0.0.1:16686")
	f.StringVar(&o.tempo, "tempo", "", "read the trace named by -trace from the Tempo at this `URL`, such as http://127.0.0.1:3200")
	f.StringVar(&o.trace, "trace", "", "`id` of a trace; with files, print only this one")
	f.BoolVar(&o.json, "json", false, "print JSON, one line per run (with -check, per span)")
	f.BoolVar(&o.check, "check", false, "report facts that are present, missing or contradictory; needs no Collector")
	f.Usage = func() {
		fmt.Fprint(f.Output(), "usage: diagnose [flags] FILE...   OTLP JSON, `-` for standard input\n"+
			"       diagnose [flags] -jaeger URL -trace ID\n       diagnose [flags] -tempo URL -trace ID\n\n")
		f.PrintDefaults()
		fmt.Fprint(f.Output(), "\nstatus: 0 nothing is wrong, 1 with -check: a fact that a verdict needs is missing or contradicted, 2 bad input or arguments\n")
	}
	// Flags may also follow files.
	for {
		if err := f.Parse(args); err != nil {
			return nil, err
		}
		if f.NArg() == 0 {
			break
		}
		o.files, args = append(o.files, f.Arg(0)), f.Args()[1:]
	}
	sources := 0
	for _, given := range []bool{o.jaeger != "", o.tempo != "", len(o.files) > 0} {
		if given {
			sources++
		}
	}
	switch {
	case sources == 0:
		return nil, errors.New("nothing to read: name a file of OTLP JSON, or -jaeger or -tempo with -trace; -h prints the usage")
	case sources > 1:
		return nil, errors.New("files, -jaeger and -tempo exclude each other")
	case len(o.files) == 0 && o.trace == "":
		return nil, errors.New("-jaeger and -tempo read one trace: name it with -trace")
	}
	return o, nil
}

func run(ctx context.Context, o *options, stdin io.Reader, stdout *os.File, stderr io.Writer) (int, error) {
	in, err := load(ctx, o, stdin)
	if err != nil {
		return 0, err
	}
	if o.check {
		return check(in, o.json, stdout, stderr)
	}
	var todo []*trace
	spans := 0
	for _, t := range in {
		if !t.judged() {
			todo = append(todo, t)
			spans += t.spans
		}
	}
	if len(todo) > 0 {
		fmt.Fprintf(stderr, "diagnose: %d spans of %d traces go through the Collector\n", spans, len(todo))
		if err := classify(ctx, o.path(o.collector), todo); err != nil {
			return 0, err
		}
	}
	if o.json {
		return 0, printJSON(stdout, in)
	}
	printRuns(stdout, in)
	return 0, nil
}

// path returns p relative to the root.
func (o *options) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(o.root, p)
}

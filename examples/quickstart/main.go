// Quickstart is `make demo`: it starts the Collector with llm_classify and a model
// server that breaks, runs an agent through every acceptance case, and prints the
// classified traces. It fails if any verdict is not the expected one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// budget is the timeout of the whole demo; a healthy one needs some seconds.
const budget = 55 * time.Second

// options are the options of the command line. Paths are relative to root unless they
// are absolute.
type options struct {
	root          string
	collector     string
	config        string
	forwardConfig string
	out           string
	otlp          string // host:port of a backend, empty for none
}

func main() {
	var o options
	flag.StringVar(&o.root, "root", "..", "`folder` of the repository, which the other paths are relative to")
	flag.StringVar(&o.collector, "collector", "build/otelcol-llm", "Collector `binary`, as `make collector` builds it")
	flag.StringVar(&o.config, "config", "deploy/collector/config-demo.yaml", "Collector configuration `file`")
	flag.StringVar(&o.forwardConfig, "forward-config", "deploy/collector/config-forward.yaml", "configuration `file` that is added with -otlp")
	flag.StringVar(&o.out, "out", "build/demo", "`folder` for traces.jsonl and collector.log")
	flag.StringVar(&o.otlp, "otlp", "", "also forward the classified traces to `host:port` (OTLP over gRPC, plain text)")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "demo: unexpected argument %q; -h lists the flags\n", flag.Arg(0))
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, budget, errBudget)
	defer cancel()
	if err := run(ctx, o); err != nil {
		if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
			err = errors.New("interrupted; all started processes have ended")
		}
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		stop()
		cancel()
		os.Exit(1)
	}
}

var errBudget = fmt.Errorf("not done within %s", budget)

// path returns p relative to the root.
func (o *options) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(o.root, p)
}

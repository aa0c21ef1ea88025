// Quickstart is `make demo`: it starts the Collector with llm_classify and a model
// server that breaks, runs an agent through every acceptance case, and prints
// what the classified traces say. It fails if any verdict is not the expected one.
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

// budget is how long the whole demo may take; a healthy one needs some seconds.
const budget = 55 * time.Second

// options are what the command line says. Paths are under root unless they are absolute.
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
	flag.StringVar(&o.otlp, "otlp", "", "send the classified traces on to `host:port` as well (OTLP over gRPC, plain text)")
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
			err = errors.New("interrupted; everything that was started has ended")
		}
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		stop()
		cancel()
		os.Exit(1)
	}
}

var errBudget = fmt.Errorf("not done within %s", budget)

// path is p under the root.
func (o *options) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(o.root, p)
}

// Quickstart is the second part of `make demo`: it starts a model server that breaks, runs
// an agent on the real SDKs through every acceptance case, and classifies its spans in this
// process, or with a Collector. It fails if any verdict is not the expected one.
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
	collector     string // empty for llm_classify in this process
	config        string
	forwardConfig string
	out           string
	otlp          string // host:port of a backend, empty for none
	verbose       bool
}

func main() {
	var o options
	flag.StringVar(&o.root, "root", "..", "`folder` of the repository, which the other paths are relative to")
	flag.StringVar(&o.collector, "collector", "", "Collector `binary` that classifies, as `make collector` builds it, instead of this process")
	flag.StringVar(&o.config, "config", "deploy/collector/config-demo.yaml", "configuration `file` of that Collector")
	flag.StringVar(&o.forwardConfig, "forward-config", "deploy/collector/config-forward.yaml", "configuration `file` that -otlp adds to it")
	flag.StringVar(&o.out, "out", "build/demo", "`folder` for traces.jsonl, and collector.log")
	flag.StringVar(&o.otlp, "otlp", "", "also forward the classified traces to `host:port` (OTLP over gRPC, plain text)")
	flag.BoolVar(&o.verbose, "v", false, "print every case and every incident, and not only those that are not as expected")
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

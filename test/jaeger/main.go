// Jaeger is `make demo-jaeger`: it starts a real Jaeger on this machine, lets the
// quickstart send it the classified traces of every acceptance case, checks over
// Jaeger's API that all of them can be found, and prints links to them. Jaeger runs
// until the demo is interrupted.
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
)

// options are the options of the command line. Paths are relative to root unless they
// are absolute.
type options struct {
	root       string
	jaeger     string
	config     string
	quickstart string
	out        string
	listen     string // host:port of the UI and the API
	once       bool
}

func main() {
	var o options
	flag.StringVar(&o.root, "root", "..", "`folder` of the repository, which the other paths are relative to")
	flag.StringVar(&o.jaeger, "jaeger", "build/jaeger", "Jaeger 2 `binary`, as `make demo-jaeger` builds it, or a released one, which has the web pages")
	flag.StringVar(&o.config, "config", "test/jaeger/jaeger.yaml", "Jaeger configuration `file`")
	flag.StringVar(&o.quickstart, "quickstart", "build/quickstart", "the quickstart's `binary`")
	flag.StringVar(&o.out, "out", "build/demo-jaeger", "`folder` for traces.jsonl and the logs")
	flag.StringVar(&o.listen, "listen", "127.0.0.1:16686", "`host:port` of Jaeger's web pages and API; a free port if it is taken, or empty")
	flag.BoolVar(&o.once, "once", false, "exit when the links are printed, for automated use")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "demo-jaeger: unexpected argument %q; -h lists the flags\n", flag.Arg(0))
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &o, os.Stdout); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = errors.New("interrupted; all started processes have ended")
		}
		fmt.Fprintf(os.Stderr, "\ndemo-jaeger: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// path returns p relative to the root.
func (o *options) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(o.root, p)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/keep"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/page"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/proxy"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/runs"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// keepBytes bounds the files of --keep.
const keepBytes = 64 << 20

// outputOptions are the flags for further outputs of runs.
type outputOptions struct {
	report string
	keep   string
	page   string // an address; "" for none
}

// defaultPage is the address of the page, unless another program has that port.
const defaultPage = "127.0.0.1:4319"

func (o *outputOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.report, "report", "", "write the runs to `FILE.html` at the end, as one page that needs nothing else")
	f.StringVar(&o.keep, "keep", "", "keep the last runs in the folder `DIR`, as OTLP JSON of 64 MiB at most")
	f.StringVar(&o.page, "page", "", "serve a page with the runs on the loopback `ADDRESS`, such as :4320; without one on "+defaultPage+", or on a free port if that is taken")
	f.Lookup("page").NoOptDefVal = defaultPage
	f.Bool("no-page", false, "no page is served unless asked for") // was needed when one was
	_ = f.MarkHidden("no-page")                                    // it exists
}

// looksAtRuns reports whether an output shows runs that were judged earlier.
func (o *outputOptions) looksAtRuns() bool { return o.report != "" || o.page != "" }

// outputs are further outputs of runs.
type outputs struct {
	log      *slog.Logger
	report   string       // a path; "" for none
	keeper   *keep.Keeper // nil: none
	listener net.Listener // of the page, until it is served; nil: none
	page     *http.Server // nil: none
}

// open opens the files, so that an output that cannot be written is an error at the start.
func (o *outputOptions) open(ctx context.Context, log *slog.Logger) (*outputs, error) {
	out := &outputs{log: log}
	var err error
	if out.listener, err = o.openPage(); err != nil {
		return nil, err
	}
	if o.keep != "" {
		if out.keeper, err = keep.Open(o.keep, keepBytes); err != nil {
			return nil, errors.Join(fmt.Errorf("--keep: %w", err), out.abandon(ctx))
		}
	}
	if o.report != "" {
		out.report = o.report
		if err := out.writeReport(nil); err != nil {
			return nil, errors.Join(fmt.Errorf("--report: nothing can be written: %w", err), out.abandon(ctx))
		}
	}
	return out, nil
}

// sink is a session's sink.
func (o *outputs) sink(td ptrace.Traces) {
	if o.keeper == nil {
		return
	}
	if err := o.keeper.Add(td); err != nil {
		o.log.Warn("--keep: spans are not written for now")
	}
}

// openPage listens for the page, so that an unavailable address is an error at the start.
func (o *outputOptions) openPage() (net.Listener, error) {
	if o.page == "" {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(o.page)
	if err != nil {
		return nil, fmt.Errorf("--page: %q is not an address such as :4320", o.page)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
		return nil, fmt.Errorf("--page: %s is not on loopback, and the page is for this machine alone", host)
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil && o.page == defaultPage { // another otelllm has it, most likely
		ln, err = net.Listen("tcp", net.JoinHostPort(host, "0"))
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("--page: %s is in use, maybe by another otelllm: end that, or choose another address, such as :0", o.page)
	}
	if err != nil {
		return nil, fmt.Errorf("--page: %w", err)
	}
	return ln, nil
}

// servePage serves the page of a store, and returns its address; "" without a page.
func (o *outputs) servePage(store *runs.Store) string {
	if o.listener == nil {
		return ""
	}
	o.page = &http.Server{
		Handler: page.Handler(store), ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: proxy.ServerLog(o.log),
	}
	ln := o.listener
	o.listener = nil                     // the server's
	go func() { _ = o.page.Serve(ln) }() // until it is closed
	return "http://" + ln.Addr().String() + "/"
}

// close writes the report with the records, the newest first, and closes everything.
func (o *outputs) close(ctx context.Context, records []report.Record) error {
	return errors.Join(o.writeReport(records), o.abandon(ctx))
}

// writeReport writes the report with the records, the newest first.
func (o *outputs) writeReport(records []report.Record) error {
	if o.report == "" {
		return nil
	}
	return replaceOutput(o.report, func(w io.Writer) error { return page.WriteReport(w, records) })
}

// abandon closes all open outputs.
func (o *outputs) abandon(ctx context.Context) error {
	var errs []error
	if o.page != nil {
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond) // pages wait for news
		defer cancel()
		if o.page.Shutdown(ctx) != nil {
			_ = o.page.Close()
		}
	}
	if o.keeper != nil {
		errs = append(errs, o.keeper.Close())
	}
	if o.listener != nil {
		errs = append(errs, o.listener.Close())
	}
	o.page, o.keeper, o.report, o.listener = nil, nil, "", nil
	return errors.Join(errs...)
}

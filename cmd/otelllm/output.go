package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/keep"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/page"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/proxy"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/runs"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// keepBytes bounds what --keep has on the disk.
const keepBytes = 64 << 20

// outputOptions are the flags for where runs go besides.
type outputOptions struct {
	report string
	keep   string
	page   bool
	noPage bool
}

func (o *outputOptions) flags(cmd *cobra.Command, pageByDefault bool) {
	f := cmd.Flags()
	f.StringVar(&o.report, "report", "", "write the runs to `FILE.html` at the end, as one page that needs nothing else")
	f.StringVar(&o.keep, "keep", "", "keep the last runs in the folder `DIR`, as OTLP JSON of 64 MiB at most")
	f.BoolVar(&o.page, "page", pageByDefault, "serve a page with the runs on loopback")
	f.BoolVar(&o.noPage, "no-page", false, "do not serve it")
	cmd.MarkFlagsMutuallyExclusive("page", "no-page")
}

// outputs are where runs go besides.
type outputs struct {
	log    *slog.Logger
	report *os.File     // nil: none
	keeper *keep.Keeper // nil: none
	page   *http.Server // nil: none
}

// open opens the files, so that what cannot be written is an error at the start.
func (o *outputOptions) open(ctx context.Context, log *slog.Logger) (*outputs, error) {
	out := &outputs{log: log}
	var err error
	if o.keep != "" {
		if out.keeper, err = keep.Open(o.keep, keepBytes); err != nil {
			return nil, err
		}
	}
	if o.report != "" {
		if out.report, err = createOutput(o.report); err != nil {
			return nil, errors.Join(fmt.Errorf("--report: %w", err), out.abandon(ctx))
		}
	}
	return out, nil
}

// createOutput creates a file for runs, which name models and tools of this user: no other user
// may read it.
func createOutput(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
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

// servePage serves the page of a store, and returns its address; "" if there is to be none.
func (o *outputs) servePage(options *outputOptions, store *runs.Store) (string, error) {
	if !options.page || options.noPage {
		return "", nil
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("--page: %w", err)
	}
	o.page = &http.Server{
		Handler: page.Handler(store), ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: proxy.ServerLog(o.log),
	}
	go func() { _ = o.page.Serve(ln) }() // until it is closed
	return "http://" + ln.Addr().String() + "/", nil
}

// close writes the report with the records, the newest first, and closes everything.
func (o *outputs) close(ctx context.Context, records []report.Record) error {
	var err error
	if o.report != nil {
		err = page.WriteReport(o.report, records)
	}
	return errors.Join(err, o.abandon(ctx))
}

// abandon closes what is open.
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
	if o.report != nil {
		errs = append(errs, o.report.Close())
	}
	o.page, o.keeper, o.report = nil, nil, nil
	return errors.Join(errs...)
}

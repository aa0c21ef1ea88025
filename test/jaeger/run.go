package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/backend"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/test/internal/process"
)

const (
	startPatience  = 60 * time.Second // for Jaeger to get ready; a healthy one needs one second
	ingestPatience = 15 * time.Second // for the last trace to be found after the demo is done
	stopPatience   = 10 * time.Second
)

func run(ctx context.Context, o *options, out io.Writer) (err error) {
	for _, need := range []struct{ path, remedy string }{
		{o.jaeger, "build it with `make demo-jaeger`, or name a released Jaeger 2 with -jaeger"},
		{o.config, "-config names it, -root the folder that it is relative to"},
		{o.quickstart, "build it with `make demo`"},
	} {
		if err := process.Need(o.path(need.path), need.remedy); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(o.path(o.out), 0o755); err != nil {
		return fmt.Errorf("create the output folder: %w", err)
	}
	say("starting Jaeger")
	j, err := startJaeger(ctx, o)
	if err != nil {
		return err
	}
	stopped := false
	defer func() {
		if !stopped {
			err = errors.Join(err, j.process.Stop(stopPatience))
		}
	}()

	// An unexpected verdict is not a reason to hide the traces.
	demoErr := demo(ctx, o, j.otlp, out)
	if ctx.Err() != nil {
		return demoErr
	}
	runs, err := readRuns(filepath.Join(o.path(o.out), "traces.jsonl"))
	if err != nil {
		return errors.Join(demoErr, err)
	}
	say("looking for the traces in Jaeger")
	if err := j.arrived(ctx, runs); err != nil {
		return errors.Join(demoErr, err)
	}
	if err := j.links(ctx, runs, out); err != nil {
		return errors.Join(demoErr, err)
	}
	stopped = true
	if o.once {
		return errors.Join(demoErr, j.process.Stop(stopPatience))
	}
	if demoErr != nil {
		say("%v", demoErr)
	}
	fmt.Fprintln(out, "\nJaeger keeps running, with the traces in memory, until you press Ctrl-C.")
	select {
	case <-ctx.Done():
		fmt.Fprintln(out, "\nInterrupted: Jaeger stops, and the traces are gone.")
	case <-j.process.Exited(): // Stop returns its error
	}
	return errors.Join(demoErr, j.process.Stop(stopPatience))
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "demo-jaeger: "+format+"\n", args...)
}

// demo runs the quickstart, which forwards its classified traces to Jaeger.
func demo(ctx context.Context, o *options, otlp string, out io.Writer) error {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, o.path(o.quickstart), "-root", root, "-out", o.out, "-otlp", otlp)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, io.MultiWriter(os.Stderr, &said)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 2 * stopPatience
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// Its last words again: the links come after them.
		reason := bytes.TrimSpace(said.Bytes())
		return fmt.Errorf("the demo failed: %w: %s", err, reason[max(0, bytes.LastIndex(reason, []byte("\ndemo: "))):])
	}
	return nil
}

// readRuns reads the judged runs that the demo has written.
func readRuns(path string) ([]report.Run, error) {
	var spans report.Spans
	if _, err := report.NewTail(path).Read(&spans); err != nil {
		return nil, err
	}
	runs := spans.All()
	if len(runs) == 0 {
		return nil, fmt.Errorf("%s has no classified run", path)
	}
	return runs, nil
}

// jaeger is the running Jaeger.
type jaeger struct {
	process *process.Process
	otlp    string // host:port for OTLP over gRPC
	api     *backend.Jaeger
}

func startJaeger(ctx context.Context, o *options) (*jaeger, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("not within %s", startPatience))
	defer cancel()
	j := &jaeger{}
	var http string
	var err error
	j.process, err = process.StartOnFreePorts(ctx, 4, func(free []string) process.Spec {
		j.otlp, http = free[0], free[1]
		if o.listen != "" && isFree(o.listen) {
			http = o.listen
		}
		return process.Spec{
			Name: "Jaeger", Path: o.path(o.jaeger), Args: []string{"--config", "file:" + o.path(o.config)},
			Env:    []string{"JAEGER_OTLP=" + j.otlp, "JAEGER_HTTP=" + http, "JAEGER_GRPC=" + free[2], "JAEGER_HEALTH=" + free[3]},
			Log:    filepath.Join(o.path(o.out), "jaeger.log"),
			Health: "http://" + free[3] + "/status",
		}
	})
	if err != nil {
		return nil, err
	}
	if o.listen != "" && http != o.listen {
		say("%s is taken, so Jaeger listens on %s", o.listen, http)
	}
	if j.api, err = backend.NewJaeger("http://" + http); err != nil {
		return nil, errors.Join(err, j.process.Stop(stopPatience))
	}
	return j, nil
}

// isFree reports whether no program listens on the address now.
func isFree(address string) bool {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	return ln.Close() == nil
}

// arrived waits until Jaeger has every run.
func (j *jaeger) arrived(ctx context.Context, runs []report.Run) error {
	ctx, cancel := context.WithTimeoutCause(ctx, ingestPatience, errMissing)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for i := range runs {
		for {
			found, err := j.has(ctx, &runs[i])
			if found {
				break
			}
			if err != nil && ctx.Err() == nil {
				return err
			}
			select {
			case <-tick.C:
			case <-j.process.Exited():
				return nil // Stop returns its error
			case <-ctx.Done():
				return fmt.Errorf("run %d of %d, %s in trace %s: %w", i+1, len(runs), runs[i].Name, runs[i].TraceID, context.Cause(ctx))
			}
		}
	}
	return nil
}

var errMissing = fmt.Errorf("not found within %s", ingestPatience)

// has reports whether Jaeger has the span with the run's verdict.
func (j *jaeger) has(ctx context.Context, run *report.Run) (bool, error) {
	td, err := j.api.Trace(ctx, run.TraceID)
	if errors.Is(err, backend.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var spans report.Spans
	spans.Add(td)
	for _, got := range spans.Runs(run.TraceID) {
		if got.ID == run.ID {
			return true, nil
		}
	}
	return false, nil
}

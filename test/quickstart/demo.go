package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	incidents "github.com/otelllm/otelllm-go/test/incidents/all"
	"github.com/otelllm/otelllm-go/test/incidents/incident"
	"github.com/otelllm/otelllm-go/test/internal/acceptance"
)

// patience is the timeout for a verdict after the agents are done.
const patience = 15 * time.Second

func run(ctx context.Context, o options) (err error) {
	started := time.Now()
	if err := os.MkdirAll(o.path(o.out), 0o755); err != nil {
		return fmt.Errorf("create the output folder: %w", err)
	}
	tracesName := filepath.Join(o.out, "traces.jsonl")
	logName := filepath.Join(o.out, "collector.log")
	tracesPath := o.path(tracesName)
	if err := os.Remove(tracesPath); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the traces of an earlier demo: %w", err)
	}

	col, err := o.start(ctx, tracesPath, o.path(logName))
	if err != nil {
		return err
	}
	stopped := false
	defer func() {
		if !stopped {
			err = errors.Join(err, col.Stop(stopPatience))
		}
	}()

	cases := acceptance.WithKilled()
	say("running agents on the real SDKs through %d cases", len(cases))
	d := &demo{cases: cases, tail: report.NewTail(tracesPath)}
	if err := d.agents(ctx, col); err != nil {
		return err
	}
	say("waiting for the last verdicts")
	if err := d.verdicts(ctx, col); err != nil {
		return err
	}
	stopped = true
	if err := col.Stop(stopPatience); err != nil {
		return err
	}
	if _, err := d.tail.Read(&d.spans); err != nil { // written during shutdown
		return err
	}

	wrong := d.judge()
	if o.verbose {
		d.print()
		d.printIncidents()
		fmt.Println()
	}
	fmt.Printf("%d cases and %d incidents in %s. The classified traces: %s\n", len(cases), len(incidents.Stories()), time.Since(started).Round(100*time.Millisecond), tracesName)
	if len(wrong) > 0 {
		err = fmt.Errorf("not as expected, %d:\n%s", len(wrong), strings.Join(wrong, "\n"))
	} else {
		fmt.Println("Every verdict is the expected one.")
	}
	if lost := col.forwarded(); lost != nil {
		return errors.Join(err, lost)
	}
	if o.otlp != "" {
		fmt.Printf("Also forwarded to %s, as services %s and %s.\n", o.otlp, serviceName, gatewayName)
	}
	return err
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "demo: "+format+"\n", args...) }

// The services of the spans: the agents, and the gateway between some of them and the
// model server.
const (
	serviceName = "otelllm-demo"
	gatewayName = "otelllm-demo-gateway"
)

// tracing returns a provider that sends the spans of a service to the classifier.
func tracing(ctx context.Context, col classifier, service string) (*sdktrace.TracerProvider, error) {
	exporter, err := col.exporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("create the exporter: %w", err)
	}
	return sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithBatchTimeout(100*time.Millisecond), sdktrace.WithMaxQueueSize(1<<14)),
		sdktrace.WithResource(resource.NewSchemaless(semconv.ServiceName(service))),
	), nil
}

// flush sends the last spans.
func flush(ctx context.Context, col classifier, provider *sdktrace.TracerProvider) error {
	if err := provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the spans to the classifier: %w%s", err, col.Tail())
	}
	return nil
}

// demo is one pass through the cases.
type demo struct {
	cases      []acceptance.Case
	results    []acceptance.Result // by index of the case
	tail       *report.Tail
	spans      report.Spans
	playedActs []playedAct // the incidents
}

// agents runs the cases concurrently, as many as the machine can run, and reads the
// classified traces that arrive meanwhile.
func (d *demo) agents(ctx context.Context, col classifier) (err error) {
	provider, err := tracing(ctx, col, serviceName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, flush(ctx, col, provider)) }()
	gateway, err := tracing(ctx, col, gatewayName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, flush(ctx, col, gateway)) }()
	world, err := acceptance.NewWorld(gateway)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Close()) }()

	d.results = make([]acceptance.Result, len(d.cases))
	errs := make([]error, len(d.cases))
	slots := make(chan struct{}, 4*runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	var ended atomic.Int32
	for i := len(d.cases) - 1; i >= 0; i-- { // the longest one is last
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots; ended.Add(1) }()
			if ctx.Err() == nil {
				d.results[i], errs[i] = world.Run(ctx, &d.cases[i], provider)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	progress := time.NewTicker(2 * time.Second)
	defer progress.Stop()
	for {
		select {
		case <-progress.C:
			say("%d of %d have ended; the longest is a run of some seconds", ended.Load(), len(d.cases))
		case <-done:
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := errors.Join(errs...); err != nil {
				return err
			}
			if err := d.incidents(ctx, provider, gateway); ctx.Err() == nil {
				return err
			}
			return context.Cause(ctx)
		case <-tick.C:
			if _, err := d.tail.Read(&d.spans); err != nil {
				<-done
				return err
			}
		}
	}
}

// verdicts reads until every case has its verdict, or until no more can arrive.
func (d *demo) verdicts(ctx context.Context, col classifier) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := d.tail.Read(&d.spans); err != nil {
			return err
		}
		if d.complete() {
			return nil
		}
		select {
		case <-tick.C:
		case <-col.Exited():
			return nil // stop returns the reason
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				return nil // print reports what is missing as a difference
			}
			return context.Cause(ctx)
		}
	}
}

func (d *demo) complete() bool {
	for i := range d.cases {
		if !d.cases[i].Complete(d.runs(i)) {
			return false
		}
	}
	for i := range d.playedActs {
		if incident.First(&d.spans, &d.playedActs[i].after) == nil {
			return false
		}
	}
	return true
}

func (d *demo) runs(i int) []report.Run { return d.spans.Runs(pcommon.TraceID(d.results[i].TraceID)) }

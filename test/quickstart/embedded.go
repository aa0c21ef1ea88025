package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/otelllm/otelllm-go/cmd/otelllm/engine"
)

// waits are the times of config-demo.yaml, far below the defaults: the run that outlives
// MaxHold (acceptance case 24) and the one of a killed process (case 22) take seconds.
var waits = engine.Config{MaxHold: 2 * time.Second, Settle: 500 * time.Millisecond, RunTimeout: 3 * time.Second}

// embedded is llm_classify in this process, as otelllm has it.
type embedded struct {
	engine  *engine.Engine
	backend otlptrace.Client // nil without one
	otlp    string

	mu      sync.Mutex
	file    *os.File                   // guarded by mu
	failure error                      // of the file; guarded by mu
	kept    [][]*tracepb.ResourceSpans // for the backend; guarded by mu
	lost    error                      // of the backend; guarded by mu
}

func startEmbedded(ctx context.Context, otlp, tracesPath string) (*embedded, error) {
	file, err := os.Create(tracesPath)
	if err != nil {
		return nil, fmt.Errorf("create the file of the classified traces: %w", err)
	}
	e := &embedded{file: file, otlp: otlp}
	if otlp != "" {
		e.backend = otlptracegrpc.NewClient(
			otlptracegrpc.WithEndpoint(otlp), otlptracegrpc.WithInsecure(),
			// A demo is short, so a wrong address is an error soon.
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
				Enabled: true, InitialInterval: 500 * time.Millisecond, MaxInterval: time.Second, MaxElapsedTime: 5 * time.Second,
			}),
		)
		if err := e.backend.Start(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("-otlp %s: %w", otlp, err), file.Close())
		}
	}
	if e.engine, err = engine.Start(ctx, waits, e.take); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return e, nil
}

// take takes classified spans.
func (e *embedded) take(_ context.Context, td ptrace.Traces) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
	if err == nil {
		_, err = e.file.Write(append(line, '\n'))
	}
	if err == nil && e.backend != nil {
		err = e.keep(td)
	}
	e.failure = errors.Join(e.failure, err)
	return nil
}

// keep keeps spans for the backend, by way of the encoding that both sides have in common.
// The caller holds mu.
func (e *embedded) keep(td ptrace.Traces) error {
	encoded, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	if err != nil {
		return err
	}
	var data tracepb.TracesData
	if err := proto.Unmarshal(encoded, &data); err != nil {
		return err
	}
	e.kept = append(e.kept, data.ResourceSpans)
	return nil
}

func (e *embedded) exporter(context.Context) (sdktrace.SpanExporter, error) {
	return e.engine.NewExporter(), nil
}

// Exited returns nil: it ends with this process.
func (*embedded) Exited() <-chan struct{} { return nil }

// Tail returns "": it has no log.
func (*embedded) Tail() string { return "" }

// Stop judges what is left, and forwards everything: a backend that is slow or dead must not
// hold up the verdicts.
func (e *embedded) Stop(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := e.engine.Shutdown(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := errors.Join(err, e.failure, e.file.Close()); err != nil {
		return fmt.Errorf("judge the last spans: %w", err)
	}
	if e.backend == nil {
		return nil
	}
	for _, spans := range e.kept {
		if e.lost = e.backend.UploadTraces(ctx, spans); e.lost != nil {
			break
		}
	}
	return e.backend.Stop(ctx)
}

func (e *embedded) forwarded() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lost != nil {
		return notForwarded(e.otlp, e.lost.Error())
	}
	return nil
}

func notForwarded(otlp, detail string) error {
	return fmt.Errorf("the traces could not be forwarded to %s; does a backend accept OTLP over gRPC there?\n  %.400s", otlp, detail)
}

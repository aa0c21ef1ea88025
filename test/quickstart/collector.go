package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/test/internal/process"
)

// stopPatience is the timeout for the Collector to flush and exit.
const stopPatience = 10 * time.Second

// collector is the running Collector.
type collector struct {
	*process.Process

	endpoint string // host:port for OTLP over HTTP
	otlp     string // host:port of the backend, or ""
}

// startCollector starts the Collector on free loopback ports and waits until its
// pipelines run.
func startCollector(ctx context.Context, o *options, tracesPath, logPath string) (*collector, error) {
	for _, need := range []struct{ path, remedy string }{
		{o.collector, "build it with `make collector`"},
		{o.config, "-config names it, -root the folder that it is relative to"},
		{o.forwardConfig, "-forward-config names it, -root the folder that it is relative to"},
	} {
		if _, err := os.Stat(o.path(need.path)); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no %s: %s", need.path, need.remedy)
		} else if err != nil {
			return nil, err
		}
	}
	c := &collector{otlp: o.otlp}
	var err error
	c.Process, err = process.StartOnFreePorts(ctx, 3, func(free []string) process.Spec {
		c.endpoint = free[0]
		spec := process.Spec{
			Name: "the Collector", Path: o.path(o.collector), Args: []string{"--config", "file:" + o.path(o.config)},
			Env: []string{
				"OTLP_HTTP_ENDPOINT=" + free[0], "OTLP_GRPC_ENDPOINT=" + free[1], "HEALTH_ENDPOINT=" + free[2],
				"OUT_FILE=" + tracesPath,
			},
			Log: logPath, Health: "http://" + free[2], Wait: process.NewCollector,
		}
		if o.otlp != "" {
			spec.Args = append(spec.Args, "--config", "file:"+o.path(o.forwardConfig))
			spec.Env = append(spec.Env, "FORWARD_ENDPOINT="+o.otlp)
		}
		return spec
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *collector) exporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	return otlptracehttp.New(ctx, otlptracehttp.WithEndpoint(c.endpoint), otlptracehttp.WithInsecure())
}

func (c *collector) forwarded() error {
	if c.otlp == "" {
		return nil
	}
	for line := range strings.Lines(process.LogTail(c.Log(), 1000)) {
		if strings.Contains(line, "Exporting failed") {
			return notForwarded(c.otlp, line)
		}
	}
	return nil
}

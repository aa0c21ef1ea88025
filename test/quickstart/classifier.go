package main

import (
	"context"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// classifier judges the spans of the agents, and writes them to the file of the classified
// traces: in this process, or as a Collector.
type classifier interface {
	// exporter returns an exporter for the spans of one service.
	exporter(ctx context.Context) (sdktrace.SpanExporter, error)
	// Exited returns a channel that is closed when it has ended before Stop.
	Exited() <-chan struct{}
	// Tail returns the last lines of its log, or "".
	Tail() string
	// Stop judges what is left.
	Stop(patience time.Duration) error
	// forwarded returns an error if the backend of -otlp did not get all traces. It is
	// called after Stop.
	forwarded() error
}

// start starts the classifier that the options name.
func (o *options) start(ctx context.Context, tracesPath, logPath string) (classifier, error) {
	if o.collector == "" {
		return startEmbedded(ctx, o.otlp, tracesPath)
	}
	say("starting the Collector")
	return startCollector(ctx, o, tracesPath, logPath)
}

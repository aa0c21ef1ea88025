// Package session records model calls, and judges them in this process: from the spans of
// the client library to the runs that are kept, and to an OTLP endpoint if the environment
// names one.
package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/cmd/otelllm/engine"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/runs"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/otelllm"
)

// Config configures a Session. The zero value is usable.
type Config struct {
	// ServiceName is the service.name of the spans; "otelllm" if empty.
	ServiceName string
	// MaxSpans is how many spans the Store keeps; 0 for DefaultMaxSpans.
	MaxSpans int
	// KeepNothing leaves the Store empty, where nothing reads it.
	KeepNothing bool
	// Forgotten gets the records that the Store has no room for any more; may be nil.
	Forgotten func([]report.Record)
	// RetryWait and OutputWait are those of [otelllm.InferredRuns].
	RetryWait, OutputWait time.Duration
	// OneAgent is that of [otelllm.InferredRuns].
	OneAgent bool
	// Endpoint is where judged spans go besides; nil for nowhere.
	Endpoint *Endpoint
	// Sinks get all judged spans, and must not keep them.
	Sinks []func(ptrace.Traces)
	// Logger gets what goes wrong, without content; nil for none.
	Logger *slog.Logger
}

// DefaultMaxSpans is how many spans a Session keeps.
const DefaultMaxSpans = 20_000

// settle is how long a complete run waits for more. All of its spans end in this process, within
// moments of each other, so it is shorter than where spans come over a network.
const settle = 100 * time.Millisecond

// Session is the way of the spans. It is safe for concurrent use.
type Session struct {
	// Instrumentation records the model calls.
	Instrumentation *otelllm.Instrumentation
	// Store has the runs that were judged.
	Store *runs.Store

	handover *handover
	engine   *engine.Engine
	export   *exporter // nil without an endpoint
	log      *slog.Logger
}

// Start starts a Session. Close ends it.
func Start(ctx context.Context, config Config) (*Session, error) {
	if config.ServiceName == "" {
		config.ServiceName = "otelllm"
	}
	if config.MaxSpans <= 0 {
		config.MaxSpans = DefaultMaxSpans
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Session{Store: runs.NewStore(config.MaxSpans, config.Forgotten), log: config.Logger}
	sinks := slices.Clone(config.Sinks)
	if !config.KeepNothing {
		sinks = append(sinks, s.Store.Add)
	}
	if config.Endpoint != nil {
		var err error
		if s.export, err = startExporter(ctx, config.Endpoint, config.Logger); err != nil {
			return nil, err
		}
		sinks = append(sinks, s.export.add)
	}
	judged := func(_ context.Context, td ptrace.Traces) error {
		for _, sink := range sinks {
			sink(td)
		}
		return nil
	}
	var err error
	logger := zap.New(core{config.Logger})
	if s.engine, err = engine.Start(ctx, engine.Config{Logger: logger, Settle: settle, OwnSpans: true}, judged); err != nil {
		return nil, errors.Join(err, s.export.close(ctx))
	}
	s.handover = startHandover(ctx, config.ServiceName, s.engine, config.Logger)
	s.Instrumentation = otelllm.New(
		otelllm.WithTracerProvider(&spans{ended: s.handover.add}),
		otelllm.WithInferredRuns(otelllm.InferredRuns{RetryWait: config.RetryWait, OutputWait: config.OutputWait, OneAgent: config.OneAgent}),
	)
	return s, nil
}

// Close ends what is open, judges it, and exports it. Stop what makes model calls first.
// It waits for the endpoint no longer than the Endpoint's patience. The Store can be read
// afterwards.
func (s *Session) Close(ctx context.Context) error {
	return errors.Join(
		wrap("end what is open", s.Instrumentation.Shutdown(ctx)),
		wrap("hand over the spans", s.handover.close(ctx)),
		wrap("judge the spans", s.engine.Shutdown(ctx)),
		s.export.close(ctx),
	)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Package engine judges spans in this process, with the Collector's processor llm_classify.
package engine

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	nooptrace "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify"
)

// Config says how spans are judged. The zero value judges as the processor's defaults do.
type Config struct {
	// MaxHold is how long a span waits for the rest of its run at most; 0 for the processor's
	// default.
	MaxHold time.Duration
	// Settle is how long the spans of a complete run wait for more, and RunTimeout how long
	// a run may have no end; 0 for the processor's defaults.
	Settle, RunTimeout time.Duration
	// MaxHeldBytes and MaxSpansPerRun bound what is held; 0 for the processor's defaults.
	MaxHeldBytes, MaxSpansPerRun int
	// Again removes the verdicts that spans come with, so that all are judged anew.
	// Otherwise the verdicts of a Collector stay.
	Again bool
	// OwnSpans declares that all spans are of this project's library, and few at a time: no other
	// instrumentation is looked for, and one goroutine judges them.
	OwnSpans bool
	// Logger gets the processor's log; nil for none.
	Logger *zap.Logger
}

// ownDialect is the processor's name for the spans of this project's library.
const ownDialect = "otelllm"

// Engine is a running llm_classify. It is safe for concurrent use.
type Engine struct{ processor processor.Traces }

// Start starts an Engine that passes every span on to next: the spans of model calls, tools
// and runs with their verdicts, all others at once. Next may be called from several
// goroutines.
func Start(ctx context.Context, config Config, next func(context.Context, ptrace.Traces) error) (*Engine, error) {
	factory := llmclassify.NewFactory()
	cfg := factory.CreateDefaultConfig().(*llmclassify.Config)
	cfg.Embedded = true
	if config.MaxHold > 0 {
		cfg.MaxHold = config.MaxHold
	}
	if config.Settle > 0 {
		cfg.Settle = config.Settle
	}
	if config.RunTimeout > 0 {
		cfg.RunTimeout = config.RunTimeout
	}
	cfg.RunTimeout = max(cfg.RunTimeout, cfg.MaxHold) // it may not be shorter
	if config.MaxHeldBytes > 0 {
		cfg.MaxHeldBytes = config.MaxHeldBytes
	}
	if config.MaxSpansPerRun > 0 {
		cfg.MaxSpansPerRun = config.MaxSpansPerRun
	}
	if config.Again {
		cfg.IncomingVerdicts = "strip"
	}
	if config.OwnSpans {
		cfg.Dialects, cfg.Shards, cfg.OneSource = []string{ownDialect}, 1, true
	}
	logger := config.Logger
	if logger == nil {
		logger = zap.NewNop()
	}
	sink, err := consumer.NewTraces(next)
	if err != nil {
		return nil, err
	}
	set := processor.Settings{
		ID: component.NewID(factory.Type()),
		TelemetrySettings: component.TelemetrySettings{
			Logger: logger, TracerProvider: nooptrace.NewTracerProvider(), MeterProvider: noopmetric.NewMeterProvider(),
			Resource: pcommon.NewResource(),
		},
	}
	p, err := factory.CreateTraces(ctx, set, cfg, sink)
	if err != nil {
		return nil, fmt.Errorf("create the classifier: %w", err)
	}
	if err := p.Start(ctx, noHost{}); err != nil {
		return nil, fmt.Errorf("start the classifier: %w", err)
	}
	return &Engine{p}, nil
}

// ConsumeTraces takes the spans of td over. It returns an error if they were refused, for
// want of memory or after Shutdown.
func (e *Engine) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	return e.processor.ConsumeTraces(ctx, td)
}

// Shutdown judges what is still held, as spans of runs that have not ended, and returns when
// all of it has been passed on.
func (e *Engine) Shutdown(ctx context.Context) error { return e.processor.Shutdown(ctx) }

// noHost is a Collector without extensions.
type noHost struct{}

func (noHost) GetExtensions() map[component.ID]component.Component { return nil }

var _ component.Host = noHost{}

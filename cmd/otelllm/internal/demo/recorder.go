package demo

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/engine"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/otelllm"
)

// recorder records an agent as its author would do it. A nil recorder records nothing.
type recorder struct {
	inst     *otelllm.Instrumentation
	provider *sdktrace.TracerProvider
	engine   *engine.Engine

	mu     sync.Mutex
	judged report.Spans // guarded by mu
}

func newRecorder(ctx context.Context) (*recorder, error) {
	r := &recorder{}
	var err error
	if r.engine, err = engine.Start(ctx, engine.Config{}, r.take); err != nil {
		return nil, err
	}
	// All spans go to the engine together, at the end: those of the gateway as well.
	r.provider = newProvider("otelllm-demo",
		sdktrace.NewBatchSpanProcessor(r.engine.NewExporter(), sdktrace.WithBatchTimeout(time.Hour)))
	r.inst = otelllm.New(otelllm.WithTracerProvider(r.provider))
	return r, nil
}

func (r *recorder) take(_ context.Context, td ptrace.Traces) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judged.Add(td)
	return nil
}

// close judges what was recorded, and returns it.
func (r *recorder) close(ctx context.Context) (*report.Spans, error) {
	r.inst.EndInferredRuns() // the gateway's handler infers runs
	return &r.judged, errors.Join(r.inst.Shutdown(ctx), r.provider.Shutdown(ctx), r.engine.Shutdown(ctx))
}

func (r *recorder) transport(base http.RoundTripper) http.RoundTripper {
	if r == nil {
		return base
	}
	return r.inst.NewTransport(base, otelllm.WithPropagators(propagation.TraceContext{}))
}

func (r *recorder) handler(h http.Handler) http.Handler {
	if r == nil {
		return h
	}
	return r.inst.NewHandler(h, otelllm.WithPropagators(propagation.TraceContext{}))
}

func (r *recorder) startRun(ctx context.Context) (context.Context, *otelllm.Run) {
	if r == nil {
		return ctx, nil
	}
	return r.inst.StartRun(ctx, agentName, otelllm.WithToolsRecorded())
}

func (r *recorder) startTool(ctx context.Context, call otelllm.ToolCall) (context.Context, *otelllm.Tool) {
	if r == nil {
		return ctx, nil
	}
	return r.inst.StartTool(ctx, call)
}

// newProvider returns a provider that hands every span to p, whole. What the environment
// says of sampling and of limits is for the programs that it is set for.
func newProvider(service string, p sdktrace.SpanProcessor) *sdktrace.TracerProvider {
	return sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeValueLengthLimit: -1, AttributeCountLimit: -1, EventCountLimit: -1, LinkCountLimit: -1,
			AttributePerEventCountLimit: -1, AttributePerLinkCountLimit: -1,
		}),
		sdktrace.WithResource(resource.NewWithAttributes(otelsemconv.SchemaURL, otelsemconv.ServiceName(service))),
		sdktrace.WithSpanProcessor(p),
	)
}

// Package telemetry calls the application's OpenTelemetry SDK. It chooses the tracer of a
// new span, and keeps a panic in a sampler, a span processor or a meter away from the
// model call that is observed.
package telemetry

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// ScopeName is the name of the instrumentation scope.
const ScopeName = "github.com/otelllm/otelllm-go/otelllm"

// Provider returns the provider of a new span: the given one, else that which made the
// context's span, else the global one. A remote span, or one that only carries a span
// context, has no such provider: its own is a no-op.
func Provider(ctx context.Context, given trace.TracerProvider) trace.TracerProvider {
	if given != nil {
		return given
	}
	span := trace.SpanFromContext(ctx)
	if sc := span.SpanContext(); sc.IsValid() && !sc.IsRemote() {
		if made := span.TracerProvider(); made != nil && !carriedOnly(made) {
			return made
		}
	}
	return otel.GetTracerProvider()
}

// Tracer returns the tracer of a new span, of its [Provider].
func Tracer(ctx context.Context, given trace.TracerProvider) trace.Tracer {
	return tracerFrom(Provider(ctx, given))
}

// LatestConventions reports whether OTEL_SEMCONV_STABILITY_OPT_IN, a list with commas, asks
// for the latest GenAI conventions: those of 0.1.0, where their names differ from 1.41.0.
func LatestConventions() bool {
	for word := range strings.SplitSeq(os.Getenv("OTEL_SEMCONV_STABILITY_OPT_IN"), ",") {
		if strings.TrimSpace(word) == "gen_ai_latest_experimental" {
			return true
		}
	}
	return false
}

// tracerOptions are made once: every span looks its tracer up.
var tracerOptions = sync.OnceValue(func() []trace.TracerOption {
	return []trace.TracerOption{trace.WithInstrumentationVersion(Version()), trace.WithSchemaURL(otelsemconv.SchemaURL)}
})

// tracerFrom returns the tracer of this module.
func tracerFrom(p trace.TracerProvider) trace.Tracer {
	return p.Tracer(ScopeName, tracerOptions()...)
}

// Meter returns the meter of this module.
func Meter(p metric.MeterProvider) metric.Meter {
	return p.Meter(ScopeName, metric.WithInstrumentationVersion(Version()), metric.WithSchemaURL(otelsemconv.SchemaURL))
}

// carriedOnly reports whether p is the provider of spans that only carry a span context.
func carriedOnly(p trace.TracerProvider) bool {
	return reflect.TypeOf(p) == carrierType
}

var carrierType = reflect.TypeOf(trace.SpanFromContext(trace.ContextWithSpanContext(context.Background(), trace.SpanContext{})).TracerProvider())

// NoSpan records nothing.
var NoSpan = trace.SpanFromContext(context.Background())

// StartSpan calls start. If a provider, a sampler or a span processor panics, ctx stays
// as it is and the span is [NoSpan].
func StartSpan(ctx context.Context, start func() (context.Context, trace.Span)) (started context.Context, span trace.Span) {
	defer func() {
		if p := recover(); p != nil {
			started, span = ctx, NoSpan
			ReportPanic(p)
		}
	}()
	return start()
}

// Guard calls f, which calls what the application has registered. A panic ends f and
// nothing else.
func Guard(f func()) {
	defer Recover()
	f()
}

// Locked calls f while mu is locked, and when mu is free again each function that f returns:
// these may call what the application has registered. A panic ends the one function that
// panics, and nothing else.
func Locked(mu sync.Locker, f func() []func()) {
	var after []func()
	Guard(func() {
		mu.Lock()
		defer mu.Unlock()
		after = f()
	})
	for _, f := range after {
		Guard(f)
	}
}

// Recover has to be deferred. It reports a panic and ends it.
func Recover() {
	if p := recover(); p != nil {
		ReportPanic(p)
	}
}

// ReportPanic reports a panic to the OpenTelemetry error handler. The value may hold
// content, so only its type is reported.
func ReportPanic(p any) {
	defer func() { _ = recover() }() // the handler is the application's, too
	otel.Handle(fmt.Errorf("otelllm: the recording of a model call ended by a panic (%T); the call itself went on", p))
}

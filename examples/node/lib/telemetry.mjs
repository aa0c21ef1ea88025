// The SDK of an agent: it exports spans in batches, in OTLP over HTTP, to
// OTEL_EXPORTER_OTLP_ENDPOINT.
import { context, propagation, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';

// startTelemetry sets up the process's TracerProvider. Call shutdown before the process
// ends: it sends what is left.
export function startTelemetry(service) {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator()); // for instrumentations that send the trace context
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.name': service }),
    spanProcessors: [new BatchSpanProcessor({ exporter: new OTLPTraceExporter(), scheduledDelayMillis: 200 })],
  });
  trace.setGlobalTracerProvider(provider);
  return provider;
}

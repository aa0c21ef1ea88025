// Runs agents under one producer's instrumentation, a trace for each task:
//   node run.mjs <producer> <tasks.json>
// Tasks are those of lib/agent.mjs, with a name; for each a line of JSON says which
// trace it left and what the application saw: names and codes of errors, no words. A
// last line says {"unhandled":true} when a promise was rejected and no handler saw it,
// which ends a process that does not handle the event.
// Spans go to OTEL_EXPORTER_OTLP_ENDPOINT. NODE_HTTP_SPANS=1 adds those of undici.
import { readFileSync } from 'node:fs';
import { SpanKind, trace } from '@opentelemetry/api';
import { registerInstrumentations } from '@opentelemetry/instrumentation';
import { UndiciInstrumentation } from '@opentelemetry/instrumentation-undici';
import { runOf } from './lib/agent.mjs';
import { startTelemetry } from './lib/telemetry.mjs';

// An instrumentation that splits a stream may leave the error of one half unhandled.
let unhandled = false;
process.on('unhandledRejection', () => { unhandled = true; });

const [producer, tasks] = process.argv.slice(2);
const provider = startTelemetry(producer);
if (process.env.NODE_HTTP_SPANS) {
  registerInstrumentations({ tracerProvider: provider, instrumentations: [new UndiciInstrumentation()] });
}
const { barked, instrument, pressedStop, run } = await import(`./producers/${producer}.mjs`);
await instrument?.(provider);

await Promise.all(JSON.parse(readFileSync(tasks, 'utf8')).map(async (task) => {
  // The span of an application around its agent.
  await trace.getTracer('examples/node').startActiveSpan('handle_task', { kind: SpanKind.SERVER }, async (span) => {
    let saw = [];
    const r = runOf(task, pressedStop, barked);
    try {
      await run(r);
    } catch (error) {
      saw = chain(error);
    }
    span.end();
    await r.dispatcher?.destroy();
    console.log(JSON.stringify({ name: task.name, trace: span.spanContext().traceId, saw, ran: r.ran() }));
  });
}));
await provider.shutdown();
if (unhandled) console.log(JSON.stringify({ unhandled: true }));
process.exit(); // do not wait for connections that tasks have left open

// chain returns the names of an error and its causes, outermost first.
function chain(error) {
  const names = [];
  for (let e = error; e instanceof Error && names.length < 5; e = e.cause ?? e.lastError) {
    names.push(e.code ? `${e.constructor.name}:${e.code}` : e.name === 'Error' ? e.constructor.name : e.name);
  }
  return names;
}

// Records answers of model servers with otelllm-facts.mjs, and prints the facts of each as a line of JSON:
//
//   node answers.mjs answers.json
//
// An answer has a path, a request, a status, headers and a body. No request is sent.
import { readFileSync } from 'node:fs';
import { trace } from '@opentelemetry/api';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { factsFetch } from './otelllm-facts.mjs';

const exporter = new InMemorySpanExporter();
trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }));

for (const { path, request, status, headers, body } of JSON.parse(readFileSync(process.argv[2], 'utf8'))) {
  exporter.reset();
  const fetch = factsFetch(async () => new Response(body, { status, headers }));
  const response = await fetch(`https://model.example${path}`, { method: 'POST', body: request, headers: { 'user-agent': 'coder/1.2.3 (host of alice)' } });
  await response.text();
  const [span] = exporter.getFinishedSpans();
  process.stdout.write(`${JSON.stringify(span.attributes)}\n`);
}

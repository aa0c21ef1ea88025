// An agent with a screen: version 6 of the AI SDK and, by hand, a span for each tool
// call from when it appears. Calls that are still shown as running when the stream ends
// are marked as failed. See test/incidents/toolblamed.
import { SpanStatusCode, trace } from '@opentelemetry/api';
import { createOpenAI } from '@ai-sdk/openai-6';
import { jsonSchema, streamText, tool } from 'ai-6';

const tracer = trace.getTracer('screen');

export async function run(r) {
  const result = streamText({
    model: createOpenAI(r.client).chat('gpt-5.5'), prompt: r.prompt, maxRetries: 0,
    experimental_telemetry: { isEnabled: true, recordInputs: false, recordOutputs: false },
    onError: () => {}, // the parts report errors
    tools: Object.fromEntries(r.tools.map(({ name, description, parameters, execute }) => [name, tool({
      description, inputSchema: jsonSchema(parameters), execute: (input) => execute(input),
    })])),
  });
  const shown = new Map();
  let failure;
  try {
    for await (const part of result.fullStream) {
      if (part.type === 'tool-input-start') {
        shown.set(part.id, tracer.startSpan(`execute_tool ${part.toolName}`, {
          attributes: { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': part.toolName, 'gen_ai.tool.call.id': part.id },
        }));
      }
      if (part.type === 'tool-result') {
        shown.get(part.toolCallId)?.end();
        shown.delete(part.toolCallId);
      }
      if (part.type === 'error') failure ??= part.error;
    }
  } catch (error) {
    failure ??= error;
  }
  for (const span of shown.values()) {
    const error = new Error('Tool execution aborted');
    span.recordException(error);
    span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
    span.end();
  }
  if (shown.size) throw new Error('Tool execution aborted');
  if (failure) throw failure;
}

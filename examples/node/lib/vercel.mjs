// The Vercel AI SDK has its own loop: it executes tools and asks again.
export async function vercel({ streamText, tool, jsonSchema, stepCountIs }, model, telemetry, r) {
  const result = streamText({
    model, prompt: r.prompt, abortSignal: r.signal, maxRetries: r.client.maxRetries, ...telemetry,
    stopWhen: stepCountIs(r.endOnToolFailure ? 1 : 4),
    onError: () => {}, // the stream reports errors
    tools: Object.fromEntries(r.tools.map(({ name, description, parameters, execute }) => [name, tool({
      description, inputSchema: jsonSchema(parameters),
      execute: (input, { abortSignal, toolCallId }) => execute(input, { signal: abortSignal, callId: toolCallId }),
    })])),
  });
  let failure;
  for await (const part of result.fullStream) {
    if (part.type === 'text-delta' && r.onText(part.text)) return;
    if (part.type === 'error') failure ??= part.error;
    if (part.type === 'tool-error' && r.endOnToolFailure) failure ??= part.error;
  }
  if (failure) throw failure;
  r.signal?.throwIfAborted();
}

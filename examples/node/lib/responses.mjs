// One conversation over Responses, with the official client.
export function responses(client, tools) {
  const input = [];
  return {
    user: (content) => input.push({ role: 'user', content }),
    output: (call, output) => input.push({ type: 'function_call_output', call_id: call.id, output }),
    async ask({ signal, onText }) {
      const stream = await client.responses.create({
        model: 'gpt-5.5', input, stream: true, store: false,
        tools: tools.map(({ name, description, parameters }) => ({ type: 'function', name, description, parameters, strict: false })),
      }, { signal });
      const calls = [];
      for await (const event of stream) {
        if (event.type === 'response.output_text.delta' && onText(event.delta)) return undefined;
        if (event.type === 'response.output_item.done') {
          input.push(event.item);
          if (event.item.type === 'function_call') calls.push({ id: event.item.call_id, name: event.item.name, input: event.item.arguments });
        }
      }
      return calls;
    },
  };
}

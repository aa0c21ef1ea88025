// One conversation over Chat Completions, with the official client.
export function chat(client, tools) {
  const messages = [];
  return {
    user: (content) => messages.push({ role: 'user', content }),
    output: (call, content) => messages.push({ role: 'tool', tool_call_id: call.id, content }),
    async ask({ signal, onText }) {
      const stream = await client.chat.completions.create({
        model: 'gpt-5.5', messages, stream: true, stream_options: { include_usage: true },
        tools: tools.map(({ name, description, parameters }) => ({ type: 'function', function: { name, description, parameters } })),
      }, { signal });
      const said = { role: 'assistant', content: '', tool_calls: [] };
      for await (const { choices: [choice] } of stream) {
        const delta = choice?.delta ?? {};
        if (delta.content) {
          said.content += delta.content;
          if (onText(delta.content)) return undefined; // leaving the loop ends the stream
        }
        for (const { index, id, function: f } of delta.tool_calls ?? []) {
          const call = (said.tool_calls[index] ??= { id, type: 'function', function: { name: f.name, arguments: '' } });
          call.function.arguments += f?.arguments ?? '';
        }
      }
      if (!said.tool_calls.length) delete said.tool_calls;
      messages.push(said);
      return said.tool_calls?.map((c) => ({ id: c.id, name: c.function.name, input: c.function.arguments }));
    },
  };
}

// One conversation over Messages, with Anthropic's client.
export function messages(client, tools) {
  const history = [];
  return {
    user: (content) => history.push({ role: 'user', content }),
    output: (call, content) => history.push({ role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content }] }),
    async ask({ signal, onText }) {
      const stream = await client.messages.create({
        model: 'claude-opus-4-8', max_tokens: 1024, messages: history, stream: true,
        tools: tools.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters })),
      }, { signal });
      const blocks = [];
      for await (const event of stream) {
        if (event.type === 'content_block_start') blocks[event.index] = { ...event.content_block, json: '' };
        if (event.type !== 'content_block_delta') continue;
        const block = blocks[event.index];
        if (event.delta.type === 'input_json_delta') block.json += event.delta.partial_json;
        if (event.delta.type === 'text_delta') {
          block.text += event.delta.text;
          if (onText(event.delta.text)) return undefined;
        }
      }
      const content = blocks.map(({ json, ...block }) => (block.type === 'tool_use' ? { ...block, input: JSON.parse(json || '{}') } : block));
      history.push({ role: 'assistant', content });
      return content.flatMap((b) => (b.type === 'tool_use' ? [{ id: b.id, name: b.name, input: JSON.stringify(b.input) }] : []));
    },
  };
}

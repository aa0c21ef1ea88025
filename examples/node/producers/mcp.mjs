// An agent with a tool on an MCP server over streamable HTTP: the tool's annotations
// declare what executing it may do, and otelllm-facts.mjs records the facts.
import { createServer } from 'node:http';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import OpenAI from 'openai-7';
import { z } from 'zod';
import { loop } from '../lib/agent.mjs';
import { chat } from '../lib/chat.mjs';
import { Abort, effectOf, factsFetch, withRun, withTool } from '../otelllm-facts.mjs';

export const pressedStop = () => new Abort('user', 'stop_button');

export async function run(r) {
  const http = await serve(r.tools[0]);
  const mcp = new Client({ name: 'coder', version: '1.0.0' });
  try {
    await mcp.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${http.address().port}/mcp`)));
    const tools = (await mcp.listTools()).tools.map(({ name, description, inputSchema, annotations }) => ({
      name, description, parameters: inputSchema,
      async execute(input, { signal, callId }) {
        const result = await withTool({ id: callId, name, effect: effectOf(annotations) },
          () => mcp.callTool({ name, arguments: input }, undefined, { signal }));
        if (result.isError && r.endOnToolFailure) throw new Error('the tool failed');
        return result.content.map((c) => c.text).join('\n');
      },
    }));
    const client = new OpenAI({ ...r.client, fetch: factsFetch(r.client.fetch) });
    await withRun('coder', { signal: r.signal, toolsRecorded: true }, () => loop(chat(client, tools), { ...r, tools }));
  } finally {
    await mcp.close();
    http.closeAllConnections();
    http.close();
  }
}

// serve starts an MCP server with one tool, without sessions.
async function serve(tool) {
  const http = createServer(async (req, res) => {
    const server = new McpServer({ name: 'files', version: '1.0.0' });
    server.registerTool(tool.name, {
      description: tool.description, inputSchema: { path: z.string() }, annotations: { destructiveHint: true },
    }, async (input, { signal }) => {
      if (tool.lost) {
        req.socket.destroy(); // the server dies while the tool runs
        return { content: [] };
      }
      return { content: [{ type: 'text', text: await tool.execute(input, { signal }) }] };
    });
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    await server.connect(transport);
    await transport.handleRequest(req, res);
  });
  await new Promise((resolve) => http.listen(0, '127.0.0.1', resolve));
  return http;
}

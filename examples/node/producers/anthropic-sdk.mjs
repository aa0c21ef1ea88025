// Anthropic's client, which traces itself, without an instrumentation.
import Anthropic from '@anthropic-ai/sdk';
import { loop } from '../lib/agent.mjs';
import { messages } from '../lib/messages.mjs';

export const run = (r) => loop(messages(new Anthropic(r.client), r.tools), r);

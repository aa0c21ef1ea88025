"""The agent that every client here runs: it asks, shows the streamed text, runs the tools that the model calls, and asks again
with their outputs. A task is one that examples/node/lib/agent.mjs describes."""

import json

MAX_TURNS = 4

TOOLS = {
    'apply_patch': ('non_idempotent', 'Change a file.'),
    'read_file': ('read_only', 'Read a file.'),
}
PARAMETERS = {'type': 'object', 'properties': {'path': {'type': 'string'}}, 'required': ['path']}


class PatchError(Exception):
    pass


class Chat:
    """One conversation over Chat Completions."""

    def __init__(self, prompt):
        self.messages = [{'role': 'user', 'content': prompt}]

    def begin(self):
        self.content, self.parts = '', {}

    def body(self):
        tools = [{'type': 'function', 'function': {'name': n, 'description': d, 'parameters': PARAMETERS}} for n, (_, d) in TOOLS.items()]
        return {'model': 'gpt-5.5', 'messages': self.messages, 'stream': True, 'stream_options': {'include_usage': True}, 'tools': tools}

    def take(self, event):
        """Return the text of an event."""
        delta = event['choices'][0]['delta'] if event.get('choices') else {}
        self.content += delta.get('content') or ''
        for part in delta.get('tool_calls') or []:
            f = part.get('function') or {}
            call = self.parts.setdefault(part['index'], {'id': part.get('id'), 'name': f.get('name'), 'input': ''})
            call['input'] += f.get('arguments') or ''
        return delta.get('content')

    def calls(self):
        calls = list(self.parts.values())
        said = {'role': 'assistant', 'content': self.content}
        if calls:
            said['tool_calls'] = [{'id': c['id'], 'type': 'function', 'function': {'name': c['name'], 'arguments': c['input']}} for c in calls]
        self.messages.append(said)
        return calls

    def output(self, call, text):
        self.messages.append({'role': 'tool', 'tool_call_id': call['id'], 'content': text})


class Responses:
    """One conversation over Responses."""

    def __init__(self, prompt):
        self.input = [{'role': 'user', 'content': prompt}]

    def begin(self):
        self.items = []

    def body(self):
        tools = [{'type': 'function', 'name': n, 'description': d, 'parameters': PARAMETERS, 'strict': False} for n, (_, d) in TOOLS.items()]
        return {'model': 'gpt-5.5', 'input': self.input, 'stream': True, 'store': False, 'tools': tools}

    def take(self, event):
        if event['type'] == 'response.output_item.done':
            self.items.append(event['item'])
        return event['delta'] if event['type'] == 'response.output_text.delta' else None

    def calls(self):
        self.input += self.items
        return [{'id': i['call_id'], 'name': i['name'], 'input': i['arguments']} for i in self.items if i['type'] == 'function_call']

    def output(self, call, text):
        self.input.append({'type': 'function_call_output', 'call_id': call['id'], 'output': text})


class Messages:
    """One conversation over Messages."""

    def __init__(self, prompt):
        self.history = [{'role': 'user', 'content': prompt}]

    def begin(self):
        self.blocks = {}

    def body(self):
        tools = [{'name': n, 'description': d, 'input_schema': PARAMETERS} for n, (_, d) in TOOLS.items()]
        return {'model': 'claude-opus-4-8', 'max_tokens': 1024, 'messages': self.history, 'stream': True, 'tools': tools}

    def take(self, event):
        if event['type'] == 'content_block_start':
            self.blocks[event['index']] = {**event['content_block'], 'json': ''}
        if event['type'] != 'content_block_delta':
            return None
        block, delta = self.blocks[event['index']], event['delta']
        if delta['type'] == 'input_json_delta':
            block['json'] += delta['partial_json']
        if delta['type'] != 'text_delta':
            return None
        block['text'] += delta['text']
        return delta['text']

    def calls(self):
        content, calls = [], []
        for block in self.blocks.values():
            text = block.pop('json')
            if block['type'] == 'tool_use':
                block['input'] = json.loads(text or '{}')
                calls.append({'id': block['id'], 'name': block['name'], 'input': json.dumps(block['input'])})
            content.append(block)
        self.history.append({'role': 'assistant', 'content': content})
        return calls

    def output(self, call, text):
        self.history.append({'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': call['id'], 'content': text}]})


CONVERSATIONS = {'chat': Chat, 'responses': Responses, 'messages': Messages}


def conversation(task):
    return CONVERSATIONS[task['api']](task.get('prompt') or 'Fix the bug in main.go.')

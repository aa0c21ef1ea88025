#!/usr/bin/env python3
"""A model server for the reports in this folder. It speaks to one agent at a time.

    model.py TOOL COMMAND TIMES [--cut]

A request whose history has no call gets a call of the agent's shell tool TOOL, which is to run
COMMAND, TIMES times at most. Other requests get a text. What a request says of calls and of their
outputs is printed. With --cut each answer with a call ends with a reset of the connection, two
seconds after the whole call and before its last event. The first line of the output is the base URL.
"""

import json
import os
import socket
import struct
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CUT = "--cut" in sys.argv
TOOL, COMMAND, TIMES = [a for a in sys.argv[1:] if a != "--cut"]
ARGUMENTS = {"cmd": COMMAND} if TOOL == "exec_command" else {"command": COMMAND, "description": "report"}
PROMPTS = ("report once", "go on")
TEXT = "I see."
calls = 0


def responses(text, call):
    created = {"id": "resp_1", "object": "response", "model": "m", "status": "in_progress", "output": []}
    yield "response.created", {"response": created}
    if call:
        item = {"type": "function_call", "id": "fc_1", "call_id": call, "name": TOOL, "status": "in_progress", "arguments": ""}
        args = json.dumps(ARGUMENTS)
        yield "response.output_item.added", {"output_index": 0, "item": item}
        yield "response.function_call_arguments.delta", {"output_index": 0, "item_id": "fc_1", "delta": args}
        yield "response.function_call_arguments.done", {"output_index": 0, "item_id": "fc_1", "arguments": args}
        item = dict(item, arguments=args, status="completed")
    else:
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []}
        part = {"type": "output_text", "text": "", "annotations": []}
        at = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
        yield "response.output_item.added", {"output_index": 0, "item": item}
        yield "response.content_part.added", dict(at, part=part)
        yield "response.output_text.delta", dict(at, delta=text)
        yield "response.output_text.done", dict(at, text=text)
        item = dict(item, status="completed", content=[dict(part, text=text)])
    yield "response.output_item.done", {"output_index": 0, "item": item}
    yield None, None
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    yield "response.completed", {"response": dict(created, status="completed", output=[item], usage=usage)}


def chat(text, call):
    def chunk(delta, reason=None):
        return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
    if call:
        function = {"name": TOOL, "arguments": json.dumps(ARGUMENTS)}
        yield None, chunk({"role": "assistant", "tool_calls": [{"index": 0, "id": call, "type": "function", "function": function}]})
    else:
        yield None, chunk({"role": "assistant", "content": text})
    yield None, None
    yield None, chunk({}, "tool_calls" if call else "stop")
    yield None, "[DONE]"


def anthropic(text, call):
    message = {"id": f"msg_{time.monotonic_ns()}", "type": "message", "role": "assistant", "model": "m", "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    yield "message_start", {"message": message}
    if call:
        block, delta = {"type": "tool_use", "id": call, "name": TOOL, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(ARGUMENTS)}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    yield None, None
    yield "message_delta", {"delta": {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 1}}
    yield "message_stop", {}


def gemini(text, call):
    part = {"functionCall": {"name": TOOL, "args": ARGUMENTS}} if call else {"text": text}
    yield None, {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}],
                 "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}, "modelVersion": "m"}


def told(body):
    """What a request says of calls: for each, what stands as its output, or that none does."""
    outputs, called = [], 0

    def walk(node):
        nonlocal called
        if isinstance(node, list):
            for child in node:
                walk(child)
        elif isinstance(node, dict):
            if node.get("type") == "function_call_output":
                outputs.append(node.get("output"))
            elif node.get("role") == "tool" or node.get("type") == "tool_result":
                outputs.append(node.get("content"))
            elif "functionResponse" in node:
                outputs.append(node["functionResponse"].get("response"))
            else:
                called += node.get("type") in ("function_call", "tool_use") or "functionCall" in node
                called += len(node.get("tool_calls") or [])
                for child in node.values():
                    walk(child)

    for key in ("input", "messages", "contents"):
        walk(body.get(key))
    return outputs, called


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, content, kind="application/json", status=200):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        self.answer(b'{"data":[]}')

    def do_POST(self):
        global calls
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        text = raw.decode(errors="replace")
        try:
            body = json.loads(text)
        except ValueError:
            return self.answer(b"{}")
        path = self.path.split("?")[0]
        if path.endswith("/responses"):
            wire = responses
        elif path.endswith("/chat/completions"):
            wire = chat
        elif path.endswith("/messages"):
            wire = anthropic
        elif ":streamGenerateContent" in path:
            wire = gemini
        elif path.endswith("count_tokens") or path.endswith(":countTokens"):
            return self.answer(b'{"input_tokens":1,"totalTokens":1}')
        else:
            return self.answer(b"{}", status=404)
        outputs, called = told(body)
        call = None
        if f'"{TOOL}"' in text and body.get("tools") and not called and calls < int(TIMES):
            calls += 1
            call = f"call_{calls}"
        if body.get("tools"):
            prompts = [prompt for prompt in PROMPTS if prompt in text]
            print(f"request: prompts {prompts}, {called} calls, outputs {json.dumps(outputs)}; the model", f"makes {call}" if call else "answers", flush=True)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for name, data in wire(TEXT, call):
            if data is None:  # what follows is the end
                if CUT and call:
                    return self.reset()
                continue
            event = f"data: {data if isinstance(data, str) else json.dumps(dict(data, type=name) if name else data)}\n\n"
            self.chunk(f"event: {name}\n{event}" if name else event)
        self.chunk("")

    def chunk(self, text):
        self.wfile.write(f"{len(text.encode()):x}\r\n{text}\r\n".encode())
        self.wfile.flush()

    def reset(self):
        time.sleep(2)
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()

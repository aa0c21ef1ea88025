"""An agent without an SDK: chat completions over http.client, or over httpx with the argument "httpx"."""

import http.client
import json
import os
import subprocess
import sys
from urllib.parse import urlsplit

URL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
TOOL = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}
BROKEN = [OSError, http.client.HTTPException]
TIMEOUT = 3


def lines_of_http_client(body):
    url = urlsplit(URL)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=TIMEOUT)
    try:
        connection.request("POST", url.path, body, HEADERS)
        response = connection.getresponse()
        if response.status != 200:
            raise ConnectionError("status %d" % response.status)
        while line := response.readline():
            yield line.decode()
    finally:
        connection.close()


def lines_of_httpx(body):
    import httpx

    with httpx.stream("POST", URL, content=body, headers=HEADERS, timeout=TIMEOUT) as response:
        if response.status_code != 200:
            raise ConnectionError("status %d" % response.status_code)
        yield from response.iter_lines()


def ask(lines, messages):
    body = json.dumps({"model": "gpt-5", "stream": True, "messages": messages, "tools": [TOOL]}, separators=(",", ":"))
    answer, call, finished = "", None, False
    for line in lines(body):
        line = line.strip()
        if not line.startswith("data: ") or line == "data: [DONE]":
            continue
        event = json.loads(line[len("data: "):])
        if "error" in event:
            raise ConnectionError("in the stream")
        choice = event["choices"][0] if event.get("choices") else {}
        delta = choice.get("delta", {})
        answer += delta.get("content") or ""
        for part in delta.get("tool_calls") or []:
            if call is None:
                call = {"id": part["id"], "type": "function", "function": {"name": part["function"]["name"], "arguments": ""}}
            call["function"]["arguments"] += part["function"].get("arguments", "")
        finished = finished or bool(choice.get("finish_reason"))
    if not finished:
        raise ConnectionError("cut")
    return answer, call


def main():
    lines = lines_of_http_client
    if sys.argv[1:2] == ["httpx"]:
        import httpx

        BROKEN.append(httpx.HTTPError)
        lines = lines_of_httpx
    messages = [{"role": "user", "content": sys.argv[-1]}]
    while True:
        for attempt in range(3):
            try:
                answer, call = ask(lines, messages)
                break
            except tuple(BROKEN):
                if attempt == 2:
                    print("gave up")
                    return 1
        if call is None:
            print(answer)
            return 0
        output = subprocess.run(["sh", "-c", json.loads(call["function"]["arguments"])["command"]], capture_output=True, text=True).stdout
        messages += [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": call["id"], "content": output}]


sys.exit(main())

"""A retry loop that asks a judge on a socket before it acts: python3 retry.py path/to/socket"""
import json
import socket
import sys

judge = socket.socket(socket.AF_UNIX)
judge.connect(sys.argv[1])
lines = judge.makefile("rw", encoding="utf-8")


def ask(**facts):
    lines.write(json.dumps(facts) + "\n")
    lines.flush()
    answer = json.loads(lines.readline())
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer


def cut(**facts):
    return ask(
        kind="request",
        **{
            "llm.stream.end": "read_error", "llm.transport.cause": "connection_reset", "error.type": "httpx.ReadError",
            "llm.stream.tool_inputs_started": 0, "llm.stream.tool_inputs_completed": 0, "llm.stream.tool_calls": 0,
            "llm.request.provider_tools": [], "llm.history.tool_calls": [], "llm.history.tool_outputs": [],
            **facts,
        },
    )


run = "run of python"
ask(run=run, kind="run", state="begun", **{"llm.run.tools": 0})
before = cut(run=run, id="q1", **{"llm.stream.phase": "response_started", "llm.stream.text_chunks": 0})
shown = cut(run=run, id="q2", ref="last", **{"llm.stream.phase": "text", "llm.stream.text_chunks": 2})
end = ask(run=run, kind="run", **{"error.type": "Error", "llm.run.requests": 2, "llm.run.tools": 0})
print(json.dumps({
    "before": before["part"]["llm.retry.safety"], "shown": shown["part"]["llm.retry.safety"], "ref": shown["ref"],
    "outcome": end["verdict"]["llm.run.outcome"],
}))

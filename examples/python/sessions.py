"""Records realtime sessions with otelllm_realtime.py, and prints the facts of each as a line of JSON:

    python3 sessions.py sessions.json

A session is a list of steps: what was sent or received, or how it ended. No connection is made.
"""

import json
import sys

import otelllm_facts as facts
import otelllm_realtime as realtime


def main(file):
    with open(file, encoding='utf-8') as f:
        sessions = json.load(f)
    ended = []
    facts._sender.send = lambda span, end: ended.append(span)
    for steps in sessions:
        with facts.run('coder'):
            session = realtime.Session()
            for step, frame in steps:
                if step == 'closed':
                    session.close(ConnectionResetError(104, 'reset') if frame else None)
                elif step == 'unsent':
                    session.send_failed(frame, ConnectionResetError(104, 'reset'))
                else:
                    getattr(session, step)(frame)
        print(json.dumps([span.attributes for span in sorted(ended, key=lambda s: s.start) if not span.name.startswith('invoke_agent')]))
        ended.clear()


main(sys.argv[1])

"""Records answers of model servers with otelllm_facts.py, and prints the facts of each as a line of JSON:

    python3 answers.py answers.json

An answer has a path, a request, a status, headers and a body. No request is sent.
"""

import json
import sys

import httpx

import otelllm_facts as facts


def main(file):
    with open(file, encoding='utf-8') as f:
        answers = json.load(f)
    ended = []
    facts._sender.send = lambda span, end: ended.append(span)
    for answer in answers:
        def handle(request, answer=answer):
            return httpx.Response(answer['status'], headers=answer['headers'], stream=httpx.ByteStream(answer['body'].encode()))
        with facts.watch(httpx.Client(transport=httpx.MockTransport(handle))) as client:
            client.post('https://model.example' + answer['path'], content=answer['request'], headers={'user-agent': 'coder/1.2.3 (host of alice)'}).read()
        [span] = ended
        ended.clear()
        print(json.dumps({k: v for k, v in span.attributes.items() if v is not None}))


main(sys.argv[1])

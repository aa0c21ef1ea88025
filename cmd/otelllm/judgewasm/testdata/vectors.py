# Answers each line of the standard input, which is JSON of facts: python3 vectors.py FOLDER, which has _judge.py and judge.wasm
import sys

sys.path.insert(0, sys.argv[1])
import _judge  # noqa: E402

sys.stdin.reconfigure(encoding='utf-8')
sys.stdout.reconfigure(encoding='utf-8', newline='\n')
assert isinstance(_judge.available(), _judge._Module)
for line in sys.stdin:
    print(_judge.judge_json(line.rstrip('\n')))

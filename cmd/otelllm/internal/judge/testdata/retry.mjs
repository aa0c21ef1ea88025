// A retry loop that asks the judge before it acts: node retry.mjs path/to/otelllm
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

const judge = spawn(process.argv[2], ['judge'], { stdio: ['pipe', 'pipe', 'inherit'] })
const answers = createInterface({ input: judge.stdout })[Symbol.asyncIterator]()
const ask = async facts => {
  judge.stdin.write(JSON.stringify(facts) + '\n')
  const { value } = await answers.next()
  const answer = JSON.parse(value)
  if (answer.error) throw new Error(answer.error)
  return answer
}

const run = 'run-1'
const cut = {
  kind: 'request', 'llm.stream.end': 'read_error', 'llm.transport.cause': 'connection_reset', 'error.type': 'ECONNRESET',
  'llm.stream.tool_inputs_started': 0, 'llm.stream.tool_inputs_completed': 0, 'llm.stream.tool_calls': 0,
  'llm.request.provider_tools': [], 'llm.history.tool_calls': [], 'llm.history.tool_outputs': [],
}
await ask({ run, kind: 'run', state: 'begun', 'llm.run.tools': 0 })
const before = await ask({ ...cut, run, id: 'q1', 'llm.stream.phase': 'response_started', 'llm.stream.text_chunks': 0 })
const shown = await ask({ ...cut, run, id: 'q2', 'llm.stream.phase': 'text', 'llm.stream.text_chunks': 2, ref: 'last' })
const end = await ask({ run, kind: 'run', 'error.type': 'Error', 'llm.run.requests': 2, 'llm.run.tools': 0 })
console.log(JSON.stringify({
  before: before.part['llm.retry.safety'], shown: shown.part['llm.retry.safety'], ref: shown.ref, outcome: end.verdict['llm.run.outcome'],
}))
judge.stdin.end()

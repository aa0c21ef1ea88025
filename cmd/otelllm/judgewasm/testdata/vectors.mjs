// Answers each line of the standard input, which is JSON of facts: node vectors.mjs FOLDER, which has otelllm-judge.mjs and judge.wasm
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const { judgeJSON } = await import(pathToFileURL(join(process.argv[2], 'otelllm-judge.mjs')))
const lines = readFileSync(0, 'utf8').trimEnd().split('\n')
process.stdout.write(lines.map((line) => judgeJSON(line) + '\n').join(''))

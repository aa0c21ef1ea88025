// From a record to what is drawn and said of it. Nothing here touches the page.

const attr = (rec, key) => rec.attributes && Object.hasOwn(rec.attributes, key) ? rec.attributes[key] : undefined;
const list = value => Array.isArray(value) ? value : [];
const seconds = value => typeof value === 'number' ? value * 1e6 : undefined;
const eventAt = (rec, name) => {
  const found = list(rec.events).find(e => e.name === name);
  return found ? micros(found.time) : undefined;
};

// fromFile reports whether a record was read from the file of an agent's session.
const fromFile = rec => typeof rec.scope === 'string' && rec.scope.endsWith('/cmd/otelllm/sessions');

// partOf reads one request or tool.
function partOf(rec, kind, index) {
  const from = micros(rec.start);
  const open = micros(rec.end) <= 0;
  const to = Math.max(from, open ? from : micros(rec.end));
  const part = {rec, kind, index, from, to, open, failed: attr(rec, 'llm.failure.class'), first: from, last: to};
  if (kind === 'tool') {
    part.label = attr(rec, 'gen_ai.tool.name') || rec.name;
  } else {
    part.label = attr(rec, 'gen_ai.request.model') || rec.name;
    part.attempt = attr(rec, 'llm.request.attempt');
    flow(part);
  }
  return part;
}

// flow sets from when to when a request made progress, as far as that was recorded. Where
// nothing was, it counts as progress from start to end.
function flow(part) {
  const {rec, from, to} = part;
  const last = seconds(attr(rec, 'llm.stream.last_progress'));
  const started = ['first_progress', 'reasoning_started', 'text_started', 'tool_input_started'].map(n => eventAt(rec, 'llm.stream.' + n)).filter(t => t !== undefined);
  const observed = attr(rec, 'llm.stream.phase') !== undefined || attr(rec, 'llm.stream.end') !== undefined;
  if (!observed) return;
  part.observed = true;
  const within = t => Math.min(to, Math.max(from, t));
  if (started.length) part.first = within(Math.min(...started));
  else if (last > 0) part.first = within(from + Math.min(last, seconds(attr(rec, 'llm.stream.time_to_headers')) ?? last));
  else if (attr(rec, 'llm.stream.end') !== 'terminal_event') part.first = to; // it never made any
  part.phases = phasesOf(part);
  part.last = attr(rec, 'llm.stream.end') === 'terminal_event' ? to : last > 0 ? Math.max(part.first, within(from + last)) : Math.max(part.first, part.first === to ? to : from);
}

// phasesOf returns when the model began to reason, to write, and to write a tool call.
function phasesOf(part) {
  const kinds = {'llm.stream.reasoning_started': 'reasoning', 'llm.stream.text_started': 'text', 'llm.stream.tool_input_started': 'toolcall'};
  return list(part.rec.events).filter(e => Object.hasOwn(kinds, e.name)).slice(0, 64)
    .map(e => ({kind: kinds[e.name], at: Math.min(part.to, Math.max(part.from, micros(e.time)))})).sort((a, b) => a.at - b.at);
}

// soft are the classes that are no failure of anything: it was stopped, or reached its limit.
const soft = cls => cls === 'local_abort' || cls === 'output_limited';

// moment returns when a part failed.
function moment(part) {
  for (const name of ['llm.stream.interrupted', 'llm.watchdog.fired', 'llm.abort', 'llm.tool.output_failed']) {
    const at = eventAt(part.rec, name);
    if (at !== undefined) return at;
  }
  return part.to;
}

// runOf reads a record: its parts, its range of time, and where it broke.
function runOf(rec) {
  const run = {rec, kind: rec.kind, failed: attr(rec, 'llm.failure.class')};
  run.requests = rec.kind === 'run' ? list(rec.requests).map((r, i) => partOf(r, 'request', i + 1)) : [partOf(rec, 'request', 1)];
  run.tools = list(rec.tools).map((r, i) => partOf(r, 'tool', i + 1));
  const passed = ownHop(run.requests.map(p => p.rec), list(rec.served));
  for (const part of run.requests) part.passed = passed.get(part.rec.span_id);
  run.served = list(rec.served).filter(r => ![...passed.values()].includes(r)).map((r, i) => partOf(r, 'served', i + 1));
  const own = {rec, kind: 'run', from: micros(rec.start), to: Math.max(micros(rec.start), micros(rec.end))};
  const all = [...run.requests, ...run.tools, ...run.served];
  run.open = micros(rec.end) <= 0;
  run.from = all.reduce((t, p) => Math.min(t, p.from), own.from);
  run.to = all.reduce((t, p) => Math.max(t, p.to), run.open ? own.from : own.to);
  run.breaks = breaksOf(run, own);
  run.to = run.breaks.reduce((t, b) => Math.max(t, b.at), run.to);
  run.silence = silenceOf(run);
  run.sameModel = new Set(run.requests.map(p => p.label)).size <= 1;
  return run;
}

// ownHop returns, by the requests' ids, the spans of requests that were only passed on: what a
// proxy served, and what it sent for that, is one model call. Where it sent more than one, those
// are calls of their own.
function ownHop(requests, served) {
  const beneath = new Map();
  for (const r of served) beneath.set(r.parent_span_id, [...(beneath.get(r.parent_span_id) || []), r]);
  const passed = new Map();
  for (const r of requests) {
    const sent = r.span_kind === 'server' && beneath.get(r.span_id) || [];
    if (sent.length === 1 && sent[0].span_kind === 'client' && sent[0].scope === r.scope && sent[0].service === r.service) passed.set(r.span_id, sent[0]);
  }
  return passed;
}

// breaksOf returns the moments of all failures. The one that the verdict of the run is about
// comes last: the latest part of the same class and cause, else of the same class, else the
// end of the run, and of a run without an end its last sign of life.
function breaksOf(run, own) {
  const parts = [...run.requests, ...run.tools].filter(p => p.failed);
  const breaks = parts.map(part => ({part, at: moment(part), text: causeOf(part.rec), main: false}));
  if (!run.failed) return breaks;
  const same = test => breaks.filter(test).sort((a, b) => a.at - b.at).at(-1);
  let main = same(b => b.part.failed === run.failed && attr(b.part.rec, 'llm.failure.cause') === attr(run.rec, 'llm.failure.cause')) ||
    same(b => b.part.failed === run.failed);
  if (!main) {
    const ends = [...run.requests, ...run.tools].map(p => p.to);
    main = {part: own, at: run.failed === 'run_abandoned' && ends.length ? Math.max(...ends) : Math.max(own.to, run.from)};
    breaks.push(main);
  }
  main.main = true;
  main.text = run.failed === 'run_abandoned' ? 'last sign of the run' : causeOf(run.rec);
  return [...breaks.filter(b => b !== main), main];
}

// causeOf returns what failed in a few words.
function causeOf(rec) {
  const cause = attr(rec, 'llm.failure.cause');
  return cause && cause !== 'unknown' ? words('cause', cause) : words('class', attr(rec, 'llm.failure.class'));
}

// silenceOf returns when nothing made progress, and why: no part ran, or the requests that ran
// had not begun to answer, or had stopped to.
function silenceOf(run) {
  const parts = [...run.requests, ...run.tools];
  const edges = new Set([run.from, run.to]);
  for (const p of parts) [p.from, p.first, p.last, p.to].forEach(t => edges.add(t));
  const sorted = [...edges].sort((a, b) => a - b);
  const out = [];
  // The parts that are open between two edges: found by a sweep, as there may be thousands.
  const begins = [...parts].sort((a, b) => a.from - b.from);
  let next = 0, open = [];
  for (let i = 0; i + 1 < sorted.length; i++) {
    const from = sorted[i], to = sorted[i + 1];
    while (next < begins.length && begins[next].from <= from) open.push(begins[next++]);
    open = open.filter(p => p.to > from);
    if (open.some(p => p.first <= from && p.last >= to)) continue;
    const why = open.length === 0 ? 'idle' : open.some(p => p.first > from) ? 'waiting' : 'stalled';
    const before = out.at(-1);
    if (before && before.to === from && before.why === why) before.to = to;
    else out.push({from, to, why});
  }
  return out;
}

const silenceWords = {idle: 'nothing ran', waiting: 'waiting for the model', stalled: 'no progress'};

// pack spreads parts over rows, so that no two in a row overlap. gap is what a row needs
// between two, and width what a part takes at least.
function pack(parts, width, gap) {
  const rows = [];
  for (const part of [...parts].sort((a, b) => a.from - b.from || a.to - b.to)) {
    const row = rows.find(r => r.free <= part.from);
    const free = Math.max(part.to, part.from + width) + gap;
    if (row) { row.parts.push(part); row.free = free; }
    else rows.push({parts: [part], free});
  }
  return rows.map(r => r.parts);
}

// ranTools returns the tools that may have done something, and would again.
const ranTools = run => run.tools.filter(t =>
  !['rejected', 'invalid_input'].includes(attr(t.rec, 'llm.tool.outcome')) && attr(t.rec, 'llm.tool.failed_before_effect') !== true);

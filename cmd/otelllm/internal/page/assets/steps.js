// The steps of a run in words, each to unfold.

const maxSteps = 400;

function stepsOf(run, id) {
  const parts = [...run.requests, ...run.tools, ...run.served].sort((a, b) => a.from - b.from || a.to - b.to);
  const shown = parts.length <= maxSteps ? parts : [...parts.slice(0, maxSteps / 2), ...parts.slice(-maxSteps / 2)];
  const rows = shown.map(part => step(run, part, id));
  if (shown.length < parts.length) rows.splice(maxSteps / 2, 0, el('p', {class: 'note'}, plural(parts.length - shown.length, 'step') + ' between these are in the JSON below.'));
  return el('div', {class: 'steps'}, rows);
}

const kindWords = {request: 'Model call', tool: 'Tool', served: 'Gateway'};

function step(run, part, id) {
  const fold = el('details', {class: 'step', id: id + part.kind + '-' + part.index, 'data-kind': part.kind});
  const failed = part.failed;
  fold.append(el('summary', {},
    el('span', {class: 'at'}, offset(part.from - run.from)),
    el('span', {class: 'kind'}, kindWords[part.kind] + ' ' + part.index),
    el('span', {class: 'name'}, bdi(part.label, 80), part.attempt > 1 && el('span', {class: 'tag'}, 'attempt ' + part.attempt),
      fromFile(part.rec) && !fromFile(run.rec) && el('span', {class: 'tag'}, 'from the session file')),
    el('span', {class: 'how' + (failed ? ' bad' : '') + (soft(failed) ? ' soft' : '')}, failed && sign(failed === 'local_abort' ? 'aborted' : soft(failed) ? 'limited' : 'failed'), endOf(part)),
    el('span', {class: 'took'}, part.open ? 'open' : took(part.to - part.from))));
  // The tables are made when they are first seen: a run may have hundreds of steps.
  fold.addEventListener('toggle', () => {
    if (fold.open && fold.childElementCount === 1) fold.append(...allFacts(part));
  });
  return fold;
}

// endOf says in a few words how a part ended.
function endOf(part) {
  const rec = part.rec;
  if (part.kind === 'tool') {
    const outcome = attr(rec, 'llm.tool.outcome'), effect = attr(rec, 'llm.tool.effect');
    const text = outcome ? words('tool', outcome) : part.failed ? causeOf(rec) : part.open && fromFile(rec) ? 'may have run' : 'ran';
    const lost = part.failed === 'tool_output_lost' ? ', output lost' : '';
    return text + lost + (effect ? ' · ' + words('effect', effect) : '');
  }
  if (part.failed) return causeOf(rec);
  const calls = attr(rec, 'llm.stream.tool_calls');
  const end = attr(rec, 'llm.stream.end'), status = attr(rec, 'http.response.status_code');
  const text = end ? words('end', end) : list(attr(rec, 'gen_ai.response.finish_reasons')).map(r => show(r, 40)).join(', ') || (status >= 300 ? 'HTTP ' + status : 'ended');
  return text + (calls > 0 ? ' · ' + plural(calls, 'tool call') : '');
}

// allFacts returns the facts of a part, and what is known besides of the request that was passed on.
function allFacts(part) {
  const own = [facts(part.rec, part.from)];
  if (!part.passed) return own;
  const more = Object.entries(part.passed.attributes || {}).filter(([key]) => attr(part.rec, key) === undefined);
  return [...own, el('div', {class: 'facts'}, el('h4', {}, 'As it was passed on'), facts({...part.passed, attributes: Object.fromEntries(more), events: []}, part.from))];
}

// facts returns the attributes and events of a span.
function facts(rec, from) {
  const box = el('div', {class: 'facts'});
  const summary = attr(rec, 'llm.failure.summary');
  if (summary) box.append(el('p', {class: 'said'}, bdi(summary, 600)));
  const attrs = Object.entries(rec.attributes || {}).sort(([a], [b]) => a < b ? -1 : 1);
  box.append(table(attrs.filter(([key]) => key !== 'llm.failure.summary' && key !== 'llm.run.timeline').map(([key, value]) => [show(key, 100), value])));
  const events = list(rec.events);
  if (events.length) {
    box.append(el('h4', {}, 'Events'), table(events.slice(0, 64).map(e =>
      [offset(micros(e.time) - from), show(e.name, 100) + Object.values(e.attributes || {}).map(v => ' ' + show(v, 60)).join('')])));
  }
  box.append(el('p', {class: 'ids'}, 'span ', el('code', {}, show(rec.span_id, 40)), rec.parent_span_id ? [' under ', el('code', {}, show(rec.parent_span_id, 40))] : ''));
  return box;
}

function table(pairs) {
  return el('dl', {class: 'table'}, pairs.slice(0, 200).map(([key, value]) => el('div', {}, el('dt', {}, key), el('dd', {}, values(value)))));
}

function values(value) {
  if (!Array.isArray(value)) return bdi(typeof value === 'object' ? JSON.stringify(value) : value, 300);
  if (value.length === 0) return 'none';
  const apart = value.length > 3 ? '\n' : ', ';
  return value.slice(0, 64).map((v, i) => [i > 0 ? apart : '', bdi(typeof v === 'object' ? JSON.stringify(v) : v, 200)]);
}

// The runs: rows for the list, and records when they are looked at.

const data = {
  rows: [],            // newest first
  shown: [],           // those that pass the filters
  byKey: new Map(),
  filter: {text: '', class: '', agent: '', model: '', outcome: ''},
  loaded: false,
  dropped: 0,
};

const keyOf = row => row.trace + '-' + row.span;

function setRows(rows) {
  rows.sort((a, b) => b.start - a.start || (a.span < b.span ? -1 : a.span > b.span ? 1 : 0));
  data.rows = rows;
  data.byKey = new Map();
  for (const row of rows) data.byKey.set(row.key ||= keyOf(row), row);
}

// haystack is the text of a row that a search looks through.
const haystack = row => row.hay ||= [row.trace, row.span, row.agent || '', ...list(row.models), ...list(row.ids)].join('\n').toLowerCase();

// passes reports whether a row passes the filters; except is one that does not count.
function passes(row, f, except) {
  return (except === 'outcome' || !f.outcome || row.outcome === f.outcome) &&
    (except === 'class' || !f.class || row.class === f.class) &&
    (except === 'agent' || !f.agent || row.agent === f.agent) &&
    (except === 'model' || !f.model || list(row.models).includes(f.model)) &&
    (!f.text || haystack(row).includes(f.text));
}

// applyFilter sets which rows are shown, and returns for each filter how many there are of
// each value if the other filters stay as they are.
function applyFilter() {
  const f = data.filter;
  const counts = {outcome: new Map(), class: new Map(), agent: new Map(), model: new Map()};
  const add = (map, value) => { if (value) map.set(value, (map.get(value) || 0) + 1); };
  data.shown = [];
  for (const row of data.rows) {
    if (passes(row, f)) data.shown.push(row);
    if (passes(row, f, 'outcome')) add(counts.outcome, row.outcome);
    if (passes(row, f, 'class')) add(counts.class, row.class);
    if (passes(row, f, 'agent')) add(counts.agent, row.agent);
    if (passes(row, f, 'model')) for (const model of list(row.models)) add(counts.model, model);
  }
  return counts;
}

const filtered = () => Object.values(data.filter).some(v => v !== '');

const opened = new Map(); // records by key, with the change that they are of; the oldest go

// openRun returns {text, record, leftOut} of a row, or null if the record is not to be had.
async function openRun(row) {
  const known = opened.get(row.key);
  if (known && known.change === row.change) return known.run;
  const text = meta.live ? await fetchRun(row) : blockLine(row);
  if (!text) return null;
  const at = text.indexOf('"record":') + '"record":'.length; // what the program wrote before it has no such text
  const run = {text: text.slice(at, text.lastIndexOf('}')), ...JSON.parse(text)};
  opened.delete(row.key);
  opened.set(row.key, {change: row.change, run});
  if (opened.size > 32) opened.delete(opened.keys().next().value);
  return run;
}

function blockLine(row) {
  if (!row.block) return null;
  return byId('block-' + row.block).textContent.split('\n', row.line)[row.line - 1];
}

async function fetchRun(row) {
  const response = await fetch('run?' + new URLSearchParams({trace: row.trace, span: row.span}), {cache: 'no-store'});
  return response.ok ? response.text() : null;
}

// pretty returns JSON with line breaks. It works on the text, since a number may have more
// digits than JavaScript keeps.
function pretty(text) {
  let out = '', depth = 0, at = 0;
  const breakLine = () => { out += '\n' + '  '.repeat(depth); };
  while (at < text.length) {
    const c = text[at];
    if (c === '"') {
      let end = at + 1;
      while (text[end] !== '"') end += text[end] === '\\' ? 2 : 1;
      out += text.slice(at, end + 1);
      at = end + 1;
      continue;
    }
    at++;
    if ((c === '{' || c === '[') && text[at] === (c === '{' ? '}' : ']')) { out += c + text[at++]; continue; }
    if (c === '{' || c === '[') { out += c; depth++; breakLine(); continue; }
    if (c === '}' || c === ']') { depth--; breakLine(); out += c; continue; }
    if (c === ',') { out += c; breakLine(); continue; }
    out += c === ':' ? ': ' : c;
  }
  return out;
}

// follow keeps the rows up to date with the server for as long as the page is open. update is
// called after each change, and state with what to say about the connection.
async function follow(update, state) {
  const traces = new Map(); // trace → {change, rows}
  let cursor = '', failures = 0;
  for (;;) {
    try {
      const query = new URLSearchParams(cursor ? {cursor, wait: 20} : {});
      const response = await fetch('runs?' + query, {cache: 'no-store'});
      if (!response.ok) throw new Error('status ' + response.status);
      const answer = await response.json();
      failures = 0;
      cursor = answer.cursor;
      state('live');
      if (merge(traces, answer) || !data.loaded) {
        data.loaded = !answer.more;
        setRows([...traces.values()].flatMap(t => t.rows));
        update();
      }
    } catch {
      failures++;
      state('lost');
      await new Promise(done => setTimeout(done, Math.min(10000, 500 * 2 ** Math.min(failures, 5))));
    }
  }
}

// merge applies an answer, and reports whether it changed anything.
function merge(traces, answer) {
  let changed = answer.reset && traces.size > 0;
  if (answer.reset) traces.clear();
  for (const t of answer.traces) {
    for (const row of t.rows) row.change = t.change;
    traces.set(t.trace, {change: t.change, rows: t.rows});
    changed = true;
  }
  data.dropped = answer.dropped;
  if (answer.oldest !== data.oldest) {
    data.oldest = answer.oldest;
    for (const [id, t] of traces) {
      if (t.change < answer.oldest) { traces.delete(id); changed = true; }
    }
  }
  return changed;
}

// A run: the verdict in words, what to do next, the picture, and the facts to unfold.

const detailPane = byId('detail');
let current = null; // what is shown: {key, run, text}

// showRun shows the run of a row, or what to say instead of one.
async function showRun(row) {
  if (!row) { current = null; detailPane.replaceChildren(placeholder()); return; }
  let found = null, wrong = '';
  try { found = await openRun(row); } catch { wrong = 'The run could not be read.'; }
  if (runList.selected !== row.key) return; // another one has been selected since
  if (!found) {
    current = null;
    detailPane.replaceChildren(...heading(row, null), el('p', {class: 'note'}, wrong || (meta.live ? 'This run is no longer in memory.' :
      `This file has no room for the details of this run. It has those of ${number(meta.details)} of ${number(meta.total)} runs: of those that failed first, and of the newest.`)));
    return;
  }
  const again = current && current.key === row.key;
  const unfolded = again ? [...detailPane.querySelectorAll('details[open]')].map(d => d.id) : [];
  const top = again ? detailPane.scrollTop : 0;
  const run = runOf(found.record);
  current = {key: row.key, row, run, text: found.text, width: 0};
  detailPane.replaceChildren(...heading(row, run), ...nextSteps(run), drawing(run), ...folds(run, found, row));
  for (const id of unfolded) { const d = byId(id); if (d) d.open = true; }
  detailPane.scrollTop = top;
  redraw();
}

function placeholder() {
  return el('p', {class: 'note center'}, data.rows.length ? 'Select a run to see what happened in it.' : '');
}

// heading says what happened: the verdict's first sentence large, and the rest of it below.
function heading(row, run) {
  const rec = run && run.rec;
  const summary = rec ? attr(rec, 'llm.failure.summary') : '';
  const cut = summary ? firstSentence(show(summary, 600)) : [healthy(row), [row.asked && `The same was asked ${row.asked} times although the answer came whole.`, run && madeGood(run)].filter(Boolean).join(' ')];
  const where = [
    run && run.kind === 'run' ? plural(run.requests.length, 'model call') + (run.tools.length ? ', ' + plural(run.tools.length, 'tool') : '') : '',
    rec && attr(rec, 'llm.run.inferred') ? 'inferred run' : '',
    rec && fromFile(rec) ? 'from the session file' : '',
    row.dur > 0 ? 'took ' + took(row.dur) : '',
    day(row.start) + ', ' + clock(row.start),
  ].filter(Boolean).join(' · ');
  return [el('header', {class: 'head'},
    el('div', {class: 'bar1'},
      el('button', {type: 'button', class: 'quiet back', onclick: back}, '← Runs'),
      el('p', {class: 'badge', 'data-outcome': row.outcome}, sign(row.outcome), words('outcome', row.outcome),
        row.class && el('span', {class: 'of'}, words('class', row.class) === words('outcome', row.outcome) ? words('cause', row.cause) : words('class', row.class))),
      run && el('button', {type: 'button', class: 'quiet', id: 'copy', onclick: copy}, 'Copy JSON')),
    el('h2', {dir: 'auto'}, cut[0]),
    cut[1] && el('p', {class: 'rest', dir: 'auto'}, cut[1]),
    el('p', {class: 'where'}, row.agent && [el('strong', {}, bdi(row.agent, 80)), ' · '],
      list(row.models).map((m, i) => [i > 0 ? ', ' : '', bdi(m, 80)]), row.models && ' · ', where))];
}

function firstSentence(text) {
  const at = text.search(/\.\s+[A-Z]/);
  return at < 0 ? [text, ''] : [text.slice(0, at + 1), text.slice(at + 1).trim()];
}

function healthy(row) {
  if (row.lone && row.outcome === 'incomplete') return 'The answer was a redirect, and no other came.';
  if (row.outcome === 'succeeded') return row.lone ? 'The model call was answered.' : 'The run succeeded.';
  if (row.outcome === 'recovered') return 'The run recovered' + (row.recovered ? ' from ' + plural(row.recovered, 'failure') : '') + ' and succeeded.';
  if (row.outcome === 'waiting') return 'The run waits for a person or for a background job.';
  if (row.outcome === 'open') return 'The run has not ended yet.';
  return upperFirst(words('outcome', row.outcome)) + '.';
}

// madeGood says what a run recovered from.
function madeGood(run) {
  if (attr(run.rec, 'llm.run.outcome') !== 'recovered') return '';
  const parts = [...run.requests, ...run.tools].filter(p => p.failed);
  const names = [...new Set(parts.map(p => words('class', p.failed) + ' (' + causeOf(p.rec) + ')'))].slice(0, 4);
  return names.length ? 'What failed on the way: ' + names.join(', ') + (attr(run.rec, 'llm.run.warning') ? '.' : '. There is nothing to do.') : '';
}

// nextSteps says what may be repeated, and what would happen twice.
function nextSteps(run) {
  if (['succeeded', 'recovered'].includes(attr(run.rec, 'llm.run.outcome'))) {
    const warning = warned(run);
    return warning ? [el('section', {class: 'next', 'aria-label': 'What to look at'}, el('h3', {}, 'What to look at'), warning)] : [];
  }
  const safety = attr(run.rec, 'llm.retry.safety');
  const lone = run.kind !== 'run';
  const rows = [];
  if (safety) rows.push(advice(lone ? 'Send this request again' : 'Repeat the whole run', run.rec));
  if (!lone) {
    const failed = run.requests.filter(p => p.failed && attr(p.rec, 'llm.retry.safety'));
    const last = failed.at(-1);
    if (last) rows.push(advice('Send model call ' + last.index + ' again', last.rec));
    const tool = run.tools.filter(t => t.failed && attr(t.rec, 'llm.retry.safety')).at(-1);
    if (tool) rows.push(advice(['Run ', bdi(tool.label, 60), ' again'], tool.rec));
  }
  if (!rows.length) return [];
  const notes = [twice(run, safety), waits(run), lost(run), warned(run)].filter(Boolean);
  return [el('section', {class: 'next', 'aria-label': 'What to do next'}, el('h3', {}, 'What to do next'), el('div', {class: 'advices'}, rows), notes)];
}

function advice(what, rec) {
  const safety = attr(rec, 'llm.retry.safety');
  return el('div', {class: 'advice', 'data-safety': safety},
    el('span', {class: 'what'}, what),
    el('span', {class: 'safety'}, sign(safety), words('safety', safety)),
    el('span', {class: 'why'}, words('reason', attr(rec, 'llm.retry.reason'))));
}

// twice names the tools that ran, and what running them again would do.
function twice(run, safety) {
  const ran = ranTools(run);
  if (!safety || !ran.length) return null;
  const byName = new Map();
  for (const t of ran) {
    const key = t.label + '\n' + attr(t.rec, 'llm.tool.effect');
    byName.set(key, {tool: t, n: (byName.get(key)?.n || 0) + 1});
  }
  const named = [...byName.values()].sort((a, b) => harm(b.tool) - harm(a.tool));
  const items = named.slice(0, 12).map(({tool, n}) => el('li', {}, el('code', {}, bdi(tool.label, 60)), n > 1 && ' ×' + n,
    ' ', el('span', {class: harm(tool) > 1 ? 'harm' : 'calm'}, words('effect', attr(tool.rec, 'llm.tool.effect') || 'unknown'))));
  if (named.length > 12) items.push(el('li', {}, plural(named.length - 12, 'more tool')));
  return el('div', {class: 'also'}, el('h4', {}, 'If the run is repeated, these tools would run again'), el('ul', {}, items));
}

const harm = tool => ({non_idempotent: 3, idempotent: 1, read_only: 0})[attr(tool.rec, 'llm.tool.effect')] ?? 2;

function waits(run) {
  const after = [run.rec, ...run.requests.map(p => p.rec)].map(r => attr(r, 'llm.retry.after')).filter(v => v > 0).at(-1);
  return after ? el('p', {class: 'also'}, 'The provider asked to wait ', el('strong', {}, took(after * 1e6)), ' before the next attempt.') : null;
}

function lost(run) {
  const missing = list(attr(run.rec, 'llm.history.missing_outputs'));
  if (!missing.length) return null;
  const name = id => run.tools.find(t => attr(t.rec, 'gen_ai.tool.call.id') === id)?.label;
  return el('p', {class: 'also'}, 'The model never got the output of ', missing.slice(0, 8).map((id, i) => [i > 0 ? ', ' : '', el('code', {}, bdi(name(id) || id, 60))]), '.');
}

// warned says what a tool may have done without the model's knowledge.
function warned(run) {
  const text = attr(run.rec, 'llm.run.warning');
  return text ? el('p', {class: 'also'}, bdi(text, 512)) : null;
}

function drawing(run) {
  return el('section', {class: 'drawing', 'aria-label': 'Picture'}, el('div', {id: 'canvas', onkeydown: pictureKey}), legend(run));
}

function legend(run) {
  const item = (name, text) => el('span', {}, svg('svg', {width: 18, height: 10, class: 'key', 'aria-hidden': 'true'},
    svg('g', {class: name}, svg('rect', {class: 'body', x: .5, y: .5, width: 17, height: 9, rx: 2}), name.includes('flowing') && ['flow ', 'texture '].map(c => svg('rect', {class: c + name.split(' ').at(-1), x: .5, y: .5, width: 17, height: 9, rx: 2})), name.includes('silence') && svg('rect', {class: 'fill', x: .5, y: .5, width: 17, height: 9, rx: 2}))), text);
  const phase = (kind, text) => run.requests.some(p => p.phases?.some(ph => ph.kind === kind)) && item('bar request flowing ' + kind, text);
  const silent = (why, text) => run.silence.some(s => s.why === why && s.to - s.from > (run.to - run.from) / 50) && item('silence ' + why, text);
  return el('p', {class: 'legend'}, run.requests.some(p => p.observed) ? [item('bar request', 'waiting or silent'), phase('reasoning', 'reasoning'), phase('text', 'writing'), phase('toolcall', 'writing a tool call')] :
    item('bar request full', 'model call'), silent('idle', 'nothing ran'), run.tools.length > 0 && item('bar tool full', 'tool'), run.breaks.some(b => !soft(b.part.failed)) && el('span', {}, svg('svg', {width: 10, height: 10, class: 'key', 'aria-hidden': 'true'}, svg('path', {class: 'cross', d: 'M1 1l8 8m0-8l-8 8'})), 'failure'));
}

// redraw draws the picture at the width that there is.
function redraw() {
  const canvas = byId('canvas');
  if (!canvas || !current) return;
  const width = Math.floor(canvas.clientWidth);
  if (!width || width === current.width) return; // a resize that changes nothing
  current.width = width;
  canvas.replaceChildren(picture(current.run, width, unfold));
  const first = canvas.querySelector('.bar.failed') || canvas.querySelector('.bar');
  if (first) first.setAttribute('tabindex', 0);
}

// pictureKey moves between the bars: only one of them is a stop of the Tab key.
function pictureKey(event) {
  const bars = [...byId('canvas').querySelectorAll('.bar')];
  const at = bars.indexOf(document.activeElement);
  if (at < 0) return;
  const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: bars.length - 1}[event.key];
  if (event.key === 'Enter' || event.key === ' ') document.activeElement.dispatchEvent(new MouseEvent('click'));
  else if (to === undefined) return;
  else if (bars[to]) {
    bars[at].setAttribute('tabindex', -1);
    bars[to].setAttribute('tabindex', 0);
    bars[to].focus();
  }
  event.preventDefault();
  event.stopPropagation();
}

function unfold(part) {
  const steps = byId('fold-steps');
  steps.open = true;
  steps.make();
  const node = byId('step-' + part.kind + '-' + part.index);
  if (!node) return;
  node.open = true;
  node.firstChild.focus({preventScroll: true});
  node.scrollIntoView({block: 'nearest'});
}

function fold(id, title, count, body, open) {
  const node = el('details', {class: 'fold', id, open}, el('summary', {}, title, count !== '' && el('span', {class: 'n'}, count)));
  let made = false;
  const make = () => { if (!made && node.open) { made = true; node.append(body()); } };
  node.make = make; // the event comes later
  node.addEventListener('toggle', make);
  make();
  return node;
}

function folds(run, found, row) {
  const rec = run.rec;
  const steps = run.requests.length + run.tools.length + run.served.length;
  const timeline = list(attr(rec, 'llm.run.timeline'));
  const evidence = list(attr(rec, 'llm.failure.evidence')), missing = list(attr(rec, 'llm.failure.missing_evidence'));
  const out = [];
  if (found.left_out) out.push(el('p', {class: 'note'}, `This run is too large to show in full: ${plural(found.left_out, 'part')} are left out.`));
  out.push(fold('fold-steps', 'Steps', number(steps), () => stepsOf(run, 'step-'), steps <= 12));
  if (timeline.length) out.push(fold('fold-timeline', 'Timeline', number(timeline.length), () => el('ol', {class: 'timeline'}, timeline.slice(0, 64).map(l => el('li', {}, bdi(l))))));
  if (row.class) out.push(fold('fold-evidence', 'Evidence', number(evidence.length), () => proof(rec, evidence, missing)));
  out.push(fold('fold-attributes', 'Attributes', number(Object.keys(rec.attributes || {}).length), () => facts(rec, run.from)));
  out.push(fold('fold-json', 'JSON', '', () => el('pre', {tabindex: 0, 'aria-label': 'JSON'}, jsonText(found.text))));
  out.push(el('p', {class: 'ids'}, 'trace ', el('code', {}, show(rec.trace_id, 40)), rec.service ? [' · service ', bdi(rec.service, 80)] : ''));
  return out;
}

function jsonText(text) {
  const whole = pretty(text);
  return whole.length <= 200000 ? whole : whole.slice(0, 200000) + '\n… The rest is in the copy.';
}

function proof(rec, evidence, missing) {
  const origin = attr(rec, 'llm.failure.origin'), sure = attr(rec, 'llm.failure.confidence');
  return el('div', {class: 'facts'},
    el('p', {}, origin && ['Caused by ', el('strong', {}, words('origin', origin)), '. '], sure && ['Confidence: ', el('strong', {}, words('confidence', sure)), '.']),
    el('ul', {class: 'evidence'}, evidence.slice(0, 64).map(e => el('li', {}, el('code', {}, bdi(e))))),
    missing.length > 0 && [el('h4', {}, 'Would have made it surer'), el('ul', {class: 'evidence'}, missing.slice(0, 64).map(e => el('li', {}, el('code', {}, bdi(e)))))]);
}

async function copy() {
  if (!current) return;
  const text = pretty(current.text);
  let done = true;
  try { await navigator.clipboard.writeText(text); } catch { done = copyOld(text); }
  const button = byId('copy');
  if (!button) return;
  button.textContent = done ? 'Copied' : 'Copy failed';
  setTimeout(() => { if (button.isConnected) button.textContent = 'Copy JSON'; }, 1600);
}

// copyOld copies where the page has no clipboard, as a file in some browsers.
function copyOld(text) {
  const area = el('textarea', {class: 'hide'});
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  return done;
}

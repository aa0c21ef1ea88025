// The filters, the keys, and how the page begins.

const narrow = matchMedia('(max-width: 760px)');

// refresh shows the rows that pass the filters.
function refresh() {
  runList.keep(() => drawFilters(applyFilter()));
  const empty = data.shown.length === 0;
  document.body.classList.toggle('empty', data.rows.length === 0);
  byId('list').hidden = empty;
  byId('none').hidden = !empty;
  if (empty) byId('none').replaceChildren(...nothing());
  byId('count').textContent = countText();
  if (!narrow.matches && !data.byKey.has(runList.selected) && data.shown.length) select(firstOf(data.shown).key, true);
  else if (!data.rows.length) showRun(null);
}

// firstOf returns the run that a reader looks for: the newest that failed, else the newest that is
// incomplete, else the newest.
const firstOf = rows => ['failed', 'incomplete'].map(outcome => rows.find(row => row.outcome === outcome)).find(Boolean) || rows[0];

function countText() {
  const all = data.rows.length;
  const text = filtered() ? `${number(data.shown.length)} of ${plural(all, 'run')}` : plural(all, 'run');
  const older = meta.total - all;
  if (!meta.live && older > 0) return `${text}, the newest; ${number(older)} older are left out`;
  if (data.dropped > 0) return `${text}; older ones are forgotten`;
  return all ? text : '';
}

// nothing says why the list is empty, and what to do.
function nothing() {
  if (data.rows.length) {
    return [el('p', {}, 'No run matches these filters.'), el('button', {type: 'button', onclick: clearFilters}, 'Clear the filters')];
  }
  if (meta.live && !data.loaded) return [el('p', {}, 'Reading the runs…')];
  return [el('p', {}, meta.live ? 'No runs yet. A run appears here as soon as it has ended.' : 'There are no runs in this file.'),
    el('p', {}, 'Start an agent like this, and its model calls are seen:'), el('pre', {}, 'otelllm run -- codex exec "fix the test"')];
}

const outcomeOrder = ['failed', 'incomplete', 'open', 'waiting', 'limited', 'aborted', 'recovered', 'succeeded'];

function drawFilters(counts) {
  const f = data.filter;
  const names = [...new Set([...outcomeOrder.filter(o => counts.outcome.has(o)), ...counts.outcome.keys(), ...(f.outcome ? [f.outcome] : [])])].slice(0, 12);
  const focused = document.activeElement?.dataset?.outcome;
  byId('outcomes').replaceChildren(...names.map(name => el('button', {type: 'button', class: 'chip', 'data-outcome': name, 'aria-pressed': String(f.outcome === name),
    onclick: () => setFilter('outcome', f.outcome === name ? '' : name)}, sign(name), words('outcome', name), el('span', {class: 'n'}, number(counts.outcome.get(name) || 0)))));
  if (focused) [...byId('outcomes').children].find(c => c.dataset.outcome === focused)?.focus();
  options('class', 'All classes', counts.class, v => words('class', v));
  options('agent', 'All agents', counts.agent, v => show(v, 60));
  options('model', 'All models', counts.model, v => show(v, 60));
}

const maxOptions = 200;

function options(id, all, counts, text) {
  const select = byId(id), chosen = data.filter[id];
  const values = [...counts].sort((a, b) => b[1] - a[1]).slice(0, maxOptions);
  if (chosen && !values.some(([v]) => v === chosen)) values.push([chosen, 0]);
  const key = JSON.stringify([values, chosen]);
  if (select.drawn === key) return;
  select.drawn = key;
  select.replaceChildren(el('option', {value: ''}, all), ...values.map(([v, n]) => el('option', {value: v, selected: v === chosen}, `${text(v)} (${number(n)})`)),
    ...(counts.size > maxOptions ? [el('option', {disabled: true}, `${number(counts.size - maxOptions)} more: search for them`)] : []));
  select.classList.toggle('on', chosen !== '');
}

function setFilter(name, value) {
  data.filter[name] = value;
  byId('list').scrollTop = 0;
  refresh();
}

function clearFilters() {
  for (const name of Object.keys(data.filter)) data.filter[name] = '';
  byId('search').value = '';
  byId('list').scrollTop = 0;
  refresh();
  runList.reveal();
  runList.draw();
}

function select(key, quiet) {
  const row = data.byKey.get(key);
  if (!row) return;
  runList.selected = key;
  if (!quiet || location.hash) {
    try { history.replaceState(null, '', '#' + encodeURIComponent(key)); } catch { /* a browser refuses too many in a short time */ }
  }
  runList.reveal();
  runList.draw();
  return showRun(row);
}

function move(to) {
  const at = Math.min(Math.max(to, 0), data.shown.length - 1);
  if (at >= 0) select(data.shown[at].key);
}

function enter() {
  if (!data.byKey.has(runList.selected)) return;
  document.body.classList.add('open');
  redraw();
  detailPane.focus({preventScroll: true});
}

function back() {
  document.body.classList.remove('open');
  byId('list').focus({preventScroll: true});
}

const schemes = ['', 'light', 'dark'];
const schemeWords = {'': 'Auto', light: 'Light', dark: 'Dark'};
let scheme = '';

function setScheme(value) {
  scheme = schemes.includes(value) ? value : '';
  document.documentElement.dataset.scheme = scheme;
  byId('theme').textContent = '◐ ' + schemeWords[scheme];
  byId('theme').setAttribute('aria-label', 'Colours: ' + schemeWords[scheme]);
  try { localStorage.setItem('otelllm.scheme', scheme); } catch { /* a file may not have it */ }
}

const nextScheme = () => setScheme(schemes[(schemes.indexOf(scheme) + 1) % schemes.length]);

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const target = event.target, typing = target.matches('input, select, textarea');
  const dialog = byId('keys');
  if (dialog.open) { if (event.key === '?') { dialog.close(); event.preventDefault(); } return; }
  if (event.key === 'Escape') { escape(target); return; }
  if (typing) {
    if (target.id === 'search' && ['Enter', 'ArrowDown'].includes(event.key)) { byId('list').focus(); event.preventDefault(); }
    return;
  }
  const inList = !detailPane.contains(target) && !target.matches('button, summary, a');
  const page = Math.max(1, Math.floor(byId('list').clientHeight / rowHeight) - 1);
  const keys = {
    j: () => move(runList.index() + 1), k: () => move(runList.index() - 1),
    '/': () => byId('search').select(), '?': () => dialog.showModal(), c: copy, t: nextScheme,
    ...(inList && {
      ArrowDown: () => move(runList.index() + 1), ArrowUp: () => move(runList.index() - 1),
      PageDown: () => move(runList.index() + page), PageUp: () => move(runList.index() - page),
      Home: () => move(0), End: () => move(data.shown.length - 1), Enter: enter,
    }),
  };
  if (!Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key]();
}

// escape goes one step back: out of the search, out of the run, and then to all runs.
function escape(target) {
  if (target.id === 'search' && target.value) { target.value = ''; setFilter('text', ''); }
  else if (target.id === 'search' || detailPane.contains(target) || document.body.classList.contains('open')) back();
  else if (filtered()) clearFilters();
}

function begin() {
  try { setScheme(localStorage.getItem('otelllm.scheme') || ''); } catch { setScheme(''); }
  byId('theme').addEventListener('click', nextScheme);
  byId('help').addEventListener('click', () => byId('keys').showModal());
  byId('search').addEventListener('input', event => setFilter('text', event.target.value.trim().toLowerCase()));
  for (const id of ['class', 'agent', 'model']) byId(id).addEventListener('change', event => setFilter(id, event.target.value));
  const list = byId('list');
  list.addEventListener('scroll', () => runList.draw(), {passive: true});
  list.addEventListener('click', event => {
    const item = event.target.closest('.row');
    if (!item) return;
    select(item.dataset.key);
    if (narrow.matches) enter();
  });
  document.addEventListener('keydown', onKey);
  new ResizeObserver(() => runList.draw()).observe(list);
  new ResizeObserver(redraw).observe(detailPane);
  addEventListener('hashchange', wanted);
  if (meta.live) live();
  else saved();
}

// wanted selects the run that the address names.
function wanted() {
  let key = '';
  try { key = decodeURIComponent(location.hash.slice(1)); } catch { /* not one of ours */ }
  if (!data.byKey.has(key)) return false;
  select(key);
  if (narrow.matches) document.body.classList.add('open');
  return true;
}

function saved() {
  const written = micros(meta.written);
  byId('status').textContent = `written ${day(written)}, ${clock(written)}`;
  setRows(read('rows'));
  data.loaded = true;
  wanted();
  refresh();
}

function live() {
  let first = true;
  const states = {live: 'Live', lost: 'otelllm has stopped. These runs are what it had seen.'};
  const say = name => {
    const text = states[name];
    const status = byId('status');
    if (status.textContent !== text) status.textContent = text;
    status.dataset.state = name;
  };
  refresh();
  follow(() => {
    const before = current && data.byKey.get(current.key);
    refresh();
    if (first && data.rows.length) { first = false; wanted(); }
    else if (before && before.change !== current.row.change) showRun(before);
  }, say);
}

begin();

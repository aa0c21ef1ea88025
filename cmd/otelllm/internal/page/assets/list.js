// The list draws only the rows that can be seen: it is as fast with 100,000 as with ten.

const rowHeight = 60; // as in the style sheet

const runList = {
  node: byId('list'),
  spacer: byId('spacer'),
  selected: '', // key
  drawn: new Map(),

  // draw draws the rows in view.
  draw() {
    const {node, spacer} = this;
    const count = data.shown.length;
    spacer.style.height = count * rowHeight + 'px';
    const first = Math.max(0, Math.floor(node.scrollTop / rowHeight) - 4);
    const last = Math.min(count, Math.ceil((node.scrollTop + node.clientHeight) / rowHeight) + 4);
    const drawn = new Map();
    for (let i = first; i < last; i++) {
      const row = data.shown[i];
      let item = this.drawn.get(row);
      if (!item) {
        item = rowItem(row);
        spacer.append(item);
      }
      item.style.transform = 'translateY(' + i * rowHeight + 'px)';
      item.id = 'row-' + i;
      item.setAttribute('aria-setsize', count);
      item.setAttribute('aria-posinset', i + 1);
      item.setAttribute('aria-selected', row.key === this.selected);
      drawn.set(row, item);
    }
    for (const [row, item] of this.drawn) if (!drawn.has(row)) item.remove();
    this.drawn = drawn;
    const at = this.index();
    if (at >= first && at < last) node.setAttribute('aria-activedescendant', 'row-' + at);
    else node.removeAttribute('aria-activedescendant');
  },

  index() { return data.shown.findIndex(row => row.key === this.selected); },

  // reveal scrolls as little as needed for the selected row to be in view.
  reveal() {
    const at = this.index();
    if (at < 0) return;
    const {node} = this, top = at * rowHeight;
    if (top < node.scrollTop) node.scrollTop = top;
    else if (top + rowHeight > node.scrollTop + node.clientHeight) node.scrollTop = top + rowHeight - node.clientHeight;
  },

  // keep runs change, which may add rows, and leaves the row at the top of the view where it is.
  keep(change) {
    const {node} = this;
    const top = node.scrollTop;
    const anchor = top > 0 ? data.shown[Math.floor(top / rowHeight)] : undefined;
    change();
    const at = anchor ? data.shown.findIndex(row => row.key === anchor.key) : -1;
    this.spacer.style.height = data.shown.length * rowHeight + 'px';
    if (at >= 0) node.scrollTop = at * rowHeight + top % rowHeight;
    this.draw();
  },
};

function rowItem(row) {
  const what = row.class && row.outcome !== 'recovered' ? words('class', row.class) + cause(row) : did(row);
  const models = list(row.models);
  const item = el('div', {class: 'row', role: 'option', 'data-outcome': row.outcome, 'data-key': row.key},
    sign(row.outcome),
    el('div', {class: 'main'},
      el('div', {class: 'line'}, el('span', {class: 'agent'}, bdi(row.agent || (row.lone ? 'model call' : 'agent'), 80)),
        models.length > 0 && el('span', {class: 'model'}, bdi(models[0], 80), models.length > 1 && ' +' + (models.length - 1))),
      el('div', {class: 'line what'}, el('span', {class: 'hide'}, words('outcome', row.outcome) + ': '), what)),
    el('div', {class: 'when'},
      el('time', {datetime: sane(row.start) ? new Date(row.start / 1000).toISOString() : null}, when(row)),
      el('div', {class: 'took'}, row.open ? 'open' : took(row.dur))));
  return item;
}

const cause = row => row.cause && row.cause !== 'unknown' ? ' · ' + words('cause', row.cause) : '';

// when is the time of day, with the day unless it is that of the newest run.
function when(row) {
  const newest = data.rows[0];
  return (newest && day(newest.start) !== day(row.start) ? shortDay(row.start) + ' ' : '') + clock(row.start);
}

// did says what happened in a run that did not fail.
function did(row) {
  if (row.lone) return 'Model call' + (row.open ? ', not ended' : row.outcome === 'incomplete' ? ', a redirect' : '');
  const parts = [plural(row.requests || 0, 'model call')];
  if (row.tools) parts.push(plural(row.tools, 'tool'));
  const text = parts.join(', ');
  const but = (row.asked ? `, the same ${row.asked} times` : '') + (row.warning ? ', with a warning' : '');
  if (row.outcome === 'recovered') return 'Recovered' + (row.recovered ? ' from ' + plural(row.recovered, 'failure') : '') + but;
  return row.outcome === 'succeeded' ? text + but : words('outcome', row.outcome) + ' · ' + text;
}

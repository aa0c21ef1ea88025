// Elements are made one by one and text is set as text: nothing that a record contains is
// ever read as HTML, and the policy of the page forbids it.

const byId = id => document.getElementById(id);

function build(node, attrs, children) {
  for (const [key, value] of Object.entries(attrs || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter(c => c !== null && c !== undefined && c !== false && c !== ''));
  return node;
}

const el = (tag, attrs, ...children) => build(document.createElement(tag), attrs, children);
const svg = (tag, attrs, ...children) => build(document.createElementNS('http://www.w3.org/2000/svg', tag), attrs, children);

// Characters that draw nothing or turn the direction of what follows.
const invisible = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

// show returns a text from a record as it is shown: with a sign for each invisible character,
// and cut.
function show(value, most = 200) {
  const text = String(value);
  if (text.length <= most) return text.replace(invisible, '\ufffd');
  return text.slice(0, most).replace(invisible, '\ufffd').replace(/[\ud800-\udbff]$/, '') + '… (' + number(text.length) + ' characters)';
}

// bdi isolates a text from a record, so that its direction changes nothing around it.
const bdi = (value, most) => el('bdi', {}, show(value, most));

const numberFormat = new Intl.NumberFormat('en');
const number = n => numberFormat.format(n);
const plural = (n, what) => number(n) + ' ' + what + (n === 1 ? '' : 's');

const read = id => JSON.parse(byId(id).textContent);
const meta = read('meta');

// words returns a value of the vocabulary in plain words.
function words(table, value) {
  if (value === undefined || value === null) return '';
  const known = meta.words[table];
  if (known && Object.hasOwn(known, value)) return known[value];
  return show(value, 60).replaceAll('_', ' ');
}

const upperFirst = text => text.slice(0, 1).toUpperCase() + text.slice(1);

// Signs for outcomes and retries. The shape says it as well as the colour.
const signs = {
  succeeded: 'M3.5 8.5l3 3 6-7',
  recovered: 'M12.5 6A5 5 0 1 0 13 9M13 3v3.5H9.5',
  limited: 'M2.5 8H9M11 3.5v9',
  waiting: 'M5.5 4v8M10.5 4v8',
  failed: 'M4 4l8 8M12 4l-8 8',
  aborted: 'M4 4h8v8H4z',
  incomplete: 'M4 8h.1M8 8h.1M12 8h.1',
  open: 'M8 3a5 5 0 1 1-.1 0zM8 5.5V8l2 1.5',
  safe_auto_retry: 'M12.5 6A5 5 0 1 0 13 9M13 3v3.5H9.5',
  user_confirmed_retry: 'M8 1.500a6.500 6.500 0 1 1-.1 0zM6.200 6.300a1.800 1.800 0 1 1 2.600 1.700c-.6.300-.8.600-.8 1.200M8 11.500h.1',
  no_retry: 'M8 1.500a6.500 6.500 0 1 1-.1 0zM3.500 3.500l9 9',
};

const sign = name => svg('svg', {class: 'sign', viewBox: '0 0 16 16', 'aria-hidden': 'true'},
  svg('path', {d: Object.hasOwn(signs, name) ? signs[name] : signs.incomplete}));

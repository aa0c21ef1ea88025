// The picture of a run: lanes for model calls, tools, silence and gateways on one axis of time.

const barHeight = 22, barGap = 6, laneGap = 18, maxBars = 240, maxLaneRows = 24;

const measure = document.createElement('canvas').getContext('2d');
measure.font = '12px system-ui, sans-serif';
const widthOf = text => measure.measureText(text).width;
const widthOfBold = text => {
  measure.font = '600 12px system-ui, sans-serif';
  const width = widthOf(text);
  measure.font = '12px system-ui, sans-serif';
  return width;
};

const foldWidth = 56;

// scaleOf returns the function from a moment to x: linear, except that a time in which nothing
// ran and that takes a good part of the run, such as the wait for a person, is folded to a fixed
// width.
function scaleOf(run, left, width) {
  const total = Math.max(1, run.to - run.from);
  const folds = run.silence.filter(s => s.why === 'idle' && s.to - s.from > total * .45 && s.to - s.from > 5e6);
  const rest = Math.max(1, total - folds.reduce((sum, f) => sum + f.to - f.from, 0));
  const perMicro = Math.max(1, width - folds.length * foldWidth) / rest;
  const x = t => {
    let at = run.from, px = left;
    for (const f of folds) {
      if (t <= f.from) break;
      px += (f.from - at) * perMicro;
      if (t <= f.to) return px + (t - f.from) / (f.to - f.from) * foldWidth;
      px += foldWidth;
      at = f.to;
    }
    return px + (t - at) * perMicro;
  };
  return Object.assign(x, {folds, rest, perMicro});
}

// picture returns the drawing, width pixels wide. open is called with a part that is chosen.
function picture(run, width, open) {
  const narrow = width < 560;
  const left = narrow ? 1 : 104, right = 14;
  const plot = Math.max(80, width - left - right);
  const x = scaleOf(run, left, plot);
  const main = run.breaks.find(b => b.main);
  const head = main ? 52 : 26; // the flag of the break stands above the axis
  const root = svg('svg', {class: 'picture', width, role: 'group', 'aria-label': pictureLabel(run, main)});
  root.append(patterns());
  const under = svg('g', {}), over = svg('g', {});
  root.append(under, over);

  let y = head + 10;
  for (const lane of lanesOf(run)) {
    const label = svg('text', {class: 'lane', x: narrow ? 1 : 0, y: narrow ? y + 8 : y + (lane.silence ? 11 : 15)}, lane.name);
    over.append(label);
    if (narrow) y += 16;
    y = lane.silence ? drawSilence(over, run, x, y) : drawLane(over, run, lane, x, y, open);
    y += laneGap;
  }
  const bottom = y - laneGap + 8;
  drawAxis(under, x, run, head, bottom, plot);
  for (const b of run.breaks) drawBreak(over, run, b, x(b.at), head, bottom, width);
  root.setAttribute('height', bottom + 2);
  root.setAttribute('viewBox', `0 0 ${width} ${bottom + 2}`);
  return root;
}

function pictureLabel(run, main) {
  const parts = [plural(run.requests.length, 'model call'), plural(run.tools.length, 'tool'), 'over ' + took(run.to - run.from)];
  return 'Picture of the run: ' + parts.join(', ') + (main ? '. Broke at ' + offset(main.at - run.from) + ': ' + main.text : '') + '.';
}

function patterns() {
  const hatch = (id, d) => svg('pattern', {id, width: 6, height: 6, patternUnits: 'userSpaceOnUse'}, svg('path', {d, class: 'hatch'}));
  return svg('defs', {}, hatch('hatch', 'M-1 1l2-2M0 6l6-6M5 7l2-2'), hatch('dots', 'M2 3h1.500'), hatch('specks', 'M1 2h1.200M4 5h1.200'), hatch('stripes', 'M1 0v6M4 0v6'));
}

function lanesOf(run) {
  const lanes = [{name: run.requests.length === 1 ? 'Model call' : 'Model calls', parts: run.requests}];
  if (run.tools.length) lanes.push({name: run.tools.length === 1 ? 'Tool' : 'Tools', parts: run.tools});
  if (run.silence.length) lanes.push({name: 'Silence', silence: true});
  if (run.served.length) lanes.push({name: 'Gateway', parts: run.served});
  return lanes.filter(lane => lane.silence || lane.parts.length);
}

// bounded returns the parts that are drawn: all, or the first, the last and those that failed.
function bounded(parts) {
  if (parts.length <= maxBars) return parts;
  const third = maxBars / 3;
  const keep = new Set([...parts.slice(0, third), ...parts.slice(-third), ...parts.filter(p => p.failed).slice(-third)]);
  return parts.filter(p => keep.has(p));
}

function drawLane(into, run, lane, x, y, open) {
  const perPixel = 1 / x.perMicro;
  const parts = bounded(lane.parts);
  const rows = pack(parts, 4 * perPixel, 3 * perPixel);
  for (const row of rows.slice(0, maxLaneRows)) {
    row.forEach((part, i) => {
      const until = i + 1 < row.length ? x(row[i + 1].from) : x(run.to) + 12;
      into.append(bar(run, part, x, y, until, open));
    });
    y += barHeight + barGap;
  }
  const left = lane.parts.length - rows.slice(0, maxLaneRows).reduce((n, r) => n + r.length, 0);
  if (left > 0) {
    into.append(svg('text', {class: 'more', x: x(run.from), y: y + 10}, plural(left, 'more part') + ' not drawn'));
    y += 18;
  }
  return y - barGap;
}

function bar(run, part, x, y, until, open) {
  const x0 = x(part.from), x1 = Math.max(x(part.to), x0 + 3);
  const group = svg('g', {class: 'bar ' + part.kind + (part.failed ? ' failed' : '') + (soft(part.failed) ? ' soft' : ''), role: 'button', tabindex: -1, 'aria-label': barLabel(run, part),
    'data-part': part.kind + '-' + part.index, onclick: () => open(part)});
  group.append(svg('title', {}, barLabel(run, part)));
  group.append(svg('rect', {class: 'hit', x: x0 - 2, y: y - 2, width: x1 - x0 + 4, height: barHeight + 4, rx: 5}));
  group.append(svg('rect', {class: 'body', x: x0, y, width: x1 - x0, height: barHeight, rx: Math.min(4, (x1 - x0) / 2)}));
  if (part.kind !== 'tool' && (part.first > part.from || part.last < part.to)) {
    group.append(...flowing(part, x, y));
  } else {
    group.classList.add('full');
  }
  if (part.failed) group.append(svg('path', {class: 'cross', d: `M${x1 - 4} ${y + barHeight / 2 - 4}` + markOf(part.failed)}));
  label(group, run, part, x0, x1, y, until);
  return group;
}

// markOf is the mark of a failure: a cross, or for what is none a square.
const markOf = cls => soft(cls) ? 'h8v8h-8z' : 'l8 8m0-8l-8 8';

// flowing draws what the model sent when: from the moment that it began to reason, to write, or
// to write a tool call, until the next of these, and at the latest until its last progress.
function flowing(part, x, y) {
  const phases = part.phases.length ? part.phases : [{kind: 'text', at: part.first}];
  return phases.map((phase, i) => {
    const from = x(Math.max(part.first, phase.at)), to = x(Math.min(part.last, i + 1 < phases.length ? phases[i + 1].at : part.last));
    if (to - from < .5) return [];
    const box = {x: from, y: y + 1, width: to - from, height: barHeight - 2};
    return [svg('rect', {class: 'flow ' + phase.kind, ...box}), svg('rect', {class: 'texture ' + phase.kind, ...box})];
  }).flat();
}

// label writes a part's name into its bar, or behind it, if there is room.
function label(group, run, part, x0, x1, y, until) {
  const name = part.kind === 'tool' ? show(part.label, 40) : part.index + (run.sameModel ? '' : ' ' + show(part.label, 40)) + (part.attempt > 1 ? ' · attempt ' + part.attempt : '');
  const width = widthOf(name);
  const inside = width + 14 <= x1 - x0 - (part.failed ? 8 : 0);
  if (!inside && x1 + (part.failed ? 8 : 4) + width + 6 > until) return;
  group.append(svg('text', {class: inside ? 'in' : 'out', x: inside ? x0 + 7 : x1 + (part.failed ? 9 : 5), y: y + 15}, name));
}

function barLabel(run, part) {
  const kind = {request: 'Model call ', tool: 'Tool ', served: 'Gateway call '}[part.kind] + part.index;
  const ended = part.open ? 'open' : offset(part.to - run.from) + ', ' + took(part.to - part.from);
  return `${kind}: ${show(part.label, 80)}${part.attempt > 1 ? ', attempt ' + part.attempt : ''}, ${offset(part.from - run.from)} to ${ended}` +
    (part.failed ? '. Failed: ' + causeOf(part.rec) : '');
}

function drawSilence(into, run, x, y) {
  for (const s of run.silence) {
    const x0 = x(s.from), w = x(s.to) - x0;
    if (w < 2) continue;
    const text = took(s.to - s.from) + ' ' + silenceWords[s.why];
    const group = svg('g', {class: 'silence ' + s.why, role: 'img', 'aria-label': text}, svg('title', {}, text),
      svg('rect', {class: 'body', x: x0 + .5, y, width: Math.max(1, w - 1), height: 14, rx: 2}),
      svg('rect', {class: 'fill', x: x0 + .5, y, width: Math.max(1, w - 1), height: 14, rx: 2}));
    const short = took(s.to - s.from);
    const words = widthOf(text) + 16 <= w ? text : widthOf(short) + 16 <= w ? short : '';
    if (words) {
      const middle = x0 + w / 2, half = widthOf(words) / 2 + 5;
      group.append(svg('rect', {class: 'plate', x: middle - half, y, width: 2 * half, height: 14}), svg('text', {class: 'mid', x: middle, y: y + 11}, words));
    }
    into.append(group);
  }
  return y + 14;
}

function drawAxis(into, x, run, head, bottom, plot) {
  into.append(svg('path', {class: 'axis', d: `M${x(run.from)} ${head}H${x(run.to)}`}));
  for (const f of x.folds) {
    const from = x(f.from), middle = from + foldWidth / 2;
    into.append(svg('rect', {class: 'folded', x: from, y: head, width: foldWidth, height: bottom - head}),
      svg('path', {class: 'zigzag', d: `M${middle - 8} ${head}l4 -5l8 10l4 -5`}), svg('title', {}, took(f.to - f.from) + ' folded'));
  }
  const step = tickStep(x.rest, Math.max(2, plot / 90));
  let last = -Infinity;
  for (let at = 0; at <= run.to - run.from; at += step) {
    const fold = x.folds.find(f => run.from + at > f.from && run.from + at < f.to);
    if (fold) { at = Math.floor((fold.to - run.from) / step) * step; continue; }
    const tx = x(run.from + at);
    if (tx - last < 48) continue;
    last = tx;
    into.append(svg('path', {class: 'grid', d: `M${tx} ${head}V${bottom}`}));
    into.append(svg('text', {class: 'tick', 'data-tick': at, x: tx, y: head - 7, 'text-anchor': at === 0 ? 'start' : tx > x(run.to) - 16 ? 'end' : 'middle'}, tickText(at)));
  }
}

// drawBreak marks a moment of failure: that of the verdict with a line through all lanes and a
// flag that names it, the others with a small mark on the axis.
function drawBreak(into, run, b, x, head, bottom, width) {
  const at = offset(b.at - run.from);
  if (!b.main) {
    into.append(svg('g', {class: 'mark' + (soft(b.part.failed) ? ' soft' : ''), role: 'img', 'aria-label': 'Failure at ' + at + ': ' + b.text, 'data-at': b.at - run.from},
      svg('title', {}, b.text + ', ' + at), svg('path', {d: `M${x} ${head - 3}l4 6h-8z`})));
    return;
  }
  const text = show(b.text, 60) + ' · ' + at;
  const w = Math.min(widthOfBold(text) + 32, width - 2);
  const from = Math.min(Math.max(1, x - 12), width - w - 1);
  const calm = ['recovered', 'succeeded'].includes(attr(run.rec, 'llm.run.outcome'));
  into.append(svg('g', {class: 'break' + (calm ? ' calm' : '') + (soft(run.failed) ? ' soft' : ''), role: 'img', 'aria-label': 'Broke at ' + at + ': ' + b.text, 'data-at': b.at - run.from},
    svg('title', {}, b.text + ', ' + at),
    svg('path', {class: 'stem', d: `M${x} 20V${bottom}`}),
    svg('rect', {class: 'flag', x: from, y: .5, width: w, height: 22, rx: 4}),
    svg('path', {class: 'cross', d: `M${from + 9} 7.5` + markOf(run.failed)}),
    svg('text', {x: from + 22, y: 16}, text)));
}

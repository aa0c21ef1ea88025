// Draws one dashboard with Grafana's own components, over a real Prometheus and Tempo. What Grafana itself does around them
// (variables, steps, data frames, the grid, annotations) is written here. README.md says what is not drawn as Grafana does.
import React from 'react';
import { createRoot } from 'react-dom/client';
import { interpolateOranges } from 'd3-scale-chromatic';
import { lastValueFrom } from 'rxjs';
import {
  applyFieldOverrides, cacheFieldDisplayNames, createTheme, dateTime, FieldConfigOptionsRegistry, FieldType, formattedValueToString,
  getDisplayValueAlignmentFactors, getFieldDisplayValues, getValueFormat, rangeUtil, renderTextPanelMarkdown, standardTransformers,
  standardTransformersRegistry, ThemeContext, toDataFrame, transformDataFrame,
} from '@grafana/data';
import {
  AxisPlacement, BarGauge, BigValue, GlobalStyles, Icon, PanelChrome, RefreshPicker, TimeRangePicker, TimeSeries, UPlotChart,
  UPlotConfigBuilder, VizRepeater,
} from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';

const query = new URLSearchParams(location.search);
const theme = createTheme({ colors: { mode: query.get('theme') } });
const to = Number(query.get('to')), from = Number(query.get('from')); // seconds
const timeZone = 'utc';
const timeRange = { from: dateTime(from * 1000), to: dateTime(to * 1000), raw: { from: query.get('raw'), to: 'now' } };
const get = async (url) => {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${decodeURIComponent(url.replaceAll('+', ' '))}: ${await response.text()}`);
  return response.json();
};
const dashboard = await get(`/dashboards/${query.get('dashboard')}`);
if (!query.has('tempo')) { // without a Tempo, the tables of traces and the rows that have nothing else are left out
  const left = dashboard.panels.filter((p) => p.datasource?.type !== 'tempo');
  dashboard.panels = left.filter((p, i) => p.type !== 'row' || p.collapsed || (left[i + 1] && left[i + 1].type !== 'row'));
}
const scrapeInterval = query.get('scrape'); // the data source's timeInterval

// Variables: everything is selected, as when a dashboard is opened.
const variables = new Map();
for (const v of dashboard.templating.list) {
  const all = v.includeAll && (v.current?.value ?? '$__all') === '$__all';
  variables.set(v.name, all ? { value: v.allValue ?? '.*', text: 'All' } : { value: v.current?.value ?? v.query, text: v.current?.text ?? v.query });
}
const replace = (text, valueOf) => text?.replace(/\$(\w+)|\$\{(\w+)(?::\w+)?\}/g, (whole, a, b) => valueOf(a ?? b) ?? whole);
const inQuery = (text, more = {}) => replace(text, (name) => more[name] ?? variables.get(name)?.value);
const inText = (text) => replace(text, (name) => variables.get(name)?.text);

// Data frames, as Grafana's data sources make them.
const number = (s) => ({ '+Inf': Infinity, '-Inf': -Infinity })[s] ?? Number(s);
const stepFor = (maxPoints, least) => Math.ceil(rangeUtil.calculateInterval(timeRange, maxPoints, least).intervalMs / 1000);
const promQL = (expr, step) => {
  const rate = Math.max(step + rangeUtil.intervalToSeconds(scrapeInterval), 4 * rangeUtil.intervalToSeconds(scrapeInterval));
  return inQuery(expr, { __rate_interval: rate + 's', __interval: step + 's', __range: to - from + 's', __range_s: String(to - from) });
};
const prometheus = async (path, parameters) => (await get(`/prometheus/api/v1/${path}?` + new URLSearchParams(parameters))).data.result;
const rangeQuery = (expr, step) => {
  const align = (t) => Math.floor(t / step) * step;
  return prometheus('query_range', { query: promQL(expr, step), start: align(from), end: align(to), step });
};
const seriesName = (format, labels, expr) => {
  if (format && format !== '__auto') return format.replace(/\{\{\s*([\w.]+)\s*\}\}/g, (_, label) => labels[label] ?? '');
  const { __name__: name = '', ...rest } = labels;
  if (format === '__auto' && Object.keys(rest).length === 1) return Object.values(rest)[0];
  const pairs = Object.entries(rest).map(([k, v]) => `${k}="${v}"`);
  return pairs.length ? `${name}{${pairs.join(', ')}}` : name || expr;
};
const seriesFrame = (target, labels, points, step) => {
  const name = seriesName(target.legendFormat, labels, target.expr);
  return toDataFrame({
    refId: target.refId, name,
    fields: [
      { name: 'Time', type: FieldType.time, values: points.map(([t]) => t * 1000), config: { interval: step * 1000 } },
      { name: 'Value', type: FieldType.number, values: points.map(([, v]) => number(v)), labels, config: { displayNameFromDS: name } },
    ],
  });
};
const tableFrame = (target, result, valueName) => {
  const labels = [...new Set(result.flatMap((s) => Object.keys(s.metric)))].sort();
  return toDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: result.map((s) => s.value[0] * 1000) },
      ...labels.map((l) => ({ name: l, type: FieldType.string, values: result.map((s) => s.metric[l] ?? ''), config: { filterable: true } })),
      { name: valueName, type: FieldType.number, values: result.map((s) => number(s.value[1])) },
    ],
  });
};
// The buckets of a histogram, in their order, each without those below it.
const buckets = (frames) => {
  const bound = (f) => number(f.fields[1].labels.le);
  frames.sort((a, b) => bound(a) - bound(b));
  for (let i = frames.length - 1; i > 0; i--) {
    const below = new Map(frames[i - 1].fields[0].values.map((t, j) => [t, frames[i - 1].fields[1].values[j]]));
    frames[i].fields[1].values = frames[i].fields[1].values.map((v, j) => v - (below.get(frames[i].fields[0].values[j]) ?? 0));
  }
  return frames;
};
async function fromPrometheus(target, width, several) {
  const step = stepFor(target.maxDataPoints ?? width, target.interval || scrapeInterval);
  if (target.range) {
    const frames = (await rangeQuery(target.expr, step)).map((s) => seriesFrame(target, s.metric, s.values, step));
    return target.format === 'heatmap' ? buckets(frames) : frames;
  }
  const result = await prometheus('query', { query: promQL(target.expr, step), time: to });
  if (target.format === 'table') return result.length ? [tableFrame(target, result, several ? `Value #${target.refId}` : 'Value')] : [];
  return result.map((s) => seriesFrame(target, s.metric, [s.value], step));
}
// The tables of Grafana's Tempo data source: traces, or spans with a column for each attribute that the query selects.
async function fromTempo(target) {
  const answer = await get('/tempo/api/search?' + new URLSearchParams({ q: inQuery(target.query), start: from, end: to, limit: target.limit ?? 20, spss: target.spss ?? 3 }));
  const traces = answer.traces ?? [];
  const milliseconds = (nanoseconds) => Number(BigInt(nanoseconds) / 1000000n);
  const id = (title) => ({ unit: 'string', links: [{ title, url: '#' }] });
  if (target.tableType !== 'spans') {
    return [toDataFrame({ refId: target.refId, fields: [
      { name: 'Trace ID', type: FieldType.string, values: traces.map((t) => t.traceID), config: id('Trace') },
      { name: 'Start time', type: FieldType.time, values: traces.map((t) => milliseconds(t.startTimeUnixNano)) },
      { name: 'Service', type: FieldType.string, values: traces.map((t) => t.rootServiceName ?? '') },
      { name: 'Name', type: FieldType.string, values: traces.map((t) => t.rootTraceName ?? '') },
      { name: 'Duration', type: FieldType.number, values: traces.map((t) => t.durationMs ?? 0), config: { unit: 'ms' } },
    ] })];
  }
  const spans = traces.flatMap((t) => (t.spanSets ?? [t.spanSet]).flatMap((set) => set.spans).map((span) => {
    const attributes = Object.fromEntries((span.attributes ?? []).map((a) => [a.key, Object.values(a.value)[0]]));
    return { ...span, trace: t, attributes };
  }));
  const names = [...new Set(spans.flatMap((s) => Object.keys(s.attributes)))].sort();
  return [toDataFrame({ refId: target.refId, fields: [
    { name: 'traceIdHidden', type: FieldType.string, values: spans.map((s) => s.trace.traceID), config: { custom: { hidden: true, hideFrom: { viz: true } } } },
    { name: 'Trace Service', type: FieldType.string, values: spans.map((s) => s.trace.rootServiceName ?? '') },
    { name: 'Trace Name', type: FieldType.string, values: spans.map((s) => s.trace.rootTraceName ?? '') },
    { name: 'Span ID', type: FieldType.string, values: spans.map((s) => s.spanID), config: id('Span') },
    { name: 'Start time', type: FieldType.time, values: spans.map((s) => milliseconds(s.startTimeUnixNano)) },
    ...(spans.some((s) => s.name) ? [{ name: 'Name', type: FieldType.string, values: spans.map((s) => s.name ?? '') }] : []),
    ...names.map((n) => ({ name: n, type: FieldType.string, values: spans.map((s) => s.attributes[n] ?? '') })),
    { name: 'Duration', type: FieldType.number, values: spans.map((s) => Number(s.durationNanos)), config: { unit: 'ns' } },
  ] })];
}

// Options of fields. Grafana registers an editor for each; here all are taken as they are written.
standardTransformersRegistry.setInit(() => {
  const known = new Map(Object.values(standardTransformers).map((t) => [t.id, { id: t.id, name: t.name, transformation: t }]));
  return [...known.values()];
});
const asWritten = (id, path, isCustom) => ({ id, path, name: id, isCustom, process: (v) => v, shouldApply: () => true, getItemsCount: () => 0 });
function fieldOptions(fieldConfig) {
  const registry = new FieldConfigOptionsRegistry();
  const custom = Object.keys(fieldConfig.defaults.custom ?? {}).map((k) => 'custom.' + k);
  const overridden = fieldConfig.overrides.flatMap((o) => o.properties.map((p) => p.id));
  for (const id of new Set([...Object.keys(fieldConfig.defaults).filter((k) => k !== 'custom'), ...custom, ...overridden])) {
    registry.register(asWritten(id, id.replace(/^custom\./, ''), id.startsWith('custom.')));
  }
  return registry;
}
// A stored dashboard has null for the first threshold, which has no lower bound.
const unbounded = (thresholds) => thresholds?.steps.forEach((s) => { s.value ??= -Infinity; });

async function load(panel, width) {
  const fieldConfig = { defaults: {}, overrides: [], ...panel.fieldConfig };
  unbounded(fieldConfig.defaults.thresholds);
  for (const o of fieldConfig.overrides) for (const p of o.properties) if (p.id === 'thresholds') unbounded(p.value);
  const targets = (panel.targets ?? []).filter((t) => !t.hide);
  const of = (t) => (t.datasource ?? panel.datasource)?.type;
  const loaded = await Promise.all(targets.map((t) => (of(t) === 'tempo' ? fromTempo(t) : fromPrometheus(t, panel.maxDataPoints ?? width, targets.length > 1))));
  let frames = loaded.flat();
  if (panel.transformations?.length) frames = await lastValueFrom(transformDataFrame(panel.transformations, frames, { interpolate: inText }));
  frames = applyFieldOverrides({ data: frames, fieldConfig, replaceVariables: inText, theme, timeZone, fieldConfigRegistry: fieldOptions(fieldConfig) });
  cacheFieldDisplayNames(frames);
  return frames;
}

// Annotations: times at which a query of Prometheus is above zero, one region for each unbroken stretch.
async function loadAnnotations() {
  const regions = [];
  for (const a of dashboard.annotations.list) {
    if (!a.enable || !a.expr) continue;
    const step = stepFor(100, a.step || '60s');
    for (const s of await rangeQuery(a.expr, step)) {
      let open;
      for (const [t, v] of s.values) {
        if (!(number(v) > 0)) continue;
        if (open && t - open.end <= step) open.end = t;
        else regions.push(open = { start: t, end: t, color: theme.visualization.getColorByName(a.iconColor) });
      }
    }
  }
  return regions;
}
const annotations = await loadAnnotations();
function drawAnnotations(u) {
  const { ctx } = u, { left, top, width, height } = u.bbox;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height + 10);
  ctx.clip();
  for (const { start, end, color } of annotations) {
    const [x0, x1] = [start, end].map((t) => u.valToPos(t * 1000, 'x', true));
    ctx.fillStyle = ctx.strokeStyle = color;
    ctx.globalAlpha = 0.1;
    ctx.fillRect(x0, top, x1 - x0, height);
    ctx.globalAlpha = 1;
    ctx.fillRect(x0, top + height, Math.max(x1 - x0, 4), 5);
    ctx.setLineDash([5, 5]);
    ctx.lineWidth = 2;
    ctx.beginPath();
    for (const x of x0 === x1 ? [x0] : [x0, x1]) { ctx.moveTo(x, top); ctx.lineTo(x, top + height); }
    ctx.stroke();
  }
  ctx.restore();
}

// Panels.
const annotated = new WeakSet();
const finite = (frames) => frames.map((frame) => ({
  ...frame, fields: frame.fields.map((f) => (f.type === FieldType.number ? { ...f, values: f.values.map((v) => (Number.isFinite(v) ? v : null)) } : f)),
}));
const Series = ({ panel, frames, width, height }) => (
  <TimeSeries frames={frames} timeRange={timeRange} timeZone={timeZone} width={width} height={height} legend={panel.options.legend} options={panel.options}>
    {(config) => {
      if (!annotated.has(config)) config.addHook('draw', drawAnnotations);
      annotated.add(config);
      return null;
    }}
  </TimeSeries>
);
const withLabels = (text, scope) => inText(text)?.replace(/\$\{__field\.labels\.(\w+)\}/g, (_, label) => scope?.__dataContext?.value.field.labels?.[label] ?? '');
const displayValues = (panel, frames, sparkline) => getFieldDisplayValues({
  fieldConfig: panel.fieldConfig, reduceOptions: panel.options.reduceOptions, replaceVariables: withLabels, theme, data: frames, sparkline, timeZone,
});
function Stat({ panel, frames, width, height }) {
  const o = panel.options;
  const one = ({ value, width, height, count, alignmentFactors }) => (
    <BigValue value={value.display} count={count} sparkline={value.sparkline} colorMode={o.colorMode} graphMode={o.graphMode} justifyMode={o.justifyMode}
      textMode={o.textMode} alignmentFactors={alignmentFactors} text={o.text} width={width} height={height} theme={theme} disableWideLayout={!o.wideLayout} />
  );
  return <VizRepeater getValues={() => displayValues(panel, frames, o.graphMode !== 'none')} getAlignmentFactors={getDisplayValueAlignmentFactors} renderValue={one}
    width={width} height={height} source={frames} itemSpacing={3} renderCounter={0} autoGrid orientation={o.orientation} />;
}
function Bars({ panel, frames, width, height }) {
  const o = panel.options, { minVizWidth, minVizHeight, maxVizHeight } = o.sizing === 'manual' ? o : { minVizWidth: 8, minVizHeight: 16, maxVizHeight: 300 };
  // Grafana leaves out the name of a single bar, unless the panel sets it.
  const named = (value, count) => (count > 1 || value.field.displayName ? value.display : { ...value.display, title: undefined });
  const one = ({ value, width, height, count, orientation, alignmentFactors }) => (
    <BarGauge value={named(value, count)} width={width} height={height} orientation={orientation} field={value.field} text={o.text}
      display={value.view?.getFieldDisplayProcessor(value.colIndex)} theme={theme} itemSpacing={10} displayMode={o.displayMode}
      alignmentFactors={count > 1 ? alignmentFactors : undefined} showUnfilled={o.showUnfilled} valueDisplayMode={o.valueMode}
      namePlacement={o.namePlacement} />
  );
  return <VizRepeater getValues={() => displayValues(panel, frames, false)} getAlignmentFactors={getDisplayValueAlignmentFactors} renderValue={one} width={width}
    height={height} source={frames} renderCounter={0} itemSpacing={10} orientation={o.orientation} minVizWidth={minVizWidth} minVizHeight={minVizHeight} maxVizHeight={maxVizHeight} />;
}
const TablePanel = ({ panel, frames, width, height }) => (
  <TableNG data={frames[panel.options.frameIndex ?? 0] ?? frames[0]} width={width} height={height} noHeader={!panel.options.showHeader} cellHeight={panel.options.cellHeight}
    sortBy={panel.options.sortBy} fieldConfig={panel.fieldConfig} timeRange={timeRange} structureRev={1} enableVirtualization={false} showTypeIcons={panel.options.showTypeIcons} />
);
// Not among Grafana's published components: the cells are drawn here, the axes are theirs.
function Heatmap({ panel, frames, width, height }) {
  const config = new UPlotConfigBuilder(timeZone), unit = getValueFormat(panel.options.yAxis?.unit ?? 'short');
  const times = [...new Set(frames.flatMap((f) => f.fields[0].values))].sort((a, b) => a - b);
  const step = frames[0].fields[0].config.interval, least = panel.options.filterValues?.le ?? 1e-9;
  const most = Math.max(...frames.flatMap((f) => f.fields[1].values));
  const names = frames.map((f) => { const le = number(f.fields[1].labels.le); return le === Infinity ? '+Inf' : formattedValueToString(unit(le, panel.options.yAxis?.decimals)); });
  config.addScale({ scaleKey: 'x', isTime: true, orientation: 0, direction: 1, range: () => [from * 1000, to * 1000] });
  config.addScale({ scaleKey: 'y', orientation: 1, direction: 1, range: () => [0, frames.length] });
  config.addAxis({ scaleKey: 'x', isTime: true, placement: AxisPlacement.Bottom, timeZone, theme, grid: { show: false } });
  config.addAxis({
    scaleKey: 'y', placement: AxisPlacement.Left, theme, grid: { show: false },
    splits: () => frames.map((_, i) => i + 1).filter((i) => i % Math.ceil(frames.length * 18 / height) === 0), values: (_, at) => at.map((i) => names[i - 1]),
  });
  config.addSeries({ scaleKey: 'y', theme, pathBuilder: () => null, showPoints: 'never' });
  config.addHook('draw', (u) => {
    frames.forEach((f, row) => f.fields[0].values.forEach((t, i) => {
      const v = f.fields[1].values[i];
      if (!(v > least)) return;
      const [x0, x1] = [t - step, t].map((t) => u.valToPos(t, 'x', true)), [y0, y1] = [row, row + 1].map((r) => u.valToPos(r, 'y', true));
      u.ctx.fillStyle = interpolateOranges(theme.isDark ? 1 - v / most : v / most);
      if (x0 >= u.bbox.left - 1) u.ctx.fillRect(x0, y1, Math.max(x1 - x0 - 1, 1), y0 - y1 - 1);
    }));
  });
  config.setPrepData(() => [times, times.map(() => null)]);
  return <UPlotChart config={config} data={[times, times.map(() => null)]} width={width} height={height} />;
}
const TextPanel = ({ panel }) => (
  <div className="markdown-html" style={{ height: '100%', overflow: 'auto' }} dangerouslySetInnerHTML={{ __html: renderTextPanelMarkdown(inText(panel.options.content)) }} />
);
const kinds = { timeseries: Series, stat: Stat, bargauge: Bars, table: TablePanel, heatmap: Heatmap };

const empty = (text) => <div style={{ display: 'grid', placeItems: 'center', height: '100%', color: theme.colors.text.secondary, fontSize: theme.typography.h4.fontSize }}>{text}</div>;
function Body({ panel, frames, width, height }) {
  if (panel.type === 'text') return <TextPanel panel={panel} />;
  if (!frames) return null;
  const Kind = kinds[panel.type];
  if (!frames.some((f) => f.length)) return empty(panel.fieldConfig?.defaults?.noValue ?? 'No data');
  return <Kind panel={panel} frames={frames} width={width} height={height} />;
}
const failed = (panel, error) => { console.error(`${dashboard.title}, ${panel.title}: ${error.message}`); };
class Boundary extends React.Component {
  state = {};
  static getDerivedStateFromError(error) { return { error }; }
  componentDidCatch(error) { failed(this.props.panel, error); }
  render() { return this.state.error ? empty(this.state.error.message) : this.props.children; }
}

// The grid: 24 columns, rows of 30 pixels, 8 between panels, 16 around them.
const gap = 8, margin = 16;
const column = (Number(query.get('width')) - 2 * margin - 23 * gap) / 24;
const place = ({ x, y, w, h }) => ({ left: x * (column + gap), top: y * (30 + gap), width: w * column + (w - 1) * gap, height: h * 30 + (h - 1) * gap });
let waiting = 0, tables = 0;
function Panel({ panel }) {
  const { left, top, width, height } = place(panel.gridPos);
  const [state, set] = React.useState({});
  React.useEffect(() => {
    if (panel.type === 'text') return;
    if (!kinds[panel.type]) { failed(panel, new Error(`panels of type ${panel.type} are not drawn here`)); return; }
    waiting++;
    load(panel, Math.floor(width)).then((frames) => set({ frames: panel.type === 'timeseries' ? finite(frames) : frames }), (error) => { failed(panel, error); set({ error }); });
  }, []);
  React.useEffect(() => {
    if (!state.frames && !state.error) return;
    waiting--; // after it is on the page
    if (panel.type === 'table' && state.frames?.some((f) => f.length)) tables++;
  }, [state]);
  const links = panel.links?.length ? <Icon name="external-link-alt" size="sm" style={{ color: theme.colors.text.secondary, margin: '0 6px' }} /> : undefined;
  return (
    <div style={{ position: 'absolute', left, top }}>
      <PanelChrome title={inText(panel.title)} description={panel.description} titleItems={links} width={width} height={height} displayMode={panel.transparent ? 'transparent' : 'default'}>
        {(w, h) => (state.error ? empty(state.error.message) : <Boundary panel={panel}><Body panel={panel} frames={state.frames} width={w} height={h} /></Boundary>)}
      </PanelChrome>
    </div>
  );
}
const Row = ({ panel }) => (
  <div className="row" style={{ position: 'absolute', ...place(panel.gridPos), display: 'flex', alignItems: 'center', gap: 8, ...theme.typography.h5, margin: 0 }}>
    <Icon name={panel.collapsed ? 'angle-right' : 'angle-down'} />{inText(panel.title)}
    {panel.collapsed && <span style={{ ...theme.typography.bodySmall, color: theme.colors.text.secondary }}>({panel.panels.length} panels)</span>}
  </div>
);
const box = { display: 'flex', alignItems: 'center', height: 32, padding: '0 8px', whiteSpace: 'nowrap', fontSize: theme.typography.size.sm, border: `1px solid ${theme.colors.border.weak}`, background: theme.colors.background.primary };
const Variable = ({ v }) => (
  <div style={{ display: 'flex' }}>
    <div style={{ ...box, fontWeight: 500, borderRight: 0 }}>{v.label ?? v.name}</div>
    <div style={{ ...box, background: theme.components.input.background, borderColor: theme.components.input.borderColor, minWidth: 90, justifyContent: 'space-between', gap: 8 }}>
      {v.type === 'datasource' ? v.label : variables.get(v.name).text}<Icon name="angle-down" />
    </div>
  </div>
);
const nothing = () => {};
const Head = () => (
  <div style={{ padding: `${gap}px 0`, display: 'grid', rowGap: gap }}>
    <div style={{ display: 'flex', gap: 8, alignItems: 'center', color: theme.colors.text.secondary }}>
      Dashboards <Icon name="angle-right" /> <span style={{ color: theme.colors.text.primary, flexGrow: 1 }}>{dashboard.title}</span>
      <TimeRangePicker value={timeRange} timeZone={timeZone} onChange={nothing} onChangeTimeZone={nothing} onMoveBackward={nothing} onMoveForward={nothing} onZoom={nothing} />
      <RefreshPicker value={dashboard.refresh} onRefresh={nothing} onIntervalChanged={nothing} />
    </div>
    <div style={{ display: 'flex', flexWrap: 'wrap', gap: 8 }}>
      {dashboard.templating.list.filter((v) => v.hide !== 2).map((v) => <Variable key={v.name} v={v} />)}
      <span style={{ flexGrow: 1 }} />
      {dashboard.links?.map((l) => <div key={l.title} style={{ ...box, gap: 6 }}><Icon name="external-link-alt" size="sm" />{l.title}</div>)}
    </div>
  </div>
);
const height = Math.max(...dashboard.panels.map(({ gridPos: { y, h } }) => place({ x: 0, y, w: 1, h }).top + place({ x: 0, y, w: 1, h }).height));
createRoot(document.getElementById('root')).render(
  <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <div id="dashboard" style={{ padding: `0 ${margin}px ${margin}px`, background: theme.colors.background.canvas }}>
      <Head />
      <div style={{ position: 'relative', height }}>
        {dashboard.panels.map((p) => (p.type === 'row' ? <Row key={p.id} panel={p} /> : <Panel key={p.id} panel={p} />))}
      </div>
    </div>
  </ThemeContext.Provider>,
);
// A table measures itself before it has cells.
const tablesDrawn = () => [...document.querySelectorAll('[role="grid"]')].filter((grid) => grid.querySelector('[role="gridcell"]')).length;
window.drawn = () => document.getElementById('dashboard') !== null && waiting === 0 && tablesDrawn() === tables;

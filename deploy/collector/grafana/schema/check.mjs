// Checks dashboards against Grafana's published types, and TraceQL against Grafana's grammar.
// Usage, in a folder with the packages of package.json: node check.mjs <dashboard.json>... <page.md>...
import fs from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { parser } from '@grafana/lezer-traceql';

const raw = '@grafana/schema/dist/esm/raw';
const kinds = {
  stat: 'stat/panelcfg/x/Stat', timeseries: 'timeseries/panelcfg/x/TimeSeries', bargauge: 'bargauge/panelcfg/x/BarGauge',
  table: 'table/panelcfg/x/Table', heatmap: 'heatmap/panelcfg/x/Heatmap',
};

let source = `
import type * as dashboard from '${raw}/dashboard/x/Dashboard_types.gen';
import type { DataQuery } from '@grafana/schema';
import type { TempoQuery } from '${raw}/composable/tempo/dataquery/x/TempoDataQuery_types.gen';
// The types as they are in JSON: an enum is the text of its value.
type Plain<T> = unknown extends T ? T : T extends string ? \`\${T}\` : T extends number | boolean | null | undefined ? T
  : T extends Array<infer E> ? Array<Plain<E>> : { [K in keyof T]: Plain<T[K]> };
// What Prometheus' data source adds to a query: its plugin publishes no types.
type PrometheusQuery = Plain<DataQuery> & {
  expr: string; editorMode: 'code' | 'builder'; exemplar: boolean; instant: boolean; range: boolean;
  format: 'time_series' | 'table' | 'heatmap'; legendFormat?: string;
};
// An annotation likewise.
type PrometheusAnnotation = Plain<dashboard.AnnotationQuery> & {
  expr: string; step: string; titleFormat: string; textFormat: string; tagKeys: string;
};
`;
for (const [kind, file] of Object.entries(kinds)) {
  source += `import type * as ${kind} from '${raw}/composable/${file}PanelCfg_types.gen';\n`;
}

const problems = [];
const where = []; // by line of the source: what is checked there
const check = (what, type, value) => {
  where[source.split('\n').length - 1] = what;
  source += `export const c${where.length}: ${type} = ${JSON.stringify(value)};\n`;
};

let queries = 0;
const traceql = (what, query) => {
  queries++;
  parser.parse(query).iterate({
    enter: (node) => {
      if (node.type.isError) problems.push(`${what}: TraceQL does not parse at ${node.from}: ${query}`);
    },
  });
};

for (const file of process.argv.slice(2)) {
  const name = path.basename(file);
  const text = fs.readFileSync(file, 'utf8');
  if (name.endsWith('.md')) {
    const blocks = [...text.matchAll(/^```traceql\n(.*?)^```$/gms)];
    if (blocks.length === 0) problems.push(`${name}: has no TraceQL`);
    blocks.forEach((block) => block[1].trim().split(/\n\n+/).forEach((query) => traceql(name, query)));
    continue;
  }
  const { panels, annotations, ...rest } = JSON.parse(text);
  check(name, 'Plain<Omit<dashboard.Dashboard, "panels" | "annotations">>', rest);
  for (const annotation of annotations.list) check(`${name}: annotation ${annotation.name}`, 'PrometheusAnnotation', annotation);
  for (const panel of panels) {
    const title = `${name}: ${panel.title}`;
    if (panel.type === 'row') {
      check(title, 'Plain<dashboard.RowPanel>', panel);
      continue;
    }
    if (!kinds[panel.type]) {
      problems.push(`${title}: no schema for type ${panel.type}`);
      continue;
    }
    const { custom, ...defaults } = panel.fieldConfig.defaults;
    const { targets, options } = panel;
    check(title, 'Plain<dashboard.Panel>', { ...panel, targets: [], options: {}, fieldConfig: { ...panel.fieldConfig, defaults } });
    check(`${title}: options`, `Plain<${panel.type}.Options>`, options);
    if (custom) check(`${title}: custom`, `Plain<${panel.type}.FieldConfig>`, custom);
    for (const target of targets) {
      const tempo = panel.datasource.type === 'tempo';
      check(`${title}: query ${target.refId}`, tempo ? 'Plain<TempoQuery>' : 'PrometheusQuery', target);
      if (tempo) traceql(title, target.query);
    }
  }
}

fs.writeFileSync('dashboards.ts', source);
const program = ts.createProgram(['dashboards.ts'], {
  strict: true, noEmit: true, skipLibCheck: true, module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022,
  moduleResolution: ts.ModuleResolutionKind.Bundler, types: [],
});
for (const d of ts.getPreEmitDiagnostics(program)) {
  const line = d.file ? d.file.getLineAndCharacterOfPosition(d.start).line : -1;
  problems.push(`${where[line] ?? d.file?.fileName ?? ''}: ${ts.flattenDiagnosticMessageText(d.messageText, '\n')}`);
}
problems.forEach((p) => console.error(p));
if (problems.length > 0) process.exit(1);
console.log(`grafana: ${where.filter(Boolean).length} parts of dashboards match Grafana's schema, ${queries} TraceQL queries parse`);

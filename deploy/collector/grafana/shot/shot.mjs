// Draws dashboards at every width and in every theme, and writes each as PNG: all of it, and its first row by itself.
//
//   node shot.mjs --prometheus URL [--tempo URL] --from SECONDS --to SECONDS --out FOLDER dashboard.json...
//
// CHROMIUM names the browser, otherwise one of the usual names on PATH is used.
import { createServer, request } from 'node:http';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';
import puppeteer from 'puppeteer-core';
import UPNG from 'upng-js';

const colors = 128; // of a picture's palette
const here = dirname(fileURLToPath(import.meta.url));
const { values: flags, positionals: dashboards } = parseArgs({
  allowPositionals: true,
  options: {
    prometheus: { type: 'string' }, tempo: { type: 'string' }, from: { type: 'string' }, to: { type: 'string' }, out: { type: 'string' },
    widths: { type: 'string', default: '1280,1920' }, themes: { type: 'string', default: 'light,dark' },
  },
});

const onPath = (names) => process.env.PATH.split(delimiter).flatMap((dir) => names.map((n) => join(dir, n))).find((p) => existsSync(p));
const executablePath = process.env.CHROMIUM ?? onPath(['chromium', 'chromium-browser', 'google-chrome', 'chrome']);
if (!executablePath) throw new Error('no browser: install chromium, or name one in CHROMIUM');

const bundled = await build({
  entryPoints: [join(here, 'page.jsx')], bundle: true, write: false, outdir: '/', format: 'esm', jsx: 'automatic', minify: true,
  define: { 'process.env.NODE_ENV': '"production"', global: 'window' }, loader: { '.svg': 'dataurl', '.ttf': 'empty' }, logLevel: 'error',
});
const page = new Map(bundled.outputFiles.map((f) => ['/' + basename(f.path), f.contents]));
page.set('/', `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><link rel="stylesheet" href="/page.css"><div id="root"></div>
<script>window.__grafana_public_path__ = '/public/'</script><script type="module" src="/page.js"></script>`);

// The files that Grafana's components ask their server for.
const assets = [
  [/^\/public\/fonts\/inter\/([\w-]+\.woff2)$/, 'inter-ui/web'],
  [/^\/public\/fonts\/roboto\/[\w-]+\.woff2$/, '@fontsource/roboto-mono/files/roboto-mono-latin-400-normal.woff2'],
  [/^\/public\/(?:build\/)?img\/icons\/(\w+\/[\w-]+\.svg)$/, '@grafana/ui/dist/public/img/icons'],
];
const types = { js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml', woff2: 'font/woff2', json: 'application/json' };
const server = createServer((incoming, answer) => {
  const { pathname } = new URL(incoming.url, 'http://here');
  for (const backend of ['prometheus', 'tempo']) {
    if (!pathname.startsWith(`/${backend}/`)) continue;
    const onward = request(flags[backend] + incoming.url.slice(backend.length + 1), (r) => { answer.writeHead(r.statusCode, r.headers); r.pipe(answer); });
    onward.on('error', (error) => { answer.writeHead(502); answer.end(error.message); });
    onward.end();
    return;
  }
  let content = page.get(pathname);
  if (pathname.startsWith('/dashboards/')) content = readFileSync(dashboards.find((d) => basename(d) === basename(pathname)));
  for (const [pattern, folder] of assets) {
    const match = pattern.exec(pathname);
    if (!match) continue;
    const file = join(here, 'node_modules', folder, match[1] ?? '');
    // Not every icon is published.
    content = existsSync(file) ? readFileSync(file) : '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"/>';
  }
  answer.writeHead(content ? 200 : 404, { 'content-type': types[pathname.split('.').pop()] ?? 'text/html' });
  answer.end(content);
});
await new Promise((listening) => { server.listen(0, '127.0.0.1', listening); });

// A picture with all tables: they have layers of their own, which the browser may paint after the rest.
async function picture(tab, clip) {
  const tables = await tab.$$eval('[role="grid"]', (grids) => grids.map((grid) => grid.getBoundingClientRect().toJSON()));
  for (let attempt = 0; attempt < 50; attempt++) {
    const image = UPNG.decode(await tab.screenshot({ clip }));
    const pixels = new Uint32Array(UPNG.toRGBA8(image)[0]);
    const painted = ({ x, y, width, height }) => {
      const row = (at) => pixels.subarray(at * image.width + Math.ceil(x) + 1, at * image.width + Math.floor(x + width) - 1);
      for (let at = Math.ceil(y) + 1; at < Math.floor(y + height) - 1; at++) if (row(at).some((pixel) => pixel !== row(at)[0])) return true;
      return false;
    };
    if (tables.filter((table) => table.y + table.height <= clip.height).every(painted)) return image;
  }
  throw new Error('a table is not painted');
}

// What of the tables cannot be read without scrolling sideways or pointing at a cell: runs in the browser.
function cutOff() {
  const wider = (element) => element.scrollWidth > element.clientWidth + 1;
  return [...document.querySelectorAll('[role="grid"]')].flatMap((grid) => {
    const title = grid.closest('section').querySelector('h2').textContent;
    const cells = [...grid.querySelectorAll('[role="columnheader"], [role="gridcell"]')].filter(wider).map((cell) => `"${cell.textContent}"`);
    const cut = wider(grid) ? [`the table is ${grid.scrollWidth} pixels wide and its panel has ${grid.clientWidth}`] : [];
    return [...cut, ...(cells.length ? [`cut off: ${[...new Set(cells)].join(', ')}`] : [])].map((text) => `${title}: ${text}`);
  });
}

mkdirSync(flags.out, { recursive: true });
const browser = await puppeteer.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars', '--force-color-profile=srgb'] });
const fail = (dashboard, message) => { console.error(`${basename(dashboard)}: ${message}`); process.exitCode = 1; };
try {
  for (const dashboard of dashboards) {
    for (const width of flags.widths.split(',').map(Number)) {
      for (const theme of flags.themes.split(',')) {
        const tab = await browser.newPage();
        tab.on('pageerror', (error) => fail(dashboard, error.message));
        tab.on('console', (m) => { if (m.type() === 'error') fail(dashboard, m.text()); });
        // High enough for all of it: what comes into view later may not be painted yet.
        await tab.setViewport({ width, height: 8000 });
        const parameters = new URLSearchParams({ dashboard: basename(dashboard), width, theme, from: flags.from, to: flags.to, raw: `now-${Math.round((flags.to - flags.from) / 60)}m`, scrape: '10s' });
        if (flags.tempo) parameters.set('tempo', '');
        await tab.goto(`http://127.0.0.1:${server.address().port}/?${parameters}`);
        await tab.waitForFunction('window.drawn?.()', { timeout: 60000 });
        const height = Math.ceil((await (await tab.$('#dashboard')).boundingBox()).height);
        await tab.waitForNetworkIdle();
        await tab.evaluate('document.fonts.ready');
        await tab.waitForFunction('window.drawn()', { timeout: 60000 });
        await tab.evaluate(() => new Promise((painted) => { requestAnimationFrame(() => requestAnimationFrame(painted)); }));
        for (const cut of await tab.evaluate(cutOff)) fail(dashboard, `${width} pixels, ${theme}: ${cut}`);
        const second = Math.floor((await (await tab.$$('.row'))[1].boundingBox()).y);
        for (const [part, h] of [['', height], ['-first-row', second]]) {
          const image = await picture(tab, { x: 0, y: 0, width, height: h });
          const png = Buffer.from(UPNG.encode(UPNG.toRGBA8(image), image.width, image.height, colors));
          const name = `${basename(dashboard, '.json')}${part}-${width}-${theme}.png`;
          writeFileSync(join(flags.out, name), png);
          console.log(name, `${image.width} × ${image.height}, ${Math.round(png.length / 1024)} KiB`);
        }
        await tab.close();
      }
    }
  }
} finally {
  await browser.close();
  server.close();
}

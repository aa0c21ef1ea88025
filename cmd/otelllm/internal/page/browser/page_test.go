package browser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pages "github.com/otelllm/otelllm-go/cmd/otelllm/internal/page"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// picture is what the browser has drawn of a run, in pixels.
type picture struct {
	Break   float64 // middle of the line at the break
	Shown   bool    // it is in view, and nothing is in front of it
	Flag    string
	Zero    float64 // of the axis
	Tick    float64 // of its last tick
	TickAt  float64 // microseconds, as the tick's text says
	Text    string
	Bars    int
	BarEnd  float64 // of the last bar that failed
	Summary string
}

const readPicture = `(() => {
  const box = n => n.getBoundingClientRect();
  const stem = document.querySelector('.break .stem'), flag = document.querySelector('.break .flag');
  const grid = [...document.querySelectorAll('.picture .grid')].map(g => box(g).left + box(g).width / 2);
  const last = [...document.querySelectorAll('.tick')].at(-1);
  const units = {'µs': 1, ms: 1e3, s: 1e6, min: 6e7, h: 3.6e9};
  const at = last.textContent.match(/[\d.]+ \S+/g).reduce((sum, part) => sum + parseFloat(part) * units[part.split(' ')[1]], 0);
  const f = box(flag), hit = document.elementFromPoint(f.left + f.width / 2, f.top + f.height / 2);
  const failed = [...document.querySelectorAll('.picture .bar.failed .body')].at(-1);
  return {break: box(stem).left + box(stem).width / 2, shown: f.width > 0 && hit !== null && hit.closest('.break') !== null,
    flag: document.querySelector('.break text').textContent, zero: grid[0], tick: grid.at(-1), tickAt: at, text: last.textContent,
    bars: document.querySelectorAll('.picture .bar').length, barEnd: failed ? box(failed).right : 0, summary: document.querySelector('h2').textContent};
})()`

// checkBreak compares where the break is drawn with where the record says that it was, by the
// ticks of the axis alone.
func checkBreak(ctx context.Context, t *testing.T, start, broke time.Time) picture {
	t.Helper()
	p := eval[picture](ctx, t, readPicture)
	perMicro := (p.Tick - p.Zero) / p.TickAt
	want := p.Zero + float64(broke.Sub(start).Nanoseconds())/1000*perMicro
	assert.InDelta(t, want, p.Break, 1, "%+v", p)
	assert.True(t, p.Shown, "%+v", p)
	assert.InDelta(t, p.Break, p.BarEnd, 1.5, "the bar that failed ends at the break")
	return p
}

// momentOf returns when the last request of a run broke, by its own event.
func momentOf(t *testing.T, r *report.Record, event string) time.Time {
	t.Helper()
	last := r.Requests[len(r.Requests)-1]
	for _, e := range last.Events {
		if e.Name == event {
			return e.Time
		}
	}
	require.Fail(t, "no event "+event)
	return time.Time{}
}

func TestTheBreakIsWhereItWas(t *testing.T) {
	records := fleet(t, 12, 7)
	url := writeFile(t, records)
	for _, width := range []int64{1920, 1280, 420} {
		ctx := tab(t, width, 900, "light")
		open(ctx, t, url)
		for i, event := range map[int]string{0: "llm.stream.interrupted", 3: "llm.watchdog.fired", 4: "llm.abort"} {
			r := &records[i]
			do(ctx, t, chromedp.Evaluate[chromedp.Void](fmt.Sprintf("location.hash = '%s-%s'", r.TraceID, r.SpanID)))
			until(ctx, t, fmt.Sprintf("document.querySelector('h2')?.textContent.startsWith(%q)", firstWords(r)))
			until(ctx, t, "document.querySelector('.break') !== null")
			do(ctx, t, chromedp.Evaluate[chromedp.Void]("document.querySelector('.drawing').scrollIntoView()"))
			p := checkBreak(ctx, t, r.Start, momentOf(t, r, event))
			assert.Equal(t, len(r.Requests)+len(r.Tools), p.Bars)
		}
	}
}

// firstWords returns the beginning of a record's verdict.
func firstWords(r *report.Record) string {
	summary := r.Attributes["llm.failure.summary"].(string)
	return summary[:40]
}

// A run whose verdict is healthy is drawn calmly: no break, no advice, no red.
func TestHealthyRunIsCalm(t *testing.T) {
	records := fleet(t, 3, 7)
	ctx := tab(t, 1280, 900, "light")
	open(ctx, t, writeFile(t, records))
	require.Equal(t, "succeeded", records[1].Attributes["llm.run.outcome"])
	do(ctx, t, press("j"))
	until(ctx, t, `document.querySelector('h2').textContent === 'The run succeeded.'`)
	until(ctx, t, `document.querySelectorAll('.picture .bar').length > 0`)
	assert.Zero(t, eval[int](ctx, t, `document.querySelectorAll('.break, .mark, .next, .bar.failed, .cross').length`))
}

func TestWhatToDoNextIsSaid(t *testing.T) {
	ctx := tab(t, 1280, 900, "light")
	open(ctx, t, writeFile(t, fleet(t, 3, 7)))
	until(ctx, t, `document.querySelector('.next') !== null`)
	text := eval[string](ctx, t, `document.querySelector('.next').innerText`)
	for _, want := range []string{"Repeat the whole run", "Ask first", "A tool that must not run twice had been started.", "apply_patch", "has side effects", "Send model call 3 again"} {
		assert.Contains(t, text, want)
	}
}

func TestFilters(t *testing.T) {
	records := fleet(t, 300, 3)
	ctx := tab(t, 1280, 900, "light")
	open(ctx, t, writeFile(t, records))
	count := func(keep func(r *report.Record) bool) (n int) {
		for i := range records {
			if keep(&records[i]) {
				n++
			}
		}
		return n
	}
	attr := func(r *report.Record, key string) any { return r.Attributes[key] }
	choose := func(id, value string) {
		do(ctx, t, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(s => { s.value = %q; s.dispatchEvent(new Event('change')); })(document.getElementById(%q))`, value, id)))
	}
	shown := func() string { return eval[string](ctx, t, `document.getElementById('count').textContent`) }
	check := func(n int, name string) {
		t.Helper()
		assert.Equal(t, fmt.Sprintf("%d of 300 runs", n), shown(), name)
		assert.Equal(t, n, eval[int](ctx, t, `Number(document.querySelector('.row')?.getAttribute('aria-setsize') ?? 0)`), name)
	}
	assert.Equal(t, "300 runs", shown())

	choose("class", "stream_interrupted")
	interrupted := func(r *report.Record) bool { return attr(r, "llm.failure.class") == "stream_interrupted" }
	check(count(interrupted), "class")
	choose("agent", "coder")
	both := func(r *report.Record) bool { return interrupted(r) && attr(r, "gen_ai.agent.name") == "coder" }
	check(count(both), "class and agent")
	choose("class", "")
	choose("agent", "")
	choose("model", "claude-sonnet-4-5")
	check(count(func(r *report.Record) bool {
		return r.Requests[0].Attributes["gen_ai.request.model"] == "claude-sonnet-4-5"
	}), "model")
	choose("model", "")

	do(ctx, t, chromedp.Click(`.chip[data-outcome="recovered"]`))
	check(count(func(r *report.Record) bool { return attr(r, "llm.run.outcome") == "recovered" }), "outcome")
	assert.Equal(t, "true", eval[string](ctx, t, `document.querySelector('.chip[data-outcome="recovered"]').getAttribute('aria-pressed')`))

	do(ctx, t, press("Escape"))
	assert.Equal(t, "300 runs", shown())

	// Each id of a run finds it.
	r := records[137]
	for _, id := range []string{r.TraceID, r.SpanID, strings.ToUpper(r.TraceID[:12]), r.Attributes["gen_ai.conversation.id"].(string), r.Requests[0].Attributes["llm.request.id"].(string)} {
		do(ctx, t, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(s => { s.value = %q; s.dispatchEvent(new Event('input')); })(document.getElementById('search'))`, id)))
		check(1, id)
		assert.Equal(t, r.TraceID+"-"+r.SpanID, eval[string](ctx, t, `document.querySelector('.row').dataset.key`))
	}
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`(s => { s.value = 'no such id'; s.dispatchEvent(new Event('input')); })(document.getElementById('search'))`))
	assert.Contains(t, eval[string](ctx, t, `document.getElementById('none').innerText`), "No run matches")
}

func TestKeys(t *testing.T) {
	records := fleet(t, 40, 5)
	ctx := tab(t, 1280, 900, "light")
	open(ctx, t, writeFile(t, records))
	selected := func() int {
		return eval[int](ctx, t, `Number(document.querySelector('.row[aria-selected=true]').getAttribute('aria-posinset'))`)
	}
	active := func() string { return eval[string](ctx, t, `document.activeElement.id`) }
	assert.Equal(t, 1, selected())
	for _, step := range []struct {
		key  string
		want int
	}{{"j", 2}, {"ArrowDown", 3}, {"j", 4}, {"k", 3}, {"ArrowUp", 2}, {"End", 40}, {"j", 40}, {"Home", 1}, {"k", 1}} {
		do(ctx, t, press(step.key))
		assert.Equal(t, step.want, selected(), step.key)
	}
	assert.True(t, eval[bool](ctx, t, `(a => document.getElementById(a).getAttribute('aria-selected') === 'true')(document.getElementById('list').getAttribute('aria-activedescendant'))`))

	do(ctx, t, press("/"))
	assert.Equal(t, "search", active())
	do(ctx, t, press("j")) // is typed, and moves nothing
	assert.Equal(t, "j", eval[string](ctx, t, `document.getElementById('search').value`))
	do(ctx, t, press("Escape"))
	assert.Empty(t, eval[string](ctx, t, `document.getElementById('search').value`))
	do(ctx, t, press("Escape"))
	assert.Equal(t, "list", active())
	do(ctx, t, press("Enter"))
	assert.Equal(t, "detail", active())
	do(ctx, t, press("Escape"))
	assert.Equal(t, "list", active())

	do(ctx, t, press("?"))
	assert.True(t, eval[bool](ctx, t, `document.getElementById('keys').open`))
	do(ctx, t, press("Escape"))
	assert.False(t, eval[bool](ctx, t, `document.getElementById('keys').open`))

	for _, want := range []string{"light", "dark", ""} {
		do(ctx, t, press("t"))
		assert.Equal(t, want, eval[string](ctx, t, `document.documentElement.dataset.scheme`))
	}

	// Every part of the picture can be reached and unfolded without a mouse.
	until(ctx, t, `document.querySelectorAll('.bar[tabindex="0"]').length === 1`)
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`document.querySelector('.bar[tabindex="0"]').focus()`))
	do(ctx, t, press("Home"))
	do(ctx, t, press("ArrowRight"))
	assert.Equal(t, 1, eval[int](ctx, t, `[...document.querySelectorAll('.picture .bar')].indexOf(document.activeElement)`))
	do(ctx, t, press("Enter"))
	assert.True(t, eval[bool](ctx, t, `document.activeElement.closest('.step').open`))
}

// The focus is always visible, and every control has a name.
func TestAccessibility(t *testing.T) {
	ctx := tab(t, 1280, 900, "light")
	open(ctx, t, writeFile(t, fleet(t, 12, 5)))
	until(ctx, t, `document.querySelector('.picture .bar') !== null`)
	seen := map[string]bool{}
	for range 40 {
		do(ctx, t, press("Tab"))
		got := eval[struct {
			Node, Name string
			Ring       bool
		}](ctx, t, `(n => {
			const style = getComputedStyle(n), hit = n.querySelector?.('.hit');
			const ring = style.outlineStyle !== 'none' || style.boxShadow !== 'none' || (hit && getComputedStyle(hit).stroke !== 'none');
			return {node: n.tagName + '#' + n.id + '.' + n.getAttribute('class'), ring: Boolean(ring) || n === document.body,
				name: n.getAttribute('aria-label') || n.labels?.[0]?.textContent || n.textContent};
		})(document.activeElement)`)
		assert.True(t, got.Ring, got.Node)
		assert.NotEmpty(t, strings.TrimSpace(got.Name), got.Node)
		seen[got.Node] = true
	}
	assert.Greater(t, len(seen), 10)
}

// contrast checks every text that is drawn against what is behind it.
const contrast = `(() => {
  const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length > 3 && m[3] === 0 ? null : m; };
  const lum = c => { const [r, g, b] = c.map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
  const behind = n => { for (; n; n = n.parentElement) { const c = parse(getComputedStyle(n).backgroundColor); if (c) return c; } return [255, 255, 255]; };
  const bad = [];
  for (const n of document.querySelectorAll('body *')) {
    if (n.closest('svg, dialog, script, .hide, .skip') || ![...n.childNodes].some(c => c.nodeType === 3 && c.textContent.trim())) continue;
    if (!n.getClientRects().length) continue;
    const a = lum(parse(getComputedStyle(n).color)), b = lum(behind(n));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) bad.push(n.className + ' ' + n.textContent.slice(0, 30) + ' ' + ratio.toFixed(2));
  }
  return bad;
})()`

func TestContrastAndWidth(t *testing.T) {
	url := writeFile(t, fleet(t, 40, 5))
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{360, 420, 1280} {
			ctx := tab(t, width, 860, scheme)
			open(ctx, t, url)
			for range 5 {
				do(ctx, t, press("j"))
				do(ctx, t, press("Enter"))
				until(ctx, t, `document.querySelector('.picture .bar') !== null`)
				assert.Empty(t, eval[[]string](ctx, t, contrast), "%s %d", scheme, width)
				assert.LessOrEqual(t, eval[int64](ctx, t, `Math.max(document.documentElement.scrollWidth, document.getElementById('detail').scrollWidth)`), width, "nothing is wider than the screen")
				do(ctx, t, press("Escape"))
			}
		}
	}
}

func TestCopyIsTheRecord(t *testing.T) {
	records := fleet(t, 6, 9)
	records[2].Attributes["llm.run.requests"] = int64(math.MaxInt64) // more digits than JavaScript keeps
	server := httptest.NewServer(nil)
	defer server.Close()
	ctx := tab(t, 1280, 900, "light")
	open(ctx, t, writeFile(t, records))
	for i := range records {
		do(ctx, t, chromedp.Evaluate[chromedp.Void](`window.copied = ''; document.addEventListener('copy', e => { window.copied = document.activeElement.value; }, {once: true}); navigator.clipboard && (navigator.clipboard.writeText = async text => { window.copied = text; })`))
		do(ctx, t, press("c"))
		until(ctx, t, `window.copied !== ''`)
		raw, err := json.Marshal(records[i])
		require.NoError(t, err)
		got, want := exact(t, eval[string](ctx, t, `window.copied`)), exact(t, string(raw))
		assert.Equal(t, want, got, i)
		until(ctx, t, `document.getElementById('copy').textContent === 'Copied'`)
		do(ctx, t, press("j"))
		until(ctx, t, `document.getElementById('copy').textContent === 'Copy JSON'`)
	}
}

// exact decodes JSON and keeps every digit.
func exact(t *testing.T, text string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var v any
	require.NoError(t, decoder.Decode(&v))
	return v
}

// watch notes every request of a tab that is not for the page itself or its data, and all that
// the console says.
func watch(ctx context.Context, t *testing.T, allowed ...string) func() []string {
	t.Helper()
	var mu sync.Mutex
	var found []string
	note := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		found = append(found, text)
	}
	call(ctx, t, network.Enable, network.EnableParams{})
	call(ctx, t, cdpruntime.Enable, cdp.Empty{})
	require.NoError(t, chromedp.Listen(ctx, func(ev any) {
		switch e := ev.(type) {
		case *network.EventRequestWillBeSent:
			for _, prefix := range allowed {
				if strings.HasPrefix(e.Request.URL, prefix) {
					return
				}
			}
			note("request: " + e.Request.URL)
		case *cdpruntime.EventExceptionThrown:
			note("exception: " + e.ExceptionDetails.Text)
		case *cdpruntime.EventConsoleAPICalled:
			note("console: " + string(e.Type))
		}
	}))
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string{}, found...)
	}
}

// The whole way: an agent over real connections, a reset, the engine, and the page that is
// open all the time.
func TestLive(t *testing.T) {
	w := startWires(t, "pause text text tool", "text pause text pause reset", "text pause done", "busy", "text done")
	server := httptest.NewServer(pages.Handler(w.store))
	t.Cleanup(server.Close)
	ctx := tab(t, 1280, 900, "dark")
	seen := watch(ctx, t, server.URL, "data:")
	open(ctx, t, server.URL)
	until(ctx, t, `document.getElementById('none').innerText.includes('otelllm run')`)
	assert.Equal(t, "Live", eval[string](ctx, t, `document.getElementById('status').textContent`))

	require.Error(t, w.run(t.Context(), "coder"))
	until(ctx, t, `document.querySelector('.break') !== null`)
	records := w.store.Records()
	require.Len(t, records, 1)
	p := checkBreak(ctx, t, records[0].Start, momentOf(t, &records[0], "llm.stream.interrupted"))
	assert.Contains(t, p.Flag, "connection reset")
	assert.Contains(t, p.Summary, "The connection to the model was lost (connection reset)")

	// What comes later appears by itself, above, and what is looked at stays.
	require.NoError(t, w.run(t.Context(), "writer"))
	until(ctx, t, `document.getElementById('count').textContent === '2 runs'`)
	assert.Equal(t, "writer", eval[string](ctx, t, `document.querySelector('.row[aria-posinset="1"] .agent').textContent`))
	assert.Equal(t, p.Summary, eval[string](ctx, t, `document.querySelector('h2').textContent`))
	require.Error(t, w.run(t.Context(), "busy"))
	until(ctx, t, `document.getElementById('count').textContent === '3 runs'`)
	assert.Empty(t, seen())

	server.CloseClientConnections()
	server.Close()
	until(ctx, t, `document.getElementById('status').textContent.includes('stopped')`)
	assert.Equal(t, "3 runs", eval[string](ctx, t, `document.getElementById('count').textContent`), "what was seen stays")
}

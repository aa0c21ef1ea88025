package browser_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pages "github.com/otelllm/otelllm-go/cmd/otelllm/internal/page"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/runs"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// attacks are strings that a page must show as nothing but text.
var attacks = []string{
	`</script><script>window.hit=1</script>`, `<img src=http://evil.test/x onerror="window.hit=1">`, `<!--<script>`, `"><svg onload=window.hit=1>`, `]]>`,
	`javascript:window.hit=1`, "\u2028window.hit=1\u2029", "\u202eevil\u2066", "__proto__", "constructor", "toString", `{{policy}}{{data}}{{script}}`, "a\x00b\xff\xfe",
	strings.Repeat("ü🤖", 5000), "' onfocus='window.hit=1", "https://evil.test/", `%22%3E`, `\u003c/script`, "", "   ",
}

// poison sets every string of a record.
func poison(r *report.Record, s string) {
	r.Name, r.Service = s, s
	for key, value := range r.Attributes {
		switch v := value.(type) {
		case string:
			if key != "gen_ai.operation.name" {
				r.Attributes[key] = s
			}
		case []any:
			for i := range v {
				v[i] = s
			}
		}
	}
	r.Attributes[s] = s
	for i := range r.Events {
		r.Events[i].Attributes = map[string]any{s: s}
	}
	for _, parts := range [][]report.Record{r.Requests, r.Tools, r.Served} {
		for i := range parts {
			poison(&parts[i], s)
		}
	}
}

func TestHostileStrings(t *testing.T) {
	var records []report.Record
	for i, s := range attacks {
		r := fleet(t, 1, 7)[0]
		poison(&r, s)
		r.TraceID, r.SpanID = s, fmt.Sprintf("%016x", i)
		r.Start = r.Start.Add(-time.Duration(i) * time.Minute)
		records = append(records, r)
		kept := fleet(t, 1, 7)[0] // the verdict is one of ours, the names are not
		for _, key := range []string{"gen_ai.agent.name", "llm.failure.summary"} {
			kept.Attributes[key] = s
		}
		for j := range kept.Requests {
			kept.Requests[j].Attributes["gen_ai.request.model"] = s
		}
		for j := range kept.Tools {
			kept.Tools[j].Attributes["gen_ai.tool.name"] = s
		}
		kept.SpanID = fmt.Sprintf("k%015x", i)
		kept.Start = r.Start.Add(-time.Second)
		records = append(records, kept)
	}
	ctx := tab(t, 1280, 900, "light")
	elements := `[...new Set([...document.querySelectorAll('body *')].map(n => n.localName))].sort().join(' ')`
	unfold := func() {
		t.Helper()
		until(ctx, t, `document.querySelectorAll('.picture .bar').length > 0`)
		eval[bool](ctx, t, `(() => { for (let n = 0; n < 3; n++) for (const d of document.querySelectorAll('details')) d.open = true; return true; })()`)
		until(ctx, t, `document.querySelectorAll('.detail pre').length > 0`)
	}
	open(ctx, t, writeFile(t, fleet(t, 1, 7))) // the elements that the page itself has
	unfold()
	known := strings.Fields(eval[string](ctx, t, elements))

	url := writeFile(t, records)
	seen := watch(ctx, t, url, "data:")
	open(ctx, t, url)
	assert.Equal(t, fmt.Sprintf("%d runs", len(records)), eval[string](ctx, t, `document.getElementById('count').textContent`))
	for i := range records {
		unfold() // so that every field is in the page
		for name := range strings.FieldsSeq(eval[string](ctx, t, elements)) {
			assert.Contains(t, known, name, "record %d made an element", i)
		}
		assert.Zero(t, eval[int](ctx, t, `document.querySelectorAll('img, iframe, a[href^=java], svg[onload], [onerror], [onfocus]').length`))
		assert.LessOrEqual(t, eval[int](ctx, t, `document.getElementById('detail').scrollWidth - document.getElementById('detail').clientWidth`), 0, "record %d is too wide", i)
		do(ctx, t, press("j"))
	}
	assert.False(t, eval[bool](ctx, t, `'hit' in window`))
	assert.Empty(t, seen())
}

// The policy holds against scripts, styles, frames and connections that something would add.
func TestPolicy(t *testing.T) {
	url := writeFile(t, fleet(t, 2, 7))
	ctx := tab(t, 1280, 900, "light")
	var asked []string
	evil := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = append(asked, r.URL.Path) }))
	defer evil.Close()
	open(ctx, t, url)
	blocked := eval[int](ctx, t, `new Promise(done => {
		let n = 0;
		document.addEventListener('securitypolicyviolation', () => n++);
		const add = (tag, set) => { try { const e = document.createElement(tag); set(e); document.body.append(e); } catch { n++; } };
		const evil = '`+evil.URL+`';
		add('img', e => e.src = evil + '/img');
		add('script', e => e.src = evil + '/script');
		add('script', e => e.textContent = 'window.hit = 1');
		add('style', e => e.textContent = 'body { background: url(' + evil + '/style) }');
		add('link', e => { e.rel = 'stylesheet'; e.href = evil + '/link'; });
		add('iframe', e => e.src = evil + '/frame');
		add('div', e => e.innerHTML = '<b>x</b>');
		fetch(evil + '/fetch').catch(() => {});
		navigator.sendBeacon(evil + '/beacon');
		setTimeout(() => done(n), 500);
	})`)
	assert.GreaterOrEqual(t, blocked, 8)
	assert.Empty(t, asked)
	assert.False(t, eval[bool](ctx, t, `'hit' in window`))
}

func get(t *testing.T, server *httptest.Server, path string, set func(*http.Request)) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, http.NoBody)
	require.NoError(t, err)
	set(req)
	res, err := server.Client().Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func TestHandlerRefusesOthers(t *testing.T) {
	server := httptest.NewServer(pages.Handler(storeOf(t, 3)))
	defer server.Close()
	for _, tt := range []struct {
		path string
		set  func(*http.Request)
		want int
	}{
		{"/", func(*http.Request) {}, 200},
		{"/runs", func(*http.Request) {}, 200},
		{"/", func(r *http.Request) { r.Host = "localhost:4000" }, 200},
		{"/", func(r *http.Request) { r.Host = "LocalHost" }, 200},
		{"/", func(r *http.Request) { r.Host = "[::1]:4000" }, 200},
		{"/", func(r *http.Request) { r.Host = "127.8.9.1" }, 200},
		{"/", func(r *http.Request) { r.Host = "evil.test" }, 403},
		{"/runs", func(r *http.Request) { r.Host = "evil.test:80" }, 403},
		{"/runs", func(r *http.Request) { r.Host = "localhost.evil.test" }, 403},
		{"/runs", func(r *http.Request) { r.Host = "127.0.0.1.evil.test" }, 403},
		{"/runs", func(r *http.Request) { r.Host = "192.168.1.5" }, 403},
		{"/runs", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"/", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"/", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
		}, 200},
		{"/runs", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }, 200},
		{"/runs", func(r *http.Request) { r.Method = http.MethodPost }, 405},
		{"/else", func(*http.Request) {}, 404},
		{"/run?trace=zz&span=1", func(*http.Request) {}, 404},
		{"/run?trace=" + strings.Repeat("0", 32) + "&span=1", func(*http.Request) {}, 404},
	} {
		res := get(t, server, tt.path, tt.set)
		assert.Equal(t, tt.want, res.StatusCode, "%s", tt.path)
		assert.Empty(t, res.Header.Get("Access-Control-Allow-Origin"))
		if tt.want == 200 {
			assert.Equal(t, "no-store", res.Header.Get("Cache-Control"))
			assert.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"))
			assert.Contains(t, res.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
		}
	}
}

// storeOf returns a store with n runs.
func storeOf(t *testing.T, n int) *runs.Store {
	t.Helper()
	store := runs.NewStore(1<<30, nil)
	fleetInto(t, n, 7, store)
	return store
}

// A page that is never read on costs nothing, and one that waits gets the next run.
func TestHandlerWaits(t *testing.T) {
	store := storeOf(t, 2)
	server := httptest.NewServer(pages.Handler(store))
	defer server.Close()
	read := func(res *http.Response) string {
		raw, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return string(raw)
	}
	first := read(get(t, server, "/runs", func(*http.Request) {}))
	assert.Contains(t, first, `"reset":true`)
	_, after, _ := strings.Cut(first, `"cursor":"`)
	cursor, _, _ := strings.Cut(after, `"`)
	got := make(chan string, 1)
	go func() {
		res, err := http.Get(server.URL + "/runs?wait=20&cursor=" + cursor)
		if err != nil {
			got <- err.Error()
			return
		}
		defer res.Body.Close()
		raw, _ := io.ReadAll(res.Body)
		got <- string(raw)
	}()
	fleetInto(t, 3, 99, store)
	answer := <-got
	assert.Contains(t, answer, `"trace":`)
	assert.NotContains(t, answer, `"reset":true`)
	assert.Contains(t, read(get(t, server, "/runs?wait=20&cursor=other.5", func(*http.Request) {})), `"reset":true`, "a cursor of another process")
}

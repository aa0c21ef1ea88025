package browser_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pages "github.com/otelllm/otelllm-go/cmd/otelllm/internal/page"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// thousand is the fleet of the tests of size. No test changes its records.
var thousand struct {
	once    sync.Once
	records []report.Record
}

// many returns n records: those of a smaller fleet again and again, with ids of their own.
func many(t *testing.T, n int) []report.Record {
	t.Helper()
	thousand.once.Do(func() { thousand.records = fleet(t, 1000, 11) })
	base := thousand.records
	require.NotEmpty(t, base)
	list := make([]report.Record, n)
	for i := range list {
		list[i] = base[i%len(base)]
		list[i].TraceID = fmt.Sprintf("%032x", i+1)
		list[i].Start = base[i%len(base)].Start.Add(-time.Duration(i/len(base)) * 20 * time.Hour)
		list[i].End = list[i].Start.Add(base[i%len(base)].End.Sub(base[i%len(base)].Start))
	}
	return list
}

// measureFilter returns the milliseconds that the slowest of some filters takes until the rows
// are drawn. It is the best of three rounds, as the machine does other things as well.
const measureFilter = `Math.min(...[1, 2, 3].map(() => {
  const search = document.getElementById('search'), times = [];
  for (const text of ['a', 'ab', 'coder', 'zzz', '']) {
    search.value = text;
    const from = performance.now();
    search.dispatchEvent(new Event('input'));
    document.getElementById('list').getBoundingClientRect();
    times.push(performance.now() - from);
  }
  return Math.max(...times);
}))`

// measureScroll returns the milliseconds that drawing takes at most while the list is scrolled
// over its whole length, one frame in twenty aside. It is the best of three rounds.
const measureScroll = `Math.min(...[1, 2, 3].map(() => {
  const list = document.getElementById('list'), times = [];
  for (let i = 0; i <= 60; i++) {
    const from = performance.now();
    list.scrollTop = (list.scrollHeight - list.clientHeight) * i / 60;
    list.dispatchEvent(new Event('scroll'));
    list.getBoundingClientRect();
    times.push(performance.now() - from);
  }
  return times.sort((a, b) => a - b)[Math.floor(times.length * .95)];
}))`

// measureMachine returns how much slower than a quiet machine this one is now, at least 1: by
// the time that sorting takes, which is about 15 ms there.
const measureMachine = `Math.max(1, ...[1, 2, 3].map(() => {
  const numbers = Array.from({length: 50000}, (_, i) => (i * 7919) % 104729);
  const from = performance.now();
  numbers.sort((a, b) => a - b);
  return (performance.now() - from) / 15;
}))`

func TestThousandRuns(t *testing.T) {
	ctx := tab(t, 1280, 900, "light")
	open(ctx, t, writeFile(t, many(t, 1000)))
	assert.Equal(t, "1,000 runs", eval[string](ctx, t, `document.getElementById('count').textContent`))
	filter, scroll := eval[float64](ctx, t, measureFilter), eval[float64](ctx, t, measureScroll)
	slow := eval[float64](ctx, t, measureMachine)
	t.Logf("filter %.1f ms, scroll %.1f ms, machine %.1f times slower", filter, scroll, slow)
	assert.Less(t, filter, 100*slow)
	assert.Less(t, scroll, 100*slow)
	assert.Less(t, eval[int](ctx, t, `document.querySelectorAll('.row').length`), 60, "only what is in view is drawn")
	assert.Equal(t, 1000, eval[int](ctx, t, `Number(document.querySelector('.row:last-child').getAttribute('aria-posinset'))`), "the last one is there")
}

func TestHundredThousandRuns(t *testing.T) {
	records := many(t, 120_000)
	path := filepath.Join(t.TempDir(), "report.html")
	f, err := os.Create(path)
	require.NoError(t, err)
	from := time.Now()
	require.NoError(t, pages.WriteReport(f, records))
	info, err := f.Stat()
	require.NoError(t, err)
	require.NoError(t, f.Close())
	t.Logf("%d MB in %v", info.Size()>>20, time.Since(from).Round(time.Millisecond))
	assert.Less(t, info.Size(), int64(100<<20))

	ctx := tab(t, 1280, 900, "light")
	from = time.Now()
	open(ctx, t, "file://"+path)
	loaded := time.Since(from)
	filter, scroll := eval[float64](ctx, t, measureFilter), eval[float64](ctx, t, measureScroll)
	slow := eval[float64](ctx, t, measureMachine)
	t.Logf("loaded in %v, filter %.0f ms, scroll %.1f ms, machine %.1f times slower", loaded.Round(time.Millisecond), filter, scroll, slow)
	assert.Less(t, loaded, 30*time.Second)
	assert.Less(t, filter, 3000*slow)
	assert.Less(t, scroll, 500*slow, "about as with a thousand: all of them would take seconds")
	assert.Equal(t, "100,000 runs, the newest; 20,000 older are left out", eval[string](ctx, t, `document.getElementById('count').textContent`))

	do(ctx, t, press("End"))
	until(ctx, t, `document.querySelector('.row[aria-selected=true]').getAttribute('aria-posinset') === '100000'`)
	until(ctx, t, `document.getElementById('detail').innerText.includes('no room for the details')`)
	do(ctx, t, press("Home"))
	until(ctx, t, `document.querySelector('.picture .bar') !== null`)
}

// The server's answers are bounded, whatever the store has.
func TestLiveWithManyRuns(t *testing.T) {
	store := storeOf(t, 5000)
	server := httptest.NewServer(pages.Handler(store))
	t.Cleanup(server.Close)
	res, err := http.Get(server.URL + "/runs")
	require.NoError(t, err)
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Less(t, len(raw), 2<<20)
	ctx := tab(t, 1280, 900, "light")
	open(ctx, t, server.URL)
	until(ctx, t, `document.getElementById('count').textContent === '5,000 runs'`)
	until(ctx, t, `document.querySelector('.picture .bar') !== null`)
}

// A run with thousands of parts is drawn in bounded time, and says what is not drawn.
func TestRunWithManyParts(t *testing.T) {
	records := fleet(t, 1, 7)
	r := &records[0]
	one := r.Requests[0]
	r.Requests = nil
	for i := range 4000 {
		next := one
		next.Start, next.End = r.Start.Add(time.Duration(i)*time.Millisecond), r.Start.Add(time.Duration(i+40)*time.Millisecond)
		next.Events = nil
		r.Requests = append(r.Requests, next)
	}
	ctx := tab(t, 1280, 900, "light")
	from := time.Now()
	open(ctx, t, writeFile(t, records))
	until(ctx, t, `document.querySelector('.picture .bar') !== null`)
	t.Logf("drawn in %v", time.Since(from).Round(time.Millisecond))
	assert.Less(t, time.Since(from), 20*time.Second)
	assert.Less(t, eval[int](ctx, t, `document.querySelectorAll('.picture .bar').length`), 400)
	assert.Contains(t, eval[string](ctx, t, `document.querySelector('.picture').textContent`), "not drawn")
	do(ctx, t, chromedp.Click("#fold-steps > summary"))
	until(ctx, t, `document.querySelectorAll('.step').length > 100`)
	assert.LessOrEqual(t, eval[int](ctx, t, `document.querySelectorAll('.step').length`), 400)
}

// slowWriter counts writes, so that a report that is made in memory first is seen.
type slowWriter struct{ writes, largest int }

func (w *slowWriter) Write(p []byte) (int, error) {
	w.writes++
	w.largest = max(w.largest, len(p))
	return len(p), nil
}

func TestWriteReportStreams(t *testing.T) {
	var w slowWriter
	require.NoError(t, pages.WriteReport(&w, many(t, 3000)))
	assert.Greater(t, w.writes, 50)
	assert.Less(t, w.largest, 1<<20)
	assert.ErrorContains(t, pages.WriteReport(failingWriter{}, fleet(t, 1, 1)), "no room")
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestEmptyReport(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, pages.WriteReport(&b, nil))
	assert.Less(t, b.Len(), 100<<10)
	assert.NotContains(t, strings.ToLower(b.String()), "http://localhost")
	ctx := tab(t, 1280, 900, "light")
	open(ctx, t, writeFile(t, nil))
	assert.Contains(t, eval[string](ctx, t, `document.getElementById('none').innerText`), "There are no runs in this file.")
}

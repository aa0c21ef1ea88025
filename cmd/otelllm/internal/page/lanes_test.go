package page_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// A run that waited two hours for a person is not squeezed: the wait is folded, and the break is
// still where it was, by the ticks beside it.
func TestLongWaitIsFolded(t *testing.T) {
	r := fleet(t, 1, 7)[0]
	const wait = 2 * time.Hour
	shift := func(parts []report.Record, from int) {
		for i := from; i < len(parts); i++ {
			parts[i].Start, parts[i].End = parts[i].Start.Add(wait), parts[i].End.Add(wait)
			for j := range parts[i].Events {
				parts[i].Events[j].Time = parts[i].Events[j].Time.Add(wait)
			}
		}
	}
	shift(r.Requests, 1)
	shift(r.Tools, 1)
	r.End = r.End.Add(wait)
	ctx := tab(t, 1280, 900, "light")
	open(ctx, t, writeFile(t, []report.Record{r}))
	until(ctx, t, `document.querySelector('.picture .break') !== null`)
	got := eval[struct {
		Break, X1, X2, Wide float64
		Tick1, Tick2        float64
		Folds               int
	}](ctx, t, `(() => {
		const mid = n => n.getBoundingClientRect().left + n.getBoundingClientRect().width / 2;
		const ticks = [...document.querySelectorAll('.tick')].slice(-2), grid = [...document.querySelectorAll('.picture .grid')].slice(-2);
		return {break: mid(document.querySelector('.break .stem')), x1: mid(grid[0]), x2: mid(grid[1]), tick1: Number(ticks[0].dataset.tick), tick2: Number(ticks[1].dataset.tick),
			folds: document.querySelectorAll('.folded').length, wide: document.querySelector('.bar.failed .body').getBoundingClientRect().width};
	})()`)
	require.Equal(t, 1, got.Folds)
	at := float64(momentOf(t, &r, "llm.stream.interrupted").Sub(r.Start).Microseconds())
	assert.InDelta(t, got.X1+(at-got.Tick1)/(got.Tick2-got.Tick1)*(got.X2-got.X1), got.Break, 1)
	assert.Greater(t, got.Wide, 100.0, "the parts can be seen")
}

// Parts that overlap have rows of their own, and a gateway's calls are in a lane below.
func TestLanes(t *testing.T) {
	r := fleet(t, 1, 7)[0]
	second := r.Requests[2]
	second.SpanID, second.Attributes = "00000000000000aa", map[string]any{"gen_ai.request.model": "other"}
	second.Start = second.Start.Add(100 * time.Millisecond)
	r.Requests = append(r.Requests, second)
	r.Served = []report.Record{r.Requests[2]}
	ctx := tab(t, 1280, 900, "light")
	open(ctx, t, writeFile(t, []report.Record{r}))
	until(ctx, t, `document.querySelector('.picture .bar.served') !== null`)
	tops := eval[map[string]float64](ctx, t, `Object.fromEntries([...document.querySelectorAll('.picture .bar')].map(b => [b.dataset.part, b.querySelector('.body').getBoundingClientRect().top]))`)
	require.Len(t, tops, 7)
	assert.InDelta(t, tops["request-1"], tops["request-3"], 0.1, "they do not overlap")
	assert.Greater(t, tops["request-4"], tops["request-3"]+20, "they overlap")
	assert.Greater(t, tops["tool-1"], tops["request-4"])
	assert.Greater(t, tops["served-1"], tops["tool-1"])
	lanes := eval[[]string](ctx, t, `[...document.querySelectorAll('.lane')].map(n => n.textContent)`)
	assert.Equal(t, []string{"Model calls", "Tools", "Silence", "Gateway"}, lanes)
}

// What has not ended is shown as open, and a call without a run by its own failure.
func TestOpenAndLone(t *testing.T) {
	records := fleet(t, 2, 7)
	records[0].End = time.Unix(0, 0).UTC()
	delete(records[0].Attributes, "llm.run.outcome")
	for _, key := range []string{"llm.failure.class", "llm.failure.summary", "llm.retry.safety"} {
		delete(records[0].Attributes, key)
	}
	lone := records[0].Requests[2]
	lone.Start = lone.Start.Add(-time.Hour)
	records = append(records, lone)
	ctx := tab(t, 1280, 900, "light")
	open(ctx, t, writeFile(t, records))
	rows := eval[[]string](ctx, t, `[...document.querySelectorAll('.row')].map(r => r.dataset.outcome + ' ' + r.querySelector('.took').textContent)`)
	require.Len(t, rows, 3)
	assert.Equal(t, "open open", rows[0])
	assert.Contains(t, rows[2], "failed ")
	assert.Equal(t, "The run has not ended yet.", eval[string](ctx, t, `document.querySelector('h2').textContent`))
	do(ctx, t, press("End"))
	until(ctx, t, `document.querySelectorAll('.picture .bar').length === 1`)
	assert.Contains(t, eval[string](ctx, t, `document.querySelector('.next').innerText`), "Send this request again")
}

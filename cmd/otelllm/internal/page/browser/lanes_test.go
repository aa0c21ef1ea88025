package browser_test

import (
	"fmt"
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
	do(ctx, t, press("Home")) // not the one that failed
	until(ctx, t, `document.querySelector('h2').textContent === 'The run has not ended yet.'`)
	do(ctx, t, press("End"))
	until(ctx, t, `document.querySelectorAll('.picture .bar').length === 1`)
	assert.Contains(t, eval[string](ctx, t, `document.querySelector('.next').innerText`), "Send this request again")
}

// A proxy between the agent and the provider is no gateway of its own: what it served, and what it
// sent for that, is one model call, in one lane and one step. What was sent twice is shown.
func TestOwnHopIsOneModelCall(t *testing.T) {
	hop := func(kind, id, parent, scope string, attrs map[string]any) report.Record {
		return report.Record{
			Kind: report.RecordRequest, SpanKind: kind, SpanID: id, ParentID: parent, Scope: scope, Service: "otelllm",
			Start: time.Unix(1_800_000_000, 0), End: time.Unix(1_800_000_001, 0), Attributes: attrs,
		}
	}
	const ours = "github.com/otelllm/otelllm-go/otelllm"
	run := report.Record{
		Kind: report.RecordRun, TraceID: "00000000000000000000000000000001", SpanID: "0000000000000001", Start: time.Unix(1_800_000_000, 0), End: time.Unix(1_800_000_009, 0),
		Attributes: map[string]any{"llm.run.outcome": "succeeded"},
		Requests: []report.Record{
			hop("server", "0000000000000002", "0000000000000001", ours, map[string]any{"gen_ai.request.model": "once"}),
			hop("server", "0000000000000003", "0000000000000001", ours, map[string]any{"gen_ai.request.model": "twice"}),
			hop("server", "0000000000000004", "0000000000000001", ours, map[string]any{"gen_ai.request.model": "another's"}),
		},
		Served: []report.Record{
			hop("client", "0000000000000012", "0000000000000002", ours, map[string]any{"llm.connection.reused": true}),
			hop("client", "0000000000000013", "0000000000000003", ours, nil),
			hop("client", "0000000000000014", "0000000000000003", ours, nil),
			hop("client", "0000000000000015", "0000000000000004", "opentelemetry.instrumentation.openai", nil),
		},
	}
	ctx := tab(t, 1280, 900, "light")
	open(ctx, t, writeFile(t, []report.Record{run}))
	until(ctx, t, `document.querySelector('.picture .bar.request') !== null`)
	assert.Equal(t, 3, eval[int](ctx, t, `document.querySelectorAll('.picture .bar.request').length`))
	assert.Equal(t, 3, eval[int](ctx, t, `document.querySelectorAll('.picture .bar.served').length`))
	assert.Equal(t, "6", eval[string](ctx, t, `document.querySelector('#fold-steps .n').textContent`))
	assert.Contains(t, eval[string](ctx, t, `(() => { const s = document.querySelector('#step-request-1'); s.open = true; s.dispatchEvent(new Event('toggle')); return s.textContent; })()`), "As it was passed on")
}

// The run that failed is shown first, however many were well afterwards.
func TestFailedRunIsShownFirst(t *testing.T) {
	at := func(second int64, outcome string) report.Record {
		return report.Record{
			Kind: report.RecordRun, TraceID: fmt.Sprintf("%032x", second), SpanID: fmt.Sprintf("%016x", second),
			Start: time.Unix(1_800_000_000+second, 0), End: time.Unix(1_800_000_001+second, 0), Attributes: map[string]any{"llm.run.outcome": outcome},
		}
	}
	for _, tt := range []struct {
		outcomes []string // the newest last
		want     string
	}{
		{[]string{"failed", "failed", "incomplete", "succeeded"}, "failed"},
		{[]string{"incomplete", "recovered", "succeeded"}, "incomplete"},
		{[]string{"recovered", "succeeded"}, "succeeded"},
	} {
		var records []report.Record
		for i, outcome := range tt.outcomes {
			records = append(records, at(int64(i+1), outcome))
		}
		ctx := tab(t, 1280, 900, "light")
		open(ctx, t, writeFile(t, records))
		assert.Equal(t, tt.want, eval[string](ctx, t, `document.querySelector('.row[aria-selected=true]').dataset.outcome`))
	}
}

package trace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// judgedWithin notes a run with these parts, which was judged, within run 1 of a trace.
func judgedWithin(b *Buffer, of pcommon.TraceID, requests, tools int) {
	const run = 1
	b.history.Keep(t0, &Release{Trace: of, Of: b.traces[of], Run: &Item{ID: id(100 + run), Role: Run, Run: id(run), Announced: Announced{Known: true}, Known: Known{Origin: serviceOf(run)}}},
		Ended{Effects: classify.Effects{Requests: requests, Tools: tools}})
}

func (a arrival) within(run byte) arrival {
	a.Item.Run, a.Item.Parent = id(run), id(run)
	return a
}

func TestRunsWithinCount(t *testing.T) {
	b := New(t0, config())
	assert.Empty(t, add(b, t0, []arrival{arrive(2, Request, 1), arrive(11, Request, 10), arrive(1, Run, 0).announces(3, 1)}))
	assert.Equal(t, []shape{{Complete, true, true, []byte{11, 10}, nil}}, shapes(t, add(b, t0, []arrival{arrive(10, Run, 0).announces(1, 0).within(1)})))
	judgedWithin(b, trace1, 1, 1)
	assert.Empty(t, ready(b, t0), "a request of its own is missing")
	assert.Empty(t, ready(b, t0))
	assert.Equal(t, []shape{{Complete, true, true, []byte{2, 1, 3}, nil}}, shapes(t, add(b, t0, []arrival{arrive(3, Request, 1)})))
	empty(t, b)

	assert.Equal(t, []shape{{Complete, true, true, []byte{11, 10}, nil}}, shapes(t, add(b, t0, []arrival{
		arrive(2, Request, 1).in(2), arrive(11, Request, 10).in(2), arrive(1, Run, 0).announces(2, 1).in(2), arrive(10, Run, 0).announces(1, 0).within(1).in(2),
	})), "the outer one cannot be judged before the inner one")
	judgedWithin(b, pcommon.TraceID{15: 2}, 1, 1)
	assert.Equal(t, []shape{{Complete, true, true, []byte{2, 1}, nil}}, shapes(t, ready(b, t0)))
	assert.Empty(t, ready(b, t0))
	empty(t, b)
}

// A run waits for those within it whose spans are here, also where its own numbers do
// not include theirs; but no longer than Config.MaxHold.
func TestRunWaitsForThoseWithin(t *testing.T) {
	b := New(t0, config())
	assert.Empty(t, add(b, t0, []arrival{arrive(10, Run, 0).announces(1, 0).within(5)}))
	assert.Empty(t, add(b, t0, []arrival{arrive(5, Run, 0).announces(0, 0).within(1)}), "run 10 is within it")
	assert.Empty(t, add(b, t0, []arrival{arrive(1, Run, 0)}), "and run 5 within this one")
	assert.Empty(t, b.Due(after(settle), 100))
	assert.Equal(t, []shape{
		{Complete, true, true, []byte{10, 11}, nil},
	}, shapes(t, add(b, after(settle), []arrival{arrive(11, Request, 10)})))
	assert.Equal(t, []shape{{Complete, true, true, []byte{5}, nil}, {RunEnded, true, true, []byte{1}, nil}}, shapes(t, ready(b, after(settle))))
	empty(t, b)

	assert.Empty(t, add(b, after(settle), []arrival{arrive(10, Run, 0).announces(1, 0).within(5).in(2)}))
	assert.Empty(t, add(b, after(settle+time.Second), []arrival{arrive(5, Run, 0).announces(0, 0).in(2)}))
	var reasons []Reason
	for _, r := range b.Due(after(settle+maxHold), 100) {
		reasons = append(reasons, r.Reason)
	}
	assert.Equal(t, []Reason{HoldExpired, HoldExpired}, reasons)
	assert.Empty(t, ready(b, after(settle+maxHold)))
	empty(t, b)
}

// A run that announces its requests alone goes once it has settled and they are here,
// whichever comes last.
func TestRequestsAlone(t *testing.T) {
	announces := func(requests uint32) arrival {
		a := arrive(1, Run, 0)
		a.Item.Announced.Requests = requests
		return a
	}
	b := New(t0, config())
	assert.Empty(t, add(b, t0, []arrival{arrive(2, Request, 1), announces(1)}))
	assert.Empty(t, b.Due(after(settle-1), 100))
	assert.Equal(t, []shape{{RunEnded, true, true, []byte{2, 1}, nil}}, shapes(t, b.Due(after(settle), 100)))
	empty(t, b)

	assert.Empty(t, add(b, t0, []arrival{announces(1).in(2)}))
	assert.Empty(t, b.Due(after(settle), 100))
	assert.Equal(t, []shape{{RunEnded, true, true, []byte{1, 2}, nil}}, shapes(t, add(b, after(2*settle), []arrival{arrive(2, Request, 1).in(2)})))
	empty(t, b)

	assert.Empty(t, add(b, t0, []arrival{announces(1).in(3)}))
	assert.Empty(t, b.Due(after(settle), 100))
	assert.Equal(t, []shape{{HoldExpired, true, true, []byte{1}, nil}}, shapes(t, b.Due(after(maxHold), 100)))
	empty(t, b)
}

// What a run announced may be missing of its requests alone, or of its tools alone.
func TestRunsWithinCountForEach(t *testing.T) {
	for name, tt := range map[string]struct {
		announced, inner Announced
		complete         bool
	}{
		"a request": {Announced{Requests: 2, Tools: 1}, Announced{Requests: 1}, true},
		"a tool":    {Announced{Requests: 1, Tools: 2}, Announced{Tools: 1}, true},
		"the other": {Announced{Requests: 1, Tools: 2}, Announced{Requests: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := New(t0, config())
			judgedWithin(b, trace1, int(tt.inner.Requests), int(tt.inner.Tools))
			run := arrive(1, Run, 0).announces(tt.announced.Requests, tt.announced.Tools)
			assert.Equal(t, tt.complete, len(add(b, t0, []arrival{arrive(2, Request, 1), arrive(3, Tool, 1), run})) == 1)
		})
	}
}

// A trace that is gone by then keeps no other from being looked at.
func TestReadyInSeveralTraces(t *testing.T) {
	b := New(t0, config())
	require.Len(t, add(b, t0, []arrival{
		arrive(1, Run, 0).announces(0, 0), arrive(5, Run, 0).announces(0, 0),
		arrive(1, Run, 0).announces(1, 0).in(2), arrive(10, Run, 0).announces(0, 0).within(1).in(2),
	}), 3)
	judgedWithin(b, pcommon.TraceID{15: 2}, 1, 0)
	assert.Equal(t, []byte{1}, ids(ready(b, t0)))
	empty(t, b)
}

// A run span that was forgotten is not looked at.
func TestReadyWithoutTheForgotten(t *testing.T) {
	b := New(t0, config())
	b.cfg.MaxFactBytes = ItemSize + factBytes
	b.cfg.Read = func(*Item) int { return factBytes }
	spent := func(a arrival) arrival {
		a.Item.Known.Part = true
		return a
	}
	forgotten := spent(arrive(5, Run, 0))
	assert.Empty(t, add(b, t0, []arrival{forgotten, arrive(1, Run, 0).announces(1, 0)}))
	assert.Equal(t, []byte{10}, ids(add(b, t0, []arrival{arrive(10, Run, 0).announces(0, 0).within(1), spent(arrive(2, Request, 1).in(2))})))
	require.True(t, forgotten.Item.Gone())
	assert.Empty(t, ready(b, t0))
	assert.Equal(t, []byte{1, 2}, ids(add(b, t0, []arrival{arrive(2, Request, 1)})))
}

// A run waits for one within it also where many other runs of the trace came after that, and
// goes when that was judged.
func TestRunWaitsForThoseWithinAmongMany(t *testing.T) {
	b := New(t0, config())
	b.cfg.Limits.FreeWork = 1 << 20 // it does not rest
	assert.Empty(t, add(b, t0, []arrival{arrive(10, Run, 0).announces(1, 0).within(5)}))
	assert.Empty(t, add(b, t0, []arrival{arrive(5, Run, 0).announces(0, 0).within(1)}))
	others := func(from, to byte) (list []arrival) {
		for n := from; n < to; n++ {
			list = append(list, arrive(n, Run, 0).announces(1, 0))
		}
		return list
	}
	assert.Empty(t, add(b, t0, others(20, 110)))
	assert.Empty(t, add(b, t0, []arrival{arrive(1, Run, 0).announces(0, 0)}), "run 10 is within it")
	assert.Empty(t, add(b, t0, others(110, 200)))
	assert.Equal(t, []shape{{Complete, true, true, []byte{10, 11}, nil}}, shapes(t, add(b, t0, []arrival{arrive(11, Request, 10)})))
	assert.Empty(t, b.Ready(t0), "it is still to be judged")
	assert.Equal(t, []shape{{Complete, true, true, []byte{5}, nil}}, shapes(t, ready(b, t0)))
	assert.Equal(t, []shape{{Complete, true, true, []byte{1}, nil}}, shapes(t, ready(b, t0)))
	assert.Empty(t, ready(b, t0))
}

func at(a arrival, from, to pcommon.Timestamp) arrival {
	const second = pcommon.Timestamp(time.Second)
	a.Item.Start, a.Item.End = from*second, to*second
	return a
}

// Where the parents of runs are not here, their times show what is within what. If they are
// too many to be compared, parts may be missing of those that go.
func TestRunsAreWithinByTheirTimes(t *testing.T) {
	for name, limit := range map[string]int{"all": 1 << 16, "too many": 90} {
		t.Run(name, func(t *testing.T) {
			cfg := config()
			cfg.Limits.Within, cfg.Limits.FreeWork = limit, 1<<20 // it does not rest
			b := New(t0, cfg)
			var list []arrival
			for n := byte(20); n < 110; n++ {
				list = append(list, at(arrive(n, Run, 0).loose(n+100).announces(1, 0), pcommon.Timestamp(n), pcommon.Timestamp(n)+1))
			}
			assert.Empty(t, add(b, t0, list))
			assert.Empty(t, add(b, t0, []arrival{at(arrive(1, Run, 0).loose(3).announces(0, 0), 19, 22)}), "run 20 is within it")
			releases := add(b, t0, []arrival{at(arrive(2, Run, 0).announces(0, 0), 1000, 1001)})
			require.Equal(t, []byte{2}, ids(releases))
			assert.Equal(t, limit == 90, releases[0].Doubt.Has(TooMany))
		})
	}
}

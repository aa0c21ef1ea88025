package hold

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// nested is a buffer of which a run is within the run that its span names, and whose
// judged runs count for that one: the test says how many parts they had.
func nested(judged map[byte]Announced) *Buffer[fact] {
	cfg := config()
	cfg.Around = func(_ *Trace[fact], inner *Item[fact], ids []pcommon.SpanID) ([]pcommon.SpanID, Chain) {
		return append(ids, inner.Run), Rooted
	}
	cfg.Inner = func(t *Trace[fact], run *Item[fact]) (uint32, uint32) {
		a := judged[run.ID[7]]
		return a.Requests, a.Tools
	}
	return New(t0, cfg)
}

// none is no trace that waits.
func none(pcommon.TraceID) bool { return false }

func (a arrival) within(run byte) arrival {
	a.Item.Run, a.Item.Parent = id(run), id(run)
	return a
}

func TestRunsWithinCount(t *testing.T) {
	judged := map[byte]Announced{}
	b := nested(judged)
	assert.Empty(t, add(b, t0, []arrival{arrive(2, Request, 1), arrive(11, Request, 10), arrive(1, Run, 0).announces(3, 1)}))
	assert.Equal(t, []shape{{Complete, true, true, []byte{11, 10}, nil}}, shapes(t, add(b, t0, []arrival{arrive(10, Run, 0).announces(1, 0).within(1)})))
	judged[1] = Announced{Requests: 1, Tools: 1}
	assert.Empty(t, b.Ready(t0, none), "a request of its own is missing")
	assert.Empty(t, b.Ready(t0, none))
	assert.Equal(t, []shape{{Complete, true, true, []byte{2, 1, 3}, nil}}, shapes(t, add(b, t0, []arrival{arrive(3, Request, 1)})))
	empty(t, b)

	clear(judged)
	assert.Equal(t, []shape{{Complete, true, true, []byte{11, 10}, nil}}, shapes(t, add(b, t0, []arrival{
		arrive(2, Request, 1).in(2), arrive(11, Request, 10).in(2), arrive(1, Run, 0).announces(2, 1).in(2), arrive(10, Run, 0).announces(1, 0).within(1).in(2),
	})), "the outer one cannot be judged before the inner one")
	judged[1] = Announced{Requests: 1, Tools: 1}
	assert.Equal(t, []shape{{Complete, true, true, []byte{2, 1}, nil}}, shapes(t, b.Ready(t0, none)))
	assert.Empty(t, b.Ready(t0, none))
	empty(t, b)
}

// A run waits for those within it whose spans are here, also where its own numbers do
// not include theirs; but no longer than Config.MaxHold.
func TestRunWaitsForThoseWithin(t *testing.T) {
	b := nested(nil)
	assert.Empty(t, add(b, t0, []arrival{arrive(10, Run, 0).announces(1, 0).within(5)}))
	assert.Empty(t, add(b, t0, []arrival{arrive(5, Run, 0).announces(0, 0).within(1)}), "run 10 is within it")
	assert.Empty(t, add(b, t0, []arrival{arrive(1, Run, 0)}), "and run 5 within this one")
	assert.Empty(t, b.Due(after(settle), 100))
	assert.Equal(t, []shape{
		{Complete, true, true, []byte{10, 11}, nil},
	}, shapes(t, add(b, after(settle), []arrival{arrive(11, Request, 10)})))
	assert.Equal(t, []shape{{Complete, true, true, []byte{5}, nil}, {RunEnded, true, true, []byte{1}, nil}}, shapes(t, b.Ready(after(settle), none)))
	empty(t, b)

	assert.Empty(t, add(b, after(settle), []arrival{arrive(10, Run, 0).announces(1, 0).within(5).in(2)}))
	assert.Empty(t, add(b, after(settle+time.Second), []arrival{arrive(5, Run, 0).announces(0, 0).in(2)}))
	var reasons []Reason
	for _, r := range b.Due(after(settle+maxHold), 100) {
		reasons = append(reasons, r.Reason)
	}
	assert.Equal(t, []Reason{HoldExpired, HoldExpired}, reasons)
	assert.Empty(t, b.Ready(after(settle+maxHold), none))
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
			b := nested(map[byte]Announced{1: tt.inner})
			run := arrive(1, Run, 0).announces(tt.announced.Requests, tt.announced.Tools)
			assert.Equal(t, tt.complete, len(add(b, t0, []arrival{arrive(2, Request, 1), arrive(3, Tool, 1), run})) == 1)
		})
	}
}

// A trace that is gone by then keeps no other from being looked at.
func TestReadyInSeveralTraces(t *testing.T) {
	judged := map[byte]Announced{}
	b := nested(judged)
	require.Len(t, add(b, t0, []arrival{
		arrive(1, Run, 0).announces(0, 0), arrive(5, Run, 0).announces(0, 0),
		arrive(1, Run, 0).announces(1, 0).in(2), arrive(10, Run, 0).announces(0, 0).within(1).in(2),
	}), 3)
	judged[1] = Announced{Requests: 1}
	assert.Equal(t, []byte{1}, ids(b.Ready(t0, none)))
	empty(t, b)
}

// A run span that was forgotten is not looked at.
func TestReadyWithoutTheForgotten(t *testing.T) {
	b := nested(nil)
	b.cfg.MaxFactBytes = ItemSize + factBytes
	b.cfg.Read = func(*Item[fact]) int { return factBytes }
	spent := func(a arrival) arrival {
		a.Item.Spent = true
		return a
	}
	forgotten := spent(arrive(5, Run, 0))
	assert.Empty(t, add(b, t0, []arrival{forgotten, arrive(1, Run, 0).announces(1, 0)}))
	assert.Equal(t, []byte{10}, ids(add(b, t0, []arrival{arrive(10, Run, 0).announces(0, 0).within(1), spent(arrive(2, Request, 1).in(2))})))
	require.True(t, forgotten.Item.Gone())
	assert.Empty(t, b.Ready(t0, none))
	assert.Equal(t, []byte{1, 2}, ids(add(b, t0, []arrival{arrive(2, Request, 1)})))
}

// A run waits for one within it also where many other runs of the trace came after that, and
// goes when that was judged.
func TestRunWaitsForThoseWithinAmongMany(t *testing.T) {
	b := nested(nil)
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
	assert.Empty(t, b.Ready(t0, func(pcommon.TraceID) bool { return true }), "it is still to be judged")
	assert.Equal(t, []shape{{Complete, true, true, []byte{5}, nil}}, shapes(t, b.Ready(t0, none)))
	assert.Equal(t, []shape{{Complete, true, true, []byte{1}, nil}}, shapes(t, b.Ready(t0, none)))
	assert.Empty(t, b.Ready(t0, none))
}

// Where the parents of runs are not here, their times show what is within what. If they are
// too many to be compared, parts may be missing of those that go.
func TestRunsAreWithinByTheirTimes(t *testing.T) {
	for name, limit := range map[string]int{"all": 1 << 16, "too many": 90} {
		t.Run(name, func(t *testing.T) {
			cfg := config()
			cfg.Limits.Within, cfg.Limits.FreeWork = limit, 1<<20 // it does not rest
			cfg.Around = func(_ *Trace[fact], _ *Item[fact], ids []pcommon.SpanID) ([]pcommon.SpanID, Chain) {
				return ids, Broken
			}
			cfg.During = func(inner, outer *Item[fact]) bool { return inner.ID == id(20) && outer.ID == id(1) }
			b := New(t0, cfg)
			var list []arrival
			for n := byte(20); n < 110; n++ {
				list = append(list, arrive(n, Run, 0).announces(1, 0))
			}
			assert.Empty(t, add(b, t0, list))
			assert.Empty(t, add(b, t0, []arrival{arrive(1, Run, 0).announces(0, 0)}), "run 20 is within it")
			releases := add(b, t0, []arrival{arrive(2, Run, 0).announces(0, 0)})
			require.Equal(t, []byte{2}, ids(releases))
			assert.Equal(t, limit == 90, releases[0].Missing)
		})
	}
}

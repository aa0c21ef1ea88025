package trace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func root(n byte) arrival {
	a := arrive(n, Request, 0).loose(0)
	a.Item.Known.Origin = serviceOf(n)
	return a
}

// A request at the root of its trace goes as soon as it is here, with what is beneath it.
func TestRootGoesAtOnce(t *testing.T) {
	b := New(t0, config())
	assert.Equal(t, []shape{{Complete, true, false, []byte{1}, nil}}, shapes(t, add(b, t0, []arrival{root(1)})))
	empty(t, b)
	assert.True(t, b.judged.hasRuns(trace1))

	assert.Empty(t, add(b, t0, []arrival{arrive(3, Tool, 0).loose(2).in(2), arrive(4, Request, 0).loose(3).in(2), arrive(6, Request, 0).loose(9).in(2)}))
	releases := add(b, t0, []arrival{root(2).in(2)})
	assert.Equal(t, []shape{{Complete, true, false, []byte{3, 4, 2}, nil}}, shapes(t, releases), "not what is beneath another span")
	assert.Equal(t, id(2), releases[0].RunID)
	assert.False(t, releases[0].Named)
	assert.Equal(t, spanBytes, b.Bytes())

	link := []Link{{trace1, id(7), id(5)}}
	link[0].Trace[15] = 3
	items := []*Item{arrive(8, Request, 0).loose(7).Item, root(5).Item}
	assert.Equal(t, []shape{{Complete, true, false, []byte{8, 5}, nil}},
		shapes(t, b.Add(t0, []Arrival{{link[0].Trace, items}}, link)), "beneath a span that passed with them")
}

// What comes beneath a root later is late, and so is the root that is delivered again.
func TestBeneathRootLater(t *testing.T) {
	b := New(t0, config())
	add(b, t0, []arrival{root(1)})
	for _, it := range []arrival{arrive(2, Request, 0).loose(1), arrive(3, Tool, 0).loose(2), root(1)} {
		releases := add(b, after(time.Second), []arrival{it})
		require.Len(t, releases, 1)
		assert.Equal(t, Late, releases[0].Reason)
		assert.False(t, releases[0].Final)
	}
	empty(t, b)
	assert.Len(t, add(b, after(time.Second), []arrival{root(4)}), 1, "another root of the trace is not")
}

// What is not a request at the root waits as before.
func TestNotARoot(t *testing.T) {
	for name, it := range map[string]arrival{
		"a tool":                             arrive(2, Tool, 0).loose(0),
		"a request with a parent":            arrive(2, Request, 0).loose(1),
		"a request that names a run":         arrive(2, Request, 1),
		"a request that names a run, a root": {trace1, &Item{ID: id(2), Role: Request, Run: id(1), Size: spanBytes}},
	} {
		t.Run(name, func(t *testing.T) {
			b := New(t0, config())
			assert.Empty(t, add(b, t0, []arrival{it}))
			assert.Empty(t, b.Due(after(maxHold-1), 1000))
			assert.Len(t, b.Due(after(maxHold), 1000), 1)
		})
	}
}

// A root whose result spans of other services may explain waits for them, and goes with
// what is here then. It is released once, whatever happens meanwhile.
func TestRootWaitsToBeExplained(t *testing.T) {
	doubtful := func(unexplained, upstream bool) arrival {
		a := root(1)
		a.Item.Unexplained, a.Item.Upstream = unexplained, upstream
		return a
	}
	for _, flags := range [][2]bool{{true, false}, {false, true}, {true, true}} {
		cfg := config()
		cfg.Explained = func(*Release) bool { panic("there is no run to explain") }
		b := New(t0, cfg)
		assert.Empty(t, add(b, t0, []arrival{doubtful(flags[0], flags[1])}))
		assert.Empty(t, add(b, after(time.Second), []arrival{arrive(2, Request, 0).loose(1), arrive(3, Request, 0).loose(9)}))
		next, _ := b.Next()
		assert.Equal(t, after(settle), next)
		assert.Empty(t, b.Due(after(settle-1), 1000))
		releases := b.Due(after(settle), 1000)
		require.Len(t, releases, 1)
		assert.Equal(t, Complete, releases[0].Reason)
		assert.True(t, releases[0].Final)
		require.Len(t, releases[0].Members, 3)
		assert.True(t, releases[0].Members[2].Foreign, "the request of another group is evidence")
		assert.Equal(t, spanBytes, b.Bytes())

		b = New(t0, cfg)
		add(b, t0, []arrival{doubtful(flags[0], flags[1]), doubtful(flags[0], flags[1])})
		assert.Equal(t, []byte{1, 1}, ids(b.Drain(t0, 1000)))
		assert.Empty(t, b.Due(after(settle), 1000))
		empty(t, b)
	}
}

// A root waits as well if what is beneath it may be explained, and not if what is beneath
// another one may.
func TestRootWaitsForWhatIsBeneath(t *testing.T) {
	b := New(t0, config())
	doubtful := arrive(2, Request, 0).loose(1)
	doubtful.Item.Upstream = true
	other := arrive(4, Request, 0).loose(9)
	other.Item.Upstream, other.Item.Known.Origin = true, serviceOf(99)
	assert.Empty(t, add(b, t0, []arrival{doubtful, other}))
	assert.Equal(t, []byte{3}, ids(add(b, t0, []arrival{root(3)})))
	assert.Empty(t, add(b, after(time.Second), []arrival{root(1)}))
	assert.Empty(t, add(b, after(2*time.Second), []arrival{arrive(5, Tool, 0).loose(1)}))
	assert.Empty(t, b.Due(after(settle), 1000))
	releases := b.Due(after(time.Second+settle), 1000)
	require.Len(t, releases, 1)
	assert.Equal(t, []byte{2, 1, 5, 4}, ids(releases))
	assert.True(t, releases[0].Members[3].Foreign)
}

// Many roots of one trace go together, each as a release of its own.
func TestManyRoots(t *testing.T) {
	b := New(t0, config())
	a := Arrival{Trace: trace1}
	const n = 3 * smallTrace
	for i := range byte(n) {
		a.Items = append(a.Items, root(i+1).Item)
	}
	releases := b.Add(t0, []Arrival{a}, nil)
	require.Len(t, releases, n)
	for i, r := range releases {
		assert.Equal(t, id(byte(i+1)), r.RunID)
		assert.Len(t, r.Members, 1)
	}
	empty(t, b)
}

// A root that waits reads nothing of the others, and what is read as evidence is bounded:
// a trace in which thousands of requests fail at once must not cost thousands of times as
// much as one.
func TestManyRootsThatWait(t *testing.T) {
	const n = 3 * maxForeign
	cfg := config()
	reads := 0
	cfg.Read = func(*Item) int { reads++; return factBytes }
	b := New(t0, cfg)
	a := Arrival{Trace: trace1}
	for i := range n {
		it := root(1).Item
		it.ID[6], it.ID[7], it.Upstream, it.Known.Origin = byte((i+1)>>8), byte(i+1), true, serviceOf(byte(min(i, 1)))
		a.Items = append(a.Items, it)
	}
	assert.Empty(t, b.Add(t0, []Arrival{a}, nil))
	assert.Zero(t, reads, "nothing goes yet")
	groups := b.grouped(b.traces[trace1], everything)
	b.addForeign(groups[0], foreignOf(groups))
	assert.Equal(t, maxForeign, reads)
	require.Len(t, groups[0].others, maxForeign)
	for i, m := range groups[0].others {
		assert.Same(t, a.Items[i+1], m.Item, "the first ones, in the order of their start and id")
	}
	assert.Len(t, b.Due(after(settle), 10*n), n)
	empty(t, b)
}

package trace

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

var trace1 = pcommon.TraceID{15: 1}

func ids(releases []Release) (list []byte) {
	for _, r := range releases {
		for _, m := range r.Members {
			list = append(list, m.ID[7])
		}
	}
	return list
}

// judgedRun makes a buffer in which run 1 has been judged.
func judgedRun(t *testing.T, cfg Config) *Buffer {
	t.Helper()
	b := New(t0, cfg)
	require.Len(t, add(b, t0, []arrival{arrive(1, Run, 0).announces(0, 0)}), 1)
	return b
}

// What came before the late span above it is late as soon as that has come: it is not
// of a run that may still come. What names a run of its own is not.
func TestLateWithWhatIsBeneath(t *testing.T) {
	b := judgedRun(t, config())
	assert.Empty(t, add(b, after(time.Second), []arrival{
		arrive(5, Request, 0).loose(4), arrive(6, Tool, 0).loose(5), arrive(7, Request, 0).loose(8), arrive(9, Request, 2),
	}))
	other := arrive(9, Request, 2)
	other.Item.ID, other.Item.Parent = id(10), id(4)
	assert.Empty(t, add(b, after(time.Second), []arrival{other, arrive(5, Request, 0).loose(4).in(2)}))

	releases := add(b, after(3*time.Second), []arrival{arrive(4, Request, 0).loose(1), arrive(6, Request, 0).loose(5).in(2)})
	assert.Equal(t, []byte{4, 5, 6}, ids(releases), "not the spans of another trace")
	for i, held := range []time.Duration{0, 2 * time.Second, 2 * time.Second} {
		assert.Equal(t, Late, releases[i].Reason)
		assert.False(t, releases[i].Final)
		assert.True(t, releases[i].Members[0].Out)
		assert.Equal(t, held, releases[i].Members[0].Held)
		assert.True(t, releases[i].Members[0].Gone())
	}
	assert.Equal(t, 5*spanBytes, b.Bytes())
	assert.Len(t, b.traces[trace1].items, 3)
	for parent := byte(4); parent <= 6; parent++ {
		assert.Len(t, add(b, after(3*time.Second), []arrival{arrive(20+parent, Request, 0).loose(parent)}), 1, "beneath span %d", parent)
	}
	assert.Empty(t, add(b, after(3*time.Second), []arrival{arrive(30, Request, 0).loose(7)}))
}

// Of a span that has gone out before, only what is known of it is late.
func TestLateIsReleasedOnce(t *testing.T) {
	b := judgedRun(t, config())
	add(b, t0, []arrival{arrive(5, Request, 0).loose(4)})
	require.Equal(t, []byte{5}, ids(b.Due(after(maxHold), 1000)))
	circle := arrive(4, Request, 0).loose(5)
	add(b, after(maxHold), []arrival{circle})
	require.Equal(t, ItemSize+factBytes, b.FactBytes())
	releases := add(b, after(maxHold), []arrival{arrive(4, Request, 0).loose(1)})
	require.Equal(t, []byte{4, 5, 4}, ids(releases), "spans in a circle too")
	assert.False(t, releases[1].Members[0].Out)
	assert.Zero(t, releases[1].Members[0].Held)
	empty(t, b)
}

func TestAbove(t *testing.T) {
	tr := newTrace(trace1, 0)
	for _, link := range [][2]byte{{3, 4}, {4, 5}, {6, 0}, {7, 6}, {20, 21}, {21, 20}} {
		tr.links.add([]Link{{trace1, id(link[0]), id(link[1])}})
	}
	for parent, above := range map[byte]byte{
		2: 2, // never seen
		3: 5, // the first that was not seen
		6: 6, // a root is above all, not the emptiness above it
		7: 6, 0: 0,
	} {
		assert.Equal(t, id(above), tr.above(&Item{Parent: id(parent)}), "parent %d", parent)
	}
	tr.above(&Item{Parent: id(20)}) // comes back
}

func TestWatch(t *testing.T) {
	cfg := config()
	watched := map[byte]int32{}
	cfg.Watch = func(trace pcommon.TraceID, change int32) { watched[trace[15]] += change }
	b := New(t0, cfg)
	assert.Nil(t, b.Trace(trace1))
	add(b, t0, []arrival{arrive(2, Request, 1), arrive(3, Request, 1), arrive(2, Request, 1).in(2)})
	assert.Equal(t, map[byte]int32{1: 1, 2: 1}, watched)
	assert.NotNil(t, b.Trace(trace1))
	add(b, t0, []arrival{arrive(1, Run, 0).announces(2, 0)})
	add(b, t0, []arrival{arrive(4, Request, 1)}) // late
	assert.Equal(t, map[byte]int32{1: 0, 2: 1}, watched)
	assert.Nil(t, b.Trace(trace1))
}

// Spans under one parent are a run of their own only in a trace that has no other.
func TestGivenUp(t *testing.T) {
	for name, tt := range map[string]struct {
		judged, meanwhile, together, final bool
	}{
		"no run in the trace":         {final: true},
		"a run was judged before":     {judged: true},
		"a run is judged meanwhile":   {meanwhile: true},
		"a run expires with them":     {together: true},
		"judged, and another expires": {judged: true, together: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := New(t0, config())
			if tt.judged {
				b = judgedRun(t, config())
			}
			if tt.together {
				add(b, t0, []arrival{arrive(2, Request, 3)})
			}
			add(b, t0, []arrival{at(arrive(5, Request, 0).loose(9), 5, 6), at(arrive(6, Request, 0).loose(9), 5, 6)})
			if tt.meanwhile {
				require.Len(t, add(b, t0, []arrival{arrive(1, Run, 0).announces(0, 0)}), 1)
			}
			b.Due(after(maxHold), 1000)
			releases := b.Due(after(runTimeout), 1000)
			last := releases[len(releases)-1]
			assert.Equal(t, RunExpired, last.Reason)
			assert.Equal(t, tt.final, last.Final)
			assert.Equal(t, id(9), last.RunID)
			assert.Equal(t, []byte{5, 6}, ids([]Release{last}))
			assert.Equal(t, tt.together || tt.meanwhile || tt.judged, b.judged.hasRuns(trace1), "they are no run of the trace")
			assert.Len(t, releases, map[bool]int{true: 2, false: 1}[tt.together])
			if tt.together {
				assert.True(t, releases[0].Final)
			}
			empty(t, b)
			assert.Len(t, add(b, after(runTimeout), []arrival{arrive(7, Request, 0).loose(5)}), 1, "what is beneath them is late")
		})
	}
}

// A run whose span is here is not given up, however short the time for that is: it is
// looked at again when that has settled.
func TestRunTimeoutShorterThanMaxHold(t *testing.T) {
	cfg := config()
	cfg.RunTimeout = 10 * time.Second
	cfg.MaxFactBytes = ItemSize + factBytes
	spent := func(n, trace byte) arrival {
		a := arrive(n, Request, 1).in(trace)
		a.Item.Known.Part = true
		return a
	}
	cfg.Read = func(it *Item) int { it.Known.Judged = true; return factBytes }
	next := func(b *Buffer) time.Duration {
		at, ok := b.Next()
		require.True(t, ok)
		return at.Sub(t0)
	}
	b := New(t0, cfg)
	add(b, t0, []arrival{spent(2, 1), arrive(1, Run, 0).announces(5, 0)})
	for at := 10 * time.Second; at < maxHold; at += settle {
		assert.Equal(t, at, next(b))
		assert.Empty(t, b.Due(after(at), 1000))
	}
	assert.Equal(t, []shape{{HoldExpired, true, true, []byte{1}, []byte{2}}}, shapes(t, b.Due(after(maxHold), 1000)))
	empty(t, b)

	// When what was known is forgotten, only the hold is left.
	b = New(t0, cfg)
	add(b, t0, []arrival{spent(2, 1)})
	add(b, after(5*time.Second), []arrival{arrive(3, Request, 1)})
	add(b, after(9*time.Second), []arrival{spent(2, 2)})
	assert.Equal(t, 1, b.Forgotten())
	assert.Empty(t, b.Due(after(10*time.Second), 1000))
	assert.Equal(t, 19*time.Second, next(b))
	assert.Empty(t, b.Due(after(15*time.Second), 1000))
	require.Len(t, b.Due(after(19*time.Second), 1000), 1)
	assert.Equal(t, 35*time.Second, next(b))
	add(b, after(17*time.Second), []arrival{arrive(50, Run, 0)})
	assert.Equal(t, []byte{50}, ids(b.Due(after(19*time.Second), 1000)), "another run of the trace does not hurry it")
	assert.Equal(t, 35*time.Second, next(b))
}

// All runs of a trace that have expired are given up at once, with what is held of them.
func TestExpiredTogether(t *testing.T) {
	spent := func(a arrival) arrival {
		a.Item.Known.Part = true
		return a
	}
	for name, first := range map[string]arrival{
		"behind a run":  spent(arrive(2, Request, 1)),
		"behind no run": spent(arrive(2, Request, 0).loose(9)),
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config()
			cfg.RunTimeout = 10 * time.Second
			cfg.Read = func(*Item) int { return factBytes }
			b := New(t0, cfg)
			add(b, t0, []arrival{first, arrive(12, Request, 11), arrive(22, Request, 21)})
			assert.Equal(t, []byte{2, 12, 22}, ids(b.Due(after(10*time.Second), 1000)))
			empty(t, b)
		})
	}
}

// The runs of a trace that have not expired have the earliest of their times.
func TestEarliestOfThoseLeft(t *testing.T) {
	b := New(t0, config())
	for run, at := range []time.Duration{0, time.Second, 2 * time.Second} {
		add(b, after(at), []arrival{arrive(byte(10*run+12), Request, byte(10*run+11))})
	}
	require.Equal(t, []byte{12, 22, 32}, ids(b.Due(after(maxHold), 1000)))
	for run, at := range []time.Duration{0, time.Second, 2 * time.Second} {
		next, _ := b.Next()
		assert.Equal(t, after(at+runTimeout), next)
		assert.Equal(t, []byte{byte(10*run + 12)}, ids(b.Due(next, 1000)))
	}
	empty(t, b)
}

// What fails upstream of a run is looked for among the requests of others, whatever
// the reason it is released for, and is not looked for before.
func TestUpstream(t *testing.T) {
	unsure := func(unexplained, upstream bool) arrival {
		a := arrive(2, Request, 1)
		a.Item.Unexplained, a.Item.Upstream = unexplained, upstream
		return a
	}
	foreign := func(releases []Release) (list []byte) {
		for _, m := range releases[len(releases)-1].Members {
			if m.Foreign {
				list = append(list, m.ID[7])
			}
		}
		return list
	}
	for _, tt := range []struct {
		unexplained, upstream bool
		want                  []byte
	}{{false, false, nil}, {false, true, []byte{12}}, {true, false, []byte{12}}, {true, true, []byte{12}}} {
		cfg := config()
		cfg.Explained = func(*Release) bool { return true }
		other := func() arrival { return arrive(12, Request, 11) }

		b := New(t0, cfg)
		evidence := other()
		assert.Empty(t, add(b, t0, []arrival{unsure(tt.unexplained, tt.upstream), arrive(3, Tool, 1), evidence}))
		require.Len(t, add(b, t0, []arrival{arrive(31, Run, 0).announces(0, 0)}), 1)
		assert.False(t, evidence.Item.Known.Judged, "run 1 waits")
		complete := add(b, t0, []arrival{arrive(1, Run, 0).announces(1, 1)})
		require.Len(t, complete, 1)
		assert.Equal(t, tt.want, foreign(complete), "complete: %+v", tt)

		b = New(t0, cfg)
		add(b, t0, []arrival{unsure(tt.unexplained, tt.upstream), arrive(3, Tool, 1)})
		b.Due(after(maxHold), 1000)
		add(b, after(runTimeout-1), []arrival{other()})
		expired := b.Due(after(runTimeout), 1000)
		require.Len(t, expired, 1)
		assert.Equal(t, RunExpired, expired[0].Reason)
		assert.Equal(t, tt.want, foreign(expired), "expired: %+v", tt)
	}
}

// Spans of a trace that come together are judged one by one.
func TestLateAmongOthers(t *testing.T) {
	b := judgedRun(t, config())
	a := Arrival{Trace: trace1}
	for _, it := range []arrival{arrive(2, Request, 1), arrive(12, Request, 11), arrive(3, Tool, 1), arrive(13, Tool, 11)} {
		a.Items = append(a.Items, it.Item)
	}
	assert.Equal(t, []byte{2, 3}, ids(b.Add(t0, []Arrival{a}, nil)))
	assert.Equal(t, []byte{12, 13, 11}, ids(add(b, t0, []arrival{arrive(11, Run, 0).announces(1, 1)})))
	empty(t, b)
}

// What was forgotten is not there any more, and keeps nothing else from being found or
// from going, in a long list as in a short one.
func TestForgottenAmongOthers(t *testing.T) {
	for _, n := range []byte{2, 2 * smallTrace} {
		cfg := config()
		cfg.MaxFactBytes = ItemSize + factBytes
		cfg.Read = func(*Item) int { return factBytes }
		b := New(t0, cfg)
		spent := func(n, run byte) arrival {
			a := arrive(n, Request, run)
			a.Item.Known.Part = true
			return a
		}
		list := []arrival{spent(2, 1), spent(3, 1), arrive(3, Request, 1), arrive(4, Request, 1), spent(4, 1)}
		for i := range n {
			list = append(list, arrive(100+i, Tool, 1))
		}
		add(b, t0, append(list, arrive(100, Tool, 1)))
		tr := b.Trace(trace1)
		require.Equal(t, 2, b.Forgotten())
		assert.Nil(t, tr.Item(id(2)))
		assert.Same(t, list[3].Item, tr.Item(id(4)), "the first")
		add(b, t0, []arrival{spent(2, 1).in(2)})
		require.Equal(t, 1, b.Forgotten())
		assert.Same(t, list[3].Item, tr.Item(id(4)), "its copy was forgotten")
		add(b, t0, []arrival{arrive(11, Run, 0).announces(0, 0)}) // the lists are put in order
		assert.Same(t, list[2].Item, tr.Item(id(3)), "the one that is left")
		assert.Same(t, list[5].Item, tr.Item(id(100)))
		assert.Len(t, ids(add(b, t0, []arrival{arrive(1, Run, 0).announces(3, uint32(n))})), int(n)+4)
	}
}

// A run that waits for an explanation and is forgotten meanwhile does not count as
// complete any more.
func TestForgottenRun(t *testing.T) {
	cfg := config()
	cfg.MaxFactBytes = ItemSize + factBytes
	cfg.Explained = func(*Release) bool { return false }
	cfg.Read = func(*Item) int { return factBytes }
	b := New(t0, cfg)
	run, unexplained, other := arrive(1, Run, 0).announces(1, 0), arrive(2, Request, 1), arrive(2, Request, 1).in(2)
	run.Item.Known.Part, unexplained.Item.Unexplained, other.Item.Known.Part = true, true, true
	assert.Empty(t, add(b, t0, []arrival{run, unexplained}))
	assert.Empty(t, add(b, t0, []arrival{other}))
	require.True(t, run.Item.Gone())
	assert.Empty(t, add(b, t0, []arrival{arrive(12, Request, 11)}))
	assert.Empty(t, b.Due(after(settle), 1000))
	releases := b.Due(after(maxHold), 1000)
	require.Len(t, releases, 2)
	assert.Equal(t, HoldExpired, releases[0].Reason)
	assert.False(t, releases[0].Final)
}

// Each run of a trace has a time of its own, whichever was kept first.
func TestEarliestExpiryCounts(t *testing.T) {
	b := New(t0, config())
	spent := arrive(2, Request, 1)
	spent.Item.Known.Part = true
	b.cfg.Read = func(it *Item) int { it.Known.Judged = true; return factBytes }
	add(b, t0, []arrival{arrive(3, Request, 11)})
	add(b, after(10*time.Second), []arrival{spent})
	require.Equal(t, []byte{3}, ids(b.Due(after(maxHold), 1000)))
	next, _ := b.Next()
	assert.Equal(t, after(runTimeout), next)
	assert.Equal(t, []byte{3}, ids(b.Due(next, 1000)))
	next, _ = b.Next()
	assert.Equal(t, after(10*time.Second+runTimeout), next)
	assert.Equal(t, []byte{2}, ids(b.Due(next, 1000)))
	empty(t, b)
}

func TestDrainInSlices(t *testing.T) {
	b := New(t0, config())
	add(b, t0, []arrival{arrive(2, Request, 1).in(9)})
	b.Due(after(maxHold), 1000) // of this one only what is known is left
	for n := range byte(5) {
		add(b, after(maxHold), []arrival{arrive(2, Request, 1).in(n + 1)})
	}
	assert.Empty(t, b.Drain(after(maxHold), 0))
	for _, want := range []int{2, 2, 1, 0} {
		assert.Len(t, b.Drain(after(maxHold), 2), want)
	}
	assert.Equal(t, 6, b.Traces())
	assert.Zero(t, b.held)
	assert.Len(t, b.Due(after(runTimeout+maxHold), 1<<20), 6, "what is known of them has kept its time")
	empty(t, b)
}

// A trace of which nothing is held is passed over where room is asked for, and waits on.
func TestEvictPassesOver(t *testing.T) {
	b := New(t0, config())
	add(b, t0, []arrival{arrive(2, Request, 1)})
	b.Due(after(maxHold), 1000)
	b.cfg.RunTimeout = time.Minute
	add(b, after(runTimeout-time.Second), []arrival{arrive(2, Request, 1).in(2), arrive(3, Request, 1).in(3)})
	assert.Len(t, b.Evict(after(runTimeout-time.Second), spanBytes), 1)
	assert.Len(t, b.Evict(after(runTimeout-time.Second), 10*spanBytes), 1)
	next, ok := b.Next()
	require.True(t, ok)
	assert.Equal(t, after(runTimeout), next)
}

// However many traces of which nothing is held are due before, everything held goes.
func TestDrainPassesOver(t *testing.T) {
	cfg := config()
	cfg.RunTimeout = time.Minute
	b := New(t0, cfg)
	for trace := range byte(10) {
		add(b, t0, []arrival{arrive(2, Request, 1).in(trace + 1)})
	}
	require.Len(t, b.Due(after(maxHold), 1000), 10)
	add(b, after(time.Minute-time.Second), []arrival{arrive(2, Request, 1).in(20), arrive(2, Request, 1).in(21)})
	for range 2 {
		require.Len(t, b.Drain(after(time.Minute-time.Second), 1), 1)
	}
	assert.Empty(t, b.Drain(after(time.Minute-time.Second), 1))
	assert.Zero(t, b.Bytes())
}

func TestResize(t *testing.T) {
	b := New(t0, config())
	a := arrive(2, Request, 1)
	b.Resize(a.Item, 1) // not there yet
	assert.Zero(t, b.Bytes())
	add(b, t0, []arrival{a, arrive(3, Request, 1)})
	b.Resize(a.Item, 30)
	assert.Equal(t, spanBytes+30, b.Bytes())
	b.Resize(a.Item, 70)
	assert.Equal(t, spanBytes+70, b.Bytes())
	b.Due(after(maxHold), 1000)
	assert.Zero(t, b.Bytes())
	b.Resize(a.Item, 50) // it has gone
	assert.Zero(t, b.Bytes())
}

func TestDeadlines(t *testing.T) {
	var d, other deadlines
	assert.Nil(t, d.popFirst())
	traces := map[age]*Trace{}
	for _, at := range []age{50, 30, 40, 10, 20} {
		traces[at] = newTrace(trace1, 0)
		traces[at].deadline = at
		d.set(traces[at])
	}
	traces[10].deadline = 60
	d.set(traces[10])
	traces[30].removeDue()
	traces[30].removeDue()
	other.set(traces[40])
	for _, at := range []age{20, 50} {
		first, ok := d.first()
		assert.True(t, ok)
		assert.Equal(t, at, first)
		assert.Same(t, traces[at], d.popFirst())
	}
	assert.Same(t, traces[40], other.popFirst())
	assert.Same(t, traces[10], d.popFirst())
	assert.Nil(t, d.heap[:5][0], "it is let go of")
}

// The two generations of both memories have an eighth of the bytes.
func TestJudgedLimits(t *testing.T) {
	j := newJudged(t0, time.Hour, 8*2*judgedSize*20_000)
	assert.Equal(t, 5000, j.runs.limit)
	assert.Equal(t, 15_000, j.spans.limit)
}

func TestRememberedSpans(t *testing.T) {
	j := newJudged(t0, time.Hour, 0)
	beneath := func(parent byte) bool { return j.late(trace1, id(0), id(parent), id(9)) }
	for _, span := range []byte{2, 3} {
		j.span(trace1, id(span))
	}
	assert.False(t, beneath(2), "no run was judged")
	j.run(trace1, id(1), false)
	assert.False(t, j.hasRuns(trace1), "one that does not count")
	assert.True(t, beneath(1) && beneath(2) && beneath(3))
	assert.False(t, beneath(4))
	j.Rotate(after(time.Minute))

	j.run(trace1, id(1), true)
	assert.True(t, j.hasRuns(trace1))
	assert.True(t, j.late(trace1, id(0), id(0), id(1)))
	assert.False(t, j.late(trace1, id(0), id(0), id(5)), "a root is late only if it was judged itself")
}

// Links are found whatever the lists are that they come in. The first of several counts.
func TestLinks(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2))
	var l links
	want := make(map[pcommon.SpanID]pcommon.SpanID)
	for n := range 200 {
		list := make([]Link, 1+g.IntN(1+n))
		for i := range list {
			list[i] = Link{ID: pcommon.SpanID{byte(g.IntN(4)), byte(g.IntN(256))}, Parent: id(byte(n))}
			if _, ok := want[list[i].ID]; !ok {
				want[list[i].ID] = list[i].Parent
			}
		}
		before := l.size()
		require.Equal(t, len(want)-before, l.add(list))
		for i := range 4 * 256 {
			at := pcommon.SpanID{byte(i / 256), byte(i)}
			parent, ok := l.parent(at)
			_, there := want[at]
			require.Equal(t, there, ok)
			require.Equal(t, want[at], parent)
		}
	}
}

func TestLinksAreBounded(t *testing.T) {
	cfg := config()
	cfg.MaxFactBytes = 3*linkSize + 1
	b := New(t0, cfg)
	add(b, t0, []arrival{arrive(2, Request, 1), arrive(2, Request, 1).in(2)})
	var list []Link
	for n := range byte(2) {
		list = append(list, Link{trace1, id(10 + n), id(0)}, Link{pcommon.TraceID{15: 3}, id(10 + n), id(0)})
	}
	for n := range byte(5) {
		list = append(list, Link{pcommon.TraceID{15: 2}, id(20 + n), id(0)})
	}
	b.Add(t0, nil, list)
	assert.Equal(t, 3*linkSize, b.FactBytes())
	assert.Len(t, b.traces[trace1].links.passed, 2)
	assert.Len(t, b.traces[pcommon.TraceID{15: 2}].links.passed, 1)
	b.Add(t0, nil, list)
	assert.Equal(t, 3*linkSize, b.FactBytes())
	assert.Zero(t, b.Forgotten())
}

// The links of a trace that is gone are remembered with its runs.
func TestLinksAreRemembered(t *testing.T) {
	cfg := config()
	b := New(t0, cfg)
	add(b, t0, []arrival{arrive(2, Request, 1)})
	b.Add(t0, nil, []Link{{trace1, id(7), id(1)}, {trace1, id(8), id(7)}})
	require.Len(t, add(b, t0, []arrival{arrive(1, Run, 0).announces(1, 0)}), 1)
	empty(t, b)
	for parent := byte(1); parent <= 9; parent++ {
		late := parent == 1 || parent == 2 || parent == 7 || parent == 8
		assert.Equal(t, late, len(add(b, t0, []arrival{arrive(20+parent, Request, 0).loose(parent)})) == 1, "beneath %d", parent)
	}
}

// The links of a trace are there until its last releases are judged, and count until then.
func TestLinksOfReleases(t *testing.T) {
	b := New(t0, config())
	add(b, t0, []arrival{arrive(2, Request, 1)})
	b.Add(t0, nil, []Link{{trace1, id(7), id(1)}})
	releases := add(b, t0, []arrival{arrive(1, Run, 0).announces(1, 0)})
	require.Len(t, releases, 1)
	require.Equal(t, 1, b.Traces())
	parent, ok := releases[0].Of.Parent(id(7))
	assert.True(t, ok)
	assert.Equal(t, id(1), parent)
	assert.Empty(t, b.Ready(t0))
	assert.Equal(t, linkSize, b.FactBytes())
	empty(t, b)
}

// A trace of many runs is indexed, and each run is still itself.
func TestManyRuns(t *testing.T) {
	const many = 3 * smallTrace
	b := New(t0, config())
	for n := range byte(many) {
		add(b, t0, []arrival{arrive(100+n, Request, n+1)})
	}
	for n := range byte(many / 2) {
		require.Equal(t, []byte{100 + n, n + 1}, ids(add(b, t0, []arrival{arrive(n+1, Run, 0).announces(1, 0)})), "run %d", n+1)
	}
	assert.Len(t, b.traces[trace1].runs.byID, many/2)
	assert.Empty(t, b.traces[trace1].runs.list)
	releases := b.Due(after(maxHold), 1000)
	require.Len(t, releases, many/2)
	for n, r := range releases {
		assert.Equal(t, id(many/2+byte(n)+1), r.RunID)
		assert.Len(t, r.Members, 1)
	}
	for n := byte(many / 2); n < many; n++ {
		require.Equal(t, []byte{100 + n, n + 1}, ids(add(b, after(maxHold), []arrival{arrive(n+1, Run, 0).announces(1, 0)})), "run %d", n+1)
	}
	empty(t, b)
}

func TestRunsOfATrace(t *testing.T) {
	var rs runs
	for n := range byte(40) {
		assert.Nil(t, rs.get(id(n+1)))
		r := rs.getOrAdd(id(n + 1))
		assert.Same(t, r, rs.getOrAdd(id(n+1)))
		assert.Equal(t, n >= smallTrace, rs.byID != nil)
		for before := range n {
			assert.Equal(t, id(before+1), rs.get(id(before+1)).id)
		}
	}
	rs.remove(id(7))
	assert.Nil(t, rs.get(id(7)))
	assert.NotNil(t, rs.get(id(8)))
	rs = runs{}
	rs.getOrAdd(id(1))
	rs.getOrAdd(id(2))
	rs.remove(id(1))
	assert.Nil(t, rs.get(id(1)))
	assert.NotNil(t, rs.get(id(2)))
	rs.remove(id(2))
	assert.Nil(t, rs.list)
}

// Spans go before their time only in the company of one that must.
func TestNotBeforeItsTime(t *testing.T) {
	b := New(t0, config())
	add(b, t0, []arrival{arrive(2, Request, 5)})
	add(b, after(maxHold-2*settle), []arrival{arrive(1, Run, 0)})
	assert.Equal(t, []byte{1}, ids(b.Due(after(maxHold-settle), 1000)))
	assert.Equal(t, []byte{2}, ids(b.Due(after(maxHold), 1000)))
	add(b, after(maxHold), []arrival{arrive(3, Request, 6)})
	assert.Equal(t, []byte{3}, ids(b.Due(after(2*maxHold), 1000)), "what has gone is not due again")
}

// What has gone does not count against the limit of what is held.
func TestSpanLimitCountsWhatIsHeld(t *testing.T) {
	cfg := config()
	cfg.MaxSpansPerRun = 2
	b := New(t0, cfg)
	for n := range byte(3) {
		now := after(time.Duration(n) * maxHold)
		assert.Empty(t, add(b, now, []arrival{arrive(10+2*n, Request, 1), arrive(11+2*n, Request, 1)}))
		require.Len(t, b.Due(now.Add(maxHold), 1000), 1)
	}
}

// A run's members are its own: what began after its end in another run is not taken
// off them, and tools are counted as requests are.
func TestBegunAfterTheEnd(t *testing.T) {
	at := func(a arrival, start, end pcommon.Timestamp) arrival {
		a.Item.Start, a.Item.End = start, end
		return a
	}
	b := New(t0, config())
	assert.Empty(t, add(b, t0, []arrival{
		at(arrive(12, Request, 11), 130, 140), at(arrive(13, Tool, 11), 130, 140),
		at(arrive(5, Tool, 1), 130, 140), at(arrive(6, Request, 1), 130, 140),
		at(arrive(1, Run, 0).announces(1, 1), 0, 100), at(arrive(2, Request, 1), 10, 20),
	}))
	assert.Equal(t, []byte{5, 6, 1, 2, 3}, ids(add(b, t0, []arrival{at(arrive(3, Tool, 1), 20, 30)})))

	b = New(t0, config())
	assert.Empty(t, add(b, t0, []arrival{at(arrive(1, Run, 0).announces(1, 0), 0, 100), at(arrive(5, Tool, 1), 130, 140)}))
	assert.Equal(t, []byte{1, 5, 2}, ids(add(b, t0, []arrival{at(arrive(2, Request, 1), 10, 20)})))
}

// Memory that a trace's lists take is bounded by what is alive of it.
func TestForgottenIsLetGo(t *testing.T) {
	cfg := config()
	cfg.MaxFactBytes = 5 * (ItemSize + factBytes)
	b := New(t0, cfg)
	for n := range byte(40) {
		add(b, t0, []arrival{arrive(n+2, Request, 1)})
	}
	b.Due(after(maxHold), 1000)
	tr := b.traces[trace1]
	assert.Equal(t, 5, tr.live)
	assert.Less(t, len(tr.items), 2*5+2)
	assert.Equal(t, 35, b.Forgotten())
	assert.Equal(t, 5, tr.kept)
}

// What is released with its verdict is not read: its span is at hand.
func TestOnlyWhatGoesEarlyIsRead(t *testing.T) {
	b := New(t0, config())
	releases := add(b, t0, []arrival{arrive(2, Request, 1), arrive(1, Run, 0).announces(1, 0)})
	require.Len(t, releases, 1)
	assert.True(t, releases[0].Named)
	assert.False(t, releases[0].Members[0].Known.Judged)
	assert.Zero(t, b.held)
}

// TestForeign: only the first requests of other runs, those that are here, are
// evidence for a run with something unexplained.
func TestForeign(t *testing.T) {
	cfg := config()
	asked := 0
	cfg.Explained = func(r *Release) bool {
		asked++
		assert.True(t, r.Final)
		assert.Equal(t, id(1), r.RunID)
		assert.Same(t, r.Run, r.Members[1].Item)
		assert.Equal(t, []byte{2, 1}, ids([]Release{{Members: r.Members[:2]}}))
		return false
	}
	b := New(t0, cfg)
	unexplained := arrive(2, Request, 1)
	unexplained.Item.Unexplained = true
	list := []arrival{unexplained, arrive(3, Tool, 11), arrive(5, Run, 0).announces(0, 0)}
	for n := range uint16(maxForeign + 10) {
		a := arrive(0, Request, 11)
		a.Item.ID = pcommon.SpanID{1, byte(n >> 8), byte(n)}
		list = append(list, a)
	}
	list = append(list, arrive(4, Tool, 11))
	assert.Len(t, add(b, t0, list), 1, "run 5")
	assert.Empty(t, add(b, t0, []arrival{arrive(1, Run, 0).announces(1, 0), arrive(6, Run, 0).announces(0, 0)}), "a large trace rests")
	next, _ := b.Next()
	complete := b.Due(next, 1000)
	assert.Less(t, next.Sub(t0), settle)
	assert.Equal(t, []byte{6}, ids(complete), "a run that waits keeps no other from going")
	assert.Equal(t, 1, asked)
	releases := b.Evict(next, spanBytes)
	require.NotEmpty(t, releases)
	assert.Equal(t, Memory, releases[0].Reason, "room is not waited for")
	var foreign []pcommon.SpanID
	for _, m := range releases[0].Members {
		if m.Foreign {
			assert.False(t, m.Out)
			assert.Equal(t, Request, m.Role)
			foreign = append(foreign, m.ID)
		}
	}
	require.Len(t, foreign, maxForeign)
	assert.Equal(t, pcommon.SpanID{1, 0, 0}, foreign[0])
}

// TestExpiredBehindHeld: where so much is due that it goes in parts, what is held goes
// before its run is given up, and no span is lost.
func TestExpiredBehindHeld(t *testing.T) {
	cfg := config()
	cfg.Limits.Sweep = 1
	b := New(t0, cfg)
	add(b, t0, []arrival{arrive(1, Run, 0).announces(1, 0), arrive(9, Request, 8)}) // a run of its own was judged
	add(b, t0, []arrival{arrive(2, Request, 0).loose(7), arrive(3, Request, 0).loose(7), arrive(4, Request, 0).loose(7)})
	out, now := 0, after(2*runTimeout)
	for next, ok := b.Next(); ok; next, ok = b.Next() {
		if next.After(now) {
			now = next
		}
		for _, r := range b.Due(now, 1) {
			for _, m := range r.Members {
				if m.Out {
					out++
				}
			}
		}
	}
	assert.Equal(t, 5, out)
	empty(t, b)
}

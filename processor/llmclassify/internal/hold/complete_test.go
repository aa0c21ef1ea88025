package hold

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// TestCompleteRuns: what is released without a buffer is what a buffer would release, and
// what a buffer would hold is left to it.
func TestCompleteRuns(t *testing.T) {
	with := func(a arrival, change func(*Item[fact])) arrival {
		change(a.Item)
		return a
	}
	beneath := func(parent byte, a arrival) arrival {
		return with(a, func(it *Item[fact]) { it.Parent = id(parent) })
	}
	named := func(n int) pcommon.SpanID { return pcommon.SpanID{6: 1, 7: byte(n)} }
	many := func(n int) []arrival {
		list := []arrival{arrive(1, Run, 0).announces(uint32(n-1), 0)}
		for len(list) < n {
			list = append(list, with(arrive(0, Request, 1), func(it *Item[fact]) { it.ID = named(len(list)) }))
		}
		return list
	}
	for name, tt := range map[string]struct {
		items []arrival
		alone bool // no span of another kind came with them
		want  [][]byte
	}{
		"a run": {[]arrival{arrive(1, Run, 0).announces(0, 0)}, false, [][]byte{{1}}},
		"with its parts, in any order": {
			[]arrival{arrive(2, Request, 1), arrive(1, Run, 0).announces(1, 1), arrive(3, Tool, 1)},
			false,
			[][]byte{{2, 1, 3}},
		},
		"two runs, as the first of each came": {
			[]arrival{
				arrive(12, Request, 11), arrive(2, Request, 1), arrive(13, Tool, 11),
				arrive(1, Run, 0).announces(1, 1), arrive(11, Run, 0).announces(1, 1), arrive(3, Tool, 1),
			},
			false,
			[][]byte{{12, 13, 11}, {2, 1, 3}},
		},
		"what is beneath a part": {
			[]arrival{arrive(2, Request, 1), beneath(2, arrive(3, Tool, 1)), beneath(3, arrive(4, Request, 1)), arrive(1, Run, 0).announces(2, 1)},
			false,
			[][]byte{{2, 3, 4, 1}},
		},
		"a run beneath a part of another": {
			[]arrival{arrive(1, Run, 0).announces(0, 1), arrive(2, Tool, 1), beneath(2, arrive(11, Run, 0).announces(0, 0))},
			false,
			[][]byte{{1, 2}, {11}},
		},
		"a parent that is nowhere":            {[]arrival{beneath(9, arrive(2, Request, 1)), arrive(1, Run, 0).announces(1, 0)}, true, [][]byte{{2, 1}}},
		"a root that names its run":           {[]arrival{beneath(0, arrive(2, Request, 1)), arrive(1, Run, 0).announces(1, 0)}, false, [][]byte{{2, 1}}},
		"a run of whose call nothing else is": {[]arrival{beneath(9, arrive(1, Run, 0).announces(0, 0))}, true, [][]byte{{1}}},
		"no other run has what is asked":      {[]arrival{with(arrive(2, Request, 1), func(it *Item[fact]) { it.Upstream = true }), arrive(1, Run, 0).announces(1, 0)}, false, [][]byte{{2, 1}}},

		"nothing":                    {nil, true, nil},
		"a run that does not say":    {[]arrival{arrive(1, Run, 0)}, true, nil},
		"more than it announced":     {[]arrival{arrive(1, Run, 0).announces(0, 0), arrive(3, Tool, 1)}, true, nil},
		"a request is missing":       {[]arrival{arrive(1, Run, 0).announces(1, 0), arrive(3, Tool, 1)}, true, nil},
		"a tool is missing":          {[]arrival{arrive(1, Run, 0).announces(1, 1), arrive(2, Request, 1)}, true, nil},
		"one of two tools":           {[]arrival{arrive(1, Run, 0).announces(0, 2), arrive(3, Tool, 1)}, true, nil},
		"the run is missing":         {[]arrival{arrive(2, Request, 1), arrive(11, Run, 0).announces(0, 0)}, true, nil},
		"a run that is no run":       {[]arrival{arrive(3, Request, 2), arrive(2, Request, 1), arrive(1, Run, 0).announces(1, 0)}, true, nil},
		"the second one waits":       {[]arrival{arrive(11, Run, 0).announces(0, 0), arrive(1, Run, 0).announces(1, 0)}, true, nil},
		"a part that names no run":   {[]arrival{arrive(1, Run, 0).announces(0, 0), arrive(2, Request, 0).loose(1)}, true, nil},
		"what came twice":            {[]arrival{arrive(2, Request, 1), arrive(2, Request, 1), arrive(1, Run, 0).announces(1, 0)}, true, nil},
		"a span without an id":       {[]arrival{arrive(1, Run, 0).announces(1, 0), arrive(0, Request, 1)}, true, nil},
		"a parent of another kind":   {[]arrival{arrive(1, Run, 0).announces(1, 0), beneath(9, arrive(2, Request, 1))}, false, nil},
		"a run beneath another kind": {[]arrival{beneath(9, arrive(1, Run, 0).announces(0, 0))}, false, nil},
		"spent":                      {[]arrival{arrive(1, Run, 0).announces(1, 0), with(arrive(2, Request, 1), func(it *Item[fact]) { it.Spent = true })}, true, nil},
		"unexplained":                {[]arrival{arrive(1, Run, 0).announces(1, 0), with(arrive(2, Request, 1), func(it *Item[fact]) { it.Unexplained = true })}, true, nil},
		"more than are compared":     {many(maxCompared + 1), true, nil},
		"evidence for one another": {
			[]arrival{
				arrive(1, Run, 0).announces(1, 0), with(arrive(2, Request, 1), func(it *Item[fact]) { it.Upstream = true }),
				arrive(12, Request, 11), arrive(11, Run, 0).announces(1, 0),
			},
			true, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			releases, ok := completeRuns(t, tt.items, tt.alone)
			require.Equal(t, tt.want != nil, ok)
			var got [][]byte
			for _, r := range releases {
				got = append(got, ids([]Release[fact]{r}))
			}
			assert.Equal(t, tt.want, got)
		})
	}
	_, ok := completeRuns(t, many(maxCompared), false)
	assert.True(t, ok, "as many as are compared")
}

// completeRuns is [CompleteRuns] behind a release of another trace, whose run has the same id. What
// comes of it is what a buffer releases.
func completeRuns(t *testing.T, items []arrival, alone bool) ([]Release[fact], bool) {
	t.Helper()
	a := Arrival[fact]{Trace: trace1}
	spans := make([]ptrace.Span, len(items))
	for i := range items {
		a.Items = append(a.Items, items[i].Item)
		spans[i] = ptrace.NewSpan()
		spans[i].SetSpanID(items[i].Item.ID)
	}
	before := Release[fact]{Trace: pcommon.TraceID{15: 2}, RunID: id(1)}
	releases, _, ok := CompleteRuns(a, spans, alone, []Release[fact]{before}, nil)
	require.Equal(t, before, releases[0])
	if releases = releases[1:]; !ok {
		require.Empty(t, releases)
		return nil, false
	}
	cfg := config()
	cfg.Locate = func(t *Trace[fact], it *Item[fact]) Place {
		place := locate(t, it)
		if above := t.Item(it.Parent); it.Role != Run && above != nil && above.Role != Run {
			place.Above = it.Parent
		}
		return place
	}
	want := New(t0, cfg).Add(t0, []Arrival[fact]{a}, nil)
	require.Len(t, releases, len(want))
	for i := range want {
		for n := range releases[i].Members {
			m := &releases[i].Members[n]
			assert.Equal(t, m.ID, m.Span.SpanID())
			m.Span = ptrace.Span{}
		}
		want[i].Of = nil // of a run that is not held nothing else is known
		assert.Equal(t, want[i], releases[i])
	}
	return releases, true
}

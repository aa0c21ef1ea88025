package hold

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// A span may be of the run that it names, and of what it began in, by clocks that differ by at
// most maxSkew.
func TestMayBeOf(t *testing.T) {
	const from, to = 100 * maxSkew, 110 * maxSkew
	run, other := pcommon.SpanID{1}, pcommon.SpanID{2}
	began := func(at pcommon.Timestamp) AwaitedSpan { return AwaitedSpan{Owner: other, From: at, To: at} }
	for name, c := range map[string]struct {
		span  AwaitedSpan
		ended bool // the run has ended
		want  bool
	}{
		"within":                        {began(105 * maxSkew), true, true},
		"just before":                   {began(from - maxSkew), true, true},
		"before":                        {began(from - maxSkew - 1), true, false},
		"just after":                    {began(to + maxSkew), true, true},
		"after":                         {began(to + maxSkew + 1), true, false},
		"after, it goes on":             {began(to + maxSkew + 1), false, true},
		"before, it goes on":            {began(from - maxSkew - 1), false, false},
		"it names it":                   {AwaitedSpan{Owner: run, From: 1, To: 1}, true, true},
		"it does not say when":          {AwaitedSpan{Owner: other}, true, true},
		"a call around it":              {AwaitedSpan{From: 1, To: 1000 * maxSkew}, true, true},
		"a call with one that does not": {AwaitedSpan{From: 0, To: 1}, true, true},
		"an earlier call":               {AwaitedSpan{From: 1, To: 2}, true, false},
		"a later call":                  {AwaitedSpan{From: 200 * maxSkew, To: 300 * maxSkew}, true, false},
	} {
		end := pcommon.Timestamp(0)
		if c.ended {
			end = to
		}
		a := Awaited{Spans: []AwaitedSpan{began(1), c.span}}
		assert.Equal(t, c.want, a.mayBeOf(run, from, end), name)
		a.More = true
		assert.True(t, a.mayBeOf(run, from, end), name)
	}
	assert.False(t, (&Awaited{}).mayBeOf(run, from, 0))
	assert.False(t, (&Awaited{Spans: []AwaitedSpan{{From: 1, To: 1}}}).mayBeOf(pcommon.SpanID{}, from, to), "neither has a run")
}

// A trace that waits for a call is looked at a few times, not every few milliseconds.
func TestGlances(t *testing.T) {
	cfg := config()
	cfg.MaxHold = 8 * maxPatience
	looked := 0
	cfg.Awaits = func(pcommon.TraceID) Awaited {
		looked++
		return Awaited{Spans: []AwaitedSpan{{From: 1, To: 1}}}
	}
	b := New(t0, cfg)
	assert.Empty(t, add(b, t0, []arrival{arrive(2, Request, 1)}))
	due := t0.Add(cfg.MaxHold)
	looked = 0
	for now := due; now.Before(due.Add(maxPatience)); {
		assert.Empty(t, b.Due(now, 10), "it waits for the call")
		next, ok := b.Next()
		require.True(t, ok)
		require.True(t, next.After(now))
		now = next
	}
	assert.LessOrEqual(t, looked, 12)
	assert.Len(t, b.Due(due.Add(2*maxPatience), 10), 1)
}

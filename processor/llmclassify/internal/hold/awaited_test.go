package hold

import (
	"testing"

	"github.com/stretchr/testify/assert"
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

package trace

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return t0.Add(d) }

// fact is what these tests know of a span: whether it was read.
// The tests note in fields of Known, at which the buffer does not look, that facts were read (Judged) and
// that a span is to go as soon as it has come (Part), see add.

const (
	maxHold    = 30 * time.Second
	settle     = 2 * time.Second
	runTimeout = time.Hour
	spanBytes  = 100
	factBytes  = guessedFacts
)

func config() Config {
	return Config{
		MaxHold: maxHold, Settle: settle, RunTimeout: runTimeout, MaxSpansPerRun: 1000, MaxFactBytes: 1 << 20,
		Read: func(it *Item) int {
			if it.Known.Judged {
				panic("read twice, or when it had gone")
			}
			it.Known.Judged = true
			return factBytes
		},
	}
}

func id(n byte) pcommon.SpanID {
	if n == 0 {
		return pcommon.SpanID{}
	}
	return pcommon.SpanID{7: n}
}

// arrival is one item of a trace.
type arrival struct {
	Trace pcommon.TraceID
	Item  *Item
}

func add(b *Buffer, now time.Time, arrivals []arrival) []Release {
	var list []Arrival
	for _, a := range arrivals {
		list = append(list, Arrival{a.Trace, []*Item{a.Item}})
	}
	judged(b)
	releases := b.Add(now, list, nil)
	for _, a := range arrivals {
		if it := a.Item; it.Known.Part && it.Held() {
			b.read(it)
			b.keep(it)
			b.releaseSpan(it.trace, it)
			b.schedule(it.trace)
		}
	}
	b.Trim()
	return releases
}

// services has one for each run.
var services [256]*origin.Scope

func serviceOf(run byte) *origin.Scope {
	if services[run] == nil {
		services[run] = &origin.Scope{Resource: &origin.Resource{Key: Service{run}}}
	}
	return services[run]
}

func arrive(n byte, role Role, run byte) arrival {
	a := arrival{Trace: pcommon.TraceID{15: 1}, Item: &Item{
		ID: id(n), Role: role, Run: id(run), Parent: id(run), Size: spanBytes,
	}}
	if a.Item.Known.Origin = serviceOf(run); role == Run {
		a.Item.Known.Origin = serviceOf(n)
	}
	return a
}

func (a arrival) in(trace byte) arrival { a.Trace = pcommon.TraceID{15: trace}; return a }
func (a arrival) loose(parent byte) arrival {
	a.Item.Run, a.Item.Parent = id(0), id(parent)
	return a
}

func (a arrival) announces(requests, tools uint32) arrival {
	a.Item.Announced = Announced{Known: true, Requests: requests, Tools: tools}
	return a
}

// shape is a release in short.
type shape struct {
	reason Reason
	final  bool
	run    bool
	out    []byte
	known  []byte // members that are not out
}

func shapes(t *testing.T, releases []Release) (list []shape) {
	t.Helper()
	for _, r := range releases {
		s := shape{reason: r.Reason, final: r.Final, run: r.Run != nil}
		for _, m := range r.Members {
			if m.Out {
				s.out = append(s.out, m.ID[7])
			} else {
				assert.True(t, m.Known.Judged || !m.Item.Held(), "what may go before this release is judged has been read")
				s.known = append(s.known, m.ID[7])
			}
		}
		list = append(list, s)
	}
	return list
}

// judged lets all that was released be judged.
func judged(b *Buffer) {
	for _, t := range b.traces {
		if t.judging = 0; t.live == 0 {
			b.leave(t)
		}
	}
}

// ready is what is complete once all that was released is judged.
func ready(b *Buffer, now time.Time) []Release {
	judged(b)
	return b.Ready(now)
}

func empty(t *testing.T, b *Buffer) {
	t.Helper()
	judged(b)
	assert.Zero(t, b.Traces())
	assert.Zero(t, b.Bytes())
	assert.Zero(t, b.FactBytes())
	_, ok := b.Next()
	assert.False(t, ok)
}

func TestComplete(t *testing.T) {
	b := New(t0, config())
	assert.Empty(t, add(b, t0, []arrival{arrive(2, Request, 1), arrive(1, Run, 0).announces(2, 1)}))
	assert.Empty(t, add(b, t0, []arrival{arrive(3, Tool, 1), arrive(2, Request, 1)}), "a span that comes twice counts once")
	assert.Equal(t, []shape{{Complete, true, true, []byte{2, 1, 3, 2, 4}, nil}}, shapes(t, add(b, t0, []arrival{arrive(4, Request, 1)})))
	empty(t, b)
}

// TestNotAnnounced: what began after the run had ended, twice delivered or not, does
// not stand for a member that has yet to come, and goes with the run.
func TestNotAnnounced(t *testing.T) {
	span := func(n byte, role Role, start, end pcommon.Timestamp) arrival {
		run := byte(1)
		if role == Run {
			run = 0
		}
		a := arrive(n, role, run)
		a.Item.Start, a.Item.End = start, end
		return a
	}
	all := []arrival{
		span(2, Request, 10, 20), span(5, Request, 101, 120), span(6, Tool, 130, 140), span(5, Request, 101, 120),
		span(1, Run, 0, 100).announces(2, 1), span(3, Tool, 20, 30),
	}
	b := New(t0, config())
	for _, a := range all {
		assert.Empty(t, add(b, t0, []arrival{a}))
	}
	last := span(4, Request, 100, 130) // as it ended is not after
	assert.Equal(t, []shape{{Complete, true, true, []byte{2, 5, 6, 5, 1, 3, 4}, nil}}, shapes(t, add(b, t0, []arrival{last})))
	empty(t, b)

	for _, tt := range []struct {
		end      pcommon.Timestamp
		complete bool
	}{{100, false}, {0, true}} { // without its end nothing is known to be after it
		b := New(t0, config())
		releases := add(b, t0, []arrival{span(2, Request, 10, 20), span(5, Request, 101, 120), span(1, Run, 0, tt.end).announces(2, 0)})
		assert.Equal(t, tt.complete, len(releases) > 0)
	}
}

func TestCompleteAtOnce(t *testing.T) {
	b := New(t0, config())
	assert.Equal(t, []shape{{Complete, true, true, []byte{1}, nil}}, shapes(t, add(b, t0, []arrival{arrive(1, Run, 0).announces(0, 0)})))
	empty(t, b)
}

func TestSettle(t *testing.T) {
	b := New(t0, config())
	add(b, t0, []arrival{arrive(1, Run, 0)})
	add(b, after(time.Second), []arrival{arrive(2, Request, 1), arrive(11, Run, 0), arrive(12, Tool, 11)})
	next, ok := b.Next()
	require.True(t, ok)
	assert.Equal(t, after(settle), next)
	assert.Empty(t, b.Due(after(settle-1), 1000))
	assert.Equal(t, []shape{{RunEnded, true, true, []byte{1, 2}, nil}}, shapes(t, b.Due(after(settle), 1000)))
	next, _ = b.Next()
	assert.Equal(t, after(time.Second+settle), next)
	assert.Equal(t, []shape{{RunEnded, true, true, []byte{11, 12}, nil}}, shapes(t, b.Due(after(time.Minute), 1000)))
	empty(t, b)
}

// Spans expire in the company of those that are about to; what is known of them
// stays for the run.
func TestHoldExpired(t *testing.T) {
	b := New(t0, config())
	add(b, t0, []arrival{arrive(2, Request, 1)})
	add(b, after(maxHold/expirySlack), []arrival{arrive(3, Tool, 1)})
	add(b, after(maxHold/expirySlack+1), []arrival{arrive(4, Request, 1)})
	assert.Empty(t, b.Due(after(maxHold-1), 1000))
	releases := b.Due(after(maxHold), 1000)
	assert.Equal(t, []shape{{HoldExpired, false, false, []byte{2, 3}, []byte{4}}}, shapes(t, releases))
	assert.Equal(t, maxHold, releases[0].Members[0].Held)
	assert.Equal(t, 1*spanBytes, b.Bytes())
	assert.Equal(t, 2*(ItemSize+factBytes), b.FactBytes())
	assert.Equal(t, []shape{{Complete, true, true, []byte{4, 1}, []byte{2, 3}}},
		shapes(t, add(b, after(time.Minute/2+1), []arrival{arrive(1, Run, 0).announces(2, 1)})))
	empty(t, b)
}

// A run span that waits in vain for its children is judged with those that came.
func TestMissingChildren(t *testing.T) {
	b := New(t0, config())
	add(b, t0, []arrival{arrive(2, Request, 1)})
	add(b, after(10*time.Second), []arrival{arrive(1, Run, 0).announces(5, 0)})
	assert.Equal(t, []shape{{HoldExpired, false, true, []byte{2}, []byte{1}}}, shapes(t, b.Due(after(maxHold), 1000)))
	assert.Equal(t, []shape{{HoldExpired, true, true, []byte{1}, []byte{2}}}, shapes(t, b.Due(after(maxHold+10*time.Second), 1000)))
	empty(t, b)
}

func TestNoRunWillCome(t *testing.T) {
	b := New(t0, config())
	add(b, t0, []arrival{arrive(2, Request, 0).loose(9)})
	add(b, after(20*time.Second), []arrival{arrive(3, Request, 0).loose(9)})
	b.Add(t0, nil, []Link{{pcommon.TraceID{15: 1}, id(9), id(0)}})
	b.Add(t0, nil, []Link{{pcommon.TraceID{15: 2}, id(9), id(0)}}) // of no interest
	assert.Equal(t, linkSize, b.FactBytes())
	assert.Equal(t, []shape{{HoldExpired, true, false, []byte{2, 3}, nil}}, shapes(t, b.Due(after(maxHold), 1000)))
	empty(t, b)
}

func TestSpanLimit(t *testing.T) {
	cfg := config()
	cfg.MaxSpansPerRun = 2
	b := New(t0, cfg)
	assert.Empty(t, add(b, t0, []arrival{arrive(2, Request, 1), arrive(3, Request, 1), arrive(12, Request, 11), arrive(5, Request, 0).loose(9)}))
	assert.Equal(t, []shape{{SpanLimit, false, false, []byte{2, 3, 4}, nil}}, shapes(t, add(b, t0, []arrival{arrive(4, Request, 1)})),
		"the other runs of the trace are not touched")
	add(b, t0, []arrival{arrive(6, Request, 0).loose(9)})
	assert.Equal(t, []shape{{SpanLimit, false, false, []byte{5, 6}, nil}, {SpanLimit, false, false, []byte{7}, nil}},
		shapes(t, add(b, t0, []arrival{arrive(7, Request, 0).loose(8)})), "spans of no run count together")
	for n := range byte(2*linksPerSpan + 3) {
		b.Add(t0, nil, []Link{{pcommon.TraceID{15: 1}, id(100 + n), id(0)}})
	}
	assert.Equal(t, 6*(ItemSize+factBytes)+2*linksPerSpan*linkSize, b.FactBytes(), "links are bounded, too")
}

func TestEvict(t *testing.T) {
	b := New(t0, config())
	for trace := range byte(5) {
		add(b, after(time.Duration(trace)*time.Second), []arrival{arrive(2, Request, 1).in(trace + 1), arrive(3, Tool, 1).in(trace + 1)})
	}
	assert.Empty(t, b.Evict(after(time.Minute), 0))
	assert.Len(t, shapes(t, b.Evict(after(time.Minute), spanBytes)), 1, "one trace is enough")
	releases := b.Evict(after(time.Minute), 3*spanBytes)
	require.Len(t, releases, 2)
	assert.Equal(t, Memory, releases[0].Reason)
	assert.Equal(t, 59*time.Second, releases[0].Members[0].Held, "the oldest goes first")
	assert.Equal(t, 4*spanBytes, b.Bytes())
	assert.Len(t, b.Evict(after(time.Minute), 1<<30), 2)
	assert.Zero(t, b.Bytes())
	assert.Equal(t, 5, b.Traces(), "their facts wait")
}

func TestDrain(t *testing.T) {
	b := New(t0, config())
	add(b, t0, []arrival{arrive(2, Request, 1), arrive(1, Run, 0), arrive(2, Request, 1).in(2), arrive(3, Request, 1)})
	assert.ElementsMatch(t, []shape{{Shutdown, true, true, []byte{2, 1, 3}, nil}, {Shutdown, false, false, []byte{2}, nil}}, shapes(t, b.Drain(t0, 1000)))
	assert.Zero(t, b.Bytes())
}

func TestLate(t *testing.T) {
	b := New(t0, config())
	add(b, t0, []arrival{arrive(1, Run, 0).announces(0, 0)})
	for _, a := range []arrival{arrive(2, Request, 1), arrive(2, Request, 0).loose(1), arrive(1, Run, 0)} {
		assert.Equal(t, []shape{{Late, false, false, []byte{a.Item.ID[7]}, nil}}, shapes(t, add(b, after(time.Second), []arrival{a})))
	}
	empty(t, b)
	assert.Empty(t, add(b, t0, []arrival{arrive(2, Request, 1).in(2), arrive(5, Run, 0).announces(3, 3)}), "not the run of another trace, not another run")
	b.Drain(t0, 1000)
	assert.NotEmpty(t, add(b, after(runTimeout), []arrival{arrive(2, Request, 1)}), "remembered for a period")
	b.Due(after(2*runTimeout), 1000)
	assert.Empty(t, add(b, after(3*runTimeout), []arrival{arrive(2, Request, 1)}), "and forgotten after two")
}

func TestJudgedIsBounded(t *testing.T) {
	j := newJudged(t0, time.Hour, 10)
	j.Rotate(t0)
	for n := range 10 * minJudged {
		trace := pcommon.TraceID{byte(n >> 8), byte(n)}
		j.run(trace, id(1), false)
		j.span(trace, id(2))
		switch {
		case j.runs.Now.n+j.runs.Previous.n > 2*minJudged, j.spans.Now.n+j.spans.Previous.n > 2*minJudged:
			t.Fatal("more than there is room for")
		case !j.late(trace, id(1), id(0), id(9)):
			t.Fatal("named")
		case !j.late(trace, id(0), id(2), id(9)):
			t.Fatal("beneath")
		case j.late(trace, id(2), id(1), id(9)):
			t.Fatal("of another run, whatever is above it")
		}
	}
	last := pcommon.TraceID{byte((10*minJudged - 1) >> 8), byte((10*minJudged - 1) & 0xff)}
	for _, later := range []struct {
		minutes time.Duration
		kept    bool
	}{{50, true}, {70, true}, {130, false}} {
		j.Rotate(after(later.minutes * time.Minute))
		assert.Equal(t, later.kept, j.late(last, id(0), id(2), id(9)), "beneath, after %d minutes", later.minutes)
		assert.Equal(t, later.kept, j.late(last, id(1), id(0), id(9)), "named, after %d minutes", later.minutes)
	}
}

func TestFactsAreBounded(t *testing.T) {
	cfg := config()
	cfg.MaxFactBytes = 3 * (ItemSize + factBytes)
	var forgotten []byte
	cfg.Forget = func(it *Item) { forgotten = append(forgotten, it.ID[7]) }
	b := New(t0, cfg)
	for trace := range byte(5) {
		add(b, after(time.Duration(trace)), []arrival{arrive(trace+2, Request, 1).in(trace + 1)})
	}
	b.Due(after(time.Minute), 1000)
	assert.Equal(t, cfg.MaxFactBytes, b.FactBytes())
	assert.Equal(t, 2, b.Forgotten())
	assert.Equal(t, []byte{2, 3}, forgotten, "the oldest")
	assert.Zero(t, b.Forgotten())
	judged(b)
	assert.Equal(t, 3, b.Traces())
}

// A run of which nothing comes for run_timeout is given up: what is known of it
// is judged, once.
func TestRunExpired(t *testing.T) {
	b := New(t0, config())
	add(b, t0, []arrival{arrive(2, Request, 1), arrive(3, Request, 11)})
	b.Due(after(maxHold), 1000)
	add(b, after(30*time.Minute), []arrival{arrive(4, Tool, 1)}) // it lives
	b.Due(after(31*time.Minute), 1000)
	next, ok := b.Next()
	require.True(t, ok)
	assert.Equal(t, after(runTimeout), next)
	assert.Empty(t, b.Due(after(runTimeout-1), 1000))
	assert.Equal(t, []shape{{RunExpired, true, false, nil, []byte{3}}}, shapes(t, b.Due(after(runTimeout), 1000)), "the other one has not been heard of for an hour")

	next, _ = b.Next()
	assert.Equal(t, after(30*time.Minute+runTimeout), next)
	releases := b.Due(next, 1000)
	assert.Equal(t, []shape{{RunExpired, true, false, nil, []byte{2, 4}}}, shapes(t, releases))
	assert.Equal(t, id(1), releases[0].RunID)
	assert.True(t, releases[0].Named)
	empty(t, b)
	assert.Equal(t, []shape{{Late, false, false, []byte{1}, nil}}, shapes(t, add(b, next, []arrival{arrive(1, Run, 0)})), "it has been judged")
}

// A long list of traces is released in slices, in the order of their time.
func TestDueInSlices(t *testing.T) {
	b := New(t0, config())
	for n := range byte(100) {
		add(b, after(time.Duration(n)), []arrival{arrive(n+1, Request, 1).in(n + 1)})
	}
	var order []byte
	for len(order) < 100 {
		slice := b.Due(after(time.Minute), 7*(1+traceWork))
		require.NotEmpty(t, slice)
		require.LessOrEqual(t, len(slice), 7)
		for _, r := range slice {
			order = append(order, r.Members[0].ID[7])
		}
	}
	assert.IsIncreasing(t, order)
	assert.Empty(t, b.Due(after(time.Minute), 7*(1+traceWork)))
}

// tiny are limits of one or a few, for every other seed.
func tiny(seed uint64, r *rand.Rand) Limits {
	if seed%2 == 0 {
		return Limits{}
	}
	few := func() int { return 1 + r.IntN(3) }
	return Limits{Sweep: few(), Within: few(), FreeWork: few(), Early: few(), Kept: few()}
}

// Whatever comes in whatever order, every span is released once, nothing is held
// for longer than it may be, no run is judged twice, and nothing is left over.
func TestEverySpanOnce(t *testing.T) {
	seeds := uint64(60 / sample.Every(5)) //nolint:gosec // positive
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // repeatable on purpose
		cfg := config()
		cfg.MaxSpansPerRun = 5 + r.IntN(20)
		cfg.MaxFactBytes = 500 + r.IntN(20_000)
		cfg.Limits = tiny(seed, r)
		b := New(t0, cfg)
		now := t0
		came := map[*Item]time.Time{}
		judged := map[[2]any]time.Time{}
		check := func(releases []Release) {
			for _, release := range releases {
				for _, m := range release.Members {
					if !m.Out {
						continue
					}
					at, ok := came[m.Item]
					require.True(t, ok, "seed %d: released twice", seed)
					require.LessOrEqual(t, now.Sub(at), maxHold, "seed %d", seed)
					delete(came, m.Item)
				}
				if release.Final && !release.RunID.IsEmpty() {
					key := [2]any{release.Trace, release.RunID}
					if before, ok := judged[key]; ok {
						require.GreaterOrEqual(t, now.Sub(before), runTimeout, "seed %d: judged twice", seed)
					}
					judged[key] = now
				}
			}
			require.LessOrEqual(t, b.FactBytes(), cfg.MaxFactBytes)
			require.Equal(t, len(came)*spanBytes, b.Bytes(), "seed %d", seed)
		}
		for range 300 {
			switch r.IntN(10) {
			case 0:
				now = now.Add(time.Duration(r.IntN(3000)) * time.Millisecond)
				if next, ok := b.Next(); ok && next.Before(now) {
					now = next // the timer keeps its time
				}
				check(b.Due(now, 1000))
			case 1:
				check(b.Evict(now, r.IntN(5)*spanBytes))
			case 2:
				b.Add(now, nil, []Link{{pcommon.TraceID{15: byte(r.IntN(3) + 1)}, id(byte(r.IntN(30))), id(byte(r.IntN(30)))}})
			default:
				var batch []arrival
				for range r.IntN(5) + 1 {
					a := arrive(byte(r.IntN(40)+1), Role(r.IntN(3)), byte(r.IntN(6))).in(byte(r.IntN(3) + 1))
					if r.IntN(3) == 0 {
						a = a.loose(byte(r.IntN(10)))
					}
					if r.IntN(2) == 0 {
						a = a.announces(r.Uint32N(4), r.Uint32N(3))
					}
					came[a.Item] = now
					batch = append(batch, a)
				}
				check(add(b, now, batch))
			}
		}
		check(b.Drain(now, 1000))
		require.Empty(t, came, "seed %d", seed)
		for next, ok := b.Next(); ok; next, ok = b.Next() {
			require.LessOrEqual(t, next.Sub(now), runTimeout+time.Second) // a trace may rest
			check(b.Due(next, 1000))
		}
		empty(t, b)
		require.Empty(t, b.due.heap)
		require.Empty(t, b.dueFacts.heap)
	}
}

// A complete run with something unexplained waits for what explains it, and at most
// for settle. Requests of other runs are shown, and stay where they are.
func TestUnexplained(t *testing.T) {
	for name, tt := range map[string]struct {
		explains bool // what comes after a second
		wait     time.Duration
	}{
		"explained in time": {true, time.Second},
		"never explained":   {false, settle},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config()
			cfg.Explained = func(r *Release) bool {
				for _, m := range r.Members {
					if m.Foreign {
						assert.False(t, m.Out)
						return tt.explains
					}
				}
				return false
			}
			b := New(t0, cfg)
			empty := arrive(2, Request, 1)
			empty.Item.Unexplained = true
			assert.Empty(t, add(b, t0, []arrival{empty, arrive(1, Run, 0).announces(1, 0)}))
			next, _ := b.Next()
			assert.Equal(t, after(settle), next)
			releases := add(b, after(time.Second), []arrival{arrive(12, Request, 11)})
			if !tt.explains {
				assert.Empty(t, releases)
				releases = b.Due(after(settle), 1000)
			}
			assert.Equal(t, []shape{{Complete, true, true, []byte{2, 1}, []byte{12}}}, shapes(t, releases))
			assert.True(t, releases[0].Members[2].Foreign)
			assert.Equal(t, tt.wait, releases[0].Members[0].Held)
			assert.Equal(t, spanBytes, b.Bytes(), "the other run's waits on")
		})
	}
}

// TestFresh: every held span is visited once, whatever goes in between.
func TestFresh(t *testing.T) {
	b := New(t0, config())
	trace := pcommon.TraceID{15: 1}
	fresh := func() (ids []byte) {
		b.Fresh(trace, func(it *Item) { ids = append(ids, it.ID[7]) })
		return ids
	}
	assert.Empty(t, fresh(), "no such trace")
	add(b, t0, []arrival{arrive(2, Request, 1), arrive(3, Tool, 1)})
	assert.Equal(t, []byte{2, 3}, fresh())
	assert.Empty(t, fresh())
	add(b, t0, []arrival{arrive(5, Request, 4), arrive(6, Request, 1)})
	run := arrive(1, Run, 0)
	run.Item.Announced = Announced{Known: true, Requests: 2, Tools: 1}
	require.Len(t, add(b, t0, []arrival{run}), 1)
	assert.Equal(t, []byte{5}, fresh(), "the others have gone")
	add(b, t0, []arrival{arrive(7, Tool, 4)})
	assert.Equal(t, []byte{7}, fresh())
	require.Len(t, b.Due(after(maxHold), 1000), 1)
	assert.Empty(t, fresh(), "what is known of a span is not a span")
}

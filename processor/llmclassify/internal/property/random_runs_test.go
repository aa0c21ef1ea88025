package property

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

var (
	trees    = flag.Int("trees", 0, "how many trees TestSafeRunsOfRandomTrees makes; 0 for 3000, and 150 of a sample")
	treeSeed = flag.Uint64("tree-seed", 0, "the seed of the first tree")
)

// treeSpan is a span of a [runTree]. Ids are numbers from 1 on; 0 is the parent of a root.
type treeSpan struct {
	id, parent int
	kind       byte // r: a run, q: its request, t: its tool, o: another span
	run        int  // of a request or a tool; of a run it is its own id
	from, to   float64
	service    string
	skew       float64 // of its service's clock
	counted    bool    // the run announces its numbers
	requests   int     // that a counted run announces
	tools      int
	failed     bool // the run failed, or the request was refused
	shown      bool // the request broke, or ended, when text had been shown
	paid       bool // the tool made a payment
	named      bool // it names its run
	lost       bool // it never comes
}

func treeID(n int) pcommon.SpanID {
	if n == 0 {
		return pcommon.SpanID{}
	}
	return harness.NthSpanID(n)
}

func (s treeSpan) addTo(f harness.Forest) {
	var spec harness.Span
	switch s.kind {
	case 'r':
		if spec = harness.RunSpan(1, 0, 0, s.requests, s.tools); !s.counted {
			spec = harness.Unannounced(spec)
		}
		if s.failed {
			spec = spec.Failed("x")
		}
	case 'q':
		switch {
		case s.failed && s.shown:
			spec = harness.ShownText(1, 0)
		case s.failed:
			spec = harness.RateLimited(1, 0)
		default:
			spec = harness.RequestSpan(1, 0, 0, 0).Answered("stop", harness.Answer)
		}
	case 't':
		effect := semconv.ToolEffectReadOnly
		if s.paid {
			effect = semconv.ToolEffectNonIdempotent
		}
		spec = harness.ToolSpan(1, 0, 0, "c"+strconv.Itoa(s.id), effect, semconv.ToolOutcomeSucceeded).Without(semconv.RunIDKey)
	default:
		spec = harness.OtherSpan(1, 0, 0, 0)
	}
	if s.named {
		spec = spec.With(semconv.RunID(treeID(s.run).String()))
	}
	f.Add(spec.In(s.service), treeID(s.id), treeID(s.parent), s.from+s.skew, s.to+s.skew)
}

// runTree is a trace made at random: agents of several services that start one another from
// their tools or directly, with spans of others between them.
type runTree struct {
	*rand.Rand
	spans             []treeSpan
	here              map[int]map[int]bool // what was here when a span had come
	passed            map[int]bool         // spans of others beneath runs that were judged
	again             bool                 // spans are sent again
	counted, outlasts float64              // the chance that a run announces its numbers, and outlasts the run around it
}

func newRunTree(seed uint64) *runTree {
	g := &runTree{Rand: rand.New(rand.NewPCG(seed, 7)), here: map[int]map[int]bool{}, passed: map[int]bool{}}
	g.counted, g.outlasts, g.again = g.Float64(), g.Float64(), g.maybe(0.2)
	root := 0
	if g.maybe(0.4) {
		root = g.add(treeSpan{kind: 'o', to: 20, service: "root", lost: g.maybe(0.5)})
	}
	g.agent(root, 1, 11, 0)
	if root != 0 && g.maybe(0.5) {
		from, to := g.within(0, 15)
		g.agent(root, from, to, 0)
	}
	skews := map[string]float64{}
	for i := range g.spans {
		s := &g.spans[i]
		if _, ok := skews[s.service]; !ok {
			skews[s.service] = 0.9 * (g.Float64() - 0.5)
		}
		s.skew = skews[s.service]
	}
	return g
}

func (g *runTree) maybe(p float64) bool { return g.Float64() < p }

func (g *runTree) within(from, to float64) (a, b float64) {
	a, b = from+(to-from)*g.Float64(), from+(to-from)*g.Float64()
	return min(a, b), max(a, b)
}

func (g *runTree) add(s treeSpan) int {
	if s.id = len(g.spans) + 1; s.kind == 'r' {
		s.run = s.id
	}
	g.spans = append(g.spans, s)
	return s.id
}

// agent adds a run, and what it did: requests, of which those before the last one were refused,
// payments, and runs that it started.
func (g *runTree) agent(parent int, from, to float64, depth int) {
	service, counted, failed := "s"+strconv.Itoa(len(g.spans)), g.maybe(g.counted), depth == 0 || g.maybe(0.6)
	run := g.add(treeSpan{kind: 'r', parent: parent, from: from, to: to, counted: counted, failed: failed, service: service})
	// do adds a part of the run.
	do := func(s treeSpan) int {
		s.run, s.service = run, service
		if s.kind == 'q' {
			g.spans[run-1].requests++
		} else {
			g.spans[run-1].tools++
		}
		return g.add(s)
	}
	for n := 1 + g.IntN(3)*g.IntN(2); n > 0; n-- {
		a, b := g.within(from, to)
		last := n == 1
		do(treeSpan{kind: 'q', parent: run, from: a, to: b, failed: failed || !last, shown: depth > 0 && last && (!failed || g.maybe(0.4)), named: true})
	}
	for range g.IntN(3) {
		if depth == 4 || len(g.spans) > 24 {
			return
		}
		above := run
		a, b := g.within(from, to)
		if g.maybe(0.4) {
			above = do(treeSpan{kind: 't', parent: above, from: a, to: b, named: g.maybe(0.5)})
		}
		for range g.IntN(3) {
			above = g.add(treeSpan{kind: 'o', parent: above, from: a, to: b, service: service, lost: g.maybe(0.3)})
		}
		if depth > 0 && g.maybe(0.2) {
			named := g.span(above).kind == 't' || g.maybe(0.5) // else it may be the same call as that tool
			do(treeSpan{kind: 't', parent: above, from: a, to: b, paid: true, named: named})
			continue
		}
		if g.maybe(g.outlasts) {
			b += 3 * g.Float64()
		}
		g.agent(above, a, b, depth+1)
	}
}

// isWithin reports whether a run is within another one, as far as the spans that are known show:
// by its parents, or by its time where a span above it never comes.
func (g *runTree) isWithin(inner, outer int, known map[int]bool) bool {
	run, around := g.spans[inner-1], g.spans[outer-1]
	for id := run.parent; id != outer; {
		switch s := g.span(id); {
		case id == 0:
			return false
		case !known[id] && !s.lost && s.kind == 'o': // it comes later
			return false
		case !known[id]:
			return around.from <= run.from && run.to <= around.to && around.to-around.from > run.to-run.from && around.parent != run.parent
		case s.kind == 'r':
			return g.isWithin(id, outer, known)
		case s.named && s.run != outer && !known[s.run]: // the run that it names comes later
			return false
		case s.named:
			id = s.run
		default:
			id = s.parent
		}
	}
	return true
}

func (g *runTree) span(id int) (s treeSpan) {
	if id != 0 {
		s = g.spans[id-1]
	}
	return s
}

func (g *runTree) String() string {
	var b strings.Builder
	for _, s := range g.spans {
		fmt.Fprintf(&b, "  %c%d beneath %d, %s, %.2f to %.2f:", s.kind, s.id, s.parent, s.service, s.from, s.to)
		for what, is := range map[string]bool{"failed": s.failed, "shown": s.shown, "paid": s.paid, "lost": s.lost} {
			if is {
				fmt.Fprintf(&b, " %s", what)
			}
		}
		if s.named {
			fmt.Fprintf(&b, " of %d", s.run)
		}
		if s.counted {
			fmt.Fprintf(&b, " %d requests, %d tools", s.requests, s.tools)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// isReally reports whether a span is a run's, or of a run within it. Shown: where there are runs
// between them, the spans above these were here when they came.
func (g *runTree) isReally(s treeSpan, run int) (is, shown bool) {
	var here map[int]bool // when the last one came
	shown = true
	for id := s.id; id != 0; id = g.span(id).parent {
		if id == run {
			return true, shown
		}
		shown = shown && (here == nil || here[id])
		if g.span(id).kind == 'r' {
			here = g.here[id]
		}
	}
	return false, false
}

// did reports whether a span is a run's, or of a run within it, and what is known shows it.
func (g *runTree) did(s treeSpan, run int, known map[int]bool) bool {
	is, _ := g.isReally(s, run)
	switch {
	case !known[s.id] || !is:
		return false
	case s.named:
		return s.run == run || known[s.run] && g.isWithin(s.run, run, known)
	default:
		return g.isWithin(s.id, run, known)
	}
}

// treeVerdict is a verdict on a run of a tree.
type treeVerdict struct {
	harness.Verdict
	run       int
	known     map[int]bool // the spans that were here
	corrected bool         // it is more careful in the end
}

// play delivers the spans in any order, in some calls with pauses, and returns the verdicts on
// its runs. Processes are killed, and others go on from their disk, if restarts.
func (g *runTree) play(t *testing.T, cfg *llmclassify.Config, restarts bool) (verdicts []treeVerdict) {
	t.Helper()
	h, d := harness.New(t, cfg, nil), harness.NewDisk()
	if restarts {
		h.OpenOn(t, d)
	}
	known, seen := map[int]bool{}, 0
	note := func() {
		all := h.Sink.AllTraces()
		for _, td := range all[seen:] {
			harness.EachSpan(td, func(s ptrace.Span) {
				id := s.SpanID()
				if n := int(id[1])<<8 | int(id[2]); g.span(n).kind == 'r' {
					verdicts = append(verdicts, treeVerdict{Verdict: harness.VerdictOf(s), run: n, known: maps.Clone(known)})
				}
			})
		}
		seen = len(all)
	}
	pass := func(d, step time.Duration) {
		for ; d > 0; d -= step {
			h.Pass(t, min(d, step))
			note()
		}
	}
	held := func() bool { return h.Lane().Buffer.Trace(harness.TraceID(1)) != nil }
	if restarts { // spans come after they ended, by the clocks of their producers
		pass(20*time.Second, 20*time.Second)
	}
	pass(time.Duration(g.IntN(20))*time.Second, time.Second)
	order := g.Perm(len(g.spans))
	for len(order) > 0 {
		n := min(1+g.IntN(4), len(order))
		if g.maybe(0.25) {
			n = len(order)
		}
		f, others := harness.NewForest(t), true // nothing but spans of others
		for _, i := range order[:n] {
			if s := g.spans[i]; !s.lost {
				s.addTo(f)
				known[s.id], others = true, others && s.kind == 'o'
			}
		}
		order = order[n:]
		for id := range g.spans { // some are sent again
			if known[id+1] && g.again && g.maybe(0.1) {
				g.spans[id].addTo(f)
			}
		}
		if !held() {
			g.forgetOthers(known, verdicts, f)
		}
		for id := range known {
			if g.here[id] == nil {
				g.here[id] = maps.Clone(known)
				maps.Copy(g.here[id], g.passed)
			}
		}
		require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		note()
		if !held() {
			if others {
				maps.DeleteFunc(known, func(id int, _ bool) bool { return g.span(id).kind == 'o' })
			}
			g.forgetOthers(known, verdicts, harness.NewForest(t))
		}
		if g.maybe(0.6) {
			pass(time.Duration(g.IntN(300))*time.Millisecond*time.Duration(1+20*g.IntN(2)*g.IntN(2)), 50*time.Millisecond)
		}
		if restarts && g.maybe(0.3) {
			d = d.Copied()
			next := harness.New(t, cfg, nil)
			next.Clock.Advance(h.Clock.Now().Sub(harness.T0) + time.Duration(g.IntN(10))*time.Second)
			h, seen = next, 0
			h.OpenOn(t, d)
			note()
			if !held() {
				g.forgetOthers(known, verdicts, harness.NewForest(t))
			}
		}
	}
	pass(time.Minute, time.Second)
	for i := range verdicts {
		v := &verdicts[i]
		with, _ := h.Corrected(treeID(v.run))
		v.corrected = with > v.Safety
	}
	return verdicts
}

// forgetOthers removes what is not kept of a trace of which no LLM span is here: the spans of
// others, but for those of the call that comes. Those beneath a run that was judged are known to
// have been there.
func (g *runTree) forgetOthers(known map[int]bool, verdicts []treeVerdict, comes harness.Forest) {
	isOther := func(id int) bool { return known[id] && g.span(id).kind == 'o' }
	here := harness.SpansOf(comes.Traces)
	for id := range known {
		above := id
		for isOther(above) || g.passed[above] {
			above = g.span(above).parent
		}
		if _, ok := here[treeID(id)]; !ok && isOther(id) && slices.ContainsFunc(verdicts, func(v treeVerdict) bool { return v.run == g.span(above).run }) {
			g.passed[id] = true
		}
	}
	maps.DeleteFunc(known, func(id int, _ bool) bool {
		_, ok := here[treeID(id)]
		return isOther(id) && !ok
	})
}

// No run is safe to repeat over what it, or a run within it, did before it was judged: text that
// was shown, a payment. So it is in any order of the spans, whichever of them never come, and also
// where processes are killed. A request that comes later corrects it, if what is between them was
// here and no process is killed. The tree knows what is within what.
func TestSafeRunsOfRandomTrees(t *testing.T) {
	judged, n := 0, cmp.Or(*trees, 3000/sample.Every(20))
	for seed := range uint64(n) { //nolint:gosec // not negative
		judged += judgeTree(t, *treeSeed+seed)
	}
	require.Greater(t, judged, n/2, "runs that are safe to repeat")
}

// Of the runs that are truly safe to repeat nine of ten are called so, where all spans come in the end: in any
// order, and in calls with pauses between them.
func TestMostSafeRunsAreCalledSafe(t *testing.T) {
	truly, called := 0, 0
	for seed := range uint64(1000 / sample.Every(20)) {
		t.Run("seed "+strconv.FormatUint(seed, 10), func(t *testing.T) { // what it takes goes with it
			g := newRunTree(seed)
			for i := range g.spans {
				g.spans[i].lost = false
			}
			for _, v := range g.play(t, harness.DefaultConfig(), false) {
				isUnsafe := func(s treeSpan) bool {
					is, _ := g.isReally(s, v.run)
					return is && (s.shown || s.paid)
				}
				if v.Outcome != semconv.RunOutcomeFailed || slices.ContainsFunc(g.spans, isUnsafe) {
					continue
				}
				if truly++; v.Safety == harness.Safe {
					called++
				}
			}
		})
	}
	t.Logf("%d of %d", called, truly)
	require.Greater(t, float64(called), 0.9*float64(truly))
}

// judgeTree returns how many runs of a tree are safe to repeat.
func judgeTree(t *testing.T, seed uint64) (judged int) {
	t.Helper()
	t.Run("seed "+strconv.FormatUint(seed, 10), func(t *testing.T) { // what it takes goes with it
		g := newRunTree(seed)
		cfg := harness.DefaultConfig()
		if g.maybe(0.3) {
			cfg.MaxHold = 4 * time.Second
		}
		if g.maybe(0.2) {
			cfg.MaxSpansPerRun = 2
		}
		restarts := g.maybe(0.3)
		for _, v := range g.play(t, cfg, restarts) {
			if v.Safety != harness.Safe {
				continue
			}
			judged++
			for _, s := range g.spans {
				switch _, shown := g.isReally(s, v.run); {
				case !s.shown && !s.paid:
				case g.did(s, v.run, v.known):
					t.Errorf("run %d is safe to repeat over span %d of run %d, %v, %v:\n%s", v.run, s.id, s.run, v.Trigger, slices.Sorted(maps.Keys(v.known)), g)
				case s.kind == 'q' && !v.known[s.id] && !s.lost && shown && s.from < g.span(v.run).to && !restarts && !v.corrected:
					t.Errorf("run %d is not corrected by request %d of run %d, %v, %v:\n%s", v.run, s.id, s.run, v.Trigger, slices.Sorted(maps.Keys(v.known)), g)
				}
			}
		}
	})
	return judged
}

package llmclassify

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/semconv"
)

// treeSpan is a span of a [runTree]. Ids are numbers from 1 on; 0 is the parent of a root.
type treeSpan struct {
	id, parent int
	kind       byte // r: a run, q: its request, t: its tool, o: another span
	run        int  // of a request or a tool; of a run it is its own id
	from, to   float64
	service    string
	counted    bool // the run announces its numbers
	shown      bool // the request broke when text had been shown; else it was refused
	named      bool // it names its run
	lost       bool // it never comes
}

func treeID(n int) pcommon.SpanID {
	if n == 0 {
		return pcommon.SpanID{}
	}
	return many(n)
}

func (s treeSpan) addTo(f forest) {
	var spec spanSpec
	switch s.kind {
	case 'r':
		if spec = runSpan(1, 0, 0, 1, 0).failed("x"); !s.counted {
			spec = unannounced(spec)
		}
	case 'q':
		if spec = limitedOf(1, 0); s.shown {
			spec = shownText(1, 0)
		}
	case 't':
		spec = toolSpan(1, 0, 0, "c"+strconv.Itoa(s.id), semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded).without(semconv.RunIDKey)
	default:
		spec = otherSpan(1, 0, 0, 0)
	}
	if s.named {
		spec = spec.with(semconv.RunID(treeID(s.run).String()))
	}
	f.add(spec.in(s.service), treeID(s.id), treeID(s.parent), s.from, s.to)
}

// runTree is a trace made at random: agents of several services that start one another from
// their tools or directly, with spans of others between them.
type runTree struct {
	*rand.Rand
	spans             []treeSpan
	counted, outlasts float64 // the chance that a run announces its numbers, and outlasts the run around it
}

func newRunTree(seed uint64) *runTree {
	g := &runTree{Rand: rand.New(rand.NewPCG(seed, 7))}
	g.counted, g.outlasts = g.Float64(), g.Float64()
	root := 0
	if g.maybe(0.4) {
		root = g.add(treeSpan{kind: 'o', to: 20, service: "root", lost: g.maybe(0.5)})
	}
	g.agent(root, 1, 11, 0)
	if root != 0 && g.maybe(0.5) {
		from, to := g.within(0, 15)
		g.agent(root, from, to, 0)
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

func (g *runTree) agent(parent int, from, to float64, depth int) {
	service, counted := "s"+strconv.Itoa(len(g.spans)), g.maybe(g.counted)
	run := g.add(treeSpan{kind: 'r', parent: parent, from: from, to: to, counted: counted, service: service})
	a, b := g.within(from, to)
	g.add(treeSpan{kind: 'q', parent: run, run: run, from: a, to: b, shown: depth > 0 && g.maybe(0.5), named: true, service: service})
	for range g.IntN(3) {
		if depth == 4 || len(g.spans) > 24 {
			return
		}
		above := run
		a, b := g.within(from, to)
		if !counted && g.maybe(0.4) {
			above = g.add(treeSpan{kind: 't', parent: above, run: run, from: a, to: b, named: g.maybe(0.5), service: service})
		}
		for range g.IntN(3) {
			above = g.add(treeSpan{kind: 'o', parent: above, from: a, to: b, service: service, lost: g.maybe(0.3)})
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
		fmt.Fprintf(&b, "  %c%d beneath %d, run %d, %.2f to %.2f, %+v\n", s.kind, s.id, s.parent, s.run, s.from, s.to, s)
	}
	return b.String()
}

// play delivers the spans in any order, in some calls with pauses. It returns the spans that
// were known when a run went, by the run.
func (g *runTree) play(t *testing.T, h *harness) map[int]map[int]bool {
	t.Helper()
	known, when := map[int]bool{}, map[int]map[int]bool{}
	note := func() {
		for id := range spansOf(h.out()) {
			if n := int(id[1])<<8 | int(id[2]); when[n] == nil {
				when[n] = maps.Clone(known)
			}
		}
	}
	pass := func(d, step time.Duration) {
		for ; d > 0; d -= step {
			h.pass(t, min(d, step))
			note()
		}
	}
	order := g.Perm(len(g.spans))
	for len(order) > 0 {
		n := min(1+g.IntN(4), len(order))
		if g.maybe(0.25) {
			n = len(order)
		}
		f := newForest(t)
		for _, i := range order[:n] {
			if s := g.spans[i]; !s.lost {
				s.addTo(f)
				known[s.id] = true
			}
		}
		order = order[n:]
		held := func() bool { return h.lane().buffer.Trace(traceID(1)) != nil }
		if !held() {
			g.forgetOthers(known, f)
		}
		require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		if !held() {
			g.forgetOthers(known, newForest(t))
		}
		note()
		if g.maybe(0.6) {
			pass(time.Duration(g.IntN(300))*time.Millisecond*time.Duration(1+20*g.IntN(2)*g.IntN(2)), 50*time.Millisecond)
		}
	}
	pass(time.Minute, time.Second)
	return when
}

// forgetOthers removes what is not kept of a trace of which no LLM span is here: the spans of
// others, but for those of the call that comes.
func (g *runTree) forgetOthers(known map[int]bool, comes forest) {
	maps.DeleteFunc(known, func(id int, _ bool) bool {
		_, ok := spansOf(comes.Traces)[treeID(id)]
		return g.span(id).kind == 'o' && !ok
	})
}

// No run is safe to repeat over a run within it that was here when it was judged, and had shown text,
// whatever the order of their spans, and whichever of them never come. The tree knows what is within what.
func TestTextOfRunsWithin(t *testing.T) {
	judged := 0
	for seed := range uint64(1500) {
		g := newRunTree(seed)
		cfg := defaultConfig()
		if g.maybe(0.3) {
			cfg.MaxHold = 4 * time.Second
		}
		if g.maybe(0.2) {
			cfg.MaxSpansPerRun = 2
		}
		h := newHarness(t, cfg, nil)
		h.pass(t, time.Duration(g.IntN(20))*time.Second)
		when := g.play(t, h)
		out := spansOf(h.out())
		for outer, known := range when {
			if g.span(outer).kind != 'r' || verdictOf(out[treeID(outer)]).safety != safe {
				continue
			}
			judged++
			for _, s := range g.spans {
				if !s.shown || !known[s.id] || s.run != outer && (!known[s.run] || !g.isWithin(s.run, outer, known)) {
					continue
				}
				t.Errorf("seed %d: run %d is safe to repeat, and request %d of run %d had shown text:\n%s", seed, outer, s.id, s.run, g)
			}
		}
	}
	require.Greater(t, judged, 500, "runs that are safe to repeat")
}

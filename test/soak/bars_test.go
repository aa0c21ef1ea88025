package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/test/soak/internal/attack"
	"github.com/otelllm/otelllm-go/test/soak/internal/ledger"
	"github.com/otelllm/otelllm-go/test/soak/internal/load"
)

// met returns a run that meets every bar.
func met() *endured {
	e := &endured{limits: limits{heldBytes: 32 << 20, factBytes: 16 << 20}, starts: time.Second, stop: time.Second}
	waits := make([]time.Duration, 1000)
	for i := range waits {
		waits[i] = time.Duration(i) * 200 * time.Microsecond
	}
	e.calm = period{name: "none", waits: waits, sample: sample{memory: 60 << 20, held: 1 << 20, facts: 1 << 20, page: 1 << 10}}
	e.attacks = []period{e.calm, e.calm}
	e.attacks[0].name, e.attacks[1].name = "first", "second"
	return e
}

func TestSeries(t *testing.T) {
	assert.Equal(t, int64(2), series([]byte("# HELP a b\n# TYPE a counter\na{b=\"#\"} 1\n\na{b=\"c\"} 2\n# EOF\n")))
	assert.Zero(t, series(nil))
}

func TestBars(t *testing.T) {
	assert.Empty(t, met().missed())
	for name, tt := range map[string]struct {
		change func(*endured)
		says   string
	}{
		"a span is lost":            {func(e *endured) { e.problems = []ledger.Problem{{What: ledger.Lost}} }, "acknowledged spans lost: 1"},
		"a verdict is less careful": {func(e *endured) { e.problems = []ledger.Problem{{What: ledger.LessCareful}} }, "less careful: 1"},
		"a verdict is wrong":        {func(e *endured) { e.problems = []ledger.Problem{{What: ledger.WrongVerdict}} }, "wrong verdict: 1"},
		"a run has none":            {func(e *endured) { e.problems = []ledger.Problem{{What: ledger.NotJudged}} }, "not judged: 1"},
		"a span is never taken":     {func(e *endured) { e.problems = []ledger.Problem{{What: ledger.NeverTaken}} }, "never taken: 1"},
		"two of a hundred wait": {func(e *endured) {
			waits := make([]time.Duration, 100)
			waits[98], waits[99] = 251*time.Millisecond, 251*time.Millisecond
			e.attacks[1].waits = waits
		}, "second: p99"},
		"memory":                 {func(e *endured) { e.attacks[0].sample.memory = e.memoryBound() + 1 }, "first: memory"},
		"held":                   {func(e *endured) { e.attacks[0].sample.held = 32<<20 + 1 }, "first: bytes_held"},
		"facts":                  {func(e *endured) { e.attacks[0].sample.facts = 16<<20 + 1 }, "first: fact_bytes"},
		"the page":               {func(e *endured) { e.attacks[0].sample.page = 131 << 20 }, "first: page of metrics: 131.0 MiB"},
		"the series":             {func(e *endured) { e.attacks[0].sample.series = 5_001 }, "first: series on the page of metrics: 5001"},
		"forged":                 {func(e *endured) { e.attacker.Forged = 1 }, "forged verdicts that passed: 1"},
		"suppressed":             {func(e *endured) { e.attacker.Suppressed = 1 }, "without a verdict"},
		"believed":               {func(e *endured) { e.attacker.Contradicted = 1 }, "manifest denies: 1"},
		"not corrected":          {func(e *endured) { e.attacker.Uncorrected = 1 }, "without a correction: 1"},
		"broken and taken":       {func(e *endured) { e.attacker.BrokenTaken = 1 }, "broken requests"},
		"a slow start":           {func(e *endured) { e.starts = time.Minute }, "start after a kill"},
		"a slow shutdown":        {func(e *endured) { e.stop = time.Minute }, "last shutdown took 1m0s"},
		"a shutdown that failed": {func(e *endured) { e.stopErr = errors.New("why") }, "shutdown failed: why"},
		"starved":                {func(e *endured) { e.starved = true }, "not acknowledged"},
		"a panic":                {func(e *endured) { e.fatal = []string{"panic: why"} }, "panic: why"},
		"spans stay":             {func(e *endured) { e.counted.held = 1 }, "spans_held"},
		"spans are counted lost": {func(e *endured) { e.counted.lost = 1 }, "spans_lost: 1"},
		"counters do not add up": {func(e *endured) { e.counted.off = -1 }, "off by -1"},
		"nothing is proved":      {func(e *endured) { e.missing = []string{"why"} }, "proves nothing: why"},
	} {
		t.Run(name, func(t *testing.T) {
			e := met()
			tt.change(e)
			list := e.missed()
			require.Len(t, list, 1)
			assert.Contains(t, list[0], tt.says)
			var text strings.Builder
			s := &soak{say: func(format string, args ...any) { _, _ = text.WriteString(strings.TrimSpace(format) + "\n") }}
			assert.True(t, e.print(s))
			assert.Contains(t, text.String(), "MISSED")
		})
	}
}

// What attackers lose is not the honest agents' loss, and a single honest span that is
// acknowledged and does not come out fails the run.
func TestALostSpanFailsTheRun(t *testing.T) {
	for _, lost := range []bool{false, true} {
		books, attacker, e := ledger.New(), &attack.Attacker{}, met()
		pace := load.Pace{Turn: time.Second, MaxHold: time.Second, SpanLimit: 20}
		number := uint64(0)
		tr := load.New(1, number, pace)
		for len(tr.Runs) > 0 { // nothing to judge
			number++
			tr = load.New(1, number, pace)
		}
		books.Plan(&tr)
		td := ptrace.NewTraces()
		for i := range tr.Spans {
			key := []ledger.Key{{Trace: tr.ID, Span: tr.Spans[i].SpanID()}}
			books.Attempt(key, time.Now())
			books.Answer(key, ledger.Acknowledged, time.Now())
			if lost && i == 1 {
				continue
			}
			rs := td.ResourceSpans().AppendEmpty()
			ss := rs.ScopeSpans().AppendEmpty()
			load.Services[tr.Spans[i].Service].Fill(rs, ss)
			tr.Spans[i].CopyTo(ss.Spans().AppendEmpty())
		}
		attacker.Divert(td)
		books.Deliver(td, time.Now())
		s := &soak{limits: e.limits}
		s.settle(e, books, false, &disturbances{}, nil)
		if !lost {
			assert.Empty(t, e.missed())
			continue
		}
		assert.Equal(t, []string{"acknowledged spans lost: 1, want 0"}, e.missed())
	}
}

func TestCounters(t *testing.T) {
	const name = "otelcol_processor_llm_classify_spans_"
	page := name + `in{a="b"} 100` + "\n" + name + "in 11\n" + name + "refused 10\n" + name + "replayed 5\n" + name + "passed 20\n" +
		name + "forwarded 78\n" + name + "added 2\n" + name + "lost 3\n" + name + "held 7\n"
	assert.Equal(t, balance{held: 7, lost: 3}, countedOn([]byte(page)))
	assert.Equal(t, balance{held: 7, lost: 3, off: -1}, countedOn([]byte(strings.Replace(page, "in 11", "in 10", 1))))
}

func TestDisturbedTime(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	d := &disturbances{windows: []window{{at(10), at(20)}, {at(30), at(40)}}}
	assert.Zero(t, d.within(at(0), at(10)))
	assert.Equal(t, 5*time.Second, d.within(at(12), at(17)))
	assert.Equal(t, 15*time.Second, d.within(at(15), at(50)))
	assert.Zero(t, d.within(at(50), at(60)))
}

func TestFlagsOfTheEnduranceRun(t *testing.T) {
	o, err := given([]string{"-endurance"})
	require.NoError(t, err)
	assert.Equal(t, 30*time.Minute, o.duration)
	assert.Equal(t, 15, o.kills)
	o, err = given([]string{"-endurance", "-short", "-kills", "2"})
	require.NoError(t, err)
	assert.Equal(t, 210*time.Second, o.duration)
	assert.Equal(t, 2, o.kills)
}

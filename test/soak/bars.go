package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/test/soak/internal/attack"
	"github.com/otelllm/otelllm-go/test/soak/internal/ledger"
)

// Bars of the endurance run.
const (
	barWait   = 250 * time.Millisecond // p99 of an honest span's wait beyond what is due
	barPage   = 5_000_000              // bytes of the page with the verdicts' metrics
	barSeries = 5_000                  // series on it
	barStop   = 10 * time.Second       // a shutdown
	barStart  = 30 * time.Second       // a start after a kill
	// inFlight is the memory, in bytes, that the calls on their way through the Collector
	// may take, in addition to llm_classify's bounds and what the Collector needs when it is
	// calm.
	inFlight = 128 << 20
	// fewWaits is the number of waits below which their p99 says nothing.
	fewWaits = 100
)

// period is a part of the endurance run with one way to attack, or none.
type period struct {
	name, row string
	from, to  time.Time

	waits    []time.Duration // of honest spans, sorted
	refused  int             // honest spans
	sample   sample          // the maximum of each
	attacker attack.Counts
}

// sample is a measurement of the Collector, 0 where it could not be had.
type sample struct {
	memory      int64 // anonymous resident memory in bytes
	held, facts int64 // bytes, llm_classify's own gauges
	page        int64 // bytes of the page with the verdicts' metrics
	series      int64 // on it
}

func (s sample) most(o sample) sample {
	return sample{
		memory: max(s.memory, o.memory), held: max(s.held, o.held),
		facts: max(s.facts, o.facts), page: max(s.page, o.page), series: max(s.series, o.series),
	}
}

// balance is what llm_classify's own counters say when everything has come out.
type balance struct{ held, lost, off int }

// countedOn returns the balance on a page of the Collector's own metrics.
func countedOn(page []byte) balance {
	count := func(name string) int { return classifies(page, "spans_"+name) }
	b := balance{held: count("held"), lost: count("lost")}
	b.off = count("in") - count("refused") + count("replayed") - count("passed") - count("forwarded") + count("added") - b.lost - b.held
	return b
}

// share returns the value below which a share of the sorted waits is.
func share(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

// endured is everything that the bars are about.
type endured struct {
	calm     period
	attacks  []period
	problems []ledger.Problem // about honest spans and runs
	attacker attack.Counts    // in all
	starts   time.Duration    // the longest
	behind   time.Duration    // see disturbances
	stop     time.Duration
	stopErr  error
	starved  bool // spans were left without an acknowledgement
	counted  balance
	limits   limits
	fatal    []string // lines of the Collector's log that say that it broke
	missing  []string // reasons why the run proves nothing
}

// missed returns the bars that are missed, each with its figures.
func (e *endured) missed() (list []string) {
	miss := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	kinds := make(map[string]int)
	for i := range e.problems {
		kinds[e.problems[i].What]++
	}
	if n := kinds[ledger.Lost]; n > 0 {
		miss("acknowledged spans lost: %d, want 0", n)
	}
	if e.starved {
		miss("honest spans were not acknowledged a minute after the attacks")
	}
	for _, kind := range []string{
		ledger.NeverTaken, ledger.LessCareful, ledger.WrongVerdict, ledger.NotJudged, ledger.JudgedTwice, ledger.WrongTrigger,
		ledger.LateNotMarked, ledger.Altered, ledger.Invented, ledger.Doubled,
	} {
		if n := kinds[kind]; n > 0 {
			miss("honest spans or runs %s: %d, want 0", kind, n)
		}
	}
	bound := e.memoryBound()
	for _, p := range slices.Concat([]period{e.calm}, e.attacks) {
		if p99 := share(p.waits, 0.99); len(p.waits) >= fewWaits && p99 > barWait {
			miss("%s: p99 of an honest span's wait beyond what is due: %s, want %s at most", p.name, round(p99), barWait)
		}
		if p.sample.memory > bound {
			miss("%s: memory: %s, want %s at most", p.name, size(p.sample.memory), size(bound))
		}
		if p.sample.held > int64(e.limits.heldBytes) {
			miss("%s: bytes_held: %s, want %s at most", p.name, size(p.sample.held), size(int64(e.limits.heldBytes)))
		}
		if p.sample.facts > int64(e.limits.factBytes) {
			miss("%s: fact_bytes: %s, want %s at most", p.name, size(p.sample.facts), size(int64(e.limits.factBytes)))
		}
		if p.sample.page > barPage {
			miss("%s: page of metrics: %s, want %s at most", p.name, size(p.sample.page), size(barPage))
		}
		if p.sample.series > barSeries {
			miss("%s: series on the page of metrics: %d, want %d at most", p.name, p.sample.series, barSeries)
		}
	}
	for _, c := range []struct {
		n    int
		text string
	}{
		{e.attacker.Forged, "forged verdicts that passed"},
		{e.attacker.Suppressed, "failures without a verdict since an empty one was sent"},
		{e.attacker.Contradicted, "runs that are safe to repeat although a tool ran that their manifest denies"},
		{e.attacker.Uncorrected, "tools that contradict a verdict which is out, without a correction"},
		{e.attacker.BrokenTaken, "broken requests that were accepted"},
	} {
		if c.n > 0 {
			miss("%s: %d, want 0", c.text, c.n)
		}
	}
	if e.stopErr != nil {
		miss("the last shutdown failed: %v", e.stopErr)
	}
	if e.stop > barStop {
		miss("the last shutdown took %s, want %s at most", round(e.stop), barStop)
	}
	if e.starts > barStart {
		miss("a start after a kill took %s, want %s at most", round(e.starts), barStart)
	}
	if e.counted.held != 0 {
		miss("spans_held after everything has come out: %d, want 0", e.counted.held)
	}
	if e.counted.off != 0 {
		miss("llm_classify's counters of spans do not add up: off by %d", e.counted.off)
	}
	if e.counted.lost != 0 {
		miss("spans_lost: %d, want 0", e.counted.lost)
	}
	for _, line := range e.fatal {
		miss("the Collector's log: %s", line)
	}
	for _, why := range e.missing {
		miss("it proves nothing: %s", why)
	}
	return list
}

// memoryBound is what llm_classify is allowed, what the Collector needed when it was
// calm, and the calls on their way. 0 memory, which is unknown, is always below it.
func (e *endured) memoryBound() int64 {
	return e.calm.sample.memory + int64(e.limits.heldBytes) + int64(e.limits.factBytes) + inFlight
}

// print prints the figures, and the missed bars. It returns whether there are any.
func (e *endured) print(s *soak) bool {
	const row = "%-22s %-8s %7s %8s %8s %8s %8s %10s %10s %10s %10s %7s   %s"
	s.say("\n"+row, "attack", "row", "honest", "p50", "p99", "max", "refused", "memory", "held", "facts", "page", "series", "attackers: acknowledged, refused, unanswered, out")
	for _, p := range slices.Concat([]period{e.calm}, e.attacks) {
		a := p.attacker
		s.say(row, p.name, p.row, strconv.Itoa(len(p.waits)), round(share(p.waits, 0.5)), round(share(p.waits, 0.99)), round(share(p.waits, 1)),
			strconv.Itoa(p.refused), figure(p.sample.memory), figure(p.sample.held), figure(p.sample.facts), figure(p.sample.page), strconv.FormatInt(p.sample.series, 10),
			fmt.Sprintf("%d, %d, %d, %d%s", a.Acknowledged, a.Refused, a.Unanswered, a.Out, broken(a)))
	}
	s.say("honest: spans whose wait beyond what is due, disturbances apart, is p50 to max. Bounds: memory %s, held %s, facts %s, page %s, series %d, p99 %s.",
		size(e.memoryBound()), size(int64(e.limits.heldBytes)), size(int64(e.limits.factBytes)), size(barPage), barSeries, barWait)
	s.say("after a disturbance, the exporter's queue took up to %s longer than was allowed for; spans that waited then do not count",
		round(e.behind))
	s.say("longest start after a kill %s, last shutdown %s", round(e.starts), round(e.stop))
	list := e.missed()
	if len(list) == 0 {
		s.say("OK: every bar is met")
		return false
	}
	s.say("MISSED: %d bars", len(list))
	for _, text := range list {
		s.say("  %s", text)
	}
	return true
}

func broken(a attack.Counts) string {
	var parts []string
	for _, c := range []struct {
		n    int
		text string
	}{
		{a.Broken, "broken requests"},
		{a.Forged, "forged verdicts passed"},
		{a.Suppressed, "failures suppressed"},
		{a.Contradicted, "false manifests believed"},
		{a.Uncorrected, "verdicts not corrected"},
	} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("; %d %s", c.n, c.text))
		}
	}
	return strings.Join(parts, "")
}

// figure is size, short enough for a table.
func figure(bytes int64) string {
	if bytes <= 0 {
		return "-"
	}
	return size(bytes)
}

func round(d time.Duration) string {
	if d > time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

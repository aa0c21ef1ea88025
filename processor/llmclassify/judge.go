package llmclassify

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/stamp"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/verdictattr"
	"github.com/otelllm/otelllm-go/semconv"
)

// judge judges a release, with what is known of the runs within it, and stamps the
// verdicts onto its spans. What it returns is good until j is used again. SetStatus says that
// spans which failed get the status ERROR where they have none.
func judge(
	now time.Time, j *assemble.Judge, inner *innerRuns, release *assemble.Release, trigger semconv.Trigger, setStatus bool,
) assemble.Diagnoses {
	within := inner.of(release)
	inner.setGaps(now, release)
	d := j.Diagnose(release, within)
	inner.add(now, release, within, &d)
	if release.Final && release.Run != nil && d.Run == nil {
		checkClients(j, release)
	}
	inner.corrections.add(now, release, &d)
	for i := range release.Members {
		m := &release.Members[i]
		var corrected classify.Retry
		if trigger == semconv.TriggerLate {
			corrected, d.Contradicts = inner.corrections.late(now, release, m, d.Effects)
		}
		switch {
		case m.Foreign || !m.Out || !readable(m):
		case corrected.Safety != semconv.RetrySafetyUnset:
			stamp.Corrected(m.Span, d.Members[i], corrected, trigger)
		case i == d.Carrier:
			if stamp.Run(m.Span, d.Run, d.Members[i], trigger) && setStatus {
				stamp.Status(m.Span, d.Run, d.Members[i])
			}
		case release.Final && d.Run == nil && d.Members[i] == nil && !isPart(m, release): // it is alone, and nothing failed
		case d.Members[i] == nil && !m.Known.Judged && !stamp.Early(trigger): // nothing to write, and nothing to remove
		default:
			if stamp.Span(m.Span, d.Members[i], trigger) && setStatus {
				stamp.Status(m.Span, d.Members[i])
			}
		}
		if release.Final && m.Item == release.Run && m.Out && readable(m) {
			j.ModelNames(release).WriteModel(m.Span)
		}
	}
	return d
}

// checkClients removes the client's verdict on the run of a release where what is here of the
// run contradicts it: a repetition is less safe than it says.
func checkClients(j *assemble.Judge, release *assemble.Release) {
	for i := range release.Members {
		m := &release.Members[i]
		if m.Role != hold.Run || m.ID != release.RunID || !m.Out || !readable(m) || !verdictattr.OfClient(m.Span.Attributes()) {
			continue
		}
		given, _ := m.Span.Attributes().Get(string(semconv.RetrySafetyKey))
		if safety, ok := semconv.ParseRetrySafety(given.Str()); ok && safety < j.SeenOnly().Safety {
			verdictattr.Remove(m.Span.Attributes())
		}
	}
}

// isPart reports whether a member is the span of a run that is a part of another one. A
// verdict of its client goes, also where the other run's stays.
func isPart(m *assemble.Member, release *assemble.Release) bool {
	return m.Role == hold.Run && m.ID != release.RunID
}

// readable reports whether the span of a member that is Out is there.
func readable(m *assemble.Member) bool { return !m.Span.SpanID().IsEmpty() }

// judgingOrder is the order in which releases are to be judged: of the runs of a trace,
// those that may be within others first. The releases of a trace are together.
func judgingOrder(releases []assemble.Release) []int {
	order := make([]int, len(releases))
	for i := range order {
		order[i] = i
	}
	for from := 0; from < len(order); {
		to, runs := from, 0
		for ; to < len(order) && releases[to].Trace == releases[from].Trace; to++ {
			if isRun(&releases[to]) {
				runs++
			}
		}
		if runs > 1 {
			innermostFirst(releases, order[from:to])
		}
		from = to
	}
	return order
}

// isRun reports whether a release is the last of a run whose span is here.
func isRun(r *assemble.Release) bool { return r.Run != nil && r.Final }

// innermostFirst sorts the releases of a trace: those of no run, then the runs above which
// something is missing and those within them, then the others; of both the shorter ones first,
// but none before those that lead to it.
func innermostFirst(releases []assemble.Release, order []int) {
	of := make(map[pcommon.SpanID]int, 4*len(order)) // the run of a span
	for _, i := range order {
		if !isRun(&releases[i]) {
			continue
		}
		for n := range releases[i].Members {
			if m := &releases[i].Members[n]; !m.Foreign {
				of[m.ID] = i
			}
		}
	}
	around := make(map[int]int, len(order)) // the nearest run that leads to it
	depths := make(map[int]int, len(order)) // how many are around it
	var ids []pcommon.SpanID
	for _, i := range order {
		if !isRun(&releases[i]) {
			continue
		}
		var to hold.Chain
		ids, to = assemble.Around(releases[i].Of, releases[i].Run, ids[:0])
		for _, id := range append(ids, releases[i].Run.Parent) {
			if outer, ok := of[id]; ok && outer != i {
				around[i] = outer
				break
			}
		}
		if _, within := around[i]; to != hold.Rooted && !within { // it may be within one of any depth
			depths[i] = len(order)
		}
	}
	var path []int
	for _, i := range order {
		depth := 0
		path = path[:0]
		for at, ok := i, true; ok; at, ok = around[at] {
			if known, ok := depths[at]; ok {
				depth = known + 1
				break
			}
			depths[at] = 0 // it may be around itself
			path = append(path, at)
		}
		for _, at := range slices.Backward(path) {
			depths[at] = depth
			depth++
		}
	}
	inward := slices.Clone(order)
	slices.SortStableFunc(inward, func(a, b int) int { return cmp.Compare(depths[b], depths[a]) })
	lasts := make(map[int]pcommon.Timestamp, len(order)) // the time of the longest of a run and those that lead to it
	for _, i := range inward {
		if isRun(&releases[i]) {
			run := releases[i].Run
			lasts[i] = max(lasts[i], run.End-min(run.Start, run.End))
			if outer, ok := around[i]; ok {
				lasts[outer] = max(lasts[outer], lasts[i])
			}
		}
	}
	rooted := func(i int) int { // 1 if nothing is missing above
		if depths[i] >= len(order) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &releases[a], &releases[b]
		if isRun(x) != isRun(y) {
			if isRun(y) {
				return -1
			}
			return 1
		}
		if !isRun(x) {
			return 0
		}
		return cmp.Or(
			cmp.Compare(rooted(a), rooted(b)), cmp.Compare(lasts[a], lasts[b]), cmp.Compare(depths[b], depths[a]),
			cmp.Compare(y.Run.Start, x.Run.Start), bytes.Compare(x.RunID[:], y.RunID[:]),
		)
	})
}

package trace

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Late corrects the runs around a late request or tool: the run that it names or is beneath, and the runs around that one.
// It returns the most careful verdict among the runs that the span made more careful, and reports whether the span
// contradicts the numbers that one of these runs announced.
func (h *History) Late(now time.Time, release *Release, m *Member, effects classify.Effects) (corrected classify.Retry, contradicts bool) {
	if m.Role == Run {
		return corrected, false
	}
	p := h.pastOf(release)
	from := m.Run
	if from.IsEmpty() && m.Role == Tool {
		from = p.runAbove(release.Of, m.Parent, true)
	}
	_, known := p.above(m.ID)
	late := lateSpan{Item: m.Item, effects: effects, known: known, announced: func(*pastRun) bool { return true }}
	corrected, contradicts = p.correct(release.Of, from, late)
	if !known && p.run(from) != nil {
		h.change(now, release, func(p *past) { p.link(m.ID, m.up(), m.Role == Tool) })
	}
	return corrected, contradicts
}

// LateRun is Late for a run within another run that was judged before. The numbers of the outer run include the parts of this
// one if both are of one service.
func (h *History) LateRun(release *Release, effects classify.Effects) (corrected classify.Retry, contradicts bool) {
	run := release.Run
	p := h.pastOf(release)
	own := p.run(run.ID)
	from := run.Run
	if from.IsEmpty() {
		from = p.runAbove(release.Of, run.Parent, false)
	}
	if from == run.ID {
		return corrected, false
	}
	counted := effects.Requests+effects.Tools > 0
	return p.correct(release.Of, from, lateSpan{
		Item: run, effects: effects, known: own != nil && own.again,
		announced: func(r *pastRun) bool { return counted && r.Service == ServiceOf(run) },
	})
}

// lateSpan is a span that arrived after its run was judged.
type lateSpan struct {
	*Item
	effects   classify.Effects
	known     bool                // it was buffered before: its call was refused, or its sender repeats it
	announced func(*pastRun) bool // whether the numbers of a run around it, by name, include it
}

// runAbove returns the nearest judged run from this span upwards. It returns no run above a tool beneath another tool: both
// spans may be one call.
func (p *past) runAbove(t *Trace, id pcommon.SpanID, ofTool bool) (run pcommon.SpanID) {
	climbOver(t, p, id, func(at pcommon.SpanID) bool {
		if s := p.span(at); s != nil && s.tool && ofTool {
			return true
		}
		if p.run(at) != nil {
			run = at
		}
		return !run.IsEmpty()
	})
	return run
}

// correct joins the effects of a late span into its run and the runs around that.
func (p *past) correct(t *Trace, from pcommon.SpanID, late lateSpan) (corrected classify.Retry, contradicts bool) {
	named := true
	for range MaxPastRuns {
		r := p.run(from)
		if r == nil || r.EndedBefore(late.Item) {
			break
		}
		if late.known {
			if r.corrected {
				corrected = MoreCareful(corrected, r.retry)
			}
			break
		}
		contradicts = contradicts || named && r.announced && late.announced(r)
		corrected = MoreCareful(corrected, r.join(late.effects))
		if from = r.Around; from.IsEmpty() {
			named, from = false, p.runAbove(t, r.Parent, false)
		}
		if p.run(from) == nil {
			from = r.takenBy
		}
	}
	return corrected, contradicts
}

// join joins the effects of a late span into the run's effects. It returns the verdict on repeating the run if that is more
// careful than before.
func (r *pastRun) join(effects classify.Effects) (corrected classify.Retry) {
	r.effects = r.effects.Join(effects)
	before := r.retry.Safety
	if before == semconv.RetrySafetyUnset {
		return corrected // the run did not fail: its verdict says nothing about a repetition
	}
	r.retry = MoreCareful(r.retry, Repeat(r.effects))
	if r.retry.Safety > before {
		corrected, r.corrected = r.retry, true
	}
	return corrected
}

// Inner summarizes the runs within a run. The zero value: there are none.
type Inner struct {
	Succeeded classify.Fact    // see [classify.Run.Within]
	Effects   classify.Effects // see [classify.Run.Inner]
	// Unclaimed: for some runs no outcome is recorded, and none of the others failed.
	Unclaimed bool
}

// Ended adds the outcome of a run, NotObserved if that is not recorded.
func (i *Inner) Ended(well classify.Fact) {
	switch {
	case well == classify.No || i.Succeeded == classify.No:
		i.Succeeded, i.Unclaimed = classify.No, false
	case well == classify.NotObserved || i.Unclaimed:
		i.Succeeded, i.Unclaimed = classify.NotObserved, true
	default:
		i.Succeeded = classify.Yes
	}
}

// Repeat is the verdict on repeating all effects of a run, after a failure that the repetition may not meet again.
func Repeat(effects classify.Effects) classify.Retry {
	run := classify.Run{
		Ended: classify.Yes, Failed: classify.Yes, Inner: effects,
		// This request and the effects are all that there is.
		AnnouncedRequests: classify.Counted(effects.Requests + 1), AnnouncedTools: classify.Counted(effects.Tools),
		Requests: []classify.Request{{
			Phase: semconv.PhaseBeforeConnection, Ended: semconv.StreamEndNoResponse, Failed: classify.Yes, Basis: classify.Typed,
			Transport:     classify.Transport{Stage: semconv.TransportStageConnect, Cause: semconv.TransportCauseConnectRefused},
			ProviderTools: []string{}, HistoryCalls: []string{}, HistoryOutputs: []string{},
		}},
	}
	return classify.Judge(&run).Run.Retry
}

// MoreCareful returns a with the verdict of the higher level. At one level the reason that comes first wins.
func MoreCareful(a, b classify.Retry) classify.Retry {
	if b.Safety > a.Safety || b.Safety == a.Safety && b.Reason < a.Reason {
		a.Safety, a.Reason = b.Safety, b.Reason
	}
	return a
}

package trace

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Late corrects the runs that a late request or tool is a part of: the one that it names, or that it
// is beneath, and those around that one. It returns the most careful verdict among those that the span
// has made more careful, and reports whether it contradicts the numbers that one of them announced.
func (h *History) Late(now time.Time, release *Release, m *Member, did classify.Effects) (corrected classify.Retry, contradicts bool) {
	if m.Role == Run {
		return corrected, false
	}
	p := h.pastOf(release)
	from := m.Run
	if from.IsEmpty() && m.Role == Tool {
		from = p.runAbove(release.Of, m.Parent, true)
	}
	_, known := p.over(m.ID)
	late := lateSpan{Item: m.Item, did: did, known: known, announced: func(*pastRun) bool { return true }}
	corrected, contradicts = p.correct(release.Of, from, late)
	if !known && p.run(from) != nil {
		h.change(now, release, func(p *past) { p.link(m.ID, m.up(), m.Role == Tool) })
	}
	return corrected, contradicts
}

// LateRun is Late for a run that is within one which was judged before. The numbers of that one
// include its own if both are of one service.
func (h *History) LateRun(release *Release, did classify.Effects) (corrected classify.Retry, contradicts bool) {
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
	counted := did.Requests+did.Tools > 0
	return p.correct(release.Of, from, lateSpan{
		Item: run, did: did, known: own != nil && own.again,
		announced: func(r *pastRun) bool { return counted && r.Service == ServiceOf(run) },
	})
}

// lateSpan is a span that came when its run was judged.
type lateSpan struct {
	*Item
	did       classify.Effects
	known     bool                // it was here before: its call was refused, or its sender repeats it
	announced func(*pastRun) bool // it is in the numbers of a run that it is a part of by name
}

// runAbove is the nearest judged run from this span upwards. Above a tool beneath a tool there is
// none: both may be one call.
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

// correct joins the effects of a late span into a run and the runs around it.
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
		corrected = MoreCareful(corrected, r.join(late.did))
		if from = r.Around; from.IsEmpty() {
			named, from = false, p.runAbove(t, r.Parent, false)
		}
		if p.run(from) == nil {
			from = r.by
		}
	}
	return corrected, contradicts
}

// join joins the effects of a late span into those of the run. It returns the verdict on repeating
// the run if that is more careful than before.
func (r *pastRun) join(did classify.Effects) (corrected classify.Retry) {
	r.did = r.did.Join(did)
	before := r.retry.Safety
	if before == semconv.RetrySafetyUnset {
		return corrected // it did not fail: its verdict says nothing of a repetition
	}
	r.retry = MoreCareful(r.retry, Repeat(r.did))
	if r.retry.Safety > before {
		corrected, r.corrected = r.retry, true
	}
	return corrected
}

// Inner is what is known about the runs within a run. The zero value: nothing.
type Inner struct {
	Succeeded classify.Fact    // see [classify.Run.Within]
	Effects   classify.Effects // see [classify.Run.Inner]
	// Unclaimed: of some it is not recorded how they ended, and none of the others failed.
	Unclaimed bool
}

// Ended adds how a run ended, NotObserved if that is not recorded.
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

// Repeat is the verdict on doing again all that a run did, after a failure that a repetition
// may not meet again.
func Repeat(effects classify.Effects) classify.Retry {
	run := classify.Run{
		Ended: classify.Yes, Failed: classify.Yes, Inner: effects,
		// It and what the run did are all that there is.
		AnnouncedRequests: classify.Counted(effects.Requests + 1), AnnouncedTools: classify.Counted(effects.Tools),
		Requests: []classify.Request{{
			Phase: semconv.PhaseBeforeConnection, Ended: semconv.StreamEndNoResponse, Failed: classify.Yes, Basis: classify.Typed,
			Transport:     classify.Transport{Stage: semconv.TransportStageConnect, Cause: semconv.TransportCauseConnectRefused},
			ProviderTools: []string{}, HistoryCalls: []string{}, HistoryOutputs: []string{},
		}},
	}
	return classify.Judge(&run).Run.Retry
}

// MoreCareful is the verdict with the higher level. At one level it is the one whose reason
// comes first.
func MoreCareful(a, b classify.Retry) classify.Retry {
	if b.Safety > a.Safety || b.Safety == a.Safety && b.Reason < a.Reason {
		a.Safety, a.Reason = b.Safety, b.Reason
	}
	return a
}

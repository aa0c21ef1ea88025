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

// runAbove returns the nearest judged run from this span upwards. Above a tool beneath another tool there is none: both
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

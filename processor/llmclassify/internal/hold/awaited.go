package hold

import (
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Awaited is the spans of a trace that calls have brought and that [Buffer.Add] does not have:
// those of calls on their way, and of calls that were refused and have not come again.
type Awaited struct {
	Spans []AwaitedSpan
	More  bool      // there are more than these
	Last  time.Time // when a call brought the last of those that are expected to come
}

// AwaitedSpan is one of these spans, or all spans of a call.
type AwaitedSpan struct {
	ID    pcommon.SpanID // empty for those of a call
	Owner pcommon.SpanID // the run that it names, or else its parent; empty if none or not known
	// From and To are when it began, or when the first and the last of several began; 0 where
	// a span does not say so.
	From, To pcommon.Timestamp
}

// awaits is what Config.Awaits returns, without what is here: a copy of it was refused.
func (b *Buffer[F]) awaits(t *Trace[F]) (a Awaited) {
	if b.cfg.Awaits == nil {
		return a
	}
	a = b.cfg.Awaits(t.id)
	a.Spans = slices.DeleteFunc(a.Spans, func(s AwaitedSpan) bool {
		it := t.Item(s.ID)
		return it != nil && it.Start == s.From
	})
	return a
}

// mayBeOf reports whether any of the spans may be of a run, or of what is in place of one,
// that began and ended at these times. To is 0 where it may not have ended.
func (a *Awaited) mayBeOf(run pcommon.SpanID, from, to pcommon.Timestamp) bool {
	return a.More || slices.ContainsFunc(a.Spans, func(s AwaitedSpan) bool {
		return !s.Owner.IsEmpty() && s.Owner == run || s.From == 0 || s.To+maxSkew >= from && (to == 0 || s.From <= to+maxSkew)
	})
}

// lacks reports whether any of the awaited spans may be of a group.
func (b *Buffer[F]) lacks(t *Trace[F], g *group[F]) bool {
	a := b.awaits(t)
	switch {
	case g.run != nil && g.run.End != 0:
		return a.mayBeOf(g.place.Run, g.start, max(g.until, g.run.End))
	case g.place.Open || g.run == nil && t.Item(g.place.Run) == nil: // when it began is not known
		return a.mayBeOf(g.place.Run, 0, 0)
	default:
		return a.mayBeOf(g.place.Run, g.start, 0)
	}
}

// What has been held for Config.MaxHold waits for calls with spans of its trace that are on
// their way, at most maxPatience longer: these may be a part of it, and mostly come at once.
// It is looked at again after each glance, which become longer the longer it waits.
const (
	maxPatience = time.Second // or less, see expirySlack
	glance      = age(5 * time.Millisecond)
)

// waitsForCalls reports whether the spans of a trace that have been held for Config.MaxHold wait
// for calls that are on their way, and until when.
func (b *Buffer[F]) waitsForCalls(t *Trace[F], now age) bool {
	due := t.oldestHeld().arrived + age(b.cfg.MaxHold)
	last := due + age(min(maxPatience, b.cfg.MaxHold/expirySlack))
	if now >= last {
		return false
	}
	a := b.awaits(t)
	if !slices.ContainsFunc(a.Spans, func(s AwaitedSpan) bool { return s.ID.IsEmpty() }) {
		return false
	}
	t.patient = min(now+max(glance, now-due), last)
	return true
}

// waitsFor reports whether a run span, or a root, that has settled goes on waiting for spans
// that are awaited: for Config.MaxHold from when a call brought the last of them.
func (b *Buffer[F]) waitsFor(a *Awaited, it *Item[F], now age) bool {
	if now >= b.age(a.Last)+age(b.cfg.MaxHold) {
		return false
	}
	if it.Role == Run {
		return a.mayBeOf(it.ID, it.Start, it.End)
	}
	return a.mayBeOf(it.ID, it.Start, 0)
}

// waitLonger lets what has settled wait for Config.Settle once more where it waits for spans
// that are awaited. Complete runs do not wait for those.
func (b *Buffer[F]) waitLonger(t *Trace[F], now age) {
	if len(t.settling) == 0 || t.settling[0].until > now {
		return
	}
	a := b.awaits(t)
	if !a.More && len(a.Spans) == 0 {
		return
	}
	var longer []settling[F]
	t.settling = slices.DeleteFunc(t.settling, func(s settling[F]) bool {
		if s.until > now || s.why == Complete && s.span.Role == Run || !b.waitsFor(&a, s.span, now) {
			return false
		}
		s.until = now + age(b.cfg.Settle)
		longer = append(longer, s)
		return true
	})
	t.settling = append(t.settling, longer...)
	b.work += len(t.settling) * len(a.Spans) / (stepsPerWork * stepsPerWork)
}

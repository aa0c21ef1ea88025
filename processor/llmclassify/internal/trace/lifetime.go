package trace

import (
	"math"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Lifetime is which spans this process can have received.
type Lifetime struct {
	Embedded bool          // all spans come, and none came before
	Period   time.Duration // for which judged runs are kept
	began    atomic.Int64  // in Unix nanoseconds; 0 before the start
}

// Begin notes when this process began to receive spans.
func (l *Lifetime) Begin(now time.Time) {
	if !l.Embedded {
		l.began.Store(now.UnixNano())
	}
}

// clockSkew is the largest difference between the clocks of a producer and this process.
const clockSkew = time.Second

// lacks reports whether parts of a run, or runs within it, may have been received by an earlier process,
// or may be with a sender that could not send them: the run began before this process did, however long ago. A
// sender may have kept it for as long.
func (l *Lifetime) lacks(from pcommon.Timestamp) bool {
	began := l.began.Load()
	return began != 0 && int64(from) < began+int64(clockSkew) //nolint:gosec // before 2262
}

// outlives reports whether a run began so long ago that it may not be known any more what ran
// within it, which is kept for this time. It may come long after its end. If it ended before this
// process began, it comes from a recording, or is judged as one that began before the start, and its own time counts.
func (l *Lifetime) outlives(now time.Time, from, to pcommon.Timestamp, kept time.Duration) bool {
	began := l.began.Load()
	if to <= from || began != 0 && int64(to) >= began { //nolint:gosec // before 2262
		to = max(to, pcommon.NewTimestampFromTime(now))
	}
	return to > from && time.Duration(to-from) > kept-clockSkew //nolint:gosec // the difference of two times
}

// forgottenLately reports whether something may have been known of a run that began at this
// time, and is not any more: what is kept for a period was forgotten, lately, after it began.
func forgottenLately(now, forgotten time.Time, period time.Duration, from pcommon.Timestamp) bool {
	return !forgotten.IsZero() && now.Sub(forgotten) < 2*period && from.AsTime().Before(forgotten.Add(clockSkew))
}

// SetGaps notes in the last release of a run what is known to be missing or may be.
func (h *History) SetGaps(now time.Time, release *Release) {
	release.Settled = release.Settled || h.lifetime.Embedded
	run := release.Run
	from := firstStart(release.Members)
	release.Missing = release.Missing || h.lifetime.lacks(from)
	if run == nil {
		release.Missing = release.Missing || release.Final && forgottenLately(now, h.judged.Lost(), h.lifetime.Period, from)
		return
	}
	old := h.lifetime.outlives(now, run.Start, run.End, h.lifetime.Period)
	release.Missing = release.Missing || h.judged.Forgotten(release.Trace) || h.pastOf(release).forgot(run.Start) ||
		old && (h.judged.ForgottenOld(release.Trace, run.Start.AsTime()) || h.lifetime.outlives(now, run.Start, run.End, OldKept))
	release.Gaps = release.Gaps ||
		release.Final && (old ||
			forgottenLately(now, h.judged.Lost(), h.lifetime.Period, run.Start))
}

// firstStart is when the first of these began.
func firstStart(members []Member) pcommon.Timestamp {
	from := pcommon.Timestamp(math.MaxUint64)
	for i := range members {
		from = min(from, members[i].Start)
	}
	return from
}

// Replay begins a replay of what an earlier process held: until [Buffer.Replayed] no time
// passes for what is added, as more of the same runs may follow. Call it before Add.
func (b *Buffer) Replay() { b.replaying = true }

// Replayed ends a replay. What waits for Config.Settle waits for it from now: the senders of
// what is missing could not send it for as long as the process was down.
func (b *Buffer) Replayed(now time.Time) {
	b.replaying = false
	settled := b.age(now.Add(b.cfg.Settle))
	for _, t := range b.traces {
		for i := range t.settling {
			t.settling[i].until = max(t.settling[i].until, settled)
		}
		b.schedule(t)
	}
}

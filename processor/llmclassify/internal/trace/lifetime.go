package trace

import (
	"math"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Lifetime tells which spans this process can have received.
type Lifetime struct {
	Embedded bool          // all spans arrive here, none went to an earlier process
	Period   time.Duration // how long judged runs are kept
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

// lacks reports whether the run began before this process did, however long ago: an earlier process may have received parts
// of the run, or a sender may still keep parts that it could not send.
func (l *Lifetime) lacks(from pcommon.Timestamp) bool {
	began := l.began.Load()
	return began != 0 && int64(from) < began+int64(clockSkew) //nolint:gosec // before 2262
}

// outlives reports whether a run began so long ago that the runs within it, which are kept for Period, may be forgotten.
// The run may arrive long after its end. If it ended before this process began, it comes from a recording, or is judged as
// a run that began before the start; then its own duration counts.
func (l *Lifetime) outlives(now time.Time, from, to pcommon.Timestamp) bool {
	began := l.began.Load()
	if to <= from || began != 0 && int64(to) >= began { //nolint:gosec // before 2262
		to = max(to, pcommon.NewTimestampFromTime(now))
	}
	return to > from && time.Duration(to-from) > l.Period-clockSkew //nolint:gosec // the difference of two times
}

// forgottenLately reports whether facts of a run that began at this time may have been forgotten: facts that are kept for a
// period were forgotten lately, and after the run began.
func forgottenLately(now, forgotten time.Time, period time.Duration, from pcommon.Timestamp) bool {
	return !forgotten.IsZero() && now.Sub(forgotten) < 2*period && from.AsTime().Before(forgotten.Add(clockSkew))
}

// SetDoubt adds the doubts of the trace's history to a release.
func (h *History) SetDoubt(now time.Time, release *Release) {
	release.Settled = release.Settled || h.lifetime.Embedded
	run, from := release.Run, firstStart(release.Members)
	doubt := func(is bool, d Doubt) {
		if is {
			release.Doubt |= d
		}
	}
	doubt(h.lifetime.lacks(from), BeforeStart)
	if run == nil {
		doubt(release.Final && forgottenLately(now, h.judged.Lost(), h.lifetime.Period, from), Forgotten)
		return
	}
	doubt(h.judged.Forgotten(release.Trace) || h.pastOf(release).forgot(run.Start) || h.lifetime.outlives(now, run.Start, run.End), Forgotten)
	doubt(release.Final && forgottenLately(now, h.judged.Lost(), h.lifetime.Period, run.Start), Crowded)
}

// firstStart is the start of the earliest member.
func firstStart(members []Member) pcommon.Timestamp {
	from := pcommon.Timestamp(math.MaxUint64)
	for i := range members {
		from = min(from, members[i].Start)
	}
	return from
}

// Replay begins a replay of spans that an earlier process held. Until [Buffer.Replayed] no time passes for spans that are
// added, as more of the same runs may follow. Call it before Add.
func (b *Buffer) Replay() { b.replaying = true }

// Replayed ends a replay. Runs that wait for Config.Settle wait for it from now: the senders of missing spans could not
// send them while the process was down.
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

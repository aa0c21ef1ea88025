package llmclassify

import (
	"math"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
)

// lifetime is which spans this process can have received.
type lifetime struct {
	embedded bool          // see Config.Embedded
	period   time.Duration // run_timeout
	// hold is for how long spans may be on their way that were sent before the start, where
	// the storage has all that was received; 0 without storage. It is set before began is.
	hold  time.Duration
	began atomic.Int64 // in Unix nanoseconds; 0 before the start
}

// begin notes when this process began to receive spans.
func (l *lifetime) begin(now time.Time) {
	if !l.embedded {
		l.began.Store(now.UnixNano())
	}
}

// clockSkew is the largest difference between the clocks of a producer and this process.
const clockSkew = time.Second

// lacks reports whether parts of a run may have been received by an earlier process, or may
// be with a sender that could not send them: the run began before this process did. Runs that
// ended long before are not considered: they come from a recording.
func (l *lifetime) lacks(now time.Time, from, to pcommon.Timestamp) bool {
	began := l.began.Load()
	if began == 0 || l.hold > 0 && now.UnixNano()-began >= int64(l.hold) {
		return false
	}
	return int64(from) < began+int64(clockSkew) && int64(to) > began-int64(l.period) //nolint:gosec // before 2262
}

// outlives reports whether a run began so long ago that it may not be known any more what ran
// within it, which is kept for this time. It may come long after its end. If it ended before this
// process began, it comes from a recording, or is judged by what was recalled, and its own time counts.
func (l *lifetime) outlives(now time.Time, from, to pcommon.Timestamp, kept time.Duration) bool {
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

// setGaps notes in the last release of a run what is known to be missing or may be.
func (e *innerRuns) setGaps(now time.Time, release *assemble.Release) {
	release.Settled = release.Settled || e.lifetime.embedded
	run := release.Run
	if run == nil {
		from := earliest(release.Members)
		release.Missing = release.Missing || release.Final && e.awaited.mayLack(now, from)
		return
	}
	old := e.lifetime.outlives(now, run.Start, run.End, e.lifetime.period)
	release.Missing = release.Missing || e.judged.Forgotten(release.Trace) || e.forgot(release.Trace, run.Start) ||
		old && (e.judged.ForgottenOld(release.Trace, run.Start.AsTime()) || e.lifetime.outlives(now, run.Start, run.End, hold.OldKept))
	release.Gaps = release.Gaps ||
		release.Final && (old || e.lifetime.lacks(now, run.Start, run.End) || e.awaited.mayLack(now, run.Start) ||
			forgottenLately(now, e.judged.Lost(), e.lifetime.period, run.Start))
}

// earliest is when the first of these began.
func earliest(members []assemble.Member) pcommon.Timestamp {
	from := pcommon.Timestamp(math.MaxUint64)
	for i := range members {
		from = min(from, members[i].Start)
	}
	return from
}

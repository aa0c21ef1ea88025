package llmclassify

import (
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
)

// started is when this process began to receive spans. Zero: not known. It is set once.
type started struct {
	at     atomic.Int64
	period time.Duration // run_timeout
	// hold is for how long parts of a run may be on their way that were sent before, where
	// the storage has all that was received; 0 without storage.
	hold time.Duration
}

func (s *started) set(now time.Time) { s.at.Store(now.UnixNano()) }

// clockSkew is the largest difference between the clocks of a producer and this process.
const clockSkew = time.Second

// misses reports whether parts of a run may have been received by an earlier process, or may
// be with a sender that could not send them: the run began before this process did. Runs that
// ended long before are not considered: they are sent again from a recording.
func (s *started) misses(now time.Time, from, to pcommon.Timestamp) bool {
	at := s.at.Load()
	if at == 0 || s.hold > 0 && now.UnixNano()-at >= int64(s.hold) {
		return false
	}
	return int64(from) < at+int64(clockSkew) && int64(to) > at-int64(s.period) //nolint:gosec // before 2262
}

// setGaps notes in the last release of a run what is known to be missing or may be.
func (e *innerRuns) setGaps(now time.Time, release *assemble.Release) {
	run := release.Run
	if run == nil {
		return
	}
	release.Missing = release.Missing || e.judged.Forgotten(release.Trace)
	release.Gaps = release.Gaps || release.Final && e.started.misses(now, run.Start, run.End)
}

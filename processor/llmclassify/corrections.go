package llmclassify

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/generations"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/stamp"
	"github.com/otelllm/otelllm-go/semconv"
)

// completeJudged keeps runs that were judged as complete, because everything that they
// announced was here: a late span may contradict that. It is safe for concurrent use.
type completeJudged struct {
	// mu guards everything declared below
	mu   sync.Mutex
	kept *generations.Cache[spanKey, *completeRun]
}

// completeRun is a run that was judged as complete.
type completeRun struct {
	around pcommon.SpanID // the run that it names as the one around it, whose numbers include its own
	end    pcommon.Timestamp
	did    classify.Effects
	retry  classify.Retry // of its verdict; unset where it did not fail
	parts  []uint32       // marks of its requests and tools, with those that contradicted it
	sorted bool           // parts are, since the first late span
}

// note notes the mark of a late span. It reports whether it was not there.
func (r *completeRun) note(mark uint32) bool {
	if !r.sorted {
		slices.Sort(r.parts)
		r.sorted = true
	}
	at, there := slices.BinarySearch(r.parts, mark)
	if !there {
		r.parts = slices.Insert(r.parts, at, mark)
	}
	return !there
}

// completeRunSize is the memory of a run without its parts in bytes, with its share of the
// map.
const completeRunSize = 256

// newCompleteJudged keeps runs for at least one period and at most two, in at most this many
// bytes.
func newCompleteJudged(period time.Duration, bytes int) *completeJudged {
	kept := generations.NewCache[spanKey, *completeRun](period, bytes/2)
	kept.SizeOf = func(r *completeRun) int { return completeRunSize + 4*cap(r.parts) }
	return &completeJudged{kept: kept}
}

// markOf is four bytes of a span's id: two spans of a run that have them in common are taken
// for one.
func markOf(id pcommon.SpanID) uint32 {
	return uint32(binary.LittleEndian.Uint64(id[:]) * 0x9e3779b97f4a7c15 >> 32) //nolint:gosec // 32 bits
}

// add keeps the run of a release that was judged as complete.
func (c *completeJudged) add(now time.Time, release *assemble.Release, d *assemble.Diagnoses) {
	if d.Run == nil || release.Run == nil || !release.Run.Announced.Known {
		return
	}
	r := &completeRun{
		around: release.Run.Run, end: release.Run.End, did: d.Effects, retry: classify.Retry{Safety: d.Run.Retry.Safety, Reason: d.Run.Retry.Reason},
		parts: make([]uint32, 0, len(release.Members)),
	}
	for i := range release.Members {
		if m := &release.Members[i]; !m.Foreign && m.Role != hold.Run {
			r.parts = append(r.parts, markOf(m.ID))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Put(now, spanKey{release.Trace, release.RunID}, r)
}

// late notes a late span and what it did. It reports whether the span contradicts what the
// run that it names announced: it is no second delivery of one of its parts, and began
// before the run ended. It then contradicts the runs that are named around that one, too.
// The most careful verdict on repeating one of them is returned, if the span has made any of
// them more careful.
func (c *completeJudged) late(now time.Time, release *assemble.Release, m *assemble.Member, did classify.Effects) (corrected classify.Retry, contradicts bool) {
	if m.Role == hold.Run {
		return corrected, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	run := m.Run
	for range maxNested {
		if run.IsEmpty() {
			break
		}
		key := spanKey{release.Trace, run}
		r, ok := c.kept.Take(key) // its size may change
		if !ok {
			break
		}
		known := r.end != 0 && m.Start > r.end || !r.note(markOf(m.ID))
		if !known {
			contradicts = true
			corrected = stamp.MoreCareful(corrected, r.join(did))
		}
		c.kept.Put(now, key, r)
		if known {
			break
		}
		run = r.around
	}
	return corrected, contradicts
}

// join joins what a late span did into what the run did. It returns the verdict on repeating
// the run if that is more careful than before.
func (r *completeRun) join(did classify.Effects) (corrected classify.Retry) {
	r.did = r.did.Join(did)
	before := r.retry.Safety
	if before == semconv.RetrySafetyUnset {
		return corrected // it did not fail: its verdict says nothing of a repetition
	}
	r.retry = stamp.MoreCareful(r.retry, assemble.Repeat(r.did))
	if r.retry.Safety > before {
		corrected = r.retry
	}
	return corrected
}

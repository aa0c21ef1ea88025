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

// corrections keeps runs that were judged, for spans of them that come late: these may make
// it less safe to repeat the run than its verdict says, and may contradict what the run
// announced. It is safe for concurrent use.
type corrections struct {
	// mu guards everything declared below
	mu   sync.Mutex
	kept *generations.Cache[spanKey, *judgedRun]
}

// judgedRun is a run that was judged.
type judgedRun struct {
	around    pcommon.SpanID // the run that it names as the one around it, whose numbers include its own
	end       pcommon.Timestamp
	did       classify.Effects
	retry     classify.Retry // of its verdict; unset where it did not fail
	parts     []uint32       // marks of its requests and tools, with those that came late
	sorted    bool           // parts are, since the first late span
	announced bool           // as many parts as it announced, or more, were here
}

// note notes the mark of a late span. It reports whether it was not there.
func (r *judgedRun) note(mark uint32) bool {
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

// judgedRunSize is the memory of a run without its parts in bytes, with its share of the
// map.
const judgedRunSize = 256

// newCorrections keeps runs for at least one period and at most two, in at most this many
// bytes.
func newCorrections(period time.Duration, bytes int) *corrections {
	kept := generations.NewCache[spanKey, *judgedRun](period, bytes/2)
	kept.SizeOf = func(r *judgedRun) int { return judgedRunSize + 4*cap(r.parts) }
	return &corrections{kept: kept}
}

// setLimit changes the bytes.
func (c *corrections) setLimit(bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.SetLimit(bytes / 2)
}

// size is the estimated memory in bytes.
func (c *corrections) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept.Size()
}

// markOf is four bytes of a span's id: two spans of a run that have them in common are taken
// for one.
func markOf(id pcommon.SpanID) uint32 {
	return uint32(binary.LittleEndian.Uint64(id[:]) * 0x9e3779b97f4a7c15 >> 32) //nolint:gosec // 32 bits
}

// add keeps the run of a release that was judged.
func (c *corrections) add(now time.Time, release *assemble.Release, d *assemble.Diagnoses) {
	if d.Run == nil || release.Run == nil {
		return
	}
	announced := release.Run.Announced
	r := &judgedRun{
		around: release.Run.Run, end: release.Run.End, did: d.Effects, retry: classify.Retry{Safety: d.Run.Retry.Safety, Reason: d.Run.Retry.Reason},
		parts: make([]uint32, 0, len(release.Members)), announced: announced.Known && (announced.Void || release.Reason == hold.Complete),
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

// maxCorrected bounds the runs within one another that one late span corrects.
const maxCorrected = 64

// late notes a late span, which may be a part of the run that it names: it is no second
// delivery, and began before the run ended. Then it is a part of the runs that are named
// around that one, too. It reports whether it contradicts what any of them announced. The
// most careful verdict on repeating one of them is returned, if the span has made any of
// them more careful.
func (c *corrections) late(now time.Time, release *assemble.Release, m *assemble.Member, did classify.Effects) (corrected classify.Retry, contradicts bool) {
	if m.Role == hold.Run {
		return corrected, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	run := m.Run
	for range maxCorrected {
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
			contradicts = contradicts || r.announced
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
func (r *judgedRun) join(did classify.Effects) (corrected classify.Retry) {
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

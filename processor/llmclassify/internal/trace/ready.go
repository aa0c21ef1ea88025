package trace

import "time"

// A release is judged after it was made, and a run only after the runs within it were judged.

// maxNewest bounds the run spans of a trace that Ready tests, the newest first, beside the known runs around a released
// run. Others wait for Config.MaxHold at most.
const maxNewest = 64

// Done notes that a release was judged. A trace without buffered spans then leaves.
func (b *Buffer) Done(release *Release) {
	if !release.waits {
		return
	}
	t := release.Of
	if t.judging--; t.live == 0 && t.judging == 0 {
		b.leave(t)
	}
}

// Ready releases the runs that became complete because runs within them were released and judged since the last call. Call
// it until it returns nothing. Traces with releases that are still to be judged wait.
func (b *Buffer) Ready(now time.Time) (releases []Release) {
	if len(b.around) == 0 { // the usual case
		return nil
	}
	around := b.around
	b.around = nil
	at := b.age(now)
	for _, t := range around {
		if t.judging > 0 {
			b.around = append(b.around, t)
			continue
		}
		t.around = false
		if b.traces[t.id] != t {
			continue
		}
		for _, id := range t.outer {
			t.markChanged(t.runs.get(id))
		}
		t.outer = nil
		for _, span := range t.spans[max(0, len(t.spans)-maxNewest):] {
			t.markChanged(t.runs.get(span.ID))
		}
		if t.pending = true; t.rests <= at {
			releases = b.sweepPending(t, at, releases)
		}
		b.schedule(t)
	}
	b.Trim()
	return releases
}

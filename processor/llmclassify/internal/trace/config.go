package trace

import (
	"cmp"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Config configures a [Buffer]. All durations and bounds are positive.
type Config struct {
	// MaxHold bounds how long a span is held.
	MaxHold time.Duration
	// Settle is how long a run span that does not announce its requests and tools waits for them, and how long a complete
	// run, or a request without a run, waits for spans that explain its failure.
	Settle time.Duration
	// RunTimeout bounds how long the facts of released spans wait for their run, from the arrival of the run's last span.
	RunTimeout time.Duration
	// MaxSpansPerRun bounds the held spans of one run, and the held spans of one trace that name no run.
	MaxSpansPerRun int
	// MaxFactBytes bounds the memory of everything but the held spans, in estimated bytes. The memory of judged runs takes
	// at most an eighth of that on top.
	MaxFactBytes int

	// Explained reports whether no further span could change the verdict on a complete run with Unexplained items. It is
	// called again whenever a span of the trace arrives, and must not keep the release.
	Explained func(*Release) bool
	// Read reads the facts of the item's span into Known, and returns their memory in bytes. It is called for evidence,
	// which may be released before the run that it explains. The owner of an early release reads the facts of its spans,
	// see [Buffer.SetFacts].
	Read func(*Item) int
	// Shared returns the memory that items with released spans share, in bytes. It counts toward MaxFactBytes. May be nil.
	Shared func() int
	// Forget is called for items that are forgotten before their run was judged. May be nil.
	Forget func(*Item)
	// Watch is called with 1 when a trace enters the buffer, and with -1 when it leaves. May be nil.
	Watch func(pcommon.TraceID, int32)

	// Lifetime tells which spans this process can have received. Nil: all.
	Lifetime *Lifetime

	// Limits bound the work for one trace at a time. A zero field means its default.
	Limits Limits
}

// Limits bound the work for one trace at a time, so that a trace of many spans keeps the others waiting for no more than a
// moment. Tests set small limits.
type Limits struct {
	// Sweep bounds the runs, or the spans released early, of one trace at a time. The rest waits little longer, with all
	// traces.
	Sweep int
	// Within bounds the steps of testing whether waiting runs are within complete ones: over the spans above them, and
	// comparing times. Beyond that, a complete run is judged as one with missing parts.
	Within int
	// FreeWork is the work for a trace that is not followed by a rest, in spans.
	FreeWork int

	// The remaining limits keep a run that is released early again and again from being judged as a whole each time.

	// Early bounds the items of one early release. A larger run is released in such parts.
	Early int
	// Kept bounds the items of a run whose facts stay after an early release. Beyond that the oldest are forgotten.
	Kept int
}

func (l *Limits) setDefaults() {
	l.Sweep = cmp.Or(l.Sweep, 16384)
	l.Within = cmp.Or(l.Within, 1<<16)
	l.FreeWork = cmp.Or(l.FreeWork, 128)
	l.Early = cmp.Or(l.Early, 1024)
	l.Kept = cmp.Or(l.Kept, 4096)
}

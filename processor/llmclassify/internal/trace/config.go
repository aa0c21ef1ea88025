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
	// Settle is how long a run span that does not announce its requests and tools waits
	// for them, and how long a complete run, or a request without one, waits for what
	// explains it.
	Settle time.Duration
	// RunTimeout bounds how long the facts of released spans wait for their run, from
	// the arrival of the run's last span.
	RunTimeout time.Duration
	// MaxSpansPerRun bounds the spans that are held of one run, and those of one trace that name no run.
	MaxSpansPerRun int
	// MaxFactBytes bounds what is kept beside the held spans, in estimated bytes. What
	// was judged is remembered in at most an eighth of it, on top.
	MaxFactBytes int

	// Explained reports whether nothing that may still arrive would change the verdict
	// on a complete run with items that are Unexplained. It is called again whenever
	// something arrives, and must not keep the release.
	Explained func(*Release) bool
	// Read reads the facts of the item's span into Known, and returns their memory in bytes.
	// It is called for evidence, which may go before what it explains. The facts of a span
	// that goes early are for the owner of its release to read, see [Buffer.SetFacts].
	Read func(*Item) int
	// Shared is the memory that items whose spans have gone share, in bytes. It counts toward
	// MaxFactBytes. May be nil.
	Shared func() int
	// Forget is called for items that are forgotten before their run was judged. May be nil.
	Forget func(*Item)
	// Watch is called when there is something of a trace (1), and when there is nothing
	// any more (-1). May be nil.
	Watch func(pcommon.TraceID, int32)

	// Lifetime is which spans this process can have received. Nil: all.
	Lifetime *Lifetime

	// Limits bound the work for one trace at a time. Zero ones have their default.
	Limits Limits
}

// Limits bound the work for one trace at a time, so that one of many spans keeps the others
// waiting for no more than a moment. Tests set small ones.
type Limits struct {
	// Sweep bounds what is released of a trace at a time, in runs, or spans that go early:
	// others wait for little longer, with all traces.
	Sweep int
	// Within bounds the steps in which runs that wait are tested for being within one that is
	// complete: over spans above them, and of comparing times. If that takes more, what is
	// complete is judged as a run of which parts are missing.
	Within int
	// FreeWork is the work for a trace that is not followed by a rest, in spans.
	FreeWork int

	// A run that goes early again and again is not judged as a whole each time.

	// Early bounds the spans that go in one early release.
	Early int
	// Context bounds the other items of their run that are judged with them: those that
	// arrived just before and after them.
	Context int
	// Kept bounds the items of a run whose facts stay when their spans go early. Of more
	// the oldest are forgotten.
	Kept int
}

func (l *Limits) setDefaults() {
	l.Sweep = cmp.Or(l.Sweep, 16384)
	l.Within = cmp.Or(l.Within, 1<<16)
	l.FreeWork = cmp.Or(l.FreeWork, 128)
	l.Early = cmp.Or(l.Early, 4096)
	l.Context = cmp.Or(l.Context, 512)
	l.Kept = cmp.Or(l.Kept, 4096)
}

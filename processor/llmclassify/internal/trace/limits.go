package trace

import "cmp"

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

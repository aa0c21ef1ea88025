package trace

import "cmp"

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

	// Early bounds the spans of one early release.
	Early int
	// Context bounds the other items of their run that are judged with them: the items that arrived just before and after.
	Context int
	// Kept bounds the items of a run whose facts stay after an early release. Beyond that the oldest are forgotten.
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

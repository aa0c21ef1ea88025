package telemetry

import "sync"

// flow counts what becomes of spans. Each change is made in one step, so that at every
// moment
//
//	in + replayed = refused + passed + forwarded - added + lost + held
//
// It is safe for concurrent use.
type flow struct {
	// mu guards everything declared below
	mu  sync.Mutex
	sum Counts
}

// Counts are numbers of spans. As a change, each is added.
type Counts struct {
	In       int // received in calls that have returned
	Refused  int // those of calls that failed: they come again
	Replayed int // of an earlier process, from the storage
	Passed   int // other spans than those of LLMs, forwarded at once
	Taken    int // LLM spans
	Held     int // LLM spans that are held, judged, or wait to be sent again
	// forwarded is LLM spans and those that were added to them, as llm.run.abandoned; lost
	// is LLM spans that the next consumer refused for good, or that could not be read
	Forwarded, Added, Lost int
}

func (f *flow) Add(c Counts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.sum
	s.In += c.In
	s.Refused += c.Refused
	s.Replayed += c.Replayed
	s.Passed += c.Passed
	s.Taken += c.Taken
	s.Held += c.Held
	s.Forwarded += c.Forwarded
	s.Added += c.Added
	s.Lost += c.Lost
}

// Now is what has been counted so far.
func (f *flow) Now() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sum
}

// Left counts spans that were held and have gone to the next consumer, n in all, of which
// some were added.
func (f *flow) Left(n, added int) { f.Add(Counts{Forwarded: n, Added: added, Held: added - n}) }

// Gone counts held spans that are lost.
func (f *flow) Gone(n int) { f.Add(Counts{Lost: n, Held: -n}) }

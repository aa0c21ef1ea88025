package telemetry

import "sync"

// flow counts the fates of spans. Each change is made in one step, so that at every moment
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
	Refused  int // in calls that failed: they are sent again
	Replayed int // of an earlier process, from the storage
	Passed   int // spans other than LLM spans, forwarded at once
	Taken    int // LLM spans
	Held     int // LLM spans that are held, judged, or wait to be sent again
	// Forwarded counts LLM spans, and spans that were added to them, such as llm.run.abandoned. Lost counts LLM spans that
	// the next consumer refused for good, or that could not be read.
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

// Now returns the counts so far.
func (f *flow) Now() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sum
}

// Left counts n held spans that were forwarded. The number added is the part that was not received, but added.
func (f *flow) Left(n, added int) { f.Add(Counts{Forwarded: n, Added: added, Held: added - n}) }

// Gone counts held spans that are lost.
func (f *flow) Gone(n int) { f.Add(Counts{Lost: n, Held: -n}) }

package llmclassify

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
	sum spanCounts
}

// spanCounts are numbers of spans. As a change, each is added.
type spanCounts struct {
	in       int // received in calls that have returned
	refused  int // those of calls that failed: they come again
	replayed int // of an earlier process, from the storage
	passed   int // other spans than those of LLMs, forwarded at once
	taken    int // LLM spans
	held     int // LLM spans that are held, judged, or wait to be sent again
	// forwarded is LLM spans and those that were added to them, as llm.run.abandoned; lost
	// is LLM spans that the next consumer refused for good, or that could not be read
	forwarded, added, lost int
}

func (f *flow) add(c spanCounts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.sum
	s.in += c.in
	s.refused += c.refused
	s.replayed += c.replayed
	s.passed += c.passed
	s.taken += c.taken
	s.held += c.held
	s.forwarded += c.forwarded
	s.added += c.added
	s.lost += c.lost
}

// now is what has been counted so far.
func (f *flow) now() spanCounts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sum
}

// left counts spans that were held and have gone to the next consumer, n in all, of which
// some were added.
func (f *flow) left(n, added int) { f.add(spanCounts{forwarded: n, added: added, held: added - n}) }

// gone counts held spans that are lost.
func (f *flow) gone(n int) { f.add(spanCounts{lost: n, held: -n}) }

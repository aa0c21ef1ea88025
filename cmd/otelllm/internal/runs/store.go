// Package runs keeps the newest runs that were judged, for the page, the summary and files.
package runs

import (
	"cmp"
	"container/list"
	"slices"
	"sync"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// Store keeps judged spans by trace, and makes records of them when it is asked. It is safe
// for concurrent use.
type Store struct {
	maxSpans  int
	forgotten func([]report.Record) // may be nil

	mu      sync.Mutex
	traces  map[pcommon.TraceID]*list.Element // of *trace
	order   *list.List                        // least recently changed first
	spans   int
	dropped int
	cut     int           // of dropped, those of traces that began anew
	change  uint64        // number of the last change of a trace
	changed chan struct{} // closed at the next change
}

// trace is what has come of a trace.
type trace struct {
	id      pcommon.TraceID
	spans   report.Spans
	n       int
	change  uint64
	records []report.Record // nil if a span has come since
}

// NewStore returns a Store of at most maxSpans spans. Beyond that the trace that has not
// changed for longest goes, and forgotten, if it is not nil, gets its records; a trace that is
// larger by itself begins anew.
func NewStore(maxSpans int, forgotten func([]report.Record)) *Store {
	return &Store{maxSpans: maxSpans, forgotten: forgotten, traces: make(map[pcommon.TraceID]*list.Element), order: list.New(), changed: make(chan struct{})}
}

// Add copies the spans of td.
func (s *Store) Add(td ptrace.Traces) {
	for _, t := range s.add(td) {
		s.forgotten(t.read())
	}
}

// add returns the traces that went, if their records are wanted.
func (s *Store) add(td ptrace.Traces) (gone []*trace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				t := s.trace(span.TraceID())
				if t.n >= s.maxSpans { // a trace without end: the new spans count
					s.spans, s.dropped, s.cut = s.spans-t.n, s.dropped+t.n, s.cut+t.n
					t.spans, t.n = report.Spans{}, 0
				}
				t.spans.AddSpan(rs.Resource(), ss.Scope(), span)
				t.n, t.records = t.n+1, nil
				s.spans++
			}
		}
	}
	for s.spans > s.maxSpans && s.order.Len() > 1 {
		if t := s.forget(s.order.Front()); s.forgotten != nil {
			gone = append(gone, t)
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return gone
}

// trace returns the trace as the one that has changed last.
func (s *Store) trace(id pcommon.TraceID) *trace {
	s.change++
	if e := s.traces[id]; e != nil {
		s.order.MoveToBack(e)
		t := e.Value.(*trace)
		t.change = s.change
		return t
	}
	t := &trace{id: id, change: s.change}
	s.traces[id] = s.order.PushBack(t)
	return t
}

func (s *Store) forget(e *list.Element) *trace {
	t := s.order.Remove(e).(*trace)
	delete(s.traces, t.id)
	s.spans -= t.n
	s.dropped += t.n
	return t
}

// Records returns the runs, and the model calls that belong to no run, the newest first.
// The caller must not change them.
func (s *Store) Records() []report.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []report.Record
	for e := s.order.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*trace).read()...)
	}
	slices.SortStableFunc(all, func(a, b report.Record) int {
		return cmp.Or(b.Start.Compare(a.Start), cmp.Compare(a.SpanID, b.SpanID))
	})
	return all
}

// read returns the records of the trace.
func (t *trace) read() []report.Record {
	if t.records == nil {
		t.records = t.spans.Records(t.id)
	}
	return t.records
}

// Trace is what the store has of a trace.
type Trace struct {
	ID      pcommon.TraceID
	Change  uint64          // number of its last change; changes of all traces are counted together
	Records []report.Record // as [Store.Records] has them; the caller must not change them
}

// Since returns the traces that have changed after the given number, the least recent change
// first, until they have limit records. It also returns the number of the least recent change
// of all traces, or of the next change if there are none: a trace that has not changed since
// then is no longer in the store.
func (s *Store) Since(change uint64, limit int) (traces []Trace, oldest uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest = s.change + 1
	if front := s.order.Front(); front != nil {
		oldest = front.Value.(*trace).change
	}
	first := s.order.Back()
	if first == nil || first.Value.(*trace).change <= change {
		return nil, oldest
	}
	for prev := first.Prev(); prev != nil && prev.Value.(*trace).change > change; prev = prev.Prev() {
		first = prev
	}
	for e, n := first, 0; e != nil && n < limit; e = e.Next() {
		t := e.Value.(*trace)
		traces = append(traces, Trace{ID: t.id, Change: t.change, Records: t.read()})
		n += max(1, len(t.records))
	}
	return traces, oldest
}

// Trace returns the records of one trace. The caller must not change them.
func (s *Store) Trace(id pcommon.TraceID) []report.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.traces[id]
	if e == nil {
		return nil
	}
	return e.Value.(*trace).read()
}

// Changed returns a channel that is closed when spans are added.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Dropped returns how many spans were forgotten because there were too many.
func (s *Store) Dropped() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

// Cut returns how many of them were the beginning of a trace that was larger than the store:
// its record is not whole.
func (s *Store) Cut() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut
}

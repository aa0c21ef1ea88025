package ledger

import (
	"time"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/soak/internal/load"
)

// A soak of half an hour records a million spans, on the machine that the Collector runs on.
// What is recorded of a span has no pointers, so that the garbage collector of this process
// has nothing to follow in it, and takes no time that seems to be the Collector's.

// span is the record of a span.
type span struct {
	key       Key
	run       int32 // of Ledger.byNumber; none for other spans
	role      load.Role
	late      bool
	shown     bool // see load.Span
	risky     bool // likewise
	rejected  bool
	hash      uint64
	attempts  int32
	unknown   int32 // attempts without an answer
	acks      int32
	copies    int32  // exports, see Ledger.copies
	first     moment // the first attempt
	answered  moment // its result
	acked     moment // the first acknowledgement
	firstCopy [1]delivery
}

// none is the run of a span without one.
const none = -1

// delivery is one export of a span.
type delivery struct {
	at      moment
	trigger semconv.Trigger
	outcome semconv.RunOutcome
	failed  bool // its verdict reports a failure
	safe    bool // its verdict is safe_auto_retry
	altered bool
	strange bool // its trigger or outcome is not in the vocabulary
}

// run is the record of a run.
type run struct {
	key       Key
	plan      load.Plan
	shape     string
	spans     []int32       // the numbers of its spans
	abandoned []delivery    // copies of its llm.run.abandoned
	abandons  map[Key]bool  // their ids
	told      bool          // it has a verdict
	judged    chan struct{} // closed at the first verdict; nil if no one has asked for it
}

// moment is a time, in nanoseconds since long before the ledger was made. Zero is no time,
// and before every other one.
type moment int64

const longBefore = 10 * 365 * 24 * time.Hour

func (m moment) Before(n moment) bool       { return m < n }
func (m moment) After(n moment) bool        { return m > n }
func (m moment) Add(d time.Duration) moment { return m + moment(d) }
func (m moment) Sub(n moment) time.Duration { return time.Duration(m - n) }
func (m moment) IsZero() bool               { return m == 0 }

// moment returns a time as a moment.
func (l *Ledger) moment(at time.Time) moment { return moment(at.Sub(l.began)) }

// time returns the time of a moment.
func (l *Ledger) time(m moment) time.Time { return l.began.Add(time.Duration(m)) }

// perBlock is how many records are allocated at once. Those that are there do not move.
const perBlock = 4096

// add adds the record of a span and returns its number.
func (l *Ledger) add(s *span) int32 {
	n := len(l.spans)
	if n%perBlock == 0 {
		l.blocks = append(l.blocks, make([]span, perBlock))
	}
	l.blocks[n/perBlock][n%perBlock] = *s
	l.spans[s.key] = int32(n) //nolint:gosec // 2 billion records have no room
	return int32(n)           //nolint:gosec // likewise
}

// span returns a span by its number.
func (l *Ledger) span(n int32) *span { return &l.blocks[n/perBlock][n%perBlock] }

// all yields the spans.
func (l *Ledger) all(yield func(*span) bool) {
	for n := range len(l.spans) {
		if !yield(&l.blocks[n/perBlock][n%perBlock]) {
			return
		}
	}
}

// spansOf yields the spans of a run.
func (l *Ledger) spansOf(r *run) func(yield func(*span) bool) {
	return func(yield func(*span) bool) {
		for _, n := range r.spans {
			if !yield(l.span(n)) {
				return
			}
		}
	}
}

// runOf returns the run of a span, nil for other spans.
func (l *Ledger) runOf(s *span) *run {
	if s.run == none {
		return nil
	}
	return l.byNumber[s.run]
}

// export records an export of a span.
func (l *Ledger) export(s *span, d delivery) {
	switch s.copies {
	case 0:
		s.firstCopy[0] = d
	case 1:
		l.more[s.key] = []delivery{s.firstCopy[0], d}
	default:
		l.more[s.key] = append(l.more[s.key], d)
	}
	s.copies++
}

// copies are the exports of a span.
func (l *Ledger) copies(s *span) []delivery {
	if s.copies > 1 {
		return l.more[s.key]
	}
	return s.firstCopy[:s.copies]
}

package llmclassify

import (
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
)

// errFull is returned for spans that cannot be held: sending them again later
// loses nothing.
var errFull = errors.New("max_held_bytes is reached and the next consumer does not take spans for now: send these again later")

// shard holds the live runs of the traces that are its own: a lock over a pure
// buffer. Releases are made under the lock, and judged and forwarded outside of it.
type shard struct {
	maxBytes int

	// mu guards everything declared below
	mu       sync.Mutex
	buffer   *hold.Buffer[assemble.Known]
	admitted int // bytes of spans that were admitted and are not yet owned
	closed   bool
}

func newShard(cfg *Config) *shard {
	return &shard{
		maxBytes: cfg.MaxHeldBytes,
		buffer: hold.New(hold.Config[assemble.Known]{
			MaxHold:        cfg.MaxHold,
			Settle:         cfg.Settle,
			RunTimeout:     cfg.RunTimeout,
			MaxSpansPerRun: cfg.MaxSpansPerRun,
			MaxFactBytes:   cfg.MaxFactBytes,
			Locate:         assemble.Locate,
			Explained:      assemble.Explained,
			Read:           readFacts,
		}),
	}
}

// kinds are the kinds of spans by their role in the buffer.
var kinds = [...]dialect.Kind{hold.Request: dialect.Request, hold.Tool: dialect.Tool, hold.Run: dialect.Run}

func readFacts(it *assemble.Item) int {
	return it.Known.Facts(it.Span, kinds[it.Role]).Size()
}

// admit makes sure that size bytes may be owned, before anything is forwarded:
// while pending bytes wait because the next consumer fails, the bound holds for
// both together. What is admitted is given back with own or withdraw.
func (s *shard) admit(size, pending int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pending > 0 && s.buffer.Bytes()+s.admitted+pending+size > s.maxBytes {
		return errFull
	}
	s.admitted += size
	return nil
}

func (s *shard) withdraw(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admitted -= size
}

// links finds where the spans of td, none of them an LLM span, stand in traces
// that are held or of which spans arrive with them.
func (s *shard) links(td ptrace.Traces, arrivals []arrival) []link {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(arrivals) == 0 && s.buffer.Traces() == 0 {
		return nil
	}
	arriving := make(map[pcommon.TraceID]struct{})
	for _, a := range arrivals {
		arriving[a.Trace] = struct{}{}
	}
	return links(td, func(id pcommon.TraceID) bool {
		_, ok := arriving[id]
		return ok || s.buffer.Has(id)
	})
}

// own takes over admitted spans and returns what is due because of them.
func (s *shard) own(now time.Time, b *batch, seen []link) []hold.Release[assemble.Known] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admitted -= b.size
	releases := s.buffer.Add(now, b.arrivals)
	for _, l := range seen {
		s.buffer.Link(l.trace, l.id, l.parent)
	}
	if s.closed {
		return append(releases, s.buffer.Drain(now)...)
	}
	if over := s.buffer.Bytes() - s.maxBytes; over > 0 {
		releases = append(releases, s.buffer.Evict(now, over)...)
	}
	return releases
}

// see notes where spans stand in traces of which none is owned with them.
func (s *shard) see(seen []link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range seen {
		s.buffer.Link(l.trace, l.id, l.parent)
	}
}

// due returns what the time has come for.
func (s *shard) due(now time.Time) []hold.Release[assemble.Known] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.Due(now)
}

// next is when due is to be called next; false when nothing waits.
func (s *shard) next() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.Next()
}

// close returns everything, and makes own return all that still comes.
func (s *shard) close(now time.Time) []hold.Release[assemble.Known] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.buffer.Drain(now)
}

// load is what a shard holds.
type load struct{ traces, bytes, factBytes int }

func (s *shard) load() load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return load{s.buffer.Traces(), s.buffer.Bytes() + s.admitted, s.buffer.FactBytes()}
}

func (s *shard) forgotten() hold.Forgotten {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.Forgotten()
}

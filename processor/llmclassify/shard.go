package llmclassify

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/packed"
)

// shard holds the live runs of the traces that are its own. One goroutine does
// all its work: takes over what comes, judges what is due, forwards it.
//
//	ConsumeTraces ── place, delivery ──► in ──► receive ─┐
//	                                   timer ──► tick ───┴─► buffer ─► judge ─► forwarder ─► next
type shard struct {
	p         *classifier
	buffer    *hold.Buffer[assemble.Known]
	forwarder *forwarder
	reader    packed.Reader
	judge     assemble.Judge
	evidence  *evidence
	ended     *endedRuns
	forgotten []journal.Ticket // of facts that were forgotten
	passed    []passed         // since deliver noted them
	loose     looseQueue       // traces of which spans may be packed

	// places has one element for each delivery that may be put into in, which has
	// room for all of them: a caller that has a place never waits.
	places chan struct{}
	in     chan delivery

	used      int // bytes that the budget knows of
	traces    atomic.Int64
	bytes     atomic.Int64
	factBytes atomic.Int64
	evidenced atomic.Int64 // bytes of evidence
	waiting   atomic.Int64 // bytes that wait to be sent again
}

// delivery is what one call brings to a shard.
type delivery struct {
	at       time.Time // when it came, where it is of an earlier process; else zero
	arrivals []assemble.Arrival
	parcel   *parcel // spans that are judged, nil where there are none
	seen     []hold.Link
	https    []exchange
	size     int // bytes that the budget knows of
}

// owns reports whether there are spans in the delivery.
func (d *delivery) owns() bool { return d.arrivals != nil || d.parcel != nil }

const (
	// maxDeliveries bounds the deliveries on their way to a shard.
	maxDeliveries = 8
	// maxDue is about how many spans are looked at before the shard turns to what has
	// come, some milliseconds of work: a burst of deadlines must not keep callers waiting.
	maxDue = 1024
	// maxDrained is how many traces are released at a time at the end.
	maxDrained = 128
)

func newShard(p *classifier, cfg *Config, shards int) *shard {
	s := &shard{
		p:      p,
		places: make(chan struct{}, maxDeliveries),
		in:     make(chan delivery, maxDeliveries),
	}
	s.forwarder = newForwarder(p)
	s.loose.epoch = p.clock.Now()
	s.evidence = newEvidence(cfg.MaxHold, max(cfg.MaxFactBytes/shards, 1)/16, p.suspects.add)
	s.ended = newEndedRuns(cfg.RunTimeout, max(cfg.MaxFactBytes/shards, 1)/16)
	s.buffer = hold.New(p.clock.Now(), hold.Config[assemble.Known]{
		MaxHold:        cfg.MaxHold,
		Settle:         cfg.Settle,
		RunTimeout:     cfg.RunTimeout,
		MaxSpansPerRun: cfg.MaxSpansPerRun,
		MaxFactBytes:   max(cfg.MaxFactBytes/shards, 1),
		Locate:         assemble.Locate,
		Within:         within,
		Inner:          s.ended.parts,
		Explained:      s.explained,
		Read:           s.read,
		Forget:         s.forget,
		Remember:       s.remember,
		Watch:          p.interest.add,
	})
	return s
}

// read reads the facts of a span that is about to go.
func (s *shard) read(it *assemble.Item) int {
	span, ok := s.reader.Span(it.Known.Body)
	if !ok {
		span = ptrace.NewSpan() // deliver reports it
	}
	return it.Known.Facts(span, kinds[it.Role]).Size()
}

func (s *shard) explained(release *assemble.Release) bool {
	s.open(release)
	return s.judge.Explained(release)
}

func (s *shard) forget(it *assemble.Item) {
	s.forgotten = append(s.forgotten, it.Known.Ticket)
}

func (s *shard) open(release *assemble.Release) {
	for i := range release.Members {
		m := &release.Members[i]
		var ok bool
		if m.Span, ok = s.reader.Span(m.Known.Body); !ok {
			m.Span = ptrace.NewSpan() // its facts have been read
		}
	}
	s.evidence.explain(release)
}

// run does the shard's work until quit is closed.
func (s *shard) run(ctx context.Context, quit <-chan struct{}) {
	const idle = time.Hour
	t := s.p.clock.NewTimer(idle)
	defer t.Stop()
	for {
		wait := idle
		if at, ok := s.next(); ok {
			wait = max(at.Sub(s.p.clock.Now()), 0)
		}
		t.Reset(wait)
		select {
		case <-quit:
			return
		case d := <-s.in:
			s.receive(ctx, d)
		case <-t.C():
			s.wake(ctx)
		}
	}
}

// wake does what is due. What has come before is taken over first: a run must not be
// given up on spans that wait in the channel.
func (s *shard) wake(ctx context.Context) {
	for range len(s.in) {
		s.receive(ctx, <-s.in)
	}
	s.tick(ctx, s.p.clock.Now())
}

// receive takes over a delivery, and judges and forwards what is due because of it.
func (s *shard) receive(ctx context.Context, d delivery) {
	<-s.places
	now := s.p.clock.Now()
	at := now
	if !d.at.IsZero() {
		at = d.at
	}
	for i := range d.https {
		s.evidence.add(now, &d.https[i])
		s.p.suspects.add(d.https[i].above.trace, -1) // the evidence's own is there now
	}
	if d.parcel != nil {
		s.forwarder.send(ctx, *d.parcel)
	}
	releases := s.buffer.Add(at, d.arrivals, d.seen)
	for _, a := range d.arrivals {
		s.p.interest.add(a.Trace, -1) // the buffer's own is there now
	}
	s.p.budget.add(-d.size)
	s.deliver(ctx, releases)
	spans := s.loosen(at, d.arrivals)
	s.account()
	s.pack(now, max(2*spans, maxDue)) // faster than they come
	over := s.p.budget.over()
	if s.p.budget.reached(over > 0) {
		s.p.logger.Warn("max_held_bytes is reached: runs are judged before their time, on what is there; raise it, or lower max_hold",
			zap.Int64("max_held_bytes", s.p.budget.limit))
	}
	for ; over > 0 && s.buffer.Bytes() > 0 && !s.forwarder.waits(); over = s.p.budget.over() { // what would wait to be sent again frees nothing
		s.deliver(ctx, s.buffer.Evict(now, over))
		s.account()
	}
}

// next is when tick is to be called; false when nothing waits.
func (s *shard) next() (time.Time, bool) {
	next, ok := s.buffer.Next()
	if retry, waits := s.forwarder.due(); waits && (!ok || retry.Before(next)) {
		next, ok = retry, true
	}
	if at, loose := s.packs(); loose && (!ok || at.Before(next)) {
		next, ok = at, true
	}
	return next, ok
}

// tick judges and forwards some of what is due, and sends again what was refused.
// Where more is due, next is not after now.
func (s *shard) tick(ctx context.Context, now time.Time) {
	s.deliver(ctx, s.buffer.Due(now, maxDue))
	if at, ok := s.forwarder.due(); ok && !at.After(now) {
		s.forwarder.retry(ctx)
	}
	s.account()
	s.pack(now, maxDue)
}

// drain takes over what is on its way, and judges and forwards everything.
func (s *shard) drain(ctx context.Context) {
	for {
		select {
		case d := <-s.in:
			s.receive(ctx, d)
			continue
		default:
		}
		releases := s.buffer.Drain(s.p.clock.Now(), maxDrained)
		if len(releases) == 0 {
			s.account()
			return
		}
		s.deliver(ctx, releases)
	}
}

// account tells the budget and the gauges what the shard holds.
func (s *shard) account() {
	s.traces.Store(int64(s.buffer.Traces()))
	s.bytes.Store(int64(s.buffer.Bytes()))
	s.factBytes.Store(int64(s.buffer.FactBytes()))
	s.evidenced.Store(int64(s.evidence.size()))
	s.waiting.Store(int64(s.forwarder.bytes))
	used := s.buffer.Bytes() + s.forwarder.bytes
	s.p.budget.add(used - s.used)
	s.p.budget.waits(s.forwarder.bytes - s.forwarder.known)
	s.forwarder.known = s.forwarder.bytes
	s.used = used
}

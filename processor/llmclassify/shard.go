package llmclassify

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
)

// shards share the traces among them.
type shards []*shard

// index is the index of the shard that a trace belongs to.
func (s shards) index(id pcommon.TraceID) int {
	if len(s) == 1 {
		return 0
	}
	return int(hash(id) % uint64(len(s))) //nolint:gosec // less than the number of shards
}

// of is the shard that a trace belongs to.
func (s shards) of(id pcommon.TraceID) *shard { return s[s.index(id)] }

// shard holds the live runs of the traces that belong to it. One goroutine does all its
// work: takes over deliveries, judges what is due, forwards it.
//
//	ConsumeTraces ── place, delivery ──► in ──► receive ─┐
//	                                   timer ──► tick ───┴─► buffer ─► releaser ─► forwarder ─► next
type shard struct {
	*shared
	buffer    *hold.Buffer[assemble.Known]
	releaser  *releaser
	forwarder *forwarder
	evidence  *evidence
	inner     *innerRuns
	unpacked  packQueue

	// places has one element for each delivery that may be put into in, which has
	// room for all of them: a caller that has a place never waits.
	places chan struct{}
	in     chan delivery

	used          int // bytes that the budget knows of
	traces        atomic.Int64
	factBytes     atomic.Int64
	evidenceBytes atomic.Int64
}

// delivery is what one call brings to a shard.
type delivery struct {
	at        time.Time // when an earlier process received it; zero where this one did
	arrivals  []assemble.Arrival
	parcel    *parcel // spans that are judged, nil where there are none
	links     []hold.Link
	exchanges []exchange
	size      int // bytes that the budget knows of
}

// hasSpans reports whether there are spans in the delivery that the shard is to take over.
func (d *delivery) hasSpans() bool { return d.arrivals != nil || d.parcel != nil }

// hasNews reports whether the delivery lets the shard know of spans that passed.
func (d *delivery) hasNews() bool { return d.links != nil || d.exchanges != nil }

func anyNews(deliveries []delivery) bool {
	for i := range deliveries {
		if deliveries[i].hasNews() {
			return true
		}
	}
	return false
}

const (
	// maxDeliveries bounds the deliveries on their way to a shard.
	maxDeliveries = 8
	// maxDue is about how many spans are handled before the shard turns to its
	// deliveries, some milliseconds of work: a burst of deadlines must not keep callers
	// waiting.
	maxDue = 1024
	// maxDrained is how many traces are released at a time at the end.
	maxDrained = 128
)

// newShard makes one of n shards.
func newShard(p *shared, n int) *shard {
	cfg, factBytes := p.cfg, max(p.cfg.MaxFactBytes/n, 1)
	s := &shard{
		shared:    p,
		forwarder: newForwarder(p),
		evidence:  newEvidence(cfg.MaxHold, factBytes/16, p.evidenced.add),
		inner:     newInnerRuns(cfg.RunTimeout, factBytes/16),
		unpacked:  packQueue{epoch: p.clock.Now()},
		places:    make(chan struct{}, maxDeliveries),
		in:        make(chan delivery, maxDeliveries),
	}
	s.releaser = &releaser{shared: p, forwarder: s.forwarder, evidence: s.evidence, inner: s.inner}
	s.buffer = hold.New(p.clock.Now(), hold.Config[assemble.Known]{
		MaxHold:        cfg.MaxHold,
		Settle:         cfg.Settle,
		RunTimeout:     cfg.RunTimeout,
		MaxSpansPerRun: cfg.MaxSpansPerRun,
		MaxFactBytes:   factBytes,
		Locate:         assemble.Locate,
		Around:         assemble.Around,
		During:         assemble.During,
		Inner:          s.inner.parts,
		SameService:    assemble.SameService,
		Explained:      s.releaser.explained,
		Read:           s.releaser.readFacts,
		Forget:         s.releaser.forget,
		Remember:       s.releaser.remember,
		Watch:          p.interest.add,
	})
	s.releaser.buffer = s.buffer
	return s
}

// run does the shard's work until quit is closed.
func (s *shard) run(ctx context.Context, quit <-chan struct{}) {
	const idle = time.Hour
	t := s.clock.NewTimer(idle)
	defer t.Stop()
	for {
		wait := idle
		if at, ok := s.next(); ok {
			wait = max(at.Sub(s.clock.Now()), 0)
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

// wake does what is due. Deliveries are taken over first: a run must not be given up
// while spans of it wait in the channel.
func (s *shard) wake(ctx context.Context) {
	for range len(s.in) {
		s.receive(ctx, <-s.in)
	}
	s.tick(ctx, s.clock.Now())
}

// receive takes over a delivery, and judges and forwards what is due because of it.
func (s *shard) receive(ctx context.Context, d delivery) {
	<-s.places
	now := s.clock.Now()
	at := now
	if !d.at.IsZero() {
		at = d.at
	}
	for i := range d.exchanges {
		s.evidence.add(now, &d.exchanges[i])
		s.evidenced.add(d.exchanges[i].above.trace, -1) // the evidence has counted it now
	}
	if d.parcel != nil {
		s.forwarder.send(ctx, *d.parcel)
	}
	releases := s.buffer.Add(at, d.arrivals, d.links)
	for _, a := range d.arrivals {
		s.interest.add(a.Trace, -1) // the buffer has counted it now
	}
	s.budget.add(-d.size)
	s.release(ctx, releases)
	spans := s.unpacked.add(at, d.arrivals)
	s.account()
	s.pack(now, max(2*spans, maxDue)) // faster than they arrive
	over := s.budget.over()
	if s.budget.reached(over > 0) {
		s.logger.Warn("max_held_bytes is reached: runs are judged early, on the spans received so far; raise max_held_bytes, or lower max_hold",
			zap.Int64("max_held_bytes", s.budget.limit))
	}
	for ; over > 0 && s.buffer.Bytes() > 0 && !s.forwarder.waits(); over = s.budget.over() { // what would wait to be sent again frees nothing
		s.release(ctx, s.buffer.Evict(now, over))
		s.account()
	}
}

// release releases, and then what is complete because of that.
func (s *shard) release(ctx context.Context, releases []assemble.Release) {
	for s.releaser.release(ctx, releases); ; s.releaser.release(ctx, releases) {
		if releases = s.buffer.Ready(s.clock.Now()); len(releases) == 0 {
			return
		}
	}
}

// next is when tick is to be called; false when nothing waits.
func (s *shard) next() (time.Time, bool) {
	next, ok := s.buffer.Next()
	if retry, waits := s.forwarder.due(); waits && (!ok || retry.Before(next)) {
		next, ok = retry, true
	}
	if at, waits := s.unpacked.due(s.budget.tight()); waits && (!ok || at.Before(next)) {
		next, ok = at, true
	}
	return next, ok
}

// tick judges and forwards some of what is due, and sends again what was refused.
// Where more is due, next is not after now.
func (s *shard) tick(ctx context.Context, now time.Time) {
	s.release(ctx, s.buffer.Due(now, maxDue))
	if at, ok := s.forwarder.due(); ok && !at.After(now) {
		s.forwarder.retry(ctx)
	}
	s.account()
	s.pack(now, maxDue)
}

// pack packs about limit spans of what is due for that, so that callers need not wait
// for all.
func (s *shard) pack(now time.Time, limit int) {
	for limit > 0 {
		at, waits := s.unpacked.due(s.budget.tight())
		if !waits || at.After(now) {
			return
		}
		limit -= 1 + packTrace(s.buffer, s.unpacked.pop())
		s.account()
	}
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
		releases := s.buffer.Drain(s.clock.Now(), maxDrained)
		if len(releases) == 0 {
			s.account()
			return
		}
		s.release(ctx, releases)
	}
}

// account brings the budget and the gauges up to date.
func (s *shard) account() {
	s.traces.Store(int64(s.buffer.Traces()))
	s.factBytes.Store(int64(s.buffer.FactBytes()))
	s.evidenceBytes.Store(int64(s.evidence.size()))
	used := s.buffer.Bytes() + s.forwarder.bytes
	s.budget.add(used - s.used)
	s.budget.addWaiting(s.forwarder.bytes - s.forwarder.known)
	s.forwarder.known = s.forwarder.bytes
	s.used = used
}

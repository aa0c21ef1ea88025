package llmclassify

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/packed"
)

// lane holds the live runs of a tenant in one shard, and judges and forwards them. It
// takes turns with the other lanes of its shard, in the shard's goroutine.
//
//	ConsumeTraces ── place, delivery ──► inbox ──► receive ─┐
//	                                      timer ──► tick ───┴─► buffer ─► pending ─► releaser ─► forwarder ─► next
type lane struct {
	*shared
	inbox     *inbox
	buffer    *hold.Buffer[assemble.Known]
	pending   pending
	releaser  *releaser
	forwarder *forwarder
	evidence  *evidence
	inner     *innerRuns
	awaited   *awaited
	unpacked  packQueue
	held      origin.Uses // by the spans that are held or pending

	tenant        *tenant
	since         int // deliveries that were received since something was due
	used          int // bytes that the budget knows of
	traces        atomic.Int64
	factBytes     atomic.Int64
	evidenceBytes atomic.Int64

	// Scratch memory of judge.
	releases []assemble.Release
	ended    []pcommon.TraceID // known as judged once they are
}

// maxDue is about how many spans are handled in a turn, some milliseconds of work: a burst
// of deadlines, or a large run, must not keep other lanes and callers waiting.
const maxDue = 1024

// bytesPerSpan is how many bytes that go out are as much work as a span is beside them.
const bytesPerSpan = 4 << 10

// maxTaken is when no more deliveries are taken in a turn, in spans. A tenant of many small
// calls takes several, so that it does not wait for a turn of a flood with each of them.
const maxTaken = 128

// maxDrained is how many traces are released at a time at the end.
const maxDrained = 128

// newLane makes the lane of a tenant in one of n shards.
func newLane(p *shared, t *tenant, n int, wake func()) *lane {
	cfg, factBytes := p.cfg, max(p.cfg.MaxFactBytes/n, 1)
	l := &lane{
		shared:    p,
		tenant:    t,
		forwarder: newForwarder(p),
		evidence:  newEvidence(cfg.MaxHold, factBytes/16, p.evidenced.add),
		awaited:   newAwaited(cfg.RunTimeout, factBytes/16),
		unpacked:  packQueue{epoch: p.clock.Now()},
		inbox:     newInbox(cfg.MaxHeldBytes, wake),
	}
	l.releaser = &releaser{shared: p, tenant: t.key, held: &l.held, forwarder: l.forwarder, evidence: l.evidence}
	l.buffer = hold.New(p.clock.Now(), hold.Config[assemble.Known]{
		MaxHold:        cfg.MaxHold,
		Settle:         cfg.Settle,
		RunTimeout:     cfg.RunTimeout,
		MaxSpansPerRun: cfg.MaxSpansPerRun,
		MaxFactBytes:   factBytes,
		Locate:         assemble.Locate,
		Around: func(t *assemble.Trace, run *assemble.Item, ids []pcommon.SpanID) ([]pcommon.SpanID, hold.Chain) {
			return assemble.Around(t, run, ids, l.inner.corrections.judged(t.ID()))
		},
		During:       assemble.During,
		Inner:        func(t *assemble.Trace, run *assemble.Item) (requests, tools uint32) { return l.inner.parts(t, run) },
		SameService:  assemble.SameService,
		Awaits:       l.awaited.of,
		Explained:    l.releaser.explained,
		Read:         l.releaser.readFacts,
		GuessedFacts: 512,
		Shared:       l.releaser.kept.Bytes,
		Forget:       l.releaser.forget,
		Remember:     l.releaser.remember,
		Left:         func(t *assemble.Trace) { l.inner.corrections.pass(p.clock.Now(), t.ID(), t.Links()) },
		Watch:        p.interest.add,
		Limits:       p.limits,
	})
	l.inner = newInnerRuns(cfg.RunTimeout, factBytes/16, l.buffer.Judged(), l.awaited, &p.lifetime)
	l.releaser.buffer, l.releaser.inner = l.buffer, l.inner
	return l
}

// turn does some of the lane's work, a few milliseconds. It reports whether it did any, or
// has more to do.
//
// What is due waits for the deliveries that were there before it: a run must not be given
// up while spans of it wait in the inbox.
func (l *lane) turn(ctx context.Context) (worked bool) {
	now := l.clock.Now()
	due := l.isDue(now)
	if !due {
		l.since = 0
	}
	for taken := 0; taken < maxTaken && l.since <= maxDeliveries && l.pending.bytes <= int(l.budget.limit/8); {
		d, ok := l.inbox.take()
		if !ok {
			break
		}
		worked = true
		l.since++
		taken += d.spans()
		l.receive(ctx, &d)
	}
	if due && (!worked || l.since > maxDeliveries) {
		l.tick(ctx, now)
		l.since, worked = 0, true
	}
	return l.judge(ctx, maxDue) || worked
}

// isDue reports whether tick is to be called.
func (l *lane) isDue(now time.Time) bool {
	at, waits := l.next()
	return waits && !at.After(now)
}

// receive takes over a delivery. What is due because of it is pending.
func (l *lane) receive(ctx context.Context, d *delivery) {
	now := l.clock.Now()
	at := now
	if !d.at.IsZero() {
		at = d.at
	}
	for i := range d.exchanges {
		l.evidence.add(now, &d.exchanges[i])
		l.evidenced.add(d.exchanges[i].above.trace, -1) // the evidence has counted it now
	}
	if d.parcel != nil {
		l.forwarder.send(ctx, *d.parcel)
	}
	l.store.update(ctx, nil, nil, d.judged)
	for _, a := range d.arrivals {
		l.use(a.Items)
	}
	if d.at.IsZero() {
		for _, a := range d.arrivals {
			l.awaited.arrived(a.Trace, a.Items)
		}
	}
	l.push(l.buffer.Add(at, d.arrivals, d.links))
	if d.linksLost {
		l.buffer.LoseLinks(now)
	}
	if d.replayed {
		l.buffer.Replayed(now)
	}
	for _, a := range d.arrivals {
		l.interest.add(a.Trace, -1) // the buffer has counted it now
		dropSpent(a.Items)
	}
	spans := l.unpacked.add(at, d.arrivals)
	l.budget.add(l.tenant, -d.size)
	l.account()
	l.pack(now, max(2*spans, maxDue)) // faster than they arrive
	l.evict(now)
}

// dropSpent drops the spans of items that bring facts alone, which the buffer has read. The
// items of a call share memory: one that stays would keep the spans of the others.
func dropSpent(items []*assemble.Item) {
	for _, it := range items {
		if it.Spent {
			it.Known.Body = packed.Span{}
		}
	}
}

// use counts the scopes of spans, which mostly follow one another.
func (l *lane) use(items []*assemble.Item) {
	for from := 0; from < len(items); {
		first, n := items[from], 1
		if first.Spent {
			l.releaser.keep(first)
			from++
			continue
		}
		scope := first.Known.Origin
		for from+n < len(items) && items[from+n].Known.Origin == scope && !items[from+n].Spent {
			n++
		}
		l.held.Add(scope, n)
		from += n
	}
}

// evict lets spans go early while there is no memory for them.
func (l *lane) evict(now time.Time) {
	over := l.budget.over(l.tenant)
	if l.budget.reached(over > 0) {
		l.logger.Warn("max_held_bytes is reached: runs are judged early, on the spans received so far; raise max_held_bytes, or lower max_hold",
			zap.Int64("max_held_bytes", l.budget.limit))
	}
	if l.forwarder.waits() { // what would wait to be sent again frees nothing
		return
	}
	if over -= l.pending.bytes; over > 0 && l.buffer.Bytes() > 0 {
		l.push(l.buffer.Evict(now, over))
		l.account()
	}
}

// push adds releases to those that are to be judged.
func (l *lane) push(releases []assemble.Release) {
	l.pending.push(releases, l.inner.corrections.judged, func(trace pcommon.TraceID) { l.interest.add(trace, 1) })
}

// judge judges and forwards what is pending, and what is complete because of that, of
// about limit members, or fewer that are large. It reports whether it did anything.
func (l *lane) judge(ctx context.Context, limit int) (worked bool) {
	for limit > 0 {
		l.push(l.buffer.Ready(l.clock.Now(), l.pending.has))
		if l.pending.empty() {
			break
		}
		releases, ended := l.releases[:0], l.ended[:0]
		for limit > 0 && !l.pending.empty() {
			var some []assemble.Release
			some, limit = l.pending.pop(limit, func(trace pcommon.TraceID) { ended = append(ended, trace) })
			releases = append(releases, some...)
		}
		l.releaser.release(ctx, releases)
		l.interest.addAll(ended, -1)
		l.releases, l.ended = releases, ended
		worked = true
	}
	if worked {
		l.buffer.Trim()
	}
	l.releaser.release(ctx, nil)
	if worked || l.buffer.FactBytes() != int(l.factBytes.Load()) {
		l.account()
	}
	return worked
}

// rotate forgets what is old enough, also where nothing arrives.
func (l *lane) rotate(now time.Time) {
	l.evidence.kept.Rotate(now)
	l.inner.rotate(now)
	l.awaited.rotate(now)
	l.buffer.Judged().Rotate(now)
	l.account()
}

// next is when tick is to be called; false when nothing waits.
func (l *lane) next() (time.Time, bool) {
	next, ok := l.buffer.Next()
	if retry, waits := l.forwarder.due(); waits && (!ok || retry.Before(next)) {
		next, ok = retry, true
	}
	if at, waits := l.unpacked.due(l.budget.tight()); waits && (!ok || at.Before(next)) {
		next, ok = at, true
	}
	return next, ok
}

// tick makes pending some of what is due, and sends again what was refused. Where more is
// due, next is not after now.
func (l *lane) tick(ctx context.Context, now time.Time) {
	l.push(l.buffer.Due(now, maxDue))
	if at, ok := l.forwarder.due(); ok && !at.After(now) {
		l.forwarder.retry(ctx)
	}
	l.account()
	l.pack(now, maxDue)
}

// pack packs about limit spans of what is due for that, so that callers need not wait
// for all.
func (l *lane) pack(now time.Time, limit int) {
	for limit > 0 {
		at, waits := l.unpacked.due(l.budget.tight())
		if !waits || at.After(now) {
			return
		}
		limit -= 1 + packTrace(l.buffer, l.unpacked.pop())
		l.account()
	}
}

// drain takes over what is on its way, and judges and forwards everything.
func (l *lane) drain(ctx context.Context) {
	for {
		if d, ok := l.inbox.take(); ok {
			l.receive(ctx, &d)
			continue
		}
		if l.judge(ctx, maxDue) {
			continue
		}
		releases := l.buffer.Drain(l.clock.Now(), maxDrained)
		if len(releases) == 0 {
			l.account()
			return
		}
		l.push(releases)
	}
}

// account brings the budget and the gauges up to date.
func (l *lane) account() {
	l.traces.Store(int64(l.buffer.Traces()))
	l.factBytes.Store(int64(l.buffer.FactBytes()))
	l.evidenceBytes.Store(int64(l.evidence.size()))
	used := l.buffer.Bytes() + l.held.Bytes() + l.pending.bytes + l.forwarder.bytes
	l.budget.add(l.tenant, used-l.used)
	l.budget.addWaiting(l.forwarder.bytes - l.forwarder.known)
	l.forwarder.known = l.forwarder.bytes
	l.used = used
}

package llmclassify

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// lane holds the live runs of a tenant in one shard, and judges and forwards them. It
// takes turns with the other lanes of its shard, in the shard's goroutine.
//
//	ConsumeTraces ── place, delivery ──► inbox ──► receive ─┐
//	                                      timer ──► tick ───┴─► buffer ─► pending ─► releaser ─► forwarder ─► next
type lane struct {
	*pool
	inbox *inbox

	// turns guards everything declared below. The shard's goroutine has it for its turns, and calls for the runs
	// that come whole.
	turns     chan struct{} // has an element while the lane is locked
	buffer    *trace.Buffer
	pending   pending
	releaser  *releaser
	forwarder *forwarder
	evidence  *evidence
	unpacked  packQueue

	tenant        *tenant
	since         int // deliveries that were received since something was due
	used          int // bytes that the budget knows of
	waiting       int // those of them that wait to be sent again
	traces        atomic.Int64
	factBytes     atomic.Int64
	evidenceBytes atomic.Int64
	judgedBytes   atomic.Int64
	historyBytes  atomic.Int64

	// Scratch memory of judge.
	releases []trace.Release
	ended    []pcommon.TraceID // known as judged once they are
}

// lock waits for the lane.
func (l *lane) lock() { l.turns <- struct{}{} }

func (l *lane) unlock() { <-l.turns }

// lockFor waits for the lane until ctx is done. It reports whether it has it.
func (l *lane) lockFor(ctx context.Context) bool {
	select {
	case l.turns <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
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
func newLane(p *pool, t *tenant, n int, wake func()) *lane {
	factBytes := max(p.maxFactBytes/n, 1)
	l := &lane{
		pool:      p,
		tenant:    t,
		forwarder: newForwarder(p.next, p.clock, p.telemetry, p.store),
		evidence:  newEvidence(p.maxHold, factBytes/16),
		unpacked:  packQueue{epoch: p.clock.Now()},
		inbox:     newInbox(p.maxHeldBytes, wake),
		turns:     make(chan struct{}, 1),
	}
	l.releaser = newReleaser(p.clock, p.telemetry, p.store, p.markStatus, l.forwarder, l.evidence)
	l.buffer = trace.New(p.clock.Now(), trace.Config{
		MaxHold:        p.maxHold,
		Settle:         p.settle,
		RunTimeout:     p.runTimeout,
		MaxSpansPerRun: p.maxSpansPerRun,
		MaxFactBytes:   factBytes,
		Explained:      l.releaser.explained,
		Read:           l.releaser.readFacts,
		Shared:         l.releaser.kept.Bytes,
		Forget:         l.releaser.forget,
		Watch:          p.live.add,
		Limits:         p.limits,
		Lifetime:       &p.lifetime,
	})
	l.releaser.buffer = l.buffer
	return l
}

// turn does some of the lane's work, a few milliseconds. It reports whether it did any, or
// has more to do.
//
// What is due waits for the deliveries that were there before it: a run must not be given
// up while spans of it wait in the inbox.
func (l *lane) turn(ctx context.Context) (worked bool) {
	l.lock()
	defer l.unlock()
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
	at, waits := l.nextDue()
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
	}
	if d.parcel != nil {
		l.forwarder.send(ctx, *d.parcel)
	}
	for _, a := range d.arrivals {
		l.use(a.Items)
	}
	for _, trace := range d.refused {
		l.buffer.Refuse(now, trace)
	}
	l.push(l.buffer.Add(at, d.arrivals, d.links))
	if d.linksLost {
		l.buffer.LoseLinks(now)
	}
	if d.replayed {
		l.buffer.Replayed(now)
	}
	for _, a := range d.arrivals {
		l.live.add(a.Trace, -1) // the buffer has counted it now
	}
	spans := l.unpacked.add(at, d.arrivals)
	l.budget.add(l.tenant, -d.size)
	l.account()
	l.pack(now, max(2*spans, maxDue)) // faster than they arrive
	l.evict(now)
}

// use counts the scopes of spans, which mostly follow one another.
func (l *lane) use(items []*trace.Item) {
	for from := 0; from < len(items); {
		first, n := items[from], 1
		scope := first.Known.Origin
		for from+n < len(items) && items[from+n].Known.Origin == scope {
			n++
		}
		l.releaser.held.Add(scope, n)
		from += n
	}
}

// evict lets spans go early while there is no memory for them.
func (l *lane) evict(now time.Time) {
	over := l.budget.over(l.tenant)
	if l.budget.reached(over > 0) {
		l.telemetry.Warn("max_held_bytes is reached: runs are judged early, on the spans received so far; raise max_held_bytes, or lower max_hold",
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
func (l *lane) push(releases []trace.Release) {
	l.pending.push(releases, func(id pcommon.TraceID) { l.live.add(id, 1) })
}

// judge judges and forwards what is pending, and what is complete because of that, of
// about limit members, or fewer that are large. It reports whether it did anything.
func (l *lane) judge(ctx context.Context, limit int) (worked bool) {
	for limit > 0 {
		l.push(l.buffer.Ready(l.clock.Now()))
		if l.pending.empty() {
			break
		}
		releases, ended := l.releases[:0], l.ended[:0]
		for limit > 0 && !l.pending.empty() {
			var some []trace.Release
			some, limit = l.pending.pop(limit, func(trace pcommon.TraceID) { ended = append(ended, trace) })
			releases = append(releases, some...)
		}
		l.releaser.release(ctx, releases)
		l.live.addAll(ended, -1)
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
	l.lock()
	defer l.unlock()
	l.evidence.rotate(now)
	l.buffer.History().Rotate(now)
	l.buffer.Judged().Rotate(now)
	l.account()
}

// next is when turn is to be called; false when nothing waits.
func (l *lane) next() (time.Time, bool) {
	l.lock()
	defer l.unlock()
	return l.nextDue()
}

// nextDue is when tick is to be called; false when nothing waits.
func (l *lane) nextDue() (time.Time, bool) {
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
// due, nextDue is not after now.
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
	l.lock()
	defer l.unlock()
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
	l.judgedBytes.Store(int64(l.buffer.Judged().Size()))
	l.historyBytes.Store(int64(l.buffer.History().Size()))
	waiting := l.forwarder.bytes()
	used := l.buffer.Bytes() + l.releaser.held.Bytes() + l.pending.bytes + waiting
	l.budget.add(l.tenant, used-l.used)
	l.budget.addWaiting(waiting - l.waiting)
	l.used, l.waiting = used, waiting
}

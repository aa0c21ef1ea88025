package worker

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/forward"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/release"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/tenant"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// Lane holds the live runs of a tenant in one shard, and judges and forwards them. It
// takes turns with the other lanes of its shard, in the shard's goroutine.
//
//	ConsumeTraces ── place, delivery ──► inbox ──► receive ─┐
//	                                      timer ──► tick ───┴─► buffer ─► pending ─► releaser ─► forwarder ─► next
type Lane struct {
	*Pool
	Inbox *inbox

	// turns guards everything declared below. The shard's goroutine has it for its turns, and a call for its whole runs.
	turns     chan struct{} // has an element while the lane is locked
	Buffer    *trace.Buffer
	Pending   pending
	Releaser  *release.Releaser
	Forwarder *forward.Forwarder
	evidence  *trace.Evidence
	unpacked  packQueue

	tenant        *tenant.Tenant
	since         int // deliveries received since something was due
	used          int // bytes that the budget counts
	waiting       int // the part of used that waits to be sent again
	traces        atomic.Int64
	factBytes     atomic.Int64
	evidenceBytes atomic.Int64
	judgedBytes   atomic.Int64
	historyBytes  atomic.Int64

	// Scratch memory of judge.
	releases []trace.Release
	ended    []pcommon.TraceID // traces whose last pending releases are judged now
}

// lock waits for the lane.
func (l *Lane) lock() { l.turns <- struct{}{} }

func (l *Lane) unlock() { <-l.turns }

// lockFor waits for the lane until ctx is done. It reports whether the lane is locked.
func (l *Lane) lockFor(ctx context.Context) bool {
	select {
	case l.turns <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// MaxDue is about how many spans are handled in a turn, some milliseconds of work: a burst
// of deadlines, or a large run, must not keep other lanes and callers waiting.
const MaxDue = 1024

// BytesPerSpan is how many forwarded bytes are as much work as a span itself.
const BytesPerSpan = 4 << 10

// maxTaken bounds the spans that a turn takes from the inbox. A tenant of many small calls takes several, so that it does
// not wait for a turn of a flood with each of them.
const maxTaken = 128

// MaxDrained is how many traces are released at a time at the end.
const MaxDrained = 128

// newLane makes the lane of a tenant in one of n shards.
func newLane(p *Pool, t *tenant.Tenant, n int, wake func()) *Lane {
	factBytes := max(p.MaxFactBytes/n, 1)
	l := &Lane{
		Pool:      p,
		tenant:    t,
		Forwarder: forward.New(p.next, p.Clock, p.Telemetry, p.Store, !p.Embedded),
		evidence:  trace.NewEvidence(p.MaxHold, factBytes/16),
		unpacked:  packQueue{epoch: p.Clock.Now()},
		Inbox:     newInbox(p.MaxHeldBytes, wake),
		turns:     make(chan struct{}, 1),
	}
	l.Releaser = release.New(p.Clock, p.Telemetry, p.Store, p.MarkStatus, l.Forwarder, l.evidence)
	l.Buffer = trace.New(p.Clock.Now(), trace.Config{
		MaxHold:        p.MaxHold,
		Settle:         p.Settle,
		RunTimeout:     p.RunTimeout,
		MaxSpansPerRun: p.MaxSpansPerRun,
		MaxFactBytes:   factBytes,
		Explained:      l.Releaser.Explained,
		Read:           l.Releaser.ReadFacts,
		Shared:         l.Releaser.Kept.Bytes,
		Forget:         l.Releaser.Forget,
		Watch:          p.Live.Add,
		Limits:         p.Limits,
		Lifetime:       &p.Lifetime,
	})
	l.Releaser.Buffer = l.Buffer
	return l
}

// Turn does some of the lane's work, a few milliseconds. It reports whether it did any, or has more to do.
//
// Due releases wait for the deliveries that were there before: a run must not be given up while spans of it wait in the
// inbox.
func (l *Lane) Turn(ctx context.Context) (worked bool) {
	l.lock()
	defer l.unlock()
	now := l.Clock.Now()
	due := l.isDue(now)
	if !due {
		l.since = 0
	}
	for taken := 0; taken < maxTaken && l.since <= MaxDeliveries && l.Pending.bytes <= int(l.Budget.Limit/8); {
		d, ok := l.Inbox.Take()
		if !ok {
			break
		}
		worked = true
		l.since++
		taken += d.spans()
		l.Receive(ctx, &d)
	}
	if due && (!worked || l.since > MaxDeliveries) {
		l.Tick(ctx, now)
		l.since, worked = 0, true
	}
	return l.Judge(ctx, MaxDue) || worked
}

// isDue reports whether Tick has to be called.
func (l *Lane) isDue(now time.Time) bool {
	at, waits := l.nextDue()
	return waits && !at.After(now)
}

// Receive takes over a delivery. Releases that become due are pending.
func (l *Lane) Receive(ctx context.Context, d *delivery) {
	now := l.Clock.Now()
	at := now
	if !d.at.IsZero() {
		at = d.at
	}
	for i := range d.exchanges {
		l.evidence.Add(now, &d.exchanges[i])
	}
	if d.Parcel != nil {
		l.Forwarder.Send(ctx, *d.Parcel)
	}
	for _, a := range d.Arrivals {
		l.use(a.Items)
	}
	for _, trace := range d.refused {
		l.Buffer.Refuse(now, trace)
	}
	l.Push(l.Buffer.Add(at, d.Arrivals, d.links))
	if d.linksLost {
		l.Buffer.LoseLinks(now)
	}
	if d.replayed {
		l.Buffer.Replayed(now)
	}
	for _, a := range d.Arrivals {
		l.Live.Add(a.Trace, -1) // the buffer has counted it now
	}
	spans := l.unpacked.add(at, d.Arrivals)
	l.Budget.Add(l.tenant, -d.size)
	l.Account()
	l.pack(now, max(2*spans, MaxDue)) // faster than they arrive
	l.evict(now)
}

// use counts the scopes of spans, which mostly follow one another.
func (l *Lane) use(items []*trace.Item) {
	for from := 0; from < len(items); {
		first, n := items[from], 1
		scope := first.Known.Origin
		for from+n < len(items) && items[from+n].Known.Origin == scope {
			n++
		}
		l.Releaser.Held.Add(scope, n)
		from += n
	}
}

// evict releases spans early while there is no memory for them.
func (l *Lane) evict(now time.Time) {
	over := l.Budget.Over(l.tenant)
	if l.Budget.Reached(over > 0) {
		l.Telemetry.Warn("max_held_bytes is reached: runs are judged early, on the spans received so far; raise max_held_bytes, or lower max_hold",
			zap.Int64("max_held_bytes", l.Budget.Limit))
	}
	if l.Forwarder.Waits() { // spans that would wait to be sent again free nothing
		return
	}
	if over -= l.Pending.bytes; over > 0 && l.Buffer.Bytes() > 0 {
		l.Push(l.Buffer.Evict(now, over))
		l.Account()
	}
}

// Push adds releases to the pending ones.
func (l *Lane) Push(releases []trace.Release) {
	l.Pending.push(releases, func(id pcommon.TraceID) { l.Live.Add(id, 1) })
}

// Judge judges and forwards pending releases, and runs that become complete by that, of about limit members, or fewer large
// ones. It reports whether it did anything.
func (l *Lane) Judge(ctx context.Context, limit int) (worked bool) {
	for limit > 0 {
		l.Push(l.Buffer.Ready(l.Clock.Now()))
		if l.Pending.empty() {
			break
		}
		releases, ended := l.releases[:0], l.ended[:0]
		for limit > 0 && !l.Pending.empty() {
			var some []trace.Release
			some, limit = l.Pending.pop(limit, func(trace pcommon.TraceID) { ended = append(ended, trace) })
			releases = append(releases, some...)
		}
		l.Releaser.Release(ctx, releases)
		l.Live.AddAll(ended, -1)
		l.releases, l.ended = releases, ended
		worked = true
	}
	if worked {
		l.Buffer.Trim()
	}
	l.Releaser.Release(ctx, nil)
	if worked || l.Buffer.FactBytes() != int(l.factBytes.Load()) {
		l.Account()
	}
	return worked
}

// Rotate forgets entries that are old enough, even if no span arrives.
func (l *Lane) Rotate(now time.Time) {
	l.lock()
	defer l.unlock()
	l.evidence.Rotate(now)
	l.Buffer.History().Rotate(now)
	l.Buffer.Judged().Rotate(now)
	l.Account()
}

// Next is the time of the next call of Turn; false when nothing waits.
func (l *Lane) Next() (time.Time, bool) {
	l.lock()
	defer l.unlock()
	return l.nextDue()
}

// nextDue is the time of the next call of Tick; false when nothing waits.
func (l *Lane) nextDue() (time.Time, bool) {
	next, ok := l.Buffer.Next()
	if retry, waits := l.Forwarder.Due(); waits && (!ok || retry.Before(next)) {
		next, ok = retry, true
	}
	if at, waits := l.unpacked.due(l.Budget.Tight()); waits && (!ok || at.Before(next)) {
		next, ok = at, true
	}
	return next, ok
}

// Tick makes some due releases pending, and sends refused parcels again. If more is due, nextDue is not after now.
func (l *Lane) Tick(ctx context.Context, now time.Time) {
	l.Push(l.Buffer.Due(now, MaxDue))
	if at, ok := l.Forwarder.Due(); ok && !at.After(now) {
		l.Forwarder.Retry(ctx)
	}
	l.Account()
	l.pack(now, MaxDue)
}

// pack packs about limit due spans, so that callers need not wait for all.
func (l *Lane) pack(now time.Time, limit int) {
	for limit > 0 {
		at, waits := l.unpacked.due(l.Budget.Tight())
		if !waits || at.After(now) {
			return
		}
		limit -= 1 + packTrace(l.Buffer, l.unpacked.pop())
		l.Account()
	}
}

// drain takes over the deliveries on their way, and judges and forwards everything.
func (l *Lane) drain(ctx context.Context) {
	l.lock()
	defer l.unlock()
	for {
		if d, ok := l.Inbox.Take(); ok {
			l.Receive(ctx, &d)
			continue
		}
		if l.Judge(ctx, MaxDue) {
			continue
		}
		releases := l.Buffer.Drain(l.Clock.Now(), MaxDrained)
		if len(releases) == 0 {
			l.Account()
			return
		}
		l.Push(releases)
	}
}

// Account brings the budget and the gauges up to date.
func (l *Lane) Account() {
	l.traces.Store(int64(l.Buffer.Traces()))
	l.factBytes.Store(int64(l.Buffer.FactBytes()))
	l.evidenceBytes.Store(int64(l.evidence.Size()))
	l.judgedBytes.Store(int64(l.Buffer.Judged().Size()))
	l.historyBytes.Store(int64(l.Buffer.History().Size()))
	waiting := l.Forwarder.Bytes()
	used := l.Buffer.Bytes() + l.Releaser.Held.Bytes() + l.Pending.bytes + waiting
	l.Budget.Add(l.tenant, used-l.used)
	l.Budget.AddWaiting(waiting - l.waiting)
	l.used, l.waiting = used, waiting
}

package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"golang.org/x/sync/semaphore"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/forward"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// delivery is the part of one call for a lane.
type delivery struct {
	at        time.Time // when an earlier process received it; zero for this process
	Arrivals  []trace.Arrival
	Parcel    *forward.Parcel // spans of an earlier process to forward as they are; nil: none
	links     []trace.Link
	refused   []pcommon.TraceID // traces of a call that was refused
	exchanges []trace.Exchange
	size      int  // bytes that the budget counts
	replayed  bool // it is the last delivery of an earlier process
	linksLost bool // there was no room for links or refused traces after it
	placed    bool // it has a place
}

// needsPlace reports whether the delivery has spans for the lane to take over.
func (d *delivery) needsPlace() bool { return d.Arrivals != nil || d.Parcel != nil }

// news is the number of links, exchanges and refused traces in the delivery.
func (d *delivery) news() int { return len(d.links) + len(d.exchanges) + len(d.refused) }

// spans is the number of spans in the delivery, links included.
func (d *delivery) spans() int {
	n := d.news()
	for i := range d.Arrivals {
		n += len(d.Arrivals[i].Items)
	}
	if d.Parcel != nil {
		n += d.Parcel.Spans
	}
	return n
}

const (
	// MaxDeliveries bounds the deliveries of spans on their way to a lane, if they are small: together they take no more
	// than max_held_bytes divided by inboxPart.
	MaxDeliveries = 8
	inboxPart     = 16
	// MaxNews bounds the news on their way to a lane. Beyond it the lane learns only that there was more: runs wait for
	// longer, and verdicts are less certain.
	MaxNews = 1 << 14
)

// inbox is the deliveries on their way to a lane, in order. A call waits for a place before any part of it is forwarded;
// put never waits.
type inbox struct {
	Places *semaphore.Weighted // for the bytes of deliveries of spans that may be put in
	Room   int64               // of places
	wake   func()              // wakes the lane for a delivery

	// mu guards everything declared below
	mu   sync.Mutex
	List []delivery
	news int // of list
}

func newInbox(maxHeldBytes int, wake func()) *inbox {
	room := int64(max(maxHeldBytes/inboxPart, MaxDeliveries))
	return &inbox{Places: semaphore.NewWeighted(room), Room: room, wake: wake}
}

// place is the room of a delivery: at least the share of one of MaxDeliveries, and at most all of it.
func (b *inbox) place(d *delivery) int64 {
	return min(max(int64(d.size), b.Room/MaxDeliveries), b.Room)
}

// reserve waits for a place for a delivery that needs one.
func (b *inbox) reserve(ctx context.Context, d *delivery) error {
	if err := b.Places.Acquire(ctx, b.place(d)); err != nil {
		return fmt.Errorf("waiting for earlier spans to be taken over: %w", err)
	}
	d.placed = true
	return nil
}

// unreserve gives back the place of a delivery.
func (b *inbox) unreserve(d *delivery) { b.Places.Release(b.place(d)) }

// put adds a delivery. News without room are dropped.
func (b *inbox) put(d *delivery) {
	b.mu.Lock()
	if !d.needsPlace() && b.news+d.news() > MaxNews {
		if len(d.links)+len(d.refused) > 0 {
			b.loseLinks()
		}
		b.mu.Unlock()
		return
	}
	b.List = append(b.List, *d)
	b.news += d.news()
	b.mu.Unlock()
	b.wake()
}

// loseLinks notes that links are missing, after the deliveries on their way. It is called under the lock.
func (b *inbox) loseLinks() {
	if len(b.List) == 0 {
		b.List = append(b.List, delivery{})
		b.wake()
	}
	b.List[len(b.List)-1].linksLost = true
}

// Take takes out the first delivery, and gives its place back.
func (b *inbox) Take() (d delivery, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.List) == 0 {
		return d, false
	}
	d, b.List[0] = b.List[0], delivery{}
	if b.List = b.List[1:]; len(b.List) == 0 {
		b.List = nil
	}
	b.news -= d.news()
	if d.placed {
		b.unreserve(&d)
	}
	return d, true
}

func (b *inbox) Empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.List) == 0
}

// Package journal keeps the spans that the processor owns in a storage extension of the Collector, so that a crash loses
// none: each call is written before it is acknowledged, and deleted when the last of its spans was forwarded and its run
// judged.
package journal

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal/ticket"
)

// Ticket is a span in the journal. Its zero value is no span.
type Ticket = ticket.Ticket

// entry is the spans of one call. Journal.mu guards it.
type entry struct {
	seq    uint64
	pieces int           // number of its stored values, at least 1
	states []state       // by span
	left   int           // number of spans that are not done
	dirty  []int         // blocks of states that changed since they were written
	stored bool          // some states may have been written
	place  *list.Element // in the list of live entries
}

// IsEntry implements [ticket.Entry].
func (*entry) IsEntry() {}

// The keys of a journal:
//
//	bounds        the first number that may be live, and one that is above all
//	<n>           entry n: header and spans; the first pieceSize bytes of them
//	<n>.<i>       likewise the next ones, if there are more
//	states.<n>.<i> the states of its block i of blockSpans spans; absent while these are all held
//	aside.<key>   an unreadable value that was stored under a key
//
// An entry is immutable; the states of its spans are stored apart. All values are sealed.
const (
	boundsKey   = "bounds"
	asidePrefix = "aside."
)

// ahead is how many numbers are claimed at a time, so that the bounds need not be written with each entry.
const ahead = 1024

func pieceKey[N int | uint64](seq uint64, piece N) string {
	if piece == 0 {
		return key(seq)
	}
	return key(seq) + "." + strconv.FormatUint(uint64(piece), 10)
}

func key(seq uint64) string { return strconv.FormatUint(seq, 10) }

// Journal is safe for concurrent use.
type Journal struct {
	client storage.Client
	logger *zap.Logger

	found *found // at Open; nil if the storage cannot list its keys
	first uint64 // at Open: no entry of an earlier process has a lower number

	// marking is held while states are written and entries deleted.
	marking sync.Mutex
	changed []*entry // with unwritten states; guarded by marking

	// mu guards everything declared below
	mu      sync.Mutex
	next    uint64    // the number of the next entry
	claimed uint64    // no entry may have this number or a higher one before bounds is written
	closed  bool      // no entry is written any more
	unread  uint64    // Replay has yet to read the entries from this number on
	live    list.List // of *entry, by number
}

// Open opens the journal in a storage. Call [Journal.Replay] before anything else.
func Open(ctx context.Context, client storage.Client, logger *zap.Logger) (*Journal, error) {
	j := &Journal{client: client, logger: logger}
	var err error
	if j.found, err = find(ctx, client); err != nil {
		return nil, err
	}
	bounds, err := client.Get(ctx, boundsKey)
	if err != nil {
		return nil, fmt.Errorf("reading the journal's bounds from the storage: %w", err)
	}
	if bounds != nil {
		if j.first, j.claimed, err = readRange(bounds); err != nil {
			if err := j.boundsUnreadable(ctx, bounds, err); err != nil {
				return nil, err
			}
		}
	}
	j.claimed = j.found.above(j.claimed)
	j.next = j.claimed
	j.unread = min(j.first, j.found.begin(j.first))
	return j, nil
}

var errClosed = errors.New("the journal is closed")

// Put writes a call that arrived at this time with this metadata. The journal keeps it until its spans are done; tickets
// returns the ticket of a span by its index.
func (j *Journal) Put(ctx context.Context, at time.Time, metadata map[string][]string, td ptrace.Traces) (tickets func(int) Ticket, err error) {
	pieces, err := encode(at, metadata, td)
	if err != nil {
		return nil, err
	}
	e := newEntry(td.SpanCount(), len(pieces))
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil, errClosed
	}
	e.seq = j.next
	j.next++
	j.push(e)
	ops := make([]*storage.Operation, 0, len(pieces)+1)
	for i, piece := range pieces {
		ops = append(ops, storage.SetOperation(pieceKey(e.seq, i), piece))
	}
	claimed := j.claimed
	if j.next > claimed {
		claimed = j.next + ahead
		ops = append(ops, j.bounds(claimed))
		err = j.client.Batch(ctx, ops...) // under the lock: others must not write numbers that are not claimed yet
		if err == nil {
			j.claimed = claimed
		}
		j.mu.Unlock()
	} else {
		j.mu.Unlock()
		err = j.client.Batch(ctx, ops...)
	}
	if err != nil {
		j.mu.Lock()
		j.remove(e)
		j.mu.Unlock()
		return nil, fmt.Errorf("writing spans to the storage: %w", err)
	}
	return e.ticket, nil
}

func newEntry(spans, pieces int) *entry {
	return &entry{pieces: pieces, states: make([]state, spans), left: spans}
}

func (e *entry) ticket(index int) Ticket {
	return Ticket{Entry: e, Index: uint32(index)} //nolint:gosec // an entry has fewer spans than that
}

// bounds writes the numbers that may be live. It is called under the lock.
func (j *Journal) bounds(claimed uint64) *storage.Operation {
	first := min(j.unread, j.next)
	if e := j.oldest(); e != nil {
		first = min(first, e.seq)
	}
	return storage.SetOperation(boundsKey, sealRange(first, claimed))
}

// Sent notes spans that were forwarded and whose facts are kept.
func (j *Journal) Sent(ctx context.Context, tickets []Ticket) error {
	return j.mark(ctx, tickets, sent)
}

// Forget notes spans whose facts are not kept. Spans that were not forwarded stay in the journal.
func (j *Journal) Forget(ctx context.Context, tickets []Ticket) error {
	return j.mark(ctx, tickets, free)
}

// Delete notes spans that were forwarded and whose run was judged.
func (j *Journal) Delete(ctx context.Context, tickets []Ticket) error {
	return j.mark(ctx, tickets, done)
}

// mark notes states of spans, and deletes the entries whose spans are all done. After an error no span is lost: the next
// call writes the remaining states, and a crash before that brings spans again.
func (j *Journal) mark(ctx context.Context, tickets []Ticket, as state) error {
	j.marking.Lock()
	defer j.marking.Unlock()
	j.mu.Lock()
	for _, t := range tickets {
		e, ok := t.Entry.(*entry)
		if !ok {
			continue
		}
		clean := len(e.dirty) == 0 // it is not in changed
		if e.set(t.Index, as) && clean {
			j.changed = append(j.changed, e)
		}
	}
	j.mu.Unlock()
	return j.write(ctx)
}

// write writes the changed states. It is called with marking held.
func (j *Journal) write(ctx context.Context) error {
	if len(j.changed) == 0 {
		return nil
	}
	var ops []*storage.Operation
	for _, e := range j.changed {
		ops = append(ops, e.operations()...)
	}
	if err := j.client.Batch(ctx, ops...); err != nil {
		return fmt.Errorf("writing to the storage which spans are done: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.changed {
		if e.dirty = nil; e.left == 0 {
			j.remove(e)
		}
	}
	j.changed = nil
	return nil
}

// push adds an entry, with the highest number so far, to the list. It is called under the lock.
func (j *Journal) push(e *entry) { e.place = j.live.PushBack(e) }

// oldest returns the entry with the lowest number, nil if no entry is live. It is called under the lock.
func (j *Journal) oldest() *entry {
	if first := j.live.Front(); first != nil {
		return first.Value.(*entry)
	}
	return nil
}

// remove removes an entry from the list. It is called under the lock.
func (j *Journal) remove(e *entry) { j.live.Remove(e.place) }

// reads notes the number of the first entry that is yet to be read.
func (j *Journal) reads(seq uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unread = seq
}

// allRead notes that there are no more entries of earlier processes.
func (j *Journal) allRead() {
	j.reads(math.MaxUint64)
	j.found = nil // it is not needed again
}

// Close writes the states that failed to be written before and the bounds for the next start, and closes the storage
// client.
func (j *Journal) Close(ctx context.Context) error {
	j.marking.Lock()
	err := j.write(ctx)
	j.marking.Unlock()
	j.mu.Lock()
	op := j.bounds(j.next)
	j.closed = true
	j.mu.Unlock()
	return errors.Join(err, j.client.Batch(ctx, op), j.client.Close(ctx))
}

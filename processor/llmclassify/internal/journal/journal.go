// Package journal keeps the spans that the processor owns in a storage extension of the
// Collector, so that a crash loses none: each call is written before it is acknowledged,
// and deleted when all of its spans were forwarded and their runs judged.
package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"
)

// State is how far the processor is with a span. It only grows.
type State uint8

// The states of spans.
const (
	Held  State = iota // it is to be forwarded
	Spent              // it has been forwarded, and its run is to be judged
	Done               // it has been forwarded, and its run was judged
)

// Ticket is a span in the journal. Its zero value is no span.
type Ticket struct {
	entry *entry
	index uint32
}

// entry is the spans of one call.
type entry struct {
	seq    uint64
	states []State // by span; guarded by Journal.mu
	left   int     // spans that are not Done; likewise
	dirty  bool    // it is on the list of the current update; likewise
}

// The keys of a journal. An entry is immutable; the states of its spans are stored beside
// it.
//
//	bounds       the first number that may be live, and one that is above all
//	<n>          entry n: header and spans
//	<n>.states   one byte a span; absent while all are held
//	aside.<n>    what was stored as <n> and is not an entry
//
// What was judged is stored under keys of its own, see judgedKey; earlier versions did not
// write it.
const (
	boundsKey   = "bounds"
	statesKey   = ".states"
	asidePrefix = "aside."
)

// ahead is how many numbers are claimed at a time, so that the bounds need not be written
// with each entry.
const ahead = 1024

func key(seq uint64) string { return strconv.FormatUint(seq, 10) }

// Journal is safe for concurrent use.
type Journal struct {
	client storage.Client
	logger *zap.Logger

	// writing is held while the states of spans are changed and written, so that older
	// states never overwrite newer ones, and none is written without what was judged.
	writing sync.Mutex
	judged  judgedLog // guarded by writing

	// mu guards everything declared below
	mu      sync.Mutex
	first   uint64   // no live entry has a lower number
	next    uint64   // the number of the next entry
	claimed uint64   // no entry may have this number or a higher one before bounds is written
	live    []*entry // from first on, in order; nil where done
}

// Replayed is one call of an earlier process: the spans of it that are not Done.
type Replayed struct {
	At       time.Time
	Metadata map[string][]string
	Traces   ptrace.Traces
	// States and Tickets are by span, in their order.
	States  []State
	Tickets []Ticket
}

// Open opens the journal in a storage. Call [Journal.Replay] before anything else.
func Open(ctx context.Context, client storage.Client, logger *zap.Logger) (*Journal, error) {
	j := &Journal{client: client, logger: logger}
	bounds, err := client.Get(ctx, boundsKey)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the journal's bounds from the storage: %w", err)
	case len(bounds) == 16:
		j.first = binary.LittleEndian.Uint64(bounds)
		j.claimed = max(binary.LittleEndian.Uint64(bounds[8:]), j.first)
	case bounds != nil:
		logger.Warn("The bounds of the journal are unreadable; the spans of an earlier process are not replayed",
			zap.Int("bytes", len(bounds)))
		if err := client.Set(ctx, asidePrefix+boundsKey, bounds); err != nil {
			return nil, fmt.Errorf("setting the journal's unreadable bounds aside: %w", err)
		}
		// Far above what a process could have written: nothing is overwritten.
		j.first = uint64(time.Now().UnixNano()) //nolint:gosec // after 1970
		j.claimed = j.first
	}
	j.next = j.claimed
	return j, nil
}

// Replay calls yield with each call of an earlier process, in their order, until that
// returns an error. Unreadable entries are set aside, and logged.
func (j *Journal) Replay(ctx context.Context, yield func(*Replayed) error) error {
	for seq, end := j.first, j.next; seq < end; seq++ {
		value, err := j.client.Get(ctx, key(seq))
		if err != nil {
			return fmt.Errorf("reading entry %d of the journal from the storage: %w", seq, err)
		}
		if value == nil {
			j.found(nil)
			continue
		}
		states, err := j.client.Get(ctx, key(seq)+statesKey)
		if err != nil {
			return fmt.Errorf("reading the states of entry %d of the journal from the storage: %w", seq, err)
		}
		r, err := decode(value, states)
		if err != nil {
			j.found(nil)
			j.setAside(ctx, seq, value, err)
			continue
		}
		e := &entry{seq: seq, states: slices.Clone(r.States)}
		r.dropDone(e)
		e.left = len(r.States)
		j.found(e)
		if e.left == 0 {
			j.writing.Lock()
			err := j.write(ctx, []*entry{e}, nil)
			j.writing.Unlock()
			if err != nil {
				return err
			}
			continue
		}
		if err := yield(r); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.trim()
	return nil
}

// found adds the entry of the next number, or nil. Shards may use the
// journal already.
func (j *Journal) found(e *entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.live = append(j.live, e)
}

// dropDone removes the spans that are done, and sets the tickets of the others.
func (r *Replayed) dropDone(e *entry) {
	i := -1
	for _, rs := range r.Traces.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			ss.Spans().RemoveIf(func(ptrace.Span) bool { i++; return r.States[i] == Done })
		}
	}
	for i, s := range e.states {
		if s != Done {
			r.Tickets = append(r.Tickets, Ticket{e, uint32(i)}) //nolint:gosec // an entry has fewer spans than that
		}
	}
	r.States = slices.DeleteFunc(r.States, func(s State) bool { return s == Done })
}

// setAside keeps an unreadable entry under another key, for an operator to inspect.
func (j *Journal) setAside(ctx context.Context, seq uint64, value []byte, why error) {
	j.logger.Warn("An entry of the journal is unreadable; it is kept in the storage under another key",
		zap.Uint64("entry", seq), zap.Int("bytes", len(value)), zap.String("key", asidePrefix+key(seq)), zap.Error(why))
	err := j.client.Batch(ctx, storage.SetOperation(asidePrefix+key(seq), value),
		storage.DeleteOperation(key(seq)), storage.DeleteOperation(key(seq)+statesKey))
	if err != nil {
		j.logger.Error("Failed to move an unreadable entry of the journal", zap.Uint64("entry", seq), zap.Error(err))
	}
}

// Append writes a call that arrived at this time with this metadata. The journal then
// keeps its spans until they are Done; tickets are those of the spans, by index.
func (j *Journal) Append(ctx context.Context, at time.Time, metadata map[string][]string, td ptrace.Traces) (tickets func(int) Ticket, err error) {
	e := &entry{states: make([]State, td.SpanCount())}
	e.left = len(e.states)
	value, err := encode(at, metadata, td)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	e.seq = j.next
	j.next++
	j.live = append(j.live, e)
	ops := []*storage.Operation{storage.SetOperation(key(e.seq), value)}
	claimed := j.claimed
	if j.next > claimed {
		claimed = j.next + ahead
		ops = append(ops, j.bounds(claimed))
	}
	if len(ops) > 1 { // under the lock: others must not write numbers that are not claimed yet
		err = j.client.Batch(ctx, ops...)
		if err == nil {
			j.claimed = claimed
		}
		j.mu.Unlock()
	} else {
		j.mu.Unlock()
		err = j.client.Set(ctx, ops[0].Key, value)
	}
	if err != nil {
		j.mu.Lock()
		j.remove(e)
		j.mu.Unlock()
		return nil, fmt.Errorf("writing spans to the storage: %w", err)
	}
	return func(index int) Ticket { return Ticket{e, uint32(index)} }, nil //nolint:gosec // see above
}

// bounds writes the numbers that may be live. It is called under the lock.
func (j *Journal) bounds(claimed uint64) *storage.Operation {
	value := binary.LittleEndian.AppendUint64(nil, j.first)
	return storage.SetOperation(boundsKey, binary.LittleEndian.AppendUint64(value, claimed))
}

// Update writes new states of spans, and what was judged with them, as [Judged.Append]
// encodes it: both or neither. After an error no span is lost: a crash would bring it
// again.
func (j *Journal) Update(ctx context.Context, spent, done []Ticket, judged []byte) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	var changed []*entry
	mark := func(tickets []Ticket, to State) {
		for _, t := range tickets {
			if t.entry == nil || t.entry.states[t.index] >= to {
				continue
			}
			t.entry.states[t.index] = to
			if to == Done {
				t.entry.left--
			}
			if !t.entry.dirty {
				t.entry.dirty = true
				changed = append(changed, t.entry)
			}
		}
	}
	mark(spent, Spent)
	mark(done, Done)
	for _, e := range changed {
		e.dirty = false
	}
	j.mu.Unlock()
	if len(changed)+len(judged) == 0 {
		return nil
	}
	return j.write(ctx, changed, judged)
}

// write writes the states of entries, deletes those that are done, and writes what
// was judged. It is called with writing held.
func (j *Journal) write(ctx context.Context, changed []*entry, judged []byte) error {
	before := j.judged
	j.mu.Lock()
	ops := make([]*storage.Operation, 0, 2*len(changed)+4)
	for _, e := range changed {
		if e.left > 0 {
			states := make([]byte, len(e.states))
			for i, s := range e.states {
				states[i] = byte(s)
			}
			ops = append(ops, storage.SetOperation(key(e.seq)+statesKey, states))
			continue
		}
		ops = append(ops, storage.DeleteOperation(key(e.seq)), storage.DeleteOperation(key(e.seq)+statesKey))
		j.remove(e)
	}
	j.mu.Unlock()
	if len(judged) > 0 || j.judged.pending {
		j.judged.pending = false
		ops = append(ops, j.judged.write(judged)...)
	}
	if err := j.client.Batch(ctx, ops...); err != nil {
		j.judged.failed(before, judged)
		return fmt.Errorf("writing the states of spans to the storage: %w", err)
	}
	return nil
}

// remove forgets an entry. It is called under the lock.
func (j *Journal) remove(e *entry) {
	if at := e.seq - j.first; at < uint64(len(j.live)) {
		j.live[at] = nil
	}
	j.trim()
}

// trim moves first on. It is called under the lock.
func (j *Journal) trim() {
	n := 0
	for n < len(j.live) && j.live[n] == nil {
		n++
	}
	j.first += uint64(n) //nolint:gosec // not negative
	j.live = j.live[n:]
}

// Close writes the bounds for the next start, and closes the storage client.
func (j *Journal) Close(ctx context.Context) error {
	j.mu.Lock()
	op := j.bounds(j.next)
	j.mu.Unlock()
	return errors.Join(j.client.Batch(ctx, op), j.client.Close(ctx))
}

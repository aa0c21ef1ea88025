// Package journal keeps the spans that the processor owns in a storage extension of the
// Collector, so that a crash loses none: each call is written before it is acknowledged,
// and deleted when all of its spans were forwarded and their runs judged.
package journal

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
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

// entry is the spans of one call. Journal.mu guards it.
type entry struct {
	seq    uint64
	pieces int           // the values in which it is stored, at least 1
	states []State       // by span
	left   int           // spans that are not Done
	dirty  []uint32      // the blocks of its states that are not written yet, in order
	place  *list.Element // in the list of live entries
	former bool          // an earlier version wrote states of it, see formerKey

	forgotten map[uint32]struct{} // spans that are Done once they are Spent
}

// The keys of a journal. An entry is immutable; the states of its spans are stored apart.
//
//	bounds          the first number that may be live, and one that is above all
//	<n>             entry n: header and spans; the first pieceSize bytes of them
//	<n>.<i>         likewise the next ones, if there are more
//	states.<n>      the states of its first blockSpans spans, one byte each; absent while
//	                these are all held
//	states.<n>.<i>  likewise those of its block i; only calls with more spans have these
//	owner           whose journal it is, see SetOwner
//	aside.<key>     what was stored under a key and was unreadable
//
// A change of a span writes its block, not the states of all spans of its call: what one
// call costs stays in proportion to its spans, whatever becomes of them in which order. A
// storage such as file_storage writes neighbours in the order of their keys together: states
// are no neighbours of entries, which are much larger. Earlier versions stored them under
// <n>.states and <n>.states.<i>, and each entry in one value.
//
// What was judged is stored under keys of its own, see judgedKey; earlier versions did not
// write it. All values are sealed. Earlier versions wrote bounds, states and the index of
// judged runs without a seal.
const (
	boundsKey    = "bounds"
	ownerKey     = "owner"
	statesPrefix = "states."
	formerSuffix = ".states"
	asidePrefix  = "aside."
)

// ahead is how many numbers are claimed at a time, so that the bounds need not be written
// with each entry.
const ahead = 1024

// blockSpans is how many spans have their states in one block.
const blockSpans = 1024

// blocks is how many blocks the states of so many spans have.
func blocks(spans int) uint32 {
	return uint32(max(1, (spans+blockSpans-1)/blockSpans)) //nolint:gosec // an entry has fewer spans than that
}

// blockOf is the part of states that is in a block.
func blockOf(states []State, block uint32) []State {
	from := int(block) * blockSpans
	return states[from:min(from+blockSpans, len(states))]
}

func blockKey(seq uint64, block uint32) string { return nth(statesPrefix+key(seq), block) }

// formerKey is blockKey of earlier versions.
func formerKey(seq uint64, block uint32) string { return nth(key(seq)+formerSuffix, block) }

func pieceKey[N int | uint64](seq uint64, piece N) string { return nth(key(seq), piece) }

// nth is the key of the nth of several values, from 0 on, of which the first has this key.
func nth[N int | uint32 | uint64](first string, n N) string {
	if n == 0 {
		return first
	}
	return first + "." + strconv.FormatUint(uint64(n), 10)
}

func key(seq uint64) string { return strconv.FormatUint(seq, 10) }

// Journal is safe for concurrent use.
type Journal struct {
	client storage.Client
	logger *zap.Logger

	found *found // at Open; nil if the storage cannot list what it has
	lost  bool   // at Open: there may be entries that are not found
	first uint64 // at Open: no entry of an earlier process has a lower number

	// writing is held while the states of spans are changed and written, so that older
	// states never overwrite newer ones, and none is written without what was judged.
	writing sync.Mutex
	judged  judgedLog // guarded by writing
	changed []*entry  // with states that are to be written; likewise

	// mu guards everything declared below
	mu      sync.Mutex
	next    uint64    // the number of the next entry
	claimed uint64    // no entry may have this number or a higher one before bounds is written
	closed  bool      // no entry is written any more
	unread  uint64    // Replay has yet to read the entries from this number on
	live    list.List // of *entry, by number
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
	var err error
	if j.found, err = find(ctx, client); err != nil {
		return nil, err
	}
	bounds, err := client.Get(ctx, boundsKey)
	if err != nil {
		return nil, fmt.Errorf("reading the journal's bounds from the storage: %w", err)
	}
	if bounds != nil {
		if j.first, j.claimed, err = readRange(boundsMagic, bounds); err != nil {
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

// boundsUnreadable sets the bounds aside, and chooses others.
func (j *Journal) boundsUnreadable(ctx context.Context, value []byte, why error) error {
	// Far above what a process could have written: nothing is overwritten.
	j.first = uint64(time.Now().UnixNano()) //nolint:gosec // after 1970
	j.claimed = j.first
	aside, err := j.setAside(ctx, single(boundsKey, value), storage.SetOperation(boundsKey, sealRange(boundsMagic, j.first, j.claimed)))
	if err != nil {
		return fmt.Errorf("setting the journal's unreadable bounds aside: %w", err)
	}
	message := "The bounds of the journal are unreadable; its entries are found without them"
	if j.lost = j.found == nil; j.lost {
		message = "The bounds of the journal are unreadable, and this storage cannot list what it has; the spans of an earlier process are not replayed"
	}
	j.logger.Warn(message, zap.Int("bytes", len(value)), zap.String("key", aside), zap.Error(why))
	return nil
}

// Replay calls yield with each call of an earlier process, in their order, until that
// returns an error. What is unreadable is set aside, and logged. Then lost is called, once: any
// run that began before now may lack parts. A record that MarksLost is written as well.
func (j *Journal) Replay(ctx context.Context, now time.Time, yield func(*Replayed) error, lost func()) error {
	numbers, left := j.found.numbers(j.first, j.next)
	lose := sync.OnceFunc(func() {
		j.lose(now)
		lost()
	})
	if j.lost || left > 0 {
		lose()
	}
	if left > 0 {
		j.logger.Warn("The journal spans more numbers than are looked for at a start; entries with the numbers between are not replayed",
			zap.Uint64("first", j.first), zap.Uint64("end", j.next), zap.Uint64("left_out", left))
	}
	for seq := range numbers {
		j.reads(seq)
		r, e, unreadable, err := j.read(ctx, seq)
		if err != nil {
			return err
		}
		if unreadable {
			lose()
		}
		if e == nil {
			continue
		}
		j.add(e)
		j.reads(seq + 1)
		if e.left == 0 {
			if err := j.drop(ctx, e); err != nil {
				return err
			}
			continue
		}
		if err := yield(r); err != nil {
			return err
		}
	}
	j.reads(math.MaxUint64)
	j.found = nil // it is not needed again
	return nil
}

// lose notes that spans are lost that arrived before now.
func (j *Journal) lose(now time.Time) {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.judged.lose(now)
}

// drop deletes an entry that is done.
func (j *Journal) drop(ctx context.Context, e *entry) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.changed = append(j.changed, e)
	return j.write(ctx, nil)
}

// reads notes from which number on entries have yet to be read.
func (j *Journal) reads(seq uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unread = seq
}

// read returns the entry with this number. It is nil if the entry is missing, or unreadable, as
// lost reports.
func (j *Journal) read(ctx context.Context, seq uint64) (r *Replayed, e *entry, lost bool, err error) {
	pieces, err := j.readPieces(ctx, seq)
	if err != nil {
		return nil, nil, false, fmt.Errorf("reading entry %d of the journal from the storage: %w", seq, err)
	}
	if len(pieces) == 0 {
		return nil, nil, false, nil
	}
	r, unreadable := decodePieces(seq, pieces)
	stored := j.statesOf(seq, r, pieces)
	if err := j.client.Batch(ctx, stored...); err != nil {
		return nil, nil, false, fmt.Errorf("reading the states of entry %d of the journal from the storage: %w", seq, err)
	}
	if unreadable != nil {
		j.entryUnreadable(ctx, seq, append(pieces, stored...), unreadable)
		return nil, nil, true, nil
	}
	n := len(stored) / 2
	e = &entry{seq: seq, pieces: len(pieces)}
	for i, op := range stored {
		if op.Value == nil {
			continue
		}
		e.former = e.former || i >= n
		block := blockOf(r.States, uint32(i%n)) //nolint:gosec // see blocks
		known, err := readStates(op.Value, len(block))
		if err != nil {
			j.statesUnreadable(ctx, seq, op, err)
		}
		for k, state := range known {
			block[k] = max(block[k], state)
		}
	}
	e.states = slices.Clone(r.States)
	r.dropDone(e)
	e.left = len(r.States)
	return r, e, false, nil
}

// manyPieces is how many pieces of an entry are read at a time.
const manyPieces = 64

// readPieces returns the values in which an entry is stored: none if it is missing.
func (j *Journal) readPieces(ctx context.Context, seq uint64) (pieces []*storage.Operation, err error) {
	if j.found != nil {
		pieces = append(pieces, storage.GetOperation(key(seq)))
		for _, n := range j.found.pieces[seq] {
			pieces = append(pieces, storage.GetOperation(pieceKey(seq, n)))
		}
		err = j.client.Batch(ctx, pieces...)
		return slices.DeleteFunc(pieces, func(op *storage.Operation) bool { return op.Value == nil }), err
	}
	for n := 2; ; n = manyPieces { // most entries have one
		some := make([]*storage.Operation, n)
		for i := range some {
			some[i] = storage.GetOperation(pieceKey(seq, len(pieces)+i))
		}
		if err := j.client.Batch(ctx, some...); err != nil {
			return nil, err
		}
		for _, op := range some {
			if op.Value == nil {
				return pieces, nil
			}
			pieces = append(pieces, op)
		}
	}
}

// decodePieces reads an entry. All its spans are held.
func decodePieces(seq uint64, pieces []*storage.Operation) (*Replayed, error) {
	values := make([][]byte, len(pieces))
	for i, op := range pieces {
		if op.Key != pieceKey(seq, i) {
			return nil, errMissing
		}
		values[i] = op.Value
	}
	return decode(joined(values))
}

// statesOf gets the states of an entry: by block, and then those under the keys of earlier
// versions. Of an unreadable one, without r, it gets what may be there.
func (j *Journal) statesOf(seq uint64, r *Replayed, pieces []*storage.Operation) (ops []*storage.Operation) {
	if r == nil && j.found != nil {
		for _, key := range j.found.states[seq] {
			ops = append(ops, storage.GetOperation(key))
		}
		return ops
	}
	spans := 0 // at most
	if r != nil {
		spans = len(r.States)
	} else {
		for _, op := range pieces {
			spans += len(op.Value) / minSpan
		}
	}
	for _, key := range []func(uint64, uint32) string{blockKey, formerKey} {
		for block := range blocks(spans) {
			ops = append(ops, storage.GetOperation(key(seq, block)))
		}
	}
	return ops
}

// Ownership is whose journal is in a storage.
type Ownership struct {
	Name       string // as [Journal.SetOwner] wrote it; empty if it never did
	Unreadable error  // of the name
	Used       bool   // there is a journal
}

// ReadOwner reads whose journal is in a storage. It does not change anything.
func ReadOwner(ctx context.Context, client storage.Client) (o Ownership, err error) {
	owner, bounds := storage.GetOperation(ownerKey), storage.GetOperation(boundsKey)
	if err := client.Batch(ctx, owner, bounds); err != nil {
		return o, fmt.Errorf("reading from the storage whose journal it has: %w", err)
	}
	o.Used = owner.Value != nil || bounds.Value != nil
	if owner.Value != nil {
		var name []byte
		name, o.Unreadable = unseal(ownerMagic, owner.Value)
		o.Name = string(name)
	}
	return o, nil
}

// SetOwner writes whose journal it is. An unreadable name is set aside.
func (j *Journal) SetOwner(ctx context.Context, owner string) error {
	before, err := j.client.Get(ctx, ownerKey)
	if err == nil && before != nil {
		if _, unreadable := unseal(ownerMagic, before); unreadable != nil {
			_, err = j.setAside(ctx, single(ownerKey, before))
		}
	}
	if err == nil {
		err = j.client.Set(ctx, ownerKey, seal(ownerMagic, []byte(owner)))
	}
	if err != nil {
		return fmt.Errorf("writing to the storage whose journal it has: %w", err)
	}
	return nil
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

// setAside moves unreadable values to other keys, for an operator to inspect, and does more in
// the same write. It returns the new key of the first one.
func (j *Journal) setAside(ctx context.Context, values []*storage.Operation, more ...*storage.Operation) (aside string, err error) {
	before := make([]*storage.Operation, len(values))
	for i, op := range values {
		before[i] = storage.GetOperation(asidePrefix + op.Key)
	}
	if err := j.client.Batch(ctx, before...); err != nil {
		return "", err
	}
	suffix := ""
	for i, op := range values {
		if old := before[i].Value; old != nil && !bytes.Equal(old, op.Value) { // that one stays
			suffix = fmt.Sprintf(".%08x", crc32.Checksum(op.Value, castagnoli))
		}
	}
	var ops []*storage.Operation
	for _, op := range values {
		ops = append(ops, storage.SetOperation(asidePrefix+op.Key+suffix, op.Value), storage.DeleteOperation(op.Key))
	}
	return asidePrefix + values[0].Key + suffix, j.client.Batch(ctx, append(ops, more...)...)
}

// single is one value for setAside.
func single(key string, value []byte) []*storage.Operation {
	return []*storage.Operation{storage.SetOperation(key, value)}
}

func (j *Journal) entryUnreadable(ctx context.Context, seq uint64, stored []*storage.Operation, why error) {
	stored = slices.DeleteFunc(stored, func(op *storage.Operation) bool { return op.Value == nil })
	size := 0
	for _, op := range stored {
		size += len(op.Value)
	}
	aside, err := j.setAside(ctx, stored)
	if err != nil {
		j.logger.Error("Failed to move an unreadable entry of the journal", zap.Uint64("entry", seq), zap.Error(err))
		return
	}
	j.logger.Warn("An entry of the journal is unreadable; it is kept in the storage under another key",
		zap.Uint64("entry", seq), zap.Int("bytes", size), zap.String("key", aside), zap.Error(why))
}

func (j *Journal) statesUnreadable(ctx context.Context, seq uint64, block *storage.Operation, why error) {
	aside, err := j.setAside(ctx, []*storage.Operation{block})
	if err != nil {
		j.logger.Error("Failed to move unreadable states of the journal", zap.Uint64("entry", seq), zap.Error(err))
		return
	}
	j.logger.Warn("States of the spans of an entry of the journal are unreadable; those of these spans that were forwarded are forwarded again",
		zap.Uint64("entry", seq), zap.Int("bytes", len(block.Value)), zap.String("key", aside), zap.Error(why))
}

var errClosed = errors.New("the journal is closed")

// Append writes a call that arrived at this time with this metadata. The journal then
// keeps its spans until they are Done; tickets are those of the spans, by index.
func (j *Journal) Append(ctx context.Context, at time.Time, metadata map[string][]string, td ptrace.Traces) (tickets func(int) Ticket, err error) {
	e := &entry{states: make([]State, td.SpanCount())}
	e.left = len(e.states)
	pieces, err := encode(at, metadata, td)
	if err != nil {
		return nil, err
	}
	e.pieces = len(pieces)
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
	return func(index int) Ticket { return Ticket{e, uint32(index)} }, nil //nolint:gosec // see above
}

// bounds writes the numbers that may be live. It is called under the lock.
func (j *Journal) bounds(claimed uint64) *storage.Operation {
	first := min(j.unread, j.next)
	if e := j.oldest(); e != nil {
		first = min(first, e.seq)
	}
	return storage.SetOperation(boundsKey, sealRange(boundsMagic, first, claimed))
}

// Update writes new states of spans, and what was judged with them, as [Judged.Append]
// encodes it: both or neither. After an error no span is lost: the next update writes it
// again, and a crash before that would bring it again.
func (j *Journal) Update(ctx context.Context, spent, done []Ticket, judged []byte) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	news := len(judged) > 0
	mark := func(tickets []Ticket, to State) {
		for _, t := range tickets {
			if t.entry == nil || t.entry.states[t.index] >= to {
				continue
			}
			news = true
			state := to
			if _, forgotten := t.entry.forgotten[t.index]; forgotten {
				state = Done
			}
			t.entry.states[t.index] = state
			if state == Done {
				t.entry.left--
			}
			if len(t.entry.dirty) == 0 {
				j.changed = append(j.changed, t.entry)
			}
			block := t.index / blockSpans
			if at, known := slices.BinarySearch(t.entry.dirty, block); !known {
				t.entry.dirty = slices.Insert(t.entry.dirty, at, block)
			}
		}
	}
	j.mu.Lock()
	mark(spent, Spent)
	mark(done, Done)
	j.mu.Unlock()
	if !news {
		return nil
	}
	return j.write(ctx, judged)
}

// Forget lets spans be Done once they are Spent. It returns those that are: Update lets them
// be Done.
func (j *Journal) Forget(tickets []Ticket) (spent []Ticket) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, t := range tickets {
		switch {
		case t.entry == nil:
		case t.entry.states[t.index] != Held:
			spent = append(spent, t)
		default:
			if t.entry.forgotten == nil {
				t.entry.forgotten = make(map[uint32]struct{})
			}
			t.entry.forgotten[t.index] = struct{}{}
		}
	}
	return spent
}

// write writes the states of the entries that changed, deletes those that are done, and
// writes what was judged. It is called with writing held. What it cannot write stays for
// the next time.
func (j *Journal) write(ctx context.Context, judged []byte) error {
	before := j.judged
	j.mu.Lock()
	ops := make([]*storage.Operation, 0, 2*len(j.changed)+4)
	for _, e := range j.changed {
		if e.left > 0 {
			for _, block := range e.dirty {
				ops = append(ops, storage.SetOperation(blockKey(e.seq, block), sealStates(blockOf(e.states, block))))
			}
			continue
		}
		for piece := e.pieces - 1; piece >= 0; piece-- {
			ops = append(ops, storage.DeleteOperation(pieceKey(e.seq, piece)))
		}
		for block := range blocks(len(e.states)) {
			ops = append(ops, storage.DeleteOperation(blockKey(e.seq, block)))
			if e.former {
				ops = append(ops, storage.DeleteOperation(formerKey(e.seq, block)))
			}
		}
	}
	j.mu.Unlock()
	if len(judged) > 0 || j.judged.pending { // first, in case that the storage writes a part alone
		ops = append(j.judged.write(judged), ops...)
	}
	if err := j.client.Batch(ctx, ops...); err != nil {
		j.judged.failed(before, judged)
		return fmt.Errorf("writing the states of spans to the storage: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.changed {
		e.dirty = e.dirty[:0]
		if e.left == 0 {
			j.remove(e)
		}
	}
	j.changed = nil
	return nil
}

// add adds an entry that was read. Shards may use the journal already.
func (j *Journal) add(e *entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.push(e)
}

// push adds an entry, with the highest number so far, to the list. It is called under the
// lock.
func (j *Journal) push(e *entry) { e.place = j.live.PushBack(e) }

// oldest is the entry with the lowest number, nil if no entry is live. It is called under
// the lock.
func (j *Journal) oldest() *entry {
	if first := j.live.Front(); first != nil {
		return first.Value.(*entry)
	}
	return nil
}

// remove removes an entry from the list. It is called under the lock.
func (j *Journal) remove(e *entry) { j.live.Remove(e.place) }

// Close writes the bounds for the next start, and what could not be written before, and
// closes the storage client.
func (j *Journal) Close(ctx context.Context) error {
	j.writing.Lock()
	var err error
	if len(j.changed) > 0 || j.judged.pending {
		err = j.write(ctx, nil)
	}
	j.writing.Unlock()
	j.mu.Lock()
	op := j.bounds(j.next)
	j.closed = true
	j.mu.Unlock()
	return errors.Join(err, j.client.Batch(ctx, op), j.client.Close(ctx))
}

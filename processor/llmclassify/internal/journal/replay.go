package journal

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"
)

// Replayed is one call of an earlier process.
type Replayed struct {
	At       time.Time
	Metadata map[string][]string
	Traces   ptrace.Traces
	Tickets  func(int) Ticket // of the spans, by index
	Sent     func(int) bool   // whether a span, by index, was forwarded; its run was not judged
}

// Replay calls yield with each call of an earlier process, in their order, until yield returns an error. Unreadable entries
// are set aside, and logged.
func (j *Journal) Replay(ctx context.Context, yield func(*Replayed) error) error {
	numbers, left := j.found.numbers(j.first, j.next)
	if left > 0 {
		j.logger.Warn("The journal spans more numbers than are looked for at a start; entries with the numbers between are not replayed",
			zap.Uint64("first", j.first), zap.Uint64("end", j.next), zap.Uint64("left_out", left))
	}
	for seq := range numbers {
		j.reads(seq)
		r, e, err := j.read(ctx, seq)
		if err != nil {
			return err
		}
		if e == nil {
			continue
		}
		j.mu.Lock()
		j.push(e)
		j.mu.Unlock()
		j.reads(seq + 1)
		if err := yield(r); err != nil {
			return err
		}
	}
	j.allRead()
	return nil
}

// read returns the entry with this number, nil if it is missing or unreadable.
func (j *Journal) read(ctx context.Context, seq uint64) (*Replayed, *entry, error) {
	pieces, err := j.readPieces(ctx, seq)
	if err != nil {
		return nil, nil, fmt.Errorf("reading entry %d of the journal from the storage: %w", seq, err)
	}
	if len(pieces) == 0 {
		return nil, nil, nil
	}
	r, unreadable := decodePieces(seq, pieces)
	if unreadable != nil {
		j.entryUnreadable(ctx, seq, pieces, unreadable)
		return nil, nil, nil
	}
	e := newEntry(r.Traces.SpanCount(), len(pieces))
	e.seq = seq
	if err := j.readStates(ctx, e); err != nil {
		return nil, nil, err
	}
	r.dropDone(e)
	return r, e, nil
}

// manyPieces is how many pieces of an entry are read at a time.
const manyPieces = 64

// readPieces returns the stored values of an entry: none if it is missing.
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

// decodePieces reads an entry.
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

// boundsUnreadable sets the bounds aside, and chooses others.
func (j *Journal) boundsUnreadable(ctx context.Context, value []byte, why error) error {
	// Far above the numbers of any process: nothing is overwritten.
	j.first = uint64(time.Now().UnixNano()) //nolint:gosec // after 1970
	j.claimed = j.first
	bounds := []*storage.Operation{storage.SetOperation(boundsKey, value)}
	aside, err := j.setAside(ctx, bounds, storage.SetOperation(boundsKey, sealRange(j.first, j.claimed)))
	if err != nil {
		return fmt.Errorf("setting the journal's unreadable bounds aside: %w", err)
	}
	message := "The bounds of the journal are unreadable; its entries are found without them"
	if j.found == nil {
		message = "The bounds of the journal are unreadable, and this storage cannot list what it has; the spans of an earlier process are not replayed"
	}
	j.logger.Warn(message, zap.Int("bytes", len(value)), zap.String("key", aside), zap.Error(why))
	return nil
}

// entryUnreadable sets an entry aside.
func (j *Journal) entryUnreadable(ctx context.Context, seq uint64, stored []*storage.Operation, why error) {
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

// setAside moves unreadable values to other keys, for an operator to inspect, and adds more operations to the same write.
// It returns the new key of the first value.
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
		if old := before[i].Value; old != nil && !bytes.Equal(old, op.Value) { // the old value stays
			suffix = fmt.Sprintf(".%08x", crc32.Checksum(op.Value, castagnoli))
		}
	}
	var ops []*storage.Operation
	for _, op := range values {
		ops = append(ops, storage.SetOperation(asidePrefix+op.Key+suffix, op.Value), storage.DeleteOperation(op.Key))
	}
	return asidePrefix + values[0].Key + suffix, j.client.Batch(ctx, append(ops, more...)...)
}

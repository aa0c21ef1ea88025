package journal

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"
)

// state is the progress of a span. A span is done when it is both sent and free.
type state uint8

const (
	sent state = 1 << iota // it was forwarded
	free                   // its run was judged, or its facts were forgotten
	done = sent | free
)

// blockSpans is the number of spans with their states in one value. A change writes a block, not the states of all spans of
// a call, so that the cost of a call stays in proportion to its spans.
const blockSpans = 1024

// statesPrefix keeps states away from entries: a storage such as file_storage writes neighbours together.
const statesPrefix = "states."

func blockKey(seq uint64, block int) string {
	return statesPrefix + key(seq) + "." + strconv.Itoa(block)
}

// blocks is the number of blocks of the entry's states.
func (e *entry) blocks() int { return (len(e.states) + blockSpans - 1) / blockSpans }

func (e *entry) block(n int) []state {
	return e.states[n*blockSpans : min((n+1)*blockSpans, len(e.states))]
}

// set adds to the state of a span. It reports whether that changed.
func (e *entry) set(index uint32, to state) bool {
	s := &e.states[index]
	if *s|to == *s {
		return false
	}
	if *s |= to; *s == done {
		e.left--
	}
	if n := int(index) / blockSpans; !slices.Contains(e.dirty, n) {
		e.dirty = append(e.dirty, n)
	}
	return true
}

// operations writes the changed states, or deletes the entry if all of its spans are done.
func (e *entry) operations() (ops []*storage.Operation) {
	if e.left > 0 {
		for _, n := range e.dirty {
			ops = append(ops, storage.SetOperation(blockKey(e.seq, n), sealStates(e.block(n))))
		}
		e.stored = true // a storage may have written despite its error
		return ops
	}
	for piece := e.pieces - 1; piece >= 0; piece-- {
		ops = append(ops, storage.DeleteOperation(pieceKey(e.seq, piece)))
	}
	if e.stored {
		for n := range e.blocks() {
			ops = append(ops, storage.DeleteOperation(blockKey(e.seq, n)))
		}
	}
	return ops
}

func sealStates(states []state) []byte {
	value := make([]byte, sealSize, sealSize+len(states))
	copy(value, statesMagic)
	for _, s := range states {
		value = append(value, byte(s))
	}
	return sealed(value)
}

// readStates reads the states of an entry. Spans with unreadable states are replayed again.
func (j *Journal) readStates(ctx context.Context, e *entry) error {
	ops := make([]*storage.Operation, e.blocks())
	for n := range ops {
		ops[n] = storage.GetOperation(blockKey(e.seq, n))
	}
	if err := j.client.Batch(ctx, ops...); err != nil {
		return fmt.Errorf("reading the states of entry %d of the journal from the storage: %w", e.seq, err)
	}
	for n, op := range ops {
		if op.Value == nil {
			continue
		}
		e.stored = true
		block := e.block(n)
		content, err := unseal(statesMagic, op.Value)
		if err == nil && len(content) != len(block) {
			err = errNotOurs
		}
		if err != nil {
			if err := j.statesUnreadable(ctx, e, op, err); err != nil {
				return err
			}
			continue
		}
		for i, s := range content {
			if block[i] = state(s) & done; block[i] == done {
				e.left--
			}
		}
	}
	return nil
}

// statesUnreadable sets states aside.
func (j *Journal) statesUnreadable(ctx context.Context, e *entry, stored *storage.Operation, why error) error {
	aside, err := j.setAside(ctx, []*storage.Operation{storage.SetOperation(stored.Key, stored.Value)})
	if err != nil {
		return fmt.Errorf("moving unreadable states of entry %d of the journal: %w", e.seq, err)
	}
	j.logger.Warn("States of an entry of the journal are unreadable, and are kept in the storage under another key; its spans may go out again",
		zap.Uint64("entry", e.seq), zap.String("key", aside), zap.Error(why))
	return nil
}

// dropDone removes the done spans from a replayed call.
func (r *Replayed) dropDone(e *entry) {
	var left []int
	at := -1
	for _, rs := range r.Traces.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			ss.Spans().RemoveIf(func(ptrace.Span) bool {
				if at++; e.states[at] != done {
					left = append(left, at)
				}
				return e.states[at] == done
			})
		}
	}
	r.Tickets = func(i int) Ticket { return e.ticket(left[i]) }
	r.Sent = func(i int) bool { return e.states[left[i]]&sent != 0 }
}

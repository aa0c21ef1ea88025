package journal

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/extension/xextension/storage"
)

// found is the numbers of the stored entries, in order.
type found struct {
	entries []uint64            // also incomplete ones
	pieces  map[uint64][]uint64 // of entries, except for the first piece
}

// find lists the stored entries, if the storage's client can list its keys, as file_storage's can. Then an entry is found
// even if everything else is unreadable.
func find(ctx context.Context, client storage.Client) (*found, error) {
	walker, ok := client.(storage.Walker)
	if !ok {
		return nil, nil
	}
	f := found{pieces: make(map[uint64][]uint64)}
	err := walker.Walk(ctx, func(key string, _ []byte) ([]*storage.Operation, error) {
		f.add(key)
		return nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the content of the storage: %w", err)
	}
	slices.Sort(f.entries)
	f.entries = slices.Compact(f.entries)
	for _, pieces := range f.pieces {
		slices.Sort(pieces)
	}
	return &f, nil
}

func (f *found) add(key string) {
	seq, nth, ok := numbered(key)
	if !ok {
		return
	}
	f.entries = append(f.entries, seq)
	if nth > 0 {
		f.pieces[seq] = append(f.pieces[seq], nth)
	}
}

// numbered reads a key that pieceKey made.
func numbered(name string) (seq, n uint64, ok bool) {
	name, part, several := strings.Cut(name, ".")
	if seq, ok = number(name); !ok || !several {
		return seq, 0, ok
	}
	n, ok = number(part)
	return seq, n, ok && n > 0
}

// number reads a number as the journal writes it.
func number(name string) (uint64, bool) {
	seq, err := strconv.ParseUint(name, 10, 64)
	return seq, err == nil && seq < endNumber && key(seq) == name
}

// maxScan bounds how many numbers are tried at a start in a storage that cannot list its keys: half of them from the first
// on, and half of them before the last. There are more only if a run stays open while millions of calls arrive.
const maxScan = 1 << 22

// numbers returns the numbers of entries that may be in the storage, in order, and how many numbers of the range were left
// out.
func (f *found) numbers(first, end uint64) (numbers iter.Seq[uint64], left uint64) {
	if f != nil {
		return slices.Values(f.entries), 0
	}
	gap := end // the left out numbers begin here
	if end-first > maxScan {
		gap, left = first+maxScan/2, end-first-maxScan
	}
	return func(yield func(uint64) bool) {
		for seq := first; seq < end; seq++ {
			if seq == gap {
				seq += left
			}
			if !yield(seq) {
				return
			}
		}
	}, left
}

// begin is the lowest number of an entry, or first without a list.
func (f *found) begin(first uint64) uint64 {
	if f == nil || len(f.entries) == 0 {
		return first
	}
	return f.entries[0]
}

// above is a number above all entries, and no lower than next.
func (f *found) above(next uint64) uint64 {
	if f == nil || len(f.entries) == 0 {
		return next
	}
	return max(next, f.entries[len(f.entries)-1]+1)
}

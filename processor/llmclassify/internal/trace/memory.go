package trace

import (
	"time"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/generations"
)

// memory is a set of hashes in two generations.
type memory struct {
	generations.Of[hashes]
	limit int // of one generation
}

func newMemory(now time.Time, period time.Duration, limit int) memory {
	return memory{generations.Of[hashes]{Period: period, Began: now}, limit}
}

// add adds a key. It reports whether marks were forgotten to make room.
func (m *memory) add(key uint64) (lost bool) {
	if m.Now.n >= m.limit {
		lost = m.Turn().marks
	}
	m.Now.add(key)
	return lost
}

// mark is add for a key that must not be missed.
func (m *memory) mark(key uint64) (lost bool) {
	lost = m.add(key)
	m.Now.marks = true
	return lost
}

func (m *memory) contains(key uint64) bool {
	return m.Now.contains(key) || m.Previous.contains(key)
}

func (m *memory) empty() bool { return m.Now.n+m.Previous.n == 0 }

// hashes is a set of uniformly distributed hashes: a table with open addressing and linear probing, at most three quarters
// full. Its zero value is empty.
type hashes struct {
	slots []uint64 // their number is a power of two; 0 is a free slot
	n     int
	marks bool // some are of memory.mark
}

// minHashes is the number of slots of the smallest table.
const minHashes = 64

// home returns the slot at which the search for a hash begins. 0 is stored as 1.
func (h *hashes) home(key uint64) (uint64, int) {
	if key == 0 {
		key = 1
	}
	return key, int(key & uint64(len(h.slots)-1)) //nolint:gosec // less than the length
}

func (h *hashes) add(key uint64) {
	if 4*(h.n+1) > 3*len(h.slots) {
		h.grow()
	}
	key, i := h.home(key)
	for h.slots[i] != 0 {
		if h.slots[i] == key {
			return
		}
		i = (i + 1) & (len(h.slots) - 1)
	}
	h.slots[i] = key
	h.n++
}

func (h *hashes) grow() {
	before := h.slots
	h.slots, h.n = make([]uint64, max(2*len(before), minHashes)), 0
	for _, key := range before {
		if key != 0 {
			h.add(key)
		}
	}
}

// find returns the slot of a hash, -1 if it is not in the set.
func (h *hashes) find(key uint64) int {
	if h.n == 0 {
		return -1
	}
	key, i := h.home(key)
	for h.slots[i] != 0 {
		if h.slots[i] == key {
			return i
		}
		i = (i + 1) & (len(h.slots) - 1)
	}
	return -1
}

// remove removes a hash, and closes the gap.
func (h *hashes) remove(key uint64) {
	free := h.find(key)
	if free < 0 {
		return
	}
	h.n--
	mask := len(h.slots) - 1
	for i := (free + 1) & mask; h.slots[i] != 0; i = (i + 1) & mask {
		if _, home := h.home(h.slots[i]); (i-home)&mask >= (i-free)&mask {
			h.slots[free] = h.slots[i]
			free = i
		}
	}
	h.slots[free] = 0
}

func (h *hashes) contains(key uint64) bool { return h.find(key) >= 0 }

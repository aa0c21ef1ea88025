package generations

import (
	"iter"
	"time"
)

// Cache is a map that forgets old entries. Get renews an entry as if it had been added again, Peek does not. It is not safe
// for concurrent use.
type Cache[K comparable, V any] struct {
	// SizeOf returns the size of an entry, which counts toward the limit; nil: every entry has size 1.
	SizeOf func(V) int
	// Forgot is called with each forgotten entry. May be nil.
	Forgot func(K, V)

	limit int // of one generation
	kept  Of[entries[K, V]]
}

// entries are one generation of a [Cache].
type entries[K comparable, V any] struct {
	byKey map[K]V
	size  int
}

// NewCache makes a cache with generations of this period, 0 for no bound in time, and of at most this size each.
func NewCache[K comparable, V any](period time.Duration, limit int) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, kept: Of[entries[K, V]]{Period: period}}
}

// Get returns an entry, and renews it.
func (c *Cache[K, V]) Get(now time.Time, key K) (V, bool) {
	c.Rotate(now)
	if value, ok := c.kept.Now.byKey[key]; ok {
		return value, true
	}
	value, ok := c.kept.Previous.byKey[key]
	if ok {
		c.kept.Previous.remove(key, c.sizeOf(value))
		c.add(key, value)
	}
	return value, ok
}

// Peek returns an entry.
func (c *Cache[K, V]) Peek(key K) (V, bool) {
	if value, ok := c.kept.Now.byKey[key]; ok {
		return value, true
	}
	value, ok := c.kept.Previous.byKey[key]
	return value, ok
}

// Put adds an entry in place of one with the same key. It returns false for an entry that is larger than the limit.
func (c *Cache[K, V]) Put(now time.Time, key K, value V) bool {
	c.Take(key)
	return c.Add(now, key, value)
}

// add adds an entry with a new key.
func (c *Cache[K, V]) add(key K, value V) bool {
	size := c.sizeOf(value)
	if c.kept.Now.size+size > c.limit {
		c.forget(c.kept.Turn())
	}
	if size > c.limit {
		return false
	}
	c.kept.Now.put(key, value, size)
	return true
}

// Add is Put for an entry with a new key.
func (c *Cache[K, V]) Add(now time.Time, key K, value V) bool {
	c.Rotate(now)
	return c.add(key, value)
}

// Take removes an entry and returns it.
func (c *Cache[K, V]) Take(key K) (value V, ok bool) {
	for _, e := range [...]*entries[K, V]{&c.kept.Now, &c.kept.Previous} {
		if value, ok = e.byKey[key]; ok {
			e.remove(key, c.sizeOf(value))
			return value, true
		}
	}
	return value, false
}

// All yields all entries, in no order.
func (c *Cache[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, e := range [...]*entries[K, V]{&c.kept.Now, &c.kept.Previous} {
			for key, value := range e.byKey {
				if !yield(key, value) {
					return
				}
			}
		}
	}
}

// SetLimit changes the limit of one generation. If there is more, the older half is forgotten at the next addition.
func (c *Cache[K, V]) SetLimit(limit int) { c.limit = limit }

// Len is the number of entries.
func (c *Cache[K, V]) Len() int { return len(c.kept.Now.byKey) + len(c.kept.Previous.byKey) }

// Size is the sum of the entries' sizes.
func (c *Cache[K, V]) Size() int { return c.kept.Now.size + c.kept.Previous.size }

// Rotate forgets entries that are old enough. The methods that take a time call it, too.
func (c *Cache[K, V]) Rotate(now time.Time) {
	if forgotten, turned := c.kept.Rotate(now); turned {
		c.forget(forgotten)
	}
}

func (c *Cache[K, V]) forget(e entries[K, V]) {
	for key, value := range e.byKey {
		if c.Forgot != nil {
			c.Forgot(key, value)
		}
	}
}

func (c *Cache[K, V]) sizeOf(value V) int {
	if c.SizeOf == nil {
		return 1
	}
	return c.SizeOf(value)
}

func (e *entries[K, V]) put(key K, value V, size int) {
	if e.byKey == nil {
		e.byKey = make(map[K]V)
	}
	e.byKey[key] = value
	e.size += size
}

func (e *entries[K, V]) remove(key K, size int) {
	delete(e.byKey, key)
	e.size -= size
}

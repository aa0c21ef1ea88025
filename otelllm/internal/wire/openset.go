package wire

import "slices"

// openSet holds what has begun and not ended, by key, at most maxOpen entries. Mostly
// there are one or two, and the search is linear. Beyond maxLinear there is an index, so
// that a hostile stream that begins thousands costs no more per event.
type openSet[K comparable, V any] struct {
	list []keyed[K, V]
	at   map[K]int // the index in list of the newest entry of a key; nil up to maxLinear entries
}

type keyed[K comparable, V any] struct {
	key   K
	value V
}

// maxLinear is the number of entries up to which the search is linear.
const maxLinear = 16

// find returns the newest entry of this key, or nil. It is valid until the next change.
func (k *openSet[K, V]) find(key K) *V {
	i := k.place(key)
	if i < 0 {
		return nil
	}
	return &k.list[i].value
}

func (k *openSet[K, V]) place(key K) int {
	if k.at != nil {
		if i, ok := k.at[key]; ok {
			return i
		}
		return -1
	}
	for i, v := range slices.Backward(k.list) {
		if v.key == key {
			return i
		}
	}
	return -1
}

// add adds an entry and returns it as [openSet.find] does; nil if there are too many.
func (k *openSet[K, V]) add(key K, value V) *V {
	n := len(k.list)
	if n == maxOpen {
		return nil
	}
	k.list = append(k.list, keyed[K, V]{key, value})
	switch {
	case k.at != nil:
		k.at[key] = n
	case n == maxLinear:
		k.at = make(map[K]int, 4*maxLinear)
		for i := range k.list {
			k.at[k.list[i].key] = i
		}
	}
	return &k.list[n].value
}

// remove removes the newest entry of this key.
func (k *openSet[K, V]) remove(key K) {
	if i := k.place(key); i >= 0 {
		k.removeAt(i)
	}
}

func (k *openSet[K, V]) removeAt(i int) {
	last := len(k.list) - 1
	if k.at == nil {
		k.list = append(k.list[:i], k.list[i+1:]...) // the newest entry of a key stays the newest
		return
	}
	if key := k.list[i].key; k.at[key] == i {
		delete(k.at, key)
	}
	if moved := k.list[last]; i != last {
		if k.list[i] = moved; k.at[moved.key] == last {
			k.at[moved.key] = i
		}
	}
	k.list = k.list[:last]
}

// removeAll removes the entries for which remove returns true. It is called once for
// each entry.
func (k *openSet[K, V]) removeAll(remove func(key K, value *V) bool) {
	for i := 0; i < len(k.list); {
		if remove(k.list[i].key, &k.list[i].value) {
			k.removeAt(i)
		} else {
			i++
		}
	}
}

// clear removes all entries.
func (k *openSet[K, V]) clear() { k.list, k.at = k.list[:0], nil }

// cleared returns k without entries. It keeps the memory unless that is large.
func (k *openSet[K, V]) cleared() openSet[K, V] { return openSet[K, V]{list: cleared(k.list)} }

// cleared returns list without its elements, for another response. It keeps the memory
// unless that is more than nearly all responses need.
func cleared[T any](list []T) []T {
	const most = 16
	if cap(list) > most {
		return nil
	}
	clear(list[:cap(list)])
	return list[:0]
}

// maxOpen bounds how many calls and choices a decoder remembers that have begun and not
// ended. No real answer comes near it; beyond it they are counted but not matched.
const maxOpen = 1024

package wire

import "slices"

// known is what has begun and not ended, by its key, at most maxOpen of it. Mostly it
// is one or two, and looked for one by one; beyond a few they are found by an index, so
// that what a hostile stream begins by the thousand costs no more than the rest of it.
type openSet[K comparable, V any] struct {
	list []keyed[K, V]
	at   map[K]int // the place in list of what came last under a key; nil: they are few
}

type keyed[K comparable, V any] struct {
	key   K
	value V
}

// fewKnown is how many are looked for one by one.
const maxLinear = 16

// find is what came last under this key, or nil. It is valid until the
// next change.
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

// add adds a value and returns it as [known.find] does; nil where there are too many.
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

// remove removes what came last under this key.
func (k *openSet[K, V]) remove(key K) {
	if i := k.place(key); i >= 0 {
		k.removeAt(i)
	}
}

func (k *openSet[K, V]) removeAt(i int) {
	last := len(k.list) - 1
	if k.at == nil {
		k.list = append(k.list[:i], k.list[i+1:]...) // what came last under a key stays the last
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

// removeAll removes those of which remove says so, which is asked about each once.
func (k *openSet[K, V]) removeAll(remove func(key K, value *V) bool) {
	for i := 0; i < len(k.list); {
		if remove(k.list[i].key, &k.list[i].value) {
			k.removeAt(i)
		} else {
			i++
		}
	}
}

// clear removes all of them.
func (k *openSet[K, V]) clear() { k.list, k.at = k.list[:0], nil }

// emptied is k without anything in it, with its memory unless that is much.
func (k *openSet[K, V]) cleared() openSet[K, V] { return openSet[K, V]{list: cleared(k.list)} }

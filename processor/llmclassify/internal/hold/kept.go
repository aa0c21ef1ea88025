package hold

import "time"

// ItemSize is the memory of an item and its place in the lists in bytes, without
// its span.
const ItemSize = 256

// Forgotten counts items that were forgotten before their run was judged.
type Forgotten struct {
	Memory  int // because of Config.MaxFactBytes
	Timeout int // because of Config.RunTimeout
}

// Forgotten returns what was forgotten since it was last asked.
func (b *Buffer[F]) Forgotten() Forgotten {
	f := b.forgotten
	b.forgotten = Forgotten{}
	return f
}

// expire forgets what waited for its run for too long.
func (b *Buffer[F]) expire(now time.Time) {
	for it := b.kept.front(); it != nil && !it.arrived.Add(b.cfg.RunTimeout).After(now); it = b.kept.front() {
		b.forget(it)
		b.forgotten.Timeout++
	}
}

// trim forgets what has waited longest, down to the bound.
func (b *Buffer[F]) trim() {
	for b.factBytes > b.cfg.MaxFactBytes {
		it := b.kept.front()
		if it == nil {
			return
		}
		b.forget(it)
		b.forgotten.Memory++
	}
}

func (b *Buffer[F]) forget(it *Item[F]) {
	t := it.trace
	b.drop(it)
	if t.live < len(t.items)/2 {
		t.compact()
	}
	if t.live == 0 {
		b.schedule(t)
	}
}

// drop forgets an item and uncounts what was kept of it.
func (b *Buffer[F]) drop(it *Item[F]) {
	if b.kept.remove(it) {
		b.factBytes -= it.factSize
	}
	it.trace.drop(it)
}

// keptList is the items whose spans have gone, the one that went first in front.
// It goes by the order of leaving; as spans leave in about the order in which
// they came, the front is about the oldest.
type keptList[F any] struct{ head, tail *Item[F] }

func (l *keptList[F]) front() *Item[F] { return l.head }

func (l *keptList[F]) push(it *Item[F]) {
	it.prev = l.tail
	if l.tail != nil {
		l.tail.next = it
	} else {
		l.head = it
	}
	l.tail = it
}

// remove reports whether the item was there.
func (l *keptList[F]) remove(it *Item[F]) bool {
	if it.prev == nil && l.head != it {
		return false
	}
	if it.prev != nil {
		it.prev.next = it.next
	} else {
		l.head = it.next
	}
	if it.next != nil {
		it.next.prev = it.prev
	} else {
		l.tail = it.prev
	}
	it.prev, it.next = nil, nil
	return true
}

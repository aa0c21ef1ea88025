package trace

// ItemSize is the memory of an item and its place in the lists in bytes, without its span.
const ItemSize = 272

// TraceSize is the memory of a trace with held spans in bytes, beside its items. The caller of Add counts it in their
// sizes.
const TraceSize = 384

// Forgotten returns how many items were forgotten for Config.MaxFactBytes, before their run was judged, since the last
// call.
func (b *Buffer) Forgotten() int {
	n := b.forgotten
	b.forgotten = 0
	return n
}

// Trim forgets the items that have waited longest, down to Config.MaxFactBytes. The caller calls it when Config.Shared has
// grown.
func (b *Buffer) Trim() {
	for b.FactBytes() > b.cfg.MaxFactBytes {
		it := b.kept.front()
		if it == nil {
			return
		}
		t := it.trace
		b.forgot(t)
		b.drop(it)
		b.forget(it)
		if t.live < len(t.items)/2 {
			t.compact()
		}
		if t.live == 0 {
			b.schedule(t)
		}
	}
}

// forgot notes that facts of a trace are forgotten.
func (b *Buffer) forgot(t *Trace) {
	if !t.doubt.Has(Forgotten) {
		t.doubt |= Forgotten
		b.judged.Forgot(t.id)
	}
}

func (b *Buffer) forget(it *Item) {
	it.state = stateGone
	b.forgotten++
	if b.cfg.Forget != nil {
		b.cfg.Forget(it)
	}
}

// guessedFacts is the assumed memory of unread facts, in bytes.
const guessedFacts = 512

// read reads the facts of a span, once.
func (b *Buffer) read(it *Item) {
	if it.factSize == 0 {
		it.factSize = int32(ItemSize + b.cfg.Read(it)) //nolint:gosec // facts are bounded
	}
}

// SetFacts sets the memory of the facts of an item that was released early, in bytes, once they are read. Until then it is
// guessedFacts.
func (b *Buffer) SetFacts(it *Item, bytes int) {
	size := ItemSize + bytes
	if it.state == stateKept {
		b.factBytes += size - int(it.factSize)
	}
	it.factSize = int32(size) //nolint:gosec // facts are bounded
}

// keep counts the facts of a span that is released early. The owner of its release reads them.
func (b *Buffer) keep(it *Item) {
	if it.factSize == 0 {
		it.factSize = int32(ItemSize + guessedFacts) //nolint:gosec // it is small
	}
	b.kept.push(it)
	b.factBytes += int(it.factSize)
	t := it.trace
	if expires := it.arrived + age(b.cfg.RunTimeout); t.kept == 0 || expires < t.expires {
		t.expires = expires
	}
	t.kept++
}

// drop removes an item, with its facts.
func (b *Buffer) drop(it *Item) {
	if b.kept.remove(it) {
		b.factBytes -= int(it.factSize)
		it.trace.kept--
	}
	it.trace.drop(it)
}

// keptList is the items with released spans, the first one released in front.
type keptList struct{ head, tail *Item }

func (l *keptList) front() *Item { return l.head }

func (l *keptList) push(it *Item) {
	it.prev = l.tail
	if l.tail != nil {
		l.tail.next = it
	} else {
		l.head = it
	}
	l.tail = it
}

// remove reports whether the item was in the list.
func (l *keptList) remove(it *Item) bool {
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

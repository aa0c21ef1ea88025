package hold

import (
	"container/heap"
	"slices"
)

// deadlines is a heap of traces by the time at which something in them is due.
type deadlines[F any] struct{ heap traceHeap[F] }

// set adds t, or moves it to where its deadline belongs.
func (d *deadlines[F]) set(t *Trace[F]) {
	if t.index < 0 {
		heap.Push(&d.heap, t)
		return
	}
	heap.Fix(&d.heap, t.index)
}

func (d *deadlines[F]) remove(t *Trace[F]) {
	if t.index >= 0 {
		heap.Remove(&d.heap, t.index)
	}
}

func (d *deadlines[F]) first() (age, bool) {
	if len(d.heap) == 0 {
		return 0, false
	}
	return d.heap[0].deadline, true
}

// pop takes out the first trace that is due, nil when none is.
func (d *deadlines[F]) pop(now age) *Trace[F] {
	if first, ok := d.first(); !ok || first > now {
		return nil
	}
	return d.popFirst()
}

// popFirst takes out the first trace, due or not, or nil.
func (d *deadlines[F]) popFirst() *Trace[F] {
	if len(d.heap) == 0 {
		return nil
	}
	return heap.Pop(&d.heap).(*Trace[F])
}

type traceHeap[F any] []*Trace[F]

func (h traceHeap[F]) Len() int           { return len(h) }
func (h traceHeap[F]) Less(i, j int) bool { return h[i].deadline < h[j].deadline }

func (h traceHeap[F]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *traceHeap[F]) Push(x any) {
	t := x.(*Trace[F])
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *traceHeap[F]) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil // for the garbage collector
	*h = (*h)[:last]
	t.index = -1
	return t
}

// deleteFunc is [slices.DeleteFunc] that frees a list when it is empty.
func deleteFunc[E any](list []E, del func(E) bool) []E {
	if list = slices.DeleteFunc(list, del); len(list) == 0 {
		return nil
	}
	return list
}

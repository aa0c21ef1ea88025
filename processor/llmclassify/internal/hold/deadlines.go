package hold

import (
	"container/heap"
	"slices"
)

// deadlines is a heap of traces by the time at which something in them is due.
type deadlines[F any] struct{ heap traceHeap[F] }

// set adds t, or moves it to where its deadline belongs. It removes t from any other heap.
func (d *deadlines[F]) set(t *Trace[F]) {
	if t.due == d {
		heap.Fix(&d.heap, t.index)
		return
	}
	t.removeDue()
	t.due = d
	heap.Push(&d.heap, t)
}

// removeDue removes t from the heap that it is in.
func (t *Trace[F]) removeDue() {
	if t.due != nil {
		heap.Remove(&t.due.heap, t.index)
	}
}

func (d *deadlines[F]) first() (age, bool) {
	if len(d.heap) == 0 {
		return 0, false
	}
	return d.heap[0].deadline, true
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
	t.due = nil
	return t
}

// deleteFunc is [slices.DeleteFunc] that frees a list when it is empty.
func deleteFunc[E any](list []E, del func(E) bool) []E {
	if list = slices.DeleteFunc(list, del); len(list) == 0 {
		return nil
	}
	return list
}

package trace

import (
	"container/heap"
	"slices"
)

// deadlines is a heap of traces by their next deadline.
type deadlines struct{ heap traceHeap }

// set adds t, or moves it to its place. It removes t from any other heap.
func (d *deadlines) set(t *Trace) {
	if t.due == d {
		heap.Fix(&d.heap, t.index)
		return
	}
	t.removeDue()
	t.due = d
	heap.Push(&d.heap, t)
}

// removeDue removes t from its heap.
func (t *Trace) removeDue() {
	if t.due != nil {
		heap.Remove(&t.due.heap, t.index)
	}
}

func (d *deadlines) first() (age, bool) {
	if len(d.heap) == 0 {
		return 0, false
	}
	return d.heap[0].deadline, true
}

// popFirst removes and returns the first trace, due or not; nil if the heap is empty.
func (d *deadlines) popFirst() *Trace {
	if len(d.heap) == 0 {
		return nil
	}
	return heap.Pop(&d.heap).(*Trace)
}

type traceHeap []*Trace

func (h traceHeap) Len() int           { return len(h) }
func (h traceHeap) Less(i, j int) bool { return h[i].deadline < h[j].deadline }

func (h traceHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *traceHeap) Push(x any) {
	t := x.(*Trace)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *traceHeap) Pop() any {
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

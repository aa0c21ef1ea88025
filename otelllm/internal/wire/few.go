package wire

// few is a list that mostly has one element, for which it needs no memory of its own.
type few[T any] struct {
	first T
	more  []T
	n     int
}

// add appends an element.
func (f *few[T]) add(v T) {
	if f.n == 0 {
		f.first = v
	} else {
		f.more = append(f.more, v)
	}
	f.n++
}

// at is the element at i, which is less than n.
func (f *few[T]) at(i int) *T {
	if i == 0 {
		return &f.first
	}
	return &f.more[i-1]
}

// emptied is list without its elements, for another response; without its memory too
// where that is more than nearly all responses need.
func emptied[T any](list []T) []T {
	const most = 16
	if cap(list) > most {
		return nil
	}
	clear(list[:cap(list)])
	return list[:0]
}

// cut drops the elements from n on.
func (f *few[T]) cut(n int) {
	f.n = n
	f.more = f.more[:max(n-1, 0)]
}

package wire

// few is a list that mostly has one element, for which it needs no allocation.
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

// at returns element i, which must be less than n.
func (f *few[T]) at(i int) *T {
	if i == 0 {
		return &f.first
	}
	return &f.more[i-1]
}

package dialect

// Lists is memory for the lists of facts that are not kept: they are valid until
// [Lists.Reset]. A nil *Lists allocates each list on its own.
type Lists struct{ room []string }

// The bounds of the memory that Lists keep, in strings.
const (
	minLists = 64
	maxLists = 1 << 12
)

// take makes an empty list, not nil, with a capacity of n.
func (l *Lists) take(n int) []string {
	if l == nil {
		return make([]string, 0, n)
	}
	from := len(l.room)
	if l.room == nil || cap(l.room)-from < n { // earlier lists keep the old memory
		l.room, from = make([]string, 0, max(2*cap(l.room), n, minLists)), 0
	}
	l.room = l.room[:from+n]
	return l.room[from : from : from+n]
}

// Reset frees all lists.
func (l *Lists) Reset() {
	if cap(l.room) > maxLists {
		l.room = nil
	}
	clear(l.room)
	l.room = l.room[:0]
}

package dialect

// Lists is memory for the lists of facts that are not kept: those that were made in
// it are good until [Lists.Reset]. Nil makes each list for itself.
type Lists struct{ room []string }

// The bounds of the memory that Lists keep, in strings.
const (
	minLists = 64
	maxLists = 1 << 12
)

// take makes an empty list, not nil, that has room for n.
func (l *Lists) take(n int) []string {
	if l == nil {
		return make([]string, 0, n)
	}
	from := len(l.room)
	if l.room == nil || cap(l.room)-from < n { // the lists before it stay where they are
		l.room, from = make([]string, 0, max(2*cap(l.room), n, minLists)), 0
	}
	l.room = l.room[:from+n]
	return l.room[from : from : from+n]
}

// Reset lets go of what was read.
func (l *Lists) Reset() {
	if cap(l.room) > maxLists {
		l.room = nil
	}
	clear(l.room)
	l.room = l.room[:0]
}

package wire

// document collects the bytes of one JSON object until it closes, so that a body
// is read at its last byte, whether or not its reader goes on to the EOF.
type document struct {
	buf      []byte
	depth    int // of open objects and arrays
	inString bool
	escaped  bool // the last byte was a backslash within a string
	closed   bool
}

type documentStatus uint8

const (
	documentOpen documentStatus = iota
	documentComplete
	documentTooLong
)

// write takes the next bytes. It answers documentComplete once; what follows the
// document is ignored.
func (d *document) write(p []byte) documentStatus {
	if d.closed {
		return documentOpen
	}
	n := d.scan(p)
	if len(d.buf)+n > MaxEvent {
		d.buf, d.closed = nil, true
		return documentTooLong
	}
	d.buf = append(d.buf, p[:n]...)
	if d.closed {
		return documentComplete
	}
	return documentOpen
}

// scan is how many bytes of p belong to the document. It counts brackets and
// nothing more: whether the document is well-formed is the cursor's business.
func (d *document) scan(p []byte) int {
	for i := 0; i < len(p); i++ {
		if d.inString {
			if d.escaped {
				d.escaped = false
				continue
			}
			if i = plainEnd(p, i); i == len(p) {
				break
			}
			switch p[i] {
			case '"':
				d.inString = false
			case '\\':
				d.escaped = true
			}
			continue
		}
		switch p[i] {
		case '"':
			d.inString = true
		case '{', '[':
			d.depth++
		case '}', ']':
			if d.depth--; d.depth <= 0 {
				d.closed = true
				return i + 1
			}
		}
	}
	return len(p)
}

func (d *document) bytes() []byte { return d.buf }

// reset begins another document, in the same memory unless that is much.
func (d *document) reset() {
	buf := d.buf[:0]
	if cap(buf) > keepDocument {
		buf = nil
	}
	*d = document{buf: buf}
}

// keepDocument is the capacity up to which a buffer outlives its document.
const keepDocument = 4 << 10

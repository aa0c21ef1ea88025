package wire

import "github.com/otelllm/otelllm-go/otelllm/internal/carry"

// document collects the bytes of one JSON object until it closes, so that a body is
// decoded at its last byte, whether or not the client reads on to the EOF.
type document struct {
	buf      []byte
	depth    int // of open objects and arrays
	inString bool
	escaped  bool // the last byte was a backslash inside a string
	closed   bool
	dropped  dropReason // why its bytes are not kept
}

// dropReason is why an event or a document is not decoded.
type dropReason uint8

const (
	notDropped      dropReason = iota
	droppedTooLong             // it is longer than MaxEvent
	droppedNoMemory            // all streams together hold too much
)

// write reads the next bytes, as far as they belong to the document, and returns their
// number. The document is complete once closed is set; its content is bytes, unless it
// was dropped.
func (d *document) write(p []byte) int {
	if d.closed {
		return 0
	}
	n := d.scan(p)
	d.keep(p[:n])
	return n
}

// keep adds p to the bytes that are kept, if there is room.
func (d *document) keep(p []byte) {
	switch {
	case d.dropped != notDropped:
	case len(d.buf)+len(p) > MaxEvent:
		d.discard(droppedTooLong)
	default:
		buf, ok := carry.Append(d.buf, p)
		if d.buf = buf; !ok {
			d.discard(droppedNoMemory)
		}
	}
}

func (d *document) discard(why dropReason) {
	d.drop()
	d.dropped = why
}

// scan returns how many bytes of p belong to the document. It only counts brackets:
// whether the document is well-formed is found by the cursor.
func (d *document) scan(p []byte) int {
	for i := 0; i < len(p); i++ {
		if d.inString {
			if d.escaped {
				d.escaped = false
				continue
			}
			if i = plainEnd(p, i); i == len(p) {
				return i
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

// reset begins another document. It keeps the memory unless that is large.
func (d *document) reset() {
	*d = document{buf: carry.Reset(d.buf)}
}

// drop releases the bytes.
func (d *document) drop() {
	if d != nil {
		carry.Drop(d.buf)
		d.buf = nil
	}
}

const byteOrderMark = "\xEF\xBB\xBF"

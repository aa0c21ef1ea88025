package wire

import (
	"bytes"

	"github.com/otelllm/otelllm-go/semconv"
)

// listPlace is the position of a decoder in a JSON array of objects.
type listPlace uint8

const (
	listBegins listPlace = iota // the next byte is the bracket
	listEmpty                   // an object or the end is expected
	listAfter                   // a comma or the end is expected
	listComma                   // an object is expected
	listBare                    // an object is expected, and there is no array around it
	listWithin                  // an object has begun
	listEnded
)

// writeList reads the next bytes of an array or a sequence of objects, each of which is
// an event. The end of the array is the terminal event of the stream, as [DONE] is
// elsewhere. If it is not an array of objects, the objects in it are still read.
func (d *bodyDecoder) writeList(p []byte) {
	for d.mode == listed {
		if d.list != listWithin {
			if p = bytes.TrimLeft(p, " \t\r\n"); len(p) == 0 {
				return
			}
			if p[0] != '{' || d.list == listAfter {
				if d.between(p[0]) {
					p = p[1:]
				}
				continue
			}
			d.list = listWithin
			d.doc.reset()
		}
		if len(p) == 0 {
			return
		}
		p = d.writeItem(p)
	}
	d.after(p)
}

// between handles a byte between the objects. It reports whether the byte is consumed:
// it may also be the beginning of an object that was not expected.
func (d *bodyDecoder) between(b byte) bool {
	switch {
	case b == '[' && d.list == listBegins:
		d.list = listEmpty
	case b == ',' && d.list == listAfter:
		d.list = listComma
	case b == ']' && (d.list == listEmpty || d.list == listAfter):
		d.list = listEnded
		d.reader.done()
		d.end()
	default:
		d.violate(semconv.TransportCauseMalformedEvent)
		d.list, d.bare = listBare, true
		return b != '{'
	}
	return true
}

// writeItem reads the next bytes of an object and returns what follows the object. An
// object that lies wholly in p is not copied.
func (d *bodyDecoder) writeItem(p []byte) []byte {
	n := d.doc.scan(p)
	item := p[:n]
	if len(d.doc.buf) > 0 || !d.doc.closed || n > MaxEvent {
		was := d.doc.dropped
		d.doc.keep(item)
		if d.doc.dropped != was {
			d.eventDropped(d.doc.dropped)
		}
		item = d.doc.buf
	}
	if d.doc.closed {
		if d.list = listAfter; d.bare {
			d.list = listBare
		}
		if d.doc.dropped == notDropped {
			d.payload(nil, item, false)
		}
	}
	return p[n:]
}

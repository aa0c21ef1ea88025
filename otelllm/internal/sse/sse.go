// Package sse frames a stream of server-sent events that arrives in chunks cut
// anywhere. It follows the event stream interpretation of the HTML standard, but
// for three things that an observer needs: comments are reported, an event with
// a name and no data is dispatched, and so is, flagged, an event that the end of
// the stream cuts.
package sse

import (
	"bytes"

	"github.com/otelllm/otelllm-go/otelllm/internal/carry"
)

// Event is one event. Its slices are valid only during the call that delivers it.
type Event struct {
	Name []byte // the event field; empty when there was none
	Data []byte // the data lines, joined by \n
	// Unterminated: the stream ended before the blank line that dispatches an event,
	// so that its last line may be cut short.
	Unterminated bool
}

// Sink takes what a [Decoder] finds, in the order of the stream.
type Sink interface {
	Event(ev Event)
	// Comment is called once a comment line.
	Comment()
	// Stray is called for a line that begins with '{', which no field does: an error
	// that a server wrote without framing it. Such an object may be indented: the
	// lines that follow, up to a blank line or a line of the stream's own, come in
	// further calls. line is valid only during the call.
	Stray(line []byte, first bool)
	// TooLong says that an event went beyond the limit. It is the last call.
	TooLong()
	// Take is for a sink that knows events by their bytes: one that came before in
	// nearly the same bytes need not be taken apart again. Others return 0. It looks at the bytes of the stream from the beginning of an event on, as far as
	// the Write goes. If p begins with an event that it knows, an event line or none,
	// one data line and a blank line, it takes the event as [Sink].Event would have
	// been given it, and returns how long it is, with the end of the blank line (of
	// which a \r may not be the last byte that came); else 0.
	Take(p []byte) int
}

// Decoder splits bytes into events. An event that lies wholly inside one Write
// is delivered without being copied. A Decoder must not be copied after its
// first use and is not safe for concurrent use.
type Decoder struct {
	sink  Sink
	limit int

	line []byte // the line that the last Write left unfinished

	// name and data are the pending event. They point into the chunk being written
	// or into the carried line until keep copies them to buffers of their own,
	// which it does before either memory changes.
	name, data         []byte
	nameBuf, dataBuf   []byte
	nameHeld, dataHeld bool // it lives in the buffer of its own
	hasData            bool
	pending            bool // some field of the pending event came

	stray   bool // the last line was a stray one
	afterCR bool // the last byte was \r: a \n that follows belongs to it
	stopped bool
	bom     int8 // how many bytes of a byte order mark have matched; -1: the start is past
}

const bom = "\xEF\xBB\xBF"

// New makes a decoder. limit bounds an event, in bytes: its name, its data and the
// raw line that is being read. It must be positive.
func New(sink Sink, limit int) *Decoder {
	d := &Decoder{}
	d.Init(sink, limit)
	return d
}

// Init makes d as [New] makes one, for a decoder that is part of something else.
func (d *Decoder) Init(sink Sink, limit int) {
	d.sink, d.limit = sink, limit
}

// Limit sets another limit, which holds from the next line on.
func (d *Decoder) Limit(n int) { d.limit = n }

// Write consumes the next bytes of the stream. It does not retain p.
func (d *Decoder) Write(p []byte) {
	if d.stopped || len(p) == 0 {
		return
	}
	if d.bom >= 0 {
		if p = d.skipBOM(p); len(p) == 0 {
			return
		}
	}
	if d.afterCR {
		d.afterCR = false
		if p[0] == '\n' {
			p = p[1:]
		}
	}
	d.lines(p)
	if !d.stopped {
		d.keep()
	}
}

// lines takes the complete lines of p and carries the rest.
func (d *Decoder) lines(p []byte) {
	nextLF := -1 // the place of the next \n, looked for again only when passed
	for at := 0; at < len(p); {
		if !d.pending && len(d.line) == 0 {
			if at = d.plain(p, at); d.stopped || at == len(p) {
				return
			}
		}
		if nextLF < at {
			nextLF = at + index(p[at:], '\n')
		}
		end := at + index(p[at:nextLF], '\r')
		if end == len(p) {
			d.carry(p[at:])
			return
		}
		line := p[at:end]
		if len(d.line) > 0 {
			if !d.carry(line) {
				return
			}
			line = d.line
		}
		if p[end] == '\r' {
			if end+1 == len(p) {
				d.afterCR = true
			} else if p[end+1] == '\n' {
				end++
			}
		}
		at = end + 1

		d.take(line)
		if d.stopped {
			return
		}
		if d.line = d.line[:0]; !d.pending { // else its memory stays as it is until the next carry
			d.line = carry.Reset(d.line)
		}
	}
}

// plain delivers the events from at on that have the shape nearly all have: an
// event line or none, one data line, a blank line, all ended by \n, and those that the
// sink takes. It returns the place of the first line that it leaves to the general way.
func (d *Decoder) plain(p []byte, at int) int {
	for !d.stopped {
		if n := d.sink.Take(p[at:min(len(p), at+d.limit)]); n > 0 {
			d.stray = false
			at += n
			continue
		}
		var ev Event
		i := at
		if hasPrefix(p, i, "event: ") {
			n := bytes.IndexByte(p[i:], '\n')
			if n < 0 || n > d.limit {
				return at
			}
			ev.Name = p[i+len("event: ") : i+n]
			i += n + 1
		}
		if !hasPrefix(p, i, "data: ") {
			return at
		}
		n := bytes.IndexByte(p[i:], '\n')
		if n < 0 || n+len(ev.Name) > d.limit || i+n+1 == len(p) || p[i+n+1] != '\n' {
			return at
		}
		if bytes.IndexByte(p[at:i+n], '\r') >= 0 {
			return at // which ends a line too
		}
		ev.Data = p[i+len("data: ") : i+n]
		d.stray = false
		d.sink.Event(ev)
		at = i + n + 2
	}
	return at
}

func hasPrefix(p []byte, at int, prefix string) bool {
	return len(p)-at >= len(prefix) && string(p[at:at+len(prefix)]) == prefix
}

// index is the place of c in p, len(p) when there is none.
func index(p []byte, c byte) int {
	if i := bytes.IndexByte(p, c); i >= 0 {
		return i
	}
	return len(p)
}

// Close ends the stream: what is pending is dispatched as unterminated.
func (d *Decoder) Close() {
	if d.stopped {
		return
	}
	if d.bom > 0 {
		d.line = append(d.line, bom[:d.bom]...)
	}
	d.bom = -1
	if len(d.line) > 0 {
		d.take(d.line)
	}
	if !d.stopped && d.pending {
		d.dispatch(true)
	}
	d.stop()
}

// take reads one line, without its end.
func (d *Decoder) take(line []byte) {
	if len(line) == 0 {
		d.stray = false
		if d.pending {
			d.dispatch(false)
		}
		return
	}
	if len(line)+len(d.name)+len(d.data) > d.limit {
		d.tooLong()
		return
	}
	if d.stray {
		switch line[0] {
		case ' ', '\t', '}', ']', '"':
			d.sink.Stray(line, false)
			return
		}
		d.stray = false
	}
	switch line[0] {
	case ':':
		d.sink.Comment()
	case 'd':
		if v, ok := field(line, "data"); ok {
			d.addData(v)
		}
	case 'e':
		if v, ok := field(line, "event"); ok {
			d.name, d.nameHeld, d.pending = v, false, true
		}
	case '{':
		d.stray = true
		d.sink.Stray(line, true)
	}
}

// field is the value of a line that holds the named field. A line without a
// colon is a field with an empty value; one space after the colon is not part of it.
func field(line []byte, name string) ([]byte, bool) {
	if len(line) < len(name) || string(line[:len(name)]) != name {
		return nil, false
	}
	v := line[len(name):]
	if len(v) == 0 {
		return v, true
	}
	if v[0] != ':' {
		return nil, false
	}
	if len(v) > 1 && v[1] == ' ' {
		return v[2:], true
	}
	return v[1:], true
}

func (d *Decoder) addData(v []byte) {
	d.pending = true
	if !d.hasData {
		d.data, d.hasData, d.dataHeld = v, true, false
		return
	}
	d.holdData()
	d.dataBuf = append(d.dataBuf, '\n')
	d.dataBuf = carry.Append(d.dataBuf, v)
	d.data = d.dataBuf
}

// dispatch delivers the pending event. By the standard one with a name alone is
// dropped; it is delivered here, because it shows that the stream is alive.
func (d *Decoder) dispatch(unterminated bool) {
	d.sink.Event(Event{Name: d.name, Data: d.data, Unterminated: unterminated})
	d.name, d.data, d.hasData, d.pending, d.nameHeld, d.dataHeld = nil, nil, false, false, false, false
	d.nameBuf, d.dataBuf, d.line = carry.Reset(d.nameBuf), carry.Reset(d.dataBuf), carry.Reset(d.line)
}

// carry keeps b as the continuation of the unfinished line. It reports whether
// the event is still within its limit.
func (d *Decoder) carry(b []byte) bool {
	if len(d.line)+len(b)+len(d.name)+len(d.data) > d.limit {
		d.tooLong()
		return false
	}
	if len(d.line) == 0 {
		// The pending event may point into the memory that the last carried line had.
		d.keep()
		d.line = carry.Reset(d.line)
	}
	d.line = carry.Append(d.line, b)
	return true
}

// keep copies the pending event out of memory that is about to change.
func (d *Decoder) keep() {
	if !d.pending {
		return
	}
	if !d.nameHeld {
		d.nameBuf = append(d.nameBuf[:0], d.name...)
		d.name, d.nameHeld = d.nameBuf, true
	}
	d.holdData()
}

// holdData makes data live in dataBuf.
func (d *Decoder) holdData() {
	if !d.dataHeld {
		d.dataBuf = carry.Append(d.dataBuf[:0], d.data)
		d.data, d.dataHeld = d.dataBuf, true
	}
}

func (d *Decoder) tooLong() {
	d.stop()
	d.sink.TooLong()
}

// stop ends the decoding and lets go of all memory.
func (d *Decoder) stop() {
	d.stopped, d.pending, d.hasData = true, false, false
	d.line, d.name, d.data, d.nameBuf, d.dataBuf = nil, nil, nil, nil, nil
}

// Stop ends the decoding: what comes later is ignored. A sink may call it.
func (d *Decoder) Stop() { d.stop() }

// skipBOM drops a byte order mark at the start of the stream, which may come in
// pieces, and returns what follows it.
func (d *Decoder) skipBOM(p []byte) []byte {
	for len(p) > 0 && int(d.bom) < len(bom) && p[0] == bom[d.bom] {
		d.bom++
		p = p[1:]
	}
	switch {
	case int(d.bom) == len(bom):
		d.bom = -1
	case len(p) > 0:
		// Not a mark after all: what looked like one is the beginning of a line.
		d.line = append(d.line, bom[:d.bom]...)
		d.bom = -1
	}
	return p
}

// Package sse splits a stream of server-sent events, which may arrive in chunks of any
// size, into events. It follows the event stream interpretation of the HTML standard.
// It differs where an observer would otherwise miss what some reader of the stream
// receives:
//
//   - Comments are reported, and an event with a name and no data is dispatched.
//   - An event that the end of the stream cuts is dispatched with a flag: readers that
//     work line by line have received its data.
//   - An indented field is a field: some readers trim lines.
//   - A data line that cannot continue the JSON of the line before it begins a new
//     event: some servers end events with one line end, and readers that work line by
//     line accept that.
//   - An event that is too long is dropped, and the events after it are read.
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

// Sink receives what a [Decoder] finds, in the order of the stream.
type Sink interface {
	Event(ev Event)
	// Comment is called for each comment line.
	Comment()
	// Stray is called for a line that begins with '{', as no field does: an error that a
	// server wrote without framing, or in a field of its own, error (llama.cpp). Such an
	// object may span lines: the lines that follow, up to a blank line or a field, are
	// passed in further calls, in which first is false. line is valid only during the call.
	Stray(line []byte, first bool)
	// Dropped reports that an event, or an object as in Stray, is not delivered: it is
	// longer than the limit or, if tooLong is false, all streams together hold too much.
	Dropped(tooLong bool)
	// Take lets a sink consume an event that it recognises by its bytes, before it is
	// split into fields. p is the rest of what was written, from the beginning of an
	// event on. If p begins with such an event (at most one event line, one data line
	// and a blank line), Take handles it as Event would and returns its length, the
	// blank line included; else it returns 0. The \r of a blank line must not be the
	// last byte of p: the \n that belongs to it may follow. A sink that recognises no
	// events returns 0.
	Take(p []byte) int
}

// Decoder splits bytes into events. An event that lies wholly inside one Write
// is delivered without being copied. A Decoder must not be copied after its
// first use and is not safe for concurrent use.
type Decoder struct {
	sink  Sink
	limit int

	line []byte // the unfinished line of the last Write

	// name and data are the pending event. They point into the chunk being written or
	// into the carried line until keep copies them into nameBuf and dataBuf, which it
	// does before that memory changes.
	name, data         []byte
	nameBuf, dataBuf   []byte
	nameHeld, dataHeld bool // name is in nameBuf, data in dataBuf
	hasData            bool
	pending            bool // at least one field of the pending event was read
	// later is an event line that followed data: the name of the pending event, or of one
	// that begins without a blank line before it.
	later    []byte
	hasLater bool

	skipping bool // the pending event was dropped: everything is ignored up to its blank line
	cut      bool // the beginning of the current line was dropped
	stray    bool // the last line was a stray one
	hasField bool // a line was a field
	foreign  bool // a line before the first field was neither a comment nor an object
	afterCR  bool // the last byte was \r: a \n that follows belongs to the same line end
	stopped  bool
	bom      int8 // number of bytes of a byte order mark that have matched; -1 after the start of the stream
}

const bom = "\xEF\xBB\xBF"

// New returns a decoder. limit bounds an event, in bytes: its name, its data and the
// raw current line. It must be positive.
func New(sink Sink, limit int) *Decoder {
	d := &Decoder{}
	d.Init(sink, limit)
	return d
}

// Init initializes d as [New] does, for a decoder that is embedded in another struct.
func (d *Decoder) Init(sink Sink, limit int) {
	d.sink, d.limit = sink, limit
}

// Limit changes the limit, beginning with the next line.
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

// lines reads the complete lines of p and carries the rest.
func (d *Decoder) lines(p []byte) {
	nextLF := -1 // offset of the next \n; it is searched for again only once it has been passed
	for at := 0; at < len(p); {
		if !d.pending && len(d.line) == 0 && !d.cut && !d.skipping {
			after := d.plain(p, at)
			if after > at {
				d.stray, d.hasField = false, true
			}
			if at = after; d.stopped || at == len(p) {
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
		if p[end] == '\r' {
			if end+1 == len(p) {
				d.afterCR = true
			} else if p[end+1] == '\n' {
				end++
			}
		}
		at = end + 1

		if len(d.line) > 0 {
			d.carry(line)
			line = d.line
		}
		if d.cut {
			d.cut = false
			continue
		}
		d.take(line)
		if d.stopped {
			return
		}
		if d.line = d.line[:0]; !d.pending { // else the pending event may point into it, until the next carry
			d.line = carry.Reset(d.line)
		}
	}
}

// plain delivers the events at offset at that have the form of nearly all events (at
// most one event line, one data line and a blank line, all ended by \n), and those that
// the sink takes. It returns the offset of the first line that it leaves to the caller.
func (d *Decoder) plain(p []byte, at int) int {
	for !d.stopped {
		if n := d.sink.Take(p[at:min(len(p), at+d.limit)]); n > 0 {
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
			return at // a \r also ends a line
		}
		ev.Data = p[i+len("data: ") : i+n]
		d.sink.Event(ev)
		at = i + n + 2
	}
	return at
}

func hasPrefix(p []byte, at int, prefix string) bool {
	return len(p)-at >= len(prefix) && string(p[at:at+len(prefix)]) == prefix
}

// index is the offset of c in p, or len(p).
func index(p []byte, c byte) int {
	if i := bytes.IndexByte(p, c); i >= 0 {
		return i
	}
	return len(p)
}

// Close ends the stream: the pending event is dispatched as unterminated.
func (d *Decoder) Close() {
	if d.stopped {
		return
	}
	if len(d.line) > 0 && !d.cut {
		d.take(d.line)
	}
	if !d.stopped && d.pending {
		d.dispatch(true)
	}
	d.stop()
}

// take reads one line, given without its end.
func (d *Decoder) take(line []byte) {
	if len(line) == 0 {
		d.stray, d.skipping = false, false
		if d.pending {
			d.dispatch(false)
		}
		return
	}
	if d.skipping {
		return
	}
	if len(line)+d.size() > d.limit {
		d.tooLong(line[0])
		return
	}
	if line[0] == ' ' || line[0] == '\t' {
		if trimmed := bytes.TrimLeft(line, " \t"); hasPrefix(trimmed, 0, "data:") || hasPrefix(trimmed, 0, "event:") {
			line = trimmed
		}
	}
	if d.stray {
		switch line[0] {
		case ' ', '\t', '}', ']', '"':
			d.sink.Stray(line, false)
			return
		}
		d.stray = false
	}
	if !d.hasField {
		is, may := fieldName(line)
		d.hasField = is
		d.foreign = d.foreign || !may && line[0] != '{'
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
			d.addName(v)
		} else if v, ok = field(line, "error"); ok && len(v) > 0 && v[0] == '{' {
			d.stray = true
			d.sink.Stray(v, true)
		}
	case '{':
		d.stray = true
		d.sink.Stray(line, true)
	}
}

// fields are the fields of an event stream, and the one in which llama.cpp reports an error.
var fields = [...]string{"data", "event", "id", "retry", "error"}

// fieldName reports whether a line is a field, and whether it may be one, a comment, or the
// beginning of a field that was cut within its name.
func fieldName(line []byte) (is, may bool) {
	name, _, colon := bytes.Cut(bytes.TrimLeft(line, " \t"), []byte{':'})
	for _, field := range fields {
		if len(name) <= len(field) && string(name) == field[:len(name)] {
			return colon && len(name) == len(field), true
		}
	}
	return false, false
}

// Foreign reports whether the body begins with a line that is neither a field nor a comment nor
// an object. Readers of event streams ignore such a line. The body is something else, such as a
// text, or compressed data that nothing announced.
func (d *Decoder) Foreign() bool { return d.foreign }

// size is the length of the pending event.
func (d *Decoder) size() int { return len(d.name) + len(d.later) + len(d.data) }

// field returns the value of a line that holds the named field. A line without a colon
// is a field with an empty value; one space after the colon is not part of the value.
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

func (d *Decoder) addName(v []byte) {
	d.pending = true
	if !d.hasData {
		d.name, d.nameHeld = v, false
		return
	}
	if later, ok := carry.Append(d.later[:0], v); ok {
		d.later, d.hasLater = later, true
	} else {
		d.drop(false)
	}
}

func (d *Decoder) addData(v []byte) {
	if d.hasData && !continues(d.data, v) {
		d.split()
		if d.stopped {
			return
		}
	}
	d.pending = true
	if !d.hasData {
		d.data, d.hasData, d.dataHeld = v, true, false
		return
	}
	ok := d.holdData()
	if ok {
		d.dataBuf, ok = carry.Append(d.dataBuf, lineEnd)
	}
	if ok {
		d.dataBuf, ok = carry.Append(d.dataBuf, v)
	}
	if !ok {
		d.drop(false)
		return
	}
	d.data = d.dataBuf
}

var lineEnd = []byte{'\n'}

// continues reports whether next may continue the JSON payload data. A value that
// begins after another value has ended, with only a line end in between, cannot be
// part of the same payload.
func continues(data, next []byte) bool {
	next = bytes.TrimLeft(next, " \t")
	if len(next) == 0 || next[0] != '{' && next[0] != '[' {
		return true
	}
	data = bytes.TrimRight(data, " \t\n")
	if len(data) == 0 {
		return true
	}
	switch data[len(data)-1] {
	case '{', '[', ',', ':':
		return true
	default:
		return false
	}
}

// split delivers the pending event because the current line begins another one.
func (d *Decoder) split() {
	d.deliver(Event{Name: d.name, Data: d.data})
	// later is empty if there was no second name.
	d.nameBuf, d.later = d.later, d.nameBuf
	d.name, d.nameHeld = d.nameBuf, true
}

// dispatch delivers the pending event. The standard drops an event that has only a
// name. Here it is delivered, because it shows that the stream is alive.
func (d *Decoder) dispatch(unterminated bool) {
	name := d.name
	if d.hasLater {
		name = d.later
	}
	d.deliver(Event{Name: name, Data: d.data, Unterminated: unterminated})
	d.later, d.line = carry.Reset(d.later), carry.Reset(d.line)
}

// deliver passes an event to the sink. The current line stays.
func (d *Decoder) deliver(ev Event) {
	d.sink.Event(ev)
	d.clear()
}

// clear forgets the pending event, except later, which may name the next one.
func (d *Decoder) clear() {
	d.name, d.data, d.hasData, d.pending, d.nameHeld, d.dataHeld, d.hasLater = nil, nil, false, false, false, false, false
	d.nameBuf, d.dataBuf = carry.Reset(d.nameBuf), carry.Reset(d.dataBuf)
}

// carry appends b to the unfinished line, unless that line is dropped.
func (d *Decoder) carry(b []byte) {
	if d.cut {
		return
	}
	if len(d.line) == 0 {
		// The pending event may point into the memory of the last carried line.
		d.keep()
		d.line = carry.Reset(d.line)
	}
	if d.skipping {
		d.cut = true // the line is not blank
		return
	}
	if len(d.line)+len(b)+d.size() > d.limit {
		if d.cut = true; len(d.line) > 0 {
			b = d.line
		}
		d.tooLong(b[0])
		return
	}
	line, ok := carry.Append(d.line, b)
	if d.line = line; !ok {
		d.drop(false)
		d.cut = true
	}
}

// keep copies the pending event before the memory that it points into changes.
func (d *Decoder) keep() {
	if !d.pending {
		return
	}
	ok := d.nameHeld
	if !ok {
		d.nameBuf, ok = carry.Append(d.nameBuf[:0], d.name)
		d.name, d.nameHeld = d.nameBuf, true
	}
	if !ok || !d.holdData() {
		d.drop(false)
	}
}

// holdData copies data into dataBuf. It reports whether there is room for it.
func (d *Decoder) holdData() bool {
	if d.dataHeld {
		return true
	}
	held, ok := carry.Append(d.dataBuf[:0], d.data)
	if ok {
		d.dataBuf, d.data, d.dataHeld = held, held, true
	}
	return ok
}

// tooLong drops a line that begins with first and is longer than the limit, and the
// event that it belongs to.
func (d *Decoder) tooLong(first byte) {
	switch first {
	case 'd', 'e', ' ', '\t':
		d.drop(true)
	case '{':
		d.line = carry.Reset(d.line)
		d.sink.Dropped(true)
	default: // it is not a field: readers ignore it, however long it is
		d.foreign = d.foreign || !d.hasField
		d.line = carry.Reset(d.line)
	}
}

// drop discards the pending event: everything up to its blank line is skipped.
func (d *Decoder) drop(tooLong bool) {
	d.clear()
	d.later, d.line = carry.Reset(d.later), carry.Reset(d.line)
	d.stray, d.skipping = false, true
	d.sink.Dropped(tooLong)
}

// stop ends the decoding and releases all memory.
func (d *Decoder) stop() {
	d.stopped, d.pending, d.hasData, d.hasLater = true, false, false, false
	carry.Drop(d.line)
	carry.Drop(d.nameBuf)
	carry.Drop(d.dataBuf)
	carry.Drop(d.later)
	d.line, d.name, d.data, d.nameBuf, d.dataBuf, d.later = nil, nil, nil, nil, nil, nil
}

// Stop ends the decoding: later bytes are ignored. A sink may call it, and must not use
// its arguments after that.
func (d *Decoder) Stop() { d.stop() }

// skipBOM drops a byte order mark at the start of the stream, which may arrive in
// pieces, and returns the bytes after it.
func (d *Decoder) skipBOM(p []byte) []byte {
	for len(p) > 0 && int(d.bom) < len(bom) && p[0] == bom[d.bom] {
		d.bom++
		p = p[1:]
	}
	switch {
	case int(d.bom) == len(bom):
		d.bom = -1
	case len(p) > 0:
		// It is not a byte order mark but the beginning of a line.
		d.line = append(d.line, bom[:d.bom]...)
		d.bom = -1
	}
	return p
}

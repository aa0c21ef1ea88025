package wire

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
)

// fastPath finds the meaning of a delta without parsing its JSON. The deltas of a stream
// differ in a few values: the text, a sequence number, padding. The other bytes (ids,
// type, index) repeat. A payload with the same bytes around values of the same kind is as
// well-formed as the payload that the shape was learned from, and is the same
// [contentDelta].
//
// The decoders of the protocols do not depend on it. The cursor that they read with
// records which values may differ: strings of which a decoder asks only whether they are
// empty ([cursor.filled]), parts of the input of a call ([cursor.inputPart]), and values that
// differ in every event ([cursor.skipVarying], [cursor.varyingCount]). All other bytes have to be the same. So a decoder that parses a
// payload of a known shape reads the same.
//
// It is called around the decoder of a protocol, by bodyDecoder.event, payloads.Take and
// Realtime. Without these calls, and without values, every payload is parsed, with the
// same result: see TestFastPath.
//
// A few shapes are kept, because streams alternate: parallel calls, one item after the
// other. They hold nothing of the values.
type fastPath struct {
	shapes [maxShapes]*shape // nil: not needed yet
	size   uint16            // bytes of all literals
	kept   uint8             // number of shapes that are in use
	last   uint8             // the shape that was matched or learned last; it is tried first
	next   uint8             // the shape that is replaced next
}

// shape is the form of a payload and the meaning of payloads of this form.
type shape struct {
	literal []byte // the event and data lines around the holes, end to end
	holes   [maxHoles]hole
	frame   uint16 // length of the part of literal that precedes the payload in an event stream
	nHoles  uint8
	lines   bool // the payload was in several data lines: in an event stream it has other bytes
	delta   contentDelta
}

// hole is a place where the value may differ.
type hole struct {
	at    uint16 // offset in literal
	kind  holeKind
	count uint8 // of a holeCount: its index in contentDelta.counts
}

const (
	maxShapes = 4
	// maxLiterals bounds the literals of all shapes of a stream together, in bytes.
	maxLiterals = 2 << 10
)

// Prefixes of lines as nearly all servers write them.
const (
	eventField = "event: "
	dataField  = "data: "
)

// find returns the delta that the payload of an event is, if its form is known; else nil.
// It is for [addDelta], before the next call.
func (f *fastPath) find(name, data []byte) *contentDelta {
	if f.kept == 0 || len(data) == 0 {
		return nil
	}
	i := f.last
	for {
		sh := f.shapes[i]
		if sh.named(name) && sh.match(data, int(sh.frame)) == len(data) {
			f.last = i
			return &sh.delta
		}
		if i++; i == f.kept {
			i = 0
		}
		if i == f.last {
			return nil
		}
	}
}

// take is find for an event as an event stream transmits it. p begins with its first
// line. n is its length with the blank line; 0 if the event is not known.
func (f *fastPath) take(p []byte) (delta *contentDelta, n int) {
	if f.kept == 0 {
		return nil, 0
	}
	i := f.last
	for {
		if sh := f.shapes[i]; !sh.lines {
			n := sh.match(p, 0)
			if end := endOfEvent(p[n:]); n > 0 && end > 0 {
				f.last = i
				return &sh.delta, n + end
			}
		}
		if i++; i == f.kept {
			i = 0
		}
		if i == f.last {
			return nil, 0
		}
	}
}

// learn keeps the form of a payload and its meaning. v holds the values that were recorded
// while the payload was parsed. It reports whether the form could be learned.
func (f *fastPath) learn(name, data []byte, v *values, delta contentDelta) bool {
	if v == nil || v.overflow {
		return false
	}
	frame := len(dataField)
	if len(name) > 0 {
		frame += len(eventField) + len(name) + 1
	}
	size := frame + len(data) - v.length()
	if size > maxLiterals {
		return false
	}
	sh := f.room(size)
	sh.delta, sh.frame, sh.nHoles = delta, uint16(frame), uint8(v.n)
	sh.delta.part = inputPart{}
	b := sh.literal
	if len(name) > 0 {
		b = append(append(append(b, eventField...), name...), '\n')
	}
	b = append(b, dataField...)
	at := int32(0)
	for i, sp := range v.spans[:v.n] {
		b = append(b, data[at:sp.start]...)
		sh.holes[i] = hole{at: uint16(len(b)), kind: sp.kind, count: sp.count}
		at = sp.end
	}
	sh.literal = append(b, data[at:]...)
	sh.lines = bytes.IndexByte(sh.literal[frame:], '\n') >= 0
	return true
}

// room makes room for a literal of this size. It replaces the shapes that were matched
// longest ago, approximately.
func (f *fastPath) room(size int) *shape {
	if f.kept < maxShapes && int(f.size)+size <= maxLiterals {
		f.last = f.kept
		f.kept++
	} else {
		f.last = f.victim(f.last)
	}
	sh := f.shapes[f.last]
	if sh == nil {
		sh = &shape{}
		f.shapes[f.last] = sh
	}
	f.size = uint16(int(f.size) + size - len(sh.literal)) // at most twice maxLiterals
	sh.literal = sh.literal[:0]
	if cap(sh.literal) < size || cap(sh.literal) > 2*size {
		sh.literal = slices.Grow([]byte(nil), size)
	}
	for f.size > maxLiterals {
		if f.next = (f.next + 1) % f.kept; f.next != f.last {
			f.drop(f.next)
		}
	}
	return sh
}

// victim is the shape to be replaced: another one than keep, if there is one.
func (f *fastPath) victim(keep uint8) uint8 {
	if f.kept == 0 {
		f.kept = 1
	}
	if f.next = (f.next + 1) % f.kept; f.next == keep {
		f.next = (f.next + 1) % f.kept
	}
	return f.next
}

func (f *fastPath) drop(i uint8) {
	f.size -= uint16(len(f.shapes[i].literal))
	*f.shapes[i] = shape{}
}

// reset forgets all shapes. The memory of small literals is kept for the next stream.
func (f *fastPath) reset() {
	const small = maxLiterals / maxShapes
	for _, sh := range f.shapes {
		if sh == nil {
			continue
		}
		literal := sh.literal[:0]
		if cap(literal) > small {
			literal = nil
		}
		*sh = shape{literal: literal}
	}
	*f = fastPath{shapes: f.shapes}
}

// named reports whether the shape is that of an event of this name.
func (sh *shape) named(name []byte) bool {
	if len(name) == 0 {
		return int(sh.frame) == len(dataField)
	}
	return int(sh.frame) == len(eventField)+len(name)+1+len(dataField) &&
		len(sh.literal) >= int(sh.frame) && string(sh.literal[len(eventField):][:len(name)]) == string(name)
}

// match compares data with the shape, beginning at this offset of the literal. It returns
// how many bytes of data have the form, or 0, and puts their counts, and their part of the
// input of a call, into the delta.
func (sh *shape) match(data []byte, from int) int {
	literal := sh.literal
	if len(literal) == 0 {
		return 0 // it was dropped
	}
	at := 0
	var input, inputEnd int // where the last string that a decoder reads begins and ends in data
	for _, h := range sh.holes[:sh.nHoles] {
		hole := int(h.at)
		n := hole - from
		if len(data)-at < n || string(data[at:at+n]) != string(literal[from:hole]) {
			return 0
		}
		start := at + n
		from = hole
		switch h.kind {
		case holeNumber:
			if at = endOfDigits(data, start); at == start {
				return 0
			}
		case holeCount:
			if at = endOfDigits(data, start); at == start || at-start > maxDigits {
				return 0
			}
			count := 0
			for _, digit := range data[start:at] {
				count = count*10 + int(digit-'0')
			}
			sh.delta.counts[h.count] = count // not read unless all of the shape matches
		default:
			// The quotes are part of the literal.
			if at = endOfString(data, start); at == start && h.kind == holeFilled {
				return 0
			}
			if h.kind != holeString {
				input, inputEnd = start, at
			}
		}
	}
	n := len(literal) - from
	if len(data)-at < n || string(data[at:at+n]) != string(literal[from:]) {
		return 0
	}
	if sh.delta.input {
		sh.delta.part = inputPart{raw: data[input:inputEnd], filled: inputEnd > input}
	}
	return at + n
}

// endOfEvent is the length of the end of an event that p begins with: the end of its
// last line and a blank line. It is 0 if p does not begin so, or with line ends that no
// server writes.
func endOfEvent(p []byte) int {
	switch {
	case len(p) >= 2 && p[0] == '\n' && p[1] == '\n':
		return 2
	case len(p) >= 4 && string(p[:4]) == "\r\n\r\n":
		return 4
	default:
		return 0
	}
}

// endOfString is the place of the closing quote of the string whose content begins
// at i, or of the first byte that a string cannot hold.
func endOfString(b []byte, i int) int {
	for start := i; ; {
		if i+8 <= len(b) {
			marks := special(binary.LittleEndian.Uint64(b[i : i+8]))
			if marks == 0 {
				if i += 8; i-start >= longString {
					i = skipPlain(b, i)
				}
				continue
			}
			i += bits.TrailingZeros64(marks) / 8
		} else {
			i = plainEnd(b, i)
		}
		switch {
		case i == len(b) || b[i] != '\\':
			return i
		case i+1 < len(b) && plainEscapes[b[i+1]]:
			i += 2
		default:
			n := escapeLen(b[i:])
			if n == 0 {
				return i
			}
			i += n
		}
	}
}

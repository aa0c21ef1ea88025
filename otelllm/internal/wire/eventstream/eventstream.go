// Package eventstream splits a stream of AWS event-stream messages
// (application/vnd.amazon.eventstream), which may arrive in chunks of any size, into
// messages. It checks both checksums of each message.
//
//	total length   4 bytes, big endian, of the whole message
//	header length  4 bytes
//	prelude CRC    4 bytes, CRC-32 (IEEE) of the above
//	headers        name length 1, name, type 1, value
//	payload
//	message CRC    4 bytes, CRC-32 (IEEE) of all of the above
//
// https://smithy.io/2.0/aws/amazon-eventstream.html
package eventstream

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/otelllm/otelllm-go/otelllm/internal/carry"
)

// Message is one message. Its slices are valid only during the call that delivers
// it. A header that is absent or not a string is empty.
type Message struct {
	Type      []byte // :message-type: event, exception or error
	Event     []byte // :event-type, of an event
	Exception []byte // :exception-type, of an exception
	ErrorCode []byte // :error-code, of an error
	Payload   []byte
}

// Sink receives what a [Decoder] finds, in the order of the stream.
type Sink interface {
	Message(m *Message)
	// Malformed reports that a checksum or a length is wrong, so that the start of the
	// next message is not known. It is the last call.
	Malformed()
	// TooLong reports that a message is longer than the limit. It is the last call.
	TooLong()
	// NoRoom reports that a message is not read because all streams together hold too
	// much. It is the last call.
	NoRoom()
}

// Decoder splits bytes into messages. A message that lies wholly inside one Write
// is delivered without being copied. A Decoder is not safe for concurrent use.
type Decoder struct {
	sink    Sink
	limit   int
	buf     []byte // the unfinished message of the last Write
	stopped bool

	// preludes are pairs of lengths whose checksum was right, indexed by the last bits of
	// the total length: the same lengths repeat, so their checksums are not computed again.
	preludes [8][prelude]byte
	// The headers of the last messages and their values: those of one kind of event
	// repeat, so the same bytes are not parsed again.
	known   [2]headers
	oldest  int // index of the entry that is replaced next
	message Message
}

const (
	prelude  = 12
	checksum = 4
	// maxHeaders bounds the headers that are remembered, in bytes.
	maxHeaders = 1 << 10
)

// New returns a decoder. limit bounds a message, in bytes. It must be positive.
func New(sink Sink, limit int) *Decoder {
	return &Decoder{sink: sink, limit: limit}
}

// Write consumes the next bytes of the stream. It does not retain p.
func (d *Decoder) Write(p []byte) {
	for !d.stopped && len(p) > 0 {
		if len(d.buf) > 0 {
			p = d.resume(p)
			continue
		}
		n := d.next(p)
		if d.stopped {
			return
		}
		if n > len(p) {
			d.keep(p)
			return
		}
		d.take(p[:n])
		p = p[n:]
	}
}

// resume adds the beginning of p to the unfinished message and returns the rest.
func (d *Decoder) resume(p []byte) []byte {
	if n := prelude - len(d.buf); n > 0 {
		n = min(n, len(p))
		d.buf = append(d.buf, p[:n]...)
		p = p[n:]
		if len(d.buf) < prelude {
			return nil
		}
	}
	total := d.next(d.buf)
	if d.stopped {
		return nil
	}
	n := min(total-len(d.buf), len(p))
	if !d.keep(p[:n]) {
		return nil
	}
	if len(d.buf) == total {
		d.take(d.buf)
		d.buf = carry.Reset(d.buf)
	}
	return p[n:]
}

// keep adds to the unfinished message. It reports whether there was room for it.
func (d *Decoder) keep(p []byte) bool {
	buf, ok := carry.Append(d.buf, p)
	if d.buf = buf; !ok {
		d.Stop()
		d.sink.NoRoom()
	}
	return ok
}

// next is the length of the message that p begins with. It is greater than len(p) if p
// does not hold the whole prelude.
func (d *Decoder) next(p []byte) int {
	if len(p) < prelude {
		return prelude
	}
	total, headers := binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:])
	if known := &d.preludes[int(p[3])%len(d.preludes)]; string(known[:]) != string(p[:prelude]) {
		if crc32.ChecksumIEEE(p[:8]) != binary.BigEndian.Uint32(p[8:]) {
			d.Stop()
			d.sink.Malformed()
			return 0
		}
		copy(known[:], p)
	}
	switch {
	case total < prelude+checksum, headers > total-prelude-checksum:
		d.Stop()
		d.sink.Malformed()
		return 0
	case uint64(total) > uint64(d.limit):
		d.Stop()
		d.sink.TooLong()
		return 0
	default:
		return int(total)
	}
}

// take delivers one complete message.
func (d *Decoder) take(p []byte) {
	end := len(p) - checksum
	headers := p[prelude : prelude+binary.BigEndian.Uint32(p[4:])]
	var at *[numbered]span
	if crc32.ChecksumIEEE(p[:end]) == binary.BigEndian.Uint32(p[end:]) {
		at = d.read(headers)
	}
	if at == nil {
		d.Stop()
		d.sink.Malformed()
		return
	}
	m := &d.message
	m.Type, m.Event = at[messageType].of(headers), at[eventType].of(headers)
	m.Exception, m.ErrorCode = at[exceptionType].of(headers), at[errorCode].of(headers)
	m.Payload = p[prelude+len(headers) : end]
	d.sink.Message(m)
	d.message = Message{}
}

// Close ends the stream. It reports whether that was between two messages.
func (d *Decoder) Close() bool {
	whole := len(d.buf) == 0
	d.Stop()
	return whole
}

// Stop ends the decoding and releases all memory; later bytes are ignored. A sink may
// call it, and must not use its arguments after that.
func (d *Decoder) Stop() {
	d.stopped = true
	carry.Drop(d.buf)
	d.buf, d.known = nil, [2]headers{}
}

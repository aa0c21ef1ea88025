package proxy

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync/atomic"
)

// maxMessage bounds a message of a WebSocket that is read for its record, in bytes. A longer
// one passes as any other does, and is not recorded.
const maxMessage = 32 << 20

// Opcodes of RFC 6455, section 5.2.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
)

// errFrames says that bytes are not the frames of a WebSocket.
var errFrames = errors.New("proxy: not a WebSocket frame")

// frameReader reads one direction of a WebSocket as it passes, in pieces of any size. It
// neither changes nor delays anything.
type frameReader struct {
	inflate *inflater // nil: permessage-deflate was not agreed on
	failed  bool      // nothing can be read any more

	// closed is the code of the close frame; 0: none has come, 1005: one without a code.
	closed atomic.Int32

	head  []byte // an incomplete header
	op    byte
	final bool
	mask  [4]byte
	pos   int    // within the payload, for the mask
	left  uint64 // of the payload
	inner []byte // of a close frame

	// The message that the frames are part of.
	message    []byte
	kind       byte // opText, opBinary; 0: no message is open
	compressed bool
	skipped    bool // it is too long
}

// read takes the next bytes and calls text with each text message that they complete. Text
// may not keep it.
func (f *frameReader) read(p []byte, text func([]byte)) {
	for len(p) > 0 && !f.failed {
		if f.left == 0 {
			p = f.header(p)
		} else {
			n := int(min(f.left, uint64(len(p))))
			f.payload(p[:n])
			f.left -= uint64(n)
			p = p[n:]
		}
		if f.left == 0 && len(f.head) == 0 && f.op != noFrame {
			f.frameEnds(text)
		}
	}
	if f.failed {
		f.message, f.inflate = nil, nil
	}
}

// noFrame is the opcode between frames: none has it.
const noFrame = 0xff

// header collects a frame's header. It returns what follows it.
func (f *frameReader) header(p []byte) []byte {
	for i, b := range p {
		f.head = append(f.head, b)
		if len(f.head) >= 2 && len(f.head) == headerSize(f.head[1]) {
			f.begin()
			f.head = f.head[:0]
			return p[i+1:]
		}
	}
	f.op = noFrame
	return nil
}

// headerSize is the size of a header, given its second byte.
func headerSize(second byte) int {
	size := 2
	switch second & 0x7f {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if second&0x80 != 0 {
		size += 4
	}
	return size
}

// begin begins the frame whose header is complete.
func (f *frameReader) begin() {
	first, second, rest := f.head[0], f.head[1], f.head[2:]
	f.op, f.final, f.pos, f.mask = first&0x0f, first&0x80 != 0, 0, [4]byte{}
	f.inner = f.inner[:0]
	switch f.left = uint64(second & 0x7f); f.left {
	case 126:
		f.left = uint64(binary.BigEndian.Uint16(rest))
		rest = rest[2:]
	case 127:
		f.left = binary.BigEndian.Uint64(rest)
		rest = rest[8:]
	}
	if second&0x80 != 0 {
		copy(f.mask[:], rest)
	}
	compressed := first&0x40 != 0
	switch {
	case first&0x30 != 0, compressed && f.inflate == nil, f.left>>63 != 0:
		f.failed = true
	case f.op == opText, f.op == opBinary:
		f.failed = f.kind != 0
		f.kind, f.compressed, f.skipped = f.op, compressed, false
	case f.op == opContinuation:
		f.failed = f.kind == 0 || compressed
	default: // a control frame
		f.failed = f.op < opClose || f.left > 125 || !f.final || compressed
	}
}

// payload takes a part of the payload of the frame.
func (f *frameReader) payload(p []byte) {
	into := &f.message
	switch {
	case f.op == opClose:
		into = &f.inner
	case f.op > opClose: // a ping or a pong
		return
	case f.skipped || f.kind == opBinary && f.inflate == nil:
		return
	case len(f.message)+len(p) > maxMessage:
		f.message, f.skipped = nil, true
		return
	}
	from := len(*into)
	*into = append(*into, p...)
	if f.mask != [4]byte{} {
		pos := f.pos
		for i, b := range p {
			(*into)[from+i] = b ^ f.mask[(pos+i)&3]
		}
	}
	f.pos += len(p)
}

// frameEnds takes the end of a frame, and with the last one of a message its text.
func (f *frameReader) frameEnds(text func([]byte)) {
	op := f.op
	f.op = noFrame
	switch {
	case op == opClose:
		code := int32(1005)
		if len(f.inner) >= 2 {
			code = int32(binary.BigEndian.Uint16(f.inner))
		}
		f.closed.CompareAndSwap(0, code)
	case op > opClose || !f.final:
	default:
		f.messageEnds(text)
	}
}

func (f *frameReader) messageEnds(text func([]byte)) {
	message, kind := f.message, f.kind
	f.message, f.kind = f.message[:0], 0
	if cap(f.message) > maxKept {
		f.message = nil
	}
	if f.skipped {
		f.failed = f.compressed && f.inflate.keeps // later messages refer to this one
		return
	}
	if f.compressed {
		var err error
		if message, err = f.inflate.message(message); err != nil {
			f.failed = f.inflate.keeps
			return
		}
	}
	if kind == opText {
		text(message)
	}
}

// maxKept bounds the buffer that is kept from one message to the next, in bytes.
const maxKept = 64 << 10

// inflater undoes permessage-deflate (RFC 7692) in one direction.
type inflater struct {
	keeps  bool // messages may refer to what earlier ones had: there is context takeover
	window []byte
	flate  io.ReadCloser
	out    bytes.Buffer
}

// newInflater returns an inflater for what the response to a handshake has agreed on, or nil
// if that is not permessage-deflate. Side is "server" or "client".
func newInflater(extensions, side string) *inflater {
	name, params, _ := strings.Cut(extensions, ";")
	if strings.TrimSpace(name) != "permessage-deflate" {
		return nil
	}
	f := &inflater{keeps: true}
	for param := range strings.SplitSeq(params, ";") {
		if strings.TrimSpace(param) == side+"_no_context_takeover" {
			f.keeps = false
		}
	}
	return f
}

const (
	windowSize = 32 << 10
	// messageTail is what a sender leaves out at a message's end, and a final empty block,
	// after which the decoder stops.
	messageTail = "\x00\x00\xff\xff\x01\x00\x00\xff\xff"
)

// message returns a message as it was before its compression, until the next call.
func (f *inflater) message(compressed []byte) ([]byte, error) {
	src := io.MultiReader(bytes.NewReader(compressed), strings.NewReader(messageTail))
	if f.flate == nil {
		f.flate = flate.NewReaderDict(src, f.window)
	} else if err := f.flate.(flate.Resetter).Reset(src, f.window); err != nil {
		return nil, err
	}
	if f.out.Cap() > maxKept {
		f.out = bytes.Buffer{}
	}
	f.out.Reset()
	n, err := io.Copy(&f.out, io.LimitReader(f.flate, maxMessage+1))
	switch {
	case err != nil:
		return nil, err
	case n > maxMessage:
		return nil, errFrames
	}
	if f.keeps {
		f.window = append(f.window, f.out.Bytes()[max(0, f.out.Len()-windowSize):]...)
		if over := len(f.window) - windowSize; over > 0 {
			f.window = append(f.window[:0], f.window[over:]...)
		}
	}
	return f.out.Bytes(), nil
}

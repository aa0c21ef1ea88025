package httpcall

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
)

const (
	// freePlain is what any response may decode to, in bytes, and maxRatio what it may decode
	// to beyond that, for each byte of it. A stream whose sender flushes every event has a
	// ratio below 10, one that is compressed as a whole up to 50.
	freePlain = 16 << 20
	maxRatio  = 64
	// maxWindows bounds the windows of all responses that are being decoded, in bytes.
	maxWindows = 256 << 20
	// pieceSize is the size of the pieces in which what was decoded is passed on, in bytes.
	pieceSize = 16 << 10
)

// windows are what decompressors usually need, in bytes: with the quality that servers
// choose by default. The most that one can take is 16 MiB for br and 8 MiB for zstd.
var windows = map[string]int64{"gzip": 64 << 10, "x-gzip": 64 << 10, "deflate": 64 << 10, "br": 4 << 20, "zstd": 2 << 20}

// windowsHeld is the sum of windows of all responses that are being decoded.
var windowsHeld atomic.Int64

// Decompressor undoes the encodings of a response's body, of which it gets a copy in pieces as
// they pass. A piece that ends where the sender has flushed decodes to all that was flushed.
// It is not safe for concurrent use.
//
// A decompressor reads from a source, and cannot go on later once the source had no more. So
// it runs on a goroutine of its own, which waits for the next piece. Only one of the two runs
// at any time: resume passes the turn to the goroutine, and returns when it has passed the
// turn back. Everything below is of the one whose turn it is. (Coroutines by iter.Pull would
// be the same, but end the process if an application reads the body on a locked thread.)
type Decompressor struct {
	encodings encodings
	turn      chan struct{} // of the goroutine; nil: it has not begun
	back      chan struct{} // closed when the goroutine is over
	rest      []byte        // of the last piece that came
	ending    error         // what the source returns when rest is empty; nil: wait for more
	plain     []byte        // what was decoded; nil: nothing
	starved   bool          // the goroutine needs another piece
	over      bool          // the goroutine is over
	err       error         // when over: why; nil: the encoded body is complete
	window    int64         // taken of windowsHeld
	allowance int64         // how much more may be decoded
	head      []byte        // the first maxHead bytes of the body
	begun     bool          // something was decoded

	// buf is what is decoded into: up to start it was passed on, and up to end it is to be.
	buf        [pieceSize]byte
	start, end int
}

// NewDecompressor returns a Decompressor of a body with these headers. It returns nil if an encoding
// is not known, or too many bodies are being decoded. It has to be ended with Stop.
func NewDecompressor(h http.Header) *Decompressor {
	all, readable := encodingsOf(h)
	if !readable || len(all) == 0 {
		return nil
	}
	d := &Decompressor{encodings: all, allowance: freePlain}
	for _, name := range all {
		d.window += windows[name]
	}
	if windowsHeld.Add(d.window) > maxWindows {
		windowsHeld.Add(-d.window)
		return nil
	}
	return d
}

// Write decodes p, which is the next piece of the body, and passes what comes of it to plain in
// pieces. It keeps nothing of p, and plain may keep nothing of those. It returns an error if
// the body cannot be decoded; what follows cannot be either, then. What follows the end of the
// encoded body is ignored.
func (d *Decompressor) Write(p []byte, plain func([]byte)) error {
	if len(p) == 0 {
		return nil
	}
	if d.allowance += maxRatio * int64(len(p)); d.over {
		return d.err
	}
	if n := maxHead - len(d.head); n > 0 {
		d.head = append(d.head, p[:min(n, len(p))]...)
	}
	d.rest = p
	d.drain(plain)
	if d.rest = nil; !d.over {
		return nil
	}
	return d.err
}

// Close decodes what can be decoded of a body of which no more comes, and passes it to plain.
// The error is nil if the encoded body is complete or empty, [io.ErrUnexpectedEOF] if its end is
// missing, and another one if it cannot be decoded.
func (d *Decompressor) Close(plain func([]byte)) error {
	if d.turn == nil || d.over {
		return d.err
	}
	d.ending = io.EOF
	d.drain(plain)
	d.Stop()
	if d.err == io.ErrUnexpectedEOF && !d.hasMagic() && (!d.begun || isText(d.head)) { //nolint:errorlint // itself
		d.err = errOther // it may just be too short to show that it is not encoded
	}
	return d.err
}

// maxHead is how many of the first bytes show whether a body is encoded at all.
const maxHead = 8

// isText reports whether b is printable ASCII.
func isText(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return (c < ' ' || c > '~') && c != '\n' && c != '\r' && c != '\t' })
}

// hasMagic reports whether the body begins as its last encoding does. One without a fixed
// beginning (br, deflate without zlib's header) does not.
func (d *Decompressor) hasMagic() bool {
	switch d.encodings[len(d.encodings)-1] {
	case "gzip", "x-gzip":
		return bytes.HasPrefix([]byte{0x1f, 0x8b, 0x08}, d.head[:min(3, len(d.head))])
	case "zstd":
		return bytes.HasPrefix([]byte{0x28, 0xb5, 0x2f, 0xfd}, d.head[:min(4, len(d.head))])
	case "deflate":
		return hasZlibHeader(d.head)
	default:
		return false
	}
}

// Stop releases the memory of d, and ends its goroutine. A nil *Decompressor has none.
func (d *Decompressor) Stop() {
	if d == nil {
		return
	}
	if d.turn != nil && !d.over {
		d.rest, d.ending, d.allowance = nil, errUnread, 0
		for !d.over {
			d.resume()
		}
	}
	d.over = true
	windowsHeld.Add(-d.window)
	d.window = 0
}

var (
	errUnread   = errors.New("httpcall: the body is not read any further")
	errTooMuch  = errors.New("httpcall: the body decodes to too much")
	errOther    = errors.New("httpcall: the body is not encoded as its header says")
	errPanicked = errors.New("httpcall: the decompressor panicked")
)

// drain passes what is decoded to plain until the goroutine needs more, or is over.
func (d *Decompressor) drain(plain func([]byte)) {
	for !d.over {
		if d.resume(); d.plain != nil {
			plain(d.plain)
		}
		if d.starved {
			return
		}
	}
}

// resume lets the goroutine run until it has decoded something, needs more, or is over.
func (d *Decompressor) resume() {
	d.plain, d.starved = nil, false
	if d.turn == nil {
		d.turn, d.back = make(chan struct{}), make(chan struct{})
		go d.run()
	} else {
		d.turn <- struct{}{}
	}
	_, ok := <-d.back
	d.over = !ok
}

// wait passes the turn back with what was decoded, and waits until it is the goroutine's again.
// Most pieces need it once: for what they decode to, and for another one.
func (d *Decompressor) wait(starved bool) {
	d.passOn()
	d.starved = starved
	d.back <- struct{}{}
	<-d.turn
}

// passOn lets plain have what was decoded.
func (d *Decompressor) passOn() {
	if d.plain = nil; d.end > d.start {
		d.plain, d.begun = d.buf[d.start:d.end], true
	}
	d.start = d.end
}

// run is the goroutine.
func (d *Decompressor) run() {
	defer close(d.back)
	d.err = errPanicked
	defer func() { _ = recover() }()         // of a decompressor, which reads arbitrary bytes
	if d.err = d.decode(); d.err == io.EOF { //nolint:errorlint // readers return it bare
		d.err = nil
	}
}

// decode decodes the body, and returns the error at which it ends.
func (d *Decompressor) decode() error {
	from, err := d.encodings.open(source{d}, func(r io.Reader) io.Reader { return allowed{r, d} })
	if err != nil {
		return err
	}
	for {
		n, err := from.Read(d.buf[d.end:])
		if d.end += n; err != nil {
			d.passOn()
			return err
		}
		if d.end == len(d.buf) {
			d.wait(false)
		}
		if d.start == d.end {
			d.start, d.end = 0, 0
		}
	}
}

// allowed reads what may be decoded. It runs on the goroutine.
type allowed struct {
	io.Reader

	by *Decompressor
}

// Read implements io.Reader.
func (r allowed) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.by.allowance -= int64(n); r.by.allowance < 0 {
		return 0, errTooMuch
	}
	return n, err
}

// source is where the decompressor reads from. It runs on the goroutine.
type source struct{ of *Decompressor }

// Read implements io.Reader.
func (s source) Read(p []byte) (int, error) {
	if err := s.of.need(); err != nil {
		return 0, err
	}
	n := copy(p, s.of.rest)
	s.of.rest = s.of.rest[n:]
	return n, nil
}

// ReadByte implements io.ByteReader. Without it gzip would read through a buffer.
func (s source) ReadByte() (byte, error) {
	if len(s.of.rest) == 0 {
		if err := s.of.need(); err != nil {
			return 0, err
		}
	}
	b := s.of.rest[0]
	s.of.rest = s.of.rest[1:]
	return b, nil
}

// need waits, on the goroutine, for another piece if there is nothing left of the last one.
func (d *Decompressor) need() error {
	for len(d.rest) == 0 {
		if d.ending != nil {
			return d.ending
		}
		d.wait(true)
	}
	return nil
}

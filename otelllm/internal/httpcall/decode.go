package httpcall

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

const (
	// maxDecoded bounds what is read of a compressed body, in bytes.
	maxDecoded = MaxCopy
	// maxDecoding bounds the time that decoding one body may take. An honest body of
	// maxDecoded bytes takes about a fifth of it.
	maxDecoding = 250 * time.Millisecond
	// maxWait bounds the time that a body waits for others to be read, before it is given
	// up. Most take less than a millisecond.
	maxWait = 10 * time.Millisecond
	// maxWindow bounds how far back a zstd body may refer: RFC 9659 bounds it so for HTTP.
	maxWindow = 8 << 20
)

// maxEncodings bounds how many encodings a body may have on top of one another.
const maxEncodings = 3

// encodings are the encodings of a body, in the order in which they were applied. Nil: it
// has none.
type encodings []string

// encodingsOf returns the encodings of a body with these headers. readable: the body has no encoding, or
// all of them can be undone.
func encodingsOf(h http.Header) (all encodings, readable bool) {
	readable = true
	for _, value := range h["Content-Encoding"] {
		for name := range strings.SplitSeq(value, ",") {
			name = strings.ToLower(strings.TrimSpace(name))
			if name == "" || name == "identity" {
				continue
			}
			if len(all) == maxEncodings {
				return all, false
			}
			all = append(all, name)
			readable = readable && decompressors[name] != nil
		}
	}
	return all, readable
}

// Readable reports whether the body of req is not encoded, or in a way that can be decoded.
func Readable(req *http.Request) bool {
	_, readable := encodingsOf(req.Header)
	return readable
}

// open returns a reader of what is encoded in r. Every decompressor is read through the
// reader that bounded makes of it: what little comes of the last one may be much before it.
func (all encodings) open(r io.Reader, bounded func(io.Reader) io.Reader) (io.Reader, error) {
	var below *layer
	for _, name := range slices.Backward(all) {
		open := decompressors[name]
		if open == nil {
			return nil, errors.ErrUnsupported
		}
		plain, err := open(r)
		if err != nil {
			return nil, err
		}
		below = &layer{Reader: bounded(plain), below: below}
		r = below
	}
	return r, nil
}

// layer is one of several encodings. It fails if the one below it did, the error of which its
// decompressor may have taken for the end.
type layer struct {
	io.Reader

	below  *layer // nil: none
	failed error
}

// Read implements io.Reader.
func (l *layer) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if err == io.EOF && l.below != nil && l.below.failed != nil {
		err = l.below.failed
	}
	if err != nil && err != io.EOF {
		l.failed = err
	}
	return n, err
}

// decompressors are the encodings that bodies have in practice: Codex compresses with
// zstd, others with gzip or br; servers choose among all of them. The names are those of RFC
// 9110, section 8.4.1, of RFC 8878 and of RFC 7932. No decompressor is used twice: it holds
// the end of what it has read. Each returns what a flush of the sender has made complete
// without waiting for more; a test checks that.
var decompressors = map[string]func(io.Reader) (io.Reader, error){
	"gzip":    func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"x-gzip":  func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"deflate": inflate,
	"br":      func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil },
	"zstd": func(r io.Reader) (io.Reader, error) {
		// With a concurrency of 1 it has no goroutines, and needs no Close.
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(maxDecoded), zstd.WithDecoderMaxWindow(maxWindow))
	},
}

// inflate reads deflate, which is zlib's format by RFC 9110. Some servers send it without
// zlib's header, and clients accept that: the header's check bits tell them apart.
func inflate(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(2)
	if err != nil {
		return nil, cutIfNotEmpty(err, len(head))
	}
	if hasZlibHeader(head) {
		plain, err := zlib.NewReader(b)
		return toItsEnd{plain, b}, err
	}
	return toItsEnd{flate.NewReader(b), b}, nil
}

// hasZlibHeader reports whether b begins as zlib's format does.
func hasZlibHeader(b []byte) bool {
	const deflated = 8 // the method, in the lower half of the first byte
	return len(b) >= 2 && b[0]&0x0f == deflated && (uint(b[0])<<8|uint(b[1]))%31 == 0
}

// toItsEnd is a decompressor that leaves alone what follows its own end. It ends with the end
// of its source, as the others do: what is encoded once more may end too early there.
type toItsEnd struct{ plain, source io.Reader }

// Read implements io.Reader.
func (r toItsEnd) Read(p []byte) (int, error) {
	n, err := r.plain.Read(p)
	if err == io.EOF { //nolint:errorlint // readers return it bare
		if _, cut := io.Copy(io.Discard, r.source); cut != nil {
			err = cut
		}
	}
	return n, err
}

// cutIfNotEmpty returns err, or [io.ErrUnexpectedEOF] for an end after n bytes.
func cutIfNotEmpty(err error, n int) error {
	if err == io.EOF && n > 0 { //nolint:errorlint // bufio returns it bare
		return io.ErrUnexpectedEOF
	}
	return err
}

// decoding bounds the bodies that are decoded or read at the same time, and with them the
// memory and the processor time that this takes: at most half of the processors, but at least
// one. A body takes at most 28 MiB: maxDecoded and, while its buffer grows, half of
// that again, and the window of the decompressor, of which brotli has the largest with 16 MiB.
// Each further encoding of the same body takes another window.
var decoding = make(chan struct{}, min(4, max(1, runtime.GOMAXPROCS(0)/2)))

// decoded is a body without its encoding. It has one of the places of decoding until it is
// released.
type decoded struct{ plain []byte }

// maxKeptBuffer bounds a buffer that is used again, in bytes.
const maxKeptBuffer = 1 << 20

var unused = sync.Pool{New: func() any { return &decoded{} }}

// release makes room for another body. A nil *decoded has none.
func (d *decoded) release() {
	if d == nil {
		return
	}
	clear(d.plain) // no content is kept
	if d.plain = d.plain[:0]; cap(d.plain) <= maxKeptBuffer {
		unused.Put(d)
	}
	<-decoding
}

// decode returns what is compressed in body, if that is not too much, takes no longer than
// limit, and there is a place for it. Otherwise it returns nil.
func decode(from encodings, body []byte, limit time.Duration) *decoded {
	if !begin() {
		return nil
	}
	d := unused.Get().(*decoded) //nolint:forcetypeassert // the pool holds nothing else
	if !d.decompress(from, body, time.Now().Add(limit)) {
		d.release()
		return nil
	}
	return d
}

// begin takes one of the places of decoding. It reports false if none becomes free.
func begin() bool {
	select {
	case decoding <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case decoding <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

// decompress reads what is compressed in body, and reports whether that is all of it. The
// body may be anything, so a panic of a decompressor is contained.
func (d *decoded) decompress(encoded encodings, body []byte, deadline time.Time) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	inTime := func(r io.Reader) io.Reader { return &timed{r, deadline} }
	from, err := encoded.open(inTime(bytes.NewReader(body)), inTime)
	if err != nil {
		return false
	}
	for len(d.plain) <= maxDecoded {
		if len(d.plain) == cap(d.plain) {
			d.grow()
		}
		n, err := from.Read(d.plain[len(d.plain):cap(d.plain)])
		d.plain = d.plain[:len(d.plain)+n]
		if err != nil {
			return err == io.EOF && len(d.plain) <= maxDecoded
		}
	}
	return false
}

// grow doubles the buffer, up to one byte more than is allowed.
func (d *decoded) grow() {
	size := max(64<<10, 2*cap(d.plain))
	if size >= maxDecoded {
		size = maxDecoded + 1
	}
	d.plain = append(make([]byte, 0, size), d.plain...)
}

// timed is a reader that fails after a time.
type timed struct {
	io.Reader

	deadline time.Time
}

var errStopped = errors.New("httpcall: decoding the body takes too long")

// Read implements io.Reader. Small pieces make the time count also where little comes of
// much, or much of little.
func (r *timed) Read(p []byte) (int, error) {
	if time.Now().After(r.deadline) {
		return 0, errStopped
	}
	return r.Reader.Read(p[:min(len(p), 64<<10)])
}

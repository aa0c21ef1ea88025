package httpcall

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"runtime"
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

// encoding returns the one encoding of a request's body, in lower case; "": it is not
// encoded. readable: it is not, or in a way that can be decoded.
func encoding(h http.Header) (name string, readable bool) {
	name = strings.ToLower(strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ",")))
	if name == "identity" {
		name = ""
	}
	_, known := decompressors[name]
	return name, known || name == ""
}

// Readable reports whether the body of req is not encoded, or in a way that can be decoded.
func Readable(req *http.Request) bool {
	_, readable := encoding(req.Header)
	return readable
}

// decompressors are the encodings that requests have in practice: Codex compresses with
// zstd, others with gzip or br. The names are those of RFC 9110, section 8.4.1, of RFC
// 8878 and of RFC 7932. No decompressor is used twice: it holds the end of what it has read.
var decompressors = map[string]func(io.Reader) (io.Reader, error){
	"gzip":    func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"x-gzip":  func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"deflate": func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
	"br":      func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil },
	"zstd": func(r io.Reader) (io.Reader, error) {
		// With a concurrency of 1 it has no goroutines, and needs no Close.
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(maxDecoded), zstd.WithDecoderMaxWindow(maxWindow))
	},
}

// decoding bounds the bodies that are decoded or read at the same time, and with them the
// memory and the processor time that this takes: at most half of the processors, but at least
// one. A body takes at most 28 MiB: maxDecoded and, while its buffer grows, half of
// that again, and the window of the decompressor, of which brotli has the largest with 16 MiB.
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
func decode(encoding string, body []byte, limit time.Duration) *decoded {
	open := decompressors[encoding]
	if open == nil || !begin() {
		return nil
	}
	d := unused.Get().(*decoded) //nolint:forcetypeassert // the pool holds nothing else
	if !d.decompress(open, body, time.Now().Add(limit)) {
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
func (d *decoded) decompress(open func(io.Reader) (io.Reader, error), body []byte, deadline time.Time) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	from, err := open(&timed{bytes.NewReader(body), deadline})
	if err != nil {
		return false
	}
	from = &timed{from, deadline}
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

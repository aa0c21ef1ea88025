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
	// MaxDecoded bounds what is read of a compressed body, in bytes.
	MaxDecoded = MaxCopy
	// maxDecoding bounds the time that decoding one body, or waiting for that, may take. An
	// honest body of MaxDecoded bytes takes about a fifth of it.
	maxDecoding = 250 * time.Millisecond
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
			zstd.WithDecoderMaxMemory(MaxDecoded), zstd.WithDecoderMaxWindow(maxWindow))
	},
}

// decoding bounds the bodies that are decoded at the same time, and with them the memory
// that this takes: about 16 MiB each at worst.
var decoding = make(chan struct{}, max(2, runtime.GOMAXPROCS(0)))

var (
	errTooLong = errors.New("httpcall: the decoded body is too long")
	errTooSlow = errors.New("httpcall: decoding the body takes too long")
)

// decoded calls read with what is compressed in body, if that is not too much and takes no
// longer than limit. Read may not keep it. It reports false if read was not called. The body
// may be anything, so a panic of a decoder is contained.
func decoded(encoding string, body []byte, limit time.Duration, read func(plain []byte)) (ok bool) {
	open := decompressors[encoding]
	if open == nil {
		return false
	}
	deadline := time.Now().Add(limit)
	select {
	case decoding <- struct{}{}:
	default:
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case decoding <- struct{}{}:
		case <-timer.C:
			return false
		}
	}
	plain := plainBuffers.Get().(*bytes.Buffer) //nolint:forcetypeassert // the pool holds nothing else
	plain.Reset()
	err := decompress(open, body, plain, deadline)
	<-decoding
	if err == nil {
		read(plain.Bytes())
		ok = true
	}
	if plain.Cap() <= maxKeptBuffer {
		clear(plain.Bytes()[:plain.Len()]) // no content is kept
		plainBuffers.Put(plain)
	}
	return ok
}

// maxKeptBuffer bounds a buffer that is used again, in bytes.
const maxKeptBuffer = 1 << 20

var plainBuffers = sync.Pool{New: func() any { return &bytes.Buffer{} }}

// decompress writes to plain what is compressed in body.
func decompress(open func(io.Reader) (io.Reader, error), body []byte, plain *bytes.Buffer, deadline time.Time) (err error) {
	defer func() {
		if recover() != nil {
			err = errUndecodable
		}
	}()
	r, err := open(&timed{bytes.NewReader(body), deadline})
	if err != nil {
		return err
	}
	n, err := io.Copy(plain, &timed{io.LimitReader(r, MaxDecoded+1), deadline})
	if err == nil && n > MaxDecoded {
		return errTooLong
	}
	return err
}

var errUndecodable = errors.New("httpcall: the body cannot be decoded")

// timed is a reader that fails after a time.
type timed struct {
	io.Reader

	deadline time.Time
}

// Read implements io.Reader. Small pieces make the time count also where little comes of
// much, or much of little.
func (r *timed) Read(p []byte) (int, error) {
	if time.Now().After(r.deadline) {
		return 0, errTooSlow
	}
	return r.Reader.Read(p[:min(len(p), 64<<10)])
}

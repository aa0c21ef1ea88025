package faultyllm

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// Encoding is how a body is compressed, as Content-Encoding names it.
type Encoding string

// The encodings. The zero value means no compression.
const (
	Gzip   Encoding = "gzip"
	Brotli Encoding = "br"
	Zstd   Encoding = "zstd"
)

// Encodings returns all encodings, in the order in which a server prefers them that knows all.
func Encodings() []Encoding { return []Encoding{Zstd, Brotli, Gzip} }

// compression is how the body of an exchange is compressed.
type compression struct {
	offered []Encoding
	forced  bool // the request is not asked for what it accepts
}

// Compressed returns the exchange with a body in the first of these encodings that the request's
// Accept-Encoding allows, or as it is if that allows none of them. Each event of a stream is
// flushed, so that it can be read as soon as it is sent.
func (e Exchange) Compressed(offered ...Encoding) Exchange {
	e.compression = compression{offered: offered}
	return e
}

// CompressedAnyway returns the exchange with a compressed body, whether or not the request accepts
// that.
func (e Exchange) CompressedAnyway(encoding Encoding) Exchange {
	e.compression = compression{offered: []Encoding{encoding}, forced: true}
	return e
}

// Encoding returns the encoding of the response to a request with these headers, or "".
func (e Exchange) Encoding(request http.Header) Encoding {
	c := e.compression
	if len(c.offered) == 0 {
		return ""
	}
	if c.forced {
		return c.offered[0]
	}
	accepts := accepted(request)
	at := slices.IndexFunc(c.offered, accepts)
	if at < 0 {
		return ""
	}
	return c.offered[at]
}

// accepted returns whether a request with these headers accepts an encoding, by RFC 9110, section
// 12.5.3. How much it prefers one to another does not matter here.
func accepted(request http.Header) func(Encoding) bool {
	said := make(map[Encoding]bool)
	for _, value := range request["Accept-Encoding"] {
		for part := range strings.SplitSeq(strings.ToLower(value), ",") {
			name, params, _ := strings.Cut(part, ";")
			weight := 1.0
			if q, ok := strings.CutPrefix(strings.TrimSpace(params), "q="); ok {
				weight, _ = strconv.ParseFloat(strings.TrimSpace(q), 64)
			}
			said[Encoding(strings.TrimSpace(name))] = weight > 0
		}
	}
	return func(e Encoding) bool {
		if yes, named := said[e]; named {
			return yes
		}
		return said["*"]
	}
}

// encoder compresses one body.
type encoder struct {
	to  bytes.Buffer
	out interface {
		io.WriteCloser
		Flush() error
	}
}

func (e Encoding) encoder() *encoder {
	c := &encoder{}
	switch e {
	case Brotli:
		c.out = brotli.NewWriter(&c.to)
	case Zstd:
		out, err := zstd.NewWriter(&c.to, zstd.WithEncoderConcurrency(1))
		if err != nil { // only options can be wrong
			panic(err)
		}
		c.out = out
	default:
		c.out = gzip.NewWriter(&c.to)
	}
	return c
}

// piece returns data as it is sent if it is flushed. A buffer takes everything.
func (c *encoder) piece(data []byte) []byte {
	_, _ = c.out.Write(data)
	_ = c.out.Flush()
	return c.taken()
}

// end returns what ends the body.
func (c *encoder) end() []byte {
	_ = c.out.Close()
	return c.taken()
}

func (c *encoder) taken() []byte {
	piece := bytes.Clone(c.to.Bytes())
	c.to.Reset()
	return piece
}

// document returns a complete body in the encoding.
func (e Encoding) document(data []byte) []byte {
	if e == "" {
		return data
	}
	c := e.encoder()
	return append(c.piece(data), c.end()...)
}

// stream returns the frames in the encoding. What they count as sent stays: it is what was there
// before. The encoding is ended with the body, except by a fault that cuts it.
func (e Encoding) stream(frames []frame) []frame {
	if e == "" {
		return frames
	}
	c := e.encoder()
	encoded := make([]frame, 0, len(frames)+1)
	for _, f := range frames {
		if f.fault.kind == stepCleanEnd {
			encoded = append(encoded, frame{data: c.end()})
		}
		if f.fault.kind == 0 {
			f.data = c.piece(f.data)
		}
		encoded = append(encoded, f)
		if f.fault.ends() {
			return encoded
		}
	}
	return append(encoded, frame{data: c.end()})
}

package input

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// form is how a source is encoded.
type form uint8

const (
	formUnknown form = iota
	formEmpty
	formJSON
	formGzip
	formZstd
	formProto  // the resource spans of OTLP's TracesData, or of an export request
	formFramed // messages, each behind its length in 4 bytes: the Collector's file exporter
)

// sniffed is how many bytes the form is recognised by.
const sniffed = 4 << 10

// The first bytes of the forms.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

const (
	// protoTag is field 1 as bytes: the resource spans. It is also a newline.
	protoTag = 1<<3 | 2
	// frameHeader is the size of the length before a message.
	frameHeader = 4
)

// formOf recognises the form by the first bytes of a source.
func formOf(head []byte) form {
	text := bytes.TrimLeft(bytes.TrimPrefix(head, utf8BOM), " \t\r\n")
	switch {
	case len(head) == 0:
		return formEmpty
	case bytes.HasPrefix(head, gzipMagic):
		return formGzip
	case bytes.HasPrefix(head, zstdMagic):
		return formZstd
	case len(text) == 0:
		return formEmpty
	case !hasControls(head):
		return formJSON // or another text, which is reported as what it is
	case head[0] == protoTag:
		return formProto
	case len(head) >= frameHeader && binary.BigEndian.Uint32(head) <= MaxDocument:
		return formFramed
	default:
		return formUnknown
	}
}

var utf8BOM = []byte("\xef\xbb\xbf")

// hasControls reports whether the bytes contain control characters, which JSON never has,
// and protobuf has in every attribute.
func hasControls(head []byte) bool {
	return bytes.ContainsFunc(head, func(r rune) bool { return r < ' ' && r != '\t' && r != '\r' && r != '\n' })
}

// maxDepth is how often a source may be compressed: a file of compressed messages, itself
// compressed.
const maxDepth = 3

// readForm reads what r contains. It returns an error only if nothing else is to be read.
func (s *source) readForm(r io.Reader, depth int) error {
	buffered := bufio.NewReaderSize(r, sniffed)
	head, err := buffered.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		s.report(&Problem{Err: readError(err)})
		return nil
	}
	form := formOf(head)
	if depth >= maxDepth && (form == formGzip || form == formZstd) {
		s.report(&Problem{Err: errors.New("it is compressed too often")})
		return nil
	}
	switch form {
	case formEmpty:
		return nil // reported by read
	case formJSON:
		return s.readJSON(buffered)
	case formProto:
		return s.readProto(buffered)
	case formFramed:
		return s.readFrames(buffered, depth)
	case formGzip:
		z, err := gzip.NewReader(buffered)
		if err != nil {
			s.report(&Problem{Err: readError(err)})
			return nil
		}
		return s.readForm(&expanded{r: z, left: maxExpanded}, depth+1)
	case formZstd:
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20), zstd.WithDecoderLowmem(true))
		if err != nil {
			s.report(&Problem{Err: readError(err)})
			return nil
		}
		defer z.Close()
		return s.readForm(&expanded{r: z, left: maxExpanded}, depth+1)
	default:
		s.report(&Problem{Err: errors.New("it is binary, and neither OTLP protobuf nor gzip nor zstd: give OTLP, as the Collector's file exporter writes it, or Jaeger's JSON")})
		return nil
	}
}

// errExpanded is returned for a source that expands to too much.
var errExpanded = fmt.Errorf("it expands to more than %d GiB", maxExpanded>>30)

// expanded bounds a decompressed source.
type expanded struct {
	r    io.Reader
	left int64
}

// Read implements io.Reader.
func (e *expanded) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, errExpanded
	}
	n, err := e.r.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	return n, err
}

// cut reports whether an error means that a source ends too early.
func cut(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }

// readError is an error of a reader, as it is reported.
func readError(err error) error {
	switch {
	case cut(err):
		return errors.New("the compressed file is cut off: what is complete was read")
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Errorf("it needs too much memory to decompress: %w", err)
	default:
		return fmt.Errorf("it cannot be read: %w", err)
	}
}

// readProto reads the resource spans of OTLP's protobuf one after the other.
func (s *source) readProto(r *bufio.Reader) error {
	for n := 0; ; n++ {
		raw, err := readField(r)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case cut(err):
			s.report(&Problem{Err: errors.New("the last resource spans are cut off; skipped"), Skipped: true})
			return nil
		case err != nil:
			s.report(&Problem{Err: err})
			return nil
		}
		td, err := unmarshalProto(raw)
		if err != nil {
			s.report(&Problem{Err: err})
			return nil
		}
		if err := s.add(td); err != nil {
			return err
		}
	}
}

// readField reads field 1, with its tag and its length.
func readField(r *bufio.Reader) ([]byte, error) {
	tag, err := r.ReadByte()
	if err != nil {
		return nil, err
	}
	if tag != protoTag {
		return nil, errNotOTLP
	}
	size, err := binary.ReadUvarint(r)
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, errNotOTLP
	case size > MaxDocument:
		return nil, errTooLarge
	}
	raw := binary.AppendUvarint([]byte{protoTag}, size)
	return readN(r, raw, int64(size)) //nolint:gosec // bounded above
}

var (
	errNotOTLP  = errors.New("it is not OTLP protobuf of traces: give the file of the Collector's file exporter, or OTLP JSON")
	errTooLarge = fmt.Errorf("one document is larger than %d MiB: export it in smaller ones, such as one per line", MaxDocument>>20)
)

// readN appends n bytes to raw. Memory is taken for what comes, not for what a length
// announces.
func readN(r io.Reader, raw []byte, n int64) ([]byte, error) {
	buf := bytes.NewBuffer(raw)
	got, err := io.CopyN(buf, r, n)
	if got < n && (err == nil || errors.Is(err, io.EOF)) {
		err = io.ErrUnexpectedEOF
	}
	return buf.Bytes(), err
}

func unmarshalProto(raw []byte) (ptrace.Traces, error) {
	td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(raw)
	if err != nil || td.SpanCount() == 0 && td.ResourceSpans().Len() > 0 && !hasScopes(td) && len(raw) > 64 {
		return td, errNotOTLP
	}
	return td, nil
}

// hasScopes reports whether resource spans have scopes: other messages whose field 1 is a
// message parse as resource spans without any.
func hasScopes(td ptrace.Traces) bool {
	for _, rs := range td.ResourceSpans().All() {
		if rs.ScopeSpans().Len() > 0 {
			return true
		}
	}
	return false
}

// readFrames reads messages that each come behind their length. A message is OTLP JSON or
// protobuf, and may be compressed.
func (s *source) readFrames(r *bufio.Reader, depth int) error {
	var header [frameHeader]byte
	for {
		_, err := io.ReadFull(r, header[:])
		if errors.Is(err, io.EOF) {
			return nil
		}
		size := binary.BigEndian.Uint32(header[:])
		var raw []byte
		if err == nil && size > MaxDocument {
			err = errNotOTLP
		}
		if err == nil {
			raw, err = readN(r, nil, int64(size))
		}
		switch {
		case cut(err):
			s.report(&Problem{Err: errors.New("the last message is cut off; skipped"), Skipped: true})
			return nil
		case err != nil:
			s.report(&Problem{Err: err})
			return nil
		}
		switch form := formOf(raw); form {
		case formFramed, formUnknown:
			s.report(&Problem{Err: errNotOTLP})
			return nil
		default:
			problems := s.problems
			if err := s.readForm(bytes.NewReader(raw), depth+1); err != nil {
				return err
			}
			if s.problems > problems && s.spans == 0 {
				return nil // not what it seemed
			}
		}
	}
}

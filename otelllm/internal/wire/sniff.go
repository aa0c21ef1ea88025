package wire

import (
	"bytes"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// media is the kind of body that a content type announces.
type media uint8

const (
	mediaUnknown media = iota // none, or one that does not decide
	mediaSSE
	mediaJSON
	mediaMessages
	mediaForeign // no model answers with it, but servers that set no type label anything text/html
)

// mediaOf reads a Content-Type header.
func mediaOf(contentType string) media {
	// A malformed parameter does not make the type unknown: parameters are not read.
	base, _, _ := strings.Cut(contentType, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	kind, sub, _ := strings.Cut(base, "/")
	switch {
	case base == "text/event-stream":
		return mediaSSE
	case sub == "vnd.amazon.eventstream":
		return mediaMessages
	case sub == "json", strings.HasSuffix(sub, "+json"):
		return mediaJSON
	case kind == "image", kind == "audio", kind == "video", kind == "font", kind == "multipart",
		sub == "html", sub == "xml", sub == "css", sub == "javascript", sub == "pdf", strings.HasSuffix(sub, "+xml"):
		return mediaForeign
	default:
		return mediaUnknown
	}
}

// forms are the framings of a protocol in addition to SSE and one JSON object.
type forms uint8

const (
	formArray    forms = 1 << iota // JSON objects in an array
	formLines                      // JSON objects, one per line
	formMessages                   // AWS event-stream messages
	formChunks                     // events named chunk, each of which holds an event of the protocol
)

// sniffer detects the framing of a body by its first bytes. The content type alone is
// not enough: gateways stream under application/json, answer a stream request with an
// error in plain JSON under text/event-stream, and send no type or their language's
// default; the SDKs read all of these by their content.
type sniffer struct {
	media     media
	forms     forms
	violation semconv.TransportCause // set if the first bytes do not begin any framing

	buf [8]byte // the first bytes, without white space and a byte order mark
	n   uint8
}

// next reads one more byte of the beginning. White space before the first token is
// ignored in every framing. A body that does not begin any framing is read as SSE, which
// ignores lines that are not a field: a server's warning may precede the events.
func (s *sniffer) next(b byte) (m mode, decided bool) {
	if s.n == 0 && (b == ' ' || b == '\t' || b == '\r' || b == '\n') {
		return sniffing, false
	}
	s.buf[s.n] = b
	s.n++
	head := string(s.head())
	switch {
	case head == byteOrderMark:
		s.n = 0
		return sniffing, false
	case strings.HasPrefix(byteOrderMark, head):
		return sniffing, false
	case s.forms&formMessages != 0 && isMessages(s.head()):
		return packed, true
	case head == "[" && s.forms&formArray != 0:
		return listed, true
	case head == "{" && (s.media == mediaSSE || s.media == mediaMessages):
		return framed, true // an error, or an object before the events
	case head == "{" && s.forms&formLines != 0 && s.media == mediaJSON:
		return listed, true // mostly one object, which may be indented
	case head == "{" && s.forms&formLines != 0:
		return lined, true
	case head == "{":
		return whole, true
	case head == "<":
		s.violation = semconv.TransportCauseUnexpectedContentType
		return framed, true
	case s.media == mediaSSE:
		return framed, true
	}
	for _, field := range [...]string{":", "data:", "event:", "id:", "retry:"} {
		if head == field {
			return framed, true
		}
		if strings.HasPrefix(field, head) {
			return sniffing, false
		}
	}
	s.violation = semconv.TransportCauseMalformedEvent
	if s.media == mediaForeign {
		s.violation = semconv.TransportCauseUnexpectedContentType
	}
	return framed, true
}

// head is the bytes that were read.
func (s *sniffer) head() []byte { return s.buf[:s.n] }

type mode uint8

const (
	sniffing mode = iota // the framing is not known yet
	framed               // SSE
	whole                // one JSON document
	listed               // JSON objects in an array or in a sequence
	lined                // JSON objects, one per line
	packed               // AWS event-stream messages
	separate             // each Write is one payload
	over                 // the document or the array has ended: nothing may follow
	stopped              // gave up, or closed
)

// isMessages reports whether a body that begins with b may be event-stream messages:
// no message is as long as 16 MiB, so the first byte of its length is 0.
func isMessages(b []byte) bool { return bytes.HasPrefix(b, []byte{0}) }

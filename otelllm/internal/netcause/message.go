package netcause

import (
	"reflect"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// messages has the errors that the standard library identifies only by their text.
// Sources: net/http/transport.go, net/http/h2_bundle.go (golang.org/x/net/http2 has the
// same), net/http/internal/chunked.go.
var messages = map[string]finding{
	"net/http: timeout awaiting response headers": {cause: semconv.TransportCauseHeaderTimeout},
	"http2: timeout awaiting response headers":    {cause: semconv.TransportCauseHeaderTimeout},

	"net/http: TLS handshake timeout":                          {cause: semconv.TransportCauseTLS, code: codeTimeout},
	"http: server gave HTTP response to HTTPS client":          {cause: semconv.TransportCauseTLS, code: codeNotTLS},
	"http2: could not negotiate protocol mutually":             {cause: semconv.TransportCauseTLS, code: codeHandshake},
	"http: server closed idle connection":                      {cause: semconv.TransportCauseClosedBeforeHeaders},
	"http: idle connection timeout":                            {cause: semconv.TransportCauseClosedBeforeHeaders},
	"http: persistConn.readLoop exiting":                       {cause: semconv.TransportCauseClosedBeforeHeaders},
	"http2: client conn is closed":                             {cause: semconv.TransportCauseClosedBeforeHeaders},
	"http2: client conn not usable":                            {cause: semconv.TransportCauseClosedBeforeHeaders},
	"http2: client conn could not be established":              {cause: semconv.TransportCauseClosedBeforeHeaders},
	"http2: client connection lost":                            {cause: semconv.TransportCauseConnectionLost},
	"http: unexpected EOF reading trailer":                     {cause: semconv.TransportCauseBodyTruncated},
	"http2: response header list larger than advertised limit": {cause: semconv.TransportCauseMalformedEvent},

	"http2: Transport received Server's graceful shutdown GOAWAY": {cause: semconv.TransportCauseH2Goaway, code: "NO_ERROR"},

	// The framing of the body is malformed.
	"header line too long":                                                       {cause: semconv.TransportCauseMalformedEvent},
	"chunked encoding contains too much non-data":                                {cause: semconv.TransportCauseMalformedEvent},
	"malformed chunked encoding":                                                 {cause: semconv.TransportCauseMalformedEvent},
	"chunked line ends with bare LF":                                             {cause: semconv.TransportCauseMalformedEvent},
	"invalid CR in chunked line":                                                 {cause: semconv.TransportCauseMalformedEvent},
	"empty hex number for chunk length":                                          {cause: semconv.TransportCauseMalformedEvent},
	"invalid byte in chunk length":                                               {cause: semconv.TransportCauseMalformedEvent},
	"http chunk length too large":                                                {cause: semconv.TransportCauseMalformedEvent},
	"http: suspiciously long trailer after chunked body":                         {cause: semconv.TransportCauseMalformedEvent},
	"net/http: server replied with more than declared Content-Length; truncated": {cause: semconv.TransportCauseMalformedEvent},

	// The request itself is invalid. It was not sent, or only in part.
	"http: nil Request.URL":                                    {cause: semconv.TransportCauseInvalidURL},
	"http: no Host in request URL":                             {cause: semconv.TransportCauseInvalidURL},
	"http: Request.Write on Request with no Host or URL set":   {cause: semconv.TransportCauseInvalidURL},
	"http2: unsupported scheme":                                {cause: semconv.TransportCauseInvalidURL},
	"net/http: can't write control character in Request.URL":   {cause: semconv.TransportCauseInvalidURL},
	"http: nil Request.Header":                                 {cause: semconv.TransportCauseInvalidRequest},
	"http: invalid Host header":                                {cause: semconv.TransportCauseInvalidRequest},
	"invalid Host header":                                      {cause: semconv.TransportCauseInvalidRequest}, // HTTP/2
	"http2: request body larger than specified content length": {cause: semconv.TransportCauseInvalidRequest},

	"net/http: cannot rewind body after connection loss": {cause: semconv.TransportCauseClosedBeforeHeaders},
}

// messagePrefixes has messages with a fixed beginning and a variable rest. The rest is
// never read, except if it must be one of a closed list.
var messagePrefixes = []struct {
	text    string
	finding finding
}{
	{`unsupported protocol scheme "`, finding{cause: semconv.TransportCauseInvalidURL}},
	{`invalid request :path "`, finding{cause: semconv.TransportCauseInvalidURL}}, // HTTP/2
	{"net/http: invalid header ", finding{cause: semconv.TransportCauseInvalidRequest}},
	{"net/http: invalid trailer ", finding{cause: semconv.TransportCauseInvalidRequest}},
	{`net/http: invalid method "`, finding{cause: semconv.TransportCauseInvalidRequest}},
	{"invalid HTTP header ", finding{cause: semconv.TransportCauseInvalidRequest}}, // HTTP/2, as are the next three
	{"invalid HTTP trailer ", finding{cause: semconv.TransportCauseInvalidRequest}},
	{"invalid Transfer-Encoding request header: ", finding{cause: semconv.TransportCauseInvalidRequest}},
	{"invalid Connection request header: ", finding{cause: semconv.TransportCauseInvalidRequest}},
	{"http: ContentLength=", finding{cause: semconv.TransportCauseInvalidRequest}},
	{"http: Request.ContentLength=", finding{cause: semconv.TransportCauseInvalidRequest}},
	{`malformed HTTP response "`, finding{cause: semconv.TransportCauseMalformedEvent}},
	{`malformed HTTP version "`, finding{cause: semconv.TransportCauseMalformedEvent}},
	{`malformed HTTP status code "`, finding{cause: semconv.TransportCauseMalformedEvent}},
	{"malformed MIME header", finding{cause: semconv.TransportCauseMalformedEvent}}, // textproto.ProtocolError
	{"net/http: server response headers exceeded ", finding{cause: semconv.TransportCauseMalformedEvent}},
}

// fromMessage reads an error for which the standard library has no type.
func fromMessage(err error, at semconv.TransportStage) finding {
	text, ok := standardMessage(err)
	if !ok {
		return finding{}
	}
	if at != semconv.TransportStageBody && isCutLine(text) {
		return finding{cause: semconv.TransportCauseClosedBeforeHeaders}
	}
	return fromText(text)
}

// isCutLine reports whether text says that a line of the response's head is malformed, and
// the line is the beginning of a well-formed one. net/http takes the bytes before an EOF
// as a whole line, so a connection that was closed within a line looks like this.
func isCutLine(text string) bool {
	if line, ok := quotedAfter(text, `malformed HTTP response "`); ok {
		const version = "HTTP/1."
		return line != "" && strings.HasPrefix(version, line[:min(len(line), len(version))]) && len(line) <= len("HTTP/1.1")
	}
	if code, ok := quotedAfter(text, `malformed HTTP status code "`); ok {
		return len(code) < len("200") && strings.Trim(code, "0123456789") == ""
	}
	if strings.HasPrefix(text, "malformed MIME header line: ") && strings.HasSuffix(text, "\r") { // Go 1.25 does not quote it
		return true
	}
	for _, before := range []string{`malformed MIME header: missing colon: "`, `malformed MIME header line: "`} {
		if line, ok := quotedAfter(text, before); ok {
			// A carriage return remains only if no line feed followed it.
			return strings.HasSuffix(line, `\r`) || line != "" && strings.Trim(line, tokenBytes) == ""
		}
	}
	return false
}

// quotedAfter returns the quoted text after the prefix before, which ends with the opening
// quote.
func quotedAfter(text, before string) (string, bool) {
	rest, ok := strings.CutPrefix(text, before)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, `"`)
}

// tokenBytes are the bytes allowed in a header name (RFC 9110, section 5.6.2).
const tokenBytes = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

func fromText(text string) finding {
	if s, ok := messages[text]; ok {
		return s
	}
	for i := range messagePrefixes {
		if strings.HasPrefix(text, messagePrefixes[i].text) {
			return messagePrefixes[i].finding
		}
	}
	if code, ok := strings.CutPrefix(text, "http2: Transport received GOAWAY from server ErrCode:"); ok {
		return finding{cause: semconv.TransportCauseH2Goaway, code: knownH2Code(code)}
	}
	if rest, ok := strings.CutPrefix(text, "stream error: stream ID "); ok {
		return fromStreamErrorText(rest)
	}
	if inner, ok := strings.CutPrefix(text, "http2: Transport: cannot retry err ["); ok {
		if inner, ok = strings.CutSuffix(inner, "] after Request.Body was written; define Request.GetBody to avoid this error"); ok {
			return fromText(inner)
		}
	}
	return finding{}
}

// fromStreamErrorText reads "7; REFUSED_STREAM" or "7; REFUSED_STREAM; cause", the end of
// an HTTP/2 stream error that net/http has included in another message.
func fromStreamErrorText(rest string) finding {
	rest = strings.TrimLeft(rest, "0123456789")
	rest, ok := strings.CutPrefix(rest, "; ")
	if !ok {
		return finding{}
	}
	code, _, _ := strings.Cut(rest, ";")
	return finding{cause: semconv.TransportCauseH2StreamReset, code: knownH2Code(code)}
}

// standardMessage returns the message of an error whose type belongs to one of the
// packages in which net/http creates its errors. It does not ask any other type for its
// message, which may be free text.
func standardMessage(err error) (string, bool) {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.PkgPath() {
	case "errors", "net/http", "net/textproto", "golang.org/x/net/http2", "net/http/internal/http2":
		return err.Error(), true
	default:
		return "", false
	}
}

// bareMessage returns the message of an error created by errors.New.
func bareMessage(err error) (string, bool) {
	if reflect.TypeOf(err).String() != "*errors.errorString" {
		return "", false
	}
	return err.Error(), true
}

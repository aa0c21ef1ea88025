package netcause

import (
	"errors"
	"reflect"
	"strconv"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// h2Codes are the HTTP/2 error codes (RFC 9113, section 7).
var h2Codes = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
	"STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR",
	"CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

func h2Code(n uint64) string {
	if n < uint64(len(h2Codes)) {
		return h2Codes[n]
	}
	return "0x" + strconv.FormatUint(n, 16)
}

// knownH2Code returns text if it is the name of an error code, and "" otherwise.
func knownH2Code(text string) string {
	for _, name := range h2Codes {
		if text == name {
			return name
		}
	}
	return ""
}

// streamError has the fields of net/http's bundled StreamError, whose As method copies
// itself into any struct with these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

// Error makes streamError a target for errors.As.
func (streamError) Error() string { return "http2 stream error" }

// fromHTTP2 reads the errors of net/http's bundled HTTP/2 and of golang.org/x/net/http2.
// Their types are not exported, or would add a dependency: they are recognized by name and
// read by field.
func fromHTTP2(err error) finding {
	t := reflect.TypeOf(err)
	switch t.PkgPath() {
	case "net/http", "net/http/internal/http2", "golang.org/x/net/http2":
	default:
		return finding{}
	}
	v := reflect.ValueOf(err)
	switch strings.TrimPrefix(t.Name(), "http2") {
	case "StreamError":
		var s streamError
		if errors.As(err, &s) {
			return finding{cause: semconv.TransportCauseH2StreamReset, code: h2Code(uint64(s.Code))}
		}
		return finding{cause: semconv.TransportCauseH2StreamReset, code: codeField(v, "Code")}
	case "GoAwayError":
		return finding{cause: semconv.TransportCauseH2Goaway, code: codeField(v, "ErrCode")}
	case "ConnectionError":
		if v.CanUint() {
			return finding{cause: semconv.TransportCauseConnectionLost, code: h2Code(v.Uint())}
		}
	}
	return finding{}
}

// codeField returns the error code in the field with that name.
func codeField(v reflect.Value, name string) string {
	if v.Kind() != reflect.Struct {
		return ""
	}
	if f := v.FieldByName(name); f.IsValid() && f.CanUint() {
		return h2Code(f.Uint())
	}
	return ""
}

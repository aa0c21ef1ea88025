package netcause

import (
	"reflect"
	"strconv"

	"github.com/otelllm/otelllm-go/semconv"
)

// Close codes of a WebSocket that say that no close frame came (RFC 6455, 7.4.1).
const (
	closeAbnormal = 1006
	closeTLS      = 1015
)

// closeSign reads the close of a WebSocket, by the shape that its error has in the
// libraries for Go (coder/websocket, gorilla/websocket): a type CloseError with the
// code of the close frame. A close frame that comes before the answer is whole ends
// the stream in good order, but too early.
func fromCloseError(err error) finding {
	v := reflect.ValueOf(err)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || v.Type().Name() != "CloseError" {
		return finding{}
	}
	code := v.FieldByName("Code")
	if !code.IsValid() || !code.CanInt() || code.Int() < 1000 || code.Int() > 4999 {
		return finding{}
	}
	s := finding{cause: semconv.TransportCauseCleanEOF, code: "WS_" + strconv.FormatInt(code.Int(), 10)}
	if code.Int() == closeAbnormal || code.Int() == closeTLS {
		s.cause = semconv.TransportCauseConnectionLost
	}
	return s
}

package netcause

import (
	"reflect"
	"strconv"

	"github.com/otelllm/otelllm-go/semconv"
)

// WebSocket close codes that mean that no close frame was received (RFC 6455, section
// 7.4.1).
const (
	closeAbnormal = 1006
	closeTLS      = 1015
)

// fromCloseError reads the close error of a WebSocket by the form that it has in the
// libraries for Go (coder/websocket, gorilla/websocket): a type CloseError with the code
// of the close frame. A close frame before the answer is complete ends the stream cleanly,
// but too early.
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

package netcause_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/semconv"
)

// FuzzOf passes errors with arbitrary messages and nesting to Of. It must never fail, and
// what it returns must come from closed lists, never from a message.
func FuzzOf(f *testing.F) {
	for _, text := range []string{
		"http2: client connection lost", "http2: Transport received GOAWAY from server ErrCode:NO_ERROR", "malformed HTTP response \"x\"",
		"http2: Transport: cannot retry err [stream error: stream ID 7; CANCEL] after Request.Body was written; define Request.GetBody to avoid this error",
		"Forbidden", `malformed HTTP response "HTTP/1"`, `malformed MIME header: missing colon: "Cont"`, "stream error: stream ID ", "http2: Transport: cannot retry err [",
	} {
		f.Add(text, uint8(7), uint8(3), uint16(104))
	}
	code := regexp.MustCompile(`^([A-Z][A-Z0-9_]*|0x[0-9a-f]+|[1-5][0-9][0-9])?$`)
	ops := []string{"dial", "read", "write", "proxyconnect", "socks connect", "remote error", "close"}
	f.Fuzz(func(t *testing.T, text string, stage, nest uint8, errno uint16) {
		err := errors.New(text)
		for i := range nest % 8 {
			switch i % 4 {
			case 0:
				err = fmt.Errorf("%s: %w", text, err)
			case 1:
				err = &net.OpError{Op: ops[int(nest)%len(ops)], Err: err}
			case 2:
				err = errors.Join(err, syscall.Errno(errno))
			case 3:
				err = errors.Join(syscall.Errno(errno), io.EOF, err)
			}
		}
		at := semconv.TransportStage(stage % 8)
		got := netcause.Of(err, at)
		assert.NotEmpty(t, got.Chain)
		assert.LessOrEqual(t, len(got.Chain), 5)
		assert.Regexp(t, code, got.Code)
		_ = netcause.Cancelled(t.Context(), err, time.Now())
		_ = netcause.ClosedHere(err)
		assert.NotEmpty(t, netcause.RootType(err))
	})
}

package httpcall

import (
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// Preview reads the body of a request before it is sent, if it lies in memory: if
// http.NewRequest made it of a bytes.Reader, bytes.Buffer or strings.Reader, in the wrapper
// of an SDK or not. It leaves the body unchanged and never calls GetBody, which belongs to the
// application, may be slow, and may rewind the very reader that is about to be sent.
//
// The body is looked at when it is needed, and decoded once. A Preview is not safe for
// concurrent use. It is of no use once the request is being sent.
type Preview struct {
	req     *http.Request
	looked  bool
	present bool // the body lies in memory
	read    bool // it could be read: plain is the body without its encoding
	plain   []byte
	decoded *decoded // which plain is of; nil: it had no encoding
}

// NewPreview returns the Preview of req. Close it.
func NewPreview(req *http.Request) *Preview { return &Preview{req: req} }

// Close releases the memory of the body.
func (v *Preview) Close() {
	v.decoded.release()
	*v = Preview{req: v.req, looked: true}
}

func (v *Preview) look() {
	if v.looked {
		return
	}
	v.looked = true
	if v.req.Body == nil || v.req.Body == http.NoBody {
		return
	}
	var body []byte
	if body, v.present = inMemory(v.req.Body); !v.present || len(body) > maxRequest {
		return
	}
	if encoded, readable := encodingsOf(v.req.Header); len(encoded) == 0 && readable {
		v.read, v.plain = true, body
	} else if v.decoded = decode(encoded, body, maxDecoding); v.decoded != nil {
		v.read, v.plain = true, v.decoded.plain
	}
}

// Contents reads the body as that of a request of p. It reports false if the body has to be
// read as it is sent.
func (v *Preview) Contents(p wire.Protocol) (c Contents, ok bool) {
	if wire.Resumed(p) != "" {
		// The provider goes on with such a response whether its stream is read or not.
		return Contents{Stream: classify.Yes, Request: wire.Request{Background: true}}, true
	}
	if v.req.Body == nil || v.req.Body == http.NoBody {
		return Contents{}, true
	}
	if v.look(); !v.read {
		return Contents{}, v.present
	}
	return Parse(p, v.plain), true
}

// Present reports whether the body lies in memory and is not empty. Whether it can be
// decoded is not known before it is read.
func (v *Preview) Present() bool {
	if v.looked {
		return len(v.plain) > 0
	}
	if v.req.Body == nil || v.req.Body == http.NoBody {
		return false
	}
	body, _ := inMemory(v.req.Body)
	return len(body) > 0 && len(body) <= maxRequest
}

// Read calls read with the body, which read must neither keep nor change. It reports false
// if the body does not lie in memory, or cannot be decoded.
func (v *Preview) Read(read func(body []byte)) bool {
	if v.look(); !v.read {
		return false
	}
	read(v.plain)
	return true
}

// inMemory returns the unread part of a body that lies in memory, in place: the caller must
// neither keep nor change it.
func inMemory(body io.ReadCloser) ([]byte, bool) {
	var rest sameBytes
	switch r := unwrapped(belowClose(body)).(type) {
	case *bytes.Buffer:
		return r.Bytes(), true
	case *bytes.Reader:
		again := *r
		_, _ = again.WriteTo(&rest)
	case *strings.Reader:
		again := *r
		_, _ = again.WriteTo(&rest)
	default:
		return nil, false
	}
	return rest, true
}

// belowClose returns the body below the wrapper of openai-go and other SDKs by the same
// generator, which changes Close alone. Otherwise it returns body.
func belowClose(body io.ReadCloser) io.ReadCloser {
	v := reflect.ValueOf(body)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return body
	}
	v = v.Elem()
	if t := v.Type(); t.Name() != "closeOnceReadCloser" || !strings.HasSuffix(t.PkgPath(), "/internal/requestconfig") {
		return body
	}
	if f := v.FieldByName("ReadCloser"); f.IsValid() && f.CanInterface() {
		if below, ok := reflect.TypeAssert[io.ReadCloser](f); ok {
			return below
		}
	}
	return body
}

// unwrapped returns what io.NopCloser has wrapped, or nil.
func unwrapped(body io.ReadCloser) any {
	t := reflect.TypeOf(body)
	if t.PkgPath() != "io" || t.Kind() != reflect.Struct || t.NumField() != 1 || t.Field(0).Name != "Reader" {
		return nil
	}
	return reflect.ValueOf(body).Field(0).Interface()
}

// sameBytes takes what a reader in memory writes, in one piece and without a copy.
type sameBytes []byte

// Write implements io.Writer. It keeps p, which belongs to the reader.
func (s *sameBytes) Write(p []byte) (int, error) {
	*s = p
	return len(p), nil
}

// Misdeclared reports whether the body of req lies in memory and is not as long as req
// claims.
func Misdeclared(req *http.Request) bool {
	if req.Body == nil || req.ContentLength <= 0 {
		return false
	}
	body, ok := inMemory(req.Body)
	return ok && int64(len(body)) != req.ContentLength
}

package httpcall

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
)

// BodyLimit does what an [http.MaxBytesReader] does to the connection when its limit is
// hit. It can only do so itself with net/http's own writer for HTTP/1: by a method that is
// not exported, which no wrapper can have.
//
// The reader asks for one byte more than is allowed, and reads no more once it has got it.
// So the limit is hit where it got all of a piece that it had cut short, and nothing was
// read between that and the response.
type BodyLimit struct {
	w    http.ResponseWriter // of net/http
	full atomic.Bool         // the last Read was of such a piece
}

// NewBodyLimit returns the limit of the request that w, net/http's own writer, answers.
func NewBodyLimit(w http.ResponseWriter) *BodyLimit { return &BodyLimit{w: w} }

// read sees what one Read of the request's body returned. A nil *BodyLimit sees nothing.
func (l *BodyLimit) read(p []byte, n int, err error) {
	if l == nil {
		return
	}
	full := err == nil && n == len(p) && len(p) < cap(p) && limited()
	if full || l.full.Load() {
		l.full.Store(full)
	}
}

// Enforce tells the writer, before the response begins, that the limit was hit.
func (l *BodyLimit) Enforce() {
	if l != nil && l.full.CompareAndSwap(true, false) {
		_, _ = http.MaxBytesReader(l.w, io.NopCloser(strings.NewReader("x")), 0).Read(make([]byte, 1))
	}
}

// limited: the Read that is going on is made by an http.MaxBytesReader.
func limited() bool {
	var callers [8]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		if frame.Function == "net/http.(*maxBytesReader).Read" {
			return true
		}
		if !more {
			return false
		}
	}
}

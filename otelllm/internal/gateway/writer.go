package gateway

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"
)

// writer returns w with s seeing what is written. It has the optional interfaces that w has.
func (s *Request) writer(w http.ResponseWriter) http.ResponseWriter {
	write := func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
		return func(p []byte) (int, error) {
			s.header(http.StatusOK, w.Header())
			n, err := next(p)
			s.wrote(p[:max(0, min(n, len(p)))], err)
			return n, err
		}
	}
	failing, fails := w.(flushErrorer)
	flush := flushFunc(func() error {
		s.header(http.StatusOK, w.Header())
		err := failing.FlushError()
		s.wrote(nil, err)
		return err
	})
	hooked := httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(status int) {
				s.header(status, w.Header())
				next(status)
			}
		},
		Write: write,
		// What is copied into w is seen where it is written.
		ReadFrom: func(httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) {
				return io.Copy(writerFunc(write(w.Write)), onlyReader{src})
			}
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			if fails {
				return func() { _ = flush() }
			}
			return func() {
				s.header(http.StatusOK, w.Header())
				next()
			}
		},
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, rw, err := next()
				if err == nil {
					s.hijacked()
				}
				return conn, rw, err
			}
		},
	})
	if !fails {
		return hooked
	}
	_, strings := w.(io.StringWriter)
	return withFlushError(hooked, strings, flush, func(text string) (int, error) { return write(w.Write)([]byte(text)) })
}

// withFlushError adds FlushError to w, which httpsnoop made and does not know it.
// http.ResponseController calls FlushError rather than Flush, which loses the error.
// withFlushError knows the interfaces that the writers of HTTP/1, HTTP/2 and HTTP/3 have. A
// writer of any other kind stays as httpsnoop made it.
func withFlushError(w http.ResponseWriter, strings bool, flush flushFunc, write stringFunc) http.ResponseWriter {
	unwrapper, _ := w.(httpsnoop.Unwrapper)
	flusher, flushes := w.(http.Flusher)
	notifier, notifies := w.(closeNotifier)
	hijacker, hijacks := w.(http.Hijacker)
	reader, reads := w.(io.ReaderFrom)
	pusher, pushes := w.(http.Pusher)
	flushable := flushWriter{w, unwrapper, flusher, flush}
	switch (shape{flushes, strings, notifies, hijacks, reads, pushes}) {
	case shape{flushes: true, strings: true, notifies: true, hijacks: true, reads: true}: // HTTP/1
		return struct {
			flushWriter
			io.StringWriter
			closeNotifier
			http.Hijacker
			io.ReaderFrom
		}{flushable, write, notifier, hijacker, reader}
	case shape{flushes: true, strings: true, notifies: true, pushes: true}: // HTTP/2
		return struct {
			flushWriter
			io.StringWriter
			closeNotifier
			http.Pusher
		}{flushable, write, notifier, pusher}
	case shape{flushes: true}: // HTTP/3
		return flushable
	default:
		return w
	}
}

// shape says which optional interfaces a writer has.
type shape struct{ flushes, strings, notifies, hijacks, reads, pushes bool }

// flushWriter is a writer whose Flush can report a failure.
type flushWriter struct {
	http.ResponseWriter
	httpsnoop.Unwrapper
	http.Flusher
	flushErrorer
}

type flushErrorer interface{ FlushError() error }

// closeNotifier is http.CloseNotifier, which is deprecated but not gone.
type closeNotifier interface{ CloseNotify() <-chan bool }

type flushFunc func() error

func (f flushFunc) FlushError() error { return f() }

type stringFunc func(string) (int, error)

func (f stringFunc) WriteString(text string) (int, error) { return f(text) }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// onlyReader hides a reader's WriteTo, so that its bytes pass the hook in the pieces in
// which a reader gets them.
type onlyReader struct{ io.Reader }

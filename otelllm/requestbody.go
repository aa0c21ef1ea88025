package otelllm

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

const (
	// maxRequest bounds a request body that is read where it lies, in bytes.
	maxRequest = wire.MaxEvent
	// maxRequestCopy bounds a request body that has to be copied to be read.
	maxRequestCopy = 8 << 20
)

// asked is what a request's body says. In its zero value it was not observed.
type asked struct {
	wire.Request

	stream classify.Fact
	read   bool // the body was there to be read, whatever it turned out to be
}

// readAsked reads a whole body. Of a body that is not what it should be only the
// model is kept: a list of ids that was cut would claim that others are absent.
func readAsked(p wire.Protocol, body []byte) (a asked) {
	defer func() {
		if recover() != nil {
			a = asked{read: true}
		}
	}()
	r, err := p.ReadRequest(body)
	if err != nil {
		return asked{Request: wire.Request{Model: r.Model}, read: true}
	}
	a = asked{Request: r, read: true}
	if !r.StreamUnknown {
		a.stream = classify.FactOf(r.Stream)
	}
	return a
}

// streamsByPath: a request streams whatever its body says.
func streamsByPath(p wire.Protocol) bool {
	return readAsked(p, saysNoStream).stream == classify.Yes
}

var saysNoStream = []byte(`{"stream":false}`)

// readAhead reads the body of a request that can be had twice, before it is sent.
// It reports false where the body has to be read as it is sent. It never touches
// req.Body.
func readAhead(req *http.Request, p wire.Protocol) (a asked, ok bool) {
	if req.Body == nil || req.Body == http.NoBody {
		return asked{}, true
	}
	if req.GetBody == nil {
		return asked{}, false
	}
	defer func() {
		if recover() != nil { // GetBody is the application's
			a, ok = asked{}, true
		}
	}()
	body, err := req.GetBody()
	if err != nil {
		return asked{}, true // it is not for us to complain
	}
	defer body.Close()
	s := bodies.Get().(*inPlace)
	s.protocol, s.length = p, req.ContentLength
	if _, err := io.Copy(s, body); err != nil {
		return asked{}, true
	}
	if !s.read {
		s.asked = readAsked(p, s.buf)
	}
	a = s.asked
	*s = inPlace{}
	bodies.Put(s)
	return a, true
}

// bodies are empty, to be used again.
var bodies = sync.Pool{New: func() any { return &inPlace{} }}

// inPlace takes a body from an io.Copy. A body in memory writes itself in one
// piece (bytes.Reader, bytes.Buffer), which is read where it lies: megabytes are
// neither copied nor kept.
type inPlace struct {
	protocol wire.Protocol
	length   int64 // as announced; not positive: unknown

	asked asked
	read  bool
	buf   []byte
}

var errTooLong = errors.New("otelllm: request body too long to be read")

func (s *inPlace) Write(p []byte) (int, error) {
	switch {
	case s.read:
		return 0, errTooLong // more than was announced
	case len(s.buf) == 0 && int64(len(p)) == s.length && len(p) <= maxRequest:
		s.asked, s.read = readAsked(s.protocol, p), true
	case len(s.buf)+len(p) > maxRequestCopy:
		return 0, errTooLong
	default:
		if s.buf == nil && s.length > int64(len(p)) && s.length <= maxRequestCopy {
			s.buf = make([]byte, 0, s.length)
		}
		s.buf = append(s.buf, p...)
	}
	return len(p), nil
}

// requestTee is the body of a request that cannot be had twice. It passes what is
// read on as it is and keeps a bounded copy until the body is whole.
type requestTee struct {
	io.ReadCloser

	protocol wire.Protocol
	length   int64
	dog      *dog // hears of a body that asks for a stream

	mu sync.Mutex
	// Everything below is guarded by mu: the transport reads the body on a
	// goroutine of its own, which may outlive RoundTrip.
	buf   []byte
	over  bool // whole, or given up
	asked asked
}

// Read implements io.Reader.
func (t *requestTee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if t.keep(p[:max(0, min(n, len(p)))], err == io.EOF) {
		t.dog.asked(time.Now())
	}
	return n, err
}

// keep reports whether the body is whole by now, and asks for a stream.
func (t *requestTee) keep(p []byte, end bool) (streams bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	if len(t.buf)+len(p) > maxRequestCopy {
		t.buf, t.over = nil, true
		return false
	}
	t.buf = append(t.buf, p...)
	if !end && (t.length <= 0 || int64(len(t.buf)) != t.length) {
		return false
	}
	t.asked = readAsked(t.protocol, t.buf)
	t.buf, t.over = nil, true
	return t.asked.stream == classify.Yes
}

// drop forgets what has been kept of a body that was not sent whole.
func (t *requestTee) drop() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf, t.over = nil, true
}

// said is what the body said, if it has been sent whole.
func (t *requestTee) said() asked {
	if t == nil {
		return asked{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked
}

package otelllm

import (
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strings"
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

// readAhead reads the body of a request before it is sent, where it lies in memory: as
// http.NewRequest has it for a bytes.Reader, bytes.Buffer or strings.Reader. It reports
// false where the body has to be read as it is sent. It leaves req.Body as it is, and never
// calls GetBody: that is the application's, may take its time, and may rewind the very
// reader that is about to be sent.
func readAhead(req *http.Request, p wire.Protocol) (a asked, ok bool) {
	if req.Body == nil || req.Body == http.NoBody {
		return asked{}, true
	}
	body, ok := inMemory(req.Body)
	if !ok || len(body) > maxRequest {
		return asked{}, ok
	}
	return readAsked(p, body), true
}

// inMemory is what is left to be read of a body that lies in memory. It is read where it
// lies, and must not be kept or changed.
func inMemory(body io.ReadCloser) ([]byte, bool) {
	var here lent
	switch r := unwrapped(body).(type) {
	case *bytes.Buffer:
		return r.Bytes(), true
	case *bytes.Reader:
		again := *r
		_, _ = again.WriteTo(&here)
	case *strings.Reader:
		again := *r
		_, _ = again.WriteTo(&here)
	default:
		return nil, false
	}
	return here, true
}

// unwrapped is what io.NopCloser has wrapped into body.
func unwrapped(body io.ReadCloser) any {
	t := reflect.TypeOf(body)
	if t.PkgPath() != "io" || t.Kind() != reflect.Struct || t.NumField() != 1 || t.Field(0).Name != "Reader" {
		return nil
	}
	return reflect.ValueOf(body).Field(0).Interface()
}

// lent is what a reader in memory writes, in one piece.
type lent []byte

// Write implements io.Writer. It keeps p, which belongs to the reader.
func (l *lent) Write(p []byte) (int, error) {
	*l = p
	return len(p), nil
}

// misdeclared: the body of req lies in memory, and is not as long as req claims.
func misdeclared(req *http.Request) bool {
	if req.Body == nil || req.ContentLength <= 0 {
		return false
	}
	body, ok := inMemory(req.Body)
	return ok && int64(len(body)) != req.ContentLength
}

// requestTee is the body of a request that does not lie in memory. It passes what is read
// on as it is and keeps a bounded copy until the body is whole.
type requestTee struct {
	io.ReadCloser

	protocol wire.Protocol
	or       wire.Protocol // the body may be a call of this one as well; nil: it may not
	unsure   bool          // only the body tells whether it is a model call
	length   int64         // as announced; not positive: unknown
	dog      *dog          // hears of a body that asks for a stream
	limit    *bodyLimit    // hears of every Read; nil: it need not

	mu sync.Mutex
	// Everything below is guarded by mu: the transport reads the body on a
	// goroutine of its own, which may outlive RoundTrip.
	tries  int // to send it, after the first
	buf    []byte
	over   bool // whole, or given up
	asked  asked
	count  int64 // bytes of this try
	wrong  bool  // it is not as long as announced
	failed error // of the reader itself
}

// Read implements io.Reader.
func (t *requestTee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.limit.read(p, n, err)
	t.saw(0, p[:max(0, min(n, len(p)))], err)
	return n, err
}

// again is a request's GetBody, which net/http calls to send the request once more. The
// body that it returns is seen, too, and the one before it no longer.
func (t *requestTee) again(get func() (io.ReadCloser, error)) func() (io.ReadCloser, error) {
	if get == nil {
		return nil
	}
	return func() (io.ReadCloser, error) {
		body, err := get()
		if err != nil || body == nil {
			return body, err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.tries++
		t.buf, t.count, t.wrong, t.failed = t.buf[:0], 0, false, nil
		return &nextTry{body, t, t.tries}, nil
	}
}

// nextTry is the body of a request that is sent once more.
type nextTry struct {
	io.ReadCloser

	tee *requestTee
	try int
}

// Read implements io.Reader.
func (b *nextTry) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.tee.saw(b.try, p[:max(0, min(n, len(p)))], err)
	return n, err
}

// saw takes what one Read returned.
func (t *requestTee) saw(try int, p []byte, err error) {
	if t.keep(try, p, err) {
		t.dog.asked(time.Now())
	}
}

// keep reports whether the body is whole by now, and asks for a stream.
func (t *requestTee) keep(try int, p []byte, err error) (streams bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if try != t.tries {
		return false
	}
	t.count += int64(len(p))
	end := err == io.EOF //nolint:errorlint // bodies return it bare
	if err != nil && !end {
		t.failed = err
	}
	if t.length > 0 && (t.count > t.length || end && t.count < t.length) {
		t.wrong = true
	}
	if t.over {
		return false
	}
	if len(t.buf)+len(p) > maxRequestCopy {
		t.buf, t.over = nil, true
		return false
	}
	if t.buf == nil && t.length > int64(len(p)) && t.length <= maxRequestCopy {
		t.buf = make([]byte, 0, t.length)
	}
	t.buf = append(t.buf, p...)
	if !end && (t.length <= 0 || int64(len(t.buf)) != t.length) {
		return false
	}
	t.asked = readAsked(t.protocol, t.buf)
	if t.or != nil && !t.asked.IsCall {
		if other := readAsked(t.or, t.buf); other.IsCall {
			t.protocol, t.asked = t.or, other
		}
	}
	t.buf, t.over = nil, true
	return t.asked.stream == classify.Yes
}

// readUnsent reads the body of a request of which nothing was read, once sending it has
// failed: GetBody is on no request's way any more. A connection that was refused says
// nothing of the history, and the verdict would have to be careful without it.
func (t *requestTee) readUnsent(get func() (io.ReadCloser, error)) {
	if t == nil || get == nil {
		return
	}
	t.mu.Lock()
	try, untouched := t.tries, !t.over && t.count == 0 && t.failed == nil
	t.mu.Unlock()
	if !untouched {
		return
	}
	defer func() { _ = recover() }() // GetBody is the application's
	body, err := get()
	if err != nil {
		return
	}
	defer body.Close()
	all, err := io.ReadAll(io.LimitReader(body, maxRequestCopy+1))
	if err == nil && (t.length <= 0 || int64(len(all)) == t.length) {
		t.keep(try, all, io.EOF)
	}
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

// spoken is the protocol that the body turned out to be of.
func (t *requestTee) spoken() wire.Protocol {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.protocol
}

// foreign: the body has been sent whole, and is not that of a model call.
func (t *requestTee) foreign() bool {
	if t == nil || !t.unsure {
		return false
	}
	said := t.said()
	return said.read && !said.IsCall
}

// fault is what the body itself did: whether it was not as long as announced, and the
// error by which it failed, nil for none.
func (t *requestTee) fault() (wrong bool, failed error) {
	if t == nil {
		return false, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == http.ErrBodyReadAfterClose { //nolint:errorlint // itself: net/http's server has closed it
		return t.wrong, nil
	}
	return t.wrong, t.failed
}

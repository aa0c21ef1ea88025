package httpcall

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

const (
	// maxRequest bounds a request body that is read in memory, in bytes.
	maxRequest = wire.MaxEvent
	// MaxCopy bounds a request body that has to be copied to be read, in bytes.
	MaxCopy = 8 << 20
)

// Contents is what a request's body says. The zero value was not observed.
type Contents struct {
	wire.Request

	Stream classify.Fact
	Read   bool // the body was there to be read, whether it is well-formed or not

	wellFormed bool
}

// Parse reads a whole body. Of a malformed body only the model is kept: a list of ids that
// was cut would claim that the others are absent.
func Parse(p wire.Protocol, body []byte) (c Contents) {
	defer func() {
		if recover() != nil {
			c = Contents{Read: true}
		}
	}()
	r, err := p.ReadRequest(body)
	if err != nil {
		return Contents{Request: wire.Request{Model: r.Model}, Read: true}
	}
	c = Contents{Request: r, Read: true, wellFormed: true}
	if !r.StreamUnknown {
		c.Stream = classify.FactOf(r.Stream)
	}
	return c
}

// StreamsByPath reports whether a request of p streams whatever its body says.
func StreamsByPath(p wire.Protocol) bool {
	return Parse(p, saysNoStream).Stream == classify.Yes
}

var saysNoStream = []byte(`{"stream":false}`)

// Body is the body of a request that does not lie in memory. It passes on what is read and
// keeps a bounded copy until the body is whole. The methods that report what was read do
// nothing, and report nothing, on a nil *Body.
type Body struct {
	io.ReadCloser
	BodyConfig

	encodings encodings
	readable  bool // all of them can be undone

	mu sync.Mutex
	// Everything below is guarded by mu: the transport reads the body on a
	// goroutine of its own, which may outlive RoundTrip.
	tries    int // to send it, after the first
	buf      []byte
	over     bool // whole, or given up
	contents Contents
	count    int64 // bytes of this try
	wrong    bool  // it is not as long as announced
	failed   error // of the reader itself
}

// BodyConfig says what is known of a request before its body is read.
type BodyConfig struct {
	Protocol    wire.Protocol
	Alternative wire.Protocol // the body may be a call of this protocol instead; nil: it may not
	Unsure      bool          // only the body says whether the request is a model call
	Length      int64         // as announced; not positive: unknown
	Header      http.Header   // of the request; its encoding is read once
	Limit       *BodyLimit    // sees every Read; nil: none
	// OnRead, if not nil, is called with the body when it is whole and well-formed, and that
	// of a model call if that was not sure. It may not keep it.
	OnRead func(body []byte)
	// OnStream, if not nil, is called when the body is whole and asks for a stream.
	OnStream func(now time.Time)
}

// NewBody returns a Body that reads from body.
func NewBody(body io.ReadCloser, c BodyConfig) *Body {
	b := &Body{ReadCloser: body, BodyConfig: c}
	b.encodings, b.readable = encodingsOf(c.Header)
	b.Header = nil // it may be the caller's again
	return b
}

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.Limit.read(p, n, err)
	b.saw(0, p[:max(0, min(n, len(p)))], err)
	return n, err
}

// TrackGetBody wraps a request's GetBody, which net/http calls to send the request once more.
// The body that it returns is read from then on instead of the one before. Nil stays nil.
func (b *Body) TrackGetBody(get func() (io.ReadCloser, error)) func() (io.ReadCloser, error) {
	if get == nil {
		return nil
	}
	return func() (io.ReadCloser, error) {
		body, err := get()
		if err != nil || body == nil {
			return body, err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.tries++
		b.buf, b.count, b.wrong, b.failed = b.buf[:0], 0, false, nil
		return &nextTry{body, b, b.tries}, nil
	}
}

// nextTry is the body of a request that is sent once more.
type nextTry struct {
	io.ReadCloser

	body *Body
	try  int
}

// Read implements io.Reader.
func (b *nextTry) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.body.saw(b.try, p[:max(0, min(n, len(p)))], err)
	return n, err
}

// saw takes what one Read returned.
func (b *Body) saw(try int, p []byte, err error) {
	body := b.keep(try, p, err)
	if body == nil || !b.readable {
		return
	}
	if len(b.encodings) > 0 {
		d := decode(b.encodings, body, maxDecoding)
		if d == nil {
			return
		}
		defer d.release()
		body = d.plain
	}
	whole, streams := b.parse(body)
	if whole && b.OnRead != nil {
		b.OnRead(body)
	}
	if streams && b.OnStream != nil {
		b.OnStream(time.Now())
	}
}

// keep returns the body once it is whole, as it was sent. It is never nil then.
func (b *Body) keep(try int, p []byte, err error) (body []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if try != b.tries {
		return nil
	}
	b.count += int64(len(p))
	end := err == io.EOF //nolint:errorlint // bodies return it bare
	if err != nil && !end {
		b.failed = err
	}
	if b.Length > 0 && (b.count > b.Length || end && b.count < b.Length) {
		b.wrong = true
	}
	if b.over {
		return nil
	}
	if len(b.buf)+len(p) > MaxCopy {
		b.buf, b.over = nil, true
		return nil
	}
	if b.buf == nil && b.Length > int64(len(p)) && b.Length <= MaxCopy {
		b.buf = make([]byte, 0, b.Length)
	}
	b.buf = append(b.buf, p...)
	if !end && (b.Length <= 0 || int64(len(b.buf)) != b.Length) {
		return nil
	}
	body = b.buf
	if body == nil {
		body = []byte{}
	}
	b.buf, b.over = nil, true
	return body
}

// parse reads a body that is whole. It returns whether it is for OnRead, and whether it asks
// for a stream. By now the request may be sent once more: its body is the same.
func (b *Body) parse(body []byte) (whole, streams bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.contents = Parse(b.Protocol, body)
	if b.Alternative != nil && !b.contents.IsCall {
		if other := Parse(b.Alternative, body); other.IsCall {
			b.Protocol, b.contents = b.Alternative, other
		}
	}
	whole = b.contents.wellFormed && (b.contents.IsCall || !b.Unsure)
	return whole, b.contents.Stream == classify.Yes
}

// ReadUnsent reads the body of a request by its GetBody if sending failed before any of
// the body was read: a connection that was refused says nothing of the history, and the
// verdict would have to be careful without it. Nothing else calls GetBody any more then.
func (b *Body) ReadUnsent(get func() (io.ReadCloser, error)) {
	if b == nil || get == nil {
		return
	}
	b.mu.Lock()
	try, untouched := b.tries, !b.over && b.count == 0 && b.failed == nil
	b.mu.Unlock()
	if !untouched {
		return
	}
	defer func() { _ = recover() }() // GetBody is the application's
	body, err := get()
	if err != nil {
		return
	}
	defer body.Close()
	all, err := io.ReadAll(io.LimitReader(body, MaxCopy+1))
	if err == nil && (b.Length <= 0 || int64(len(all)) == b.Length) {
		b.saw(try, all, io.EOF)
	}
}

// Drop forgets what has been kept of a body that was not sent whole.
func (b *Body) Drop() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf, b.over = nil, true
}

// Contents returns what the body says, if it has been sent whole.
func (b *Body) Contents() Contents {
	if b == nil {
		return Contents{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.contents
}

// SpokenProtocol returns the protocol that the body turned out to have.
func (b *Body) SpokenProtocol() wire.Protocol {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Protocol
}

// Foreign reports whether the body has been sent whole and is not that of a model call.
func (b *Body) Foreign() bool {
	if b == nil || !b.Unsure {
		return false
	}
	c := b.Contents()
	return c.Read && !c.IsCall
}

// Fault returns what the body itself did wrong: whether it was not as long as announced,
// and the error that reading it failed with, or nil.
func (b *Body) Fault() (wrong bool, failed error) {
	if b == nil {
		return false, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed == http.ErrBodyReadAfterClose { //nolint:errorlint // itself: net/http's server has closed it
		return b.wrong, nil
	}
	return b.wrong, b.failed
}

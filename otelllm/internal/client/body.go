package client

import (
	"io"
	"net/http"
	"runtime"
	"sync"
)

// responseBody passes a response's body on and lets the attempt see it. Of methods that a consumer may
// look for, such as those of io.WriterTo, it has none: net/http's bodies have no others than a body's.
type responseBody struct {
	io.ReadCloser

	attempt *attempt
	cleanup runtime.Cleanup

	below, seen *http.Response // as the transport below and the consumer have it

	mu sync.Mutex
	// Everything below is guarded by mu: two Reads at once are a mistake of
	// the consumer, but net/http tolerates it.
	err   error // given in place of the body's own, from then on
	ended bool  // the trailers have been passed on
}

// replaced returns the error that was given in place of the body's own, or nil.
func (b *responseBody) replaced() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// finish passes on the trailers at the body's end. It returns what the consumer gets for
// err: replacement, if that is not nil, from now on.
func (b *responseBody) finish(err, replacement error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended && err == io.EOF { //nolint:errorlint // bodies return it bare
		b.ended, b.seen.Trailer = true, b.below.Trailer
	}
	if b.err == nil {
		b.err = replacement
	}
	if b.err != nil {
		return b.err
	}
	return err
}

// withBody returns resp with its body wrapped. If the consumer loses the body without
// closing it, a cleanup of the garbage collector ends the attempt, so neither the attempt
// nor the transport below may refer to the wrapper. HTTP/2 keeps the response that it
// returned while the stream lasts. Therefore the consumer gets a copy, and the trailers,
// which come with the body's end, are copied to it.
func withBody(resp *http.Response, a *attempt) *http.Response {
	seen := *resp // not with b in one allocation: a consumer may keep the response and lose the body
	b := &responseBody{ReadCloser: resp.Body, attempt: a, below: resp, seen: &seen}
	seen.Body = b
	b.cleanup = runtime.AddCleanup(b, (*attempt).dropped, a)
	return &seen
}

// Read implements io.Reader.
func (b *responseBody) Read(p []byte) (int, error) {
	if err := b.replaced(); err != nil {
		return 0, err
	}
	a := b.attempt
	a.watchdog.ReadStarted()
	n, err := b.ReadCloser.Read(p)
	var replacement error
	if !a.rec.Over() && a.read(p, n, err) && err != nil {
		b.cleanup.Stop()
		if given := a.errorForReader(err); given != err { //nolint:errorlint // whether it is another one
			replacement = given
		}
	}
	if err != nil {
		err = b.finish(err, replacement)
		a.watchdog.Release()
	}
	// b must not be collected before this.
	runtime.KeepAlive(b)
	return n, err
}

// Close implements io.Closer. The attempt ends first: what had been received when the
// consumer closed the body counts, not what closing does to it.
func (b *responseBody) Close() error {
	a := b.attempt
	if !a.rec.Over() {
		a.closed()
	}
	b.cleanup.Stop()
	err := b.ReadCloser.Close()
	a.watchdog.Release()
	runtime.KeepAlive(b)
	return err
}

// Undelivered is for a proxy whose client left before it got all of the last Read. The attempt ends.
func (b *responseBody) Undelivered() {
	b.attempt.undelivered()
	b.cleanup.Stop()
	runtime.KeepAlive(b)
}

// noBody ends the attempt of a response without a body. It returns what the consumer
// reads: body itself, unless its end is to be another error than io.EOF.
func noBody(body io.ReadCloser, a *attempt) io.ReadCloser {
	defer a.watchdog.Release()
	a.read(nil, 0, io.EOF)
	if given := a.errorForReader(io.EOF); given != io.EOF { //nolint:errorlint // whether it is another one
		return &responseBody{ReadCloser: http.NoBody, attempt: a, err: given}
	}
	return body
}

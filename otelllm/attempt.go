package otelllm

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// maxErrorBody bounds how much of an error response is kept to be read.
const maxErrorBody = 64 << 10

// attempt records one attempt of one model call, from before dialling until its
// stream has ended.
//
//	begin ─► RoundTrip ─┬─► unanswered ──────────────────────────────┐
//	                    └─► answered ─► read, read … ─► EOF, error, ─┴─► end
//	                                                    close, drop
//
// It is used by the goroutine that called RoundTrip, those that read and close
// the body, and the one that cleans up after a body that was lost.
type attempt struct {
	ctx      context.Context // the caller's: aborts are read off it
	run      *Run            // nil: outside of a run
	span     trace.Span
	protocol wire.Protocol
	identity spanfacts.Identity
	trace    *netcause.Trace
	tee      *requestTee // nil: the body was read before it was sent
	start    time.Time

	// over is set, under mu, when the attempt has ended. It may be read without.
	over atomic.Bool

	mu sync.Mutex
	// Everything below is guarded by mu.
	facts     spanfacts.Request
	decoder   wire.Decoder  // nil: the body is not read
	state     *wire.State   // of decoder
	errorBody []byte        // of a response with an error status
	wait      time.Duration // of the headers' retry-after
	lastAt    time.Duration // of the last semantic event
	times     *timeline     // nil: no events
}

// answered takes the response, before anybody reads its body.
func (a *attempt) answered(resp *http.Response, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.giveUp()
	f := &a.facts
	f.Status = resp.StatusCode
	f.TimeToHeaders = now.Sub(a.start)
	f.RequestID = requestID(resp.Header)
	a.times.mark(semconv.EventResponseStarted, now)
	switch {
	case resp.StatusCode >= 400:
		a.wait = retryAfter(resp.Header, now)
	case resp.StatusCode < 200, resp.StatusCode >= 300, encoded(resp):
		// Nothing that could be read: a redirect, or a compression that the
		// application asked for and undoes itself.
	default:
		a.decoder = a.protocol.NewDecoder(resp.Header.Get("Content-Type"))
		a.state = a.decoder.State()
		f.Streams = mediaType(resp.Header) == "text/event-stream" || a.identity.Stream == classify.Yes
	}
}

// encoded reports whether a body's content is encoded and will reach the reader so.
func encoded(resp *http.Response) bool {
	switch resp.Header.Get("Content-Encoding") {
	case "", "identity":
		return false
	default:
		return !resp.Uncompressed
	}
}

// giveUp, deferred with mu held, turns a panic of a decoder into an end of the
// reading. The stream and its consumer never hear of it.
func (a *attempt) giveUp() {
	if recover() != nil {
		a.decoder, a.state = nil, nil
	}
}

// read sees what one Read of the body returned. It reports whether that was the
// end of the attempt.
func (a *attempt) read(p []byte, n int, err error) (ended bool) {
	defer a.contain()
	now := time.Now()
	if a.take(p[:max(0, min(n, len(p)))], err, now) {
		a.end(now)
	}
	return a.over.Load()
}

// take takes what one Read returned. It reports whether that ended the attempt.
func (a *attempt) take(p []byte, err error, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over.Load() {
		return false
	}
	a.observe(p, now)
	if err == nil {
		return false
	}
	c := closing{how: byError}
	switch {
	case err == io.EOF: //nolint:errorlint // bodies return it bare; wrapped it is an error
		c.how = byEOF
		a.endOfBody(now)
	case netcause.ClosedHere(err):
		c.how, c.abort = byClose, abortOf(a.ctx, now)
	case netcause.Cancelled(a.ctx, err, now):
		c.abort = someAbort(abortOf(a.ctx, now))
	default:
		c.failure = netcause.Of(err, semconv.TransportStageBody)
	}
	a.conclude(c, now)
	return true
}

// observe takes the next bytes of the body.
func (a *attempt) observe(p []byte, now time.Time) {
	defer a.giveUp()
	a.facts.Bytes += int64(len(p))
	if len(p) == 0 {
		return
	}
	if a.facts.Status >= 400 {
		a.errorBody = append(a.errorBody, p[:min(len(p), maxErrorBody-len(a.errorBody))]...)
		return
	}
	if a.decoder == nil {
		return
	}
	before := a.state.Events
	a.decoder.Write(p)
	a.progress(before, now)
}

// endOfBody lets the decoder take what no blank line had ended.
func (a *attempt) endOfBody(now time.Time) {
	if a.decoder == nil {
		return
	}
	defer a.giveUp()
	before := a.state.Events
	a.decoder.Close()
	a.progress(before, now)
}

// progress keeps the clocks of semantic progress. All events of one Read arrived
// with it.
func (a *attempt) progress(before int, now time.Time) {
	if a.state.Events == before {
		return
	}
	at := now.Sub(a.start)
	f := &a.facts
	switch {
	case before > 0:
		f.LongestGap = max(f.LongestGap, at-a.lastAt)
	case f.Streams:
		f.FirstChunk = at
	}
	a.lastAt, f.LastProgress = at, at
	a.times.progress(a.state, now)
}

// closed ends the attempt because the consumer closes the body.
func (a *attempt) closed() { a.letGo(byClose) }

// abandoned ends the attempt because the consumer lost the body.
func (a *attempt) abandoned() { a.letGo(byDrop) }

func (a *attempt) letGo(h how) {
	defer a.contain()
	now := time.Now()
	if a.finish(func() { a.conclude(closing{how: h, abort: abortOf(a.ctx, now)}, now) }) {
		a.end(now)
	}
}

// finish runs conclude, with mu held, unless the attempt has ended. It reports
// whether it did.
func (a *attempt) finish(conclude func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over.Load() {
		return false
	}
	conclude()
	return true
}

// contain, deferred, keeps a panic of the recording, or of the application's span
// processors, from the consumer of the stream: it ends the recording.
func (a *attempt) contain() {
	if p := recover(); p != nil {
		a.over.Store(true)
		// The value may hold anything; its type is enough to find where it came from.
		otel.Handle(fmt.Errorf("otelllm: the recording of a model call ended by a panic (%T); the call itself went on", p))
	}
}

// unanswered ends the attempt because no response came. Err may be nil: the
// transport below broke its contract or panicked.
func (a *attempt) unanswered(err error) {
	defer a.contain()
	now := time.Now()
	if a.finish(func() {
		var abort classify.Abort
		failure := netcause.Of(err, a.trace.Stage())
		if netcause.Cancelled(a.ctx, err, now) {
			abort = someAbort(abortOf(a.ctx, now))
		}
		sent, known := a.trace.Sent()
		a.facts.Bytes = -1
		a.settle(unanswered(failure, abort, sent, known), now)
	}) {
		a.end(now)
	}
}

// conclude decides, with mu held, how a response ended.
func (a *attempt) conclude(c closing, now time.Time) {
	c.status, c.state = a.facts.Status, a.state
	a.settle(conclude(c), now)
}

// settle, with mu held, makes the facts final.
func (a *attempt) settle(c conclusion, now time.Time) {
	a.apply(&a.facts, c, now)
	a.times.end(c, now)
	a.errorBody, a.decoder, a.state = nil, nil, nil
	a.over.Store(true)
}

// end hands the facts over to the run and ends the span. It is called once, by
// the one that set over.
func (a *attempt) end(now time.Time) {
	a.mu.Lock()
	if a.tee != nil {
		said := a.tee.result()
		takeAsked(&a.facts, &said)
		takeIdentity(&a.identity, &said)
	}
	facts := a.facts
	a.mu.Unlock()
	a.run.attemptEnded(a, &facts.Request)
	if !a.span.IsRecording() {
		a.span.End(trace.WithTimestamp(now))
		return
	}
	attrs := make([]attribute.KeyValue, 0, 40)
	if a.tee != nil {
		a.span.SetName(a.identity.SpanName())
		attrs = a.identity.AppendBody(attrs)
	}
	a.span.SetAttributes(facts.Append(attrs)...)
	a.times.write(a.span, a.trace.WrittenAt())
	if facts.ErrorType != "" {
		a.span.SetStatus(codes.Error, "")
	}
	a.span.End(trace.WithTimestamp(now))
}

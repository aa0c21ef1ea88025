package otelllm

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

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
	decoder   wire.Decoder // nil: the body is not read
	state     *wire.State  // of decoder
	errorBody []byte       // of a response with an error status
	headerAt  time.Duration
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
	now := time.Now()
	a.mu.Lock()
	if a.over.Load() {
		a.mu.Unlock()
		return true
	}
	a.observe(p[:max(0, min(n, len(p)))], now)
	if err == nil {
		a.mu.Unlock()
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
	a.mu.Unlock()
	a.end(now)
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
	now := time.Now()
	a.mu.Lock()
	if a.over.Load() {
		a.mu.Unlock()
		return
	}
	a.conclude(closing{how: h, abort: abortOf(a.ctx, now)}, now)
	a.mu.Unlock()
	a.end(now)
}

// unanswered ends the attempt because no response came. Err may be nil: the
// transport below broke its contract or panicked.
func (a *attempt) unanswered(err error) {
	now := time.Now()
	a.mu.Lock()
	if a.over.Load() {
		a.mu.Unlock()
		return
	}
	var abort classify.Abort
	failure := netcause.Of(err, a.trace.Stage())
	if netcause.Cancelled(a.ctx, err, now) {
		abort = someAbort(abortOf(a.ctx, now))
	}
	sent, known := a.trace.Sent()
	a.facts.Bytes = -1
	a.settle(unanswered(failure, abort, sent, known), now)
	a.mu.Unlock()
	a.end(now)
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

// apply writes into f how the attempt ended, with mu held. It changes nothing else.
func (a *attempt) apply(f *spanfacts.Request, c conclusion, now time.Time) {
	f.Start, f.End = a.start, now
	f.Ended, f.Phase, f.Transport, f.Abort, f.ErrorChain = c.end, c.phase, c.transport, c.abort, c.chain
	f.Resends = a.trace.Resends()
	if a.state != nil {
		fillState(f, a.state)
		f.SetFinish(finishReasons(a.state.FinishReasons, c.due))
	}
	switch {
	case f.Status >= 400:
		a.applyErrorResponse(f)
	case a.state != nil && a.state.Err != nil:
		applyError(f, f.Status, a.state.Err)
		f.Provider.InBand = true
	}
	f.ErrorType = errorType(f)
	f.Settle()
}

// applyErrorResponse reads what the provider said under an error status, as far
// as the SDK has read it.
func (a *attempt) applyErrorResponse(f *spanfacts.Request) {
	e := wire.Error{}
	func() {
		defer func() { _ = recover() }() // of a reader of bytes that may be anything
		e = a.protocol.ReadError(f.Status, a.errorBody)
	}()
	if a.wait > 0 {
		e.RetryAfter = a.wait
	}
	applyError(f, f.Status, &e)
}

func applyError(f *spanfacts.Request, status int, e *wire.Error) {
	if status < 400 {
		status = e.Status
	}
	f.Provider.Kind = classify.ProviderErrorKind(status, e.Code, e.Type)
	f.Provider.Code = providerCode(e.Code, e.Type)
	f.RetryAfter = e.RetryAfter
}

// fillState takes over what the response said.
func fillState(f *spanfacts.Request, st *wire.State) {
	f.Events = classify.Counted(st.Events)
	f.Keepalives = st.Keepalives
	f.Text, f.Reasoning = classify.Counted(st.TextChunks), classify.Counted(st.ReasoningChunks)
	f.ToolInputsStarted = classify.Counted(st.ToolInputsStarted)
	f.ToolInputsCompleted = classify.Counted(st.ToolInputsCompleted)
	f.ToolCalls = classify.Counted(st.ToolCalls)
	f.ProviderToolsStarted = classify.Counted(st.ProviderToolsStarted)
	f.CallIDs, f.OpenCallIDs = nil, nil
	for i := range st.Calls {
		switch c := &st.Calls[i]; {
		case c.ID == "":
		case c.Completed:
			f.CallIDs = append(f.CallIDs, c.ID)
		default:
			f.OpenCallIDs = append(f.OpenCallIDs, c.ID)
		}
	}
	f.ResponseID, f.ResponseModel = st.ResponseID, st.Model
	f.Usage = st.Usage
}

// errorType is the error.type of what failed, "" where nothing did or where this
// side ended it on purpose.
func errorType(f *spanfacts.Request) string {
	switch {
	case f.Ended == semconv.StreamEndHTTPError:
		return strconv.Itoa(f.Status)
	case f.Provider.Kind != semconv.ProviderErrorKindUnset:
		if f.Provider.Code != "" && f.Provider.Code != classify.Redacted {
			return f.Provider.Code
		}
		return f.Provider.Kind.String()
	case f.Abort.Source != semconv.AbortSourceUnset:
		return ""
	case f.Transport.Cause != semconv.TransportCauseUnset:
		return f.Transport.Cause.String()
	case len(f.ErrorChain) > 0:
		return f.ErrorChain[len(f.ErrorChain)-1]
	case f.Ended == semconv.StreamEndTerminalEvent && f.Finish == classify.FinishMissing:
		return semconv.CauseNoContent.String()
	case f.Ended == semconv.StreamEndNoResponse:
		return "_OTHER" // the conventions' word for what nobody can name
	default:
		return ""
	}
}

// snapshot is what the attempt would come to if its body were closed now, where
// the protocol has had its last word already: an SDK returns an in-band error, or
// the end of a stream, before it closes the body.
func (a *attempt) snapshot(now time.Time) (classify.Request, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over.Load() || a.state == nil || !a.state.Terminal {
		return classify.Request{}, false
	}
	f := a.facts
	a.fillAsked(&f)
	a.apply(&f, conclude(closing{how: byClose, status: f.Status, state: a.state}), now)
	return f.Request, true
}

// fillAsked takes over what the request's body said, once it is known.
func (a *attempt) fillAsked(f *spanfacts.Request) {
	if a.tee == nil {
		return
	}
	a.tee.mu.Lock()
	said := a.tee.asked
	a.tee.mu.Unlock()
	takeAsked(f, &said)
}

// takeIdentity takes over what the request's body said about the request itself.
// A run knows its conversation better than one of its requests does.
func takeIdentity(id *spanfacts.Identity, said *asked) {
	id.Model, id.Stream = said.Model, said.stream
	if id.ConversationID == "" {
		id.ConversationID = said.ConversationID
	}
}

func takeAsked(f *spanfacts.Request, said *asked) {
	f.ProviderTools, f.HistoryCalls, f.HistoryOutputs = said.ProviderTools, said.HistoryCalls, said.HistoryOutputs
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

package record

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// maxErrorBody bounds how much of an error response is kept to be read, in bytes.
const maxErrorBody = 64 << 10

// response is what has come of a response. The recorder's mu guards it.
type response struct {
	started  bool          // by its headers, or by its first event
	protocol wire.Protocol // nil: it does not come over HTTP
	decoder  wire.Decoder  // nil: the body is not read
	// decompressor undoes the encodings of the body; nil: it has none. undecoded: it has one
	// that cannot be undone, so that the rest of the body is not read.
	decompressor *httpcall.Decompressor
	undecoded    bool
	manual       *wire.Manual // nil: the application does not report it step by step
	state        *wire.State  // what the response has said; nil: nothing yet, or it cannot be read
	arrived      time.Time    // when the last bytes of the body came
	wholeBefore  bool         // the answer was whole before the last bytes
	// unexpected: the status is no error, and no answer either.
	unexpected bool
	// foreign: the request turned out to be no model call, so its answer is not decoded.
	foreign       bool
	errorResponse *errorResponse // nil: no error status came
}

// errorResponse is a response with an error status.
type errorResponse struct {
	header     http.Header
	body       []byte        // as far as it was read; nil: it was not
	retryAfter time.Duration // by the headers
}

// end notes that the whole body was read: without any of it, the response has none.
func (e *errorResponse) end() {
	if e != nil && e.body == nil {
		e.body = []byte{}
	}
}

// requestBody is a request's body that is read as it is sent. Without one it is zero.
type requestBody struct {
	tee        *httpcall.Body
	recogniser *httpcall.Recogniser
	target     *url.URL
	protocol   wire.Protocol // as recognised without the body
}

// ReadBodyAsSent makes the recorder read what the request's body says from body, which is
// read as it is sent to target. Use it before [Recorder.Begin] only.
func (r *Recorder) ReadBodyAsSent(body *httpcall.Body, recogniser *httpcall.Recogniser, target *url.URL) {
	r.body = requestBody{tee: body, recogniser: recogniser, target: target, protocol: body.Protocol}
	r.identityChanged = true
}

// SetProtocol sets the protocol of a response over HTTP. LateIdentity says that the span
// started without what the request's body says. Use it before [Recorder.Begin] only.
func (r *Recorder) SetProtocol(p wire.Protocol, lateIdentity bool) {
	r.response.protocol, r.identityChanged = p, lateIdentity
}

// fillBody fills in what the body says, as far as it was sent, with mu held. It reports whether
// the body has another protocol than the one that was recognised without it.
func (r *Recorder) fillBody(f *spanfacts.Request, id *spanfacts.Identity) (otherProtocol bool) {
	b := &r.body
	if b.tee == nil {
		return false
	}
	contents := b.tee.Contents()
	if p := b.tee.SpokenProtocol(); p.Name() != b.protocol.Name() {
		known := b.recogniser.Identify(p, b.target)
		id.Operation, id.Provider = known.Operation, known.Provider
		otherProtocol = true
	}
	r.fillContents(f, &contents)
	FillIdentity(id, &contents)
	return otherProtocol
}

// AsksStream reports whether the request is known to ask for a stream: by its body, as far
// as that has been read, otherwise by its path.
func (r *Recorder) AsksStream() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asksStream()
}

// asksStream is AsksStream with mu held.
func (r *Recorder) asksStream() bool {
	stream := r.identity.Stream
	if stream == classify.NotObserved {
		contents := r.body.tee.Contents()
		stream = contents.Stream
	}
	return stream == classify.Yes || stream == classify.NotObserved && httpcall.StreamsByPath(r.response.protocol)
}

// Headers are the status and the headers of a response over HTTP. Encoded says that the
// body is compressed and reaches its reader so: the application asked for the compression
// and undoes it itself. The recorder undoes it in a copy.
type Headers struct {
	Status  int
	Header  http.Header
	Encoded bool
	Version string // of HTTP; "": not known
}

// Respond takes the status and the headers of a response over HTTP. It reports whether the
// body is a stream that is read.
func (r *Recorder) Respond(h Headers, now time.Time) (streams bool) {
	defer r.Recover()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Over() {
		return false
	}
	r.respond(h, now)
	return r.response.decoder != nil && r.facts.Streams
}

// respond is Respond with mu held.
func (r *Recorder) respond(h Headers, now time.Time) {
	defer r.giveUp()
	f, resp := &r.facts, &r.response
	f.Status = h.Status
	f.RequestID = httpcall.RequestID(h.Header)
	if h.Version != "" {
		f.Connection.Protocol = h.Version
	}
	r.responseStarted(now)
	if r.body.tee != nil {
		resp.protocol = r.body.tee.SpokenProtocol()
	}
	resp.foreign = r.body.tee.Foreign()
	resp.unexpected = deadEnd(h.Status, h.Header)
	if h.Encoded && !resp.foreign {
		resp.decompressor = httpcall.NewDecompressor(h.Header)
		resp.undecoded = resp.decompressor == nil
	}
	switch {
	case resp.foreign:
	case h.Status >= 400:
		resp.errorResponse = &errorResponse{header: h.Header, retryAfter: httpcall.RetryAfter(h.Header, now)}
	case resp.undecoded:
		f.Unread = true
	case h.Status < 200, h.Status >= 300:
		// Nothing that could be read: a redirect.
	default:
		resp.decoder = resp.protocol.NewDecoder(httpcall.Value(h.Header, "Content-Type"))
		resp.state = resp.decoder.State()
		f.Streams = httpcall.MediaType(h.Header) == "text/event-stream" || r.asksStream()
	}
}

// deadEnd reports whether status is a redirect that leads nowhere: it is not to be
// followed, or it names no place.
func deadEnd(status int, header http.Header) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return httpcall.Value(header, "Location") == ""
	default:
		return status >= 300 && status < 400
	}
}

// responseStarted records, with mu held, that the response has begun.
func (r *Recorder) responseStarted(now time.Time) {
	r.response.started = true
	r.facts.TimeToHeaders = now.Sub(r.start)
	r.times.mark(responseStarted, now)
}

// giveUp, deferred with mu held, turns a panic of a decoder into an end of the
// reading. The stream and its consumer do not notice. What had been read stays.
func (r *Recorder) giveUp() {
	if recover() == nil {
		return
	}
	r.facts.Unread, r.response.undecoded, r.response.decoder = true, true, nil
	if st := r.response.state; st != nil {
		st.Unread, st.GaveUp = true, true
	}
}

// Read takes the bytes that a Read of the body returned. Progress says that they held semantic events.
// Silent says that no event is due any more: the protocol's terminal event has come, or
// the stream cannot be read. A protocol without a terminal event is silent once the answer
// is whole, unless another choice begins.
func (r *Recorder) Read(p []byte, now time.Time) (progress, silent bool) {
	defer r.Recover()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Over() {
		return false, false
	}
	before := r.events()
	r.read(p, now)
	st := r.response.state
	silent = st == nil || st.Terminal || st.GaveUp || st.Violation != semconv.TransportCauseUnset ||
		st.Complete && !wire.HasTerminalEvent(r.response.protocol)
	return r.events() != before, silent
}

// read is Read with mu held.
func (r *Recorder) read(p []byte, now time.Time) {
	defer r.giveUp()
	r.facts.Bytes += int64(len(p))
	resp := &r.response
	if len(p) == 0 || resp.undecoded || resp.decoder == nil && resp.errorResponse == nil {
		return
	}
	before := r.events()
	resp.arrived, resp.wholeBefore = now, resp.state != nil && resp.state.Complete
	if resp.decompressor == nil {
		resp.readPlain(p)
	} else if resp.decompressor.Write(p, resp.readPlain) != nil {
		r.cannotDecode()
	}
	r.progress(before, now)
}

// readPlain takes the next bytes of the body, which have no encoding any more.
func (resp *response) readPlain(p []byte) {
	if e := resp.errorResponse; e != nil {
		e.body = append(e.body, p[:min(len(p), maxErrorBody-len(e.body))]...)
	} else {
		resp.decoder.Write(p)
	}
}

// cannotDecode records, with mu held, that the rest of the body cannot be decoded. It is not a
// failure: its reader may have other means.
func (r *Recorder) cannotDecode() {
	r.response.undecoded = true
	if r.response.decoder == nil {
		return
	}
	r.response.decoder.Cut(true)
	st := r.response.state
	r.facts.Unread, st.Unread, st.GaveUp = true, true, true
}

// events returns, with mu held, how many semantic events have come.
func (r *Recorder) events() int {
	if r.response.state == nil {
		return 0
	}
	return r.response.state.Events
}

// endOfBody lets the decoder take, with mu held, what no blank line had ended. Whole:
// the body came to its end. Truncated: it stopped, and no error of the connection says so.
// endOfBody reports whether it was whole although the end of its encoding is missing: the body
// was cut before it came here.
func (r *Recorder) endOfBody(whole, truncated bool) (cut bool) {
	resp := &r.response
	if resp.undecoded || resp.decoder == nil && resp.decompressor == nil {
		return false
	}
	defer r.giveUp()
	before := r.events()
	if resp.decompressor != nil {
		switch err := resp.decompressor.Close(resp.readPlain); {
		case err == nil:
		case err == io.ErrUnexpectedEOF: //nolint:errorlint // it is returned bare
			cut, whole, truncated = whole, false, true
		default:
			r.cannotDecode()
		}
	}
	switch {
	case resp.decoder == nil, resp.undecoded:
	case whole:
		resp.decoder.Close()
	default:
		resp.decoder.Cut(truncated)
	}
	r.progress(before, resp.arrived)
	return cut
}

// progress updates, with mu held, the clocks of semantic progress. Before is how
// many events there had been; all new ones arrived at now.
func (r *Recorder) progress(before int, now time.Time) {
	if r.events() == before {
		return
	}
	at := now.Sub(r.start)
	f := &r.facts
	switch {
	case before > 0:
		gap := at - f.LastProgress
		f.LongestGap = max(f.LongestGap, gap)
		if f.Streams {
			r.chunk(gap)
		}
	case f.Streams:
		f.FirstChunk = at
	}
	f.LastProgress = at
	r.times.progress(r.response.state, now)
}

// release returns, with the recorder's mu held, the memory of the decoders.
func (resp *response) release() {
	resp.decompressor.Stop()
	if resp.decoder != nil {
		resp.decoder.Release()
		resp.decoder = nil
	}
}

// readError fills in what the provider said under an error status, as far as the SDK has
// read it.
func (resp *response) readError(f *spanfacts.Request, asked catalogue.Request) {
	switch {
	case resp.unexpected:
		f.Provider = classify.ProviderError{Kind: semconv.ProviderErrorKindUnknown, Code: strconv.Itoa(f.Status)}
		return
	case resp.protocol == nil:
		return
	}
	r := resp.errorResponse
	if r == nil {
		r = &errorResponse{} // the status still says something
	}
	e := wire.Error{}
	func() {
		defer func() { _ = recover() }() // of a parser of arbitrary bytes
		e = wire.CompleteError(resp.protocol.ReadError(f.Status, r.body), r.header.Get)
	}()
	if r.retryAfter > 0 {
		e.RetryAfter = r.retryAfter
	}
	v := applyError(f, asked, f.Status, &e)
	f.Provider.Kind = kindByHeaders(v, r.header)
	f.Provider.Intermediary = f.Provider.Intermediary || e.Foreign && (v.Intermediary || httpcall.Intermediary(f.Status, r.header, r.body))
}

// kindByHeaders corrects a kind by what only headers say: that a CDN wants a person, or that
// the provider itself advises for or against another attempt, as the SDKs of OpenAI and
// Anthropic read it (X-Should-Retry).
//
// An advice against another attempt does not change what a 5xx means. The SDKs obey it there,
// too, but no public response with it shows why a server sends it. It may protect a server that
// is busy; that the same request would fail again does not follow. No kind says it either.
func kindByHeaders(v catalogue.Verdict, header http.Header) semconv.ProviderErrorKind {
	advice := header.Get("X-Should-Retry")
	switch {
	case httpcall.Challenged(header):
		return semconv.ProviderErrorKindPermission
	case advice == "false" && v.Kind == semconv.ProviderErrorKindRateLimited:
		return semconv.ProviderErrorKindQuotaExhausted
	case advice == "true" && v.By <= catalogue.ByFamily && v.Kind == semconv.ProviderErrorKindInvalidRequest:
		return semconv.ProviderErrorKindRateLimited
	default:
		return v.Kind
	}
}

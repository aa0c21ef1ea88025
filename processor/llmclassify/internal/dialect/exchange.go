package dialect

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unsafe"

	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Exchange is what the span of an HTTP client records of one exchange. Beneath a
// request's span it is evidence of how the request ended, often the only one with a code.
// Its strings are bounded, and keep no other memory alive.
type Exchange struct {
	Start, End time.Time
	Status     int // HTTP status; 0 if there was no response, or it is not recorded
	Resent     int // how often it had been sent before; 0 if that is not recorded

	fault fault
}

// Size estimates the memory of an exchange that is kept, in bytes. Of several beneath
// one span only the one that began last need be kept, see [Explain].
func (x *Exchange) Size() int {
	return int(unsafe.Sizeof(*x)) + len(x.fault.name) + len(x.fault.code)
}

// Compare orders the exchanges beneath one span: the last one shows how the request ended.
// That is the one that began last; of several that began at the same time, the one that
// ended last, and then any, the same in whatever order they are compared.
func (x Exchange) Compare(y Exchange) int {
	a, b := &x.fault, &y.fault
	return cmp.Or(
		x.Start.Compare(y.Start), x.End.Compare(y.End), cmp.Compare(x.Resent, y.Resent), cmp.Compare(x.Status, y.Status),
		cmp.Compare(a.transport, b.transport), cmp.Compare(a.provider, b.provider), cmp.Compare(a.abort, b.abort), cmp.Compare(a.watchdog, b.watchdog),
		strings.Compare(a.name, b.name), strings.Compare(a.code, b.code),
	)
}

// bodyTimeout is undici's code for a timeout of the body, and of nothing else.
const bodyTimeout = "UND_ERR_BODY_TIMEOUT"

// DOMException's legacy codes, which undici's instrumentation writes as error.type.
const (
	domAbort   = "20"
	domTimeout = "23"
)

// modelWords are words of which the URLs of model APIs have at least one, in the host or
// in the path, by the last five bits of their first letter.
var modelWords = func() (words [32][]string) {
	for _, word := range [...]string{
		"chat", "complet", "message", "response", "generat", "converse", "conversation", "invo", "predict", "infer", "model", "realtime", "ai/run",
		"llm", "openai", "gpt", "codex", "anthropic", "claude", "gemini", "bedrock",
	} {
		words[word[0]&31] = append(words[word[0]&31], word)
	}
	return words
}()

// maxURL bounds how much of a URL is searched.
const maxURL = 512

// mayBeModelCall reports whether an HTTP client's request to this URL may be a call of a
// model. It errs on that side, and does where there is no URL or no path. Ordinary traffic
// is not: its exchanges are not kept as evidence, whether they went well or not. One that
// failed, without the one that later went well, would be false evidence.
func mayBeModelCall(url string) bool {
	long := len(url) > maxURL
	url = url[:min(len(url), maxURL)]
	if at := strings.IndexAny(url, "?#"); at >= 0 {
		url, long = url[:at], false
	}
	_, rest, _ := strings.Cut(url, "://")
	if _, path, _ := strings.Cut(rest, "/"); path == "" {
		return true
	}
	for i := range len(url) {
		for _, word := range modelWords[url[i]&31] {
			if len(url)-i >= len(word) && url[i+1]|0x20 == word[1]|0x20 && strings.EqualFold(url[i:i+len(word)], word) {
				return true
			}
		}
	}
	return long
}

// ReadExchange reads the span of an HTTP client ([Head.Exchange]): undici's, otelhttp's,
// httpx's and aiohttp's alike. A truncated body has its status beside the code; a user's
// abort leaves the status code of the span unset.
func ReadExchange(span ptrace.Span) Exchange {
	x := Exchange{Start: at(span.StartTimestamp()), End: at(span.EndTimestamp())}
	errorType := ""
	for key, v := range span.Attributes().All() {
		switch key {
		case string(otelsemconv.HTTPResponseStatusCodeKey), keyOldHTTPStatus:
			x.Status = status(v)
		case string(otelsemconv.HTTPRequestResendCountKey):
			x.Resent = count(v).N()
		case string(otelsemconv.ErrorTypeKey):
			errorType = text(v)
		}
	}
	switch errorType {
	case domAbort:
		x.fault = fault{failure: failure{abort: semconv.AbortSourceUnknown}, known: true, typed: true, name: errorType}
	case domTimeout:
		x.fault = fault{failure: failure{abort: semconv.AbortSourceDeadline}, known: true, typed: true, name: errorType}
	default:
		x.fault = faultOf(span, errorType)
	}
	if x.Status == 0 {
		x.Status = x.fault.status
	}
	return x
}

// Explain adds to the facts of a request what the HTTP exchanges beneath its span show.
// They are in any order; the last one shows how the request ended. A request that is known
// to have reached its end, and one for which its own producer records a precise cause,
// keeps its facts.
//
// No exchange makes a request a success: a response that ended cleanly may have been
// truncated by a proxy, and its content was not observed.
func Explain(r *classify.Request, exchanges []Exchange) {
	if len(exchanges) == 0 {
		return
	}
	x := slices.MaxFunc(exchanges, Exchange.Compare)
	r.Attempt = max(r.Attempt, attemptOf(x))
	if r.Status == 0 && x.Status < 400 {
		r.Status = x.Status
	}
	switch {
	case r.Failed == classify.No, r.Ended == semconv.StreamEndTerminalEvent:
	case r.Abort.Source != semconv.AbortSourceUnset && r.Basis == classify.Typed, r.Watchdog.Kind != semconv.WatchdogKindUnset:
		// This side ended it: the exchange broke because of that.
	case r.Transport.Cause != semconv.TransportCauseUnset && r.Basis == classify.Typed && !x.closedBeforeHeaders(r):
		// Its own producer records what broke, and where.
	case r.Provider.Kind != semconv.ProviderErrorKindUnset && r.Basis == classify.Typed:
		x.ofProvider(r)
	case x.Status >= 400:
		x.refused(r)
	case x.fault.known && !x.fault.unstaged && !x.fault.timer && !x.fault.pause && x.fault.provider == semconv.ProviderErrorKindUnset:
		x.broke(r)
	}
}

// closedBeforeHeaders reports whether the other side closed the connection and neither the
// exchange nor the request has a status. The code of both is the same within a body.
func (x *Exchange) closedBeforeHeaders(r *classify.Request) bool {
	return r.Transport.Code == undSocket && baseName(x.fault.name) == undSocket && r.Status == 0 && x.Status == 0
}

// Explain adds to the facts of a request's span what the last exchange beneath it shows,
// see [Explain]. This project's client has seen the exchange itself. Where it records how
// the request ended, nothing is added: its run may be complete before the exchange is here.
func (r *Reading) Explain(span ptrace.Span, x Exchange) {
	facts := r.Facts(span, Request).Request
	if _, own := r.Dialect.(OTelLLM); own && facts.Ended != semconv.StreamEndUnset && facts.Phase != semconv.PhaseUnknown {
		return
	}
	Explain(facts, []Exchange{x})
}

// attemptOf is the number of the attempt, 0 if it is not recorded.
func attemptOf(x Exchange) int {
	if x.Resent == 0 {
		return 0
	}
	return x.Resent + 1
}

// ofProvider is for a provider's error that is known; how it arrived may not be.
func (x *Exchange) ofProvider(r *classify.Request) {
	switch {
	case r.Ended != semconv.StreamEndUnset:
	case x.Status >= 400:
		r.Status, r.Ended, r.Phase = x.Status, semconv.StreamEndHTTPError, semconv.PhaseResponseStarted
	case x.Status > 0:
		r.Provider.InBand = true
	}
}

// refused is for a response that was an HTTP error.
func (x *Exchange) refused(r *classify.Request) {
	clearEnd(r)
	r.Status, r.Ended, r.Phase, r.Basis = x.Status, semconv.StreamEndHTTPError, semconv.PhaseResponseStarted, classify.Typed
	r.Provider.Kind = classify.ProviderErrorKind(x.Status)
}

// broke is for an exchange with an error of its own.
func (x *Exchange) broke(r *classify.Request) {
	clearEnd(r)
	r.Failed = worse(r.Failed, x.fault.abort)
	e := ending{fault: x.fault}
	e.apply(r)
	switch cause := r.Transport.Cause; {
	case r.Watchdog.Kind == semconv.WatchdogKindIdle && x.Status == 0 && x.fault.name != bodyTimeout:
		// Reading timed out before there was a response: the timeout was not one of the body.
		r.Ended, r.Watchdog, r.Phase = semconv.StreamEndUnset, classify.Watchdog{}, semconv.PhaseAwaitingResponse
		r.Transport = classify.Transport{Stage: semconv.TransportStageHeaders, Cause: semconv.TransportCauseHeaderTimeout}
	case cause == semconv.TransportCauseUnset:
	case x.Status > 0:
		r.Transport.Stage = semconv.TransportStageBody
	case cause == semconv.TransportCauseConnectionReset, cause == semconv.TransportCauseBodyTruncated:
		// Nothing was received.
		r.Transport.Cause, r.Phase = semconv.TransportCauseClosedBeforeHeaders, semconv.PhaseAwaitingResponse
	}
}

// worse is whether the request failed: an exchange that broke means that it did, unless
// this side ended it.
func worse(failed classify.Fact, abort semconv.AbortSource) classify.Fact {
	if abort == semconv.AbortSourceUnset {
		return classify.Yes
	}
	return failed
}

// clearEnd removes what was concluded from less evidence.
func clearEnd(r *classify.Request) {
	r.Ended, r.Abort, r.Watchdog = semconv.StreamEndUnset, classify.Abort{}, classify.Watchdog{}
	r.Provider, r.Transport = classify.ProviderError{}, classify.Transport{}
	if r.Finish > classify.FinishMissing {
		r.Finish = classify.FinishNotObserved
	}
}

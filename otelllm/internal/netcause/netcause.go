package netcause

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/otelllm/otelllm-go/semconv"
)

// Failure is what an error says about the transport.
type Failure struct {
	Stage semconv.TransportStage
	Cause semconv.TransportCause // unset if the error names none
	// Code is a low-cardinality code from a closed list: the name of an errno, an HTTP/2
	// error code, a TLS alert, an HTTP status. At most 80 bytes.
	Code string
	// Chain has the names of the error's types from outermost to root, at most five. If
	// there are more, those just before the root are omitted.
	Chain []string
}

// Of returns the cause of err, an error that a RoundTripper or a response body returned.
// At is the stage that the request had reached, as far as it was traced; unset if nothing
// is known.
//
// Of never fails: for an unknown error it returns no cause, but a chain. If a method of a
// foreign error type panics, Of returns what it has found so far.
func Of(err error, at semconv.TransportStage) (f Failure) {
	if err == nil {
		return Failure{}
	}
	f = Failure{Stage: at, Chain: typeChain(err)}
	defer func() {
		// A method of an error type panicked, such as Unwrap, Is or Timeout: keep what is
		// known so far.
		_ = recover()
	}()
	s := findingOf(err, at)
	f.Cause, f.Code = s.cause, s.code
	f.Stage = stageOf(s.cause, at)
	return f
}

// finding is what one error of a chain says.
type finding struct {
	cause semconv.TransportCause
	code  string
}

func (s finding) found() bool { return s.cause != semconv.TransportCauseUnset }

func findingOf(err error, at semconv.TransportStage) finding {
	for _, e := range links(err) {
		if s := fromError(e, at); s.found() {
			return s
		}
	}
	return fromStage(err, at)
}

// fromError reads a single error of the chain by its type, or by its whole message if the
// standard library has no type for it.
func fromError(err error, at semconv.TransportStage) finding {
	switch e := err.(type) { //nolint:errorlint // the chain is walked link by link, so that the outermost decides
	case *net.DNSError:
		return fromDNS(e)
	case *net.OpError:
		return fromOp(e, at)
	}
	if s := fromTLS(err); s.found() {
		return s
	}
	if s := fromHTTP2(err); s.found() {
		return s
	}
	if s := fromMessage(err, at); s.found() {
		return s
	}
	switch {
	case err == io.ErrUnexpectedEOF, err == io.EOF: //nolint:errorlint // one link
		return fromEOF(at)
	case err == net.ErrClosed: //nolint:errorlint // one link
		return fromClosed(at)
	case isCorrupt(err):
		return finding{cause: semconv.TransportCauseMalformedEvent}
	}
	if code, ok := errnoName(err); ok {
		return fromErrno(code, at)
	}
	return fromCloseError(err)
}

const codeTimeout = "TIMEOUT"

// fromStage is the last resort: no error of the chain gave a finding, but the trace knows
// the operation in progress, or the error reports a timeout.
func fromStage(err error, at semconv.TransportStage) finding {
	switch at {
	case semconv.TransportStageTLS, semconv.TransportStageProxy:
		return fromStageOnly(at, statusCode(err))
	}
	var slow net.Error
	if at != semconv.TransportStageUnset && errors.As(err, &slow) && slow.Timeout() {
		return fromTimeout(at)
	}
	return finding{}
}

func fromStageOnly(at semconv.TransportStage, code string) finding {
	if at == semconv.TransportStageProxy {
		if refusedForGood(code) {
			return finding{cause: semconv.TransportCauseProxyRefused, code: code}
		}
		return finding{cause: semconv.TransportCauseProxy, code: code}
	}
	if code == "" {
		code = codeHandshake
	}
	return finding{cause: semconv.TransportCauseTLS, code: code}
}

// statusCode returns the status, in digits, with which a proxy refused a CONNECT: net/http
// returns only the status text.
func statusCode(err error) string {
	text, ok := bareMessage(err)
	if !ok {
		return ""
	}
	return statusByText[text]
}

// refusedForGood reports whether code is a status with which a proxy refuses a CONNECT and
// will refuse it again. Other statuses mean that the proxy tried or is busy.
func refusedForGood(code string) bool {
	switch code {
	case "408", "425", "429":
		return false
	case "511":
		return true
	default:
		return len(code) == 3 && code[0] == '4'
	}
}

var statusByText = func() map[string]string {
	m := map[string]string{}
	for status := 300; status < 600; status++ {
		if text := http.StatusText(status); text != "" {
			m[text] = itoa3(status)
		}
	}
	return m
}()

func itoa3(n int) string {
	return string([]byte{'0' + byte(n/100), '0' + byte(n/10%10), '0' + byte(n%10)})
}

// stageOf returns the stage that a cause implies, or at if it implies none.
func stageOf(c semconv.TransportCause, at semconv.TransportStage) semconv.TransportStage {
	switch c {
	case semconv.TransportCauseDNSNotFound, semconv.TransportCauseDNSTemporary:
		return semconv.TransportStageDNS
	case semconv.TransportCauseConnectRefused, semconv.TransportCauseConnectUnreachable, semconv.TransportCauseConnectTimeout:
		return semconv.TransportStageConnect
	case semconv.TransportCauseTLS:
		return semconv.TransportStageTLS
	case semconv.TransportCauseProxy, semconv.TransportCauseProxyRefused:
		return semconv.TransportStageProxy
	case semconv.TransportCauseInvalidURL:
		return semconv.TransportStageUnset // no stage was reached
	case semconv.TransportCauseWriteFailed:
		return semconv.TransportStageWrite
	case semconv.TransportCauseHeaderTimeout, semconv.TransportCauseClosedBeforeHeaders:
		return semconv.TransportStageHeaders
	case semconv.TransportCauseBodyTruncated, semconv.TransportCauseCleanEOF:
		return semconv.TransportStageBody
	case semconv.TransportCauseConnectionReset, semconv.TransportCauseH2StreamReset, semconv.TransportCauseH2Goaway,
		semconv.TransportCauseConnectionLost, semconv.TransportCauseMalformedEvent:
		if at != semconv.TransportStageBody {
			return semconv.TransportStageHeaders
		}
		return at
	default:
		return at
	}
}

// isCorrupt reports whether the transfer encoding of the body, which net/http decodes, is
// broken.
func isCorrupt(err error) bool {
	if err == gzip.ErrHeader || err == gzip.ErrChecksum { //nolint:errorlint // one link
		return true
	}
	switch err.(type) { //nolint:errorlint // one link
	case flate.CorruptInputError, flate.InternalError:
		return true
	default:
		return false
	}
}

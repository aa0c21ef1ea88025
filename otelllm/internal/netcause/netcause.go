package netcause

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

const (
	// maxDepth bounds how many errors of a chain are looked at.
	maxDepth = 16
	// maxChain bounds the chain of type names that is reported.
	maxChain = 5
	// maxTypeName bounds one type name, in bytes.
	maxTypeName = 256
)

// Failure is what an error says about the transport.
type Failure struct {
	Stage semconv.TransportStage
	Cause semconv.TransportCause // unset: the error names none
	// Code is a low-cardinality code out of a closed list: an errno's name, an
	// HTTP/2 error code, a TLS alert, an HTTP status. At most 80 bytes.
	Code string
	// Chain holds the names of the error's types from outermost to root, at most
	// five; where there are more, the ones before the root are left out.
	Chain []string
	// Unsent: net/http refused to send the request at all (no host, an unknown
	// scheme, an invalid header), so nothing left this side.
	Unsent bool
}

// Of names the cause of err, an error that a RoundTripper or a response body
// returned. At is the stage that the request had reached, as far as it was
// traced: unset when nothing is known.
//
// Of never fails: an error that it does not know has no cause, but a chain. A
// panicking method of a foreign error type ends the reading, nothing else.
func Of(err error, at semconv.TransportStage) (f Failure) {
	if err == nil {
		return Failure{}
	}
	f = Failure{Stage: at, Chain: typeChain(err)}
	defer func() {
		// An Unwrap, Is or Timeout of somebody's error type panicked: what is
		// known so far stands.
		_ = recover()
	}()
	s := cause(err, at)
	f.Cause, f.Code, f.Unsent = s.cause, s.code, s.unsent
	f.Stage = stageOf(s.cause, at)
	return f
}

// sign is what one error of a chain says.
type sign struct {
	cause  semconv.TransportCause
	code   string
	unsent bool
}

func (s sign) telling() bool { return s.cause != semconv.TransportCauseUnset || s.unsent }

func cause(err error, at semconv.TransportStage) sign {
	for _, e := range links(err) {
		if s := one(e, at); s.telling() {
			return s
		}
	}
	return byStage(err, at)
}

// one reads a single error of the chain by its type, and by its whole message
// where the standard library gives it no type of its own.
func one(err error, at semconv.TransportStage) sign {
	switch e := err.(type) { //nolint:errorlint // the chain is walked link by link, so that the outermost decides
	case *net.DNSError:
		return dnsSign(e)
	case *net.OpError:
		return opSign(e, at)
	}
	if s := tlsSign(err); s.telling() {
		return s
	}
	if s := http2Sign(err); s.telling() {
		return s
	}
	if s := messageSign(err); s.telling() {
		return s
	}
	switch {
	case err == io.ErrUnexpectedEOF, err == io.EOF: //nolint:errorlint // one link
		return eofSign(at)
	case err == net.ErrClosed: //nolint:errorlint // one link
		return closedSign(at)
	case corrupt(err):
		return sign{cause: semconv.TransportCauseMalformedEvent}
	}
	if code, ok := errnoName(err); ok {
		return errnoSign(code, at)
	}
	return sign{}
}

// eofSign: the other side closed the connection.
func eofSign(at semconv.TransportStage) sign {
	switch at {
	case semconv.TransportStageBody:
		return sign{cause: semconv.TransportCauseBodyTruncated}
	case semconv.TransportStageUnset, semconv.TransportStageWrite, semconv.TransportStageHeaders:
		return sign{cause: semconv.TransportCauseClosedBeforeHeaders}
	default: // in a handshake: the stage says more than the EOF
		return byStageAlone(at, "EOF")
	}
}

// closedSign: the connection was closed under the request, by this process.
func closedSign(at semconv.TransportStage) sign {
	switch at {
	case semconv.TransportStageDNS, semconv.TransportStageConnect, semconv.TransportStageTLS, semconv.TransportStageProxy:
		return sign{} // the stage says more
	default:
		return sign{cause: semconv.TransportCauseConnectionLost}
	}
}

// errnoSign reads an errno outside of dialling.
func errnoSign(code string, at semconv.TransportStage) sign {
	switch at {
	case semconv.TransportStageConnect:
		return dialErrno(code)
	case semconv.TransportStageTLS, semconv.TransportStageProxy:
		return byStageAlone(at, code)
	}
	switch code {
	case "ECONNRESET", "ECONNABORTED", "ENETRESET":
		return sign{cause: semconv.TransportCauseConnectionReset, code: code}
	case "EPIPE":
		if at == semconv.TransportStageBody {
			return sign{cause: semconv.TransportCauseConnectionReset, code: code}
		}
		return sign{cause: semconv.TransportCauseWriteFailed, code: code}
	default:
		return sign{cause: semconv.TransportCauseConnectionLost, code: code}
	}
}

// opSign reads an operation of package net by what it was doing.
func opSign(e *net.OpError, at semconv.TransportStage) sign {
	code := codeIn(e)
	switch e.Op {
	case "proxyconnect", "socks connect":
		return sign{cause: semconv.TransportCauseProxy, code: code}
	case "dial":
		return dialSign(e, code)
	case "remote error", "local error": // crypto/tls: an alert
		return alertSign(e.Err, at)
	case "write", "writev", "sendfile", "splice":
		if at == semconv.TransportStageTLS || at == semconv.TransportStageProxy {
			return byStageAlone(at, code)
		}
		return sign{cause: semconv.TransportCauseWriteFailed, code: code}
	}
	switch {
	case at == semconv.TransportStageTLS || at == semconv.TransportStageProxy:
		return byStageAlone(at, code)
	case code == "" && e.Timeout(): // a deadline that a custom dialler put on the connection
		return timeoutSign(at)
	default:
		return sign{} // what is inside says more
	}
}

func dialSign(e *net.OpError, code string) sign {
	var dns *net.DNSError
	if errors.As(e.Err, &dns) {
		return dnsSign(dns)
	}
	switch {
	case code != "":
		return dialErrno(code)
	case e.Timeout():
		return sign{cause: semconv.TransportCauseConnectTimeout}
	default: // no suitable address, an address that cannot be parsed
		return sign{cause: semconv.TransportCauseConnectUnreachable}
	}
}

func dialErrno(code string) sign {
	switch code {
	case "ECONNREFUSED":
		return sign{cause: semconv.TransportCauseConnectRefused, code: code}
	case "ETIMEDOUT":
		return sign{cause: semconv.TransportCauseConnectTimeout, code: code}
	default: // EHOSTUNREACH, ENETUNREACH, EADDRNOTAVAIL, EACCES, EMFILE: no way there from here
		return sign{cause: semconv.TransportCauseConnectUnreachable, code: code}
	}
}

func dnsSign(e *net.DNSError) sign {
	if e.IsNotFound {
		return sign{cause: semconv.TransportCauseDNSNotFound}
	}
	return sign{cause: semconv.TransportCauseDNSTemporary}
}

// timeoutSign: a connection's own deadline passed.
func timeoutSign(at semconv.TransportStage) sign {
	switch at {
	case semconv.TransportStageDNS:
		return sign{cause: semconv.TransportCauseDNSTemporary}
	case semconv.TransportStageConnect:
		return sign{cause: semconv.TransportCauseConnectTimeout}
	case semconv.TransportStageTLS, semconv.TransportStageProxy:
		return byStageAlone(at, codeTimeout)
	case semconv.TransportStageWrite:
		return sign{cause: semconv.TransportCauseWriteFailed, code: codeTimeout}
	case semconv.TransportStageBody:
		return sign{cause: semconv.TransportCauseConnectionLost, code: codeTimeout}
	default:
		return sign{cause: semconv.TransportCauseHeaderTimeout}
	}
}

const codeTimeout = "TIMEOUT"

// byStage is the last resort: no link of the chain said anything, but the trace
// knows what was being done, or the error knows that it took too long.
func byStage(err error, at semconv.TransportStage) sign {
	switch at {
	case semconv.TransportStageTLS, semconv.TransportStageProxy:
		return byStageAlone(at, statusCode(err))
	}
	var slow net.Error
	if at != semconv.TransportStageUnset && errors.As(err, &slow) && slow.Timeout() {
		return timeoutSign(at)
	}
	return sign{}
}

func byStageAlone(at semconv.TransportStage, code string) sign {
	if at == semconv.TransportStageProxy {
		return sign{cause: semconv.TransportCauseProxy, code: code}
	}
	if code == "" {
		code = codeHandshake
	}
	return sign{cause: semconv.TransportCauseTLS, code: code}
}

// statusCode is the status, in digits, of a CONNECT that a proxy refused:
// net/http returns nothing but the bare status text.
func statusCode(err error) string {
	text, ok := bareMessage(err)
	if !ok {
		return ""
	}
	return statusByText[text]
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

// stageOf puts a cause where it belongs, when the cause itself says it.
func stageOf(c semconv.TransportCause, at semconv.TransportStage) semconv.TransportStage {
	switch c {
	case semconv.TransportCauseDNSNotFound, semconv.TransportCauseDNSTemporary:
		return semconv.TransportStageDNS
	case semconv.TransportCauseConnectRefused, semconv.TransportCauseConnectUnreachable, semconv.TransportCauseConnectTimeout:
		return semconv.TransportStageConnect
	case semconv.TransportCauseTLS:
		return semconv.TransportStageTLS
	case semconv.TransportCauseProxy:
		return semconv.TransportStageProxy
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

// corrupt: the transfer encoding of the body, which net/http undoes, is broken.
func corrupt(err error) bool {
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

// links lists the errors of a chain from outermost to root. Of an error that
// wraps several the first is followed.
func links(err error) []error {
	chain := make([]error, 0, 4)
	for err != nil && len(chain) < maxDepth {
		chain = append(chain, err)
		switch e := err.(type) { //nolint:errorlint // this is the walk
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			err = nil
			for _, inner := range e.Unwrap() {
				if inner != nil {
					err = inner
					break
				}
			}
		default:
			err = nil
		}
	}
	return chain
}

func typeChain(err error) (names []string) {
	defer func() {
		_ = recover() // an Unwrap panicked: the names so far stand
	}()
	chain := links(err)
	if len(chain) > maxChain {
		chain[maxChain-1] = chain[len(chain)-1]
		chain = chain[:maxChain]
	}
	names = make([]string, 0, len(chain))
	for _, e := range chain {
		names = append(names, TypeName(e))
	}
	return names
}

// TypeName is the name of an error's type, at most 256 bytes.
func TypeName(err error) string {
	name := reflect.TypeOf(err).String()
	if len(name) > maxTypeName {
		name = strings.ToValidUTF8(name[:maxTypeName], "")
	}
	return name
}

// codeIn is the name of the errno that an error carries, "" when there is none.
func codeIn(err error) string {
	for _, e := range links(err) {
		if code, ok := errnoName(e); ok {
			return code
		}
	}
	return ""
}

// RootType is the name of the type that says most about an error: the innermost
// of its chain that is not one of the standard library's containers for text.
func RootType(err error) (name string) {
	defer func() {
		_ = recover() // an Unwrap panicked: the name so far stands
	}()
	name = TypeName(err)
	chain := links(err)
	for i := len(chain) - 1; i >= 0; i-- {
		switch n := TypeName(chain[i]); n {
		case "*errors.errorString", "*fmt.wrapError", "*fmt.wrapErrors", "*errors.joinError":
		default:
			return n
		}
	}
	return TypeName(chain[len(chain)-1])
}

package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// Failures that the proxy itself finds.
var (
	errInformational = errors.New("proxy: too many informational responses")
	errUpgrade       = errors.New("proxy: a switch to a protocol that was not asked for")
)

// isReset reports whether a client is to see the failure of an upstream as a reset. The
// alternative is a connection that was closed.
//
// A client cannot be refused a connection that it has. Without one upstream it gets a reset,
// since agents that look at the kind treat that as a refusal: Gemini CLI repeats a request after
// ECONNREFUSED, ENOTFOUND and ECONNRESET, and not after a close before the headers, which is
// UND_ERR_SOCKET in Node. SDKs repeat it after each of them.
func isReset(err error) bool {
	if made := (*connectError)(nil); errors.As(err, &made) {
		return !errors.Is(err, io.EOF) // by which a handshake may end
	}
	return resetErrno(err) || http2Error(err) == streamReset
}

// Errors of HTTP/2, by the names of their types, which are not exported.
const (
	streamReset = "StreamError"
	goAway      = "GoAwayError"
	brokenFrame = "ConnectionError"
)

// http2Error returns which error of HTTP/2 is in err; "": none.
func http2Error(err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		name := strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
		_, name, _ = strings.Cut(name, ".")
		switch name = strings.TrimPrefix(name, "http2"); name {
		case streamReset, goAway, brokenFrame:
			return name
		}
	}
	return ""
}

// Problems that are told apart.
const (
	timedOut   = "timed out" // the connection was not made in time
	notTrusted = "TLS certificate refused"
)

// problem describes an error for the log, in words of this package's own.
func problem(err error) string {
	var (
		dns       *net.DNSError
		record    tls.RecordHeaderError
		alert     tls.AlertError
		op        *net.OpError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		timeout   net.Error
	)
	switch {
	case errors.Is(err, errInformational):
		return "too many informational responses"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "host not found"
	case errors.As(err, &dns) && !dns.IsTimeout:
		return "host name could not be looked up"
	case isRefused(err):
		return "connection refused"
	case errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid), errors.As(err, &verify):
		return notTrusted
	case errors.As(err, &record), errors.As(err, &alert), errors.As(err, &op) && op.Op == "remote error":
		return "TLS handshake failed"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.As(err, &timeout) && timeout.Timeout():
		return timedOut
	case resetErrno(err):
		return "connection reset"
	case http2Error(err) == streamReset:
		return "HTTP/2 stream reset"
	case http2Error(err) == goAway:
		return "HTTP/2 connection ended"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), isIdleClose(err):
		return "connection closed"
	case isConnect(err):
		return "could not connect"
	default:
		return "not valid HTTP"
	}
}

// isIdleClose reports whether the upstream closed a connection before it saw the request.
func isIdleClose(err error) bool {
	return strings.Contains(err.Error(), "server closed idle connection")
}

func isConnect(err error) bool {
	made := (*connectError)(nil)
	return errors.As(err, &made)
}

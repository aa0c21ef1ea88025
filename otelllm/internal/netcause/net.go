package netcause

import (
	"errors"
	"net"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// fromEOF returns the finding for a connection that the other side closed.
func fromEOF(at semconv.TransportStage) finding {
	switch at {
	case semconv.TransportStageBody:
		return finding{cause: semconv.TransportCauseBodyTruncated}
	case semconv.TransportStageUnset, semconv.TransportStageWrite, semconv.TransportStageHeaders:
		return finding{cause: semconv.TransportCauseClosedBeforeHeaders}
	default: // in a handshake, the stage is more specific than the EOF
		return fromStageOnly(at, "EOF")
	}
}

// fromClosed returns the finding for a connection that this process closed during the
// request.
func fromClosed(at semconv.TransportStage) finding {
	switch at {
	case semconv.TransportStageDNS, semconv.TransportStageConnect, semconv.TransportStageTLS, semconv.TransportStageProxy:
		return finding{} // the stage is more specific
	default:
		return finding{cause: semconv.TransportCauseConnectionLost}
	}
}

// fromErrno reads an errno that does not come from dialing.
func fromErrno(code string, at semconv.TransportStage) finding {
	switch at {
	case semconv.TransportStageConnect:
		return fromDialErrno(code)
	case semconv.TransportStageTLS, semconv.TransportStageProxy:
		return fromStageOnly(at, code)
	}
	switch code {
	case "ECONNRESET", "ECONNABORTED", "ENETRESET":
		return finding{cause: semconv.TransportCauseConnectionReset, code: code}
	case "EPIPE":
		if at == semconv.TransportStageBody {
			return finding{cause: semconv.TransportCauseConnectionReset, code: code}
		}
		return finding{cause: semconv.TransportCauseWriteFailed, code: code}
	default:
		return finding{cause: semconv.TransportCauseConnectionLost, code: code}
	}
}

// fromOp reads an error of package net by the operation that failed.
func fromOp(e *net.OpError, at semconv.TransportStage) finding {
	code := codeIn(e)
	switch e.Op {
	case "proxyconnect":
		return finding{cause: semconv.TransportCauseProxy, code: code}
	case "socks connect":
		return fromSOCKS(e, code)
	case "dial":
		return fromDial(e, code)
	case "remote error", "local error": // crypto/tls: an alert
		return fromAlert(e.Err, at)
	case "write", "writev", "sendfile", "splice":
		if at == semconv.TransportStageTLS || at == semconv.TransportStageProxy {
			return fromStageOnly(at, code)
		}
		return finding{cause: semconv.TransportCauseWriteFailed, code: code}
	}
	switch {
	case at == semconv.TransportStageTLS || at == semconv.TransportStageProxy:
		return fromStageOnly(at, code)
	case code == "" && e.Timeout(): // a deadline that a custom dialer set on the connection
		return fromTimeout(at)
	default:
		return finding{} // the wrapped error is more specific
	}
}

// fromSOCKS reads the errors of net/http's bundled SOCKS client. It reports a permanent
// refusal by a proxy only as text (socks_bundle.go).
func fromSOCKS(e *net.OpError, code string) finding {
	if text, ok := bareMessage(e.Err); ok {
		switch text {
		case "username/password authentication failed", "no acceptable authentication methods":
			return finding{cause: semconv.TransportCauseProxyRefused, code: codeSOCKSAuth}
		case "unknown error connection not allowed by ruleset":
			return finding{cause: semconv.TransportCauseProxyRefused, code: codeSOCKSRuleset}
		}
		if strings.HasPrefix(text, "port number out of range ") {
			return finding{cause: semconv.TransportCauseInvalidURL}
		}
	}
	return finding{cause: semconv.TransportCauseProxy, code: code}
}

// Codes for a SOCKS proxy that refuses a connection.
const (
	codeSOCKSAuth    = "SOCKS_AUTH"
	codeSOCKSRuleset = "SOCKS_RULESET"
)

func fromDial(e *net.OpError, code string) finding {
	var address *net.AddrError
	if errors.As(e.Err, &address) && invalidAddress(address.Err) {
		return finding{cause: semconv.TransportCauseInvalidURL}
	}
	var dns *net.DNSError
	if errors.As(e.Err, &dns) {
		return fromDNS(dns)
	}
	switch {
	case code != "":
		return fromDialErrno(code)
	case e.Timeout():
		return finding{cause: semconv.TransportCauseConnectTimeout}
	default: // no suitable address, or an address that cannot be parsed
		return finding{cause: semconv.TransportCauseConnectUnreachable}
	}
}

func fromDialErrno(code string) finding {
	switch code {
	case "ECONNREFUSED":
		return finding{cause: semconv.TransportCauseConnectRefused, code: code}
	case "ETIMEDOUT":
		return finding{cause: semconv.TransportCauseConnectTimeout, code: code}
	default: // EHOSTUNREACH, ENETUNREACH, EADDRNOTAVAIL, EACCES, EMFILE: no route from here
		return finding{cause: semconv.TransportCauseConnectUnreachable, code: code}
	}
}

// invalidAddress reports whether the text of a net.AddrError says that the host and port
// of a URL are invalid, and not that they are unreachable (ipsock.go, lookup.go).
func invalidAddress(text string) bool {
	switch text {
	case "invalid port", "missing port in address", "too many colons in address",
		"missing ']' in address", "unexpected '[' in address", "unexpected ']' in address":
		return true
	default:
		return false
	}
}

func fromDNS(e *net.DNSError) finding {
	if e.IsNotFound {
		return finding{cause: semconv.TransportCauseDNSNotFound}
	}
	return finding{cause: semconv.TransportCauseDNSTemporary}
}

// fromTimeout returns the finding for a connection whose own deadline passed.
func fromTimeout(at semconv.TransportStage) finding {
	switch at {
	case semconv.TransportStageDNS:
		return finding{cause: semconv.TransportCauseDNSTemporary}
	case semconv.TransportStageConnect:
		return finding{cause: semconv.TransportCauseConnectTimeout}
	case semconv.TransportStageTLS, semconv.TransportStageProxy:
		return fromStageOnly(at, codeTimeout)
	case semconv.TransportStageWrite:
		return finding{cause: semconv.TransportCauseWriteFailed, code: codeTimeout}
	case semconv.TransportStageBody:
		return finding{cause: semconv.TransportCauseConnectionLost, code: codeTimeout}
	default:
		return finding{cause: semconv.TransportCauseHeaderTimeout}
	}
}

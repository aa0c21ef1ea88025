package netcause

import (
	"errors"
	"net"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

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
	case "proxyconnect":
		return sign{cause: semconv.TransportCauseProxy, code: code}
	case "socks connect":
		return socksSign(e, code)
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

// socksSign reads net/http's bundled SOCKS client: how a proxy refuses for good, it
// says in words alone (socks_bundle.go).
func socksSign(e *net.OpError, code string) sign {
	if text, ok := bareMessage(e.Err); ok {
		switch text {
		case "username/password authentication failed", "no acceptable authentication methods":
			return sign{cause: semconv.TransportCauseProxyRefused, code: codeSOCKSAuth}
		case "unknown error connection not allowed by ruleset":
			return sign{cause: semconv.TransportCauseProxyRefused, code: codeSOCKSRuleset}
		}
		if strings.HasPrefix(text, "port number out of range ") {
			return sign{cause: semconv.TransportCauseInvalidURL}
		}
	}
	return sign{cause: semconv.TransportCauseProxy, code: code}
}

// Codes of a SOCKS proxy that refuses.
const (
	codeSOCKSAuth    = "SOCKS_AUTH"
	codeSOCKSRuleset = "SOCKS_RULESET"
)

func dialSign(e *net.OpError, code string) sign {
	var address *net.AddrError
	if errors.As(e.Err, &address) && noAddress(address.Err) {
		return sign{cause: semconv.TransportCauseInvalidURL}
	}
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

// noAddress: what a net.AddrError says is that the host and port of a URL are none,
// not that there is no way to them (ipsock.go, lookup.go).
func noAddress(text string) bool {
	switch text {
	case "invalid port", "missing port in address", "too many colons in address",
		"missing ']' in address", "unexpected '[' in address", "unexpected ']' in address":
		return true
	default:
		return false
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

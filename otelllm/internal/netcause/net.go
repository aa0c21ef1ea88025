package netcause

import (
	"errors"
	"net"

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

package netcause

import (
	"crypto/tls"
	"net/http"
	"reflect"
	"strings"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Codes for TLS failures other than certificates.
const (
	codeHandshake = "HANDSHAKE" // the handshake failed for an unknown reason
	codeNotTLS    = "NOT_TLS"   // the data received was not TLS
)

func fromTLS(err error) finding {
	switch e := err.(type) { //nolint:errorlint // one link of a chain that is walked outside
	case *tls.CertificateVerificationError:
		return finding{cause: semconv.TransportCauseTLS, code: classify.CodeCertificate}
	case tls.RecordHeaderError, *tls.RecordHeaderError:
		return finding{cause: semconv.TransportCauseTLS, code: codeNotTLS}
	case tls.AlertError:
		return finding{cause: semconv.TransportCauseTLS, code: alertCode(uint8(e))}
	}
	if err == http.ErrSchemeMismatch { //nolint:errorlint // one link
		return finding{cause: semconv.TransportCauseTLS, code: codeNotTLS}
	}
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() == "crypto/x509" {
		return finding{cause: semconv.TransportCauseTLS, code: classify.CodeCertificate}
	}
	return finding{}
}

// fromAlert reads a TLS alert, sent or received. Its type in crypto/tls is not exported,
// but it is a uint8 as well. After the handshake an alert is a lost connection: the
// request was sent before. The exception is a server that refuses this side's certificate: in TLS 1.3 it
// does so when this side takes the handshake for done, and it reads no request.
func fromAlert(alert error, at semconv.TransportStage) finding {
	code := ""
	if v := reflect.ValueOf(alert); v.Kind() == reflect.Uint8 && v.Type().PkgPath() == "crypto/tls" {
		code = alertCode(uint8(v.Uint()))
	}
	if code == classify.CodeCertificate && at != semconv.TransportStageBody {
		at = semconv.TransportStageTLS
	}
	switch at {
	case semconv.TransportStageWrite, semconv.TransportStageHeaders, semconv.TransportStageBody:
		return finding{cause: semconv.TransportCauseConnectionLost, code: code}
	default:
		return fromStageOnly(semconv.TransportStageTLS, code)
	}
}

// alertCode names an alert: [classify.CodeCertificate] for alerts by which one side
// refuses the other's certificate, and otherwise the name from RFC 8446 in upper case.
func alertCode(alert uint8) string {
	switch alert {
	case 42, 43, 44, 45, 46, 48, 116: // bad, unsupported, revoked, expired, unknown, unknown_ca, required
		return classify.CodeCertificate
	}
	name, ok := strings.CutPrefix(tls.AlertError(alert).Error(), "tls: ")
	if !ok || strings.Contains(name, "(") { // alert(n): not defined in the RFC
		return codeHandshake
	}
	return strings.ToUpper(strings.ReplaceAll(name, " ", "_"))
}

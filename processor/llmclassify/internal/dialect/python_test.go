package dialect

import (
	"maps"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// python is a span of opentelemetry-instrumentation-openai-v2, whose errors are
// qualified names of classes.
func python(errorType, message string) shape {
	return shape{
		scope: "opentelemetry.instrumentation.openai_v2", name: "chat gpt-test", kind: ptrace.SpanKindClient, status: statusError, message: message,
		attrs: map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "gpt-test", "gen_ai.request.stream": true,
			"error.type": errorType,
		},
		events: []event{{class: errorType, message: message}},
	}
}

// responded is the span with something that only a response brings.
func responded(s shape, more map[string]any) shape {
	maps.Copy(s.attrs, more)
	return s
}

// TestPython reads what Python's HTTP clients and SDKs raise.
func TestPython(t *testing.T) {
	watchdog := failedWith(classify.Request{Ended: semconv.StreamEndWatchdog, Basis: classify.Typed, Watchdog: classify.Watchdog{Kind: semconv.WatchdogKindIdle}})
	idle := verdict{semconv.ClassWatchdogTimeout, semconv.CauseIdle, medium, confirm}
	local := func(s semconv.AbortSource) classify.Request {
		return failedWith(classify.Request{Ended: semconv.StreamEndCancelled, Basis: classify.Typed, Abort: classify.Abort{Source: s}})
	}
	broke := func(class string, c semconv.TransportCause, cause semconv.Cause, really truth) requestCase {
		return requestCase{class, python(class, canary), []truth{really}, interrupted(cause, medium), transport(c, class)}
	}
	unmade := func(class string, c semconv.TransportCause, cause semconv.Cause) requestCase {
		return requestCase{class, python(class, canary), []truth{unsent}, unconnected(cause, confirm), transport(c, class)}
	}
	vague := func(class string) requestCase {
		facts := transport(semconv.TransportCauseConnectRefused, class)
		facts.Basis = classify.Inferred
		want := unconnected(semconv.CauseConnectRefused, confirm)
		want.confidence = low
		return requestCase{class, python(class, canary), []truth{unsent}, want, facts}
	}
	texted := func(name, class, message string, c semconv.TransportCause, really truth, want verdict) requestCase {
		return requestCase{name, python(class, message), []truth{really}, want, transport(c, class)}
	}
	certificate := transport(semconv.TransportCauseTLS, classify.CodeCertificate)
	cases := []requestCase{
		unmade("httpx.ConnectTimeout", semconv.TransportCauseConnectTimeout, semconv.CauseConnectTimeout),
		unmade("httpx.PoolTimeout", semconv.TransportCauseConnectTimeout, semconv.CauseConnectTimeout),
		unmade("aiohttp.client_exceptions.ConnectionTimeoutError", semconv.TransportCauseConnectTimeout, semconv.CauseConnectTimeout),
		unmade("aiohttp.client_exceptions.ClientConnectorSSLError", semconv.TransportCauseTLS, semconv.CauseTLS),
		vague("httpx.ConnectError"),
		vague("httpcore.ConnectError"),
		vague("httpx2.ConnectError"),
		vague("aiohttp.client_exceptions.ClientConnectorError"),
		unmade("httpx.ProxyError", semconv.TransportCauseProxy, semconv.CauseProxy),
		unmade("aiohttp.client_exceptions.ClientProxyConnectionError", semconv.TransportCauseProxy, semconv.CauseProxy),
		{
			"aiohttp's unknown host", python("aiohttp.client_exceptions.ClientConnectorDNSError", canary),
			[]truth{badHost},
			unconnected(semconv.CauseDNSNotFound, never), transport(semconv.TransportCauseDNSNotFound, "aiohttp.client_exceptions.ClientConnectorDNSError"),
		},
		{
			"aiohttp's certificate", python("aiohttp.client_exceptions.ClientConnectorCertificateError", canary),
			[]truth{badHost},
			unconnected(semconv.CauseTLS, never), transport(semconv.TransportCauseTLS, classify.CodeCertificate),
		},
		texted("refused", "httpx.ConnectError", "All connection attempts failed", semconv.TransportCauseConnectRefused, unsent, unconnected(semconv.CauseConnectRefused, confirm)),
		texted("refused on macOS", "httpx.ConnectError", "[Errno 61] Connection refused", semconv.TransportCauseConnectRefused, unsent, unconnected(semconv.CauseConnectRefused, confirm)),
		texted("refused on Linux", "httpcore.ConnectError", "[Errno 111] Connection refused", semconv.TransportCauseConnectRefused, unsent, unconnected(semconv.CauseConnectRefused, confirm)),
		texted("unknown host on macOS", "httpx.ConnectError", "[Errno 8] nodename nor servname provided, or not known", semconv.TransportCauseDNSNotFound, badHost, unconnected(semconv.CauseDNSNotFound, never)),
		texted("a host without an address", "httpx.ConnectError", "[Errno -5] No address associated with hostname", semconv.TransportCauseDNSNotFound, badHost, unconnected(semconv.CauseDNSNotFound, never)),
		texted("unknown host", "httpx.ConnectError", "[Errno -2] Name or service not known", semconv.TransportCauseDNSNotFound, badHost, unconnected(semconv.CauseDNSNotFound, never)),
		texted("resolver busy", "httpx.ConnectError", "[Errno -3] Temporary failure in name resolution", semconv.TransportCauseDNSTemporary, unsent, unconnected(semconv.CauseDNSTemporary, confirm)),
		{
			"certificate", python("httpx.ConnectError", "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1006)"),
			[]truth{badHost},
			unconnected(semconv.CauseTLS, never), certificate,
		},
		texted("closed before headers", "httpx.RemoteProtocolError", "Server disconnected without sending a response.", semconv.TransportCauseClosedBeforeHeaders, early,
			interrupted(semconv.CauseClosedBeforeHeaders, medium)),
		broke("httpx.RemoteProtocolError", semconv.TransportCauseBodyTruncated, semconv.CauseBodyTruncated, cut),
		broke("aiohttp.client_exceptions.ClientPayloadError", semconv.TransportCauseBodyTruncated, semconv.CauseBodyTruncated, cut),
		broke("httpx.ReadError", semconv.TransportCauseConnectionReset, semconv.CauseConnectionReset, cut),
		broke("aiohttp.client_exceptions.ServerDisconnectedError", semconv.TransportCauseConnectionReset, semconv.CauseConnectionReset, cut),
		broke("aiohttp.client_exceptions.ClientOSError", semconv.TransportCauseConnectionReset, semconv.CauseConnectionReset, cut),
		broke("httpx.WriteError", semconv.TransportCauseWriteFailed, semconv.CauseWriteFailed, early),
		broke("httpx.WriteTimeout", semconv.TransportCauseWriteFailed, semconv.CauseWriteFailed, early),
		{"a text of another class says nothing", python("builtins.RuntimeError", "Server disconnected without sending a response."), []truth{cut}, unclassified, failedWith(classify.Request{})},
		{"CancelledError", python("asyncio.exceptions.CancelledError", ""), []truth{stopped}, aborted(semconv.CauseUnknown, low), local(semconv.AbortSourceUnknown)},
		{"GeneratorExit", python("GeneratorExit", ""), []truth{stopped}, aborted(semconv.CauseUnknown, low), local(semconv.AbortSourceUnknown)},
		{"TimeoutError", python("TimeoutError", ""), []truth{deadline}, aborted(semconv.CauseDeadline, medium), local(semconv.AbortSourceDeadline)},
		{
			"openai.RateLimitError", python("openai.RateLimitError", canary),
			[]truth{passing},
			ofProvider(semconv.CauseRateLimited, confirm), said(semconv.ProviderErrorKindRateLimited, "openai.RateLimitError"),
		},
		{
			"openai.InternalServerError", python("openai.InternalServerError", canary),
			[]truth{passing},
			ofProvider(semconv.CauseServerError, confirm), said(semconv.ProviderErrorKindServerError, "openai.InternalServerError"),
		},
		{
			"anthropic._exceptions.OverloadedError", python("anthropic._exceptions.OverloadedError", canary),
			[]truth{passing},
			ofProvider(semconv.CauseOverloaded, confirm), said(semconv.ProviderErrorKindOverloaded, "anthropic._exceptions.OverloadedError"),
		},
		{
			"anthropic.AuthenticationError", python("anthropic.AuthenticationError", canary),
			[]truth{refusal},
			ofProvider(semconv.CauseAuthentication, never), said(semconv.ProviderErrorKindAuthentication, "anthropic.AuthenticationError"),
		},
		{
			"anthropic.BadRequestError", python("anthropic.BadRequestError", canary),
			[]truth{refusal},
			ofProvider(semconv.CauseInvalidRequest, never), said(semconv.ProviderErrorKindInvalidRequest, "anthropic.BadRequestError"),
		},
		{
			"a connection error of any stage", python("openai.APIConnectionError", "Connection error."),
			[]truth{unsent, badHost, early, cut},
			unclassified, failedWith(classify.Request{}),
		},
		{
			"a connection error after a response had begun", responded(python("openai.APIConnectionError", "Connection error."), map[string]any{"gen_ai.response.id": "chatcmpl-1"}),
			[]truth{cut},
			interrupted(semconv.CauseUnknown, medium),
			failedWith(classify.Request{Ended: semconv.StreamEndReadError, Basis: classify.Corroborated}),
		},
		{
			"a connection error after a status", responded(python("anthropic.APIConnectionError", "Connection error."), map[string]any{"http.response.status_code": 200}),
			[]truth{cut},
			interrupted(semconv.CauseUnknown, medium),
			failedWith(classify.Request{Ended: semconv.StreamEndReadError, Basis: classify.Corroborated, Status: 200}),
		},
		{
			"an empty id is no response", responded(python("openai.APIConnectionError", "Connection error."), map[string]any{"gen_ai.response.id": ""}),
			[]truth{unsent, badHost, early, cut},
			unclassified, failedWith(classify.Request{}),
		},
		{"openai.APIError in the stream", python("openai.APIError", canary), []truth{inBand}, unclassified, failedWith(classify.Request{})},
	}
	for _, class := range []string{"httpx.ReadTimeout", "aiohttp.client_exceptions.SocketTimeoutError"} {
		cases = append(cases, requestCase{class, python(class, "Request timed out."), []truth{timer}, idle, watchdog})
	}
	for _, class := range []string{"openai.APITimeoutError", "anthropic.APITimeoutError"} { // httpx's timeouts of connecting and reading alike
		cases = append(cases, requestCase{class, python(class, "Request timed out."), []truth{timer, unsent, early}, unclassified, failedWith(classify.Request{})})
	}
	checkRequests(t, GenAI{}, cases)
}

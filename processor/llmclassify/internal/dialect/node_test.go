package dialect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// node is a span of the GenAI conventions by an agent in Node that writes the code of
// the error's cause, as an application that looks down the chain does.
func node(code string) shape {
	return shape{
		scope: "my-agent", name: "chat gpt-test", kind: ptrace.SpanKindClient, status: statusError, message: canary,
		attrs:  map[string]any{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.stream": true, "error.type": code},
		events: []event{{class: "TypeError", message: "fetch failed"}},
	}
}

// TestNode reads every code that Node and undici have for a request that failed: on
// the request's own span, where nothing else is known, and on the HTTP exchange
// beneath it, before a response and after its headers.
func TestNode(t *testing.T) {
	v7 := vercel7("chat", statusError, nil, event{class: "Error", message: "AI SDK operation failed"})
	reads := func(c semconv.Cause) verdict { return interrupted(c, medium) }
	unmade := func(c semconv.Cause) verdict { return unconnected(c, confirm) }
	never := func(c semconv.Cause) verdict { return unconnected(c, never) }
	unsure := func(v verdict) verdict { v.confidence = low; return v }
	broke := interrupted(semconv.CauseUnknown, medium) // whatever it was, a response was there to break
	idle := verdict{semconv.ClassWatchdogTimeout, semconv.CauseIdle, medium, confirm}
	garbage := verdict{semconv.ClassProtocolViolation, semconv.CauseMalformedEvent, medium, confirm}
	local := aborted(semconv.CauseUnknown, low)

	type row struct {
		code   string
		alone  verdict // on the request's span
		before verdict // on the exchange, without a response
		body   verdict // on the exchange, with its headers
		truths []truth // of alone and before
	}
	rows := []row{
		{"ECONNRESET", reads(semconv.CauseConnectionReset), reads(semconv.CauseClosedBeforeHeaders), reads(semconv.CauseConnectionReset), []truth{early}},
		{"UND_ERR_SOCKET", reads(semconv.CauseClosedBeforeHeaders), reads(semconv.CauseClosedBeforeHeaders), reads(semconv.CauseBodyTruncated), []truth{early}},
		{"EPIPE", reads(semconv.CauseWriteFailed), reads(semconv.CauseWriteFailed), reads(semconv.CauseWriteFailed), []truth{early}},
		{"ECONNREFUSED", unmade(semconv.CauseConnectRefused), unmade(semconv.CauseConnectRefused), broke, []truth{unsent}},
		{"EHOSTUNREACH", unmade(semconv.CauseConnectUnreachable), unmade(semconv.CauseConnectUnreachable), broke, []truth{unsent}},
		{"ENETUNREACH", unmade(semconv.CauseConnectUnreachable), unmade(semconv.CauseConnectUnreachable), broke, []truth{unsent}},
		{
			"ETIMEDOUT", unsure(unmade(semconv.CauseConnectTimeout)), unsure(unmade(semconv.CauseConnectTimeout)),
			unsure(broke),
			[]truth{unsent},
		},
		{"UND_ERR_CONNECT_TIMEOUT", unmade(semconv.CauseConnectTimeout), unmade(semconv.CauseConnectTimeout), broke, []truth{unsent}},
		{"ENOTFOUND", never(semconv.CauseDNSNotFound), never(semconv.CauseDNSNotFound), broke, []truth{badHost}},
		{"EAI_AGAIN", unmade(semconv.CauseDNSTemporary), unmade(semconv.CauseDNSTemporary), broke, []truth{unsent}},
		{"UND_ERR_PRX_TLS", unmade(semconv.CauseProxy), unmade(semconv.CauseProxy), broke, []truth{unsent}},
		{"UND_ERR_PRX_CONN", unmade(semconv.CauseProxy), unmade(semconv.CauseProxy), broke, []truth{unsent}},
		{"EPROTO", never(semconv.CauseTLS), never(semconv.CauseTLS), broke, []truth{unsent}},
		{"UND_ERR_HEADERS_TIMEOUT", reads(semconv.CauseHeaderTimeout), reads(semconv.CauseHeaderTimeout), reads(semconv.CauseHeaderTimeout), []truth{early}},
		{"UND_ERR_BODY_TIMEOUT", idle, idle, idle, []truth{timer}},
		{
			"UND_ERR_RES_CONTENT_LENGTH_MISMATCH", reads(semconv.CauseBodyTruncated), reads(semconv.CauseClosedBeforeHeaders), reads(semconv.CauseBodyTruncated),
			[]truth{early},
		},
		{"HPE_INVALID_CHUNK_SIZE", garbage, garbage, garbage, []truth{garbled}},
		{"HPE_INVALID_CONSTANT", garbage, garbage, garbage, []truth{garbled}},
		{"UND_ERR_ABORTED", local, local, local, []truth{stopped}},
		{"AbortError", local, local, local, []truth{stopped}},
		{
			"TimeoutError", aborted(semconv.CauseDeadline, medium), aborted(semconv.CauseDeadline, medium), aborted(semconv.CauseDeadline, medium),
			[]truth{deadline},
		},
	}
	for _, code := range []string{
		"CERT_HAS_EXPIRED", "CERT_NOT_YET_VALID", "CERT_REVOKED", "CERT_REJECTED", "CERT_UNTRUSTED", "DEPTH_ZERO_SELF_SIGNED_CERT",
		"SELF_SIGNED_CERT_IN_CHAIN", "UNABLE_TO_VERIFY_LEAF_SIGNATURE", "UNABLE_TO_GET_ISSUER_CERT", "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
		"ERR_TLS_CERT_ALTNAME_INVALID", "HOSTNAME_MISMATCH", "INVALID_CA",
	} {
		rows = append(rows, row{code, never(semconv.CauseTLS), never(semconv.CauseTLS), broke, []truth{badHost}})
	}
	for _, r := range rows {
		t.Run(r.code, func(t *testing.T) {
			s := node(r.code)
			_, _, facts := s.read(t)
			checkVerdict(t, facts.Request, r.alone, r.truths)

			_, _, facts = v7.read(t)
			Explain(facts.Request, []Exchange{exchangeOf(t, undici(0, r.code))})
			checkVerdict(t, facts.Request, r.before, r.truths)

			_, _, facts = v7.read(t)
			Explain(facts.Request, []Exchange{exchangeOf(t, undici(200, r.code))})
			checkVerdict(t, facts.Request, r.body, []truth{{r.body.class, originOf(r.body), confirm}})
			assert.Equal(t, 200, facts.Request.Status)
		})
	}

	// The other side closed: within the body where there was one, or where nothing says that
	// there was none.
	for name, tt := range map[string]struct {
		event event
		more  map[string]any
		want  semconv.Cause
	}{
		"fetch failed":                   {event{class: "TypeError", message: "fetch failed"}, nil, semconv.CauseClosedBeforeHeaders},
		"terminated":                     {event{class: "TypeError", message: "terminated"}, nil, semconv.CauseBodyTruncated},
		"no message":                     {event{class: "SocketError"}, nil, semconv.CauseBodyTruncated},
		"fetch failed, after a response": {event{class: "TypeError", message: "fetch failed"}, map[string]any{"gen_ai.response.id": "resp_1"}, semconv.CauseBodyTruncated},
		"fetch failed, with a status":    {event{class: "TypeError", message: "fetch failed"}, map[string]any{"http.response.status_code": 200}, semconv.CauseBodyTruncated},
		"of another class":               {event{class: "Error", message: "fetch failed"}, nil, semconv.CauseBodyTruncated},
	} {
		t.Run("UND_ERR_SOCKET/"+name, func(t *testing.T) {
			s := node("UND_ERR_SOCKET")
			s.events = []event{tt.event}
			responded(s, tt.more)
			_, _, facts := s.read(t)
			checkVerdict(t, facts.Request, reads(tt.want), []truth{cut})

			s.attrs["error.type"] = "TypeError:UND_ERR_SOCKET" // as Qwen Code writes it
			_, _, facts = s.read(t)
			checkVerdict(t, facts.Request, reads(tt.want), []truth{cut})
		})
	}

	// What undici says of a stream that broke has the code only in the cause behind it.
	s := node("TypeError")
	s.events = []event{{class: "TypeError", message: "terminated"}}
	_, _, facts := s.read(t)
	checkVerdict(t, facts.Request, interrupted(semconv.CauseUnknown, medium), []truth{cut})
	s.lasted = undiciPatience // or nothing came for as long as undici waits
	_, _, facts = s.read(t)
	checkVerdict(t, facts.Request, unclassified, []truth{cut})
	s.lasted = 0
	s.events = []event{{class: "Error", message: "the tool said: terminated"}}
	_, _, facts = s.read(t)
	checkVerdict(t, facts.Request, unclassified, []truth{cut})
}

func originOf(v verdict) semconv.Origin {
	switch v.class {
	case semconv.ClassWatchdogTimeout:
		return semconv.OriginWatchdog
	case semconv.ClassLocalAbort:
		return semconv.OriginLocal
	case semconv.ClassProtocolViolation:
		return semconv.OriginProvider
	default:
		return semconv.OriginTransport
	}
}

// An error that says that there was no connection, beside a response, is one of the
// response's: the connection was there.
func TestNoConnectionBesideAResponse(t *testing.T) {
	for name, more := range map[string]map[string]any{
		"a status": {"http.response.status_code": 200}, "an id": {"gen_ai.response.id": "chatcmpl-1"},
	} {
		s := responded(node("ECONNREFUSED"), more)
		_, _, facts := s.read(t)
		checkVerdict(t, facts.Request, interrupted(semconv.CauseUnknown, medium), []truth{cut})
		assert.Equal(t, "ECONNREFUSED", facts.Request.Transport.Code, name)
		assert.Equal(t, classify.Corroborated, facts.Request.Basis)
	}
}

package dialect

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// undici is a span of @opentelemetry/instrumentation-undici.
func undici(status int, errorType string) shape {
	attrs := map[string]any{
		"http.request.method": "POST", "url.full": "https://api.example.com/v1/chat?key=" + canary, "url.path": "/v1/chat",
		"server.address": "api.example.com", "server.port": 443,
	}
	if status > 0 {
		attrs["http.response.status_code"] = status
	}
	s := shape{scope: "@opentelemetry/instrumentation-undici", name: "POST", kind: ptrace.SpanKindClient, attrs: attrs}
	if errorType != "" {
		attrs["error.type"] = errorType
		s.status, s.message = statusError, canary
	}
	return s
}

func exchangeOf(t *testing.T, s shape) Exchange {
	t.Helper()
	span := s.span(t)
	head, d := Default().In(s.scope).Recognise(span)
	require.Equal(t, Head{Exchange: true}, head)
	require.Nil(t, d)
	return ReadExchange(span)
}

// What the HTTP child says beneath requests whose own spans say little.
func TestExplain(t *testing.T) {
	v7 := vercel7("chat", statusError, nil, event{class: "Error", message: "AI SDK operation failed"})
	v6 := vercel6("ai.streamText.doStream", statusError, nil, event{class: "AI_APICallError", message: canary})
	js := openAIJS(statusError, map[string]any{"gen_ai.system": "openai", "error.type": "APIConnectionError"})
	timedOut := openAIJS(statusError, map[string]any{"gen_ai.system": "openai", "error.type": "APIConnectionTimeoutError"})
	looksWell := traceloop(traceloopJS, statusUnset, map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": []any{"stop"},
	})
	finished := openAIJS(statusUnset, map[string]any{"gen_ai.system": "openai", "gen_ai.response.finish_reasons": []any{"stop"}})
	quiet := vercel7("chat", statusUnset, nil)

	for _, c := range []struct {
		name    string
		request shape
		child   shape
		really  truth
		want    verdict
		phase   semconv.Phase
		stage   semconv.TransportStage
	}{
		{"reset in the body", v7, undici(200, "ECONNRESET"), cut, interrupted(semconv.CauseConnectionReset, medium), semconv.PhaseUnknown, semconv.TransportStageBody},
		{"closed in the body", v7, undici(200, "UND_ERR_SOCKET"), cut, interrupted(semconv.CauseBodyTruncated, medium), semconv.PhaseUnknown, semconv.TransportStageBody},
		{"closed before headers", v7, undici(0, "UND_ERR_SOCKET"), early, interrupted(semconv.CauseClosedBeforeHeaders, medium), semconv.PhaseAwaitingResponse, 0},
		{"headers timeout", v6, undici(0, "UND_ERR_HEADERS_TIMEOUT"), early, interrupted(semconv.CauseHeaderTimeout, medium), semconv.PhaseUnknown, 0},
		{
			"body timeout", v6, undici(200, "UND_ERR_BODY_TIMEOUT"), timer,
			verdict{semconv.ClassWatchdogTimeout, semconv.CauseIdle, medium, confirm},
			semconv.PhaseUnknown, 0,
		},
		{"refused connection", js, undici(0, "ECONNREFUSED"), unsent, unconnected(semconv.CauseConnectRefused, confirm), semconv.PhaseBeforeConnection, 0},
		{"unknown host", js, undici(0, "ENOTFOUND"), badHost, unconnected(semconv.CauseDNSNotFound, never), semconv.PhaseBeforeConnection, 0},
		{"connect timeout", js, undici(0, "UND_ERR_CONNECT_TIMEOUT"), unsent, unconnected(semconv.CauseConnectTimeout, confirm), semconv.PhaseBeforeConnection, 0},
		{"expired certificate", js, undici(0, "CERT_HAS_EXPIRED"), badHost, unconnected(semconv.CauseTLS, never), semconv.PhaseBeforeConnection, 0},
		{"AbortSignal.timeout", v7, undici(200, "23"), deadline, aborted(semconv.CauseDeadline, medium), semconv.PhaseUnknown, 0},
		{"AbortSignal", v7, undici(200, "20"), stopped, aborted(semconv.CauseUnknown, low), semconv.PhaseUnknown, 0},
		{"refused", v6, undici(429, "429"), passing, ofProvider(semconv.CauseRateLimited, confirm), semconv.PhaseResponseStarted, 0},
		{"not authenticated", v7, undici(401, "401"), refusal, ofProvider(semconv.CauseAuthentication, never), semconv.PhaseResponseStarted, 0},
		{"the status under its old name", v7, func() shape {
			s := undici(0, "")
			s.attrs = map[string]any{"http.method": "POST", "http.url": "https://api.example.com", "http.status_code": 529}
			return s
		}(), passing, ofProvider(semconv.CauseOverloaded, confirm), semconv.PhaseResponseStarted, 0},
		{"an answer that only looks well", looksWell, undici(200, "ECONNRESET"), cut, interrupted(semconv.CauseConnectionReset, medium), semconv.PhaseUnknown, semconv.TransportStageBody},
		{"what seemed to be an abort", quiet, undici(200, "ECONNRESET"), cut, interrupted(semconv.CauseConnectionReset, medium), semconv.PhaseUnknown, semconv.TransportStageBody},
		{"a person's abort leaves no trace", quiet, undici(200, ""), stopped, aborted(semconv.CauseUnknown, low), semconv.PhaseUnknown, 0},
		{"a response that ended says nothing of what it held", v7, undici(200, ""), cut, unclassified, semconv.PhaseUnknown, 0},
		{"an answer that came to its end", finished, undici(200, "ECONNRESET"), success, well, semconv.PhaseStreamEnd, 0},
		{"httpx's class", js, undici(200, "httpx.RemoteProtocolError"), cut, interrupted(semconv.CauseBodyTruncated, medium), semconv.PhaseUnknown, semconv.TransportStageBody},
		{"a class of any stage", js, undici(0, "APIConnectionError"), unsent, unclassified, semconv.PhaseUnknown, 0},
		{"the headers, by a client with one word for all timeouts", timedOut, undici(0, "UND_ERR_HEADERS_TIMEOUT"), early, interrupted(semconv.CauseHeaderTimeout, medium), semconv.PhaseUnknown, 0},
		{"the connection, likewise", timedOut, undici(0, "UND_ERR_CONNECT_TIMEOUT"), unsent, unconnected(semconv.CauseConnectTimeout, confirm), semconv.PhaseBeforeConnection, 0},
		{"reading, with no response", timedOut, undici(0, "httpx.ReadTimeout"), early, interrupted(semconv.CauseHeaderTimeout, medium), semconv.PhaseAwaitingResponse, semconv.TransportStageHeaders},
		{"an error of no known name", v7, undici(200, "Error"), cut, unclassified, semconv.PhaseUnknown, 0},
		{"a Go client's type", v7, undici(0, "*url.Error"), unsent, unclassified, semconv.PhaseUnknown, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, facts := c.request.read(t)
			earlier := exchangeOf(t, undici(503, "503"))
			earlier.Start = start.Add(-time.Second)
			Explain(facts.Request, []Exchange{exchangeOf(t, c.child), earlier})
			checkVerdict(t, facts.Request, c.want, []truth{c.really})
			v := classify.Judge(&classify.Run{Requests: []classify.Request{*facts.Request}})
			if v.Requests[0].Class != semconv.ClassUnset {
				assert.Equal(t, c.phase, v.Requests[0].Phase)
			}
			assert.Equal(t, c.stage, facts.Request.Transport.Stage)
			assert.NotContains(t, v.Requests[0].Evidence, canary)
		})
	}
}

// An exchange completes what the producer knows of a provider's error, and never
// contradicts it.
func TestExplainProvider(t *testing.T) {
	js := openAIJS(statusError, map[string]any{"gen_ai.system": "openai", "error.type": "RateLimitError"})
	_, _, facts := js.read(t)
	Explain(facts.Request, []Exchange{exchangeOf(t, undici(429, "429"))})
	want := refusedBy(429, semconv.ProviderErrorKindRateLimited, "RateLimitError")
	want.Start, want.End = start, end
	want.Error = facts.Request.Error // see TestErrorOf
	assert.Equal(t, &want, facts.Request)

	_, _, facts = js.read(t)
	child := undici(200, "")
	child.attrs["http.request.resend_count"] = 2
	Explain(facts.Request, []Exchange{exchangeOf(t, child)})
	assert.True(t, facts.Request.Provider.InBand)
	assert.Equal(t, 3, facts.Request.Attempt)

	_, _, facts = js.read(t)
	before := *facts.Request
	Explain(facts.Request, nil)
	assert.Equal(t, before, *facts.Request)
}

func TestExchangesAreOfClients(t *testing.T) {
	s := undici(200, "")
	s.kind = ptrace.SpanKindServer
	head, _, _ := s.read(t)
	assert.Equal(t, Head{}, head)
	s = undici(200, "")
	delete(s.attrs, "http.request.method")
	head, _, _ = s.read(t)
	assert.Equal(t, Head{}, head)
	s.attrs = map[string]any{"http.request.method": "POST"}
	head, _, _ = s.read(t)
	assert.Equal(t, Head{}, head)

	x := exchangeOf(t, undici(0, "ECONNREFUSED"))
	assert.Greater(t, x.Size(), len("ECONNREFUSED"))
	assert.Less(t, x.Size(), 300)

	span := undici(99999, "").span(t)
	span.SetStartTimestamp(pcommon.Timestamp(0))
	assert.Zero(t, ReadExchange(span).Status)
	assert.True(t, ReadExchange(span).Start.IsZero())
}

// A client that has seen itself what broke knows better than the exchange beneath.
func TestExplainKeepsWhatTheProducerSaw(t *testing.T) {
	s := span(t, map[string]any{
		"gen_ai.operation.name": "chat", "llm.stream.end": "read_error", "llm.stream.phase": "text", "http.response.status_code": 200,
		"llm.transport.stage": "body", "llm.transport.cause": "connection_lost", "llm.transport.code": "UND_ERR_SOCKET",
	})
	s.Status().SetCode(ptrace.StatusCodeError)
	r := read(t, s).Request
	before := *r
	Explain(r, []Exchange{exchangeOf(t, undici(200, "UND_ERR_SOCKET"))})
	assert.Equal(t, before, *r)
}

// A URL that is too long to be searched may be that of a model.
func TestMayBeModelCall(t *testing.T) {
	long := strings.Repeat("/files", maxURL/6)
	for url, want := range map[string]bool{
		"": true, "https://gateway.example.com": true, "https://example.com/v1/messages": true, "https://example.com/orders": false,
		"https://example.com" + long: true, "https://example.com/files?key=" + long: false,
	} {
		assert.Equal(t, want, mayBeModelCall(url), url)
	}
}

package recorded

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

// pythonSpan is a span in the form of one of Python's instrumentations.
type pythonSpan struct {
	harness.Span

	scope, version string
	message        string // of the status
	raised, words  string // exception.type and exception.message of an exception event
}

// The instrumentations, in the versions whose forms these are.
func openAIV2(s harness.Span) pythonSpan {
	return pythonSpan{Span: s, scope: "opentelemetry.instrumentation.openai_v2", version: "2.1b0"}
}

// pythonChat is a streamed call under opentelemetry-instrumentation-openai-v2.
func pythonChat() pythonSpan {
	s := harness.ChatSpan(2, 1, 0.1, 2)
	s.Name = "chat gpt-test"
	s.Attrs = []attribute.KeyValue{
		otelsemconv.GenAIOperationNameChat, attribute.String("gen_ai.system", "openai"),
		otelsemconv.GenAIRequestModel("gpt-test"), otelsemconv.GenAIRequestStream(true),
	}
	return openAIV2(s)
}

// ended as openai-v2 ends a span: the class without its module, the message as the
// status's description, no event.
func (p pythonSpan) ended(class, message string) pythonSpan {
	p.Span = p.Failed(class)
	p.message = message
	return p
}

// finished is a call that came to its finish reason.
func (p pythonSpan) stopped() pythonSpan {
	p.Span = p.Finished("stop")
	return p
}

// claude is a streamed call under opentelemetry-instrumentation-anthropic, Traceloop's.
func claude() pythonSpan {
	return pythonSpan{
		Span: harness.Span{
			ID: 2, Parent: 1, Name: "anthropic.chat", Kind: ptrace.SpanKindClient, From: 0.1, To: 2,
			Attrs: []attribute.KeyValue{
				attribute.String("gen_ai.system", "Anthropic"), attribute.String("llm.request.type", "chat"),
				otelsemconv.GenAIRequestModel("claude-test"), attribute.Bool("llm.is_streaming", true),
			},
		},
		scope: "opentelemetry.instrumentation.anthropic", version: "0.60.0",
	}
}

// recording is a span on which the exception itself was recorded.
func (p pythonSpan) recording(class, message string) pythonSpan {
	p.Status = ptrace.StatusCodeError
	p.message, p.raised, p.words = message, class, message
	return p
}

// coder is the run, by hand under the SDK's own context manager, which records what
// leaves it.
func coder(class, message string) pythonSpan {
	p := pythonSpan{Span: harness.AgentSpan(1, 0, 0, 3), scope: "coder"}
	if class != "" {
		p = p.recording(class, message)
	}
	return p
}

// httpxSpan is one exchange under opentelemetry-instrumentation-httpx. A streamed
// response's span ends with its headers, so that the body's failures are not on it.
func httpxSpan(id byte, from float64, status int) pythonSpan {
	return exchangeSpan("opentelemetry.instrumentation.httpx", id, from, status)
}

// aiohttpSpan is the same under opentelemetry-instrumentation-aiohttp-client.
func aiohttpSpan(status int) pythonSpan {
	return exchangeSpan("opentelemetry.instrumentation.aiohttp_client", 3, 0.15, status)
}

func exchangeSpan(scope string, id byte, from float64, status int) pythonSpan {
	s := harness.Span{
		ID: id, Parent: 2, Name: "POST", Kind: ptrace.SpanKindClient, From: from, To: from + 0.1,
		Attrs: []attribute.KeyValue{
			attribute.String("http.method", "POST"), attribute.String("http.url", "http://127.0.0.1:8080/v1/chat/completions"),
		},
	}
	if status > 0 {
		s = s.With(attribute.Int("http.status_code", status))
	}
	if status >= 400 {
		s.Status = ptrace.StatusCodeError
	}
	return pythonSpan{Span: s, scope: scope, version: "0.60b0"}
}

// pythonTraces builds pdata out of spans, one scope each instrumentation.
func pythonTraces(t *testing.T, spans []pythonSpan) ptrace.Traces {
	t.Helper()
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr(string(otelsemconv.ServiceNameKey), harness.AgentService)
	rs.Resource().Attributes().PutStr("telemetry.sdk.language", "python")
	scopes := map[string]ptrace.SpanSlice{}
	for _, p := range spans {
		in, ok := scopes[p.scope]
		if !ok {
			ss := rs.ScopeSpans().AppendEmpty()
			ss.Scope().SetName(p.scope)
			ss.Scope().SetVersion(p.version)
			in = ss.Spans()
			scopes[p.scope] = in
		}
		span := in.AppendEmpty()
		p.Write(t, span)
		span.Status().SetMessage(p.message)
		if p.raised != "" {
			event := span.Events().AppendEmpty()
			event.SetName(otelsemconv.ExceptionEventName)
			event.SetTimestamp(harness.At(p.To))
			event.Attributes().PutStr(string(otelsemconv.ExceptionTypeKey), p.raised)
			event.Attributes().PutStr(string(otelsemconv.ExceptionMessageKey), p.words)
		}
	}
	return td
}

// said is what is expected of a verdict.
type said struct {
	outcome    semconv.RunOutcome // of the run
	class      semconv.Class      // of request and run alike
	cause      semconv.Cause
	origin     semconv.Origin
	confidence semconv.Confidence
	safety     semconv.RetrySafety
}

// TestPython judges whole traces in the forms of Python's instrumentations. The
// verdicts follow from what had really happened: the class and the origin are right
// or not claimed, and no retry is safer than it was.
func TestPython(t *testing.T) {
	broke := func(cause semconv.Cause) said {
		return said{semconv.RunOutcomeFailed, semconv.ClassStreamInterrupted, cause, semconv.OriginTransport, semconv.ConfidenceMedium, harness.Confirm}
	}
	unmade := func(cause semconv.Cause, safety semconv.RetrySafety) said {
		return said{semconv.RunOutcomeFailed, semconv.ClassConnectionFailed, cause, semconv.OriginTransport, semconv.ConfidenceMedium, safety}
	}
	reported := func(cause semconv.Cause, safety semconv.RetrySafety) said {
		return said{semconv.RunOutcomeFailed, semconv.ClassProviderError, cause, semconv.OriginProvider, semconv.ConfidenceMedium, safety}
	}
	silent := said{semconv.RunOutcomeFailed, semconv.ClassWatchdogTimeout, semconv.CauseIdle, semconv.OriginWatchdog, semconv.ConfidenceMedium, harness.Confirm}
	stopped := said{semconv.RunOutcomeAborted, semconv.ClassLocalAbort, semconv.CauseUnknown, semconv.OriginLocal, semconv.ConfidenceLow, harness.Never}
	untold := said{semconv.RunOutcomeFailed, semconv.ClassUnclassified, semconv.CauseUnknown, semconv.OriginUnknown, semconv.ConfidenceLow, harness.Confirm}

	const (
		peerClosed = "peer closed connection without sending complete message body (incomplete chunked read)"
		incomplete = "Response payload is not completed: <TransferEncodingError: 400, message='Not enough data to satisfy transfer length header.'>"
		noHost     = "[Errno -2] Name or service not known"
		overloaded = `{'type': 'error', 'error': {'details': None, 'type': 'overloaded_error', 'message': 'Overloaded'}}`
	)
	for _, tt := range []struct {
		name  string
		spans []pythonSpan
		want  said // of request and run alike
	}{
		// httpx
		{"python_httpx_cut", []pythonSpan{
			pythonChat().ended("RemoteProtocolError", peerClosed), httpxSpan(3, 0.15, 200), coder("httpx.RemoteProtocolError", peerClosed),
		}, broke(semconv.CauseBodyTruncated)},
		{"python_httpx_reset", []pythonSpan{
			pythonChat().ended("ReadError", ""), httpxSpan(3, 0.15, 200), coder("httpx.ReadError", ""),
		}, broke(semconv.CauseConnectionReset)},
		{"python_httpx_closed_before_headers", []pythonSpan{
			pythonChat().ended("APIConnectionError", "Connection error."),
			httpxSpan(3, 0.15, 0).recording("httpx.RemoteProtocolError", "Server disconnected without sending a response."),
			coder("openai.APIConnectionError", "Connection error."),
		}, broke(semconv.CauseClosedBeforeHeaders)},
		{"python_httpx_refused", []pythonSpan{
			pythonChat().ended("APIConnectionError", "Connection error."),
			httpxSpan(3, 0.15, 0).recording("httpx.ConnectError", "All connection attempts failed"),
			coder("openai.APIConnectionError", "Connection error."),
		}, unmade(semconv.CauseConnectRefused, harness.Confirm)},
		{"python_httpx_unknown_host", []pythonSpan{
			pythonChat().ended("APIConnectionError", "Connection error."),
			httpxSpan(3, 0.15, 0).recording("httpx.ConnectError", noHost), coder("openai.APIConnectionError", "Connection error."),
		}, unmade(semconv.CauseDNSNotFound, harness.Never)},
		// httpx2 has the same classes under its own name.
		{"python_httpx2_connect_timeout", []pythonSpan{
			pythonChat().ended("APITimeoutError", "Request timed out."),
			httpxSpan(3, 0.15, 0).recording("httpx2.ConnectTimeout", ""), coder("openai.APITimeoutError", "Request timed out."),
		}, unmade(semconv.CauseConnectTimeout, harness.Confirm)},
		{"python_httpx2_read_timeout", []pythonSpan{
			pythonChat().ended("ReadTimeout", ""), httpxSpan(3, 0.15, 200), coder("httpx2.ReadTimeout", ""),
		}, silent},
		{"python_httpx2_cut", []pythonSpan{
			pythonChat().ended("RemoteProtocolError", peerClosed), httpxSpan(3, 0.15, 200), coder("httpx2.RemoteProtocolError", peerClosed),
		}, broke(semconv.CauseBodyTruncated)},
		// aiohttp
		{"python_aiohttp_cut", []pythonSpan{
			pythonChat().ended("ClientPayloadError", incomplete), aiohttpSpan(200), coder("aiohttp.client_exceptions.ClientPayloadError", incomplete),
		}, broke(semconv.CauseBodyTruncated)},
		// The cause that the call itself names stays; the exchange, which had no response, does not refine it.
		{"python_aiohttp_closed_before_headers", []pythonSpan{
			pythonChat().ended("ServerDisconnectedError", "Server disconnected"),
			aiohttpSpan(0).recording("aiohttp.client_exceptions.ServerDisconnectedError", "Server disconnected"),
			coder("aiohttp.client_exceptions.ServerDisconnectedError", "Server disconnected"),
		}, broke(semconv.CauseConnectionReset)},
		{"python_aiohttp_unknown_host", []pythonSpan{
			pythonChat().ended("ClientConnectorDNSError", "Cannot connect to host model.invalid:443 ssl:default [Name or service not known]"),
			aiohttpSpan(0).recording("aiohttp.client_exceptions.ClientConnectorDNSError", "Cannot connect to host model.invalid:443 ssl:default [Name or service not known]"),
			coder("aiohttp.client_exceptions.ClientConnectorDNSError", ""),
		}, unmade(semconv.CauseDNSNotFound, harness.Never)},
		{"python_aiohttp_idle", []pythonSpan{
			pythonChat().ended("SocketTimeoutError", "Timeout on reading data from socket"), aiohttpSpan(200),
			coder("aiohttp.client_exceptions.SocketTimeoutError", "Timeout on reading data from socket"),
		}, silent},
		{"python_aiohttp_cancelled", []pythonSpan{
			pythonChat().ended("CancelledError", ""), aiohttpSpan(200), coder("asyncio.exceptions.CancelledError", ""),
		}, stopped},
		// openai-python, over httpx
		{"python_openai_rate_limited_then_success", []pythonSpan{
			pythonChat().stopped(), httpxSpan(3, 0.15, 429), httpxSpan(4, 0.5, 200), coder("", ""),
		}, said{outcome: semconv.RunOutcomeSucceeded}},
		{"python_openai_rate_limited", []pythonSpan{
			pythonChat().ended("RateLimitError", "Error code: 429 - {'error': {'message': 'Rate limit reached', 'code': 'rate_limit_exceeded'}}"),
			httpxSpan(3, 0.15, 429), httpxSpan(4, 0.5, 429), httpxSpan(5, 1.5, 429), coder("openai.RateLimitError", "Error code: 429"),
		}, reported(semconv.CauseRateLimited, harness.Confirm)},
		{"python_openai_in_band", []pythonSpan{
			pythonChat().ended("APIError", "The server had an error while processing your request. Sorry about that!"), httpxSpan(3, 0.15, 200),
			coder("openai.APIError", "The server had an error while processing your request. Sorry about that!"),
		}, untold},
		{"python_openai_timeout", []pythonSpan{
			pythonChat().ended("APITimeoutError", "Request timed out."),
			httpxSpan(3, 0.15, 0).recording("httpx.ReadTimeout", "timed out"), coder("openai.APITimeoutError", "Request timed out."),
		}, broke(semconv.CauseHeaderTimeout)},
		// anthropic, over httpx
		{"python_anthropic_overloaded", []pythonSpan{
			claude().recording("anthropic._exceptions.OverloadedError", "Error code: 529 - "+overloaded),
			httpxSpan(3, 0.15, 529), coder("anthropic._exceptions.OverloadedError", "Error code: 529 - "+overloaded),
		}, reported(semconv.CauseOverloaded, harness.Confirm)},
		{"python_anthropic_in_band", []pythonSpan{ // the class is of the status, which was 200
			claude().recording("anthropic.APIStatusError", overloaded), httpxSpan(3, 0.15, 200), coder("anthropic.APIStatusError", overloaded),
		}, untold},
		{"python_anthropic_authentication", []pythonSpan{
			claude().recording("anthropic.AuthenticationError", "Error code: 401"), httpxSpan(3, 0.15, 401), coder("anthropic.AuthenticationError", "Error code: 401"),
		}, reported(semconv.CauseAuthentication, harness.Never)},
		{"python_anthropic_cut", []pythonSpan{
			claude().recording("httpx.RemoteProtocolError", peerClosed), httpxSpan(3, 0.15, 200), coder("httpx.RemoteProtocolError", peerClosed),
		}, broke(semconv.CauseBodyTruncated)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			require.NoError(t, h.ConsumeTraces(t.Context(), pythonTraces(t, tt.spans)))
			h.Pass(t, harness.Settle)
			out := h.Out()
			require.Equal(t, len(tt.spans), out.SpanCount())
			spans := harness.SpansOf(out)
			run, request := saidOf(spans[harness.SpanID(1)]), saidOf(spans[harness.SpanID(2)])
			assert.Equal(t, tt.want, run, "the run")
			tt.want.outcome = semconv.RunOutcomeUnset
			assert.Equal(t, tt.want, request, "the request")
			for id := range spans {
				if id != harness.SpanID(1) && id != harness.SpanID(2) {
					assert.Equal(t, harness.Verdict{}, harness.VerdictOf(spans[id]), "evidence has no verdict of its own")
				}
			}
			harness.CheckGolden(t, tt.name, pythonTraces(t, tt.spans), out)
			assertNoWords(t, out, tt.spans)
		})
	}
}

func saidOf(span ptrace.Span) said {
	v := harness.VerdictOf(span)
	return said{v.Outcome, v.Class, v.Cause, v.Origin, v.Confidence, v.Safety}
}

// assertNoWords: an error's message is read and never copied into a verdict.
func assertNoWords(t *testing.T, out ptrace.Traces, spans []pythonSpan) {
	t.Helper()
	for _, span := range harness.SpansOf(out) {
		for key, v := range span.Attributes().All() {
			if v.Type() != pcommon.ValueTypeStr && v.Type() != pcommon.ValueTypeSlice {
				continue
			}
			for _, p := range spans {
				if len(p.message) > 3 {
					assert.NotContains(t, v.AsString(), p.message, key)
				}
			}
		}
	}
}

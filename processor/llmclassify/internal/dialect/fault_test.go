package dialect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// What counts where a span names and words its error several times.
func TestSeveralErrors(t *testing.T) {
	type m = map[string]any
	terminated := event{class: "TypeError", message: "terminated"}
	disconnected := event{class: "httpx.RemoteProtocolError", message: "Server disconnected without sending a response."}
	spanOf := func(more m, message string, events ...event) shape {
		s := node("")
		delete(s.attrs, "error.type")
		s.message, s.events = message, events
		return responded(s, more)
	}
	refused := func(status int, kind semconv.ProviderErrorKind, code string, basis classify.Basis) classify.Request {
		r := refusedBy(status, kind, code)
		r.Basis = basis
		return r
	}
	for _, c := range []struct {
		name string
		shape
		want classify.Request
	}{
		{"a status's text is all that an exception has", spanOf(nil, "", event{message: "Too Many Requests"}), refused(429, semconv.ProviderErrorKindRateLimited, "", classify.Inferred)},
		{"a status's text under a class is anybody's", spanOf(nil, "", event{class: "Error", message: "Too Many Requests"}), failedWith(classify.Request{})},
		{"the first status's text counts", spanOf(nil, "", event{message: "Too Many Requests"}, event{message: "Bad Gateway"}), refused(429, semconv.ProviderErrorKindRateLimited, "", classify.Inferred)},
		{"a status's text of the span", spanOf(nil, "Bad Gateway"), refused(502, semconv.ProviderErrorKindServerError, "", classify.Inferred)},
		{"a status's text of the span beside a known name", spanOf(m{"error.type": "ECONNRESET"}, "Bad Gateway"), transport(semconv.TransportCauseConnectionReset, "ECONNRESET")},
		{"a status's text of the span beside an unknown name", spanOf(m{"error.type": "ToolError"}, "Bad Gateway"), failedWith(classify.Request{})},
		{
			"a status beside a text", spanOf(m{"error.type": "429"}, "", terminated),
			refused(429, semconv.ProviderErrorKindRateLimited, "429", classify.Typed),
		},
		{"a text beside another kind's name", spanOf(m{"error.type": "RateLimitError"}, "", disconnected), said(semconv.ProviderErrorKindRateLimited, "RateLimitError")},
		{"a text that says nothing of the transport beside a name", spanOf(m{"error.type": "ECONNRESET"}, "", terminated), transport(semconv.TransportCauseConnectionReset, "ECONNRESET")},
		{
			"the more precise text of a name", spanOf(m{"error.type": "httpx.RemoteProtocolError"}, "", disconnected),
			transport(semconv.TransportCauseClosedBeforeHeaders, "httpx.RemoteProtocolError"),
		},
		{
			"the first of two texts", spanOf(nil, "", terminated, event{message: `Error streaming response: {"error":"TypeError: terminated"}`}),
			failedWith(classify.Request{Ended: semconv.StreamEndReadError, Basis: classify.Corroborated}),
		},
		{"the first of two names", spanOf(nil, "", event{class: "RateLimitError"}, event{class: "ECONNRESET"}), said(semconv.ProviderErrorKindRateLimited, "RateLimitError")},
		{"a name that is known after one that is not", spanOf(nil, "", event{class: "Error"}, event{class: "ECONNRESET"}), transport(semconv.TransportCauseConnectionReset, "ECONNRESET")},
		{
			"a class that says more than the status", spanOf(m{"error.type": "litellm.ContextWindowExceededError", "http.response.status_code": 400}, ""),
			refused(400, semconv.ProviderErrorKindContextLengthExceeded, "litellm.ContextWindowExceededError", classify.Typed),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, facts := c.read(t)
			c.want.Start, c.want.End = start, end
			if c.want.Phase == semconv.PhaseUnset {
				c.want.Phase = semconv.PhaseUnknown
			}
			c.want.Error = facts.Request.Error // see TestErrorOf
			assert.Equal(t, &c.want, facts.Request)
		})
	}
}

// An error on a span of which the status is UNSET: its type is the producer's word, an
// exception may have been got over.
func TestErrorsUnderUnset(t *testing.T) {
	type m = map[string]any
	stop := []any{"stop"}
	for _, c := range []struct {
		name   string
		attrs  m
		events []event
		want   semconv.Class
	}{
		{"a type", m{"error.type": "ECONNRESET"}, nil, semconv.ClassStreamInterrupted},
		{"a type and a finish reason", m{"error.type": "ECONNRESET", "gen_ai.response.finish_reasons": stop}, nil, semconv.ClassStreamInterrupted},
		{"an exception", nil, []event{{class: "ECONNRESET"}}, semconv.ClassStreamInterrupted},
		{"an exception, and no finish reason where one was due", m{"gen_ai.response.finish_reasons": []any{}}, []event{{class: "ECONNRESET"}}, semconv.ClassStreamInterrupted},
		{"an exception and a finish reason", m{"gen_ai.response.finish_reasons": stop}, []event{{class: "ECONNRESET"}}, semconv.ClassUnset},
		{"a name that says nothing, and a finish reason", m{"error.type": "Error", "gen_ai.response.finish_reasons": stop}, nil, semconv.ClassUnset},
	} {
		s := node("")
		delete(s.attrs, "error.type")
		s.status, s.events = statusUnset, c.events
		_, _, facts := responded(s, c.attrs).read(t)
		v := classify.Judge(&classify.Run{Start: start, End: end, Requests: []classify.Request{*facts.Request}})
		assert.Equal(t, c.want, v.Requests[0].Class, c.name)
	}
}

// What languages write for nothing is no finish reason.
func TestNoFinishReason(t *testing.T) {
	for reason, want := range map[string]classify.Finish{
		"": classify.FinishNotObserved, "None": classify.FinishNotObserved, "null": classify.FinishNotObserved,
		"stop": classify.FinishStop, "length": classify.FinishMaxTokens,
	} {
		_, _, facts := arize(oiOpenAI, "LLM", statusUnset, map[string]any{"llm.finish_reason": reason}).read(t)
		assert.Equal(t, want, facts.Request.Finish, reason)
	}
}

// Every word for a cancellation, by any party, and for a deadline.
func TestCancellations(t *testing.T) {
	for name, want := range map[string]semconv.AbortSource{
		"AbortError": semconv.AbortSourceUnknown, "APIUserAbortError": semconv.AbortSourceUnknown, "UND_ERR_ABORTED": semconv.AbortSourceUnknown,
		"asyncio.exceptions.CancelledError": semconv.AbortSourceUnknown, "java.util.concurrent.CancellationException": semconv.AbortSourceUnknown,
		"GeneratorExit": semconv.AbortSourceUnknown, "cancelled": semconv.AbortSourceUnknown, "canceled": semconv.AbortSourceUnknown,
		"TimeoutError": semconv.AbortSourceDeadline, "context.deadlineExceededError": semconv.AbortSourceDeadline,
	} {
		_, _, facts := node(name).read(t)
		assert.Equal(t, want, facts.Request.Abort.Source, name)
		v := classify.Judge(&classify.Run{Start: start, End: end, Requests: []classify.Request{*facts.Request}})
		assert.Equal(t, semconv.ClassLocalAbort, v.Requests[0].Class, name)
		assert.Equal(t, semconv.OriginLocal, v.Requests[0].Origin, name)
		assert.GreaterOrEqual(t, v.Requests[0].Retry.Safety, confirm, name)
	}
}

// MCP's isError is a failure under any status.
func TestToolErrorUnderUnset(t *testing.T) {
	for errorType, want := range map[string]semconv.ToolOutcome{"tool_error": semconv.ToolOutcomeFailed, "": semconv.ToolOutcomeUnset, "ValueError": semconv.ToolOutcomeUnset} {
		attrs := map[string]any{"mcp.method.name": "tools/call", "gen_ai.tool.name": "grep"}
		if errorType != "" {
			attrs["error.type"] = errorType
		}
		assert.Equal(t, want, read(t, span(t, attrs)).Tool.Outcome, errorType)
	}
}

// What an exchange never changes, and what it takes back.
func TestExplainKeeps(t *testing.T) {
	type m = map[string]any
	explained := func(request, child shape) *classify.Request {
		_, _, facts := request.read(t)
		Explain(facts.Request, []Exchange{exchangeOf(t, child)})
		return facts.Request
	}
	reset := undici(200, "ECONNRESET")

	r := explained(arize(oiOpenAI, "LLM", statusOK, m{"llm.token_count.completion": 6}), reset)
	assert.Equal(t, classify.No, r.Failed, "its producer says that it went well")
	assert.Zero(t, r.Transport)

	r = explained(node("AbortError"), reset)
	assert.Equal(t, semconv.AbortSourceUnknown, r.Abort.Source, "it broke because this side ended it")
	assert.Zero(t, r.Transport)

	r = explained(vercel6("ai.streamText.doStream", statusUnset, m{"ai.response.finishReason": "error"}), reset)
	assert.Equal(t, semconv.TransportCauseConnectionReset, r.Transport.Cause, "an error of which nothing is known gives way")
	assert.Zero(t, r.Provider)
	assert.Equal(t, classify.Yes, r.Failed)

	quiet := vercel7("chat", statusUnset, nil)
	assert.Equal(t, classify.Yes, explained(quiet, reset).Failed, "an exchange that broke failed")
	assert.Equal(t, classify.NotObserved, explained(quiet, undici(200, "20")).Failed, "and not one that this side ended")

	r = explained(traceloop(traceloopJS, statusUnset, m{"gen_ai.operation.name": "chat", "gen_ai.is_streaming": false, "gen_ai.response.finish_reasons": []any{"stop"}}), reset)
	assert.Equal(t, semconv.StreamEndTerminalEvent, r.Ended, "it came to its end")

	r = explained(vercel7("chat", statusUnset, nil), undici(0, "503"))
	assert.Equal(t, 503, r.Status, "the status stands where the error's name does")
	assert.Equal(t, semconv.ProviderErrorKindOverloaded, r.Provider.Kind)

	r = explained(vercel7("chat", statusUnset, nil), undici(204, ""))
	assert.Equal(t, 204, r.Status)
	own := node("TypeError")
	responded(own, m{"http.response.status_code": 201})
	assert.Equal(t, 201, explained(own, undici(204, "")).Status, "what the request's own span says of it comes first")
}

// TestProviderClasses reads the classes that the providers' SDKs have for an error of
// the provider, where no status says it, too.
func TestProviderClasses(t *testing.T) {
	for class, want := range map[string]struct {
		cause  semconv.Cause
		safety semconv.RetrySafety
	}{
		"openai.RateLimitError":                         {semconv.CauseRateLimited, confirm},
		"anthropic._exceptions.OverloadedError":         {semconv.CauseOverloaded, confirm},
		"anthropic._exceptions.ServiceUnavailableError": {semconv.CauseOverloaded, confirm},
		"openai.InternalServerError":                    {semconv.CauseServerError, confirm},
		"anthropic._exceptions.DeadlineExceededError":   {semconv.CauseTimeout, confirm},
		"openai.AuthenticationError":                    {semconv.CauseAuthentication, never},
		"openai.PermissionDeniedError":                  {semconv.CausePermission, never},
		"openai.NotFoundError":                          {semconv.CauseNotFound, never},
		"openai.BadRequestError":                        {semconv.CauseInvalidRequest, never},
		"openai.UnprocessableEntityError":               {semconv.CauseInvalidRequest, never},
		"anthropic.RequestTooLargeError":                {semconv.CauseInvalidRequest, never},
		"litellm.ContextWindowExceededError":            {semconv.CauseContextLengthExceeded, never},
		"litellm.ContentPolicyViolationError":           {semconv.CauseContentPolicy, never},
		"insufficient_quota":                            {semconv.CauseQuotaExhausted, never},
	} {
		_, _, facts := node(class).read(t)
		checkVerdict(t, facts.Request, ofProvider(want.cause, want.safety), []truth{{semconv.ClassProviderError, semconv.OriginProvider, want.safety}})
	}
}

// Some producers write an event for each message of a long history before the exception.
func TestExceptionAfterManyEvents(t *testing.T) {
	for _, before := range []int{0, maxEvents - 1, maxEvents, 10 * maxEvents} {
		span := ptrace.NewSpan()
		for range before {
			span.Events().AppendEmpty().SetName("gen_ai.user.message")
		}
		exception := span.Events().AppendEmpty()
		exception.SetName("exception")
		exception.Attributes().PutStr("exception.type", "ECONNRESET")
		assert.Equal(t, semconv.TransportCauseConnectionReset, faultOf(span, "").transport, "after %d events", before)
	}
}

package classify

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue"
	"github.com/otelllm/otelllm-go/semconv"
)

// These tests check each rule by itself: what it reads, and which values change its
// result. The exhaustive tests show that the rules together are cautious; a rule that is
// too cautious shows only here.

// TestConcerns: which tools count if a request is sent again.
func TestConcerns(t *testing.T) {
	const write, ok = semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded
	cut := reset(semconv.PhaseResponseStarted)
	for _, tt := range []struct {
		name     string
		change   func(*Request)
		tool     Tool
		concerns bool
	}{
		{"it began while the request went on", cut, tool(0.5, 2, "z", write, ok), true},
		{"it began with it", cut, tool(0, 2, "z", write, ok), true},
		{"it began as the request ended", cut, tool(1, 2, "z", write, ok), false},
		{"it began later", cut, tool(2, 3, "z", write, ok), false},
		{"it has no id", cut, tool(2, 3, "", write, ok), true},
		{"a call of the request's own", all(calls("z"), cut), tool(2, 3, "z", write, ok), true},
		{"a call of the request's own that was open", all(cut, func(r *Request) {
			r.ToolInputsStarted, r.OpenCallIDs = Counted(1), []string{"z"}
		}), tool(2, 3, "z", write, ok), true},
		{"another's call, where not all are named", all(cut, func(r *Request) { r.ToolInputsStarted = Counted(1) }), tool(2, 3, "z", write, ok), true},
		{"another's call, where all are named", all(cut, func(r *Request) {
			r.ToolInputsStarted, r.OpenCallIDs = Counted(1), []string{"y"}
		}), tool(2, 3, "z", write, ok), false},
		{"another's call, where a part was not read", all(cut, func(r *Request) { r.Unread = true }), tool(2, 3, "z", write, ok), true},
		{"it was rejected", cut, tool(0.5, 2, "z", write, semconv.ToolOutcomeRejected), false},
		{"its input was invalid", cut, tool(0.5, 2, "z", write, semconv.ToolOutcomeInvalidInput), false},
		{"its output is in the history", all(cut, carries("z")), tool(-2, -1, "z", write, ok), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := run(true, []Request{request(0, 1, tt.change)}, tt.tool)
			v := Judge(&r).Requests[0].Retry
			assert.Equal(t, tt.concerns, v.Reason == semconv.RetryReasonToolSideEffect, "%s (%s)", v.Safety, v.Reason)
			assert.Equal(t, tt.concerns, v.Safety != SafeAutoRetry)
		})
	}
}

// TestProviderTools: what provider-executed tools may have done.
func TestProviderTools(t *testing.T) {
	cut := reset(semconv.PhaseResponseStarted)
	offers := func(names ...string) func(*Request) {
		return func(r *Request) { r.ProviderTools = names }
	}
	began := func(r *Request) { r.ProviderToolsStarted = Counted(1) }
	status := func(s int) func(*Request) { return func(r *Request) { r.Status = s } }
	for _, tt := range []struct {
		name   string
		change func(*Request)
		want   providerTools
	}{
		{"none offered", cut, providerToolsNone},
		{"not observed", all(cut, func(r *Request) { r.ProviderTools = nil }), providerToolsUnknown},
		{"harmless ones", all(cut, offers("web_search", "file_search", "web_fetch", "retrieval")), providerToolsNone},
		{"code", all(cut, offers("code_interpreter")), providerToolsPossible},
		{"code execution", all(cut, offers("code_execution")), providerToolsPossible},
		{"a computer", all(cut, offers("computer_use")), providerToolsPossible},
		{"images", all(cut, offers("image_generation")), providerToolsPossible},
		{"another's server", all(cut, offers("mcp")), providerToolsPossible},
		{"a shell", all(cut, offers("shell")), providerToolsPossible},
		{"one that is not known", all(cut, offers("connector")), providerToolsPossible},
		{"one among harmless ones", all(cut, offers("web_search", "mcp")), providerToolsPossible},
		{"one began", all(cut, offers("mcp"), began), providerToolsBegan},
		{"a harmless one began", all(cut, offers("web_search"), began), providerToolsNone},
		{"one began that was not offered", all(cut, began), providerToolsBegan},
		{"one began, and the request was refused", all(cut, began, offers("mcp"), status(400)), providerToolsBegan},
		{"none began in a whole answer", all(answers, offers("mcp")), providerToolsNone},
		{"none was seen to begin in an answer that was not read", all(answers, offers("mcp"), func(r *Request) { r.Unread = true }), providerToolsPossible},
		{"none began, by the reason alone", all(answers, offers("mcp"), func(r *Request) { r.Ended = semconv.StreamEndUnset }), providerToolsNone},
		{"no reason either", all(answers, offers("mcp"), func(r *Request) {
			r.Ended, r.Finish = semconv.StreamEndUnset, FinishMissing
		}), providerToolsPossible},
		{"a last event without a reason", all(answers, offers("mcp"), func(r *Request) { r.Finish = FinishMissing }), providerToolsPossible},
		{"an error as the last event", all(answers, offers("mcp"), func(r *Request) {
			r.Finish, r.Provider.Kind = FinishMissing, semconv.ProviderErrorKindOverloaded
		}), providerToolsNone},
		{"a clean end without the last event", all(answers, offers("mcp"), func(r *Request) { r.Ended = semconv.StreamEndEOF }), providerToolsPossible},
		{"nothing was sent", all(offers("mcp"), func(r *Request) { r.Status, r.Phase = 0, semconv.PhaseBeforeConnection }), providerToolsNone},
		{"307: it was sent to another place", all(cut, offers("mcp"), status(307)), providerToolsNone},
		{"399", all(cut, offers("mcp"), status(399)), providerToolsPossible},
		{"400: it was refused", all(cut, offers("mcp"), status(400)), providerToolsNone},
		{"499", all(cut, offers("mcp"), status(499)), providerToolsNone},
		{"500: it may have run before that", all(cut, offers("mcp"), status(500)), providerToolsPossible},
		{"503", all(cut, offers("mcp"), status(503)), providerToolsPossible},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request(0, 1, tt.change)
			assert.Equal(t, tt.want, r.providerTools())
		})
	}
}

// TestRunJoinsItsRequests: the risk of repeating a run is that of all its requests.
func TestRunJoinsItsRequests(t *testing.T) {
	tls := func(code string) func(*Request) {
		return func(r *Request) {
			r.Ended, r.Status, r.TimeToHeaders, r.Events, r.Phase = semconv.StreamEndNoResponse, 0, 0, Counted(0), semconv.PhaseBeforeConnection
			r.Transport = Transport{semconv.TransportStageTLS, semconv.TransportCauseTLS, code}
		}
	}
	violation := func(cause semconv.TransportCause, attempt int) func(*Request) {
		return func(r *Request) {
			r.Ended, r.Phase, r.Attempt = semconv.StreamEndReadError, semconv.PhaseResponseStarted, attempt
			r.Transport = Transport{semconv.TransportStageBody, cause, ""}
		}
	}
	const malformed, tooLong = semconv.TransportCauseMalformedEvent, semconv.TransportCauseUnexpectedContentType
	cut := reset(semconv.PhaseResponseStarted)
	shown := all(cut, func(r *Request) { r.Text, r.Phase = Counted(1), semconv.PhaseText })
	offered := all(cut, func(r *Request) { r.ProviderTools = []string{"mcp"} })
	background := all(cut, func(r *Request) { r.Background = true })
	type list []func(*Request)
	for name, tt := range map[string]struct {
		requests list
		want     semconv.RetryReason
	}{
		"certificate":                       {list{tls(CodeCertificate)}, semconv.RetryReasonNotTransient},
		"handshake":                         {list{tls("HANDSHAKE")}, semconv.RetryReasonNothingLeftClient},
		"handshake twice":                   {list{tls("HANDSHAKE"), tls("HANDSHAKE")}, semconv.RetryReasonNothingLeftClient},
		"certificate, then handshake":       {list{tls(CodeCertificate), tls("HANDSHAKE")}, semconv.RetryReasonNotTransient},
		"handshake, then certificate":       {list{tls("HANDSHAKE"), tls(CodeCertificate)}, semconv.RetryReasonNotTransient},
		"handshake, then no code":           {list{tls("HANDSHAKE"), tls("")}, semconv.RetryReasonNotTransient},
		"reset, of no code, then handshake": {list{all(cut, func(r *Request) { r.Transport.Code = "" }), tls("HANDSHAKE")}, semconv.RetryReasonNoOutput},
		"violation":                         {list{violation(malformed, 1)}, semconv.RetryReasonNoOutput},
		"violation, attempt unknown":        {list{violation(malformed, 0)}, semconv.RetryReasonNoOutput},
		"violation at the second try":       {list{violation(malformed, 2)}, semconv.RetryReasonNotTransient},
		"violation twice":                   {list{violation(malformed, 1), violation(malformed, 1)}, semconv.RetryReasonNotTransient},
		"violations of two kinds":           {list{violation(malformed, 1), violation(tooLong, 1)}, semconv.RetryReasonNoOutput},
		"twice, then of another kind":       {list{violation(malformed, 1), violation(malformed, 1), violation(tooLong, 1)}, semconv.RetryReasonNotTransient},
		"cut, then violation":               {list{cut, violation(malformed, 1)}, semconv.RetryReasonNoOutput},
		"cut twice":                         {list{cut, cut}, semconv.RetryReasonNoOutput},
		"text, then cut":                    {list{shown, cut}, semconv.RetryReasonVisibleOutput},
		"cut, then text":                    {list{cut, shown}, semconv.RetryReasonVisibleOutput},
		"provider's tools, then none":       {list{offered, cut}, semconv.RetryReasonProviderToolSideEffect},
		"none, then provider's tools":       {list{cut, offered}, semconv.RetryReasonProviderToolSideEffect},
		"background, then not":              {list{background, cut}, semconv.RetryReasonProviderContinues},
		"not, then background":              {list{cut, background}, semconv.RetryReasonProviderContinues},
		"reasoning, then none":              {list{all(cut, func(r *Request) { r.Reasoning = Counted(1) }), cut}, semconv.RetryReasonReasoningOnly},
		"a tool's input, then none":         {list{all(cut, func(r *Request) { r.ToolInputsStarted, r.OpenCallIDs = Counted(1), []string{"a"} }), cut}, semconv.RetryReasonIncompleteToolInput},
		"a call, then none":                 {list{all(calls("a"), cut), cut}, semconv.RetryReasonToolCallNotExecuted},
		"sent, then nothing sent":           {list{cut, tls("HANDSHAKE")}, semconv.RetryReasonNoOutput},
		"calls not observed, then known":    {list{all(cut, func(r *Request) { r.ToolCalls, r.ToolInputsCompleted = 0, 0 }), cut}, semconv.RetryReasonToolStateUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			var requests []Request
			for i, change := range tt.requests {
				requests = append(requests, request(float64(2*i), float64(2*i+1), change))
			}
			r := run(true, requests)
			assert.Equal(t, tt.want.String(), Judge(&r).Run.Retry.Reason.String())
		})
	}
}

// TestAttempt: a protocol violation is transient only at the first attempt.
func TestAttempt(t *testing.T) {
	for attempt, want := range []semconv.RetrySafety{SafeAutoRetry, SafeAutoRetry, NoRetry, NoRetry} {
		r := run(true, []Request{request(0, 1, func(r *Request) {
			r.Ended, r.Phase, r.Attempt = semconv.StreamEndReadError, semconv.PhaseResponseStarted, attempt
			r.Transport = Transport{semconv.TransportStageBody, semconv.TransportCauseMalformedEvent, ""}
		})})
		assert.Equal(t, want, Judge(&r).Requests[0].Retry.Safety, "attempt %d", attempt)
	}
}

func TestWorse(t *testing.T) {
	for _, tt := range []struct{ a, b, want Fact }{
		{No, No, No},
		{No, NotObserved, NotObserved},
		{NotObserved, No, NotObserved},
		{NotObserved, NotObserved, NotObserved},
		{No, Yes, Yes},
		{Yes, No, Yes},
		{NotObserved, Yes, Yes},
		{Yes, NotObserved, Yes},
		{Yes, Yes, Yes},
	} {
		assert.Equal(t, tt.want, worse(tt.a, tt.b))
	}
}

// TestSentAndNoAnswer: whether any part of a request left this side, and whether an answer
// can have arrived, by the facts that are known.
func TestSentAndNoAnswer(t *testing.T) {
	barrenPhases := " before_connection awaiting_response "
	for _, phase := range withUnset(semconv.PhaseValues()) {
		named := phase != semconv.PhaseUnset && phase != semconv.PhaseUnknown
		for _, status := range []int{0, 200, 308, 399, 400, 503} {
			r := Request{Phase: phase, Status: status}
			sent := Yes
			if status == 0 {
				switch {
				case phase == semconv.PhaseBeforeConnection:
					sent = No
				case !named:
					sent = NotObserved
				}
			}
			assert.Equal(t, sent, r.sent(), "%s %d", phase, status)
			barren := status >= 400 || status == 308 || named && strings.Contains(barrenPhases, " "+phase.String()+" ")
			assert.Equal(t, barren, r.cannotHaveAnswer(), "%s %d", phase, status)
		}
	}

	// If the phase is not known, the error decides.
	early := " closed_before_headers header_timeout write_failed "
	unsent := " dns_not_found dns_temporary connect_refused connect_unreachable connect_timeout tls proxy proxy_refused "
	for _, cause := range withUnset(semconv.TransportCauseValues()) {
		for _, phase := range []semconv.Phase{semconv.PhaseUnset, semconv.PhaseUnknown, semconv.PhaseText} {
			r := Request{Phase: phase, Transport: Transport{Cause: cause}}
			none := cause != 0 && strings.Contains(unsent, " "+cause.String()+" ")
			known := phase == semconv.PhaseText
			want := map[bool]Fact{true: No, false: NotObserved}[none]
			if known {
				want = Yes
			}
			assert.Equal(t, want, r.sent(), "%s %s", phase, cause)
			assert.Equal(t, !known && (none || cause != 0 && strings.Contains(early, " "+cause.String()+" ")), r.cannotHaveAnswer(), "%s %s", phase, cause)
			assert.Equal(t, none, BeforeConnection(cause))
		}
	}
	for _, end := range withUnset(semconv.StreamEndValues()) {
		r := Request{Ended: end}
		assert.Equal(t, end == semconv.StreamEndHTTPError || end == semconv.StreamEndNoResponse, r.cannotHaveAnswer(), "%s", end)
	}
	for _, kind := range withUnset(semconv.WatchdogKindValues()) {
		r := Request{Watchdog: Watchdog{Kind: kind}}
		assert.Equal(t, kind == semconv.WatchdogKindConnect, r.cannotHaveAnswer(), "%s", kind)
	}
}

// TestAnswerCutOff: a status beside a stream that broke comes from a gateway, and the
// provider is not blamed for it.
func TestAnswerCutOff(t *testing.T) {
	broken := " no_response read_error eof watchdog "
	for _, end := range withUnset(semconv.StreamEndValues()) {
		for _, status := range []int{0, 200, 399, 400, 502} {
			e := endingOf(&Request{Ended: end, Status: status})
			want := status >= 400 && (end == 0 || !strings.Contains(broken, " "+end.String()+" "))
			assert.Equal(t, want, e.provider != semconv.ProviderErrorKindUnset, "%s %d: %s", end, status, e.provider)
		}
		e := endingOf(&Request{Ended: end, Status: 502, Provider: ProviderError{Kind: semconv.ProviderErrorKindRateLimited}})
		assert.Equal(t, semconv.ProviderErrorKindRateLimited, e.provider)
	}
	r := run(true, []Request{request(0, 1, func(r *Request) {
		r.Ended, r.Status, r.Phase, r.Text = semconv.StreamEndEOF, 502, semconv.PhaseText, Counted(2)
	})})
	assert.Equal(t, "stream_interrupted/clean_eof@text user_confirmed_retry (visible_output)", words(&Judge(&r).Requests[0]))
}

func TestBeforeConnection(t *testing.T) {
	const before = " dns_not_found dns_temporary connect_refused connect_unreachable connect_timeout tls proxy proxy_refused "
	for _, cause := range withUnset(semconv.TransportCauseValues()) {
		assert.Equal(t, cause != 0 && strings.Contains(before, " "+cause.String()+" "), BeforeConnection(cause), "%s", cause)
	}
}

// TestConnected: a transport that resends a request reports the error of the last attempt,
// but the connection on which the request was sent is the one that failed.
func TestConnected(t *testing.T) {
	for _, tt := range []struct {
		phase     semconv.Phase
		cause     semconv.TransportCause
		connected Fact
		want      semconv.TransportCause
	}{
		{semconv.PhaseUnset, semconv.TransportCauseConnectRefused, NotObserved, semconv.TransportCauseConnectRefused},
		{semconv.PhaseUnknown, semconv.TransportCauseConnectRefused, NotObserved, semconv.TransportCauseConnectRefused},
		{semconv.PhaseBeforeConnection, semconv.TransportCauseTLS, No, semconv.TransportCauseTLS},
		{semconv.PhaseAwaitingResponse, semconv.TransportCauseTLS, Yes, semconv.TransportCauseClosedBeforeHeaders},
		{semconv.PhaseText, semconv.TransportCauseTLS, Yes, semconv.TransportCauseConnectionLost},
		{semconv.PhaseAwaitingResponse, semconv.TransportCauseHeaderTimeout, Yes, semconv.TransportCauseHeaderTimeout},
		{semconv.PhaseText, semconv.TransportCauseConnectionReset, Yes, semconv.TransportCauseConnectionReset},
	} {
		e := endingOf(&Request{Phase: tt.phase, Transport: Transport{Cause: tt.cause}})
		assert.Equal(t, tt.connected, e.connected, "%s %s", tt.phase, tt.cause)
		assert.Equal(t, tt.want, e.transport, "%s %s", tt.phase, tt.cause)
	}
}

// TestRows checks rows of the class table that are close to one another.
func TestRows(t *testing.T) {
	const terminal, noResponse = semconv.StreamEndTerminalEvent, semconv.StreamEndNoResponse
	for _, tt := range []struct {
		name string
		e    ending
		want string
	}{
		{"no response, not connected", ending{end: noResponse, connected: No}, "connection_failed/unknown/transport"},
		{"no response, connected", ending{end: noResponse, connected: Yes}, "stream_interrupted/unknown/transport"},
		{"no response", ending{end: noResponse}, "stream_interrupted/unknown/transport"},
		{"no response, reset", ending{end: noResponse, connected: No, transport: semconv.TransportCauseConnectionReset}, "stream_interrupted/connection_reset/transport"},
		{"not connected, and whole", ending{end: terminal, connected: No, finish: FinishStop, answer: answerCalls}, "//"},
		{"read error", ending{end: semconv.StreamEndReadError}, "stream_interrupted/unknown/transport"},
		{"end of file", ending{end: semconv.StreamEndEOF, finish: FinishStop, answer: answerCalls, failed: No}, "stream_interrupted/clean_eof/transport"},
		{"text, and no reason", ending{end: terminal, finish: FinishMissing, answer: answerCalls}, "stream_interrupted/clean_eof/transport"},
		{"no reason, content unknown", ending{end: terminal, finish: FinishMissing}, "stream_interrupted/clean_eof/transport"},
		{"nothing, and no reason", ending{end: terminal, finish: FinishMissing, answer: answerNone}, "empty_completion/no_content/provider"},
		{"no end, and no reason", ending{finish: FinishMissing, answer: answerCalls}, "//"},
		{"no reason, and failed", ending{finish: FinishMissing, answer: answerCalls, failed: Yes}, "unclassified/unknown/unknown"},
		{"nothing known of a failure", ending{failed: Yes}, "unclassified/unknown/unknown"},
		{"nothing known", ending{}, "//"},
		{"nothing in it", ending{end: terminal, finish: FinishStop, answer: answerNone}, "empty_completion/no_content/provider"},
		{"nothing in it, upstream neither", ending{end: terminal, finish: FinishStop, answer: answerNone, upstream: Upstream{Failed: Yes, Class: semconv.ClassEmptyCompletion, Cause: semconv.CauseNoContent, Origin: semconv.OriginProvider}}, "empty_completion/no_content/provider"},
		{"nothing in it, upstream's upstream failed", ending{end: terminal, finish: FinishStop, answer: answerNone, upstream: Upstream{Failed: Yes, Class: semconv.ClassEmptyCompletion, Cause: semconv.CauseSwallowedError, Origin: semconv.OriginGateway}}, "empty_completion/swallowed_error/gateway"},
		{"nothing in it, upstream failed", ending{end: terminal, finish: FinishStop, answer: answerNone, upstream: Upstream{Failed: Yes}}, "empty_completion/swallowed_error/gateway"},
		{"nothing seen in it", ending{end: terminal, finish: FinishStop}, "//"},
		{"nothing was due", ending{end: terminal, finish: FinishNothingDue, answer: answerNone}, "//"},
		{"it waits", ending{end: terminal, finish: FinishWaiting, answer: answerNone}, "//"},
		{"a limit", ending{end: terminal, finish: FinishMaxTokens, answer: answerCalls}, "output_limited/max_output_tokens/provider"},
		{"a limit, by the reason alone", ending{finish: FinishMaxTokens, answer: answerCalls}, "output_limited/max_output_tokens/provider"},
		{"a filter", ending{end: terminal, finish: FinishContentFilter, answer: answerCalls}, "output_limited/content_filter/provider"},
		{"a refusal", ending{end: terminal, finish: FinishRefusal, answer: answerCalls}, "output_limited/refusal/provider"},
		{"a full window", ending{end: terminal, finish: FinishContextWindow, answer: answerCalls}, "output_limited/context_window/provider"},
		{"paused", ending{end: terminal, finish: FinishPaused, answer: answerCalls}, "output_limited/paused/provider"},
		{"no reason and nothing in it, without an end", ending{finish: FinishMissing, answer: answerNone}, "//"},
		{"a limit, and reset", ending{end: semconv.StreamEndReadError, finish: FinishMaxTokens, answer: answerCalls}, "stream_interrupted/unknown/transport"},
		{"closed", ending{end: semconv.StreamEndConsumerClosed}, "local_abort/unknown/local"},
		{"closed after an error", ending{end: semconv.StreamEndConsumerClosed, provider: semconv.ProviderErrorKindOverloaded}, "provider_error/overloaded/provider"},
		{"closed after a violation", ending{end: semconv.StreamEndConsumerClosed, transport: semconv.TransportCauseMalformedEvent}, "protocol_violation/malformed_event/provider"},
		{"a person stopped it after an error", ending{end: semconv.StreamEndCancelled, abort: semconv.AbortSourceUser, provider: semconv.ProviderErrorKindOverloaded}, "local_abort/user/local"},
		{"an error status alone", ending{end: semconv.StreamEndHTTPError}, "provider_error/unknown/provider"},
		{"a watchdog alone", ending{end: semconv.StreamEndWatchdog}, "watchdog_timeout/unknown/watchdog"},
		{"a watchdog of the application's", ending{end: semconv.StreamEndCancelled, abort: semconv.AbortSourceWatchdog, watchdog: semconv.WatchdogKindIdle}, "watchdog_timeout/idle/watchdog"},
		{"an invalid URL", ending{end: noResponse, transport: semconv.TransportCauseInvalidURL, connected: No}, "application_error/invalid_url/application"},
		{"an invalid request", ending{end: noResponse, transport: semconv.TransportCauseInvalidRequest, connected: No}, "application_error/invalid_request/application"},
	} {
		c := tt.e.classify()
		assert.Equal(t, tt.want, c.class.String()+"/"+c.cause.String()+"/"+c.origin.String(), tt.name)
	}
}

// TestBehindAGateway: which errors of a gateway are those of its upstream.
func TestBehindAGateway(t *testing.T) {
	cut := Upstream{Failed: Yes, Class: semconv.ClassStreamInterrupted, Cause: semconv.CauseConnectionReset, Origin: semconv.OriginTransport}
	passed := " server_error overloaded timeout cancelled unknown "
	for _, kind := range withUnset(semconv.ProviderErrorKindValues()) {
		own := classification{semconv.ClassProviderError, providerCause(kind), semconv.OriginProvider}
		assert.Equal(t, own, Upstream{}.providerFailure(kind), "%s", kind)
		want, answered := own, own
		if kind == 0 || strings.Contains(passed, " "+kind.String()+" ") {
			answered.origin = semconv.OriginGateway
			want = classification{cut.Class, cut.Cause, cut.Origin}
		}
		assert.Equal(t, want, cut.providerFailure(kind), "%s", kind)
		assert.Equal(t, answered, Upstream{Failed: No}.providerFailure(kind), "%s: its upstream was answered", kind)
	}
	known := " watchdog_timeout provider_error connection_failed stream_interrupted protocol_violation "
	for _, class := range withUnset(semconv.ClassValues()) {
		u := Upstream{Failed: Yes, Class: class, Cause: semconv.CauseUnknown, Origin: semconv.OriginTransport}
		want := classification{semconv.ClassProviderError, semconv.CauseServerError, semconv.OriginGateway}
		if class != 0 && strings.Contains(known, " "+class.String()+" ") {
			want = classification{class, semconv.CauseUnknown, semconv.OriginTransport}
		}
		assert.Equal(t, want, u.providerFailure(semconv.ProviderErrorKindServerError), "%s", class)
	}
}

// TestContent: any part makes an answer, and a part that was not observed may make one.
func TestContent(t *testing.T) {
	nothing := func() Request { return request(0, 1, func(*Request) {}) }
	for name, count := range map[string]func(*Request) *Count{
		"text":            func(r *Request) *Count { return &r.Text },
		"reasoning":       func(r *Request) *Count { return &r.Reasoning },
		"tool inputs":     func(r *Request) *Count { return &r.ToolInputsStarted },
		"calls":           func(r *Request) *Count { return &r.ToolCalls },
		"provider's tool": func(r *Request) *Count { return &r.ProviderToolsStarted },
	} {
		r := nothing()
		assert.Equal(t, answerNone, r.answer())
		*count(&r) = 0
		assert.Equal(t, answerUnknown, r.answer(), name)
		*count(&r) = Counted(1)
		want := map[string]answer{"text": answerText, "reasoning": answerReasoning}[name]
		if want == 0 {
			want = answerCalls
		}
		assert.Equal(t, want, r.answer(), name)
		r.Unread = true
		assert.Equal(t, answerCalls, r.answer(), "%s, and there may be more", name)
	}
	r := nothing()
	r.Unread = true
	assert.Equal(t, answerUnknown, r.answer())
	r = nothing()
	r.Finish = FinishOther
	assert.Equal(t, answerUnknown, r.answer())
	r = nothing()
	r.Text, r.ProviderToolsStarted = 0, Counted(1)
	assert.Equal(t, answerCalls, r.answer(), "what was seen outweighs what was not observed")
}

// TestCleanup: a run did not end on a request that was stopped because another one failed,
// unless a person stopped it.
func TestCleanup(t *testing.T) {
	for _, tt := range []struct {
		name     string
		source   semconv.AbortSource
		from, to float64
		cleanup  bool
	}{
		{"stopped by the application", semconv.AbortSourceApplication, 1, 3, true},
		{"stopped as the other one failed", semconv.AbortSourceApplication, 1, 2, true},
		{"stopped before", semconv.AbortSourceApplication, 1, 1.5, false},
		{"begun as the other one had failed", semconv.AbortSourceApplication, 2, 3, false},
		{"begun later", semconv.AbortSourceApplication, 2.5, 3, false},
		{"closed by the consumer", semconv.AbortSourceConsumer, 1, 3, true},
		{"stopped by a person", semconv.AbortSourceUser, 1, 3, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := run(true, []Request{
				request(0, 2, reset(semconv.PhaseResponseStarted)),
				request(tt.from, tt.to, aborted(tt.source)),
			})
			want := semconv.ClassLocalAbort
			if tt.cleanup {
				want = semconv.ClassStreamInterrupted
			}
			v := Judge(&r)
			assert.Equal(t, want, v.Run.Class)
			if tt.source == semconv.AbortSourceUser {
				assert.Equal(t, NoRetry, v.Run.Retry.Safety)
				assert.Equal(t, semconv.RetryReasonUserAbort, v.Run.Retry.Reason)
			}
		})
	}
}

// TestUnrecordedTools: outputs that no recorded tool produced show that the agent's tools
// are not recorded. As many of them as there are tools without an id may belong to those
// tools.
func TestUnrecordedTools(t *testing.T) {
	const read, ok = semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded
	for _, tt := range []struct {
		name     string
		orphans  []string
		tools    []Tool
		recorded bool
	}{
		{"none", nil, nil, true},
		{"one output, no tool", []string{"a"}, nil, false},
		{"one output, its tool", []string{"a"}, []Tool{tool(1, 2, "a", read, ok)}, true},
		{"one output, another tool", []string{"a"}, []Tool{tool(1, 2, "x", read, ok)}, false},
		{"one output, a tool without an id", []string{"a"}, []Tool{tool(1, 2, "", read, ok)}, true},
		{"two outputs, a tool without an id", []string{"a", "b"}, []Tool{tool(1, 2, "", read, ok)}, false},
		{"two outputs, two tools without ids", []string{"a", "b"}, []Tool{tool(1, 2, "", read, ok), tool(1, 2, "", read, ok)}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := answers
			if tt.orphans != nil {
				first = calls(tt.orphans...)
			}
			// Calls of the last request that nothing is known to have executed.
			last := all(calls("n"), reset(semconv.PhaseToolCallReady))
			if tt.orphans != nil {
				last = all(last, carries(tt.orphans...))
			}
			r := run(true, []Request{request(0, 1, first), request(3, 4, last)}, tt.tools...)
			v := Judge(&r).Requests[1].Retry
			want := semconv.RetryReasonToolStateUnknown
			if tt.recorded {
				want = semconv.RetryReasonToolCallNotExecuted
			}
			for i := range tt.tools {
				if tt.recorded && tt.tools[i].CallID == "" {
					want = semconv.RetryReasonEvidenceIncomplete // it is not known which request got its output
				}
			}
			assert.Equal(t, want.String(), v.Reason.String())
		})
	}
}

// TestConfidence: the confidence for each basis and each missing observation.
func TestConfidence(t *testing.T) {
	whole := risk{class: semconv.ClassStreamInterrupted, basis: Typed, text: No, missingOutput: No}
	for name, tt := range map[string]struct {
		change func(*risk)
		want   semconv.Confidence
	}{
		"everything":       {func(*risk) {}, semconv.ConfidenceHigh},
		"corroborated":     {func(k *risk) { k.basis = Corroborated }, semconv.ConfidenceMedium},
		"inferred":         {func(k *risk) { k.basis = Inferred }, semconv.ConfidenceLow},
		"not classified":   {func(k *risk) { k.class = semconv.ClassUnclassified }, semconv.ConfidenceLow},
		"abandoned":        {func(k *risk) { k.class = semconv.ClassRunAbandoned }, semconv.ConfidenceLow},
		"parts unseen":     {func(k *risk) { k.partsMissing = true }, semconv.ConfidenceMedium},
		"text unknown":     {func(k *risk) { k.text = NotObserved }, semconv.ConfidenceMedium},
		"calls unknown":    {func(k *risk) { k.calls = callsUnknown }, semconv.ConfidenceMedium},
		"not executed":     {func(k *risk) { k.calls = callsNotExecuted }, semconv.ConfidenceHigh},
		"provider's tools": {func(k *risk) { k.providerTools = providerToolsUnknown }, semconv.ConfidenceMedium},
		"possible":         {func(k *risk) { k.providerTools = providerToolsPossible }, semconv.ConfidenceHigh},
		"history unknown":  {func(k *risk) { k.missingOutput = NotObserved }, semconv.ConfidenceMedium},
	} {
		k := whole
		tt.change(&k)
		assert.Equal(t, tt.want, k.confidence(), name)
	}
}

// TestTransient lists the causes that may be gone at the next attempt; all others are
// permanent.
func TestTransient(t *testing.T) {
	passes := map[string]string{
		"watchdog_timeout":   table["watchdog_timeout"].causes,
		"stream_interrupted": table["stream_interrupted"].causes,
		"empty_completion":   table["empty_completion"].causes,
		"connection_failed":  "dns_temporary connect_refused connect_unreachable connect_timeout proxy unknown tls",
		"provider_error":     "rate_limited overloaded server_error timeout unknown_end unknown",
		"protocol_violation": table["protocol_violation"].causes,
		"local_abort":        "deadline",
		"application_error":  "run_error",
		"tool_failed":        "execution_error timeout interrupted panic",
		"tool_output_lost":   table["tool_output_lost"].causes,
		"run_abandoned":      table["run_abandoned"].causes,
		"unclassified":       table["unclassified"].causes,
	}
	for _, class := range semconv.ClassValues() {
		for word := range strings.FieldsSeq(table[class.String()].causes) {
			cause, ok := semconv.ParseCause(word)
			require.True(t, ok)
			want := allows(passes[class.String()], word)
			assert.Equal(t, want, transient(&risk{class: class, cause: cause, permanent: No}), "%s/%s", class, word)
			for _, lasting := range []Fact{NotObserved, Yes} {
				tls := class == semconv.ClassConnectionFailed && word == "tls"
				assert.Equal(t, want && !tls, transient(&risk{class: class, cause: cause, permanent: lasting}), "%s/%s, lasting", class, word)
			}
			kind, ok := semconv.ParseProviderErrorKind(word)
			if ok && class == semconv.ClassProviderError && kind != semconv.ProviderErrorKindUnknown { // the catalogue cannot say it of unknown
				assert.Equal(t, want, catalogue.Passes(kind), "the catalogue has the kind %s otherwise", word)
			}
			violation := class == semconv.ClassProtocolViolation
			assert.Equal(t, want && !violation, transient(&risk{class: class, cause: cause, permanent: No, repeated: true}), "%s/%s, repeated", class, word)
		}
	}
}

// TestJoin: each part of what two runs did, joined in both orders.
func TestJoin(t *testing.T) {
	set := func(list ...semconv.ToolEffect) (s effects) {
		for _, e := range list {
			s |= 1 << e
		}
		return s
	}
	a := Effects{Requests: 2, Tools: 3, started: set(semconv.ToolEffectReadOnly), calls: callsNotExecuted, tool: "read"}
	b := Effects{
		Requests: 5, Tools: 7, started: set(semconv.ToolEffectNonIdempotent), calls: callsUnknown, providerTools: providerToolsBegan,
		text: true, incomplete: true, continues: true, tool: "pay",
	}
	want := b
	want.Requests, want.Tools, want.started = 7, 10, set(semconv.ToolEffectReadOnly, semconv.ToolEffectNonIdempotent)
	assert.Equal(t, want, a.Join(b))
	assert.Equal(t, want, b.Join(a))
	assert.Equal(t, a, a.Join(Effects{}))
	assert.Equal(t, a, Effects{}.Join(a))
	assert.Equal(t, Effects{}, Effects{}.Join(Effects{}))
	other := a
	other.tool = "list"
	assert.Equal(t, "read", a.Join(other).tool, "of two alike, the first")
	other.tool = ""
	assert.Equal(t, "read", a.Join(other).tool)
	assert.Equal(t, "read", other.Join(a).tool)

	ranks := []effects{
		0, set(semconv.ToolEffectReadOnly), set(semconv.ToolEffectIdempotent), set(semconv.ToolEffectUnknown), set(semconv.ToolEffectNonIdempotent),
	}
	for i := range ranks {
		assert.Equal(t, i, ranks[i].harm())
		for j := range i {
			assert.Equal(t, i, (ranks[i] | ranks[j]).harm())
		}
	}
}

// TestEffectsOfInnerRuns: repeating a run repeats everything that the runs within it did.
func TestEffectsOfInnerRuns(t *testing.T) {
	for name, tt := range map[string]struct {
		inner Effects
		want  semconv.RetryReason
	}{
		"nothing":          {Effects{}, semconv.RetryReasonNoOutput},
		"a payment":        {Effects{started: 1 << semconv.ToolEffectNonIdempotent, tool: "pay"}, semconv.RetryReasonToolSideEffect},
		"a tool":           {Effects{started: 1 << semconv.ToolEffectUnknown}, semconv.RetryReasonToolStateUnknown},
		"a read":           {Effects{started: 1 << semconv.ToolEffectReadOnly}, semconv.RetryReasonReadOnlyToolsOnly},
		"calls":            {Effects{calls: callsUnknown}, semconv.RetryReasonToolStateUnknown},
		"calls, not run":   {Effects{calls: callsNotExecuted}, semconv.RetryReasonToolCallNotExecuted},
		"provider's tools": {Effects{providerTools: providerToolsPossible}, semconv.RetryReasonProviderToolSideEffect},
		"text":             {Effects{text: true}, semconv.RetryReasonVisibleOutput},
		"doubt":            {Effects{incomplete: true}, semconv.RetryReasonEvidenceIncomplete},
		"a job":            {Effects{continues: true}, semconv.RetryReasonProviderContinues},
	} {
		r := run(true, []Request{request(0, 1, reset(semconv.PhaseResponseStarted))})
		r.Inner = tt.inner
		v := Judge(&r)
		assert.Equal(t, tt.want.String(), v.Run.Retry.Reason.String(), name)
		around := run(true, []Request{request(0, 1, reset(semconv.PhaseResponseStarted))})
		around.Inner = v.Effects
		assert.Equal(t, tt.want.String(), Judge(&around).Run.Retry.Reason.String(), "%s, two runs deep", name)
	}
}

// TestBackground: a background job continues unless it ended, was refused, or was never
// sent.
func TestBackground(t *testing.T) {
	job := func(change func(*Request)) Request {
		return request(0, 1, all(reset(semconv.PhaseResponseStarted), func(r *Request) { r.Background = true }, change))
	}
	for name, tt := range map[string]struct {
		change func(*Request)
		want   bool
	}{
		"cut":            {func(*Request) {}, true},
		"not a job":      {func(r *Request) { r.Background = false }, false},
		"not sent":       {func(r *Request) { r.Status, r.Phase = 0, semconv.PhaseBeforeConnection }, false},
		"refused":        {func(r *Request) { r.Status = 400 }, false},
		"399":            {func(r *Request) { r.Status = 399 }, true},
		"at its end":     {func(r *Request) { r.Ended, r.Finish = semconv.StreamEndTerminalEvent, FinishStop }, false},
		"still waiting":  {func(r *Request) { r.Ended, r.Finish = semconv.StreamEndTerminalEvent, FinishWaiting }, true},
		"sending failed": {func(r *Request) { r.Status, r.Phase = 0, semconv.PhaseAwaitingResponse }, true},
	} {
		r := job(tt.change)
		assert.Equal(t, tt.want, r.continues(), name)
	}
}

// TestBrokenHistory: when the history is taken as the reason of a refusal.
func TestBrokenHistory(t *testing.T) {
	const invalid = semconv.ProviderErrorKindInvalidRequest
	many := func(first string) []string {
		ids := []string{first}
		for len(ids) < MaxIDs {
			ids = append(ids, "x"+strings.Repeat("y", len(ids)))
		}
		return ids
	}
	list := func(words string) []string { return append([]string{}, strings.Fields(words)...) }
	for name, tt := range map[string]struct {
		kind           semconv.ProviderErrorKind
		status         int
		code           string
		calls, outputs []string
		want           semconv.Cause
	}{
		"a call without an output":     {invalid, 400, "", list("a b"), list("b"), semconv.CauseMissingOutput},
		"an output without a call":     {invalid, 422, "", list("b"), list("a b"), semconv.CauseMissingCall},
		"both":                         {invalid, 400, "", list("a"), list("b"), semconv.CauseMissingOutput},
		"a call twice, an output once": {invalid, 400, "", list("a a"), list("a"), semconv.CauseMissingOutput},
		"whole":                        {invalid, 400, "", list("a b"), list("b a"), 0},
		"a call and its output twice":  {invalid, 400, "", list("a a"), list("a a"), 0},
		"calls counted in each answer": {invalid, 400, "invalid_request_error", list("functions.pay:0 functions.pay:0"), list("functions.pay:0 functions.pay:0"), 0},
		"counted, and one without":     {invalid, 400, "", list("functions.pay:0 functions.pay:0"), list("functions.pay:0"), semconv.CauseMissingOutput},
		"nothing in it":                {invalid, 400, "", list(""), list(""), 0},
		"another status":               {invalid, 404, "", list("a"), list(""), 0},
		"no status":                    {invalid, 0, "", list("a"), list(""), 0},
		"another kind":                 {semconv.ProviderErrorKindRateLimited, 400, "", list("a"), list(""), 0},
		"calls not observed":           {invalid, 400, "", nil, list("a"), 0},
		"outputs not observed":         {invalid, 400, "", list("a"), nil, 0},
		"calls may be cut":             {invalid, 400, "", many("a"), list("b"), 0},
		"outputs may be cut":           {invalid, 400, "", list("b"), many("a"), 0},
		"one fewer":                    {invalid, 400, "", many("a")[:MaxIDs-1], list(""), semconv.CauseMissingOutput},
		"another code":                 {invalid, 400, "unsupported_parameter", list("a"), list(""), 0},
		"the code of a lost response":  {semconv.ProviderErrorKindNotFound, 404, "Previous_Response_Not_Found", nil, nil, semconv.CauseLostState},
		"a connection's end":           {semconv.ProviderErrorKindTimeout, 0, "websocket_connection_limit_reached", nil, nil, semconv.CauseLostState},
		"the same, whole":              {semconv.ProviderErrorKindTimeout, 0, "websocket_connection_limit_reached", list("a"), list("a"), 0},
		"the code of a signature":      {invalid, 400, "missing_thought_signature", list("a"), list("a"), semconv.CauseInvalidSignature},
	} {
		r := Request{Status: tt.status, Provider: ProviderError{Code: tt.code}, HistoryCalls: tt.calls, HistoryOutputs: tt.outputs}
		assert.Equal(t, tt.want, r.brokenHistory(tt.kind), name)
	}
	for _, code := range []string{"", "400", "422", "ValidationException", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "invalid_request_error", "invalid_request_body", "unheard_of"} {
		r := Request{Status: 400, Provider: ProviderError{Code: code}, HistoryCalls: list("a"), HistoryOutputs: list("")}
		assert.Equal(t, semconv.CauseMissingOutput, r.brokenHistory(invalid), "an orphan outweighs a general code: %s", code)
	}
	for said, want := range map[semconv.ProviderErrorHistory]semconv.Cause{
		semconv.ProviderErrorHistoryMissingOutput: semconv.CauseMissingOutput, semconv.ProviderErrorHistoryMissingCall: semconv.CauseMissingCall,
		semconv.ProviderErrorHistoryDuplicateCall: semconv.CauseDuplicateCall, semconv.ProviderErrorHistoryLostState: semconv.CauseLostState,
		semconv.ProviderErrorHistoryInvalidSignature: semconv.CauseInvalidSignature,
	} {
		r := Request{Status: 400, Provider: ProviderError{Code: "invalid_request_error", History: said}, HistoryCalls: list("a"), HistoryOutputs: list("a")}
		assert.Equal(t, want, r.brokenHistory(invalid), "what the words say outweighs what the ids show")
	}
	assert.Equal(t, []string{"a"}, without([]string{"a", "a", "b"}, []string{"a", "b", "b"}), "each once")
}

// TestDeliberateEnds: each deliberate end gives its own retry verdict.
func TestDeliberateEnds(t *testing.T) {
	for source, want := range map[semconv.AbortSource]string{
		semconv.AbortSourceUser:        "no_retry (user_abort)",
		semconv.AbortSourceShutdown:    "no_retry (local_shutdown)",
		semconv.AbortSourceApplication: "no_retry (local_shutdown)",
		semconv.AbortSourceDeadline:    "user_confirmed_retry (deadline)",
		semconv.AbortSourceConsumer:    "no_retry (not_transient)",
		semconv.AbortSourceUnknown:     "no_retry (not_transient)",
		semconv.AbortSourceWatchdog:    "safe_auto_retry (no_output)",
	} {
		r := run(true, []Request{request(0, 1, func(r *Request) {
			r.Ended, r.Phase, r.Abort.Source = semconv.StreamEndCancelled, semconv.PhaseResponseStarted, source
		})})
		v := Judge(&r).Requests[0].Retry
		assert.Equal(t, want, v.Safety.String()+" ("+v.Reason.String()+")", "%s", source)
	}
}

// TestReadyCalls: how many calls a response made, and whether that is known.
func TestReadyCalls(t *testing.T) {
	for name, tt := range map[string]struct {
		r     Request
		n     int
		known bool
	}{
		"nothing observed":      {Request{}, 0, false},
		"none":                  {Request{ToolCalls: Counted(0)}, 0, true},
		"no whole input":        {Request{ToolInputsCompleted: Counted(0)}, 0, true},
		"by their ids":          {Request{CallIDs: []string{"a", "b"}}, 2, true},
		"by whole inputs":       {Request{ToolCalls: Counted(1), ToolInputsCompleted: Counted(3)}, 3, true},
		"by calls":              {Request{ToolCalls: Counted(4), CallIDs: []string{"a"}}, 4, true},
		"refused":               {Request{Status: 400}, 0, true},
		"not all was read":      {Request{ToolCalls: Counted(2), Unread: true}, 2, false},
		"an unknown reason":     {Request{ToolCalls: Counted(0), Finish: FinishOther}, 0, false},
		"not all of an error's": {Request{Status: 500, Unread: true}, 0, true},
	} {
		n, known := tt.r.readyCalls()
		assert.Equal(t, tt.n, n, name)
		assert.Equal(t, tt.known, known, name)
	}
}

// TestToolRecovered: a request that began after a failed tool recovers it, within the
// grain of clocks.
func TestToolRecovered(t *testing.T) {
	failed := tool(1, 2, "a", semconv.ToolEffectReadOnly, semconv.ToolOutcomeFailed)
	for _, tt := range []struct {
		from time.Duration
		want semconv.RunOutcome
	}{
		{0, semconv.RunOutcomeRecovered},
		{-clockGrain, semconv.RunOutcomeRecovered},
		{-clockGrain - 1, semconv.RunOutcomeFailed},
	} {
		second := request(2, 3, answers)
		second.Start = second.Start.Add(tt.from)
		second.HistoryCalls, second.HistoryOutputs = nil, nil
		r := run(false, []Request{request(0, 1, calls("a")), second}, failed)
		r.Failed = NotObserved
		assert.Equal(t, tt.want == semconv.RunOutcomeRecovered, Judge(&r).Run.Outcome == semconv.RunOutcomeRecovered, "%s", tt.from)
	}
}

// TestSentAgainAtOnce: a request that was sent again recovers the failed one, within the grain
// of clocks. Another one that began as shortly before its end does not.
func TestSentAgainAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name    string
		end     time.Duration // of the first request, after the second one began
		finer   time.Duration // than whole milliseconds, of both
		attempt int
		want    semconv.RunOutcome
	}{
		{"after it", 0, 1, 0, semconv.RunOutcomeRecovered},
		{"whole milliseconds", clockGrain, 0, 0, semconv.RunOutcomeRecovered},
		{"earlier by more", clockGrain + 1, 0, 0, semconv.RunOutcomeFailed},
		{"an independent one", clockGrain / 2, 1, 0, semconv.RunOutcomeFailed},
		{"an independent first attempt", clockGrain / 2, 1, 1, semconv.RunOutcomeFailed},
		{"a further attempt", clockGrain / 2, 1, 2, semconv.RunOutcomeRecovered},
	} {
		first, second := request(1, 2, reset(semconv.PhaseText)), request(2, 3, answers)
		second.Start, second.Attempt = second.Start.Add(tt.finer), tt.attempt
		first.End, first.Attempt = second.Start.Add(tt.end), min(tt.attempt, 1)
		r := run(false, []Request{first, second})
		assert.Equal(t, tt.want, Judge(&r).Run.Outcome, tt.name)
	}
}

// TestUnaccountedCalls: a call before a request that no tool is known to have executed.
func TestUnaccountedCalls(t *testing.T) {
	cut := reset(semconv.PhaseResponseStarted)
	history := func(calls, outputs []string) func(*Request) {
		return all(cut, func(r *Request) { r.HistoryCalls, r.HistoryOutputs = calls, outputs })
	}
	for name, tt := range map[string]struct {
		first, second func(*Request)
		tools         []Tool
		recorded      bool
		want          bool
	}{
		"none":                            {answers, cut, nil, false, false},
		"in the history":                  {answers, history([]string{"a"}, []string{}), nil, false, true},
		"in the history, with its output": {answers, history([]string{"a"}, []string{"a"}), nil, false, false},
		"in the history, with its tool":   {answers, history([]string{"a"}, []string{}), []Tool{tool(1, 2, "a", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)}, false, false},
		"in the history, tools recorded":  {answers, history([]string{"a"}, []string{}), nil, true, false},
		"made before":                     {calls("a"), cut, nil, false, true},
		"made before, with its output":    {calls("a"), history([]string{}, []string{"a"}), nil, false, false},
		"may have been made before":       {all(answers, func(r *Request) { r.Unread = true }), cut, nil, false, true},
	} {
		r := run(true, []Request{request(0, 1, tt.first), request(3, 4, tt.second)}, tt.tools...)
		r.AnnouncedTools, r.ToolsRecorded = 0, FactOf(tt.recorded)
		v := Judge(&r).Requests[1].Retry
		assert.Equal(t, tt.want, v.Reason == semconv.RetryReasonToolStateUnknown, "%s: %s (%s)", name, v.Safety, v.Reason)
	}
}

// TestUnannouncedParts: a run may have more parts if it does not say how many it has and
// the histories of its requests were not observed.
func TestUnannouncedParts(t *testing.T) {
	opaque := all(reset(semconv.PhaseResponseStarted), func(r *Request) { r.HistoryCalls, r.HistoryOutputs = nil, nil })
	for name, tt := range map[string]struct {
		change func(*Run)
		want   bool
	}{
		"nothing announced":  {func(r *Run) { r.AnnouncedRequests, r.AnnouncedTools = 0, 0 }, true},
		"requests announced": {func(r *Run) { r.AnnouncedTools = 0 }, false},
		"tools announced":    {func(r *Run) { r.AnnouncedRequests = 0 }, false},
		"histories observed": {func(r *Run) {
			r.AnnouncedRequests, r.AnnouncedTools = 0, 0
			r.Requests[0].HistoryCalls = []string{}
		}, false},
		"no requests": {func(r *Run) { r.AnnouncedRequests, r.AnnouncedTools, r.Requests = 0, 0, nil }, true},
	} {
		r := run(true, []Request{request(0, 1, opaque)})
		tt.change(&r)
		assert.Equal(t, tt.want, (&judge{run: &r}).mayHaveUnannouncedParts(), name)
	}
}

// TestAnnouncedToolIsMissing: a tool that the run announced and that is not here may have run
// for any request that began a call, also on an input that never became complete.
func TestAnnouncedToolIsMissing(t *testing.T) {
	cut := all(reset(semconv.PhaseToolInput), func(r *Request) { r.ToolInputsStarted = Counted(1) })
	for name, tt := range map[string]struct {
		announced int
		request   func(*Request)
		want      semconv.RetrySafety
	}{
		"none announced":      {0, cut, SafeAutoRetry},
		"one announced":       {1, cut, UserConfirmedRetry},
		"no call was started": {1, reset(semconv.PhaseResponseStarted), SafeAutoRetry},
	} {
		r := run(true, []Request{request(0, 1, tt.request)})
		r.AnnouncedTools = Counted(tt.announced)
		d := Judge(&r).Requests[0]
		assert.Equal(t, tt.want, d.Retry.Safety, "%s: %s", name, d.Summary)
	}
}

// TestNamedTool: the summary names the first tool with the most harmful effect.
func TestNamedTool(t *testing.T) {
	named := func(name string, effect semconv.ToolEffect) Tool {
		f := tool(1, 2, name, effect, semconv.ToolOutcomeSucceeded)
		f.Name = name
		return f
	}
	inner := Effects{started: 1 << semconv.ToolEffectUnknown, tool: "inner"}
	list, save, push, pay := named("list", semconv.ToolEffectReadOnly), named("save", semconv.ToolEffectIdempotent),
		named("push", semconv.ToolEffectNonIdempotent), named("pay", semconv.ToolEffectNonIdempotent)
	for _, tt := range []struct {
		tools []Tool
		inner Effects
		want  string
	}{
		{nil, Effects{}, ""},
		{[]Tool{list}, Effects{}, "list"},
		{[]Tool{list, save}, Effects{}, "save"},
		{[]Tool{save, list}, Effects{}, "save"},
		{[]Tool{save, push, pay}, Effects{}, "push"},
		{[]Tool{pay, push, list}, Effects{}, "pay"},
		{[]Tool{list}, inner, "inner"},
		{[]Tool{pay}, inner, "pay"},
		{nil, inner, "inner"},
	} {
		r := run(true, []Request{request(0, 1, reset(semconv.PhaseResponseStarted))}, tt.tools...)
		r.Inner = tt.inner
		r.Inner.Tools, r.Inner.Requests = 4, 5
		e := Judge(&r).Effects
		assert.Equal(t, tt.want, e.tool)
		assert.Equal(t, len(tt.tools)+4, e.Tools)
		assert.Equal(t, 6, e.Requests)
	}
	var k risk
	k.start(semconv.ToolEffectReadOnly, "list")
	k.addInner(&Effects{started: 1 << semconv.ToolEffectReadOnly, tool: "inner"})
	assert.Equal(t, "list", k.tool, "of two alike, the run's own")
	k = risk{}
	k.addInner(&Effects{started: 1 << semconv.ToolEffectReadOnly, tool: "inner"})
	k.addInner(&inner)
	k.addInner(&Effects{started: 1 << semconv.ToolEffectNonIdempotent, tool: "pay"})
	assert.Equal(t, "pay", k.tool)
	assert.Equal(t, Effects{started: 1<<semconv.ToolEffectReadOnly | 1<<semconv.ToolEffectUnknown | 1<<semconv.ToolEffectNonIdempotent}.started, k.started)
}

// TestToolOutcomes: the classification of each tool outcome, also if this side stopped the
// tool.
func TestToolOutcomes(t *testing.T) {
	for _, tt := range []struct {
		outcome          semconv.ToolOutcome
		alone, withAbort string
	}{
		{semconv.ToolOutcomeUnset, "", "local_abort/deadline"},
		{semconv.ToolOutcomeSucceeded, "", ""},
		{semconv.ToolOutcomeFailed, "tool_failed/execution_error", "tool_failed/execution_error"},
		{semconv.ToolOutcomeTimedOut, "tool_failed/timeout", "tool_failed/timeout"},
		{semconv.ToolOutcomeInterrupted, "tool_failed/interrupted", "local_abort/deadline"},
		{semconv.ToolOutcomeRejected, "tool_failed/rejected", "tool_failed/rejected"},
		{semconv.ToolOutcomeInvalidInput, "tool_failed/invalid_input", "tool_failed/invalid_input"},
	} {
		f := tool(1, 2, "a", semconv.ToolEffectReadOnly, tt.outcome)
		for source, want := range map[semconv.AbortSource]string{semconv.AbortSourceUnset: tt.alone, semconv.AbortSourceDeadline: tt.withAbort} {
			f.Abort.Source = source
			r := run(false, []Request{request(0, 1, calls("a"))}, f)
			got, _, _ := strings.Cut(words(&Judge(&r).Tools[0]), "@")
			assert.Equal(t, want, got, "%s %s", tt.outcome, source)
		}
	}
}

// TestRefusedCallThatEndsARun: a refused call has no output that could be lost.
func TestRefusedCallThatEndsARun(t *testing.T) {
	for _, outcome := range []semconv.ToolOutcome{semconv.ToolOutcomeRejected, semconv.ToolOutcomeInvalidInput} {
		r := run(true, []Request{request(0, 1, calls("a"))}, tool(1, 2, "a", semconv.ToolEffectNonIdempotent, outcome))
		v := Judge(&r)
		assert.Equal(t, "tool_failed/"+outcome.String()+"@tool_execution no_retry (not_transient)", words(&v.Run))
		assert.Empty(t, v.Run.MissingOutputs)
	}
}

// TestStoppedRun: the abort of a run explains why a request was stopped. It does not
// replace an earlier failure, unless a person stopped the run.
func TestStoppedRun(t *testing.T) {
	letGo := all(reset(semconv.PhaseText), func(r *Request) { r.Ended, r.Transport = semconv.StreamEndCancelled, Transport{} })
	for source, want := range map[semconv.AbortSource][2]string{
		semconv.AbortSourceUnset:    {"local_abort/unknown@text no_retry (not_transient)", "stream_interrupted/connection_reset@text safe_auto_retry (no_output)"},
		semconv.AbortSourceShutdown: {"local_abort/unknown@text no_retry (local_shutdown)", "stream_interrupted/connection_reset@text safe_auto_retry (no_output)"},
		semconv.AbortSourceUser:     {"local_abort/unknown@text no_retry (user_abort)", "stream_interrupted/connection_reset@text no_retry (user_abort)"},
	} {
		for i, change := range []func(*Request){letGo, reset(semconv.PhaseText)} {
			r := run(true, []Request{request(0, 1, change)})
			r.Abort.Source = source
			v := Judge(&r)
			assert.Equal(t, want[i], words(&v.Run), "%s", source)
		}
	}
}

// TestNamedToolOfARequest: only tools that a new attempt could repeat are named.
func TestNamedToolOfARequest(t *testing.T) {
	const read, write, ok = semconv.ToolEffectReadOnly, semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded
	named := func(name, id string, from float64, effect semconv.ToolEffect, outcome semconv.ToolOutcome) Tool {
		f := tool(from, from+1, id, effect, outcome)
		f.Name = name
		return f
	}
	pay := named("pay", "p", 0.5, write, ok)
	for _, tt := range []struct {
		name   string
		before Tool
	}{
		{"only reads", named("list", "l", 0.5, read, ok)},
		{"was rejected", named("push", "q", 0.5, write, semconv.ToolOutcomeRejected)},
		{"began later", named("push", "q", 5, write, ok)},
		{"has its output in the history", named("push", "h", -3, write, ok)},
	} {
		r := run(true, []Request{request(0, 1, all(reset(semconv.PhaseResponseStarted), carries("h")))}, tt.before, pay)
		assert.Contains(t, Judge(&r).Requests[0].Retry.Reason.String(), "tool_side_effect")
		assert.Contains(t, Judge(&r).Requests[0].Summary, stateText(semconv.SummaryKeyToolWithEffectsRan, &risk{tool: "pay"}), "after one that %s", tt.name)
	}

	// An output without an id is not known to belong to a tool without one.
	push := named("push", "", 0.5, write, ok)
	r := run(true, []Request{request(0, 1, all(reset(semconv.PhaseResponseStarted), carries("")))}, push, pay)
	assert.Contains(t, Judge(&r).Requests[0].Summary, stateText(semconv.SummaryKeyToolWithEffectsRan, &risk{tool: "push"}))
}

// TestSuperseded: a request that was stopped because a parallel one was answered is not a
// failure of a successful run.
func TestSuperseded(t *testing.T) {
	const application = semconv.AbortSourceApplication
	well := Run{Failed: No}
	for _, tt := range []struct {
		name     string
		run      Run
		source   semconv.AbortSource
		answered [2]float64
		want     string
	}{
		{"one beside it answered", well, application, [2]float64{0.5, 3}, ""},
		{"by the consumer", well, semconv.AbortSourceConsumer, [2]float64{0.5, 3}, ""},
		{"one answered before it began", well, application, [2]float64{0, 1}, "local_abort/application@text no_retry (local_shutdown)"},
		{"the run failed", Run{Failed: Yes}, application, [2]float64{0.5, 3}, "local_abort/application@text no_retry (local_shutdown)"},
		{"how the run went is not known", Run{}, application, [2]float64{0.5, 3}, ""},
		{"how the run went is not known, stopped just after the answer", Run{}, application, [2]float64{0.5, 1.2}, ""},
		{"how the run went is not known, stopped long after the answer", Run{}, application, [2]float64{-5, 0.9}, "local_abort/application@text no_retry (local_shutdown)"},
		{"the run was stopped too", Run{Failed: No, Abort: Abort{Source: semconv.AbortSourceShutdown}}, application, [2]float64{0.5, 3}, "local_abort/application@text no_retry (local_shutdown)"},
		{"by a person", well, semconv.AbortSourceUser, [2]float64{0.5, 3}, "local_abort/user@text no_retry (user_abort)"},
		{"by a shutdown", well, semconv.AbortSourceShutdown, [2]float64{0.5, 3}, "local_abort/shutdown@text no_retry (local_shutdown)"},
		{"by a deadline", well, semconv.AbortSourceDeadline, [2]float64{0.5, 3}, "local_abort/deadline@text user_confirmed_retry (visible_output)"},
	} {
		r := run(false, []Request{request(1, 2, aborted(tt.source)), request(tt.answered[0], tt.answered[1], answers)})
		r.Failed, r.Abort = tt.run.Failed, tt.run.Abort
		v := Judge(&r)
		assert.Equal(t, tt.want, words(&v.Run), tt.name)
	}
}

// TestBasisOfAHistory: that the history is the reason is only inferred, unless a code says
// so.
func TestBasisOfAHistory(t *testing.T) {
	for _, tt := range []struct {
		class semconv.Class
		code  string
		basis Basis
		want  Basis
	}{
		{semconv.ClassHistoryBroken, "", Typed, Corroborated},
		{semconv.ClassHistoryBroken, "", Inferred, Inferred},
		{semconv.ClassHistoryBroken, "Previous_Response_Not_Found", Typed, Typed},
		{semconv.ClassProviderError, "", Typed, Typed},
	} {
		r := Request{Basis: tt.basis, Provider: ProviderError{Code: tt.code}}
		assert.Equal(t, tt.want, (&judge{}).basisOf(&r, classification{class: tt.class}), "%s %q", tt.class, tt.code)
	}
}

// TestCancelledAfter: only a request that was stopped is cleanup, and only after one that
// failed.
func TestCancelledAfter(t *testing.T) {
	r := run(true, []Request{request(0, 2, answers), request(1, 3, aborted(semconv.AbortSourceApplication))})
	for _, stopped := range []state{stateUnknown, stateOK, stateLimited, stateWaiting, stateAborted, stateFailed} {
		for _, failed := range []state{stateUnknown, stateOK, stateLimited, stateWaiting, stateAborted, stateFailed} {
			j := judge{run: &r, states: []state{failed, stopped}}
			assert.Equal(t, stopped == stateAborted && failed == stateFailed, j.cancelledAfter(1, 0), "%d after %d", stopped, failed)
		}
	}
}

package classify

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

func ids(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = "call_" + strconv.Itoa(i)
	}
	return list
}

// lone returns a run of a single request.
func lone(change func(*Request)) Run { return Run{Requests: []Request{request(0, 1, change)}} }

func cutAt(cause semconv.TransportCause) func(*Request) {
	return func(r *Request) {
		r.Ended, r.Phase, r.Status = semconv.StreamEndNoResponse, semconv.PhaseBeforeConnection, 0
		r.Transport.Cause = cause
	}
}

// TestRequests checks the verdicts on single requests.
func TestRequests(t *testing.T) {
	cut := reset(semconv.PhaseResponseStarted)
	offers := func(tools ...string) func(*Request) { return func(r *Request) { r.ProviderTools = tools } }
	unread := func(r *Request) { r.Unread = true }
	status := func(status int, code string, kind semconv.ProviderErrorKind) func(*Request) {
		return all(refused(status, kind), func(r *Request) { r.Provider.Code = code })
	}
	history := func(calls, outputs []string) func(*Request) {
		return func(r *Request) { r.HistoryCalls, r.HistoryOutputs = calls, outputs }
	}
	after := func(d time.Duration) func(*Request) { return func(r *Request) { r.RetryAfter = d } }
	upstream := func(class semconv.Class, cause semconv.Cause, origin semconv.Origin) func(*Request) {
		return func(r *Request) { r.Upstream = Upstream{Yes, class, cause, origin} }
	}
	finish := func(f Finish) func(*Request) {
		return func(r *Request) {
			r.Ended, r.Phase, r.Finish = semconv.StreamEndTerminalEvent, semconv.PhaseStreamEnd, f
		}
	}
	unknownError := func(text int) func(*Request) {
		return func(r *Request) {
			r.Ended, r.Phase, r.Finish, r.Text = semconv.StreamEndTerminalEvent, semconv.PhaseResponseStarted, FinishMissing, Counted(text)
			if text > 0 {
				r.Phase = semconv.PhaseText
			}
			r.Provider = ProviderError{Kind: semconv.ProviderErrorKindUnknown, InBand: true}
		}
	}
	const bad = semconv.ProviderErrorKindInvalidRequest
	for _, c := range []struct {
		name   string
		change func(*Request)
		want   string // "": nothing failed
		origin string // "": not checked
	}{
		// Nothing is observed to be absent unless everything was read.
		{"cut, all of it read", cut, "stream_interrupted/connection_reset@response_started safe_auto_retry (no_output)", ""},
		{"cut, a part of it not read", all(cut, unread), "stream_interrupted/connection_reset@response_started user_confirmed_retry (tool_state_unknown)", ""},
		{"a part not read, text counted before", all(cut, unread, func(r *Request) { r.Text = Counted(1) }), "stream_interrupted/connection_reset@response_started user_confirmed_retry (tool_state_unknown)", ""},
		{"whole, a part not read", all(finish(FinishStop), unread), "", ""},
		{"an unknown reason for the end", finish(FinishOther), "provider_error/unknown_end@stream_end user_confirmed_retry (tool_state_unknown)", "provider"},
		{"an end without a reason, of a server that sends none", all(finish(FinishUnstated), func(r *Request) { r.Text = Counted(1) }), "", ""},
		{"reasoning, and nothing else", all(finish(FinishStop), func(r *Request) { r.Reasoning = Counted(1) }), "empty_completion/reasoning_only@stream_end safe_auto_retry (reasoning_only)", "provider"},
		{"reasoning, and a call that is not there", all(finish(FinishToolCalls), func(r *Request) { r.Reasoning = Counted(1) }), "empty_completion/reasoning_only@stream_end safe_auto_retry (reasoning_only)", "provider"},
		{"text, and a call that is not there", all(finish(FinishToolCalls), func(r *Request) { r.Text = Counted(1) }), "protocol_violation/invalid_tool_input@stream_end user_confirmed_retry (visible_output)", "provider"},
		{"text, and calls that nothing counts", all(finish(FinishToolCalls), func(r *Request) { r.Text, r.ToolInputsStarted, r.ToolCalls = Counted(1), 0, 0 }), "", ""},
		{"a call that is not JSON, at the limit of tokens", all(calls("a"), func(r *Request) {
			r.ToolInputsInvalid, r.MaxTokens, r.OutputTokens = Counted(1), Counted(64), Counted(64)
		}), "output_limited/max_output_tokens@stream_end no_retry (not_transient)", "provider"},
		{"a call that is not JSON, below the limit of tokens", all(calls("a"), func(r *Request) {
			r.ToolInputsInvalid, r.MaxTokens, r.OutputTokens = Counted(1), Counted(64), Counted(63)
		}), "protocol_violation/invalid_tool_input@stream_end user_confirmed_retry (tool_state_unknown)", "provider"},
		{"a call that is not JSON", all(calls("a"), func(r *Request) { r.ToolInputsInvalid = Counted(1) }), "protocol_violation/invalid_tool_input@stream_end user_confirmed_retry (tool_state_unknown)", "provider"},
		{"a call that is not JSON, cut by a limit", all(calls("a"), func(r *Request) { r.ToolInputsInvalid, r.Finish = Counted(1), FinishMaxTokens }), "output_limited/max_output_tokens@stream_end no_retry (not_transient)", "provider"},
		{"nothing in it", finish(FinishStop), "empty_completion/no_content@stream_end safe_auto_retry (no_output)", "provider"},
		{"no answer was due", finish(FinishNothingDue), "", ""},
		{"waits for an approval", finish(FinishWaiting), "", ""},
		// Within a call, however the stream ended: its input is the beginning of a JSON value, and
		// no client can execute it.
		{"a clean end within a call", func(r *Request) {
			r.Ended, r.Phase, r.Finish, r.Transport.Cause = semconv.StreamEndEOF, semconv.PhaseToolInput, FinishMissing, semconv.TransportCauseCleanEOF
			r.ToolInputsStarted, r.OpenCallIDs = Counted(1), []string{"a"}
		}, "stream_interrupted/clean_eof@tool_input safe_auto_retry (incomplete_tool_input)", ""},
		{"cut short within a call", all(reset(semconv.PhaseToolInput), func(r *Request) {
			r.Transport.Cause, r.ToolInputsStarted, r.OpenCallIDs = semconv.TransportCauseBodyTruncated, Counted(1), []string{"a"}
		}), "stream_interrupted/body_truncated@tool_input safe_auto_retry (incomplete_tool_input)", ""},
		{"an error event within a call", func(r *Request) {
			r.Ended, r.Phase, r.Finish = semconv.StreamEndTerminalEvent, semconv.PhaseToolInput, FinishMissing
			r.Provider = ProviderError{Kind: semconv.ProviderErrorKindOverloaded, InBand: true}
			r.ToolInputsStarted, r.OpenCallIDs = Counted(1), []string{"a"}
		}, "provider_error/overloaded@tool_input safe_auto_retry (incomplete_tool_input)", ""},
		{"[DONE] without a reason within a call", func(r *Request) {
			r.Ended, r.Phase, r.Finish = semconv.StreamEndTerminalEvent, semconv.PhaseToolInput, FinishMissing
			r.ToolInputsStarted, r.OpenCallIDs = Counted(1), []string{"a"}
		}, "stream_interrupted/clean_eof@tool_input safe_auto_retry (incomplete_tool_input)", ""},
		{"a reset within a call", all(reset(semconv.PhaseToolInput), func(r *Request) {
			r.ToolInputsStarted, r.OpenCallIDs = Counted(1), []string{"a"}
		}), "stream_interrupted/connection_reset@tool_input safe_auto_retry (incomplete_tool_input)", ""},
		// What the provider may have done in a part that was lost.
		{"offered and cut", all(cut, offers("code_interpreter")), "stream_interrupted/connection_reset@response_started user_confirmed_retry (provider_tool_side_effect)", ""},
		{"offered, harmless, and cut", all(cut, offers("web_search")), "stream_interrupted/connection_reset@response_started safe_auto_retry (no_output)", ""},
		{"offered, and an error ended it", all(offers("mcp"), func(r *Request) {
			r.Ended, r.Phase = semconv.StreamEndTerminalEvent, semconv.PhaseResponseStarted
			r.Provider = ProviderError{Kind: semconv.ProviderErrorKindOverloaded, InBand: true}
		}), "provider_error/overloaded@response_started safe_auto_retry (no_output)", "provider"},
		// Of an error of unknown kind nothing says whether it passes.
		{"an error that says nothing", unknownError(0), "provider_error/unknown@response_started user_confirmed_retry (evidence_incomplete)", "provider"},
		{"the same after text", unknownError(1), "provider_error/unknown@text user_confirmed_retry (visible_output)", "provider"},
		{"the same after a call", all(calls("a"), unknownError(0)), "provider_error/unknown@response_started user_confirmed_retry (tool_state_unknown)", "provider"},
		{"the same from a gateway's upstream", all(status(502, "", semconv.ProviderErrorKindServerError), upstream(semconv.ClassProviderError, semconv.CauseUnknown, semconv.OriginProvider)), "provider_error/unknown@response_started user_confirmed_retry (evidence_incomplete)", "provider"},
		{"what is offered is not known", all(cut, func(r *Request) { r.ProviderTools = nil }), "stream_interrupted/connection_reset@response_started user_confirmed_retry (evidence_incomplete)", ""},
		{"in the background, and cut", all(cut, func(r *Request) { r.Background = true }), "stream_interrupted/connection_reset@response_started user_confirmed_retry (provider_continues)", ""},
		{"in the background, and refused", all(status(429, "", semconv.ProviderErrorKindRateLimited), func(r *Request) { r.Background = true }), "provider_error/rate_limited@response_started safe_auto_retry (no_output)", ""},
		{"in the background, and a server's error", all(status(504, "", semconv.ProviderErrorKindTimeout), func(r *Request) { r.Background = true }), "provider_error/timeout@response_started user_confirmed_retry (provider_continues)", ""},
		{"in the background, and a timeout", all(status(408, "", semconv.ProviderErrorKindTimeout), func(r *Request) { r.Background = true }), "provider_error/timeout@response_started user_confirmed_retry (provider_continues)", ""},
		{"in the background, and an error event", func(r *Request) {
			r.Background, r.Ended, r.Phase = true, semconv.StreamEndTerminalEvent, semconv.PhaseResponseStarted
			r.Provider = ProviderError{Kind: semconv.ProviderErrorKindServerError, InBand: true}
		}, "provider_error/server_error@response_started user_confirmed_retry (provider_continues)", ""},
		{"offered, and a timeout", all(status(408, "", semconv.ProviderErrorKindTimeout), offers("mcp")), "provider_error/timeout@response_started user_confirmed_retry (provider_tool_side_effect)", ""},
		{"in the background, never sent", all(cutAt(semconv.TransportCauseConnectRefused), func(r *Request) { r.Background = true }), "connection_failed/connect_refused@before_connection safe_auto_retry (nothing_left_client)", ""},
		// Quotas and rate limits.
		{"429 for 20 seconds", all(status(429, "", semconv.ProviderErrorKindRateLimited), after(20*time.Second)), "provider_error/rate_limited@response_started safe_auto_retry (no_output)", ""},
		{"429 for 10 minutes", all(status(429, "", semconv.ProviderErrorKindRateLimited), after(10*time.Minute)), "provider_error/rate_limited@response_started safe_auto_retry (no_output)", ""},
		{"429 for 5 hours", all(status(429, "rate_limit_exceeded", semconv.ProviderErrorKindRateLimited), after(5*time.Hour)), "provider_error/quota_exhausted@response_started no_retry (not_transient)", ""},
		{"402", status(402, "", semconv.ProviderErrorKindQuotaExhausted), "provider_error/quota_exhausted@response_started no_retry (not_transient)", ""},
		{"402 for a minute", all(status(402, "", semconv.ProviderErrorKindQuotaExhausted), after(time.Minute)), "provider_error/rate_limited@response_started safe_auto_retry (no_output)", ""},
		{"402 for 10 minutes", all(status(402, "", semconv.ProviderErrorKindQuotaExhausted), after(10*time.Minute)), "provider_error/rate_limited@response_started safe_auto_retry (no_output)", ""},
		{"402 for a minute, by its status again", all(status(402, "402", semconv.ProviderErrorKindQuotaExhausted), after(time.Minute)), "provider_error/rate_limited@response_started safe_auto_retry (no_output)", ""},
		{"402 for an hour", all(status(402, "", semconv.ProviderErrorKindQuotaExhausted), after(time.Hour)), "provider_error/quota_exhausted@response_started no_retry (not_transient)", ""},
		{"402 for a minute, by a quota's code", all(status(402, "insufficient_quota", semconv.ProviderErrorKindQuotaExhausted), after(time.Minute)), "provider_error/quota_exhausted@response_started no_retry (not_transient)", ""},
		// A history that the provider refuses.
		{"a call without output", all(status(400, "", bad), history([]string{"a", "b"}, []string{"a"})), "history_broken/missing_output@response_started no_retry (not_transient)", "application"},
		{"an output without call", all(status(400, "invalid_request_error", bad), history([]string{"a"}, []string{"a", "b"})), "history_broken/missing_call@response_started no_retry (not_transient)", "application"},
		{"one of two calls of an id", all(status(400, "", bad), history([]string{"a", "a"}, []string{"a"})), "history_broken/missing_output@response_started no_retry (not_transient)", "application"},
		{"another cause is named", all(status(400, "unsupported_parameter", bad), history([]string{"a"}, []string{})), "provider_error/invalid_request@response_started no_retry (not_transient)", "provider"},
		{"another status", all(status(404, "", semconv.ProviderErrorKindNotFound), history([]string{"a"}, []string{})), "provider_error/not_found@response_started no_retry (not_transient)", "provider"},
		{"the history is whole", all(status(400, "", bad), history([]string{"a"}, []string{"a"})), "provider_error/invalid_request@response_started no_retry (not_transient)", "provider"},
		{"part of the history is on the server", all(status(400, "", bad), history(nil, []string{"a"})), "provider_error/invalid_request@response_started no_retry (not_transient)", "provider"},
		{"the history may have been cut", all(status(400, "", bad), history(ids(MaxIDs), ids(3))), "provider_error/invalid_request@response_started no_retry (not_transient)", "provider"},
		{"the state is gone", status(400, "previous_response_not_found", bad), "history_broken/lost_state@response_started no_retry (not_transient)", "application"},
		{"a signature is missing", all(status(200, "MISSING_THOUGHT_SIGNATURE", semconv.ProviderErrorKindUnknown), func(r *Request) { r.Provider.InBand = true }), "history_broken/invalid_signature@response_started no_retry (not_transient)", "application"},
		// The caller's own fault.
		{"no host", cutAt(semconv.TransportCauseInvalidURL), "application_error/invalid_url@before_connection no_retry (not_transient)", "application"},
		{"a header that is not valid", cutAt(semconv.TransportCauseInvalidRequest), "application_error/invalid_request@before_connection no_retry (not_transient)", "application"},
		{"HTTPS to a plain port", all(cutAt(semconv.TransportCauseTLS), func(r *Request) { r.Transport.Code = CodeNotTLS }), "connection_failed/tls@before_connection no_retry (not_transient)", "transport"},
		{"a handshake that failed", all(cutAt(semconv.TransportCauseTLS), func(r *Request) { r.Transport.Code = "handshake_failure" }), "connection_failed/tls@before_connection safe_auto_retry (nothing_left_client)", "transport"},
		{"a proxy that refuses", cutAt(semconv.TransportCauseProxyRefused), "connection_failed/proxy_refused@before_connection no_retry (not_transient)", "transport"},
		{"a proxy that is down", cutAt(semconv.TransportCauseProxy), "connection_failed/proxy@before_connection safe_auto_retry (nothing_left_client)", "transport"},
		// The application's own watchdog.
		{"the application's watchdog", func(r *Request) {
			r.Ended, r.Phase = semconv.StreamEndCancelled, semconv.PhaseResponseStarted
			r.Abort.Source, r.Watchdog.Kind = semconv.AbortSourceWatchdog, semconv.WatchdogKindIdle
		}, "watchdog_timeout/idle@response_started safe_auto_retry (no_output)", "watchdog"},
		{"the application's watchdog, of no kind", func(r *Request) {
			r.Ended, r.Phase = semconv.StreamEndCancelled, semconv.PhaseResponseStarted
			r.Abort.Source = semconv.AbortSourceWatchdog
		}, "watchdog_timeout/unknown@response_started safe_auto_retry (no_output)", "watchdog"},
		// A failure of the upstream outweighs what its gateway reports.
		{"a gateway's 500 over a reset", all(status(500, "", semconv.ProviderErrorKindServerError), upstream(semconv.ClassStreamInterrupted, semconv.CauseConnectionReset, semconv.OriginTransport)), "stream_interrupted/connection_reset@response_started safe_auto_retry (no_output)", "transport"},
		{"a gateway's 502 over a refused connection", all(status(502, "", semconv.ProviderErrorKindServerError), upstream(semconv.ClassConnectionFailed, semconv.CauseConnectRefused, semconv.OriginTransport)), "connection_failed/connect_refused@response_started safe_auto_retry (no_output)", "transport"},
		{"a gateway's 503 over its own shutdown", all(status(503, "", semconv.ProviderErrorKindOverloaded), upstream(semconv.ClassLocalAbort, semconv.CauseShutdown, semconv.OriginLocal)), "provider_error/overloaded@response_started safe_auto_retry (no_output)", "gateway"},
		{"a gateway's 401", all(status(401, "", semconv.ProviderErrorKindAuthentication), upstream(semconv.ClassStreamInterrupted, semconv.CauseConnectionReset, semconv.OriginTransport)), "provider_error/authentication@response_started no_retry (not_transient)", "provider"},
		{"empty over a shutdown", all(finish(FinishStop), upstream(semconv.ClassLocalAbort, semconv.CauseShutdown, semconv.OriginLocal)), "empty_completion/swallowed_error@stream_end safe_auto_retry (no_output)", "gateway"},
	} {
		run := lone(c.change)
		d := Judge(&run).Requests[0]
		assert.Equal(t, c.want, words(&d), c.name)
		assert.Equal(t, c.want != "", Failed(&run.Requests[0]), c.name)
		if c.origin != "" {
			assert.Equal(t, c.origin, d.Origin.String(), c.name)
		}
	}
}

// The ids that break a history are named.
func TestBrokenHistoryNamesItsIDs(t *testing.T) {
	broken := func(calls, outputs []string) Diagnosis {
		run := lone(all(refused(400, semconv.ProviderErrorKindInvalidRequest), func(r *Request) { r.HistoryCalls, r.HistoryOutputs = calls, outputs }))
		return Judge(&run).Requests[0]
	}
	d := broken([]string{"a", "b", "c"}, []string{"a"})
	assert.Equal(t, []string{"b", "c"}, d.MissingOutputs)
	assert.Contains(t, d.Evidence, "llm.history.tool_calls=b,c")
	assert.Equal(t, semconv.ConfidenceMedium, d.Confidence)
	assert.Equal(t, semconv.CauseMissingOutput, d.Cause)

	d = broken([]string{"a"}, []string{"a", "b"})
	assert.Empty(t, d.MissingOutputs)
	assert.Contains(t, d.Evidence, "llm.history.tool_outputs=b")
}

// A list of ids that may have been cut is not complete: a tool whose call is not in it may
// have been called by that very response.
func TestMoreCallsThanAreNamed(t *testing.T) {
	many := func(n int) func(*Request) {
		return all(calls(ids(MaxIDs)...), reset(semconv.PhaseToolCallReady), func(r *Request) {
			r.ToolInputsStarted, r.ToolInputsCompleted, r.ToolCalls = Counted(n), Counted(n), Counted(n)
		})
	}
	run := Run{ToolsRecorded: Yes, Requests: []Request{request(0, 1, many(65))}}
	for i := range MaxIDs {
		run.Tools = append(run.Tools, tool(2, 3, "call_"+strconv.Itoa(i), semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded))
	}
	run.Tools = append(run.Tools, tool(2, 3, "call_64", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded))
	d := Judge(&run).Requests[0]
	assert.Equal(t, "stream_interrupted/connection_reset@tool_call_ready user_confirmed_retry (tool_side_effect)", words(&d))

	// If all calls of a response are named, a tool of another response does not count.
	run.Requests[0] = request(0, 1, many(64))
	d = Judge(&run).Requests[0]
	assert.Equal(t, "stream_interrupted/connection_reset@tool_call_ready safe_auto_retry (read_only_tools_only)", words(&d))
}

// What an inner run did counts for the enclosing run.
func TestInnerRuns(t *testing.T) {
	inner := run(false, []Request{request(0, 1, calls("a")), request(3, 4, all(answers, carries("a"), func(r *Request) { r.Text = Counted(0); r.Reasoning = Counted(1) }))},
		tool(1, 2, "a", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded))
	inner.Tools[0].Name = "pay"
	of := Judge(&inner).Effects
	assert.Equal(t, 2, of.Requests)
	assert.Equal(t, 1, of.Tools)

	outer := run(true, []Request{request(5, 6, reset(semconv.PhaseResponseStarted))})
	v := Judge(&outer)
	assert.Equal(t, SafeAutoRetry, v.Run.Retry.Safety)
	outer.Inner = of
	outer.AnnouncedRequests, outer.AnnouncedTools = Counted(3), Counted(1)
	v = Judge(&outer)
	assert.Equal(t, "stream_interrupted/connection_reset@response_started user_confirmed_retry (tool_side_effect)", words(&v.Run))
	assert.Equal(t, semconv.SummaryKeyToolWithEffectsRan, v.Run.SummaryKey)
	assert.Contains(t, v.Run.Summary, stateText(v.Run.SummaryKey, &risk{tool: "pay"}))
	assert.Contains(t, v.Run.Summary, advice(&v.Run, &risk{tool: "pay"}))
	assert.Equal(t, 3, v.Effects.Requests)

	// Two levels up, and with a part of the inner run that never arrived.
	assert.Equal(t, 4, of.Join(of).Requests)
	outer.AnnouncedTools = Counted(2)
	v = Judge(&outer)
	assert.Equal(t, UserConfirmedRetry, v.Run.Retry.Safety)
	assert.Contains(t, v.Run.Evidence, "llm.run.tools=2 (seen 1)")
}

// Joining effects, in either order, never makes an enclosing run safer.
func TestJoinOfEffects(t *testing.T) {
	var all []Effects
	for i := range 2 * 2 * 2 * 3 * 4 * 16 {
		all = append(all, Effects{
			text: i%2 == 1, incomplete: i/2%2 == 1, continues: i/4%2 == 1, calls: callState(i / 8 % 3),
			providerTools: providerTools(i / 24 % 4), started: effects(i / 96 << semconv.ToolEffectReadOnly),
		})
	}
	level := func(e Effects) semconv.RetrySafety {
		outer := run(true, []Request{request(5, 6, reset(semconv.PhaseResponseStarted))})
		outer.Inner = e
		return Judge(&outer).Run.Retry.Safety
	}
	for i, a := range all {
		b := all[(i*7919+13)%len(all)]
		both := level(a.Join(b))
		if both != level(b.Join(a)) || both < level(a) || both < level(b) {
			t.Fatalf("%+v and %+v: %s", a, b, both)
		}
	}
}

func TestWaitingRun(t *testing.T) {
	waits := func(r *Request) {
		answers(r)
		r.Text, r.Finish = Counted(0), FinishWaiting
	}
	r := run(false, []Request{request(0, 1, waits)})
	v := Judge(&r)
	assert.Equal(t, semconv.RunOutcomeWaiting, v.Run.Outcome)
	assert.False(t, v.Run.Failed())

	r = run(false, []Request{request(0, 1, reset(semconv.PhaseResponseStarted)), request(2, 3, waits)})
	v = Judge(&r)
	assert.Equal(t, semconv.RunOutcomeWaiting, v.Run.Outcome)
	assert.Equal(t, 1, v.Run.RecoveredFailures)

	r = run(false, []Request{request(0, 1, waits), request(2, 3, answers)})
	assert.Equal(t, semconv.RunOutcomeSucceeded, Judge(&r).Run.Outcome)
}

// A run that ends on a tool which waits is waiting, unless something came after that tool.
func TestWaitingTool(t *testing.T) {
	asks := calls("call_1", "call_2")
	waiting := tool(1, 2, "call_1", semconv.ToolEffectUnset, semconv.ToolOutcomeUnset)
	waiting.Waits = true
	ran := tool(2.5, 3, "call_1", semconv.ToolEffectUnset, semconv.ToolOutcomeSucceeded)
	other := tool(1, 3, "call_2", semconv.ToolEffectUnset, semconv.ToolOutcomeSucceeded)
	failed := tool(1, 3, "call_2", semconv.ToolEffectUnset, semconv.ToolOutcomeFailed)
	judge := func(change func(*Run)) *Diagnosis {
		r := Run{Start: t0, End: at(9), Ended: Yes, Requests: []Request{request(0, 1, asks)}, Tools: []Tool{waiting}}
		change(&r)
		v := Judge(&r)
		return &v.Run
	}
	for name, tt := range map[string]struct {
		change func(*Run)
		want   semconv.RunOutcome
	}{
		"it waits":                         {func(*Run) {}, semconv.RunOutcomeWaiting},
		"it returned":                      {func(r *Run) { r.Failed = No }, semconv.RunOutcomeWaiting},
		"the run says so":                  {func(r *Run) { r.Tools, r.Waits = nil, true }, semconv.RunOutcomeWaiting},
		"beside one that ran":              {func(r *Run) { r.Tools = append(r.Tools, other) }, semconv.RunOutcomeWaiting},
		"beside one that failed":           {func(r *Run) { r.Tools = append(r.Tools, failed) }, semconv.RunOutcomeFailed},
		"approved, and stopped in it":      {func(r *Run) { r.Tools = append(r.Tools, ran) }, semconv.RunOutcomeIncomplete},
		"approved, and answered":           {func(r *Run) { r.Tools, r.Requests = append(r.Tools, ran), append(r.Requests, request(4, 5, answers)) }, semconv.RunOutcomeSucceeded},
		"approved, the next request broke": {func(r *Run) { r.Requests = append(r.Requests, request(4, 5, reset(semconv.PhaseText))) }, semconv.RunOutcomeFailed},
		"the run failed":                   {func(r *Run) { r.Failed = Yes }, semconv.RunOutcomeFailed},
		"parts are missing":                {func(r *Run) { r.Partial = true }, semconv.RunOutcomeIncomplete},
		"it is still running":              {func(r *Run) { r.Tools[0].End = time.Time{} }, semconv.RunOutcomeIncomplete},
		"its end never came":               {func(r *Run) { r.Ended = No }, semconv.RunOutcomeIncomplete},
	} {
		assert.Equal(t, tt.want, judge(tt.change).Outcome, name)
	}
}

// Of a run whose producer may return calls, and records no more, nothing is said; but what it
// did counts, and what failed is a failure.
func TestReturnsCalls(t *testing.T) {
	asks := calls("call_1", "call_2")
	for name, tt := range map[string]struct {
		change func(*Run)
		want   semconv.RunOutcome
	}{
		"nothing is said":        {func(*Run) {}, semconv.RunOutcomeUnset},
		"another producer":       {func(r *Run) { r.ReturnsCalls = false }, semconv.RunOutcomeIncomplete},
		"it returned":            {func(r *Run) { r.Failed = No }, semconv.RunOutcomeSucceeded},
		"it failed":              {func(r *Run) { r.Failed = Yes }, semconv.RunOutcomeFailed},
		"parts are missing":      {func(r *Run) { r.Partial = true }, semconv.RunOutcomeIncomplete},
		"the last request broke": {func(r *Run) { r.Requests = append(r.Requests, request(4, 5, reset(semconv.PhaseText))) }, semconv.RunOutcomeFailed},
		"nothing of its last request is known": {func(r *Run) {
			r.Requests = append(r.Requests, request(4, 5, func(r *Request) { *r = Request{Start: r.Start, End: r.End} }))
		}, semconv.RunOutcomeIncomplete},
		"its end never came": {func(r *Run) { r.Ended = No }, semconv.RunOutcomeIncomplete},
	} {
		r := Run{Start: t0, End: at(9), Ended: Yes, ReturnsCalls: true, Requests: []Request{request(0, 1, asks)}}
		r.Tools = []Tool{tool(1, 2, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)}
		tt.change(&r)
		v := Judge(&r)
		assert.Equal(t, tt.want, v.Run.Outcome, name)
		assert.Equal(t, 1, v.Effects.Tools, name)
		if tt.want == semconv.RunOutcomeUnset {
			assert.Equal(t, Diagnosis{}, v.Run, name)
		}
	}
}

// Of a run whose OK is unproven nothing is said, unless its last request shows how it went.
func TestOKUnproven(t *testing.T) {
	unknown := func(r *Request) { *r = Request{Start: r.Start, End: r.End} }
	for name, tt := range map[string]struct {
		change func(*Run)
		want   semconv.RunOutcome
	}{
		"its last request is unknown": {func(*Run) {}, semconv.RunOutcomeUnset},
		"it has no requests":          {func(r *Run) { r.Requests = nil }, semconv.RunOutcomeUnset},
		"it returned calls":           {func(r *Run) { answers(&r.Requests[0]); r.Requests[0].Finish = FinishToolCalls }, semconv.RunOutcomeUnset},
		"it answered":                 {func(r *Run) { answers(&r.Requests[0]) }, semconv.RunOutcomeSucceeded},
		"another producer":            {func(r *Run) { r.OKUnproven = false }, semconv.RunOutcomeIncomplete},
		"its last request broke":      {func(r *Run) { reset(semconv.PhaseText)(&r.Requests[0]) }, semconv.RunOutcomeFailed},
		"parts are missing":           {func(r *Run) { r.Partial = true }, semconv.RunOutcomeUnset},
		"its end never came":          {func(r *Run) { r.Ended = No }, semconv.RunOutcomeIncomplete},
	} {
		r := Run{Start: t0, End: at(9), Ended: Yes, OKUnproven: true, Requests: []Request{request(0, 1, unknown)}}
		tt.change(&r)
		assert.Equal(t, tt.want, Judge(&r).Run.Outcome, name)
	}
}

// A live diagnosis reads what has arrived of an open stream.
func TestOpenRequest(t *testing.T) {
	open := func(r *Request) {
		r.Open, r.Ended, r.Phase, r.Text = true, semconv.StreamEndUnset, semconv.PhaseText, Counted(3)
	}
	r := Run{AnnouncedTools: Counted(0), Requests: []Request{request(0, 9, open)}}
	v := Judge(&r)
	assert.False(t, v.Run.Failed())
	assert.Equal(t, semconv.RunOutcomeSucceeded, v.Run.Outcome)

	r.Requests = append(r.Requests, request(1, 2, reset(semconv.PhaseResponseStarted)))
	v = Judge(&r)
	assert.Equal(t, "stream_interrupted/connection_reset@response_started user_confirmed_retry (visible_output)", words(&v.Run))
}

// Tools that were not declared as recorded are not observed.
func TestToolsAreDeclared(t *testing.T) {
	ready := all(calls("a"), reset(semconv.PhaseToolCallReady))
	declared := run(true, []Request{request(0, 1, ready)})
	v := Judge(&declared)
	assert.Equal(t, "stream_interrupted/connection_reset@tool_call_ready safe_auto_retry (tool_call_not_executed)", words(&v.Run))

	// A tool of an inner run is one of those that the run announces.
	inner := declared
	inner.AnnouncedTools, inner.Inner = Counted(1), Effects{Requests: 1, Tools: 1, started: 1 << semconv.ToolEffectReadOnly}
	inner.AnnouncedRequests = Counted(2)
	v = Judge(&inner)
	assert.Equal(t, "stream_interrupted/connection_reset@tool_call_ready safe_auto_retry (tool_call_not_executed)", words(&v.Requests[0]))
	assert.Equal(t, "stream_interrupted/connection_reset@tool_call_ready safe_auto_retry (read_only_tools_only)", words(&v.Run))

	silent := declared
	silent.AnnouncedTools = 0
	v = Judge(&silent)
	assert.Equal(t, "stream_interrupted/connection_reset@tool_call_ready user_confirmed_retry (tool_state_unknown)", words(&v.Run))

	// A run that announces no tools and failed by itself is still the application's
	// failure.
	own := run(true, []Request{request(0, 1, answers)})
	own.AnnouncedTools = 0
	v = Judge(&own)
	assert.Equal(t, "application_error/run_error@unknown user_confirmed_retry (visible_output)", words(&v.Run))
}

func TestPanickingTool(t *testing.T) {
	f := tool(1, 2, "a", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeFailed)
	f.ErrorType = "panic"
	r := run(true, []Request{request(0, 1, calls("a"))}, f)
	v := Judge(&r)
	assert.Equal(t, "tool_failed/panic@tool_execution user_confirmed_retry (tool_side_effect)", words(&v.Run))

	f.Handoff = true
	r.Tools[0] = f
	v = Judge(&r)
	assert.Contains(t, v.Run.Summary, failureText(&v.Run, &risk{handoff: true}))
}

// The timeline shows tools that began and never ended.
func TestToolThatNeverEnded(t *testing.T) {
	f := tool(1, 2, "a", semconv.ToolEffectReadOnly, semconv.ToolOutcomeUnset)
	f.End = time.Time{}
	r := run(true, []Request{request(0, 1, calls("a"))}, f)
	assert.Contains(t, Judge(&r).Run.Timeline, "+60.000s tool apply_patch: never ended")
}

// An output that was sent at the second attempt was not lost, and the first attempt is
// reported.
func TestDeliveryThatWentWellAtLast(t *testing.T) {
	f := tool(1, 2, "a", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)
	f.Delivery, f.DeliveryError = semconv.OutputDeliverySent, "*net.OpError"
	r := run(false, []Request{request(0, 1, calls("a")), request(3, 4, all(answers, carries("a")))}, f)
	v := Judge(&r)
	assert.Equal(t, semconv.RunOutcomeRecovered, v.Run.Outcome)
	assert.Equal(t, 1, v.Run.RecoveredFailures)
}

// Nothing could be delivered of the first execution of a call, and it was executed again: a
// delivery failed, and the run recovered from it. Until the second output arrives, it is lost.
func TestExecutedAgainAfterAFailedDelivery(t *testing.T) {
	first := tool(1, 2, "a", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)
	first.Delivery, first.DeliveryError = semconv.OutputDeliveryFailed, "*net.OpError"
	second := tool(3, 4, "a", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)
	for _, delivery := range []semconv.OutputDelivery{semconv.OutputDeliverySent, semconv.OutputDeliveryUnset} {
		second.Delivery = delivery
		r := run(false, []Request{request(0, 1, calls("a")), request(5, 6, all(answers, carries("a")))}, first, second)
		v := Judge(&r)
		assert.Equal(t, semconv.RunOutcomeRecovered, v.Run.Outcome, delivery)
		assert.Equal(t, 1, v.Run.RecoveredFailures, delivery)
	}
	second.Delivery, second.DeliveryError = semconv.OutputDeliveryFailed, "*net.OpError"
	r := run(false, []Request{request(0, 1, calls("a"))}, first, second)
	v := Judge(&r)
	assert.Equal(t, semconv.CauseDeliveryFailed, v.Run.Cause)
	assert.Zero(t, v.Run.RecoveredFailures)
}

// A tool runs while the retry is sent, and no request ever carries its output: the output
// is lost, and the tool is part of the risk.
func TestToolInFlightAtTheRetry(t *testing.T) {
	made := all(calls("a"), reset(semconv.PhaseToolCallReady))
	f := tool(1, 5, "a", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)
	r := run(false, []Request{request(0, 2, made), request(3, 4, answers)}, f)
	v := Judge(&r)
	assert.Equal(t, "tool_output_lost/omitted_from_retry@tool_output_delivery user_confirmed_retry (tool_side_effect)", words(&v.Run))
	assert.Equal(t, []string{"a"}, v.Run.MissingOutputs)
	assert.Equal(t, "stream_interrupted/connection_reset@tool_call_ready user_confirmed_retry (tool_side_effect)", words(&v.Requests[0]))

	// A later request carries the output: nothing is lost.
	r = run(false, []Request{request(0, 2, made), request(3, 4, answers), request(6, 7, all(answers, carries("a")))}, f)
	v = Judge(&r)
	assert.Equal(t, semconv.RunOutcomeRecovered, v.Run.Outcome)
	assert.Empty(t, v.Run.MissingOutputs)

	// Nothing had failed: the application may have run the tool in the background.
	r = run(false, []Request{request(0, 1, calls("a")), request(3, 4, answers)}, f)
	assert.Equal(t, semconv.RunOutcomeSucceeded, Judge(&r).Run.Outcome)
}

// If no request carried the output of a finished tool before the run failed, the output is
// named beside the first failure.
func TestUnansweredOutputsAreNamed(t *testing.T) {
	r := run(true, []Request{request(0, 1, calls("a", "b")), request(6, 7, refused(503, semconv.ProviderErrorKindOverloaded))},
		tool(1, 2, "a", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded), tool(2, 3, "b", semconv.ToolEffectReadOnly, semconv.ToolOutcomeFailed))
	r.Requests = r.Requests[:1]
	r.AnnouncedRequests = Counted(1)
	v := Judge(&r)
	assert.Equal(t, "tool_failed/execution_error@tool_execution safe_auto_retry (read_only_tools_only)", words(&v.Run))
	assert.Equal(t, []string{"a", "b"}, v.Run.MissingOutputs)
}

// The facts that decided are in the evidence, including those that were observed to be
// absent.
func TestEvidenceOfWhatWasNotThere(t *testing.T) {
	cut := lone(all(reset(semconv.PhaseResponseStarted), func(r *Request) {
		r.Connection = Connection{Reused: Yes, Idle: 90 * time.Second, Protocol: "1.1"}
		r.ProviderTools, r.ProviderToolsStarted = []string{"mcp"}, Counted(0)
	}))
	d := Judge(&cut).Requests[0]
	for _, want := range []string{
		"llm.stream.text_chunks=0", "llm.stream.tool_calls=0", "llm.stream.provider_tools_started=0", "llm.watchdog.kind=none",
		"llm.connection.reused=true", "llm.connection.idle=90.000", "network.protocol.version=1.1",
	} {
		assert.Contains(t, d.Evidence, want)
	}
	assert.Equal(t, semconv.SummaryKeyProviderToolActed, d.SummaryKey)
}

// A plain cancellation is not a network failure, and must not be repeated automatically.
func TestPlainCancel(t *testing.T) {
	unsent := lone(func(r *Request) {
		*r = Request{Start: r.Start, End: r.End, Basis: Typed, Ended: semconv.StreamEndCancelled, Phase: semconv.PhaseBeforeConnection}
		r.Abort.Source = semconv.AbortSourceUnknown
	})
	d := Judge(&unsent).Requests[0]
	assert.Equal(t, "local_abort/unknown@before_connection no_retry (not_transient)", words(&d))
	assert.Equal(t, semconv.SummaryKeyNothingSent, d.SummaryKey)
}

// Spans of the JavaScript SDK begin on whole milliseconds: the request that carries an
// output may seem to begin before the tool, and so before the output existed.
func TestOutputCarriedByACoarseClock(t *testing.T) {
	for _, start := range []float64{0.9995, 1.0005} {
		f := tool(1, 1.001, "a", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)
		cut := request(start, 2, all(reset(semconv.PhaseResponseStarted), carries("a")))
		r := run(true, []Request{request(0, 0.9, calls("a")), cut}, f)
		v := Judge(&r)
		assert.Empty(t, v.Run.MissingOutputs, start)
		assert.Equal(t, semconv.ClassStreamInterrupted, v.Run.Class)
	}
}

// TestRunMarkedFailed: a run whose own span says that it failed has failed, whatever is known of its
// parts. Only one that was cancelled may have been stopped on purpose.
func TestRunMarkedFailed(t *testing.T) {
	parts := map[string][]Request{
		"no request":          nil,
		"answered":            {request(0, 1, answers)},
		"asks for tools":      {request(0, 1, calls("call_1"))},
		"nothing is recorded": {{Start: at(0), End: at(1)}},
	}
	for name, requests := range parts {
		r := Run{Start: t0, End: at(9), Ended: Yes, Failed: Yes, Requests: requests}
		d := Judge(&r).Run
		assert.Equal(t, semconv.RunOutcomeFailed, d.Outcome, name)
		assert.Equal(t, semconv.ClassUnclassified, d.Class, name)
		assert.Equal(t, semconv.RetrySafetyUserConfirmedRetry, d.Retry.Safety, name)
		r.Abort.Source = semconv.AbortSourceUnknown
		assert.NotEqual(t, semconv.RunOutcomeSucceeded, Judge(&r).Run.Outcome, name)
		assert.NotEqual(t, semconv.RunOutcomeFailed, Judge(&r).Run.Outcome, name)
	}
}

// A later request with the output of a call whose input was cut shows that the client executed it.
func TestRepairedCall(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, outputs := range [][]string{nil, {"a"}} {
		cut := Request{
			Start: start, End: start.Add(time.Second), Basis: Typed, Failed: Yes, Status: 200, Ended: semconv.StreamEndEOF, Finish: FinishMissing,
			Phase: semconv.PhaseToolInput, Transport: Transport{Cause: semconv.TransportCauseCleanEOF},
			Text: Counted(0), Reasoning: Counted(0), ToolInputsStarted: Counted(1), ToolInputsCompleted: Counted(0), ToolCalls: Counted(0), OpenCallIDs: []string{"a"},
			ProviderTools: []string{}, ProviderToolsStarted: Counted(0), HistoryCalls: []string{}, HistoryOutputs: []string{},
		}
		answered := Request{
			Start: start.Add(2 * time.Second), End: start.Add(3 * time.Second), Basis: Typed, Failed: No, Status: 200, Ended: semconv.StreamEndTerminalEvent,
			Finish: FinishStop, Text: Counted(1), Reasoning: Counted(0), ToolInputsStarted: Counted(0), ToolInputsCompleted: Counted(0), ToolCalls: Counted(0),
			ProviderTools: []string{}, ProviderToolsStarted: Counted(0), HistoryCalls: outputs, HistoryOutputs: outputs,
		}
		if outputs == nil {
			answered.HistoryCalls, answered.HistoryOutputs = []string{}, []string{}
		}
		d := Judge(&Run{
			Start: start, End: answered.End, Ended: Yes, EndedBy: semconv.RunEndAnswer, Failed: No, AnnouncedRequests: Counted(2),
			Requests: []Request{cut, answered},
		}).Requests[0]
		assert.Equal(t, semconv.ClassStreamInterrupted, d.Class)
		if outputs == nil {
			assert.Equal(t, SafeAutoRetry, d.Retry.Safety, d.Summary)
			continue
		}
		assert.Equal(t, UserConfirmedRetry, d.Retry.Safety)
		assert.Equal(t, semconv.RetryReasonToolStateUnknown, d.Retry.Reason)
		assert.NotContains(t, d.Summary, "had not run")
	}
}

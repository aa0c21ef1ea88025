package classify

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/redact"
	"github.com/otelllm/otelllm-go/semconv"
)

func TestProviderErrorKind(t *testing.T) {
	for _, c := range []struct {
		status int
		codes  []string
		want   string
	}{
		{429, nil, "rate_limited"},
		{429, []string{"insufficient_quota", "insufficient_quota"}, "quota_exhausted"},
		{429, []string{"GenerateRequestsPerDayPerProjectPerModel-FreeTier", "RESOURCE_EXHAUSTED"}, "quota_exhausted"},
		{429, []string{"GenerateRequestsPerMinutePerProjectPerModel", "RESOURCE_EXHAUSTED"}, "rate_limited"},
		{200, []string{"", "MALFORMED_FUNCTION_CALL"}, "server_error"},
		{429, []string{"", "usage_limit_reached"}, "quota_exhausted"},
		{429, []string{"usage_not_included"}, "quota_exhausted"},
		{200, []string{"request_timeout", "invalid_request_error"}, "timeout"},
		{400, []string{"tool_use_failed", "invalid_request_error"}, "server_error"},
		{429, []string{"tokens", "rate_limit_exceeded"}, "rate_limited"},
		{429, []string{"requests", "insufficient_quota"}, "quota_exhausted"},
		{400, []string{"invalid_request_error", "context_length_exceeded"}, "context_length_exceeded"},
		{400, []string{"invalid_request_error"}, "invalid_request"},
		{400, []string{"invalid_request_error", "billing_not_active"}, "quota_exhausted"},
		{401, []string{"invalid_request_error", "invalid_api_key"}, "authentication"},
		{401, []string{"invalid_request_error"}, "authentication"},
		{402, nil, "quota_exhausted"},
		{403, nil, "permission"},
		{404, []string{"not_found_error"}, "not_found"},
		{408, nil, "timeout"},
		{413, []string{"request_too_large"}, "invalid_request"},
		{418, nil, "invalid_request"},
		{500, []string{"api_error"}, "server_error"},
		{500, nil, "server_error"},
		{502, nil, "server_error"},
		{503, nil, "overloaded"},
		{503, []string{"server_error"}, "overloaded"},
		{504, nil, "timeout"},
		{529, []string{"overloaded_error"}, "overloaded"},
		{0, []string{"overloaded_error"}, "overloaded"},
		{200, []string{"api_error"}, "server_error"},
		{200, []string{"server_error", "rate_limit_exceeded"}, "rate_limited"},
		{200, []string{"429"}, "rate_limited"},
		{0, []string{"ThrottlingException"}, "rate_limited"},
		{0, []string{"the upstream said rate_limit_exceeded"}, "unknown"}, // never a part of a text
		{0, []string{strings.Repeat("x", 100)}, "unknown"},
		{0, nil, "unknown"},
		{200, []string{"4x9", "999"}, "unknown"},
		{400, nil, "invalid_request"},
		{400, []string{"429"}, "invalid_request"}, // the status of the response outweighs a status in its body
		{399, []string{"429"}, "rate_limited"},
		{0, []string{"503"}, "overloaded"},
		{0, []string{"429", "insufficient_quota"}, "quota_exhausted"},
		{0, []string{strings.Repeat("x", redact.MaxCode+1), "insufficient_quota"}, "quota_exhausted"},
		{0, []string{strings.Repeat("x", redact.MaxCode-6) + "PerDay"}, "quota_exhausted"},
		{0, []string{strings.Repeat("x", redact.MaxCode-5) + "PerDay"}, "unknown"},
	} {
		assert.Equal(t, c.want, ProviderErrorKind(c.status, c.codes...).String(), "%d %q", c.status, c.codes)
	}
}

func TestKnownProviderCode(t *testing.T) {
	for code, want := range map[string]bool{
		"rate_limit_exceeded": true, "RESOURCE_EXHAUSTED": true, "ThrottlingException": true,
		"": false, "rate_limit_exceede": false, "429": false, "GenerateRequestsPerDayPerProjectPerModel": false,
	} {
		assert.Equal(t, want, KnownProviderCode(code), code)
	}
}

func TestSanitizeCode(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "rate_limit_exceeded": "rate_limit_exceeded", "a.b:c-D_9": "a.b:c-D_9",
		"Your key sk-123 is wrong": Redacted, "naïve": Redacted, "a\nb": Redacted,
		strings.Repeat("a", 80): strings.Repeat("a", 80), strings.Repeat("a", 81): Redacted,
	} {
		assert.Equal(t, want, SanitizeCode(in), "%q", in)
	}
}

func TestParseFinish(t *testing.T) {
	for _, c := range []struct {
		reasons []string
		want    Finish
	}{
		{nil, FinishNotObserved},
		{[]string{}, FinishMissing},
		{[]string{"error"}, FinishMissing},
		{[]string{"stop", "error"}, FinishMissing},
		{[]string{"stop"}, FinishStop},
		{[]string{"STOP"}, FinishStop},
		{[]string{"end_turn"}, FinishStop},
		{[]string{"something new"}, FinishOther},
		{[]string{"something new", "stop"}, FinishOther},
		{[]string{"load"}, FinishNothingDue},
		{[]string{"queued"}, FinishWaiting},
		{[]string{"tool_calls", "approval_required"}, FinishWaiting},
		{[]string{"stop", "tool_calls"}, FinishToolCalls},
		{[]string{"tool-calls"}, FinishToolCalls},
		{[]string{"tool_calls", "length"}, FinishMaxTokens},
		{[]string{"max_tokens"}, FinishMaxTokens},
		{[]string{"MAX_TOKENS"}, FinishMaxTokens},
		{[]string{"content_filter"}, FinishContentFilter},
		{[]string{"SAFETY"}, FinishContentFilter},
		{[]string{"refusal"}, FinishRefusal},
		{[]string{"model_context_window_exceeded"}, FinishContextWindow},
		{[]string{"pause_turn"}, FinishPaused},
		{[]string{"steered"}, FinishPaused},
	} {
		assert.Equal(t, c.want, ParseFinish(c.reasons), "%q", c.reasons)
	}
}

func TestCount(t *testing.T) {
	var unseen Count
	assert.False(t, unseen.Observed())
	assert.Equal(t, NotObserved, unseen.Fact())
	assert.Equal(t, NotObserved, Counted(-1).Fact())
	assert.Equal(t, No, Counted(0).Fact())
	assert.Equal(t, Yes, Counted(1).Fact())
	assert.Equal(t, 7, Counted(7).N())
	assert.Equal(t, 1<<32-3, Counted(1<<32-3).N())
	assert.Equal(t, 1<<32-2, Counted(1<<32-2).N())
	assert.Equal(t, 1<<32-2, Counted(1<<32-1).N())
	assert.Equal(t, 1<<32-2, Counted(1<<40).N())
}

func TestTimelineOfALongRun(t *testing.T) {
	var requests []Request
	for i := range 200 {
		change := answers
		if i == 2 || i == 100 {
			change = reset(semconv.PhaseResponseStarted)
		}
		requests = append(requests, request(float64(i), float64(i)+0.5, change))
	}
	r := run(false, requests)
	r.End = at(201)
	v := Judge(&r)
	lines := v.Run.Timeline
	require.LessOrEqual(t, len(lines), 24)
	assert.Equal(t, "+0.000s request 1: sent", lines[0])
	assert.Equal(t, "+0.100s request 1: headers 200", lines[1])
	assert.Equal(t, "+0.500s request 1: complete", lines[2])
	assert.Equal(t, "… 586 more …", lines[8])
	assert.Contains(t, lines, "+2.500s request 3: stream_interrupted (connection_reset) at response_started")
	assert.Contains(t, lines, "+100.500s request 101: stream_interrupted (connection_reset) at response_started")
	assert.Equal(t, "+201.000s run: ended", lines[len(lines)-1])
	assert.Equal(t, "recovered", v.Run.Outcome.String())
	assert.Equal(t, 2, v.Run.RecoveredFailures)
}

// Clocks within a process differ by up to a millisecond: what ends with the run is not shown as
// ending after it.
func TestTimelineAtTheEndOfTheRun(t *testing.T) {
	for over, last := range map[float64]string{
		0.0005: "+1.000s run: ended",
		0.002:  "+1.002s request 1: complete",
	} {
		r := run(false, []Request{request(0, 1+over, answers)})
		r.End = at(1)
		v := Judge(&r)
		assert.Equal(t, last, v.Run.Timeline[len(v.Run.Timeline)-1], "%v s after the run", over)
	}
}

// The monotonic clock and the wall clock of two times seldom agree to the nanosecond. The timeline
// of a live run, whose times have both, is that of its spans, which have only the latter.
func TestTimelineOfALiveRun(t *testing.T) {
	for range 1_000_000 {
		start, end := time.Now(), time.Now()
		monotonic, wall := end.Sub(start), end.Round(0).Sub(start.Round(0))
		if monotonic == wall {
			continue
		}
		end = end.Add(500*time.Microsecond - max(monotonic, wall)) // one is rounded up, the other down
		requests := func(end time.Time) []Request {
			r := request(0, 0, answers)
			r.Start, r.End, r.TimeToHeaders = start, end, 0
			return []Request{r}
		}
		live, spans := run(false, requests(end)), run(false, requests(end.Round(0)))
		live.Start, live.End, spans.Start, spans.End = start, end, start.Round(0), end.Round(0)
		assert.Equal(t, Judge(&spans).Run.Timeline, Judge(&live).Run.Timeline)
		return
	}
	t.Skip("the clocks agree")
}

func TestTimelineKeepsTheNewestFailures(t *testing.T) {
	var requests []Request
	for i := range 100 {
		requests = append(requests, request(float64(i), float64(i)+0.5, reset(semconv.PhaseResponseStarted)))
	}
	r := run(true, requests)
	v := Judge(&r)
	assert.Len(t, v.Run.Timeline, 24)
	assert.Equal(t, "… 278 more …", v.Run.Timeline[8])
	assert.True(t, slices.ContainsFunc(v.Run.Timeline, func(l string) bool { return strings.Contains(l, "request 97: stream_interrupted") }))
}

// TestTimelineLines: the timeline of each part of a run.
func TestTimelineLines(t *testing.T) {
	const read, ok = semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded
	cut := reset(semconv.PhaseResponseStarted)
	delivered := func(delivery semconv.OutputDelivery, failure string) Tool {
		f := tool(1, 2, "a", read, ok)
		f.Delivery, f.DeliveryError = delivery, failure
		return f
	}
	for _, tt := range []struct {
		name  string
		run   Run
		lines string // of the run, each preceded by a bar
	}{
		{"answered", lone(answers), "|+0.000s request 1: sent|+0.100s request 1: headers 200|+1.000s request 1: complete"},
		{"one call", lone(calls("a")), "|+0.000s request 1: sent|+0.100s request 1: headers 200|+1.000s request 1: complete, 1 tool call"},
		{"two calls", lone(calls("a", "b")), "|+0.000s request 1: sent|+0.100s request 1: headers 200|+1.000s request 1: complete, 2 tool calls"},
		{"cut, after a call", lone(all(calls("a"), cut)), "|+0.000s request 1: sent|+0.100s request 1: headers 200|+1.000s request 1: stream_interrupted (connection_reset) at response_started"},
		{"waits, after a call", lone(all(calls("a"), func(r *Request) { r.Finish = FinishWaiting })), "|+0.000s request 1: sent|+0.100s request 1: headers 200|+1.000s request 1: complete, waiting"},
		{"goes on", lone(func(r *Request) { r.Open, r.ToolCalls = true, Counted(1) }), "|+0.000s request 1: sent|+0.100s request 1: headers 200|+1.000s request 1: still open"},
		{"not known", lone(func(r *Request) { r.ToolCalls = Counted(1) }), "|+0.000s request 1: sent|+0.100s request 1: headers 200|+1.000s request 1: ended, outcome unknown"},
		{"no time of the headers", lone(all(answers, func(r *Request) { r.TimeToHeaders = 0 })), "|+0.000s request 1: sent|+1.000s request 1: complete"},
		{"no status", lone(all(answers, func(r *Request) { r.Status = 0 })), "|+0.000s request 1: sent|+1.000s request 1: complete"},
		{"the second try", lone(all(answers, func(r *Request) { r.Attempt, r.TimeToHeaders = 2, 0 })), "|+0.000s request 1: sent, attempt 2|+1.000s request 1: complete"},
		{
			"never sent", lone(all(cutAt(semconv.TransportCauseConnectRefused), func(r *Request) { r.End = at(0.0125) })),
			"|+0.000s request 1: started|+0.013s request 1: connection_failed (connect_refused) at before_connection",
		},
		{"a tool", Run{Tools: []Tool{delivered(semconv.OutputDeliveryPending, "")}}, "|+0.000s tool apply_patch: started|+1.000s tool apply_patch: succeeded"},
		{"its output was sent", Run{Tools: []Tool{delivered(semconv.OutputDeliverySent, "")}}, "|+0.000s tool apply_patch: started|+1.000s tool apply_patch: succeeded, output sent"},
		{"its output was sent at last", Run{Tools: []Tool{delivered(semconv.OutputDeliverySent, "EPIPE")}}, "|+0.000s tool apply_patch: started|+1.000s tool apply_patch: succeeded, output sent after a failed attempt"},
		{"its output was not sent", Run{Tools: []Tool{delivered(semconv.OutputDeliveryFailed, "EPIPE")}}, "|+0.000s tool apply_patch: started|+1.000s tool apply_patch: succeeded, sending its output failed"},
		{"a tool of no known outcome", Run{Tools: []Tool{tool(1, 2, "a", read, semconv.ToolOutcomeUnset)}}, "|+0.000s tool apply_patch: started|+1.000s tool apply_patch: ended, outcome unknown"},
		{
			"at the same time, requests come first",
			Run{Start: t0, Requests: []Request{request(1, 2, all(answers, func(r *Request) { r.TimeToHeaders = 0 }))}, Tools: []Tool{tool(1, 2, "a", read, ok)}},
			"|+1.000s request 1: sent|+1.000s tool apply_patch: started|+2.000s request 1: complete|+2.000s tool apply_patch: succeeded",
		},
		{
			"a part that began before the run",
			Run{Start: at(3), Tools: []Tool{tool(1, 4, "a", read, ok)}},
			"|+0.000s tool apply_patch: started|+3.000s tool apply_patch: succeeded",
		},
		{"an end before the beginning", Run{Start: at(3), End: at(1.498), Ended: Yes, Failed: Yes}, "|-1.502s run: ended in failure"},
		{"minutes, and a rounded millisecond", Run{Start: t0, End: at(754.3219996), Ended: Yes}, "|+754.322s run: ended"},
	} {
		assert.Equal(t, tt.lines, "|"+strings.Join(Judge(&tt.run).Run.Timeline, "|"), tt.name)
	}
}

// TestTimelineOfJustAsManyLines: a line that fits is not omitted.
func TestTimelineOfJustAsManyLines(t *testing.T) {
	r := Run{Start: t0}
	for i := range maxTimeline / 3 {
		r.Requests = append(r.Requests, request(float64(i), float64(i)+0.5, answers))
	}
	lines := Judge(&r).Run.Timeline
	assert.Len(t, lines, maxTimeline)
	assert.Equal(t, "+2.500s request 3: complete", lines[8])

	r.End, r.Ended = at(60), Yes
	lines = Judge(&r).Run.Timeline
	assert.Equal(t, "… 12 more …", lines[8], "the answers that were left out did not fail")
	assert.Len(t, lines, timelineHead+1+timelineTail)
}

// A tool's name comes from the application, but a model may have made it up: anything that
// does not look like a name is left out of the timeline.
func TestTimelineNamesOnlyNames(t *testing.T) {
	f := tool(1, 2, "a", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)
	f.Name = "my secret is 1234"
	r := run(false, []Request{request(0, 1, calls("a")), request(3, 4, all(answers, carries("a")))}, f)
	assert.NotContains(t, strings.Join(Judge(&r).Run.Timeline, "\n"), "secret")
	assert.Contains(t, Judge(&r).Run.Timeline, "+1.000s tool: started")
}

func TestMissingOutputsOfARequestThatFailed(t *testing.T) {
	requests := []Request{request(0, 1, calls("a")), request(3, 4, reset(semconv.PhaseResponseStarted))}
	r := run(true, requests, tool(1, 2, "a", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded))
	v := Judge(&r)
	assert.Equal(t, []string{"a"}, v.Requests[1].MissingOutputs)
	assert.Equal(t, "user_confirmed_retry (history_incomplete)", v.Requests[1].Retry.Safety.String()+" ("+v.Requests[1].Retry.Reason.String()+")")
}

// A history at its maximum length was cut: an id that is not in it is not known to be
// missing, unless an answered request carried it before.
func TestAFullHistoryProvesNothing(t *testing.T) {
	full := make([]string, MaxIDs)
	for i := range full {
		full[i] = fmt.Sprintf("call-%d", i)
	}
	first := tool(1, 2, "a", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)
	cut := request(9, 10, all(reset(semconv.PhaseResponseStarted), carries(full...)))
	r := run(true, []Request{request(0, 1, calls("a")), cut}, first)
	v := Judge(&r)
	assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, v.Requests[1].Retry.Reason)
	assert.Empty(t, v.Requests[1].MissingOutputs)

	r = run(true, []Request{request(0, 1, calls("a")), request(3, 4, all(answers, carries("a"))), cut}, first)
	v = Judge(&r)
	assert.Equal(t, SafeAutoRetry, v.Requests[2].Retry.Safety, words(&v.Requests[2]))
}

func TestRetryAfter(t *testing.T) {
	limited := request(0, 1, refused(429, semconv.ProviderErrorKindRateLimited))
	limited.RetryAfter = 7 * time.Second
	r := run(true, []Request{limited})
	v := Judge(&r)
	assert.Equal(t, 7*time.Second, v.Run.Retry.After)
	assert.Equal(t, 7*time.Second, v.Requests[0].Retry.After)

	limited.Provider.Kind = semconv.ProviderErrorKindQuotaExhausted
	r = run(true, []Request{limited})
	assert.Zero(t, Judge(&r).Run.Retry.After, "no wait makes a retry right that must not be")
}

func BenchmarkJudge(b *testing.B) {
	var requests []Request
	var tools []Tool
	for i := range 10 {
		id, before := fmt.Sprintf("call-%d", i), []string{}
		for n := range i {
			before = append(before, fmt.Sprintf("call-%d", n))
		}
		requests = append(requests, request(float64(i), float64(i)+0.5, all(calls(id), carries(before...))))
		if i < 9 {
			tools = append(tools, tool(float64(i)+0.5, float64(i)+0.9, id, semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded))
		}
	}
	healthy := run(false, requests, tools...)
	broken := healthy
	broken.Requests = append(slices.Clone(requests[:9]), request(9, 9.5, reset(semconv.PhaseText)))
	for name, r := range map[string]*Run{"healthy run of 20 spans": &healthy, "broken run of 20 spans": &broken} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Judge(r)
			}
		})
	}
}

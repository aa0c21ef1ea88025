package classify

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// incomplete is an answer that lacks its finish reason, and nothing says why.
func incomplete(r *Request) {
	r.Phase, r.Basis, r.Failed, r.Finish = semconv.PhaseUnknown, Inferred, Yes, FinishMissing
}

// TestHedges: the loser of a hedge is not how the run ended, whichever of the two began first.
// What happens to a request after the others were answered is its own.
func TestHedges(t *testing.T) {
	for name, loser := range map[string]func(*Request){"cancelled": aborted(semconv.AbortSourceUnknown), "incomplete": incomplete} {
		for _, tt := range []struct {
			name          string
			winner, loser [2]float64
			well          bool
		}{
			{"it began later", [2]float64{0, 2}, [2]float64{0.5, 2}, true},
			{"it began first", [2]float64{0.5, 2}, [2]float64{0, 2}, true},
			{"cancelled when the answer began", [2]float64{0, 5}, [2]float64{0.5, 1}, true},
			{"cancelled a moment after the answer", [2]float64{0, 2}, [2]float64{0.5, 2.9}, true},
			{"cancelled long after the answer", [2]float64{0, 2}, [2]float64{0.5, 4}, false},
			{"the request before it was answered", [2]float64{0, 1}, [2]float64{1, 1.5}, false},
		} {
			r := run(false, []Request{request(tt.winner[0], tt.winner[1], answers), request(tt.loser[0], tt.loser[1], loser)})
			r.Failed = NotObserved
			v := Judge(&r)
			assert.Equal(t, tt.well, v.Run.Outcome == semconv.RunOutcomeSucceeded, "%s, %s: %s", name, tt.name, v.Run.Outcome)
			assert.NotEqual(t, semconv.ClassUnset, v.Requests[1].Class, "the request itself is judged for what it is")
		}
	}
	many := run(false, nil) // each is compared with all others at once
	many.Failed = NotObserved
	for i := range 4096 {
		many.Requests = append(many.Requests, request(float64(i), float64(i)+2, answers), request(float64(i)+.5, float64(i)+2, aborted(semconv.AbortSourceUnknown)))
	}
	assert.Equal(t, semconv.RunOutcomeSucceeded, Judge(&many).Run.Outcome)
}

// TestDeadlineRecovered: an attempt that ran into its own deadline failed, unlike one that was
// stopped for another reason.
func TestDeadlineRecovered(t *testing.T) {
	for _, source := range semconv.AbortSourceValues() {
		r := run(false, []Request{request(0, 1, aborted(source)), request(2, 3, answers)})
		v := Judge(&r)
		want := 0
		if source == semconv.AbortSourceDeadline || source == semconv.AbortSourceWatchdog {
			want = 1
		}
		assert.Equal(t, want, v.Run.RecoveredFailures, "%s", source)
	}
}

// TestCopiedErrors: a run that is marked with the error of an attempt says nothing of its own, if
// it ended with an answer and does not count its parts, as this project's client does.
func TestCopiedErrors(t *testing.T) {
	limited := IdentifyError("openai.RateLimitError", "")
	for _, tt := range []struct {
		name    string
		attempt ErrorID
		run     ErrorID
		last    func(*Request)
		counts  bool
		want    semconv.RunOutcome
	}{
		{"the same type", limited, IdentifyError("RateLimitError", "in other words"), answers, false, semconv.RunOutcomeRecovered},
		{"the same message", IdentifyError("", "429 from the provider"), IdentifyError("AgentError", "429 from the provider"), answers, false, semconv.RunOutcomeRecovered},
		{"a short message", IdentifyError("", "failed"), IdentifyError("", "failed"), answers, false, semconv.RunOutcomeFailed},
		{"another", limited, IdentifyError("TypeError", "429 from the provider"), answers, false, semconv.RunOutcomeFailed},
		{"none", ErrorID{}, ErrorID{}, answers, false, semconv.RunOutcomeFailed},
		{"the application's own", limited, limited, answers, true, semconv.RunOutcomeFailed},
		{"the last answer asks for a tool", limited, limited, all(answers, func(r *Request) {
			r.Finish, r.ToolCalls, r.ToolInputsStarted, r.ToolInputsCompleted, r.CallIDs = FinishToolCalls, Counted(1), Counted(1), Counted(1), []string{"call_1"}
		}), false, semconv.RunOutcomeFailed},
		{"the last one failed", limited, limited, refused(503, semconv.ProviderErrorKindOverloaded), false, semconv.RunOutcomeFailed},
	} {
		attempt := request(0, 1, refused(429, semconv.ProviderErrorKindRateLimited))
		attempt.Error = tt.attempt
		r := run(true, []Request{attempt, request(2, 3, tt.last)})
		if r.Error = tt.run; !tt.counts {
			r.AnnouncedRequests, r.AnnouncedTools = 0, 0
		}
		assert.Equal(t, tt.want, Judge(&r).Run.Outcome, tt.name)
	}
	vague := request(0, 1, incomplete)
	vague.Error = IdentifyError("ValueError", "")
	r := run(true, []Request{vague, request(2, 3, answers)})
	r.Error, r.AnnouncedRequests, r.AnnouncedTools = vague.Error, 0, 0
	assert.Equal(t, semconv.RunOutcomeFailed, Judge(&r).Run.Outcome, "a type that many errors have")
}

// TestGatewayShutDown: what broke off because a gateway was shut down says so, however it broke
// off. What the gateway answered remains an answer.
func TestGatewayShutDown(t *testing.T) {
	shutdown := Upstream{Failed: Yes, Class: semconv.ClassLocalAbort, Cause: semconv.CauseShutdown, Origin: semconv.OriginLocal}
	want := classification{semconv.ClassStreamInterrupted, semconv.CauseShutdown, semconv.OriginGateway}
	for _, e := range []ending{
		{end: semconv.StreamEndReadError, transport: semconv.TransportCauseConnectionReset},
		{end: semconv.StreamEndReadError, transport: semconv.TransportCauseBodyTruncated},
		{end: semconv.StreamEndNoResponse, transport: semconv.TransportCauseClosedBeforeHeaders},
		{end: semconv.StreamEndReadError},
		{end: semconv.StreamEndEOF},
	} {
		e.upstream = shutdown
		assert.Equal(t, want, e.classify(), "%+v", e)
	}
	for _, e := range []ending{
		{end: semconv.StreamEndNoResponse, transport: semconv.TransportCauseConnectRefused},
		{end: semconv.StreamEndReadError, transport: semconv.TransportCauseMalformedEvent},
		{end: semconv.StreamEndTerminalEvent, finish: FinishMaxTokens},
		{end: semconv.StreamEndCancelled, abort: semconv.AbortSourceUser},
		{end: semconv.StreamEndHTTPError, provider: semconv.ProviderErrorKindAuthentication},
	} {
		alone := e.classify()
		e.upstream = shutdown
		assert.Equal(t, alone, e.classify(), "%+v", e)
	}
	r := run(false, []Request{request(0, 1, all(reset(semconv.PhaseAwaitingResponse), func(r *Request) { r.Upstream = shutdown }))})
	v := Judge(&r)
	assert.Equal(t, semconv.CauseShutdown, v.Run.Cause)
	assert.NotEqual(t, NoRetry, v.Run.Retry.Safety, "another gateway may answer")
	assert.Contains(t, v.Run.Summary, "a gateway was shutting down")
}

// TestEmptyByAbsence: an answer with nothing in it and without a finish reason is empty only by
// what is missing.
func TestEmptyByAbsence(t *testing.T) {
	empty := all(answers, func(r *Request) { r.Text, r.Finish = Counted(0), FinishStop })
	r := run(false, []Request{request(0, 1, empty)})
	assert.Equal(t, semconv.ConfidenceHigh, Judge(&r).Run.Confidence)
	r = run(false, []Request{request(0, 1, all(empty, func(r *Request) { r.Finish = FinishMissing }))})
	v := Judge(&r)
	assert.Equal(t, semconv.CauseNoContent, v.Run.Cause)
	assert.Equal(t, semconv.ConfidenceLow, v.Run.Confidence)
	assert.NotEqual(t, SafeAutoRetry, v.Run.Retry.Safety)
	r.Requests[0].Upstream = Upstream{Failed: Yes, Class: semconv.ClassProviderError, Cause: semconv.CauseOverloaded}
	v = Judge(&r)
	assert.Equal(t, semconv.CauseSwallowedError, v.Run.Cause)
	assert.Equal(t, semconv.ConfidenceHigh, v.Run.Confidence, "a failure that was observed explains it")
}

// TestIncompleteWords: nothing is said to have failed where an answer may have been cancelled.
func TestIncompleteWords(t *testing.T) {
	r := run(false, []Request{request(0, 1, incomplete)})
	v := Judge(&r)
	for _, d := range []*Diagnosis{&v.Run, &v.Requests[0]} {
		assert.Contains(t, d.Summary, "The model's answer is not complete, and nothing recorded shows why.")
	}
}

// TestSummarizedHistory: a request whose history was too long is made good by a further attempt
// with a summary, from which the calls are gone together with their outputs. What an attempt leaves
// out for any other reason is lost, and so is an output whose call is still there.
func TestSummarizedHistory(t *testing.T) {
	call := all(answers, func(r *Request) {
		r.Finish, r.ToolCalls, r.ToolInputsStarted, r.ToolInputsCompleted, r.CallIDs = FinishToolCalls, Counted(1), Counted(1), Counted(1), []string{"a"}
	})
	history := func(calls, outputs []string, attempt int) func(*Request) {
		return func(r *Request) { r.HistoryCalls, r.HistoryOutputs, r.Attempt = calls, outputs, attempt }
	}
	a, none := []string{"a"}, []string{}
	tool := Tool{Start: at(2), End: at(3), CallID: "a", Name: "pay", FromHistory: true, Delivery: semconv.OutputDeliverySent}
	tooLong := refused(400, semconv.ProviderErrorKindContextLengthExceeded)
	for _, tt := range []struct {
		name           string
		failure, again func(*Request)
		want           semconv.RunOutcome
	}{
		{"a summary", tooLong, history(none, none, 2), semconv.RunOutcomeRecovered},
		{"a call without its output", tooLong, history(a, none, 2), semconv.RunOutcomeFailed},
		{"another request", tooLong, history(none, none, 1), semconv.RunOutcomeFailed},
		{"another failure", refused(503, semconv.ProviderErrorKindOverloaded), history(none, none, 2), semconv.RunOutcomeFailed},
	} {
		r := run(false, []Request{request(0, 1, all(call, history(none, none, 1))), request(4, 5, all(tt.failure, history(a, a, 1))), request(6, 7, all(answers, tt.again))})
		r.Failed, r.Tools = NotObserved, []Tool{tool}
		v := Judge(&r)
		assert.Equal(t, tt.want, v.Run.Outcome, "%s: %s", tt.name, v.Run.Summary)
		r.Requests[2] = request(6, 7, all(reset(semconv.PhaseResponseStarted), tt.again))
		assert.NotEqual(t, SafeAutoRetry, Judge(&r).Run.Retry.Safety, tt.name)
		assert.NotEqual(t, SafeAutoRetry, Judge(&r).Requests[2].Retry.Safety, tt.name)
	}
}

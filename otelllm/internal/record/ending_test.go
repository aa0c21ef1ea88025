package record

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// closing is the end of a response that had begun.
type closing struct {
	reason   Reason
	status   int
	state    *wire.State
	failure  netcause.Failure
	abort    classify.Abort
	watchdog classify.Watchdog
}

func (c closing) decide() outcome {
	e := Ending{Reason: c.reason, Failure: c.failure, Abort: c.abort, Watchdog: c.watchdog}
	return e.ofResponse(c.status, false, false, c.state)
}

func TestOfResponse(t *testing.T) {
	text := func() *wire.State { return &wire.State{Events: 2, TextChunks: 1, Phase: semconv.PhaseText} }
	with := func(change func(*wire.State)) *wire.State {
		st := text()
		change(st)
		return st
	}
	complete := with(func(st *wire.State) { st.Complete = true })
	terminal := with(func(st *wire.State) { st.Complete, st.Terminal, st.Phase = true, true, semconv.PhaseStreamEnd })
	doneOnly := with(func(st *wire.State) { st.Terminal = true })
	emptyDone := &wire.State{Events: 1, Terminal: true, Phase: semconv.PhaseResponseStarted}
	inBand := with(func(st *wire.State) { st.Terminal, st.Err = true, &wire.Error{Code: "overloaded"} })
	malformed := with(func(st *wire.State) { st.Violation = semconv.TransportCauseMalformedEvent })

	reset := netcause.Failure{Stage: semconv.TransportStageBody, Cause: semconv.TransportCauseConnectionReset, Code: "ECONNRESET", Chain: []string{"*net.OpError"}}
	resetBody := classify.Transport{Stage: semconv.TransportStageBody, Cause: semconv.TransportCauseConnectionReset, Code: "ECONNRESET"}
	user := classify.Abort{Source: semconv.AbortSourceUser, Reason: "stop_button"}
	consumer := classify.Abort{Source: semconv.AbortSourceConsumer}
	total := classify.Watchdog{Kind: semconv.WatchdogKindTotal}

	type want = outcome
	for _, tt := range []struct {
		name string
		in   closing
		want want
	}{
		{"complete, then EOF", closing{reason: EOF, state: terminal}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}},
		{"complete, then closed", closing{reason: Closed, state: terminal}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}},
		{"complete, then broken", closing{reason: Failed, state: terminal, failure: reset}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}},
		{"complete, then lost", closing{reason: Dropped, state: terminal}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}},

		{"complete without [DONE], EOF", closing{reason: EOF, state: complete}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}},
		{"complete without [DONE], closed", closing{reason: Closed, state: complete}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}},
		{"complete without [DONE], stopped by a user", closing{reason: Failed, state: complete, abort: user}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}},
		{"complete without [DONE], reset", closing{reason: Failed, state: complete, failure: reset}, want{end: semconv.StreamEndReadError, phase: semconv.PhaseText, transport: resetBody, chain: reset.Chain}},

		{"[DONE] after content without a finish reason", closing{reason: Closed, state: doneOnly}, want{end: semconv.StreamEndEOF, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseCleanEOF), due: true}},
		{"[DONE] after content without a finish reason, then stopped", closing{reason: Failed, state: doneOnly, abort: user}, want{end: semconv.StreamEndEOF, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseCleanEOF), due: true}},
		{"[DONE] alone", closing{reason: EOF, state: emptyDone}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd, due: true}},

		{"in-band error, then closed", closing{reason: Closed, state: inBand}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseText, due: true}},
		{"in-band error, then reset", closing{reason: Failed, state: inBand, failure: reset}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseText, due: true}},
		{"in-band error, then stopped", closing{reason: Failed, state: inBand, abort: user}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseText, due: true}},

		{"clean EOF in text", closing{reason: EOF, state: text()}, want{end: semconv.StreamEndEOF, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseCleanEOF), due: true}},
		{"clean EOF, and the context was cancelled", closing{reason: EOF, state: text(), abort: user}, want{end: semconv.StreamEndEOF, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseCleanEOF), due: true}},
		{"reset in text", closing{reason: Failed, state: text(), failure: reset}, want{end: semconv.StreamEndReadError, phase: semconv.PhaseText, transport: resetBody, chain: reset.Chain, due: true}},
		{"stopped in text", closing{reason: Failed, state: text(), abort: user}, want{end: semconv.StreamEndCancelled, phase: semconv.PhaseText, abort: user, transport: inBody(semconv.TransportCauseCancelled)}},
		{"closed in text", closing{reason: Closed, state: text()}, want{end: semconv.StreamEndConsumerClosed, phase: semconv.PhaseText, abort: consumer}},
		{"stopped, then closed, in text", closing{reason: Closed, state: text(), abort: user}, want{end: semconv.StreamEndCancelled, phase: semconv.PhaseText, abort: user}},
		{"lost in text", closing{reason: Dropped, state: text()}, want{end: semconv.StreamEndAbandoned, phase: semconv.PhaseText, abort: consumer}},

		{"malformed, then closed", closing{reason: Closed, state: malformed}, want{end: semconv.StreamEndConsumerClosed, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseMalformedEvent), due: true}},
		{"malformed, then stopped", closing{reason: Failed, state: malformed, abort: user}, want{end: semconv.StreamEndReadError, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseMalformedEvent), due: true}},
		{"malformed, then stopped, then closed", closing{reason: Closed, state: malformed, abort: user}, want{end: semconv.StreamEndConsumerClosed, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseMalformedEvent), due: true}},
		{"malformed, then a watchdog", closing{reason: Failed, state: malformed, watchdog: total}, want{end: semconv.StreamEndReadError, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseMalformedEvent), due: true}},
		{"malformed, then reset", closing{reason: Failed, state: malformed, failure: reset}, want{end: semconv.StreamEndReadError, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseMalformedEvent), due: true}},
		{"malformed, then EOF", closing{reason: EOF, state: malformed}, want{end: semconv.StreamEndEOF, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseMalformedEvent), due: true}},

		{"malformed, then complete", closing{reason: EOF, state: with(func(st *wire.State) {
			st.Complete, st.Terminal, st.Unread, st.Violation = true, true, true, semconv.TransportCauseMalformedEvent
		})}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}},
		{"an object that is broken, then complete", closing{reason: EOF, state: with(func(st *wire.State) {
			st.Complete, st.Terminal, st.Unread, st.Broken, st.Violation = true, true, true, true, semconv.TransportCauseEventTooLong
		})}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd, transport: inBody(semconv.TransportCauseMalformedEvent)}},
		{"malformed, then [DONE]", closing{reason: EOF, state: with(func(st *wire.State) {
			st.Terminal, st.Unread, st.Violation = true, true, semconv.TransportCauseMalformedEvent
		})}, want{end: semconv.StreamEndEOF, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseMalformedEvent), due: true}},
		{"[DONE] alone, nothing else could be read", closing{reason: EOF, state: &wire.State{Terminal: true, Unread: true, Phase: semconv.PhaseResponseStarted}}, want{end: semconv.StreamEndEOF, phase: semconv.PhaseResponseStarted, transport: inBody(semconv.TransportCauseCleanEOF), due: true}},
		{"given up, EOF", closing{reason: EOF, state: with(func(st *wire.State) { st.Unread, st.GaveUp = true, true })}, want{phase: semconv.PhaseUnknown}},
		{"given up, closed", closing{reason: Closed, state: with(func(st *wire.State) { st.Unread, st.GaveUp = true, true })}, want{phase: semconv.PhaseUnknown}},
		{"given up, reset", closing{reason: Failed, failure: reset, state: with(func(st *wire.State) { st.Unread, st.GaveUp = true, true })}, want{end: semconv.StreamEndReadError, phase: semconv.PhaseUnknown, transport: resetBody, chain: reset.Chain}},

		{"error status, read", closing{reason: EOF, status: 503}, want{end: semconv.StreamEndHTTPError, phase: semconv.PhaseResponseStarted}},
		{"error status, cut", closing{reason: Failed, status: 503, failure: reset}, want{end: semconv.StreamEndHTTPError, phase: semconv.PhaseResponseStarted}},
		{"error status, stopped", closing{reason: Failed, status: 503, abort: user}, want{end: semconv.StreamEndHTTPError, phase: semconv.PhaseResponseStarted}},

		{"unread, EOF", closing{reason: EOF, status: 200}, want{phase: semconv.PhaseUnknown}},
		{"unread, closed", closing{reason: Closed, status: 200}, want{phase: semconv.PhaseUnknown}},
		{"unread, reset", closing{reason: Failed, status: 200, failure: reset}, want{end: semconv.StreamEndReadError, phase: semconv.PhaseUnknown, transport: resetBody, chain: reset.Chain}},
		{"unread, stopped", closing{reason: Failed, status: 200, abort: user}, want{end: semconv.StreamEndCancelled, phase: semconv.PhaseUnknown, abort: user, transport: inBody(semconv.TransportCauseCancelled)}},
		{"unread, lost", closing{reason: Dropped, status: 200}, want{end: semconv.StreamEndAbandoned, phase: semconv.PhaseUnknown, abort: consumer}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, tt.in.decide())
		})
	}
}

// The outcome is consistent for every combination of what a stream said and how it stopped.
func TestOfResponseIsConsistent(t *testing.T) {
	aborts := []classify.Abort{{}, {Source: semconv.AbortSourceUser}, {Source: semconv.AbortSourceDeadline}}
	watchdogs := []classify.Watchdog{{}, {Kind: semconv.WatchdogKindTotal}}
	n := 0
	for _, h := range []Reason{EOF, Failed, Closed, Dropped} {
		for _, abort := range aborts {
			for _, watchdog := range watchdogs {
				for _, st := range states() {
					c := closing{reason: h, state: st, abort: abort, watchdog: watchdog}
					if h == Failed && abort == (classify.Abort{}) && watchdog == (classify.Watchdog{}) {
						c.failure = netcause.Failure{Stage: semconv.TransportStageBody, Cause: semconv.TransportCauseConnectionReset}
					}
					consistent(t, c, c.decide())
					n++
				}
			}
		}
	}
	assert.Equal(t, 4*3*2*32, n)
}

// states returns all combinations of what a stream may have said.
func states() (all []*wire.State) {
	for i := range 32 {
		is := func(bit int) bool { return i&(1<<bit) != 0 }
		st := &wire.State{Complete: is(0), Terminal: is(1), Phase: semconv.PhaseResponseStarted}
		if is(2) {
			st.Err = &wire.Error{}
		}
		if is(3) {
			st.Violation = semconv.TransportCauseEventTooLong
		}
		if is(4) {
			st.TextChunks, st.Phase = 1, semconv.PhaseText
		}
		all = append(all, st)
	}
	return all
}

// consistent checks that no two facts of an outcome contradict each other.
func consistent(t *testing.T, c closing, out outcome) {
	t.Helper()
	said := c.state.Complete || c.state.Terminal || c.state.Err != nil
	aborted, timedOut := out.abort.Source != semconv.AbortSourceUnset, out.watchdog.Kind != semconv.WatchdogKindUnset
	assert.NotEqual(t, semconv.StreamEndUnset, out.end, "%+v", c)
	assert.Equal(t, timedOut, out.end == semconv.StreamEndWatchdog, "%+v", c)
	assert.False(t, aborted && timedOut, "there is one cause: %+v", c)
	if out.end == semconv.StreamEndCancelled {
		assert.True(t, aborted, "a cancellation has an abort: %+v", c)
	}
	if aborted || timedOut {
		assert.NotEqual(t, semconv.StreamEndTerminalEvent, out.end, "%+v", c)
		assert.Contains(t, []semconv.TransportCause{semconv.TransportCauseUnset, semconv.TransportCauseCancelled}, out.transport.Cause, "there is one cause: %+v", c)
	}
	if aborted {
		assert.False(t, out.due, "no finish reason is due after an abort: %+v", c)
	}
	if out.end == semconv.StreamEndTerminalEvent {
		assert.True(t, said, "%+v", c)
		assert.Zero(t, out.transport, "%+v", c)
	}
	if !said {
		assert.NotEqual(t, semconv.PhaseStreamEnd, out.phase)
		assert.True(t, out.transport.Cause != semconv.TransportCauseUnset || aborted || timedOut, "an incomplete answer has a cause: %+v", c)
	}
}

func TestNoResponse(t *testing.T) {
	at := func(s semconv.TransportStage, c semconv.TransportCause) netcause.Failure {
		return netcause.Failure{Stage: s, Cause: c}
	}
	for _, tt := range []struct {
		name        string
		failure     netcause.Failure
		sent, known bool
		phase       semconv.Phase
	}{
		{"refused", at(semconv.TransportStageConnect, semconv.TransportCauseConnectRefused), false, true, semconv.PhaseBeforeConnection},
		{"refused, after an earlier try had been sent", at(semconv.TransportStageConnect, semconv.TransportCauseConnectRefused), true, true, semconv.PhaseAwaitingResponse},
		{"refused, no trace", at(semconv.TransportStageConnect, semconv.TransportCauseConnectRefused), false, false, semconv.PhaseBeforeConnection},
		{"closed, no trace", at(semconv.TransportStageHeaders, semconv.TransportCauseClosedBeforeHeaders), false, false, semconv.PhaseAwaitingResponse},
		{"unknown failure, no trace", netcause.Failure{}, false, false, semconv.PhaseUnknown},
		{"not tried", at(semconv.TransportStageUnset, semconv.TransportCauseInvalidURL), false, false, semconv.PhaseBeforeConnection},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := Ending{Reason: Failed, Failure: tt.failure, Sent: tt.sent, SentKnown: tt.known}
			out := e.noResponse()
			assert.Equal(t, tt.phase, out.phase)
			assert.Equal(t, semconv.StreamEndNoResponse, out.end)
			user := classify.Abort{Source: semconv.AbortSourceUser}
			e.Abort = user
			out = e.noResponse()
			assert.Equal(t, tt.phase, out.phase)
			assert.Equal(t, semconv.StreamEndCancelled, out.end)
			assert.Equal(t, user, out.abort)
		})
	}
}

func TestFinishReasons(t *testing.T) {
	assert.Nil(t, finishReasons([]string{}, false), "no finish reason was due")
	assert.Equal(t, []string{"error"}, finishReasons(nil, true))
	assert.Equal(t, []string{"stop"}, finishReasons([]string{"stop"}, false))
	assert.Equal(t, []string{"stop", "error"}, finishReasons([]string{"stop"}, true))
	assert.Equal(t, []string{"error"}, finishReasons([]string{"error"}, true), "OpenRouter sends it itself")
	assert.Equal(t, []string{"redacted"}, finishReasons([]string{"because I say so"}, false))
	many := make([]string, classify.MaxIDs)
	for i := range many {
		many[i] = "stop"
	}
	assert.Len(t, finishReasons(many, true), classify.MaxIDs)
	assert.Equal(t, classify.FinishMissing, classify.ParseFinish(finishReasons(many, true)))
}

package otelllm

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

func TestConclude(t *testing.T) {
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

	type want = conclusion
	for _, tt := range []struct {
		name string
		in   closing
		want want
	}{
		{"whole, then EOF", closing{how: byEOF, state: terminal}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}},
		{"whole, then closed", closing{how: byClose, state: terminal}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}},
		{"whole, then broken", closing{how: byError, state: terminal, failure: reset}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}},
		{"whole, then lost", closing{how: byDrop, state: terminal}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}},

		{"complete without [DONE], EOF", closing{how: byEOF, state: complete}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}},
		{"complete without [DONE], closed", closing{how: byClose, state: complete}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}},
		{"complete without [DONE], stopped by a user", closing{how: byError, state: complete, abort: user}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}},
		{"complete without [DONE], reset", closing{how: byError, state: complete, failure: reset}, want{end: semconv.StreamEndReadError, phase: semconv.PhaseText, transport: resetBody, chain: reset.Chain}},

		{"[DONE] after content without a finish reason", closing{how: byClose, state: doneOnly}, want{end: semconv.StreamEndEOF, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseCleanEOF), due: true}},
		{"[DONE] after content without a finish reason, then stopped", closing{how: byError, state: doneOnly, abort: user}, want{end: semconv.StreamEndEOF, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseCleanEOF), due: true}},
		{"[DONE] alone", closing{how: byEOF, state: emptyDone}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd, due: true}},

		{"error in band, then closed", closing{how: byClose, state: inBand}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseText, due: true}},
		{"error in band, then reset", closing{how: byError, state: inBand, failure: reset}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseText, due: true}},
		{"error in band, then stopped", closing{how: byError, state: inBand, abort: user}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseText, due: true}},

		{"clean EOF in text", closing{how: byEOF, state: text()}, want{end: semconv.StreamEndEOF, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseCleanEOF), due: true}},
		{"clean EOF, and the context was cancelled", closing{how: byEOF, state: text(), abort: user}, want{end: semconv.StreamEndEOF, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseCleanEOF), due: true}},
		{"reset in text", closing{how: byError, state: text(), failure: reset}, want{end: semconv.StreamEndReadError, phase: semconv.PhaseText, transport: resetBody, chain: reset.Chain, due: true}},
		{"stopped in text", closing{how: byError, state: text(), abort: user}, want{end: semconv.StreamEndCancelled, phase: semconv.PhaseText, abort: user, transport: inBody(semconv.TransportCauseCancelled)}},
		{"closed in text", closing{how: byClose, state: text()}, want{end: semconv.StreamEndConsumerClosed, phase: semconv.PhaseText, abort: consumer}},
		{"stopped, then closed, in text", closing{how: byClose, state: text(), abort: user}, want{end: semconv.StreamEndCancelled, phase: semconv.PhaseText, abort: user}},
		{"lost in text", closing{how: byDrop, state: text()}, want{end: semconv.StreamEndAbandoned, phase: semconv.PhaseText, abort: consumer}},

		{"malformed, then closed", closing{how: byClose, state: malformed}, want{end: semconv.StreamEndConsumerClosed, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseMalformedEvent), due: true}},
		{"malformed, then stopped", closing{how: byError, state: malformed, abort: user}, want{end: semconv.StreamEndReadError, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseMalformedEvent), due: true}},
		{"malformed, then stopped, then closed", closing{how: byClose, state: malformed, abort: user}, want{end: semconv.StreamEndConsumerClosed, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseMalformedEvent), due: true}},
		{"malformed, then a watchdog", closing{how: byError, state: malformed, watchdog: total}, want{end: semconv.StreamEndReadError, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseMalformedEvent), due: true}},
		{"malformed, then reset", closing{how: byError, state: malformed, failure: reset}, want{end: semconv.StreamEndReadError, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseMalformedEvent), due: true}},
		{"malformed, then EOF", closing{how: byEOF, state: malformed}, want{end: semconv.StreamEndEOF, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseMalformedEvent), due: true}},

		{"malformed, then whole", closing{how: byEOF, state: with(func(st *wire.State) {
			st.Complete, st.Terminal, st.Unread, st.Violation = true, true, true, semconv.TransportCauseMalformedEvent
		})}, want{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}},
		{"malformed, then [DONE]", closing{how: byEOF, state: with(func(st *wire.State) {
			st.Terminal, st.Unread, st.Violation = true, true, semconv.TransportCauseMalformedEvent
		})}, want{end: semconv.StreamEndEOF, phase: semconv.PhaseText, transport: inBody(semconv.TransportCauseMalformedEvent), due: true}},
		{"[DONE] and nothing that was read", closing{how: byEOF, state: &wire.State{Terminal: true, Unread: true, Phase: semconv.PhaseResponseStarted}}, want{end: semconv.StreamEndEOF, phase: semconv.PhaseResponseStarted, transport: inBody(semconv.TransportCauseCleanEOF), due: true}},
		{"given up, EOF", closing{how: byEOF, state: with(func(st *wire.State) { st.Unread, st.GaveUp = true, true })}, want{phase: semconv.PhaseUnknown}},
		{"given up, closed", closing{how: byClose, state: with(func(st *wire.State) { st.Unread, st.GaveUp = true, true })}, want{phase: semconv.PhaseUnknown}},
		{"given up, reset", closing{how: byError, failure: reset, state: with(func(st *wire.State) { st.Unread, st.GaveUp = true, true })}, want{end: semconv.StreamEndReadError, phase: semconv.PhaseUnknown, transport: resetBody, chain: reset.Chain}},

		{"error status, read", closing{how: byEOF, status: 503}, want{end: semconv.StreamEndHTTPError, phase: semconv.PhaseResponseStarted}},
		{"error status, cut", closing{how: byError, status: 503, failure: reset}, want{end: semconv.StreamEndHTTPError, phase: semconv.PhaseResponseStarted}},
		{"error status, stopped", closing{how: byError, status: 503, abort: user}, want{end: semconv.StreamEndHTTPError, phase: semconv.PhaseResponseStarted}},

		{"unread, EOF", closing{how: byEOF, status: 200}, want{phase: semconv.PhaseUnknown}},
		{"unread, closed", closing{how: byClose, status: 200}, want{phase: semconv.PhaseUnknown}},
		{"unread, reset", closing{how: byError, status: 200, failure: reset}, want{end: semconv.StreamEndReadError, phase: semconv.PhaseUnknown, transport: resetBody, chain: reset.Chain}},
		{"unread, stopped", closing{how: byError, status: 200, abort: user}, want{end: semconv.StreamEndCancelled, phase: semconv.PhaseUnknown, abort: user, transport: inBody(semconv.TransportCauseCancelled)}},
		{"unread, lost", closing{how: byDrop, status: 200}, want{end: semconv.StreamEndAbandoned, phase: semconv.PhaseUnknown, abort: consumer}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, conclude(tt.in))
		})
	}
}

// Whatever a stream said and however it stopped, a conclusion is consistent.
func TestConcludeAlways(t *testing.T) {
	aborts := []classify.Abort{{}, {Source: semconv.AbortSourceUser}, {Source: semconv.AbortSourceDeadline}}
	watchdogs := []classify.Watchdog{{}, {Kind: semconv.WatchdogKindTotal}}
	n := 0
	for _, h := range []how{byEOF, byError, byClose, byDrop} {
		for _, abort := range aborts {
			for _, watchdog := range watchdogs {
				for _, st := range states() {
					c := closing{how: h, state: st, abort: abort, watchdog: watchdog}
					if h == byError && !c.aborted() && !c.bitten() {
						c.failure = netcause.Failure{Stage: semconv.TransportStageBody, Cause: semconv.TransportCauseConnectionReset}
					}
					consistent(t, c, conclude(c))
					n++
				}
			}
		}
	}
	assert.Equal(t, 4*3*2*32, n)
}

// states are all combinations of what a stream may have said.
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

// consistent checks that no fact of a conclusion stands against another.
func consistent(t *testing.T, c closing, out conclusion) {
	t.Helper()
	said := c.state.Complete || c.state.Terminal || c.state.Err != nil
	aborted, bitten := out.abort.Source != semconv.AbortSourceUnset, out.watchdog.Kind != semconv.WatchdogKindUnset
	assert.NotEqual(t, semconv.StreamEndUnset, out.end, "%+v", c)
	assert.Equal(t, bitten, out.end == semconv.StreamEndWatchdog, "%+v", c)
	assert.False(t, aborted && bitten, "one cause: %+v", c)
	if out.end == semconv.StreamEndCancelled {
		assert.True(t, aborted, "by any party: %+v", c)
	}
	if aborted || bitten {
		assert.NotEqual(t, semconv.StreamEndTerminalEvent, out.end, "%+v", c)
		assert.Contains(t, []semconv.TransportCause{semconv.TransportCauseUnset, semconv.TransportCauseCancelled}, out.transport.Cause, "one cause: %+v", c)
	}
	if aborted {
		assert.False(t, out.due, "this side did not wait for it: %+v", c)
	}
	if out.end == semconv.StreamEndTerminalEvent {
		assert.True(t, said, "%+v", c)
		assert.Zero(t, out.transport, "%+v", c)
	}
	if !said {
		assert.NotEqual(t, semconv.PhaseStreamEnd, out.phase)
		assert.True(t, out.transport.Cause != semconv.TransportCauseUnset || aborted || bitten, "it was ended: %+v", c)
	}
}

func TestUnanswered(t *testing.T) {
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
		{"anything, no trace", netcause.Failure{}, false, false, semconv.PhaseUnknown},
		{"not even tried", at(semconv.TransportStageUnset, semconv.TransportCauseInvalidURL), false, false, semconv.PhaseBeforeConnection},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := unanswered(tt.failure, classify.Abort{}, classify.Watchdog{}, tt.sent, tt.known)
			assert.Equal(t, tt.phase, out.phase)
			assert.Equal(t, semconv.StreamEndNoResponse, out.end)
			user := classify.Abort{Source: semconv.AbortSourceUser}
			out = unanswered(tt.failure, user, classify.Watchdog{}, tt.sent, tt.known)
			assert.Equal(t, tt.phase, out.phase)
			assert.Equal(t, semconv.StreamEndCancelled, out.end)
			assert.Equal(t, user, out.abort)
		})
	}
}

func TestFinishReasons(t *testing.T) {
	assert.Nil(t, finishReasons([]string{}, false), "none was due")
	assert.Equal(t, []string{"error"}, finishReasons(nil, true))
	assert.Equal(t, []string{"stop"}, finishReasons([]string{"stop"}, false))
	assert.Equal(t, []string{"stop", "error"}, finishReasons([]string{"stop"}, true))
	assert.Equal(t, []string{"error"}, finishReasons([]string{"error"}, true), "OpenRouter says it itself")
	assert.Equal(t, []string{"redacted"}, finishReasons([]string{"because I say so"}, false))
	many := make([]string, classify.MaxIDs)
	for i := range many {
		many[i] = "stop"
	}
	assert.Len(t, finishReasons(many, true), classify.MaxIDs)
	assert.Equal(t, classify.FinishMissing, classify.ParseFinish(finishReasons(many, true)))
}

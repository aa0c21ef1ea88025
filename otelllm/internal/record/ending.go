package record

import (
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/abort"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// Reason says what ended the reading of a response, or the wait for one.
type Reason uint8

// Reasons.
const (
	EOF     Reason = iota // the response came to its end
	Failed                // sending the request, or reading the response, failed
	Closed                // this side closed it
	Dropped               // the consumer lost it without closing it
)

// Ending is what a source knows about how a request ended.
type Ending struct {
	Reason Reason
	// Err is the error that the application reports for Failed, and Stage where the
	// request was, unless the recorder knows it. A source that has found the cause itself
	// leaves Err nil and sets Failure, Abort or Watchdog.
	Err     error
	Stage   semconv.TransportStage
	Failure netcause.Failure
	// Abort is, for Failed, the abort that the error comes from. For EOF it is the one
	// that the server reports as the end of the response. Otherwise it is the one that
	// had happened before; the recorder finds it if the caller's context has it.
	Abort classify.Abort
	// Watchdog is the watchdog by which this side ended the request.
	Watchdog classify.Watchdog
	// Sent reports whether the request left this side, if SentKnown. WrittenAt is when all
	// of it had; zero if it is not known.
	Sent, SentKnown bool
	WrittenAt       time.Time
	// Undelivered says that this side, a proxy, could not pass on to its client all of what it read last.
	Undelivered bool
	// Serving says that this side serves the request, so it does not wait for a response.
	Serving bool
	// Unanswered is set by the recorder if no response has begun. A response over HTTP that
	// has begun may have the status 0.
	Unanswered bool
	// Refusal is the error with which a server refused to begin the response of a session.
	Refusal *wire.Error
	// Served is set where a gateway's handler has returned.
	Served *Served
}

// outcome is how a request ended.
type outcome struct {
	end       semconv.StreamEnd
	phase     semconv.Phase
	transport classify.Transport
	abort     classify.Abort
	watchdog  classify.Watchdog
	chain     []string
	due       bool // a finish reason was due and never came
}

// decide decides, with mu held, how the request ended.
func (r *Recorder) decide(e *Ending, now time.Time) outcome {
	r.times.requestWritten(e.WrittenAt)
	if e.Served != nil {
		return r.decideServed(e, now)
	}
	if e.Refusal != nil {
		applyError(&r.facts, r.asked(), 0, e.Refusal)
		r.facts.Provider.InBand = true
		return outcome{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseAwaitingResponse, due: true}
	}
	if e.Err != nil {
		r.explain(e, now)
	}
	if (e.Reason == Closed || e.Reason == Dropped) && !e.aborted() {
		e.Abort = abort.Of(r.ctx, now)
	}
	if e.Unanswered {
		if e.Serving {
			return e.ofUnread()
		}
		return e.noResponse()
	}
	if r.endOfBody(e.Reason == EOF, e.Failure.Cause == semconv.TransportCauseBodyTruncated) {
		e.cutWithinEncoding()
	}
	if st := r.response.state; e.Undelivered && st != nil && st.Err == nil && st.Complete && !r.response.wholeBefore {
		// What the client got of it is not known: all of it counts, but for its end.
		return outcome{end: semconv.StreamEndCancelled, phase: contentPhase(st), abort: e.Abort}
	}
	return e.ofResponse(r.facts.Status, r.response.unexpected, r.response.foreign, r.response.state)
}

// contentPhase returns how far a response is without its end.
func contentPhase(st *wire.State) semconv.Phase {
	switch {
	case st.ToolCalls > 0 || st.ToolInputsCompleted > 0:
		return semconv.PhaseToolCallReady
	case st.ToolInputsStarted > 0:
		return semconv.PhaseToolInput
	case st.TextChunks > 0:
		return semconv.PhaseText
	case st.ReasoningChunks > 0:
		return semconv.PhaseReasoning
	default:
		return semconv.PhaseResponseStarted
	}
}

// cutWithinEncoding makes of a clean end what it is to a reader that undoes the encoding of the
// body, the end of which is missing.
func (e *Ending) cutWithinEncoding() {
	e.Reason, e.Failure = Failed, netcause.Of(io.ErrUnexpectedEOF, semconv.TransportStageBody)
}

// stage returns, with mu held, where the request was.
func (r *Recorder) stage(e *Ending) semconv.TransportStage {
	switch {
	case e.Stage != semconv.TransportStageUnset:
		return e.Stage
	case r.response.state != nil:
		return semconv.TransportStageBody
	case e.Sent:
		return semconv.TransportStageHeaders
	default:
		return semconv.TransportStageUnset
	}
}

// explain finds the cause of e.Err, with mu held.
func (r *Recorder) explain(e *Ending, now time.Time) {
	if d, ok := abort.InError(e.Err); ok {
		e.Abort = d.Abort
		return
	}
	by, cancelled := r.CancelledBy(e.Err, now)
	switch {
	case cancelled:
		e.Abort = by
	case netcause.Holds(e.Err, context.DeadlineExceeded):
		// The error of a context that the caller's may not know: no net/http, whose timeouts claim
		// to be deadlines, stands between the application and its contexts.
		e.Abort = classify.Abort{Source: semconv.AbortSourceDeadline}
	default:
		e.Failure = netcause.Of(e.Err, r.stage(e))
	}
}

// ofResponse decides how a request ended whose response had begun. What began first is the
// cause: what the stream itself said comes before how the reading of it stopped, and a
// violation of the protocol comes before the close by which a consumer answers it. A
// violation that the answer outlived to its complete end does not count, unless a part of the
// answer is missing because of it.
//
// Status is the HTTP status or 0; unexpected says that it is no error and no answer
// either; foreign says that the request was no model call. State is what the body said,
// nil if it could not be read.
func (e *Ending) ofResponse(status int, unexpected, foreign bool, st *wire.State) outcome {
	switch {
	case foreign: // nothing is said of its end
		return outcome{phase: semconv.PhaseUnknown}
	case status >= 400, unexpected:
		return outcome{end: semconv.StreamEndHTTPError, phase: semconv.PhaseResponseStarted}
	case st == nil:
		return e.ofUnread()
	case st.Err != nil:
		return outcome{end: semconv.StreamEndTerminalEvent, phase: st.Phase, due: true}
	case e.Reason == EOF && e.aborted() && st.Terminal && !st.Complete:
		return outcome{end: semconv.StreamEndCancelled, phase: st.Phase, abort: e.Abort}
	case st.Complete && (st.Terminal || e.Reason != Failed || e.aborted() || e.timedOut()):
		// The answer is whole. Without the terminal event it is so when this side
		// closed the stream, or when the stream ended cleanly.
		o := outcome{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}
		if st.Broken {
			o.transport = inBody(semconv.TransportCauseMalformedEvent)
		}
		return o
	case contentless(status) && empty(st) && !st.Terminal && st.Violation == semconv.TransportCauseUnset:
		return outcome{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd, due: true}
	case st.GaveUp:
		return e.ofUnread()
	case st.Violation != semconv.TransportCauseUnset:
		return outcome{end: e.stoppedReading(), phase: st.Phase, transport: inBody(st.Violation), due: true}
	case st.Terminal && empty(st):
		return outcome{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd, due: true}
	case st.Terminal:
		// The server meant to stop here, but the answer has no end.
		return outcome{end: semconv.StreamEndEOF, phase: st.Phase, transport: inBody(semconv.TransportCauseCleanEOF), due: true}
	}
	end, by := e.stopped()
	o := outcome{end: end, phase: st.Phase, abort: by, due: by == classify.Abort{}}
	switch end {
	case semconv.StreamEndWatchdog:
		o.watchdog, o.transport = e.Watchdog, e.cancelled()
	case semconv.StreamEndEOF:
		o.transport = inBody(semconv.TransportCauseCleanEOF)
	case semconv.StreamEndReadError:
		o.transport, o.chain = transportOf(e.Failure), e.Failure.Chain
	case semconv.StreamEndCancelled:
		o.transport = e.cancelled()
	}
	if st.Complete { // and cut before the terminal event
		o.due = false
	}
	return o
}

// contentless reports whether a response with this status is whole without a body, so that
// its end cannot have come too early.
func contentless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusResetContent
}

// ofUnread decides how a request ended whose response could not be read: a redirect, a
// compressed body, a document that is too long, a decoder that gave up. Whether it was
// whole is not observed, so a clean end or a close says nothing.
func (e *Ending) ofUnread() outcome {
	out := outcome{phase: semconv.PhaseUnknown}
	switch {
	case e.timedOut():
		out.end, out.watchdog, out.transport = semconv.StreamEndWatchdog, e.Watchdog, e.cancelled()
	case e.aborted():
		out.end, out.abort, out.transport = semconv.StreamEndCancelled, e.Abort, e.cancelled()
	case e.Reason == Failed:
		out.end, out.transport, out.chain = semconv.StreamEndReadError, transportOf(e.Failure), e.Failure.Chain
	case e.Reason == Dropped:
		out.end, out.abort = semconv.StreamEndAbandoned, classify.Abort{Source: semconv.AbortSourceConsumer}
	}
	return out
}

// stopped returns how the reading itself stopped, and the abort that stopped it.
func (e *Ending) stopped() (semconv.StreamEnd, classify.Abort) {
	consumer := classify.Abort{Source: semconv.AbortSourceConsumer}
	switch {
	case e.Reason == EOF:
		return semconv.StreamEndEOF, classify.Abort{}
	case e.timedOut():
		return semconv.StreamEndWatchdog, classify.Abort{}
	case e.aborted():
		return semconv.StreamEndCancelled, e.Abort
	case e.Reason == Failed:
		return semconv.StreamEndReadError, classify.Abort{}
	case e.Reason == Dropped:
		return semconv.StreamEndAbandoned, consumer
	default:
		return semconv.StreamEndConsumerClosed, consumer
	}
}

// stoppedReading returns how the reading stopped, without an abort or a watchdog: among
// the facts of a violation they would be taken for its cause, so the end must not point to
// them either.
func (e *Ending) stoppedReading() semconv.StreamEnd {
	without := Ending{Reason: e.Reason}
	end, _ := without.stopped()
	return end
}

// cancelled returns what the transport reported about a cancellation.
func (e *Ending) cancelled() classify.Transport {
	if e.Reason != Failed {
		return classify.Transport{}
	}
	return inBody(semconv.TransportCauseCancelled)
}

func (e *Ending) aborted() bool { return e.Abort.Source != semconv.AbortSourceUnset }

func (e *Ending) timedOut() bool { return e.Watchdog.Kind != semconv.WatchdogKindUnset }

// empty reports whether nothing of an answer came. An answer that was not read in whole,
// or began in another stream, is not empty.
func empty(st *wire.State) bool {
	return !st.Unread && !st.Resumed && st.TextChunks == 0 && st.ReasoningChunks == 0 && st.ToolInputsStarted == 0 && st.ToolCalls == 0 && st.ProviderToolsStarted == 0
}

func inBody(c semconv.TransportCause) classify.Transport {
	return classify.Transport{Stage: semconv.TransportStageBody, Cause: c}
}

func transportOf(f netcause.Failure) classify.Transport {
	return classify.Transport{Stage: f.Stage, Cause: f.Cause, Code: f.Code}
}

// noResponse decides how a request ended that got no response.
func (e *Ending) noResponse() outcome {
	phase := e.sentPhase()
	cancelled := classify.Transport{Stage: e.Failure.Stage, Cause: semconv.TransportCauseCancelled}
	consumer := classify.Abort{Source: semconv.AbortSourceConsumer}
	switch {
	case e.timedOut():
		return outcome{end: semconv.StreamEndWatchdog, phase: phase, transport: cancelled, watchdog: e.Watchdog}
	case e.aborted():
		return outcome{end: semconv.StreamEndCancelled, phase: phase, transport: cancelled, abort: e.Abort}
	case e.Reason == Closed:
		return outcome{end: semconv.StreamEndConsumerClosed, phase: phase, abort: consumer}
	case e.Reason == Dropped:
		return outcome{end: semconv.StreamEndAbandoned, phase: phase, abort: consumer}
	default:
		return outcome{end: semconv.StreamEndNoResponse, phase: phase, transport: transportOf(e.Failure), chain: e.Failure.Chain}
	}
}

// sentPhase returns how far a request came that got no response.
func (e *Ending) sentPhase() semconv.Phase {
	f, known := &e.Failure, e.SentKnown
	switch {
	case f.Cause == semconv.TransportCauseInvalidURL, f.Cause == semconv.TransportCauseTLS && f.Code == classify.CodeCertificate, !known && f.Cause == semconv.TransportCauseInvalidRequest && f.Stage == semconv.TransportStageUnset,
		known && !e.Sent, !known && f.Cause != semconv.TransportCauseUnset && BeforeConnection(f.Stage):
		return semconv.PhaseBeforeConnection
	case known, f.Stage == semconv.TransportStageWrite, f.Stage == semconv.TransportStageHeaders:
		return semconv.PhaseAwaitingResponse
	default:
		return semconv.PhaseUnknown
	}
}

// BeforeConnection reports whether a transport at this stage has no connection yet.
func BeforeConnection(s semconv.TransportStage) bool {
	switch s {
	case semconv.TransportStageDNS, semconv.TransportStageConnect, semconv.TransportStageTLS, semconv.TransportStageProxy:
		return true
	default:
		return false
	}
}

// finishReasons returns the reasons as they are recorded: those that came, and `error` if
// one was due and never came. It is nil if none was due.
func finishReasons(came []string, due bool) []string {
	if len(came) == 0 && !due {
		return nil
	}
	reasons := make([]string, 0, len(came)+1)
	for _, r := range came {
		reasons = append(reasons, classify.SanitizeCode(r))
	}
	if due && !slices.Contains(reasons, finishError) {
		reasons = append(reasons[:min(len(reasons), classify.MaxIDs-1)], finishError)
	}
	return reasons
}

// finishError is what the GenAI conventions put where no finish reason came.
const finishError = "error"

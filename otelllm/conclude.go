package otelllm

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// how says what ended the reading of a response.
type how uint8

const (
	byEOF   how = iota // the body came to its end
	byError            // reading it failed
	byClose            // the consumer closed it
	byDrop             // the consumer lost it without closing it
)

// closing is everything that decides how a response ended.
type closing struct {
	how    how
	status int
	// unexpected: status is no error, and no answer either.
	unexpected bool
	// foreign: the request was no model call. Nothing is said of its end.
	foreign bool
	state   *wire.State      // what the body said; nil if it could not be read
	failure netcause.Failure // of byError
	// abort: byError, the error comes from a cancelled context; otherwise, the
	// context had been cancelled before.
	abort classify.Abort
	// watchdog is the one by which this side ended it.
	watchdog classify.Watchdog
}

// closedBy is the closing of a request that ended on err, of which the application
// tells, and which is not nil. At is where the request was.
func closedBy(ctx context.Context, err error, at semconv.TransportStage, now time.Time) closing {
	c := closing{how: byError}
	if a, ok := typedAbort(err); ok {
		c.abort = a
		return c
	}
	switch {
	case netcause.Cancelled(ctx, err, now):
		c.abort = someAbort(abortOf(ctx, now))
	case netcause.Holds(err, context.DeadlineExceeded):
		// The error of a context that ctx may not know: no net/http, whose timeouts claim
		// to be deadlines, stands between the application and its contexts.
		c.abort = classify.Abort{Source: semconv.AbortSourceDeadline}
	default:
		c.failure = netcause.Of(err, at)
	}
	return c
}

// conclusion is how a response ended.
type conclusion struct {
	end       semconv.StreamEnd
	phase     semconv.Phase
	transport classify.Transport
	abort     classify.Abort
	watchdog  classify.Watchdog
	chain     []string
	due       bool // a finish reason was due and never came
}

// conclude decides how a response ended. What began first is the cause: what the
// stream itself said comes before how the reading of it stopped, and a violation
// comes before the close by which a consumer answers it. A violation that the answer
// outlived to its complete end does not count.
func conclude(c closing) conclusion {
	st := c.state
	switch {
	case c.foreign:
		return conclusion{phase: semconv.PhaseUnknown}
	case c.status >= 400, c.unexpected:
		return conclusion{end: semconv.StreamEndHTTPError, phase: semconv.PhaseResponseStarted}
	case st == nil:
		return c.unread()
	case st.Err != nil:
		return conclusion{end: semconv.StreamEndTerminalEvent, phase: st.Phase, due: true}
	case st.Complete && (st.Terminal || c.how != byError || c.aborted() || c.bitten()):
		// The answer is whole. Without the terminal event it is so when this side
		// let go of the stream, or when the stream ended cleanly.
		return conclusion{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}
	case c.contentless() && empty(st) && !st.Terminal && st.Violation == semconv.TransportCauseUnset:
		return conclusion{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd, due: true}
	case st.GaveUp:
		return c.unread()
	case st.Violation != semconv.TransportCauseUnset:
		return conclusion{end: c.unwilled(), phase: st.Phase, transport: inBody(st.Violation), due: true}
	case st.Terminal && empty(st):
		return conclusion{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd, due: true}
	case st.Terminal:
		// The server meant to stop here, but the answer has no end.
		return conclusion{end: semconv.StreamEndEOF, phase: st.Phase, transport: inBody(semconv.TransportCauseCleanEOF), due: true}
	}
	end, abort := c.stopped()
	out := conclusion{end: end, phase: st.Phase, abort: abort, due: abort == classify.Abort{}}
	switch end {
	case semconv.StreamEndWatchdog:
		out.watchdog, out.transport = c.watchdog, c.cancelled()
	case semconv.StreamEndEOF:
		out.transport = inBody(semconv.TransportCauseCleanEOF)
	case semconv.StreamEndReadError:
		out.transport, out.chain = transportOf(c.failure), c.failure.Chain
	case semconv.StreamEndCancelled:
		out.transport = c.cancelled()
	}
	if st.Complete { // and cut before the terminal event
		out.due = false
	}
	return out
}

// contentless: by its status the response is whole without a body, so that its end
// cannot have come too early.
func (c closing) contentless() bool {
	return c.status == http.StatusNoContent || c.status == http.StatusResetContent
}

// unread concludes a response that could not be read: a redirect, an encoding of
// the content that is not undone, a document that is too long, a decoder that had to
// be given up. Whether it was whole is not observed, so a clean end or a close says
// nothing.
func (c closing) unread() conclusion {
	out := conclusion{phase: semconv.PhaseUnknown}
	switch {
	case c.bitten():
		out.end, out.watchdog, out.transport = semconv.StreamEndWatchdog, c.watchdog, c.cancelled()
	case c.aborted():
		out.end, out.abort, out.transport = semconv.StreamEndCancelled, c.abort, c.cancelled()
	case c.how == byError:
		out.end, out.transport, out.chain = semconv.StreamEndReadError, transportOf(c.failure), c.failure.Chain
	case c.how == byDrop:
		out.end, out.abort = semconv.StreamEndAbandoned, classify.Abort{Source: semconv.AbortSourceConsumer}
	}
	return out
}

// stopped is how the reading itself stopped, and by whose will.
func (c closing) stopped() (semconv.StreamEnd, classify.Abort) {
	consumer := classify.Abort{Source: semconv.AbortSourceConsumer}
	switch {
	case c.how == byEOF:
		return semconv.StreamEndEOF, classify.Abort{}
	case c.bitten():
		return semconv.StreamEndWatchdog, classify.Abort{}
	case c.aborted():
		return semconv.StreamEndCancelled, c.abort
	case c.how == byError:
		return semconv.StreamEndReadError, classify.Abort{}
	case c.how == byDrop:
		return semconv.StreamEndAbandoned, consumer
	default:
		return semconv.StreamEndConsumerClosed, consumer
	}
}

// unwilled is how the reading stopped, whatever stopped it. An abort, or a watchdog,
// among the facts would be taken for the cause: where it is not, the end does not
// point to it either.
func (c closing) unwilled() semconv.StreamEnd {
	c.abort, c.watchdog = classify.Abort{}, classify.Watchdog{}
	end, _ := c.stopped()
	return end
}

// cancelled is what the transport had to say about a cancellation.
func (c closing) cancelled() classify.Transport {
	if c.how != byError {
		return classify.Transport{}
	}
	return inBody(semconv.TransportCauseCancelled)
}

func (c closing) aborted() bool { return c.abort.Source != semconv.AbortSourceUnset }

func (c closing) bitten() bool { return c.watchdog.Kind != semconv.WatchdogKindUnset }

// empty: nothing of an answer came, as far as all of it was read.
func empty(st *wire.State) bool {
	return !st.Unread && st.TextChunks == 0 && st.ReasoningChunks == 0 && st.ToolInputsStarted == 0 && st.ToolCalls == 0 && st.ProviderToolsStarted == 0
}

func inBody(c semconv.TransportCause) classify.Transport {
	return classify.Transport{Stage: semconv.TransportStageBody, Cause: c}
}

func transportOf(f netcause.Failure) classify.Transport {
	return classify.Transport{Stage: f.Stage, Cause: f.Cause, Code: f.Code}
}

// unanswered decides how a request ended that got no response. Abort is set when
// the error comes from a cancelled context, watchdog when it comes from
// one. Sent and known are what the trace saw of the request leaving this side.
func unanswered(f netcause.Failure, abort classify.Abort, watchdog classify.Watchdog, sent, known bool) conclusion {
	out := conclusion{end: semconv.StreamEndNoResponse, phase: semconv.PhaseUnknown, chain: f.Chain}
	switch {
	case f.Cause == semconv.TransportCauseInvalidURL, !known && f.Cause == semconv.TransportCauseInvalidRequest && f.Stage == semconv.TransportStageUnset,
		known && !sent, !known && f.Cause != semconv.TransportCauseUnset && beforeConnection(f.Stage):
		out.phase = semconv.PhaseBeforeConnection
	case known, f.Stage == semconv.TransportStageWrite, f.Stage == semconv.TransportStageHeaders:
		out.phase = semconv.PhaseAwaitingResponse
	}
	if watchdog.Kind != semconv.WatchdogKindUnset {
		out.end, out.watchdog, out.chain = semconv.StreamEndWatchdog, watchdog, nil
		out.transport = classify.Transport{Stage: f.Stage, Cause: semconv.TransportCauseCancelled}
		return out
	}
	if abort.Source != semconv.AbortSourceUnset {
		out.end, out.abort, out.chain = semconv.StreamEndCancelled, abort, nil
		out.transport = classify.Transport{Stage: f.Stage, Cause: semconv.TransportCauseCancelled}
		return out
	}
	out.transport = transportOf(f)
	return out
}

func beforeConnection(s semconv.TransportStage) bool {
	switch s {
	case semconv.TransportStageDNS, semconv.TransportStageConnect, semconv.TransportStageTLS, semconv.TransportStageProxy:
		return true
	default:
		return false
	}
}

// finishReasons are the reasons as they are recorded: those that came, and
// `error` where one was due and never came. Nil: none was due.
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

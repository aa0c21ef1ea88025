package record

import (
	"net/http"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/semconv"
)

// Served is what a gateway knows about a request when its handler has returned.
type Served struct {
	// Aborted is who ended the request before it was answered whole; zero: it was not ended.
	Aborted classify.Abort
	// Responded says that the handler wrote a response, and AfterClient that it did when
	// the client seemed to have gone already.
	Responded, AfterClient bool
	Panicked               bool
	// Upstream holds the facts of the last attempt upstream; nil: none has ended.
	Upstream *spanfacts.Request
}

// decideServed decides, with mu held, how the response of a gateway ended.
//
// An answer that is whole, or an error that was passed on, counts as it is. If it
// is neither, and an upstream failed, that is the cause, whatever the gateway made
// of it: a clean end, a `[DONE]`, a status of its own, a client that went away over it.
func (r *Recorder) decideServed(e *Ending, now time.Time) outcome {
	s, f := e.Served, &r.facts
	by, up := s.Aborted, s.Upstream
	cutShort := s.Panicked || by.Source != semconv.AbortSourceUnset
	if !s.Responded && !cutShort && r.response.protocol != nil {
		// What net/http answers for a handler that wrote nothing.
		r.respond(Headers{Status: http.StatusOK, Header: http.Header{}}, now)
	}
	if r.endOfBody(!cutShort, true) {
		e.cutWithinEncoding()
	}
	st := r.response.state
	ofResponse := func() outcome {
		return e.ofResponse(f.Status, r.response.unexpected, r.response.foreign, st)
	}
	if r.response.foreign {
		return ofResponse()
	}
	upstreamFailed := up != nil && up.Failed == classify.Yes
	// A clean end with nothing before it hides a failure. It is not an answer.
	hides := upstreamFailed && st != nil && empty(st)
	// An answer without content by its status is no end of the gateway's making.
	contentless := up != nil && up.Status == f.Status && contentless(f.Status)
	switch {
	case st != nil && (st.Err != nil || st.Complete && !hides || contentless):
		return ofResponse()
	case upstreamFailed:
		return r.failedUpstream(up, cutShort)
	case up != nil && up.Abort.Source != semconv.AbortSourceUnset && by.Source == semconv.AbortSourceUnset:
		by = up.Abort // the gateway ended it, then
	}
	switch {
	case f.Status >= 400:
	case s.AfterClient && by.Source == semconv.AbortSourceConsumer && st != nil && empty(st):
		// The end that the gateway put there answers nothing.
		return outcome{end: semconv.StreamEndConsumerClosed, phase: semconv.PhaseResponseStarted, abort: by}
	case by.Source != semconv.AbortSourceUnset:
		e.Reason, e.Abort = Closed, by
		if by.Source == semconv.AbortSourceConsumer {
			e.Abort = classify.Abort{} // closing by itself is the consumer's
		}
		if st == nil && f.Status == 0 {
			end, by := e.stopped()
			return outcome{end: end, phase: semconv.PhaseAwaitingResponse, abort: by}
		}
	case s.Panicked:
		e.Reason, e.Failure = Failed, netcause.Failure{Stage: semconv.TransportStageBody, Chain: []string{"panic"}}
	}
	return ofResponse()
}

// failedUpstream decides how a response ended whose upstream failed. The facts of the
// failure become those of the served request.
func (r *Recorder) failedUpstream(up *spanfacts.Request, cutShort bool) outcome {
	f, st := &r.facts, r.response.state
	o := outcome{
		end: semconv.StreamEndEOF, phase: up.Phase, transport: up.Transport,
		abort: up.Abort, watchdog: up.Watchdog, chain: up.ErrorChain, due: true,
	}
	f.Provider, f.RetryAfter = up.Provider, up.RetryAfter
	switch {
	case f.Status == 0 && up.Ended == semconv.StreamEndHTTPError:
		o.end, o.due = semconv.StreamEndNoResponse, false // the status came upstream, not here
	case f.Status >= 400, st == nil && f.Status == 0:
		// The answer is the gateway's own, or there is no answer.
		o.end, o.due = up.Ended, false
	case st != nil:
		o.phase = st.Phase
		switch {
		case st.Terminal:
			o.end = semconv.StreamEndTerminalEvent // and the end alone would not show it
			o.due = !st.Complete
			if empty(st) {
				o.phase = semconv.PhaseStreamEnd
			}
		case cutShort:
			o.end = semconv.StreamEndReadError
		}
	}
	return o
}

package record

import (
	"net/http"
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// This file has the events of responses that do not come over HTTP.

// RequestWritten records that the whole request has been sent.
func (r *Recorder) RequestWritten(now time.Time) {
	r.update(func() {
		r.sent = true
		r.times.requestWritten(now)
	})
}

// ResponseStarted records that the response of an application's own transport has begun.
// Status is an HTTP status, or 0 if the transport has none.
func (r *Recorder) ResponseStarted(status int, now time.Time) {
	r.update(func() {
		r.startManual(now)
		r.facts.Status = status
	})
}

// Step lets step change the response of an application's own transport. The response has
// begun then.
func (r *Recorder) Step(now time.Time, step func(*wire.Manual)) {
	r.update(func() {
		r.startManual(now)
		before := r.response.state.Events
		step(r.response.manual)
		r.progress(before, now)
	})
}

// startManual begins, with mu held, the response of an application's own transport.
func (r *Recorder) startManual(now time.Time) {
	if r.response.manual != nil {
		return
	}
	r.response.manual = wire.NewManual()
	r.response.state = r.response.manual.State()
	r.responseStarted(now)
}

// ProviderError records an error that the provider reported over an application's own
// transport.
func (r *Recorder) ProviderError(e wire.Error, now time.Time) {
	e.RetryAfter = min(max(e.RetryAfter, 0), httpcall.MaxRetryAfter)
	r.update(func() {
		if r.response.state == nil && e.Status >= http.StatusBadRequest {
			r.facts.Status = e.Status
			r.facts.TimeToHeaders = now.Sub(r.start)
			applyError(&r.facts, r.asked(), e.Status, &e)
			return
		}
		r.startManual(now)
		r.response.manual.Fail(e)
	})
}

// Follow takes what a session's response has said by now, and the model of the session if
// it is known. State belongs to the session, which goes on writing it.
func (r *Recorder) Follow(state *wire.State, model string, now time.Time) {
	r.update(func() {
		if r.identity.Model == "" && model != "" { // the request was sent before the session named it
			r.identity.Model, r.identityChanged = model, true
		}
		before := 0
		if r.response.state == nil {
			r.responseStarted(now)
		} else {
			before = r.response.state.Events
		}
		copied := *state
		copied.Calls = slices.Clone(state.Calls)
		r.response.state = &copied
		r.progress(before, now)
	})
}

// Continue takes a response that comes message by message, and of which decoder has read so
// many bytes by now. The first message came at began. The recorder owns the decoder from
// then on.
func (r *Recorder) Continue(decoder wire.Decoder, bytes int64, began, now time.Time) {
	r.update(func() {
		r.response.decoder, r.response.state = decoder, decoder.State()
		r.facts.Streams, r.facts.Bytes = true, max(0, r.facts.Bytes)+bytes
		r.responseStarted(began)
		r.progress(0, now)
	})
}

// Receive takes a message of a response that comes message by message.
func (r *Recorder) Receive(message []byte, now time.Time) {
	r.update(func() {
		if r.response.decoder == nil {
			if r.response.state != nil { // the decoder gave up
				return
			}
			r.response.decoder = wire.NewResponsesMessages()
			r.response.state = r.response.decoder.State()
			r.facts.Streams = true
			r.responseStarted(now)
		}
		r.read(message, now)
	})
}

// Adopt takes what the body of the request says, which the source learned after the
// request had begun. Change may then change the facts.
func (r *Recorder) Adopt(c *httpcall.Contents, change func(f *spanfacts.Request)) {
	r.update(func() {
		FillFacts(&r.facts, c)
		FillIdentity(&r.identity, c)
		r.identityChanged = true
		change(&r.facts)
	})
}

// Calls returns the calls of the response so far that are ready to be executed. It reports
// false if there may be more, or if the request is over.
func (r *Recorder) Calls() (ids []string, known bool) {
	r.update(func() {
		st := r.response.state
		if st == nil || st.Unread || st.ToolCalls > len(st.Calls) {
			return
		}
		known = true
		for i := range st.Calls {
			if call := &st.Calls[i]; call.Ready {
				ids = append(ids, call.ID)
				known = known && call.ID != ""
			}
		}
	})
	return ids, known
}

// RemoveHistoryOutput removes a tool output from the request's history: the server refused
// it.
func (r *Recorder) RemoveHistoryOutput(callID string) {
	r.update(func() {
		// Copies of the facts share the list.
		r.facts.HistoryOutputs = slices.DeleteFunc(slices.Clone(r.facts.HistoryOutputs), func(id string) bool { return id == callID })
	})
}

// update calls f with mu held, unless the request is over.
func (r *Recorder) update(f func()) {
	defer r.Recover()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.Over() {
		f()
	}
}

package otelllm

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// maxAsked bounds the responses that have been asked for and have not begun.
const maxAsked = 8

// Realtime observes one session of the OpenAI Realtime API, over any WebSocket
// library: the application reports every text frame. Each response becomes a request span
// under the run of the session's context, from the response.create that asked for
// it (or from its beginning, where the server began it by itself) to its
// response.done. A function call's output that is sent is delivered: its tool,
// if [StartTool] was given the call's id, needs no [Tool.RecordOutputSent]. Where the server
// refuses it, with an error that names its event_id, the delivery has failed.
//
// It is safe for concurrent use, and a nil *Realtime does nothing. One that is lost
// without [Realtime.Close] ends its responses when it is garbage collected, as
// abandoned.
type Realtime struct {
	session *session
	cleanup runtime.Cleanup
}

// session is what is known of a Realtime. It never refers to it.
type session struct {
	ctx    context.Context
	config config

	mu sync.Mutex
	// Everything below is guarded by mu.
	wire  *wire.Realtime
	asked []*response               // asked for and not begun, the oldest first
	open  map[*wire.State]*response // begun and not done
	// What the conversation holds: the session began it, so all of it was seen, until
	// something was taken out of it.
	calls, outputs []string
	changed        bool
	refusable      []sentOutput // by the server, of the last 64 that were sent
	// closed: no response begins any more, since nothing would end it.
	closed bool
}

// response is one response of a session.
type response struct {
	record

	eventID string // of the response.create that asked for it
	unasked bool   // it began before anybody told that it had been asked for
}

// sentOutput is the output of a tool that was sent with an id by which the server
// may refuse it.
type sentOutput struct {
	eventID, callID string
	at              time.Time
}

// NewRealtime begins to observe a session. Ctx is the session's own: aborts are
// read off it. Of opts, [WithWatchdog], [WithStreamErrors] and [WithPropagators]
// do not apply; the provider is "openai" unless [WithProvider] names another.
func NewRealtime(ctx context.Context, opts ...Option) *Realtime {
	s := &session{
		ctx: ctx, config: newConfig(opts), wire: wire.NewRealtime(), open: map[*wire.State]*response{},
		calls: []string{}, outputs: []string{},
	}
	if s.config.providerName == "" {
		s.config.providerName = otelsemconv.GenAIProviderNameOpenAI.Value.AsString()
	}
	t := &Realtime{session: s}
	t.cleanup = runtime.AddCleanup(t, (*session).abandoned, s)
	return t
}

// RecordReceived records a text frame from the server, when it has been read. Nothing of
// it is kept.
func (t *Realtime) RecordReceived(frame []byte) {
	if t == nil {
		return
	}
	t.session.do(func(s *session, now time.Time) []func() { return s.received(s.counted(s.wire.Received(frame)), now) })
	runtime.KeepAlive(t)
}

// RecordSent records a text frame that has been written to the server. Its content is not
// kept.
func (t *Realtime) RecordSent(frame []byte) {
	if t == nil {
		return
	}
	t.session.do(func(s *session, now time.Time) []func() { return s.sent(s.counted(s.wire.Sent(frame)), now) })
	runtime.KeepAlive(t)
}

// RecordSendFailure records a text frame that could not be written. The output of a tool
// that it held has not reached the model, a response that it asked for never began.
func (t *Realtime) RecordSendFailure(frame []byte, err error) {
	if t == nil {
		return
	}
	t.session.do(func(s *session, now time.Time) []func() { return s.unsent(s.counted(s.wire.Sent(frame)), err, now) })
	runtime.KeepAlive(t)
}

// Close ends the observation, with the error that the session ended on, or nil
// where this side closed it. A response that is still open has been cut: err says
// by what, as for [Request.End]; a WebSocket library's CloseError is known too.
// Calls after the first find nothing open.
//
// A goroutine that writes may report its frames after one that reads has closed:
// they begin no response, and what they say of a tool's output is recorded as ever.
func (t *Realtime) Close(err error) {
	if t == nil {
		return
	}
	t.cleanup.Stop()
	t.session.close(err)
	runtime.KeepAlive(t)
}

// do lets f look at a frame. What it returns is done when mu is free again: the end
// of a response is told to its run.
func (s *session) do(f func(*session, time.Time) []func()) {
	defer contained()
	now := time.Now()
	s.mu.Lock()
	after := func() []func() {
		defer s.mu.Unlock()
		return f(s, now)
	}()
	for _, f := range after {
		quietly(f)
	}
}

// counted is f, or nothing where f would begin a response after the end.
func (s *session) counted(f wire.Frame) wire.Frame {
	if s.closed && (f.Kind == wire.FrameAsked || f.Kind == wire.FrameBegan) {
		return wire.Frame{}
	}
	return f
}

func (s *session) received(f wire.Frame, now time.Time) []func() {
	switch f.Kind {
	case wire.FrameBegan:
		after := s.makeRoom(now)
		r := s.oldestAsked()
		if r == nil {
			r = s.begin(f.ProviderTools, now)
			r.unasked = true
		} else {
			after = append(after, s.accepted(r)...)
		}
		s.open[f.State] = r
		r.follow(f.State, s.wire.Model(), now)
		return after
	case wire.FrameProgress:
		if r := s.open[f.State]; r != nil {
			r.follow(f.State, s.wire.Model(), now)
		}
	case wire.FrameDone:
		r := s.open[f.State]
		if r == nil {
			return nil
		}
		delete(s.open, f.State)
		for i := range f.State.Calls {
			if c := &f.State.Calls[i]; c.Ready && c.ID != "" {
				s.calls = remember(s.calls, c.ID)
			}
		}
		r.follow(f.State, s.wire.Model(), now)
		return r.done(closing{how: byEOF, abort: s.cancelled(&f, now)}, now)
	case wire.FrameError:
		return s.refused(&f, now)
	case wire.FrameHistoryChanged:
		s.changed = true
	}
	return nil
}

// refused takes an error. Most leave the session as it was: it is about a response,
// or a tool's output, only where it names the event that asked for it, or that held it.
func (s *session) refused(f *wire.Frame, now time.Time) []func() {
	if f.EventID == "" {
		return nil
	}
	if i := slices.IndexFunc(s.asked, func(r *response) bool { return r.eventID == f.EventID }); i >= 0 {
		r := s.asked[i]
		s.asked = slices.Delete(s.asked, i, i+1)
		return r.refused(f.Err, now)
	}
	if i := slices.IndexFunc(s.refusable, func(o sentOutput) bool { return o.eventID == f.EventID }); i >= 0 {
		id := s.refusable[i].callID
		s.refusable = slices.Delete(s.refusable, i, i+1)
		s.outputRefused(id)
	}
	return nil
}

// outputRefused: the conversation does not hold this output of a call. It may hold
// another one.
func (s *session) outputRefused(callID string) {
	if i := slices.Index(s.outputs, callID); i >= 0 {
		s.outputs = slices.Delete(s.outputs, i, i+1)
	}
	if slices.Contains(s.outputs, callID) {
		return
	}
	for _, r := range s.asked {
		r.lacks(callID)
	}
	for _, r := range s.open {
		r.lacks(callID)
	}
	runOf(s.ctx).toolOf(callID).outputRefused()
}

// accepted: r has begun, and was asked for by an event of the client's. A server takes
// those in their order, so it refuses no output any more that was sent before.
func (s *session) accepted(r *response) (after []func()) {
	s.refusable = slices.DeleteFunc(s.refusable, func(o sentOutput) bool {
		if o.at.After(r.start) {
			return false
		}
		after = append(after, runOf(s.ctx).toolOf(o.callID).outputAccepted)
		return true
	})
	return after
}

func (s *session) sent(f wire.Frame, now time.Time) []func() {
	switch f.Kind {
	case wire.FrameAsked:
		// Where one goroutine writes and another reads, a response may be reported before
		// what asked for it. A server refuses to begin a second one beside it.
		for _, r := range s.open {
			if r.unasked {
				r.unasked, r.eventID = false, f.EventID
				return s.accepted(r)
			}
		}
		r := s.begin(f.ProviderTools, now)
		r.eventID = f.EventID
		r.mu.Lock()
		r.times.requestWritten(now)
		r.mu.Unlock()
		s.asked = append(s.asked, r)
		if len(s.asked) > maxAsked { // no answers come
			lost := s.asked[0]
			s.asked = slices.Delete(s.asked, 0, 1)
			return lost.done(closing{how: byEOF}, now)
		}
	case wire.FrameOutputSent:
		s.outputs = remember(s.outputs, f.CallID)
		tool := runOf(s.ctx).toolOf(f.CallID)
		if f.EventID == "" { // nothing could name it
			return []func(){tool.RecordOutputSent}
		}
		s.refusable = remember(s.refusable, sentOutput{f.EventID, f.CallID, now})
		tool.outputWritten() // now, before the refusal is read: no span leaves by it
	case wire.FrameHistoryChanged:
		s.changed = true
	}
	return nil
}

func (s *session) unsent(f wire.Frame, err error, now time.Time) []func() {
	switch f.Kind {
	case wire.FrameAsked:
		r := s.begin(f.ProviderTools, now)
		return r.broken(err, semconv.TransportStageWrite, now)
	case wire.FrameOutputSent:
		tool := runOf(s.ctx).toolOf(f.CallID)
		return []func(){func() { tool.RecordOutputFailure(err) }}
	}
	return nil
}

func (s *session) close(err error) {
	s.endAll(func(r *response, at semconv.TransportStage, now time.Time) []func() {
		if err == nil {
			return r.done(closing{how: byClose, abort: abortOf(s.ctx, now)}, now)
		}
		return r.broken(err, at, now)
	})
}

func (s *session) abandoned() {
	s.endAll(func(r *response, _ semconv.TransportStage, now time.Time) []func() {
		return r.done(closing{how: byDrop, abort: abortOf(s.ctx, now)}, now)
	})
}

// endAll ends every response that has not ended, and lets none begin.
func (s *session) endAll(end func(r *response, at semconv.TransportStage, now time.Time) []func()) {
	s.do(func(s *session, now time.Time) (after []func()) {
		s.closed = true
		for _, r := range s.asked {
			after = append(after, end(r, semconv.TransportStageHeaders, now)...)
		}
		for _, r := range s.open {
			after = append(after, end(r, semconv.TransportStageBody, now)...)
		}
		s.asked = nil
		clear(s.open)
		return after
	})
}

// cancelled says by whose will a response ended; the zero value: it came to its end.
func (s *session) cancelled(f *wire.Frame, now time.Time) classify.Abort {
	switch {
	case !f.Cancelled:
		return classify.Abort{}
	case f.CancelReason == wire.CancelTurnDetected: // a person began to speak
		return classify.Abort{Source: AbortUser, Reason: f.CancelReason}
	}
	if a := abortOf(s.ctx, now); a.Source != semconv.AbortSourceUnset {
		return a
	}
	return classify.Abort{Source: AbortApplication, Reason: classify.SanitizeCode(f.CancelReason)}
}

// makeRoom ends the oldest open response where there are as many as the reader
// follows: no frame will report it any more.
func (s *session) makeRoom(now time.Time) []func() {
	if len(s.open) < wire.MaxOpenResponses {
		return nil
	}
	var oldest *wire.State
	for st, r := range s.open {
		if oldest == nil || r.start.Before(s.open[oldest].start) {
			oldest = st
		}
	}
	r := s.open[oldest]
	delete(s.open, oldest)
	return r.done(closing{how: byDrop, abort: abortOf(s.ctx, now)}, now)
}

func (s *session) oldestAsked() *response {
	if len(s.asked) == 0 {
		return nil
	}
	r := s.asked[0]
	s.asked = slices.Delete(s.asked, 0, 1)
	return r
}

// begin starts the span of a response, with the session's mu held.
func (s *session) begin(providerTools []string, now time.Time) *response {
	id := spanfacts.Identity{
		Operation: otelsemconv.GenAIOperationNameChat.Value.AsString(),
		Provider:  s.config.providerName,
		Model:     s.wire.Model(),
		Stream:    classify.Yes,
	}
	runOf(s.ctx).identify(&id)
	_, span := started(s.ctx, func() (context.Context, trace.Span) {
		return startSpan(s.ctx, tracerOf(s.ctx, s.config.provider), clientKind, &id, now)
	})
	r := &response{}
	r.initQuietly(s.ctx, &s.config, span, &id, now)
	r.facts.Bytes, r.facts.Streams, r.facts.ProviderTools = -1, true, providerTools
	if !s.changed {
		r.facts.HistoryCalls, r.facts.HistoryOutputs = slices.Clone(s.calls), slices.Clone(s.outputs)
	}
	r.begun(r)
	return r
}

// shutdown ends the recording because the process is going down.
func (r *response) shutdown() {
	for _, f := range r.done(closing{how: byClose, abort: classify.Abort{Source: AbortShutdown}}, time.Now()) {
		f()
	}
}

// remember appends to a list of the last 64.
func remember[T any](list []T, last T) []T {
	if len(list) == classify.MaxIDs {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, last)
}

// lacks: the history of the response does not hold the output of this call. Copies of
// the facts share the list.
func (r *response) lacks(callID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over.Load() {
		r.facts.HistoryOutputs = slices.DeleteFunc(slices.Clone(r.facts.HistoryOutputs), func(id string) bool { return id == callID })
	}
}

// follow takes what the response has said by now. The session's reader goes on
// writing its own state, so this is a copy.
func (r *response) follow(st *wire.State, model string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over.Load() {
		return
	}
	if r.identity.Model == "" && model != "" { // asked for before the session said it
		r.identity.Model, r.untold = model, true
	}
	before := 0
	if r.state == nil {
		r.headersCame(now)
	} else {
		before = r.state.Events
	}
	state := *st
	state.Calls = slices.Clone(st.Calls)
	r.state = &state
	r.progress(before, now)
}

// done makes the facts final, as c says, and returns what ends the span; nil: it
// has ended already.
func (r *response) done(c closing, now time.Time) []func() {
	if !r.finish(func() { r.settle(r.conclusion(c), now) }) {
		return nil
	}
	return []func(){func() { r.end(now) }}
}

// conclusion decides, with mu held, how the response ended.
func (r *response) conclusion(c closing) conclusion {
	c.status, c.state = r.facts.Status, r.state
	switch {
	case r.state == nil && c.how == byDrop && !c.aborted():
		return conclusion{end: semconv.StreamEndAbandoned, phase: semconv.PhaseAwaitingResponse, abort: classify.Abort{Source: semconv.AbortSourceConsumer}}
	case r.state == nil && c.how == byClose && !c.aborted():
		return conclusion{end: semconv.StreamEndConsumerClosed, phase: semconv.PhaseAwaitingResponse, abort: classify.Abort{Source: semconv.AbortSourceConsumer}}
	case r.state == nil:
		return unanswered(c.failure, c.abort, classify.Watchdog{}, true, true)
	case c.aborted() && r.state.Terminal && !r.state.Complete && r.state.Err == nil: // response.done says that it was cancelled
		return conclusion{end: semconv.StreamEndCancelled, phase: r.state.Phase, abort: c.abort}
	}
	return conclude(c)
}

// broken ends the response because the session failed with err. At is where the
// session was.
func (r *response) broken(err error, at semconv.TransportStage, now time.Time) []func() {
	return r.done(closedBy(r.ctx, err, at, now), now)
}

// refused ends a response that the server would not begin.
func (r *response) refused(e *wire.Error, now time.Time) []func() {
	if !r.finish(func() {
		applyError(&r.facts, 0, e)
		r.facts.Provider.InBand = true
		r.settle(conclusion{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseAwaitingResponse, due: true}, now)
	}) {
		return nil
	}
	return []func(){func() { r.end(now) }}
}

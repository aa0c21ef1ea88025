package otelllm

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/abort"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// maxAsked bounds the responses that have been requested and have not begun.
const maxAsked = 8

// Realtime observes one session of the OpenAI Realtime API over any WebSocket library. The
// application reports every text frame. Each response becomes the span of a request in the
// run of the session's context. The span lasts from the response.create that requested the
// response, or from its beginning if the server began it on its own, to its response.done.
//
// A function call's output that is sent counts as delivered. Its tool needs no
// [Tool.RecordOutputSent], if [StartTool] was given the call's id. If the server refuses
// the output, with an error that names its event_id, the delivery has failed.
//
// It is safe for concurrent use, and a nil *Realtime does nothing. A Realtime that is
// garbage collected before [Realtime.Close] ends its responses as abandoned.
type Realtime struct {
	session *session
	cleanup runtime.Cleanup
}

// session is the state of a Realtime. It never refers to the Realtime.
type session struct {
	ctx            context.Context
	tracerProvider trace.TracerProvider
	recorder       record.Config
	provider       string // gen_ai.provider.name

	mu sync.Mutex
	// Everything below is guarded by mu.
	wire  *wire.Realtime
	asked []*response               // requested and not begun, the oldest first
	open  map[*wire.State]*response // begun and not done
	// The ids in the conversation. The session began the conversation, so it has seen all
	// of it, until something is removed.
	calls, outputs []string
	changed        bool         // something was removed, or changed otherwise
	refusable      []sentOutput // those of the last 64 that the server may still refuse
	closed         bool         // no response may begin, since nothing would end it
}

// response is one response of a session.
type response struct {
	rec     record.Recorder
	eventID string // of the response.create that asked for it
	unasked bool   // it began before the request for it was reported
}

// Complete implements [record.Source]. A response exists once its request was sent.
func (*response) Complete(e *record.Ending, _ *spanfacts.Request) { e.Sent, e.SentKnown = true, true }

// Settled implements [record.Source].
func (*response) Settled(*spanfacts.Request) {}

// sentOutput is the output of a tool that was sent with an id by which the server
// may refuse it.
type sentOutput struct {
	eventID, callID string
	at              time.Time
}

// NewRealtime starts to observe a session. Ctx is the session's own; it says who ended the
// session. The provider is "openai" unless [WithProviderName] names another.
func NewRealtime(ctx context.Context, opts ...RequestOption) *Realtime {
	return global.NewRealtime(ctx, opts...)
}

// NewRealtime is [NewRealtime] with the options of i.
func (i *Instrumentation) NewRealtime(ctx context.Context, opts ...RequestOption) *Realtime {
	c := configure(i, opts, RequestOption.applyRequest)
	s := &session{
		ctx: ctx, tracerProvider: c.tracerProvider, recorder: c.recorder(i),
		provider: cmp.Or(c.recogniser.Provider, otelsemconv.GenAIProviderNameOpenAI.Value.AsString()),
		wire:     wire.NewRealtime(), open: map[*wire.State]*response{},
		calls: []string{}, outputs: []string{},
	}
	t := &Realtime{session: s}
	t.cleanup = runtime.AddCleanup(t, (*session).abandoned, s)
	return t
}

// RecordReceived records a text frame that was read from the server. No content is kept.
func (t *Realtime) RecordReceived(frame []byte) {
	if t == nil {
		return
	}
	t.session.do(func(s *session, now time.Time) []func() { return s.received(s.counted(s.wire.Received(frame)), now) })
	runtime.KeepAlive(t)
}

// RecordSent records a text frame that was written to the server. No content is kept.
func (t *Realtime) RecordSent(frame []byte) {
	if t == nil {
		return
	}
	t.session.do(func(s *session, now time.Time) []func() { return s.sent(s.counted(s.wire.Sent(frame)), now) })
	runtime.KeepAlive(t)
}

// RecordSendFailure records a text frame that could not be written. A tool output in it
// has not reached the model, and a response that it requested never began.
func (t *Realtime) RecordSendFailure(frame []byte, err error) {
	if t == nil {
		return
	}
	t.session.do(func(s *session, now time.Time) []func() { return s.unsent(s.counted(s.wire.Sent(frame)), err, now) })
	runtime.KeepAlive(t)
}

// Close ends the observation with the error that the session ended on, or nil if this side
// closed it. Responses that are still open were cut. The error says why, as for
// [Request.End]; the CloseError of common WebSocket libraries is recognised too. Calls
// after the first have no effect.
//
// Frames may still be reported after Close, by a goroutine that writes while another has
// read the end. They begin no response, but what they say about a tool's output is
// recorded.
func (t *Realtime) Close(err error) {
	if t == nil {
		return
	}
	t.cleanup.Stop()
	t.session.close(err)
	runtime.KeepAlive(t)
}

// do lets f look at a frame. The functions that f returns are called when mu is free
// again: they write spans and update the run.
func (s *session) do(f func(*session, time.Time) []func()) {
	defer telemetry.Recover()
	now := time.Now()
	s.mu.Lock()
	after := func() []func() {
		defer s.mu.Unlock()
		return f(s, now)
	}()
	for _, f := range after {
		telemetry.Guard(f)
	}
}

// counted returns f, or an empty frame if f would begin a response after the end.
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
		r.rec.Follow(f.State, s.wire.Model(), now)
		return after
	case wire.FrameProgress:
		if r := s.open[f.State]; r != nil {
			r.rec.Follow(f.State, s.wire.Model(), now)
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
		r.rec.Follow(f.State, s.wire.Model(), now)
		return r.end(record.Ending{Reason: record.EOF, Abort: s.cancelled(&f, now)}, now)
	case wire.FrameError:
		return s.refused(&f, now)
	case wire.FrameHistoryChanged:
		s.changed = true
	}
	return nil
}

// refused takes an error of the server. It concerns a response, or a tool's output, only if
// it names the event that requested the one or carried the other. Most errors do not.
func (s *session) refused(f *wire.Frame, now time.Time) []func() {
	if f.EventID == "" {
		return nil
	}
	if i := slices.IndexFunc(s.asked, func(r *response) bool { return r.eventID == f.EventID }); i >= 0 {
		r := s.asked[i]
		s.asked = slices.Delete(s.asked, i, i+1)
		return r.end(record.Ending{Reason: record.EOF, Refusal: f.Err}, now)
	}
	if i := slices.IndexFunc(s.refusable, func(o sentOutput) bool { return o.eventID == f.EventID }); i >= 0 {
		id := s.refusable[i].callID
		s.refusable = slices.Delete(s.refusable, i, i+1)
		s.outputRefused(id)
	}
	return nil
}

// outputRefused removes an output of a call from the conversation, which may hold another
// output of the same call.
func (s *session) outputRefused(callID string) {
	if i := slices.Index(s.outputs, callID); i >= 0 {
		s.outputs = slices.Delete(s.outputs, i, i+1)
	}
	if slices.Contains(s.outputs, callID) {
		return
	}
	for _, r := range s.asked {
		r.rec.RemoveHistoryOutput(callID)
	}
	for _, r := range s.open {
		r.rec.RemoveHistoryOutput(callID)
	}
	agentrun.Of(s.ctx).ToolOf(callID).OutputRefused(outputRefused{})
}

// accepted takes that r has begun, which an event of the client requested. A server handles
// events in order, so it cannot refuse any more what was sent before that event.
func (s *session) accepted(r *response) (after []func()) {
	s.refusable = slices.DeleteFunc(s.refusable, func(o sentOutput) bool {
		if o.at.After(r.rec.Start()) {
			return false
		}
		after = append(after, agentrun.Of(s.ctx).ToolOf(o.callID).OutputAccepted)
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
		r.rec.RequestWritten(now)
		s.asked = append(s.asked, r)
		if len(s.asked) > maxAsked { // no answers come
			lost := s.asked[0]
			s.asked = slices.Delete(s.asked, 0, 1)
			return lost.end(record.Ending{Reason: record.EOF}, now)
		}
	case wire.FrameOutputSent:
		s.outputs = remember(s.outputs, f.CallID)
		tool := agentrun.Of(s.ctx).ToolOf(f.CallID)
		if f.EventID == "" { // nothing could name it
			return []func(){tool.RecordOutputSent}
		}
		s.refusable = remember(s.refusable, sentOutput{f.EventID, f.CallID, now})
		tool.OutputWritten() // now, before the refusal is read: no span leaves by it
	case wire.FrameHistoryChanged:
		s.changed = true
	}
	return nil
}

func (s *session) unsent(f wire.Frame, err error, now time.Time) []func() {
	switch f.Kind {
	case wire.FrameAsked:
		r := s.begin(f.ProviderTools, now)
		return r.end(record.Ending{Reason: record.Failed, Err: err, Stage: semconv.TransportStageWrite}, now)
	case wire.FrameOutputSent:
		tool := agentrun.Of(s.ctx).ToolOf(f.CallID)
		return []func(){func() { tool.RecordOutputFailure(err) }}
	}
	return nil
}

func (s *session) close(err error) {
	if err == nil {
		s.endAll(record.Ending{Reason: record.Closed})
		return
	}
	s.endAll(record.Ending{Reason: record.Failed, Err: err})
}

func (s *session) abandoned() { s.endAll(record.Ending{Reason: record.Dropped}) }

// endAll ends every response that has not ended, and lets none begin.
func (s *session) endAll(e record.Ending) {
	s.do(func(s *session, now time.Time) (after []func()) {
		s.closed = true
		for _, r := range s.asked {
			after = append(after, r.end(e, now)...)
		}
		for _, r := range s.open {
			after = append(after, r.end(e, now)...)
		}
		s.asked = nil
		clear(s.open)
		return after
	})
}

// cancelled returns who cancelled a response. It is the zero value if the response came to
// its end.
func (s *session) cancelled(f *wire.Frame, now time.Time) classify.Abort {
	switch {
	case !f.Cancelled:
		return classify.Abort{}
	case f.CancelReason == wire.CancelTurnDetected: // a person began to speak
		return classify.Abort{Source: AbortUser, Reason: f.CancelReason}
	}
	if a := abort.Of(s.ctx, now); a.Source != semconv.AbortSourceUnset {
		return a
	}
	return classify.Abort{Source: AbortApplication, Reason: classify.SanitizeCode(f.CancelReason)}
}

// makeRoom ends the oldest open response if the reader follows no more: no later frame is
// matched to it.
func (s *session) makeRoom(now time.Time) []func() {
	if len(s.open) < wire.MaxOpenResponses {
		return nil
	}
	var oldest *wire.State
	for st, r := range s.open {
		if oldest == nil || r.rec.Start().Before(s.open[oldest].rec.Start()) {
			oldest = st
		}
	}
	r := s.open[oldest]
	delete(s.open, oldest)
	return r.end(record.Ending{Reason: record.Dropped}, now)
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
		Provider:  s.provider,
		Model:     s.wire.Model(),
		Stream:    classify.Yes,
	}
	agentrun.Of(s.ctx).Identify(&id)
	_, span := record.StartSpan(s.ctx, s.tracerProvider, record.ClientKind, &id, now)
	r := &response{}
	r.rec.Init(s.ctx, &s.recorder, span, &id, now)
	f := r.rec.Facts()
	f.Bytes, f.Streams, f.ProviderTools = -1, true, providerTools
	if !s.changed {
		f.HistoryCalls, f.HistoryOutputs = slices.Clone(s.calls), slices.Clone(s.outputs)
	}
	r.rec.Begin(r)
	return r
}

// end ends the response. It returns what writes the span, to be called when the session's
// mu is free; nil: the response had ended already.
func (r *response) end(e record.Ending, now time.Time) []func() {
	if finish := r.rec.Settle(now, func() record.Ending { return e }); finish != nil {
		return []func(){finish}
	}
	return nil
}

// outputRefused is the error of a delivery that the server refused. Its type is
// what is recorded.
type outputRefused struct{}

func (outputRefused) Error() string { return "otelllm: the server refused the tool's output" }

// remember appends last to a list of at most 64, without the oldest if the list is full.
func remember[T any](list []T, last T) []T {
	if len(list) == classify.MaxIDs {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, last)
}

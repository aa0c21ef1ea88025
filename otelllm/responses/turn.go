package responses

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/abort"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/inferred"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// turn is a response.create and the answer to it.
type turn struct {
	began   time.Time
	request *request         // nil: it is a prewarm, or not recorded
	warm    *wire.Transcript // of a prewarm; else nil
	id      string           // of the response, as SafeID returns it

	calls, outputs []string // of its history; nil: not known

	// settings are those of its request, and of a response that goes on with this one.
	settings settings

	// uncertain: parts of the answer may belong to another request, or the other way round.
	uncertain bool

	// closedAt is when the connection was closed, of an answer that the server had given in
	// whole: an agent that has got it may close before the gateway has reported that; else
	// zero.
	closedAt time.Time

	// Of an answer that came before its request; else zero.
	decoder wire.Decoder
	bytes   int64
	ended   time.Time
	refusal bool // it is an error before any answer
}

// settings are what a response takes over from the one that it goes on with.
type settings struct {
	ctx           context.Context
	contents      *httpcall.Contents // of the request; nil: they are not known
	client, tools uint64             // of its transcript, if it was read
}

// request is what is recorded of a turn.
type request struct {
	rec     record.Recorder
	ctx     context.Context // with its span
	serving bool
	gone    func() bool // the agent that is served has gone away

	by        *request    // the served request that this one is made for; nil: none
	attempted atomic.Bool // of a served one: an attempt upstream has begun and not failed

	uncertain atomic.Bool // see turn; it does not change after the turn has ended
	// historyLost: a part of its history was on the server, and is no longer.
	historyLost atomic.Bool

	mu       sync.Mutex
	upstream *spanfacts.Request // of the last attempt upstream; nil: none has ended. mu guards it
}

// Complete implements [record.Source]. A request exists once it was sent.
func (q *request) Complete(e record.Ending, f *spanfacts.Request) record.Ending {
	if e.Unanswered {
		f.Bytes = -1
	}
	if q.uncertain.Load() {
		f.Unread = true
		if e.Unanswered { // as far as is known
			e.Served, e.Serving = nil, true
			return e
		}
	}
	if q.serving {
		return unanswered(e)
	}
	if !e.SentKnown && e.Stage != semconv.TransportStageWrite {
		e.Sent, e.SentKnown = true, true
	}
	return e
}

// unanswered returns e as the end of a served request, which is the gateway's own doing if it
// gave no answer and nothing explains that.
func unanswered(e record.Ending) record.Ending {
	if s := e.Served; e.Unanswered && s != nil && s.Aborted.Source == semconv.AbortSourceUnset &&
		(s.Upstream == nil || s.Upstream.Failed != classify.Yes) {
		return record.Ending{Reason: record.Failed, Unanswered: true, Sent: true, SentKnown: true, Failure: netcause.Failure{
			Stage: semconv.TransportStageHeaders, Cause: semconv.TransportCauseClosedBeforeHeaders,
		}}
	}
	e.Serving = true
	return e
}

// Settled implements [record.Source].
func (q *request) Settled(f *spanfacts.Request) {
	if q.historyLost.Load() {
		f.HistoryCalls = nil
	}
	if q.by == nil {
		return
	}
	if f.Failed != classify.No { // the gateway may try again
		q.by.attempted.Store(false)
	}
	facts := *f
	q.by.mu.Lock()
	defer q.by.mu.Unlock()
	q.by.upstream = &facts
}

// answeredUpstream reports whether this side serves the request, and its upstream has
// answered it in whole.
func (t *turn) answeredUpstream() bool {
	q := t.request
	if q == nil || !q.serving {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.upstream != nil && q.upstream.Failed == classify.No
}

// served returns e as the end of a request that this side serves.
func (q *request) served(e record.Ending) record.Ending {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := &record.Served{Responded: true, Upstream: q.upstream}
	switch {
	case e.Reason == record.EOF:
	case q.gone():
		s.Aborted = classify.Abort{Source: semconv.AbortSourceConsumer}
	default:
		s.Aborted = q.rec.CallerAbort(q.rec.Now())
	}
	return record.Ending{Reason: record.EOF, Served: s}
}

// end ends the turn. It returns what writes the span, to be called when the connection's mu
// is free.
func (t *turn) end(e record.Ending, now time.Time) []func() {
	q := t.request
	if q == nil {
		return nil
	}
	q.uncertain.Store(t.uncertain)
	if q.serving {
		e = q.served(e)
	}
	if finish := q.rec.Settle(now, func() record.Ending { return e }); finish != nil {
		return []func(){finish}
	}
	return nil
}

// receive takes a message of the answer.
func (t *turn) receive(frame []byte, now time.Time) {
	switch {
	case t.decoder != nil:
		t.decoder.Write(frame)
		t.bytes += int64(len(frame))
	case t.request != nil:
		t.request.rec.Receive(frame, now)
	}
}

// handOver gives an answer that began before its request to the request.
func (t *turn) handOver(now time.Time) {
	if t.request != nil {
		t.request.rec.Continue(t.decoder, t.bytes, t.began, now)
	} else {
		t.decoder.Release()
	}
	t.decoder = nil
}

// failure returns the ending of requests whose connection failed with err.
func (c *connection) failure(err error, unsent bool) record.Ending {
	if c.agent != nil && c.agent.gone.Load() {
		return agentGone()
	}
	e := record.Ending{Reason: record.Failed, Err: err}
	if unsent {
		e.Stage = semconv.TransportStageWrite
	}
	return e
}

// agentGone is the ending of requests upstream whose agent went away.
func agentGone() record.Ending {
	return record.Ending{Reason: record.Closed, Abort: classify.Abort{Source: semconv.AbortSourceConsumer}}
}

// readCreate returns what a response.create says; nil: it is too long to be read.
func readCreate(frame []byte) *httpcall.Contents {
	if len(frame) > wire.MaxEvent {
		return nil
	}
	contents := httpcall.Parse(protocol, frame)
	return &contents
}

// prepare takes what a response.create says, and begins its request unless it is a prewarm.
func (c *connection) prepare(ctx context.Context, t *turn, m *wire.ClientMessage, contents *httpcall.Contents, frame []byte) {
	t.settings = settings{ctx: ctx, contents: contents}
	if m.Kind != wire.ClientPrewarm {
		c.start(ctx, t, m, contents, frame)
		return
	}
	c.history.extend(t, contents)
	t.warm = &wire.Transcript{}
	if !c.history.read(t.warm, contents.PreviousID, frame) {
		t.warm = nil
	}
}

// goOn begins a response that goes on with the one before it, with what the client has added
// by a response.steer. It belongs to the same run and has the same settings.
func (c *connection) goOn(before *turn, now time.Time) *turn {
	t := &turn{began: now, settings: before.settings}
	var frame []byte
	if of := before.settings.contents; of != nil && before.id != "" {
		contents := *of
		contents.PreviousID, contents.HistoryCalls, contents.HistoryOutputs, contents.BodyCalls = before.id, nil, nil, []string{}
		t.settings.contents = &contents
		frame = []byte(`{"type":"response.create","previous_response_id":"` + before.id + `","input":[]}`) // an id that is safe in JSON
	} else {
		t.settings.contents = nil
	}
	c.start(t.settings.ctx, t, &wire.ClientMessage{}, t.settings.contents, frame)
	return t
}

// start begins the request of a turn, with mu held. Contents and frame are nil if its request
// is not known. If what the application has registered panics, the request is not recorded.
func (c *connection) start(ctx context.Context, t *turn, m *wire.ClientMessage, contents *httpcall.Contents, frame []byte) {
	defer telemetry.Recover()
	known := contents != nil
	if known {
		c.history.extend(t, contents)
	} else {
		contents = &httpcall.Contents{}
	}
	ctx = c.extract(ctx, m)
	by := c.agent.oldest(m.Stream)
	if by != nil {
		ctx = trace.ContextWithSpan(ctx, by.rec.Span())
	}
	run := agentrun.Of(ctx)
	id := c.identity
	run.Identify(&id)
	var member *inferred.Request
	begun := false
	defer func() {
		if !begun { // or what the application has registered panicked
			member.Drop(t.began)
		}
	}()
	if run == nil && c.agent == nil && known && c.with.Inferred.Infers(ctx) {
		member = c.with.Inferred.BeginWith(ctx, t.began, c.client, func(tr *wire.Transcript) bool {
			ok := c.history.read(tr, contents.PreviousID, frame)
			if of := &t.settings; of.client != 0 || of.tools != 0 {
				tr.Client, tr.Tools = of.client, of.tools
			} else {
				of.client, of.tools = tr.Client, tr.Tools
			}
			return ok
		})
		if member.Recorded() {
			member.Run().Identify(&id)
		}
	}
	record.FillIdentity(&id, contents)
	id.Stream = classify.Yes
	ctx, span := record.StartSpan(member.Context(ctx), c.with.TracerProvider, c.kind, &id, t.began)
	if !span.IsRecording() && run == nil && agentrun.LastRequestOf(ctx) == nil && !c.with.Record.Meters.Enabled(ctx) {
		span.End()
		return
	}
	q := &request{ctx: ctx, serving: c.serving, gone: c.gone.Load, by: by}
	q.rec.Init(c.caller(ctx), &c.with.Record, span, &id, t.began)
	f := q.rec.Facts()
	record.FillFacts(f, contents)
	f.HistoryCalls, f.Streams = t.calls, true
	if t.calls != nil {
		f.HistoryOutputs = t.outputs
	}
	if member != nil {
		q.rec.Join(member)
	}
	q.rec.Begin(q)
	if !q.serving {
		q.rec.RequestWritten(t.began)
	}
	t.request, begun = q, true
}

// caller returns the context that says who ended a request.
func (c *connection) caller(ctx context.Context) context.Context {
	if c.agent != nil {
		return abort.WithClient(ctx, c.agent.gone.Load)
	}
	return ctx
}

// extract returns ctx with the trace context of one request, if this side serves it.
func (c *connection) extract(ctx context.Context, m *wire.ClientMessage) context.Context {
	if c.propagators == nil || m.TraceParent == "" {
		return ctx
	}
	return c.propagators.Extract(ctx, propagation.MapCarrier{"traceparent": m.TraceParent, "tracestate": m.TraceState})
}

// oldest returns the oldest request of a stream for which no attempt upstream is under way,
// else the oldest one; nil: all have been answered.
func (c *connection) oldest(stream string) *request {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.streams[stream]
	if s == nil {
		return nil
	}
	var first *request
	for _, t := range append([]*turn{s.open}, s.waiting...) {
		switch {
		case t == nil || t.request == nil:
		case t.request.attempted.CompareAndSwap(false, true):
			return t.request
		case first == nil:
			first = t.request
		}
	}
	return first
}

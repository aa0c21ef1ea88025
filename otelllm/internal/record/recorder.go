// Package record records one model request: it takes what happens to the request as
// events, decides how the request ended, and writes its span.
//
// Bytes go one way: body → [Recorder] → decoder → facts → span.
package record

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/codes"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/abort"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/inferred"
	"github.com/otelllm/otelllm-go/otelllm/internal/live"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// Config is what all recorders of one source have in common.
type Config struct {
	Events   bool // write the times of the facts as events
	Verdicts bool // write the client's verdict where a request failed
	Meters   *Meters
	Latest   bool // write the names of the GenAI conventions 0.1.0 instead of those of 1.41.0
	Live     *live.Registry
	// Histories are those that providers keep; nil: none are remembered.
	Histories *Histories
}

// Recorder records one request. Its source (an HTTP attempt, a gateway's handler, a
// realtime session, the application itself) feeds it with events and ends it once. It is
// safe for concurrent use after [Recorder.Begin].
//
//	                Respond, Read, Step, Follow, …
//	                         ┌─────┐
//	Init ──► Begin ──► open ─┴──►──┘
//	                    │
//	                    │ End: decides how the request ended; the facts are final
//	                    ▼
//	                 settling
//	                    │ the run gets the facts, the span is written
//	                    ▼
//	                  ended
//
// What happens in a later state than open changes nothing.
type Recorder struct {
	ctx      context.Context // the caller's; it says who aborted the request
	run      *agentrun.Run   // nil: outside of a run
	last     *agentrun.LastRequest
	span     trace.Span
	config   *Config
	identity spanfacts.Identity
	start    time.Time
	source   Source
	body     requestBody
	inferred *inferred.Request // the run is inferred; nil: it is not. mu guards it until the recorder settles
	// measured is the context of the metrics: exemplars name the span, and the
	// cancellation by which the request may end does not end them. Nil if none are kept.
	measured context.Context

	// joining is held while the request joins its run, and taken before mu: the run gets
	// to know of the request before it gets the facts.
	joining sync.Mutex

	// state is written with mu held. It may be read without.
	state atomic.Uint32

	mu sync.Mutex
	// Everything below is guarded by mu.
	sent bool // all of the request, as the source reported
	// runChanged: the request joined its run when its span had started.
	runChanged bool
	// identityChanged: the span started with less than identity holds now.
	identityChanged bool
	// otherProtocol: the request's body has another protocol than identity had at first.
	otherProtocol bool

	facts    spanfacts.Request
	kept     onServer // what the body has of a history on the server
	broken   bool     // the history has a call whose input is not JSON
	response response
	times    *timeline   // nil: no events
	chunks   *chunkMeter // nil: no metrics are kept, or no second chunk has come

	timeline timeline // what times points to if there are events
}

// The states of a Recorder.
const (
	open uint32 = iota
	settling
	ended
)

// Source is what feeds a Recorder.
type Source interface {
	// Complete returns e with what the source knows about the request by the time that it
	// ends, and adds to the facts. The recorder is locked.
	Complete(e Ending, f *spanfacts.Request) Ending
	// Settled sees, and may correct, the facts once they are final. The recorder is locked.
	Settled(f *spanfacts.Request)
}

// Init initializes a Recorder whose span has been started for the request that id
// identifies. Ctx is the caller's context.
func (r *Recorder) Init(ctx context.Context, c *Config, span trace.Span, id *spanfacts.Identity, start time.Time) {
	done := false
	telemetry.Guard(func() {
		r.init(ctx, c, span, id, start)
		done = true
	})
	if !done { // a span or an instrument of the application panicked: neither is used
		bare := *c
		bare.Meters = nil
		r.init(ctx, &bare, telemetry.NoSpan, id, start)
	}
}

func (r *Recorder) init(ctx context.Context, c *Config, span trace.Span, id *spanfacts.Identity, start time.Time) {
	r.ctx, r.run, r.last, r.span, r.config, r.identity, r.start = ctx, agentrun.Of(ctx), agentrun.LastRequestOf(ctx), span, c, *id, start
	r.facts.LatestNames = c.Latest
	r.facts.Usage = wire.Usage{Input: -1, Output: -1, CacheRead: -1, CacheCreation: -1, Reasoning: -1}
	if c.Events && span.IsRecording() {
		r.times = r.timeline.begin()
	}
	if c.Meters.Enabled(ctx) {
		r.measured = trace.ContextWithSpan(context.WithoutCancel(ctx), span)
	}
}

// Facts returns the facts, for a source to fill in what is known from the start. Use it
// before [Recorder.Begin] only.
func (r *Recorder) Facts() *spanfacts.Request { return &r.facts }

// Join makes the request a part of an inferred run. Use it before [Recorder.Begin], or
// while the recorder is open if the request's body is read as it is sent.
func (r *Recorder) Join(q *inferred.Request) {
	r.joining.Lock()
	defer r.joining.Unlock()
	if !q.Recorded() {
		q.Drop(time.Now())
		return
	}
	joined, outputs := r.join(q)
	if !joined {
		q.Drop(time.Now())
		return
	}
	telemetry.Guard(func() {
		r.linkRun()
		r.run.AddTrace(r.span.SpanContext().TraceID()) // which a provider may change by the link
	})
	if r.source != nil {
		if r.config.Verdicts {
			r.run.WriteVerdicts()
		}
		r.run.RequestBegan(r, outputs)
		r.last.RequestJoined(r, r.run)
	}
	q.Follow(r)
}

// linkRun links the run, unless the request's span is known to be in its trace: a reader who
// sees one trace at a time learns that the run is not in this one.
func (r *Recorder) linkRun() {
	run := r.run.Span().SpanContext()
	if r.source != nil || run.TraceID() != r.span.SpanContext().TraceID() {
		r.span.AddLink(trace.Link{SpanContext: run})
	}
}

// JoinLater makes the request a part of the run that begin returns, when its body has been
// read. A panic of the application's SDK does not reach the reader.
func (r *Recorder) JoinLater(body *httpcall.Body, begin func(body []byte) *inferred.Request) {
	body.OnRead = func(b []byte) {
		defer telemetry.Recover()
		r.Join(begin(b))
	}
}

// join is Join for the recorder itself. It reports false if the request is over, or belongs
// to a run already.
func (r *Recorder) join(q *inferred.Request) (joined bool, historyOutputs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Over() || r.run != nil {
		return false, nil
	}
	r.inferred, r.run = q, q.Run()
	r.run.Identify(&r.identity)
	r.facts.Attempt = max(r.facts.Attempt, q.Attempt)
	r.runChanged = r.source != nil
	return true, r.facts.HistoryOutputs
}

// Begin opens the recorder: the run, and Shutdown, know of the request from here on.
func (r *Recorder) Begin(source Source) {
	r.source = source
	if r.config.Verdicts {
		r.run.WriteVerdicts()
	}
	// The run first: once the request is open, Shutdown may end it at any moment.
	r.run.RequestBegan(r, r.facts.HistoryOutputs)
	r.last.RequestBegan(r, r.run)
	r.config.Live.AddRequest(r)
}

// Now returns the time by the monotonic clock alone: half of what time.Now costs, and
// no step of the wall clock comes between two moments of one request.
func (r *Recorder) Now() time.Time { return r.start.Add(time.Since(r.start)) }

// Start returns when the request began.
func (r *Recorder) Start() time.Time { return r.start }

// Span returns the request's span.
func (r *Recorder) Span() trace.Span { return r.span }

// CallerDone reports whether the caller's context is done.
func (r *Recorder) CallerDone() bool { return r.ctx.Err() != nil }

// CallerAbort returns who ended the caller's context. It is the zero value if the context
// is live.
func (r *Recorder) CallerAbort(now time.Time) classify.Abort { return abort.Of(r.ctx, now) }

// CancelledBy returns the abort that err comes from. It reports false if err is not a
// cancellation by the caller's context.
func (r *Recorder) CancelledBy(err error, now time.Time) (classify.Abort, bool) {
	if !netcause.Cancelled(r.ctx, err, now) {
		return classify.Abort{}, false
	}
	return abort.OrUnknown(abort.Of(r.ctx, now)), true
}

// Over reports whether the facts are final.
func (r *Recorder) Over() bool { return r.state.Load() != open }

// End ends the request. Ending says how; it is called with the recorder locked, and not at
// all if the request is over. End reports whether it ended the request.
func (r *Recorder) End(now time.Time, ending func() Ending) bool {
	defer r.Recover()
	if !r.settle(now, ending) {
		return false
	}
	r.finish(now)
	return true
}

// Settle is [Recorder.End] without writing the span, for a caller that holds a lock which
// the run or a span processor must not wait for. The function that it returns does that;
// it is nil if the request was over.
func (r *Recorder) Settle(now time.Time, ending func() Ending) (finish func()) {
	defer r.Recover()
	if !r.settle(now, ending) {
		return nil
	}
	return func() {
		defer r.Recover()
		r.finish(now)
	}
}

// Shutdown ends the request because the process is going down.
func (r *Recorder) Shutdown() {
	r.End(r.Now(), func() Ending {
		return Ending{Reason: Closed, Abort: classify.Abort{Source: semconv.AbortSourceShutdown}}
	})
}

// settle decides how the request ended and makes the facts final, unless it is over.
func (r *Recorder) settle(now time.Time, ending func() Ending) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Over() {
		return false
	}
	e := ending()
	e.Sent = e.Sent || r.sent
	e.Unanswered = !r.response.started && r.facts.Status == 0
	e = r.source.Complete(e, &r.facts)
	o := r.decide(&e, now)
	if e.Reason == EOF {
		r.response.errorResponse.end()
	}
	if o.end == semconv.StreamEndHTTPError && r.facts.Provider.Kind == semconv.ProviderErrorKindUnset {
		r.response.readError(&r.facts, r.asked())
	}
	r.apply(&r.facts, o, now)
	r.times.end(o, now)
	r.response.errorResponse = nil
	r.state.Store(settling)
	return true
}

// asked returns, with mu held, what an error may depend on of the request.
func (r *Recorder) asked() catalogue.Request {
	return catalogue.Request{Host: r.identity.ServerAddress, BrokenInput: r.broken}
}

// apply writes into f, with mu held, how the request ended. It changes nothing else.
func (r *Recorder) apply(f *spanfacts.Request, o outcome, now time.Time) {
	f.Start, f.End = r.start, now
	f.Ended, f.Phase, f.Transport, f.Abort, f.Watchdog, f.ErrorChain = o.end, o.phase, o.transport, o.abort, o.watchdog, o.chain
	if f.Abort.Source != semconv.AbortSourceUnset {
		f.ErrorChain = abort.CauseTypes(r.ctx)
		if f.Watchdog.Kind == semconv.WatchdogKindUnset {
			f.Watchdog = abort.Watchdog(r.ctx, f.Abort)
		}
	}
	if f.LastProgress > 0 && o.end != semconv.StreamEndTerminalEvent {
		// The silence before the end counts: only that end showed how long it was.
		f.LongestGap = max(f.LongestGap, now.Sub(r.start)-f.LastProgress)
	}
	if st := r.response.state; st != nil {
		fillState(f, st)
		f.SetFinish(finishReasons(st.FinishReasons, o.due))
		if st.Err != nil && f.Status < 400 {
			applyError(f, r.asked(), f.Status, st.Err)
			f.Provider.InBand = true
		}
	}
	f.ErrorType = errorType(f)
	f.DeriveOutcome()
}

// finish gives the facts to the run and ends the span. The one call that settled calls it.
func (r *Recorder) finish(now time.Time) {
	r.joining.Lock()                     // until it has joined
	r.joining.Unlock()                   //nolint:staticcheck // nothing joins from now on
	defer r.config.Live.RemoveRequest(r) // Shutdown waits until the span has ended
	facts, calls := r.finalFacts()
	defer r.inferred.Ended(&facts, calls) // the run's span ends after those of its requests
	r.run.RequestEnded(r, &facts.Request)
	r.last.RequestEnded(r, &facts.Request)
	r.measure(&facts)
	r.writeSpan(&facts, calls, now)
	r.body.tee.Drop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.response.release()
	r.state.Store(ended)
}

// finalFacts returns the facts of a request that is settling, with what its source and its
// body add to them, and the calls of its response.
func (r *Recorder) finalFacts() (facts spanfacts.Request, calls []wire.Call) {
	r.mu.Lock()
	defer r.mu.Unlock() // also if the source panics: the consumer may read on
	r.source.Settled(&r.facts)
	r.otherProtocol = r.fillBody(&r.facts, &r.identity)
	r.answered()
	if st := r.response.state; st != nil {
		calls = st.Calls
	}
	r.response.state = nil
	return r.facts, calls
}

// writeSpan writes the facts onto the span and ends it.
func (r *Recorder) writeSpan(facts *spanfacts.Request, calls []wire.Call, now time.Time) {
	if !r.span.IsRecording() {
		r.span.End(trace.WithTimestamp(now))
		return
	}
	mem := takeScratch()
	if r.identityChanged {
		r.span.SetName(r.identity.SpanName())
		if r.otherProtocol {
			mem.attrs = r.identity.Append(mem.attrs)
		} else {
			mem.attrs = r.identity.AppendBody(mem.attrs)
		}
	}
	if r.runChanged {
		mem.attrs = append(mem.attrs, semconv.RunID(r.identity.RunID), otelsemconv.GenAIConversationID(r.identity.ConversationID))
	}
	mem.attrs = facts.Append(mem.attrs)
	if r.config.Verdicts || r.run.WritesVerdicts() {
		d := r.Judge(&facts.Request)
		mem.attrs = spanfacts.AppendVerdict(mem.attrs, &d)
	}
	r.span.SetAttributes(mem.attrs...)
	r.times.write(r.span, calls, mem)
	if facts.ErrorType != "" {
		r.span.SetStatus(codes.Error, "")
	}
	mem.end = append(mem.end, trace.WithTimestamp(now))
	r.span.End(mem.end...)
	mem.giveBack()
}

// measure records the metrics of a request that has ended. A meter that panics takes
// nothing from its span.
func (r *Recorder) measure(f *spanfacts.Request) {
	defer telemetry.Recover()
	r.config.Meters.ended(r, f)
}

// Outcome returns the facts of a request that is over, as they are judged.
func (r *Recorder) Outcome() classify.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.facts.Request
}

// ErrorType returns the error.type of a request that is over, or "".
func (r *Recorder) ErrorType() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.facts.ErrorType
}

// Judge judges the facts of the request, as a part of its run if it has one.
func (r *Recorder) Judge(f *classify.Request) classify.Diagnosis { return r.run.JudgeRequest(f) }

// Snapshot implements [agentrun.OpenRequest]. SDKs return an in-band error, or the end of
// a stream, before they close the body.
func (r *Recorder) Snapshot(now time.Time) (classify.Request, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.response.state
	if r.Over() || st == nil || !st.Terminal && !st.Complete {
		return classify.Request{}, false
	}
	f, id := r.facts, r.identity
	r.fillBody(&f, &id)
	e := Ending{Reason: Closed}
	r.apply(&f, e.ofResponse(f.Status, false, false, st), now)
	return f.Request, true
}

// SoFar implements [agentrun.OpenRequest].
func (r *Recorder) SoFar() classify.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, id := r.facts, r.identity
	r.fillBody(&f, &id)
	if f.Ended != semconv.StreamEndUnset { // it is settling
		return f.Request
	}
	f.Start, f.Open = r.start, true
	switch st := r.response.state; {
	case st != nil:
		fillState(&f, st)
		f.Phase = st.Phase
	case f.Status == 0:
		f.Phase = semconv.PhaseAwaitingResponse
	}
	return f.Request
}

// Recover has to be deferred. It keeps a panic of the recording, or of the application's span
// processors, from the consumer of the stream: it ends the recording.
func (r *Recorder) Recover() {
	if p := recover(); p != nil {
		r.config.Live.RemoveRequest(r)
		r.abandon().Drop(time.Now())
		telemetry.ReportPanic(p)
	}
}

// abandon ends the recording without a result. It returns the request's part in an inferred
// run.
func (r *Recorder) abandon() *inferred.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Store(ended)
	r.response.decompressor.Stop()
	return r.inferred
}

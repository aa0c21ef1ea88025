package otelllm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// record is the recording of one request: its facts while they come to be, and its
// span. What sees the request (an attempt over HTTP, a gateway's handler, a
// realtime session, the application itself) fills it in and settles it, once.
type record struct {
	ctx      context.Context // the caller's: aborts are read off it
	run      *Run            // nil: outside of a run
	last     *LastRequest    // nil: the caller does not ask for the diagnosis
	span     trace.Span
	config   *config
	identity spanfacts.Identity
	start    time.Time
	// measured is the context of the metrics: exemplars name the span, and the
	// cancellation by which the request may end does not end them. Nil if none are kept.
	measured context.Context

	// late fills in, with mu held, what is known only after the request was sent; nil: nothing.
	late func(f *spanfacts.Request, id *spanfacts.Identity)
	// untold: the span started without what the request's body says; its end tells.
	untold bool
	// reidentified, guarded by mu: late has found that the request is of another protocol.
	reidentified bool
	// over is set, under mu, when the facts are final. It may be read without.
	over atomic.Bool

	mu sync.Mutex
	// Everything below is guarded by mu.
	facts  spanfacts.Request
	state  *wire.State // what the response has said; nil if it cannot be read
	times  *timeline   // nil: no events
	chunks *chunkMeter // nil: no metrics are kept, or no second chunk has come

	timeline timeline // what times is, where there are events
}

// The kinds of a request's span.
var (
	clientKind = trace.WithSpanKind(trace.SpanKindClient)
	serverKind = trace.WithSpanKind(trace.SpanKindServer)
)

// startSpan starts the span of a request. Where the provider panics, it is a span that
// does nothing.
func startSpan(
	ctx context.Context, tracer trace.Tracer, kind trace.SpanStartOption, id *spanfacts.Identity, start time.Time,
) (started context.Context, span trace.Span) {
	defer func() {
		if p := recover(); p != nil { // of a sampler or a span processor
			started, span = ctx, trace.SpanFromContext(context.Background()) //nolint:contextcheck // for a span that does nothing
			panicked(p)
		}
	}()
	mem := takeScratch()
	mem.attrs = id.Append(mem.attrs)
	mem.start = append(mem.start, kind, trace.WithTimestamp(start), trace.WithAttributes(mem.attrs...))
	started, span = tracer.Start(ctx, id.SpanName(), mem.start...)
	mem.giveBack()
	return started, span
}

// init begins to record a request. The span has been started.
func (r *record) init(ctx context.Context, c *config, span trace.Span, id *spanfacts.Identity, start time.Time) {
	r.ctx, r.run, r.last, r.span, r.config, r.identity, r.start = ctx, runOf(ctx), lastRequestOf(ctx), span, c, *id, start
	r.facts.Usage = wire.Usage{Input: -1, Output: -1, CacheRead: -1, CacheCreation: -1, Reasoning: -1}
	if c.events && span.IsRecording() {
		r.times = r.timeline.begin()
	}
	if c.meters.enabled(ctx) {
		r.measured = trace.ContextWithSpan(context.WithoutCancel(ctx), span)
	}
}

// now is the time by the monotonic clock alone: half of what time.Now costs, and
// no step of the wall clock comes between two moments of one request.
func (r *record) now() time.Time { return r.start.Add(time.Since(r.start)) }

// recording is a request whose recording Shutdown can end.
type recording interface{ shutdown() }

// begun tells those who keep count of open requests. The record is that of whole.
func (r *record) begun(whole recording) {
	// The run first: once the request is open, Shutdown may end it at any moment.
	r.run.requestBegan(r)
	r.last.began(r)
	open.add(r, whole)
}

// headersCame: the response has begun, with mu held.
func (r *record) headersCame(now time.Time) {
	r.facts.TimeToHeaders = now.Sub(r.start)
	r.times.mark(responseStarted, now)
}

// progress keeps, with mu held, the clocks of semantic progress. Before is how
// many events there had been; all new ones arrived at now.
func (r *record) progress(before int, now time.Time) {
	if r.state.Events == before {
		return
	}
	at := now.Sub(r.start)
	f := &r.facts
	switch {
	case before > 0:
		gap := at - f.LastProgress
		f.LongestGap = max(f.LongestGap, gap)
		if f.Streams {
			r.chunk(gap)
		}
	case f.Streams:
		f.FirstChunk = at
	}
	f.LastProgress = at
	r.times.progress(r.state, now)
}

// apply writes into f, with mu held, how the request ended. It changes nothing else.
func (r *record) apply(f *spanfacts.Request, c conclusion, now time.Time) {
	f.Start, f.End = r.start, now
	f.Ended, f.Phase, f.Transport, f.Abort, f.Watchdog, f.ErrorChain = c.end, c.phase, c.transport, c.abort, c.watchdog, c.chain
	if f.Abort.Source != semconv.AbortSourceUnset {
		f.ErrorChain = causeTypes(r.ctx)
		if f.Watchdog.Kind == semconv.WatchdogKindUnset {
			f.Watchdog = ownWatchdog(r.ctx, f.Abort)
		}
	}
	if f.LastProgress > 0 && c.end != semconv.StreamEndTerminalEvent {
		// Its silence before the end counts: nothing but that end showed how long it was.
		f.LongestGap = max(f.LongestGap, now.Sub(r.start)-f.LastProgress)
	}
	if r.state != nil {
		fillState(f, r.state)
		f.SetFinish(finishReasons(r.state.FinishReasons, c.due))
		if r.state.Err != nil && f.Status < 400 {
			applyError(f, f.Status, r.state.Err)
			f.Provider.InBand = true
		}
	}
	f.ErrorType = errorType(f)
	f.Settle()
}

// settle, with mu held, makes the facts final.
func (r *record) settle(c conclusion, now time.Time) {
	r.apply(&r.facts, c, now)
	r.times.end(c, now)
	r.over.Store(true)
}

// finish runs conclude, with mu held, unless the request is over. It reports
// whether it did: then the caller has to end the record.
func (r *record) finish(conclude func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over.Load() {
		return false
	}
	conclude()
	return true
}

// end hands the facts over to the run and ends the span. It is called once, by
// the one that settled.
func (r *record) end(now time.Time) {
	defer open.remove(r) // Shutdown waits until the span has ended
	r.mu.Lock()
	if r.late != nil {
		r.late(&r.facts, &r.identity)
	}
	var calls []wire.Call
	if r.state != nil {
		calls = r.state.Calls
	}
	r.state = nil
	facts := r.facts
	r.mu.Unlock()

	r.run.requestEnded(r, &facts.Request)
	r.last.ended(r, &facts.Request)
	r.measure(&facts)
	if !r.span.IsRecording() {
		r.span.End(trace.WithTimestamp(now))
		return
	}
	mem := takeScratch()
	if r.untold {
		r.span.SetName(r.identity.SpanName())
		if r.reidentified {
			mem.attrs = r.identity.Append(mem.attrs)
		} else {
			mem.attrs = r.identity.AppendBody(mem.attrs)
		}
	}
	mem.attrs = facts.Append(mem.attrs)
	if r.config.verdicts || r.run.writesVerdicts() {
		d := r.run.verdictOn(&facts.Request)
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

// measure keeps the metrics of a request that has ended. A meter that panics takes
// nothing from its span.
func (r *record) measure(f *spanfacts.Request) {
	defer contained()
	r.config.meters.ended(r, f)
}

// snapshot is what the request would come to if its stream were let go now, where
// the protocol has had its last word already: an SDK returns an in-band error, or
// the end of a stream, before it closes the body.
func (r *record) snapshot(now time.Time) (classify.Request, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over.Load() || r.state == nil || !r.state.Terminal && !r.state.Complete {
		return classify.Request{}, false
	}
	f := r.facts
	if r.late != nil {
		id := r.identity
		r.late(&f, &id)
	}
	r.apply(&f, conclude(closing{how: byClose, status: f.Status, state: r.state}), now)
	return f.Request, true
}

// contain, deferred, keeps a panic of the recording, or of the application's span
// processors, from the consumer of the stream: it ends the recording.
func (r *record) contain() {
	if p := recover(); p != nil {
		r.over.Store(true)
		open.remove(r)
		panicked(p)
	}
}

// contained, deferred, is contain for what is about more than one record.
func contained() {
	if p := recover(); p != nil {
		panicked(p)
	}
}

// panicked reports a panic. Its value may hold anything; its type is enough to find
// where it came from.
func panicked(p any) {
	defer func() { _ = recover() }() // the handler is the application's, too
	otel.Handle(fmt.Errorf("otelllm: the recording of a model call ended by a panic (%T); the call itself went on", p))
}

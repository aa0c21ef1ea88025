package otelllm

import (
	"context"
	"net/http"
	"runtime"
	"time"

	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/redact"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// RequestInfo says which model call a [Request] is. What is left out was not
// observed.
type RequestInfo struct {
	Operation string // gen_ai.operation.name; "" is "chat"
	Provider  string // gen_ai.provider.name; [WithProvider] outweighs it
	Model     string // gen_ai.request.model
	Stream    bool   // the answer is asked for in pieces

	ServerAddress string // a host's name or address, never a URL
	ServerPort    int    // 0: none

	// Attempt is 1 for the first try of this call; 0: not known.
	Attempt int
	// ProviderTools are the tools offered that the provider executes itself
	// ("web_search"), the first 64; nil: not known, empty: none.
	ProviderTools []string
	// HistoryCalls and HistoryOutputs are the ids of the tool calls, and of the tool
	// outputs, that the request's history holds, the last 64; nil: not known,
	// empty: none.
	HistoryCalls, HistoryOutputs []string
}

// Usage holds token counts; a negative one is not known.
type Usage struct{ Input, Output int }

// Request is one attempt of one model call over a transport of the application's
// own: gRPC, a WebSocket, a model in the same process. Its methods tell what came
// to be, when it came to be; [Request.End] ends it. For HTTP, [NewTransport] sees
// all of this by itself.
//
// It is safe for concurrent use, and a nil *Request does nothing. One that is lost
// without an end is ended when it is garbage collected, as abandoned.
type Request struct {
	record  *manualRecord
	cleanup runtime.Cleanup
}

// manualRecord is what is recorded of a Request. It never refers to the Request.
type manualRecord struct {
	record

	response *wire.Manual // guarded by mu
	sent     bool         // guarded by mu
}

// StartRequest starts the recording of one attempt of one model call and its span,
// `{operation} {model}`. It belongs to the run of ctx. Of opts, [WithWatchdog],
// [WithStreamErrors] and [WithPropagators] do not apply.
func StartRequest(ctx context.Context, info RequestInfo, opts ...Option) (context.Context, *Request) {
	c := newConfig(opts)
	start := time.Now()
	id := spanfacts.Identity{
		Operation:     spanfacts.Bound(info.Operation),
		Provider:      c.providerName,
		Model:         wire.SafeModel(info.Model),
		Stream:        classify.FactOf(info.Stream),
		ServerAddress: redact.Host(info.ServerAddress),
		ServerPort:    info.ServerPort,
	}
	if id.Operation == "" {
		id.Operation = otelsemconv.GenAIOperationNameChat.Value.AsString()
	}
	if id.Provider == "" {
		id.Provider = spanfacts.Bound(info.Provider)
	}
	runOf(ctx).identify(&id)
	caller := ctx
	ctx, span := started(ctx, func() (context.Context, trace.Span) {
		return startSpan(ctx, tracerOf(ctx, c.provider), clientKind, &id, start)
	})
	r := &manualRecord{}
	r.initQuietly(caller, &c, span, &id, start)
	r.facts.Bytes = -1
	r.facts.Attempt = min(max(info.Attempt, 0), maxAttempt)
	r.facts.Streams = info.Stream
	r.facts.ProviderTools = last(info.ProviderTools, wire.SafeName)
	r.facts.HistoryCalls, r.facts.HistoryOutputs = last(info.HistoryCalls, wire.SafeID), last(info.HistoryOutputs, wire.SafeID)
	r.begun(r)
	q := &Request{record: r}
	q.cleanup = runtime.AddCleanup(q, func(r *manualRecord) { r.letGo(byDrop, classify.Abort{}) }, r)
	return ctx, q
}

// last are the last 64 of list, each made fit to be recorded; nil stays nil.
func last(list []string, safe func(string) string) []string {
	if list == nil {
		return nil
	}
	out := make([]string, 0, min(len(list), classify.MaxIDs))
	for _, s := range list[max(0, len(list)-classify.MaxIDs):] {
		out = append(out, safe(s))
	}
	return out
}

// RecordSent records that the request has been sent.
func (q *Request) RecordSent() {
	q.do(func(r *manualRecord, now time.Time) {
		r.sent = true
		r.times.requestWritten(now)
	})
}

// RecordResponseStarted records that the response has begun. Status is an HTTP status, or 0
// where the transport has none. Chunks and calls imply it.
func (q *Request) RecordResponseStarted(status int) {
	q.do(func(r *manualRecord, now time.Time) {
		r.answer(now)
		r.facts.Status = status
	})
}

// SetResponse sets the response's own id and model.
func (q *Request) SetResponse(id, model string) {
	q.tell(func(m *wire.Manual) { m.Identify(id, model) })
}

// RecordText records a chunk of visible output, without its content.
func (q *Request) RecordText() { q.tell((*wire.Manual).Text) }

// RecordReasoning records a chunk of reasoning, without its content.
func (q *Request) RecordReasoning() { q.tell((*wire.Manual).Reasoning) }

// RecordKeepalive records a sign of life from the server that is not progress.
func (q *Request) RecordKeepalive() { q.tell((*wire.Manual).Keepalive) }

// RecordToolInputStarted records that the input of a tool call began to arrive.
func (q *Request) RecordToolInputStarted(id, name string) {
	q.tell(func(m *wire.Manual) { m.StartCall(id, name) })
}

// RecordToolInputCompleted records that the input of a tool call is complete.
func (q *Request) RecordToolInputCompleted(id string) {
	q.tell(func(m *wire.Manual) { m.CompleteCall(id, "") })
}

// RecordToolCall records that a tool call was handed to the application with its whole input.
// It implies that the input started and completed.
func (q *Request) RecordToolCall(id, name string) {
	q.tell(func(m *wire.Manual) { m.HandOver(id, name) })
}

// RecordProviderTool records that a tool that the provider executes itself began.
func (q *Request) RecordProviderTool() { q.tell((*wire.Manual).ProviderTool) }

// SetUsage sets the token counts of the response so far. Later counts replace earlier ones.
func (q *Request) SetUsage(u Usage) {
	q.tell(func(m *wire.Manual) {
		m.Use(wire.Usage{Input: u.Input, Output: u.Output, CacheRead: -1, CacheCreation: -1, Reasoning: -1})
	})
}

// RecordFinish records that the model finished, with its reason ("stop", "tool_calls",
// "length", …). A request that ends without it was cut.
func (q *Request) RecordFinish(reason string) {
	q.tell(func(m *wire.Manual) { m.Finish(reason) })
}

// RecordProviderError records an error that the provider reported. Status is an HTTP status, or
// 0; code is the provider's own ("overloaded"); after is the delay that it asks for, or 0.
func (q *Request) RecordProviderError(status int, code string, after time.Duration) {
	q.do(func(r *manualRecord, now time.Time) {
		e := wire.Error{Code: code, Status: status, RetryAfter: min(max(after, 0), maxRetryAfter)}
		if r.state == nil && status >= http.StatusBadRequest {
			r.facts.Status = status
			r.facts.TimeToHeaders = now.Sub(r.start)
			applyError(&r.facts, status, &e)
			return
		}
		r.answer(now)
		r.response.Fail(e)
	})
}

// End ends the request, with the error that the transport ended on, nil for none.
// An error that reports a deliberate end, as for [Run.End], is recorded as
// an abort, and so is context.DeadlineExceeded, whichever context's it is. Of any
// other the transport's cause is found where the standard library names one (a
// connection reset, a refusal), and the types of its chain are kept, never the
// message. Calls after the first do nothing.
//
// End(nil) before [Request.RecordFinish] is a stream that ended before its final event.
func (q *Request) End(err error) {
	if q == nil {
		return
	}
	q.cleanup.Stop()
	q.record.finished(err)
	runtime.KeepAlive(q)
}

// do lets f change the record, unless it is over.
func (q *Request) do(f func(*manualRecord, time.Time)) {
	if q == nil {
		return
	}
	r := q.record
	defer r.contain()
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over.Load() {
		f(r, now)
	}
	runtime.KeepAlive(q)
}

// tell lets step change the response.
func (q *Request) tell(step func(*wire.Manual)) {
	q.do(func(r *manualRecord, now time.Time) {
		r.answer(now)
		before := r.state.Events
		step(r.response)
		r.progress(before, now)
	})
}

// answer: the response has begun, with mu held.
func (r *manualRecord) answer(now time.Time) {
	if r.response != nil {
		return
	}
	r.response = wire.NewManual()
	r.state = r.response.State()
	r.headersCame(now)
}

func (r *manualRecord) finished(err error) {
	defer r.contain()
	now := time.Now()
	if r.finish(func() { r.settle(r.closing(err, now), now) }) {
		r.end(now)
	}
}

// closing decides, with mu held, how the request ended.
func (r *manualRecord) closing(err error, now time.Time) conclusion {
	c := closing{how: byEOF}
	if err != nil {
		c = closedBy(r.ctx, err, r.stage(), now)
	}
	c.status, c.state = r.facts.Status, r.state
	if r.state == nil && c.status < http.StatusBadRequest {
		return r.unanswered(c)
	}
	return conclude(c)
}

// unanswered is the end of a request that got no response.
func (r *manualRecord) unanswered(c closing) conclusion {
	return unanswered(c.failure, c.abort, classify.Watchdog{}, r.sent, r.sent)
}

// stage is where the request was, as far as the application has told.
func (r *manualRecord) stage() semconv.TransportStage {
	switch {
	case r.state != nil:
		return semconv.TransportStageBody
	case r.sent:
		return semconv.TransportStageHeaders
	default:
		return semconv.TransportStageUnset
	}
}

// shutdown ends the request because the process is going down.
func (r *manualRecord) shutdown() { r.letGo(byClose, classify.Abort{Source: AbortShutdown}) }

// letGo ends the request by this side's will.
func (r *manualRecord) letGo(h how, abort classify.Abort) {
	defer r.contain()
	now := time.Now()
	if r.finish(func() {
		if abort.Source == semconv.AbortSourceUnset {
			abort = abortOf(r.ctx, now)
		}
		c := closing{how: h, abort: abort, status: r.facts.Status, state: r.state}
		switch {
		case r.state != nil || c.status >= http.StatusBadRequest:
			r.settle(conclude(c), now)
		case h == byDrop && abort.Source == semconv.AbortSourceUnset:
			r.settle(conclusion{end: semconv.StreamEndAbandoned, phase: r.phase(), abort: classify.Abort{Source: semconv.AbortSourceConsumer}}, now)
		default:
			r.settle(r.unanswered(c), now)
		}
	}) {
		r.end(now)
	}
}

func (r *manualRecord) phase() semconv.Phase {
	if r.sent {
		return semconv.PhaseAwaitingResponse
	}
	return semconv.PhaseUnknown
}

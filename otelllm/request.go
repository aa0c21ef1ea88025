package otelllm

import (
	"context"
	"runtime"
	"time"

	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/redact"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// RequestInfo says which model call a [Request] is. What is left out was not
// observed.
type RequestInfo struct {
	Operation string // gen_ai.operation.name; "" is "chat"
	Provider  string // gen_ai.provider.name; [WithProviderName] outweighs it
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

// Request is one attempt of one model call over a transport of the application's
// own: gRPC, a WebSocket, a model in the same process. Its methods tell what came
// to be, when it came to be; [Request.End] ends it. For HTTP, [NewTransport] sees
// all of this by itself.
//
// It is safe for concurrent use, and a nil *Request does nothing. One that is lost
// without an end is ended when it is garbage collected, as abandoned.
type Request struct {
	source  *manualSource
	cleanup runtime.Cleanup
}

// manualSource is the source of a Request's recorder. It never refers to the Request.
type manualSource struct{ rec record.Recorder }

// Complete implements [record.Source].
func (*manualSource) Complete(e *record.Ending, _ *spanfacts.Request) { e.SentKnown = e.Sent }

// Settled implements [record.Source].
func (*manualSource) Settled(*spanfacts.Request) {}

// StartRequest starts the recording of one attempt of one model call and its span,
// `{operation} {model}`. It belongs to the run of ctx.
func StartRequest(ctx context.Context, info RequestInfo, opts ...RequestOption) (context.Context, *Request) {
	return startRequest(ctx, global, info, opts)
}

func startRequest(ctx context.Context, i *Instrumentation, info RequestInfo, opts []RequestOption) (context.Context, *Request) {
	c := configure(i, opts, RequestOption.applyRequest)
	recorder := c.recorder(i)
	start := time.Now()
	id := spanfacts.Identity{
		Operation:     spanfacts.Bound(info.Operation),
		Provider:      c.recogniser.Provider,
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
	agentrun.Of(ctx).Identify(&id)
	caller := ctx
	ctx, span := record.StartSpan(ctx, c.tracerProvider, record.ClientKind, &id, start)
	s := &manualSource{}
	s.rec.Init(caller, &recorder, span, &id, start)
	f := s.rec.Facts()
	f.Bytes = -1
	f.Attempt = min(max(info.Attempt, 0), httpcall.MaxAttempt)
	f.Streams = info.Stream
	f.ProviderTools = last(info.ProviderTools, wire.SafeName)
	f.HistoryCalls, f.HistoryOutputs = last(info.HistoryCalls, wire.SafeID), last(info.HistoryOutputs, wire.SafeID)
	s.rec.Begin(s)
	q := &Request{source: s}
	q.cleanup = runtime.AddCleanup(q, (*manualSource).dropped, s)
	return ctx, q
}

// dropped ends a request whose Request was garbage collected.
func (s *manualSource) dropped() {
	s.rec.End(time.Now(), func() record.Ending { return record.Ending{Reason: record.Dropped} })
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
	q.record(func(r *record.Recorder) { r.RequestWritten(time.Now()) })
}

// RecordResponseStarted records that the response has begun. Status is an HTTP status, or 0
// where the transport has none. Chunks and calls imply it.
func (q *Request) RecordResponseStarted(status int) {
	q.record(func(r *record.Recorder) { r.ResponseStarted(status, time.Now()) })
}

// SetResponse sets the response's own id and model.
func (q *Request) SetResponse(id, model string) {
	q.step(func(m *wire.Manual) { m.Identify(id, model) })
}

// RecordText records a chunk of visible output, without its content.
func (q *Request) RecordText() { q.step((*wire.Manual).Text) }

// RecordReasoning records a chunk of reasoning, without its content.
func (q *Request) RecordReasoning() { q.step((*wire.Manual).Reasoning) }

// RecordKeepalive records a sign of life from the server that is not progress.
func (q *Request) RecordKeepalive() { q.step((*wire.Manual).Keepalive) }

// RecordToolInputStarted records that the input of a tool call began to arrive.
func (q *Request) RecordToolInputStarted(id, name string) {
	q.step(func(m *wire.Manual) { m.StartCall(id, name) })
}

// RecordToolInputCompleted records that the input of a tool call is complete.
func (q *Request) RecordToolInputCompleted(id string) {
	q.step(func(m *wire.Manual) { m.CompleteCall(id, "") })
}

// RecordToolCall records that a tool call was handed to the application with its whole input.
// It implies that the input started and completed.
func (q *Request) RecordToolCall(id, name string) {
	q.step(func(m *wire.Manual) { m.HandOver(id, name) })
}

// RecordProviderTool records that a tool that the provider executes itself began.
func (q *Request) RecordProviderTool() { q.step((*wire.Manual).ProviderTool) }

// SetInputTokens sets the number of input tokens, as far as it is known. A later number
// replaces an earlier one; a negative one changes nothing.
func (q *Request) SetInputTokens(n int) {
	q.step(func(m *wire.Manual) { m.Use(usage(n, -1)) })
}

// SetOutputTokens is SetInputTokens for the output tokens.
func (q *Request) SetOutputTokens(n int) {
	q.step(func(m *wire.Manual) { m.Use(usage(-1, n)) })
}

func usage(input, output int) wire.Usage {
	return wire.Usage{Input: input, Output: output, CacheRead: -1, CacheCreation: -1, Reasoning: -1}
}

// RecordFinish records that the model finished, with its reason ("stop", "tool_calls",
// "length", …). A request that ends without it was cut.
func (q *Request) RecordFinish(reason string) {
	q.step(func(m *wire.Manual) { m.Finish(reason) })
}

// RecordProviderError records an error that the provider reported. Status is an HTTP status, or
// 0; code is the provider's own ("overloaded"); after is the delay that it asks for, or 0.
func (q *Request) RecordProviderError(status int, code string, after time.Duration) {
	q.record(func(r *record.Recorder) {
		r.ProviderError(wire.Error{Code: code, Status: status, RetryAfter: after}, time.Now())
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
	q.record(func(r *record.Recorder) {
		q.cleanup.Stop()
		r.End(time.Now(), func() record.Ending {
			if err == nil {
				return record.Ending{Reason: record.EOF}
			}
			return record.Ending{Reason: record.Failed, Err: err}
		})
	})
}

// step lets f take the next step of the response.
func (q *Request) step(f func(*wire.Manual)) {
	q.record(func(r *record.Recorder) { r.Step(time.Now(), f) })
}

// record calls f with the request's recorder. The request is not lost until f returns.
func (q *Request) record(f func(*record.Recorder)) {
	if q == nil {
		return
	}
	f(&q.source.rec)
	runtime.KeepAlive(q)
}

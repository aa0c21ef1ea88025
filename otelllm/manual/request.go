// Package manual records model calls over transports that package otelllm does not wrap:
// gRPC, a WebSocket with a protocol of its own, a model in the same process.
//
// The application reports what happens, and gets the spans, verdicts and metrics of any
// other model call. Runs are not inferred from these requests, since there are no bodies to
// compare: declare them with [otelllm.StartRun]. For HTTP, [otelllm.NewTransport] reports
// all of it; for the OpenAI Realtime API there is package realtime.
package manual

import (
	"context"
	"runtime"
	"time"

	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/redact"
	"github.com/otelllm/otelllm-go/otelllm/internal/setup"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// RequestInfo describes the model call of a [Request].
type RequestInfo struct {
	Operation string // gen_ai.operation.name; "" is "chat"
	Provider  string // gen_ai.provider.name; [otelllm.WithProviderName] takes precedence
	Model     string // gen_ai.request.model
	Stream    bool   // whether the answer is streamed

	ServerAddress string // a host's name or address, never a URL; "": not known
	ServerPort    int    // 0: not known

	// Attempt is the number of this attempt, 1 for the first; 0: not known.
	Attempt int
	// ProviderTools names the offered tools that the provider executes itself
	// ("web_search"). The last 64 count. Nil means not known, empty none.
	ProviderTools []string
	// HistoryCalls and HistoryOutputs are the ids of the tool calls, and of the tool
	// outputs, in the request's history. The last 64 count. Nil means not known,
	// empty none.
	HistoryCalls, HistoryOutputs []string

	// Instrumentation says with which options the call is recorded, and which Shutdown
	// ends it. Nil is that of the functions of package otelllm.
	Instrumentation *otelllm.Instrumentation
}

// Request records one attempt of one model call. Call its methods as things happen, and
// [Request.End] at the end.
//
// It is safe for concurrent use, and a nil *Request does nothing. A Request that is
// garbage collected before its end is ended as abandoned.
type Request struct {
	source  *source
	cleanup runtime.Cleanup
}

// source is the source of a Request's recorder. It never refers to the Request, so that the
// Request can be garbage collected.
type source struct{ rec record.Recorder }

// Complete implements [record.Source].
func (*source) Complete(e record.Ending, _ *spanfacts.Request) record.Ending {
	e.SentKnown = e.Sent
	return e
}

// Settled implements [record.Source].
func (*source) Settled(*spanfacts.Request) {}

// Start starts to record one attempt of one model call, with its span `{operation}
// {model}`. The attempt belongs to the run of ctx.
func Start(ctx context.Context, info RequestInfo) (context.Context, *Request) {
	with := setup.Of(info.Instrumentation)
	start := time.Now()
	id := spanfacts.Identity{
		Operation:     spanfacts.Bound(info.Operation),
		Provider:      with.Provider,
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
	ctx, span := record.StartSpan(ctx, with.TracerProvider, record.ClientKind, &id, start)
	s := &source{}
	s.rec.Init(caller, &with.Record, span, &id, start)
	f := s.rec.Facts()
	f.Bytes = -1
	f.Attempt = min(max(info.Attempt, 0), httpcall.MaxAttempt)
	f.Streams = info.Stream
	f.ProviderTools = last(info.ProviderTools, wire.SafeName)
	f.HistoryCalls, f.HistoryOutputs = last(info.HistoryCalls, wire.SafeID), last(info.HistoryOutputs, wire.SafeID)
	s.rec.Begin(s)
	q := &Request{source: s}
	q.cleanup = runtime.AddCleanup(q, (*source).dropped, s)
	return ctx, q
}

// dropped ends a request whose Request was garbage collected.
func (s *source) dropped() {
	s.rec.End(time.Now(), func() record.Ending { return record.Ending{Reason: record.Dropped} })
}

// last returns the last 64 of list, each made safe to record. Nil stays nil.
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

// RecordResponseStarted records that the response has begun. Status is an HTTP status, or
// 0 if the transport has none. Recording any part of the response implies it.
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

// RecordKeepalive records a message by which the server keeps the connection alive. It is
// not progress.
func (q *Request) RecordKeepalive() { q.step((*wire.Manual).Keepalive) }

// RecordToolInputStarted records that the input of a tool call began to arrive.
func (q *Request) RecordToolInputStarted(id, name string) {
	q.step(func(m *wire.Manual) { m.StartCall(id, name) })
}

// RecordToolInputCompleted records that the input of a tool call is complete.
func (q *Request) RecordToolInputCompleted(id string) {
	q.step(func(m *wire.Manual) { m.CompleteCall(id, "") })
}

// RecordToolCall records that a tool call with its whole input was handed to the
// application. It implies that the input started and completed.
func (q *Request) RecordToolCall(id, name string) {
	q.step(func(m *wire.Manual) { m.HandOver(id, name) })
}

// RecordProviderTool records that a tool started which the provider executes itself.
func (q *Request) RecordProviderTool() { q.step((*wire.Manual).ProviderTool) }

// SetInputTokens sets the number of input tokens so far. A later number replaces an
// earlier one; a negative one changes nothing.
func (q *Request) SetInputTokens(n int) {
	q.step(func(m *wire.Manual) { m.Use(usage(n, -1)) })
}

// SetOutputTokens sets the number of output tokens so far, like [Request.SetInputTokens].
func (q *Request) SetOutputTokens(n int) {
	q.step(func(m *wire.Manual) { m.Use(usage(-1, n)) })
}

func usage(input, output int) wire.Usage {
	return wire.Usage{Input: input, Output: output, CacheRead: -1, CacheCreation: -1, Reasoning: -1}
}

// RecordFinish records that the model finished, with its finish reason ("stop",
// "tool_calls", "length", …). A request that ends without a finish reason was cut.
func (q *Request) RecordFinish(reason string) {
	q.step(func(m *wire.Manual) { m.Finish(reason) })
}

// RecordProviderError records an error that the provider reported. Status is an HTTP
// status, or 0. Code is the provider's own error code ("overloaded"). After is the delay
// that the provider asks for, at most 24 hours, or 0.
func (q *Request) RecordProviderError(status int, code string, after time.Duration) {
	q.record(func(r *record.Recorder) {
		r.ProviderError(wire.Error{Code: code, Status: status, RetryAfter: after}, time.Now())
	})
}

// End ends the request with the error that the transport ended on, or nil. Calls after the
// first do nothing.
//
// An error that reports a deliberate end, as for [otelllm.Run.End], is recorded as an abort, and
// so is context.DeadlineExceeded of any context. For any other error the transport's cause
// is recorded if the standard library names it (a connection reset, a refused connection),
// with the types of the error chain. Error messages are never recorded.
//
// End(nil) before [Request.RecordFinish] records a stream that ended before its terminal
// event.
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

package inferred

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/maphash"
	"net/http"
	"reflect"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/kinship"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// Source begins requests in runs.
type Source struct {
	Runs   *Runs
	Limits kinship.Config  // the same for all Sources of Runs
	Run    agentrun.Config // of the runs, without the agent and the conversation
}

// Infers reports whether the requests under ctx belong to inferred runs. They do not if the span right above is another
// instrumentation's run. They do not either if their parent is not sampled: they will hardly be sampled then, and reading
// their bodies would be in vain. The caller knows whether they belong to a declared run. A nil *Source infers none.
func (s *Source) Infers(ctx context.Context) bool {
	if s == nil {
		return false
	}
	span := trace.SpanFromContext(ctx)
	if sc := span.SpanContext(); sc.IsValid() && !sc.IsSampled() {
		return false
	}
	return !isRun(span)
}

// isRun reports whether a span of this process is the span of an agent's run, in the words of the GenAI conventions,
// OpenInference or OpenLLMetry.
func isRun(span trace.Span) bool {
	s, ok := span.(interface{ Attributes() []attribute.KeyValue })
	if !ok || !span.IsRecording() {
		return false
	}
	for _, a := range s.Attributes() {
		switch a.Key {
		case otelsemconv.GenAIOperationNameKey:
			return a.Value == otelsemconv.GenAIOperationNameInvokeAgent.Value
		case "openinference.span.kind":
			return a.Value.AsString() == "AGENT"
		case "traceloop.span.kind":
			return a.Value.AsString() == "agent" || a.Value.AsString() == "workflow"
		}
	}
	return false
}

// Begin finds the run of a request with these headers, or opens one. Body calls read with the request's body, if it can be
// read. It is not called if no run is known and a new one would not be recorded: a process that records nothing pays
// nothing. Ctx is the caller's: the span of a new run is a child of the span in ctx.
//
// So a run may begin in its middle, if the sampler left out a request before the first known one, as after the start of a
// process. Then its history alone shows that tools ran before. Later requests of an unrecorded run are not recorded either,
// as far as kinship finds them.
func (s *Source) Begin(ctx context.Context, now time.Time, h http.Header, body func(read func([]byte))) *Request {
	return s.BeginWith(ctx, now, ReadHeaders(h), func(t *wire.Transcript) (ok bool) {
		body(func(b []byte) { ok = t.Read(b) })
		return ok
	})
}

// BeginLater is Begin for a request whose body is read as it is sent: call the returned function with the body. The headers
// are read at once, as the caller may change them later.
func (s *Source) BeginLater(ctx context.Context, now time.Time, h http.Header) func(body []byte) *Request {
	c := ReadHeaders(h)
	return func(body []byte) *Request {
		return s.BeginWith(ctx, now, c, func(t *wire.Transcript) bool { return t.Read(body) })
	}
}

// BeginWith is Begin for a client whose headers have been read. Read reads the transcript of the request, as
// [wire.Transcript.Read] does.
func (s *Source) BeginWith(ctx context.Context, now time.Time, c Client, read func(*wire.Transcript) bool) *Request {
	r := s.Runs
	q := &Request{runs: r}
	done := false
	defer func() {
		if !done { // the application's SDK panicked
			q.Drop(now)
		}
	}()
	if !r.known.Load() {
		q.run = &run{}
		q.run.start.Do(func() { q.run.open(ctx, now, s, &c, cmp.Or(c.conversationID, newID()), trace.SpanContext{}) })
		if !q.Recorded() {
			done = true
			return q
		}
		r.known.Store(true)
	}
	tr := transcripts.Get().(*wire.Transcript) //nolint:forcetypeassert // the pool holds nothing else
	defer transcripts.Put(tr)
	if !read(tr) {
		*tr = wire.Transcript{}
	}
	c.sent.Transcript = tr
	c.sent.Client += recordedBy(ctx, s.Run.TracerProvider)
	if sc := trace.SpanContextFromContext(ctx); sc.IsRemote() {
		id := sc.TraceID()
		c.sent.Trace = binary.LittleEndian.Uint64(id[8:])
	}
	begun, over := r.add(now, s.Limits, &c, q)
	q.run.start.Do(func() { r.start(ctx, now, s, &c, begun.Run) })
	if previous := previousOf[begun.previous]; previous != semconv.RunPreviousUnset && q.Recorded() {
		q.run.SetPrevious(previous)
	}
	end(over)
	if q.Recorded() {
		for _, o := range observed(&begun, now) {
			q.run.Observe(o) //nolint:contextcheck // the span is the run's child, not the caller's
		}
	}
	q.Attempt = begun.Attempt
	done = true
	return q
}

var providerSeed = maphash.MakeSeed()

// recordedBy returns a hash of the provider of a run's span. Spans of two providers do not belong to one run: each trace
// would have only a part of the run.
func recordedBy(ctx context.Context, given trace.TracerProvider) uint64 {
	p := telemetry.Provider(ctx, given)
	if !reflect.ValueOf(p).Comparable() {
		return 0
	}
	return maphash.Comparable(providerSeed, p)
}

var transcripts = sync.Pool{New: func() any { return new(wire.Transcript) }}

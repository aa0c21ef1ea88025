package session

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/engine"
)

// Limits of the queue between the library and the classifier, which takes a few microseconds for a
// span: the queue is empty most of the time. Batches are small, so that judging one does not keep
// requests waiting for a processor.
const (
	queueSpans = 1 << 16
	batchSpans = 512
	batchWait  = 10 * time.Millisecond
)

// handover gives ended spans to the classifier, in batches and in a goroutine of its own:
// the end of a span does not wait for it.
type handover struct {
	service string
	engine  *engine.Engine
	log     *slog.Logger
	some    chan struct{} // the queue is not empty
	full    chan struct{} // it has a batch
	closing chan struct{}
	done    chan struct{} // closed when all has been handed over

	mu    sync.Mutex
	queue []*span // guarded by mu
	lost  int     // guarded by mu
}

func startHandover(ctx context.Context, service string, to *engine.Engine, log *slog.Logger) *handover {
	h := &handover{
		service: service, engine: to, log: log,
		some: make(chan struct{}, 1), full: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
	}
	go h.run(context.WithoutCancel(ctx)) // until it is closed
	return h
}

// add queues a span.
func (h *handover) add(s *span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) >= queueSpans {
		if h.lost++; h.lost == 1 {
			h.log.Warn("the classifier does not keep up: spans are dropped")
		}
		return
	}
	h.queue = append(h.queue, s)
	switch len(h.queue) {
	case 1:
		notify(h.some)
	case batchSpans:
		notify(h.full)
	}
}

// notify leaves a note in a channel with room for one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (h *handover) take() []*span {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := h.queue
	h.queue = nil
	return taken
}

func (h *handover) run(ctx context.Context) {
	defer close(h.done)
	for closing := false; !closing; {
		select {
		case <-h.some:
		case <-h.closing:
		}
		select { // until a batch is worth it
		case <-time.After(batchWait):
		case <-h.full:
		case <-h.closing:
			closing = true
		}
		h.give(ctx, h.take())
	}
}

// give makes OTLP of spans, and hands them over.
func (h *handover) give(ctx context.Context, list []*span) {
	if len(list) == 0 {
		return
	}
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.SetSchemaUrl(otelsemconv.SchemaURL)
	rs.Resource().Attributes().PutStr(string(otelsemconv.ServiceNameKey), h.service)
	scopes := make(map[scope]ptrace.SpanSlice)
	for _, s := range list {
		to, ok := scopes[s.tracer.scope]
		if !ok {
			ss := rs.ScopeSpans().AppendEmpty()
			ss.Scope().SetName(s.tracer.scope.name)
			ss.Scope().SetVersion(s.tracer.scope.version)
			to = ss.Spans()
			scopes[s.tracer.scope] = to
		}
		s.put(to.AppendEmpty())
		s.giveBack()
	}
	if err := h.engine.ConsumeTraces(ctx, td); err != nil {
		h.log.Warn("the classifier did not take spans")
	}
}

// close hands over what there is. No span may end afterwards.
func (h *handover) close(ctx context.Context) error {
	close(h.closing)
	select {
	case <-h.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

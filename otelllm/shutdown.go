package otelllm

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"weak"

	"go.opentelemetry.io/otel/trace"
)

// Shutdown ends the recording of every request, tool and run that is still open
// in this process, as aborted by shutdown, so that their spans can leave before
// the TracerProvider is shut down. It touches no stream: to end those is for the
// application, best with [WithAbort] and [AbortShutdown] before. What begins later
// is recorded as ever. [WithWatchdog] and [WithStreamErrors] have no effect any more
// on a stream whose recording has been ended so.
//
// It ends spans in portions, and calls the ForceFlush of their providers in between, so
// that a [sdktrace.BatchSpanProcessor] drops none of them for want of room. What is ended
// last leaves when the provider is shut down.
//
// It returns the error of ctx when that is done before all have been ended; the
// rest stays open. A request that another goroutine is ending at that moment is
// waited for, so a [sdktrace.SpanProcessor] must not call Shutdown when a span ends.
//
// [sdktrace.BatchSpanProcessor]: https://pkg.go.dev/go.opentelemetry.io/otel/sdk/trace#NewBatchSpanProcessor
// [sdktrace.SpanProcessor]: https://pkg.go.dev/go.opentelemetry.io/otel/sdk/trace#SpanProcessor
func Shutdown(ctx context.Context) error {
	// Parts before their runs, so that a run's verdict has seen them.
	requests, rest := open.all()
	var flushed flusher
	for portion := range slices.Chunk(requests, portionSize) {
		if err := flushed.between(ctx); err != nil {
			return err
		}
		for _, r := range portion {
			if err := ctx.Err(); err != nil {
				return err
			}
			flushed.saw(r.record.span)
			r.shutdown()
		}
		for _, r := range portion {
			if err := open.gone(ctx, r.record); err != nil {
				return err
			}
		}
	}
	for portion := range slices.Chunk(rest, portionSize) {
		if err := flushed.between(ctx); err != nil {
			return err
		}
		for _, part := range portion {
			if err := ctx.Err(); err != nil {
				return err
			}
			flushed.saw(part.span)
			part.shutdown()
		}
	}
	return nil
}

// portionSize is how many spans are ended before their providers may export them: few
// enough for the queue of a BatchSpanProcessor, which drops what does not fit into its
// 2,048 places, and as many as it exports at once.
const portionSize = 512

// flusher lets the providers of spans that have been ended export them.
type flusher struct {
	providers map[trace.TracerProvider]bool // false: it has failed to, or cannot
}

// saw takes the provider of a span that is to be ended. Providers that cannot be compared
// are left out.
func (f *flusher) saw(span trace.Span) {
	defer contained()
	p := span.TracerProvider()
	if _, can := p.(forceFlusher); !can || !reflect.TypeOf(p).Comparable() {
		return
	}
	if f.providers == nil {
		f.providers = map[trace.TracerProvider]bool{}
	}
	if _, known := f.providers[p]; !known {
		f.providers[p] = true
	}
}

type forceFlusher interface {
	ForceFlush(context.Context) error
}

// between flushes what was ended before. It returns the error of ctx alone: a provider
// that cannot export is not asked again, and what is left of its spans goes to its queue.
func (f *flusher) between(ctx context.Context) error {
	for p, able := range f.providers {
		if able {
			f.providers[p] = flush(ctx, p) == nil
		}
	}
	return ctx.Err()
}

var errNotFlushed = errors.New("otelllm: the provider panicked")

func flush(ctx context.Context, p trace.TracerProvider) (err error) {
	defer contained()
	err = errNotFlushed
	if f, ok := p.(forceFlusher); ok {
		err = f.ForceFlush(ctx)
	}
	return err
}

// openPart is a tool or a run that is open.
type openPart struct {
	span trace.Span
	end  func()
}

func (p openPart) shutdown() {
	defer contained()
	p.end()
}

// open holds what has begun and not ended, for Shutdown.
var open registry

// registry knows the open parts of this process. Requests are held as they are:
// their end is certain, since the garbage collector ends one whose consumer has
// lost it. A tool or a run that the application forgets never ends, so the
// registry must not be what keeps it alive.
type registry struct {
	mu sync.Mutex
	// Everything below is guarded by mu.
	requests map[*record]recording
	removed  chan struct{} // closed when a request is removed; nil if nothing waits
	tools    map[weak.Pointer[Tool]]struct{}
	runs     map[weak.Pointer[Run]]struct{}
}

// openRequest is a request that is open, and its record.
type openRequest struct {
	record *record
	recording
}

// add takes a request in. The record is that of whole.
func (o *registry) add(r *record, whole recording) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.requests == nil {
		o.requests = map[*record]recording{}
	}
	o.requests[r] = whole
}

func (o *registry) remove(r *record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.requests, r)
	if o.removed != nil {
		close(o.removed)
		o.removed = nil
	}
}

// gone waits until a request has been removed, or ctx is done.
func (o *registry) gone(ctx context.Context, r *record) error {
	for {
		o.mu.Lock()
		_, open := o.requests[r]
		if open && o.removed == nil {
			o.removed = make(chan struct{})
		}
		removed := o.removed
		o.mu.Unlock()
		if !open {
			return nil
		}
		select {
		case <-removed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (o *registry) addTool(t *Tool) {
	p := weak.Make(t)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tools == nil {
		o.tools = map[weak.Pointer[Tool]]struct{}{}
	}
	o.tools[p] = struct{}{}
	runtime.AddCleanup(t, o.forgetTool, p)
}

func (o *registry) removeTool(t *Tool) { o.forgetTool(weak.Make(t)) }

func (o *registry) forgetTool(p weak.Pointer[Tool]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.tools, p)
}

func (o *registry) addRun(r *Run) {
	p := weak.Make(r)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.runs == nil {
		o.runs = map[weak.Pointer[Run]]struct{}{}
	}
	o.runs[p] = struct{}{}
	runtime.AddCleanup(r, o.forgetRun, p)
}

func (o *registry) removeRun(r *Run) { o.forgetRun(weak.Make(r)) }

func (o *registry) forgetRun(p weak.Pointer[Run]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.runs, p)
}

// all is what is open: the requests, and the tools, then the runs.
func (o *registry) all() (requests []openRequest, rest []openPart) {
	o.mu.Lock()
	defer o.mu.Unlock()
	requests, rest = make([]openRequest, 0, len(o.requests)), make([]openPart, 0, len(o.tools)+len(o.runs))
	for r, whole := range o.requests {
		requests = append(requests, openRequest{r, whole})
	}
	down := &AbortError{Source: AbortShutdown}
	for p := range o.tools {
		if t := p.Value(); t != nil {
			rest = append(rest, openPart{t.span, func() { t.End(down) }})
		}
	}
	for p := range o.runs {
		if r := p.Value(); r != nil {
			rest = append(rest, openPart{r.span, func() { r.End(down) }})
		}
	}
	return requests, rest
}

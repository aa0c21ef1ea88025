// Package live knows the requests, tools and runs of a process that have begun and not
// ended, and ends their recording when the process goes down.
package live

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"weak"

	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
)

// Part is a request, a tool or a run whose recording can be ended. It is a pointer.
type Part interface {
	Span() trace.Span
	// Shutdown ends the recording, as aborted by shutdown.
	Shutdown()
}

// Registry holds open parts. The zero value is ready to use.
//
// Requests are held as they are: their end is certain, since the garbage collector ends
// one whose consumer has lost it. A tool or a run that the application forgets never
// ends, so it is held weakly.
type Registry struct {
	mu sync.Mutex
	// Everything below is guarded by mu.
	requests map[Part]struct{}
	removed  chan struct{} // closed when a request is removed; nil if nothing waits
	tools    map[any]func() Part
	runs     map[any]func() Part // tools and runs by their weak pointers; nil: it is lost
}

// AddRequest adds a request.
func (r *Registry) AddRequest(q Part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.requests == nil {
		r.requests = map[Part]struct{}{}
	}
	r.requests[q] = struct{}{}
}

// RemoveRequest removes a request whose span has ended.
func (r *Registry) RemoveRequest(q Part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.requests, q)
	if r.removed != nil {
		close(r.removed)
		r.removed = nil
	}
}

// pointer is a part by its pointer, which can be held weakly.
type pointer[T any] interface {
	*T
	Part
}

// AddTool adds a tool.
func AddTool[T any, P pointer[T]](r *Registry, t P) {
	add[T, P](r, &r.tools, t)
}

// AddRun adds a run.
func AddRun[T any, P pointer[T]](r *Registry, run P) {
	add[T, P](r, &r.runs, run)
}

func add[T any, P pointer[T]](r *Registry, parts *map[any]func() Part, part P) {
	p := weak.Make((*T)(part))
	r.mu.Lock()
	defer r.mu.Unlock()
	if *parts == nil {
		*parts = map[any]func() Part{}
	}
	(*parts)[p] = func() Part {
		if v := p.Value(); v != nil {
			return P(v)
		}
		return nil
	}
	runtime.AddCleanup((*T)(part), r.forget, any(p))
}

// Remove removes a tool or a run that has ended.
func Remove[T any](r *Registry, part *T) { r.forget(weak.Make(part)) }

func (r *Registry) forget(p any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tools, p)
	delete(r.runs, p)
}

// Len returns how many requests, tools and runs are open.
func (r *Registry) Len() (requests, tools, runs int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.requests), len(r.tools), len(r.runs)
}

// gone waits until a request has been removed, or ctx is done.
func (r *Registry) gone(ctx context.Context, q Part) error {
	for {
		r.mu.Lock()
		_, open := r.requests[q]
		if open && r.removed == nil {
			r.removed = make(chan struct{})
		}
		removed := r.removed
		r.mu.Unlock()
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

// all returns what is open: the requests, and the tools, then the runs.
func (r *Registry) all() (requests, rest []Part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	requests, rest = make([]Part, 0, len(r.requests)), make([]Part, 0, len(r.tools)+len(r.runs))
	for q := range r.requests {
		requests = append(requests, q)
	}
	for _, parts := range []map[any]func() Part{r.tools, r.runs} {
		for _, part := range parts {
			if p := part(); p != nil {
				rest = append(rest, p)
			}
		}
	}
	return requests, rest
}

// PortionSize is how many spans are ended before their providers may export them: few
// enough for the queue of a BatchSpanProcessor, which drops what does not fit into its
// 2,048 places, and as many as it exports at once.
const PortionSize = 512

// Shutdown ends every open part, and flushes the providers of their spans between
// portions. Parts end before their runs, so that a run's verdict has seen them. It returns
// the error of ctx if that is done before all have ended; the rest stays open.
func (r *Registry) Shutdown(ctx context.Context) error {
	requests, rest := r.all()
	var flushed flusher
	for portion := range slices.Chunk(requests, PortionSize) {
		if err := flushed.end(ctx, portion); err != nil {
			return err
		}
		for _, q := range portion {
			if err := r.gone(ctx, q); err != nil {
				return err
			}
		}
	}
	for portion := range slices.Chunk(rest, PortionSize) {
		if err := flushed.end(ctx, portion); err != nil {
			return err
		}
	}
	return nil
}

// flusher lets the providers of spans that have ended export them.
type flusher struct {
	providers map[trace.TracerProvider]bool // false: it failed to flush, or cannot
}

// end flushes what was ended before, and ends the next portion.
func (f *flusher) end(ctx context.Context, portion []Part) error {
	if err := f.flush(ctx); err != nil {
		return err
	}
	for _, p := range portion {
		if err := ctx.Err(); err != nil {
			return err
		}
		f.add(p.Span())
		telemetry.Guard(p.Shutdown)
	}
	return nil
}

// add takes the provider of a span that is about to end. Providers that cannot be compared
// are left out.
func (f *flusher) add(span trace.Span) {
	defer telemetry.Recover()
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

// flush flushes what was ended before. It returns the error of ctx alone: a provider
// that cannot export is not asked again, and what is left of its spans goes to its queue.
func (f *flusher) flush(ctx context.Context) error {
	for p, able := range f.providers {
		if able {
			f.providers[p] = forceFlush(ctx, p) == nil
		}
	}
	return ctx.Err()
}

var errNotFlushed = errors.New("otelllm: the provider panicked")

func forceFlush(ctx context.Context, p trace.TracerProvider) (err error) {
	defer telemetry.Recover()
	err = errNotFlushed
	if f, ok := p.(forceFlusher); ok {
		err = f.ForceFlush(ctx)
	}
	return err
}

package otelllm

import (
	"context"
	"runtime"
	"sync"
	"weak"
)

// Shutdown ends the recording of every request, tool and run that is still open
// in this process, as aborted by shutdown, so that their spans can leave before
// the TracerProvider is shut down. It touches no stream: to end those is for the
// application, best with [WithAbort] and [AbortShutdown] before. What begins later
// is recorded as ever. [WithWatchdog] and [WithStreamErrors] have no effect any more
// on a stream whose recording has been ended so.
//
// It returns the error of ctx when that is done before all have been ended; the
// rest stays open.
func Shutdown(ctx context.Context) error {
	// Parts before their runs, so that a run's verdict has seen them.
	for _, end := range open.all() {
		if err := ctx.Err(); err != nil {
			return err
		}
		end()
	}
	return nil
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
	requests map[*record]func()
	tools    map[weak.Pointer[Tool]]struct{}
	runs     map[weak.Pointer[Run]]struct{}
}

// add takes a request in; end ends its recording.
func (o *registry) add(r *record, end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.requests == nil {
		o.requests = map[*record]func(){}
	}
	o.requests[r] = end
}

func (o *registry) remove(r *record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.requests, r)
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

// all is what ends everything that is open: requests, tools, then runs.
func (o *registry) all() []func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	ends := make([]func(), 0, len(o.requests)+len(o.tools)+len(o.runs))
	for _, end := range o.requests {
		ends = append(ends, end)
	}
	down := &AbortError{Source: AbortShutdown}
	for p := range o.tools {
		if t := p.Value(); t != nil {
			ends = append(ends, func() { t.End(down) })
		}
	}
	for p := range o.runs {
		if r := p.Value(); r != nil {
			ends = append(ends, func() { r.End(down) })
		}
	}
	return ends
}

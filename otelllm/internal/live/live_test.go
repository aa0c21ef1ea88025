package live

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// part is a Part whose Shutdown calls a function.
type part struct {
	span     trace.Span
	shutdown func()
}

func (p *part) Span() trace.Span { return p.span }

func (p *part) Shutdown() { p.shutdown() }

// provider is a provider whose ForceFlush calls a function.
type provider struct {
	noop.TracerProvider

	flush func()
}

func (p *provider) ForceFlush(context.Context) error {
	p.flush()
	return nil
}

// providerSpan is a span of a provider.
type providerSpan struct {
	noop.Span

	provider trace.TracerProvider
}

func (s providerSpan) TracerProvider() trace.TracerProvider { return s.provider }

// history records what happens, in order.
type history struct {
	mu     sync.Mutex
	events []string
}

func (h *history) add(event string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, event)
}

// part returns a part whose Shutdown is recorded under this name.
func (h *history) part(name string) *part {
	return &part{span: noop.Span{}, shutdown: func() { h.add(name) }}
}

// request adds a request whose Shutdown removes it, as that of a recorder does.
func (h *history) request(r *Registry, name string) *part {
	q := &part{span: noop.Span{}}
	q.shutdown = func() {
		h.add(name)
		r.RemoveRequest(q)
	}
	r.AddRequest(q)
	return q
}

func counts(r *Registry) [3]int {
	requests, tools, runs := r.Len()
	return [3]int{requests, tools, runs}
}

// Requests end first, and runs last: the verdict of a run needs its parts.
func TestShutdownOrder(t *testing.T) {
	var r Registry
	var h history
	var added []*part // tools and runs are held weakly
	for range 2 {
		run, tool := h.part("run"), h.part("tool")
		AddRun(&r, run)
		AddTool(&r, tool)
		h.request(&r, "request")
		added = append(added, run, tool)
	}
	require.NoError(t, r.Shutdown(t.Context()))
	assert.Equal(t, []string{"request", "request", "tool", "tool", "run", "run"}, h.events)
	runtime.KeepAlive(added)
}

func TestLen(t *testing.T) {
	var r Registry
	var h history
	assert.Equal(t, [3]int{}, counts(&r))
	require.NoError(t, r.Shutdown(t.Context()))

	q, tool, run := h.request(&r, "request"), h.part("tool"), h.part("run")
	AddTool(&r, tool)
	AddRun(&r, run)
	assert.Equal(t, [3]int{1, 1, 1}, counts(&r))
	Remove(&r, tool)
	Remove(&r, tool)
	assert.Equal(t, [3]int{1, 0, 1}, counts(&r))
	Remove(&r, run)
	r.RemoveRequest(q)
	r.RemoveRequest(q)
	assert.Equal(t, [3]int{}, counts(&r))
	require.NoError(t, r.Shutdown(t.Context()))
	assert.Empty(t, h.events, "what was removed is not ended")
}

// Tools and runs that the application forgets are collected. Requests are held.
func TestForgottenParts(t *testing.T) {
	var r Registry
	var h history
	h.request(&r, "request")
	AddTool(&r, h.part("tool"))
	AddRun(&r, h.part("run"))
	require.Eventually(t, func() bool {
		runtime.GC()
		return counts(&r) == [3]int{1, 0, 0}
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, r.Shutdown(t.Context()))
	assert.Equal(t, []string{"request"}, h.events)
}

// Each provider is flushed once between two portions, before the next one ends.
func TestFlushBetweenPortions(t *testing.T) {
	const n = 2*PortionSize + 1
	for _, kind := range []string{"requests", "tools", "runs"} {
		t.Run(kind, func(t *testing.T) {
			var r Registry
			var h history
			ended := 0
			p := &provider{flush: func() { h.add(fmt.Sprint("flush after ", ended)) }}
			added := make([]*part, 0, n)
			for range n {
				q := &part{span: providerSpan{provider: p}}
				q.shutdown = func() {
					ended++
					r.RemoveRequest(q)
				}
				switch kind {
				case "requests":
					r.AddRequest(q)
				case "tools":
					AddTool(&r, q)
				default:
					AddRun(&r, q)
				}
				added = append(added, q)
			}
			require.NoError(t, r.Shutdown(t.Context()))
			assert.Equal(t, n, ended)
			assert.Equal(t, []string{fmt.Sprint("flush after ", PortionSize), fmt.Sprint("flush after ", 2*PortionSize)}, h.events)
			runtime.KeepAlive(added)
		})
	}
}

// incomparable is a provider that cannot be a key of a map.
type incomparable struct {
	noop.TracerProvider

	flushed []func()
}

func (i incomparable) ForceFlush(context.Context) error {
	i.flushed[0]()
	return nil
}

// Providers that cannot be flushed, or cannot be compared, are skipped.
func TestProvidersThatAreNotFlushed(t *testing.T) {
	flushed := func() { t.Error("the provider was flushed") }
	for name, p := range map[string]trace.TracerProvider{
		"no ForceFlush": noop.TracerProvider{},
		"incomparable":  incomparable{flushed: []func(){flushed}},
		"nil":           nil,
	} {
		t.Run(name, func(t *testing.T) {
			var r Registry
			ended := 0
			added := make([]*part, 0, PortionSize+1)
			for range PortionSize + 1 {
				run := &part{span: providerSpan{provider: p}, shutdown: func() { ended++ }}
				AddRun(&r, run)
				added = append(added, run)
			}
			require.NoError(t, r.Shutdown(t.Context()))
			assert.Equal(t, PortionSize+1, ended)
			runtime.KeepAlive(added)
		})
	}
}

// Shutdown returns when each request has been removed, even if another goroutine does it,
// and ends tools and runs only then.
func TestShutdownWaitsForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Registry
		var h history
		slow := &part{span: noop.Span{}, shutdown: func() { h.add("request") }}
		r.AddRequest(slow)
		run := h.part("run")
		AddRun(&r, run)

		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.Shutdown(soon), context.DeadlineExceeded)
		assert.Equal(t, []string{"request"}, h.events)
		assert.Equal(t, [3]int{1, 0, 1}, counts(&r))

		go func() {
			time.Sleep(time.Minute)
			h.add("removed")
			r.RemoveRequest(slow)
		}()
		start := time.Now()
		require.NoError(t, r.Shutdown(t.Context()))
		assert.Equal(t, time.Minute, time.Since(start))
		assert.Equal(t, []string{"request", "request", "removed", "run"}, h.events)
		runtime.KeepAlive(run)
	})
}

// A context that is done stops Shutdown before the next part.
func TestShutdownContext(t *testing.T) {
	var r Registry
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var h history
	added := make([]*part, 0, 3)
	for range 3 {
		tool := h.part("tool")
		end := tool.shutdown
		tool.shutdown = func() { end(); cancel() }
		AddTool(&r, tool)
		added = append(added, tool)
	}
	require.ErrorIs(t, r.Shutdown(ctx), context.Canceled)
	assert.Equal(t, []string{"tool"}, h.events)
	require.ErrorIs(t, r.Shutdown(ctx), context.Canceled)
	assert.Equal(t, []string{"tool"}, h.events)
	runtime.KeepAlive(added)
}

// A part that panics does not keep the others open.
func TestShutdownOfAPartThatPanics(t *testing.T) {
	before := otel.GetErrorHandler()
	t.Cleanup(func() { otel.SetErrorHandler(before) })
	handled := 0
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { handled++ }))
	var r Registry
	var h history
	tool, run := &part{span: noop.Span{}, shutdown: func() { panic("secret") }}, h.part("run")
	AddTool(&r, tool)
	AddRun(&r, run)
	require.NoError(t, r.Shutdown(t.Context()))
	assert.Equal(t, []string{"run"}, h.events)
	assert.Equal(t, 1, handled)
	runtime.KeepAlive([]*part{tool, run})
}

package llmclassify

import (
	"context"
	"sync"
)

// gate counts the calls that are inside, and is closed once.
type gate struct {
	// mu guards everything declared below
	mu     sync.Mutex
	inside int
	closed bool
	left   bool          // close did not wait until all had left
	empty  chan struct{} // closed when all have left; nil before close
}

// enter reports whether the gate is open. If it is, the caller must leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.inside++
	}
	return !g.closed
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.closed {
		close(g.empty)
	}
}

// close closes the gate, and waits until all callers have left or ctx is done.
func (g *gate) close(ctx context.Context) {
	g.mu.Lock()
	g.closed = true
	g.empty = make(chan struct{})
	if g.inside == 0 {
		close(g.empty)
	}
	g.mu.Unlock()
	select {
	case <-g.empty:
	case <-ctx.Done():
		g.mu.Lock()
		g.left = g.inside > 0
		g.mu.Unlock()
	}
}

// leftBehind reports whether the gate was closed without waiting for those that are inside.
func (g *gate) leftBehind() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.left
}

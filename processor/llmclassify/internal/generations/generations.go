// Package generations keeps lately added entries, in bounded memory.
//
// An entry is kept for at least one period, and for at most two. If more entries are added within a period than there is
// room for, the older half is forgotten sooner.
package generations

import "time"

// Of is two generations of a store S, whose zero value is empty. Its owner adds to Now and reads both.
type Of[S any] struct {
	Now, Previous S

	Period time.Duration // how long a generation lasts; 0: only Turn ends one
	Began  time.Time     // when Now began; if zero, the first call of Rotate sets it

	now time.Time // of the last call of Rotate
}

// Rotate begins a new generation if a period has passed, and returns the forgotten one.
func (g *Of[S]) Rotate(now time.Time) (forgotten S, turned bool) {
	g.now = now
	if g.Period == 0 || now.Sub(g.Began) < g.Period {
		return forgotten, false
	}
	return g.Turn(), true
}

// Turn begins a new generation because Now is full, and returns the forgotten one. The new one begins at the time of the
// last call of Rotate: the entries of Now are kept for a period from then on, unless there is no room for them.
func (g *Of[S]) Turn() (forgotten S) {
	var empty S
	if g.now.After(g.Began) {
		g.Began = g.now
	}
	forgotten, g.Previous, g.Now = g.Previous, g.Now, empty
	return forgotten
}

//go:build race

package classify

// walkEvery is how many of the groups of combinations the exhaustive tests walk:
// one in so many. The rules are pure and share nothing, so the race detector has
// nothing to find in the rest and would only make it ten times slower; the walk
// over everything is the run without it (make test does both).
const walkEvery = 9

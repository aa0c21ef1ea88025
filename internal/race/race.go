// Package race says for tests whether the race detector is on. It makes them up to ten times
// slower, and finds nothing in those that check very many cases in one goroutine: they check
// a part of them with it. `make test` runs their packages without it as well, in full.
package race

// Every returns n with the race detector and 1 without it: of so many cases a test checks
// one.
func Every(n int) int {
	if Enabled {
		return n
	}
	return 1
}

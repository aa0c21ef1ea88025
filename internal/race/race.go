// Package race says for tests whether the race detector is on. It makes them up to ten times
// slower, and finds nothing in those that check very many cases in one goroutine: they check
// a part of them with it, in `make test`, and all of them in `make test-full`.
package race

// Every returns n with the race detector and 1 without it: of so many cases a test checks
// one.
func Every(n int) int {
	if Enabled {
		return n
	}
	return 1
}

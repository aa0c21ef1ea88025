// Package sample tells the tests of very many cases whether to check all of them or a sample.
// `make test` checks a sample, `make test-full` all.
package sample

import "testing"

// Only reports whether a test is to check a sample of its cases: with -short, and with the
// race detector, which makes it up to ten times slower. It must not be called before the flags
// are parsed, so not to initialize a variable of a package.
func Only() bool { return raceDetector || testing.Short() }

// Every returns n if a test is to check a sample, and 1 otherwise: of so many cases the test
// checks one.
func Every(n int) int {
	if Only() {
		return n
	}
	return 1
}

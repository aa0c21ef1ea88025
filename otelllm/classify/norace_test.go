//go:build !race

package classify

// walkEvery is how many of the groups of combinations the exhaustive tests walk: all.
const walkEvery = 1

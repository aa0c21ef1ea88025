//go:build !race

package classify

// walkEvery is the fraction of the groups of combinations that the exhaustive tests check:
// one in walkEvery, here all.
const walkEvery = 1

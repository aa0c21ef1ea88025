//go:build race

package classify

// walkEvery is the fraction of the groups of combinations that the exhaustive tests check:
// one in walkEvery. The rules are pure and share nothing, so the race detector has nothing
// to find in the others and would only make the tests ten times slower. Without it all are
// checked; make test runs both.
const walkEvery = 9

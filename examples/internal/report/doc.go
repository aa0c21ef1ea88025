// Package report reads classified traces and prints them for people: a line a run,
// then, for a run that went wrong, what an operator wants to know first.
package report
